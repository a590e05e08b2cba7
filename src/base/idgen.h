/* Ids: 41 bits of milliseconds since 2025, 10 bits of node number, 12 bits of sequence. */
#ifndef BASE_IDGEN_H
#define BASE_IDGEN_H

#include <pawl/store.h>

#define ID_NUMBER_MAX 1023
#define ID_SEQUENCE_MAX 4095

static inline pawl_id id_make(int64_t ms, int number, int sequence)
{
    return (pawl_id)(ms << 22 | (int64_t)number << 12 | sequence);
}
static inline int64_t id_ms(pawl_id id) { return id >> 22; } /* since 2025 */
static inline int id_number(pawl_id id) { return (int)(id >> 12 & 1023); }
static inline int64_t id_created_us(pawl_id id) { return (id_ms(id) + PAWL_EPOCH_MS) * 1000; }

/* A generator never goes back; when a millisecond is used up it borrows from the next. */
typedef struct idgen {
    int number; /* 0: none yet */
    int64_t ms; /* of the next id */
    int sequence;
    int64_t ceiling_ms; /* ids only below it */
} idgen;

void idgen_take(idgen *g, int number, int64_t floor_ms, int64_t ceiling_ms); /* keeps its place if the number is the same */
pawl_id idgen_next(idgen *g, int64_t now_ms);                                /* now since 2025; 0: the ceiling is reached */
int64_t idgen_room(const idgen *g, int64_t now_ms);                          /* how many ids can be had before the ceiling */

#endif
