/* Dispatch: outcomes, keys, order, times, bulk, callbacks, full queues. */
#include "harness.h"

/* A handler that waits at a gate, and tells that it does. */
typedef struct block {
    world *w;
    gate entered, leave;
} block;

#define BLOCK                                  \
    {                                          \
        .w = w, .entered = GATE, .leave = GATE \
    }

static pawl_outcome wait_at_gate(pawl_run *run, void *ctx)
{
    block *b = ctx;
    pawl_bytes payload = pawl_run_payload(run);
    note(b->w, "%.*s", (int)payload.len, payload.data);
    gate_open(&b->entered);
    gate_pass(&b->leave);
    return pawl_ok();
}

static pawl_receipt send_full(world *w, pawl_task task)
{
    pawl_receipt receipt = {0};
    ok(pawl_dispatch_full(w->p, &task, &receipt, &w->err));
    assert_int_equal(receipt.status, PAWL_OK);
    return receipt;
}

static void check(pawl_receipt receipt, pawl_dispatched outcome, pawl_id id)
{
    assert_string_equal(pawl_dispatched_name(receipt.outcome), pawl_dispatched_name(outcome));
    if (id) assert_int_equal(receipt.id, id);
}

static void runs_and_keeps_everything(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){.name = "here"});
    pawl_id id = send(w, (pawl_task){.type = "t", .payload = pawl_str(" {\"a\" : 1}\n")});
    await(w, id, PAWL_SUCCEEDED);
    pawl_info *i = get(w, id);
    assert_string_equal(i->display, "succeeded");
    assert_int_equal(i->payload.len, 11);
    assert_memory_equal(i->payload.data, " {\"a\" : 1}\n", 11);
    assert_int_equal(i->attempts_count, 1);
    assert_string_equal(i->attempts[0].outcome, "succeeded");
    assert_string_equal(i->attempts[0].node_name, "here");
    assert_true(i->finished_us >= i->started_us && i->started_us > 0 && i->created_us > 0);
    assert_true(i->fence > 0);
    pawl_info_free(i);
}

static void keys(void **state)
{
    world *w = *state;
    block b = BLOCK;
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = wait_at_gate, .ctx = &b}, &w->err));
    pawl_task task = {.type = "t", .key = "k", .payload = pawl_str("1")};
    pawl_receipt first = send_full(w, task);
    check(first, PAWL_CREATED, 0);
    task.payload = pawl_str("2");
    check(send_full(w, task), PAWL_UPDATED, first.id);
    task.tenant = "other";
    pawl_receipt other = send_full(w, task);
    check(other, PAWL_CREATED, 0);
    assert_true(other.id != first.id);
    ok(pawl_cancel(w->p, other.id, NULL, &w->err));
    task.tenant = NULL;
    ok(pawl_start(w->p, &w->err));
    gate_pass(&b.entered);
    task.payload = pawl_str("3");
    check(send_full(w, task), PAWL_EXISTING, first.id);
    gate_open(&b.leave);
    await(w, first.id, PAWL_SUCCEEDED);
    pawl_receipt again = send_full(w, task);
    check(again, PAWL_REPLACED, 0);
    assert_true(again.id != first.id);
    gate_pass(&b.entered);
    gate_open(&b.leave);
    await(w, again.id, PAWL_SUCCEEDED);
    world_close(w);
    assert_string_equal(w->journal, "2 3");
}

static pawl_outcome dispatch_own_key(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl_receipt receipt = {0};
    pawl_status status =
        pawl_dispatch_full(pawl_run_engine(run), &(pawl_task){.type = "t", .key = pawl_run_key(run)}, &receipt, NULL);
    note(w, "%s %s %d", pawl_status_name(status), pawl_dispatched_name(receipt.outcome), receipt.id == pawl_run_id(run));
    return pawl_ok();
}

static void own_key_while_running(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = dispatch_own_key, .ctx = w}, 1, (pawl_options){0});
    await(w, send(w, (pawl_task){.type = "t", .key = "k"}), PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "ok existing 1");
}

static void id_handed_back(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    check(send_full(w, (pawl_task){.type = "t", .id = id}), PAWL_EXISTING, id);
    check(send_full(w, (pawl_task){.type = "t", .id = id - 1}), PAWL_CREATED, id - 1);
    check(send_full(w, (pawl_task){.type = "t", .id = id - 1}), PAWL_EXISTING, id - 1);
}

static void priorities_and_order(void **state)
{
    world *w = *state;
    block b = BLOCK;
    w->p = world_open(w, (pawl_options){.workers = 1});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = wait_at_gate, .ctx = &b}, &w->err));
    int priorities[] = {0, 5, -5, 0, -32768, 32767};
    const char *payloads[] = {"3", "5", "2", "4", "1", "6"};
    pawl_id ids[6];
    for (int i = 0; i < 6; i++) {
        ids[i] = send(w, (pawl_task){.type = "t", .priority = priorities[i], .payload = pawl_str(payloads[i])});
        gate_open(&b.leave);
    }
    ok(pawl_start(w->p, &w->err));
    for (int i = 0; i < 6; i++) await(w, ids[i], PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "1 2 3 4 5 6");
}

static void delay_and_at(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){0});
    int64_t now = pawl_now(w->p);
    pawl_id late = send(w, (pawl_task){.type = "t", .delay_us = PAWL_HOUR});
    pawl_id soon = send(w, (pawl_task){.type = "t", .delay_us = 50 * PAWL_MILLISECOND});
    pawl_id at = send(w, (pawl_task){.type = "t", .at_us = now + 500 * PAWL_MILLISECOND});
    pawl_id past = send(w, (pawl_task){.type = "t", .at_us = 5});
    await(w, past, PAWL_SUCCEEDED);
    await(w, soon, PAWL_SUCCEEDED);
    await(w, at, PAWL_SUCCEEDED);
    pawl_info *i = get(w, soon);
    assert_true(i->started_us >= now + 50 * PAWL_MILLISECOND);
    pawl_info_free(i);
    i = get(w, at);
    assert_true(i->started_us >= now + 500 * PAWL_MILLISECOND);
    assert_int_equal(i->run_at_us, now + 500 * PAWL_MILLISECOND);
    pawl_info_free(i);
    i = get(w, late);
    assert_string_equal(i->display, "scheduled");
    assert_true(i->run_at_us >= now + PAWL_HOUR);
    pawl_info_free(i);
    refused(pawl_wait(w->p, late, 0, NULL, &w->err), PAWL_TIMEOUT, "pending");
}

static void bulk_with_duplicate_keys(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_task tasks[] = {
        {.type = "t", .key = "a", .payload = pawl_str("1")}, {.type = "t"},
        {.type = "t", .key = "a", .payload = pawl_str("2")}, {.type = "t", .key = "a", .tenant = "x"},
        {.type = "t", .key = "a", .payload = pawl_str("3")},
    };
    pawl_receipt r[5];
    ok(pawl_dispatch_bulk(w->p, tasks, 5, r, &w->err));
    check(r[0], PAWL_CREATED, 0);
    check(r[1], PAWL_CREATED, 0);
    check(r[2], PAWL_UPDATED, r[0].id);
    check(r[3], PAWL_CREATED, 0);
    check(r[4], PAWL_UPDATED, r[0].id);
    assert_true(r[0].id != r[1].id && r[0].id != r[3].id && r[1].id != r[3].id);
    pawl_info *i = get(w, r[0].id);
    assert_memory_equal(i->payload.data, "3", 1);
    pawl_info_free(i);
    ok(pawl_dispatch_bulk(w->p, tasks, 5, r, &w->err));
    check(r[0], PAWL_UPDATED, 0);
    check(r[4], PAWL_UPDATED, r[0].id);
}

static void large_bulk(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){.capacity = 20000});
    enum { N = 5000 };
    pawl_task *tasks = calloc(N, sizeof *tasks);
    pawl_receipt *receipts = calloc(N, sizeof *receipts);
    for (int i = 0; i < N; i++) tasks[i] = (pawl_task){.type = "t", .payload = pawl_str("[1,2,3]")};
    ok(pawl_dispatch_bulk(w->p, tasks, N, receipts, &w->err));
    for (int i = 0; i < N; i++) await(w, receipts[i].id, PAWL_SUCCEEDED);
    free(tasks);
    free(receipts);
}

typedef struct answer {
    gate came;
    pawl_receipt receipt;
    bool failed;
} answer;

static void keep_answer(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    answer *a = ctx;
    a->receipt = *receipt;
    a->failed = err;
    gate_open(&a->came);
}

static void with_callback(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){0});
    enum { N = 50 };
    static answer answers[N];
    for (int i = 0; i < N; i++) {
        answers[i] = (answer){.came = GATE};
        ok(pawl_dispatch_async(w->p, &(pawl_task){.type = "t"}, keep_answer, &answers[i], &w->err));
    }
    for (int i = 0; i < N; i++) {
        gate_pass(&answers[i].came);
        assert_false(answers[i].failed);
        check(answers[i].receipt, PAWL_CREATED, 0);
        await(w, answers[i].receipt.id, PAWL_SUCCEEDED);
    }
    refused(pawl_dispatch_async(w->p, &(pawl_task){.type = ""}, keep_answer, &answers[0], &w->err), PAWL_INVALID, "type");
}

static pawl_outcome dispatch_into_full(pawl_run *run, void *ctx)
{
    block *b = ctx;
    pawl_status status = pawl_dispatch(pawl_run_engine(run), &(pawl_task){.type = "t", .queue = "small"}, NULL, NULL);
    note(b->w, "%s", pawl_status_name(status));
    return pawl_ok();
}

static void *dispatch_and_tell(void *ctx)
{
    block *b = ctx;
    pawl_status status =
        pawl_dispatch(b->w->p, &(pawl_task){.type = "t", .queue = "small", .payload = pawl_str("3")}, NULL, NULL);
    note(b->w, "%s", pawl_status_name(status));
    gate_open(&b->entered);
    return NULL;
}

static void full_queues(void **state)
{
    world *w = *state;
    block b = BLOCK;
    w->p = world_open(w, (pawl_options){.dispatch_timeout_us = PATIENCE});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = wait_at_gate, .ctx = &b}, &w->err));
    ok(pawl_handle(w->p, &(pawl_handler){.type = "inside", .run = dispatch_into_full, .ctx = &b}, &w->err));
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "small", .workers = 1, .depth_limit = 2}, &w->err));
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "strict", .depth_limit = 1, .full = PAWL_FULL_REJECT}, &w->err));
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "soft", .depth_limit = 1, .full = PAWL_FULL_FALLBACK}, &w->err));
    send(w, (pawl_task){.type = "x", .queue = "strict"});
    refused(pawl_dispatch(w->p, &(pawl_task){.type = "x", .queue = "strict"}, NULL, &w->err), PAWL_FULL, "\"strict\"");
    send(w, (pawl_task){.type = "x", .queue = "soft"});
    pawl_info *i = get(w, send(w, (pawl_task){.type = "x", .queue = "soft"}));
    assert_string_equal(i->queue, "default");
    pawl_info_free(i);

    ok(pawl_start(w->p, &w->err));
    pawl_id one = send(w, (pawl_task){.type = "t", .queue = "small", .payload = pawl_str("1")});
    pawl_id two = send(w, (pawl_task){.type = "t", .queue = "small", .payload = pawl_str("2")});
    gate_pass(&b.entered);
    await(w, send(w, (pawl_task){.type = "inside"}), PAWL_SUCCEEDED); /* never waits: it acts as reject */
    pthread_t thread;
    pthread_create(&thread, NULL, dispatch_and_tell, &b); /* waits for room */
    gate_open(&b.leave);
    await(w, one, PAWL_SUCCEEDED);
    gate_pass(&b.entered);
    gate_pass(&b.entered); /* "2" has started, and the third was taken */
    pthread_join(thread, NULL);
    gate_open(&b.leave);
    gate_open(&b.leave);
    await(w, two, PAWL_SUCCEEDED);
    gate_pass(&b.entered);
    world_close(w);
    assert_true(strstr(w->journal, "1 full") == w->journal);
    assert_non_null(strstr(w->journal, " ok"));
    assert_non_null(strstr(w->journal, " 3"));
}

static void full_queue_times_out(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){.dispatch_timeout_us = 50 * PAWL_MILLISECOND});
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "small", .depth_limit = 1}, &w->err));
    send(w, (pawl_task){.type = "x", .queue = "small"});
    refused(pawl_dispatch(w->p, &(pawl_task){.type = "x", .queue = "small"}, NULL, &w->err), PAWL_FULL, "\"small\"");
    answer a = {.came = GATE};
    ok(pawl_dispatch_async(w->p, &(pawl_task){.type = "x", .queue = "small"}, keep_answer, &a, &w->err));
    gate_pass(&a.came);
    assert_true(a.failed);
    assert_int_equal(a.receipt.status, PAWL_FULL);
}

static void unserved_is_error(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){.unserved_is_error = true});
    await(w, send(w, (pawl_task){.type = "t"}), PAWL_SUCCEEDED);
    refused(pawl_dispatch(w->p, &(pawl_task){.type = "t", .queue = "nowhere"}, NULL, &w->err), PAWL_NOT_FOUND, "\"nowhere\"");
    pawl_task tasks[] = {{.type = "t"}, {.type = "t", .queue = "nowhere"}};
    refused(pawl_dispatch_bulk(w->p, tasks, 2, NULL, &w->err), PAWL_NOT_FOUND, "\"nowhere\"");
}

/* Many threads that dispatch one by one: every task runs once. */
typedef struct crowd {
    world *w;
    atomic_int runs;
} crowd;

static pawl_outcome count_run(pawl_run *run, void *ctx)
{
    (void)run;
    atomic_fetch_add(&((crowd *)ctx)->runs, 1);
    return pawl_ok();
}

static void *dispatch_many(void *ctx)
{
    crowd *c = ctx;
    for (int i = 0; i < 25; i++) {
        pawl_id id;
        if (pawl_dispatch(c->w->p, &(pawl_task){.type = "t"}, &id, NULL) || pawl_wait(c->w->p, id, PATIENCE, NULL, NULL))
            return c;
    }
    return NULL;
}

static void from_many_threads(void **state)
{
    world *w = *state;
    crowd c = {.w = w};
    world_start(w, &(pawl_handler){.type = "t", .run = count_run, .ctx = &c}, 1, (pawl_options){0});
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, dispatch_many, &c);
    for (int i = 0; i < 8; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    world_close(w);
    assert_int_equal(atomic_load(&c.runs), 200);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(runs_and_keeps_everything),
        TEST(keys),
        TEST(own_key_while_running),
        TEST(id_handed_back),
        TEST(priorities_and_order),
        TEST(delay_and_at),
        TEST(bulk_with_duplicate_keys),
        TEST(large_bulk),
        TEST(with_callback),
        TEST(full_queues),
        TEST(full_queue_times_out),
        TEST(unserved_is_error),
        TEST(from_many_threads),
    };
    return RUN_TESTS("dispatch", tests);
}
