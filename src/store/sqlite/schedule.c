/* Schedules: SCHEDULE, STEP, what the end of a task means for the schedule that made it, and the questions about them.
 *
 * An occurrence is a row under (schedule, occurrence): that alone keeps it from becoming two tasks. Counts of states are kept with the
 * schedule. Where no task of a schedule is unfinished, one small question per transaction is all that schedules cost other tasks.
 */
#include "base/canary.h"
#include "store/sqlite/read.h"
#include <string.h>

#define TRIM_AT (PAWL_OCCURRENCES_KEPT + 50) /* settled occurrences of a schedule: then those too many go */

typedef struct row {
    int64_t id, version, open, waiting, settled, number;
    bool off, watch;
    char name[201];
    /* What to add. */
    int64_t runs, fired, skipped, succeeded, failed;
    pawl_id last_task;
} row;

static bool row_read(query *q, row *r)
{
    memset(r, 0, sizeof *r);
    bool found = query_row(q);
    if (found) {
        r->id = get_int(q);
        const char *name = get_text(q);
        if (name) strncpy(r->name, name, sizeof r->name - 1);
        r->version = get_int(q);
        r->off = get_int(q) != 0;
        r->watch = get_int(q) != 0;
        r->open = get_int(q);
        r->waiting = get_int(q);
        r->settled = get_int(q);
        r->number = get_int(q);
    }
    query_end(q);
    return found;
}

static bool row_get(tx *t, const char *name, row *r)
{
    query q = query_on(t->c, SQL_schedule_get);
    put_text(&q, name);
    return row_read(&q, r);
}

static void run_with_id(tx *t, sql_name which, int64_t id)
{
    query q = query_on(t->c, which);
    put_int(&q, id);
    query_run(&q);
}

static void trim(tx *t, row *r)
{
    if (r->settled < TRIM_AT) return;
    query q = query_on(t->c, SQL_occurrence_trim);
    put_int(&q, r->id);
    put_int(&q, PAWL_OCCURRENCES_KEPT);
    query_run(&q);
    r->settled = PAWL_OCCURRENCES_KEPT;
}

static void row_count(tx *t, row *r)
{
    trim(t, r);
    query q = query_on(t->c, SQL_schedule_count);
    put_int(&q, r->open);
    put_int(&q, r->waiting);
    put_int(&q, r->settled);
    put_int(&q, r->number);
    put_int(&q, r->runs);
    put_int(&q, r->fired);
    put_int(&q, r->skipped);
    put_int(&q, r->succeeded);
    put_int(&q, r->failed);
    put_int_or_null(&q, r->last_task, 0);
    put_int(&q, r->id);
    query_run(&q);
    t->schedules = true;
}

/* ---- occurrences --------------------------------------------------------------------------------------------------------- */

static pawl_occurrence_state state_of(tx *t, const row *r, int64_t occurrence)
{
    query q = query_on(t->c, SQL_occurrence_get);
    put_int(&q, r->id);
    put_int(&q, occurrence);
    int64_t state = query_row(&q) ? get_int(&q) : PAWL_OCCURRENCE_NONE;
    query_end(&q);
    return (pawl_occurrence_state)state;
}

static void counted(row *r, pawl_occurrence_state state, int by)
{
    if (state == PAWL_OCCURRENCE_WAITING) r->waiting += by;
    else if (state == PAWL_OCCURRENCE_OPEN) r->open += by;
    else if (state != PAWL_OCCURRENCE_NONE) r->settled += by;
}

static void decide(tx *t, row *r, const pawl_fate *fate, pawl_occurrence_state before, pawl_occurrence_state state, pawl_id task)
{
    query q = query_on(t->c, SQL_occurrence_put);
    put_int(&q, r->id);
    put_int(&q, fate->occurrence);
    put_int(&q, state);
    put_int(&q, ++r->number);
    put_int(&q, t->now_us);
    put_int(&q, task);
    put_int(&q, fate->count);
    put_text(&q, fate->why);
    query_run(&q);
    counted(r, before, -1);
    counted(r, state, 1);
}

static void skip(tx *t, row *r, const pawl_fate *fate)
{
    pawl_occurrence_state before = state_of(t, r, fate->occurrence);
    if (before > PAWL_OCCURRENCE_WAITING) return;
    r->skipped += fate->count;
    decide(t, r, fate, before, PAWL_OCCURRENCE_SKIPPED, 0);
}

static void fire(tx *t, row *r, const pawl_step *step, const pawl_fate *fate, pawl_op *op)
{
    pawl_occurrence_state before = state_of(t, r, fate->occurrence);
    bool waits = before == PAWL_OCCURRENCE_WAITING;
    if (before > PAWL_OCCURRENCE_WAITING && !CANARY(OCCURRENCE_TWICE)) {
        op->result = PAWL_OP_EXISTING;
    } else if (step->overlap == PAWL_OVERLAP_ALLOW || r->open == 0 || CANARY(OVERLAP_IGNORED)) {
        op->u.insert.ask_lease = false;
        apply_insert(t, op);
        if (op->result == PAWL_OP_COLLISION) { /* nobody could send it again: the store draws another */
            op->id = 0;
            apply_insert(t, op);
        }
        r->runs++;
        r->fired++;
        r->last_task = op->out_id;
        decide(t, r, fate, before, PAWL_OCCURRENCE_OPEN, op->out_id);
        t->occurrences = 1;
    } else if (step->overlap == PAWL_OVERLAP_QUEUE && r->waiting - waits == 0) {
        op->result = PAWL_OP_MOVED;
        if (!waits) decide(t, r, fate, before, PAWL_OCCURRENCE_WAITING, 0);
    } else {
        op->result = PAWL_OP_CONFLICT;
        if (!step->keep) skip(t, r, &(pawl_fate){.occurrence = fate->occurrence, .count = 1, .why = "overlap"});
    }
}

/* ---- STEP ---------------------------------------------------------------------------------------------------------------- */

static bool tasks_make_sense(const pawl_step *step)
{
    for (int i = 0; i < step->tasks_count; i++)
        if (!insert_makes_sense(step->tasks[i].u.insert.body)) return false;
    return true;
}

static void go_on(tx *t, const row *r, const pawl_step *step)
{
    if (step->keep) {
        run_with_id(t, SQL_schedule_version, r->id);
        return;
    }
    query q = query_on(t->c, SQL_schedule_step);
    put_int(&q, step->off);
    put_text(&q, step->reason);
    put_int(&q, step->next_us);
    put_int(&q, step->occurrence_us);
    put_int(&q, step->last_us);
    put_int_or_null(&q, step->off ? 0 : step->look_us, 0);
    put_int(&q, step->watch);
    put_int(&q, r->id);
    query_run(&q);
}

void apply_step(tx *t, pawl_op *op)
{
    const pawl_step *step = op->u.step;
    row r;
    bool found = row_get(t, step->name, &r);
    bool current = step->version == 0 || step->version == r.version || CANARY(VERSION_IGNORED);
    op->result = !found ? PAWL_OP_NOT_FOUND : !current ? PAWL_OP_STALE : !tasks_make_sense(step) ? PAWL_OP_REFUSED : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE || t->c->rc) return;
    for (int i = 0, task = 0; i < step->fates_count && !t->c->rc; i++) {
        if (step->fates[i].fires) fire(t, &r, step, &step->fates[i], &step->tasks[task++]);
        else skip(t, &r, &step->fates[i]);
    }
    if (step->fates_count > 0) row_count(t, &r);
    go_on(t, &r, step);
    oplog_put(t, op->by, step->keep ? "run schedule" : step->off ? "disable schedule" : "enable schedule", 0, step->name);
    t->schedules = true;
}

/* ---- SCHEDULE ------------------------------------------------------------------------------------------------------------ */

static void put_definition(query *q, const pawl_schedule_row *from, int64_t now_us)
{
    put_text(q, from->after);
    put_int(q, from->off);
    put_text(q, from->reason);
    put_int(q, from->anchor_us);
    put_int(q, from->next_us);
    put_int(q, from->occurrence_us);
    put_int_or_null(q, from->off ? 0 : from->look_us, 0);
    put_int(q, from->watch);
    put_int(q, now_us);
}

static int64_t store_row(tx *t, const pawl_schedule_row *from, const row *old)
{
    query q = query_on(t->c, old->id ? SQL_schedule_replace : SQL_schedule_add);
    put_definition(&q, from, t->now_us);
    if (old->id) {
        put_int(&q, old->id);
    } else {
        put_text(&q, from->name);
        put_int(&q, t->now_us); /* no version of one that was dropped comes again */
    }
    bool stored = query_run(&q);
    return old->id ? old->id : stored ? sqlite3_last_insert_rowid(t->c->db) : 0;
}

void schedule_remove(tx *t, int64_t id)
{
    run_with_id(t, SQL_occurrence_drop, id);
    run_with_id(t, SQL_schedule_body_drop, id);
    run_with_id(t, SQL_schedule_drop, id);
}

void apply_schedule(tx *t, pawl_op *op)
{
    const pawl_schedule_row *from = op->u.schedule->row;
    bool dropped = op->u.schedule->drop;
    row old;
    bool found = row_get(t, from->name, &old), current = found && old.version == from->version;
    if (dropped) op->result = !found ? PAWL_OP_NOT_FOUND : from->version && !current ? PAWL_OP_STALE : PAWL_OP_DONE;
    else if (found) op->result = !from->version ? PAWL_OP_EXISTING : current ? PAWL_OP_UPDATED : PAWL_OP_STALE;
    else op->result = from->version ? PAWL_OP_NOT_FOUND : PAWL_OP_DONE;
    if ((op->result != PAWL_OP_DONE && op->result != PAWL_OP_UPDATED) || t->c->rc) return;
    oplog_put(t, op->by, dropped ? "remove schedule" : "put schedule", 0, from->name);
    t->schedules = true;
    if (dropped) {
        schedule_remove(t, old.id);
        return;
    }
    int64_t id = store_row(t, from, &old);
    query q = query_on(t->c, SQL_schedule_body_put);
    put_int(&q, id);
    put_text(&q, from->spec);
    put_bytes(&q, from->payload);
    query_run(&q);
}

/* ---- the end of a task ----------------------------------------------------------------------------------------------------- */

/* Whether any task of a schedule is unfinished. */
static bool any_open(tx *t)
{
    if (!t->occurrences) {
        query q = query_on(t->c, SQL_occurrence_any);
        t->occurrences = query_row(&q) ? 1 : -1;
        query_end(&q);
    }
    return t->occurrences > 0;
}

static bool open_of(tx *t, pawl_id task, row *r, int64_t *occurrence)
{
    query q = query_on(t->c, SQL_occurrence_of);
    put_int(&q, task);
    bool found = query_row(&q);
    int64_t id = found ? get_int(&q) : 0;
    if (found) *occurrence = get_int(&q);
    query_end(&q);
    if (!found) return false;
    q = query_on(t->c, SQL_schedule_of);
    put_int(&q, id);
    return row_read(&q, r);
}

static void tell_followers(tx *t, const row *r, pawl_id task)
{
    query q = query_on(t->c, SQL_schedule_follow);
    put_int(&q, task);
    put_int(&q, t->now_us);
    put_text(&q, r->name);
    query_run(&q);
    q = query_on(t->c, SQL_schedule_followed);
    put_int(&q, t->now_us);
    put_text(&q, r->name);
    query_run(&q);
}

void schedule_ended(tx *t, pawl_id task, pawl_state to, bool started)
{
    row r;
    int64_t occurrence = 0;
    if (!any_open(t) || !open_of(t, task, &r, &occurrence)) return;
    pawl_occurrence_state state = !started               ? PAWL_OCCURRENCE_UNSTARTED
                                  : to == PAWL_SUCCEEDED ? PAWL_OCCURRENCE_SUCCEEDED
                                  : to == PAWL_FAILED    ? PAWL_OCCURRENCE_FAILED
                                                         : PAWL_OCCURRENCE_CANCELLED;
    query q = query_on(t->c, SQL_occurrence_end);
    put_int(&q, state);
    put_int(&q, ++r.number);
    put_int(&q, t->now_us);
    put_int(&q, r.id);
    put_int(&q, occurrence);
    query_run(&q);
    r.open--;
    r.settled++;
    r.runs = started ? 0 : -1;
    r.succeeded = to == PAWL_SUCCEEDED;
    r.failed = to == PAWL_FAILED;
    row_count(t, &r);
    if (!r.off && (r.watch || r.waiting > 0) && !CANARY(END_UNSEEN)) {
        q = query_on(t->c, SQL_schedule_stir);
        put_int(&q, t->now_us);
        put_int(&q, r.id);
        query_run(&q);
    }
    if (to == PAWL_SUCCEEDED) tell_followers(t, &r, task);
}

int64_t schedule_due(tx *t)
{
    query q = query_on(t->c, SQL_schedule_first);
    int64_t look_us = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return look_us;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

int64_t schedule_row_read(reading *r, query *q, pawl_schedule_row *out)
{
    int64_t id = get_int(q);
    out->name = read_text(r, get_text(q));
    out->after = read_text(r, get_text(q));
    out->version = get_int(q);
    out->off = (pawl_off)get_int(q);
    out->reason = read_text(r, get_text(q));
    out->anchor_us = get_int(q);
    out->next_us = get_int(q);
    out->occurrence_us = get_int(q);
    out->last_us = get_int(q);
    out->look_us = get_int_or(q, 0);
    out->watch = get_int(q) != 0;
    out->runs = get_int(q);
    out->fired = get_int(q);
    out->skipped = get_int(q);
    out->succeeded = get_int(q);
    out->failed = get_int(q);
    out->open = get_int(q);
    out->waiting = get_int(q);
    out->last_task = get_int(q);
    out->created_us = get_int(q);
    out->changed_us = get_int(q);
    out->spec = read_text(r, get_text(q));
    if (!get_is_null(q)) out->payload = read_bytes(r, get_bytes(q));
    if (!out->spec) out->spec = "";
    return id;
}

static void read_occurrences(reading *r, sql_name which, int64_t id, int64_t most, pawl_schedule_row *out)
{
    if (!(out->occurrences = read_alloc(r, ((size_t)most + 1) * sizeof *out->occurrences))) return;
    query q = query_on(r->c, which);
    put_int(&q, id);
    while (out->occurrences_count < most && query_row(&q)) {
        pawl_occurrence *o = &out->occurrences[out->occurrences_count++];
        o->occurrence = get_int(&q);
        o->state = (pawl_occurrence_state)get_int(&q);
        o->at_us = get_int(&q);
        o->task = get_int(&q);
        o->count = get_int(&q);
        o->why = read_text(r, get_text(&q));
    }
    query_end(&q);
}

static void due_read(reading *r, pawl_due *due)
{
    size_t bytes = 0;
    due->now_us = r->now_us;
    due->count = 0;
    due->next_us = 0;
    due->more = false;
    if (!(due->rows = read_alloc(r, ((size_t)due->limit + 1) * sizeof *due->rows))) return;
    query q = query_on(r->c, SQL_schedules_due);
    while (!r->no_memory && query_row(&q)) {
        q.column = 10;
        int64_t look_us = get_int(&q);
        q.column = 0;
        if (look_us > r->now_us) due->next_us = look_us;
        else due->more = due->count == due->limit || (due->count > 0 && bytes >= due->bytes);
        if (due->next_us || due->more) break;
        pawl_schedule_row *row = &due->rows[due->count++];
        int64_t id = schedule_row_read(r, &q, row);
        bytes += row->payload.len;
        if (row->waiting > 0) read_occurrences(r, SQL_occurrences_waiting, id, 100, row);
    }
    query_end(&q);
}

static bool wanted(const pawl_schedule_filter *f, const pawl_schedule_row *row)
{
    if (f->cursor && strcmp(row->name, f->cursor) <= 0) return false;
    return !(f->enabled && row->off) && !(f->off && !row->off);
}

static void list_schedules(reading *r, pawl_query *query_)
{
    const pawl_schedule_filter *f = query_->schedule_filter;
    const char *prefix = f->prefix ? f->prefix : "", *from = f->cursor && strcmp(f->cursor, prefix) > 0 ? f->cursor : prefix;
    query_->schedules_count = 0;
    query_->schedules_more = false;
    if (!(query_->schedules = read_alloc(r, ((size_t)f->limit + 1) * sizeof *query_->schedules))) return;
    query q = query_on(r->c, SQL_schedules_list);
    put_text(&q, from);
    while (!r->no_memory && !query_->schedules_more && query_row(&q)) {
        pawl_schedule_row *row = &query_->schedules[query_->schedules_count];
        memset(row, 0, sizeof *row);
        schedule_row_read(r, &q, row);
        q.column = 0;
        if (r->no_memory || strncmp(row->name, prefix, strlen(prefix)) != 0) break;
        if (!wanted(f, row)) continue;
        if (query_->schedules_count == f->limit) query_->schedules_more = true;
        else query_->schedules_count++;
    }
    query_end(&q);
}

static bool one_schedule(reading *r, pawl_query *query_)
{
    query_->schedules_count = 1;
    if (!(query_->schedules = read_alloc(r, sizeof *query_->schedules))) return true;
    query q = query_on(r->c, SQL_schedules_list);
    put_text(&q, query_->name);
    bool found = query_row(&q);
    int64_t id = found ? schedule_row_read(r, &q, query_->schedules) : 0;
    query_end(&q);
    if (!found || r->no_memory || strcmp(query_->schedules->name, query_->name) != 0) return r->no_memory;
    read_occurrences(r, SQL_occurrences_list, id, TRIM_AT + query_->schedules->open + query_->schedules->waiting,
                     query_->schedules);
    return true;
}

bool schedules_read(reading *r, pawl_query *query_)
{
    query_->now_us = r->now_us;
    if (query_->kind == PAWL_QUERY_SCHEDULE) return one_schedule(r, query_);
    if (query_->kind == PAWL_QUERY_DUE) due_read(r, query_->due);
    else list_schedules(r, query_);
    return true;
}
