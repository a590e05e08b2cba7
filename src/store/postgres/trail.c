/* The trail of a task: its run logs, and its changes of state; those that have no rows are told by store/history. */
#include "store/postgres/read.h"

/* ---- logs ---------------------------------------------------------------------------------------------------------------- */

static size_t count_lines(const PGresult *answer)
{
    size_t count = 0;
    for (int i = 0; i < PQntuples(answer); i++) count += history_count_lines(PQgetvalue(answer, i, 1));
    return count;
}

static void read_logs(reading *r, pawl_trail *trail, pawl_id id)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, id);
    PGresult *answer = pg_ask(r, SQL_logs);
    pawl_log_line *lines = answer ? pg_read_alloc(r, (count_lines(answer) + 1) * sizeof *lines) : NULL;
    for (int i = 0; lines && i < PQntuples(answer); i++) {
        const char *log = PQgetvalue(answer, i, 1);
        if (!history_read_lines(r->arena, (int)wire64(answer, i, 0), log, lines + trail->lines_count)) r->no_memory = true;
        trail->lines_count += history_count_lines(log);
    }
    trail->lines = lines;
    PQclear(answer);
}

/* ---- changes ------------------------------------------------------------------------------------------------------------- */

static void add_stored(reading *r, history *h, const PGresult *answer)
{
    for (int i = 0; i < PQntuples(answer); i++) {
        if (PQgetisnull(answer, i, 0)) continue;
        history_add(h, &(pawl_audit_row){.at_us = wire64(answer, i, 0),
                                         .from = pawl_state_name((pawl_state)wire64(answer, i, 1)),
                                         .to = pawl_state_name((pawl_state)wire64(answer, i, 2)),
                                         .fence = wire64(answer, i, 3),
                                         .node_name = pg_read_text(r, answer, i, 4),
                                         .detail = pg_read_text(r, answer, i, 5)});
    }
}

static void read_changes(reading *r, pawl_trail *trail, const pawl_info *info, const info_more *more)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, info->id);
    PGresult *answer = pg_ask(r, SQL_audit);
    if (!answer) return;
    history h = {.rows = pg_read_alloc(r, (size_t)(PQntuples(answer) + HISTORY_MORE) * sizeof *h.rows), .cut_us = INT64_MIN};
    if (!PQgetisnull(answer, 0, 6)) h.cut_us = wire64(answer, 0, 6);
    if (h.rows) {
        history_begin(&h, info, more);
        add_stored(r, &h, answer);
        history_end(&h, info, more);
    }
    trail->audit = h.rows;
    trail->audit_count = h.count;
    PQclear(answer);
}

pawl_trail *pg_trail_read(reading *r, pawl_id id)
{
    info_more more;
    const pawl_info *info = pg_info_get(r, id, &more, false);
    pawl_trail *trail = info ? pg_read_alloc(r, sizeof *trail) : NULL;
    if (!trail) return NULL;
    read_logs(r, trail, id);
    read_changes(r, trail, info, &more);
    return trail;
}
