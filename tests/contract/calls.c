/* Operations and calls, made short. */
#include "contract.h"
#include "base/idgen.h"

pawl_id new_id(world *w) { return ++w->last_id; }

static pawl_op *op_new(world *w, pawl_op_kind kind, pawl_id id, int64_t fence)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = kind;
    op->id = id;
    op->fence = fence;
    op->audit = PAWL_AUDIT_FULL;
    return op;
}

pawl_op *op_insert(world *w, spec s)
{
    pawl_op *op = op_new(w, PAWL_OP_INSERT, s.draw ? 0 : s.id ? s.id : new_id(w), 0);
    pawl_body *body = keep(w, sizeof *body);
    *body = (pawl_body){.id = op->id,
                        .type = s.type ? s.type : "t",
                        .queue = s.queue ? s.queue : "q",
                        .tenant = s.tenant ? s.tenant : "",
                        .key = s.key,
                        .content_type = "application/json",
                        .priority = s.priority,
                        .audit = s.audit};
    if (s.payload) body->payload = (pawl_bytes){s.payload, strlen(s.payload)};
    if (s.rate_key) body->rate_key = (pawl_bytes){s.rate_key, strlen(s.rate_key)};
    if (s.audit) op->audit = s.audit;
    op->u.insert.body = body;
    op->u.insert.delay_us = s.delay_us;
    op->u.insert.at_us = s.at_us;
    op->u.insert.ask_lease = s.ask_lease;
    op->u.insert.may_exist = s.may_exist;
    op->u.insert.depth_limit = s.depth_limit;
    op->u.insert.group = s.group;
    return op;
}

pawl_op *op_start(world *w, pawl_id id, int64_t fence, bool mark)
{
    pawl_op *op = op_new(w, PAWL_OP_START, id, fence);
    op->u.start.mark = mark;
    return op;
}

static pawl_execution execution(world *w, pawl_attempt_outcome outcome)
{
    int64_t started_us = outcome ? w->clock.now_us - 2000 : 0, finished_us = outcome ? w->clock.now_us - 1000 : 0;
    return (pawl_execution){
        .outcome = outcome, .number = 1, .started_us = started_us, .finished_us = finished_us, .progress = -1};
}

pawl_op *op_finish(world *w, pawl_id id, int64_t fence, pawl_state to)
{
    static const pawl_attempt_outcome outcomes[PAWL_STATE_COUNT] = {[PAWL_SUCCEEDED] = PAWL_ATTEMPT_SUCCEEDED,
                                                                    [PAWL_FAILED] = PAWL_ATTEMPT_FAILED,
                                                                    [PAWL_CANCELLED] = PAWL_ATTEMPT_CANCELLED};
    pawl_op *op = op_new(w, PAWL_OP_FINISH, id, fence);
    op->u.finish.to = to;
    op->u.finish.run = execution(w, outcomes[to]);
    return op;
}

pawl_op *op_release(world *w, pawl_id id, int64_t fence, int64_t delay_us, pawl_attempt_outcome outcome)
{
    pawl_op *op = op_new(w, PAWL_OP_RELEASE, id, fence);
    op->u.release.delay_us = delay_us;
    op->u.release.failure = outcome == PAWL_ATTEMPT_RETRY || outcome == PAWL_ATTEMPT_TIMEOUT;
    op->u.release.interruption = outcome == PAWL_ATTEMPT_INTERRUPTED;
    op->u.release.run = execution(w, outcome);
    return op;
}

pawl_op *op_progress(world *w, pawl_id id, int64_t fence, int percent, const char *text)
{
    pawl_op *op = op_new(w, PAWL_OP_PROGRESS, id, fence);
    op->u.progress.percent = percent;
    op->u.progress.text = text;
    return op;
}

pawl_op *op_cancel(world *w, pawl_id id, const char *by)
{
    pawl_op *op = op_new(w, PAWL_OP_CANCEL, id, 0);
    op->by = by;
    return op;
}

pawl_op *op_retry(world *w, pawl_id id, const char *by)
{
    pawl_op *op = op_new(w, PAWL_OP_RETRY, id, 0);
    op->by = by;
    op->u.retry.new_id = new_id(w);
    return op;
}

pawl_op *op_bound(world *w, pawl_scope scope, const char *name, const char *key, int most)
{
    pawl_op *op = op_new(w, PAWL_OP_BOUND, 0, 0);
    op->u.bound.scope = scope;
    op->u.bound.name = name;
    op->u.bound.key = pawl_str(key);
    op->u.bound.most = most;
    op->u.bound.move = 1000;
    return op;
}

void bound(world *w, pawl_scope scope, const char *name, int most)
{
    assert_int_equal(apply(w, w->a, 0, op_bound(w, scope, name, NULL, most)), PAWL_OP_DONE);
}

void bound_in_order(world *w, const char *type)
{
    pawl_op *op = op_bound(w, PAWL_SCOPE_KEYS, type, NULL, 1);
    op->u.bound.ordered = true;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
}

pawl_op *op_ack(world *w, pawl_id id, const char *by, const char *note)
{
    pawl_op *op = op_new(w, PAWL_OP_ACK, id, 0);
    op->by = by;
    op->u.ack.note = note;
    return op;
}

pawl_op *op_queue(world *w, const char *queue, bool pause, const char *by)
{
    pawl_op *op = op_new(w, PAWL_OP_QUEUE, 0, 0);
    op->by = by;
    op->u.queue.queue = queue;
    op->u.queue.pause = pause;
    return op;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static int64_t *number_slot(world *w, int64_t node)
{
    for (int i = 0; i < NODES_MAX; i++)
        if (w->numbers[i][0] == node) return &w->numbers[i][1];
    fail_msg("node %lld never joined", (long long)node);
    return NULL;
}

int64_t number_of(world *w, int64_t node) { return *number_slot(w, node); }

pawl_status try_apply(world *w, pawl_store *store, pawl_batch *batch)
{
    return store->type->apply(store, batch, w->arena, &w->err);
}

pawl_batch apply_all(world *w, pawl_store *store, int64_t node, pawl_op **ops, int count)
{
    pawl_batch batch = {.node = node, .number = node ? *number_slot(w, node) + 1 : 0, .ops = ops, .count = count};
    if (try_apply(w, store, &batch)) fail_msg("apply failed: %s", w->err.message);
    if (node) *number_slot(w, node) = batch.number;
    return batch;
}

pawl_op_result apply(world *w, pawl_store *store, int64_t node, pawl_op *op)
{
    apply_all(w, store, node, &op, 1);
    return op->result;
}

pawl_id insert(world *w, pawl_store *store, int64_t node, spec s)
{
    pawl_op *op = op_insert(w, s);
    assert_int_equal(apply(w, store, node, op), PAWL_OP_DONE);
    return op->out_id;
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

pawl_want claim(world *w, pawl_store *store, int64_t node, wish s)
{
    pawl_want want = {.queue = s.queue ? s.queue : "q",
                      .free = s.free,
                      .prefetch = s.prefetch,
                      .solo = s.solo,
                      .any_type = !s.types[0],
                      .types = s.types};
    while (want.types_count < 4 && s.types[want.types_count]) want.types_count++;
    for (int i = 0; i < w->claimed_count; i++) pawl_body_free(&w->allocator, w->claimed[i].body);
    w->claimed_count = 0;
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = &w->allocator, .tasks = w->claimed};
    if (store->type->claim(store, &call, w->arena, &w->err)) fail_msg("claim failed: %s", w->err.message);
    assert_int_equal(call.tasks_count, want.got);
    assert_true(want.got <= s.free + s.prefetch);
    w->claimed_count = call.tasks_count;
    w->news = call.news;
    want.types = NULL;
    return want;
}

pawl_claimed claim_one(world *w, pawl_store *store, int64_t node)
{
    claim(w, store, node, (wish){.free = 1, .solo = true});
    assert_int_equal(w->claimed_count, 1);
    return w->claimed[0];
}

pawl_claimed lease(world *w, pawl_store *store, int64_t node, pawl_id id)
{
    for (;;) {
        pawl_claimed got = claim_one(w, store, node);
        if (got.body->id == id) return got;
    }
}

pawl_renewal renew(world *w, pawl_store *store, int64_t node)
{
    pawl_renewal call = {.node = node};
    if (store->type->renew(store, &call, &w->err)) fail_msg("renew failed: %s", w->err.message);
    w->news = call.news;
    return call;
}

int held(world *w, pawl_store *store, int64_t node, pawl_lease **leases)
{
    int count = -1;
    if (store->type->held(store, node, leases, &count, w->arena, &w->err)) fail_msg("held failed: %s", w->err.message);
    return count;
}

pawl_rescue rescue(world *w, pawl_store *store, int64_t node, int64_t victim, int64_t renewal, int limit)
{
    pawl_rescue call = {.node = node, .victim = victim, .renewal = renewal, .counts = true, .limit = limit};
    call.tasks = keep(w, (size_t)limit * sizeof *call.tasks);
    if (store->type->rescue(store, &call, &w->err)) fail_msg("rescue failed: %s", w->err.message);
    return call;
}

int64_t renewal_of(world *w, pawl_store *store, int64_t node, int64_t victim)
{
    claim(w, store, node, (wish){.free = 0});
    for (int i = 0; i < w->news.lapsed_count; i++)
        if (w->news.lapsed[i].node == victim) return w->news.lapsed[i].renewal;
    return -1;
}

pawl_rescue rescue_lapsed(world *w, pawl_store *store, int64_t node, int64_t victim, bool counts)
{
    advance(w, LEASE + 1);
    int64_t renewal = renewal_of(w, store, node, victim);
    assert_true(renewal >= 0);
    pawl_rescue call = {.node = node, .victim = victim, .renewal = renewal, .counts = counts, .limit = 100};
    call.tasks = keep(w, 100 * sizeof *call.tasks);
    if (store->type->rescue(store, &call, &w->err)) fail_msg("rescue failed: %s", w->err.message);
    assert_false(call.refused);
    return call;
}

/* ---- upkeep ------------------------------------------------------------------------------------------------------ */

pawl_sweep keep_all(void)
{
    return (pawl_sweep){.keep_succeeded_us = -1,
                        .keep_cancelled_us = -1,
                        .keep_resolved_us = -1,
                        .keep_failed_us = -1,
                        .keep_audit_us = -1,
                        .keep_logs_us = -1,
                        .limit = 1000};
}

pawl_sweep sweep(world *w, pawl_sweep how)
{
    if (w->a->type->sweep(w->a, &how, &w->err)) fail_msg("sweep failed: %s", w->err.message);
    return how;
}

pawl_ids take_ids(world *w, pawl_store *store, int64_t node, int number, int64_t used_ms)
{
    pawl_ids call = {.node = node, .number = number, .ahead_ms = 600000, .used_ms = used_ms};
    if (store->type->take_ids(store, &call, &w->err)) fail_msg("take_ids failed: %s", w->err.message);
    return call;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static pawl_status ask(world *w, pawl_query *query) { return store_read(w->a, query, w->arena, &w->err); }

pawl_info *get(world *w, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = id};
    if (ask(w, &query)) fail_msg("get failed: %s", w->err.message);
    assert_true(query.info->id == id);
    return query.info;
}

bool exists(world *w, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = id};
    pawl_status status = ask(w, &query);
    assert_true(status == PAWL_OK || status == PAWL_NOT_FOUND);
    return status == PAWL_OK;
}

static pawl_query state_query(world *w, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_STATE, .id = id};
    if (ask(w, &query)) fail_msg("state failed: %s", w->err.message);
    return query;
}

pawl_state state_of(world *w, pawl_id id) { return state_query(w, id).state; }

int64_t fence_of(world *w, pawl_id id) { return state_query(w, id).fence; }

pawl_trail *trail_of(world *w, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_TRAIL, .id = id};
    if (ask(w, &query)) fail_msg("trail failed: %s", w->err.message);
    return query.trail;
}

pawl_page *list_page(world *w, pawl_filter filter)
{
    if (!filter.limit) filter.limit = 1000;
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter, .deadline_us = 10 * PAWL_SECOND};
    if (ask(w, &query)) fail_msg("list failed: %s", w->err.message);
    return query.page;
}

int count_tasks(world *w, pawl_filter filter)
{
    pawl_page *page = list_page(w, filter);
    assert_null(page->next);
    return (int)page->count;
}

pawl_stats *stats_of(world *w, int64_t window_us)
{
    pawl_query query = {.kind = PAWL_QUERY_STATS, .window_us = window_us};
    if (ask(w, &query)) fail_msg("stats failed: %s", w->err.message);
    return query.stats;
}

pawl_acts *acts_of(world *w, int64_t before, int limit)
{
    pawl_query query = {.kind = PAWL_QUERY_ACTS, .before = before, .limit = limit};
    if (ask(w, &query)) fail_msg("the operator log failed: %s", w->err.message);
    return query.acts;
}

const pawl_queue_info *queue_of(world *w, const char *name)
{
    pawl_stats *stats = stats_of(w, PAWL_HOUR);
    for (size_t i = 0; i < stats->queues_count; i++)
        if (strcmp(stats->queues[i].name, name) == 0) return &stats->queues[i];
    return NULL;
}

const pawl_node_info *node_of(world *w, int64_t node)
{
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    if (ask(w, &query)) fail_msg("nodes failed: %s", w->err.message);
    for (size_t i = 0; i < query.nodes->count; i++)
        if (query.nodes->nodes[i].id == node) return &query.nodes->nodes[i];
    return NULL;
}
