/* Looking at schedules: what is due, one with its occurrences, lists.
 *
 * Heads are read first, then the definitions of those that are told: a schedule that changed in between has another version by then, so
 * whoever goes on from what it read here is refused.
 */
#include "store/mysql/read.h"
#include "store/mysql/schedule.h"

enum { HEAD = 22 }; /* columns of a head; SQL_schedules_due has the length of the payload behind it */

static int64_t now_of(reading *r)
{
    const pawl_clock *test = my_test_clock(r->s);
    my_script(r->c);
    if (!my_ask(r, SQL_server_now)) return 0;
    return test ? test->wall_us(test->ctx) : get_int(my_answer(r->c, SQL_server_now), 0, 0);
}

static void read_head(reading *r, const answer *a, int i, pawl_schedule_row *out)
{
    int at = 1;
    out->name = my_read_text(r, a, i, at++);
    out->after = my_read_text(r, a, i, at++);
    out->version = get_int(a, i, at++);
    out->off = (pawl_off)get_int(a, i, at++);
    out->reason = my_read_text(r, a, i, at++);
    int64_t *const times[] = {&out->anchor_us, &out->next_us, &out->occurrence_us, &out->last_us, &out->look_us};
    for (size_t k = 0; k < sizeof times / sizeof *times; k++) *times[k] = get_int(a, i, at++);
    out->watch = get_int(a, i, at++) != 0;
    int64_t *const counts[] = {&out->runs, &out->fired,   &out->skipped,   &out->succeeded,  &out->failed,
                               &out->open, &out->waiting, &out->last_task, &out->created_us, &out->changed_us};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) *counts[k] = get_int(a, i, at++);
    out->spec = "";
}

/* ---- what belongs to them ------------------------------------------------------------------------------------------------ */

static void read_occurrences(reading *r, const answer *a, pawl_schedule_row *out)
{
    if (!(out->occurrences = my_read_alloc(r, ((size_t)a->rows + 1) * sizeof *out->occurrences))) return;
    for (int i = 0; i < a->rows; i++)
        out->occurrences[out->occurrences_count++] = (pawl_occurrence){.occurrence = get_int(a, i, 0),
                                                                       .state = (pawl_occurrence_state)get_int(a, i, 1),
                                                                       .at_us = get_int(a, i, 2),
                                                                       .task = get_int(a, i, 3),
                                                                       .count = get_int(a, i, 4),
                                                                       .why = my_read_text(r, a, i, 5)};
}

static pawl_schedule_row *row_of(pawl_schedule_row *rows, const pawl_id *ids, int count, int64_t id)
{
    for (int i = 0; i < count; i++)
        if (ids[i] == id) return &rows[i];
    return NULL;
}

/* Definitions, and what waits if that is wanted; ids are in the order of the rows. */
static void complete(reading *r, pawl_schedule_row *rows, const pawl_id *ids, int count, bool waiting)
{
    if (count == 0 || r->failed || r->no_memory) return;
    my_script(r->c);
    my_add_ids(r->c, SQL_schedule_bodies, ids, count);
    for (int i = 0; i < count && waiting; i++) {
        if (rows[i].waiting == 0) continue;
        my_put_int(r->c, ids[i]);
        my_add(r->c, SQL_occurrences_waiting);
    }
    if (!my_send(r->c, CALL_READS)) {
        r->failed = true;
        return;
    }
    EACH_ANSWER(a, r->c, SQL_schedule_bodies)
    for (int i = 0; i < a->rows; i++) {
        pawl_schedule_row *row = row_of(rows, ids, count, get_int(a, i, 0));
        if (!row) continue;
        row->spec = my_read_text(r, a, i, 1);
        row->payload = my_read_bytes(r, a, i, 2);
    }
    EACH_ANSWER(a, r->c, SQL_occurrences_waiting)
    {
        pawl_schedule_row *row = a->rows > 0 ? row_of(rows, ids, count, get_int(a, 0, 6)) : NULL;
        if (row) read_occurrences(r, a, row);
    }
}

static pawl_id *heads(reading *r, const answer *a, int count, pawl_schedule_row **rows)
{
    pawl_id *ids = my_read_alloc(r, ((size_t)count + 1) * sizeof *ids);
    *rows = my_read_alloc(r, ((size_t)count + 1) * sizeof **rows);
    for (int i = 0; ids && *rows && i < count; i++) {
        ids[i] = get_int(a, i, 0);
        read_head(r, a, i, &(*rows)[i]);
    }
    return *rows ? ids : NULL;
}

/* ---- questions ----------------------------------------------------------------------------------------------------------- */

static void due_read(reading *r, pawl_due *due, int64_t now_us)
{
    size_t bytes = 0;
    int count = 0;
    due->now_us = now_us;
    due->count = 0;
    due->next_us = 0;
    due->more = false;
    my_script(r->c);
    my_put_int(r->c, (int64_t)due->limit + 1);
    if (!my_ask(r, SQL_schedules_due)) return;
    const answer *a = my_answer(r->c, SQL_schedules_due);
    for (; count < a->rows && !due->more; count++) {
        int64_t look_us = get_int(a, count, 10);
        if (look_us > now_us) due->next_us = look_us;
        else due->more = count == due->limit || (count > 0 && bytes >= due->bytes);
        if (due->next_us || due->more) break;
        bytes += (size_t)get_int(a, count, HEAD);
    }
    const pawl_id *ids = heads(r, a, count, &due->rows);
    if (!ids) return;
    due->count = count;
    complete(r, due->rows, ids, count, true);
}

static void list_read(reading *r, pawl_query *query)
{
    const pawl_schedule_filter *f = query->schedule_filter;
    const char *prefix = f->prefix ? f->prefix : "", *cursor = f->cursor ? f->cursor : "";
    const char *which = f->enabled && f->off ? "FALSE" : f->enabled ? "s.off = 0" : f->off ? "s.off <> 0" : "TRUE";
    my_script(r->c);
    my_put_bytes(r->c, (pawl_bytes){prefix, strlen(prefix)});
    my_put_bytes(r->c, (pawl_bytes){cursor, strlen(cursor)});
    my_put_raw(r->c, which, strlen(which));
    my_put_int(r->c, (int64_t)f->limit + 1);
    query->schedules_count = 0;
    query->schedules_more = false;
    if (!my_ask(r, SQL_schedules_list)) return;
    const answer *a = my_answer(r->c, SQL_schedules_list);
    query->schedules_more = a->rows > f->limit;
    query->schedules_count = query->schedules_more ? f->limit : a->rows;
    const pawl_id *ids = heads(r, a, query->schedules_count, &query->schedules);
    if (ids) complete(r, query->schedules, ids, query->schedules_count, false);
}

static bool one_read(reading *r, pawl_query *query)
{
    my_script(r->c);
    my_put_bytes(r->c, (pawl_bytes){query->name, strlen(query->name)});
    if (!my_ask(r, SQL_schedule_one)) return true;
    const answer *a = my_answer(r->c, SQL_schedule_one);
    if (a->rows == 0) return false;
    const pawl_id *ids = heads(r, a, query->schedules_count = 1, &query->schedules);
    if (!ids) return true;
    complete(r, query->schedules, ids, 1, false);
    my_script(r->c);
    my_put_int(r->c, ids[0]);
    if (my_ask(r, SQL_occurrences_list)) read_occurrences(r, my_answer(r->c, SQL_occurrences_list), query->schedules);
    return true;
}

bool my_schedules_read(reading *r, pawl_query *query)
{
    query->now_us = now_of(r);
    if (query->kind == PAWL_QUERY_SCHEDULE) return one_read(r, query);
    if (query->kind == PAWL_QUERY_DUE) due_read(r, query->due, query->now_us);
    else list_read(r, query);
    return true;
}

/* ---- for another store --------------------------------------------------------------------------------------------------- */

#define DUMP_MOST 100

void my_schedules_dump(reading *r, pawl_dump *d)
{
    int limit = d->limit < DUMP_MOST ? d->limit : DUMP_MOST;
    my_script(r->c);
    my_put_int(r->c, d->after);
    my_put_int(r->c, limit);
    if (!my_ask(r, SQL_dump_schedules)) return;
    const answer *a = my_answer(r->c, SQL_dump_schedules);
    int count = a->rows;
    const pawl_id *ids = heads(r, a, count, &d->schedules);
    if (!ids || count == 0) return;
    complete(r, d->schedules, ids, count, false);
    my_script(r->c);
    for (int i = 0; i < count; i++) {
        my_put_int(r->c, ids[i]);
        my_add(r->c, SQL_dump_occurrences);
    }
    if (r->failed || r->no_memory || !my_send(r->c, CALL_READS)) {
        r->failed = true;
        return;
    }
    EACH_ANSWER(o, r->c, SQL_dump_occurrences)
    {
        pawl_schedule_row *row = o->rows > 0 ? row_of(d->schedules, ids, count, get_int(o, 0, 6)) : NULL;
        if (row) read_occurrences(r, o, row);
    }
    d->count = count;
    d->next = ids[count - 1];
    d->more = count == limit;
}
