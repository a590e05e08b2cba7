/* The trail of a task: its run logs, and its changes of state.
 *
 * Changes that can be read from the task's own rows have no audit row (see task.c). They are put together here: the dispatch
 * first, then the stored rows, then grant and end of the last lease. What is older than the last sweep of the trail is left
 * out, as a stored row would be gone.
 */
#include "store/sqlite/read.h"
#include <stdlib.h>
#include <string.h>

/* ---- logs ---------------------------------------------------------------------------------------------------------------- */

/* "<us> <level digit> <text>\n" */
static void parse_line(reading *r, const char *from, const char *end, pawl_log_line *line)
{
    char *after;
    line->at_us = strtoll(from, &after, 10);
    line->level = after + 1 < end ? (pawl_level)(after[1] - '0') : PAWL_INFO;
    if (line->level < PAWL_DEBUG || line->level > PAWL_ERROR) line->level = PAWL_INFO;
    const char *start = after + 3 < end ? after + 3 : end;
    line->text = pawl_arena_bytes(r->arena, start, (size_t)(end - start));
    if (!line->text) r->no_memory = true;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; (text = strchr(text, '\n')); text++) count++;
    return count;
}

static pawl_log_line *more_lines(reading *r, pawl_trail *trail, size_t count)
{
    pawl_log_line *lines = read_alloc(r, (trail->lines_count + count + 1) * sizeof *lines);
    if (lines && trail->lines_count) memcpy(lines, trail->lines, trail->lines_count * sizeof *lines);
    return lines;
}

static void add_log(reading *r, pawl_trail *trail, int attempt, const char *text)
{
    pawl_log_line *lines = more_lines(r, trail, count_lines(text));
    if (!lines) return;
    int sequence = 1;
    for (const char *newline; (newline = strchr(text, '\n')); text = newline + 1, sequence++) {
        lines[trail->lines_count] = (pawl_log_line){.attempt = attempt, .sequence = sequence};
        parse_line(r, text, newline, &lines[trail->lines_count++]);
    }
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

typedef struct changes {
    reading *r;
    pawl_audit_row *rows;
    size_t count;
    int64_t cut_us; /* older ones were swept */
} changes;

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

static void add_stored(changes *c, pawl_id id)
{
    reading *r = c->r;
    query q = query_on(r->c, SQL_trail_audit);
    put_int(&q, id);
    while (query_row(&q)) {
        int64_t at_us = get_int(&q);
        pawl_state from = (pawl_state)get_int(&q), to = (pawl_state)get_int(&q);
        int64_t fence = get_int(&q), node = get_int(&q);
        const char *detail = read_text(r, get_text(&q));
        add(c, at_us, from, to, fence, node_name(r, node), detail);
    }
    query_end(&q);
}

static bool has_lease(const pawl_info *info, const info_more *more)
{
    return info->state == PAWL_LEASED || (more->flags & END_DERIVED && info->node);
}

static bool born_under_this_lease(const pawl_info *info, const info_more *more)
{
    return more->born == PAWL_LEASED && info->fence == 1 && has_lease(info, more);
}

static audit_kind kind_of_end(const pawl_info *info, const info_more *more)
{
    if (info->state == PAWL_FAILED) return AUDIT_TROUBLE;
    return more->outcome == PAWL_ATTEMPT_NONE ? AUDIT_CHANGE : AUDIT_RUN_END;
}

static void add_all(changes *c, const pawl_info *info, const info_more *more)
{
    bool full = audit_wanted(more->level, AUDIT_CHANGE), born_leased = born_under_this_lease(info, more);
    if (full && (more->born == PAWL_PENDING || more->born == PAWL_WAITING))
        add(c, info->created_us, PAWL_STATE_NONE, more->born, 0, NULL, NULL);
    add_stored(c, info->id);
    if (full && has_lease(info, more))
        add(c, more->leased_us, born_leased ? PAWL_STATE_NONE : PAWL_PENDING, PAWL_LEASED, info->fence, info->node_name, NULL);
    if (!(more->flags & END_DERIVED) || !audit_wanted(more->end_level, kind_of_end(info, more))) return;
    const char *detail = info->state != PAWL_FAILED ? NULL : info->error ? info->error : info->reason;
    add(c, info->finished_us, info->node ? PAWL_LEASED : PAWL_PENDING, info->state, info->fence, info->node_name, detail);
}

static void read_changes(reading *r, pawl_trail *trail, const pawl_info *info, const info_more *more)
{
    query q = query_on(r->c, SQL_trail_audit_count);
    put_int(&q, info->id);
    size_t stored = query_row(&q) ? (size_t)get_int(&q) : 0;
    query_end(&q);
    changes c = {
        .r = r, .rows = read_alloc(r, (stored + 3) * sizeof *c.rows), .cut_us = meta_int(r->c, "audit_cut_us", INT64_MIN)};
    if (!c.rows) return;
    add_all(&c, info, more);
    trail->audit = c.rows;
    trail->audit_count = c.count;
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
