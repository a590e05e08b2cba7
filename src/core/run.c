/* One task from READY to settled. What runs here is decided here; what becomes of the task is decided by the store, by fence. */
#include "core/engine.h"
#include "core/schedule.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STUCK_GRACE_US (5 * PAWL_SECOND)
#define INTERRUPTIONS_MAX 5 /* a run that is lost with whoever had it, and is interrupted so often, was the last of its task */

core_task *run_find(const core *c, pawl_id id)
{
    map_node *node = map_get(&c->tasks, (uint64_t)id);
    return node ? container_of(node, core_task, by_id) : NULL;
}

/* ---- task structs: promised before they are needed, so that a lease that was granted always finds one ----------------------------- */

bool run_promise(core *c, int count)
{
    while (c->free_count - c->promised < count) {
        if (!heap_reserve(&c->timers, c->timers_room + c->tasks_made + 1)) return false;
        core_task *t = alloc_new(c->allocator, sizeof *t);
        if (!t) return false;
        c->tasks_made++;
        list_append(&c->free_tasks, &t->link);
        c->free_count++;
    }
    c->promised += count;
    return true;
}

core_task *run_take(core *c)
{
    list *node = list_pop(&c->free_tasks);
    CHECK(node);
    c->free_count--;
    core_task *t = container_of(node, core_task, link);
    zero(t, sizeof *t);
    t->timer.kind = TIMER_TASK;
    t->progress = -1;
    return t;
}

void core_task_free(core *c, core_task *t)
{
    body_free(&c->moves, c->allocator, t->body);
    alloc_free(c->allocator, t->refusal);
    alloc_free(c->allocator, t->own_key);
    t->body = NULL;
    list_prepend(&c->free_tasks, &t->link);
    c->free_count++;
}

/* ---- ready -------------------------------------------------------------------------------------------------------------------------- */

static queue *queue_of(core *c, const core_task *t) { return &c->queues[t->queue]; }

static void ready_insert(queue *q, core_task *t)
{
    list *at = &q->ready;
    while (at->prev != &q->ready && container_of(at->prev, core_task, link)->body->priority > t->body->priority) at = at->prev;
    list_insert_before(at, &t->link);
    q->ready_count++;
}

static void ready_remove(core *c, core_task *t)
{
    list_remove(&t->link);
    queue_of(c, t)->ready_count--;
}

static void resolve(core *c, core_task *t)
{
    t->policy = &c->policies[t->handler * c->queues_count + t->queue];
    t->max_attempts = t->body->max_attempts ? t->body->max_attempts : t->policy->max_attempts;
    t->timeout_us = t->body->timeout_us ? t->body->timeout_us : t->policy->timeout_us;
    t->audit = t->body->audit ? t->body->audit : t->policy->audit;
}

static void release(core *c, core_task *t, int64_t delay_us);

void run_unready(core *c, core_task *t) { ready_remove(c, t); }

void run_adopt(core *c, core_task *t, int queue_at, const throttle_told *told)
{
    t->queue = queue_at;
    t->handler = claim_find_handler(c, t->body->type);
    CHECK(t->handler >= 0);
    resolve(c, t);
    t->state = CORE_READY;
    t->leased_seq = ++c->lease_seq;
    map_put(&c->tasks, &t->by_id, (uint64_t)t->body->id);
    c->held++;
    c->change_seq++;
    ready_insert(queue_of(c, t), t);
    if (c->held == 1) lease_plan(c);
    if (c->mode != MODE_STARTED || queue_of(c, t)->nobody || (queue_of(c, t)->paused && !CANARY(PAUSE_RACED))) {
        ready_remove(c, t);
        release(c, t, -1);
        return;
    }
    const core_limit *limit = &c->handlers[t->handler].limit;
    if (told->limited || limit->limiter || limit->rate.permits > 0) throttle_adopt(c, t, told);
}

/* ---- ending ------------------------------------------------------------------------------------------------------------------------- */

static void forget(core *c, core_task *t)
{
    map_remove(&c->tasks, &t->by_id);
    engine_timer_off(c, &t->timer);
    c->held--;
    c->limited_tasks -= t->throttle != THROTTLE_NONE;
    c->change_seq++;
    if (c->held == 0) lease_plan(c);
    c->marked -= t->marked;
    c->marked_solo -= t->marked && t->solo;
    if (t->solo)
        for (int i = 0; i < c->queues_count; i++) c->queues[i].hungry = true;
}

static pawl_event_kind event_of(core_settled how)
{
    switch (how) {
    case CORE_SETTLED_SUCCEEDED: return PAWL_EVENT_SUCCEEDED;
    case CORE_SETTLED_FAILED: return PAWL_EVENT_FAILED;
    case CORE_SETTLED_RETRY: return PAWL_EVENT_RETRYING;
    case CORE_SETTLED_SNOOZED: return PAWL_EVENT_SNOOZED;
    case CORE_SETTLED_CANCELLED: return PAWL_EVENT_CANCELLED;
    case CORE_SETTLED_RELEASED: return PAWL_EVENT_RELEASED;
    case CORE_SETTLED_LOST: return PAWL_EVENT_LEASE_LOST;
    }
    return PAWL_EVENT_NONE;
}

/* The task's stay here is over. */
static void settle(core *c, core_task *t, core_settled how, int64_t delay_us)
{
    t->settle_error = t->op.kind == PAWL_OP_FINISH    ? t->op.u.finish.run.error
                      : t->op.kind == PAWL_OP_RELEASE ? t->op.u.release.run.error
                                                      : NULL;
    engine_event(c, event_of(how), t->body, t->failures + 1, t->fence, delay_us, t->settle_error);
    forget(c, t);
    c->ended--;
    if (!t->outcome && !t->refusal) {
        core_task_free(c, t);
        return;
    }
    t->settled = how;
    t->settle_delay_us = delay_us;
    engine_act(c, &t->settle_act, CORE_SETTLED);
}

static void end(core *c, core_task *t)
{
    if (t->state == CORE_RUNNING) c->running--;
    t->state = CORE_ENDED;
    c->ended++;
}

void run_send(core *c, core_task *t, pawl_op_kind kind)
{
    t->op.kind = kind;
    t->op.id = t->body->id;
    t->op.fence = t->fence;
    t->op.audit = t->audit;
    t->op.by = NULL;
    batch_gather_task(c, t);
}

/* Gives back a lease whose task never started. */
void run_release(core *c, core_task *t, int64_t delay_us, int64_t slot_us)
{
    end(c, t);
    memset(&t->op.u, 0, sizeof t->op.u);
    t->op.u.release.delay_us = delay_us;
    t->op.u.release.slot_us = slot_us;
    t->op.u.release.epoch = t->epoch;
    t->op.u.release.key = slot_us ? throttle_told_key(t) : (pawl_bytes){0};
    t->op.u.release.run.progress = -1;
    run_send(c, t, PAWL_OP_RELEASE);
}

/* With the rate slot it has, if any. */
static void release(core *c, core_task *t, int64_t delay_us)
{
    run_release(c, t, delay_us, t->until_mono_us > c->now.mono_us ? throttle_slot_of(t) : 0);
}

static void end_unstarted(core *c, core_task *t, pawl_state to, const char *reason, const char *error)
{
    end(c, t);
    memset(&t->op.u, 0, sizeof t->op.u);
    t->op.u.finish.to = to;
    t->op.u.finish.reason = reason;
    t->op.u.finish.run.error = error;
    t->op.u.finish.run.progress = -1;
    run_send(c, t, PAWL_OP_FINISH);
}

void run_cancel_unstarted(core *c, core_task *t) { end_unstarted(c, t, PAWL_CANCELLED, NULL, NULL); }

void run_refuse(core *c, core_task *t, const pawl_rate *rate, const char *fmt, ...)
{
    const char *error = "its rate key has no slot in time";
    va_list args;
    if ((t->refusal = alloc_new(c->allocator, sizeof *t->refusal))) {
        t->refusal->rate = *rate;
        va_start(args, fmt);
        vsnprintf(t->refusal->text, sizeof t->refusal->text, fmt, args);
        va_end(args);
        error = t->refusal->text;
    }
    if (schedule_of(t->body)) end_unstarted(c, t, PAWL_CANCELLED, NULL, error); /* skipped: nobody need see to it */
    else end_unstarted(c, t, PAWL_FAILED, "rate_limited", error);
}

void run_release_queue(core *c, queue *q)
{
    list *node;
    while (c->policies && (node = list_pop(&q->ready))) {
        q->ready_count--;
        release(c, container_of(node, core_task, link), -1);
    }
    if (c->policies) throttle_release_queue(c, q);
    if (q->busy > 0 && c->config.surplus > 0 && !list_linked(&q->recall.link)) engine_act(c, &q->recall, CORE_RECALL);
}

void run_release_ready(core *c)
{
    for (int i = 0; i < c->queues_count; i++) run_release_queue(c, &c->queues[i]);
}

/* ---- starting ------------------------------------------------------------------------------------------------------------------------ */

static void worker_free(core *c, core_task *t)
{
    if (!t->in_worker) return;
    t->in_worker = false;
    queue_of(c, t)->busy--;
}

/* Runs without a timeout are looked at in the order in which they began: most are over long before, and share one timer. */
static void plan_timer(core *c, core_task *t)
{
    if (t->timeout_us > 0) {
        engine_timer(c, &t->timer, t->started_mono_us + t->timeout_us);
        return;
    }
    if (list_empty(&c->untimed)) engine_timer(c, &c->long_timer, t->started_mono_us + c->config.long_run_us);
    list_append(&c->untimed, &t->link);
}

static void timer_off(core *c, core_task *t)
{
    if (heap_has(&t->timer.node)) engine_timer_off(c, &t->timer);
    if (!list_linked(&t->link)) return;
    list_remove(&t->link);
    if (list_empty(&c->untimed)) engine_timer_off(c, &c->long_timer);
}

static void begin(core *c, core_task *t)
{
    t->state = CORE_RUNNING;
    c->running++;
    t->started_mono_us = c->now.mono_us;
    t->started_wall_us = c->now.wall_us;
    t->deadline_wall_us = t->timeout_us > 0 ? c->now.wall_us + t->timeout_us : 0;
    plan_timer(c, t);
    engine_event(c, PAWL_EVENT_STARTED, t->body, t->failures + 1, t->fence, 0, NULL);
    engine_act(c, &t->start_act, CORE_RUN);
}

static void start(core *c, core_task *t)
{
    queue_of(c, t)->busy++;
    t->in_worker = true;
    if (!t->not_started && (!t->suspect || CANARY(MARK_SKIPPED))) {
        begin(c, t);
        return;
    }
    t->state = CORE_STARTING;
    t->marked = t->suspect;
    c->marked += t->marked;
    c->marked_solo += t->marked && t->solo;
    memset(&t->op.u, 0, sizeof t->op.u);
    t->op.u.start.mark = t->suspect;
    run_send(c, t, PAWL_OP_START);
}

/* A task to be run alone starts only when no other suspect is about, and none starts beside it. */
static bool may_start(const core *c, const core_task *t)
{
    if (!t->suspect || CANARY(SOLO_MIXED)) return true;
    return c->marked_solo == 0 && (!t->solo || c->marked == 0);
}

/* Only a plain task may wait for its worker: a start that is written down is a start, and a rate slot has its end. */
static bool has_worker(const queue *q, const core_task *t)
{
    return q->busy < q->workers || (!t->not_started && !t->suspect && !t->throttle);
}

void run_ready(core *c)
{
    if (!engine_may_run(c)) return;
    for (int i = 0; i < c->queues_count; i++) {
        queue *q = &c->queues[i];
        list_each(node, &q->ready) {
            if (q->busy >= q->workers + q->surplus) break;
            core_task *t = container_of(node, core_task, link);
            if (!may_start(c, t) || !has_worker(q, t)) continue;
            ready_remove(c, t);
            if (!t->throttle || throttle_admits(c, t)) start(c, t);
        }
    }
}

/* ---- stopping ------------------------------------------------------------------------------------------------------------------------ */

void run_stop(core *c, core_task *t, pawl_stop_reason reason)
{
    /* "lease lost" (make no more effects) says more than any other reason, so it is told even after one. */
    if (t->state != CORE_RUNNING || t->stop == PAWL_STOP_LEASE_LOST ||
        (t->stop && (reason != PAWL_STOP_LEASE_LOST || CANARY(UNTOLD))))
        return;
    if (!t->stop) timer_off(c, t), engine_timer(c, &t->timer, c->now.mono_us + STUCK_GRACE_US);
    if (!t->stop) t->cause = reason;
    t->stop = reason;
    if (!list_linked(&t->stop_act.link)) engine_act(c, &t->stop_act, CORE_STOP_RUN);
}

void run_cancel(core *c, core_task *t)
{
    if (t->state == CORE_READY) {
        ready_remove(c, t);
        throttle_forget(c, t);
        run_cancel_unstarted(c, t);
    } else if (t->state == CORE_PARKED) {
        t->dropped = true;
        if (throttle_leave(c, t)) run_cancel_unstarted(c, t);
    } else {
        run_stop(c, t, PAWL_STOP_CANCELLED); /* STARTING: the store will answer that a cancel was asked */
    }
}

void run_lose(core *c, core_task *t)
{
    t->lost = true;
    if (t->state == CORE_PARKED && !throttle_leave(c, t)) return;
    if (t->state == CORE_READY || t->state == CORE_PARKED) {
        if (t->state == CORE_READY) ready_remove(c, t), throttle_forget(c, t);
        engine_event(c, PAWL_EVENT_LEASE_LOST, t->body, t->failures + 1, t->fence, 0, NULL);
        forget(c, t);
        core_task_free(c, t);
    } else {
        run_stop(c, t, PAWL_STOP_LEASE_LOST); /* STARTING, ENDED: the store will refuse the operation */
    }
}

/* It has reported since it began, or was reported as long-running. */
static void watch_progress(core *c, core_task *t) { engine_timer(c, &t->timer, t->progress_mono_us + c->config.long_run_us); }

void run_timer(core *c, core_task *t)
{
    if (t->state == CORE_PARKED) {
        throttle_timer(c, t);
        return;
    }
    CHECK(t->state == CORE_RUNNING);
    int64_t ran_us = c->now.mono_us - t->started_mono_us;
    if (t->stop) {
        t->stuck = true;
        c->stuck++;
        engine_event(c, PAWL_EVENT_STUCK, t->body, t->failures + 1, t->fence, ran_us, NULL);
        engine_log(c, PAWL_WARN, "a run of type '%s' was asked to stop and did not within 5 s", t->body->type);
    } else if (t->timeout_us > 0) {
        engine_event(c, PAWL_EVENT_TIMEOUT, t->body, t->failures + 1, t->fence, ran_us, NULL);
        run_stop(c, t, PAWL_STOP_TIMEOUT);
    } else if (c->now.mono_us - t->progress_mono_us < c->config.long_run_us) {
        watch_progress(c, t);
    } else {
        t->long_running = true;
        c->long_running++;
        engine_event(c, PAWL_EVENT_LONG_RUNNING, t->body, t->failures + 1, t->fence, ran_us, NULL);
    }
}

void run_long(core *c)
{
    while (!list_empty(&c->untimed)) {
        core_task *t = container_of(c->untimed.next, core_task, link);
        int64_t at_us = t->started_mono_us + c->config.long_run_us;
        if (at_us > c->now.mono_us) {
            engine_timer(c, &c->long_timer, at_us);
            return;
        }
        list_remove(&t->link);
        run_timer(c, t);
    }
}

static void not_reported(core *c, core_task *t)
{
    c->long_running -= t->long_running;
    c->stuck -= t->stuck;
    t->long_running = false;
}

/* ---- progress ------------------------------------------------------------------------------------------------------------------------ */

static void send_progress(core *c, core_task *t)
{
    t->progress_dirty = false;
    memset(&t->op.u, 0, sizeof t->op.u);
    t->op.u.progress.percent = t->progress;
    t->op.u.progress.text = t->progress_text;
    run_send(c, t, PAWL_OP_PROGRESS);
}

void core_progress(core *c, core_time now, core_task *t, int percent, const char *text)
{
    c->now = now;
    if (t->state != CORE_RUNNING) return;
    t->progress = percent;
    t->progress_text = text;
    t->progress_dirty = true;
    t->progress_mono_us = now.mono_us;
    if (t->long_running) {
        t->long_running = false;
        c->long_running--;
        watch_progress(c, t);
    }
    engine_event(c, PAWL_EVENT_PROGRESS, t->body, t->failures + 1, t->fence, percent, text);
    if (t->op_place == OP_IDLE) send_progress(c, t);
    else if (t->op_place == OP_GATHERED)
        t->op.u.progress.percent = percent, t->op.u.progress.text = text, t->progress_dirty = false;
    engine_push(c);
}

/* ---- outcomes ------------------------------------------------------------------------------------------------------------------------ */

static int64_t ended_us(const core *c, const core_task *t)
{
    int64_t at_us = t->outcome->ended_us ? t->outcome->ended_us : c->now.wall_us;
    return at_us > t->started_wall_us ? at_us : t->started_wall_us;
}

static pawl_execution execution(const core *c, const core_task *t, pawl_attempt_outcome how, const char *error)
{
    const core_outcome *o = t->outcome;
    return (pawl_execution){.outcome = how,
                            .number = t->runs + 1,
                            .started_us = t->started_wall_us,
                            .finished_us = ended_us(c, t),
                            .code = o->code,
                            .error = error,
                            .log = o->log,
                            .log_lines = o->log_lines,
                            .progress = o->progress,
                            .progress_text = o->progress_text};
}

static void finish(core *c, core_task *t, pawl_state to, pawl_attempt_outcome how, const char *reason, const char *error)
{
    zero(&t->op.u, sizeof t->op.u);
    t->op.u.finish.to = to;
    t->op.u.finish.reason = reason;
    t->op.u.finish.run = execution(c, t, how, error);
    if (to == PAWL_SUCCEEDED) {
        t->op.u.finish.result = t->outcome->result;
        t->op.u.finish.result_type = t->outcome->result_type;
        t->op.u.finish.result_ref = t->outcome->result_ref;
        t->op.u.finish.spawns = t->outcome->spawns;
        t->op.u.finish.spawns_count = t->outcome->spawns_count;
    }
    run_send(c, t, PAWL_OP_FINISH);
}

static void again(core *c, core_task *t, pawl_attempt_outcome how, int64_t delay_us, const char *error)
{
    memset(&t->op.u, 0, sizeof t->op.u);
    t->op.u.release.delay_us = delay_us;
    t->op.u.release.failure = how == PAWL_ATTEMPT_RETRY || how == PAWL_ATTEMPT_TIMEOUT;
    t->op.u.release.interruption = how == PAWL_ATTEMPT_INTERRUPTED || how == PAWL_ATTEMPT_RESCUED;
    if (CANARY(SLOT_TWICE)) t->op.u.release.slot_us = throttle_slot_of(t), t->op.u.release.epoch = t->epoch;
    if (CANARY(INTERRUPTION_COSTS)) t->op.u.release.failure |= t->op.u.release.interruption;
    t->op.u.release.run = execution(c, t, how, error);
    run_send(c, t, PAWL_OP_RELEASE);
}

static void failure(core *c, core_task *t, bool timed_out, int64_t own_delay_us, const char *error)
{
    policy p = *t->policy;
    p.max_attempts = t->max_attempts;
    pawl_failure f = {.id = t->body->id,
                      .type = t->body->type,
                      .attempt = t->failures + 1,
                      .max_attempts = t->max_attempts,
                      .code = t->outcome->code,
                      .error = error,
                      .timed_out = timed_out};
    int64_t delay_us = policy_retry_delay(&p, &f, &c->random);
    if (delay_us == PAWL_NO_RETRY) {
        const char *reason = f.attempt >= f.max_attempts ? "attempts_exhausted" : timed_out ? "timeout" : "not_retryable";
        finish(c, t, PAWL_FAILED, timed_out ? PAWL_ATTEMPT_TIMEOUT : PAWL_ATTEMPT_FAILED, reason, error);
    } else {
        again(c, t, timed_out ? PAWL_ATTEMPT_TIMEOUT : PAWL_ATTEMPT_RETRY, own_delay_us >= 0 ? own_delay_us : delay_us, error);
    }
}

static const char *or_text(const char *text, const char *otherwise) { return text ? text : otherwise; }

/* A run that was told to stop, and did not succeed, ends by what it was told. */
static bool decide_stopped(core *c, core_task *t)
{
    const core_outcome *o = t->outcome;
    switch (t->cause) {
    case PAWL_STOP_CANCELLED: finish(c, t, PAWL_CANCELLED, PAWL_ATTEMPT_CANCELLED, NULL, o->error); return true;
    case PAWL_STOP_TIMEOUT: failure(c, t, true, -1, or_text(o->error, "timed out")); return true;
    case PAWL_STOP_SHUTDOWN:
        if (o->outcome.kind == PAWL_RUN_FAIL) return false;
        again(c, t, PAWL_ATTEMPT_INTERRUPTED, 0, o->error);
        return true;
    case PAWL_STOP_LEASE_LOST: again(c, t, PAWL_ATTEMPT_INTERRUPTED, 0, o->error); return true;
    case PAWL_GO_ON: break;
    }
    return false;
}

/* Whoever ran it is gone, as after the death of a node: it may be the task that kills them. */
static void lost_run(core *c, core_task *t)
{
    const char *error = or_text(t->outcome->error, "whoever ran it is gone");
    if (t->interruptions + 1 < INTERRUPTIONS_MAX) again(c, t, PAWL_ATTEMPT_RESCUED, 0, error);
    else finish(c, t, PAWL_FAILED, PAWL_ATTEMPT_RESCUED, "rescued_too_often", error);
}

static void decide(core *c, core_task *t)
{
    const core_outcome *o = t->outcome;
    pawl_outcome_kind kind = o->outcome.kind;
    if (kind == PAWL_RUN_OK && !(t->cause == PAWL_STOP_TIMEOUT && t->stuck)) {
        finish(c, t, PAWL_SUCCEEDED, PAWL_ATTEMPT_SUCCEEDED, NULL, NULL);
        return;
    }
    if (kind != PAWL_RUN_SNOOZE && kind != PAWL_RUN_COMPLETED && decide_stopped(c, t)) return;
    switch (kind) {
    case PAWL_RUN_SNOOZE: again(c, t, PAWL_ATTEMPT_SNOOZED, o->outcome.delay_us, NULL); break;
    case PAWL_RUN_FAIL: finish(c, t, PAWL_FAILED, PAWL_ATTEMPT_FAILED, "failed", or_text(o->error, "failed")); break;
    case PAWL_RUN_CANCELLED: finish(c, t, PAWL_CANCELLED, PAWL_ATTEMPT_CANCELLED, NULL, o->error); break;
    case PAWL_RUN_INTERRUPTED: again(c, t, PAWL_ATTEMPT_INTERRUPTED, 0, o->error); break;
    case PAWL_RUN_LOST: lost_run(c, t); break;
    case PAWL_RUN_COMPLETED:
        failure(c, t, false, -1, or_text(o->error, "the transaction that completed it was rolled back"));
        break;
    default: failure(c, t, false, o->outcome.delay_us, or_text(o->error, "failed")); break;
    }
}

void core_deferred(core *c, core_time now, core_task *t)
{
    c->now = now;
    worker_free(c, t);
    engine_push(c);
}

/* Before those of its priority, as it was. */
void run_ready_again(core *c, core_task *t)
{
    queue *q = queue_of(c, t);
    list *at = q->ready.next;
    while (at != &q->ready && container_of(at, core_task, link)->body->priority < t->body->priority) at = at->next;
    list_insert_before(at, &t->link);
    q->ready_count++;
    t->state = CORE_READY;
}

void core_recalled(core *c, core_time now, core_task *t)
{
    queue *q = queue_of(c, t);
    c->now = now;
    CHECK(t->state == CORE_RUNNING && t->in_worker);
    pawl_stop_reason cause = t->cause;
    timer_off(c, t);
    list_remove(&t->stop_act.link);
    worker_free(c, t);
    not_reported(c, t);
    claim_run_slow(q);
    t->stop = t->cause = PAWL_GO_ON;
    c->running--;
    run_ready_again(c, t);
    bool too_many = q->ready_count > q->workers + q->capacity; /* others had their slots meanwhile */
    if (!t->lost && cause == PAWL_STOP_CANCELLED) {
        run_cancel(c, t);
    } else if (t->lost || c->mode != MODE_STARTED || q->paused || q->nobody || too_many) {
        ready_remove(c, t);
        release(c, t, -1);
    }
    engine_push(c);
}

void core_finished(core *c, core_time now, core_task *t, const core_outcome *outcome)
{
    c->now = now;
    CHECK(t->state == CORE_RUNNING && outcome->outcome.kind != PAWL_RUN_DEFERRED);
    t->outcome = outcome;
    timer_off(c, t);
    worker_free(c, t);
    not_reported(c, t);
    if (outcome->began_us > t->started_wall_us) t->started_wall_us = outcome->began_us;
    claim_run_finished(c, queue_of(c, t), ended_us(c, t) - t->started_wall_us);
    end(c, t);
    if (t->op_place != OP_FLYING) decide(c, t); /* else once the progress on its way is answered */
    engine_push(c);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------- */

static void start_answered(core *c, core_task *t)
{
    bool good = t->op.result == PAWL_OP_DONE, cancelling = t->op.result == PAWL_OP_CANCELLING;
    if (good && engine_may_run(c) && !t->lost && !queue_of(c, t)->paused) {
        t->not_started = t->suspect = false;
        if (!t->throttle) {
            begin(c, t);
            return;
        }
        worker_free(c, t); /* while it asks */
        if (!throttle_admits_started(c, t)) return;
        queue_of(c, t)->busy++;
        t->in_worker = true;
        begin(c, t);
        return;
    }
    worker_free(c, t);
    if (cancelling) {
        run_cancel_unstarted(c, t);
    } else if (good) {
        release(c, t, -1);
    } else {
        end(c, t);
        settle(c, t, CORE_SETTLED_LOST, 0);
    }
}

/* The store does not hold the lease any more. It may be this very run that ended it, in its caller's own transaction. */
static void stale(core *c, core_task *t)
{
    bool own = t->op.out_fence == t->fence && t->outcome && t->outcome->outcome.kind == PAWL_RUN_COMPLETED;
    settle(c, t, own && t->op.out_state == PAWL_SUCCEEDED ? CORE_SETTLED_SUCCEEDED : CORE_SETTLED_LOST, 0);
}

static core_settled released_as(const core_task *t)
{
    switch (t->op.u.release.run.outcome) {
    case PAWL_ATTEMPT_SNOOZED: return CORE_SETTLED_SNOOZED;
    case PAWL_ATTEMPT_RETRY:
    case PAWL_ATTEMPT_TIMEOUT: return CORE_SETTLED_RETRY;
    default: return CORE_SETTLED_RELEASED;
    }
}

static void release_answered(core *c, core_task *t, int64_t store_now_us)
{
    if (t->op.result != PAWL_OP_DONE) {
        stale(c, t);
    } else if (t->op.out_state == PAWL_CANCELLED) {
        settle(c, t, CORE_SETTLED_CANCELLED, 0);
        request_unpark(c, -1);
    } else {
        claim_pending(c, t->body->queue, t->op.out_run_at_us, store_now_us);
        settle(c, t, released_as(t), t->op.u.release.delay_us);
    }
}

static void finish_answered(core *c, core_task *t)
{
    pawl_state to = t->op.u.finish.to;
    if (t->op.result == PAWL_OP_REFUSED && t->outcome && to == PAWL_SUCCEEDED) {
        finish(c, t, PAWL_FAILED, PAWL_ATTEMPT_FAILED, "refused", "the store cannot hold what the run left");
    } else if (t->op.result != PAWL_OP_DONE && !CANARY(STALE_SETTLED)) {
        stale(c, t);
    } else {
        int at = t->queue;
        for (int i = 0; i < t->op.u.finish.spawns_count; i++) {
            const pawl_op *spawn = &t->op.u.finish.spawns[i];
            if (spawn->out_state == PAWL_WAITING) continue;
            claim_pending(c, spawn->u.insert.body->queue, spawn->out_run_at_us, INT64_MAX);
        }
        lease_sweep_soon(c);
        settle(c, t,
               to == PAWL_SUCCEEDED ? CORE_SETTLED_SUCCEEDED
               : to == PAWL_FAILED  ? CORE_SETTLED_FAILED
                                    : CORE_SETTLED_CANCELLED,
               0);
        request_unpark(c, at);
    }
}

static void progress_answered(core *c, core_task *t)
{
    if (t->state == CORE_ENDED) {
        decide(c, t);
    } else {
        CHECK(t->state == CORE_RUNNING);
        if (t->op.result == PAWL_OP_STALE) run_lose(c, t);
        if (t->progress_dirty) send_progress(c, t);
    }
}

/* The store ended the lease. */
void run_gone(core *c, core_task *t)
{
    if (t->op.result == PAWL_OP_MOVED) {
        forget(c, t);
        core_task_free(c, t);
    } else {
        end(c, t);
        settle(c, t, CORE_SETTLED_LOST, 0);
    }
}

void run_op_answered(core *c, core_task *t, int64_t sent_us, int64_t store_now_us)
{
    switch (t->op.kind) {
    case PAWL_OP_START: start_answered(c, t); break;
    case PAWL_OP_FINISH: finish_answered(c, t); break;
    case PAWL_OP_RELEASE: release_answered(c, t, store_now_us); break;
    case PAWL_OP_PROGRESS: progress_answered(c, t); break;
    case PAWL_OP_RESERVE: throttle_reserved(c, t, sent_us, store_now_us); break;
    default: CHECK(!"an operation of a task");
    }
}
