/* What a schedule means: when it falls due, and what becomes of occurrences that are due or were missed. Pure: the engine (recur.c) and
 * the API ask the same functions.
 *
 *     pawl_schedule --schedule_write--> spec (JSON, stored) --schedule_read--> pawl_schedule --schedule_compile--> schedule_rule
 *
 * The anchor is the time it starts at, or was registered at. Whatever excludes an occurrence makes it none: it is not counted. Long
 * exclusions are jumped over, never walked.
 */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include "base/rand.h"
#include "core/cadence.h"
#include <pawl/store.h>

#define SCHEDULE_SPEC_MAX (64u << 10)
#define SCHEDULE_LATE_US PAWL_MINUTE /* later than this an occurrence is missed */
#define SCHEDULE_CATCH_UP 100
#define SCHEDULE_CREATED_BY "schedule:" /* and the name: who made the task */
#define SCHEDULE_UNTIL "{\"until_us\":" /* and the number: headers of the tasks of a schedule that has an end */

typedef struct schedule_span { /* days since 1970, or seconds of the day */
    int64_t from, until;
} schedule_span;

typedef struct schedule_rule {
    bool once, after; /* it has no cadence: fires at the anchor, or when told */
    bool has_start;   /* the anchor is its first occurrence */
    cadence when;
    const zone *zone;
    int64_t anchor_us, until_us; /* until INT64_MAX: no end */
    uint8_t not_weekdays;
    int dates_count, windows_count;
    schedule_span dates[PAWL_SCHEDULE_DATES];     /* both included */
    schedule_span windows[PAWL_SCHEDULE_WINDOWS]; /* until not included; less than from: across midnight */
    int64_t variance_us, max_runs;
    int64_t held_us; /* before then its tasks would be refused: it fires none. 0: nobody knows of that */
    pawl_missed missed;
    pawl_overlap overlap; /* never DEFAULT */
    int catch_up;
} schedule_rule;

/* ---- as text (schedule_spec.c) -------------------------------------------------------------------------------------------- */

void schedule_write(const pawl_schedule *s, buf *out); /* without name, after, payload and disabled, which are columns */
/* Texts are from the arena. INVALID: what is wrong. */
pawl_status schedule_read(pawl_arena *arena, const char *spec, pawl_schedule *out, pawl_error *err);

/* ---- rules (schedule.c) --------------------------------------------------------------------------------------------------- */

int64_t schedule_anchor(const pawl_schedule *s, int64_t now_us);

/* INVALID: it cannot be kept. `z` lives as long as the rule. */
pawl_status schedule_compile(const pawl_schedule *s, const zone *z, int64_t anchor_us, schedule_rule *out, pawl_error *err);

/* The first occurrence later than `after`; false: there is none. */
bool schedule_next(const schedule_rule *r, int64_t after_us, int64_t *at_us);
bool schedule_prev(const schedule_rule *r, int64_t before_us, int64_t *at_us); /* the last one earlier than that */
void schedule_words(const schedule_rule *r, const char *after, buf *out);      /* "at 09:00 on Mondays", "after 'import'" */

/* ---- what comes next (schedule_step.c) ------------------------------------------------------------------------------------ */

/* Of a schedule that is new, changed or enabled again: next_us, occurrence_us, look_us, watch. false: it would never fire. last_us: what
 * was fired before, which does not come again. */
bool schedule_begin(const schedule_rule *r, int64_t last_us, int64_t now_us, rng *random, pawl_schedule_row *row);

typedef struct schedule_steps {
    pawl_step step; /* without name and tasks */
    pawl_fate fates[PAWL_STEP_MOST];
} schedule_steps;

/* What is to be done about a row that is due. */
void schedule_decide(const schedule_rule *r, const pawl_schedule_row *row, int64_t now_us, rng *random, schedule_steps *out);

/* The body of its task: a block of its own; NULL: no memory. It tells who made the task (NULL: no schedule), and when it may start no more. */
pawl_body *schedule_body(const pawl_schedule *s, const pawl_allocator *allocator);
const char *schedule_of(const pawl_body *body);
int64_t schedule_until(const pawl_body *body); /* INT64_MAX: it may start whenever */

/* The step that puts it off with a reason, or off for a while. */
void schedule_give_up(const pawl_schedule_row *row, const char *reason, schedule_steps *out);
void schedule_put_off(const pawl_schedule_row *row, int64_t until_us, schedule_steps *out);

#endif
