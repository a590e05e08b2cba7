/* The trail of a task: its run logs, and its changes of state.
 *
 * Changes that can be read from the task's own rows have no audit row. They are put together here: the dispatch first, then the stored rows,
 * then grant and end of the last lease. What is older than the last sweep of the trail is left out, as a stored row would be gone.
 */
#include "store/postgres/read.h"
#include <stdlib.h>

/* ---- logs ---------------------------------------------------------------------------------------------------------------- */

/* "<us> <level digit> <text>\n" */
static void parse_line(reading *r, const char *from, const char *end, pawl_log_line *line)
{
    char *after;
    line->at_us = strtoll(from, &after, 10);
    line->level = after + 1 < end ? (pawl_level)(after[1] - '0') : PAWL_INFO;
    const char *start = after + 3 < end ? after + 3 : end;
    line->text = pawl_arena_bytes(r->arena, start, (size_t)(end - start));
    if (!line->text) r->no_memory = true;
}

static size_t count_lines(const PGresult *answer)
{
    size_t count = 0;
    for (int i = 0; i < PQntuples(answer); i++)
        for (const char *at = PQgetvalue(answer, i, 1); (at = strchr(at, '\n')); at++) count++;
    return count;
}

static void read_logs(reading *r, pawl_trail *trail, pawl_id id)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, id);
    PGresult *answer = pg_ask(r, SQL_logs);
    pawl_log_line *lines = answer ? pg_read_alloc(r, (count_lines(answer) + 1) * sizeof *lines) : NULL;
    for (int i = 0; lines && i < PQntuples(answer); i++) {
        const char *at = PQgetvalue(answer, i, 1);
        int sequence = 0;
        for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
            lines[trail->lines_count] = (pawl_log_line){.attempt = (int)wire64(answer, i, 0), .sequence = ++sequence};
            parse_line(r, at, end, &lines[trail->lines_count++]);
        }
    }
    trail->lines = lines;
    PQclear(answer);
}

/* ---- changes ------------------------------------------------------------------------------------------------------------- */

typedef struct changes {
    pawl_audit_row *rows;
    size_t count;
    int64_t cut_us; /* older ones were swept */
} changes;

static bool wanted(int level, int kind) { return level == 1 || (level == 2 && kind > 0) || (level == 3 && kind == 2); }

static void add(changes *c, int64_t at_us, pawl_state from, pawl_state to, int64_t fence, const char *node_name,
                const char *detail)
{
    if (at_us <= c->cut_us) return;
    c->rows[c->count++] = (pawl_audit_row){.at_us = at_us,
                                           .from = pawl_state_name(from),
                                           .to = pawl_state_name(to),
                                           .fence = fence,
                                           .node_name = node_name,
                                           .detail = detail};
}

static void add_stored(reading *r, changes *c, const PGresult *answer)
{
    for (int i = 0; i < PQntuples(answer); i++) {
        if (PQgetisnull(answer, i, 0)) continue;
        const char *node = pg_read_text(r, answer, i, 4), *detail = pg_read_text(r, answer, i, 5);
        add(c, wire64(answer, i, 0), (pawl_state)wire64(answer, i, 1), (pawl_state)wire64(answer, i, 2), wire64(answer, i, 3),
            node, detail);
    }
}

static bool has_lease(const pawl_info *info, const info_more *more)
{
    return info->state == PAWL_LEASED || (more->flags & END_DERIVED && info->node);
}

static int kind_of_end(const pawl_info *info, const info_more *more)
{
    if (info->state == PAWL_FAILED) return 2;
    return more->outcome != PAWL_ATTEMPT_NONE;
}

static void add_all(reading *r, changes *c, const pawl_info *info, const info_more *more, const PGresult *answer)
{
    bool full = wanted(more->level, 0), leased = has_lease(info, more);
    bool born_leased = more->born == PAWL_LEASED && info->fence == 1 && leased;
    if (full && more->born == PAWL_PENDING) add(c, info->created_us, PAWL_STATE_NONE, PAWL_PENDING, 0, NULL, NULL);
    add_stored(r, c, answer);
    if (full && leased)
        add(c, more->leased_us, born_leased ? PAWL_STATE_NONE : PAWL_PENDING, PAWL_LEASED, info->fence, info->node_name, NULL);
    if (!(more->flags & END_DERIVED) || !wanted(more->end_level, kind_of_end(info, more))) return;
    const char *detail = info->state != PAWL_FAILED ? NULL : info->error ? info->error : info->reason;
    add(c, info->finished_us, info->node ? PAWL_LEASED : PAWL_PENDING, info->state, info->fence, info->node_name, detail);
}

static void read_changes(reading *r, pawl_trail *trail, const pawl_info *info, const info_more *more)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, info->id);
    PGresult *answer = pg_ask(r, SQL_audit);
    if (!answer) return;
    changes c = {.rows = pg_read_alloc(r, (size_t)(PQntuples(answer) + 3) * sizeof *c.rows), .cut_us = INT64_MIN};
    if (!PQgetisnull(answer, 0, 6)) c.cut_us = wire64(answer, 0, 6);
    if (c.rows) add_all(r, &c, info, more, answer);
    trail->audit = c.rows;
    trail->audit_count = c.count;
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
