/* Parents, children and batches as a program sees them. */
#include "harness.h"

#define S PAWL_SECOND

/* Notes its payload, and the results of its parents if it has any. */
static pawl_outcome work(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl_bytes payload = pawl_run_payload(run);
    pawl_relatives *parents;
    char text[300] = "";
    ok(pawl_get_relatives(pawl_run_engine(run), pawl_run_id(run), PAWL_PARENTS, 0, 0, &parents, &w->err));
    for (size_t i = 0; i < parents->count; i++) {
        const pawl_relative *r = &parents->relatives[i];
        snprintf(text + strlen(text), sizeof text - strlen(text), "+%.*s", (int)r->result.len,
                 r->result.len ? r->result.data : "");
    }
    pawl_relatives_free(parents);
    note(w, "%.*s%s", (int)payload.len, payload.len ? payload.data : "", text);
    ok(pawl_run_result(run, payload, NULL, &w->err));
    return pawl_ok();
}

static pawl_outcome go_wrong(pawl_run *run, void *ctx)
{
    note(ctx, "failed");
    return pawl_fail(run, "no");
}

/* Three tasks and one that waits for them, all of them members of its own batch. */
static pawl_outcome fan_out(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl_relatives *batch;
    pawl_id ids[3];
    ok(pawl_get_relatives(pawl_run_engine(run), pawl_run_id(run), PAWL_BATCH_OF, 0, 0, &batch, &w->err));
    pawl_id within = batch->count ? batch->relatives[0].id : 0;
    pawl_relatives_free(batch);
    static const char *const payloads[] = {"1", "2", "3"};
    for (int i = 0; i < 3; i++) {
        pawl_task task = {.type = "work", .payload = pawl_str(payloads[i]), .batch = within};
        ok(pawl_run_spawn(run, &task, &ids[i], &w->err));
    }
    pawl_task join = {.type = "work", .payload = pawl_str("9"), .parents = ids, .parents_count = 3, .batch = within};
    ok(pawl_run_spawn(run, &join, NULL, &w->err));
    note(w, "out");
    return pawl_ok();
}

static const pawl_handler *handlers(world *w)
{
    static pawl_handler all[3];
    all[0] = (pawl_handler){.type = "work", .run = work, .ctx = w};
    all[1] = (pawl_handler){.type = "bad", .run = go_wrong, .ctx = w};
    all[2] = (pawl_handler){.type = "fan", .run = fan_out, .ctx = w};
    return all;
}

static void open_inline(world *w) { world_start(w, handlers(w), 3, (pawl_options){.inline_mode = true}); }
static void run_all(world *w) { ok(pawl_run_due(w->p, NULL, &w->err)); }

static pawl_id child_of(world *w, pawl_id parent, const char *payload, pawl_if_failed if_failed)
{
    return send(
        w, (pawl_task){
               .type = "work", .payload = pawl_str(payload), .parents = &parent, .parents_count = 1, .if_failed = if_failed});
}

static pawl_state state_of(world *w, pawl_id id)
{
    pawl_info *info = get(w, id);
    pawl_state state = info->state;
    pawl_info_free(info);
    return state;
}

static void a_chain_and_its_results(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_id a = send(w, (pawl_task){.type = "work", .payload = pawl_str("1")});
    pawl_id b = child_of(w, a, "2", 0), both[] = {a, b, a};
    send(w, (pawl_task){.type = "work", .payload = pawl_str("3"), .parents = both, .parents_count = 3});
    assert_int_equal(state_of(w, b), PAWL_WAITING);
    run_all(w);
    assert_string_equal(w->journal, "1 2+1 3+1+2");
}

static void a_graph_in_one_call(void **state)
{
    world *w = *state;
    open_inline(w);
    /* 0 before 1 and 2, both before 3 */
    pawl_id first[] = {PAWL_NTH(0)}, two[] = {PAWL_NTH(1), PAWL_NTH(2)};
    pawl_task tasks[] = {{.type = "work", .payload = pawl_str("1"), .delay_us = S},
                         {.type = "work", .payload = pawl_str("2"), .parents = first, .parents_count = 1},
                         {.type = "work", .payload = pawl_str("3"), .parents = first, .parents_count = 1, .key = "k"},
                         {.type = "work", .payload = pawl_str("4"), .parents = two, .parents_count = 2}};
    pawl_receipt receipts[4];
    ok(pawl_dispatch_bulk(w->p, tasks, 4, receipts, &w->err));
    for (int i = 0; i < 4; i++) assert_int_equal(receipts[i].status, PAWL_OK);
    run_all(w);
    assert_string_equal(w->journal, "");
    ok(pawl_advance(w->p, 2 * S, NULL, &w->err));
    assert_string_equal(w->journal, "1 2+1 3+1 4+2+3");
    tasks[0].parents = first; /* itself */
    tasks[0].parents_count = 1;
    refused(pawl_dispatch_bulk(w->p, tasks, 4, receipts, &w->err), PAWL_INVALID, "task 1 of 4: parent 1 is PAWL_NTH(0)");
    refused(pawl_dispatch(w->p, &tasks[1], NULL, &w->err), PAWL_INVALID, "PAWL_NTH(0)");
}

static void policies(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_id bad = send(w, (pawl_task){.type = "bad"});
    pawl_id cancelled = child_of(w, bad, "1", PAWL_IF_FAILED_CANCEL), last = child_of(w, cancelled, "2", 0);
    child_of(w, bad, "3", PAWL_IF_FAILED_RUN);
    pawl_id held = child_of(w, bad, "4", PAWL_IF_FAILED_HOLD);
    run_all(w);
    assert_string_equal(w->journal, "failed 3+");
    assert_int_equal(state_of(w, cancelled), PAWL_CANCELLED);
    assert_int_equal(state_of(w, last), PAWL_CANCELLED);
    pawl_why_answer why;
    ok(pawl_why(w->p, held, &why, &w->err));
    assert_string_equal(why.code, "held");
    assert_non_null(strstr(why.text, "(bad) failed"));
    ok(pawl_cancel(w->p, held, NULL, &w->err));
    assert_int_equal(state_of(w, held), PAWL_CANCELLED);
}

static void spawned_fan_in(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_id batch;
    pawl_task report = {.type = "work", .payload = pawl_str("100")};
    ok(pawl_open_batch(w->p, &(pawl_batch_options){.name = "all", .on_succeeded = &report}, &batch, &w->err));
    send(w, (pawl_task){.type = "fan", .batch = batch});
    ok(pawl_close_batch(w->p, batch, NULL, &w->err));
    run_all(w);
    assert_string_equal(w->journal, "out 1 2 3 9+1+2+3 100+");
    pawl_batch_info *info;
    ok(pawl_get_batch(w->p, 0, "all", &info, &w->err));
    assert_true(info->id == batch && info->total == 5 && info->succeeded == 5 && info->state == PAWL_SUCCEEDED);
    pawl_batch_info_free(info);
}

static void callbacks_of_a_batch(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_id batch, inner;
    pawl_task finished = {.type = "work", .payload = pawl_str("7")}, succeeded = {.type = "work", .payload = pawl_str("8")};
    pawl_batch_options o = {.name = "b", .on_finished = &finished, .on_succeeded = &succeeded};
    ok(pawl_open_batch(w->p, &o, &batch, &w->err));
    refused(pawl_open_batch(w->p, &o, &inner, &w->err), PAWL_CONFLICT, "there is a batch 'b' already");
    ok(pawl_open_batch(w->p, &(pawl_batch_options){.within = batch}, &inner, &w->err));
    send(w, (pawl_task){.type = "bad", .batch = inner});
    send(w, (pawl_task){.type = "work", .payload = pawl_str("1"), .batch = batch});
    ok(pawl_close_batch(w->p, batch, NULL, &w->err));
    refused(pawl_close_batch(w->p, batch, NULL, &w->err), PAWL_CONFLICT, "was closed before");
    run_all(w);
    assert_string_equal(w->journal, "failed 1");
    ok(pawl_close_batch(w->p, inner, NULL, &w->err));
    run_all(w);
    assert_string_equal(w->journal, "failed 1 7+");
    pawl_batches *page;
    ok(pawl_list_batches(w->p, &(pawl_batch_filter){.limit = 1}, &page, &w->err));
    assert_true(page->count == 1 && page->batches[0].id == inner && page->batches[0].state == PAWL_FAILED && page->next);
    pawl_batches_free(page);
}

static void refusals(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_id nobody = 4711, zero = 0, batch, done = send(w, (pawl_task){.type = "work"});
    pawl_task task = {.type = "work", .parents = &nobody, .parents_count = 1};
    refused(pawl_dispatch(w->p, &task, NULL, &w->err), PAWL_NOT_FOUND, "there is no task or batch");
    task.parents_count = PAWL_PARENTS_MAX + 1;
    refused(pawl_dispatch(w->p, &task, NULL, &w->err), PAWL_INVALID, "too many");
    task = (pawl_task){.type = "work", .parents_count = 1};
    refused(pawl_dispatch(w->p, &task, NULL, &w->err), PAWL_INVALID, "NULL");
    task.parents = &zero;
    refused(pawl_dispatch(w->p, &task, NULL, &w->err), PAWL_INVALID, "parent 1 is 0");
    task = (pawl_task){.type = "work", .if_failed = 9};
    refused(pawl_dispatch(w->p, &task, NULL, &w->err), PAWL_INVALID, "pawl_if_failed");
    task = (pawl_task){.type = "work", .batch = done};
    refused(pawl_dispatch(w->p, &task, NULL, &w->err), PAWL_NOT_FOUND, "there is no task or batch");
    ok(pawl_open_batch(w->p, NULL, &batch, &w->err));
    ok(pawl_close_batch(w->p, batch, "ann", &w->err));
    task.batch = batch;
    refused(pawl_dispatch(w->p, &task, NULL, &w->err), PAWL_CONFLICT, "is closed");
    refused(pawl_cancel_batch(w->p, batch, NULL, &w->err), PAWL_CONFLICT, "has ended");
    refused(pawl_close_batch(w->p, nobody, NULL, &w->err), PAWL_NOT_FOUND, "there is no batch");
    refused(pawl_open_batch(w->p, &(pawl_batch_options){.within = nobody}, NULL, &w->err), PAWL_NOT_FOUND, "to be within");
    refused(pawl_open_batch(w->p, &(pawl_batch_options){.on_finished = &task}, NULL, &w->err), PAWL_INVALID, "neither parents");
    pawl_batch_info *info;
    refused(pawl_get_batch(w->p, 0, "x", &info, &w->err), PAWL_NOT_FOUND, "there is no batch 'x'");
}

/* ---- with threads -------------------------------------------------------------------------------------------------------- */

static pawl_outcome hold_on(pawl_run *run, void *ctx)
{
    (void)run;
    gate_pass(ctx);
    return pawl_ok();
}

static int size_of(const char *name, int usual)
{
    const char *text = getenv(name);
    return text ? atoi(text) : usual;
}

static int wide(void) { return size_of("PAWL_FAMILY_WIDE", 1500); }
static int deep(void) { return size_of("PAWL_FAMILY_DEEP", 1200); }

static void await_long(world *w, pawl_id id, pawl_state wanted)
{
    pawl_state state = PAWL_STATE_NONE;
    ok(pawl_wait(w->p, id, 20 * PATIENCE, &state, &w->err));
    assert_int_equal(state, wanted);
}

static void start(world *w, gate *g)
{
    const pawl_handler all[] = {{.type = "parent", .run = hold_on, .ctx = g}, {.type = "t", .run = succeed}};
    world_start(w, all, 2, (pawl_options){.workers = 2, .capacity = 2 * wide() + 2 * deep()});
}

/* Many children of one parent, members of one batch. */
static void send_children(world *w, pawl_id parent, pawl_id batch, int count)
{
    pawl_task *tasks = calloc(PAWL_BULK_MAX, sizeof *tasks);
    for (int i = 0; i < PAWL_BULK_MAX; i++)
        tasks[i] = (pawl_task){.type = "t", .parents = &parent, .parents_count = 1, .batch = batch};
    for (int left = count; left > 0; left -= PAWL_BULK_MAX)
        ok(pawl_dispatch_bulk(w->p, tasks, (size_t)(left < PAWL_BULK_MAX ? left : PAWL_BULK_MAX), NULL, &w->err));
    free(tasks);
}

/* More children than one commit tells, and one who waits for the last of them. Others are not kept waiting meanwhile. */
static void many_children_run(void **state)
{
    world *w = *state;
    gate g = GATE;
    start(w, &g);
    pawl_id parent = send(w, (pawl_task){.type = "parent"}), batch;
    ok(pawl_open_batch(w->p, NULL, &batch, &w->err));
    send_children(w, parent, batch, wide());
    ok(pawl_close_batch(w->p, batch, NULL, &w->err));
    pawl_id last = send(w, (pawl_task){.type = "t", .parents = &batch, .parents_count = 1});
    gate_open(&g);
    await(w, send(w, (pawl_task){.type = "t", .priority = -1}), PAWL_SUCCEEDED);
    await_long(w, last, PAWL_SUCCEEDED);
    pawl_batch_info *info;
    ok(pawl_get_batch(w->p, batch, NULL, &info, &w->err));
    assert_int_equal(info->succeeded, wide());
    pawl_batch_info_free(info);
}

/* A chain that begins with `first`; its last task. */
static pawl_id send_chain(world *w, pawl_id first, int count)
{
    pawl_task *tasks = calloc((size_t)count, sizeof *tasks);
    pawl_id *parents = calloc((size_t)count, sizeof *parents);
    pawl_receipt *receipts = calloc((size_t)count, sizeof *receipts);
    for (int i = 0; i < count; i++) {
        parents[i] = i ? PAWL_NTH(i - 1) : first;
        tasks[i] = (pawl_task){.type = "t", .parents = &parents[i], .parents_count = 1};
    }
    ok(pawl_dispatch_bulk(w->p, tasks, (size_t)count, receipts, &w->err));
    pawl_id last = receipts[count - 1].id;
    free(tasks);
    free(parents);
    free(receipts);
    return last;
}

static void a_deep_chain_runs(void **state)
{
    world *w = *state;
    gate g = GATE;
    start(w, &g);
    pawl_id last = send_chain(w, send(w, (pawl_task){.type = "parent"}), deep() < PAWL_BULK_MAX ? deep() / 4 : PAWL_BULK_MAX);
    gate_open(&g);
    await_long(w, last, PAWL_SUCCEEDED);
}

/* Children that are cancelled by steps: whoever waits for one of them is told. */
static void cancel_cascades(void **state)
{
    world *w = *state;
    gate g = GATE;
    start(w, &g);
    pawl_id first = send(w, (pawl_task){.type = "t", .delay_us = PAWL_HOUR}), batch;
    pawl_id last = send_chain(w, first, deep());
    ok(pawl_cancel(w->p, first, NULL, &w->err));
    await_long(w, last, PAWL_CANCELLED);
    ok(pawl_open_batch(w->p, NULL, &batch, &w->err));
    first = send(w, (pawl_task){.type = "t", .delay_us = PAWL_HOUR});
    pawl_id after = send(w, (pawl_task){.type = "t", .parents = &batch, .parents_count = 1, .if_failed = PAWL_IF_FAILED_RUN});
    send_children(w, first, batch, wide());
    ok(pawl_cancel_batch(w->p, batch, NULL, &w->err));
    await_long(w, after, PAWL_SUCCEEDED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_and_its_results), TEST(a_graph_in_one_call),  TEST(policies),
        TEST(spawned_fan_in),          TEST(callbacks_of_a_batch), TEST(refusals),
        TEST(many_children_run),       TEST(a_deep_chain_runs),    TEST(cancel_cascades),
    };
    return RUN_TESTS("family", tests);
}
