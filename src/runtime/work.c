/* One execution: from CORE_RUN to the end of its hooks.
 *
 *     driver   work_start     a pawl_run for the task, into its queue's pool
 *     worker   work_do        on_started, the handler, the outcome -> INPUT_FINISHED (or INPUT_DEFERRED, and FINISHED later)
 *     driver   work_settled   committed: if the handler has a hook for it, into the pool again, ahead of tasks
 *     worker   work_do        the hook -> INPUT_HOOKED
 *     driver   work_free      back among the free ones
 *
 * Everything an outcome points to belongs to the run and stays until it is freed. Runs are kept for the next task, with their log
 * buffer if it is small.
 *
 * A deferred run may be finished by another thread before its handler has even returned. `state` decides who tells the core, so
 * that it hears of the deferral first and of the end once.
 */
#include "runtime/runtime.h"
#include <stdio.h>

#define KEPT_RUNS 1024
#define KEPT_LOG ((size_t)16 << 10)
#define LOG_LIMIT ((size_t)8 << 20)

_Thread_local runtime *work_inside;

/* A worker with many short runs before it reads one clock, once per run: the end of one is the beginning of the next. */
static _Thread_local int64_t moment_us;     /* since boot, a moment ago; 0: not known */
static _Thread_local int64_t wall_ahead_us; /* of the wall clock, before that one */
static _Thread_local int64_t wall_read_us;  /* when that was */

#define AHEAD_US (10 * PAWL_MILLISECOND) /* how long wall_ahead_us is believed */

/* What the core is told when a task cannot be run for reasons of this process: later, at no cost. */
static const core_outcome later = {.outcome = {.kind = PAWL_RUN_SNOOZE, .delay_us = PAWL_SECOND}, .progress = -1};

/* ---- the driver's side --------------------------------------------------------------------------------------------------- */

static pawl_run *run_new(runtime *rt)
{
    pawl_run *run = rt->free_runs;
    if (run) {
        rt->free_runs = run->next;
        rt->free_runs_count--;
        return run;
    }
    run = alloc_new(&rt->allocator, sizeof *run);
    if (run) buf_init(&run->log, &rt->allocator, LOG_LIMIT);
    if (run) run->rt = rt;
    return run;
}

void work_start(runtime *rt, core_task *task)
{
    pawl_run *run = run_new(rt);
    task->run = run;
    if (!run) {
        core_finished(rt->core, runtime_now(rt), task, &later);
        return;
    }
    list_append(&rt->runs, &run->link);
    run->task = task;
    run->def = core_handler_of(rt->core, task);
    atomic_store_explicit(&run->stop, PAWL_GO_ON, memory_order_relaxed);
    atomic_store_explicit(&run->state, WORK_RUNNING, memory_order_relaxed);
    pool_add(rt, run, false);
}

void work_refuse(runtime *rt, pawl_run *run) { core_finished(rt->core, runtime_now(rt), run->task, &later); }

void work_stop(runtime *rt, core_task *task, pawl_stop_reason reason)
{
    pawl_run *run = task->run;
    if (!run) return;
    atomic_store(&run->stop, (int)reason);
    rt->stops_dirty = true;
}

static bool has_hook(const pawl_handler *h, core_settled settled)
{
    switch (settled) {
    case CORE_SETTLED_SUCCEEDED: return h->on_succeeded;
    case CORE_SETTLED_FAILED: return h->on_failed;
    case CORE_SETTLED_RETRY: return h->on_retry;
    case CORE_SETTLED_CANCELLED: return h->on_cancelled;
    default: return false;
    }
}

/* A task that was refused never ran: its hook gets a run all the same. */
static void run_for_hook(runtime *rt, core_task *task)
{
    pawl_run *run = task->run = run_new(rt);
    if (!run) return;
    list_append(&rt->runs, &run->link);
    run->task = task;
    run->def = core_handler_of(rt->core, task);
}

static pawl_event_kind ended_as(core_settled settled)
{
    switch (settled) {
    case CORE_SETTLED_SUCCEEDED: return PAWL_EVENT_SUCCEEDED;
    case CORE_SETTLED_FAILED: return PAWL_EVENT_FAILED;
    case CORE_SETTLED_RETRY: return PAWL_EVENT_RETRYING;
    case CORE_SETTLED_SNOOZED: return PAWL_EVENT_SNOOZED;
    case CORE_SETTLED_CANCELLED: return PAWL_EVENT_CANCELLED;
    case CORE_SETTLED_RELEASED: return PAWL_EVENT_RELEASED;
    case CORE_SETTLED_LOST: break;
    }
    return PAWL_EVENT_LEASE_LOST;
}

static void tell_puller(runtime *rt, const pawl_puller *puller, const core_action *action)
{
    pawl_run *run = action->task->run;
    if (run) puller->ended(puller->ctx, run, ended_as(action->settled));
    work_free(rt, run);
    core_task_free(rt->core, action->task);
}

void work_settled(runtime *rt, const core_action *action)
{
    core_task *task = action->task;
    const pawl_puller *puller = rt->pools ? rt->pools[task->queue].puller : NULL;
    if (puller) {
        tell_puller(rt, puller, action);
        return;
    }
    if (!task->run && task->refusal && action->settled == CORE_SETTLED_FAILED) run_for_hook(rt, task);
    pawl_run *run = task->run;
    if (run && has_hook(&run->def->h, action->settled)) {
        run->settled = action->settled;
        run->settled_delay_us = action->delay_us;
        run->settled_error = action->error;
        pool_add(rt, run, true);
        return;
    }
    work_free(rt, run);
    core_task_free(rt->core, task);
}

static void free_kept(runtime *rt, pawl_run *run)
{
    list_remove(&run->link);
    list_remove(&run->late);
    if (run->progress) pthread_mutex_destroy(&run->progress->lock);
    void *blocks[] = {run->code, run->error, run->result, run->result_type, run->result_ref, run->progress};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) alloc_free(&rt->allocator, blocks[i]);
    for (int i = 0; i < run->spawns_count; i++) {
        pawl_body_free(&rt->allocator, run->spawns[i].u.insert.body);
        alloc_free(&rt->allocator, (void *)run->spawns[i].u.insert.family);
    }
    alloc_free(&rt->allocator, run->spawns);
}

void work_free(runtime *rt, pawl_run *run)
{
    if (!run) return;
    free_kept(rt, run);
    buf log = run->log;
    if (log.room > KEPT_LOG || rt->free_runs_count >= KEPT_RUNS) buf_done(&log);
    if (rt->free_runs_count >= KEPT_RUNS) {
        alloc_free(&rt->allocator, run);
        return;
    }
    zero(run, sizeof *run);
    run->rt = rt;
    run->log = log;
    buf_clear(&run->log);
    run->next = rt->free_runs;
    rt->free_runs = run;
    rt->free_runs_count++;
}

void work_done(runtime *rt)
{
    list *node; /* those that the core let go of without settling them */
    while ((node = list_pop(&rt->runs))) work_free(rt, container_of(node, pawl_run, link));
    for (pawl_run *run = rt->free_runs, *next; run; run = next) {
        next = run->next;
        buf_done(&run->log);
        alloc_free(&rt->allocator, run);
    }
    rt->free_runs = NULL;
}

void work_pulled(pawl_run *run)
{
    run->began_us = run->rt->clock.wall_us(run->rt->clock.ctx);
    atomic_store(&run->state, WORK_DEFERRED);
}

/* ---- progress: at most every PROGRESS_EVERY_US, the newest counts -------------------------------------------------------- */

/* A place for the text that neither the core nor a batch refers to. */
static char *free_slot(pawl_run *run)
{
    const core_task *t = run->task;
    const char *in_batch = t->op.kind == PAWL_OP_PROGRESS ? t->op.u.progress.text : NULL;
    for (int i = 0; i < 3; i++) {
        char *slot = run->progress->slots[i];
        if (slot != t->progress_text && slot != in_batch) return slot;
    }
    return run->progress->slots[0];
}

static void deliver(runtime *rt, core_time now, pawl_run *run)
{
    work_progress *p = run->progress;
    char *slot = free_slot(run);
    pthread_mutex_lock(&p->lock);
    int percent = p->percent;
    memcpy(slot, p->pending, PROGRESS_TEXT);
    p->known = false;
    pthread_mutex_unlock(&p->lock);
    p->next_us = now.mono_us + PROGRESS_EVERY_US;
    core_progress(rt->core, now, run->task, percent, slot[0] ? slot : NULL);
}

void work_progressed(runtime *rt, core_time now, pawl_run *run)
{
    if (now.mono_us >= run->progress->next_us) deliver(rt, now, run);
    else list_append(&rt->late, &run->late);
}

int64_t work_late_deadline(const runtime *rt)
{
    if (list_empty(&rt->late)) return INT64_MAX;
    return container_of(rt->late.next, pawl_run, late)->progress->next_us;
}

void work_late(runtime *rt, core_time now)
{
    while (work_late_deadline(rt) <= now.mono_us) deliver(rt, now, container_of(list_pop(&rt->late), pawl_run, late));
}

/* ---- the worker's side --------------------------------------------------------------------------------------------------- */

static int64_t wall(const pawl_run *run) { return run->rt->clock.wall_us(run->rt->clock.ctx); }

void work_took(void) { moment_us = 0; }

static void read_clock(const pawl_run *run)
{
    const pawl_clock *clock = &run->rt->clock;
    moment_us = clock->boot_us(clock->ctx);
    if (wall_read_us && moment_us - wall_read_us < AHEAD_US) return;
    wall_ahead_us = clock->wall_us(clock->ctx) - moment_us;
    wall_read_us = moment_us;
}

/* The wall clock at the end of a run. */
static int64_t end_us(const pawl_run *run)
{
    if (!moment_us || !run->rt->loop.threaded) return wall(run); /* an inline engine has a clock of its own */
    read_clock(run);
    return moment_us + wall_ahead_us;
}

static int progress_of(const pawl_run *run) { return run->progress ? run->progress->percent : -1; }

static const char *progress_text_of(const pawl_run *run)
{
    return run->progress && run->progress->pending[0] ? run->progress->pending : NULL;
}

void work_execution(const pawl_run *run, pawl_execution *out)
{
    *out = (pawl_execution){.number = run->task->runs + 1,
                            .started_us = run->began_us,
                            .finished_us = wall(run),
                            .log = {run->log.data, run->log.len},
                            .log_lines = run->log_lines,
                            .progress = progress_of(run),
                            .progress_text = progress_text_of(run)};
}

static void fill_outcome(pawl_run *run, pawl_outcome outcome)
{
    bool good = outcome.kind == PAWL_RUN_OK || outcome.kind == PAWL_RUN_COMPLETED;
    run->outcome = (core_outcome){.outcome = outcome,
                                  .code = good ? NULL : run->code,
                                  .error = good ? NULL : run->error,
                                  .result = {good ? run->result : NULL, good ? run->result_len : 0},
                                  .result_type = good ? run->result_type : NULL,
                                  .result_ref = good ? run->result_ref : NULL,
                                  .log = {run->log.data, run->log.len},
                                  .log_lines = run->log_lines,
                                  .began_us = run->began_us,
                                  .ended_us = end_us(run),
                                  .progress = progress_of(run),
                                  .progress_text = progress_text_of(run),
                                  .spawns = good ? run->spawns : NULL,
                                  .spawns_count = good ? run->spawns_count : 0};
}

static pawl_outcome fail(pawl_run *run, const char *text)
{
    alloc_free(&run->rt->allocator, run->error);
    run->error = alloc_str(&run->rt->allocator, text);
    log_line(&run->rt->log, PAWL_ERROR, "the handler of \"%s\": %s", run->def->h.type, text);
    return (pawl_outcome){.kind = PAWL_RUN_FAIL};
}

static pawl_outcome checked(pawl_run *run, pawl_outcome outcome)
{
    switch (outcome.kind) {
    case PAWL_RUN_COMPLETED: /* the core finds out whether that transaction was committed */
        if (run->completed) return outcome;
        return fail(run, "it returned PAWL_RUN_COMPLETED without a successful pawl_complete_sqlite, _pg or _mysql");
    case PAWL_RUN_SNOOZE:
        if (outcome.delay_us < 0) outcome.delay_us = 0;
        return outcome;
    case PAWL_RUN_OK:
    case PAWL_RUN_RETRY:
    case PAWL_RUN_FAIL:
    case PAWL_RUN_INTERRUPTED:
    case PAWL_RUN_LOST:
    case PAWL_RUN_CANCELLED: return outcome;
    default: return fail(run, "it returned no outcome: return pawl_ok(), pawl_retry(...), ...");
    }
}

void work_ended(pawl_run *run, pawl_outcome outcome)
{
    run->over = true;
    fill_outcome(run, checked(run, outcome));
    run->in.kind = INPUT_FINISHED;
}

void work_finish(pawl_run *run, pawl_outcome outcome)
{
    work_ended(run, outcome);
    loop_push(run->rt, &run->in, true);
}

/* The core hears of the deferral before anybody can tell it of the end. */
static void defer(pawl_run *run)
{
    moment_us = 0;
    run->deferred_in.kind = INPUT_DEFERRED;
    loop_push(run->rt, &run->deferred_in, true);
    int running = WORK_RUNNING;
    if (atomic_compare_exchange_strong(&run->state, &running, WORK_DEFERRED)) return;
    atomic_store(&run->state, WORK_OVER);
    work_finish(run, run->early);
}

static void returned(pawl_run *run, pawl_outcome outcome)
{
    if (outcome.kind == PAWL_RUN_DEFERRED) {
        defer(run);
        return;
    }
    int was = atomic_exchange(&run->state, WORK_OVER);
    if (was == WORK_EARLY) outcome = run->early; /* pawl_run_finish has answered OK: that counts */
    work_ended(run, outcome);
    pool_report(run);
}

static void hook_failed(const pawl_run *run, const char *hook)
{
    char id[PAWL_ID_TEXT];
    pawl_id_format(run->task->body->id, id);
    log_line(&run->rt->log, PAWL_WARN, "%s of \"%s\" returned false for task %s", hook, run->def->h.type, id);
}

/* It was cancelled meanwhile, or the lease is over: this process may have been stopped for long, and the engine not know it yet. */
static bool may_not_begin(const pawl_run *run)
{
    const runtime *rt = run->rt;
    if (atomic_load_explicit(&run->stop, memory_order_relaxed) != PAWL_GO_ON) return true;
    return rt->loop.threaded && moment_us >= atomic_load_explicit(&rt->lease_until_us, memory_order_relaxed) &&
           !CANARY(BEGUN_LATE);
}

static void execute(pawl_run *run, runtime *outside)
{
    const pawl_handler *h = &run->def->h;
    if (run->rt->loop.threaded && !moment_us) read_clock(run);
    if (may_not_begin(run)) {
        work_inside = outside;
        run->in.kind = INPUT_RECALLED;
        pool_report(run);
        return;
    }
    run->began_us = run->rt->loop.threaded ? moment_us + wall_ahead_us : wall(run);
    if (h->on_started && !h->on_started(run, h->ctx)) hook_failed(run, "on_started");
    pawl_outcome outcome = h->run(run, h->ctx);
    work_inside = outside;
    returned(run, outcome);
}

static void call_hook(pawl_run *run, runtime *outside)
{
    const pawl_handler *h = &run->def->h;
    const char *error = run->settled_error ? run->settled_error : "", *name = "";
    bool ok = true;
    switch (run->settled) {
    case CORE_SETTLED_SUCCEEDED:
        name = "on_succeeded";
        ok = h->on_succeeded(run, h->ctx);
        break;
    case CORE_SETTLED_FAILED:
        name = "on_failed";
        ok = h->on_failed(run, h->ctx, error);
        break;
    case CORE_SETTLED_RETRY:
        name = "on_retry";
        ok = h->on_retry(run, h->ctx, pawl_run_attempt(run), error, run->settled_delay_us);
        break;
    default:
        name = "on_cancelled";
        ok = h->on_cancelled(run, h->ctx);
        break;
    }
    if (!ok) hook_failed(run, name);
    work_inside = outside;
    run->in.kind = INPUT_HOOKED;
    pool_report(run);
}

void work_do(pawl_run *run)
{
    runtime *outside = work_inside;
    work_inside = run->rt;
    if (run->is_job) moment_us = 0;
    if (run->is_job) call_hook(run, outside);
    else execute(run, outside);
}
