/* sweep: one step of retention, and the end of days that are not needed any more.
 *
 * A day of pawl_done is detached concurrently, which waits for those who read it and holds up nobody, and then dropped. If that is
 * interrupted, the next sweep goes on where it was.
 */
#include "store/postgres/inner.h"
#include <stdio.h>

static void put_sweep(pg_store *s, params *p, const pawl_sweep *call)
{
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_param_int8(p, call->keep_succeeded_us);
    pg_param_int8(p, call->keep_cancelled_us);
    pg_param_int8(p, call->keep_resolved_us);
    pg_param_int8(p, call->keep_failed_us);
    pg_param_int8(p, call->keep_audit_us);
    pg_param_int8(p, call->keep_logs_us);
    pg_param_int4(p, call->limit > 0 ? call->limit : 1000);
}

static bool run(conn *c, const char *schema, const char *fmt, int64_t day)
{
    char sql[512];
    snprintf(sql, sizeof sql, fmt, schema, schema, (long long)day);
    PGresult *r = pg_conn_query(c, sql, CALL_WRITES);
    PQclear(r);
    return r != NULL;
}

static void call_with_day(conn *c, sql_name which, int64_t day)
{
    pg_params_begin(&c->params);
    pg_param_int8(&c->params, day);
    PQclear(pg_conn_call(c, which, CALL_WRITES));
}

static void drop_day(pg_store *s, conn *c, int64_t day)
{
    if (!pg_conn_ready(c)) return;
    char *schema = PQescapeIdentifier(c->pg, s->link.url.schema, strlen(s->link.url.schema));
    if (!schema) return;
    bool detached = run(c, schema, "ALTER TABLE %s.pawl_done DETACH PARTITION %s.pawl_done_%lld CONCURRENTLY", day);
    if (!detached && pg_conn_code(c, "55000"))
        detached = run(c, schema, "ALTER TABLE %s.pawl_done DETACH PARTITION %s.pawl_done_%lld FINALIZE", day);
    bool owner = detached || !pg_conn_code(c, "42501");
    if (!detached) detached = pg_conn_code(c, "42P01") || pg_conn_code(c, "42809"); /* it was, by somebody else */
    if (!owner) call_with_day(c, SQL_drop_day, day);
    else if (detached && run(c, schema, "DROP TABLE IF EXISTS %2$s.pawl_done_%3$lld", day)) call_with_day(c, SQL_day_forget, day);
    PQfreemem(schema);
}

pawl_status pg_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    PGresult *r;
    int tries = 0;
    do {
        put_sweep(s, &c->params, call);
        r = pg_conn_call(c, SQL_sweep, CALL_WRITES);
    } while (!r && pg_call_again(s, c, &tries));
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "remove old tasks from", err);
    if (r) {
        call->removed = pg_get_int(r, 0, 0);
        call->expiring = pg_get_int(r, 0, 1);
        call->more = pg_get_truth(r, 0, 2);
        call->next_us = pg_get_int(r, 0, 3);
        if (!pg_get_is_null(r, 0, 4)) drop_day(s, c, pg_get_int(r, 0, 4));
    }
    PQclear(r);
    pg_store_give(s, c);
    return status;
}
