#include "drive.h"
#include "../unit/cmocka_all.h"
#include "base/alloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const core_outcome plain[] = {
    [PAWL_RUN_OK] = {.outcome = {PAWL_RUN_OK, 0}, .progress = -1},
    [PAWL_RUN_RETRY] = {.outcome = {PAWL_RUN_RETRY, -1}, .error = "no luck", .progress = -1},
    [PAWL_RUN_SNOOZE] = {.outcome = {PAWL_RUN_SNOOZE, PAWL_MINUTE}, .progress = -1},
    [PAWL_RUN_FAIL] = {.outcome = {PAWL_RUN_FAIL, 0}, .error = "never", .progress = -1},
    [PAWL_RUN_CANCELLED] = {.outcome = {PAWL_RUN_CANCELLED, 0}, .progress = -1},
    [PAWL_RUN_COMPLETED] = {.outcome = {PAWL_RUN_COMPLETED, 0}, .progress = -1},
};

core_time drive_now(const drive *d) { return (core_time){.mono_us = d->now->boot_us, .wall_us = d->now->now_us}; }

static core_config filled(core_config config, const drive *d)
{
    static const pawl_sweep for_ever = {.keep_succeeded_us = -1,
                                        .keep_cancelled_us = -1,
                                        .keep_resolved_us = -1,
                                        .keep_failed_us = -1,
                                        .keep_audit_us = -1,
                                        .keep_logs_us = -1};
    if (!config.allocator) config.allocator = alloc_default();
    if (!config.lanes) config.lanes = d->store->type->lanes;
    if (!config.retention.keep_succeeded_us) config.retention = for_ever;
    if (!config.engine.max_attempts) config.engine = policy_default();
    config.seed = 7;
    config.lease_us = 30 * PAWL_SECOND;
    config.node_name = "test";
    return config;
}

void drive_open_with(drive *d, const char *url, core_config config, core_queue_config queue, virtual_clock *shared)
{
    memset(d, 0, sizeof *d);
    d->clock = (virtual_clock){.now_us = INT64_C(1800000000) * PAWL_SECOND, .boot_us = PAWL_HOUR};
    d->now = shared ? shared : &d->clock;
    pawl_error err;
    pawl_store_options options = {.url = url,
                                  .lease_us = 30 * PAWL_SECOND,
                                  .lock_wait_us = PAWL_SECOND,
                                  .clock = clock_virtual(d->now),
                                  .allocator = alloc_default()};
    if (store_open(&options, &d->store, &err)) abort();
    config = filled(config, d);
    if (!queue.name) queue.name = "default";
    if (!queue.capacity) queue.capacity = 100;
    core_handler_config handler = {.type = "t"};
    if (core_new(&config, &d->core)) abort();
    if (core_add_queue(d->core, &queue) || core_add_handler(d->core, &handler)) abort();
    core_want_events(d->core, true);
}

void drive_open(drive *d, const char *url, int workers, virtual_clock *shared)
{
    drive_open_with(d, url, (core_config){0}, (core_queue_config){.workers = workers}, shared);
}

void drive_close(drive *d)
{
    core_free(d->core);
    store_close(d->store);
}

drive *drive_begin(void **state, core_config config, core_queue_config queue)
{
    static int number;
    char url[64];
    drive *d = calloc(1, sizeof *d);
    snprintf(url, sizeof url, "memory:core-%d", ++number);
    drive_open_with(d, url, config, queue, NULL);
    *state = d;
    return d;
}

int drive_finish(void **state)
{
    drive *d = *state;
    assert_true(d->answers_count <= d->drops_count); /* what nobody waits for is only dropped */
    drive_close(d);
    free(d);
    return 0;
}

static unsigned bit(core_call_kind kind) { return 1u << kind; }

/* It happened, and nobody hears of it. */
static void lose(core_call *call)
{
    if (call->kind == CORE_CLAIM)
        for (int i = 0; i < call->u.claim.tasks_count; i++) pawl_body_free(alloc_default(), call->u.claim.tasks[i].body);
    call->status = PAWL_UNKNOWN;
}

static void carry_out(drive *d, core_call *call)
{
    d->calls[call->kind]++;
    if (d->hold & bit(call->kind)) {
        d->held[d->held_count++] = call;
        return;
    }
    if (d->fail_before & bit(call->kind)) call->status = PAWL_UNAVAILABLE;
    else if (d->lose_before & bit(call->kind)) call->status = PAWL_UNKNOWN;
    else store_call(d->store, call);
    if (call->status == PAWL_OK && d->lose_after & bit(call->kind)) lose(call);
    if (d->meddle) d->meddle(d, call);
    core_answered(d->core, drive_now(d), call);
}

void drive_answer_held(drive *d, int which, bool execute, pawl_status otherwise)
{
    core_call *call = d->held[which];
    d->held[which] = d->held[--d->held_count];
    if (execute) store_call(d->store, call);
    if (execute && d->meddle) d->meddle(d, call);
    if (!execute || otherwise) call->status = otherwise;
    core_answered(d->core, drive_now(d), call);
    drive_go(d);
}

static void note_answer(drive *d, core_request *r)
{
    drive_answer *a = &d->answers[d->answers_count++];
    *a = (drive_answer){.request = r, .status = r->status};
    if (r->count == 0) return;
    a->id = r->ops[0].out_id ? r->ops[0].out_id : r->ops[0].id;
    a->result = r->ops[0].result;
}

static void note_settled(drive *d, const core_action *a)
{
    d->settled[d->settled_count++] = (drive_settled){a->task->body->id, a->settled, a->delay_us};
    core_task_free(d->core, a->task);
}

void drive_go(drive *d)
{
    core_action a;
    while (core_next(d->core, &a)) {
        switch (a.kind) {
        case CORE_CALL: carry_out(d, a.call); break;
        case CORE_RUN: d->runs[d->runs_count++] = a.task; break;
        case CORE_RECALL: d->recalls++; break;
        case CORE_STOP_RUN:
            d->stopped_ids[d->stops_count] = a.task->body->id;
            d->stops[d->stops_count++] = a.reason;
            break;
        case CORE_SETTLED: note_settled(d, &a); break;
        case CORE_ANSWER: note_answer(d, a.request); break;
        case CORE_DROP:
            d->drops_count++;
            core_request_free(d->core, a.request);
            break;
        case CORE_DRAINED: d->drained++; break;
        case CORE_STOPPED:
            d->stopped++;
            d->stuck = a.stuck;
            break;
        case CORE_EVENT:
            d->events[a.event.kind]++;
            d->last_event[a.event.kind] = a.event;
            break;
        case CORE_LOG: snprintf(d->log, sizeof d->log, "%s", a.text); break;
        }
        core_check(d->core);
    }
}

void drive_advance(drive *d, int64_t us)
{
    int64_t end = d->now->boot_us + us;
    while (core_deadline(d->core) <= end) {
        int64_t step = core_deadline(d->core) - d->now->boot_us;
        if (step > 0) {
            d->now->boot_us += step;
            d->now->now_us += step;
        }
        core_tick(d->core, drive_now(d));
        drive_go(d);
    }
    d->now->now_us += end - d->now->boot_us;
    d->now->boot_us = end;
    core_tick(d->core, drive_now(d));
    drive_go(d);
}

void drive_start(drive *d)
{
    if (core_start(d->core, drive_now(d))) abort();
    drive_go(d);
}

core_request *drive_dispatch(drive *d, const char *type, const char *key, int64_t delay_us)
{
    pawl_body body = {.type = type, .queue = "default", .tenant = "", .key = key, .payload = {"{}", 2}};
    core_request *r = core_request_new(d->core, 1);
    r->ops[0].kind = PAWL_OP_INSERT;
    r->ops[0].u.insert.body = pawl_body_copy(alloc_default(), &body);
    r->ops[0].u.insert.delay_us = delay_us;
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
    return r;
}

core_request *drive_submit(drive *d, pawl_op op)
{
    core_request *r = core_request_new(d->core, 1);
    r->ops[0] = op;
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
    return r;
}

void drive_end_with(drive *d, int run, const core_outcome *outcome)
{
    core_task *t = d->runs[run];
    memmove(&d->runs[run], &d->runs[run + 1], (size_t)(--d->runs_count - run) * sizeof d->runs[0]);
    core_finished(d->core, drive_now(d), t, outcome);
    drive_go(d);
}

void drive_end(drive *d, int run, pawl_outcome outcome) { drive_end_with(d, run, &plain[outcome.kind]); }

pawl_state drive_state(drive *d, pawl_id id)
{
    pawl_query q = {.kind = PAWL_QUERY_STATE, .id = id};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_status status = d->store->type->read(d->store, &q, arena, NULL);
    arena_free(arena);
    return status == PAWL_OK ? q.state : PAWL_STATE_NONE;
}
