/* The pawl_run_* functions: what a handler can ask and say. They belong to the thread that runs the handler (or will finish
 * it), so nothing here is locked but what the driver reads meanwhile: the reason to stop (an atomic) and progress (a lock of
 * its own). */
#include "runtime/runtime.h"
#include <stdarg.h>
#include <stdio.h>

#define LOG_LINES_MAX 1000
#define LOG_LINE_MAX ((size_t)4 << 10)
#define SPAWNS_MAX PAWL_BULK_MAX
#define JSON "application/json"

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

static const pawl_body *body_of(const pawl_run *run)
{
    static const pawl_body none = {.type = "", .queue = "", .tenant = ""};
    return run && run->task ? run->task->body : &none;
}

pawl_id pawl_run_id(const pawl_run *run) { return body_of(run)->id; }
const char *pawl_run_type(const pawl_run *run) { return body_of(run)->type; }
const char *pawl_run_queue(const pawl_run *run) { return body_of(run)->queue; }
const char *pawl_run_key(const pawl_run *run) { return body_of(run)->key; }
const char *pawl_run_headers(const pawl_run *run) { return body_of(run)->headers; }
const char *pawl_run_traceparent(const pawl_run *run) { return body_of(run)->traceparent; }
int64_t pawl_run_fence(const pawl_run *run) { return run ? run->task->fence : 0; }
int64_t pawl_run_deadline_us(const pawl_run *run) { return run ? run->task->deadline_wall_us : 0; }
int pawl_run_attempt(const pawl_run *run) { return run ? run->task->failures + 1 : 0; }
int pawl_run_max_attempts(const pawl_run *run) { return run ? run->task->max_attempts : 0; }
pawl *pawl_run_engine(const pawl_run *run) { return run ? run->rt->handle : NULL; }

const char *pawl_run_tenant(const pawl_run *run)
{
    const char *tenant = body_of(run)->tenant;
    return tenant && tenant[0] ? tenant : NULL;
}

const char *pawl_run_content_type(const pawl_run *run)
{
    const char *type = body_of(run)->content_type;
    return type ? type : JSON;
}

pawl_bytes pawl_run_payload(const pawl_run *run)
{
    pawl_bytes payload = body_of(run)->payload;
    return payload.data ? payload : (pawl_bytes){"", 0};
}

pawl_bytes pawl_run_rate_key(const pawl_run *run)
{
    pawl_bytes key = body_of(run)->rate_key;
    return key.len == 0 && run && run->task ? run->task->rate_key : key;
}

int64_t pawl_run_slot_us(const pawl_run *run) { return run && run->task && run->task->refusal ? run->task->slot_us : 0; }

pawl_rate pawl_run_rate(const pawl_run *run)
{
    return run && run->task && run->task->refusal ? run->task->refusal->rate : (pawl_rate){0};
}

/* ---- stopping ------------------------------------------------------------------------------------------------------------ */

pawl_stop_reason pawl_run_stopping(const pawl_run *run)
{
    return run ? (pawl_stop_reason)atomic_load_explicit(&run->stop, memory_order_acquire) : PAWL_GO_ON;
}

pawl_stop_reason pawl_run_sleep(pawl_run *run, int64_t timeout_us)
{
    if (!run) return PAWL_GO_ON;
    runtime *rt = run->rt;
    if (rt->options.inline_mode) {
        inline_sleep(run, timeout_us);
        return pawl_run_stopping(run);
    }
    int64_t until = runtime_until(timeout_us < 0 ? 0 : timeout_us);
    pthread_mutex_lock(&rt->stop_lock);
    while (!pawl_run_stopping(run) && runtime_wait(&rt->stop_cond, &rt->stop_lock, until)) continue;
    pthread_mutex_unlock(&rt->stop_lock);
    return pawl_run_stopping(run);
}

/* ---- saying: log and progress -------------------------------------------------------------------------------------------- */

/* One line of clean text: no control bytes, no broken characters. */
static void clean(char *text, size_t n)
{
    bool utf8 = utf8_valid(text, n);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < ' ' || c == 0x7f) text[i] = ' ';
        else if (c >= 0x80 && !utf8) text[i] = '?';
    }
}

static void add_line(pawl_run *run, pawl_level level, char *text, size_t n)
{
    if (n > LOG_LINE_MAX) n = utf8_cut(text, LOG_LINE_MAX);
    clean(text, n);
    size_t before = run->log.len;
    int64_t now = run->rt->clock.wall_us(run->rt->clock.ctx);
    if (buf_fmt(&run->log, "%lld %d ", (long long)now, (int)level) && buf_add(&run->log, text, n) && buf_char(&run->log, '\n')) {
        run->log_lines++;
        return;
    }
    run->log.len = before; /* no memory: better a line less than half a line */
    run->log.failed = false;
}

void pawl_run_log(pawl_run *run, pawl_level level, const char *fmt, ...)
{
    if (!run || run->over || !fmt || run->log_lines > LOG_LINES_MAX) return;
    if (level < PAWL_DEBUG || level > PAWL_ERROR) level = PAWL_INFO;
    char text[LOG_LINE_MAX + 8];
    if (run->log_lines == LOG_LINES_MAX) {
        int n = snprintf(text, sizeof text, "the log ends here: an attempt keeps %d lines", LOG_LINES_MAX);
        add_line(run, PAWL_WARN, text, (size_t)n);
        return;
    }
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n >= 0) add_line(run, level, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static work_progress *progress_of(pawl_run *run)
{
    if (run->progress) return run->progress;
    run->progress = alloc_new(&run->rt->allocator, sizeof *run->progress);
    if (run->progress) pthread_mutex_init(&run->progress->lock, NULL);
    return run->progress;
}

void pawl_run_progress(pawl_run *run, int percent, const char *text)
{
    if (!run || run->over) return;
    work_progress *p = progress_of(run);
    if (!p) return; /* no memory: progress is a courtesy */
    size_t n = text ? strlen(text) : 0;
    if (n >= PROGRESS_TEXT) n = utf8_cut(text, PROGRESS_TEXT - 1);
    pthread_mutex_lock(&p->lock);
    p->percent = percent < 0 ? 0 : percent > 100 ? 100 : percent;
    if (n) memcpy(p->pending, text, n);
    p->pending[n] = '\0';
    clean(p->pending, n);
    bool tell = !p->known;
    p->known = true;
    pthread_mutex_unlock(&p->lock);
    if (!tell) return;
    run->progress_in.kind = INPUT_PROGRESS;
    loop_push(run->rt, &run->progress_in, true);
}

/* ---- saying: outcome ----------------------------------------------------------------------------------------------------- */

static pawl_status check_run(const pawl_run *run, pawl_error *err)
{
    if (!run) return err_set(err, PAWL_INVALID, "the run is NULL");
    if (run->over) return err_set(err, PAWL_MISUSE, "the run is over: say this before the handler returns");
    return PAWL_OK;
}

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not keep it: out of memory"); }

static bool replace(pawl_run *run, char **kept, const void *data, size_t n)
{
    char *copy = run->rt->allocator.alloc(run->rt->allocator.ctx, n + 1);
    if (!copy) return false;
    if (n) memcpy(copy, data, n);
    copy[n] = '\0';
    alloc_free(&run->rt->allocator, *kept);
    *kept = copy;
    return true;
}

pawl_status pawl_run_result(pawl_run *run, pawl_bytes result, const char *content_type, pawl_error *err)
{
    pawl_status status = check_run(run, err);
    if (!status) status = valid_content(result, content_type, "result", err);
    if (status) return status;
    if (result.len > RESULT_MAX)
        return err_set(err, PAWL_TOO_LARGE, "the result has %zu bytes, at most %zu are kept: keep a reference instead",
                       result.len, RESULT_MAX);
    char *type = NULL;
    if (content_type && !replace(run, &type, content_type, strlen(content_type))) return no_memory(err);
    if (!replace(run, &run->result, result.data, result.len)) {
        alloc_free(&run->rt->allocator, type);
        return no_memory(err);
    }
    alloc_free(&run->rt->allocator, run->result_type);
    run->result_type = type;
    run->result_len = result.len;
    return PAWL_OK;
}

pawl_status pawl_run_result_ref(pawl_run *run, const char *reference, pawl_error *err)
{
    pawl_status status = check_run(run, err);
    if (!status) status = valid_name(reference, "result reference", err);
    if (status) return status;
    return replace(run, &run->result_ref, reference, strlen(reference)) ? PAWL_OK : no_memory(err);
}

void pawl_run_error_code(pawl_run *run, const char *code)
{
    if (!run || run->over) return;
    if (code && name_valid(code, NULL)) {
        replace(run, &run->code, code, strlen(code));
        return;
    }
    alloc_free(&run->rt->allocator, run->code);
    run->code = NULL;
}

static void set_error(pawl_run *run, const char *fmt, va_list args)
{
    if (!run || run->over || !fmt) return;
    char text[ERROR_MAX + 8];
    int n = vsnprintf(text, sizeof text, fmt, args);
    if (n < 0) return;
    size_t len = (size_t)n <= ERROR_MAX ? (size_t)n : utf8_cut(text, ERROR_MAX);
    if (!utf8_valid(text, len)) clean(text, len);
    replace(run, &run->error, text, len);
}

pawl_outcome pawl_ok(void) { return (pawl_outcome){.kind = PAWL_RUN_OK}; }
pawl_outcome pawl_cancelled(void) { return (pawl_outcome){.kind = PAWL_RUN_CANCELLED}; }
pawl_outcome pawl_deferred(void) { return (pawl_outcome){.kind = PAWL_RUN_DEFERRED}; }
pawl_outcome pawl_snooze(int64_t delay_us) { return (pawl_outcome){.kind = PAWL_RUN_SNOOZE, .delay_us = delay_us}; }

pawl_outcome pawl_retry(pawl_run *run, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_error(run, fmt, args);
    va_end(args);
    return (pawl_outcome){.kind = PAWL_RUN_RETRY, .delay_us = -1};
}

pawl_outcome pawl_retry_in(pawl_run *run, int64_t delay_us, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_error(run, fmt, args);
    va_end(args);
    return (pawl_outcome){.kind = PAWL_RUN_RETRY, .delay_us = delay_us < 0 ? 0 : delay_us};
}

pawl_outcome pawl_fail(pawl_run *run, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_error(run, fmt, args);
    va_end(args);
    return (pawl_outcome){.kind = PAWL_RUN_FAIL};
}

pawl_outcome pawl_interrupted(pawl_run *run, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_error(run, fmt, args);
    va_end(args);
    return (pawl_outcome){.kind = PAWL_RUN_INTERRUPTED};
}

pawl_outcome pawl_lost(pawl_run *run, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_error(run, fmt, args);
    va_end(args);
    return (pawl_outcome){.kind = PAWL_RUN_LOST};
}

/* ---- spawning, finishing later, finishing in the caller's transaction ---------------------------------------------------- */

static bool room_for_spawn(pawl_run *run)
{
    if (run->spawns_count < run->spawns_room) return true;
    int room = run->spawns_room ? 2 * run->spawns_room : 4;
    pawl_op *grown = alloc_resize(&run->rt->allocator, run->spawns, (size_t)room * sizeof *grown);
    if (!grown) return false;
    run->spawns = grown;
    run->spawns_room = room;
    return true;
}

pawl_status pawl_run_spawn(pawl_run *run, const pawl_task *task, pawl_id *id, pawl_error *err)
{
    pawl_status status = check_run(run, err);
    if (status) return status;
    if (run->spawns_count >= SPAWNS_MAX)
        return err_set(err, PAWL_TOO_LARGE, "a run spawns at most %d tasks: dispatch the rest", SPAWNS_MAX);
    if (!room_for_spawn(run)) return no_memory(err);
    pawl_id drawn = 0;
    pawl_body *body;
    if ((status = dispatch_body(run->rt, task, &body, err))) return status;
    if (id && !task->id && (status = dispatch_draw_id(run->rt, &drawn, err))) {
        pawl_body_free(&run->rt->allocator, body);
        return status;
    }
    void *room = family_has(task) ? alloc_new(&run->rt->allocator, family_size(task)) : NULL;
    if (family_has(task)) status = room ? family_make(room, task, NULL, NULL, 0, err) : no_memory(err);
    if (status) {
        alloc_free(&run->rt->allocator, room);
        pawl_body_free(&run->rt->allocator, body);
        return status;
    }
    pawl_op *op = &run->spawns[run->spawns_count++];
    *op = (pawl_op){0};
    dispatch_insert(op, body, task->delay_us, task->at_us);
    op->u.insert.family = room;
    if (drawn) op->id = body->id = drawn;
    if (id) *id = op->id;
    return PAWL_OK;
}

pawl_status pawl_run_finish(pawl_run *run, pawl_outcome outcome, pawl_error *err)
{
    if (!run) return err_set(err, PAWL_INVALID, "the run is NULL");
    if (outcome.kind < PAWL_RUN_OK || outcome.kind > PAWL_RUN_LOST || outcome.kind == PAWL_RUN_DEFERRED)
        return err_set(err, PAWL_INVALID, "the outcome does not end a run: use pawl_ok, pawl_retry, pawl_fail, ...");
    int state = WORK_RUNNING;
    run->early = outcome;
    if (atomic_compare_exchange_strong(&run->state, &state, WORK_EARLY)) return PAWL_OK; /* its handler has not returned yet */
    state = WORK_DEFERRED;
    if (!atomic_compare_exchange_strong(&run->state, &state, WORK_OVER))
        return err_set(err, PAWL_MISUSE, "the run was finished before: a run is finished once");
    work_finish(run, outcome);
    return PAWL_OK;
}

void pawl_run_finish_all(pawl_run *const *runs, const pawl_outcome *outcomes, size_t count)
{
    input *first = NULL, **end = &first, *last = NULL;
    runtime *rt = NULL;
    for (size_t i = 0; i < count; i++) {
        int state = WORK_DEFERRED;
        if (!atomic_compare_exchange_strong(&runs[i]->state, &state, WORK_OVER)) continue;
        work_ended(runs[i], outcomes[i]);
        rt = runs[i]->rt;
        *end = last = &runs[i]->in;
        end = &last->next;
    }
    if (rt) loop_come_back(rt, first, last, 0);
}

pawl_status pawl_run_return(pawl_run *run, pawl_error *err)
{
    int state = WORK_DEFERRED;
    if (!run) return err_set(err, PAWL_INVALID, "the run is NULL");
    if (!atomic_compare_exchange_strong(&run->state, &state, WORK_OVER))
        return err_set(err, PAWL_MISUSE, "the run was finished before, or not handed to a puller");
    run->in.kind = INPUT_RECALLED;
    loop_push(run->rt, &run->in, true);
    return PAWL_OK;
}

void pawl_run_set_user(pawl_run *run, void *user)
{
    if (run) run->user = user;
}

void *pawl_run_user(const pawl_run *run) { return run ? run->user : NULL; }

static void fill_finish(pawl_run *run, pawl_op *op)
{
    *op = (pawl_op){.kind = PAWL_OP_FINISH, .id = run->task->body->id, .fence = run->task->fence, .audit = run->task->audit};
    op->u.finish.to = PAWL_SUCCEEDED;
    op->u.finish.result = (pawl_bytes){run->result, run->result_len};
    op->u.finish.result_type = run->result_type;
    op->u.finish.result_ref = run->result_ref;
    op->u.finish.spawns = run->spawns;
    op->u.finish.spawns_count = run->spawns_count;
    work_execution(run, &op->u.finish.run);
    op->u.finish.run.outcome = PAWL_ATTEMPT_SUCCEEDED;
}

static pawl_status complete_within(pawl_run *run, const char *scheme, void *connection, pawl_outcome *outcome, pawl_error *err)
{
    pawl_status status = check_run(run, err);
    if (status) return status;
    if (!outcome) return err_set(err, PAWL_INVALID, "the outcome is NULL");
    runtime *rt = run->rt;
    status = dispatch_check_kind(rt, scheme, connection, err);
    if (status) return status;
    pawl_arena *arena = arena_new(&rt->allocator, 0);
    if (!arena) return no_memory(err);
    pawl_op op;
    fill_finish(run, &op);
    status = store_tx_apply(rt->store, connection, &op, 1, arena, err);
    arena_free(arena);
    if (status) return status;
    if (op.result != PAWL_OP_DONE)
        return err_set(err, PAWL_LEASE_LOST,
                       "the task is no longer leased to this run: roll back, another node may be running it");
    run->completed = true;
    *outcome = (pawl_outcome){.kind = PAWL_RUN_COMPLETED};
    return PAWL_OK;
}

pawl_status pawl_complete_sqlite(pawl_run *run, struct sqlite3 *db, pawl_outcome *outcome, pawl_error *err)
{
    return complete_within(run, "sqlite", db, outcome, err);
}

pawl_status pawl_complete_pg(pawl_run *run, struct pg_conn *pg, pawl_outcome *outcome, pawl_error *err)
{
    return complete_within(run, "postgres", pg, outcome, err);
}

pawl_status pawl_complete_mysql(pawl_run *run, struct st_mysql *my, pawl_outcome *outcome, pawl_error *err)
{
    return complete_within(run, "mysql", my, outcome, err);
}
