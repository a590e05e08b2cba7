/* Retention: what goes when, in small steps. */
#include "contract.h"

static pawl_id finished(world *w, int64_t n, pawl_state how)
{
    pawl_op *in = op_insert(w, (spec){.ask_lease = true, .key = how == PAWL_CANCELLED ? "gone" : NULL});
    apply(w, w->a, n, in);
    assert_true(in->out_fence > 0);
    pawl_op *op = op_finish(w, in->id, in->out_fence, how);
    op->u.finish.run.log = pawl_str("1 2 hello\n");
    op->u.finish.run.log_lines = 1;
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    return in->id;
}

/* Steps until nothing more is due. */
static int64_t sweep_out(world *w, pawl_sweep how)
{
    int64_t removed = 0;
    for (int i = 0; i < 1000; i++) {
        pawl_sweep done = sweep(w, how);
        removed += done.removed;
        if (!done.more) return removed;
    }
    fail_msg("the sweep does not end");
    return 0;
}

static void each_kind_after_its_time(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id ok = finished(w, n, PAWL_SUCCEEDED), gone = finished(w, n, PAWL_CANCELLED), bad = finished(w, n, PAWL_FAILED);
    pawl_id known = finished(w, n, PAWL_FAILED), live = insert(w, w->a, n, (spec){0});
    advance(w, PAWL_HOUR);
    apply(w, w->a, n, op_ack(w, known, "ann", NULL));
    pawl_sweep how = keep_all();
    how.keep_succeeded_us = 10 * PAWL_HOUR;
    how.keep_cancelled_us = 20 * PAWL_HOUR;
    how.keep_resolved_us = 40 * PAWL_HOUR;
    how.keep_failed_us = 80 * PAWL_HOUR;
    struct {
        pawl_id id;
        int64_t at_us;
    } rows[] = {{ok, 10 * PAWL_HOUR}, {gone, 20 * PAWL_HOUR}, {known, 41 * PAWL_HOUR}, {bad, 80 * PAWL_HOUR}};
    int64_t start_us = w->clock.now_us - PAWL_HOUR;
    for (int i = 0; i < 4; i++) {
        advance(w, start_us + rows[i].at_us - PAWL_HOUR - w->clock.now_us);
        sweep_out(w, how);
        assert_true(exists(w, rows[i].id));
        advance(w, 2 * PAWL_HOUR);
        assert_true(sweep_out(w, how) > 0);
        assert_false(exists(w, rows[i].id));
    }
    advance(w, 1000 * PAWL_DAY);
    sweep_out(w, how);
    assert_true(exists(w, live));
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 1);
}

static void for_ever(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id ids[] = {finished(w, n, PAWL_SUCCEEDED), finished(w, n, PAWL_CANCELLED), finished(w, n, PAWL_FAILED)};
    advance(w, 1000 * PAWL_DAY);
    assert_true(sweep_out(w, keep_all()) == 0);
    for (int i = 0; i < 3; i++) assert_true(exists(w, ids[i]));
}

static void in_small_steps(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 25; i++) finished(w, n, PAWL_SUCCEEDED);
    advance(w, 3 * PAWL_DAY);
    pawl_sweep how = keep_all();
    how.keep_succeeded_us = PAWL_DAY;
    how.limit = 4;
    pawl_sweep first = sweep(w, how);
    assert_true(first.more && first.removed > 0);
    int left = count_tasks(w, (pawl_filter){0});
    assert_true(left >= 25 - 4 && left < 25);
    sweep_out(w, how);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 0);
}

static void everything_goes_with_the_task(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = finished(w, n, PAWL_CANCELLED);
    advance(w, PAWL_DAY);
    pawl_sweep how = keep_all();
    how.keep_cancelled_us = PAWL_HOUR;
    sweep_out(w, how);
    pawl_query query = {.kind = PAWL_QUERY_TRAIL, .id = id};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_NOT_FOUND);
    query.kind = PAWL_QUERY_STATE;
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_NOT_FOUND);
    pawl_op *op = op_insert(w, (spec){.key = "gone"});
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, n, op_retry(w, id, NULL)), PAWL_OP_NOT_FOUND);
}

/* A task that was released and then cancelled, with a log of its run. */
static pawl_id released(world *w, int64_t n, pawl_id id)
{
    pawl_op *in = op_insert(w, (spec){.id = id, .ask_lease = true, .may_exist = true});
    assert_int_equal(apply(w, w->a, n, in), PAWL_OP_DONE);
    pawl_op *op = op_release(w, in->id, in->out_fence, 0, PAWL_ATTEMPT_SNOOZED);
    op->u.release.run.log = pawl_str("1 2 hello\n");
    op->u.release.run.log_lines = 1;
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    return in->id;
}

static void an_id_used_again_has_nothing_of_the_old(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = released(w, n, 0);
    apply(w, w->a, n, op_cancel(w, id, NULL));
    advance(w, 10 * PAWL_DAY);
    pawl_sweep how = keep_all();
    how.keep_cancelled_us = PAWL_DAY;
    sweep_out(w, how);
    assert_false(exists(w, id));
    assert_int_equal(insert(w, w->a, n, (spec){.id = id, .may_exist = true}), id);
    assert_int_equal(get(w, id)->attempts_count, 0);
    assert_true(trail_of(w, id)->lines_count == 0 && trail_of(w, id)->audit_count == 1);
}

static void lines_of_later_runs_stand_once(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = released(w, n, 0);
    advance(w, 10 * PAWL_DAY);
    pawl_sweep how = keep_all();
    how.keep_logs_us = PAWL_DAY;
    sweep_out(w, how);
    assert_int_equal(trail_of(w, id)->lines_count, 0);
    pawl_op *op = op_finish(w, id, claim_one(w, w->a, n).fence, PAWL_SUCCEEDED);
    op->u.finish.run.log = pawl_str("2 2 again\n");
    op->u.finish.run.log_lines = 1;
    apply(w, w->a, n, op);
    assert_int_equal(trail_of(w, id)->lines_count, 1);
    assert_string_equal(trail_of(w, id)->lines[0].text, "again");
    assert_int_equal(trail_of(w, id)->lines[0].attempt, 2);
}

static void old_trails_and_logs(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = finished(w, n, PAWL_FAILED);
    assert_true(trail_of(w, id)->audit_count > 0 && trail_of(w, id)->lines_count == 1);
    pawl_sweep how = keep_all();
    how.keep_audit_us = 7 * PAWL_DAY;
    how.keep_logs_us = 2 * PAWL_DAY;
    sweep_out(w, how);
    assert_true(trail_of(w, id)->audit_count > 0 && trail_of(w, id)->lines_count == 1);
    advance(w, 3 * PAWL_DAY);
    sweep_out(w, how);
    assert_true(trail_of(w, id)->audit_count > 0 && trail_of(w, id)->lines_count == 0);
    advance(w, 5 * PAWL_DAY);
    sweep_out(w, how);
    assert_true(trail_of(w, id)->audit_count == 0);
    assert_int_equal(get(w, id)->attempts_count, 1);
}

static void the_operator_log(world *w)
{
    apply(w, w->a, 0, op_queue(w, "q", true, "ann"));
    pawl_sweep how = keep_all();
    how.keep_audit_us = 7 * PAWL_DAY;
    advance(w, 6 * PAWL_DAY);
    assert_int_equal(sweep_out(w, how), 0);
    advance(w, 2 * PAWL_DAY);
    assert_int_equal(sweep_out(w, how), 1);
}

static void resolved_ones_in_turn(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id ids[4];
    for (int i = 0; i < 4; i++) ids[i] = finished(w, n, PAWL_FAILED);
    for (int i = 3; i >= 0; i--) {
        advance(w, PAWL_DAY);
        apply(w, w->a, n, op_ack(w, ids[i], "ann", NULL));
    }
    pawl_sweep how = keep_all();
    how.keep_resolved_us = 10 * PAWL_DAY;
    advance(w, 8 * PAWL_DAY + PAWL_HOUR);
    sweep_out(w, how);
    for (int i = 0; i < 4; i++) assert_int_equal(exists(w, ids[i]), i < 2);
}

static void when_to_come_again(world *w)
{
    int64_t n = join(w, w->a);
    pawl_sweep how = keep_all();
    how.keep_succeeded_us = PAWL_DAY;
    assert_true(sweep(w, how).next_us == -1);
    finished(w, n, PAWL_SUCCEEDED);
    pawl_sweep told = sweep(w, how);
    assert_true(!told.more && told.next_us > 0 && told.next_us <= PAWL_DAY + 2 * PAWL_HOUR);
    advance(w, told.next_us);
    assert_true(sweep_out(w, how) > 0);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 0);
}

static void dead_letters_about_to_go(world *w)
{
    int64_t n = join(w, w->a);
    finished(w, n, PAWL_FAILED);
    advance(w, 10 * PAWL_DAY);
    pawl_id known = finished(w, n, PAWL_FAILED);
    apply(w, w->a, n, op_ack(w, known, NULL, NULL));
    finished(w, n, PAWL_FAILED);
    pawl_sweep how = keep_all();
    how.keep_failed_us = 20 * PAWL_DAY;
    assert_int_equal(sweep(w, how).expiring, 0);
    advance(w, 4 * PAWL_DAY);
    assert_int_equal(sweep(w, how).expiring, 1);
    advance(w, 5 * PAWL_DAY);
    assert_int_equal(sweep(w, how).expiring, 1);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 3);
}

static void dead_nodes(world *w)
{
    int64_t n = join(w, w->a), gone = join(w, w->b);
    assert_int_equal(w->b->type->leave(w->b, gone, &w->err), PAWL_OK);
    advance(w, 3 * PAWL_DAY);
    sweep_out(w, keep_all());
    assert_null(node_of(w, gone));
    assert_non_null(node_of(w, n));
}

static void a_swept_node_stays_dead(world *w)
{
    int64_t n = join(w, w->a), gone = join(w, w->b);
    insert(w, w->b, gone, (spec){0});
    assert_int_equal(w->b->type->leave(w->b, gone, &w->err), PAWL_OK);
    advance(w, 3 * PAWL_DAY);
    sweep_out(w, keep_all());
    assert_int_equal(claim(w, w->b, gone, (wish){.free = 1}).got, 0);
    assert_true(w->news.node_dead && renew(w, w->b, gone).news.node_dead);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    assert_true(apply_all(w, w->b, gone, &op, 1).node_dead);
    assert_true(op->result == PAWL_OP_DONE && op->out_fence == 0);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 5}).got, 2);
}

static void a_node_of_which_nothing_is_left(world *w)
{
    int64_t gone = join(w, w->b);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true, .depth_limit = 10});
    assert_int_equal(w->b->type->leave(w->b, gone, &w->err), PAWL_OK);
    advance(w, 3 * PAWL_DAY);
    sweep_out(w, keep_all());
    assert_true(apply_all(w, w->b, gone, &op, 1).node_dead);
    assert_true(op->result == PAWL_OP_DONE && op->out_fence == 0);
}

static void a_dead_node_stays_while_tasks_name_it(world *w)
{
    int64_t n = join(w, w->a), victim = join(w, w->b);
    for (int i = 0; i < 2; i++) insert(w, w->b, victim, (spec){.ask_lease = true});
    advance(w, LEASE);
    int64_t renewal = renewal_of(w, w->a, n, victim);
    assert_true(rescue(w, w->a, n, victim, renewal, 1).more);
    advance(w, 3 * PAWL_DAY);
    sweep_out(w, keep_all());
    assert_non_null(node_of(w, victim));
    assert_int_equal(rescue(w, w->a, n, victim, renewal, 1).freed, 1);
}

CASES(sweep_cases){
    {"sweep: each kind after its time", each_kind_after_its_time},
    {"sweep: for ever", for_ever},
    {"sweep: in small steps", in_small_steps},
    {"sweep: everything goes with the task", everything_goes_with_the_task},
    {"sweep: an id used again has nothing of the old", an_id_used_again_has_nothing_of_the_old},
    {"sweep: lines of later runs stand once", lines_of_later_runs_stand_once},
    {"sweep: a swept node stays dead", a_swept_node_stays_dead},
    {"sweep: a node of which nothing is left is dead", a_node_of_which_nothing_is_left},
    {"sweep: old trails and logs", old_trails_and_logs},
    {"sweep: the operator log", the_operator_log},
    {"sweep: resolved dead letters in turn", resolved_ones_in_turn},
    {"sweep: when to come again", when_to_come_again},
    {"sweep: dead letters about to go", dead_letters_about_to_go},
    {"sweep: dead nodes", dead_nodes},
    {"sweep: a dead node stays while tasks name it", a_dead_node_stays_while_tasks_name_it},
    {NULL, NULL},
};
