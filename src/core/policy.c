#include "core/policy.h"
#include <string.h>

policy policy_default(void)
{
    policy p = {.max_attempts = 4, .timeout_us = -1, .audit = PAWL_AUDIT_FULL};
    p.retry = (pawl_retry_policy){
        .curve = PAWL_CURVE_EXPONENTIAL, .delay_us = 500 * PAWL_MILLISECOND, .factor = 2, .cap_us = PAWL_HOUR, .jitter = 0.2};
    return p;
}

/* The curve resolves as a whole; code lists and the timeout rule can be said without one. */
static pawl_retry_policy retry_over(const pawl_retry_policy *narrow, const pawl_retry_policy *wide)
{
    pawl_retry_policy r = narrow->curve ? *narrow : *wide;
    r.only_codes = narrow->only_codes ? narrow->only_codes : wide->only_codes;
    r.never_codes = narrow->never_codes ? narrow->never_codes : wide->never_codes;
    r.no_timeout_retry = narrow->no_timeout_retry || wide->no_timeout_retry;
    if (r.factor == 0) r.factor = 2;
    if (r.cap_us == 0) r.cap_us = PAWL_HOUR;
    if (r.jitter == 0) r.jitter = 0.2;
    return r;
}

policy policy_over(const policy *narrow, const policy *wide)
{
    policy p;
    p.max_attempts = narrow->max_attempts ? narrow->max_attempts : wide->max_attempts;
    p.timeout_us = narrow->timeout_us ? narrow->timeout_us : wide->timeout_us;
    p.audit = narrow->audit ? narrow->audit : wide->audit;
    p.retry = retry_over(&narrow->retry, &wide->retry);
    return p;
}

static bool in_list(const char *const *list, const char *code)
{
    if (!code) return false;
    for (; *list; list++)
        if (strcmp(*list, code) == 0) return true;
    return false;
}

static int64_t exponential(const pawl_retry_policy *r, int failures)
{
    double delay = (double)r->delay_us, cap = (double)r->cap_us;
    for (int i = 1; i < failures && delay < cap; i++) delay *= r->factor;
    return delay < cap ? (int64_t)delay : r->cap_us;
}

static int64_t curve_delay(const pawl_retry_policy *r, const pawl_failure *failure)
{
    int n = failure->attempt;
    switch (r->curve) {
    case PAWL_CURVE_FIXED: return r->delay_us;
    case PAWL_CURVE_LIST: return r->delays > 0 ? r->delays_us[n < r->delays ? n - 1 : r->delays - 1] : 0;
    case PAWL_CURVE_CUSTOM: return r->custom(r->custom_ctx, failure);
    default: return exponential(r, n);
    }
}

/* Jitter takes away up to its share, so that no delay is longer than the curve says. */
static int64_t with_jitter(const pawl_retry_policy *r, int64_t delay_us, rng *random)
{
    if (r->jitter < 0 || r->curve == PAWL_CURVE_CUSTOM) return delay_us;
    return delay_us - (int64_t)((double)delay_us * r->jitter * rng_unit(random));
}

int64_t policy_retry_delay(const policy *p, const pawl_failure *failure, rng *random)
{
    const pawl_retry_policy *r = &p->retry;
    if (failure->attempt >= p->max_attempts) return PAWL_NO_RETRY;
    if (failure->timed_out && r->no_timeout_retry) return PAWL_NO_RETRY;
    if (r->only_codes && !in_list(r->only_codes, failure->code)) return PAWL_NO_RETRY;
    if (r->never_codes && in_list(r->never_codes, failure->code)) return PAWL_NO_RETRY;
    int64_t delay = curve_delay(r, failure);
    return delay < 0 ? PAWL_NO_RETRY : with_jitter(r, delay, random);
}
