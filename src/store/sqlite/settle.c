/* Telling those who wait: children of what has ended, members of a batch that is cancelled, in pages by a cursor that is stored. See
 * family.h. */
#include "base/canary.h"
#include "base/check.h"
#include "core/task.h"
#include "store/sqlite/family.h"

#define PAGE 128

typedef struct work {
    pawl_id id;
    untold kind;
    pawl_id after;
    int64_t value;
} work;

static bool work_first(tx *t, work *w)
{
    query q = query_on(t->c, SQL_unsettled_first);
    bool found = query_row(&q);
    if (found) {
        w->id = get_int(&q);
        w->kind = (untold)get_int(&q);
        w->after = get_int(&q);
        w->value = get_int(&q);
    }
    query_end(&q);
    return found;
}

static void work_over(tx *t, const work *w)
{
    query q = query_on(t->c, SQL_unsettled_drop);
    put_int(&q, w->id);
    put_int(&q, w->kind);
    query_run(&q);
}

/* last: where its cursor is after this page; 0: the page was not full, so there is no other. What is added while a page is worked on may
 * move the cursor back, which must not be lost: so it goes forward before. */
static void work_goes_on(tx *t, const work *w, pawl_id last)
{
    if (!last || CANARY(FIRST_PAGE_ONLY)) {
        work_over(t, w);
        return;
    }
    query q = query_on(t->c, SQL_unsettled_go_on);
    put_int(&q, last);
    put_int(&q, w->id);
    put_int(&q, w->kind);
    query_run(&q);
}

static pawl_id cursor_of(const pawl_id *page, int count, int room) { return count > 0 && count == room ? page[count - 1] : 0; }

static int edges(tx *t, const work *w, int state, pawl_id *page, int most)
{
    int count = 0;
    query q = query_on(t->c, SQL_edge_page);
    put_int(&q, w->id);
    put_int(&q, w->after);
    put_int(&q, state);
    put_int(&q, most);
    while (count < most && query_row(&q)) page[count++] = get_int(&q);
    query_end(&q);
    return count;
}

static void edge_set(tx *t, pawl_id parent, pawl_id child, int state)
{
    query q = query_on(t->c, SQL_edge_set);
    put_int(&q, state);
    put_int(&q, parent);
    put_int(&q, child);
    query_run(&q);
}

/* ---- a child ------------------------------------------------------------------------------------------------------------- */

typedef struct waiting {
    int64_t unmet, held;
    pawl_if_failed if_failed;
} waiting;

static bool wait_get(tx *t, pawl_id child, waiting *w)
{
    query q = query_on(t->c, SQL_wait_get);
    put_int(&q, child);
    bool found = query_row(&q);
    if (found) {
        w->unmet = get_int(&q);
        w->held = get_int(&q);
        w->if_failed = (pawl_if_failed)get_int(&q);
    }
    query_end(&q);
    return found;
}

static void wait_set(tx *t, pawl_id child, const waiting *w)
{
    query q = query_on(t->c, SQL_wait_set);
    put_int(&q, w->unmet);
    put_int(&q, w->held);
    put_int(&q, child);
    query_run(&q);
}

static void wait_drop(tx *t, pawl_id child)
{
    query q = query_on(t->c, SQL_wait_drop);
    put_int(&q, child);
    query_run(&q);
}

static void set_free(tx *t, pawl_id child)
{
    task_row row;
    wait_drop(t, child);
    if (!live_get(t->c, child, &row) || row.state != PAWL_WAITING) return;
    pawl_state to = task_move(row.state, TASK_PARENTS_DONE);
    query q = query_on(t->c, SQL_live_free);
    put_int(&q, t->now_us);
    put_int(&q, child);
    query_run(&q);
    tally_state(t, row.queue_id, row.state, -1);
    tally_state(t, row.queue_id, to, 1);
    if (audit_wanted(row.level, AUDIT_CHANGE)) audit_put(t, &row, to, NULL);
    t->freed = true;
}

static void end_orphan(tx *t, pawl_id child, pawl_state parent)
{
    task_row row;
    if (!live_get(t->c, child, &row) || row.state != PAWL_WAITING) return;
    task_end end = {.to = task_move(row.state, TASK_PARENT_POLICY),
                    .level = row.level,
                    .reason = parent == PAWL_FAILED ? "parent_failed" : "parent_cancelled"};
    CHECK(end.to == PAWL_CANCELLED);
    if (audit_wanted(row.level, AUDIT_CHANGE)) audit_put(t, &row, end.to, end.reason);
    live_drop(t, &row);
    end_put(t, &row, &end);
    t->freed = true;
}

static pawl_id retried_as(tx *t, pawl_id id)
{
    query q = query_on(t->c, SQL_retried_as);
    put_int(&q, id);
    pawl_id as = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return as;
}

/* retry: of a parent that was retried already, before this child was told of its end. */
static void tell_child(tx *t, const work *w, pawl_id child, pawl_id retry)
{
    waiting c;
    bool badly = w->value != PAWL_SUCCEEDED && !CANARY(FAILURE_IGNORED);
    if (!wait_get(t, child, &c)) return; /* it was cancelled, and waits no more */
    if (badly && c.if_failed == PAWL_IF_FAILED_CANCEL) {
        end_orphan(t, child, (pawl_state)w->value);
        return;
    }
    c.unmet--;
    if (badly && c.if_failed == PAWL_IF_FAILED_HOLD) {
        c.held++;
        edge_set(t, w->id, child, EDGE_HELD);
        if (retry) unsettled_put(t, w->id, UNTOLD_RETRIED, child - 1, retry);
    }
    if (c.unmet <= 0 && c.held == 0) set_free(t, child);
    else wait_set(t, child, &c);
}

static int tell_children(tx *t, const work *w, int most)
{
    pawl_id page[PAGE] = {0};
    int room = most < PAGE ? most : PAGE, count = edges(t, w, EDGE_UNTOLD, page, room);
    work_goes_on(t, w, cursor_of(page, count, room));
    pawl_id retry = count && w->value != PAWL_SUCCEEDED ? retried_as(t, w->id) : 0;
    for (int i = 0; i < count && !t->c->rc; i++) tell_child(t, w, page[i], retry);
    if (count == 0) return 1;
    query q = query_on(t->c, SQL_edges_told);
    put_int(&q, w->id);
    put_int(&q, w->after);
    put_int(&q, page[count - 1]);
    query_run(&q);
    return count;
}

/* ---- a parent that was retried ------------------------------------------------------------------------------------------- */

static void wait_for_retry(tx *t, const work *w, pawl_id child)
{
    waiting c;
    if (!wait_get(t, child, &c)) return;
    c.held--;
    query q = query_on(t->c, SQL_edge_move);
    put_int(&q, w->value);
    put_int(&q, w->id);
    put_int(&q, child);
    query_run(&q);
    if (!t->c->rc && sqlite3_changes(t->c->db) == 0) { /* it waits for that one anyway */
        edge_set(t, w->id, child, EDGE_TOLD);
        if (c.unmet <= 0 && c.held == 0) set_free(t, child);
        else wait_set(t, child, &c);
        return;
    }
    c.unmet++;
    wait_set(t, child, &c);
    pawl_state state = kin_state(t, w->value);
    if (pawl_state_terminal(state)) unsettled_put(t, w->value, UNTOLD_END, child - 1, state);
}

static int tell_held(tx *t, const work *w, int most)
{
    pawl_id page[PAGE] = {0};
    int room = most < PAGE ? most : PAGE, count = edges(t, w, EDGE_HELD, page, room);
    work_goes_on(t, w, cursor_of(page, count, room));
    for (int i = 0; i < count && !t->c->rc; i++) wait_for_retry(t, w, page[i]);
    return count ? count : 1;
}

/* ---- members of a batch that is cancelled -------------------------------------------------------------------------------- */

static void cancel_member(tx *t, pawl_id id)
{
    task_row row;
    if (!task_get(t->c, id, &row)) {
        batch_cancel(t, id);
        return;
    }
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = id, .audit = (pawl_audit)row.level};
    apply_cancel(t, &op);
    t->freed = true;
}

static int tell_members(tx *t, const work *w, int most)
{
    pawl_id page[PAGE] = {0};
    int count = 0, room = most < PAGE ? most : PAGE;
    query q = query_on(t->c, SQL_member_page);
    put_int(&q, w->id);
    put_int(&q, w->after);
    put_int(&q, room);
    while (count < room && query_row(&q)) page[count++] = get_int(&q);
    query_end(&q);
    work_goes_on(t, w, cursor_of(page, count, room));
    for (int i = 0; i < count && !t->c->rc; i++) cancel_member(t, page[i]);
    return count ? count : 1;
}

/* ---- the step ------------------------------------------------------------------------------------------------------------ */

static int tell(tx *t, const work *w, int most)
{
    switch (w->kind) {
    case UNTOLD_END: return tell_children(t, w, most);
    case UNTOLD_CANCEL: return tell_members(t, w, most);
    case UNTOLD_RETRIED: return tell_held(t, w, most);
    default:
        work_over(t, w);
        batch_drained(t, w->id);
        return 1;
    }
}

void settle(tx *t, int limit, int *settled)
{
    work w;
    int left = limit;
    while (left > 0 && !t->c->rc && work_first(t, &w)) left -= tell(t, &w, left);
    *settled = limit - left;
    if (!t->c->rc) t->unsettled = family_unsettled(t);
}

void apply_settle(tx *t, pawl_op *op)
{
    settle(t, op->u.settle.limit, &op->u.settle.settled);
    op->result = PAWL_OP_DONE;
}

/* What a commit leaves is told in it, as far as that goes. */
void settle_at_once(tx *t)
{
    int settled;
    if (t->unsettled) settle(t, PAWL_SETTLE_AT_ONCE, &settled);
}
