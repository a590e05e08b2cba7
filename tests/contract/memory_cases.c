/* Out of memory: the n-th allocation fails, for every n. Either nothing happened, or all of it. */
#include "contract.h"

#define TRIES_MAX 10000

/* Makes the call again and again, with the next allocation failing each time, until it succeeds. Answers how often it failed. */
static int until_it_works(world *w, bool (*call)(world *w, void *arg), void *arg)
{
    for (int n = 1; n < TRIES_MAX; n++) {
        w->allocations = 0;
        w->fail_at = n;
        bool done = call(w, arg);
        bool failed = w->allocations >= n;
        w->fail_at = 0;
        if (done) return n - 1;
        assert_true(failed);
    }
    fail_msg("it never works");
    return 0;
}

static bool out_of_memory(world *w, pawl_status status)
{
    if (status != PAWL_OK && status != PAWL_NO_MEMORY) fail_msg("%s: %s", pawl_status_name(status), w->err.message);
    return status == PAWL_NO_MEMORY;
}

typedef struct batch_arg {
    pawl_op *ops[5];
    pawl_batch batch;
} batch_arg;

static bool apply_batch(world *w, void *arg)
{
    batch_arg *b = arg;
    bool failed = out_of_memory(w, try_apply(w, w->a, &b->batch));
    if (!failed) return true;
    w->fail_at = 0;
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 2);
    assert_state(w, b->ops[1]->id, PAWL_LEASED);
    assert_state(w, b->ops[2]->id, PAWL_LEASED);
    assert_false(queue_of(w, "fresh") != NULL && queue_of(w, "fresh")->pending > 0);
    return false;
}

static void a_batch_is_whole(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id first = insert(w, w->a, n, (spec){.ask_lease = true}), second = insert(w, w->a, n, (spec){.ask_lease = true});
    batch_arg b = {.ops = {op_insert(w, (spec){.queue = "fresh", .type = "new", .key = "k", .payload = "\"x\""}),
                           op_finish(w, first, 1, PAWL_SUCCEEDED), op_release(w, second, 1, 0, PAWL_ATTEMPT_RETRY),
                           op_queue(w, "other", true, "ann"),
                           op_insert(w, (spec){.draw = true, .group = 1, .depth_limit = 100})}};
    b.ops[1]->u.finish.run.error = "text";
    b.ops[1]->u.finish.result = pawl_str("result");
    b.ops[1]->u.finish.run.log = pawl_str("1 2 hello\n");
    b.ops[1]->u.finish.run.log_lines = 1;
    b.ops[1]->u.finish.spawns = op_insert(w, (spec){.queue = "spawned"});
    b.ops[1]->u.finish.spawns_count = 1;
    b.ops[2]->u.release.run.error = "text";
    b.batch = (pawl_batch){.node = n, .number = number_of(w, n) + 1, .ops = b.ops, .count = 5};
    until_it_works(w, apply_batch, &b);
    for (int i = 0; i < 5; i++) assert_int_equal(b.ops[i]->result, PAWL_OP_DONE);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 5);
    assert_state(w, first, PAWL_SUCCEEDED);
    assert_int_equal(get(w, second)->failures, 1);
    assert_int_equal(get(w, second)->attempts_count, 1);
}

static bool claim_three(world *w, void *arg)
{
    pawl_want want = {.queue = "q", .free = 3, .any_type = true};
    pawl_claim call = {
        .node = *(int64_t *)arg, .wants = &want, .wants_count = 1, .allocator = &w->allocator, .tasks = w->claimed};
    bool failed = out_of_memory(w, w->a->type->claim(w->a, &call, w->arena, &w->err));
    w->fail_at = 0;
    w->claimed_count = failed ? 0 : call.tasks_count;
    if (failed) assert_true(stats_of(w, PAWL_HOUR)->pending == 3 && stats_of(w, PAWL_HOUR)->leased == 0);
    return !failed;
}

static void a_claim_is_whole(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 3; i++) insert(w, w->a, n, (spec){.payload = "1", .priority = i});
    until_it_works(w, claim_three, &n); /* a store that shares bodies needs no memory at all */
    assert_int_equal(w->claimed_count, 3);
    assert_int_equal(stats_of(w, PAWL_HOUR)->leased, 3);
}

static bool rescue_all(world *w, void *arg)
{
    pawl_rescue *call = arg;
    bool failed = out_of_memory(w, w->a->type->rescue(w->a, call, &w->err));
    w->fail_at = 0;
    if (failed) assert_int_equal(stats_of(w, PAWL_HOUR)->leased, 3);
    return !failed;
}

static void a_rescue_is_whole(world *w)
{
    int64_t n = join(w, w->a), victim = join(w, w->b);
    for (int i = 0; i < 3; i++) insert(w, w->b, victim, (spec){.ask_lease = true});
    advance(w, LEASE);
    pawl_rescue call = {.node = n, .victim = victim, .renewal = renewal_of(w, w->a, n, victim), .counts = true, .limit = 10};
    call.tasks = keep(w, 10 * sizeof *call.tasks);
    until_it_works(w, rescue_all, &call);
    assert_int_equal(call.freed, 3);
    assert_int_equal(stats_of(w, PAWL_HOUR)->pending, 3);
}

static bool register_one(world *w, void *arg)
{
    pawl_registration call = {.name = "n", .queues = "x,y,z", .types = "*", .lease_us = LEASE};
    bool failed = out_of_memory(w, w->a->type->register_node(w->a, &call, &w->err));
    *(int64_t *)arg = call.node;
    return !failed;
}

static void a_registration_is_whole(world *w)
{
    int64_t node = 0;
    until_it_works(w, register_one, &node);
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    assert_int_equal(query.nodes->count, 1);
    assert_true(query.nodes->nodes[0].id == node);
}

static bool open_one(world *w, void *arg)
{
    pawl_store_options options = {.url = w->url,
                                  .lease_us = LEASE,
                                  .lock_wait_us = PAWL_SECOND,
                                  .clock = clock_virtual(&w->clock),
                                  .allocator = &w->allocator};
    (void)arg;
    pawl_store *store = NULL;
    bool failed = out_of_memory(w, store_open(&options, &store, &w->err));
    if (failed) assert_null(store);
    store_close(store);
    return !failed;
}

static void opening_leaves_nothing_behind(world *w)
{
    int64_t blocks = w->blocks;
    until_it_works(w, open_one, NULL);
    assert_int_equal(w->blocks, blocks);
}

/* The same, for a store that does not exist yet. */
static void creating_leaves_nothing_behind(world *w)
{
    world old = *w;
    int64_t blocks = w->blocks;
    w->kind->fresh_url(w);
    until_it_works(w, open_one, NULL);
    assert_int_equal(w->blocks, blocks);
    w->kind->remove(w);
    memcpy(w->url, old.url, sizeof w->url);
    memcpy(w->dir, old.dir, sizeof w->dir);
}

static void a_question_that_finds_no_room(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k", .payload = "\"payload\"", .tenant = "acme"});
    for (int i = 0; i < 2; i++) {
        pawl_op *op = op_release(w, id, claim_one(w, w->a, n).fence, 0, PAWL_ATTEMPT_RETRY);
        op->u.release.run.error = "error";
        op->u.release.run.log = pawl_str("1 2 hello\n");
        apply(w, w->a, n, op);
    }
    static const pawl_query_kind kinds[] = {PAWL_QUERY_GET, PAWL_QUERY_LIST, PAWL_QUERY_TRAIL, PAWL_QUERY_STATS,
                                            PAWL_QUERY_NODES};
    pawl_filter filter = {.limit = 3};
    for (int i = 0; i < 5; i++) {
        pawl_status status = PAWL_NO_MEMORY;
        for (size_t limit = 16; status == PAWL_NO_MEMORY; limit += 16) {
            pawl_arena *arena = arena_new(alloc_default(), limit);
            pawl_query query = {.kind = kinds[i], .id = id, .filter = &filter};
            status = store_read(w->a, &query, arena, &w->err);
            arena_free(arena);
            assert_true(limit < 65536);
        }
        assert_int_equal(status, PAWL_OK);
    }
}

typedef struct family_arg {
    pawl_op *ops[4];
    pawl_batch batch;
    pawl_id waits;
} family_arg;

static bool apply_family(world *w, void *arg)
{
    family_arg *b = arg;
    bool failed = out_of_memory(w, try_apply(w, w->a, &b->batch));
    if (!failed) return true;
    w->fail_at = 0;
    assert_state(w, b->ops[0]->id, PAWL_LEASED);
    assert_state(w, b->waits, PAWL_WAITING);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 2);
    return false;
}

static pawl_op *op_child(world *w, pawl_kin parent, pawl_kin batch)
{
    pawl_op *op = op_insert(w, (spec){0});
    pawl_family *f = keep(w, sizeof *f);
    pawl_kin *kin = keep(w, sizeof *kin);
    *kin = parent;
    *f = (pawl_family){.parents = kin, .parents_count = parent.id || parent.op, .batch = batch};
    op->u.insert.family = f;
    return op;
}

static void a_family_is_whole(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id parent = insert(w, w->a, n, (spec){.ask_lease = true});
    pawl_op *first = op_child(w, (pawl_kin){.id = parent}, (pawl_kin){0}), *open = keep(w, sizeof *open);
    pawl_batch_put *put = keep(w, sizeof *put);
    assert_int_equal(apply(w, w->a, n, first), PAWL_OP_DONE);
    *put = (pawl_batch_put){.act = PAWL_BATCH_OPEN, .name = "b"};
    *open = (pawl_op){.kind = PAWL_OP_BATCH, .id = new_id(w), .audit = PAWL_AUDIT_FULL, .u.batch = put};
    family_arg b = {.waits = first->out_id, .ops = {op_finish(w, parent, 1, PAWL_SUCCEEDED), open}};
    b.ops[2] = op_child(w, (pawl_kin){.id = b.waits}, (pawl_kin){.op = open});
    b.ops[3] = op_child(w, (pawl_kin){.op = open}, (pawl_kin){0});
    b.batch = (pawl_batch){.node = n, .number = number_of(w, n) + 1, .ops = b.ops, .count = 4};
    until_it_works(w, apply_family, &b);
    for (int i = 0; i < 4; i++) assert_int_equal(b.ops[i]->result, PAWL_OP_DONE);
    assert_state(w, b.waits, PAWL_PENDING);
    assert_state(w, b.ops[2]->out_id, PAWL_WAITING);
    assert_state(w, b.ops[3]->out_id, PAWL_WAITING);
}

CASES(memory_cases){
    {"out of memory: a batch is whole", a_batch_is_whole},
    {"out of memory: a claim is whole", a_claim_is_whole},
    {"out of memory: a rescue is whole", a_rescue_is_whole},
    {"out of memory: a registration is whole", a_registration_is_whole},
    {"out of memory: opening leaves nothing behind", opening_leaves_nothing_behind},
    {"out of memory: creating leaves nothing behind", creating_leaves_nothing_behind},
    {"out of memory: a question that finds no room", a_question_that_finds_no_room},
    {"parent: a batch is whole when memory runs out", a_family_is_whole},
    {NULL, NULL},
};
