/* Bad input: each a typed error whose message names the object; nothing is stored, outputs stay untouched. */
#include "harness.h"
#include <sys/wait.h>
#include <unistd.h>

static void options_out_of_range(void **state)
{
    world *w = *state;
    pawl *p = (pawl *)w;
    pawl_error *err = &w->err;
    refused(pawl_open(&(pawl_options){.store = w->url, .workers = -1}, &p, err), PAWL_INVALID, "workers");
    refused(pawl_open(&(pawl_options){.store = w->url, .capacity = -5}, &p, err), PAWL_INVALID, "capacity");
    refused(pawl_open(&(pawl_options){.store = w->url, .lease_us = 1000}, &p, err), PAWL_INVALID, "lease_us");
    refused(pawl_open(&(pawl_options){.store = w->url, .lease_us = -1}, &p, err), PAWL_INVALID, "lease_us");
    refused(pawl_open(&(pawl_options){.store = w->url, .dispatch_timeout_us = -1}, &p, err), PAWL_INVALID, "dispatch_timeout_us");
    refused(pawl_open(&(pawl_options){.store = w->url, .max_attempts = -1}, &p, err), PAWL_INVALID, "max_attempts");
    refused(pawl_open(&(pawl_options){.store = w->url, .name = "a\nb"}, &p, err), PAWL_INVALID, "name of the node");
    refused(pawl_open(&(pawl_options){.store = w->url, .audit = 77}, &p, err), PAWL_INVALID, "audit");
    refused(pawl_open(&(pawl_options){.store = w->url, .retry = {.curve = PAWL_CURVE_CUSTOM}}, &p, err), PAWL_INVALID, "custom");
    refused(pawl_open(&(pawl_options){.store = w->url, .retry = {.curve = PAWL_CURVE_LIST}}, &p, err), PAWL_INVALID, "list");
    refused(pawl_open(&(pawl_options){.store = w->url, .retry = {.factor = 0.5}}, &p, err), PAWL_INVALID, "factor");
    refused(pawl_open(&(pawl_options){.store = w->url, .retry = {.jitter = 1.5}}, &p, err), PAWL_INVALID, "jitter");
    refused(pawl_open(&(pawl_options){.store = w->url, .inline_eager = true}, &p, err), PAWL_INVALID, "inline_mode");
    refused(pawl_open(&(pawl_options){.store = w->url, .allocator = {.alloc = w->allocator.alloc}}, &p, err), PAWL_INVALID,
            "allocator");
    refused(pawl_open(&(pawl_options){.store = w->url}, NULL, err), PAWL_INVALID, "NULL");
    assert_ptr_equal(p, (pawl *)w);
}

static void unknown_store(void **state)
{
    world *w = *state;
    pawl *p = NULL;
    refused(pawl_open(&(pawl_options){.store = "nosuch:thing"}, &p, &w->err), PAWL_UNSUPPORTED, "nosuch");
    assert_true(pawl_open(&(pawl_options){.store = "no scheme"}, &p, &w->err) != PAWL_OK);
    assert_true(pawl_open(&(pawl_options){.store = ""}, &p, &w->err) != PAWL_OK);
    assert_null(p);
}

static void store_from_environment(void **state)
{
    world *w = *state;
    pawl *p = NULL;
    setenv("DATABASE_URL", "nosuch:database", 1);
    refused(pawl_open(NULL, &p, &w->err), PAWL_UNSUPPORTED, "nosuch");
    setenv("PAWL_STORE", w->url, 1);
    ok(pawl_open(NULL, &p, &w->err));
    assert_string_equal(pawl_store_url(p), w->url);
    unsetenv("PAWL_STORE");
    unsetenv("DATABASE_URL");
    assert_int_equal(pawl_close(p), 0);
}

static void tasks(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){.payload_max = 100});
    pawl_error *err = &w->err;
    pawl_id id = 77;
    char big[102], long_name[300];
    memset(big, '1', sizeof big);
    memset(long_name, 'x', sizeof long_name);
    long_name[201] = '\0';
#define SEND(...) pawl_dispatch(w->p, &(pawl_task){__VA_ARGS__}, &id, err)
    refused(pawl_dispatch(w->p, NULL, &id, err), PAWL_INVALID, "NULL");
    refused(SEND(.type = NULL), PAWL_INVALID, "type is NULL");
    refused(SEND(.type = ""), PAWL_INVALID, "type");
    refused(SEND(.type = "*"), PAWL_INVALID, "type");
    refused(SEND(.type = "a\x01z"), PAWL_INVALID, "control");
    refused(SEND(.type = "a\xff"), PAWL_INVALID, "UTF-8");
    refused(SEND(.type = long_name), PAWL_INVALID, "200");
    refused(SEND(.type = "t", .queue = "q\n"), PAWL_INVALID, "queue");
    refused(SEND(.type = "t", .queue = ""), PAWL_INVALID, "queue");
    refused(SEND(.type = "t", .key = "k\t"), PAWL_INVALID, "key");
    refused(SEND(.type = "t", .tenant = long_name), PAWL_INVALID, "tenant");
    refused(SEND(.type = "t", .created_by = "\x7f"), PAWL_INVALID, "created_by");
    refused(SEND(.type = "t", .payload = {big, 101}), PAWL_TOO_LARGE, "101 bytes");
    refused(SEND(.type = "t", .payload = {NULL, 3}), PAWL_INVALID, "payload is NULL");
    refused(SEND(.type = "t", .payload = pawl_str("{\"a\":}")), PAWL_INVALID, "at byte 5");
    refused(SEND(.type = "t", .payload = pawl_str("1"), .content_type = "text\n"), PAWL_INVALID, "content type");
    refused(SEND(.type = "t", .payload = pawl_str("{"), .content_type = "application/json; charset=utf-8"), PAWL_INVALID, "JSON");
    refused(SEND(.type = "t", .priority = 32768), PAWL_INVALID, "priority");
    refused(SEND(.type = "t", .priority = -32769), PAWL_INVALID, "priority");
    refused(SEND(.type = "t", .delay_us = 1, .at_us = 1), PAWL_INVALID, "choose one");
    refused(SEND(.type = "t", .delay_us = -1), PAWL_INVALID, "negative");
    refused(SEND(.type = "t", .delay_us = INT64_MAX), PAWL_INVALID, "century");
    refused(SEND(.type = "t", .at_us = -1), PAWL_INVALID, "at_us");
    refused(SEND(.type = "t", .at_us = INT64_MAX), PAWL_INVALID, "at_us");
    refused(SEND(.type = "t", .max_attempts = -1), PAWL_INVALID, "max_attempts");
    refused(SEND(.type = "t", .audit = 9), PAWL_INVALID, "audit");
    refused(SEND(.type = "t", .id = -4), PAWL_INVALID, "-4");
    refused(SEND(.type = "t", .traceparent = "00-abc"), PAWL_INVALID, "traceparent");
    refused(SEND(.type = "t", .traceparent = "00-00000000000000000000000000000000-0102030405060708-01"), PAWL_INVALID,
            "traceparent");
    refused(SEND(.type = "t", .rate_key = {NULL, 1}), PAWL_INVALID, "rate key");
    char *headers = malloc(20000);
    memset(headers, 'h', 19999);
    headers[19999] = '\0';
    refused(SEND(.type = "t", .headers = headers), PAWL_TOO_LARGE, "19999");
    free(headers);
    assert_int_equal(id, 77);
    pawl_page *page;
    ok(pawl_list(w->p, NULL, &page, err));
    assert_int_equal(page->count, 0);
    pawl_page_free(page);
}

static void well_formed_tasks(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "grüße",
                                     .payload = {"\x00\xff{", 3},
                                     .content_type = "application/octet-stream",
                                     .queue = "q",
                                     .key = "k",
                                     .tenant = "acme",
                                     .priority = -32768,
                                     .created_by = "me",
                                     .headers = "a: b\n",
                                     .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                     .rate_key = {"\x00", 1},
                                     .max_attempts = 7,
                                     .timeout_us = -1,
                                     .audit = PAWL_AUDIT_MINIMAL});
    pawl_info *i = get(w, id);
    assert_string_equal(i->type, "grüße");
    assert_int_equal(i->payload.len, 3);
    assert_memory_equal(i->payload.data, "\x00\xff{", 3);
    assert_string_equal(i->content_type, "application/octet-stream");
    assert_string_equal(i->queue, "q");
    assert_string_equal(i->key, "k");
    assert_string_equal(i->tenant, "acme");
    assert_string_equal(i->created_by, "me");
    assert_string_equal(i->headers, "a: b\n");
    assert_string_equal(i->traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_int_equal(i->rate_key.len, 1);
    assert_int_equal(i->priority, -32768);
    assert_int_equal(i->max_attempts, 7);
    assert_int_equal(i->timeout_us, -1);
    assert_string_equal(i->display, "pending");
    pawl_info_free(i);
    i = get(w, send(w, (pawl_task){.type = "t"}));
    assert_string_equal(i->content_type, "application/json");
    assert_int_equal(i->payload.len, 0);
    pawl_info_free(i);
}

static void bulk(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_task many[3] = {{.type = "t"}, {.type = "t", .priority = 99999}, {.type = "t"}};
    pawl_receipt receipts[3] = {{.id = 5}};
    refused(pawl_dispatch_bulk(w->p, many, 3, receipts, &w->err), PAWL_INVALID, "task 2 of 3");
    refused(pawl_dispatch_bulk(w->p, NULL, 3, receipts, &w->err), PAWL_INVALID, "NULL");
    refused(pawl_dispatch_bulk(w->p, many, PAWL_BULK_MAX + 1, receipts, &w->err), PAWL_TOO_LARGE, "10001");
    many[1] = many[2] = (pawl_task){.type = "t", .id = 12345};
    refused(pawl_dispatch_bulk(w->p, many, 3, receipts, &w->err), PAWL_INVALID, "task 3 of 3");
    assert_int_equal(receipts[0].id, 5);
    char *megabyte = malloc(1 << 20);
    memset(megabyte, '7', 1 << 20);
    pawl_task heavy[17];
    for (int i = 0; i < 17; i++) heavy[i] = (pawl_task){.type = "t", .payload = {megabyte, 1 << 20}};
    refused(pawl_dispatch_bulk(w->p, heavy, 17, NULL, &w->err), PAWL_TOO_LARGE, "use several");
    free(megabyte);
    ok(pawl_dispatch_bulk(w->p, many, 0, NULL, &w->err));
}

static void configuration(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_error *err = &w->err;
    refused(pawl_handle(w->p, NULL, err), PAWL_INVALID, "NULL");
    refused(pawl_handle(w->p, &(pawl_handler){.run = succeed}, err), PAWL_INVALID, "type");
    refused(pawl_handle(w->p, &(pawl_handler){.type = "t"}, err), PAWL_INVALID, "run function");
    refused(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = succeed, .queue = "\n"}, err), PAWL_INVALID, "queue");
    refused(pawl_queue(w->p, NULL, err), PAWL_INVALID, "NULL");
    refused(pawl_queue(w->p, &(pawl_queue_options){.workers = 1}, err), PAWL_INVALID, "queue");
    refused(pawl_queue(w->p, &(pawl_queue_options){.name = "a,b"}, err), PAWL_INVALID, "comma");
    refused(pawl_handle(w->p, &(pawl_handler){.type = "a,b", .run = succeed}, err), PAWL_INVALID, "comma");
    refused(pawl_queue(w->p, &(pawl_queue_options){.name = "q", .workers = 100000}, err), PAWL_INVALID, "workers");
    refused(pawl_queue(w->p, &(pawl_queue_options){.name = "q", .full = 9}, err), PAWL_INVALID, "full");
    refused(pawl_start(w->p, err), PAWL_MISUSE, "no handler");
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = succeed}, err));
    refused(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = succeed}, err), PAWL_CONFLICT, "\"t\"");
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "default", .workers = 2}, err));
    refused(pawl_drain(w->p, 0, err), PAWL_MISUSE, "not started");
    ok(pawl_stop(w->p, err));
    ok(pawl_start(w->p, err));
    refused(pawl_start(w->p, err), PAWL_MISUSE, "started already");
    refused(pawl_handle(w->p, &(pawl_handler){.type = "u", .run = succeed}, err), PAWL_MISUSE, "before pawl_start");
    refused(pawl_queue(w->p, &(pawl_queue_options){.name = "q"}, err), PAWL_MISUSE, "before pawl_start");
}

static void looks_and_actions(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_error *err = &w->err;
    pawl_info *info = NULL;
    pawl_page *page = NULL;
    pawl_why_answer why;
    refused(pawl_get(w->p, 0, &info, err), PAWL_INVALID, "0");
    refused(pawl_get(w->p, 4242, &info, err), PAWL_NOT_FOUND, "no task");
    refused(pawl_get(w->p, 4242, NULL, err), PAWL_INVALID, "NULL");
    refused(pawl_why(w->p, 4242, &why, err), PAWL_NOT_FOUND, "no task");
    refused(pawl_wait(w->p, 4242, 0, NULL, err), PAWL_NOT_FOUND, "no task");
    refused(pawl_list(w->p, &(pawl_filter){.state = "sleeping"}, &page, err), PAWL_INVALID, "sleeping");
    refused(pawl_list(w->p, &(pawl_filter){.limit = 1001}, &page, err), PAWL_INVALID, "1001");
    refused(pawl_list(w->p, &(pawl_filter){.queue = "\n"}, &page, err), PAWL_INVALID, "queue");
    refused(pawl_list(w->p, &(pawl_filter){.since_us = 5, .until_us = 4}, &page, err), PAWL_INVALID, "span");
    assert_true(pawl_list(w->p, &(pawl_filter){.cursor = "not a cursor!"}, &page, err) == PAWL_INVALID);
    refused(pawl_cancel(w->p, -1, NULL, err), PAWL_INVALID, "-1");
    refused(pawl_cancel(w->p, 4242, NULL, err), PAWL_NOT_FOUND, "no task");
    refused(pawl_cancel(w->p, 4242, "a\n", err), PAWL_INVALID, "person");
    refused(pawl_retry_task(w->p, 4242, NULL, NULL, err), PAWL_NOT_FOUND, "no task");
    refused(pawl_dead_ack(w->p, 0, NULL, NULL, NULL, NULL, err), PAWL_INVALID, "either");
    refused(pawl_dead_ack(w->p, 1, &(pawl_filter){0}, NULL, NULL, NULL, err), PAWL_INVALID, "either");
    refused(pawl_dead_ack(w->p, 4242, NULL, NULL, NULL, NULL, err), PAWL_NOT_FOUND, "no task");
    refused(pawl_dead_retry(w->p, &(pawl_filter){.state = "pending"}, NULL, NULL, err), PAWL_INVALID, "failed");
    refused(pawl_pause(w->p, NULL, NULL, err), PAWL_INVALID, "queue");
    refused(pawl_dispatch_async(w->p, &(pawl_task){.type = "t"}, NULL, NULL, err), PAWL_INVALID, "callback");
    refused(pawl_run_due(w->p, NULL, err), PAWL_MISUSE, "inline_mode");
    refused(pawl_advance(w->p, 1, NULL, err), PAWL_MISUSE, "inline_mode");
    refused(pawl_run_finish(NULL, pawl_ok(), err), PAWL_INVALID, "NULL");
    refused(pawl_backup(w->p, NULL, NULL, NULL, err), PAWL_INVALID, "NULL");
    refused(pawl_get_health(w->p, NULL, err), PAWL_INVALID, "NULL");
    refused(pawl_get_stats(w->p, -1, NULL, err), PAWL_INVALID, "NULL");
    assert_false(pawl_next_event(NULL, 0, NULL));
    assert_null(info);
    assert_null(page);
    pawl_info_free(NULL);
    pawl_page_free(NULL);
    pawl_unsubscribe(NULL);
}

static void after_close(void **state)
{
    world *w = *state;
    pawl *p = world_open(w, (pawl_options){0});
    pawl_error *err = &w->err;
    assert_int_equal(pawl_close(p), 0);
    for (int i = 0; i < 3; i++) { /* others come and go: the old handle stays closed */
        pawl *other = world_open(w, (pawl_options){0});
        assert_ptr_not_equal(other, p);
        refused(pawl_dispatch(p, &(pawl_task){.type = "t"}, NULL, err), PAWL_CLOSED, "closed");
        assert_int_equal(pawl_close(other), 0);
    }
    pawl_page *page;
    refused(pawl_list(p, NULL, &page, err), PAWL_CLOSED, "closed");
    refused(pawl_start(p, err), PAWL_CLOSED, "closed");
    refused(pawl_wait(p, 1, 0, NULL, err), PAWL_CLOSED, "closed");
    assert_int_equal(pawl_close(p), pawl_status_exit_code(PAWL_CLOSED));
    assert_int_equal(pawl_close(NULL), 0);
    assert_string_equal(pawl_store_url(p), "");
    refused(pawl_start(NULL, err), PAWL_INVALID, "NULL");
    pawl_committed(p);
}

static pawl_outcome misbehave(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl *p = pawl_run_engine(run);
    pawl_error err;
    note(w, "%s", pawl_status_name(pawl_stop(p, &err)));
    note(w, "%s", pawl_status_name(pawl_drain(p, 0, &err)));
    note(w, "%s", pawl_status_name(pawl_wait(p, pawl_run_id(run), -1, NULL, &err)));
    note(w, "%d", pawl_close(p));
    note(w, "%s", pawl_status_name(pawl_dispatch(p, &(pawl_task){.type = "other"}, NULL, &err)));
    return pawl_ok();
}

static void inside_a_handler(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = misbehave, .ctx = w}, 1, (pawl_options){0});
    await(w, send(w, (pawl_task){.type = "t"}), PAWL_SUCCEEDED);
    world_close(w);
    assert_string_equal(w->journal, "misuse misuse misuse 70 ok");
}

static void calls_back(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    world *w = ((void **)ctx)[0];
    pawl_error inner;
    (void)err;
    note(w, "%s", pawl_status_name(receipt->status));
    note(w, "%s", pawl_status_name(pawl_dispatch(w->p, &(pawl_task){.type = "t"}, NULL, &inner)));
    gate_open(((void **)ctx)[1]);
}

static void inside_a_callback(void **state)
{
    world *w = *state;
    gate called = GATE;
    w->p = world_open(w, (pawl_options){0});
    void *ctx[] = {w, &called};
    ok(pawl_dispatch_async(w->p, &(pawl_task){.type = "t"}, calls_back, ctx, &w->err));
    gate_pass(&called);
    world_close(w);
    assert_string_equal(w->journal, "ok misuse");
}

static void in_a_forked_child(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pid_t child = fork();
    if (child == 0)
        _exit(pawl_dispatch(w->p, &(pawl_task){.type = "t"}, NULL, NULL) == PAWL_MISUSE && pawl_close(w->p) == 70 ? 0 : 1);
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    send(w, (pawl_task){.type = "t"});
}

static void read_only(void **state)
{
    world *w = *state;
    if (!w->sqlite) skip();
    w->p = world_open(w, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    pawl *p = world_open(w, (pawl_options){.read_only = true});
    refused(pawl_dispatch(p, &(pawl_task){.type = "t"}, NULL, &w->err), PAWL_MISUSE, "read_only");
    refused(pawl_cancel(p, id, NULL, &w->err), PAWL_MISUSE, "read_only");
    ok(pawl_handle(p, &(pawl_handler){.type = "t", .run = succeed}, &w->err));
    refused(pawl_start(p, &w->err), PAWL_MISUSE, "read_only");
    refused(pawl_wait(p, id, PAWL_SECOND, NULL, &w->err), PAWL_MISUSE, "read_only");
    pawl_info *info;
    ok(pawl_get(p, id, &info, &w->err));
    pawl_info_free(info);
    assert_int_equal(pawl_close(p), 0);
}

static void one_shot(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){.one_shot = true});
    send(w, (pawl_task){.type = "t"});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = succeed}, &w->err));
    refused(pawl_start(w->p, &w->err), PAWL_MISUSE, "one_shot");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(options_out_of_range),
        TEST(unknown_store),
        TEST(store_from_environment),
        TEST(tasks),
        TEST(well_formed_tasks),
        TEST(bulk),
        TEST(configuration),
        TEST(looks_and_actions),
        TEST(after_close),
        TEST(inside_a_handler),
        TEST(inside_a_callback),
        TEST(in_a_forked_child),
        TEST(read_only),
        TEST(one_shot),
    };
    return RUN_TESTS("bad input", tests);
}
