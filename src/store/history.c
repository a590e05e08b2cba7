#include "store/history.h"
#include <stdlib.h>
#include <string.h>

bool audit_wanted(int level, audit_kind kind)
{
    switch (level) {
    case PAWL_AUDIT_FULL: return true;
    case PAWL_AUDIT_MINIMAL: return kind != AUDIT_CHANGE;
    case PAWL_AUDIT_ERRORS: return kind == AUDIT_TROUBLE;
    default: return false;
    }
}

bool history_last_attempt(const pawl_info *info, const info_more *more, pawl_attempt *out)
{
    *out = (pawl_attempt){.number = info->attempt,
                          .started_us = info->started_us,
                          .fence = info->fence,
                          .node = info->node,
                          .node_name = info->node_name};
    if (info->state == PAWL_LEASED && !more->not_started) {
        out->outcome = pawl_attempt_outcome_name(PAWL_ATTEMPT_RUNNING);
        return true;
    }
    if (more->outcome == PAWL_ATTEMPT_NONE) return false;
    out->outcome = pawl_attempt_outcome_name(more->outcome);
    out->finished_us = info->started_us + more->run_us;
    out->code = info->code;
    out->error = info->error;
    out->log_lines = more->log_lines;
    return true;
}

/* ---- changes of state ------------------------------------------------------------------------------------------------------ */

void history_add(history *h, const pawl_audit_row *row)
{
    if (row->at_us > h->cut_us) h->rows[h->count++] = *row;
}

static bool has_lease(const pawl_info *info, const info_more *more)
{
    return info->state == PAWL_LEASED || (more->flags & END_DERIVED && info->node);
}

static audit_kind kind_of_end(const pawl_info *info, const info_more *more)
{
    if (info->state == PAWL_FAILED) return AUDIT_TROUBLE;
    return more->outcome == PAWL_ATTEMPT_NONE ? AUDIT_CHANGE : AUDIT_RUN_END;
}

void history_begin(history *h, const pawl_info *info, const info_more *more)
{
    if (!audit_wanted(more->level, AUDIT_CHANGE) || (more->born != PAWL_PENDING && more->born != PAWL_WAITING)) return;
    history_add(h, &(pawl_audit_row){
                       .at_us = info->created_us, .from = pawl_state_name(PAWL_STATE_NONE), .to = pawl_state_name(more->born)});
}

void history_end(history *h, const pawl_info *info, const info_more *more)
{
    bool leased = has_lease(info, more), born_leased = more->born == PAWL_LEASED && info->fence == 1 && leased;
    pawl_audit_row grant = {.at_us = more->leased_us,
                            .from = pawl_state_name(born_leased ? PAWL_STATE_NONE : PAWL_PENDING),
                            .to = pawl_state_name(PAWL_LEASED),
                            .fence = info->fence,
                            .node_name = info->node_name};
    pawl_audit_row end = {.at_us = info->finished_us,
                          .from = pawl_state_name(info->node ? PAWL_LEASED : PAWL_PENDING),
                          .to = pawl_state_name(info->state),
                          .fence = info->fence,
                          .node_name = info->node_name};
    if (info->state == PAWL_FAILED) end.detail = info->error ? info->error : info->reason;
    if (leased && audit_wanted(more->level, AUDIT_CHANGE)) history_add(h, &grant);
    if (more->flags & END_DERIVED && audit_wanted(more->end_level, kind_of_end(info, more))) history_add(h, &end);
}

/* ---- logs ------------------------------------------------------------------------------------------------------------------ */

size_t history_count_lines(const char *log)
{
    size_t count = 0;
    for (; (log = strchr(log, '\n')); log++) count++;
    return count;
}

static bool read_line(pawl_arena *arena, const char *from, const char *end, pawl_log_line *line)
{
    char *after;
    line->at_us = strtoll(from, &after, 10);
    line->level = after + 1 < end ? (pawl_level)(after[1] - '0') : PAWL_INFO;
    if (line->level < PAWL_DEBUG || line->level > PAWL_ERROR) line->level = PAWL_INFO;
    const char *start = after + 3 < end ? after + 3 : end;
    line->text = pawl_arena_bytes(arena, start, (size_t)(end - start));
    return line->text != NULL;
}

bool history_read_lines(pawl_arena *arena, int attempt, const char *log, pawl_log_line *out)
{
    int sequence = 0;
    for (const char *end; (end = strchr(log, '\n')); log = end + 1, out++) {
        *out = (pawl_log_line){.attempt = attempt, .sequence = ++sequence};
        if (!read_line(arena, log, end, out)) return false;
    }
    return true;
}
