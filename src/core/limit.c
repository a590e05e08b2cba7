/* A key is a TAT with a name, in a table (limit_table.h). Its reservations are a ring in the order of their slots; each knows the TAT right
 * after it was taken, so whether it is the last thing that was taken is one comparison: then, and only then, can it be given back exactly
 * (rate.h). Reservations are also in a map by task id while they hold, and in a heap by the end of their right to start, for finding those
 * whose place can be used.
 *
 * A released reservation that cannot be given back yet stays in its ring, in no map, until what was taken after it is given back,
 * it is late and its place is needed, or its key goes.
 */
#include "core/limit.h"
#include "base/alloc.h"
#include "base/canary.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/sha256.h"
#include "core/limit_table.h"
#include <string.h>

#define MOST 100000
#define SWEEP 256 /* places of the table looked at for an idle key */

typedef limit_entry key;

struct reservation;

typedef struct ring { /* of a key that has reservations */
    key *key;
    struct reservation *newest; /* its `newer` is the oldest */
    int holding;                /* that are not released */
} ring;

typedef struct reservation {
    map_node by_id;
    heap_node late; /* when the right to start is over */
    ring *ring;
    struct reservation *newer, *older;
    rate_instant after; /* the TAT right after it was taken */
    int64_t slot_us;
    bool released;
} reservation;

/* Things of one size, in chunks that are kept until the end. */
typedef struct pool {
    const pawl_allocator *allocator;
    size_t size;
    void *chunks, *free; /* each begins with a pointer to the next */
} pool;

struct limiter {
    const pawl_allocator *allocator;
    limit_config config;
    rate *rules;
    int rules_count;
    limit_table keys;
    map holding;
    heap late;
    pool ring_pool, reservation_pool;
    int64_t shift_us;    /* the limiter's time is the caller's and this */
    int64_t now_us;      /* the limiter's time, never going back */
    uint32_t hand;       /* the place of `keys` that the sweep looks at next */
    uint32_t looked;     /* places looked at in this round */
    int64_t earliest_us; /* no key looked at in this round is idle before */
    int64_t barren_us;   /* no key at all is */
    limit_numbers numbers;
};

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

#define CHUNK 64

static void pool_put(pool *p, void *item)
{
    *(void **)item = p->free;
    p->free = item;
}

static void pool_grow(pool *p)
{
    char *chunk = p->allocator->alloc(p->allocator->ctx, sizeof(void *) + CHUNK * p->size);
    if (!chunk) return;
    *(void **)chunk = p->chunks;
    p->chunks = chunk;
    for (int i = 0; i < CHUNK; i++) pool_put(p, chunk + sizeof(void *) + (size_t)i * p->size);
}

static void *pool_take(pool *p)
{
    if (!p->free) pool_grow(p);
    void *item = p->free;
    if (!item) return NULL;
    p->free = *(void **)item;
    memset(item, 0, p->size);
    return item;
}

static void pool_done(pool *p)
{
    for (void *chunk = p->chunks, *next; chunk; chunk = next) {
        next = *(void **)chunk;
        alloc_free(p->allocator, chunk);
    }
}

static void moved(key *to) { to->ring->key = to; }

limiter *limit_new(const limit_config *config)
{
    const pawl_allocator *a = config->allocator ? config->allocator : alloc_default();
    limiter *l = alloc_new(a, sizeof *l);
    if (!l) return NULL;
    l->allocator = a;
    l->config = *config;
    if (l->config.keys_max <= 0) l->config.keys_max = MOST;
    if (l->config.reservations_max <= 0) l->config.reservations_max = MOST;
    limit_table_init(&l->keys, a, l->config.seed, (uint32_t)l->config.keys_max, moved);
    map_init(&l->holding, a);
    heap_init(&l->late, a);
    l->ring_pool = (pool){.allocator = a, .size = sizeof(ring)};
    l->reservation_pool = (pool){.allocator = a, .size = sizeof(reservation)};
    l->now_us = l->barren_us = INT64_MIN;
    l->earliest_us = INT64_MAX;
    return l;
}

void limit_free(limiter *l)
{
    if (!l) return;
    limit_table_done(&l->keys);
    map_done(&l->holding);
    heap_done(&l->late);
    pool_done(&l->ring_pool);
    pool_done(&l->reservation_pool);
    alloc_free(l->allocator, l->rules);
    alloc_free(l->allocator, l);
}

int limit_add_rule(limiter *l, const rate *r)
{
    if (l->rules_count == LIMIT_RULES_MAX) return -1;
    rate *grown = alloc_resize(l->allocator, l->rules, ((size_t)l->rules_count + 1) * sizeof *grown);
    if (!grown) return -1;
    l->rules = grown;
    l->rules[l->rules_count] = *r;
    return l->rules_count++;
}

/* ---- time ------------------------------------------------------------------------------------------------------------------ */

/* The limiter's time at an instant of the caller's, and back. */
static int64_t inner(const limiter *l, int64_t now_us)
{
    int64_t at_us = rate_clock(rate_clock(now_us) + l->shift_us);
    return at_us > l->now_us ? at_us : l->now_us;
}

static int64_t outer(const limiter *l, int64_t at_us) { return at_us - l->shift_us; }

static int64_t advance(limiter *l, int64_t now_us)
{
    l->now_us = inner(l, now_us);
    l->shift_us = l->now_us - rate_clock(now_us);
    return l->now_us;
}

/* ---- reservations ---------------------------------------------------------------------------------------------------------- */

static rate_instant tat(const key *k) { return (rate_instant){k->tat_us, k->tat_part}; }

static void set_tat(key *k, rate_instant t)
{
    k->tat_us = t.us;
    k->tat_part = t.part;
}

static reservation *find_reservation(const limiter *l, pawl_id id)
{
    if (l->holding.count == 0) return NULL;
    map_node *node = map_get(&l->holding, (uint64_t)id);
    return node ? container_of(node, reservation, by_id) : NULL;
}

/* It holds no more, but stays in its ring. */
static void let_go(limiter *l, reservation *s)
{
    s->released = true;
    s->ring->holding--;
    map_remove(&l->holding, &s->by_id);
}

static void drop(limiter *l, reservation *s)
{
    ring *r = s->ring;
    if (!s->released) let_go(l, s);
    s->newer->older = s->older;
    s->older->newer = s->newer;
    if (r->newest == s) r->newest = s->older == s ? NULL : s->older;
    if (!r->newest) {
        r->key->ring = NULL;
        pool_put(&l->ring_pool, r);
    }
    heap_remove(&l->late, &s->late);
    pool_put(&l->reservation_pool, s);
}

/* A key may become idle earlier than was thought. */
static void doubt(limiter *l) { l->earliest_us = l->barren_us = INT64_MIN; }

/* Its slot will not be used. Whatever is released and last of all that was taken is given back. */
static void release(limiter *l, reservation *s)
{
    key *k = s->ring->key;
    let_go(l, s);
    while (k->ring && k->ring->newest->released && rate_same(tat(k), k->ring->newest->after)) {
        rate_instant t = tat(k);
        rate_give_back(&l->rules[k->rule], &t, 1);
        set_tat(k, t);
        drop(l, k->ring->newest);
        l->numbers.given_back++;
        doubt(l);
    }
}

bool limit_release(limiter *l, pawl_id id)
{
    reservation *s = find_reservation(l, id);
    if (s) release(l, s);
    return s != NULL;
}

bool limit_slot(const limiter *l, pawl_id id, int64_t *slot_us)
{
    const reservation *s = find_reservation(l, id);
    if (s) *slot_us = outer(l, s->slot_us);
    return s != NULL;
}

/* Memory for one more of the key; NULL: there is none, or too many hold and none is late. */
static reservation *make_room(limiter *l, key *k)
{
    if (l->late.count >= (size_t)l->config.reservations_max) {
        heap_node *first = heap_first(&l->late);
        if (first->at > l->now_us) return NULL;
        drop(l, container_of(first, reservation, late));
    }
    if (!heap_reserve(&l->late, l->late.count + 1)) return NULL;
    ring *r = k->ring ? k->ring : pool_take(&l->ring_pool);
    reservation *s = r ? pool_take(&l->reservation_pool) : NULL;
    if (!s && r && !k->ring) pool_put(&l->ring_pool, r);
    if (!s) return NULL;
    if (!k->ring) *r = (ring){.key = k};
    k->ring = r;
    s->ring = r;
    return s;
}

static void put(limiter *l, key *k, reservation *s, pawl_id id, int64_t slot_us)
{
    ring *r = s->ring;
    s->slot_us = slot_us;
    s->after = tat(k);
    s->newer = s->older = s;
    if (r->newest) {
        CHECK(r->newest->slot_us <= slot_us);
        s->older = r->newest;
        s->newer = r->newest->newer;
        s->older->newer = s->newer->older = s;
    }
    r->newest = s;
    r->holding++;
    map_put(&l->holding, &s->by_id, (uint64_t)id);
    heap_set(&l->late, &s->late, slot_us + l->rules[k->rule].late_us);
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------ */

static const char prefix[] = {'s', 'h', 'a', '2', '5', '6', ':'};

pawl_bytes limit_key(pawl_bytes name, char room[LIMIT_KEY_ROOM])
{
    if (name.len <= LIMIT_KEY_MAX) return name;
    memcpy(room, prefix, sizeof prefix);
    sha256_hex(name.data, name.len, room + sizeof prefix);
    return (pawl_bytes){room, LIMIT_KEY_ROOM};
}

/* Its budget is whole, and nobody has a right to a slot of it. */
static bool is_idle(const limiter *l, const key *k)
{
    if (k->tat_us > l->now_us || (k->tat_us == l->now_us && k->tat_part > 0)) return false;
    return !k->ring || k->ring->newest->late.at <= l->now_us;
}

static void evict(limiter *l, key *k)
{
    while (k->ring) drop(l, k->ring->newest);
    limit_table_remove(&l->keys, k);
    l->numbers.evicted++;
}

static void next_round(limiter *l)
{
    l->barren_us = l->earliest_us;
    l->earliest_us = INT64_MAX;
    l->looked = 0;
}

/* Goes on around the table, from where it was left, until an idle key was found or enough was looked at. */
static bool sweep(limiter *l)
{
    for (int i = 0; i < SWEEP && l->now_us >= l->barren_us; i++) {
        if (l->hand >= l->keys.places) l->hand = 0;
        key *k = &l->keys.lines[l->hand];
        if (k->len > 0 && is_idle(l, k)) {
            evict(l, k); /* another one may stand there now */
            return true;
        }
        if (k->len > 0 && k->tat_us < l->earliest_us) l->earliest_us = k->tat_us;
        l->hand++;
        if (++l->looked >= l->keys.places) next_round(l);
    }
    return false;
}

/* NULL: too many are known and none is idle, or there is no memory. */
static key *new_key(limiter *l, int rule, pawl_bytes name, uint64_t hash)
{
    if (l->keys.count >= (uint32_t)l->config.keys_max && !sweep(l)) return NULL;
    key *k = limit_table_add(&l->keys, rule, name, hash);
    if (!k) return NULL;
    set_tat(k, rate_fresh(&l->rules[rule], l->now_us));
    doubt(l);
    return k;
}

/* ---- the gate -------------------------------------------------------------------------------------------------------------- */

static void answer(const limiter *l, limit_answer *a, limit_verdict verdict, int64_t slot_us, int64_t late_us)
{
    a->verdict = verdict;
    a->slot_us = outer(l, slot_us);
    a->until_us = a->slot_us + late_us;
}

static bool is_late(const limiter *l, const reservation *s) { return s->late.at <= l->now_us && !CANARY(LATE_SLOTS_USED); }

/* It has a slot that is not late. */
static void redeem(limiter *l, reservation *s, bool hold, limit_answer *a)
{
    bool go = s->slot_us <= l->now_us;
    answer(l, a, go ? LIMIT_GO : LIMIT_WAIT, s->slot_us, s->late.at - s->slot_us);
    if (!go || hold) return;
    drop(l, s);
    l->numbers.went++;
}

/* Takes the next slot of the key, and keeps it for the task unless it starts at once. */
static limit_verdict take(limiter *l, key *k, const limit_question *q, int64_t slot_us)
{
    bool go = slot_us <= l->now_us, keep = !go || q->hold;
    rate_instant t = tat(k);
    if (!rate_take(&l->rules[q->rule], &t, l->now_us, 1)) return LIMIT_REJECTED;
    reservation *s = keep ? make_room(l, k) : NULL;
    if (keep && !s) return LIMIT_FULL;
    set_tat(k, t);
    if (keep) put(l, k, s, q->id, slot_us);
    return go ? LIMIT_GO : LIMIT_WAIT;
}

static limit_verdict decide(limiter *l, key *k, const limit_question *q, bool again, int64_t slot_us)
{
    const rate *r = &l->rules[q->rule];
    if (slot_us > l->now_us && !again) {
        if (r->discard) return LIMIT_DISCARDED;
        if (r->horizon_us >= 0 && slot_us - l->now_us > r->horizon_us) return LIMIT_REJECTED;
    }
    return take(l, k, q, slot_us);
}

static void count(limit_numbers *n, limit_verdict verdict, bool hold)
{
    switch (verdict) {
    case LIMIT_GO: n->went += !hold; break;
    case LIMIT_OPEN: n->opened++; break;
    case LIMIT_WAIT: n->waited++; break;
    case LIMIT_FULL: n->full++; break;
    case LIMIT_REJECTED: n->rejected++; break;
    case LIMIT_DISCARDED: n->discarded++; break;
    }
}

static void reserve(limiter *l, key *k, const limit_question *q, bool again, limit_answer *a)
{
    const rate *r = &l->rules[q->rule];
    int64_t slot_us = k ? rate_slot(r, tat(k), l->now_us) : l->now_us;
    limit_verdict verdict = k ? decide(l, k, q, again, slot_us) : LIMIT_OPEN;
    answer(l, a, verdict, slot_us, r->late_us);
    count(&l->numbers, verdict, q->hold);
}

uint64_t limit_near(const limiter *l, int rule, pawl_bytes key)
{
    if (key.len == 0 || key.len > LIMIT_KEY_MAX) return 0;
    uint64_t hash = limit_table_hash(&l->keys, rule, key);
    limit_table_near(&l->keys, hash);
    return hash;
}

void limit_ask(limiter *l, const limit_question *q, limit_answer *a)
{
    char room[LIMIT_KEY_ROOM];
    *a = (limit_answer){.verdict = LIMIT_GO, .slot_us = q->now_us, .until_us = INT64_MAX};
    CHECK(q->rule >= 0 && q->rule < l->rules_count);
    if (q->key.len == 0 || (q->retry && l->rules[q->rule].retries_free)) return;
    advance(l, q->now_us);
    pawl_bytes name = limit_key(q->key, room);
    uint64_t hash = q->hash ? q->hash : limit_table_hash(&l->keys, q->rule, name);
    key *k = limit_table_find(&l->keys, q->rule, name, hash);
    reservation *s = find_reservation(l, q->id);
    bool own = s && s->ring->key == k;
    if (own && !is_late(l, s)) {
        redeem(l, s, q->hold, a);
        return;
    }
    if (s) release(l, s); /* late, or of a key that the task had before */
    a->late = own;
    l->numbers.late += own;
    if (!k) k = new_key(l, q->rule, name, hash);
    reserve(l, k, q, own || q->again, a);
}

/* What lies ahead is given back, what was missed is not; what was started stays spent. */
static void set_key_rule(limiter *l, key *k, const rate *r)
{
    rate_instant t = tat(k);
    while (k->ring) {
        reservation *newest = k->ring->newest;
        bool ahead = newest->slot_us > l->now_us;
        CHECK(!ahead || rate_same(t, newest->after));
        if (ahead) rate_give_back(&l->rules[k->rule], &t, 1);
        drop(l, newest);
    }
    set_tat(k, rate_convert(&l->rules[k->rule], r, t, l->now_us));
}

void limit_set_rule(limiter *l, int rule, const rate *r, int64_t now_us)
{
    advance(l, now_us);
    limit_table_each(k, &l->keys)
    {
        if (k->rule == (uint32_t)rule) set_key_rule(l, k, r);
    }
    l->rules[rule] = *r;
    doubt(l);
}

/* ---- looking --------------------------------------------------------------------------------------------------------------- */

static int64_t first_slot(const limiter *l, const key *k)
{
    if (!k->ring || k->ring->holding == 0) return 0;
    const reservation *s = k->ring->newest->newer;
    while (s->released) s = s->newer;
    return outer(l, s->slot_us);
}

static void look(const limiter *l, const key *k, int64_t now_us, limit_info *out)
{
    const rate *r = &l->rules[k->rule];
    *out = (limit_info){.rule = (int)k->rule,
                        .key = {limit_entry_name(k), k->len},
                        .reserved = k->ring ? k->ring->holding : 0,
                        .first_us = first_slot(l, k),
                        .next_us = outer(l, rate_slot(r, tat(k), now_us)),
                        .left = rate_left(r, tat(k), now_us)};
}

bool limit_look(const limiter *l, int rule, pawl_bytes name, int64_t now_us, limit_info *out)
{
    char room[LIMIT_KEY_ROOM];
    name = limit_key(name, room);
    const key *k = limit_table_find(&l->keys, rule, name, limit_table_hash(&l->keys, rule, name));
    if (k) look(l, k, inner(l, now_us), out);
    return k != NULL;
}

void limit_visit(const limiter *l, int64_t now_us, void (*see)(void *ctx, const limit_info *info), void *ctx)
{
    limit_info info;
    limit_table_each(k, &l->keys)
    {
        look(l, k, inner(l, now_us), &info);
        see(ctx, &info);
    }
}

void limit_numbers_get(const limiter *l, limit_numbers *out)
{
    *out = l->numbers;
    out->keys = (int64_t)l->keys.count;
    out->reservations = (int64_t)l->holding.count;
}

static size_t check_key(const limiter *l, const key *k)
{
    size_t all = 0;
    int holding = 0;
    CHECK((int)k->rule < l->rules_count && k->tat_part >= 0 && k->tat_part < l->rules[k->rule].permits && k->tat_us <= RATE_END);
    pawl_bytes name = {limit_entry_name(k), k->len};
    CHECK(limit_table_find(&l->keys, (int)k->rule, name, limit_table_hash(&l->keys, (int)k->rule, name)) == k);
    if (!k->ring) return 0;
    CHECK(k->ring->key == k && k->ring->newest);
    const reservation *s = k->ring->newest;
    do {
        CHECK(s->ring == k->ring && s->newer->older == s && s->older->newer == s && heap_has(&s->late));
        CHECK(s->older == k->ring->newest || s->older->slot_us <= s->slot_us);
        CHECK(s->after.us < k->tat_us || (s->after.us == k->tat_us && s->after.part <= k->tat_part));
        all++;
        holding += !s->released;
        s = s->older;
    } while (s != k->ring->newest);
    CHECK(holding == k->ring->holding);
    return all;
}

void limit_check(const limiter *l)
{
    size_t all = 0, holding = 0, keys = 0;
    CHECK(l->keys.count <= (uint32_t)l->config.keys_max && l->late.count <= (size_t)l->config.reservations_max);
    limit_table_each(k, &l->keys)
    {
        keys++;
        all += check_key(l, k);
        holding += k->ring ? (size_t)k->ring->holding : 0;
        CHECK(!is_idle(l, k) || l->now_us >= l->barren_us);
    }
    CHECK(keys == l->keys.count && all == l->late.count && holding == l->holding.count);
}
