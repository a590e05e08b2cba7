/* Gates: the shared budgets of rate limits, as stores in C keep them. One row for each (type, rate key); core/rate has the arithmetic.
 *
 * A store reads the row under a lock (or is alone), calls gate_take or gate_give_back as often as it has to, and writes it back once.
 * The clock is read after the lock, so it is never older than what the last holder wrote.
 *
 * EPOCHS. Slots that lie ahead are stored with tasks. When the limit changes, or the clock steps back, they mean nothing any more: the
 * gate's epoch grows, and a slot of an older one is void, whoever finds it. Steps of some milliseconds are waited out instead.
 */
#ifndef STORE_GATE_H
#define STORE_GATE_H

#include "core/rate.h"
#include <pawl/store.h>

typedef struct gate_row {
    rate_instant tat;
    int32_t permits, burst; /* what tat is counted by; permits 0: a row that was never used */
    int64_t period_us;
    int64_t seen_us; /* the clock when it was written last */
    int64_t epoch;
    pawl_id last_id; /* who took the last slot, and which; 0: it was used or given back */
    int64_t last_slot_us;
} gate_row;

typedef struct gate_limit { /* a limit in force */
    rate r;
    int64_t period_us;
    bool paused;
} gate_limit;

bool gate_limit_make(const pawl_rate *rate, bool paused, gate_limit *out); /* false: no such limit can be kept */

typedef enum gate_answer {
    GATE_NOW = 1, /* slot_us is now: start in [now, until_us) */
    GATE_LATER,   /* slot_us is ahead */
    GATE_BEYOND   /* nothing was taken; it would be slot_us */
} gate_answer;

typedef struct gate_slot {
    int64_t slot_us, until_us, epoch;
} gate_slot;

/* Takes the next slot for the task. again: it had one before, so neither horizon nor `discard` is asked. */
typedef struct gate_ask {
    pawl_id id;
    int64_t lead_us; /* no slot earlier than now + this */
    bool again;
    bool ahead_only; /* a slot that is now is not taken: nobody is there to start it */
} gate_ask;

gate_answer gate_take(gate_row *g, const gate_limit *l, int64_t now_us, const gate_ask *ask, gate_slot *out);

/* The task will not use its slot: if it is the gate's last and lies ahead, the next one gets it. slot_us 0: not known; then only the
 * task that took the last slot gives back. true: the row changed. */
bool gate_give_back(gate_row *g, const gate_limit *l, int64_t now_us, pawl_id id, int64_t slot_us);

/* Brings the row up to date with the limit and the clock: the new epoch begins here. */
void gate_see(gate_row *g, const gate_limit *l, int64_t *now_us);

/* The budget is whole, so that no row is as good as this one. */
bool gate_idle(const gate_row *g, int64_t now_us);

/* What a gate has left, for people. NULL row: it was never used. */
void gate_tell(const gate_row *g, const gate_limit *l, int64_t now_us, pawl_limit_info *info);

/* Where a page of limits went on: after (type, key), in the order of types, then keys, bytewise. */
int gate_order(const char *type, pawl_bytes key, const char *other_type, pawl_bytes other_key);
const char *gate_cursor(pawl_arena *arena, const char *type, pawl_bytes key);                     /* NULL: no memory */
bool gate_cursor_read(pawl_arena *arena, const char *cursor, const char **type, pawl_bytes *key); /* false: it is none */

/* Never before a person puts the limit again. */
#define GATE_NEVER_US (INT64_C(100) * 365 * PAWL_DAY)

#endif
