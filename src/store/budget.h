/* Budgets: the shared budgets of rate limits, as stores in C keep them. One row for each (type, rate key); core/rate has the arithmetic.
 *
 * A store reads the row under a lock (or is alone), calls budget_take or budget_give_back as often as it has to, and writes it back once.
 * The clock is read after the lock, so it is never older than what the last holder wrote.
 *
 * EPOCHS. Slots that lie ahead are stored with tasks. When the limit changes, or the clock steps back, they mean nothing any more: the
 * budget's epoch grows, and a slot of an older one is void, whoever finds it. Steps of some milliseconds are waited out instead.
 */
#ifndef STORE_BUDGET_H
#define STORE_BUDGET_H

#include "core/rate.h"
#include <pawl/store.h>

typedef struct budget_row {
    rate_instant tat;
    int32_t permits, burst; /* what tat is counted by; permits 0: a row that was never used */
    int64_t period_us;
    int64_t seen_us; /* the clock when it was written last */
    int64_t epoch;
    pawl_id last_id; /* who took the last slot, and which; 0: it was used or given back */
    int64_t last_slot_us;
} budget_row;

typedef struct budget_limit { /* a limit in force */
    rate r;
    int64_t period_us;
    bool paused;
} budget_limit;

enum { LIMIT_START_EMPTY = 1, LIMIT_RETRIES_FREE = 2, LIMIT_DISCARD = 4, LIMIT_PAUSED = 8 }; /* flags, as stored */

int limit_flags(const pawl_rate *rate, bool paused);
void limit_flags_read(int64_t flags, pawl_rate *rate, bool *paused);

/* What a LIMIT makes of the one that is stored: `rate` and `paused` are that, and then the new one. `had`: one is in force. DONE, UPDATED:
 * it is to be stored; EXISTING, NOT_FOUND: nothing changes. */
pawl_op_result limit_change(const pawl_op *op, bool had, pawl_rate *rate, bool *paused);

bool budget_limit_make(const pawl_rate *rate, bool paused, budget_limit *out); /* false: no such limit can be kept */

typedef enum budget_answer {
    BUDGET_NOW = 1, /* slot_us is now: start in [now, until_us) */
    BUDGET_LATER,   /* slot_us is ahead */
    BUDGET_BEYOND   /* nothing was taken; it would be slot_us */
} budget_answer;

typedef struct budget_slot {
    int64_t slot_us, until_us, epoch;
} budget_slot;

/* Takes the next slot for the task. again: it had one before, so neither horizon nor `discard` is asked. */
typedef struct budget_ask {
    pawl_id id;
    bool again;
    bool ahead_only; /* a slot that is now is not taken: nobody is there to start it */
} budget_ask;

budget_answer budget_take(budget_row *g, const budget_limit *l, int64_t now_us, const budget_ask *ask, budget_slot *out);

/* The task will not use its slot: if it is the budget's last and lies ahead, the next one gets it. slot_us 0: not known; then only the
 * task that took the last slot gives back. true: the row changed. */
bool budget_give_back(budget_row *g, const budget_limit *l, int64_t now_us, pawl_id id, int64_t slot_us);

/* Brings the row up to date with the limit and the clock: the new epoch begins here. */
void budget_see(budget_row *g, const budget_limit *l, int64_t *now_us);

/* A row that comes from another store: slots that lie ahead are void, and count as spent no more. */
void budget_settle(budget_row *g, int64_t now_us);
budget_row budget_arrives(const pawl_past_budget *past, int64_t now_us); /* settled */

/* Nobody gets a slot within BUDGET_NEAR_US. NULL row: it was never used. */
#define BUDGET_NEAR_US PAWL_SECOND
bool budget_spent(const budget_row *g, const budget_limit *l, int64_t now_us);

/* What of a claim's room is for others than a flood: all but two; of less than four half, and of one, now this, now that. */
static inline int flood_others(int room, int64_t now_us) { return room >= 4 ? room - 2 : (room + (int)(now_us >> 10 & 1)) / 2; }

/* The budget is whole, so that no row is as good as this one. */
bool budget_idle(const budget_row *g, int64_t now_us);

/* What a budget has left, for people. NULL row: it was never used. */
void budget_tell(const budget_row *g, const budget_limit *l, int64_t now_us, pawl_limit_info *info);

/* Where a page of limits went on: after (type, key), in the order of types, then keys, bytewise. */
int budget_order(const char *type, pawl_bytes key, const char *other_type, pawl_bytes other_key);
const char *budget_cursor(pawl_arena *arena, const char *type, pawl_bytes key);                     /* NULL: no memory */
bool budget_cursor_read(pawl_arena *arena, const char *cursor, const char **type, pawl_bytes *key); /* false: it is none */

/* Never before a person puts the limit again. */
#define BUDGET_NEVER_US (INT64_C(100) * 365 * PAWL_DAY)

#endif
