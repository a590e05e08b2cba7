/* Claims: who gets what, in which order, and what the answer tells besides. */
#include "contract.h"

static void in_order(world *w)
{
    int64_t n = join(w, w->a), now = w->clock.now_us;
    struct {
        int priority;
        int64_t at_us;
    } rows[] = {{0, now + 3}, {5, now + 1}, {0, now + 2},      {-5, now + 4},
                {0, now + 2}, {5, now + 1}, {-32768, now + 5}, {32767, now}};
    static const int order[] = {6, 3, 2, 4, 0, 1, 5, 7};
    pawl_id ids[8];
    for (int i = 0; i < 8; i++) ids[i] = insert(w, w->a, n, (spec){.priority = rows[i].priority, .at_us = rows[i].at_us});
    advance(w, 10);
    pawl_want want = claim(w, w->a, n, (wish){.free = 8});
    assert_true(want.got == 8 && !want.more && want.next_due_us == 0);
    for (int i = 0; i < 8; i++) assert_true(w->claimed[i].body->id == ids[order[i]]);
}

static void in_order_across_types(world *w)
{
    static const char *const types[] = {"t", "u", "v"};
    int64_t n = join(w, w->a);
    pawl_id ids[9];
    for (int i = 0; i < 9; i++) ids[i] = insert(w, w->a, n, (spec){.type = types[i * 2 % 3], .priority = i % 2});
    claim(w, w->a, n, (wish){.free = 9, .types = {"u", "t", "v"}});
    assert_int_equal(w->claimed_count, 9);
    for (int i = 0; i < 9; i++) assert_true(w->claimed[i].body->id == ids[i < 5 ? 2 * i : 2 * (i - 5) + 1]);
}

static void one_by_one_in_the_same_order(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id ids[4];
    for (int i = 0; i < 4; i++) ids[i] = insert(w, w->a, n, (spec){.priority = 3 - i});
    for (int i = 0; i < 4; i++) assert_true(claim_one(w, i % 2 ? w->b : w->a, n).body->id == ids[3 - i]);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1}).got, 0);
}

static void everything_about_the_task(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_insert(w, (spec){.type = "mail", .tenant = "acme", .key = "k", .payload = "{\"n\":1}", .priority = 3});
    pawl_body *b = op->u.insert.body;
    b->headers = "h";
    b->traceparent = "tp";
    b->created_by = "ann";
    b->content_type = "text/x";
    b->rate_key = (pawl_bytes){"r\0k", 3};
    b->max_attempts = 2;
    b->timeout_us = 77;
    b->audit = PAWL_AUDIT_NONE;
    apply(w, w->a, n, op);
    int64_t created_us = w->clock.now_us;
    advance(w, 5);
    pawl_claimed got = claim_one(w, w->b, n);
    assert_true(got.fence == 1 && got.run_at_us == created_us && got.want == 0);
    assert_true(!got.suspect && !got.solo && !got.not_started && got.runs == 0);
    assert_true(got.body->id == op->id && got.body->created_us == created_us && got.body->priority == 3);
    assert_string_equal(got.body->type, "mail");
    assert_string_equal(got.body->queue, "q");
    assert_string_equal(got.body->tenant, "acme");
    assert_string_equal(got.body->key, "k");
    assert_string_equal(got.body->headers, "h");
    assert_string_equal(got.body->traceparent, "tp");
    assert_string_equal(got.body->created_by, "ann");
    assert_string_equal(got.body->content_type, "text/x");
    assert_true(got.body->max_attempts == 2 && got.body->timeout_us == 77 && got.body->audit == PAWL_AUDIT_NONE);
    assert_true(got.body->payload.len == 7 && got.body->payload.data[7] == '\0');
    assert_string_equal(got.body->payload.data, "{\"n\":1}");
    assert_true(got.body->rate_key.len == 3 && memcmp(got.body->rate_key.data, "r\0k", 3) == 0);
    assert_state(w, op->id, PAWL_LEASED);
    assert_true(get(w, op->id)->node == n);
}

static void no_tenant_is_an_empty_one(world *w)
{
    int64_t n = join(w, w->a);
    insert(w, w->a, n, (spec){0});
    pawl_claimed got = claim_one(w, w->a, n);
    assert_string_equal(got.body->tenant, "");
    assert_null(got.body->key);
    assert_null(got.body->headers);
    assert_int_equal(got.body->payload.len, 0);
}

static void not_before_its_time(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.delay_us = PAWL_MINUTE});
    insert(w, w->a, n, (spec){.delay_us = PAWL_HOUR});
    pawl_want want = claim(w, w->a, n, (wish){.free = 2});
    assert_true(want.got == 0 && !want.more && want.next_due_us == w->clock.now_us + PAWL_MINUTE);
    advance(w, PAWL_MINUTE - 1);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 2}).got, 0);
    advance(w, 1);
    want = claim(w, w->a, n, (wish){.free = 2});
    assert_true(want.got == 1 && w->claimed[0].body->id == id);
    assert_true(want.next_due_us == w->clock.now_us - PAWL_MINUTE + PAWL_HOUR);
}

static void the_future_hides_nothing(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 50; i++) insert(w, w->a, n, (spec){.priority = -1, .delay_us = PAWL_HOUR});
    pawl_id id = insert(w, w->a, n, (spec){.priority = 5});
    assert_true(claim_one(w, w->a, n).body->id == id);
}

static void a_clock_set_back_makes_tasks_wait(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    insert(w, w->a, n, (spec){.priority = -1, .delay_us = 2 * PAWL_SECOND});
    advance(w, 5 * PAWL_SECOND);
    step_wall(w, -4 * PAWL_SECOND);
    assert_true(claim_one(w, w->a, n).body->id == id);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1}).got, 0);
    step_wall(w, -PAWL_HOUR);
    pawl_want want = claim(w, w->a, n, (wish){.free = 1});
    assert_true(want.got == 0 && want.next_due_us > w->clock.now_us);
}

static void only_known_types(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 30; i++) insert(w, w->a, n, (spec){.type = "strange"});
    insert(w, w->a, n, (spec){.type = "strange", .delay_us = 5});
    pawl_id id = insert(w, w->a, n, (spec){.type = "known", .priority = 9});
    insert(w, w->a, n, (spec){.type = "known", .delay_us = PAWL_HOUR});
    pawl_want want = claim(w, w->a, n, (wish){.free = 10, .types = {"known", "other"}});
    assert_true(want.got == 1 && w->claimed[0].body->id == id);
    assert_true(!want.more && want.next_due_us == w->clock.now_us + PAWL_HOUR);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 10, .types = {"other"}}).got, 0);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 50}).got, 30);
}

static void as_many_as_wanted(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 10; i++) insert(w, w->a, n, (spec){0});
    pawl_want want = claim(w, w->a, n, (wish){.free = 2, .prefetch = 3});
    assert_true(want.got == 5 && want.more);
    want = claim(w, w->a, n, (wish){.free = 5});
    assert_true(want.got == 5 && !want.more);
    want = claim(w, w->a, n, (wish){.free = 5});
    assert_true(want.got == 0 && !want.more && want.next_due_us == 0);
}

static void several_queues_in_one_call(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id q = insert(w, w->a, n, (spec){0}), p = insert(w, w->a, n, (spec){.queue = "p"});
    insert(w, w->a, n, (spec){.queue = "p", .delay_us = 9});
    insert(w, w->a, n, (spec){.queue = "r"});
    apply(w, w->a, n, op_queue(w, "r", true, NULL));
    pawl_want wants[] = {{.queue = "nowhere", .free = 2, .any_type = true},
                         {.queue = "p", .free = 2, .any_type = true},
                         {.queue = "r", .free = 2, .any_type = true},
                         {.queue = "q", .free = 2, .any_type = true}};
    pawl_claim call = {.node = n, .wants = wants, .wants_count = 4, .allocator = &w->allocator, .tasks = w->claimed};
    assert_int_equal(w->a->type->claim(w->a, &call, w->arena, &w->err), PAWL_OK);
    w->claimed_count = call.tasks_count;
    assert_int_equal(call.tasks_count, 2);
    for (int i = 0; i < 2; i++) {
        bool of_p = w->claimed[i].want == 1;
        assert_true(of_p || w->claimed[i].want == 3);
        assert_true(w->claimed[i].body->id == (of_p ? p : q));
    }
    assert_true(wants[0].got == 0 && wants[1].got == 1 && wants[2].got == 0 && wants[3].got == 1);
    assert_true(wants[2].paused && !wants[0].paused && !wants[1].paused);
    assert_true(wants[1].next_due_us == w->clock.now_us + 9 && wants[0].next_due_us == 0);
}

static void never_twice(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_id seen[40];
    int count = 0;
    for (int i = 0; i < 40; i++) insert(w, w->a, n, (spec){.priority = i % 3});
    for (int round = 0; count < 40; round++) {
        claim(w, round % 2 ? w->a : w->b, round % 2 ? n : other, (wish){.free = 3});
        assert_true(w->claimed_count > 0);
        for (int i = 0; i < w->claimed_count; i++) {
            for (int k = 0; k < count; k++) assert_true(seen[k] != w->claimed[i].body->id);
            seen[count++] = w->claimed[i].body->id;
        }
    }
}

static void keyed_ones_that_wait_are_not_started(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 6; i++) insert(w, w->a, n, (spec){.key = i == 0 ? "a" : i == 2 ? "b" : i == 4 ? "c" : NULL});
    claim(w, w->a, n, (wish){.free = 2, .prefetch = 4});
    assert_int_equal(w->claimed_count, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(w->claimed[i].not_started, i == 2 || i == 4);
}

static void nothing_for_the_dead_or_unknown(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    insert(w, w->a, n, (spec){.ask_lease = true});
    rescue_lapsed(w, w->b, other, n, true);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1, .solo = true}).got, 0);
    assert_true(w->news.node_dead);
    claim(w, w->b, other, (wish){.free = 0});
    assert_false(w->news.node_dead);
    assert_int_equal(claim(w, w->a, 999999, (wish){.free = 1, .solo = true}).got, 0);
    assert_true(w->news.node_dead);
}

static void a_grant_writes_the_heartbeat(world *w)
{
    int64_t n = join(w, w->a);
    insert(w, w->a, n, (spec){0});
    claim(w, w->a, n, (wish){.free = 0});
    assert_true(node_of(w, n)->expires_us == 0);
    claim_one(w, w->a, n);
    assert_true(node_of(w, n)->expires_us == w->clock.now_us + LEASE && node_of(w, n)->leases == 1);
    advance(w, PAWL_SECOND);
    claim(w, w->a, n, (wish){.free = 1});
    assert_true(node_of(w, n)->expires_us == w->clock.now_us + LEASE - PAWL_SECOND);
}

static void only_the_news(world *w)
{
    int64_t n = join(w, w->a);
    pawl_claim call = {.node = n, .allocator = &w->allocator};
    assert_int_equal(w->a->type->claim(w->a, &call, w->arena, &w->err), PAWL_OK);
    assert_true(call.tasks_count == 0 && !call.news.node_dead && call.news.store_now_us == w->clock.now_us);
    assert_true(call.news.foreign_expiry_us == -1 && call.news.lapsed_count == 0 && call.news.cancels_count == 0);
}

static void thousands_at_once(world *w)
{
    enum { MANY = 3000 };
    int64_t n = join(w, w->a);
    pawl_op **ops = keep(w, MANY * sizeof *ops);
    for (int i = 0; i < MANY; i++) ops[i] = op_insert(w, (spec){0});
    apply_all(w, w->a, n, ops, MANY);
    int next = 0;
    while (next < MANY) {
        claim(w, w->a, n, (wish){.free = 1000});
        assert_int_equal(w->claimed_count, 1000);
        for (int i = 0; i < 1000; i++) assert_true(w->claimed[i].body->id == ops[next++]->id);
    }
    pawl_lease *leases;
    assert_int_equal(held(w, w->a, n, &leases), MANY);
}

CASES(claim_cases){
    {"claim: by priority, time, id", in_order},
    {"claim: in order across types", in_order_across_types},
    {"claim: one by one in the same order", one_by_one_in_the_same_order},
    {"claim: everything about the task", everything_about_the_task},
    {"claim: no tenant is an empty one", no_tenant_is_an_empty_one},
    {"claim: not before its time", not_before_its_time},
    {"claim: urgent tasks of the future hide nothing", the_future_hides_nothing},
    {"claim: a wall clock set back makes tasks wait", a_clock_set_back_makes_tasks_wait},
    {"claim: only known types", only_known_types},
    {"claim: as many as wanted, and whether there are more", as_many_as_wanted},
    {"claim: several queues in one call", several_queues_in_one_call},
    {"claim: never twice", never_twice},
    {"claim: keyed ones that wait are not started", keyed_ones_that_wait_are_not_started},
    {"claim: nothing for the dead or unknown", nothing_for_the_dead_or_unknown},
    {"claim: a grant writes the heartbeat, nothing else does", a_grant_writes_the_heartbeat},
    {"claim: only the news", only_the_news},
    {"claim: thousands", thousands_at_once},
    {NULL, NULL},
};
