/* One task of pawl work --server: the command is run, and what became of it is reported, as long as the lease lasts. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/work_remote.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define LOG_MAX (4u << 20)
#define LINE_ROOM (64u << 10)

/* ---- while it runs -------------------------------------------------------------------------------------------------------------- */

static void take_line(void *ctx, const char *line)
{
    job *j = ctx;
    json_writer out;
    size_t before = j->log.len;
    jsonw_init(&out, &j->log, false);
    if (before > 1) buf_char(&j->log, ',');
    jsonw_string(&out, line);
    if (j->log.failed || j->log.len > LOG_MAX) j->log.failed = false, j->log.len = before; /* the rest is too much */
    snprintf(j->last, sizeof j->last, "%s", line);
}

static pawl_stop_reason stopped(job *j)
{
    crew *w = j->crew;
    pthread_mutex_lock(&w->lock);
    bool over = remote_now() >= w->until_us || strcmp(w->id, j->worker) != 0;
    pthread_mutex_unlock(&w->lock);
    if (over) atomic_store(&j->stop, PAWL_STOP_LEASE_LOST);
    return (pawl_stop_reason)atomic_load(&j->stop);
}

static child_stop stop_of(void *ctx)
{
    job *j = ctx;
    crew *w = j->crew;
    pthread_mutex_lock(&w->lock);
    bool kill = w->mood == KILLING;
    pthread_mutex_unlock(&w->lock);
    if (kill) return CHILD_KILL;
    return stopped(j) ? CHILD_TERM : CHILD_GO_ON;
}

static void failed(json_writer *w, const char *outcome, const char *code, const char *what, const char *last)
{
    char text[320];
    snprintf(text, sizeof text, "%s%s%s", what, *last ? ": " : "", last);
    json_text(w, "outcome", outcome);
    if (*code) json_text(w, "code", code);
    json_text(w, "error", text);
}

static void judge_status(json_writer *w, const job *j, int status)
{
    char code[32], what[48];
    snprintf(code, sizeof code, "exit_%d", status);
    snprintf(what, sizeof what, "exit status %d", status);
    if (status != VERDICT_SNOOZE) {
        failed(w, status == VERDICT_FAIL ? "failed" : "retry", code, what, j->last);
        return;
    }
    json_text(w, "outcome", "snooze");
    json_number(w, "delay_us", j->crew->o->snooze_us);
}

static void judge_signal(json_writer *w, const job *j, int number)
{
    char code[32], what[48];
    const char *name = sigabbrev_np(number);
    snprintf(code, sizeof code, "signal_%s", name ? name : "unknown");
    snprintf(what, sizeof what, "killed by SIG%s", name ? name : "?");
    failed(w, "retry", code, what, j->last);
}

static void succeeded(json_writer *w, const buf *output)
{
    pawl_bytes result = {output->data, output->len};
    const char *type = output->failed ? NULL : verdict_trim(&result);
    json_text(w, "outcome", "succeeded");
    if (output->failed || !result.len) return;
    if (type) json_text(w, "result_type", type);
    jsonw_key(w, type ? "result_base64" : "result");
    if (type) jsonw_base64(w, result);
    else jsonw_raw(w, result);
}

/* false: there is nothing to be said any more */
static bool judge(json_writer *w, job *j, const child_end *end, bool killed)
{
    pawl_stop_reason reason = (pawl_stop_reason)atomic_load(&j->stop);
    if (reason == PAWL_STOP_LEASE_LOST) return false;
    if (WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0) succeeded(w, end->output);
    else if (reason == PAWL_STOP_CANCELLED) json_text(w, "outcome", "cancelled");
    else if (reason == PAWL_STOP_TIMEOUT) failed(w, "retry", "timeout", "timed out", j->last);
    else if (reason == PAWL_STOP_SHUTDOWN || killed) json_text(w, "outcome", "released");
    else if (WIFEXITED(end->status)) judge_status(w, j, WEXITSTATUS(end->status));
    else judge_signal(w, j, WTERMSIG(end->status));
    return true;
}

static void show(const job *j, const char *as)
{
    pawl_event e = {.at_us = cli_now_us(), .id = j->id, .attempt = j->task.attempt, .fence = j->task.fence};
    for (int kind = 1; kind < PAWL_EVENT_COUNT; kind++) {
        if (strcmp(pawl_event_name((pawl_event_kind)kind), as) == 0) e.kind = (pawl_event_kind)kind;
    }
    snprintf(e.type, sizeof e.type, "%s", j->task.type);
    snprintf(e.queue, sizeof e.queue, "%s", j->task.queue);
    if (j->crew->o->quiet) return;
    pthread_mutex_lock(&j->crew->lock);
    work_show(j->crew->c, &e);
    fflush(stdout);
    pthread_mutex_unlock(&j->crew->lock);
}

/* What became of it, in the answer's only result. */
static const char *as_what(job *j, pawl_bytes results)
{
    json key, value;
    buf as;
    const char *kept = NULL;
    buf_init(&as, alloc_default(), 64);
    for (size_t at = 0; results.len && json_each(json_parse(results), &at, &key, &value);) {
        if (json_string(json_member(value, "as"), &as)) kept = pawl_arena_str(j->arena, buf_text(&as));
    }
    buf_done(&as);
    return kept ? kept : "lease_lost";
}

/* Until it is heard, or the lease is over. */
static void report(job *j, const buf *body)
{
    crew *w = j->crew;
    pawl_error err;
    for (;;) {
        buf text;
        answer_of a;
        int64_t sent_us = remote_now();
        buf_init(&text, alloc_default(), TEXT_MAX);
        pawl_status status = remote_ask(w, j->worker, "report", body, j->arena, &text, &a, &err);
        pthread_mutex_lock(&w->lock);
        if (!status) remote_believe(w, &a, sent_us);
        else if (status == PAWL_NOT_FOUND) remote_lose(w, j->worker);
        pthread_mutex_unlock(&w->lock);
        if (!status) show(j, as_what(j, a.results));
        buf_done(&text);
        bool again = status && (pawl_status_retryable(status) || status == PAWL_UNKNOWN) && stopped(j) != PAWL_STOP_LEASE_LOST;
        if (status && !again && status != PAWL_NOT_FOUND) fprintf(stderr, "pawl: task %s: %s\n", j->task.id, err.message);
        if (status && !again) show(j, "lease_lost");
        if (!again) return;
        pthread_mutex_lock(&w->lock);
        remote_nap(w, AGAIN_US);
        pthread_mutex_unlock(&w->lock);
    }
}

/* ---- from beginning to end -------------------------------------------------------------------------------------------------------- */

/* false: there is nothing to be said any more */
static bool write_report(job *j, buf *body, const child_end *end, const pawl_error *failure)
{
    crew *w = j->crew;
    json_writer out;
    bool said = true;
    pthread_mutex_lock(&w->lock);
    bool killed = w->mood == KILLING;
    pthread_mutex_unlock(&w->lock);
    jsonw_init(&out, body, false);
    jsonw_object(&out);
    jsonw_key(&out, "items");
    jsonw_array(&out);
    jsonw_object(&out);
    json_text(&out, "id", j->task.id);
    json_number(&out, "fence", j->task.fence);
    buf_char(&j->log, ']');
    jsonw_key(&out, "log");
    jsonw_raw(&out, (pawl_bytes){j->log.data, j->log.len});
    if (failure->status) failed(&out, "retry", "", failure->message, "");
    else said = judge(&out, j, end, killed);
    jsonw_end_object(&out);
    jsonw_end_array(&out);
    jsonw_end_object(&out);
    return said;
}

static void run_job(job *j)
{
    crew *w = j->crew;
    pawl_error err = {0};
    buf env_text, output, body;
    buf_init(&env_text, alloc_default(), 1 << 20);
    buf_init(&output, alloc_default(), VERDICT_RESULT_MAX);
    buf_init(&body, alloc_default(), TEXT_MAX);
    char **env = work_environment(&env_text, &j->task, NULL);
    child_end end = {.output = &output};
    child_spec spec = {
        .argv = w->c->rest, .env = env, .input = j->payload, .line = take_line, .stop = stop_of, .ctx = j, .guard = w->guard};
    if (!env) err_set(&err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    else child_run(&spec, &end, &err);
    if (write_report(j, &body, &end, &err)) report(j, &body);
    else show(j, "lease_lost");
    alloc_free(alloc_default(), env);
    buf_done(&env_text);
    buf_done(&output);
    buf_done(&body);
}

static void job_free(job *j)
{
    buf_done(&j->log);
    arena_free(j->arena);
    alloc_free(alloc_default(), j);
}

static void *job_thread(void *ctx)
{
    job *j = ctx;
    crew *w = j->crew;
    run_job(j);
    pthread_mutex_lock(&w->lock);
    list_remove(&j->link);
    w->running--;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    remote_ring(w);
    job_free(j);
    return NULL;
}

const field remote_task_fields[] = {{"id", FIELD_ID, offsetof(claimed, id), 0, 0, ""},
                                    {"fence", FIELD_MICROS, offsetof(claimed, fence), 0, 0, ""},
                                    {"type", FIELD_TEXT, offsetof(claimed, type), 0, 0, ""},
                                    {"queue", FIELD_TEXT, offsetof(claimed, queue), 0, 0, ""},
                                    {"key", FIELD_TEXT, offsetof(claimed, key), 0, 0, ""},
                                    {"attempt", FIELD_INT, offsetof(claimed, attempt), 0, 0, ""},
                                    {"payload", FIELD_PAYLOAD, offsetof(claimed, payload), 0, 0, ""},
                                    {"payload_base64", FIELD_BASE64, offsetof(claimed, payload), 0, 0, ""},
                                    {0}};

/* What cannot be begun is not named in the next renewal, and so given back. */
bool remote_job(crew *w, json object, const char *worker)
{
    claimed got = {0};
    pthread_t thread;
    job *j = alloc_new(alloc_default(), sizeof *j);
    pawl_arena *arena = j ? arena_new(alloc_default(), 0) : NULL;
    bool ok = arena && !fields_pick(remote_task_fields, object, arena, &got, NULL);
    if (ok && got.payload.len) ok = (got.payload.data = pawl_arena_bytes(arena, got.payload.data, got.payload.len));
    if (!ok) {
        arena_free(arena);
        alloc_free(alloc_default(), j);
        return false;
    }
    *j = (job){.crew = w, .arena = arena, .id = got.id, .payload = got.payload};
    j->task = (work_task){.type = got.type, .queue = got.queue, .key = got.key, .attempt = got.attempt, .fence = got.fence};
    pawl_id_format(got.id, j->task.id);
    snprintf(j->worker, sizeof j->worker, "%s", worker);
    buf_init(&j->log, alloc_default(), LOG_MAX + LINE_ROOM);
    buf_char(&j->log, '[');
    pthread_mutex_lock(&w->lock);
    ok = pthread_create(&thread, NULL, job_thread, j) == 0;
    if (ok) list_append(&w->jobs, &j->link), w->running++, pthread_detach(thread);
    pthread_mutex_unlock(&w->lock);
    if (!ok) job_free(j);
    return ok;
}
