/* Questions about families: relatives of a task or batch, and batches. */
#include "store/mysql/family.h"
#include "store/mysql/read.h"
#include <stdio.h>

/* ---- batches --------------------------------------------------------------------------------------------------------------- */

static void read_info(reading *r, const answer *a, int row, pawl_batch_info *i)
{
    i->id = get_int(a, row, 0);
    i->name = my_read_text(r, a, row, 1);
    i->within = get_int(a, row, 2);
    i->created_us = get_int(a, row, 3);
    i->closed_us = get_int(a, row, 4);
    i->ended_us = get_int(a, row, 5);
    i->state = i->ended_us ? (pawl_state)get_int(a, row, 6) : i->closed_us ? PAWL_WAITING : PAWL_PENDING;
    i->cancel_asked = get_int(a, row, 7) != 0;
    i->unfinished = get_int(a, row, 8);
    i->succeeded = get_int(a, row, 9);
    i->failed = get_int(a, row, 10);
    i->cancelled = get_int(a, row, 11);
    i->total = i->unfinished + i->succeeded + i->failed + i->cancelled;
}

static void put_which(const conn *c, buf *b, const pawl_query *query)
{
    if (query->kind == PAWL_QUERY_BATCHES) {
        buf_fmt(b, "id < %lld%s", query->id ? (long long)query->id : (long long)INT64_MAX,
                query->batch_filter->unfinished ? " AND ended_us IS NULL" : "");
    } else if (query->id) {
        buf_fmt(b, "id = %lld", (long long)query->id);
    } else {
        buf_str(b, "name = ");
        lit_bytes(c, b, (pawl_bytes){query->name, strlen(query->name)});
    }
}

bool my_batches_read(reading *r, pawl_query *query)
{
    int limit = query->kind == PAWL_QUERY_BATCHES ? query->batch_filter->limit : 1;
    buf which;
    buf_init(&which, r->s->allocator, 64 << 10);
    put_which(r->c, &which, query);
    if (which.failed) r->no_memory = true;
    my_script(r->c);
    my_put_raw(r->c, buf_text(&which), which.len);
    my_put_int(r->c, (int64_t)limit + 1);
    bool good = my_ask(r, SQL_batches);
    buf_done(&which);
    query->batches_count = 0;
    query->batches_more = false;
    if (!good || r->no_memory) return true;
    const answer *a = my_answer(r->c, SQL_batches);
    if (!(query->batches = my_read_alloc(r, ((size_t)limit + 1) * sizeof *query->batches))) return true;
    for (int i = 0; i < a->rows && i < limit; i++) read_info(r, a, i, &query->batches[query->batches_count++]);
    query->batches_more = a->rows > limit;
    return query->kind == PAWL_QUERY_BATCHES || query->batches_count > 0;
}

void my_batches_dump(reading *r, pawl_dump *d)
{
    my_script(r->c);
    my_put_int(r->c, d->after);
    my_put_int(r->c, d->limit);
    const answer *a = my_ask(r, SQL_dump_batches) ? my_answer(r->c, SQL_dump_batches) : NULL;
    int rows = a ? a->rows : 0;
    d->batches = rows ? my_read_alloc(r, (size_t)rows * sizeof *d->batches) : NULL;
    for (int i = 0; d->batches && i < rows; i++) {
        read_info(r, a, i, &d->batches[d->count]);
        d->next = d->batches[d->count++].id;
    }
    d->more = rows == d->limit;
}

/* ---- relatives ------------------------------------------------------------------------------------------------------------- */

enum { ID, STATE, IF_FAILED, NAME, CLOSED, ENDED, BATCH_STATE, TYPE, TASK_STATE, RESULT, RESULT_TYPE, RESULT_REF, ERROR };

static void read_relative(reading *r, const answer *a, int row, pawl_relative *to)
{
    int64_t edge = get_int(a, row, STATE);
    bool waits = !get_null(a, row, IF_FAILED) && (edge == EDGE_UNTOLD || edge == EDGE_HELD);
    to->id = get_int(a, row, ID);
    to->waits = waits;
    to->held = waits && edge == EDGE_HELD;
    if (waits) to->if_failed = (pawl_if_failed)get_int(a, row, IF_FAILED);
    to->batch = !get_null(a, row, NAME);
    if (to->batch) {
        to->type = my_read_text(r, a, row, NAME);
        to->state = get_int(a, row, ENDED)    ? (pawl_state)get_int(a, row, BATCH_STATE)
                    : get_int(a, row, CLOSED) ? PAWL_WAITING
                                              : PAWL_PENDING;
        return;
    }
    to->type = my_read_text(r, a, row, TYPE);
    to->state = (pawl_state)get_int(a, row, TASK_STATE);
    to->result = my_read_bytes(r, a, row, RESULT);
    to->result_type = my_read_text(r, a, row, RESULT_TYPE);
    to->result_ref = my_read_text(r, a, row, RESULT_REF);
    to->error = my_read_text(r, a, row, ERROR);
}

void my_relatives_read(reading *r, pawl_relatives_query *f)
{
    f->count = 0;
    f->more = false;
    my_script(r->c);
    my_put_int(r->c, f->of);
    my_put_int(r->c, f->after);
    my_put_int(r->c, f->relation);
    my_put_int(r->c, (int64_t)f->limit + 1);
    my_put_int(r->c, f->waited_for);
    if (!my_ask(r, SQL_relatives)) return;
    const answer *a = my_answer(r->c, SQL_relatives);
    if (!(f->relatives = my_read_alloc(r, ((size_t)f->limit + 1) * sizeof *f->relatives))) return;
    for (int i = 0; i < a->rows && i < f->limit; i++) read_relative(r, a, i, &f->relatives[f->count++]);
    f->more = a->rows > f->limit;
}
