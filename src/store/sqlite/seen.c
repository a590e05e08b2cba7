#include "store/sqlite/seen.h"
#include <string.h>

enum { BLOCK = 1, SPAN = 2 }; /* levels */

#define BLOCKS_BITS (SEEN_SPAN_SHIFT - SEEN_BLOCK_SHIFT) /* of a block's number within its span */

static pawl_id first_id(int64_t number, int shift) { return number << shift; }
static pawl_id last_id(int64_t number, int shift) { return number << shift | ((INT64_C(1) << shift) - 1); }

/* ---- sets ---------------------------------------------------------------------------------------------------------------- */

void seen_add(seen_set *set, seen_kind kind, int64_t name_id)
{
    uint64_t hash = ((uint64_t)name_id << 2 | (uint64_t)kind) + 1;
    hash = (hash ^ hash >> 31) * UINT64_C(0x9E3779B97F4A7C15);
    unsigned one = (unsigned)(hash >> 56), two = (unsigned)(hash >> 48) & 255; /* of 8 * SEEN_BYTES bits */
    set->bits[one / 8] |= (unsigned char)(1u << one % 8);
    set->bits[two / 8] |= (unsigned char)(1u << two % 8);
}

static bool holds(const unsigned char *bits, const seen_set *wanted)
{
    for (int i = 0; i < SEEN_BYTES; i++)
        if ((bits[i] & wanted->bits[i]) != wanted->bits[i]) return false;
    return true;
}

/* A row of another size was written by nobody we know: it may hold anything. */
static bool may_hold(pawl_bytes stored, const seen_set *wanted)
{
    return stored.len != SEEN_BYTES || holds((const unsigned char *)stored.data, wanted);
}

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

static void merge(conn *c, int level, int64_t number, seen_set set)
{
    query q = query_on(c, SQL_seen_get);
    put_int(&q, level);
    put_int(&q, number);
    if (query_row(&q)) {
        pawl_bytes stored = get_bytes(&q);
        bool there = may_hold(stored, &set);
        for (size_t i = 0; i < SEEN_BYTES && i < stored.len; i++) set.bits[i] |= (unsigned char)stored.data[i];
        query_end(&q);
        if (there) return;
    }
    q = query_on(c, SQL_seen_put);
    put_int(&q, level);
    put_int(&q, number);
    put_bytes(&q, (pawl_bytes){(const char *)set.bits, SEEN_BYTES});
    query_run(&q);
}

void seen_put(conn *c, int64_t block, const seen_set *set)
{
    merge(c, BLOCK, block, *set);
    merge(c, SPAN, block >> BLOCKS_BITS, *set);
}

static void drop_if_empty(conn *c, int level, int64_t number, int shift)
{
    query q = query_on(c, SQL_seen_drop);
    put_int(&q, level);
    put_int(&q, number);
    put_int(&q, first_id(number, shift));
    put_int(&q, last_id(number, shift));
    query_run(&q);
}

void seen_forget(conn *c, pawl_id id)
{
    drop_if_empty(c, BLOCK, id >> SEEN_BLOCK_SHIFT, SEEN_BLOCK_SHIFT);
    drop_if_empty(c, SPAN, id >> SEEN_SPAN_SHIFT, SEEN_SPAN_SHIFT);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

/* The next row of that level from `low` to `high`, in the direction asked for; -1: there is none. */
static int64_t next_of(conn *c, int level, const seen_set *wanted, int64_t low, int64_t high, bool up)
{
    int64_t found = -1;
    query q = query_on(c, up ? SQL_seen_up : SQL_seen_down);
    put_int(&q, level);
    put_int(&q, low);
    put_int(&q, high);
    while (found < 0 && query_row(&q)) {
        int64_t number = get_int(&q);
        if (may_hold(get_bytes(&q), wanted)) found = number;
    }
    query_end(&q);
    return found;
}

bool seen_next(conn *c, const seen_set *wanted, pawl_id from, bool up, pawl_id *low, pawl_id *high)
{
    int64_t block = from >> SEEN_BLOCK_SHIFT;
    while (!c->rc && block >= 0) {
        int64_t span = block >> BLOCKS_BITS;
        span = up ? next_of(c, SPAN, wanted, span, INT64_MAX, up) : next_of(c, SPAN, wanted, 0, span, up);
        if (span < 0) return false;
        int64_t first = first_id(span, BLOCKS_BITS), last = last_id(span, BLOCKS_BITS);
        int64_t found = next_of(c, BLOCK, wanted, up && block > first ? block : first, !up && block < last ? block : last, up);
        if (found >= 0) {
            *low = first_id(found, SEEN_BLOCK_SHIFT);
            *high = last_id(found, SEEN_BLOCK_SHIFT);
            return true;
        }
        block = up ? last + 1 : first - 1;
    }
    return false;
}
