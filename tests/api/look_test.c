/* Looking and acting: lists, trails, stats, nodes, health, why, wait, pause, dead letters, events, backup. */
#include "harness.h"
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct stage {
    world *w;
    gate entered, leave;
} stage;

#define STAGE                                  \
    {                                          \
        .w = w, .entered = GATE, .leave = GATE \
    }

static pawl_outcome wait_at_gate(pawl_run *run, void *ctx)
{
    stage *s = ctx;
    gate_open(&s->entered);
    if (pawl_run_key(run)) { /* keyed ones listen */
        pawl_run_sleep(run, 1000 * PAWL_SECOND);
        gate_pass(&s->leave);
        return pawl_cancelled();
    }
    gate_pass(&s->leave);
    return pawl_ok();
}

static pawl_outcome break_down(pawl_run *run, void *ctx)
{
    (void)ctx;
    return pawl_fail(run, "it is broken");
}

static void assert_why(world *w, pawl_id id, const char *code, const char *text)
{
    pawl_why_answer why = {0};
    ok(pawl_why(w->p, id, &why, &w->err));
    if (strcmp(why.code, code) != 0 || !strstr(why.text, text)) fail_msg("%s: %s", why.code, why.text);
}

static void lists(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "f", .run = break_down}, 1, (pawl_options){0});
    pawl_id ids[25];
    for (int i = 0; i < 25; i++)
        ids[i] = send(w, (pawl_task){.type = i % 5 ? "a" : "b",
                                     .queue = "unserved",
                                     .tenant = i < 10 ? "x" : "y",
                                     .delay_us = i % 2 ? PAWL_HOUR : 0});
    pawl_id failed = send(w, (pawl_task){.type = "f"});
    await(w, failed, PAWL_FAILED);
    struct {
        pawl_filter filter;
        size_t count;
    } cases[] = {
        {{0}, 26},
        {{.type = "b"}, 5},
        {{.queue = "unserved"}, 25},
        {{.tenant = "x"}, 10},
        {{.state = "failed"}, 1},
        {{.state = "scheduled"}, 12},
        {{.state = "pending"}, 25},
        {{.tenant = "x", .type = "b"}, 2},
        {{.unresolved = true}, 1},
        {{.state = "succeeded"}, 0},
        {{.since_us = pawl_now(w->p) + PAWL_HOUR}, 0},
        {{.key = "none"}, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        pawl_page *page;
        ok(pawl_list(w->p, &cases[c].filter, &page, &w->err));
        if (page->count != cases[c].count) fail_msg("case %zu: %zu tasks", c, page->count);
        for (size_t i = 0; i < page->count; i++) assert_string_equal(page->tasks[i]->content_type, "application/json");
        assert_null(page->next);
        pawl_page_free(page);
    }
    pawl_filter f = {.queue = "unserved", .limit = 10, .oldest_first = true};
    char cursor[300] = "";
    size_t seen = 0;
    do {
        pawl_page *page;
        ok(pawl_list(w->p, &f, &page, &w->err));
        for (size_t i = 0; i < page->count; i++) assert_int_equal(page->tasks[i]->id, ids[seen++]);
        snprintf(cursor, sizeof cursor, "%s", page->next ? page->next : "");
        f.cursor = cursor;
        pawl_page_free(page);
    } while (cursor[0]);
    assert_int_equal(seen, 25);
}

static pawl_id *found_by(world *w, pawl_filter filter, size_t *count)
{
    static pawl_id ids[64];
    char cursor[64] = "";
    *count = 0;
    do {
        pawl_page *page;
        ok(pawl_list(w->p, &filter, &page, &w->err));
        for (size_t i = 0; i < page->count && *count < 64; i++) ids[(*count)++] = page->tasks[i]->id;
        snprintf(cursor, sizeof cursor, "%s", page->next ? page->next : "");
        filter.cursor = cursor;
        pawl_page_free(page);
    } while (cursor[0]);
    return ids;
}

static void assert_found(world *w, pawl_filter filter, const pawl_id *ids, size_t count)
{
    size_t n;
    for (filter.limit = 1; filter.limit < 8; filter.limit += 3) { /* whatever the pages are */
        const pawl_id *got = found_by(w, filter, &n);
        if (n != count) fail_msg("\"%s\": %zu instead of %zu", filter.search, n, count);
        for (size_t i = 0; i < n; i++) assert_int_equal(got[i], ids[i]);
    }
}

static void searches(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_id in_payload = send(w, (pawl_task){.type = "t", .payload = pawl_str("{\"order\":\"red\"}")});
    pawl_id as_key = send(w, (pawl_task){.type = "t", .key = "red", .payload = pawl_str("\"red\"")});
    pawl_id in_type = send(w, (pawl_task){.type = "red.paint"});
    pawl_id as_type = send(w, (pawl_task){.type = "red", .queue = "red"});
    pawl_id as_queue = send(w, (pawl_task){.type = "u", .queue = "red"});
    pawl_id as_tenant = send(w, (pawl_task){.type = "u", .tenant = "red"});
    pawl_id ids[] = {as_key, as_type, as_queue, as_tenant, in_type, in_payload};
    assert_found(w, (pawl_filter){.search = "red"}, ids, 6);
    pawl_id up[] = {as_key, as_type, as_queue, as_tenant, in_payload, in_type};
    assert_found(w, (pawl_filter){.search = "red", .oldest_first = true}, up, 6);
    assert_found(w, (pawl_filter){.search = "Red"}, (pawl_id[]){as_tenant, as_queue, as_type, in_type, as_key, in_payload}, 6);
    assert_found(w, (pawl_filter){.search = "order red"}, &in_payload, 1);
    assert_found(w, (pawl_filter){.search = "red", .type = "u"}, (pawl_id[]){as_queue, as_tenant}, 2);
    assert_found(w, (pawl_filter){.search = "blue"}, NULL, 0);
    assert_found(w, (pawl_filter){.search = "  "}, (pawl_id[]){as_tenant, as_queue, as_type, in_type, as_key, in_payload}, 6);
    char id[PAWL_ID_TEXT];
    pawl_id_format(as_queue, id);
    assert_found(w, (pawl_filter){.search = id}, &as_queue, 1);
    id[5] = '\0'; /* all of them were made within seconds */
    pawl_id all[] = {as_tenant, as_queue, as_type, in_type, as_key, in_payload};
    assert_found(w, (pawl_filter){.search = id}, all, 6);
    assert_found(w, (pawl_filter){.search = id, .oldest_first = true, .queue = "red"}, (pawl_id[]){as_type, as_queue}, 2);
    pawl_page *page;
    refused(pawl_list(w->p, &(pawl_filter){.search = "\xff"}, &page, &w->err), PAWL_INVALID, "UTF-8");
    refused(pawl_list(w->p, &(pawl_filter){.search = "red", .cursor = "z"}, &page, &w->err), PAWL_INVALID, "cursor");
    refused(pawl_list(w->p, &(pawl_filter){.search = "red", .cursor = "kx"}, &page, &w->err), PAWL_INVALID, "cursor");
    int64_t count = 0;
    ok(pawl_cancel_where(w->p, &(pawl_filter){.search = "red", .type = "u"}, NULL, &count, &w->err));
    assert_int_equal(count, 2);
}

static void answers_outlive_the_engine(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_info *i = get(w, send(w, (pawl_task){.type = "t", .payload = pawl_str("[1]")}));
    pawl_page *page;
    ok(pawl_list(w->p, NULL, &page, &w->err));
    world_close(w);
    assert_string_equal(i->type, "t");
    assert_string_equal(page->tasks[0]->type, "t");
    pawl_info_free(i);
    pawl_page_free(page);
}

static void trail(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){.name = "n1"});
    pawl_id id = send(w, (pawl_task){.type = "t"}), quiet = send(w, (pawl_task){.type = "t", .audit = PAWL_AUDIT_NONE});
    await(w, id, PAWL_SUCCEEDED);
    await(w, quiet, PAWL_SUCCEEDED);
    pawl_trail *t;
    ok(pawl_get_trail(w->p, id, &t, &w->err));
    assert_true(t->audit_count >= 2);
    assert_string_equal(t->audit[0].from, "");
    assert_string_equal(t->audit[t->audit_count - 1].from, "leased");
    assert_string_equal(t->audit[t->audit_count - 1].to, "succeeded");
    assert_string_equal(t->audit[t->audit_count - 1].node_name, "n1");
    pawl_trail_free(t);
    ok(pawl_get_trail(w->p, quiet, &t, &w->err));
    assert_int_equal(t->audit_count, 0);
    pawl_trail_free(t);
}

static const pawl_queue_info *queue_of(const pawl_stats *stats, const char *name)
{
    for (size_t i = 0; i < stats->queues_count; i++)
        if (strcmp(stats->queues[i].name, name) == 0) return &stats->queues[i];
    return NULL;
}

static void stats_nodes_health(void **state)
{
    world *w = *state;
    stage s = STAGE;
    pawl_handler handlers[] = {
        {.type = "g", .run = wait_at_gate, .ctx = &s}, {.type = "f", .run = break_down}, {.type = "t", .run = succeed}};
    world_start(w, handlers, 3, (pawl_options){.workers = 3, .name = "stats"});
    await(w, send(w, (pawl_task){.type = "f"}), PAWL_FAILED);
    await(w, send(w, (pawl_task){.type = "t"}), PAWL_SUCCEEDED);
    pawl_id running = send(w, (pawl_task){.type = "g"});
    gate_pass(&s.entered);
    send(w, (pawl_task){.type = "t", .delay_us = PAWL_HOUR});
    pawl_stats *stats;
    ok(pawl_get_stats(w->p, 0, &stats, &w->err));
    assert_int_equal(stats->pending, 1);
    assert_int_equal(stats->leased, 1);
    assert_int_equal(stats->dead, 1);
    assert_int_equal(stats->dispatched, 4);
    assert_int_equal(stats->succeeded, 1);
    assert_int_equal(stats->failed, 1);
    const pawl_queue_info *q = queue_of(stats, "default");
    assert_non_null(q);
    assert_int_equal(q->workers, 3);
    assert_int_equal(q->running, 1);
    assert_false(q->paused);
    pawl_stats_free(stats);

    pawl_nodes *nodes;
    ok(pawl_get_nodes(w->p, &nodes, &w->err));
    assert_int_equal(nodes->count, 1);
    assert_string_equal(nodes->nodes[0].name, "stats");
    assert_true(nodes->nodes[0].alive);
    assert_int_equal(nodes->nodes[0].leases, 1);
    assert_int_equal(nodes->nodes[0].pid, getpid());
    pawl_nodes_free(nodes);

    pawl_health health;
    ok(pawl_get_health(w->p, &health, &w->err));
    assert_true(health.started && health.store_ok && health.healthy);
    assert_int_equal(health.running, 1);
    assert_true(health.lease_left_us > 0);
    assert_string_equal(health.text, "");
    int64_t succeeded = health.events[PAWL_EVENT_SUCCEEDED], started = health.events[PAWL_EVENT_STARTED];
    assert_true(started > 0);
    gate_open(&s.leave);
    await(w, running, PAWL_SUCCEEDED);
    ok(pawl_stop(w->p, &w->err));
    ok(pawl_get_health(w->p, &health, &w->err));
    assert_false(health.started);
    assert_int_equal(health.events[PAWL_EVENT_SUCCEEDED], succeeded + 1);
    assert_int_equal(health.events[PAWL_EVENT_STARTED], started);
}

static void why(void **state)
{
    world *w = *state;
    stage s = STAGE;
    pawl_handler handlers[] = {
        {.type = "g", .run = wait_at_gate, .ctx = &s}, {.type = "f", .run = break_down}, {.type = "t", .run = succeed}};
    world_start(w, handlers, 3, (pawl_options){.workers = 1, .name = "n1"});
    pawl_id failed = send(w, (pawl_task){.type = "f"}), succeeded = send(w, (pawl_task){.type = "t"});
    await(w, failed, PAWL_FAILED);
    await(w, succeeded, PAWL_SUCCEEDED);
    assert_why(w, failed, "finished", "it is broken");
    assert_why(w, succeeded, "finished", "succeeded");
    assert_why(w, send(w, (pawl_task){.type = "t", .delay_us = 4 * PAWL_MINUTE}), "scheduled", "in 3m");
    assert_why(w, send(w, (pawl_task){.type = "t", .queue = "nowhere"}), "unserved_queue", "\"nowhere\"");
    pawl_id running = send(w, (pawl_task){.type = "g", .key = "k"});
    gate_pass(&s.entered);
    assert_why(w, running, "running", "node n1");
    pawl_id behind = send(w, (pawl_task){.type = "t"});
    assert_why(w, behind, "capacity", "worker");
    ok(pawl_pause(w->p, "default", "ops", &w->err));
    pawl_id held_up = send(w, (pawl_task){.type = "t"});
    assert_why(w, held_up, "paused", "\"default\"");
    ok(pawl_cancel(w->p, running, NULL, &w->err));
    assert_why(w, running, "cancelling", "asked to stop");
    gate_open(&s.leave);
    await(w, running, PAWL_CANCELLED);
    assert_why(w, running, "finished", "cancelled");
    ok(pawl_resume(w->p, "default", "ops", &w->err));
    await(w, behind, PAWL_SUCCEEDED);
    await(w, held_up, PAWL_SUCCEEDED);
}

static pawl_outcome retry_far(pawl_run *run, void *ctx)
{
    (void)ctx;
    return pawl_retry_in(run, PAWL_HOUR, "later");
}

static void why_retrying(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = retry_far}, &w->err));
    pawl_subscription *s;
    ok(pawl_subscribe(w->p, 0, &s, &w->err));
    ok(pawl_start(w->p, &w->err));
    pawl_id id = send(w, (pawl_task){.type = "t"});
    pawl_event event = {0};
    while (event.kind != PAWL_EVENT_RETRYING) assert_true(pawl_next_event(s, PATIENCE, &event));
    assert_int_equal(event.id, id);
    assert_int_equal(event.value, PAWL_HOUR);
    assert_string_equal(event.text, "later");
    pawl_unsubscribe(s);
    assert_why(w, id, "retrying", "in 59m");
    pawl_info *i = get(w, id);
    assert_string_equal(i->display, "retrying");
    pawl_info_free(i);
}

static void pause_and_resume(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){0});
    ok(pawl_pause(w->p, "default", NULL, &w->err));
    ok(pawl_pause(w->p, "default", NULL, &w->err));
    pawl_id id = send(w, (pawl_task){.type = "t"}), other = send(w, (pawl_task){.type = "t", .queue = "recurring"});
    await(w, other, PAWL_SUCCEEDED);
    refused(pawl_wait(w->p, id, 0, NULL, &w->err), PAWL_TIMEOUT, "pending");
    ok(pawl_resume(w->p, "default", NULL, &w->err));
    await(w, id, PAWL_SUCCEEDED);
}

static void dead_letters(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "f", .run = break_down}, 1, (pawl_options){0});
    pawl_id ids[6];
    for (int i = 0; i < 6; i++) await(w, ids[i] = send(w, (pawl_task){.type = "f", .tenant = i < 3 ? "x" : "y"}), PAWL_FAILED);
    ok(pawl_pause(w->p, "default", NULL, &w->err));
    int64_t count = -1;
    ok(pawl_dead_ack(w->p, ids[0], NULL, "ann", "known", &count, &w->err));
    assert_int_equal(count, 1);
    pawl_info *i = get(w, ids[0]);
    assert_string_equal(i->resolved_by, "ann");
    assert_string_equal(i->note, "known");
    assert_true(i->resolved_us > 0);
    pawl_info_free(i);
    refused(pawl_dead_ack(w->p, ids[0], NULL, "ann", NULL, &count, &w->err), PAWL_CONFLICT, "failed");

    pawl_receipt first, second;
    ok(pawl_retry_task(w->p, ids[1], "ann", &first, &w->err));
    assert_int_equal(first.outcome, PAWL_CREATED);
    ok(pawl_retry_task(w->p, ids[1], "bob", &second, &w->err));
    assert_int_equal(second.outcome, PAWL_EXISTING);
    assert_int_equal(second.id, first.id);
    i = get(w, first.id);
    assert_int_equal(i->retry_of, ids[1]);
    pawl_info_free(i);
    refused(pawl_retry_task(w->p, first.id, NULL, NULL, &w->err), PAWL_CONFLICT, "pending");

    ok(pawl_dead_ack(w->p, 0, &(pawl_filter){.tenant = "x"}, "ann", NULL, &count, &w->err));
    assert_int_equal(count, 1);
    ok(pawl_dead_retry(w->p, NULL, "ann", &count, &w->err));
    assert_int_equal(count, 3);
    ok(pawl_dead_retry(w->p, NULL, "ann", &count, &w->err));
    assert_int_equal(count, 0);
}

static void cancel_where(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){.capacity = 5000});
    enum { N = 1200 };
    static pawl_task tasks[N];
    static pawl_receipt receipts[N];
    for (int i = 0; i < N; i++) tasks[i] = (pawl_task){.type = i % 2 ? "odd" : "even", .delay_us = i % 3 ? 0 : PAWL_HOUR};
    ok(pawl_dispatch_bulk(w->p, tasks, N, receipts, &w->err));
    int64_t count = -1;
    ok(pawl_cancel_where(w->p, &(pawl_filter){.type = "odd"}, "ops", &count, &w->err));
    assert_int_equal(count, 600);
    ok(pawl_cancel_where(w->p, &(pawl_filter){.state = "scheduled"}, "ops", &count, &w->err));
    assert_int_equal(count, 200);
    ok(pawl_cancel_where(w->p, &(pawl_filter){.state = "cancelled"}, "ops", &count, &w->err));
    assert_int_equal(count, 0);
    ok(pawl_cancel_where(w->p, NULL, NULL, &count, &w->err));
    assert_int_equal(count, 400);
    await(w, receipts[0].id, PAWL_CANCELLED);
}

/* What was cancelled before it started is told by its names, too. */
static void events_of_cancels(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_subscription *s;
    ok(pawl_subscribe(w->p, 0, &s, &w->err));
    pawl_id one = send(w, (pawl_task){.type = "t1", .queue = "q1"}), two = send(w, (pawl_task){.type = "t2", .queue = "q2"});
    ok(pawl_cancel(w->p, one, NULL, &w->err));
    ok(pawl_cancel_where(w->p, &(pawl_filter){.queue = "q2"}, NULL, NULL, &w->err));
    for (int i = 0; i < 2; i++) {
        pawl_event event = {0};
        while (event.kind != PAWL_EVENT_CANCELLED) assert_true(pawl_next_event(s, PATIENCE, &event));
        assert_true(event.id == (i ? two : one));
        assert_string_equal(event.type, i ? "t2" : "t1");
        assert_string_equal(event.queue, i ? "q2" : "q1");
    }
    pawl_unsubscribe(s);
}

static void events_in_order(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = succeed}, &w->err));
    pawl_subscription *s;
    ok(pawl_subscribe(w->p, 0, &s, &w->err));
    struct pollfd fd = {.fd = pawl_subscription_fd(s), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 0);
    ok(pawl_start(w->p, &w->err));
    pawl_id id = send(w, (pawl_task){.type = "t"});
    char seen[200] = "";
    pawl_event event = {0};
    while (event.kind != PAWL_EVENT_SUCCEEDED) {
        assert_int_equal(poll(&fd, 1, 30000), 1);
        assert_true(pawl_next_event(s, 0, &event));
        if (event.id != id) continue;
        assert_string_equal(event.type, "t");
        assert_string_equal(event.queue, "default");
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s ", pawl_event_name(event.kind));
    }
    assert_string_equal(seen, "dispatched started succeeded ");
    assert_false(pawl_next_event(s, 0, &event));
    assert_int_equal(poll(&fd, 1, 0), 0);
    world_close(w);
    while (pawl_next_event(s, PATIENCE, &event)) continue; /* what happened until the end, then false */
    assert_int_equal(event.kind, PAWL_EVENT_NODE_STOPPED);
    pawl_unsubscribe(s);
}

static void slow_subscriber_loses_the_oldest(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_subscription *slow, *other;
    ok(pawl_subscribe(w->p, 4, &slow, &w->err));
    ok(pawl_subscribe(w->p, 100, &other, &w->err));
    pawl_id ids[20];
    for (int i = 0; i < 20; i++) ids[i] = send(w, (pawl_task){.type = "t"});
    pawl_event event;
    for (int i = 16; i < 20; i++) {
        assert_true(pawl_next_event(slow, PATIENCE, &event));
        assert_int_equal(event.id, ids[i]);
        assert_int_equal(event.lost, i == 16 ? 16 : 0);
    }
    pawl_unsubscribe(slow);
    for (int i = 0; i < 20; i++) {
        assert_true(pawl_next_event(other, PATIENCE, &event));
        assert_int_equal(event.id, ids[i]);
        assert_int_equal(event.lost, 0);
    }
    pawl_unsubscribe(other);
    send(w, (pawl_task){.type = "t"});
}

static bool stop_backup(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return false;
}

static void backup(void **state)
{
    world *w = *state;
    char path[128];
    struct stat st;
    world_path(w, "copy.db", path);
    w->p = world_open(w, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t", .payload = pawl_str("[1]")});
    if (!w->sqlite) {
        refused(pawl_backup(w->p, path, NULL, NULL, &w->err), PAWL_UNSUPPORTED, "memory");
        return;
    }
    char *large = malloc(500000);
    memset(large, '1', 500000);
    for (int i = 0; i < 4; i++) send(w, (pawl_task){.type = "t", .payload = {large, 500000}}); /* more than one step of it */
    free(large);
    refused(pawl_backup(w->p, path, stop_backup, NULL, &w->err), PAWL_CONFLICT, "");
    assert_int_not_equal(stat(path, &st), 0);
    ok(pawl_backup(w->p, path, NULL, NULL, &w->err));
    assert_true(pawl_backup(w->p, path, NULL, NULL, &w->err) != PAWL_OK); /* never over a file that is there */
    world_close(w);
    char url[160];
    snprintf(url, sizeof url, "sqlite:%s", path);
    w->p = world_open(w, (pawl_options){.store = url});
    pawl_info *i = get(w, id);
    assert_string_equal(i->type, "t");
    pawl_info_free(i);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(lists),
        TEST(searches),
        TEST(answers_outlive_the_engine),
        TEST(trail),
        TEST(stats_nodes_health),
        TEST(why),
        TEST(why_retrying),
        TEST(pause_and_resume),
        TEST(dead_letters),
        TEST(cancel_where),
        TEST(events_of_cancels),
        TEST(events_in_order),
        TEST(slow_subscriber_loses_the_oldest),
        TEST(backup),
    };
    return RUN_TESTS("looking and acting", tests);
}
