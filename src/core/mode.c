/* Starting, draining and stopping: what a node may do now, and when it is done with it. */
#include "core/engine.h"

pawl_status core_start(core *c, core_time now)
{
    c->now = now;
    if (!engine_prepare(c)) return PAWL_NO_MEMORY;
    if (c->mode == MODE_STARTED) return PAWL_OK;
    if (!throttle_register(c)) return PAWL_NO_MEMORY;
    c->mode = MODE_STARTED;
    c->asked_to_stop_runs = false;
    engine_timer_off(c, &c->stop_timer);
    if (c->node && !c->serving) { /* it registered to dispatch: serve as a new node that names its queues */
        c->old_node = c->node;
        c->node = 0;
        c->ids.number = 0;
    }
    claim_stir(c);
    c->news_wanted = true; /* recovery: the first news tell whom to rescue */
    engine_timer(c, &c->sweep_timer, now.mono_us + PAWL_SECOND + (int64_t)rng_below(&c->random, 4 * PAWL_SECOND));
    engine_event(c, PAWL_EVENT_NODE_STARTED, NULL, 0, 0, 0, c->node_name);
    engine_push(c);
    return PAWL_OK;
}

static void stop_starting(core *c, core_mode mode)
{
    c->mode = mode;
    c->news_wanted = false;
    c->victims_count = c->todo_count = 0;
    lease_plan(c);
    engine_timer_off(c, &c->news_timer);
    engine_timer_off(c, &c->sweep_timer);
    engine_timer_off(c, &c->recur_timer);
    engine_timer_off(c, &c->settle_timer);
    engine_timer_off(c, &c->rescue_timer);
    for (int i = 0; i < c->queues_count; i++) engine_timer_off(c, &c->queues[i].due);
    run_release_ready(c);
}

void core_drain(core *c, core_time now)
{
    c->now = now;
    if (c->mode != MODE_STARTED && c->mode != MODE_DRAINING && c->mode != MODE_IDLE) return;
    stop_starting(c, MODE_DRAINING);
    engine_push(c);
}

void core_stop(core *c, core_time now, int64_t grace_us, int64_t patience_us)
{
    c->now = now;
    if (c->mode == MODE_STOPPING || c->mode == MODE_LEAVING) return;
    stop_starting(c, MODE_STOPPING);
    c->patience_us = patience_us;
    c->asked_to_stop_runs = false;
    engine_timer(c, &c->stop_timer, now.mono_us + grace_us);
    engine_push(c);
}

/* The grace is over: ask the runs; the patience is over: tell that they would not. */
void mode_timer(core *c)
{
    if (c->asked_to_stop_runs) {
        c->stopped_stuck = c->held;
        c->mode = c->held > 0 ? MODE_DRAINING : MODE_STOPPED;
        if (!list_linked(&c->stopped.link)) engine_act(c, &c->stopped, CORE_STOPPED);
        return;
    }
    c->asked_to_stop_runs = true;
    map_each(node, &c->tasks) run_stop(c, container_of(node, core_task, by_id), PAWL_STOP_SHUTDOWN);
    engine_timer(c, &c->stop_timer, c->now.mono_us + c->patience_us);
}

void mode_check(core *c)
{
    if (c->held > 0) return;
    if (c->mode == MODE_DRAINING && !c->claim.busy) {
        c->mode = MODE_IDLE;
        engine_act(c, &c->drained, CORE_DRAINED);
    } else if (c->mode == MODE_STOPPING && batch_idle(c) && !c->claim.busy && !c->ids_call.busy && !c->reg.busy) {
        c->mode = MODE_LEAVING;
    } else if (c->mode == MODE_LEAVING && !c->node && !c->leave.busy && !c->ids_call.busy) {
        c->mode = MODE_STOPPED;
        c->stopped_stuck = 0;
        engine_timer_off(c, &c->stop_timer);
        engine_event(c, PAWL_EVENT_NODE_STOPPED, NULL, 0, 0, 0, c->node_name);
        engine_act(c, &c->stopped, CORE_STOPPED);
    }
}
