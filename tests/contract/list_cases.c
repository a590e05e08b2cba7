/* LIST: filters, order, pages. */
#include "contract.h"

typedef struct set {
    int64_t node;
    pawl_id scheduled, retrying, pending, running, stale, succeeded, failed, resolved, cancelled;
} set;

static pawl_id leased(world *w, pawl_store *store, int64_t n, spec s)
{
    s.ask_lease = true;
    pawl_op *op = op_insert(w, s);
    apply(w, store, n, op);
    assert_true(op->out_fence == 1);
    return op->id;
}

/* One task of each kind. */
static set one_of_each(world *w)
{
    int64_t n = join(w, w->a), lost = join_as(w, w->b, "lost", "q", "*", PAWL_SECOND);
    set s = {.node = n};
    s.scheduled = insert(w, w->a, n, (spec){.delay_us = PAWL_HOUR});
    s.stale = leased(w, w->b, lost, (spec){.tenant = "acme"});
    s.retrying = leased(w, w->a, n, (spec){.type = "u"});
    apply(w, w->a, n, op_release(w, s.retrying, 1, PAWL_HOUR, PAWL_ATTEMPT_RETRY));
    s.pending = insert(w, w->a, n, (spec){.key = "k", .queue = "p"});
    s.running = leased(w, w->a, n, (spec){.tenant = "acme"});
    s.succeeded = leased(w, w->a, n, (spec){.type = "u", .queue = "p"});
    apply(w, w->a, n, op_finish(w, s.succeeded, 1, PAWL_SUCCEEDED));
    s.failed = leased(w, w->a, n, (spec){0});
    apply(w, w->a, n, op_finish(w, s.failed, 1, PAWL_FAILED));
    s.resolved = leased(w, w->a, n, (spec){0});
    apply(w, w->a, n, op_finish(w, s.resolved, 1, PAWL_FAILED));
    apply(w, w->a, n, op_ack(w, s.resolved, "ann", NULL));
    s.cancelled = insert(w, w->a, n, (spec){.key = "c"});
    apply(w, w->a, n, op_cancel(w, s.cancelled, NULL));
    advance(w, 2 * PAWL_SECOND);
    return s;
}

static bool found(const pawl_page *page, pawl_id id)
{
    for (size_t i = 0; i < page->count; i++)
        if (page->tasks[i]->id == id) return true;
    return false;
}

static void all_of_them_by_id(world *w)
{
    one_of_each(w);
    pawl_page *newest = list_page(w, (pawl_filter){0}), *oldest = list_page(w, (pawl_filter){.oldest_first = true});
    assert_true(newest->count == 9 && oldest->count == 9 && !newest->next && !oldest->next && !newest->partial);
    for (size_t i = 1; i < 9; i++) {
        assert_true(newest->tasks[i]->id < newest->tasks[i - 1]->id);
        assert_true(oldest->tasks[i]->id > oldest->tasks[i - 1]->id);
    }
}

static void by_state_and_by_display(world *w)
{
    set s = one_of_each(w);
    struct {
        const char *name;
        int count;
        pawl_id one;
    } rows[] = {
        {"pending", 3, s.retrying},    {"leased", 2, s.stale}, {"succeeded", 1, s.succeeded}, {"failed", 2, s.resolved},
        {"cancelled", 1, s.cancelled}, {"waiting", 0, 0},      {"scheduled", 1, s.scheduled}, {"retrying", 1, s.retrying},
        {"running", 1, s.running},     {"stale", 1, s.stale},  {"throttled", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pawl_page *page = list_page(w, (pawl_filter){.state = rows[i].name});
        if ((int)page->count != rows[i].count) fail_msg("%s: %zu instead of %d", rows[i].name, page->count, rows[i].count);
        if (rows[i].one) assert_true(found(page, rows[i].one));
    }
    static const char *const names[] = {"scheduled", "retrying",  "pending", "running",
                                        "stale",     "succeeded", "failed",  "cancelled"};
    pawl_id ids[] = {s.scheduled, s.retrying, s.pending, s.running, s.stale, s.succeeded, s.failed, s.cancelled};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) assert_string_equal(get(w, ids[i])->display, names[i]);
}

static void by_everything_else(world *w)
{
    set s = one_of_each(w);
    assert_int_equal(count_tasks(w, (pawl_filter){.type = "u"}), 2);
    assert_int_equal(count_tasks(w, (pawl_filter){.queue = "p"}), 2);
    assert_int_equal(count_tasks(w, (pawl_filter){.type = "u", .queue = "p"}), 1);
    assert_int_equal(count_tasks(w, (pawl_filter){.tenant = "acme"}), 2);
    assert_int_equal(count_tasks(w, (pawl_filter){.tenant = "acme", .state = "stale"}), 1);
    assert_int_equal(count_tasks(w, (pawl_filter){.key = "k"}), 1);
    assert_int_equal(count_tasks(w, (pawl_filter){.key = "nobody"}), 0);
    assert_int_equal(count_tasks(w, (pawl_filter){.type = "nobody"}), 0);
    assert_int_equal(count_tasks(w, (pawl_filter){.queue = "nobody"}), 0);
    pawl_page *page = list_page(w, (pawl_filter){.unresolved = true});
    assert_true(page->count == 1 && found(page, s.failed));
}

static void by_when_they_were_created(world *w)
{
    int64_t start_us = w->clock.now_us;
    for (int i = 0; i < 10; i++) {
        insert(w, w->a, 0, (spec){0});
        advance(w, PAWL_MINUTE);
    }
    assert_int_equal(count_tasks(w, (pawl_filter){.since_us = start_us + 3 * PAWL_MINUTE}), 7);
    assert_int_equal(count_tasks(w, (pawl_filter){.until_us = start_us + 3 * PAWL_MINUTE}), 3);
    assert_int_equal(
        count_tasks(w, (pawl_filter){.since_us = start_us + 3 * PAWL_MINUTE, .until_us = start_us + 5 * PAWL_MINUTE}), 2);
}

static void pages_hold_each_task_once(world *w, bool oldest_first, const char *state)
{
    pawl_filter filter = {.limit = 3, .oldest_first = oldest_first, .state = state};
    int count = 0;
    pawl_id last = oldest_first ? 0 : INT64_MAX;
    for (;;) {
        pawl_page *page = list_page(w, filter);
        assert_true(page->count <= 3 && (page->count > 0 || !page->next));
        for (size_t i = 0; i < page->count; i++, count++) {
            assert_true(oldest_first ? page->tasks[i]->id > last : page->tasks[i]->id < last);
            last = page->tasks[i]->id;
        }
        if (!page->next) break;
        assert_true(page->count == 3);
        filter.cursor = page->next;
    }
    assert_int_equal(count, count_tasks(w, (pawl_filter){.state = state}));
}

static void page_by_page(world *w)
{
    one_of_each(w);
    for (int i = 0; i < 11; i++) insert(w, w->a, 0, (spec){.type = i % 2 ? "u" : "t"});
    static const char *const states[] = {NULL, "pending", "failed", "scheduled", "succeeded"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        pages_hold_each_task_once(w, false, states[i]);
        pages_hold_each_task_once(w, true, states[i]);
    }
}

static void a_cursor_survives_changes(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id ids[6];
    for (int i = 0; i < 6; i++) ids[i] = insert(w, w->a, n, (spec){0});
    pawl_page *page = list_page(w, (pawl_filter){.limit = 3});
    assert_non_null(page->next);
    apply(w, w->a, n, op_cancel(w, ids[3], NULL));
    apply(w, w->a, n, op_cancel(w, ids[2], NULL));
    insert(w, w->a, n, (spec){0});
    advance(w, 10 * PAWL_DAY);
    pawl_sweep how = keep_all();
    how.keep_cancelled_us = PAWL_DAY;
    while (sweep(w, how).more) continue;
    pawl_page *rest = list_page(w, (pawl_filter){.limit = 3, .cursor = page->next});
    assert_true(rest->count == 2 && !rest->next);
    assert_true(rest->tasks[0]->id == ids[1] && rest->tasks[1]->id == ids[0]);
}

static void lists_leave_the_payload_out(world *w)
{
    pawl_id id = insert(w, w->a, 0, (spec){.payload = "\"long\"", .key = "k", .tenant = "acme", .priority = 3});
    const pawl_info *info = list_page(w, (pawl_filter){0})->tasks[0];
    assert_int_equal(info->payload.len, 0);
    assert_true(info->id == id && info->priority == 3 && info->created_us == w->clock.now_us);
    assert_string_equal(info->type, "t");
    assert_string_equal(info->queue, "q");
    assert_string_equal(info->key, "k");
    assert_string_equal(info->tenant, "acme");
    assert_string_equal(info->display, "pending");
}

static void only(world *w, const char *words, pawl_id id)
{
    pawl_page *page = list_page(w, (pawl_filter){.search = words});
    if (page->count != (id != 0)) fail_msg("\"%s\": %zu tasks", words, page->count);
    assert_true(!id || page->tasks[0]->id == id);
    assert_null(page->next);
}

static void by_words(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id one = insert(w, w->a, n, (spec){.type = "mail.send", .payload = "{\"to\":\"Ann Smith\"}", .key = "order-17"});
    pawl_id two = leased(w, w->a, n, (spec){.queue = "Slow", .tenant = "acme", .payload = "\"caf\xc3\xa9 50% _x\\\\\""});
    pawl_id end = leased(w, w->a, n, (spec){.payload = "\"\xe3\x84\x93\""});
    pawl_op *finish = op_finish(w, end, 1, PAWL_FAILED);
    finish->u.finish.run.error = "Connection refused";
    apply(w, w->a, n, finish);
    pawl_id again = leased(w, w->a, n, (spec){.payload = "4"});
    pawl_op *release = op_release(w, again, 1, PAWL_HOUR, PAWL_ATTEMPT_RETRY);
    release->u.release.run.error = "no route to host";
    apply(w, w->a, n, release);
    only(w, "MAIL.s", one);
    only(w, "ann smith", one);
    only(w, "  smith   order-1 ", one);
    only(w, "smith acme", 0);
    only(w, "slow", two);
    only(w, "ACME", two);
    only(w, "caf\xc3\xa9", two);
    only(w, "\xc3\x84", 0); /* which begins as the last letter of task `end`, if all bytes were letters */
    only(w, "caf\xc3\x89", 0);
    only(w, "50% _x\\", two);
    only(w, "50%x", 0);
    only(w, "refused", end);
    only(w, "route", again);
    only(w, "' OR 1", 0);
    assert_int_equal(count_tasks(w, (pawl_filter){.search = "o"}), 4);
    assert_int_equal(count_tasks(w, (pawl_filter){.search = "o", .state = "failed"}), 1);
    assert_int_equal(count_tasks(w, (pawl_filter){.search = "o", .key = "order-17"}), 1);
    pawl_filter filter = {.search = "o", .limit = 1, .oldest_first = true};
    pawl_id ids[] = {one, two, end, again};
    for (int i = 0; i < 4; i++) {
        pawl_page *page = list_page(w, filter);
        assert_true(page->count == 1 && page->tasks[0]->id == ids[i] && !page->next == (i == 3));
        filter.cursor = page->next;
    }
}

static void bad_filters(world *w)
{
    pawl_filter filter = {.limit = 10, .cursor = "not a cursor"};
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_INVALID);
    filter = (pawl_filter){.limit = 10, .state = "tired"};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_INVALID);
}

static void an_empty_store(world *w)
{
    pawl_page *page = list_page(w, (pawl_filter){0});
    assert_true(page->count == 0 && !page->next && !page->partial);
}

CASES(list_cases){
    {"list: all of them by id", all_of_them_by_id},
    {"list: by state and by what people see", by_state_and_by_display},
    {"list: by type, queue, tenant, key, unresolved", by_everything_else},
    {"list: by when they were created", by_when_they_were_created},
    {"list: page by page, each task once", page_by_page},
    {"list: a cursor survives changes", a_cursor_survives_changes},
    {"list: leaves the payload out", lists_leave_the_payload_out},
    {"list: by words that they hold", by_words},
    {"list: bad filters are refused", bad_filters},
    {"list: an empty store", an_empty_store},
    {NULL, NULL},
};
