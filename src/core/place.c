/* A spot is one key of one limit, with a bit for each of its places; a hold is one place of one task. Spots are in a map by
 * hash, holds in a map by task id (several of one id under the same number) and in their spot's list, oldest first. */
#include "core/place.h"
#include "base/alloc.h"
#include "base/canary.h"
#include "base/check.h"
#include "base/list.h"
#include "base/map.h"
#include "base/siphash.h"
#include <string.h>

#define HOLDERS_MOST 100000
#define WORD 64

typedef struct spot {
    map_node by_hash;
    list holds;
    int limit, taken;
    size_t words; /* of `used` */
    uint64_t *used;
    size_t len;
    char name[];
} spot;

typedef struct hold {
    map_node by_id;
    list link;
    spot *at;
    int place;
    bool fresh; /* taken by the call under way */
} hold;

struct places {
    const pawl_allocator *allocator;
    uint64_t seed;
    size_t holders_max;
    map spots, holds;
};

places *places_new(const pawl_allocator *allocator, uint64_t seed, int holders_max)
{
    places *p = alloc_new(allocator, sizeof *p);
    if (!p) return NULL;
    p->allocator = allocator;
    p->seed = seed;
    p->holders_max = holders_max > 0 ? (size_t)holders_max : HOLDERS_MOST;
    map_init(&p->spots, allocator);
    map_init(&p->holds, allocator);
    return p;
}

static void free_spot(places *p, spot *s)
{
    alloc_free(p->allocator, s->used);
    alloc_free(p->allocator, s);
}

void places_free(places *p)
{
    if (!p) return;
    map_each(node, &p->holds) alloc_free(p->allocator, container_of(node, hold, by_id));
    map_each(node, &p->spots) free_spot(p, container_of(node, spot, by_hash));
    map_done(&p->holds);
    map_done(&p->spots);
    alloc_free(p->allocator, p);
}

/* ---- spots ----------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const places *p, int limit, pawl_bytes key)
{
    return siphash(key.data, key.len, p->seed, (uint64_t)limit);
}

static spot *find_spot(const places *p, int limit, pawl_bytes key)
{
    for (map_node *node = map_get(&p->spots, hash_of(p, limit, key)); node; node = map_next(node)) {
        spot *s = container_of(node, spot, by_hash);
        if (s->limit == limit && s->len == key.len && (key.len == 0 || memcmp(s->name, key.data, key.len) == 0)) return s;
    }
    return NULL;
}

static spot *new_spot(places *p, int limit, pawl_bytes key)
{
    spot *s = alloc_new(p->allocator, sizeof *s + key.len);
    if (!s) return NULL;
    list_init(&s->holds);
    s->limit = limit;
    s->len = key.len;
    if (key.len) memcpy(s->name, key.data, key.len);
    map_put(&p->spots, &s->by_hash, hash_of(p, limit, key));
    return s;
}

static void forget_if_empty(places *p, spot *s)
{
    if (s->taken > 0) return;
    map_remove(&p->spots, &s->by_hash);
    free_spot(p, s);
}

/* The lowest place that is free, from 0 on. */
static size_t lowest(const spot *s)
{
    size_t word = 0, bit = 0;
    while (word < s->words && s->used[word] == UINT64_MAX) word++;
    while (word < s->words && s->used[word] >> bit & 1) bit++;
    return word * WORD + bit;
}

static bool reach(places *p, spot *s, size_t place)
{
    if (place < s->words * WORD) return true;
    size_t words = s->words ? 2 * s->words : 1;
    uint64_t *grown = alloc_resize(p->allocator, s->used, words * sizeof *grown);
    if (!grown) return false;
    memset(grown + s->words, 0, (words - s->words) * sizeof *grown);
    s->used = grown;
    s->words = words;
    return true;
}

/* ---- holds ----------------------------------------------------------------------------------------------------------------- */

static hold *first_hold(const places *p, pawl_id id)
{
    map_node *node = map_get(&p->holds, (uint64_t)id);
    return node ? container_of(node, hold, by_id) : NULL;
}

static hold *next_hold(const hold *h)
{
    map_node *node = map_next(&h->by_id);
    return node ? container_of(node, hold, by_id) : NULL;
}

static void give_up(places *p, hold *h)
{
    spot *s = h->at;
    s->used[(size_t)h->place / WORD] &= ~(UINT64_C(1) << (size_t)h->place % WORD);
    s->taken--;
    list_remove(&h->link);
    map_remove(&p->holds, &h->by_id);
    alloc_free(p->allocator, h);
    forget_if_empty(p, s);
}

static hold *take_place(places *p, spot *s, pawl_id id)
{
    size_t place = lowest(s);
    if (p->holds.count >= p->holders_max || !reach(p, s, place)) return NULL;
    hold *h = alloc_new(p->allocator, sizeof *h);
    if (!h) return NULL;
    h->at = s;
    h->place = (int)place;
    h->fresh = true;
    s->used[place / WORD] |= UINT64_C(1) << place % WORD;
    s->taken++;
    list_append(&s->holds, &h->link);
    map_put(&p->holds, &h->by_id, (uint64_t)id);
    return h;
}

static int most_of(const place_want *w) { return w->most < PLACE_MOST ? w->most : PLACE_MOST; }

static hold *held_already(const places *p, pawl_id id, const spot *s)
{
    hold *h = first_hold(p, id);
    while (h && h->at != s) h = next_hold(h);
    return h;
}

static place_answer take_one(places *p, pawl_id id, place_want *w)
{
    spot *s = find_spot(p, w->limit, w->key);
    hold *h = s ? held_already(p, id, s) : NULL;
    if (!h) {
        if ((s ? s->taken : 0) >= most_of(w) + CANARY(PLACE_TOO_MANY)) return PLACE_BLOCKED;
        if (!s && !(s = new_spot(p, w->limit, w->key))) return PLACE_NO_ROOM;
        if (!(h = take_place(p, s, id))) {
            forget_if_empty(p, s);
            return PLACE_NO_ROOM;
        }
    }
    w->place = h->place + 1;
    return PLACE_TAKEN;
}

/* Of the task's places those that this call took: given up, or kept. */
static void end_call(places *p, pawl_id id, bool keep)
{
    for (hold *h = first_hold(p, id), *next; h; h = next) {
        next = next_hold(h);
        if (h->fresh && !keep) give_up(p, h);
        else h->fresh = false;
    }
}

place_answer place_take(places *p, pawl_id id, place_want *wants, int count, int *blocked)
{
    place_answer answer = PLACE_TAKEN;
    for (int i = 0; i < count && answer == PLACE_TAKEN; i++) {
        answer = take_one(p, id, &wants[i]);
        if (answer == PLACE_BLOCKED) *blocked = i;
    }
    end_call(p, id, answer == PLACE_TAKEN);
    return answer;
}

int place_free(places *p, pawl_id id, place_fn freed, void *ctx)
{
    int count = 0;
    for (hold *h; (h = first_hold(p, id)); count++) {
        if (freed) freed(ctx, h->at->limit, (pawl_bytes){h->at->name, h->at->len}, h->place + 1);
        give_up(p, h);
    }
    return count;
}

/* ---- looking --------------------------------------------------------------------------------------------------------------- */

int place_count(const places *p, int limit, pawl_bytes key)
{
    const spot *s = find_spot(p, limit, key);
    return s ? s->taken : 0;
}

pawl_id place_holder(const places *p, int limit, pawl_bytes key)
{
    const spot *s = find_spot(p, limit, key);
    return s ? (pawl_id)container_of(s->holds.next, hold, link)->by_id.key : 0;
}

static int check_spot(const spot *s)
{
    int bits = 0, holds = 0;
    for (size_t i = 0; i < s->words * WORD; i++) bits += (int)(s->used[i / WORD] >> i % WORD & 1);
    for (const list *node = s->holds.next; node != &s->holds; node = node->next) {
        const hold *h = container_of(node, hold, link);
        CHECK(h->at == s && !h->fresh && s->used[(size_t)h->place / WORD] >> (size_t)h->place % WORD & 1);
        holds++;
    }
    CHECK(s->taken > 0 && bits == s->taken && holds == s->taken);
    return holds;
}

void places_check(const places *p)
{
    size_t holds = 0;
    map_each(node, &p->spots) holds += (size_t)check_spot(container_of(node, spot, by_hash));
    CHECK(holds == p->holds.count && holds <= p->holders_max);
}
