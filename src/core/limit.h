/* Rate limits by key, kept in memory: the limiter of the scope `local`, and the model of the shared one.
 *
 * A rule is a rate for one type of task. Its budget is counted per (rule, key): tasks of other types or other keys never meet.
 * See rate.h for the arithmetic.
 *
 * One question, limit_ask, whenever a task stands at the gate: before its first start, before each further attempt, and again
 * when its slot has come. What it may answer:
 *
 *   GO         start it now; the budget is taken
 *   OPEN       start it now; its key is not counted, because no more keys can be tracked (or there is no memory for one)
 *   WAIT       it has a reservation: ask again at slot_us
 *   FULL       it would have to wait, and there is no room for another reservation: nothing was taken; it would be slot_us
 *   REJECTED   its slot lies beyond the horizon; nothing was taken
 *   DISCARDED  there is no budget now, and by its rule it does not wait; nothing was taken
 *
 * RESERVATIONS belong to task ids. Asking twice answers the same slot and takes nothing more. A reservation ends
 *   - with GO, in [slot, slot + L): it is used;
 *   - late, at the first question in or after slot + L: it is given up, and the same question reserves anew without asking the
 *     horizon (so an outage or a pause ends in no burst: of what was missed, nothing is made up for);
 *   - by limit_release (cancelled, lost): if nothing was taken after it, its budget is given back, and so is that of the ones
 *     before it that were released already;
 *   - forgotten, when it is late and its place is needed. Say `again` for a task that had a slot: then that makes no difference.
 *
 * TIME is any clock of the caller's, and slots are told by it. If it steps back, the limiter's own time stands still for that
 * moment and goes on with the clock from there: nobody waits for the clock to catch up, and nobody gets budget twice. A step
 * forward is time that passed: it fills no budget beyond the burst, and slots jumped over are late.
 *
 * BOUNDS. Keys and reservations have each their maximum; nothing else grows. A key whose budget is whole and that has no
 * reservation can be forgotten without anybody noticing, and is, when a new key needs its place. The search for one looks at some
 * hundred keys at a time, and not at all before one can have become so. Longer keys than LIMIT_KEY_MAX are known by their
 * SHA-256.
 */
#ifndef CORE_LIMIT_H
#define CORE_LIMIT_H

#include "core/rate.h"

typedef struct limiter limiter;

typedef struct limit_config {
    const pawl_allocator *allocator;
    uint64_t seed;        /* of hashes: keys come from outside */
    int keys_max;         /* 0 = 100,000 */
    int reservations_max; /* 0 = 100,000 */
} limit_config;

limiter *limit_new(const limit_config *config); /* NULL: no memory */
void limit_free(limiter *l);

/* Its number, from 0 on; -1: no memory. */
int limit_add_rule(limiter *l, const rate *r);
/* What was started so far counts by the new rate; all reservations are gone: ask again for what is parked, and say so. */
void limit_set_rule(limiter *l, int rule, const rate *r, int64_t now_us);

typedef enum limit_verdict { LIMIT_GO = 1, LIMIT_OPEN, LIMIT_WAIT, LIMIT_FULL, LIMIT_REJECTED, LIMIT_DISCARDED } limit_verdict;

typedef struct limit_question {
    int rule;
    pawl_bytes key; /* any bytes; none: GO, uncounted */
    pawl_id id;
    int64_t now_us;
    bool retry;    /* not its first attempt: uncounted if the rule says so */
    bool again;    /* it had a slot before: neither horizon nor `discard` is asked */
    bool hold;     /* it cannot start at once: GO makes, or keeps, a reservation; asked without hold it is used */
    uint64_t hash; /* what limit_near answered; 0: nobody asked it */
} limit_question;

typedef struct limit_answer {
    limit_verdict verdict;
    int64_t slot_us;  /* when it may start, or might have */
    int64_t until_us; /* GO with hold, WAIT: and before when, or the slot is given up */
    bool late;        /* a slot it had was given up */
} limit_answer;

/* The key will be asked about soon: sends for its memory, so that nobody waits for it then. */
uint64_t limit_near(const limiter *l, int rule, pawl_bytes key);
void limit_ask(limiter *l, const limit_question *q, limit_answer *a);
bool limit_release(limiter *l, pawl_id id); /* false: it has no reservation */
bool limit_slot(const limiter *l, pawl_id id, int64_t *slot_us);

/* The bytes a key is known by, here and in stores: itself, or if it is longer "sha256:" and 64 digits. */
#define LIMIT_KEY_MAX 256
#define LIMIT_KEY_ROOM (7 + 64)
pawl_bytes limit_key(pawl_bytes key, char room[LIMIT_KEY_ROOM]);

/* ---- looking --------------------------------------------------------------------------------------------------------------- */

typedef struct limit_info {
    int rule;
    pawl_bytes key;   /* lent until the next question */
    int reserved;     /* tasks that have a slot */
    int64_t first_us; /* the earliest of these slots; 0: none */
    int64_t next_us;  /* the slot of the next one that asks */
    int left;         /* starts it has saved */
} limit_info;

bool limit_look(const limiter *l, int rule, pawl_bytes key, int64_t now_us, limit_info *out); /* false: nothing is known of it */
void limit_visit(const limiter *l, int64_t now_us, void (*see)(void *ctx, const limit_info *info), void *ctx);

typedef struct limit_numbers {
    int64_t keys, reservations;                              /* now */
    int64_t went, opened, waited, full, rejected, discarded; /* answers so far; questions about the same slot count once */
    int64_t late, given_back, evicted;
} limit_numbers;

void limit_numbers_get(const limiter *l, limit_numbers *out);
void limit_check(const limiter *l); /* asserts every invariant; for tests */

#endif
