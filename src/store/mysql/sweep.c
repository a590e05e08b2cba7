/* sweep: one step of retention. Finished tasks are found by the time of their end, through an index, and removed with all that hangs on them,
 * some hundred in one transaction. One handle sweeps at a time (a session lock); the others come back later.
 */
#include "base/alloc.h"
#include "store/mysql/family.h"
#include "store/mysql/inner.h"
#include <stdio.h>

#define FORGET_AT_ONCE 500
#define SWEEP_LIMIT 1000
#define DAY_US (24 * PAWL_HOUR)
#define ROLLUP_MINUTES (8 * 1440)
#define WEEK_US (7 * DAY_US)

typedef struct sweeping {
    my_store *s;
    conn *c;
    pawl_sweep *call;
    instant at;
    int left;
    int64_t next_us; /* the soonest; -1: none yet */
    bool halted;     /* a move began */
    bool families;   /* there are families of tasks */
} sweeping;

static void soonest(sweeping *w, int64_t us)
{
    if (us < 1) us = 1;
    if (w->next_us < 0 || us < w->next_us) w->next_us = us;
}

/* One number of one row; false: there is none, or failed (*good). */
static bool number_of(sweeping *w, sql_name which, int64_t *out, bool *good)
{
    *good = my_send(w->c, CALL_READS);
    const answer *a = my_answer(w->c, which);
    if (!*good || a->rows == 0 || get_null(a, 0, 0)) return false;
    *out = get_int(a, 0, 0);
    return true;
}

/* ---- tasks --------------------------------------------------------------------------------------------------------------- */

/* The holder's row, and that of a holder before. The answer of the keys is gone with the next script, so they are copied. */
static bool copy_keys(sweeping *w, pawl_arena *arena, key_row **keys, int *count)
{
    int rows = 0;
    EACH_ANSWER(a, w->c, SQL_forget_keys_look) rows += a->rows;
    *keys = pawl_arena_alloc(arena, (size_t)(rows + 1) * sizeof **keys);
    *count = 0;
    EACH_ANSWER(a, w->c, SQL_forget_keys_look)
    for (int i = 0; *keys && i < a->rows; i++) {
        pawl_bytes key = get_bytes(a, i, 0);
        const char *copy = pawl_arena_bytes(arena, key.data, key.len);
        if (!copy) return false;
        (*keys)[(*count)++] = (key_row){{copy, key.len}, (int32_t)get_int(a, i, 1), get_int(a, i, 2)};
    }
    return *keys != NULL;
}

static void add_forget_keys(sweeping *w, const key_row *keys, int count)
{
    for (int i = 0; i < 2 * count; i++) {
        const key_row *k = &keys[i / 2];
        my_put_bytes(w->c, k->key);
        my_put_int(w->c, k->tenant_id);
        my_put_int(w->c, i % 2 ? k->holder : 0);
        my_put_int(w->c, k->holder);
        my_add(w->c, SQL_forget_keys);
    }
}

static void add_forget(sweeping *w, const pawl_id *ids, int count, bool failed)
{
    static const sql_name all[] = {SQL_forget_attempts, SQL_forget_runlogs, SQL_forget_audit, SQL_forget_bodies};
    my_add_ids(w->c, failed ? SQL_forget_failed : SQL_forget_done, ids, count);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) my_add_ids(w->c, all[i], ids, count);
}

/* Parents whose last child may go with these tasks. */
static bool copy_parents(sweeping *w, pawl_arena *arena, pawl_id **ids, int *count)
{
    int rows = 0;
    EACH_ANSWER(a, w->c, SQL_parents_of) rows += a->rows;
    *ids = pawl_arena_alloc(arena, (size_t)(rows + 1) * sizeof **ids);
    EACH_ANSWER(a, w->c, SQL_parents_of)
    for (int i = 0; *ids && i < a->rows; i++) (*ids)[(*count)++] = get_int(a, i, 0);
    return *ids != NULL;
}

/* What the children of these tasks may ask for stays; before the tasks go. */
static void add_forget_families(sweeping *w, const pawl_id *ids, int count, const pawl_id *parents, int parents_count)
{
    my_add_ids(w->c, SQL_kept_put, ids, count);
    my_add_ids(w->c, SQL_edges_drop, ids, count);
    my_add_ids(w->c, SQL_members_drop, ids, count);
    my_add_ids(w->c, SQL_kept_drop, parents, parents_count);
}

/* Dead letters that nobody resolved are counted; those that somebody resolved meanwhile stay. */
static int keep_open(sweeping *w, pawl_id *ids, bool resolved, buf *counts)
{
    int count = 0;
    EACH_ANSWER(a, w->c, SQL_failed_lock)
    for (int i = 0; i < a->rows; i++) {
        if ((get_int(a, i, 5) != 0) != resolved) continue;
        ids[count++] = get_int(a, i, 0);
        if (!resolved) buf_fmt(counts, "%s(0,0,%lld,0,0,0,-1)", counts->len ? "," : "", (long long)get_int(a, i, 7));
    }
    return count;
}

typedef enum kind { KIND_DONE, KIND_RESOLVED, KIND_OPEN } kind;

static bool forget_in(sweeping *w, pawl_id *ids, int count, kind which, pawl_arena *arena, buf *counts)
{
    conn *c = w->c;
    key_row *keys;
    int keys_count;
    count = my_sort_ids(ids, count);
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_gate_shared);
    my_add_ids(c, SQL_forget_keys_look, ids, count);
    if (w->families) my_add_ids(c, SQL_parents_of, ids, count);
    if (which != KIND_DONE) my_add_ids(c, SQL_failed_lock, ids, count);
    if (!my_send(c, CALL_READS)) return false;
    const answer *gate = my_answer(c, SQL_gate_shared);
    if (gate->rows == 0 || get_int(gate, 0, 0) != PAWL_GATE_OPEN) { /* this moment */
        w->halted = true;
        my_rollback(c);
        return true;
    }
    bool whole = copy_keys(w, arena, &keys, &keys_count);
    if (which != KIND_DONE) count = keep_open(w, ids, which == KIND_RESOLVED, counts);
    pawl_id *parents = NULL;
    int parents_count = 0;
    if (w->families) whole = whole && copy_parents(w, arena, &parents, &parents_count);
    my_script(c);
    if (whole) add_forget_keys(w, keys, keys_count);
    if (w->families && whole) add_forget_families(w, ids, count, parents, parents_count);
    add_forget(w, ids, count, which != KIND_DONE);
    if (counts->len) {
        my_put_raw(c, counts->data, counts->len);
        my_add(c, SQL_counts_put);
    }
    my_add(c, SQL_commit);
    whole = whole && !counts->failed;
    if (!whole) my_conn_no_memory(c);
    return whole && my_send(c, CALL_WRITES);
}

static bool forget(sweeping *w, pawl_id *ids, int count, kind which)
{
    buf counts;
    bool good = false;
    int tries = 0;
    pawl_arena *arena = arena_new(w->s->allocator, 0);
    if (!arena) my_conn_no_memory(w->c);
    buf_init(&counts, w->s->allocator, 1 << 20);
    while (arena) {
        buf_clear(&counts);
        good = forget_in(w, ids, count, which, arena, &counts);
        if (good || !my_call_again(w->c, &tries)) break;
    }
    buf_done(&counts);
    arena_free(arena);
    return good;
}

/* Some of one kind; *count: how many were found. */
static bool forget_some(sweeping *w, kind which, pawl_state state, int64_t cut_us, int *count)
{
    static const sql_name finders[] = {SQL_done_old, SQL_failed_resolved, SQL_failed_open};
    pawl_id ids[FORGET_AT_ONCE];
    int most = w->left < FORGET_AT_ONCE ? w->left : FORGET_AT_ONCE;
    my_script(w->c);
    if (which == KIND_DONE) my_put_int(w->c, state);
    my_put_int(w->c, cut_us);
    my_put_int(w->c, most);
    my_add(w->c, finders[which]);
    if (!my_send(w->c, CALL_READS)) return false;
    const answer *a = my_answer(w->c, finders[which]);
    for (*count = 0; *count < a->rows && *count < most; ++*count) ids[*count] = get_int(a, *count, 0);
    if (*count > 0 && !forget(w, ids, *count, which)) return false;
    if (w->halted) *count = 0;
    w->left -= *count;
    return true;
}

static bool sweep_tasks(sweeping *w, kind which, pawl_state state, int64_t keep_us)
{
    static const sql_name firsts[] = {SQL_done_first, SQL_resolved_first, SQL_open_first};
    int64_t first_us, cut_us = w->at.now_us - keep_us;
    int count = 1;
    bool good;
    if (keep_us < 0) return true;
    while (w->left > 0 && count > 0)
        if (!forget_some(w, which, state, cut_us, &count)) return false;
    my_script(w->c);
    if (which == KIND_DONE) my_put_int(w->c, state);
    my_add(w->c, firsts[which]);
    if (!number_of(w, firsts[which], &first_us, &good)) return good;
    if (first_us <= cut_us) w->call->more = true;
    else soonest(w, first_us + keep_us - w->at.now_us);
    return true;
}

/* ---- old rows ------------------------------------------------------------------------------------------------------------ */

static bool sweep_rows(sweeping *w, sql_name drop, sql_name first, int64_t keep_us)
{
    int64_t first_us, cut_us = w->at.now_us - keep_us;
    bool good;
    if (keep_us < 0) return true;
    if (w->left > 0) {
        my_script(w->c);
        my_put_int(w->c, cut_us);
        my_put_int(w->c, w->left);
        my_add(w->c, drop);
        if (!my_send(w->c, CALL_WRITES)) return false;
        w->left -= (int)w->c->affected;
    }
    my_script(w->c);
    my_add(w->c, first);
    if (!number_of(w, first, &first_us, &good)) return good;
    if (first_us <= cut_us) w->call->more = true;
    else soonest(w, first_us + keep_us - w->at.now_us);
    return true;
}

/* Changes that have no row of their own are hidden. */
static bool sweep_trails(sweeping *w)
{
    int64_t keep_us = w->call->keep_audit_us, cut_us = w->at.now_us - keep_us, hour;
    bool good;
    if (keep_us < 0) return true;
    my_script(w->c);
    my_put_int(w->c, cut_us);
    my_put_int(w->c, cut_us / PAWL_HOUR);
    my_add(w->c, SQL_audit_cut_put);
    if (!my_send(w->c, CALL_WRITES)) return false;
    my_script(w->c);
    my_put_int(w->c, cut_us / PAWL_HOUR);
    my_add(w->c, SQL_born_next);
    if (!number_of(w, SQL_born_next, &hour, &good)) return good;
    soonest(w, hour * PAWL_HOUR + keep_us - w->at.now_us);
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

#define BURIED_AT_ONCE 64

/* Nodes whose process ended while they held nothing. */
static bool bury_idle(sweeping *w)
{
    int64_t nodes[BURIED_AT_ONCE];
    int count = 0;
    char prefix[128];
    my_lock_name(w->s, prefix);
    my_script(w->c);
    my_put_text(w->c, prefix);
    my_add(w->c, SQL_nodes_idle);
    if (!my_send(w->c, CALL_READS)) return false;
    const answer *a = my_answer(w->c, SQL_nodes_idle);
    for (int i = 0; i < a->rows && count < BURIED_AT_ONCE; i++) {
        bool gone = get_int(a, i, 1) != 0, locked = get_int(a, i, 4) != 0;
        bool silent = !locked && get_int(a, i, 2) < w->at.now_us - DAY_US && get_int(a, i, 3) < w->at.boot_us - DAY_US;
        if (gone || silent) nodes[count++] = get_int(a, i, 0);
    }
    bool good = true;
    for (int i = 0; i < count && good; i++) good = my_node_bury(w->s, w->c, nodes[i]);
    return good;
}

static int ids_of(const answer *a, pawl_id *ids)
{
    int count = 0;
    for (; count < a->rows && count < FORGET_AT_ONCE; count++) ids[count] = get_int(a, count, 0);
    return my_sort_ids(ids, count);
}

/* Receipts of those who came back after they were swept, and names that no history needs any more. They are looked for without locks:
 * everybody else's rows are in the same tables. */
static bool forget_strays(sweeping *w)
{
    pawl_id strays[FORGET_AT_ONCE], unnamed[FORGET_AT_ONCE];
    my_script(w->c);
    my_put_int(w->c, w->at.now_us - DAY_US);
    my_add(w->c, SQL_lanes_stray);
    my_put_int(w->c, w->at.now_us);
    my_add(w->c, SQL_nodes_unnamed);
    if (!my_send(w->c, CALL_READS)) return false;
    int strays_count = ids_of(my_answer(w->c, SQL_lanes_stray), strays);
    int unnamed_count = ids_of(my_answer(w->c, SQL_nodes_unnamed), unnamed);
    if (strays_count + unnamed_count == 0) return true;
    my_script(w->c);
    my_add_ids(w->c, SQL_nodes_drop, unnamed, unnamed_count);
    my_add_ids(w->c, SQL_nodes_forget_lanes, strays, strays_count);
    return my_send(w->c, CALL_WRITES);
}

/* The dead go a day later. */
static bool forget_dead(sweeping *w, int32_t *dead, int *count)
{
    pawl_id ids[FORGET_AT_ONCE];
    *count = 0;
    my_script(w->c);
    my_put_int(w->c, w->at.now_us - DAY_US);
    my_put_int(w->c, w->left < 1 ? 1 : w->left < FORGET_AT_ONCE ? w->left : FORGET_AT_ONCE);
    my_add(w->c, SQL_nodes_dead);
    if (!my_send(w->c, CALL_READS)) return false;
    *count = ids_of(my_answer(w->c, SQL_nodes_dead), ids);
    for (int i = 0; i < *count; i++) dead[i] = (int32_t)ids[i];
    if (*count == 0) return true;
    my_script(w->c);
    my_add(w->c, SQL_begin);
    my_add_ids(w->c, SQL_nodes_forget, ids, *count);
    my_add_ids(w->c, SQL_nodes_forget_lanes, ids, *count);
    my_add(w->c, SQL_commit);
    return my_send(w->c, CALL_WRITES);
}

static bool sweep_nodes(sweeping *w)
{
    int32_t dead[FORGET_AT_ONCE];
    int count;
    int64_t died_us;
    bool good;
    if (!bury_idle(w) || !forget_dead(w, dead, &count)) return false;
    w->left -= count;
    if (!my_merge(w->s, w->c, w->at.now_us, dead, count) || !forget_strays(w)) return false;
    my_script(w->c);
    my_add(w->c, SQL_nodes_next);
    if (number_of(w, SQL_nodes_next, &died_us, &good)) soonest(w, died_us + DAY_US - w->at.now_us);
    return good;
}

static bool sweep_sums(sweeping *w)
{
    const pawl_sweep *call = w->call;
    my_script(w->c);
    my_put_int(w->c, w->at.now_us / PAWL_MINUTE - ROLLUP_MINUTES);
    my_add(w->c, SQL_rollup_drop);
    if (!call->more) {
        my_put_int(w->c, w->at.now_us / PAWL_HOUR - 1);
        my_add(w->c, SQL_born_drop);
    }
    my_put_int(w->c, w->at.now_us + WEEK_US - (call->keep_failed_us > 0 ? call->keep_failed_us : 0));
    my_add(w->c, SQL_failed_expiring);
    if (!my_send(w->c, CALL_WRITES)) return false;
    w->call->expiring = call->keep_failed_us >= 0 ? get_int(my_answer(w->c, SQL_failed_expiring), 0, 0) : 0;
    return true;
}

/* ---- the step ------------------------------------------------------------------------------------------------------------ */

static bool sweep(sweeping *w)
{
    pawl_sweep *call = w->call;
    my_script(w->c);
    my_add(w->c, SQL_server_now);
    my_add(w->c, SQL_gate_mode);
    my_add(w->c, SQL_features);
    if (!my_send(w->c, CALL_READS)) return false;
    w->families = get_int(my_answer(w->c, SQL_features), 0, 1) > 0;
    w->at = my_instant(w->s, w->c);
    if (my_gate_mode(w->c) != PAWL_GATE_OPEN) { /* what a move has counted must stay */
        soonest(w, PAWL_MINUTE);
        return true;
    }
    bool good = sweep_tasks(w, KIND_DONE, PAWL_SUCCEEDED, call->keep_succeeded_us) &&
                sweep_tasks(w, KIND_DONE, PAWL_CANCELLED, call->keep_cancelled_us) &&
                sweep_tasks(w, KIND_RESOLVED, PAWL_FAILED, call->keep_resolved_us) &&
                sweep_tasks(w, KIND_OPEN, PAWL_FAILED, call->keep_failed_us) &&
                sweep_rows(w, SQL_audit_old, SQL_audit_first, call->keep_audit_us) &&
                sweep_rows(w, SQL_oplog_old, SQL_oplog_first, call->keep_audit_us) && sweep_trails(w) &&
                sweep_rows(w, SQL_runlog_old, SQL_runlog_first, call->keep_logs_us) && sweep_nodes(w) && sweep_sums(w) &&
                my_sweep_budgets(w->s, w->c, w->at.now_us, &w->left) && my_sweep_spots(w->s, w->c, w->at.now_us) &&
                (!w->families || my_sweep_batches(w->c, call, w->at.now_us, &w->left));
    if (w->families && w->left <= 0) call->more = true;
    return good;
}

/* *mine: the lock was free. It goes with the connection, if it is not given back. */
static bool take_turn(sweeping *w, const char *name, bool *mine)
{
    my_script(w->c);
    my_put_text(w->c, name);
    my_put_int(w->c, 0);
    my_add(w->c, SQL_lock_try);
    if (!my_send(w->c, CALL_READS)) return false;
    *mine = get_int(my_answer(w->c, SQL_lock_try), 0, 0) == 1;
    return true;
}

static void end_turn(sweeping *w, const char *name)
{
    my_rollback(w->c);
    my_script(w->c);
    my_put_text(w->c, name);
    my_add(w->c, SQL_lock_free);
    if (w->c->my && !my_send(w->c, CALL_READS)) my_conn_drop(w->c);
}

pawl_status my_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err)
{
    my_store *s = store_of(store);
    sweeping w = {.s = s, .c = my_store_take(s, WRITER), .call = call, .next_us = -1};
    char prefix[128], name[160];
    bool mine = false;
    int limit = call->limit > 0 ? call->limit : SWEEP_LIMIT, tries = 0;
    my_lock_name(s, prefix);
    snprintf(name, sizeof name, "%ssweep", prefix);
    call->removed = call->expiring = 0;
    call->more = false;
    call->next_us = PAWL_MINUTE;
    w.left = limit;
    bool good = take_turn(&w, name, &mine);
    if (good && mine) {
        while (!(good = sweep(&w)) && my_call_again(w.c, &tries)) {}
        call->removed = limit - w.left;
        call->next_us = call->more ? 0 : w.next_us;
    }
    pawl_status status = good ? PAWL_OK : my_conn_fail(w.c, "remove old tasks from", err);
    if (mine) end_turn(&w, name);
    my_store_give(s, w.c);
    return status;
}
