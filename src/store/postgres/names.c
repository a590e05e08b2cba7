/* Fetching names into the cache. */
#include "store/postgres/names.h"

static bool pg_ask(interned *n, conn *c, sql_name which)
{
    PGresult *r = pg_conn_call(c, which, which == SQL_names ? CALL_WRITES : CALL_READS);
    if (!r && c->status == PAWL_UNKNOWN) c->status = PAWL_UNAVAILABLE; /* a name more or less does no harm */
    if (!r) return false;
    bool whole = true;
    interned_open(n);
    interned_expect(n, (size_t)PQntuples(r));
    for (int i = 0; i < PQntuples(r) && whole; i++) whole = interned_put(n, (int32_t)pg_get_int(r, i, 0), pg_get_text(r, i, 1));
    interned_close(n);
    PQclear(r);
    if (!whole) pg_conn_no_memory(c);
    return whole;
}

bool pg_names_fetch(interned *n, conn *c, const char *const *texts, int count)
{
    params *p = &c->params;
    bool missing = false;
    pg_params_begin(p);
    pg_array_begin(p, OID_TEXT);
    interned_open(n);
    for (int i = 0; i < count; i++) {
        if (!texts[i] || interned_id(n, texts[i])) continue;
        if (i > 0 && texts[i - 1] && strcmp(texts[i], texts[i - 1]) == 0) continue;
        missing = true;
        pg_array_text(p, texts[i]);
    }
    interned_close(n);
    pg_array_end(p);
    return !missing || pg_ask(n, c, SQL_names);
}

bool pg_names_fetch_ids(interned *n, conn *c, const int32_t *ids, int count)
{
    params *p = &c->params;
    bool missing = false;
    pg_params_begin(p);
    pg_array_begin(p, OID_INT4);
    interned_open(n);
    for (int i = 0; i < count; i++) {
        if (!ids[i] || interned_text(n, ids[i])) continue;
        missing = true;
        array_int4(p, ids[i]);
    }
    interned_close(n);
    pg_array_end(p);
    return !missing || pg_ask(n, c, SQL_texts);
}
