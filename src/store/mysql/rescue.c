/* rescue: a node that is gone loses its tasks, in pages.
 *
 * The victim's life row is held exclusively while its heartbeat is read again, so a node that has just renewed is not rescued, and no lease
 * can appear after it was declared dead. Its tasks are locked by id, as everybody does.
 */
#include "base/alloc.h"
#include "base/check.h"
#include "core/task.h"
#include "store/mysql/place.h"
#include "store/mysql/schedule.h"

#define STRIKES_MAX 3

enum { BLAME_NOBODY, BLAME_THE_MARKED_ONE, BLAME_ALONE_NEXT_TIME };

static task_why fate(const task_row *row)
{
    if (row->cancel_asked) return TASK_CANCEL;
    return row->strikes >= STRIKES_MAX ? TASK_POISON : TASK_AGAIN;
}

static void back_to_pending(work *w, task_row *row, int blame)
{
    row->class = row->class == CLASS_SOLO || (row->mark && blame == BLAME_ALONE_NEXT_TIME) ? CLASS_SOLO : CLASS_SUSPECT;
    if (row->run_at_us > w->now_us) row->run_at_us = w->now_us;
    my_live_put(w, row);
    w->backs = true;
}

/* true: it ended as rescued too often. */
static bool free_one(work *w, task_row *row, int blame)
{
    pawl_execution run = {.outcome = PAWL_ATTEMPT_RESCUED, .started_us = row->started_us, .progress = -1};
    row->rescues++;
    if (row->mark && blame == BLAME_THE_MARKED_ONE) row->strikes++;
    task_why why = fate(row);
    pawl_state to = task_move(row->state, why);
    CHECK(to != PAWL_STATE_NONE);
    if (!row->not_started) my_attempt_put(w, row, &run);
    my_audit_grant(w, row);
    if (audit_wanted(row->level, AUDIT_TROUBLE)) my_audit_put(w, row, to, "rescued", 2);
    my_roll(w, row->queue_id, row->type_id, ROLLUP_RESCUED);
    my_leased_drop(w, row);
    row->runs += !row->not_started;
    row->fence++;
    row->born_leased = false;
    row->state = to;
    if (why == TASK_AGAIN) {
        back_to_pending(w, row, blame);
        return false;
    }
    task_end end = {.to = to, .level = row->level, .keep_progress = true};
    if (why == TASK_POISON) end.reason = "rescued_too_often";
    my_end_put(w, row, &end);
    return why == TASK_POISON;
}

/* ---- the victim ---------------------------------------------------------------------------------------------------------- */

typedef struct victim {
    bool found, alive, refused;
    int blame;
    pawl_id *ids; /* a page of its tasks */
    int count;
} victim;

static bool ask_victim(conn *c, const pawl_rescue *call)
{
    my_script(c);
    my_add(c, SQL_begin);
    my_put_int(c, call->victim);
    my_add(c, SQL_node_lock);
    my_add(c, SQL_server_now);
    my_put_int(c, call->victim);
    my_add(c, SQL_pulse);
    my_put_int(c, call->victim);
    my_add(c, SQL_marks);
    my_put_int(c, call->victim);
    my_put_int(c, (int64_t)call->limit + 1);
    my_add(c, SQL_leased_ids);
    return my_send(c, CALL_READS);
}

/* One marked start: the rescue counts against it. Several: nobody knows which it was, so each will run alone. */
static int judge(const pawl_rescue *call, int64_t marks)
{
    if (marks > 1) return BLAME_ALONE_NEXT_TIME;
    return marks == 1 && call->counts ? BLAME_THE_MARKED_ONE : BLAME_NOBODY;
}

static void read_victim(work *w, pawl_rescue *call, victim *v)
{
    const answer *life = my_answer(w->c, SQL_node_lock), *pulse = my_answer(w->c, SQL_pulse),
                 *page = my_answer(w->c, SQL_leased_ids);
    instant at = my_instant(w->s, w->c);
    w->now_us = at.now_us;
    w->boot_us = at.boot_us;
    *v = (victim){.found = life->rows > 0};
    if (!v->found) return;
    v->alive = get_int(life, 0, 1) == 1;
    bool gone = get_int(life, 0, 2) != 0, lapsed = get_int(pulse, 0, 0) <= at.boot_us;
    bool silent = lapsed && get_int(pulse, 0, 2) > 0 && get_int(pulse, 0, 1) == call->renewal && call->victim != call->node;
    v->refused = v->alive && !gone && !silent;
    v->blame = v->alive ? judge(call, get_int(my_answer(w->c, SQL_marks), 0, 0)) : (int)get_int(life, 0, 3);
    call->more = page->rows > call->limit;
    v->ids = my_work_alloc(w, (size_t)(page->rows + 1) * sizeof *v->ids);
    for (int i = 0; v->ids && i < page->rows && i < call->limit; i++) v->ids[v->count++] = get_int(page, i, 0);
}

/* ---- the call ------------------------------------------------------------------------------------------------------------ */

static bool lock_page(work *w, const victim *v)
{
    my_script(w->c);
    my_places_ask_tasks(w, v->ids, v->count);
    my_schedules_ask_tasks(w, v->ids, v->count);
    my_add_ids(w->c, SQL_leased_lock, v->ids, v->count);
    my_places_verify(w, v->ids, v->count);
    my_add_rollups_look(w);
    my_add(w->c, SQL_version);
    if (!my_send(w->c, CALL_READS)) return false;
    my_take_in(w);
    my_rollups_take_in(w);
    my_schedules_take_in(w);
    if (!my_spots_take_in(w)) return false;
    return my_work_outdated(w) || my_places_load(w);
}

static bool free_page(work *w, pawl_rescue *call, const victim *v, int64_t until_us)
{
    conn *c = w->c;
    int count = 0;
    my_script(c);
    if (v->alive) my_add_kill(c, call->victim, w->now_us, v->blame);
    for (int i = 0; i < v->count; i++) {
        task_row *row = my_task(w, v->ids[i]);
        if (!row || row->state != PAWL_LEASED || row->node != call->victim) continue; /* it ended meanwhile */
        call->tasks[count++] = (pawl_lease){row->id, row->fence};
        if (free_one(w, row, v->blame)) call->failed++;
        else call->freed++;
    }
    if (!my_places_settle(w)) return false;
    my_work_flush(w);
    if (w->no_memory) {
        my_conn_no_memory(c);
        return false;
    }
    if (count > 0) {
        my_put_int(c, call->node);
        my_put_int(c, -1);
        my_add(c, SQL_backs);
    }
    my_add_guard(c, until_us);
    my_add(c, SQL_commit);
    return my_send(c, CALL_WRITES);
}

/* *again: other limits are in force than were known. */
static bool rescue(work *w, pawl_rescue *call, bool *again)
{
    victim v;
    *again = false;
    if (!my_limits_copy(w->s, w->arena, &w->limits)) {
        my_conn_no_memory(w->c);
        return false;
    }
    int64_t until_us = my_until(w->s);
    call->refused = call->more = false;
    call->freed = call->failed = 0;
    if (!ask_victim(w->c, call)) return false;
    read_victim(w, call, &v);
    call->refused = v.refused;
    if (v.refused || !v.found) {
        call->more = false;
        my_rollback(w->c);
        return true;
    }
    if (!lock_page(w, &v)) return false;
    if (my_work_outdated(w)) {
        *again = true;
        my_rollback(w->c);
        return my_limits_fetch(w->s, w->c);
    }
    if (!free_page(w, call, &v, until_us)) return false;
    if (w->backs) my_ready_chill(&w->s->ready);
    return true;
}

pawl_status my_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err)
{
    my_store *s = store_of(store);
    pawl_arena *arena = arena_new(s->allocator, 0);
    conn *c = my_store_take(s, WRITER);
    bool good = false;
    int tries = 0;
    if (!arena) my_conn_no_memory(c);
    while (arena) {
        work w;
        my_work_begin(&w, s, c, arena);
        w.node = call->node;
        w.lane = -1;
        bool again;
        good = rescue(&w, call, &again);
        my_work_done(&w);
        if (good && again) continue;
        if (good || !my_call_again(c, &tries)) break;
    }
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, "rescue tasks in", err);
    my_store_give(s, c);
    arena_free(arena);
    return status;
}
