/* The life of an engine: start, drain, stop, close, at good and at bad moments; several engines on one store; memory that runs
 * out. */
#include "harness.h"

extern int64_t runtime_patience_us; /* the engine's own; shortened here */

typedef struct stage {
    world *w;
    gate entered, leave, destroyed;
    atomic_int runs;
} stage;

#define STAGE                                                     \
    {                                                             \
        .w = w, .entered = GATE, .leave = GATE, .destroyed = GATE \
    }

/* Ignores every request to stop. */
static pawl_outcome stubborn(pawl_run *run, void *ctx)
{
    stage *s = ctx;
    (void)run;
    atomic_fetch_add(&s->runs, 1);
    gate_open(&s->entered);
    gate_pass(&s->leave);
    return pawl_ok();
}

/* Ends when it is asked to. */
static pawl_outcome polite(pawl_run *run, void *ctx)
{
    stage *s = ctx;
    gate_open(&s->entered);
    if (atomic_fetch_add(&s->runs, 1) > 0) return pawl_ok();
    pawl_stop_reason reason = pawl_run_sleep(run, 1000 * PAWL_SECOND);
    note(s->w, "%d", (int)reason);
    return pawl_retry(run, "interrupted");
}

static void destroy(void *ctx) { gate_open(&((stage *)ctx)->destroyed); }

static void start_stop_start(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){0});
    await(w, send(w, (pawl_task){.type = "t"}), PAWL_SUCCEEDED);
    ok(pawl_stop(w->p, &w->err));
    ok(pawl_stop(w->p, &w->err));
    pawl_id id = send(w, (pawl_task){.type = "t"});
    refused(pawl_wait(w->p, id, 0, NULL, &w->err), PAWL_TIMEOUT, "pending");
    ok(pawl_start(w->p, &w->err));
    await(w, id, PAWL_SUCCEEDED);
}

static int64_t own_node(world *w)
{
    pawl_nodes *nodes;
    ok(pawl_get_nodes(w->p, &nodes, &w->err));
    int64_t node = nodes->count ? nodes->nodes[nodes->count - 1].id : 0;
    pawl_nodes_free(nodes);
    return node;
}

static void drained_by_somebody(void **state)
{
    world *w = *state;
    stage s = STAGE;
    pawl_handler handlers[] = {{.type = "t", .run = stubborn, .ctx = &s}, {.type = "u", .run = succeed}};
    world_start(w, handlers, 2, (pawl_options){.workers = 1});
    pawl_id running = send(w, (pawl_task){.type = "t"});
    gate_pass(&s.entered);
    int64_t node = own_node(w);
    ok(pawl_drain_node(w->p, node, true, "ann", &w->err));
    pawl_id waits = send(w, (pawl_task){.type = "u"});
    gate_open(&s.leave);
    await(w, running, PAWL_SUCCEEDED);
    refused(pawl_wait(w->p, waits, 0, NULL, &w->err), PAWL_TIMEOUT, "pending");
    pawl_why_answer why;
    ok(pawl_why(w->p, waits, &why, &w->err));
    assert_string_equal(why.code, "draining");
    ok(pawl_drain_node(w->p, node, true, NULL, &w->err));
    ok(pawl_drain_node(w->p, node, false, "ann", &w->err));
    await(w, waits, PAWL_SUCCEEDED);
    refused(pawl_drain_node(w->p, node + 1000, true, NULL, &w->err), PAWL_NOT_FOUND, "lives");
    ok(pawl_drain(w->p, 10 * PAWL_SECOND, &w->err)); /* its own program: nobody else ends that */
    ok(pawl_drain_node(w->p, node, false, NULL, &w->err));
    pawl_id later = send(w, (pawl_task){.type = "u"});
    refused(pawl_wait(w->p, later, 0, NULL, &w->err), PAWL_TIMEOUT, "pending");
}

static void drain(void **state)
{
    world *w = *state;
    stage s = STAGE;
    world_start(w, &(pawl_handler){.type = "t", .run = stubborn, .ctx = &s}, 1, (pawl_options){.workers = 1});
    pawl_id running = send(w, (pawl_task){.type = "t"});
    gate_pass(&s.entered);
    pawl_id waiting = send(w, (pawl_task){.type = "t"});
    refused(pawl_drain(w->p, 0, &w->err), PAWL_TIMEOUT, "still going on");
    pawl_id later = send(w, (pawl_task){.type = "t"}); /* dispatch still works */
    gate_open(&s.leave);
    ok(pawl_drain(w->p, PATIENCE, &w->err));
    await(w, running, PAWL_SUCCEEDED);
    refused(pawl_wait(w->p, waiting, 0, NULL, &w->err), PAWL_TIMEOUT, "pending");
    assert_int_equal(atomic_load(&s.runs), 1);
    gate_open(&s.leave);
    gate_open(&s.leave);
    ok(pawl_start(w->p, &w->err));
    await(w, waiting, PAWL_SUCCEEDED);
    await(w, later, PAWL_SUCCEEDED);
}

static void interrupted_runs_cost_nothing(void **state)
{
    world *w = *state;
    stage s = STAGE;
    world_start(w, &(pawl_handler){.type = "t", .run = polite, .ctx = &s, .max_attempts = 1}, 1, (pawl_options){.grace_us = -1});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    gate_pass(&s.entered);
    ok(pawl_stop(w->p, &w->err));
    pawl_info *i = get(w, id);
    assert_int_equal(i->state, PAWL_PENDING);
    assert_int_equal(i->interruptions, 1);
    assert_int_equal(i->failures, 0);
    assert_string_equal(i->attempts[0].outcome, "interrupted");
    pawl_info_free(i);
    ok(pawl_start(w->p, &w->err));
    await(w, id, PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "3");
}

static void stop_with_stuck_handler(void **state)
{
    world *w = *state;
    stage s = STAGE;
    runtime_patience_us = 30 * PAWL_MILLISECOND;
    world_start(w, &(pawl_handler){.type = "t", .run = stubborn, .ctx = &s}, 1, (pawl_options){.grace_us = -1});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    gate_pass(&s.entered);
    refused(pawl_stop(w->p, &w->err), PAWL_TIMEOUT, "1 run did not return");
    pawl_info *i = get(w, id);
    assert_int_equal(i->state, PAWL_LEASED); /* kept: nobody else may run it beside */
    pawl_info_free(i);
    gate_open(&s.leave);
    await(w, id, PAWL_SUCCEEDED);
    runtime_patience_us = 5 * PAWL_SECOND;
    world_close(w);
}

static void close_with_stuck_handler(void **state)
{
    world *w = *state;
    stage s = STAGE;
    runtime_patience_us = 30 * PAWL_MILLISECOND;
    pawl_handler handler = {.type = "t", .run = stubborn, .ctx = &s, .destroy = destroy};
    world_start(w, &handler, 1, (pawl_options){.grace_us = -1});
    pawl *p = w->p;
    pawl_id id = send(w, (pawl_task){.type = "t"});
    gate_pass(&s.entered);
    assert_int_equal(pawl_close(p), pawl_status_exit_code(PAWL_TIMEOUT));
    runtime_patience_us = 5 * PAWL_SECOND;
    refused(pawl_start(p, &w->err), PAWL_CLOSED, "closed");
    gate_open(&s.leave);
    gate_pass(&s.destroyed); /* in the background, once the run has returned */
    w->p = world_open(w, (pawl_options){0});
    if (w->sqlite) await(w, id, PAWL_SUCCEEDED);
    assert_non_null(strstr(w->log, "would not return"));
    world_close(w);
    while (atomic_load(&w->blocks) > 0) sched_yield(); /* the background gives back the rest right after */
}

static void destroy_is_called_once(void **state)
{
    world *w = *state;
    stage s = STAGE;
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = stubborn, .ctx = &s, .destroy = destroy}, &w->err));
    world_close(w);
    assert_int_equal(s.destroyed.count, 1);
}

/* ---- closing under others ------------------------------------------------------------------------------------------------ */

typedef struct caller {
    world *w;
    gate about_to;
    pawl_id id;
    pawl_status status;
    pthread_t thread;
} caller;

static void *wait_for_ever(void *ctx)
{
    caller *c = ctx;
    gate_open(&c->about_to);
    c->status = pawl_wait(c->w->p, c->id, -1, NULL, NULL);
    return NULL;
}

static void *dispatch_into_full(void *ctx)
{
    caller *c = ctx;
    gate_open(&c->about_to);
    c->status = pawl_dispatch(c->w->p, &(pawl_task){.type = "t", .queue = "small"}, NULL, NULL);
    return NULL;
}

static void *next_event(void *ctx)
{
    caller *c = ctx;
    pawl_event event;
    while (pawl_next_event((pawl_subscription *)c->w, -1, &event))
        note((world *)(intptr_t)c->id, "%s", pawl_event_name(event.kind));
    return NULL;
}

static void close_ends_calls_under_way(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "small", .depth_limit = 1}, &w->err));
    pawl_subscription *s;
    ok(pawl_subscribe(w->p, 0, &s, &w->err));
    pawl_id id = send(w, (pawl_task){.type = "t", .queue = "small"});
    caller waits = {.w = w, .about_to = GATE, .id = id}, full = {.w = w, .about_to = GATE};
    caller events = {.w = (world *)s, .id = (intptr_t)w};
    pthread_create(&waits.thread, NULL, wait_for_ever, &waits);
    pthread_create(&full.thread, NULL, dispatch_into_full, &full);
    pthread_create(&events.thread, NULL, next_event, &events);
    gate_pass(&waits.about_to);
    gate_pass(&full.about_to);
    assert_int_equal(pawl_close(w->p), 0);
    pthread_join(waits.thread, NULL);
    pthread_join(full.thread, NULL);
    pthread_join(events.thread, NULL);
    w->p = NULL;
    pawl_unsubscribe(s);
    assert_int_equal(waits.status, PAWL_CLOSED);
    assert_int_equal(full.status, PAWL_CLOSED);
    assert_non_null(strstr(w->journal, "dispatched"));
}

static pawl_outcome dispatch_while_closing(pawl_run *run, void *ctx)
{
    stage *s = ctx;
    gate_open(&s->entered);
    while (pawl_run_stopping(run) == PAWL_GO_ON) pawl_run_sleep(run, PAWL_SECOND);
    note(s->w, "%s", pawl_status_name(pawl_dispatch(pawl_run_engine(run), &(pawl_task){.type = "other"}, NULL, NULL)));
    return pawl_ok();
}

static void handlers_may_dispatch_while_closing(void **state)
{
    world *w = *state;
    stage s = STAGE;
    world_start(w, &(pawl_handler){.type = "t", .run = dispatch_while_closing, .ctx = &s}, 1, (pawl_options){.grace_us = -1});
    send(w, (pawl_task){.type = "t"});
    gate_pass(&s.entered);
    world_close(w);
    assert_string_equal(w->journal, "ok");
}

static void count_callback(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    (void)err;
    atomic_fetch_add((atomic_int *)ctx, receipt->status == PAWL_OK || receipt->status == PAWL_UNKNOWN ? 1 : 1000);
}

static void close_answers_every_callback(void **state)
{
    world *w = *state;
    atomic_int answers = 0;
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "small", .depth_limit = 1}, &w->err));
    for (int i = 0; i < 20; i++) ok(pawl_dispatch_async(w->p, &(pawl_task){.type = "t"}, count_callback, &answers, &w->err));
    send(w, (pawl_task){.type = "t", .queue = "small"});
    ok(pawl_dispatch_async(w->p, &(pawl_task){.type = "t", .queue = "small"}, count_callback, &answers, &w->err));
    world_close(w);
    assert_int_equal(atomic_load(&answers), 1020); /* the one that waited for room was refused */
}

/* ---- several engines on one file ----------------------------------------------------------------------------------------- */

static pawl_outcome note_node(pawl_run *run, void *ctx)
{
    stage *s = ctx;
    (void)run;
    atomic_fetch_add(&s->runs, 1);
    return pawl_ok();
}

static void engines_share_the_work(void **state)
{
    world *w = *state;
    if (!w->sqlite) skip();
    stage a = STAGE, b = STAGE;
    world_start(w, &(pawl_handler){.type = "t", .run = note_node, .ctx = &a}, 1, (pawl_options){.name = "a", .workers = 1});
    pawl *other = world_open(w, (pawl_options){.name = "b", .workers = 1});
    pawl_handler handlers[] = {{.type = "t", .run = note_node, .ctx = &b}, {.type = "only-b", .run = note_node, .ctx = &b}};
    for (int i = 0; i < 2; i++) ok(pawl_handle(other, &handlers[i], &w->err));
    ok(pawl_start(other, &w->err));
    pawl_task tasks[60];
    pawl_receipt receipts[60];
    for (int i = 0; i < 60; i++) tasks[i] = (pawl_task){.type = i % 10 ? "t" : "only-b"};
    ok(pawl_dispatch_bulk(w->p, tasks, 60, receipts, &w->err));
    for (int i = 0; i < 60; i++) await(w, receipts[i].id, PAWL_SUCCEEDED); /* told of b's commits too */
    assert_int_equal(atomic_load(&a.runs) + atomic_load(&b.runs), 60);
    assert_true(atomic_load(&b.runs) >= 6);
    pawl_nodes *nodes;
    ok(pawl_get_nodes(w->p, &nodes, &w->err));
    assert_int_equal(nodes->count, 2);
    assert_true(nodes->nodes[0].alive && nodes->nodes[1].alive);
    pawl_nodes_free(nodes);
    assert_int_equal(pawl_close(other), 0);
}

static void cancel_on_another_engine(void **state)
{
    world *w = *state;
    if (!w->sqlite) skip();
    stage s = STAGE;
    world_start(w, &(pawl_handler){.type = "t", .run = polite, .ctx = &s}, 1, (pawl_options){0});
    pawl *other = world_open(w, (pawl_options){0});
    pawl_id id;
    ok(pawl_dispatch(other, &(pawl_task){.type = "t"}, &id, &w->err));
    gate_pass(&s.entered);
    ok(pawl_cancel(other, id, NULL, &w->err));
    pawl_state found;
    ok(pawl_wait(other, id, PATIENCE, &found, &w->err));
    assert_int_equal(found, PAWL_CANCELLED);
    assert_int_equal(pawl_close(other), 0);
    assert_string_equal(w->journal, "1");
}

/* ---- memory runs out ----------------------------------------------------------------------------------------------------- */

static void nothing(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static pawl_status short_life(world *w)
{
    pawl *p;
    pawl_id id;
    pawl_info *info = NULL;
    pawl_options options = {.store = w->url, .allocator = w->allocator, .log = nothing, .inline_mode = true};
    pawl_status status = pawl_open(&options, &p, NULL);
    if (status) return status;
    status = pawl_handle(p, &(pawl_handler){.type = "t", .run = succeed}, NULL);
    if (!status) status = pawl_start(p, NULL);
    if (!status) status = pawl_dispatch(p, &(pawl_task){.type = "t", .key = "k"}, &id, NULL);
    if (!status) status = pawl_run_due(p, NULL, NULL);
    if (!status) status = pawl_get(p, id, &info, NULL);
    pawl_info_free(info);
    atomic_store(&w->fail_at, 0);
    pawl_close(p);
    return status;
}

static void memory_runs_out_anywhere(void **state)
{
    world *w = *state;
    long n = 0;
    pawl_status status = PAWL_NO_MEMORY;
    while (status != PAWL_OK) {
        atomic_store(&w->allocations, 0);
        atomic_store(&w->fail_at, ++n);
        status = short_life(w);
        bool expected = status == PAWL_OK || status == PAWL_NO_MEMORY || status == PAWL_UNAVAILABLE;
        if (!expected) print_error("allocation %ld: %s\n", n, pawl_status_name(status));
        assert_true(expected);
        assert_int_equal(atomic_load(&w->blocks), 0);
        assert_true(n < 5000);
    }
    assert_true(n > 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(start_stop_start),
        TEST(drain),
        TEST(drained_by_somebody),
        TEST(interrupted_runs_cost_nothing),
        TEST(stop_with_stuck_handler),
        TEST(close_with_stuck_handler),
        TEST(destroy_is_called_once),
        TEST(close_ends_calls_under_way),
        TEST(handlers_may_dispatch_while_closing),
        TEST(close_answers_every_callback),
        TEST(engines_share_the_work),
        TEST(cancel_on_another_engine),
        TEST(memory_runs_out_anywhere),
    };
    return RUN_TESTS("life", tests);
}
