/* Telling those who wait: children of what has ended, members of a batch that is cancelled, batches whose last member has ended.
 *
 * What is to be told are rows of pawl_unsettled. A transaction takes some of them that nobody else is at, and tells a page of each; what ends
 * by that is told in the same transaction, one generation after the other, until it has told enough. A generation costs one message, however
 * many it has. What is left is written back: a cursor that moved, or a new row. So a hundred thousand children are a few hundred small
 * commits, and a chain of ten thousand some twenty.
 *
 * Whoever tells a child holds its row in pawl_live, and only who holds the row (parent, END) of pawl_unsettled changes the edges of that parent.
 */
#include "base/alloc.h"
#include "base/check.h"
#include "core/task.h"
#include "store/mysql/family.h"
#include <mysqld_error.h>

#define AT_ONCE 500 /* told in one transaction */
#define CANCELS 200 /* members that are cancelled in one transaction */

enum { LIVE = 15, CHILD, UNMET, HELD, IF_FAILED, OTHER }; /* columns of SQL_kids_lock, behind those of the task */

typedef struct telling {
    pawl_id id;
    untold kind;
    pawl_id told;
    int64_t value;
    pawl_id retry; /* of one that failed, and was retried before all were told */
    bool stored;   /* as a row of pawl_unsettled, which this transaction has locked */
    bool moved;    /* its cursor */
    bool over;
    int room; /* of the page that was asked for; 0: it was its turn not yet */
} telling;

typedef struct waiting { /* a child that was told something in this transaction */
    map_node node;       /* by id */
    task_row row;
    int64_t unmet, held;
    pawl_if_failed if_failed;
    bool gone; /* it waits no more */
    bool changed;
} waiting;

typedef struct settling {
    work w;
    telling *list;
    int count, room;
    map waits;
    pawl_id cancel, cancel_told; /* a batch whose members are to be cancelled */
    int left;                    /* to be told in this transaction */
    int done;                    /* that is over */
    bool freed;
} settling;

static void add(settling *k, telling t)
{
    if (k->count == k->room) {
        int room = k->room ? 2 * k->room : 128;
        telling *grown = alloc_resize(k->w.s->allocator, k->list, (size_t)room * sizeof *grown);
        if (!grown) {
            k->w.no_memory = true;
            return;
        }
        k->list = grown;
        k->room = room;
    }
    k->list[k->count++] = t;
}

void my_settle_ended(settling *k, pawl_id id, pawl_state to) { add(k, (telling){.id = id, .kind = UNTOLD_END, .value = to}); }

/* ---- a child --------------------------------------------------------------------------------------------------------------- */

static void edge_put(work *w, pawl_id parent, pawl_id child, int state)
{
    my_rows_begin(w, TABLE_EDGES);
    buf_fmt(&w->tables[TABLE_EDGES].text, "%lld,%lld,%d", (long long)parent, (long long)child, state);
    my_rows_end(w, TABLE_EDGES);
}

static void set_free(settling *k, waiting *c)
{
    work *w = &k->w;
    pawl_state to = task_move(c->row.state, TASK_PARENTS_DONE);
    if (audit_wanted(c->row.level, AUDIT_CHANGE)) my_audit_put(w, &c->row, to, NULL, 1);
    my_note_id(w, &w->waits_gone, c->row.id);
    my_live_drop(w, &c->row);
    c->row.state = to;
    if (c->row.run_at_us < w->now_us) c->row.run_at_us = w->now_us;
    my_live_put(w, &c->row);
    c->gone = k->freed = true;
}

static void end_orphan(settling *k, waiting *c, pawl_state parent)
{
    work *w = &k->w;
    task_end end = {.to = task_move(c->row.state, TASK_PARENT_POLICY),
                    .level = c->row.level,
                    .reason = parent == PAWL_FAILED ? "parent_failed" : "parent_cancelled"};
    CHECK(end.to == PAWL_CANCELLED);
    if (audit_wanted(c->row.level, AUDIT_CHANGE)) my_audit_put(w, &c->row, end.to, end.reason, 2);
    my_live_drop(w, &c->row);
    my_end_put(w, &c->row, &end);
    c->gone = k->freed = true;
}

static void tell_child(settling *k, const telling *t, waiting *c, pawl_id child)
{
    bool badly = t->value != PAWL_SUCCEEDED, held = false;
    if (c && !c->gone && badly && c->if_failed == PAWL_IF_FAILED_CANCEL) {
        end_orphan(k, c, (pawl_state)t->value);
    } else if (c && !c->gone) {
        held = badly && c->if_failed == PAWL_IF_FAILED_HOLD;
        c->unmet--;
        c->held += held;
        c->changed = true;
        if (c->unmet <= 0 && c->held == 0) set_free(k, c);
    }
    edge_put(&k->w, t->id, child, held ? EDGE_HELD : EDGE_TOLD);
    if (held && t->retry) my_unsettled_put(&k->w, t->id, UNTOLD_RETRIED, child - 1, t->retry);
}

/* The edge goes to the new task, which it waits for from now on, if it did not anyway. */
static void wait_for_retry(settling *k, const telling *t, waiting *c, bool anyway)
{
    work *w = &k->w;
    if (!c || c->gone) return;
    c->held--;
    c->changed = true;
    if (anyway) {
        edge_put(w, t->id, c->row.id, EDGE_TOLD);
        if (c->unmet <= 0 && c->held == 0) set_free(k, c);
        return;
    }
    c->unmet++;
    my_rows_begin(w, TABLE_EDGES_MOVED);
    buf_fmt(&w->tables[TABLE_EDGES_MOVED].text, "%lld,%lld,%lld", (long long)t->id, (long long)c->row.id, (long long)t->value);
    my_rows_end(w, TABLE_EDGES_MOVED);
}

/* The child of a row, if it waits; what is known of it already counts more than what is stored. */
static waiting *child_of(settling *k, const answer *a, int row)
{
    pawl_id id = get_int(a, row, CHILD);
    waiting *c = (waiting *)map_get(&k->waits, (uint64_t)id);
    if (c) return c;
    if (get_null(a, row, 0) || get_null(a, row, UNMET)) return NULL;
    c = my_work_alloc(&k->w, sizeof *c);
    if (!c) return NULL;
    c->row.progress = -1;
    my_read_live(&c->row, a, row);
    c->unmet = get_int(a, row, UNMET);
    c->held = get_int(a, row, HELD);
    c->if_failed = (pawl_if_failed)get_int(a, row, IF_FAILED);
    c->gone = c->row.state != PAWL_WAITING;
    map_put(&k->waits, &c->node, (uint64_t)id);
    return c;
}

/* ---- one generation -------------------------------------------------------------------------------------------------------- */

static bool ask_generation(settling *k)
{
    work *w = &k->w;
    int pages = 0, room;
    for (int i = k->done; i < k->count && pages < k->left; i++) pages += !k->list[i].over;
    room = pages ? k->left / pages : 0; /* of each: what has none, or one, makes room for the others in the next generation */
    my_script(w->c);
    for (int i = k->done; i < k->count; i++) {
        telling *t = &k->list[i];
        t->room = t->over || pages == 0 ? 0 : room;
        if (t->room == 0) continue;
        pages--;
        my_put_int(w->c, t->id);
        my_put_int(w->c, t->told);
        my_put_int(w->c, t->kind == UNTOLD_RETRIED ? EDGE_HELD : EDGE_UNTOLD);
        my_put_int(w->c, t->room);
        my_put_int(w->c, i);
        my_put_int(w->c, t->kind == UNTOLD_RETRIED ? t->value : 0);
        my_add(w->c, SQL_kids_lock);
    }
    return my_send(w->c, CALL_READS);
}

static void tell_page(settling *k, const answer *a, int at)
{
    const telling t = k->list[at];
    int rows = a ? a->rows : 0, i = 0;
    for (; i < rows && k->left > 0 && !k->w.no_memory; i++) {
        waiting *c = child_of(k, a, i);
        if (t.kind == UNTOLD_END) tell_child(k, &t, c, get_int(a, i, CHILD));
        else wait_for_retry(k, &t, c, get_int(a, i, OTHER));
        k->left--;
    }
    telling *now = &k->list[at]; /* the list may have grown */
    now->over = i == rows && rows < now->room;
    if (i > 0) {
        now->told = get_int(a, i - 1, CHILD);
        now->moved = true;
    } else {
        k->left--;
    }
}

static const answer *page_of(const conn *c, int at)
{
    EACH_ANSWER(a, c, SQL_kids_lock)
    if (a->rows > 0 && get_int(a, 0, LIVE) == at) return a;
    return NULL;
}

static bool tell_generations(settling *k)
{
    while (k->left > 0 && k->done < k->count && !k->w.no_memory) {
        int count = k->count;
        if (!ask_generation(k)) return false;
        for (int i = k->done; i < count && k->left > 0; i++)
            if (k->list[i].room > 0) tell_page(k, page_of(k->w.c, i), i);
        while (k->done < k->count && k->list[k->done].over) k->done++;
    }
    return true;
}

/* ---- what is to be told ---------------------------------------------------------------------------------------------------- */

static bool take_list(settling *k)
{
    work *w = &k->w;
    my_script(w->c);
    my_add(w->c, SQL_begin);
    my_add(w->c, SQL_server_now);
    my_add(w->c, SQL_version_shared);
    my_add(w->c, SQL_unsettled_lock);
    if (w->node) my_add_rollups_look(w);
    if (!my_send(w->c, CALL_READS)) return false;
    instant at = my_instant(w->s, w->c);
    w->now_us = at.now_us;
    w->boot_us = at.boot_us;
    if (w->node) my_rollups_take_in(w);
    const answer *a = my_answer(w->c, SQL_unsettled_lock);
    for (int i = 0; i < a->rows; i++) {
        telling t = {.id = get_int(a, i, 0), .kind = (untold)get_int(a, i, 1), .told = get_int(a, i, 2)};
        t.value = get_int(a, i, 3);
        t.stored = true;
        if (t.kind != UNTOLD_CANCEL) {
            add(k, t);
        } else if (!k->cancel) {
            k->cancel = t.id;
            k->cancel_told = t.told;
        }
    }
    return true;
}

/* Those of which more must be known than their children: batches, and what was retried, or not looked at. */
static bool ask_others(settling *k)
{
    work *w = &k->w;
    int count = 0;
    w->joins.count = w->parents.count = 0;
    for (int i = 0; i < k->count; i++) {
        const telling *t = &k->list[i];
        if (t->kind == UNTOLD_DRAINED || t->kind == UNTOLD_LOOK) my_note_id(w, &w->joins, t->id);
        if (t->kind == UNTOLD_LOOK || t->kind == UNTOLD_RETRIED) count++;
    }
    if (w->joins.count == 0 && count == 0) return true;
    pawl_id *ids = my_work_alloc(w, (size_t)(count + 1) * sizeof *ids);
    if (!ids) return true;
    my_script(w->c);
    w->joins.count = my_sort_ids(w->joins.ids, w->joins.count);
    my_add_ids(w->c, SQL_batches_lock, w->joins.ids, w->joins.count);
    my_add_ids(w->c, SQL_kept_look, w->joins.ids, w->joins.count);
    if (w->joins.count && !my_send(w->c, CALL_READS)) return false;
    my_families_take_in(w);
    count = 0;
    for (int i = 0; i < k->count; i++) {
        const telling *t = &k->list[i];
        if (t->kind == UNTOLD_LOOK && !my_batch_row(w, t->id)) ids[count++] = t->id;
        else if (t->kind == UNTOLD_RETRIED) ids[count++] = t->value;
    }
    return my_load(w, ids, count, LOAD_SHARE);
}

/* Whoever retries one of them meanwhile has seen the edges to it, or is waited for. */
static bool ask_retries(settling *k)
{
    work *w = &k->w;
    int count = 0;
    pawl_id *ids = my_work_alloc(w, (size_t)(k->count + 1) * sizeof *ids);
    if (!ids) return true;
    for (int i = 0; i < k->count; i++)
        if (k->list[i].kind == UNTOLD_END && k->list[i].value != PAWL_SUCCEEDED) ids[count++] = k->list[i].id;
    if (count == 0) return true;
    count = my_sort_ids(ids, count);
    my_script(w->c);
    my_add_ids(w->c, SQL_done_lock, ids, count);
    my_add_ids(w->c, SQL_failed_lock, ids, count);
    if (!my_send(w->c, CALL_READS)) return false;
    for (int at = 0; at < w->c->answers_count; at++)
        for (int row = 0; row < w->c->answers[at].rows; row++)
            for (int i = 0; i < k->count; i++)
                if (k->list[i].id == get_int(&w->c->answers[at], row, 0)) k->list[i].retry = get_int(&w->c->answers[at], row, 4);
    return true;
}

static void end_batch(settling *k, pawl_id id)
{
    work *w = &k->w;
    batch_row *b = my_batch_row(w, id);
    if (!b || b->ended || !b->closed || b->unfinished > 0) return;
    b->ended = true;
    b->state = b->failed ? PAWL_FAILED : b->cancelled ? PAWL_CANCELLED : PAWL_SUCCEEDED;
    my_rows_begin(w, TABLE_BATCHES_ENDED);
    buf_fmt(&w->tables[TABLE_BATCHES_ENDED].text, "%lld,%d", (long long)id, (int)b->state);
    my_rows_end(w, TABLE_BATCHES_ENDED);
    my_end_counts(w, id, b->state);
    add(k, (telling){.id = id, .kind = UNTOLD_END, .value = b->state});
}

/* If it has not ended, its end will be told. One whose parent is nowhere any more is told that it was cancelled. */
static void look_at(settling *k, const telling *t)
{
    pawl_state state = my_kin_state(&k->w, t->id);
    if (!state) state = PAWL_CANCELLED;
    if (pawl_state_terminal(state)) my_unsettled_put(&k->w, t->id, UNTOLD_END, t->told, state);
}

/* false: the connection says why. */
static bool prepare(settling *k)
{
    if (!ask_others(k) || !ask_retries(k)) return false;
    int count = k->count;
    for (int i = 0; i < count && !k->w.no_memory; i++) {
        const telling t = k->list[i];
        if (t.kind == UNTOLD_END) continue;
        k->left--;
        k->list[i].over = t.kind != UNTOLD_RETRIED;
        pawl_state state = t.kind == UNTOLD_RETRIED ? my_kin_state(&k->w, t.value) : PAWL_STATE_NONE;
        if (pawl_state_terminal(state)) my_end_left(&k->w, t.value, state);
        else if (t.kind == UNTOLD_LOOK) look_at(k, &t);
        else if (t.kind == UNTOLD_MEMBER) my_end_counts(&k->w, t.id, (pawl_state)t.value);
        else if (t.kind == UNTOLD_DRAINED) end_batch(k, t.id);
    }
    return true;
}

/* ---- a transaction --------------------------------------------------------------------------------------------------------- */

/* What is over goes, and what is not over stays, or becomes a row. */
static void put_list(settling *k)
{
    work *w = &k->w;
    buf gone;
    buf_init(&gone, w->s->allocator, 1 << 20);
    for (int i = 0; i < k->count; i++) {
        const telling *t = &k->list[i];
        if (t->over && t->stored) buf_fmt(&gone, "%s(%lld,%d)", gone.len ? "," : "", (long long)t->id, (int)t->kind);
        if (t->over) continue;
        if (!t->stored && t->told == 0) my_end_left(w, t->id, (pawl_state)t->value);
        else if (!t->stored) my_unsettled_put(w, t->id, t->kind, t->told, t->value);
        else if (t->moved) {
            my_put_int(w->c, t->id);
            my_put_int(w->c, t->kind);
            my_put_int(w->c, t->told);
            my_add(w->c, SQL_unsettled_go_on);
        }
    }
    if (gone.failed) w->no_memory = true;
    if (gone.len) {
        my_put_raw(w->c, buf_text(&gone), gone.len);
        my_add(w->c, SQL_unsettled_drop);
    }
    buf_done(&gone);
}

static void put_waits(settling *k)
{
    map_each(node, &k->waits) {
        const waiting *c = (const waiting *)node;
        if (c->gone || !c->changed) continue;
        my_rows_begin(&k->w, TABLE_WAITS);
        buf_fmt(&k->w.tables[TABLE_WAITS].text, "%lld,%lld,%lld,%d", (long long)c->row.id, (long long)c->unmet,
                (long long)c->held, (int)c->if_failed);
        my_rows_end(&k->w, TABLE_WAITS);
    }
}

static bool commit(settling *k)
{
    work *w = &k->w;
    my_script(w->c);
    put_list(k);
    put_waits(k);
    my_work_flush(w);
    if (w->node) {
        my_put_int(w->c, w->node);
        my_put_int(w->c, w->lane);
        my_put_int(w->c, w->backs);
        my_add(w->c, SQL_lane_moved);
    } else {
        my_add_wake(w->c, w->lane, w->now_us, w->backs);
    }
    my_add(w->c, SQL_commit);
    if (w->no_memory) my_conn_no_memory(w->c);
    return !w->no_memory && my_send(w->c, CALL_WRITES);
}

typedef enum outcome { FAILED, NOTHING, TOLD, OUTDATED } outcome;

static outcome settle_in(settling *k)
{
    work *w = &k->w;
    if (!my_limits_copy(w->s, w->arena, &w->limits)) {
        my_conn_no_memory(w->c);
        return FAILED;
    }
    if (!take_list(k)) return FAILED;
    if (my_work_outdated(w)) return OUTDATED;
    if (k->count == 0) return NOTHING;
    if (!prepare(k) || !tell_generations(k) || !commit(k)) return FAILED;
    if (w->backs) my_ready_chill(&w->s->ready);
    return TOLD;
}

/* How many were told; -1: failed. *cancel: a batch whose members are to be cancelled, if there was nothing else. */
static int settle_some(my_store *s, conn *c, int64_t node, int64_t lane, int most, pawl_arena *arena, settled *out,
                       telling *cancel)
{
    for (int tries = 0, changes = 0;;) {
        settling k = {.left = most};
        my_work_begin(&k.w, s, c, arena);
        map_init(&k.waits, s->allocator);
        k.w.node = node;
        k.w.lane = node ? -2 - lane : my_new_lane(s);
        k.w.settling = &k;
        outcome o = settle_in(&k);
        *cancel = (telling){.id = k.cancel, .told = k.cancel_told};
        map_done(&k.waits);
        my_work_done(&k.w);
        alloc_free(s->allocator, k.list);
        if (o != TOLD) my_rollback(c);
        if (o == TOLD) out->freed |= k.freed;
        if (o == TOLD || o == NOTHING) return o == TOLD ? most - k.left : 0;
        if (o == OUTDATED && ++changes <= 5 && my_limits_fetch(s, c)) continue;
        if (o == OUTDATED || !my_call_again(c, &tries)) return -1;
    }
}

static int cancel_some(my_store *s, conn *c, const telling *t, int most, pawl_arena *arena, settled *out)
{
    pawl_id ids[CANCELS], last = 0;
    int room = most < CANCELS ? most : CANCELS, count = 0;
    my_script(c);
    my_put_int(c, t->id);
    my_put_int(c, t->told);
    my_put_int(c, room);
    my_add(c, SQL_members_page);
    if (!my_send(c, CALL_READS)) return -1;
    const answer *a = my_answer(c, SQL_members_page);
    for (; count < a->rows && count < room; count++) ids[count] = last = get_int(a, count, 0);
    if (!my_cancel_members(s, c, t->id, ids, count, count == room ? last : 0, arena, out)) return -1;
    out->freed = true;
    return count > 0 ? count : 1;
}

/* Whether anything is left that nobody else is at. */
static bool anything_left(conn *c)
{
    my_script(c);
    my_add(c, SQL_unsettled_free);
    return !my_send(c, CALL_READS) || my_answer(c, SQL_unsettled_free)->rows > 0;
}

void my_settle(my_store *s, conn *c, int64_t node, int64_t lane, int limit, pawl_arena *arena, settled *out)
{
    int some = 1;
    while (out->told < limit && some > 0) {
        telling cancel;
        int left = limit - out->told, most = left < AT_ONCE ? left : AT_ONCE;
        some = settle_some(s, c, node, lane, most, arena, out, &cancel);
        if (some < 0 && c->status == PAWL_NO_MEMORY) some = settle_some(s, c, node, lane, most, arena, out, &cancel);
        if (some == 0 && cancel.id) some = cancel_some(s, c, &cancel, left, arena, out);
        if (some > 0) out->told += some;
    }
    if (some < 0) my_store_log(s, PAWL_WARN, "those who wait for what has ended could not be told yet: %s", c->why);
    out->left = some < 0 || anything_left(c);
}
