/* One task as pawl_info: its body, then whichever of leased, live, done and failed has it. */
#include "base/check.h"
#include "store/sqlite/read.h"
#include <string.h>

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

const char *node_name(reading *r, int64_t node)
{
    if (!node) return NULL;
    query q = query_on(r->c, SQL_node_name);
    put_int(&q, node);
    const char *name = query_row(&q) ? read_text(r, get_text(&q)) : NULL;
    query_end(&q);
    return name;
}

bool node_pulse(reading *r, int64_t node)
{
    query q = query_on(r->c, SQL_node_pulse);
    put_int(&q, node);
    bool pulse = false;
    if (query_row(&q)) {
        bool alive = get_int(&q) == 1;
        const char *boot_id = get_text(&q);
        pulse = alive && !node_lapsed(r->s, boot_id, get_int(&q), r->boot_us);
    }
    query_end(&q);
    return pulse;
}

/* ---- the body ------------------------------------------------------------------------------------------------------------ */

/* Every task has these names; should the row of one be lost, the task can still be shown. */
static const char *read_name(reading *r, int64_t id)
{
    const char *text = name_text(r->c, id);
    return text ? read_text(r, text) : "?";
}

static bool read_body(reading *r, pawl_info *info, info_more *more)
{
    query q = query_on(r->c, SQL_info_body);
    put_int(&q, info->id);
    if (!query_row(&q)) return false;
    info->type = read_name(r, get_int(&q));
    info->queue = read_name(r, get_int(&q));
    info->created_us = get_int(&q);
    info->priority = (int)get_int(&q);
    more->born = (pawl_state)get_int(&q);
    more->level = (int)get_int(&q);
    info->audit = (pawl_audit)get_int(&q);
    int64_t tenant_id = get_int(&q);
    info->tenant = tenant_id ? read_text(r, name_text(r->c, tenant_id)) : NULL;
    info->max_attempts = (int)get_int(&q);
    info->timeout_us = get_int(&q);
    info->retry_of = get_int(&q);
    info->key = read_text(r, get_text(&q));
    bool json = sqlite3_column_type(q.st, q.column) == SQLITE_INTEGER;
    const char *content_type = get_text(&q);
    info->content_type = json ? "application/json" : read_text(r, content_type);
    info->created_by = read_text(r, get_text(&q));
    info->traceparent = read_text(r, get_text(&q));
    info->headers = read_text(r, get_text(&q));
    info->rate_key = read_bytes(r, get_bytes(&q));
    query_end(&q);
    return true;
}

/* ---- its state ----------------------------------------------------------------------------------------------------------- */

static void read_counters(query *q, pawl_info *info)
{
    info->attempt = (int)get_int(q);
    info->failures = (int)get_int(q);
    info->interruptions = (int)get_int(q);
    info->rescues = (int)get_int(q);
}

static bool read_leased(reading *r, pawl_info *info, info_more *more)
{
    query q = query_on(r->c, SQL_info_leased);
    put_int(&q, info->id);
    if (!query_row(&q)) return false;
    info->state = PAWL_LEASED;
    info->fence = get_int(&q);
    info->node = get_int(&q);
    more->leased_us = get_int(&q);
    info->run_at_us = get_int_or(&q, more->leased_us);
    info->started_us = get_int_or(&q, more->leased_us);
    more->not_started = get_int(&q) != 0;
    info->cancel_asked = get_int(&q) != 0;
    read_counters(&q, info);
    info->attempt += !more->not_started;
    more->level = (int)get_int(&q);
    info->progress = (int)get_int_or(&q, -1);
    info->progress_text = read_text(r, get_text(&q));
    query_end(&q);
    info->display = node_pulse(r, info->node) ? "running" : "stale";
    return true;
}

static void read_last_error(reading *r, pawl_info *info)
{
    if (info->attempt == 0) return;
    query q = query_on(r->c, SQL_info_last_error);
    put_int(&q, info->id);
    if (query_row(&q)) {
        info->code = read_text(r, get_text(&q));
        info->error = read_text(r, get_text(&q));
    }
    query_end(&q);
}

static bool read_live(reading *r, pawl_info *info)
{
    query q = query_on(r->c, SQL_info_live);
    put_int(&q, info->id);
    if (!query_row(&q)) return false;
    info->state = (pawl_state)get_int(&q);
    info->run_at_us = get_int(&q);
    info->fence = get_int(&q);
    read_counters(&q, info);
    bool blocked = get_int(&q) != 0, slotted = get_int(&q) != 0;
    query_end(&q);
    bool later = info->state == PAWL_PENDING && info->run_at_us > r->now_us;
    info->display = blocked              ? "blocked"
                    : !later             ? pawl_state_name(info->state)
                    : slotted            ? "throttled"
                    : info->failures > 0 ? "retrying"
                                         : "scheduled";
    return true;
}

static void read_end(reading *r, query *q, pawl_info *info, info_more *more)
{
    info->state = (pawl_state)get_int(q);
    info->finished_us = get_int(q);
    info->fence = get_int(q);
    info->node = get_int(q);
    more->outcome = (pawl_attempt_outcome)get_int(q);
    info->started_us = get_int(q);
    more->run_us = get_int(q);
    more->leased_us = get_int_or(q, info->created_us);
    info->run_at_us = get_int_or(q, info->created_us);
    read_counters(q, info);
    more->end_level = (int)get_int(q);
    more->flags = (int)get_int(q);
    info->cancel_asked = more->flags & END_CANCEL_ASKED;
    more->log_lines = (int)get_int(q);
    info->progress = (int)get_int_or(q, -1);
    info->progress_text = read_text(r, get_text(q));
    info->code = read_text(r, get_text(q));
    info->error = read_text(r, get_text(q));
    info->reason = read_text(r, get_text(q));
    info->retried_as = get_int(q);
    info->result_type = read_text(r, get_text(q));
    info->result_ref = read_text(r, get_text(q));
    info->display = pawl_state_name(info->state);
}

static bool read_ended(reading *r, pawl_info *info, info_more *more)
{
    query q = query_on(r->c, SQL_info_done);
    put_int(&q, info->id);
    bool found = query_row(&q);
    if (!found) {
        q = query_on(r->c, SQL_info_failed);
        put_int(&q, info->id);
        found = query_row(&q);
    }
    if (!found) return false;
    read_end(r, &q, info, more);
    info->result = read_bytes(r, get_bytes(&q));
    if (info->state == PAWL_FAILED) {
        info->resolved_us = get_int(&q);
        info->resolved_by = read_text(r, get_text(&q));
        info->note = read_text(r, get_text(&q));
    }
    query_end(&q);
    return true;
}

pawl_info *info_read(reading *r, pawl_id id, info_more *more)
{
    pawl_info *info = read_alloc(r, sizeof *info);
    if (!info) return NULL;
    *more = (info_more){0};
    info->id = id;
    info->progress = -1;
    if (!read_body(r, info, more)) return NULL;
    bool live = !read_leased(r, info, more) && read_live(r, info);
    if (!info->state && !read_ended(r, info, more)) return NULL;
    if (live || info->state == PAWL_LEASED) read_last_error(r, info);
    info->node_name = node_name(r, info->node);
    return r->c->rc ? NULL : info;
}

/* ---- payload and attempts ------------------------------------------------------------------------------------------------ */

static void read_attempt(reading *r, query *q, pawl_attempt *a)
{
    a->number = (int)get_int(q);
    a->outcome = pawl_attempt_outcome_name((pawl_attempt_outcome)get_int(q));
    a->started_us = get_int(q);
    a->finished_us = get_int(q);
    a->fence = get_int(q);
    a->node = get_int(q);
    a->code = read_text(r, get_text(q));
    a->error = read_text(r, get_text(q));
    a->log_lines = (int)get_int(q);
    a->node_name = node_name(r, a->node);
}

static int64_t count_of(reading *r, sql_name which, pawl_id id)
{
    query q = query_on(r->c, which);
    put_int(&q, id);
    int64_t count = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return count;
}

static void read_payload(reading *r, pawl_info *info)
{
    query q = query_on(r->c, SQL_info_payload);
    put_int(&q, info->id);
    if (query_row(&q)) info->payload = read_bytes(r, get_bytes(&q));
    query_end(&q);
}

void info_add_rest(reading *r, pawl_info *info, const info_more *more)
{
    read_payload(r, info);
    int64_t room = count_of(r, SQL_info_attempts_count, info->id) + 1;
    pawl_attempt *attempts = read_alloc(r, (size_t)room * sizeof *attempts);
    if (!attempts) return;
    int count = 0;
    query q = query_on(r->c, SQL_info_attempts);
    put_int(&q, info->id);
    while (count + 1 < room && query_row(&q)) read_attempt(r, &q, &attempts[count++]);
    query_end(&q);
    count += history_last_attempt(info, more, &attempts[count]);
    info->attempts = attempts;
    info->attempts_count = count;
}
