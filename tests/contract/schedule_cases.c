/* Schedules: a row changes by its version, an occurrence becomes one task at most, and the end of a task is seen whatever ends it. */
#include "contract.h"

#define S PAWL_SECOND

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static int64_t now_of(world *w) { return w->clock.now_us; }

static pawl_schedule_row *row_for(world *w, const char *name)
{
    pawl_schedule_row *row = keep(w, sizeof *row);
    row->name = name;
    row->spec = "{\"type\":\"t\"}";
    row->anchor_us = now_of(w);
    row->next_us = row->occurrence_us = row->look_us = now_of(w) + 60 * S;
    return row;
}

static pawl_op *op_put(world *w, const pawl_schedule_row *row, bool drop)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_SCHEDULE;
    op->audit = PAWL_AUDIT_FULL;
    op->u.schedule = keep(w, sizeof *op->u.schedule);
    *op->u.schedule = (pawl_schedule_put){.row = row, .drop = drop};
    return op;
}

static pawl_schedule_row *find(world *w, const char *name)
{
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULE, .name = name};
    pawl_status status = store_read(w->b, &query, w->arena, &w->err);
    if (status == PAWL_NOT_FOUND) return NULL;
    assert_int_equal(status, PAWL_OK);
    assert_int_equal(query.schedules_count, 1);
    assert_int_equal(query.now_us, now_of(w));
    return query.schedules;
}

static void put(world *w, pawl_schedule_row *row) { assert_int_equal(apply(w, w->a, 0, op_put(w, row, false)), PAWL_OP_DONE); }

static const pawl_occurrence *occurrence(const pawl_schedule_row *row, int64_t which)
{
    for (int i = 0; i < row->occurrences_count; i++)
        if (row->occurrences[i].occurrence == which) return &row->occurrences[i];
    fail_msg("no such occurrence");
    return NULL;
}

static pawl_occurrence_state fate_of(world *w, const char *name, int64_t which)
{
    return occurrence(find(w, name), which)->state;
}

static pawl_due *due(world *w, int limit)
{
    pawl_due *d = keep(w, sizeof *d);
    *d = (pawl_due){.limit = limit, .bytes = 1 << 20};
    pawl_query query = {.kind = PAWL_QUERY_DUE, .due = d};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    assert_int_equal(d->now_us, now_of(w));
    return d;
}

/* A step of what is stored: as it is, with these fates. */
static pawl_op *op_step(world *w, const char *name, pawl_overlap overlap, int fates, ...)
{
    const pawl_schedule_row *row = find(w, name);
    pawl_op *op = keep(w, sizeof *op);
    pawl_step *step = op->u.step = keep(w, sizeof *step);
    pawl_fate *list = keep(w, (size_t)(fates + 1) * sizeof *list);
    op->kind = PAWL_OP_STEP;
    op->audit = PAWL_AUDIT_FULL;
    *step = (pawl_step){.name = name, .overlap = overlap, .fates = list, .fates_count = fates};
    step->tasks = keep(w, (size_t)(fates + 1) * sizeof *step->tasks);
    if (row) {
        step->version = row->version;
        step->next_us = row->next_us;
        step->occurrence_us = row->occurrence_us;
        step->last_us = row->last_us;
        step->look_us = row->look_us;
        step->watch = row->watch;
    }
    va_list args;
    va_start(args, fates);
    for (int i = 0; i < fates; i++) list[i] = va_arg(args, pawl_fate);
    va_end(args);
    for (int i = 0; i < fates; i++)
        if (list[i].fires) step->tasks[step->tasks_count++] = *op_insert(w, (spec){0});
    return op;
}

static pawl_fate fires(int64_t which) { return (pawl_fate){.occurrence = which, .fires = true, .count = 1}; }
static pawl_fate skipped(int64_t which, int64_t count)
{
    return (pawl_fate){.occurrence = which, .count = count, .why = "missed"};
}

/* Fires one occurrence; its task, or 0 and what became of it instead. */
static pawl_id fire(world *w, const char *name, pawl_overlap overlap, int64_t which, pawl_op_result result)
{
    pawl_op *op = op_step(w, name, overlap, 1, fires(which));
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_int_equal(op->u.step->tasks[0].result, result);
    return result == PAWL_OP_DONE ? op->u.step->tasks[0].out_id : 0;
}

static int64_t node(world *w)
{
    if (!w->own_node) w->own_node = join(w, w->a);
    return w->own_node;
}

static void finish(world *w, pawl_id id, pawl_state to)
{
    pawl_claimed got = lease(w, w->a, node(w), id);
    assert_int_equal(apply(w, w->a, node(w), op_finish(w, id, got.fence, to)), PAWL_OP_DONE);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void a_row_is_what_was_put(world *w)
{
    pawl_schedule_row *row = row_for(w, "nightly");
    row->after = "other";
    row->payload = (pawl_bytes){"\0x", 2};
    row->off = PAWL_OFF_PERSON;
    row->reason = "because";
    row->watch = true;
    put(w, row);
    const pawl_schedule_row *got = find(w, "nightly");
    assert_string_equal(got->name, "nightly");
    assert_string_equal(got->spec, row->spec);
    assert_string_equal(got->after, "other");
    assert_int_equal(got->payload.len, 2);
    assert_memory_equal(got->payload.data, "\0x", 2);
    assert_int_equal(got->off, PAWL_OFF_PERSON);
    assert_string_equal(got->reason, "because");
    assert_int_equal(got->anchor_us, row->anchor_us);
    assert_int_equal(got->next_us, row->next_us);
    assert_int_equal(got->occurrence_us, row->occurrence_us);
    assert_int_equal(got->look_us, 0); /* it is off */
    assert_true(got->watch && got->version > 0 && got->created_us == now_of(w) && got->changed_us == now_of(w));
    assert_int_equal(got->runs + got->fired + got->skipped + got->open + got->waiting + got->last_us + got->last_task, 0);
    assert_null(find(w, "nightl"));
}

static void a_row_is_replaced_by_its_version(world *w)
{
    pawl_schedule_row *row = row_for(w, "s");
    row->version = 7;
    assert_int_equal(apply(w, w->a, 0, op_put(w, row, false)), PAWL_OP_NOT_FOUND);
    row->version = 0;
    put(w, row);
    assert_int_equal(apply(w, w->b, 0, op_put(w, row, false)), PAWL_OP_EXISTING);
    int64_t version = find(w, "s")->version;
    fire(w, "s", PAWL_OVERLAP_ALLOW, 10, PAWL_OP_DONE);
    advance(w, S);
    row->version = version;
    row->spec = "{}";
    assert_int_equal(apply(w, w->b, 0, op_put(w, row, false)), PAWL_OP_STALE);
    assert_string_not_equal(find(w, "s")->spec, "{}");
    row->version = find(w, "s")->version;
    assert_int_equal(apply(w, w->b, 0, op_put(w, row, false)), PAWL_OP_UPDATED);
    const pawl_schedule_row *got = find(w, "s");
    assert_true(got->version > row->version);
    assert_string_equal(got->spec, "{}");
    assert_int_equal(got->fired, 1);
    assert_true(got->created_us < got->changed_us);
    assert_int_equal(got->occurrences_count, 1);
}

static void a_dropped_one_is_gone_and_its_versions_too(world *w)
{
    pawl_schedule_row *row = row_for(w, "s");
    assert_int_equal(apply(w, w->a, 0, op_put(w, row, true)), PAWL_OP_NOT_FOUND);
    put(w, row);
    pawl_id task = fire(w, "s", PAWL_OVERLAP_ALLOW, 10, PAWL_OP_DONE);
    pawl_op *late = op_step(w, "s", PAWL_OVERLAP_ALLOW, 1, fires(11));
    pawl_schedule_row old = {.name = "s", .version = row->version + 1};
    assert_int_equal(apply(w, w->a, 0, op_put(w, &old, true)), PAWL_OP_STALE);
    old.version = 0;
    assert_int_equal(apply(w, w->a, 0, op_put(w, &old, true)), PAWL_OP_DONE);
    assert_null(find(w, "s"));
    assert_int_equal(apply(w, w->a, 0, late), PAWL_OP_NOT_FOUND);
    assert_state(w, task, PAWL_PENDING);
    finish(w, task, PAWL_SUCCEEDED);
    advance(w, S);
    put(w, row);
    assert_int_equal(apply(w, w->a, 0, late), PAWL_OP_STALE);
    assert_int_equal(find(w, "s")->occurrences_count, 0);
}

static void lists_go_by_name_in_pages(world *w)
{
    static const char *const names[] = {"b", "a.2", "c", "a.10", "a.1"};
    for (int i = 0; i < 5; i++) {
        pawl_schedule_row *row = row_for(w, names[i]);
        row->off = i == 4 ? PAWL_OFF_PERSON : PAWL_OFF_NOT;
        put(w, row);
    }
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULES, .schedule_filter = &(pawl_schedule_filter){.limit = 2}};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    assert_true(query.schedules_count == 2 && query.schedules_more);
    assert_string_equal(query.schedules[0].name, "a.1");
    assert_string_equal(query.schedules[1].name, "a.10");
    query.schedule_filter = &(pawl_schedule_filter){.limit = 9, .cursor = "a.10", .prefix = "a."};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    assert_true(query.schedules_count == 1 && !query.schedules_more);
    assert_string_equal(query.schedules[0].name, "a.2");
    query.schedule_filter = &(pawl_schedule_filter){.limit = 9, .off = true};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    assert_true(query.schedules_count == 1 && query.schedules[0].off == PAWL_OFF_PERSON);
    query.schedule_filter = &(pawl_schedule_filter){.limit = 4, .enabled = true};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    assert_true(query.schedules_count == 4 && !query.schedules_more);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void an_occurrence_becomes_one_task(world *w)
{
    put(w, row_for(w, "s"));
    pawl_id task = fire(w, "s", PAWL_OVERLAP_ALLOW, 100, PAWL_OP_DONE);
    assert_state(w, task, PAWL_PENDING);
    fire(w, "s", PAWL_OVERLAP_ALLOW, 100, PAWL_OP_EXISTING);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 1);
    const pawl_schedule_row *row = find(w, "s");
    assert_true(row->fired == 1 && row->runs == 1 && row->open == 1 && row->last_task == task);
    const pawl_occurrence *o = occurrence(row, 100);
    assert_true(o->state == PAWL_OCCURRENCE_OPEN && o->task == task && o->count == 1 && o->at_us == now_of(w) && !o->why);
}

static void of_two_steps_one_is_stale(world *w)
{
    put(w, row_for(w, "s"));
    pawl_op *first = op_step(w, "s", PAWL_OVERLAP_ALLOW, 1, fires(100)),
            *second = op_step(w, "s", PAWL_OVERLAP_ALLOW, 1, fires(200));
    first->u.step->next_us = 5;
    second->u.step->next_us = 6;
    assert_int_equal(apply(w, w->a, 0, first), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->b, 0, second), PAWL_OP_STALE);
    assert_int_equal(second->u.step->tasks[0].result, PAWL_OP_NONE);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 1);
    assert_int_equal(find(w, "s")->next_us, 5);
}

static void a_step_writes_the_row(world *w)
{
    put(w, row_for(w, "s"));
    pawl_op *op = op_step(w, "s", PAWL_OVERLAP_FORBID, 2, skipped(100, 7), fires(200));
    *op->u.step = (pawl_step){.name = "s",
                              .version = op->u.step->version,
                              .overlap = PAWL_OVERLAP_FORBID,
                              .fates = op->u.step->fates,
                              .fates_count = 2,
                              .tasks = op->u.step->tasks,
                              .tasks_count = 1,
                              .next_us = 11,
                              .occurrence_us = 12,
                              .last_us = 13,
                              .look_us = 14,
                              .watch = true};
    pawl_batch batch = apply_all(w, w->a, 0, &op, 1);
    assert_true(op->result == PAWL_OP_DONE && batch.schedules);
    const pawl_schedule_row *row = find(w, "s");
    assert_true(row->next_us == 11 && row->occurrence_us == 12 && row->last_us == 13 && row->look_us == 14 && row->watch);
    assert_true(row->skipped == 7 && row->fired == 1 && !row->off);
    assert_int_equal(occurrence(row, 100)->count, 7);
    assert_string_equal(occurrence(row, 100)->why, "missed");
    assert_int_equal(row->occurrences[0].occurrence, 200); /* newest first */
    op = op_step(w, "s", PAWL_OVERLAP_FORBID, 0);
    op->u.step->off = PAWL_OFF_ENDED;
    op->u.step->reason = "over";
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    row = find(w, "s");
    assert_true(row->off == PAWL_OFF_ENDED && row->look_us == 0);
    assert_string_equal(row->reason, "over");
}

static void a_step_that_keeps_changes_only_the_version(world *w)
{
    put(w, row_for(w, "s"));
    const pawl_schedule_row *before = find(w, "s");
    pawl_op *op = op_step(w, "s", PAWL_OVERLAP_ALLOW, 1, fires(100));
    op->u.step->keep = true;
    op->u.step->version = 0;
    op->u.step->off = PAWL_OFF_PERSON;
    op->u.step->next_us = op->u.step->look_us = 5;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    const pawl_schedule_row *row = find(w, "s");
    assert_true(row->version > before->version && row->next_us == before->next_us && row->look_us == before->look_us &&
                !row->off);
    assert_int_equal(row->fired, 1);
    op = op_step(w, "s", PAWL_OVERLAP_FORBID, 1, fires(200));
    op->u.step->keep = true;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_int_equal(op->u.step->tasks[0].result, PAWL_OP_CONFLICT);
    assert_true(find(w, "s")->skipped == 0 && find(w, "s")->occurrences_count == 1);
}

static void a_resent_step_is_answered_from_its_receipt(world *w)
{
    put(w, row_for(w, "s"));
    pawl_op *op = op_step(w, "s", PAWL_OVERLAP_FORBID, 2, fires(100), fires(200));
    pawl_batch batch = apply_all(w, w->a, node(w), &op, 1);
    pawl_id id = op->u.step->tasks[0].out_id;
    assert_true(op->u.step->tasks[0].result == PAWL_OP_DONE && op->u.step->tasks[1].result == PAWL_OP_CONFLICT);
    op->result = op->u.step->tasks[0].result = op->u.step->tasks[1].result = PAWL_OP_NONE;
    op->u.step->tasks[0].out_id = 0;
    assert_int_equal(try_apply(w, w->a, &batch), PAWL_OK);
    assert_true(op->result == PAWL_OP_DONE && op->u.step->tasks[0].result == PAWL_OP_DONE && op->u.step->tasks[0].out_id == id);
    assert_true(op->u.step->tasks[1].result == PAWL_OP_CONFLICT && batch.schedules);
    assert_int_equal(find(w, "s")->fired, 1);
}

/* Also where one of them is stale, and others are skipped or refused their task. */
static void steps_of_one_batch_have_their_own_tasks(world *w)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    pawl_op *ops[4];
    for (int i = 0; i < 4; i++) put(w, row_for(w, names[i]));
    for (int i = 0; i < 4; i++) {
        ops[i] = op_step(w, names[i], PAWL_OVERLAP_FORBID, 3, fires(100), skipped(150, 2), fires(200));
        for (int k = 0; k < 2; k++) ops[i]->u.step->tasks[k].u.insert.body->created_by = names[i];
    }
    ops[1]->u.step->version++;
    apply_all(w, w->a, 0, ops, 4);
    for (int i = 0; i < 4; i++) {
        const pawl_op *tasks = ops[i]->u.step->tasks;
        assert_int_equal(ops[i]->result, i == 1 ? PAWL_OP_STALE : PAWL_OP_DONE);
        assert_int_equal(tasks[0].result, i == 1 ? PAWL_OP_NONE : PAWL_OP_DONE);
        assert_int_equal(tasks[1].result, i == 1 ? PAWL_OP_NONE : PAWL_OP_CONFLICT);
        if (i == 1) continue;
        assert_int_equal(find(w, names[i])->last_task, tasks[0].out_id);
        assert_string_equal(get(w, tasks[0].out_id)->created_by, names[i]);
    }
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 3);
}

static void a_taken_id_is_replaced(world *w)
{
    put(w, row_for(w, "s"));
    pawl_id taken = insert(w, w->a, 0, (spec){0});
    pawl_op *op = op_step(w, "s", PAWL_OVERLAP_ALLOW, 1, fires(100));
    op->u.step->tasks[0].id = op->u.step->tasks[0].u.insert.body->id = taken;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_int_equal(op->u.step->tasks[0].result, PAWL_OP_DONE);
    assert_true(op->u.step->tasks[0].out_id != taken);
    assert_int_equal(find(w, "s")->last_task, op->u.step->tasks[0].out_id);
}

/* ---- overlap ----------------------------------------------------------------------------------------------------- */

static void forbid_skips_while_one_is_open(world *w)
{
    put(w, row_for(w, "s"));
    pawl_id task = fire(w, "s", PAWL_OVERLAP_FORBID, 100, PAWL_OP_DONE);
    fire(w, "s", PAWL_OVERLAP_FORBID, 200, PAWL_OP_CONFLICT);
    const pawl_schedule_row *row = find(w, "s");
    assert_true(row->skipped == 1 && row->runs == 1 && row->fired == 1);
    assert_string_equal(occurrence(row, 200)->why, "overlap");
    finish(w, task, PAWL_FAILED);
    fire(w, "s", PAWL_OVERLAP_FORBID, 200, PAWL_OP_EXISTING);
    fire(w, "s", PAWL_OVERLAP_FORBID, 300, PAWL_OP_DONE);
}

static void queue_lets_one_wait(world *w)
{
    put(w, row_for(w, "s"));
    pawl_id task = fire(w, "s", PAWL_OVERLAP_QUEUE, 100, PAWL_OP_DONE);
    fire(w, "s", PAWL_OVERLAP_QUEUE, 200, PAWL_OP_MOVED);
    fire(w, "s", PAWL_OVERLAP_QUEUE, 300, PAWL_OP_CONFLICT);
    fire(w, "s", PAWL_OVERLAP_QUEUE, 200, PAWL_OP_MOVED); /* again: it still waits */
    assert_true(find(w, "s")->waiting == 1 && find(w, "s")->skipped == 1);
    assert_int_equal(due(w, 9)->count, 0);
    int64_t version = find(w, "s")->version;
    finish(w, task, PAWL_SUCCEEDED);
    const pawl_due *d = due(w, 9);
    assert_int_equal(d->count, 1);
    assert_true(d->rows[0].version > version && d->rows[0].occurrences_count == 1 && d->rows[0].open == 0);
    assert_int_equal(d->rows[0].occurrences[0].occurrence, 200);
    fire(w, "s", PAWL_OVERLAP_QUEUE, 200, PAWL_OP_DONE);
    assert_true(find(w, "s")->waiting == 0 && find(w, "s")->open == 1);
}

static void one_that_waits_may_be_skipped(world *w)
{
    put(w, row_for(w, "s"));
    fire(w, "s", PAWL_OVERLAP_QUEUE, 100, PAWL_OP_DONE);
    fire(w, "s", PAWL_OVERLAP_QUEUE, 200, PAWL_OP_MOVED);
    assert_int_equal(apply(w, w->a, 0, op_step(w, "s", PAWL_OVERLAP_QUEUE, 1, skipped(200, 1))), PAWL_OP_DONE);
    assert_int_equal(fate_of(w, "s", 200), PAWL_OCCURRENCE_SKIPPED);
    assert_int_equal(find(w, "s")->waiting, 0);
    assert_int_equal(apply(w, w->a, 0, op_step(w, "s", PAWL_OVERLAP_QUEUE, 1, skipped(100, 1))), PAWL_OP_DONE);
    assert_int_equal(fate_of(w, "s", 100), PAWL_OCCURRENCE_OPEN);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void every_end_is_seen(world *w)
{
    put(w, row_for(w, "s"));
    pawl_id task = fire(w, "s", PAWL_OVERLAP_FORBID, 1, PAWL_OP_DONE);
    finish(w, task, PAWL_SUCCEEDED);
    assert_int_equal(fate_of(w, "s", 1), PAWL_OCCURRENCE_SUCCEEDED);
    task = fire(w, "s", PAWL_OVERLAP_FORBID, 2, PAWL_OP_DONE);
    finish(w, task, PAWL_FAILED);
    assert_int_equal(fate_of(w, "s", 2), PAWL_OCCURRENCE_FAILED);
    task = fire(w, "s", PAWL_OVERLAP_FORBID, 3, PAWL_OP_DONE);
    finish(w, task, PAWL_CANCELLED);
    assert_int_equal(fate_of(w, "s", 3), PAWL_OCCURRENCE_CANCELLED);
    assert_int_equal(find(w, "s")->runs, 3);
    task = fire(w, "s", PAWL_OVERLAP_FORBID, 4, PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, task, NULL)), PAWL_OP_DONE);
    assert_int_equal(fate_of(w, "s", 4), PAWL_OCCURRENCE_UNSTARTED);
    assert_int_equal(find(w, "s")->runs, 3); /* given back */
    task = fire(w, "s", PAWL_OVERLAP_FORBID, 5, PAWL_OP_DONE);
    pawl_claimed got = lease(w, w->a, node(w), task);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, task, NULL)), PAWL_OP_ASKED);
    assert_int_equal(fate_of(w, "s", 5), PAWL_OCCURRENCE_OPEN);
    assert_int_equal(apply(w, w->a, node(w), op_release(w, task, got.fence, 0, PAWL_ATTEMPT_RETRY)), PAWL_OP_DONE);
    assert_int_equal(fate_of(w, "s", 5), PAWL_OCCURRENCE_CANCELLED);
    const pawl_schedule_row *row = find(w, "s");
    assert_true(row->open == 0 && row->succeeded == 1 && row->failed == 1 && row->fired == 5 && row->runs == 4);
    assert_int_equal(row->look_us, row->next_us); /* nobody watches */
}

static void a_retry_is_the_same_run(world *w)
{
    put(w, row_for(w, "s"));
    pawl_id task = fire(w, "s", PAWL_OVERLAP_FORBID, 1, PAWL_OP_DONE);
    pawl_claimed got = lease(w, w->a, node(w), task);
    pawl_op *op = op_release(w, task, got.fence, 0, PAWL_ATTEMPT_RETRY);
    assert_int_equal(apply(w, w->a, node(w), op), PAWL_OP_DONE);
    assert_int_equal(fate_of(w, "s", 1), PAWL_OCCURRENCE_OPEN);
    fire(w, "s", PAWL_OVERLAP_FORBID, 2, PAWL_OP_CONFLICT);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, task, NULL)), PAWL_OP_DONE);
    assert_int_equal(fate_of(w, "s", 1), PAWL_OCCURRENCE_CANCELLED); /* it had started once */
}

static void a_rescue_that_ends_a_task_is_seen(world *w)
{
    put(w, row_for(w, "s"));
    int64_t rescuer = join(w, w->b), victim = join(w, w->a);
    pawl_id task = fire(w, "s", PAWL_OVERLAP_FORBID, 1, PAWL_OP_DONE);
    lease(w, w->a, victim, task);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, task, NULL)), PAWL_OP_ASKED);
    rescue_lapsed(w, w->b, rescuer, victim, true);
    assert_state(w, task, PAWL_CANCELLED);
    assert_int_equal(fate_of(w, "s", 1), PAWL_OCCURRENCE_CANCELLED);
    assert_int_equal(find(w, "s")->open, 0);
}

static void who_watches_is_told_of_ends(world *w)
{
    pawl_schedule_row *row = row_for(w, "s");
    row->watch = true;
    put(w, row);
    pawl_id task = fire(w, "s", PAWL_OVERLAP_FORBID, 1, PAWL_OP_DONE);
    int64_t version = find(w, "s")->version;
    pawl_op *cancel = op_cancel(w, task, NULL);
    pawl_batch batch = apply_all(w, w->a, 0, &cancel, 1);
    assert_true(batch.schedules);
    assert_int_equal(find(w, "s")->look_us, now_of(w));
    assert_true(find(w, "s")->version > version);
    pawl_op *off = op_step(w, "s", PAWL_OVERLAP_FORBID, 1, fires(2));
    off->u.step->off = PAWL_OFF_PERSON;
    assert_int_equal(apply(w, w->a, 0, off), PAWL_OP_DONE);
    finish(w, off->u.step->tasks[0].out_id, PAWL_SUCCEEDED);
    assert_int_equal(find(w, "s")->look_us, 0); /* one that is off is left alone */
    assert_int_equal(fate_of(w, "s", 2), PAWL_OCCURRENCE_SUCCEEDED);
}

static void followers_hear_of_successes(world *w)
{
    put(w, row_for(w, "parent"));
    for (int i = 0; i < 3; i++) {
        pawl_schedule_row *row = row_for(w, i == 0 ? "c0" : i == 1 ? "c1" : "off");
        row->after = "parent";
        row->next_us = row->occurrence_us = row->look_us = 0;
        row->off = i == 2 ? PAWL_OFF_PERSON : PAWL_OFF_NOT;
        put(w, row);
    }
    pawl_id failed = fire(w, "parent", PAWL_OVERLAP_ALLOW, 1, PAWL_OP_DONE);
    finish(w, failed, PAWL_FAILED);
    assert_int_equal(due(w, 9)->count, 0);
    pawl_id task = fire(w, "parent", PAWL_OVERLAP_ALLOW, 2, PAWL_OP_DONE);
    finish(w, task, PAWL_SUCCEEDED);
    const pawl_due *d = due(w, 9);
    assert_int_equal(d->count, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(d->rows[i].occurrences_count == 1 && d->rows[i].waiting == 1);
        assert_true(d->rows[i].occurrences[0].occurrence == task && d->rows[i].occurrences[0].state == PAWL_OCCURRENCE_WAITING);
    }
    assert_int_equal(find(w, "off")->waiting, 0);
    pawl_id child = fire(w, "c0", PAWL_OVERLAP_FORBID, task, PAWL_OP_DONE);
    assert_state(w, child, PAWL_PENDING);
    fire(w, "c0", PAWL_OVERLAP_FORBID, task, PAWL_OP_EXISTING);
    assert_int_equal(find(w, "c0")->waiting, 0);
    pawl_id again = fire(w, "parent", PAWL_OVERLAP_ALLOW, 3, PAWL_OP_DONE);
    finish(w, again, PAWL_SUCCEEDED);
    assert_int_equal(find(w, "c0")->waiting, 1);
    assert_int_equal(find(w, "c1")->waiting, 2);
}

static void a_chain_goes_on(world *w)
{
    put(w, row_for(w, "a"));
    pawl_schedule_row *b = row_for(w, "b"), *c = row_for(w, "c");
    b->after = "a";
    c->after = "b";
    b->look_us = c->look_us = 0;
    put(w, b);
    put(w, c);
    pawl_id first = fire(w, "a", PAWL_OVERLAP_FORBID, 1, PAWL_OP_DONE);
    finish(w, first, PAWL_SUCCEEDED);
    pawl_id second = fire(w, "b", PAWL_OVERLAP_FORBID, first, PAWL_OP_DONE);
    assert_int_equal(find(w, "c")->waiting, 0);
    finish(w, second, PAWL_SUCCEEDED);
    assert_int_equal(due(w, 9)->count > 0, true);
    assert_int_equal(fate_of(w, "c", second), PAWL_OCCURRENCE_WAITING);
}

/* ---- what is due ------------------------------------------------------------------------------------------------- */

static void news_tell_the_earliest(world *w)
{
    assert_int_equal(renew(w, w->a, node(w)).news.schedule_due_us, 0);
    pawl_schedule_row *late = row_for(w, "late"), *early = row_for(w, "early"), *off = row_for(w, "off");
    late->look_us = now_of(w) + 90 * S;
    early->look_us = now_of(w) + 30 * S;
    off->look_us = now_of(w) + 10 * S;
    off->off = PAWL_OFF_PERSON;
    put(w, late);
    assert_int_equal(renew(w, w->a, node(w)).news.schedule_due_us, late->look_us);
    put(w, early);
    put(w, off);
    claim(w, w->a, node(w), (wish){.free = 1});
    assert_int_equal(w->news.schedule_due_us, early->look_us);
    const pawl_due *d = due(w, 9);
    assert_true(d->count == 0 && d->next_us == early->look_us && !d->more);
    step_wall(w, 30 * S);
    d = due(w, 9);
    assert_true(d->count == 1 && d->next_us == late->look_us);
    assert_string_equal(d->rows[0].name, "early");
    assert_string_equal(d->rows[0].spec, early->spec);
    step_wall(w, 60 * S);
    d = due(w, 1);
    assert_true(d->count == 1 && d->more);
    assert_string_equal(d->rows[0].name, "early");
    assert_int_equal(due(w, 2)->count, 2);
}

static void what_is_due_is_bounded_in_bytes(world *w)
{
    char *large = keep(w, 700000);
    for (int i = 0; i < 3; i++) {
        pawl_schedule_row *row = row_for(w, i == 0 ? "a" : i == 1 ? "b" : "c");
        row->payload = (pawl_bytes){large, 700000};
        row->look_us = now_of(w) + 1 + i;
        put(w, row);
    }
    step_wall(w, S);
    const pawl_due *d = due(w, 9);
    assert_true(d->count == 2 && d->more);
    assert_int_equal(d->rows[1].payload.len, 700000);
}

static void old_occurrences_go(world *w)
{
    put(w, row_for(w, "s"));
    fire(w, "s", PAWL_OVERLAP_ALLOW, 5, PAWL_OP_DONE);
    for (int i = 1; i <= 40; i++)
        assert_int_equal(apply(w, w->a, 0,
                               op_step(w, "s", PAWL_OVERLAP_FORBID, 5, skipped(10 * i, 1), skipped(10 * i + 1, 1),
                                       skipped(10 * i + 2, 1), skipped(10 * i + 3, 1), skipped(10 * i + 4, 1))),
                         PAWL_OP_DONE);
    const pawl_schedule_row *row = find(w, "s");
    assert_int_equal(row->skipped, 200);
    assert_true(row->occurrences_count >= PAWL_OCCURRENCES_KEPT + 1 && row->occurrences_count < 2 * PAWL_OCCURRENCES_KEPT);
    assert_int_equal(row->occurrences[0].occurrence, 404);
    assert_int_equal(occurrence(row, 5)->state, PAWL_OCCURRENCE_OPEN); /* that one is not settled */
    for (int i = 0; i < PAWL_OCCURRENCES_KEPT; i++)
        assert_int_equal(row->occurrences[i].occurrence, 10 * (40 - i / 5) + 4 - i % 5);
}

static void a_closed_store_steps_no_more(world *w)
{
    if (!w->a->type->set_gate) return;
    put(w, row_for(w, "s"));
    pawl_op *step = op_step(w, "s", PAWL_OVERLAP_FORBID, 1, fires(1));
    pawl_gate gate = {.mode = PAWL_GATE_CLOSED, .move = "m", .peer = "x"};
    assert_int_equal(store_set_gate(w->a, &gate, &w->err), PAWL_OK);
    assert_int_equal(apply(w, w->a, 0, step), PAWL_OP_CLOSED);
    assert_int_equal(apply(w, w->a, 0, op_put(w, row_for(w, "t"), false)), PAWL_OP_CLOSED);
    assert_null(find(w, "t"));
}

static void everything_survives_a_reopening(world *w)
{
    if (!w->a->type->durable) return;
    put(w, row_for(w, "s"));
    pawl_id task = fire(w, "s", PAWL_OVERLAP_QUEUE, 100, PAWL_OP_DONE);
    fire(w, "s", PAWL_OVERLAP_QUEUE, 200, PAWL_OP_MOVED);
    reopen(w);
    const pawl_schedule_row *row = find(w, "s");
    assert_true(row->open == 1 && row->waiting == 1 && row->last_task == task && row->occurrences_count == 2);
}

CASES(schedule_cases){
    {"schedule: a row is what was put", a_row_is_what_was_put},
    {"schedule: a row is replaced by its version", a_row_is_replaced_by_its_version},
    {"schedule: a dropped one is gone, and its versions too", a_dropped_one_is_gone_and_its_versions_too},
    {"schedule: lists go by name, in pages", lists_go_by_name_in_pages},
    {"schedule: an occurrence becomes one task", an_occurrence_becomes_one_task},
    {"schedule: of two steps one is stale", of_two_steps_one_is_stale},
    {"schedule: a step writes the row", a_step_writes_the_row},
    {"schedule: a step that keeps changes only the version", a_step_that_keeps_changes_only_the_version},
    {"schedule: a resent step is answered from its receipt", a_resent_step_is_answered_from_its_receipt},
    {"schedule: steps of one batch have their own tasks", steps_of_one_batch_have_their_own_tasks},
    {"schedule: a taken id is replaced", a_taken_id_is_replaced},
    {"schedule: forbid skips while one is open", forbid_skips_while_one_is_open},
    {"schedule: queue lets one wait", queue_lets_one_wait},
    {"schedule: one that waits may be skipped", one_that_waits_may_be_skipped},
    {"schedule: every end is seen", every_end_is_seen},
    {"schedule: a retry is the same run", a_retry_is_the_same_run},
    {"schedule: a rescue that ends a task is seen", a_rescue_that_ends_a_task_is_seen},
    {"schedule: who watches is told of ends", who_watches_is_told_of_ends},
    {"schedule: followers hear of successes", followers_hear_of_successes},
    {"schedule: a chain goes on", a_chain_goes_on},
    {"schedule: news tell the earliest", news_tell_the_earliest},
    {"schedule: what is due is bounded in bytes", what_is_due_is_bounded_in_bytes},
    {"schedule: old occurrences go", old_occurrences_go},
    {"schedule: a closed store steps no more", a_closed_store_steps_no_more},
    {"schedule: everything survives a reopening", everything_survives_a_reopening},
    {NULL, NULL},
};
