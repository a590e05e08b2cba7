/* The arithmetic of rate limits: GCRA in whole numbers.
 *
 * A rate admits `permits` starts per `period`, at T = period / permits from one another, and up to `burst` of them at once after
 * a quiet stretch. All that a key's budget is, is one instant, its TAT: when the budget would be whole again if nobody took any
 * more of it.
 *
 *      slot of the next start   max(now, TAT - tolerance)          tolerance = T x (burst - 1)
 *      after it was taken       TAT = max(TAT, now) + T
 *
 * From that: slots of a key never decrease, and any window of length W has at most floor((tolerance + W) / T) + 1 of them. A slot
 * is the right to start in [slot, slot + L), L = T, but 50 ms at least and 1 s at most; so of starts a window W has at most
 * floor((tolerance + W + L) / T) + 1.
 *
 * EXACT. T is seldom a whole number of microseconds, so an instant has a fraction: us + part / permits. T, the tolerance, every
 * TAT and each of their sums are of that form, and nothing is ever rounded but the slot told, up, to the next whole microsecond;
 * which is why the right to start ends before slot + L, not at it. (Of the slots as told, a window may so have as many as one
 * that is less than a microsecond longer. Of starts the bound is exact.)
 *
 * NO OVERFLOW. rate_make refuses what it could come from: period x burst is at most 2^59 us, a period 2^52. Clocks are cut to
 * +-2^60 (rate_clock), and no TAT goes beyond RATE_END: what would, cannot be taken. So every sum stays below 2^62.
 */
#ifndef CORE_RATE_H
#define CORE_RATE_H

#include <pawl.h>

#define RATE_END (INT64_C(1) << 61) /* no slot is later */

typedef struct rate_instant {
    int64_t us;
    int32_t part; /* of the permits: 0 <= part < permits */
} rate_instant;

typedef struct rate {
    int32_t permits, burst;
    rate_instant step;      /* T */
    rate_instant tolerance; /* T x (burst - 1) */
    int64_t late_us;        /* L */
    int64_t horizon_us;     /* negative: none */
    bool start_empty, retries_free, discard;
} rate;

/* INVALID: no such rate can be kept; `of` names it in the message. */
pawl_status rate_make(const pawl_rate *policy, const char *of, rate *out, pawl_error *err);

int64_t rate_clock(int64_t now_us); /* cut to what the arithmetic takes; all `now_us` below are */

/* The TAT of a key that was never seen. */
rate_instant rate_fresh(const rate *r, int64_t now_us);

/* The slot of the next start, or, n > 0, of the n-th after it if all were taken now. RATE_END: there is none. */
int64_t rate_slot(const rate *r, rate_instant tat, int64_t now_us);
int64_t rate_slot_after(const rate *r, rate_instant tat, int64_t now_us, int n);

/* How many slots in a row lie at until_us or before; counted up to `most`. */
int rate_fits(const rate *r, rate_instant tat, int64_t now_us, int64_t until_us, int most);

/* How many could start now: 0..burst. */
int rate_left(const rate *r, rate_instant tat, int64_t now_us);

/* Takes the next `count` slots; false: they would lie beyond RATE_END, and nothing is taken. */
bool rate_take(const rate *r, rate_instant *tat, int64_t now_us, int count);

/* Undoes rate_take: only while the TAT is what it was right after it. */
void rate_give_back(const rate *r, rate_instant *tat, int count);

/* The rate was changed: as many starts count as spent as before, up to the new burst. Slots ahead must have been given back. */
rate_instant rate_convert(const rate *from, const rate *to, rate_instant tat, int64_t now_us);

static inline bool rate_same(rate_instant a, rate_instant b) { return a.us == b.us && a.part == b.part; }

#endif
