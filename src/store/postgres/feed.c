/* The feed: what nodes tell of what they do, while somebody listens. See pawl_feed in pawl/store.h and functions/feed.sql. */
#include "base/error.h"
#include "store/postgres/read.h"

pawl_status pg_feed(pawl_store *store, pawl_feed *call, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    params *p = &c->params;
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_param_int8(p, call->listen_us);
    pg_param_text(p, call->facts);
    pg_param_int4(p, call->count);
    pg_param_int8(p, PAWL_FEED_KEPT);
    PGresult *r = pg_conn_call(c, SQL_feed, CALL_WRITES | CALL_BINARY);
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "tell what happened in", err);
    if (r) {
        call->last = wire64(r, 0, 0);
        call->broken = wire64(r, 0, 1);
        call->left_us = wire64(r, 0, 2);
        if (call->left_us > 0) pg_watch_feed_heard(s);
        if (wire32(r, 0, 3)) pg_watch_tell(s, c, "*", true);
    }
    PQclear(r);
    pg_store_give(s, c);
    return status;
}

pawl_status pg_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    params *p = &c->params;
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_param_int4(p, (int32_t)node);
    pg_param_bool(p, on);
    pg_param_text(p, by);
    PGresult *r = pg_conn_call(c, SQL_drain, CALL_WRITES | CALL_BINARY);
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "drain a node of", err);
    if (r && wire32(r, 0, 0)) pg_watch_tell(s, c, "*", true);
    else if (r) status = err_set(err, PAWL_NOT_FOUND, "no node %lld lives", (long long)node);
    if (r) pg_watch_feed_heard(s); /* if it is this one */
    PQclear(r);
    pg_store_give(s, c);
    return status;
}

void pg_feed_read(reading *r, pawl_query *query)
{
    query->draining = -1;
    if (query->limit <= 0 && !pg_watch_feed(r->s)) return; /* nobody does, or it would have been heard */
    const pawl_clock *test = postgres_test_clock ? postgres_test_clock(&r->s->clock) : NULL;
    pg_params_begin(&r->c->params);
    if (test) pg_param_int8(&r->c->params, test->wall_us(test->ctx));
    else pg_param_null(&r->c->params);
    pg_param_int4(&r->c->params, (int32_t)query->id);
    PGresult *answer = pg_ask(r, SQL_feed_head);
    if (!answer) return;
    query->feed = (pawl_feed){.last = wire64(answer, 0, 0), .broken = wire64(answer, 0, 1), .left_us = wire64(answer, 0, 2)};
    query->draining = wire32(answer, 0, 3);
    PQclear(answer);
    if (query->feed.left_us > 0) pg_watch_feed_heard(r->s);
    if (query->limit <= 0) return;
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, query->before);
    pg_param_int8(&r->c->params, query->limit);
    if (!(answer = pg_ask(r, SQL_feed_list))) return;
    int rows = PQntuples(answer);
    query->feed_rows = pg_read_alloc(r, (size_t)(rows + 1) * sizeof *query->feed_rows);
    for (int i = 0; query->feed_rows && i < rows; i++)
        query->feed_rows[query->feed_rows_count++] =
            (pawl_feed_row){.last = wire64(answer, i, 0), .count = wire32(answer, i, 1), .facts = pg_read_text(r, answer, i, 2)};
    PQclear(answer);
}
