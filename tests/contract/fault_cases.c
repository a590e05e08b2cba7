/* The wrappers themselves, and what a store does for those whose answers get lost. */
#include "contract.h"

typedef struct script {
    fault fate;
    core_call_kind kind;
    int count; /* calls of that kind it strikes */
} script;

static fault by_script(void *ctx, core_call_kind kind)
{
    script *s = ctx;
    if (s->kind != kind || s->count == 0) return FAULT_NONE;
    s->count--;
    return s->fate;
}

/* A third handle with faults by script. */
static pawl_store *faulty(world *w, script *s)
{
    pawl_store *store = NULL;
    assert_int_equal(store_with_faults(open_handle(w), &w->allocator, by_script, s, &store), PAWL_OK);
    return store;
}

static void a_batch_whose_answer_was_lost(world *w)
{
    script s = {.fate = FAULT_AFTER, .kind = CORE_APPLY, .count = 1};
    pawl_store *store = faulty(w, &s);
    int64_t n = join(w, store);
    pawl_op *ops[] = {op_insert(w, (spec){.ask_lease = true}), op_insert(w, (spec){.draw = true}),
                      op_insert(w, (spec){.key = "k"})};
    pawl_batch batch = {.node = n, .number = 1, .ops = ops, .count = 3};
    assert_int_equal(try_apply(w, store, &batch), PAWL_UNKNOWN);
    for (int i = 0; i < 3; i++) assert_true(ops[i]->result == PAWL_OP_NONE && ops[i]->out_id == 0 && ops[i]->out_fence == 0);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 3);
    assert_int_equal(try_apply(w, store, &batch), PAWL_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(ops[i]->result, PAWL_OP_DONE);
    assert_true(ops[0]->out_fence == 1 && exists(w, ops[1]->out_id));
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 3);
    store_close(store);
}

static void a_batch_that_never_arrived(world *w)
{
    static const fault fates[] = {FAULT_BEFORE, FAULT_UNKNOWN};
    static const pawl_status answers[] = {PAWL_UNAVAILABLE, PAWL_UNKNOWN};
    for (int i = 0; i < 2; i++) {
        script s = {.fate = fates[i], .kind = CORE_APPLY, .count = 2};
        pawl_store *store = faulty(w, &s);
        int64_t n = join(w, store);
        pawl_op *op = op_insert(w, (spec){0});
        pawl_batch batch = {.node = n, .number = 1, .ops = &op, .count = 1};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(try_apply(w, store, &batch), answers[i]);
            assert_int_equal(w->err.status, answers[i]);
            assert_false(exists(w, op->id));
        }
        assert_int_equal(try_apply(w, store, &batch), PAWL_OK);
        assert_int_equal(op->result, PAWL_OP_DONE);
        store_close(store);
    }
}

static void a_claim_whose_answer_was_lost(world *w)
{
    script s = {.fate = FAULT_AFTER, .kind = CORE_CLAIM, .count = 1};
    pawl_store *store = faulty(w, &s);
    int64_t n = join(w, store);
    pawl_id id = insert(w, store, n, (spec){.payload = "1"});
    pawl_want want = {.queue = "q", .free = 1, .any_type = true};
    pawl_claim call = {.node = n, .wants = &want, .wants_count = 1, .allocator = &w->allocator, .tasks = w->claimed};
    assert_int_equal(store->type->claim(store, &call, w->arena, &w->err), PAWL_UNKNOWN);
    assert_int_equal(call.tasks_count, 0);
    assert_state(w, id, PAWL_LEASED);
    pawl_lease *leases;
    assert_int_equal(held(w, store, n, &leases), 1);
    assert_true(leases[0].id == id);
    assert_int_equal(apply(w, store, n, op_release(w, id, leases[0].fence, -1, PAWL_ATTEMPT_NONE)), PAWL_OP_DONE);
    assert_true(claim_one(w, store, n).body->id == id);
    store_close(store);
}

static void other_calls_may_be_repeated(world *w)
{
    script s = {.fate = FAULT_AFTER, .kind = CORE_IDS, .count = 1};
    pawl_store *store = faulty(w, &s);
    int64_t n = join(w, store), other = join(w, w->a);
    pawl_ids lost = {.node = n, .ahead_ms = 1000};
    assert_int_equal(store->type->take_ids(store, &lost, &w->err), PAWL_UNKNOWN);
    pawl_ids mine = take_ids(w, store, n, 0, 0), others = take_ids(w, w->a, other, 0, 0);
    assert_int_not_equal(mine.out_number, others.out_number);
    s = (script){.fate = FAULT_AFTER, .kind = CORE_LEAVE, .count = 1};
    assert_int_equal(store->type->leave(store, n, &w->err), PAWL_UNKNOWN);
    assert_int_equal(store->type->leave(store, n, &w->err), PAWL_OK);
    assert_false(node_of(w, n)->alive);
    s = (script){.fate = FAULT_BEFORE, .kind = CORE_REGISTER, .count = 1};
    pawl_registration call = {.name = "n", .queues = "", .types = "", .lease_us = LEASE};
    assert_int_equal(store->type->register_node(store, &call, &w->err), PAWL_UNAVAILABLE);
    store_close(store);
}

static void a_rescue_whose_answer_was_lost(world *w)
{
    script s = {.fate = FAULT_AFTER, .kind = CORE_RESCUE, .count = 1};
    pawl_store *store = faulty(w, &s);
    int64_t n = join(w, store), victim = join(w, w->b);
    pawl_id id = insert(w, w->b, victim, (spec){.ask_lease = true});
    advance(w, LEASE);
    pawl_rescue call = {.node = n, .victim = victim, .renewal = renewal_of(w, store, n, victim), .counts = true, .limit = 5};
    call.tasks = keep(w, 5 * sizeof *call.tasks);
    assert_int_equal(store->type->rescue(store, &call, &w->err), PAWL_UNKNOWN);
    assert_int_equal(store->type->rescue(store, &call, &w->err), PAWL_OK);
    assert_true(!call.refused && call.freed == 0 && !call.more);
    assert_int_equal(get(w, id)->rescues, 1);
    store_close(store);
}

typedef struct lines {
    int count;
    char last[512];
} lines;

static void note_line(void *ctx, pawl_level level, const char *line)
{
    lines *l = ctx;
    (void)level;
    l->count++;
    strncpy(l->last, line, sizeof l->last - 1);
}

static void the_trace_tells_each_call(world *w)
{
    lines l = {0};
    pawl_store *store = NULL;
    assert_int_equal(store_with_trace(open_handle(w), &w->allocator, note_line, &l, &store), PAWL_OK);
    assert_memory_equal(w->url, store->type->scheme, strlen(store->type->scheme));
    int64_t n = join(w, store);
    assert_int_equal(l.count, 1);
    insert(w, store, n, (spec){0});
    assert_int_equal(l.count, 2);
    assert_non_null(strstr(l.last, "apply"));
    assert_non_null(strstr(l.last, "-> ok in "));
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = new_id(w)};
    assert_int_equal(store_read(store, &query, w->arena, &w->err), PAWL_NOT_FOUND);
    assert_non_null(strstr(l.last, "-> not_found in "));
    assert_non_null(strstr(l.last, w->err.message));
    store_close(store);
    assert_int_equal(l.count, 4);
}

static void the_wrapped_store_has_no_more_than_the_inner(world *w)
{
    script s = {0};
    pawl_store *store = faulty(w, &s);
    const pawl_store_type *inner = store_kind_find("memory") == w->kind ? &store_memory_type : NULL;
    assert_true(store->type->lanes >= 1 && store->type->version == PAWL_STORE_VERSION);
    if (inner) assert_true(!store->type->backup && !store->type->tx_apply && !store->type->blocking && !store->type->durable);
    store_close(store);
}

CASES(fault_cases){
    {"faults: a batch whose answer was lost", a_batch_whose_answer_was_lost},
    {"faults: a batch that never arrived", a_batch_that_never_arrived},
    {"faults: a claim whose answer was lost", a_claim_whose_answer_was_lost},
    {"faults: other calls may be repeated", other_calls_may_be_repeated},
    {"faults: a rescue whose answer was lost", a_rescue_whose_answer_was_lost},
    {"trace: tells each call", the_trace_tells_each_call},
    {"wrappers: have no more than the store inside", the_wrapped_store_has_no_more_than_the_inner},
    {NULL, NULL},
};
