/* One round of the driver's: inputs into the core, its actions carried out.
 *
 * Nothing here waits. What takes time is handed on: handlers and hooks to workers, calls of a blocking store to the store's
 * threads, callbacks to the loop thread. Those who are to be woken are collected first and woken at the end of the round, the
 * store before the workers and these before the callers: so the next commit is on its way while everybody else wakes up.
 */
#include "runtime/runtime.h"
#include <stdio.h>

static void note_failure(runtime *rt, const core_call *call)
{
    if (call->status != PAWL_OK) snprintf(rt->store_error, sizeof rt->store_error, "%.180s", call->err.message);
}

/* Whether the call changed the store: a claim that found nothing did not. */
static bool is_commit(const core_call *call)
{
    if (call->status != PAWL_OK || call->kind == CORE_HELD) return false;
    return call->kind != CORE_CLAIM || call->u.claim.tasks_count > 0;
}

void step_answered(runtime *rt, core_call *call)
{
    note_failure(rt, call);
    rt->commits += is_commit(call);
    if (is_commit(call)) feed_poke(rt, false);
    if (call->kind == CORE_APPLY) waits_wake(rt, &call->u.batch);
    else if (call->kind == CORE_RESCUE) waits_wake(rt, NULL);
    core_answered(rt->core, runtime_now(rt), call);
}

static void finished(runtime *rt, core_time now, pawl_run *run)
{
    list_remove(&run->late);
    core_finished(rt->core, now, run->task, &run->outcome);
}

static void recalled(runtime *rt, core_time now, pawl_run *run)
{
    core_task *task = run->task;
    task->run = NULL;
    work_free(rt, run);
    core_recalled(rt->core, now, task);
}

static void hooked(runtime *rt, pawl_run *run)
{
    core_task *task = run->task;
    work_free(rt, run);
    core_task_free(rt->core, task);
}

static void feed(runtime *rt, core_time now, input *in)
{
    switch (in->kind) {
    case INPUT_SUBMIT: ticket_submit(rt, now, container_of(in, ticket, in)); break;
    case INPUT_ANSWERED: step_answered(rt, container_of(in, storejob, in)->call); break;
    case INPUT_FINISHED: finished(rt, now, container_of(in, pawl_run, in)); break;
    case INPUT_RECALLED: recalled(rt, now, container_of(in, pawl_run, in)); break;
    case INPUT_DEFERRED: core_deferred(rt->core, now, container_of(in, pawl_run, deferred_in)->task); break;
    case INPUT_PROGRESS: work_progressed(rt, now, container_of(in, pawl_run, progress_in)); break;
    case INPUT_HOOKED: hooked(rt, container_of(in, pawl_run, in)); break;
    case INPUT_WORKERS: pool_workers(rt, now, container_of(in, pool, workers_in)); break;
    }
}

static void feed_all(runtime *rt, core_time now, input *in)
{
    for (input *next; in; in = next) {
        next = in->next;
        feed(rt, now, in);
    }
}

static void call_store(runtime *rt, core_call *call)
{
    if (!rt->direct) storeq_add(rt, call);
    else rt->direct_calls[rt->direct_count++] = call;
}

static void carry_out_one(runtime *rt, const core_action *action)
{
    switch (action->kind) {
    case CORE_CALL: call_store(rt, action->call); break;
    case CORE_RUN: work_start(rt, action->task); break;
    case CORE_RECALL: feed_all(rt, runtime_now(rt), pool_recall(rt, action->queue)); break;
    case CORE_STOP_RUN: work_stop(rt, action->task, action->reason); break;
    case CORE_SETTLED: work_settled(rt, action); break;
    case CORE_ANSWER: ticket_answer(rt, action->request); break;
    case CORE_DROP: ticket_drop(rt, action->request); break;
    case CORE_EVENT: events_publish(rt, &action->event); break;
    case CORE_LOG: log_line(&rt->log, action->level, "%s", action->text); break;
    case CORE_DRAINED:
    case CORE_STOPPED: runtime_told(rt, action); break;
    }
}

/* Stores that never wait answer within the step. */
static bool answer_direct(runtime *rt)
{
    int count = rt->direct_count;
    core_call *calls[CORE_CALL_KINDS + LANES_MAX + 1];
    memcpy(calls, rt->direct_calls, (size_t)count * sizeof *calls);
    rt->direct_count = 0;
    for (int i = 0; i < count; i++) {
        store_call(rt->store, calls[i]);
        step_answered(rt, calls[i]);
    }
    return count > 0;
}

static void carry_out(runtime *rt)
{
    core_action action;
    do {
        while (core_next(rt->core, &action)) carry_out_one(rt, &action);
    } while (answer_direct(rt));
}

static void wake_sleepers(runtime *rt)
{
    if (!rt->stops_dirty || CANARY(STOP_UNHEARD)) return;
    rt->stops_dirty = false;
    pthread_mutex_lock(&rt->stop_lock);
    pthread_cond_broadcast(&rt->stop_cond);
    pthread_mutex_unlock(&rt->stop_lock);
}

int64_t step_deadline(const runtime *rt)
{
    int64_t at = core_deadline(rt->core), callbacks = ticket_deadline(rt), late = work_late_deadline(rt);
    if (callbacks < at) at = callbacks;
    if (rt->look_us < at) at = rt->look_us;
    return late < at ? late : at;
}

void step_tick(runtime *rt, core_time now)
{
    feed_all(rt, now, pool_look(rt, now));
    work_late(rt, now);
    ticket_expire(rt, now);
    core_tick(rt->core, now);
}

void step_inputs(runtime *rt, input *in)
{
    core_time now = runtime_now(rt);
    core_hold(rt->core); /* what arrived together goes into one commit */
    core_cork(rt->core, !storeq_carries(rt));
    feed_all(rt, now, in);
    core_go(rt->core, now);
    if (step_deadline(rt) <= now.mono_us && loop_may_step(rt)) step_tick(rt, now);
    do {
        carry_out(rt);
        storeq_flush(rt);
        atomic_store_explicit(&rt->lease_until_us, core_lease_deadline(rt->core), memory_order_relaxed);
    } while (!pool_flush(rt));
    wake_sleepers(rt);
    ticket_flush(rt);
    loop_arm(rt, step_deadline(rt));
}
