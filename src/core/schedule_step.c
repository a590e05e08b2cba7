/* What becomes of a schedule that is due.
 *
 *   due occurrences          o1 o2 ... ok          (ok: the current one, the last that is not in the future)
 *   skip      ok fires if it is less than a minute late, the others are skipped
 *   once      ok fires, and stands for the others
 *   all       the last `catch_up` fire, those before are skipped
 *
 * Whether a task of it runs, and so whether an occurrence really fires, is the store's to say: it alone knows in the same commit.
 *
 * RATE LIMITS. What was refused for want of a slot was no run: its task is cancelled. Until that slot (held) others would fare no better, so
 * what falls due before it is skipped, and the next one is the first that may start; or, for limits are changed, the first in a minute.
 *
 * MAX_RUNS. With its last run it has no next occurrence but stays enabled and is watched: if that run ends without having started it is
 * given back, and the schedule goes on; otherwise it has ended.
 */
#include "core/schedule.h"
#include "base/canary.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WALK_MAX 10000 /* missed occurrences that are counted one by one */
#define HELD_MOST_US PAWL_MINUTE

/* ---- what was missed --------------------------------------------------------------------------------------------------------- */

typedef struct missed {
    int64_t first_us, current_us;
    int64_t count;                     /* occurrences due, the current one included */
    int64_t recent[SCHEDULE_CATCH_UP]; /* the last of them, in a ring */
} missed;

static void note(missed *m, int64_t at_us)
{
    m->current_us = at_us;
    m->recent[m->count++ % SCHEDULE_CATCH_UP] = at_us;
}

/* Intervals of a fixed length need no walk. */
static int64_t plain_length(const schedule_rule *r)
{
    static const int64_t lengths[UNIT_COUNT] = {
        [UNIT_SECOND] = PAWL_SECOND, [UNIT_MINUTE] = PAWL_MINUTE, [UNIT_HOUR] = PAWL_HOUR};
    if (r->once || r->after || !r->when.repeats || r->not_weekdays || r->dates_count > 0 || r->windows_count > 0) return 0;
    return lengths[r->when.every.unit] * r->when.every.count;
}

static void find_missed(const schedule_rule *r, int64_t first_us, int64_t now_us, missed *m)
{
    int64_t at_us = first_us, end_us = now_us < r->until_us ? now_us : r->until_us - 1, length_us = plain_length(r);
    *m = (missed){.first_us = first_us};
    note(m, first_us);
    int64_t steps = length_us > 0 && end_us > first_us ? (end_us - first_us) / length_us : 0;
    if (steps > SCHEDULE_CATCH_UP) { /* up to those that may still fire */
        m->count += steps - SCHEDULE_CATCH_UP;
        at_us = first_us + (steps - SCHEDULE_CATCH_UP) * length_us;
    }
    for (int walked = 0; schedule_next(r, at_us, &at_us) && at_us <= now_us; walked++) {
        note(m, at_us);
        int64_t current_us;
        if (walked < WALK_MAX) continue;
        if (schedule_prev(r, now_us + 1, &current_us) && current_us > at_us) note(m, current_us); /* nobody counts so many */
        return;
    }
}

/* ---- fates ------------------------------------------------------------------------------------------------------------------- */

static void skip(schedule_steps *s, int64_t from_us, int64_t count, const char *why)
{
    if (count > 0) s->fates[s->step.fates_count++] = (pawl_fate){.occurrence = from_us, .count = count, .why = why};
}

static bool spent(const schedule_rule *r, const pawl_schedule_row *row, const schedule_steps *s)
{
    return r->max_runs > 0 && row->runs + s->step.tasks_count >= r->max_runs;
}

static void fire(schedule_steps *s, const schedule_rule *r, const pawl_schedule_row *row, int64_t occurrence)
{
    if (spent(r, row, s)) return;
    if (r->held_us) {
        skip(s, occurrence, 1, "rate_limited");
        return;
    }
    s->fates[s->step.fates_count++] = (pawl_fate){.occurrence = occurrence, .fires = true, .count = 1};
    s->step.tasks_count++;
}

static void judge(const schedule_rule *r, const pawl_schedule_row *row, int64_t now_us, schedule_steps *s)
{
    missed m;
    find_missed(r, row->occurrence_us, now_us, &m);
    int64_t late_us = now_us - (m.count == 1 ? row->next_us : m.current_us);
    int64_t catch_up = m.count < r->catch_up ? m.count : r->catch_up;
    s->step.last_us = m.current_us;
    switch (r->missed) {
    case PAWL_MISSED_SKIP:
        if (late_us > SCHEDULE_LATE_US && !CANARY(LATE_RUNS)) {
            skip(s, m.first_us, m.count, "missed");
        } else {
            skip(s, m.first_us, m.count - 1, "missed");
            fire(s, r, row, m.current_us);
        }
        break;
    case PAWL_MISSED_ONCE:
        skip(s, m.first_us, m.count - 1, "merged");
        fire(s, r, row, m.current_us);
        break;
    case PAWL_MISSED_ALL:
        skip(s, m.first_us, m.count - catch_up, "missed");
        for (int64_t i = m.count - catch_up; i < m.count; i++) fire(s, r, row, m.recent[i % SCHEDULE_CATCH_UP]);
        break;
    }
}

/* ---- the next one ------------------------------------------------------------------------------------------------------------ */

static int64_t vary(const schedule_rule *r, int64_t at_us, rng *random)
{
    return r->variance_us > 0 ? at_us + (int64_t)rng_below(random, (uint64_t)r->variance_us + 1) : at_us;
}

/* What was fired does not come again, unless it lies so far ahead that some clock must have been wrong. */
static int64_t not_before(int64_t last_us, int64_t now_us)
{
    return last_us >= now_us && last_us - now_us < PAWL_DAY ? last_us : now_us - 1;
}

bool schedule_begin(const schedule_rule *r, int64_t last_us, int64_t now_us, rng *random, pawl_schedule_row *row)
{
    row->next_us = row->occurrence_us = row->look_us = 0;
    row->watch = r->once || r->max_runs > 0;
    if (r->after) return true;
    if (!schedule_next(r, not_before(last_us, now_us), &row->occurrence_us)) {
        row->occurrence_us = 0;
        return false;
    }
    row->next_us = row->look_us = vary(r, row->occurrence_us, random);
    return true;
}

static void ended(schedule_steps *s, const char *reason)
{
    s->step.off = PAWL_OFF_ENDED;
    s->step.reason = reason;
    s->step.next_us = s->step.occurrence_us = s->step.look_us = 0;
}

/* The first that is not held, if there is one before its end; or the first in a while. */
static bool next_free(const schedule_rule *r, int64_t after_us, int64_t now_us, int64_t *at_us)
{
    int64_t from_us = r->held_us < now_us + HELD_MOST_US ? r->held_us : now_us + HELD_MOST_US;
    return (from_us > after_us && schedule_next(r, from_us - 1, at_us)) || schedule_next(r, after_us, at_us);
}

/* Off, or how it goes on. */
static void plan_next(const schedule_rule *r, const pawl_schedule_row *row, int64_t now_us, rng *random, schedule_steps *s)
{
    pawl_step *step = &s->step;
    bool due = step->last_us != row->last_us;
    bool busy = row->open + row->waiting - row->occurrences_count + step->tasks_count > 0;
    step->watch = r->once || r->max_runs > 0;
    if (r->once && row->succeeded > 0) {
        ended(s, "it has had its success");
        return;
    }
    if (spent(r, row, s) && !busy) {
        ended(s, "it has had all its runs");
        return;
    }
    if (r->once && due && !busy) {
        ended(s, "its only occurrence was missed");
        return;
    }
    if (spent(r, row, s) || r->after) {
        step->next_us = step->occurrence_us = 0;
        return;
    }
    if (!due && row->next_us) return; /* not its turn: as it was */
    if (!next_free(r, due ? step->last_us : not_before(row->last_us, now_us), now_us, &step->occurrence_us)) {
        step->next_us = step->occurrence_us = 0;
        if (!busy && !r->once) ended(s, "there is no further occurrence");
        step->watch = true;
        return;
    }
    step->next_us = vary(r, step->occurrence_us, random);
}

void schedule_decide(const schedule_rule *r, const pawl_schedule_row *row, int64_t now_us, rng *random, schedule_steps *s)
{
    s->step = (pawl_step){.version = row->version,
                          .overlap = r->overlap,
                          .next_us = row->next_us,
                          .occurrence_us = row->occurrence_us,
                          .last_us = row->last_us,
                          .fates = s->fates};
    for (int i = 0; i < row->occurrences_count && i < SCHEDULE_CATCH_UP; i++) {
        if (spent(r, row, s)) skip(s, row->occurrences[i].occurrence, 1, "ended");
        else fire(s, r, row, row->occurrences[i].occurrence);
    }
    if (row->next_us && row->next_us <= now_us) judge(r, row, now_us, s);
    plan_next(r, row, now_us, random, s);
    if (s->step.off) return;
    s->step.look_us = s->step.next_us;
    if (row->waiting > row->occurrences_count) s->step.look_us = now_us; /* there are more of them */
}

pawl_body *schedule_body(const pawl_schedule *s, const pawl_allocator *allocator)
{
    char by[sizeof SCHEDULE_CREATED_BY + NAME_MAX_BYTES], until[sizeof SCHEDULE_UNTIL + 24];
    int n = snprintf(by, sizeof by, SCHEDULE_CREATED_BY "%.*s", NAME_MAX_BYTES, s->name);
    by[utf8_cut(by, n < NAME_MAX_BYTES ? (size_t)n : NAME_MAX_BYTES)] = '\0';
    snprintf(until, sizeof until, SCHEDULE_UNTIL "%lld}", (long long)s->until_us);
    pawl_body body = {.type = s->type,
                      .queue = s->queue ? s->queue : "recurring",
                      .tenant = s->tenant ? s->tenant : "",
                      .content_type = s->content_type,
                      .created_by = by,
                      .headers = s->until_us ? until : NULL,
                      .payload = s->payload.len ? s->payload : (pawl_bytes){0},
                      .rate_key = s->rate_key,
                      .priority = s->priority,
                      .max_attempts = s->max_attempts,
                      .timeout_us = s->timeout_us,
                      .audit = s->audit};
    return pawl_body_copy(allocator, &body);
}

const char *schedule_of(const pawl_body *body)
{
    size_t n = sizeof SCHEDULE_CREATED_BY - 1;
    return body->created_by && strncmp(body->created_by, SCHEDULE_CREATED_BY, n) == 0 ? body->created_by + n : NULL;
}

int64_t schedule_until(const pawl_body *body)
{
    size_t n = sizeof SCHEDULE_UNTIL - 1;
    if (!schedule_of(body) || !body->headers || strncmp(body->headers, SCHEDULE_UNTIL, n) != 0) return INT64_MAX;
    return strtoll(body->headers + n, NULL, 10);
}

void schedule_give_up(const pawl_schedule_row *row, const char *reason, schedule_steps *s)
{
    s->step = (pawl_step){.version = row->version,
                          .off = PAWL_OFF_INVALID,
                          .reason = reason,
                          .last_us = row->last_us,
                          .overlap = PAWL_OVERLAP_FORBID,
                          .fates = s->fates};
}

void schedule_put_off(const pawl_schedule_row *row, int64_t until_us, schedule_steps *s)
{
    s->step = (pawl_step){.version = row->version,
                          .next_us = row->next_us,
                          .occurrence_us = row->occurrence_us,
                          .last_us = row->last_us,
                          .look_us = until_us,
                          .watch = row->watch,
                          .overlap = PAWL_OVERLAP_FORBID,
                          .fates = s->fates};
}
