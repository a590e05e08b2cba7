/* Schedules in the engine: the next occurrence of any of them is one timer.
 *
 *      news: the earliest is due at T --> timer --> DUE: which are due? --> decide (schedule_step.c) --> STEP each --> answers --+
 *                ^                                                                                                            |
 *                +------------------------------------------------------------------------------------------------------------+
 *
 * Nothing of schedules is kept here: the store has them in the order in which they fall due, and tells with every claim and renewal when
 * the first of them does. So a hundred thousand cost nothing while they are not due, and what another node changes comes with the news.
 *
 * Every node looks, and one of them succeeds: a STEP carries the version that it was decided on. Whoever came too late for all it tried
 * lets others go first for a while (`lag`), so that each occurrence costs one node a commit and not all of them.
 *
 * The rows lie in the arena of the call until all of their steps are answered; the next look comes after that.
 */
#include "base/error.h"
#include "core/engine.h"
#include "core/schedule.h"
#include <stdio.h>
#include <string.h>

#define ROWS_MOST 256
#define BYTES_MOST (4u << 20)
#define LAG_US (200 * PAWL_MILLISECOND)
#define AGAIN_US PAWL_SECOND   /* after a want of memory */
#define PUT_OFF_US PAWL_MINUTE /* of a schedule whose zone could not be read */

/* ---- when to look ------------------------------------------------------------------------------------------------------------ */

/* What the store says: the first of all is due then; 0: none ever. */
void recur_news(core *c, int64_t due_us, int64_t store_now_us)
{
    if (due_us == 0) {
        engine_timer_off(c, &c->recur_timer);
        return;
    }
    int64_t in_us = due_us > store_now_us ? due_us - store_now_us : 0;
    if (in_us > PAWL_DAY) in_us = PAWL_DAY; /* clocks are set now and then */
    engine_timer(c, &c->recur_timer, c->now.mono_us + in_us + c->recur_lag_us);
}

void recur_look(core *c) { c->recur_wanted = true; }

static void again_in(core *c, int64_t us)
{
    c->recur_wanted = false;
    engine_timer(c, &c->recur_timer, c->now.mono_us + us);
}

void recur_send(core *c)
{
    if (!c->recur_wanted || c->mode != MODE_STARTED || !c->node || c->closed || c->due_call.busy || c->recur_steps > 0) return;
    c->recur_wanted = false;
    c->due_call.u.due = (pawl_due){.limit = ROWS_MOST, .bytes = BYTES_MOST};
    engine_call(c, &c->due_call);
}

/* ---- rate limits --------------------------------------------------------------------------------------------------------------- */

static struct held *held_at(core *c, const char *name, uint64_t *hash)
{
    *hash = hash_bytes(name, strlen(name), 0) | 1;
    return &c->held_back[*hash / 2 % HELD];
}

void recur_refused(core *c, const core_task *t)
{
    uint64_t hash;
    const char *name = schedule_of(t->body);
    if (!name) return;
    struct held *h = held_at(c, name, &hash);
    *h = (struct held){.hash = hash, .until_us = t->slot_us};
}

void recur_unhold(core *c) { memset(c->held_back, 0, sizeof c->held_back); }

static int64_t held_until(core *c, const char *name, int64_t now_us)
{
    uint64_t hash;
    const struct held *h = held_at(c, name, &hash);
    return h->hash == hash && h->until_us > now_us ? h->until_us : 0;
}

/* ---- one row ----------------------------------------------------------------------------------------------------------------- */

typedef struct chosen {
    const pawl_schedule_row *row;
    pawl_schedule definition;
    schedule_steps steps;
} chosen;

static void gone_wrong(core *c, chosen *x, const char *why)
{
    const char *reason = pawl_arena_str(c->due_call.arena, why);
    schedule_give_up(x->row, reason ? reason : "it makes no sense", &x->steps);
    engine_log(c, PAWL_ERROR, "schedule '%s' is off: %s", x->row->name, why);
}

/* What others wrote into the row must not lead beyond the numbers there are. */
static bool is_sane(const pawl_schedule_row *row)
{
    const int64_t times[] = {row->anchor_us, row->next_us, row->occurrence_us, row->last_us};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] < 0 || times[i] >= ZONE_LAST_S * PAWL_SECOND) return false;
    return row->runs >= 0 && row->runs < INT64_MAX / 4 && row->open >= 0 && row->open < INT64_MAX / 4 && row->waiting >= 0 &&
           row->waiting < INT64_MAX / 4;
}

/* false: no memory */
static bool choose(core *c, chosen *x, int64_t now_us)
{
    pawl_error err = {.status = PAWL_OK};
    schedule_rule rule;
    const zone *z = NULL;
    x->definition = (pawl_schedule){.name = x->row->name, .after = x->row->after, .payload = x->row->payload};
    pawl_status status = schedule_read(c->due_call.arena, x->row->spec, &x->definition, &err);
    if (!status && !is_sane(x->row))
        status = err_set(&err, PAWL_INVALID, "what is stored of its times and counts makes no sense");
    if (!status) z = c->config.zone(c->config.zone_ctx, x->definition.zone, &err);
    if (!status && !z) status = err.status;
    if (!status) status = schedule_compile(&x->definition, z, x->row->anchor_us, &rule, &err);
    if (status == PAWL_NO_MEMORY) return false;
    if (status == PAWL_UNAVAILABLE) {
        engine_log(c, PAWL_WARN, "schedule '%s' is put off: %s", x->row->name, err.message);
        schedule_put_off(x->row, now_us + PUT_OFF_US, &x->steps);
    } else if (status) {
        gone_wrong(c, x, err.message);
    } else {
        rule.held_us = held_until(c, x->row->name, now_us);
        schedule_decide(&rule, x->row, now_us, &c->random, &x->steps);
    }
    return true;
}

/* ---- the task of an occurrence ------------------------------------------------------------------------------------------------ */

static bool make_task(core *c, const chosen *x, pawl_op *op)
{
    op->kind = PAWL_OP_INSERT;
    return (op->u.insert.body = schedule_body(&x->definition, c->allocator)) != NULL;
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------- */

/* The step as it goes to the store, in the arena. false: no memory. */
static bool make_step(core *c, const chosen *x, pawl_op *op)
{
    pawl_arena *arena = c->due_call.arena;
    const pawl_step *from = &x->steps.step;
    pawl_step *step = pawl_arena_alloc(arena, sizeof *step);
    pawl_fate *fates = pawl_arena_alloc(arena, ((size_t)from->fates_count + 1) * sizeof *fates);
    pawl_op *tasks = pawl_arena_alloc(arena, ((size_t)from->tasks_count + 1) * sizeof *tasks);
    if (!step || !fates || !tasks) return false;
    memcpy(fates, x->steps.fates, (size_t)from->fates_count * sizeof *fates);
    *step = *from;
    step->name = x->row->name;
    step->fates = fates;
    step->tasks = tasks;
    step->tasks_count = 0;
    op->kind = PAWL_OP_STEP;
    op->audit = PAWL_AUDIT_FULL;
    op->u.step = step;
    for (int i = 0; i < from->tasks_count; i++) {
        if (!make_task(c, x, &tasks[i])) return false;
        step->tasks_count++;
    }
    return true;
}

static core_request *make_request(core *c, const pawl_due *due)
{
    core_request *r = core_request_new(c, due->count);
    chosen *x = pawl_arena_alloc(c->due_call.arena, sizeof *x);
    bool ok = r && x;
    for (int i = 0; ok && i < due->count; i++) {
        x->row = &due->rows[i];
        ok = choose(c, x, due->now_us) && make_step(c, x, &r->ops[i]);
    }
    if (ok && request_prepare(c, r)) return r;
    core_request_free(c, r);
    return NULL;
}

void recur_answered(core *c)
{
    const pawl_due *due = &c->due_call.u.due;
    if (c->due_call.status != PAWL_OK) {
        again_in(c, engine_backoff(c, c->recur_tries++));
        return;
    }
    c->recur_tries = 0;
    if (due->count == 0) {
        recur_news(c, due->next_us, due->now_us);
        return;
    }
    core_request *r = c->mode == MODE_STARTED ? make_request(c, due) : NULL;
    if (!r) {
        again_in(c, AGAIN_US);
        return;
    }
    r->own = true;
    r->answer.kind = CORE_ANSWER; /* nobody waits for it */
    c->recur_steps = due->count;
    c->recur_won = 0;
    request_gather(c, r);
}

/* ---- results ------------------------------------------------------------------------------------------------------------------- */

static void task_stored(core *c, pawl_op *op, int64_t store_now_us)
{
    pawl_body *body = op->u.insert.body;
    if (op->result == PAWL_OP_DONE) {
        if (body->id != op->out_id) body->id = op->out_id;
        engine_event(c, PAWL_EVENT_DISPATCHED, body, 0, 0, 0, pawl_dispatched_name(PAWL_CREATED));
        claim_pending(c, body->queue, op->out_run_at_us, store_now_us);
    }
}

/* One of ours, or of a caller's. */
void recur_stepped(core *c, core_request *r, pawl_op *op, int64_t store_now_us)
{
    pawl_step *step = op->u.step;
    for (int i = 0; i < step->tasks_count; i++) task_stored(c, &step->tasks[i], store_now_us);
    if (!r->own) return;
    c->recur_won += op->result == PAWL_OP_DONE;
    for (int i = 0; i < step->tasks_count; i++) pawl_body_free(c->allocator, step->tasks[i].u.insert.body);
    op->u.step = NULL; /* its memory is the arena's */
    if (--c->recur_steps > 0) return;
    if (op->result == PAWL_OP_CLOSED) return; /* the news tell when it opens */
    c->recur_lag_us = c->recur_won > 0 ? 0 : LAG_US + (int64_t)rng_below(&c->random, LAG_US);
    if (c->recur_won > 0) recur_look(c); /* what more is due, and what comes next */
    else again_in(c, c->recur_lag_us);
}

/* A commit of ours changed something of a schedule. */
void recur_changed(core *c)
{
    if (c->mode == MODE_STARTED && c->recur_steps == 0) recur_look(c);
}
