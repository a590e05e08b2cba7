/* Retention: one small step at a time.
 *
 * Succeeded and cancelled tasks are found by slots: pawl_done_slot says for every ten minutes which ids finished then, so there
 * is no index on the time of finishing that every finish would pay for. Dead letters, of which there are few, have indexes.
 *
 * Logs and the operator log are removed in the order in which they were written. Audit rows lie by task; a task's rows are not
 * older than its id, so only tasks older than the limit are looked at. Changes without a row of their own (see task.c) are
 * hidden by raising audit_cut_us.
 */
#include "base/alloc.h"
#include "base/idgen.h"
#include "store/sqlite/family.h"
#include "store/sqlite/place.h"
#include "store/sqlite/quota.h"
#include <string.h>

#define LOOK_MAX 20                  /* rows looked at for each one that may be removed */
#define ID_SLACK_MS (60 * 60 * 1000) /* an id may be this much younger than its task */
#define RECEIPT_US PAWL_DAY
#define ROLLUP_US (8 * PAWL_DAY)

static const char what[] = "remove old tasks from";

typedef struct old_row {
    int64_t id, at_us;
    bool plain; /* never leased, or ended by its first lease, and no log: nothing hangs on it but its body */
} old_row;

typedef struct sweeping {
    tx *t;
    pawl_sweep *call;
    int left;      /* rows this step may still remove */
    old_row *rows; /* room for `left` at the start, and one more */
} sweeping;

typedef struct slot_row {
    int64_t slot, born, first_us;
    pawl_id min_id, max_id;
} slot_row;

/* Whether a row of that age goes now. If not, it says when. */
static bool falls_due(sweeping *s, int64_t since_us, int64_t keep_us)
{
    int64_t age_us = s->t->now_us - since_us;
    if (age_us >= keep_us && s->left > 0) return true;
    if (age_us >= keep_us) s->call->more = true;
    else if (s->call->next_us < 0 || keep_us - age_us < s->call->next_us) s->call->next_us = keep_us - age_us;
    return false;
}

static void removed(sweeping *s, int64_t count)
{
    s->left -= (int)count;
    s->call->removed += count;
}

static void run_with(tx *t, sql_name which, int64_t id)
{
    query q = query_on(t->c, which);
    put_int(&q, id);
    query_run(&q);
}

/* ---- a task and all that hangs on it ------------------------------------------------------------------------------------- */

/* Takes the task out of pawl_key; true: its dispatch is not among the audit rows. */
static bool forget_key(tx *t, pawl_id id)
{
    query q = query_on(t->c, SQL_body_key), drop = {0};
    put_int(&q, id);
    bool derived = true;
    if (query_row(&q)) {
        const char *key = get_text(&q);
        int64_t tenant_id = get_int(&q);
        derived = get_int(&q) != 0;
        if (key) {
            drop = query_on(t->c, SQL_forget_key);
            put_text(&drop, key);
            put_int(&drop, tenant_id);
            put_int(&drop, id);
            query_run(&drop);
        }
    }
    query_end(&q);
    return derived;
}

static void forget(tx *t, pawl_id id, bool plain, sql_name end)
{
    if (!forget_key(t, id)) plain = false;
    family_forget(t, id);
    if (!plain) {
        run_with(t, SQL_forget_attempt_logs, id);
        run_with(t, SQL_forget_attempts, id);
        run_with(t, SQL_forget_audit, id);
    }
    run_with(t, end, id);
    run_with(t, SQL_forget_body, id);
}

/* After the first `count` rows were forgotten; neighbours mostly lie in one block. */
static void forget_seen(sweeping *s, int count)
{
    int64_t last = -1;
    for (int i = 0; i < count; i++) {
        int64_t block = s->rows[i].id >> SEEN_BLOCK_SHIFT;
        if (block != last) seen_forget(s->t->c, s->rows[i].id);
        last = block;
    }
}

/* ---- succeeded and cancelled --------------------------------------------------------------------------------------------- */

static old_row read_old(query *q)
{
    old_row row = {.id = get_int(q)};
    row.at_us = get_int(q);
    int64_t fence = get_int(q), node = get_int(q), flags = get_int(q);
    bool one_lease_at_most = fence == 0 || (fence == 1 && node);
    row.plain = one_lease_at_most && flags & END_DERIVED && get_is_null(q);
    return row;
}

/* Collects what is due of a slot. *kept: the first row that is not, with the earliest instant of those; *all: the slot was seen
 * to its end. */
static int slot_due(sweeping *s, pawl_state state, const slot_row *slot, int64_t keep_us, old_row *kept, bool *all)
{
    int count = 0, looked = 0, most = s->left * LOOK_MAX + 100;
    *kept = (old_row){.at_us = INT64_MAX};
    *all = false;
    query q = query_on(s->t->c, SQL_slot_rows);
    put_int(&q, slot->min_id);
    put_int(&q, slot->max_id);
    put_int(&q, state);
    while (query_row(&q)) {
        old_row row = read_old(&q);
        bool stop = looked++ >= most || count == s->left;
        if (!stop && row.at_us / TALLY_SLOT_US != slot->slot) continue; /* another slot's */
        if (!stop && s->t->now_us - row.at_us >= keep_us) {
            s->rows[count++] = row;
            continue;
        }
        if (!kept->id) kept->id = row.id;
        if (!stop && row.at_us < kept->at_us) kept->at_us = row.at_us;
        if (!stop) continue;
        query_end(&q);
        return count;
    }
    *all = s->t->c->rc == SQLITE_OK;
    return count;
}

static void put_slot(query *q, pawl_state state, const slot_row *slot)
{
    put_int(q, state);
    put_int(q, slot->slot);
    put_int(q, slot->born);
}

/* What is left of it. */
static void slot_after(sweeping *s, pawl_state state, const slot_row *slot, const old_row *kept, bool all)
{
    bool empty = all && !kept->id;
    query q = query_on(s->t->c, empty ? SQL_slot_drop : SQL_slot_keep);
    if (!empty) {
        put_int(&q, all ? kept->at_us : slot->first_us);
        put_int(&q, kept->id);
    }
    put_slot(&q, state, slot);
    query_run(&q);
}

static void sweep_slot(sweeping *s, pawl_state state, const slot_row *slot, int64_t keep_us)
{
    old_row kept;
    bool all;
    int count = slot_due(s, state, slot, keep_us, &kept, &all);
    for (int i = 0; i < count; i++) forget(s->t, s->rows[i].id, s->rows[i].plain, SQL_forget_done);
    forget_seen(s, count);
    removed(s, count);
    slot_after(s, state, slot, &kept, all);
    if (!all) s->call->more = true;
    else if (kept.id) falls_due(s, kept.at_us, keep_us);
}

/* The first slot behind (slot, born) that may hold something due; those that do not say when. */
static bool next_slot(sweeping *s, pawl_state state, int64_t keep_us, slot_row *slot)
{
    slot_row after = *slot;
    bool found = false;
    query q = query_on(s->t->c, SQL_slots_list);
    put_int(&q, state);
    while (!found && query_row(&q)) {
        slot->slot = get_int(&q);
        slot->born = get_int(&q);
        slot->first_us = get_int(&q);
        slot->min_id = get_int(&q);
        slot->max_id = get_int(&q);
        if (slot->slot < after.slot || (slot->slot == after.slot && slot->born <= after.born)) continue;
        found = falls_due(s, slot->first_us, keep_us);
        if (!found && (s->left == 0 || slot->slot * TALLY_SLOT_US + keep_us > s->t->now_us)) break; /* later slots are younger */
    }
    query_end(&q);
    return found;
}

static void sweep_done(sweeping *s, pawl_state state, int64_t keep_us)
{
    slot_row slot = {.slot = INT64_MIN};
    while (keep_us >= 0 && !s->t->c->rc && next_slot(s, state, keep_us, &slot)) {
        sweep_slot(s, state, &slot, keep_us);
        if (s->call->more) return;
    }
}

/* ---- dead letters -------------------------------------------------------------------------------------------------------- */

static int collect(sweeping *s, sql_name which, int64_t keep_us)
{
    int count = 0, room = s->left;
    query q = query_on(s->t->c, which);
    put_int(&q, room + 1);
    while (query_row(&q)) {
        old_row row = {.id = get_int(&q)};
        row.at_us = get_int(&q);
        s->left = room - count;
        if (!falls_due(s, row.at_us, keep_us)) break;
        s->rows[count++] = row;
    }
    query_end(&q);
    s->left = room;
    return count;
}

static void sweep_failed(sweeping *s, sql_name which, int64_t keep_us)
{
    if (keep_us < 0) return;
    int count = collect(s, which, keep_us);
    for (int i = 0; i < count; i++) {
        query q = query_on(s->t->c, SQL_failed_queue);
        put_int(&q, s->rows[i].id);
        if (query_row(&q)) tally_state(s->t, get_int(&q), PAWL_FAILED, -1);
        query_end(&q);
        forget(s->t, s->rows[i].id, false, SQL_forget_failed);
    }
    forget_seen(s, count);
    removed(s, count);
}

static int64_t expiring(sweeping *s)
{
    if (s->call->keep_failed_us < 0) return 0;
    query q = query_on(s->t->c, SQL_failed_expiring);
    put_int(&q, s->t->now_us + 7 * PAWL_DAY - s->call->keep_failed_us);
    int64_t count = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return count;
}

/* ---- trails -------------------------------------------------------------------------------------------------------------- */

static void sweep_in_order(sweeping *s, sql_name oldest, sql_name drop, int64_t keep_us)
{
    if (keep_us < 0) return;
    int count = collect(s, oldest, keep_us);
    for (int i = 0; i < count; i++) run_with(s->t, drop, s->rows[i].id);
    removed(s, count);
}

static pawl_id id_at(int64_t us)
{
    int64_t ms = us / 1000 - PAWL_EPOCH_MS + ID_SLACK_MS;
    return ms > 0 ? id_make(ms, 0, 0) : 0;
}

typedef struct audit_key {
    pawl_id task_id;
    int64_t number;
} audit_key;

/* One stretch of the walk through pawl_audit; rows hold task in id and number in at_us. */
static int walk_audit(sweeping *s, int64_t keep_us, pawl_id last)
{
    int count = 0, looked = 0, most = s->left * LOOK_MAX + 100;
    sqlite_store *store = s->t->s;
    query q = query_on(s->t->c, SQL_audit_walk);
    put_int(&q, store->audit_walk);
    pawl_id at = 0;
    while (query_row(&q)) {
        audit_key key = {.task_id = get_int(&q)};
        key.number = get_int(&q);
        bool new_task = key.task_id != at;
        if (key.task_id > last) break;
        if (count == s->left || (looked++ >= most && new_task)) {
            query_end(&q);
            s->call->more = true;
            return count;
        }
        if (new_task && at) store->audit_walk = at;
        at = key.task_id;
        if (falls_due(s, get_int(&q), keep_us)) s->rows[count++] = (old_row){.id = key.task_id, .at_us = key.number};
    }
    query_end(&q);
    store->audit_walk = 0; /* from the start next time */
    return count;
}

static void hide_derived(sweeping *s, int64_t cut_us)
{
    conn *c = s->t->c;
    query q = query_on(c, SQL_body_oldest);
    int64_t oldest_us = query_row(&q) ? get_int(&q) : INT64_MAX;
    query_end(&q);
    if (oldest_us <= cut_us && meta_int(c, "audit_cut_us", INT64_MIN) < cut_us) meta_put(c, "audit_cut_us", cut_us);
    q = query_on(c, SQL_body_from);
    put_int(&q, id_at(cut_us) > ((int64_t)ID_SLACK_MS << 23) ? id_at(cut_us) - ((int64_t)ID_SLACK_MS << 23) : 0);
    put_int(&q, cut_us);
    if (query_row(&q) && !get_is_null(&q)) falls_due(s, get_int(&q), s->t->now_us - cut_us);
    query_end(&q);
}

static void sweep_audit(sweeping *s, int64_t keep_us)
{
    if (keep_us < 0) return;
    int64_t cut_us = s->t->now_us - keep_us;
    int count = walk_audit(s, keep_us, id_at(cut_us));
    for (int i = 0; i < count; i++) {
        query q = query_on(s->t->c, SQL_audit_drop);
        put_int(&q, s->rows[i].id);
        put_int(&q, s->rows[i].at_us);
        query_run(&q);
    }
    removed(s, count);
    hide_derived(s, cut_us);
}

/* ---- nodes, receipts, rollups -------------------------------------------------------------------------------------------- */

/* Processes that ended without leaving, while they held nothing: nobody rescues them. */
static void bury_idle(sweeping *s)
{
    query q = query_on(s->t->c, SQL_nodes_idle);
    int count = 0;
    while (count < s->left && query_row(&q)) {
        int64_t node = get_int(&q);
        if (node_proven_dead(s->t->s, node, get_int(&q))) s->rows[count++].id = node;
    }
    query_end(&q);
    for (int i = 0; i < count; i++) node_kill(s->t, s->rows[i].id, 0);
}

static void forget_node(sweeping *s, int64_t node)
{
    query q = query_on(s->t->c, SQL_receipts_drop);
    put_int(&q, node << 8);
    put_int(&q, node << 8 | 255);
    query_run(&q);
    removed(s, 1 + sqlite3_changes(s->t->c->db));
    heartbeat_drop(s->t, node);
    run_with(s->t, SQL_node_forget, node);
}

/* A node that nobody may ask for any more still gives its name to history, until that is gone, too. */
static void sweep_nodes(sweeping *s)
{
    bury_idle(s);
    query q = query_on(s->t->c, SQL_nodes_dead);
    int count = 0;
    while (query_row(&q)) {
        int64_t node = get_int(&q);
        if (!falls_due(s, get_int(&q), RECEIPT_US) || count == s->left) break;
        s->rows[count++].id = node;
    }
    query_end(&q);
    for (int i = 0; i < count && s->left > 0; i++) forget_node(s, s->rows[i].id);
    q = query_on(s->t->c, SQL_body_oldest);
    int64_t oldest_us = query_row(&q) ? get_int(&q) : INT64_MAX;
    query_end(&q);
    run_with(s->t, SQL_nodes_drop, oldest_us);
    q = query_on(s->t->c, SQL_receipts_stray);
    query_run(&q);
}

static void sweep_rollups(sweeping *s)
{
    int64_t last = (s->t->now_us - ROLLUP_US) / PAWL_MINUTE;
    for (int i = 0; i < s->left; i++) {
        query q = query_on(s->t->c, SQL_rollup_oldest);
        int64_t minute = query_row(&q) ? get_int_or(&q, INT64_MAX) : INT64_MAX;
        query_end(&q);
        if (minute > last || s->t->c->rc) return;
        run_with(s->t, SQL_rollup_drop, minute);
    }
}

/* ---- the step ------------------------------------------------------------------------------------------------------------ */

static void step(sweeping *s)
{
    pawl_sweep *call = s->call;
    sweep_done(s, PAWL_SUCCEEDED, call->keep_succeeded_us);
    sweep_done(s, PAWL_CANCELLED, call->keep_cancelled_us);
    sweep_failed(s, SQL_failed_resolved_rows, call->keep_resolved_us);
    sweep_failed(s, SQL_failed_open_rows, call->keep_failed_us);
    sweep_audit(s, call->keep_audit_us);
    sweep_in_order(s, SQL_runlog_oldest, SQL_runlog_drop, call->keep_logs_us);
    sweep_in_order(s, SQL_oplog_oldest, SQL_oplog_drop, call->keep_audit_us);
    sweep_nodes(s);
    sweep_rollups(s);
    if (!call->more) run_with(s->t, SQL_born_drop, s->t->now_us / PAWL_HOUR);
    if (call->more) call->next_us = 0;
    call->expiring = expiring(s);
}

pawl_status sqlite_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err)
{
    sqlite_store *store_ = (sqlite_store *)store;
    tx t;
    pawl_status status = tx_begin(store_, &t, what, err);
    if (status) return status;
    sweeping s = {.t = &t, .call = call, .left = call->limit > 0 ? call->limit : 1000};
    call->removed = call->expiring = 0;
    call->more = false;
    call->next_us = -1;
    if (t.gate != PAWL_GATE_OPEN) { /* what a move has counted must stay */
        call->next_us = PAWL_MINUTE;
        return tx_abort(&t, what, err);
    }
    s.rows = alloc_new(store_->allocator, (size_t)(s.left + 1) * sizeof *s.rows);
    if (s.rows) step(&s);
    else conn_note(t.c, SQLITE_NOMEM);
    if (s.left > 0 && !t.c->rc) removed(&s, quota_sweep(&t, s.left));
    if (t.bounded && !t.c->rc) places_sweep(&t);
    if (s.left > 0 && !t.c->rc) {
        removed(&s, batch_sweep(&t, call, s.left));
        if (s.left <= 0) call->more = true, call->next_us = 0;
    }
    alloc_free(store_->allocator, s.rows);
    return t.c->rc ? tx_abort(&t, what, err) : tx_commit(&t, what, false, err);
}
