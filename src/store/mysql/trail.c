/* The trail of a task: its run logs, and its changes of state; those that have no rows are told by store/history. */
#include "store/mysql/read.h"

/* ---- logs ---------------------------------------------------------------------------------------------------------------- */

static size_t count_lines(const answer *a)
{
    size_t count = 0;
    for (int i = 0; i < a->rows; i++) count += history_count_lines(get_text(a, i, 1));
    return count;
}

static void read_logs(reading *r, pawl_trail *trail, pawl_id id)
{
    my_script(r->c);
    my_put_int(r->c, id);
    const answer *a = my_ask(r, SQL_logs) ? my_answer(r->c, SQL_logs) : NULL;
    pawl_log_line *lines = a ? my_read_alloc(r, (count_lines(a) + 1) * sizeof *lines) : NULL;
    for (int i = 0; lines && i < a->rows; i++) {
        const char *log = get_text(a, i, 1);
        if (!history_read_lines(r->arena, (int)get_int(a, i, 0), log, lines + trail->lines_count)) r->no_memory = true;
        trail->lines_count += history_count_lines(log);
    }
    trail->lines = lines;
}

/* ---- changes ------------------------------------------------------------------------------------------------------------- */

static void add_stored(reading *r, history *h, const answer *a)
{
    for (int i = 0; i < a->rows; i++)
        history_add(h, &(pawl_audit_row){.at_us = get_int(a, i, 0),
                                         .from = pawl_state_name((pawl_state)get_int(a, i, 1)),
                                         .to = pawl_state_name((pawl_state)get_int(a, i, 2)),
                                         .fence = get_int(a, i, 3),
                                         .node_name = my_read_text(r, a, i, 4),
                                         .detail = my_read_text(r, a, i, 5)});
}

static void read_changes(reading *r, pawl_trail *trail, const pawl_info *info, const info_more *more)
{
    my_script(r->c);
    my_add(r->c, SQL_audit_cut);
    my_put_int(r->c, info->id);
    if (!my_ask(r, SQL_audit)) return;
    const answer *a = my_answer(r->c, SQL_audit), *cut = my_answer(r->c, SQL_audit_cut);
    history h = {.rows = my_read_alloc(r, (size_t)(a->rows + HISTORY_MORE) * sizeof *h.rows), .cut_us = INT64_MIN};
    if (cut->rows > 0) h.cut_us = get_int(cut, 0, 0);
    if (h.rows) {
        history_begin(&h, info, more);
        add_stored(r, &h, a);
        history_end(&h, info, more);
    }
    trail->audit = h.rows;
    trail->audit_count = h.count;
}

pawl_trail *my_trail_read(reading *r, pawl_id id)
{
    info_more more;
    const pawl_info *info = my_info_get(r, id, &more, false);
    pawl_trail *trail = info ? my_read_alloc(r, sizeof *trail) : NULL;
    if (!trail) return NULL;
    read_logs(r, trail, id);
    read_changes(r, trail, info, &more);
    return trail;
}
