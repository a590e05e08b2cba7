/* The trail of a task: its run logs, and its changes of state; those that have no rows are told by store/history. */
#include "store/sqlite/read.h"
#include <string.h>

/* ---- logs ---------------------------------------------------------------------------------------------------------------- */

static pawl_log_line *more_lines(reading *r, pawl_trail *trail, size_t count)
{
    pawl_log_line *lines = read_alloc(r, (trail->lines_count + count + 1) * sizeof *lines);
    if (lines && trail->lines_count) memcpy(lines, trail->lines, trail->lines_count * sizeof *lines);
    return lines;
}

static void add_log(reading *r, pawl_trail *trail, int attempt, const char *text)
{
    size_t count = history_count_lines(text);
    pawl_log_line *lines = more_lines(r, trail, count);
    if (!lines) return;
    if (!history_read_lines(r->arena, attempt, text, lines + trail->lines_count)) r->no_memory = true;
    trail->lines_count += count;
    trail->lines = lines;
}

static void read_logs(reading *r, pawl_trail *trail, pawl_id id)
{
    query q = query_on(r->c, SQL_trail_logs);
    put_int(&q, id);
    while (!r->no_memory && query_row(&q)) {
        int attempt = (int)get_int(&q);
        const char *text = get_text(&q);
        if (text) add_log(r, trail, attempt, text);
    }
    query_end(&q);
}

/* ---- changes ------------------------------------------------------------------------------------------------------------- */

static void add_stored(reading *r, history *h, pawl_id id)
{
    query q = query_on(r->c, SQL_trail_audit);
    put_int(&q, id);
    while (query_row(&q)) {
        int64_t at_us = get_int(&q);
        pawl_state from = (pawl_state)get_int(&q), to = (pawl_state)get_int(&q);
        int64_t fence = get_int(&q), node = get_int(&q);
        const char *detail = read_text(r, get_text(&q));
        history_add(h, &(pawl_audit_row){.at_us = at_us,
                                         .from = pawl_state_name(from),
                                         .to = pawl_state_name(to),
                                         .fence = fence,
                                         .node_name = node_name(r, node),
                                         .detail = detail});
    }
    query_end(&q);
}

static void read_changes(reading *r, pawl_trail *trail, const pawl_info *info, const info_more *more)
{
    query q = query_on(r->c, SQL_trail_audit_count);
    put_int(&q, info->id);
    size_t stored = query_row(&q) ? (size_t)get_int(&q) : 0;
    query_end(&q);
    history h = {.rows = read_alloc(r, (stored + HISTORY_MORE) * sizeof *h.rows),
                 .cut_us = meta_int(r->c, "audit_cut_us", INT64_MIN)};
    if (!h.rows) return;
    history_begin(&h, info, more);
    add_stored(r, &h, info->id);
    history_end(&h, info, more);
    trail->audit = h.rows;
    trail->audit_count = h.count;
}

pawl_trail *trail_read(reading *r, pawl_id id)
{
    info_more more;
    const pawl_info *info = info_read(r, id, &more);
    pawl_trail *trail = info ? read_alloc(r, sizeof *trail) : NULL;
    if (!trail) return NULL;
    read_logs(r, trail, id);
    read_changes(r, trail, info, &more);
    return trail;
}
