/* Rows of tasks: every change of a task's state is a row that leaves one table and enters another, counted as it goes.
 *
 * Rows gather in memory, by table, and go out as a few statements at the end (my_work_flush).
 *
 * The trail. What pawl_audit would repeat is not written there but read from the task's own rows: the dispatch from the body, the grant of
 * the current lease from pawl_leased, and grant and end of the last lease from pawl_done or pawl_failed (`derived`).
 */
#include "base/alloc.h"
#include "store/mysql/family.h"
#include "store/mysql/place.h"
#include "store/mysql/quota.h"
#include "store/mysql/schedule.h"
#include <limits.h>

#define PART_BYTES ((size_t)512 << 10)
#define TABLE_MAX ((size_t)512 << 20)

static const sql_name puts[TABLES] = {[TABLE_BODIES] = SQL_bodies_put,
                                      [TABLE_LIVE] = SQL_live_put,
                                      [TABLE_LEASED] = SQL_leased_put,
                                      [TABLE_DONE] = SQL_done_put,
                                      [TABLE_FAILED] = SQL_failed_put,
                                      [TABLE_ATTEMPTS] = SQL_attempts_put,
                                      [TABLE_RUNLOGS] = SQL_runlogs_put,
                                      [TABLE_AUDITS] = SQL_audit_put,
                                      [TABLE_KEYS] = SQL_keys_put,
                                      [TABLE_CANCELS] = SQL_cancel_put,
                                      [TABLE_PAST_DONE] = SQL_past_done_put,
                                      [TABLE_PAST_FAILED] = SQL_past_failed_put,
                                      [TABLE_OLD_KEYS] = SQL_old_keys_put,
                                      [TABLE_HELD_KEYS] = SQL_held_keys_put,
                                      [TABLE_SLOTTED] = SQL_slotted_put,
                                      [TABLE_MOVES] = SQL_live_move,
                                      [TABLE_PLACES] = SQL_places_put,
                                      [TABLE_PLACES_GONE] = SQL_places_drop,
                                      [TABLE_BLOCKED] = SQL_blocked_put,
                                      [TABLE_SCHEDULES_NEW] = SQL_schedules_add,
                                      [TABLE_SCHEDULES] = SQL_schedules_put,
                                      [TABLE_SCHEDULE_BODIES] = SQL_schedule_bodies_put,
                                      [TABLE_OCCURRENCES_NEW] = SQL_occurrences_add,
                                      [TABLE_OCCURRENCES_TOLD] = SQL_occurrences_told,
                                      [TABLE_OCCURRENCES] = SQL_occurrences_put,
                                      [TABLE_BATCHES] = SQL_batches_put,
                                      [TABLE_MEMBERS] = SQL_members_put};

#define MAPS(w)                                                                                                             \
    {                                                                                                                       \
        &(w)->tasks, &(w)->spots, &(w)->rollups, &(w)->quotas, &(w)->schedules, &(w)->occurrences, &(w)->opened, &(w)->kin, \
            &(w)->batches, &(w)->members, &(w)->batch_names                                                                 \
    }

void my_work_begin(work *w, my_store *s, conn *c, pawl_arena *arena)
{
    *w = (work){.s = s, .c = c, .arena = arena, .offers_left = INT_MAX};
    map *const maps[] = MAPS(w);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) map_init(maps[i], s->allocator);
    for (int i = 0; i < TABLES; i++) buf_init(&w->tables[i].text, s->allocator, TABLE_MAX);
}

void my_work_done(work *w)
{
    map *const maps[] = MAPS(w);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) map_done(maps[i]);
    for (int i = 0; i < TABLES; i++) buf_done(&w->tables[i].text);
    id_list *lists[] = {&w->live_gone, &w->leased_gone,    &w->slotted_gone, &w->unblocked, &w->readied,  &w->shared,
                        &w->parked,    &w->schedules_gone, &w->parents,      &w->joins,     &w->spawners, &w->waits_gone,
                        &w->left};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) alloc_free(w->s->allocator, lists[i]->ids);
    alloc_free(w->s->allocator, w->queues);
    alloc_free(w->s->allocator, w->takes);
}

/* ---- rows in the making -------------------------------------------------------------------------------------------------- */

void my_rows_begin(work *w, table which)
{
    rows *r = &w->tables[which];
    size_t from = r->cuts_count ? r->cuts[r->cuts_count - 1] : 0;
    if (r->text.len - from > PART_BYTES && r->cuts_count < (int)(sizeof r->cuts / sizeof *r->cuts)) {
        r->cuts[r->cuts_count++] = r->text.len;
        from = r->text.len;
    }
    if (r->text.len > from) buf_char(&r->text, ',');
    buf_char(&r->text, '(');
}

buf *my_rows_end(work *w, table which)
{
    buf_char(&w->tables[which].text, ')');
    return &w->tables[which].text;
}

void my_flush_table(work *w, table which)
{
    rows *r = &w->tables[which];
    if (r->text.failed) w->no_memory = true;
    for (int i = 0; i <= r->cuts_count && !w->no_memory; i++) {
        size_t from = i ? r->cuts[i - 1] : 0, to = i < r->cuts_count ? r->cuts[i] : r->text.len;
        if (to == from) continue;
        my_put_raw(w->c, r->text.data + from, to - from);
        my_add(w->c, puts[which]);
    }
}

static void flush_gone(work *w, sql_name which, id_list *list)
{
    if (list->count == 0) return;
    list->count = my_sort_ids(list->ids, list->count);
    my_add_ids(w->c, which, list->ids, list->count);
}

/* What those have to do with concurrency limits and turns, once the tasks are stored. */
static void flush_places(work *w)
{
    my_places_flush(w);
    my_flush_table(w, TABLE_PLACES_GONE);
    my_flush_table(w, TABLE_PLACES);
    flush_gone(w, SQL_blocked_drop, &w->left);
    flush_gone(w, SQL_blocked_drop, &w->unblocked);
    my_flush_table(w, TABLE_BLOCKED);
    flush_gone(w, SQL_shared_drop, &w->left);
    flush_gone(w, SQL_shared_drop, &w->parked);
    flush_gone(w, SQL_live_park, &w->parked);
    flush_gone(w, SQL_live_ready, &w->readied);
    flush_gone(w, SQL_shared_put, &w->shared);
    rows *moves = &w->tables[TABLE_MOVES];
    if (moves->text.len == 0 || moves->cuts_count) return;
    my_put_raw(w->c, moves->text.data, moves->text.len);
    my_add(w->c, SQL_shared_move);
}

#define KEY_TABLES 3 /* that come first */

void my_work_flush(work *w)
{
    static const table order[] = {TABLE_KEYS,   TABLE_OLD_KEYS, TABLE_HELD_KEYS, TABLE_BODIES,      TABLE_LIVE,     TABLE_LEASED,
                                  TABLE_DONE,   TABLE_FAILED,   TABLE_PAST_DONE, TABLE_PAST_FAILED, TABLE_ATTEMPTS, TABLE_RUNLOGS,
                                  TABLE_AUDITS, TABLE_CANCELS,  TABLE_SLOTTED,   TABLE_MOVES};
    my_quota_flush(w);
    if (w->schedules.count) my_schedules_flush(w);
    for (size_t i = 0; i < KEY_TABLES; i++) my_flush_table(w, order[i]);
    flush_gone(w, SQL_live_drop, &w->live_gone);
    flush_gone(w, SQL_leased_drop, &w->leased_gone);
    flush_gone(w, SQL_slotted_drop, &w->slotted_gone);
    for (size_t i = KEY_TABLES; i < sizeof order / sizeof *order; i++) my_flush_table(w, order[i]);
    if (w->limits.bounds_count || (w->f && w->f->bounds)) flush_places(w);
    my_families_flush(w);
    my_tally_flush(w);
}

void my_note_id(work *w, id_list *list, pawl_id id)
{
    if (list->count == list->room) {
        int room = list->room ? 2 * list->room : 64;
        pawl_id *grown = alloc_resize(w->s->allocator, list->ids, (size_t)room * sizeof *grown);
        if (!grown) {
            w->no_memory = true;
            return;
        }
        list->ids = grown;
        list->room = room;
    }
    list->ids[list->count++] = id;
}

/* One row as a chain of literals. */
static buf *start(work *w, table which)
{
    my_rows_begin(w, which);
    return &w->tables[which].text;
}

static void comma(buf *b) { buf_char(b, ','); }

static void number(buf *b, int64_t v)
{
    lit_int(b, v);
    comma(b);
}

static void number_or_null(buf *b, int64_t v, int64_t nothing)
{
    lit_int_or_null(b, v, nothing);
    comma(b);
}

static void last_number(buf *b, int64_t v) { lit_int(b, v); }

static void said(work *w, buf *b, const char *text)
{
    lit_clean(w->c, b, text, text ? strlen(text) : 0);
    comma(b);
}

static void text(work *w, buf *b, const char *what)
{
    lit_text(w->c, b, what);
    comma(b);
}

/* ---- live and leased ----------------------------------------------------------------------------------------------------- */

int64_t my_lane_of(int priority, int class, int32_t type_id)
{
    return ((int64_t)priority + 32768) << 36 | (int64_t) class << 32 | type_id;
}

static void live_put(work *w, const task_row *row, int32_t ready)
{
    buf *b = start(w, TABLE_LIVE);
    number(b, row->id);
    number(b, row->run_at_us);
    number(b, my_lane_of(row->priority, row->class, row->type_id));
    number_or_null(b, ready, 0);
    number(b, row->queue_id);
    number(b, row->type_id);
    number(b, row->fence);
    number(b, row->priority);
    number(b, row->class);
    number(b, row->state);
    number(b, row->level);
    number(b, row->keyed);
    number(b, row->runs);
    number(b, row->failures);
    number(b, row->interruptions);
    number(b, row->rescues);
    last_number(b, row->strikes);
    my_rows_end(w, TABLE_LIVE);
    my_count(w, row->queue_id, row->state, 1);
    if (row->run_at_us < w->now_us || w->borrowed) w->backs = true;
}

void my_live_put(work *w, const task_row *row)
{
    bool turns = my_bound_on(&w->limits, PAWL_SCOPE_TENANTS, row->queue_id) && row->state == PAWL_PENDING && !w->borrowed;
    live_put(w, row, row->state == PAWL_PENDING && !turns ? row->queue_id : 0);
    if (turns) my_note_id(w, &w->shared, row->id);
}

void my_live_put_blocked(work *w, const task_row *row) { live_put(w, row, 0); }

void my_live_drop(work *w, const task_row *row)
{
    my_note_id(w, &w->live_gone, row->id);
    if (my_ever_bounded(&w->limits, row->queue_id, row->type_id) || my_bound_known(&w->limits, PAWL_SCOPE_TENANTS, row->queue_id))
        my_note_id(w, &w->left, row->id);
    my_count(w, row->queue_id, row->state, -1);
}

void my_leased_put(work *w, const task_row *row)
{
    buf *b = start(w, TABLE_LEASED);
    number(b, row->id);
    number(b, row->leased_us);
    if (row->born_leased) buf_str(b, "NULL,");
    else number(b, row->run_at_us);
    buf_str(b, "NULL,");
    number(b, row->node);
    number(b, row->queue_id);
    number(b, row->type_id);
    number(b, row->fence);
    number(b, row->priority);
    number(b, row->class);
    number(b, row->level);
    number(b, row->keyed);
    number(b, row->strikes);
    number(b, row->runs);
    number(b, row->failures);
    number(b, row->interruptions);
    number(b, row->rescues);
    number(b, row->not_started);
    number(b, row->mark);
    last_number(b, row->cancel_asked);
    my_rows_end(w, TABLE_LEASED);
    my_count(w, row->queue_id, PAWL_LEASED, 1);
    w->granted++;
}

void my_leased_drop(work *w, const task_row *row)
{
    my_note_id(w, &w->leased_gone, row->id);
    my_count(w, row->queue_id, PAWL_LEASED, -1);
    my_lease_count(w, row->node, -1);
    if (w->spots.count) my_places_leave(w, row->id, false);
    if (!row->cancel_asked) return;
    my_put_int(w->c, row->node);
    my_put_int(w->c, row->id);
    my_add(w->c, SQL_cancel_drop);
}

/* ---- slots --------------------------------------------------------------------------------------------------------------- */

void my_slot_put(work *w, pawl_id id, int32_t type_id, pawl_bytes key, int64_t epoch)
{
    buf *b = start(w, TABLE_SLOTTED);
    number(b, id);
    number(b, type_id);
    lit_bytes(w->c, b, key);
    comma(b);
    last_number(b, epoch);
    my_rows_end(w, TABLE_SLOTTED);
}

void my_slot_drop(work *w, pawl_id id) { my_note_id(w, &w->slotted_gone, id); }

void my_live_move(work *w, pawl_id id, int64_t run_at_us)
{
    buf *b = start(w, TABLE_MOVES);
    number(b, id);
    last_number(b, run_at_us);
    my_rows_end(w, TABLE_MOVES);
}

/* ---- ends and attempts --------------------------------------------------------------------------------------------------- */

static void runlog_put(work *w, pawl_id id, int number_of, const pawl_execution *run)
{
    if (run->log.len == 0) return;
    buf *b = start(w, TABLE_RUNLOGS);
    number(b, id);
    number(b, number_of);
    number(b, w->now_us);
    lit_clean(w->c, b, run->log.data, run->log.len);
    my_rows_end(w, TABLE_RUNLOGS);
}

void my_attempt_put(work *w, const task_row *row, const pawl_execution *run)
{
    buf *b = start(w, TABLE_ATTEMPTS);
    number(b, row->id);
    number(b, row->runs + 1);
    number(b, run->outcome);
    number(b, run->started_us);
    number(b, run->finished_us);
    number(b, row->fence);
    number(b, row->node);
    number_or_null(b, run->log_lines, 0);
    said(w, b, run->code);
    lit_clean(w->c, b, run->error, run->error ? strlen(run->error) : 0);
    my_rows_end(w, TABLE_ATTEMPTS);
    runlog_put(w, row->id, row->runs + 1, run);
}

static rollup_outcome rollup_of_end(pawl_state to)
{
    return to == PAWL_SUCCEEDED ? ROLLUP_SUCCEEDED : to == PAWL_FAILED ? ROLLUP_FAILED : ROLLUP_CANCELLED;
}

static int percent_of(int percent) { return percent < 0 ? -1 : percent < 100 ? percent : 100; }

static void end_texts(work *w, buf *b, const task_row *row, const task_end *end, const pawl_execution *run, bool ran)
{
    bool kept = end->keep_progress && !ran;
    number_or_null(b, run->log_lines, 0);
    number_or_null(b, percent_of(ran ? run->progress : kept ? row->progress : -1), -1);
    said(w, b, ran ? run->progress_text : kept ? row->progress_text : NULL);
    said(w, b, run->code);
    said(w, b, run->error);
    said(w, b, end->reason);
    said(w, b, end->result_type);
    said(w, b, end->result_ref);
    lit_bytes(w->c, b, end->result);
}

void my_end_put(work *w, const task_row *row, const task_end *end)
{
    static const pawl_execution nothing = {.progress = -1};
    const pawl_execution *run = end->run ? end->run : &nothing;
    bool ran = run->outcome != PAWL_ATTEMPT_NONE;
    table which = end->to == PAWL_FAILED ? TABLE_FAILED : TABLE_DONE;
    buf *b = start(w, which);
    number(b, row->id);
    number(b, w->now_us);
    number_or_null(b, ran ? run->started_us : row->started_us, 0);
    if (ran) number(b, run->finished_us - run->started_us);
    else buf_str(b, "NULL,");
    number_or_null(b, row->born_leased ? 0 : row->leased_us, 0);
    if (row->born_leased) buf_str(b, "NULL,");
    else number(b, row->run_at_us);
    number(b, row->node);
    number(b, row->fence);
    number(b, row->runs + ran);
    number(b, row->failures);
    number(b, row->interruptions);
    number(b, row->rescues);
    number(b, end->to);
    number(b, run->outcome);
    number(b, end->level);
    number(b, (end->derived ? END_DERIVED : 0) | (row->cancel_asked ? END_CANCEL_ASKED : 0));
    end_texts(w, b, row, end, run, ran);
    my_rows_end(w, which);
    if (w->spots.count) my_places_end(w, row);
    if (ran) runlog_put(w, row->id, row->runs + 1, run);
    if (end->to == PAWL_FAILED) my_count(w, row->queue_id, PAWL_FAILED, 1);
    if (ran) my_roll_run(w, row->queue_id, row->type_id, rollup_of_end(end->to), run, row->run_at_us);
    else my_roll(w, row->queue_id, row->type_id, rollup_of_end(end->to));
    my_schedule_ended(w, row->id, end->to, row->runs + ran > 0);
    my_family_ended(w, row, end->to);
}

/* ---- the trail ----------------------------------------------------------------------------------------------------------- */

/* The rows of one fence come in the order of their steps: 0 taken back, 1 granted, 2 what became of it. */
static void audit_row(work *w, const task_row *row, int step, int64_t at_us, pawl_state from, pawl_state to, const char *detail)
{
    buf *b = start(w, TABLE_AUDITS);
    number(b, row->id);
    number(b, row->fence * 4 + step);
    number(b, at_us);
    number(b, from);
    number(b, to);
    number(b, row->fence);
    number(b, row->node);
    lit_clean(w->c, b, detail, detail ? strlen(detail) : 0);
    my_rows_end(w, TABLE_AUDITS);
}

void my_audit_put(work *w, const task_row *row, pawl_state to, const char *detail, int step)
{
    audit_row(w, row, step, w->now_us, row->state, to, detail);
}

void my_audit_grant(work *w, const task_row *row)
{
    if (!audit_wanted(row->level, AUDIT_CHANGE)) return;
    audit_row(w, row, 1, row->leased_us, row->born_leased ? PAWL_STATE_NONE : PAWL_PENDING, PAWL_LEASED, NULL);
}

void my_oplog_put(work *w, const char *who, const char *action, pawl_id id, const char *detail)
{
    if (!who) return;
    my_put_int(w->c, w->now_us);
    my_put_text(w->c, who);
    my_put_text(w->c, action);
    my_put_int_or_null(w->c, id, 0);
    my_put_text(w->c, detail);
    my_add(w->c, SQL_oplog_put);
}

/* ---- bodies -------------------------------------------------------------------------------------------------------------- */

static const char *content_type_of(const pawl_body *body)
{
    if (!body->content_type) return "";
    return strcmp(body->content_type, "application/json") == 0 ? NULL : body->content_type;
}

void my_body_put(work *w, const pawl_body *body, int32_t tenant_id, int64_t created_us, const task_row *row)
{
    buf *b = start(w, TABLE_BODIES);
    number(b, row->id);
    number(b, created_us);
    number(b, row->type_id);
    number(b, row->queue_id);
    number(b, body->priority);
    number(b, row->state);
    number(b, row->level);
    number(b, body->audit);
    number_or_null(b, tenant_id, 0);
    number_or_null(b, body->max_attempts, 0);
    number_or_null(b, body->timeout_us, 0);
    number_or_null(b, body->retry_of, 0);
    text(w, b, body->key);
    text(w, b, content_type_of(body));
    text(w, b, body->created_by);
    text(w, b, body->traceparent);
    text(w, b, body->headers);
    lit_bytes(w->c, b, body->rate_key);
    comma(b);
    lit_bytes(w->c, b, body->payload);
    my_rows_end(w, TABLE_BODIES);
}
