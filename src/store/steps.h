/* The window of statistics in steps: whole minutes, as many to a step as make about sixty of them. Steps begin at multiples of their
 * length, so that they stay where they are while time goes on.
 */
#ifndef STORE_STEPS_H
#define STORE_STEPS_H

#include <pawl.h>

#define STEPS_MAX 62

/* In the order in which stores number them, from 1. */
typedef enum step_outcome {
    STEP_DISPATCHED = 1,
    STEP_SUCCEEDED,
    STEP_FAILED,
    STEP_CANCELLED,
    STEP_RETRIED,
    STEP_RESCUED
} step_outcome;

void steps_begin(pawl_stats *s, pawl_stats_step steps[STEPS_MAX]); /* now_us and window_us are set; the steps are zeroed */
int64_t steps_first(const pawl_stats *s);                          /* minute of the window */
int64_t steps_last(const pawl_stats *s);
pawl_stats_step *steps_at(const pawl_stats *s, int64_t minute); /* of the window */
void steps_add(pawl_stats *s, pawl_stats_step *step, int64_t outcome, int64_t n);

#endif
