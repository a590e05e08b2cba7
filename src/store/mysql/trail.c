/* The trail of a task: its run logs, and its changes of state.
 *
 * Changes that can be read from the task's own rows have no audit row. They are put together here: the dispatch first, then the stored rows,
 * then grant and end of the last lease. What is older than the last sweep of the trail is left out, as a stored row would be gone.
 */
#include "store/mysql/read.h"
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

static size_t count_lines(const answer *a)
{
    size_t count = 0;
    for (int i = 0; i < a->rows; i++)
        for (const char *at = get_text(a, i, 1); (at = strchr(at, '\n')); at++) count++;
    return count;
}

static void read_logs(reading *r, pawl_trail *trail, pawl_id id)
{
    my_script(r->c);
    my_put_int(r->c, id);
    const answer *a = my_ask(r, SQL_logs) ? my_answer(r->c, SQL_logs) : NULL;
    pawl_log_line *lines = a ? my_read_alloc(r, (count_lines(a) + 1) * sizeof *lines) : NULL;
    for (int i = 0; lines && i < a->rows; i++) {
        const char *at = get_text(a, i, 1);
        int sequence = 0;
        for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
            lines[trail->lines_count] = (pawl_log_line){.attempt = (int)get_int(a, i, 0), .sequence = ++sequence};
            parse_line(r, at, end, &lines[trail->lines_count++]);
        }
    }
    trail->lines = lines;
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

static void add_stored(reading *r, changes *c, const answer *a)
{
    for (int i = 0; i < a->rows; i++) {
        const char *node = my_read_text(r, a, i, 4), *detail = my_read_text(r, a, i, 5);
        add(c, get_int(a, i, 0), (pawl_state)get_int(a, i, 1), (pawl_state)get_int(a, i, 2), get_int(a, i, 3), node, detail);
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

static void add_all(reading *r, changes *c, const pawl_info *info, const info_more *more, const answer *stored)
{
    bool full = wanted(more->level, 0), leased = has_lease(info, more);
    bool born_leased = more->born == PAWL_LEASED && info->fence == 1 && leased;
    if (full && more->born == PAWL_PENDING) add(c, info->created_us, PAWL_STATE_NONE, PAWL_PENDING, 0, NULL, NULL);
    add_stored(r, c, stored);
    if (full && leased)
        add(c, more->leased_us, born_leased ? PAWL_STATE_NONE : PAWL_PENDING, PAWL_LEASED, info->fence, info->node_name, NULL);
    if (!(more->flags & END_DERIVED) || !wanted(more->end_level, kind_of_end(info, more))) return;
    const char *detail = info->state != PAWL_FAILED ? NULL : info->error ? info->error : info->reason;
    add(c, info->finished_us, info->node ? PAWL_LEASED : PAWL_PENDING, info->state, info->fence, info->node_name, detail);
}

static void read_changes(reading *r, pawl_trail *trail, const pawl_info *info, const info_more *more)
{
    my_script(r->c);
    my_add(r->c, SQL_audit_cut);
    my_put_int(r->c, info->id);
    if (!my_ask(r, SQL_audit)) return;
    const answer *a = my_answer(r->c, SQL_audit), *cut = my_answer(r->c, SQL_audit_cut);
    changes c = {.rows = my_read_alloc(r, (size_t)(a->rows + 3) * sizeof *c.rows), .cut_us = INT64_MIN};
    if (cut->rows > 0) c.cut_us = get_int(cut, 0, 0);
    if (c.rows) add_all(r, &c, info, more, a);
    trail->audit = c.rows;
    trail->audit_count = c.count;
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
