/* What a move takes along beside tasks: concurrency limits with their lines, schedules with their occurrences, families. Everything goes out, the
 * store is emptied, everything comes back: nobody can tell. */
#include "contract.h"
#include <stdio.h>
#include <stdlib.h>

#define MOVE "contract:1"
#define ALL (~0u)
#define S PAWL_SECOND
#define ROOM 16384

static bool cannot(const world *w) { return !w->a->type->set_gate; }

/* ---- out and in -------------------------------------------------------------------------------------------------- */

static void set_gate(world *w, pawl_gate_mode mode, bool discard)
{
    pawl_gate gate = {.mode = mode, .move = MOVE, .position = mode ? "0" : NULL, .discard = discard};
    assert_int_equal(store_set_gate(w->a, &gate, &w->err), PAWL_OK);
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
        pawl_dump *d = p->all[p->count] = keep(w, sizeof *d);
        *d = (pawl_dump){.part = part, .after = after, .states = ALL, .limit = limit, .bytes = 1 << 20};
        pawl_query query = {.kind = PAWL_QUERY_DUMP, .dump = d};
        assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
        after = d->next;
        more = d->more;
    }
}

/* As a move does it, with pages of this size: bounds before the tasks, and once more after them. */
static void go_and_come_back(world *w, int limit)
{
    const pawl_store_type *t = w->a->type;
    pages p = {0};
    set_gate(w, PAWL_GATE_CLOSED, false);
    if (t->places) add_pages(w, &p, PAWL_PART_BOUNDS, limit);
    add_pages(w, &p, PAWL_PART_TASKS, limit);
    if (t->places) add_pages(w, &p, PAWL_PART_BOUNDS, limit);
    for (pawl_part part = PAWL_PART_BATCHES; t->families && part <= PAWL_PART_KEPT; part++) add_pages(w, &p, part, limit);
    if (t->schedules) add_pages(w, &p, PAWL_PART_SCHEDULES, limit);
    set_gate(w, PAWL_GATE_OPEN, false);
    set_gate(w, PAWL_GATE_ARRIVING, false);
    set_gate(w, PAWL_GATE_OPEN, true);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 0);
    set_gate(w, PAWL_GATE_ARRIVING, false);
    char at[32] = "0", next[32];
    for (int i = 0; i < p.count; i++) {
        snprintf(next, sizeof next, "page %d", i);
        pawl_load call = {.page = p.all[i], .move = MOVE, .before = at, .position = next};
        pawl_status status = store_load(w->a, &call, w->arena, &w->err);
        if (status) print_error("%s\n", w->err.message);
        assert_int_equal(status, PAWL_OK);
        assert_false(call.stale);
        snprintf(at, sizeof at, "%s", next);
    }
    pawl_gate open = {.mode = PAWL_GATE_OPEN, .move = MOVE, .position = "complete"};
    assert_int_equal(store_set_gate(w->a, &open, &w->err), PAWL_OK);
}

static void add(char *out, const char *fmt, ...) PAWL_PRINTF(2, 3);
static void add(char *out, const char *fmt, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + n, ROOM - n, fmt, args);
    va_end(args);
}

#define TEXT(s) ((s) ? (s) : "-")

static int64_t node(world *w)
{
    if (!w->own_node) w->own_node = join(w, w->a);
    return w->own_node;
}

static void end(world *w, pawl_id id, pawl_state to)
{
    pawl_claimed got = lease(w, w->a, node(w), id);
    assert_int_equal(apply(w, w->a, node(w), op_finish(w, id, got.fence, to)), PAWL_OP_DONE);
}

/* ---- concurrency limits ------------------------------------------------------------------------------------------ */

static void put_bound(world *w, pawl_scope scope, const char *name, const char *key, int most, bool ordered)
{
    pawl_op *op = op_bound(w, scope, name, key, most);
    op->u.bound.ordered = ordered;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
}

static char *render_bounds(world *w)
{
    char *out = keep(w, ROOM);
    pawl_query query = {.kind = PAWL_QUERY_PLACES, .place_filter = &(pawl_place_filter){.limit = 100}};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    for (size_t i = 0; i < query.places->count; i++) {
        const pawl_place_info *p = &query.places->places[i];
        if (p->own)
            add(out, "%d %s %.*s %lld %d\n", p->scope, p->name, (int)p->key.len, p->key.len ? p->key.data : "",
                (long long)p->most, p->ordered);
    }
    return out;
}

static int take(world *w, int free) { return claim(w, w->a, node(w), (wish){.free = free}).got; }

static void bounds_come_along(world *w)
{
    if (cannot(w) || !w->a->type->places) return;
    put_bound(w, PAWL_SCOPE_QUEUE, "q", NULL, 2, false);
    put_bound(w, PAWL_SCOPE_TYPE, "u", NULL, 7, false);
    put_bound(w, PAWL_SCOPE_KEYS, "u", NULL, 1, true);
    put_bound(w, PAWL_SCOPE_KEYS, "u", "own", 3, false);
    put_bound(w, PAWL_SCOPE_TENANTS, "fair", NULL, 1, false);
    put_bound(w, PAWL_SCOPE_TENANTS, "fair", "acme", 5, false);
    put_bound(w, PAWL_SCOPE_TYPE, "gone", NULL, 1, false);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TYPE, "gone", NULL, 0)), PAWL_OP_UPDATED);
    for (int i = 0; i < 5; i++) insert(w, w->a, 0, (spec){0});
    assert_int_equal(take(w, 5), 2);
    for (int i = 0; i < 2; i++)
        apply(
            w, w->a, node(w),
            op_release(w, w->claimed[i].body->id, w->claimed[i].fence, 0, PAWL_ATTEMPT_INTERRUPTED)); /* the others are blocked */
    char *before = render_bounds(w);
    go_and_come_back(w, 100);
    assert_string_equal(render_bounds(w), before);
    assert_int_equal(take(w, 5), 2);
    for (int i = 0; i < 2; i++)
        apply(w, w->a, node(w), op_finish(w, w->claimed[i].body->id, w->claimed[i].fence, PAWL_SUCCEEDED));
    assert_int_equal(take(w, 5), 2);
}

/* Who had its turn has it, though it waits for an attempt; behind it they go by their ids. */
static void lines_come_along(world *w)
{
    if (cannot(w) || !w->a->type->places) return;
    put_bound(w, PAWL_SCOPE_KEYS, "t", NULL, 1, true);
    pawl_id first = new_id(w), second = new_id(w), third = new_id(w);
    insert(w, w->a, 0, (spec){.id = second, .rate_key = "k"});
    insert(w, w->a, 0, (spec){.id = third, .rate_key = "k", .priority = -5});
    insert(w, w->a, 0, (spec){.id = first, .rate_key = "k"});
    insert(w, w->a, 0, (spec){.rate_key = "other", .delay_us = PAWL_HOUR});
    pawl_claimed got = claim_one(w, w->a, node(w));
    assert_true(got.body->id == second);
    assert_int_equal(apply(w, w->a, node(w), op_release(w, second, got.fence, 60 * S, PAWL_ATTEMPT_RETRY)), PAWL_OP_DONE);
    go_and_come_back(w, 1);
    assert_int_equal(take(w, 5), 0);
    advance(w, 60 * S);
    const pawl_id order[] = {second, first, third};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(w, 5), 1);
        assert_true(w->claimed[0].body->id == order[i]);
        assert_int_equal(apply(w, w->a, node(w), op_finish(w, order[i], w->claimed[0].fence, PAWL_SUCCEEDED)), PAWL_OP_DONE);
    }
    assert_int_equal(take(w, 5), 0);
}

static void turns_come_along(world *w)
{
    if (cannot(w) || !w->a->type->places) return;
    put_bound(w, PAWL_SCOPE_TENANTS, "q", NULL, 1, false);
    for (int i = 0; i < 8; i++) insert(w, w->a, 0, (spec){.tenant = i < 4 ? "acme" : "bell"});
    go_and_come_back(w, 3);
    assert_int_equal(take(w, 4), 4);
    int acme = 0;
    for (int i = 0; i < 4; i++) acme += strcmp(w->claimed[i].body->tenant, "acme") == 0;
    assert_int_equal(acme, 2);
    assert_int_equal(take(w, 10), 4);
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static pawl_schedule_row *schedule(world *w, const char *name)
{
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULE, .name = name};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    return query.schedules;
}

static void put_schedule(world *w, const char *name, const char *after, pawl_off off)
{
    pawl_schedule_row *row = keep(w, sizeof *row);
    pawl_op *op = keep(w, sizeof *op);
    *row = (pawl_schedule_row){.name = name, .spec = "{\"type\":\"t\"}", .after = after, .off = off, .anchor_us = 7};
    row->payload = (pawl_bytes){"\0x", 2};
    row->reason = off ? "because" : NULL;
    row->watch = !off && !after;
    row->next_us = row->occurrence_us = row->look_us = after ? 0 : w->clock.now_us + 60 * S;
    *op = (pawl_op){.kind = PAWL_OP_SCHEDULE, .audit = PAWL_AUDIT_FULL};
    op->u.schedule = keep(w, sizeof *op->u.schedule);
    op->u.schedule->row = row;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
}

static pawl_op *op_step(world *w, const char *name, pawl_overlap overlap, pawl_fate fate)
{
    const pawl_schedule_row *row = schedule(w, name);
    pawl_op *op = keep(w, sizeof *op);
    pawl_step *step = op->u.step = keep(w, sizeof *step);
    pawl_fate *fates = keep(w, sizeof *fates);
    op->kind = PAWL_OP_STEP;
    op->audit = PAWL_AUDIT_FULL;
    *fates = fate;
    *step = (pawl_step){.name = name, .version = row->version, .next_us = row->next_us, .occurrence_us = row->occurrence_us};
    step->last_us = fate.occurrence;
    step->look_us = row->look_us;
    step->watch = row->watch;
    step->overlap = overlap;
    step->fates = fates;
    step->fates_count = 1;
    step->tasks = op_insert(w, (spec){0});
    step->tasks_count = fate.fires;
    return op;
}

static pawl_op *fire(world *w, const char *name, pawl_overlap overlap, int64_t which)
{
    pawl_op *op = op_step(w, name, overlap, (pawl_fate){.occurrence = which, .fires = true, .count = 1});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    return op->u.step->tasks;
}

static char *render_schedules(world *w)
{
    char *out = keep(w, ROOM);
    static const char *const names[] = {"nightly", "report", "resting"};
    for (int i = 0; i < 3; i++) {
        const pawl_schedule_row *s = schedule(w, names[i]);
        add(out, "%s %s %s %zu %lld %d %s %lld", s->name, s->spec, TEXT(s->after), s->payload.len, (long long)s->version, s->off,
            TEXT(s->reason), (long long)s->anchor_us);
        add(out, " %lld %lld %lld %lld %d", (long long)s->next_us, (long long)s->occurrence_us, (long long)s->last_us,
            (long long)s->look_us, s->watch);
        add(out, " %lld %lld %lld %lld %lld %lld %lld", (long long)s->runs, (long long)s->fired, (long long)s->skipped,
            (long long)s->succeeded, (long long)s->failed, (long long)s->open, (long long)s->waiting);
        add(out, " %lld %lld %lld\n", (long long)s->last_task, (long long)s->created_us, (long long)s->changed_us);
        for (int k = 0; k < s->occurrences_count; k++) {
            const pawl_occurrence *o = &s->occurrences[k];
            add(out, "  %lld %d %lld %lld %lld %s\n", (long long)o->occurrence, o->state, (long long)o->at_us, (long long)o->task,
                (long long)o->count, TEXT(o->why));
        }
    }
    return out;
}

static void schedules_come_along(world *w)
{
    if (cannot(w) || !w->a->type->schedules) return;
    int64_t at = w->clock.now_us;
    put_schedule(w, "nightly", NULL, PAWL_OFF_NOT);
    put_schedule(w, "report", "nightly", PAWL_OFF_NOT);
    put_schedule(w, "resting", NULL, PAWL_OFF_PERSON);
    pawl_id done = fire(w, "nightly", PAWL_OVERLAP_QUEUE, at)->out_id;
    advance(w, S);
    end(w, done, PAWL_SUCCEEDED);
    apply(w, w->a, 0, op_step(w, "nightly", PAWL_OVERLAP_QUEUE, (pawl_fate){.occurrence = at + S, .count = 3, .why = "missed"}));
    pawl_id open = fire(w, "nightly", PAWL_OVERLAP_QUEUE, at + 4 * S)->out_id;
    assert_int_equal(fire(w, "nightly", PAWL_OVERLAP_QUEUE, at + 5 * S)->result, PAWL_OP_MOVED);
    char *before = render_schedules(w);
    go_and_come_back(w, 2);
    assert_string_equal(render_schedules(w), before);
    assert_int_equal(fire(w, "nightly", PAWL_OVERLAP_ALLOW, at)->result, PAWL_OP_EXISTING); /* none becomes two tasks */
    assert_int_equal(fire(w, "nightly", PAWL_OVERLAP_ALLOW, at + S)->result, PAWL_OP_EXISTING);
    advance(w, S);
    end(w, open, PAWL_SUCCEEDED);
    const pawl_schedule_row *s = schedule(w, "nightly");
    assert_true(s->succeeded == 2 && s->open == 0 && s->waiting == 1 && s->look_us == w->clock.now_us);
    assert_true(schedule(w, "report")->waiting == 2);
    assert_int_equal(fire(w, "nightly", PAWL_OVERLAP_QUEUE, at + 5 * S)->result, PAWL_OP_DONE);
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

static pawl_id child(world *w, pawl_id parent, pawl_id batch, pawl_if_failed if_failed)
{
    pawl_op *op = op_insert(w, (spec){.queue = "p"});
    pawl_family *f = keep(w, sizeof *f);
    pawl_kin *kin = keep(w, sizeof *kin);
    kin->id = parent;
    *f = (pawl_family){.parents = kin, .parents_count = parent != 0, .if_failed = if_failed, .batch.id = batch};
    op->u.insert.family = f;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    return op->out_id;
}

static pawl_op *op_batch(world *w, pawl_batch_act act, pawl_id id, const char *name, pawl_id within)
{
    pawl_op *op = keep(w, sizeof *op);
    pawl_batch_put *put = keep(w, sizeof *put);
    *put = (pawl_batch_put){.act = act, .name = name, .within = within};
    *op = (pawl_op){.kind = PAWL_OP_BATCH, .id = id ? id : new_id(w), .audit = PAWL_AUDIT_FULL};
    op->u.batch = put;
    return op;
}

static pawl_id open_batch(world *w, const char *name, pawl_id within)
{
    pawl_op *op = op_batch(w, PAWL_BATCH_OPEN, 0, name, within);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    return op->out_id;
}

static pawl_batch settle(world *w, int limit)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_SETTLE;
    op->audit = PAWL_AUDIT_FULL;
    op->u.settle.limit = limit;
    pawl_batch batch = apply_all(w, w->a, 0, &op, 1);
    assert_int_equal(op->result, PAWL_OP_DONE);
    return batch;
}

static void settle_all(world *w)
{
    for (int i = 0; i < 100 && settle(w, 500).unsettled; i++) assert_true(i < 99);
}

static pawl_batch_info *batch_of(world *w, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_BATCH, .id = id};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    return query.batches;
}

static void render_batch(world *w, char *out, pawl_id id)
{
    const pawl_batch_info *b = batch_of(w, id);
    add(out, "%s %lld %s %d, %lld %lld %lld %lld %lld, %lld %lld %lld\n", b->name, (long long)b->within,
        pawl_state_name(b->state), b->cancel_asked, (long long)b->total, (long long)b->unfinished, (long long)b->succeeded,
        (long long)b->failed, (long long)b->cancelled, (long long)b->created_us, (long long)b->closed_us, (long long)b->ended_us);
}

static void render_relatives(world *w, char *out, pawl_id of)
{
    for (pawl_relation relation = PAWL_PARENTS; relation <= PAWL_BATCH_OF; relation++) {
        pawl_relatives_query f = {.of = of, .relation = relation, .limit = 100};
        pawl_query query = {.kind = PAWL_QUERY_RELATIVES, .relatives = &f};
        assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
        for (int i = 0; i < f.count; i++)
            add(out, "%lld %d: %lld %s %d %d %s\n", (long long)of, relation, (long long)f.relatives[i].id,
                pawl_state_name(f.relatives[i].state), f.relatives[i].waits, f.relatives[i].if_failed,
                TEXT(f.relatives[i].error));
    }
}

static void families_come_along(world *w)
{
    if (cannot(w) || !w->a->type->families) return;
    pawl_id swept = insert(w, w->a, 0, (spec){0}), heir = child(w, swept, 0, PAWL_IF_FAILED_CANCEL);
    end(w, swept, PAWL_SUCCEEDED);
    advance(w, 10 * PAWL_DAY);
    pawl_sweep how = keep_all();
    how.keep_succeeded_us = PAWL_DAY;
    sweep(w, how);
    assert_false(exists(w, swept));
    pawl_id bad = insert(w, w->a, 0, (spec){0}), parent = insert(w, w->a, 0, (spec){0});
    pawl_id plain = child(w, parent, 0, PAWL_IF_FAILED_CANCEL);
    pawl_id held = child(w, bad, 0, PAWL_IF_FAILED_HOLD), run = child(w, bad, 0, PAWL_IF_FAILED_RUN);
    end(w, bad, PAWL_FAILED);
    pawl_id outer = open_batch(w, "outer", 0), inner = open_batch(w, "inner", outer);
    pawl_id members[3];
    for (int i = 0; i < 3; i++) members[i] = child(w, i == 2 ? parent : 0, inner, PAWL_IF_FAILED_CANCEL);
    pawl_id then = child(w, outer, 0, PAWL_IF_FAILED_RUN);
    apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CLOSE, inner, NULL, 0));
    apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CLOSE, outer, NULL, 0));
    int got = claim(w, w->a, node(w), (wish){.queue = "p", .free = 10}).got;
    for (int i = 0; i < got; i++) {
        pawl_id id = w->claimed[i].body->id;
        pawl_state to = id == members[0] ? PAWL_SUCCEEDED : PAWL_FAILED;
        if (id == members[0] || id == members[1]) apply(w, w->a, node(w), op_finish(w, id, w->claimed[i].fence, to));
        else apply(w, w->a, node(w), op_release(w, id, w->claimed[i].fence, 0, PAWL_ATTEMPT_INTERRUPTED));
    }
    const pawl_id all[] = {parent, bad, swept, plain, heir, held, run, members[0], members[2], then, outer, inner};
    char *before = keep(w, ROOM), *after = keep(w, ROOM);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) render_relatives(w, before, all[i]);
    render_batch(w, before, outer);
    render_batch(w, before, inner);
    go_and_come_back(w, 3);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) render_relatives(w, after, all[i]);
    render_batch(w, after, outer);
    render_batch(w, after, inner);
    assert_string_equal(after, before);
    assert_int_equal(queue_of(w, "p")->waiting, 4);
    end(w, parent, PAWL_CANCELLED); /* takes the last member along, and so the batches end */
    settle_all(w);
    assert_state(w, plain, PAWL_CANCELLED);
    assert_state(w, members[2], PAWL_CANCELLED);
    assert_int_equal(batch_of(w, inner)->state, PAWL_FAILED);
    assert_int_equal(batch_of(w, outer)->state, PAWL_FAILED);
    assert_state(w, then, PAWL_PENDING);
    pawl_op *retry = op_retry(w, bad, "ann");
    assert_int_equal(apply(w, w->a, 0, retry), PAWL_OP_DONE);
    end(w, retry->out_id, PAWL_SUCCEEDED);
    settle_all(w);
    assert_state(w, held, PAWL_PENDING);
}

/* They are told though the gate is shut: so nobody is left who is to be told at the other store. */
static void told_though_it_is_shut(world *w)
{
    if (cannot(w) || !w->a->type->families) return;
    enum { MANY = PAWL_SETTLE_AT_ONCE + 300 };
    pawl_id parent = insert(w, w->a, 0, (spec){0}), batch = open_batch(w, "many", 0), *ids = keep(w, MANY * sizeof *ids);
    for (int i = 0; i < MANY; i++) ids[i] = child(w, parent, batch, PAWL_IF_FAILED_CANCEL);
    apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CLOSE, batch, NULL, 0));
    pawl_claimed got = lease(w, w->a, node(w), parent);
    set_gate(w, PAWL_GATE_CLOSED, false);
    assert_int_equal(apply(w, w->a, node(w), op_finish(w, parent, got.fence, PAWL_FAILED)), PAWL_OP_DONE);
    claim(w, w->a, node(w), (wish){.free = 1});
    assert_true(w->news.unsettled);
    settle_all(w);
    claim(w, w->a, node(w), (wish){.free = 1});
    assert_false(w->news.unsettled);
    set_gate(w, PAWL_GATE_OPEN, false);
    go_and_come_back(w, 100);
    for (int i = 0; i < MANY; i++) assert_state(w, ids[i], PAWL_CANCELLED);
    assert_int_equal(batch_of(w, batch)->state, PAWL_CANCELLED);
    assert_int_equal(batch_of(w, batch)->cancelled, MANY);
}

/* An import: who waits for one that is not here is left out, one whose parent has ended here is told. */
static void orphans_are_left_out(world *w)
{
    if (cannot(w) || !w->a->type->families) return;
    pawl_id parent = insert(w, w->a, 0, (spec){0}), id = child(w, parent, 0, PAWL_IF_FAILED_CANCEL);
    pages p = {0};
    add_pages(w, &p, PAWL_PART_TASKS, 100);
    pawl_dump *d = p.all[0];
    pawl_record *r = NULL;
    for (int i = 0; i < d->count; i++)
        if (d->tasks[i].body.id == id) r = &d->tasks[i];
    assert_non_null(r);
    assert_int_equal(r->parents_count, 1);
    end(w, parent, PAWL_SUCCEEDED);
    settle_all(w);
    pawl_record again = *r;
    pawl_past_parent nobody = {.id = new_id(w)};
    pawl_loaded result = 0;
    pawl_dump one = {.part = PAWL_PART_TASKS, .tasks = &again, .count = 1};
    pawl_load call = {.page = &one, .results = &result};
    again.body.id = new_id(w);
    one.tasks[0].parents = &nobody;
    assert_int_equal(store_load(w->a, &call, w->arena, &w->err), PAWL_OK);
    assert_int_equal(result, PAWL_LOADED_ORPHAN);
    assert_false(exists(w, again.body.id));
    one.tasks[0].parents = r->parents;
    assert_int_equal(store_load(w->a, &call, w->arena, &w->err), PAWL_OK);
    assert_int_equal(result, PAWL_LOADED_NEW);
    settle_all(w);
    assert_state(w, again.body.id, PAWL_PENDING);
}

/* ---- the gate ---------------------------------------------------------------------------------------------------- */

static void nothing_of_them_changes(world *w)
{
    if (cannot(w)) return;
    const pawl_store_type *t = w->a->type;
    if (t->schedules) put_schedule(w, "nightly", NULL, PAWL_OFF_NOT);
    pawl_op *step =
        t->schedules ? op_step(w, "nightly", PAWL_OVERLAP_ALLOW, (pawl_fate){.occurrence = 1, .fires = true, .count = 1}) : NULL;
    pawl_gate_mode shut[] = {PAWL_GATE_CLOSED, PAWL_GATE_ARRIVING};
    for (int i = 0; i < 2; i++) {
        set_gate(w, shut[i], false);
        if (t->places) assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_QUEUE, "q", NULL, 2)), PAWL_OP_CLOSED);
        if (t->schedules) assert_int_equal(apply(w, w->a, 0, step), PAWL_OP_CLOSED);
        if (t->families) assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_OPEN, 0, "b", 0)), PAWL_OP_CLOSED);
    }
}

CASES(past_cases){
    {"move: concurrency limits come along", bounds_come_along},
    {"move: the lines of ordered keys come along", lines_come_along},
    {"move: tenants that take turns come along", turns_come_along},
    {"move: schedules come along with their occurrences", schedules_come_along},
    {"move: families come along", families_come_along},
    {"move: those who wait are told though the gate is shut", told_though_it_is_shut},
    {"move: an import leaves out who waits for nobody", orphans_are_left_out},
    {"move: limits, schedules and batches stand still while the gate is shut", nothing_of_them_changes},
    {NULL, NULL},
};
