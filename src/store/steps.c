#include "store/steps.h"

#define STEPS_ABOUT 60

int64_t steps_first(const pawl_stats *s) { return (s->now_us - s->window_us) / PAWL_MINUTE; }

int64_t steps_last(const pawl_stats *s) { return s->now_us / PAWL_MINUTE; }

void steps_begin(pawl_stats *s, pawl_stats_step steps[STEPS_MAX])
{
    int64_t minutes = s->window_us / PAWL_MINUTE, each = (minutes + STEPS_ABOUT - 1) / STEPS_ABOUT;
    s->step_us = each * PAWL_MINUTE;
    s->steps = steps;
    s->steps_count = (size_t)(steps_last(s) / each - steps_first(s) / each + 1);
    for (size_t i = 0; i < s->steps_count; i++) steps[i].at_us = (steps_first(s) / each + (int64_t)i) * s->step_us;
}

pawl_stats_step *steps_at(const pawl_stats *s, int64_t minute)
{
    int64_t each = s->step_us / PAWL_MINUTE;
    return (pawl_stats_step *)&s->steps[minute / each - steps_first(s) / each];
}

void steps_add(pawl_stats *s, pawl_stats_step *step, int64_t outcome, int64_t n)
{
    switch (outcome) {
    case STEP_DISPATCHED: s->dispatched += n, step->dispatched += n; break;
    case STEP_SUCCEEDED: s->succeeded += n, step->succeeded += n; break;
    case STEP_FAILED: s->failed += n, step->failed += n; break;
    case STEP_CANCELLED: s->cancelled += n, step->cancelled += n; break;
    case STEP_RETRIED: s->retried += n, step->retried += n; break;
    case STEP_RESCUED: s->rescued += n, step->rescued += n; break;
    default: break;
    }
}
