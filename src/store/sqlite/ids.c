/* Node numbers for ids.
 *
 * The row of a number names its owner and keeps a ceiling: the owner makes ids of milliseconds between floor and ceiling only.
 * A new owner starts above the ceiling it found, so no id is made twice, whatever clocks, stopped processes and lapsed
 * heartbeats do.
 */
#include "base/error.h"
#include "base/idgen.h"
#include "store/sqlite/inner.h"

static const char what[] = "take ids from";

typedef struct number_row {
    int64_t node, floor_ms, ceiling_ms;
} number_row;

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static bool number_get(tx *t, int number, number_row *row)
{
    query q = query_on(t->c, SQL_number_get);
    put_int(&q, number);
    bool found = query_row(&q);
    if (found) {
        row->node = get_int(&q);
        row->floor_ms = get_int(&q);
        row->ceiling_ms = get_int(&q);
    }
    query_end(&q);
    return found;
}

static void number_put(tx *t, int number, const number_row *row)
{
    query q = query_on(t->c, SQL_number_put);
    put_int(&q, number);
    put_int(&q, row->node);
    put_int(&q, row->floor_ms);
    put_int(&q, row->ceiling_ms);
    query_run(&q);
}

static int64_t now_ms(const tx *t) { return t->now_us / 1000 - PAWL_EPOCH_MS; }

static int last_number(tx *t)
{
    query q = query_on(t->c, SQL_number_last);
    int last = query_row(&q) ? (int)get_int(&q) : ID_NUMBER_MAX;
    query_end(&q);
    return last;
}

/* The free number with the lowest ceiling; one that was never used has ceiling 0. 0: all are in use. */
static int free_number(tx *t, int64_t *ceiling_ms)
{
    query q = query_on(t->c, SQL_number_free);
    put_int(&q, now_ms(t));
    int number = 0, last = last_number(t);
    *ceiling_ms = 0;
    if (query_row(&q)) {
        number = (int)get_int(&q);
        *ceiling_ms = get_int(&q);
    }
    query_end(&q);
    if ((number && *ceiling_ms <= 0) || last >= ID_NUMBER_MAX) return number;
    *ceiling_ms = 0;
    return last + 1;
}

static void answer(pawl_ids *call, int number, const number_row *row)
{
    call->out_number = number;
    call->floor_ms = row->floor_ms;
    call->ceiling_ms = row->ceiling_ms;
}

static bool take(tx *t, pawl_ids *call)
{
    number_row row = {.node = call->node};
    int number = free_number(t, &row.floor_ms);
    if (!number) return false;
    if (CANARY(IDS_REUSED)) row.floor_ms = 0;
    row.ceiling_ms = later(later(now_ms(t), call->used_ms), row.floor_ms) + call->ahead_ms;
    number_put(t, number, &row);
    answer(call, number, &row);
    return true;
}

static void give_back(tx *t, pawl_ids *call, number_row *row)
{
    row->node = 0;
    if (call->used_ms < row->ceiling_ms) row->ceiling_ms = later(call->used_ms, row->floor_ms);
    number_put(t, call->number, row);
    answer(call, call->number, row);
}

static void raise_ceiling(tx *t, pawl_ids *call, number_row *row)
{
    row->ceiling_ms = later(row->ceiling_ms, later(later(now_ms(t), call->used_ms), row->floor_ms) + call->ahead_ms);
    number_put(t, call->number, row);
    answer(call, call->number, row);
}

pawl_status sqlite_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err)
{
    tx t;
    pawl_status status = tx_begin((sqlite_store *)store, &t, what, err);
    if (status) return status;
    number_row row;
    bool own = call->number && number_get(&t, call->number, &row) && row.node == call->node, got = true;
    if (own && call->give_back) give_back(&t, call, &row);
    else if (own) raise_ceiling(&t, call, &row);
    else if (call->give_back) call->out_number = 0;
    else got = take(&t, call);
    if (got) return tx_commit(&t, what, false, err);
    status = tx_abort(&t, what, err);
    if (status) return status;
    return err_set(err, PAWL_UNAVAILABLE,
                   "could not take ids from \"%s\": all %d node numbers are in use; one becomes free when a process "
                   "stops, or ten minutes after it was last used",
                   t.s->path, ID_NUMBER_MAX);
}
