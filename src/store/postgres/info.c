/* One task as pawl_info, from a row of pawl_task. */
#include "store/postgres/read.h"

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

static bool truth(const PGresult *from, int row, int column)
{
    return !PQgetisnull(from, row, column) && PQgetvalue(from, row, column)[0];
}

static void read_numbers(pawl_info *info, info_more *more, const PGresult *from, int row, int at)
{
    info->id = wire64(from, row, at + ID);
    info->state = (pawl_state)wire64(from, row, at + STATE);
    info->created_us = wire64(from, row, at + CREATED);
    info->priority = (int)wire64(from, row, at + PRIORITY);
    info->audit = (pawl_audit)wire64(from, row, at + AUDIT);
    info->max_attempts = (int)wire64(from, row, at + MAX_ATTEMPTS);
    info->timeout_us = wire64(from, row, at + TIMEOUT);
    info->retry_of = wire64(from, row, at + RETRY_OF);
    info->run_at_us = wire64(from, row, at + RUN_AT);
    info->started_us = wire64(from, row, at + STARTED);
    info->finished_us = wire64(from, row, at + FINISHED);
    info->failures = (int)wire64(from, row, at + FAILURES);
    info->interruptions = (int)wire64(from, row, at + INTERRUPTIONS);
    info->rescues = (int)wire64(from, row, at + RESCUES);
    info->fence = wire64(from, row, at + FENCE);
    info->node = wire64(from, row, at + NODE);
    info->cancel_asked = truth(from, row, at + CANCEL_ASKED);
    info->progress = PQgetisnull(from, row, at + PROGRESS) ? -1 : (int)wire64(from, row, at + PROGRESS);
    info->retried_as = wire64(from, row, at + RETRIED_AS);
    info->resolved_us = wire64(from, row, at + RESOLVED);
    *more = (info_more){.born = (pawl_state)wire64(from, row, at + BORN),
                        .level = (int)wire64(from, row, at + LEVEL),
                        .end_level = (int)wire64(from, row, at + END_LEVEL),
                        .flags = (int)wire64(from, row, at + FLAGS),
                        .leased_us = wire64(from, row, at + LEASED),
                        .run_us = wire64(from, row, at + RUN_US),
                        .outcome = (pawl_attempt_outcome)wire64(from, row, at + OUTCOME),
                        .log_lines = (int)wire64(from, row, at + LOG_LINES),
                        .not_started = truth(from, row, at + NOT_STARTED)};
    info->attempt = (int)wire64(from, row, at + RUNS) + (info->state == PAWL_LEASED && !more->not_started);
}

static void read_texts(reading *r, pawl_info *info, const PGresult *from, int row, int at)
{
    info->type = pg_read_text(r, from, row, at + TYPE);
    info->queue = pg_read_text(r, from, row, at + QUEUE);
    info->tenant = pg_read_text(r, from, row, at + TENANT);
    info->key = pg_read_text(r, from, row, at + KEY);
    info->content_type = PQgetlength(from, row, at + CONTENT_TYPE) > 0 ? pg_read_text(r, from, row, at + CONTENT_TYPE) : NULL;
    info->created_by = pg_read_text(r, from, row, at + CREATED_BY);
    info->traceparent = pg_read_text(r, from, row, at + TRACEPARENT);
    info->headers = pg_read_text(r, from, row, at + HEADERS);
    info->rate_key = pg_read_bytes(r, from, row, at + RATE_KEY);
    info->node_name = pg_read_text(r, from, row, at + NODE_NAME);
    info->progress_text = pg_read_text(r, from, row, at + PROGRESS_TEXT);
    info->code = pg_read_text(r, from, row, at + CODE);
    info->error = pg_read_text(r, from, row, at + ERROR);
    info->reason = pg_read_text(r, from, row, at + REASON);
    info->result_type = pg_read_text(r, from, row, at + RESULT_TYPE);
    info->result_ref = pg_read_text(r, from, row, at + RESULT_REF);
    info->resolved_by = pg_read_text(r, from, row, at + RESOLVED_BY);
    info->note = pg_read_text(r, from, row, at + NOTE);
}

static const char *display_of(const pawl_info *info, bool pulse, bool blocked, bool slotted, int64_t now_us)
{
    if (blocked) return "blocked";
    if (info->state == PAWL_PENDING && info->run_at_us > now_us)
        return slotted ? "throttled" : info->failures > 0 ? "retrying" : "scheduled";
    if (info->state == PAWL_LEASED) return pulse ? "running" : "stale";
    return pawl_state_name(info->state);
}

pawl_info *pg_info_read(reading *r, const PGresult *from, int row, int first, info_more *more)
{
    pawl_info *info = pg_read_alloc(r, sizeof *info);
    if (!info) return NULL;
    read_numbers(info, more, from, row, first);
    read_texts(r, info, from, row, first);
    info->display = display_of(info, truth(from, row, first + PULSE), truth(from, row, first + BLOCKED),
                               truth(from, row, first + SLOTTED), wire64(from, row, first + NOW));
    return info;
}

/* ---- attempts ------------------------------------------------------------------------------------------------------------ */

static void read_attempt(reading *r, const PGresult *from, int row, pawl_attempt *a)
{
    a->number = (int)wire64(from, row, 0);
    a->outcome = pawl_attempt_outcome_name((pawl_attempt_outcome)wire64(from, row, 1));
    a->started_us = wire64(from, row, 2);
    a->finished_us = wire64(from, row, 3);
    a->fence = wire64(from, row, 4);
    a->node = wire64(from, row, 5);
    a->node_name = pg_read_text(r, from, row, 6);
    a->code = pg_read_text(r, from, row, 7);
    a->error = pg_read_text(r, from, row, 8);
    a->log_lines = (int)wire64(from, row, 9);
}

static void add_attempts(reading *r, pawl_info *info, const info_more *more)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, info->id);
    PGresult *answer = pg_ask(r, SQL_attempts);
    int rows = answer ? PQntuples(answer) : 0, count = 0;
    pawl_attempt *attempts = pg_read_alloc(r, (size_t)(rows + 1) * sizeof *attempts);
    /* What ended after the task itself was read is not among them. */
    for (int i = 0; attempts && i < rows && wire64(answer, i, 0) <= info->attempt; i++)
        read_attempt(r, answer, i, &attempts[count++]);
    PQclear(answer);
    if (!attempts) return;
    bool last = history_last_attempt(info, more, &attempts[count]);
    if (last && (count == 0 || attempts[count - 1].number < info->attempt)) count++;
    info->attempts = attempts;
    info->attempts_count = count;
}

pawl_info *pg_info_get(reading *r, pawl_id id, info_more *more, bool all)
{
    pg_put_clock(r->s, &r->c->params);
    pg_param_int8(&r->c->params, id);
    PGresult *answer = pg_ask(r, SQL_info);
    pawl_info *info = answer && PQntuples(answer) > 0 ? pg_info_read(r, answer, 0, 0, more) : NULL;
    if (info && all) {
        info->payload = pg_read_bytes(r, answer, 0, PAYLOAD);
        info->result = pg_read_bytes(r, answer, 0, RESULT);
    }
    PQclear(answer);
    if (info && all) add_attempts(r, info, more);
    return info;
}
