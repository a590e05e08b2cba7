/* Rescue: the leases of a dead node go back, in pages.
 *
 * The first page marks the node dead in the same commit, so no lease can be granted to it afterwards, and decides who is to
 * blame for its death: that depends on all of its marked starts, so the decision is kept in the life row for the pages that
 * follow.
 */
#include "base/check.h"
#include "core/task.h"
#include "store/sqlite/inner.h"

#define STRIKES_MAX 3

enum { BLAME_NOBODY, BLAME_THE_MARKED_ONE, BLAME_ALONE_NEXT_TIME };

typedef struct victim {
    bool found, alive, lapsed, proven_dead;
    int blame;
    int64_t renewal, leases;
} victim;

static void victim_get(tx *t, int64_t node, victim *v)
{
    *v = (victim){0};
    query q = query_on(t->c, SQL_node_victim);
    put_int(&q, node);
    v->found = query_row(&q);
    if (v->found) {
        v->alive = get_int(&q) == 1;
        v->proven_dead = node_proven_dead(t->s, node, get_int(&q));
        v->blame = (int)get_int(&q);
        const char *boot_id = get_text(&q);
        v->lapsed = node_lapsed(t->s, boot_id, get_int(&q), t->boot_us);
        v->renewal = get_int(&q);
        v->leases = get_int(&q);
    }
    query_end(&q);
}

/* One marked start: the rescue counts against it. Several: nobody knows which it was, so each will run alone. */
static int judge(tx *t, const pawl_rescue *call)
{
    query q = query_on(t->c, SQL_leased_marks);
    put_int(&q, call->victim);
    int64_t marks = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    if (marks > 1) return BLAME_ALONE_NEXT_TIME;
    return marks == 1 && call->counts ? BLAME_THE_MARKED_ONE : BLAME_NOBODY;
}

static task_why fate(const task_row *row)
{
    if (row->cancel_asked) return TASK_CANCEL;
    return row->strikes >= STRIKES_MAX ? TASK_POISON : TASK_AGAIN;
}

static void back_to_pending(tx *t, task_row *row, int blame)
{
    row->priority = priority_of(t, row->id);
    row->class = row->class == CLASS_SOLO || (row->mark && blame == BLAME_ALONE_NEXT_TIME) ? CLASS_SOLO : CLASS_SUSPECT;
    if (row->run_at_us > t->now_us) row->run_at_us = t->now_us;
    live_put(t, row);
}

static void end_for_good(tx *t, const task_row *row, task_why why, pawl_state to)
{
    task_end end = {.to = to, .level = row->level, .reason = why == TASK_POISON ? "rescued_too_often" : NULL};
    end_put(t, row, &end);
    end_keep_progress(t, row, to);
}

/* true: it ended as rescued too often. */
static bool free_one(tx *t, task_row *row, int blame)
{
    pawl_execution run = {.outcome = PAWL_ATTEMPT_RESCUED, .started_us = row->started_us, .progress = -1};
    row->rescues++;
    if ((row->mark && blame == BLAME_THE_MARKED_ONE) || CANARY(NEIGHBOURS_BLAMED)) row->strikes++;
    task_why why = fate(row);
    pawl_state from = row->state, to = task_move(from, why);
    CHECK(to != PAWL_STATE_NONE);
    if (!row->not_started) attempt_put(t, row, &run);
    audit_put_grant(t, row);
    if (audit_wanted(row->level, AUDIT_TROUBLE)) audit_put(t, row, to, "rescued");
    tally_count(t, row->queue_id, row->type_id, ROLLUP_RESCUED);
    task_row after = *row;
    after.runs += !row->not_started;
    after.fence++;
    after.born_leased = false;
    after.state = to;
    if (why != TASK_AGAIN) end_for_good(t, &after, why, to);
    leased_drop(t, row);
    if (why == TASK_AGAIN) back_to_pending(t, &after, blame);
    return why == TASK_POISON;
}

static int page_of(tx *t, pawl_rescue *call)
{
    int count = 0;
    query q = query_on(t->c, SQL_leased_page);
    put_int(&q, call->victim);
    put_int(&q, call->limit);
    while (count < call->limit && query_row(&q)) call->tasks[count++].id = get_int(&q);
    query_end(&q);
    return count;
}

static void free_page(tx *t, pawl_rescue *call, const victim *v, int blame)
{
    int count = page_of(t, call);
    for (int i = 0; i < count && !t->c->rc; i++) {
        task_row row;
        if (!leased_get(t->c, call->tasks[i].id, &row)) continue;
        call->tasks[i].fence = row.fence;
        if (free_one(t, &row, blame)) call->failed++;
        else call->freed++;
    }
    call->more = v->leases > count;
    if (!call->more) heartbeat_drop(t, call->victim);
}

pawl_status sqlite_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err)
{
    static const char what[] = "rescue tasks in";
    tx t;
    pawl_status status = tx_begin((sqlite_store *)store, &t, what, err);
    if (status) return status;
    victim v;
    call->refused = call->more = false;
    call->freed = call->failed = 0;
    victim_get(&t, call->victim, &v);
    bool silent = v.lapsed && v.leases > 0 && v.renewal == call->renewal && call->victim != call->node;
    if (v.alive && !v.proven_dead && !silent && !CANARY(LIVING_RESCUED)) {
        call->refused = true;
        return tx_abort(&t, what, err);
    }
    if (v.alive) {
        v.blame = judge(&t, call);
        node_kill(&t, call->victim, v.blame);
    }
    if (v.found) free_page(&t, call, &v, v.blame);
    return tx_commit(&t, what, call->freed + call->failed > 0, err);
}
