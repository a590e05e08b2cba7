/* The gate, dump and load. A store that has none of them passes: its tasks cannot be moved. */
#include "contract.h"
#include <stdio.h>
#include <stdlib.h>

#define MOVE "contract:1"
#define ALL (~0u)

static bool cannot(const world *w) { return !w->a->type->set_gate; }

/* ---- the gate ---------------------------------------------------------------------------------------------------- */

static pawl_status try_gate(world *w, pawl_store *store, pawl_gate_mode mode, const char *move, const char *position)
{
    pawl_gate gate = {.mode = mode, .move = move, .peer = "sqlite:elsewhere.db", .by = "ann", .position = position};
    return store_set_gate(store, &gate, &w->err);
}

static void set_gate(world *w, pawl_gate_mode mode)
{
    assert_int_equal(try_gate(w, w->a, mode, MOVE, mode ? "0" : NULL), PAWL_OK);
}

static pawl_gate *gate_of(world *w, pawl_store *store)
{
    pawl_query query = {.kind = PAWL_QUERY_GATE};
    assert_int_equal(store_read(store, &query, w->arena, &w->err), PAWL_OK);
    return query.gate;
}

static pawl_op *op_limit(world *w, const char *type, const char *key, pawl_rate rate)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_LIMIT;
    op->audit = PAWL_AUDIT_FULL;
    op->u.limit.type = type;
    op->u.limit.key = pawl_str(key);
    op->u.limit.rate = rate;
    return op;
}

static void tells_what_was_set(world *w)
{
    if (cannot(w)) return;
    pawl_gate *fresh = gate_of(w, w->b);
    assert_int_equal(fresh->mode, PAWL_GATE_OPEN);
    assert_null(fresh->move);
    assert_true(fresh->store && fresh->store[0]);
    advance(w, PAWL_HOUR);
    set_gate(w, PAWL_GATE_LEAVING);
    pawl_gate *g = gate_of(w, w->b);
    assert_int_equal(g->mode, PAWL_GATE_LEAVING);
    assert_string_equal(g->move, MOVE);
    assert_string_equal(g->peer, "sqlite:elsewhere.db");
    assert_string_equal(g->by, "ann");
    assert_string_equal(g->position, "0");
    assert_true(g->at_us == w->clock.now_us);
    assert_string_equal(g->store, fresh->store);
    advance(w, PAWL_HOUR);
    set_gate(w, PAWL_GATE_LEAVING);
    assert_true(gate_of(w, w->a)->at_us == w->clock.now_us - PAWL_HOUR);
    reopen(w);
    assert_int_equal(gate_of(w, w->a)->mode, PAWL_GATE_LEAVING);
}

static void belongs_to_one_move(world *w)
{
    if (cannot(w)) return;
    set_gate(w, PAWL_GATE_CLOSED);
    assert_int_equal(try_gate(w, w->b, PAWL_GATE_ARRIVING, "contract:2", "0"), PAWL_CONFLICT);
    assert_int_equal(try_gate(w, w->b, PAWL_GATE_OPEN, "contract:2", NULL), PAWL_CONFLICT);
    assert_int_equal(gate_of(w, w->a)->mode, PAWL_GATE_CLOSED);
    pawl_gate late = {.mode = PAWL_GATE_CLOSED, .move = MOVE, .position = "2", .before = "1"};
    assert_int_equal(store_set_gate(w->b, &late, &w->err), PAWL_CONFLICT);
    late.before = "0";
    assert_int_equal(store_set_gate(w->b, &late, &w->err), PAWL_OK);
    assert_string_equal(gate_of(w, w->a)->position, "2");
    assert_int_equal(try_gate(w, w->b, PAWL_GATE_OPEN, MOVE, "complete"), PAWL_OK);
    assert_string_equal(gate_of(w, w->a)->move, MOVE); /* it remembers where its tasks came from */
    assert_int_equal(try_gate(w, w->b, PAWL_GATE_OPEN, MOVE, NULL), PAWL_OK);
    assert_int_equal(try_gate(w, w->b, PAWL_GATE_LEAVING, "contract:2", "0"), PAWL_OK);
}

static void nothing_comes(world *w)
{
    if (cannot(w)) return;
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_id live = insert(w, w->a, n, (spec){0}), keyed = insert(w, w->a, n, (spec){.key = "k", .delay_us = PAWL_HOUR});
    pawl_op *in = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, in);
    apply(w, w->a, n, op_finish(w, in->id, in->out_fence, PAWL_FAILED));
    pawl_gate_mode shut[] = {PAWL_GATE_CLOSED, PAWL_GATE_ARRIVING};
    for (int i = 0; i < 2; i++) {
        set_gate(w, shut[i]);
        pawl_op *ops[] = {op_insert(w, (spec){0}),
                          op_insert(w, (spec){.key = "k"}),
                          op_insert(w, (spec){.ask_lease = true, .depth_limit = 1}),
                          op_cancel(w, live, "ann"),
                          op_retry(w, in->id, "ann"),
                          op_queue(w, "q", true, "ann"),
                          op_limit(w, "t", NULL, (pawl_rate){.permits = 1, .period_us = PAWL_SECOND})};
        int count = w->a->type->limits ? 7 : 6;
        apply_all(w, w->b, other, ops, count);
        for (int k = 0; k < count; k++) assert_int_equal(ops[k]->result, PAWL_OP_CLOSED);
        assert_int_equal(apply(w, w->b, 0, op_insert(w, (spec){.draw = true})), PAWL_OP_CLOSED);
        assert_int_equal(apply(w, w->b, other, op_ack(w, in->id, "ann", NULL)), PAWL_OP_CLOSED);
        if (w->a->type->limits) assert_int_equal(apply(w, w->b, other, op_limit(w, "t", NULL, (pawl_rate){0})), PAWL_OP_CLOSED);
        pawl_want want = claim(w, w->b, other, (wish){.free = 4});
        assert_true(want.got == 0 && want.paused && !want.more && w->news.closed);
    }
    assert_state(w, live, PAWL_PENDING);
    assert_state(w, keyed, PAWL_PENDING);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 3);
    set_gate(w, PAWL_GATE_OPEN);
    pawl_want want = claim(w, w->b, other, (wish){.free = 4});
    assert_true(want.got == 1 && !want.paused && !w->news.closed);
    insert(w, w->a, n, (spec){0});
}

/* What runs comes to its end, and may leave spawns; what was held by the dead is freed. */
static void what_runs_ends(world *w)
{
    if (cannot(w)) return;
    int64_t n = join(w, w->a), dead = join(w, w->b);
    pawl_op *a = op_insert(w, (spec){.ask_lease = true}), *b = op_insert(w, (spec){.ask_lease = true});
    pawl_op *c = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, a);
    apply(w, w->a, n, b);
    apply(w, w->b, dead, c);
    set_gate(w, PAWL_GATE_CLOSED);
    assert_true(gate_of(w, w->a)->leases == 3);
    pawl_op *finish = op_finish(w, a->id, a->out_fence, PAWL_SUCCEEDED);
    finish->u.finish.spawns = op_insert(w, (spec){.type = "spawned"});
    finish->u.finish.spawns_count = 1;
    pawl_op *mixed[] = {op_insert(w, (spec){0}), finish};
    apply_all(w, w->a, n, mixed, 2);
    assert_int_equal(mixed[0]->result, PAWL_OP_CLOSED);
    assert_int_equal(finish->result, PAWL_OP_DONE);
    assert_int_equal(finish->u.finish.spawns->result, PAWL_OP_DONE);
    assert_state(w, finish->u.finish.spawns->out_id, PAWL_PENDING);
    assert_true(renew(w, w->a, n).news.closed);
    assert_int_equal(apply(w, w->a, n, op_release(w, b->id, b->out_fence, 0, PAWL_ATTEMPT_INTERRUPTED)), PAWL_OP_DONE);
    assert_true(rescue_lapsed(w, w->a, n, dead, true).freed == 1);
    assert_true(gate_of(w, w->a)->leases == 0);
}

/* The results of a batch that was answered with CLOSED are the same when it comes again. */
static void told_again(world *w)
{
    if (cannot(w)) return;
    int64_t n = join(w, w->a);
    set_gate(w, PAWL_GATE_CLOSED);
    pawl_op *op = op_insert(w, (spec){0});
    pawl_batch batch = apply_all(w, w->a, n, &op, 1);
    set_gate(w, PAWL_GATE_OPEN);
    op->result = PAWL_OP_NONE;
    assert_int_equal(try_apply(w, w->a, &batch), PAWL_OK);
    assert_int_equal(op->result, PAWL_OP_CLOSED);
    assert_false(exists(w, op->id));
}

static void sweeps_stand_still(world *w)
{
    if (cannot(w)) return;
    int64_t n = join(w, w->a);
    pawl_op *in = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, in);
    apply(w, w->a, n, op_finish(w, in->id, in->out_fence, PAWL_SUCCEEDED));
    advance(w, 10 * PAWL_DAY);
    pawl_sweep how = keep_all();
    how.keep_succeeded_us = PAWL_DAY;
    for (pawl_gate_mode mode = PAWL_GATE_LEAVING; mode <= PAWL_GATE_ARRIVING; mode++) {
        set_gate(w, mode);
        pawl_sweep done = sweep(w, how);
        assert_true(done.removed == 0 && !done.more && done.next_us > 0);
    }
    set_gate(w, PAWL_GATE_OPEN);
    for (int i = 0; i < 10 && exists(w, in->id); i++) sweep(w, how);
    assert_false(exists(w, in->id));
}

/* ---- a store full of everything ---------------------------------------------------------------------------------- */

#define TASKS 16

typedef struct full {
    pawl_id ids[TASKS];
    int count;
} full;

static pawl_id run_once(world *w, int64_t n, spec s, pawl_state to)
{
    s.ask_lease = true;
    pawl_op *in = op_insert(w, s);
    apply(w, w->a, n, in);
    assert_true(in->out_fence > 0);
    advance(w, 1500);
    pawl_op *op = op_finish(w, in->id, in->out_fence, to);
    op->u.finish.run.log = pawl_str("17 2 hello\n18 3 world\n");
    op->u.finish.run.log_lines = 2;
    op->u.finish.run.progress = 40;
    op->u.finish.run.progress_text = "nearly";
    if (to == PAWL_FAILED) op->u.finish.reason = "attempts_exhausted";
    if (to == PAWL_FAILED) op->u.finish.run.error = "it broke";
    if (to == PAWL_SUCCEEDED) op->u.finish.result = (pawl_bytes){"\x00\xff{}", 4};
    if (to == PAWL_SUCCEEDED) op->u.finish.result_ref = "Invoice:42";
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    return in->id;
}

static pawl_id retried_once(world *w, int64_t n)
{
    pawl_op *in = op_insert(w, (spec){.ask_lease = true, .tenant = "acme"});
    apply(w, w->a, n, in);
    pawl_op *release = op_release(w, in->id, in->out_fence, PAWL_MINUTE, PAWL_ATTEMPT_RETRY);
    release->u.release.run.error = "not yet";
    release->u.release.run.code = "later";
    release->u.release.run.log = pawl_str("5 2 first try\n");
    release->u.release.run.log_lines = 1;
    assert_int_equal(apply(w, w->a, n, release), PAWL_OP_DONE);
    return in->id;
}

static full fill(world *w)
{
    full f = {0};
    int64_t n = join_as(w, w->a, "red", "q", "*", LEASE);
    f.ids[f.count++] = run_once(w, n, (spec){.payload = "\"one\""}, PAWL_SUCCEEDED);
    f.ids[f.count++] = run_once(w, n, (spec){.key = "k", .tenant = "acme"}, PAWL_SUCCEEDED);
    f.ids[f.count++] = run_once(w, n, (spec){.key = "k", .tenant = "acme"}, PAWL_CANCELLED);
    f.ids[f.count++] = insert(w, w->a, n, (spec){.key = "k2", .delay_us = PAWL_DAY, .priority = -3});
    advance(w, PAWL_HOUR);
    pawl_id bad = f.ids[f.count++] = run_once(w, n, (spec){.queue = "other"}, PAWL_FAILED);
    f.ids[f.count++] = run_once(w, n, (spec){.queue = "other", .audit = PAWL_AUDIT_ERRORS}, PAWL_FAILED);
    pawl_id known = f.ids[f.count++] = run_once(w, n, (spec){0}, PAWL_FAILED);
    apply(w, w->a, n, op_ack(w, known, "ann", "seen"));
    pawl_op *retry = op_retry(w, bad, "bob");
    assert_int_equal(apply(w, w->a, n, retry), PAWL_OP_DONE);
    f.ids[f.count++] = retry->out_id;
    f.ids[f.count++] = retried_once(w, n);
    pawl_id gone = f.ids[f.count++] = insert(w, w->a, n, (spec){0});
    apply(w, w->a, n, op_cancel(w, gone, "ann"));
    f.ids[f.count++] = insert(w, w->a, n, (spec){.draw = true});
    apply(w, w->a, n, op_queue(w, "other", true, "ann"));
    return f;
}

static void add(char *out, size_t size, const char *fmt, ...) PAWL_PRINTF(3, 4);
static void add(char *out, size_t size, const char *fmt, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + n, size - n, fmt, args);
    va_end(args);
}

#define TEXT(s) ((s) ? (s) : "-")
#define ROOM 8192

/* Everything that can be asked about a task. */
static char *render(world *w, pawl_id id)
{
    char *out = keep(w, ROOM);
    const pawl_info *i = get(w, id);
    const pawl_trail *t = trail_of(w, id);
    add(out, ROOM, "%s %s %s %s %s %s %d %s", i->type, i->queue, TEXT(i->tenant), TEXT(i->key), TEXT(i->content_type), i->display,
        i->priority, pawl_audit_name(i->audit));
    add(out, ROOM, " payload %.*s result %zu %s %s", (int)i->payload.len, i->payload.data ? i->payload.data : "", i->result.len,
        TEXT(i->result_type), TEXT(i->result_ref));
    add(out, ROOM, " at %lld %lld %lld %lld", (long long)i->created_us, (long long)i->run_at_us, (long long)i->started_us,
        (long long)i->finished_us);
    add(out, ROOM, " counts %d %d %d %d %d fence %lld node %s", i->attempt, i->max_attempts, i->failures, i->rescues,
        i->interruptions, (long long)i->fence, TEXT(i->node_name));
    add(out, ROOM, " %d %s %s %s %s %lld %lld %lld %s %s\n", i->progress, TEXT(i->progress_text), TEXT(i->code), TEXT(i->error),
        TEXT(i->reason), (long long)i->retry_of, (long long)i->retried_as, (long long)i->resolved_us, TEXT(i->resolved_by),
        TEXT(i->note));
    for (int k = 0; k < i->attempts_count; k++) {
        const pawl_attempt *a = &i->attempts[k];
        add(out, ROOM, "attempt %d %s %lld %lld %lld %s %s %s %d\n", a->number, a->outcome, (long long)a->started_us,
            (long long)a->finished_us, (long long)a->fence, TEXT(a->node_name), TEXT(a->code), TEXT(a->error), a->log_lines);
    }
    for (size_t k = 0; k < t->lines_count; k++)
        add(out, ROOM, "line %d %d %lld %s\n", t->lines[k].attempt, t->lines[k].sequence, (long long)t->lines[k].at_us,
            t->lines[k].text);
    for (size_t k = 0; k < t->audit_count; k++) {
        const pawl_audit_row *a = &t->audit[k];
        add(out, ROOM, "change %lld %s %s %lld %s %s\n", (long long)a->at_us, a->from, a->to, (long long)a->fence,
            TEXT(a->node_name), TEXT(a->detail));
    }
    return out;
}

static char *render_store(world *w)
{
    char *out = keep(w, ROOM);
    const pawl_stats *s = stats_of(w, PAWL_DAY);
    add(out, ROOM, "%lld %lld %lld %lld, %lld %lld %lld %lld %lld, %lld %lld\n", (long long)s->waiting, (long long)s->pending,
        (long long)s->leased, (long long)s->dead, (long long)s->dispatched, (long long)s->succeeded, (long long)s->failed,
        (long long)s->cancelled, (long long)s->retried, (long long)s->wait_p50_us, (long long)s->run_p99_us);
    for (size_t i = 0; i < s->queues_count; i++) {
        const pawl_queue_info *q = &s->queues[i];
        add(out, ROOM, "%s %d %lld %lld %lld %lld\n", q->name, q->paused, (long long)q->pending, (long long)q->leased,
            (long long)q->failed, (long long)q->due);
    }
    static const char *const states[] = {"pending", "scheduled", "succeeded", "failed", "cancelled"};
    for (int i = 0; i < 5; i++) add(out, ROOM, "%s %d\n", states[i], count_tasks(w, (pawl_filter){.state = states[i]}));
    add(out, ROOM, "key %d tenant %d queue %d since %d\n", count_tasks(w, (pawl_filter){.key = "k"}),
        count_tasks(w, (pawl_filter){.tenant = "acme"}), count_tasks(w, (pawl_filter){.queue = "other"}),
        count_tasks(w, (pawl_filter){.since_us = w->clock.now_us - 30 * PAWL_MINUTE}));
    return out;
}

/* ---- dump and load ----------------------------------------------------------------------------------------------- */

static pawl_dump *dump(world *w, pawl_dump how)
{
    pawl_dump *d = keep(w, sizeof *d);
    *d = how;
    pawl_query query = {.kind = PAWL_QUERY_DUMP, .dump = d};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    return d;
}

static pawl_load load(world *w, const pawl_dump *page, const char *move, const char *before, const char *position)
{
    pawl_load call = {.page = page, .move = move, .before = before, .position = position};
    if (page->part == PAWL_PART_TASKS) call.results = keep(w, (size_t)(page->count + 1) * sizeof *call.results);
    pawl_status status = store_load(w->a, &call, w->arena, &w->err);
    if (status) print_error("%s\n", w->err.message);
    assert_int_equal(status, PAWL_OK);
    return call;
}

#define PAGES 64

typedef struct pages {
    pawl_dump *all[PAGES];
    int count;
} pages;

static void add_pages(world *w, pages *p, pawl_part part, int limit)
{
    int64_t after = 0;
    for (bool more = true; more; p->count++) {
        assert_true(p->count < PAGES);
        p->all[p->count] = dump(w, (pawl_dump){.part = part, .after = after, .states = ALL, .limit = limit, .bytes = 1 << 20});
        after = p->all[p->count]->next;
        more = p->all[p->count]->more;
    }
}

/* Everything goes out, the store is emptied, everything comes back: nobody can tell. */
static void comes_back_the_same(world *w)
{
    if (cannot(w)) return;
    full f = fill(w);
    char *before[TASKS], *store = render_store(w);
    for (int i = 0; i < f.count; i++) before[i] = render(w, f.ids[i]);
    pages p = {0};
    add_pages(w, &p, PAWL_PART_TASKS, 3);
    add_pages(w, &p, PAWL_PART_MINUTES, 2);
    add_pages(w, &p, PAWL_PART_ACTS, 2);
    add_pages(w, &p, PAWL_PART_SETTINGS, 100);
    set_gate(w, PAWL_GATE_ARRIVING);
    pawl_gate empty = {.mode = PAWL_GATE_OPEN, .move = MOVE, .discard = true};
    assert_int_equal(store_set_gate(w->a, &empty, &w->err), PAWL_OK);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 0);
    set_gate(w, PAWL_GATE_ARRIVING);
    char at[32] = "0", next[32];
    for (int i = 0; i < p.count; i++) {
        snprintf(next, sizeof next, "page %d", i);
        assert_false(load(w, p.all[i], MOVE, at, next).stale);
        assert_true(load(w, p.all[i], MOVE, at, "lost").stale); /* its answer was lost, say */
        assert_string_equal(gate_of(w, w->b)->position, next);
        snprintf(at, sizeof at, "%s", next);
    }
    assert_int_equal(try_gate(w, w->a, PAWL_GATE_OPEN, MOVE, "complete"), PAWL_OK);
    for (int i = 0; i < f.count; i++) assert_string_equal(render(w, f.ids[i]), before[i]);
    assert_string_equal(render_store(w), store);
}

/* A key whose last task came along is as taken as it was. */
static void keys_are_held(world *w)
{
    if (cannot(w)) return;
    full f = fill(w);
    pages p = {0};
    add_pages(w, &p, PAWL_PART_TASKS, 100);
    set_gate(w, PAWL_GATE_ARRIVING);
    assert_int_equal(store_set_gate(w->a, &(pawl_gate){.mode = PAWL_GATE_OPEN, .move = MOVE, .discard = true}, &w->err), PAWL_OK);
    for (int i = 0; i < p.count; i++) load(w, p.all[i], NULL, NULL, NULL);
    int64_t n = join(w, w->a);
    pawl_op *again = op_insert(w, (spec){.key = "k2"});
    assert_int_equal(apply(w, w->a, n, again), PAWL_OP_UPDATED);
    assert_true(again->out_id == f.ids[3]);
    assert_int_equal(apply(w, w->a, n, op_insert(w, (spec){.key = "k", .tenant = "acme"})), PAWL_OP_REPLACED);
    assert_int_equal(count_tasks(w, (pawl_filter){.key = "k"}), 3);
    pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .after = f.ids[3] - 1, .states = ALL, .limit = 1});
    d->tasks[0].body.id = new_id(w); /* another one with a key that is live */
    assert_int_equal(load(w, d, NULL, NULL, NULL).results[0], PAWL_LOADED_KEY);
    assert_false(exists(w, d->tasks[0].body.id));
    assert_int_equal(claim(w, w->a, n, (wish){.free = 10}).got, 3);
}

static void loaded_twice_changes_nothing(world *w)
{
    if (cannot(w)) return;
    full f = fill(w);
    char *store = render_store(w), *before[TASKS];
    for (int i = 0; i < f.count; i++) before[i] = render(w, f.ids[i]);
    pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .states = ALL, .limit = 100});
    pawl_load call = load(w, d, NULL, NULL, NULL);
    assert_int_equal(d->count, f.count);
    for (int i = 0; i < d->count; i++) assert_int_equal(call.results[i], PAWL_LOADED_BEFORE);
    d->tasks[2].body.created_us++;
    d->tasks[3].body.type = "another";
    call = load(w, d, NULL, NULL, NULL);
    assert_int_equal(call.results[2], PAWL_LOADED_TAKEN);
    assert_int_equal(call.results[3], PAWL_LOADED_TAKEN);
    for (int i = 0; i < f.count; i++) assert_string_equal(render(w, f.ids[i]), before[i]);
    assert_string_equal(render_store(w), store);
}

/* What was finished when it was copied may be resolved and retried meanwhile. */
static void later_resolution_follows(world *w)
{
    if (cannot(w)) return;
    int64_t n = join(w, w->a);
    pawl_id bad = run_once(w, n, (spec){0}, PAWL_FAILED), gone = run_once(w, n, (spec){0}, PAWL_CANCELLED);
    pawl_dump *early = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .states = ALL, .limit = 100});
    int64_t then_us = w->clock.now_us + PAWL_SECOND;
    advance(w, PAWL_MINUTE);
    apply(w, w->a, n, op_ack(w, bad, "ann", "seen"));
    pawl_op *retry = op_retry(w, gone, "ann");
    apply(w, w->a, n, retry);
    pawl_dump *late = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .states = ALL, .limit = 100, .since_us = then_us});
    assert_int_equal(late->count, 2); /* the one that was resolved, and the new one */
    char *store = render_store(w), *was_bad = render(w, bad), *was_gone = render(w, gone);
    set_gate(w, PAWL_GATE_ARRIVING);
    assert_int_equal(store_set_gate(w->a, &(pawl_gate){.mode = PAWL_GATE_OPEN, .move = MOVE, .discard = true}, &w->err), PAWL_OK);
    load(w, early, NULL, NULL, NULL);
    assert_int_equal(queue_of(w, "q")->failed, 1);
    load(w, late, NULL, NULL, NULL);
    assert_string_equal(render(w, bad), was_bad);
    assert_string_equal(render(w, gone), was_gone);
    assert_int_equal(queue_of(w, "q")->failed, 0);
    assert_string_equal(strstr(render_store(w), "\npending"), strstr(store, "\npending")); /* before that are rollups */
}

/* A task that runs at the other store is pending here, and its holder has nothing to say. */
static void leased_becomes_pending(world *w)
{
    if (cannot(w)) return;
    int64_t n = join(w, w->a);
    pawl_op *in = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, in);
    pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .states = ALL, .limit = 100});
    assert_int_equal(d->tasks[0].state, PAWL_LEASED);
    d->tasks[0].body.id = new_id(w);
    load(w, d, NULL, NULL, NULL);
    pawl_id id = d->tasks[0].body.id;
    assert_state(w, id, PAWL_PENDING);
    assert_true(fence_of(w, id) > in->out_fence);
    assert_int_equal(apply(w, w->a, n, op_finish(w, id, in->out_fence, PAWL_SUCCEEDED)), PAWL_OP_STALE);
    assert_true(lease(w, w->a, n, id).fence > in->out_fence + 1);
}

static void counts_add_up(world *w)
{
    if (cannot(w)) return;
    full f = fill(w);
    int64_t counts[PAWL_STATE_COUNT] = {0}, all = 0, after = 0;
    uint64_t sum = 0, wanted = 0;
    for (bool more = true; more;) {
        pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .after = after, .limit = 2});
        assert_int_equal(d->count, 0);
        for (int i = 0; i < PAWL_STATE_COUNT; i++) {
            counts[i] += d->counts[i];
            all += d->counts[i];
            sum += d->sums[i];
        }
        after = d->next;
        more = d->more;
    }
    for (int i = 0; i < f.count; i++) wanted += pawl_id_sum(f.ids[i]);
    assert_true(all == f.count && sum == wanted);
    assert_true(counts[PAWL_SUCCEEDED] == 2 && counts[PAWL_FAILED] == 3 && counts[PAWL_CANCELLED] == 2 &&
                counts[PAWL_PENDING] == 4);
    pawl_dump *failed = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .states = PAWL_STATE_BIT(PAWL_FAILED), .limit = 100});
    assert_int_equal(failed->count, 3);
    assert_true(failed->counts[PAWL_SUCCEEDED] == 2);
}

/* However little a page may hold, it comes forward. */
static void pages_are_bounded(world *w)
{
    if (cannot(w)) return;
    full f = fill(w);
    int got = 0;
    int64_t after = 0;
    for (bool more = true; more;) {
        pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .after = after, .states = ALL, .limit = 100, .bytes = 1});
        assert_true(d->count <= 1);
        got += d->count;
        after = d->next;
        more = d->more;
    }
    assert_int_equal(got, f.count);
}

static void ids_are_not_drawn_again(world *w)
{
    if (cannot(w)) return;
    int64_t n = join(w, w->a);
    pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_SETTINGS, .limit = 100});
    int64_t far_ms = (w->clock.now_us + 20 * PAWL_MINUTE) / 1000 - PAWL_EPOCH_MS;
    for (int i = 1; i < 1024; i++) d->ceilings_ms[i] = far_ms;
    d->last_id = far_ms << 22 | 17;
    load(w, d, NULL, NULL, NULL);
    pawl_ids ids = take_ids(w, w->a, n, 0, 0);
    assert_true(ids.floor_ms >= far_ms);
    assert_true(insert(w, w->a, 0, (spec){.draw = true}) > d->last_id);
}

static void other_moves_are_refused(world *w)
{
    if (cannot(w)) return;
    fill(w);
    pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .states = ALL, .limit = 100});
    pawl_load call = {.page = d, .move = MOVE, .before = "0", .position = "1"};
    assert_int_equal(store_load(w->a, &call, w->arena, &w->err), PAWL_CONFLICT);
    set_gate(w, PAWL_GATE_ARRIVING);
    call.move = "contract:2";
    assert_int_equal(store_load(w->a, &call, w->arena, &w->err), PAWL_CONFLICT);
    call.move = NULL;
    assert_int_equal(store_load(w->a, &call, w->arena, &w->err), PAWL_MOVED);
}

/* ---- rate limits -------------------------------------------------------------------------------------------------- */

static char *render_limits(world *w)
{
    char *out = keep(w, ROOM);
    pawl_limit_filter filter = {.limit = 100};
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &filter};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    for (size_t i = 0; i < query.limits->count; i++) {
        const pawl_limit_info *l = &query.limits->limits[i];
        add(out, ROOM, "%s %.*s %d %lld %d %lld %d%d%d %d%d %d\n", l->type, (int)l->key.len, l->key.len ? l->key.data : "",
            l->rate.permits, (long long)l->rate.period_us, l->rate.burst, (long long)l->rate.horizon_us, l->rate.start_empty,
            l->rate.retries_free, l->rate.discard, l->own, l->paused, l->left);
    }
    return out;
}

/* Of the key "a" two have started, and two wait for their slots. */
static void fill_limits(world *w, int64_t n, pawl_op *waiting[2])
{
    pawl_rate rate = {.permits = 1, .period_us = PAWL_SECOND, .burst = 2, .horizon_us = -1}, rare = rate;
    rare.period_us = PAWL_MINUTE;
    rare.start_empty = rare.retries_free = rare.discard = true;
    pawl_op *paused = op_limit(w, "u", NULL, rate);
    paused->u.limit.paused = true;
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", NULL, rate)), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", "b", rare)), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, paused), PAWL_OP_DONE);
    for (int i = 0; i < 4; i++) {
        pawl_op *op = op_insert(w, (spec){.ask_lease = true, .rate_key = "a"});
        assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
        assert_true((op->out_fence > 0) == (i < 2));
        if (i < 2) apply(w, w->a, n, op_finish(w, op->id, op->out_fence, PAWL_SUCCEEDED));
        else waiting[i - 2] = op;
    }
}

/* Limits are in force as they were, what was started counts as spent, and those that had a slot ask for it anew. */
static void limits_come_along(world *w)
{
    if (cannot(w) || !w->a->type->limits) return;
    int64_t n = join(w, w->a);
    pawl_op *waiting[2];
    fill_limits(w, n, waiting);
    char *before = render_limits(w);
    pages p = {0};
    add_pages(w, &p, PAWL_PART_TASKS, 100);
    for (int i = 0; i < p.all[0]->count; i++)
        if (p.all[0]->tasks[i].state == PAWL_PENDING) assert_true(p.all[0]->tasks[i].run_at_us == 0);
    add_pages(w, &p, PAWL_PART_LIMITS, 100);
    add_pages(w, &p, PAWL_PART_BUDGETS, 1);
    set_gate(w, PAWL_GATE_ARRIVING);
    assert_int_equal(store_set_gate(w->a, &(pawl_gate){.mode = PAWL_GATE_OPEN, .move = MOVE, .discard = true}, &w->err), PAWL_OK);
    assert_string_equal(render_limits(w), "");
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < p.count; i++) load(w, p.all[i], NULL, NULL, NULL);
    assert_string_equal(render_limits(w), before);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 4}).got, 2);
    for (int i = 0; i < 2; i++) {
        pawl_op *op = keep(w, sizeof *op);
        *op = (pawl_op){
            .kind = PAWL_OP_RESERVE, .id = w->claimed[i].body->id, .fence = w->claimed[i].fence, .audit = PAWL_AUDIT_FULL};
        assert_true(w->claimed[i].limited && w->claimed[i].until_us == 0);
        assert_int_equal(apply(w, w->a, n, op), PAWL_OP_MOVED);
        assert_true(op->out_run_at_us == waiting[i]->out_run_at_us);
    }
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

/* Who held the place of an ordered key does not come along: the next one of the line has it, and takes its turn among the tenants. */
static void a_line_without_a_holder(world *w)
{
    if (cannot(w) || !w->a->type->places) return;
    pages p = {0};
    bound_in_order(w, "t");
    bound(w, PAWL_SCOPE_TENANTS, "q", 1);
    pawl_id line[3];
    for (int i = 0; i < 3; i++) line[i] = insert(w, w->a, 0, (spec){.rate_key = "k", .tenant = "a"});
    for (int i = 0; i < 6; i++) insert(w, w->a, 0, (spec){.tenant = "b"});
    add_pages(w, &p, PAWL_PART_BOUNDS, 100);
    add_pages(w, &p, PAWL_PART_TASKS, 100);
    add_pages(w, &p, PAWL_PART_BOUNDS, 100);
    pawl_dump *tasks = p.all[1];
    assert_true(tasks->part == PAWL_PART_TASKS && tasks->count == 9 && tasks->tasks[0].body.id == line[0]);
    tasks->tasks++;
    tasks->count--;
    set_gate(w, PAWL_GATE_ARRIVING);
    assert_int_equal(store_set_gate(w->a, &(pawl_gate){.mode = PAWL_GATE_OPEN, .move = MOVE, .discard = true}, &w->err), PAWL_OK);
    set_gate(w, PAWL_GATE_ARRIVING);
    char at[32] = "0", next[32];
    for (int i = 0; i < p.count; i++) {
        snprintf(next, sizeof next, "page %d", i);
        assert_false(load(w, p.all[i], MOVE, at, next).stale);
        snprintf(at, sizeof at, "%s", next);
    }
    assert_int_equal(try_gate(w, w->a, PAWL_GATE_OPEN, MOVE, "complete"), PAWL_OK);
    int64_t n = join(w, w->a);
    bool seen = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(claim(w, w->a, n, (wish){.free = 1}).got, 1);
        seen |= w->claimed[0].body->id == line[1];
    }
    assert_true(seen);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 10}).got, 5); /* line[2] waits */
}

/* ---- out of memory ------------------------------------------------------------------------------------------------ */

static void a_dump_that_finds_no_room(world *w)
{
    if (cannot(w)) return;
    full f = fill(w);
    pawl_op *waiting[2];
    int count = f.count + (w->a->type->limits ? 4 : 0);
    if (count > f.count) fill_limits(w, join(w, w->a), waiting);
    for (pawl_part part = PAWL_PART_TASKS; part <= PAWL_PART_BUDGETS; part++) {
        pawl_status status = PAWL_NO_MEMORY;
        for (size_t limit = 64; status == PAWL_NO_MEMORY; limit += limit / 4) {
            pawl_arena *arena = arena_new(alloc_default(), limit);
            pawl_dump *d = keep(w, sizeof *d);
            *d = (pawl_dump){.part = part, .states = ALL, .limit = 100};
            pawl_query query = {.kind = PAWL_QUERY_DUMP, .dump = d};
            status = store_read(w->a, &query, arena, &w->err);
            if (!status && part == PAWL_PART_TASKS) assert_int_equal(d->count, count);
            arena_free(arena);
            assert_true(limit < 1 << 24);
        }
        assert_int_equal(status, PAWL_OK);
    }
}

/* The n-th allocation fails, for every n: the page is loaded whole, or not at all. */
static void a_page_is_whole(world *w)
{
    if (cannot(w)) return;
    full f = fill(w);
    pawl_dump *d = dump(w, (pawl_dump){.part = PAWL_PART_TASKS, .states = ALL, .limit = 100});
    set_gate(w, PAWL_GATE_ARRIVING);
    assert_int_equal(store_set_gate(w->a, &(pawl_gate){.mode = PAWL_GATE_OPEN, .move = MOVE, .discard = true}, &w->err), PAWL_OK);
    reopen(w);
    pawl_status status = PAWL_NO_MEMORY;
    for (int n = 1; status == PAWL_NO_MEMORY; n++) {
        pawl_load call = {.page = d};
        w->allocations = 0;
        w->fail_at = n;
        status = store_load(w->a, &call, w->arena, &w->err);
        w->fail_at = 0;
        assert_true(status == PAWL_OK || status == PAWL_NO_MEMORY);
        assert_int_equal(count_tasks(w, (pawl_filter){0}), status ? 0 : f.count);
        assert_true(n < 10000);
    }
}

CASES(move_cases){{"gate: tells what was set", tells_what_was_set},
                  {"gate: belongs to one move", belongs_to_one_move},
                  {"gate: shut, nothing comes and nothing is granted", nothing_comes},
                  {"gate: shut, what runs comes to its end", what_runs_ends},
                  {"gate: shut, a batch that comes again is told the same", told_again},
                  {"gate: sweeps stand still", sweeps_stand_still},
                  {"dump: counts and sums add up", counts_add_up},
                  {"dump: pages are bounded", pages_are_bounded},
                  {"load: everything comes back the same", comes_back_the_same},
                  {"load: keys are held", keys_are_held},
                  {"load: twice changes nothing", loaded_twice_changes_nothing},
                  {"load: a later resolution follows", later_resolution_follows},
                  {"load: leased becomes pending", leased_becomes_pending},
                  {"load: ids are not drawn again", ids_are_not_drawn_again},
                  {"load: other moves are refused", other_moves_are_refused},
                  {"load: rate limits and what is left of them", limits_come_along},
                  {"load: a line without a holder, where tenants take turns", a_line_without_a_holder},
                  {"out of memory: a dump that finds no room", a_dump_that_finds_no_room},
                  {"out of memory: a page is whole", a_page_is_whole},
                  {NULL, NULL}};
