/* One task as pawl_info, from a row of the statement `tasks`. */
#include "store/mysql/read.h"

enum { /* columns of read.sql */
       ID,
       STATE,
       CREATED,
       PRIORITY,
       AUDIT,
       MAX_ATTEMPTS,
       TIMEOUT,
       RETRY_OF,
       TYPE,
       QUEUE,
       TENANT,
       KEY,
       CONTENT_TYPE,
       CREATED_BY,
       TRACEPARENT,
       HEADERS,
       RATE_KEY,
       RUN_AT,
       STARTED,
       FINISHED,
       RUNS,
       FAILURES,
       INTERRUPTIONS,
       RESCUES,
       FENCE,
       NODE,
       NODE_NAME,
       CANCEL_ASKED,
       NOT_STARTED,
       PROGRESS,
       PROGRESS_TEXT,
       CODE,
       ERROR,
       REASON,
       RESULT_TYPE,
       RESULT_REF,
       RETRIED_AS,
       RESOLVED,
       RESOLVED_BY,
       NOTE,
       PULSE,
       OUTCOME,
       RUN_US,
       LOG_LINES,
       BORN,
       LEVEL,
       END_LEVEL,
       FLAGS,
       LEASED,
       NOW,
       BLOCKED,
       SLOTTED,
       PAYLOAD,
       RESULT
};

static bool truth(const answer *from, int row, int column) { return get_int(from, row, column) != 0; }

static void read_numbers(pawl_info *info, info_more *more, const answer *from, int row, int at)
{
    info->id = get_int(from, row, at + ID);
    info->state = (pawl_state)get_int(from, row, at + STATE);
    info->created_us = get_int(from, row, at + CREATED);
    info->priority = (int)get_int(from, row, at + PRIORITY);
    info->audit = (pawl_audit)get_int(from, row, at + AUDIT);
    info->max_attempts = (int)get_int(from, row, at + MAX_ATTEMPTS);
    info->timeout_us = get_int(from, row, at + TIMEOUT);
    info->retry_of = get_int(from, row, at + RETRY_OF);
    info->run_at_us = get_int(from, row, at + RUN_AT);
    info->started_us = get_int(from, row, at + STARTED);
    info->finished_us = get_int(from, row, at + FINISHED);
    info->failures = (int)get_int(from, row, at + FAILURES);
    info->interruptions = (int)get_int(from, row, at + INTERRUPTIONS);
    info->rescues = (int)get_int(from, row, at + RESCUES);
    info->fence = get_int(from, row, at + FENCE);
    info->node = get_int(from, row, at + NODE);
    info->cancel_asked = truth(from, row, at + CANCEL_ASKED);
    info->progress = get_null(from, row, at + PROGRESS) ? -1 : (int)get_int(from, row, at + PROGRESS);
    info->retried_as = get_int(from, row, at + RETRIED_AS);
    info->resolved_us = get_int(from, row, at + RESOLVED);
    *more = (info_more){.born = (pawl_state)get_int(from, row, at + BORN),
                        .level = (int)get_int(from, row, at + LEVEL),
                        .end_level = (int)get_int(from, row, at + END_LEVEL),
                        .flags = (int)get_int(from, row, at + FLAGS),
                        .leased_us = get_int(from, row, at + LEASED),
                        .run_us = get_int(from, row, at + RUN_US),
                        .outcome = (pawl_attempt_outcome)get_int(from, row, at + OUTCOME),
                        .log_lines = (int)get_int(from, row, at + LOG_LINES),
                        .not_started = truth(from, row, at + NOT_STARTED)};
    info->attempt = (int)get_int(from, row, at + RUNS) + (info->state == PAWL_LEASED && !more->not_started);
}

static void read_texts(reading *r, pawl_info *info, const answer *from, int row, int at)
{
    info->type = my_read_text(r, from, row, at + TYPE);
    info->queue = my_read_text(r, from, row, at + QUEUE);
    info->tenant = my_read_text(r, from, row, at + TENANT);
    info->key = my_read_text(r, from, row, at + KEY);
    info->content_type = get_bytes(from, row, at + CONTENT_TYPE).len > 0 ? my_read_text(r, from, row, at + CONTENT_TYPE) : NULL;
    info->created_by = my_read_text(r, from, row, at + CREATED_BY);
    info->traceparent = my_read_text(r, from, row, at + TRACEPARENT);
    info->headers = my_read_text(r, from, row, at + HEADERS);
    info->rate_key = my_read_bytes(r, from, row, at + RATE_KEY);
    info->node_name = my_read_text(r, from, row, at + NODE_NAME);
    info->progress_text = my_read_text(r, from, row, at + PROGRESS_TEXT);
    info->code = my_read_text(r, from, row, at + CODE);
    info->error = my_read_text(r, from, row, at + ERROR);
    info->reason = my_read_text(r, from, row, at + REASON);
    info->result_type = my_read_text(r, from, row, at + RESULT_TYPE);
    info->result_ref = my_read_text(r, from, row, at + RESULT_REF);
    info->resolved_by = my_read_text(r, from, row, at + RESOLVED_BY);
    info->note = my_read_text(r, from, row, at + NOTE);
}

static const char *display_of(const pawl_info *info, bool pulse, bool blocked, bool slotted, int64_t now_us)
{
    if (info->state == PAWL_PENDING && blocked) return "blocked";
    if (info->state == PAWL_PENDING && info->run_at_us > now_us)
        return slotted ? "throttled" : info->failures > 0 ? "retrying" : "scheduled";
    if (info->state == PAWL_LEASED) return pulse ? "running" : "stale";
    return pawl_state_name(info->state);
}

pawl_info *my_info_read(reading *r, const answer *from, int row, int first, info_more *more)
{
    pawl_info *info = my_read_alloc(r, sizeof *info);
    if (!info) return NULL;
    read_numbers(info, more, from, row, first);
    read_texts(r, info, from, row, first);
    info->display = display_of(info, truth(from, row, first + PULSE), truth(from, row, first + BLOCKED),
                               truth(from, row, first + SLOTTED), get_int(from, row, first + NOW));
    return info;
}

/* ---- attempts ------------------------------------------------------------------------------------------------------------ */

static void read_attempt(reading *r, const answer *from, int row, pawl_attempt *a)
{
    a->number = (int)get_int(from, row, 0);
    a->outcome = pawl_attempt_outcome_name((pawl_attempt_outcome)get_int(from, row, 1));
    a->started_us = get_int(from, row, 2);
    a->finished_us = get_int(from, row, 3);
    a->fence = get_int(from, row, 4);
    a->node = get_int(from, row, 5);
    a->node_name = my_read_text(r, from, row, 6);
    a->code = my_read_text(r, from, row, 7);
    a->error = my_read_text(r, from, row, 8);
    a->log_lines = (int)get_int(from, row, 9);
}

static void add_attempts(reading *r, pawl_info *info, const info_more *more)
{
    my_script(r->c);
    my_put_int(r->c, info->id);
    const answer *a = my_ask(r, SQL_attempts) ? my_answer(r->c, SQL_attempts) : NULL;
    int rows = a ? a->rows : 0, count = 0;
    pawl_attempt *attempts = my_read_alloc(r, (size_t)(rows + 1) * sizeof *attempts);
    /* What ended after the task itself was read is not among them. */
    for (int i = 0; attempts && i < rows && get_int(a, i, 0) <= info->attempt; i++) read_attempt(r, a, i, &attempts[count++]);
    if (!attempts) return;
    bool last = history_last_attempt(info, more, &attempts[count]);
    if (last && (count == 0 || attempts[count - 1].number < info->attempt)) count++;
    info->attempts = attempts;
    info->attempts_count = count;
}

pawl_info *my_info_get(reading *r, pawl_id id, info_more *more, bool all)
{
    static const char bodies[] = ", b.payload, COALESCE(d.result, f.result)";
    my_script(r->c);
    my_put_int(r->c, id);
    my_put_raw(r->c, bodies, all ? sizeof bodies - 1 : 0);
    my_put_raw(r->c, "1", 1);
    my_put_clock(r);
    const answer *a = my_ask(r, SQL_tasks) ? my_answer(r->c, SQL_tasks) : NULL;
    pawl_info *info = a && a->rows > 0 ? my_info_read(r, a, 0, 0, more) : NULL;
    if (info && all) {
        info->payload = my_read_bytes(r, a, 0, PAYLOAD);
        info->result = my_read_bytes(r, a, 0, RESULT);
    }
    if (info && all) add_attempts(r, info, more);
    return info;
}
