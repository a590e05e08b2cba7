/* Concurrency limits: numbered places.
 *
 * A limit lets so many tasks of a key run at a time (of a type, of a queue: the key is then empty). Whoever runs occupies a
 * place: a number from 1 to the most there are, the lowest that is free. A number belongs to one task or to none, so nothing is
 * counted twice and nothing leaks: to free what a task has is to know its id. A task under several limits gets a place of each,
 * or none at all.
 *
 * Asking again with the same id answers the places it has. A limit that was lowered takes nothing away: what is above it runs to
 * its end, and nobody gets a place until fewer than the new number are taken.
 *
 * This is the model of the places that stores keep in a table, unique by (limit, key, place); the memory store can use it as it
 * is. Who waits, and in which order, is the store's: place_free tells which limits have room again.
 *
 * Memory is bounded by the tasks that hold places: a key that nobody holds a place of is forgotten at once.
 */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include <pawl.h>

typedef struct places places;

#define PLACE_MOST 65536 /* places of one key; a higher limit counts as this */

typedef struct place_want {
    int limit;      /* any number of the caller's that names the limit */
    pawl_bytes key; /* any bytes; none: the limit has one key */
    int most;       /* 0 or less: nobody may run */
    int place;      /* answer: its number */
} place_want;

places *places_new(const pawl_allocator *allocator, uint64_t seed, int holders_max); /* NULL: no memory. 0 = 100,000 */
void places_free(places *p);

typedef enum place_answer { PLACE_TAKEN = 1, PLACE_BLOCKED, PLACE_NO_ROOM } place_answer;

/* BLOCKED: wants[*blocked] has no place free. NO_ROOM: no memory, or too many hold places. Either way nothing was taken. */
place_answer place_take(places *p, pawl_id id, place_want *wants, int count, int *blocked);

/* Frees every place of the task, and tells each; how many there were. `freed` may be NULL; it must not call place_. */
typedef void (*place_fn)(void *ctx, int limit, pawl_bytes key, int place);
int place_free(places *p, pawl_id id, place_fn freed, void *ctx);

int place_count(const places *p, int limit, pawl_bytes key);      /* taken now */
pawl_id place_holder(const places *p, int limit, pawl_bytes key); /* who has had one the longest; 0: nobody has */
void places_check(const places *p);                               /* asserts every invariant; for tests */

#endif
