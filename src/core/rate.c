#include "core/rate.h"
#include "base/canary.h"
#include "base/error.h"

#define CLOCK_MOST (INT64_C(1) << 60)
#define PERIOD_MOST (INT64_C(1) << 52)
#define BUDGET_MOST (INT64_C(1) << 59)
#define LATE_LEAST_US (50 * PAWL_MILLISECOND)
#define LATE_MOST_US PAWL_SECOND

/* ---- making one ------------------------------------------------------------------------------------------------------------ */

static pawl_status refuse(const pawl_rate *p, const char *of, pawl_error *err)
{
    if (p->permits < 1)
        return err_set(err, PAWL_INVALID, "the rate limit of '%s' has %d permits: at least 1 is needed", of, p->permits);
    if (p->period_us < 1 || p->period_us > PERIOD_MOST)
        return err_set(err, PAWL_INVALID, "the rate limit of '%s' has a period of %lld us: 1 us to 140 years can be kept", of,
                       (long long)p->period_us);
    if (p->burst < 0)
        return err_set(err, PAWL_INVALID, "the rate limit of '%s' has a burst of %d: use 1 or more, or 0 for the permits", of,
                       p->burst);
    if ((p->burst ? p->burst : p->permits) > BUDGET_MOST / p->period_us)
        return err_set(err, PAWL_INVALID,
                       "the rate limit of '%s' cannot be counted: a burst of %d over %lld us is too much; use a smaller burst",
                       of, p->burst ? p->burst : p->permits, (long long)p->period_us);
    return PAWL_OK;
}

static rate_instant split(const rate *r, int64_t parts)
{
    return (rate_instant){parts / r->permits, (int32_t)(parts % r->permits)};
}

static int64_t between(int64_t least, int64_t value, int64_t most) { return value < least ? least : value > most ? most : value; }

pawl_status rate_make(const pawl_rate *p, const char *of, rate *out, pawl_error *err)
{
    pawl_status status = refuse(p, of, err);
    if (status) return status;
    rate r = {.permits = p->permits,
              .burst = p->burst ? p->burst : p->permits,
              .start_empty = p->start_empty,
              .retries_free = p->retries_free,
              .discard = p->discard};
    r.step = split(&r, p->period_us);
    r.tolerance = split(&r, p->period_us * (r.burst - 1 + CANARY(BURST_OFF_BY_ONE)));
    r.late_us = between(LATE_LEAST_US, r.step.us, LATE_MOST_US);
    r.horizon_us = p->horizon_us == 0 ? PAWL_HOUR : between(-1, p->horizon_us, PERIOD_MOST);
    *out = r;
    return PAWL_OK;
}

/* ---- instants -------------------------------------------------------------------------------------------------------------- */

int64_t rate_clock(int64_t now_us) { return between(-CLOCK_MOST, now_us, CLOCK_MOST); }

static rate_instant plus(const rate *r, rate_instant a, rate_instant b)
{
    int64_t part = (int64_t)a.part + b.part, over = part >= r->permits;
    return (rate_instant){a.us + b.us + over, (int32_t)(part - over * r->permits)};
}

static rate_instant minus(const rate *r, rate_instant a, rate_instant b)
{
    int64_t part = (int64_t)a.part - b.part, under = part < 0;
    return (rate_instant){a.us - b.us - under, (int32_t)(part + under * r->permits)};
}

static rate_instant later(rate_instant tat, int64_t now_us) { return tat.us >= now_us ? tat : (rate_instant){now_us, 0}; }

static int64_t up(rate_instant a) { return a.us + (a.part > 0); }

/* Whether `from` and count x T more is no later than RATE_END. */
static bool reaches(const rate *r, rate_instant from, int count) { return count <= (RATE_END - from.us) / (r->step.us + 1); }

/* count x T; the caller saw that it reaches. */
static rate_instant steps(const rate *r, int count)
{
    rate_instant s = split(r, (int64_t)count * r->step.part);
    s.us += count * r->step.us;
    return s;
}

/* ---- GCRA ------------------------------------------------------------------------------------------------------------------ */

rate_instant rate_fresh(const rate *r, int64_t now_us)
{
    rate_instant now = {now_us, 0};
    return r->start_empty ? plus(r, now, r->tolerance) : now;
}

int64_t rate_slot(const rate *r, rate_instant tat, int64_t now_us)
{
    int64_t slot_us = up(minus(r, later(tat, now_us), r->tolerance));
    return slot_us > now_us ? slot_us : now_us;
}

int64_t rate_slot_after(const rate *r, rate_instant tat, int64_t now_us, int n)
{
    rate_instant from = later(tat, now_us);
    return reaches(r, from, n) ? rate_slot(r, plus(r, from, steps(r, n)), now_us) : RATE_END;
}

int rate_fits(const rate *r, rate_instant tat, int64_t now_us, int64_t until_us, int most)
{
    int fit = 0;
    while (fit < most) { /* the first `fit` do, those from `most` on do not */
        int middle = fit + (most - fit) / 2;
        if (rate_slot_after(r, tat, now_us, middle) <= until_us) fit = middle + 1;
        else most = middle;
    }
    return fit;
}

int rate_left(const rate *r, rate_instant tat, int64_t now_us) { return rate_fits(r, tat, now_us, now_us, r->burst); }

bool rate_take(const rate *r, rate_instant *tat, int64_t now_us, int count)
{
    rate_instant from = later(*tat, now_us);
    if (!reaches(r, from, count)) return false;
    *tat = plus(r, from, count == 1 ? r->step : steps(r, count));
    return true;
}

void rate_give_back(const rate *r, rate_instant *tat, int count) { *tat = minus(r, *tat, steps(r, count)); }

rate_instant rate_convert(const rate *from, const rate *to, rate_instant tat, int64_t now_us)
{
    int spent = from->burst - rate_left(from, tat, now_us);
    return plus(to, (rate_instant){now_us, 0}, steps(to, spent < to->burst ? spent : to->burst));
}
