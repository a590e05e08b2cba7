/* The keys of limit.c: a table with open addressing in which a key is one line of the cache.
 *
 * Whoever asks about a key waits for memory once, and limit_table_near can send for that line ahead of time. A key moves when others come
 * and go: nothing may point to one but its ring, which is told.
 */
#ifndef CORE_LIMIT_TABLE_H
#define CORE_LIMIT_TABLE_H

#include "core/limit.h"

#define LIMIT_HERE 40 /* a name this long needs no block of its own; a UUID fits */

struct ring;

typedef struct limit_entry {
    int64_t tat_us;
    int32_t tat_part;
    uint32_t rule : 22, len : 10; /* len 0: nobody is here */
    struct ring *ring;            /* its reservations; NULL: it has none */
    union {
        char here[LIMIT_HERE];
        struct {
            char *text;
            uint64_t hash;
        } away;
    } name;
} limit_entry;

#define LIMIT_LINE 64
#define LIMIT_RULES_MAX (1 << 22)

typedef struct limit_table {
    const pawl_allocator *allocator;
    uint64_t seed;
    void *block;        /* of memory, in which */
    limit_entry *lines; /* begin at a line of the cache */
    uint32_t places, places_max;
    uint32_t count;
    void (*moved)(limit_entry *to); /* told of each that has a ring */
} limit_table;

void limit_table_init(limit_table *t, const pawl_allocator *a, uint64_t seed, uint32_t keys_max, void (*moved)(limit_entry *to));
void limit_table_done(limit_table *t);

uint64_t limit_table_hash(const limit_table *t, int rule, pawl_bytes name); /* never 0 */
void limit_table_near(const limit_table *t, uint64_t hash);
limit_entry *limit_table_find(const limit_table *t, int rule, pawl_bytes name, uint64_t hash);
limit_entry *limit_table_add(limit_table *t, int rule, pawl_bytes name,
                             uint64_t hash);             /* NULL: no memory; others may have moved */
void limit_table_remove(limit_table *t, limit_entry *e); /* others may have moved; into this place, too */

static inline const char *limit_entry_name(const limit_entry *e)
{
    return e->len > LIMIT_HERE ? e->name.away.text : e->name.here;
}

#define limit_table_each(e, t)                                                      \
    for (limit_entry *e = (t)->lines, *e##_end = e + (t)->places; e < e##_end; e++) \
        if (e->len > 0)

#endif
