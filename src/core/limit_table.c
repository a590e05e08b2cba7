/* A key stands at the place that its hash says, or behind it, with no empty place between. Who goes makes those behind it move up. There are
 * four places for three keys at the most; the table grows eightfold, the last time to what all the keys that there may be need, so that
 * the old one and the new one together are not much more than that.
 *
 * Without memory to grow it fills up further, and then takes no more.
 */
#include "core/limit_table.h"
#include "base/alloc.h"
#include "base/check.h"
#include "base/siphash.h"
#include <string.h>

_Static_assert(sizeof(limit_entry) == LIMIT_LINE, "a key is one line of the cache");

#define GROWTH 8
#define FIRST 24
#define NEAR 3 /* lines: most keys stand in one of so many */

void limit_table_init(limit_table *t, const pawl_allocator *a, uint64_t seed, uint32_t keys_max, void (*moved)(limit_entry *to))
{
    uint64_t places = (uint64_t)keys_max + keys_max / 3 + FIRST;
    *t = (limit_table){.allocator = a, .seed = seed, .moved = moved};
    t->places_max = places < UINT32_MAX ? (uint32_t)places : UINT32_MAX;
}

static void free_name(limit_table *t, limit_entry *e)
{
    if (e->len > LIMIT_HERE) alloc_free(t->allocator, e->name.away.text);
}

void limit_table_done(limit_table *t)
{
    limit_table_each(e, t) free_name(t, e);
    alloc_free(t->allocator, t->block);
    t->block = NULL;
    t->lines = NULL;
    t->places = t->count = 0;
}

/* ---- places ---------------------------------------------------------------------------------------------------------------- */

uint64_t limit_table_hash(const limit_table *t, int rule, pawl_bytes name)
{
    uint64_t hash = siphash(name.data, name.len, t->seed, (uint64_t)rule);
    return hash ? hash : 1;
}

static uint64_t hash_of(const limit_table *t, const limit_entry *e)
{
    if (e->len > LIMIT_HERE) return e->name.away.hash;
    return limit_table_hash(t, (int)e->rule, (pawl_bytes){e->name.here, e->len});
}

static uint32_t home(const limit_table *t, uint64_t hash) { return (uint32_t)((hash >> 32) * t->places >> 32); }

static uint32_t after(const limit_table *t, uint32_t at) { return at + 1 < t->places ? at + 1 : 0; }

void limit_table_near(const limit_table *t, uint64_t hash)
{
    if (t->places == 0) return;
    const char *line = (const char *)&t->lines[home(t, hash)];
    for (int i = 0; i < NEAR; i++) __builtin_prefetch(line + i * LIMIT_LINE, 1);
}

static bool is_named(const limit_entry *e, int rule, pawl_bytes name, uint64_t hash)
{
    if (e->rule != (uint32_t)rule || e->len != name.len) return false;
    if (name.len <= LIMIT_HERE) return memcmp(e->name.here, name.data, name.len) == 0;
    return e->name.away.hash == hash && memcmp(e->name.away.text, name.data, name.len) == 0;
}

limit_entry *limit_table_find(const limit_table *t, int rule, pawl_bytes name, uint64_t hash)
{
    if (t->count == 0) return NULL;
    for (uint32_t at = home(t, hash); t->lines[at].len > 0; at = after(t, at))
        if (is_named(&t->lines[at], rule, name, hash)) return &t->lines[at];
    return NULL;
}

static limit_entry *empty_place(const limit_table *t, uint64_t hash)
{
    uint32_t at = home(t, hash);
    while (t->lines[at].len > 0) at = after(t, at);
    return &t->lines[at];
}

static void move(limit_table *t, limit_entry *to, limit_entry *from)
{
    *to = *from;
    from->len = 0;
    if (to->ring) t->moved(to);
}

/* ---- growing --------------------------------------------------------------------------------------------------------------- */

static bool full(const limit_table *t) { return (uint64_t)t->count * 4 >= (uint64_t)t->places * 3; }

static uint32_t next_size(const limit_table *t)
{
    uint32_t places = t->places_max;
    while (places / GROWTH >= FIRST && places / GROWTH > t->places) places /= GROWTH;
    return places;
}

static void grow(limit_table *t)
{
    limit_table grown = *t;
    grown.places = next_size(t);
    if (!(grown.block = alloc_new(t->allocator, (size_t)grown.places * sizeof(limit_entry) + LIMIT_LINE - 1))) return;
    grown.lines = (void *)((char *)grown.block + (LIMIT_LINE - (uintptr_t)grown.block % LIMIT_LINE) % LIMIT_LINE);
    limit_table_each(e, t) move(&grown, empty_place(&grown, hash_of(t, e)), e);
    alloc_free(t->allocator, t->block);
    *t = grown;
}

/* ---- coming and going ------------------------------------------------------------------------------------------------------ */

static bool put_name(limit_table *t, limit_entry *e, pawl_bytes name, uint64_t hash)
{
    char *at = e->name.here;
    if (name.len > LIMIT_HERE) {
        if (!(at = t->allocator->alloc(t->allocator->ctx, name.len))) return false;
        e->name.away.text = at;
        e->name.away.hash = hash;
    }
    memcpy(at, name.data, name.len);
    return true;
}

limit_entry *limit_table_add(limit_table *t, int rule, pawl_bytes name, uint64_t hash)
{
    if (full(t) && t->places < t->places_max) grow(t);
    if (t->count + 1 >= t->places) return NULL; /* one stays empty: searches end there */
    limit_entry *e = empty_place(t, hash);
    *e = (limit_entry){.rule = (uint32_t)rule};
    if (!put_name(t, e, name, hash)) return NULL;
    e->len = (uint32_t)name.len & 1023;
    t->count++;
    return e;
}

/* Whether one that belongs at `of` may stand at `to`, which is before where it stands, `at`. */
static bool may_move(uint32_t of, uint32_t to, uint32_t at) { return to <= at ? of <= to || of > at : of <= to && of > at; }

void limit_table_remove(limit_table *t, limit_entry *e)
{
    uint32_t hole = (uint32_t)(e - t->lines);
    CHECK(e->len > 0 && !e->ring);
    free_name(t, e);
    e->len = 0;
    t->count--;
    for (uint32_t at = after(t, hole); t->lines[at].len > 0; at = after(t, at)) {
        if (!may_move(home(t, hash_of(t, &t->lines[at])), hole, at)) continue;
        move(t, &t->lines[hole], &t->lines[at]);
        hole = at;
    }
}
