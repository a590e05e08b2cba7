/* pawl work --server: the same for a server (docs/workers.md).
 *
 *     main      signals; renews the lease
 *     claimer   waits for tasks, as many as there are free hands, and starts a thread for each
 *     jobs      run the command and report; while the server does not answer they try again, as long as the lease lasts
 *
 * A job whose lease is over is stopped and says nothing: somebody else has its task, or will. If the server does not know the worker any more
 * everything it holds is lost, and it registers again.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include "base/text.h"
#include "cli/remote.h"
#include "cli/stop.h"
#include "cli/work.h"
#include "server/fields.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_US (500 * PAWL_MILLISECOND) /* after the server did not answer */
#define WAIT_TEXT "2s" /* a signal is heard of that late by the claimer */
#define TEXT_MAX (32u << 20)
#define LOG_MAX (4u << 20)

typedef enum mood { WORKING, DRAINING, KILLING } mood;

typedef struct crew {
    cli *c;
    const work_settings *o;
    const guard *guard;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job ended, or the mood changed */
    char id[64];            /* what the server calls this worker; "": it does not */
    int64_t until_us;       /* the lease; monotonic */
    int64_t renew_us;
    int64_t claims, seen; /* how many were sent; how many are answered */
    list jobs;
    int running;
    mood mood;
    bool server_stops, done; /* done: the claimer has ended */
    pawl_error failure;      /* why it ended */
} crew;

typedef struct job {
    list link;
    crew *crew;
    pawl_arena *arena;
    work_task task;
    pawl_id id;
    pawl_bytes payload;
    char worker[64];
    atomic_int stop; /* pawl_stop_reason */
    buf log;         /* JSON strings with a comma before each */
    char last[200];
} job;

static int64_t mono_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000;
}

/* Waits on the lock's condition for so long at most. */
static void nap(crew *w, int64_t us)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + us % PAWL_SECOND * 1000;
    at.tv_sec += us / PAWL_SECOND + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&w->changed, &w->lock, &at);
}

/* ---- the server ----------------------------------------------------------------------------------------------------------------- */

typedef struct answer_of {
    const char *worker;
    int64_t lease_us, renew_us;
    bool drain, stopping;
    pawl_bytes tasks, stop, lost, results; /* arrays */
} answer_of;

static const field answer_fields[] = {{"worker", FIELD_TEXT, offsetof(answer_of, worker), 0, 0, ""},
                                      {"lease_us", FIELD_MICROS, offsetof(answer_of, lease_us), 0, 0, ""},
                                      {"renew_us", FIELD_MICROS, offsetof(answer_of, renew_us), 0, 0, ""},
                                      {"drain", FIELD_BOOL, offsetof(answer_of, drain), 0, 0, ""},
                                      {"stopping", FIELD_BOOL, offsetof(answer_of, stopping), 0, 0, ""},
                                      {"tasks", FIELD_PAYLOAD, offsetof(answer_of, tasks), 0, 0, ""},
                                      {"stop", FIELD_PAYLOAD, offsetof(answer_of, stop), 0, 0, ""},
                                      {"lost", FIELD_PAYLOAD, offsetof(answer_of, lost), 0, 0, ""},
                                      {"results", FIELD_PAYLOAD, offsetof(answer_of, results), 0, 0, ""},
                                      {0}};

/* The answer lies in `text` and in the arena. */
static pawl_status ask(const crew *w, const char *worker, const char *what, const buf *body, pawl_arena *arena, buf *text,
                       answer_of *out, pawl_error *err)
{
    char path[128];
    *out = (answer_of){0};
    if (body->failed) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    snprintf(path, sizeof path, "/v1/workers%s%s%s%s", *worker ? "/" : "", worker, *what ? "/" : "", what);
    pawl_status status = remote_call(w->c, "POST", path, body->data, text, err);
    if (status) return status;
    pawl_bytes bytes = {text->data, text->len};
    if (!json_valid(bytes, NULL, NULL)) return err_set(err, PAWL_INTERNAL, "the server's answer is no JSON");
    return fields_pick(answer_fields, json_parse(bytes), arena, out, err);
}

/* Under the lock. */
static void believe(crew *w, const answer_of *a, int64_t sent_us)
{
    w->until_us = sent_us + a->lease_us;
    if (a->renew_us) w->renew_us = a->renew_us;
    w->server_stops = a->stopping;
    if (a->drain && w->mood == WORKING) w->mood = DRAINING;
    pthread_cond_broadcast(&w->changed);
}

/* Under the lock: the server does not know this worker any more. */
static void lose_all(crew *w, const char *worker)
{
    if (strcmp(w->id, worker) != 0) return;
    w->id[0] = '\0';
    list_each(node, &w->jobs) atomic_store(&container_of(node, job, link)->stop, PAWL_STOP_LEASE_LOST);
    pthread_cond_broadcast(&w->changed);
}

/* ---- one job -------------------------------------------------------------------------------------------------------------------- */

static void take_line(void *ctx, const char *line)
{
    job *j = ctx;
    json_writer out;
    size_t before = j->log.len;
    jsonw_init(&out, &j->log, false);
    buf_char(&j->log, j->log.len ? ',' : ' ');
    jsonw_string(&out, line);
    if (j->log.failed) j->log.failed = false, j->log.len = before; /* the rest is too much */
    snprintf(j->last, sizeof j->last, "%s", line);
}

static pawl_stop_reason stopped(job *j)
{
    crew *w = j->crew;
    pthread_mutex_lock(&w->lock);
    bool over = mono_us() >= w->until_us || strcmp(w->id, j->worker) != 0;
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
    if (status != WORK_SNOOZE) {
        failed(w, status == WORK_FAIL ? "failed" : "retry", code, what, j->last);
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
    const char *type = output->failed ? NULL : work_trim(&result);
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

static const char *as_what(job *j, pawl_bytes results)
{
    static const struct {
        const char *text;
    } none = {"lease_lost"};
    json key, value;
    buf as;
    const char *kept = NULL;
    buf_init(&as, alloc_default(), 64);
    for (size_t at = 0; results.len && json_each(json_parse(results), &at, &key, &value);) {
        if (json_string(json_member(value, "as"), &as)) kept = pawl_arena_str(j->arena, buf_text(&as));
    }
    buf_done(&as);
    return kept ? kept : none.text;
}

/* Until it is heard, or the lease is over. */
static void report(job *j, const buf *body)
{
    crew *w = j->crew;
    pawl_error err;
    for (;;) {
        buf text;
        answer_of a;
        int64_t sent_us = mono_us();
        buf_init(&text, alloc_default(), TEXT_MAX);
        pawl_status status = ask(w, j->worker, "report", body, j->arena, &text, &a, &err);
        pthread_mutex_lock(&w->lock);
        if (!status) believe(w, &a, sent_us);
        else if (status == PAWL_NOT_FOUND) lose_all(w, j->worker);
        pthread_mutex_unlock(&w->lock);
        if (!status) show(j, as_what(j, a.results));
        buf_done(&text);
        bool again = status && (pawl_status_retryable(status) || status == PAWL_UNKNOWN) && stopped(j) != PAWL_STOP_LEASE_LOST;
        if (status && !again && status != PAWL_NOT_FOUND) fprintf(stderr, "pawl: task %s: %s\n", j->task.id, err.message);
        if (status && !again) show(j, "lease_lost");
        if (!again) return;
        pthread_mutex_lock(&w->lock);
        nap(w, AGAIN_US);
        pthread_mutex_unlock(&w->lock);
    }
}

static void run_job(job *j)
{
    crew *w = j->crew;
    pawl_error err;
    buf env_text, output, body;
    json_writer out;
    buf_init(&env_text, alloc_default(), 1 << 20);
    buf_init(&output, alloc_default(), WORK_RESULT_MAX);
    buf_init(&body, alloc_default(), TEXT_MAX);
    jsonw_init(&out, &body, false);
    char **env = work_environment(&env_text, &j->task, NULL);
    child_end end = {.output = &output};
    child_spec spec = {
        .argv = w->c->rest, .env = env, .input = j->payload, .line = take_line, .stop = stop_of, .ctx = j, .guard = w->guard};
    pawl_status status =
        env ? child_run(&spec, &end, &err) : err_set(&err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    pthread_mutex_lock(&w->lock);
    bool killed = w->mood == KILLING;
    pthread_mutex_unlock(&w->lock);
    jsonw_object(&out);
    jsonw_key(&out, "items");
    jsonw_array(&out);
    jsonw_object(&out);
    json_text(&out, "id", j->task.id);
    json_number(&out, "fence", j->task.fence);
    buf_str(&j->log, "]");
    if (j->log.len > 1) buf_str(&body, ",\"log\":["), buf_add(&body, j->log.data, j->log.len);
    bool said = true;
    if (status) failed(&out, "retry", "", err.message, "");
    else said = judge(&out, j, &end, killed);
    jsonw_end_object(&out);
    jsonw_end_array(&out);
    jsonw_end_object(&out);
    if (said) report(j, &body);
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
    job_free(j);
    return NULL;
}

/* ---- claiming --------------------------------------------------------------------------------------------------------------------- */

typedef struct claimed {
    pawl_id id;
    int64_t fence;
    const char *type, *queue, *key;
    int attempt;
    pawl_bytes payload;
} claimed;

static const field claimed_fields[] = {{"id", FIELD_ID, offsetof(claimed, id), 0, 0, ""},
                                       {"fence", FIELD_MICROS, offsetof(claimed, fence), 0, 0, ""},
                                       {"type", FIELD_TEXT, offsetof(claimed, type), 0, 0, ""},
                                       {"queue", FIELD_TEXT, offsetof(claimed, queue), 0, 0, ""},
                                       {"key", FIELD_TEXT, offsetof(claimed, key), 0, 0, ""},
                                       {"attempt", FIELD_INT, offsetof(claimed, attempt), 0, 0, ""},
                                       {"payload", FIELD_PAYLOAD, offsetof(claimed, payload), 0, 0, ""},
                                       {"payload_base64", FIELD_BASE64, offsetof(claimed, payload), 0, 0, ""},
                                       {0}};

/* What cannot be begun is not named in the next renewal, and so given back. */
static job *job_new(crew *w, json object, const char *worker)
{
    claimed got = {0};
    pthread_t thread;
    job *j = alloc_new(alloc_default(), sizeof *j);
    pawl_arena *arena = j ? arena_new(alloc_default(), 0) : NULL;
    bool ok = arena && !fields_pick(claimed_fields, object, arena, &got, NULL);
    if (ok && got.payload.len) ok = (got.payload.data = pawl_arena_bytes(arena, got.payload.data, got.payload.len));
    if (!ok) {
        arena_free(arena);
        alloc_free(alloc_default(), j);
        return NULL;
    }
    *j = (job){.crew = w, .arena = arena, .id = got.id, .payload = got.payload};
    j->task = (work_task){.type = got.type, .queue = got.queue, .key = got.key, .attempt = got.attempt, .fence = got.fence};
    pawl_id_format(got.id, j->task.id);
    snprintf(j->worker, sizeof j->worker, "%s", worker);
    buf_init(&j->log, alloc_default(), LOG_MAX);
    pthread_mutex_lock(&w->lock);
    ok = pthread_create(&thread, NULL, job_thread, j) == 0;
    if (ok) list_append(&w->jobs, &j->link), w->running++, pthread_detach(thread);
    pthread_mutex_unlock(&w->lock);
    if (!ok) job_free(j);
    return ok ? j : NULL;
}

/* How many tasks came; -1: the claim failed. */
static int claim(crew *w, const char *worker, int most)
{
    pawl_error err;
    answer_of a;
    buf body, text;
    json key, value;
    int count = 0;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    buf_init(&body, alloc_default(), 4096);
    buf_init(&text, alloc_default(), TEXT_MAX);
    pthread_mutex_lock(&w->lock);
    int64_t number = ++w->claims, sent_us = mono_us();
    pthread_mutex_unlock(&w->lock);
    buf_fmt(&body, "{\"max\":%d,\"wait\":\"%s\",\"number\":%lld}", most, w->o->once ? "0s" : WAIT_TEXT, (long long)number);
    pawl_status status = arena ? ask(w, worker, "claim", &body, arena, &text, &a, &err) : PAWL_NO_MEMORY;
    pthread_mutex_lock(&w->lock);
    bool begin = w->mood == WORKING; /* else they are not named, and so given back */
    pthread_mutex_unlock(&w->lock);
    for (size_t at = 0; begin && !status && a.tasks.len && json_each(json_parse(a.tasks), &at, &key, &value);)
        if (job_new(w, value, worker)) count++;
    pthread_mutex_lock(&w->lock);
    w->seen = number; /* what did not arrive is not among the jobs, and will not be */
    if (!status) believe(w, &a, sent_us);
    else if (status == PAWL_NOT_FOUND) lose_all(w, worker);
    pthread_mutex_unlock(&w->lock);
    buf_done(&body);
    buf_done(&text);
    arena_free(arena);
    return status ? -1 : count;
}

static void write_registration(const crew *w, buf *body)
{
    const work_settings *o = w->o;
    char host[200] = "", name[240];
    json_writer out;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s", o->name ? o->name : *host ? host : "pawl work");
    jsonw_init(&out, body, false);
    jsonw_object(&out);
    json_text(&out, "name", name);
    jsonw_key(&out, "queues");
    jsonw_array(&out);
    jsonw_string(&out, o->queue);
    jsonw_end_array(&out);
    if (o->types.count) jsonw_key(&out, "types"), jsonw_array(&out);
    for (int i = 0; i < o->types.count; i++) jsonw_string(&out, o->types.items[i]);
    if (o->types.count) jsonw_end_array(&out);
    if (o->max_attempts) json_number(&out, "max_attempts", o->max_attempts);
    jsonw_end_object(&out);
    body->len--; /* durations are text */
    struct {
        const char *name;
        int64_t us;
    } times[] = {{"lease", o->lease_us}, {"timeout", o->timeout_us}, {"retry_delay", o->retry_delay_us}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (times[i].us) buf_fmt(body, ",\"%s\":\"%lldms\"", times[i].name, (long long)((times[i].us + 999) / 1000));
    }
    buf_char(body, '}');
}

static pawl_status enlist(crew *w, pawl_error *err)
{
    answer_of a;
    buf body, text;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    int64_t sent_us = mono_us();
    buf_init(&body, alloc_default(), 64 << 10);
    buf_init(&text, alloc_default(), TEXT_MAX);
    write_registration(w, &body);
    pawl_status status = arena ? ask(w, "", "", &body, arena, &text, &a, err) : err_set(err, PAWL_NO_MEMORY, "out of memory");
    if (!status && (!a.worker || strlen(a.worker) >= sizeof w->id))
        status = err_set(err, PAWL_INTERNAL, "the server's answer is odd");
    pthread_mutex_lock(&w->lock);
    if (!status) {
        snprintf(w->id, sizeof w->id, "%s", a.worker);
        w->claims = w->seen = 0;
        believe(w, &a, sent_us);
    }
    pthread_mutex_unlock(&w->lock);
    buf_done(&body);
    buf_done(&text);
    arena_free(arena);
    return status;
}

/* Under the lock: whether there is anything to claim for. */
static bool idle(crew *w)
{
    while (w->mood == WORKING && (w->running >= w->o->concurrency || (w->server_stops && *w->id && w->running > 0)))
        nap(w, AGAIN_US);
    return w->mood == WORKING;
}

static void *claimer(void *ctx)
{
    crew *w = ctx;
    pawl_error err;
    for (bool begun = false;;) {
        pthread_mutex_lock(&w->lock);
        bool go_on = idle(w);
        int most = (int)w->o->concurrency - w->running;
        if (w->server_stops && w->running == 0) w->id[0] = '\0';
        char worker[sizeof w->id];
        memcpy(worker, w->id, sizeof worker);
        pthread_mutex_unlock(&w->lock);
        if (!go_on) break;
        pawl_status status = *worker ? PAWL_OK : enlist(w, &err);
        bool over = status && (!begun || !pawl_status_retryable(status)); /* a server that was there comes back */
        if (over) w->failure = err;
        if (over) break;
        begun = true;
        int got = *worker && !status ? claim(w, worker, most) : 0;
        pthread_mutex_lock(&w->lock);
        if (status || got < 0) nap(w, AGAIN_US);
        bool finished = w->o->once && *worker && got == 0 && w->running == 0;
        pthread_mutex_unlock(&w->lock);
        if (finished) break;
    }
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- renewing --------------------------------------------------------------------------------------------------------------------- */

static pawl_stop_reason reason_of(json value)
{
    static const char *const names[] = {"", "cancelled", "timeout", "shutdown", "lease_lost"};
    buf text;
    pawl_stop_reason reason = PAWL_STOP_LEASE_LOST;
    buf_init(&text, alloc_default(), 64);
    if (json_string(json_member(value, "reason"), &text)) {
        for (size_t i = 1; i < sizeof names / sizeof *names; i++)
            if (strcmp(names[i], buf_text(&text)) == 0) reason = (pawl_stop_reason)i;
    }
    buf_done(&text);
    return reason;
}

/* Under the lock. */
static void tell(crew *w, pawl_bytes leases, pawl_arena *arena)
{
    json key, value;
    for (size_t at = 0; leases.len && json_each(json_parse(leases), &at, &key, &value);) {
        claimed it = {0};
        if (fields_pick(claimed_fields, value, arena, &it, NULL)) continue;
        list_each(node, &w->jobs) {
            job *j = container_of(node, job, link);
            if (j->id == it.id && j->task.fence == it.fence) atomic_store(&j->stop, reason_of(value));
        }
    }
}

static void write_renewal(crew *w, buf *body, char worker[64])
{
    json_writer out;
    jsonw_init(&out, body, false);
    jsonw_object(&out);
    pthread_mutex_lock(&w->lock);
    json_number(&out, "number", w->seen);
    memcpy(worker, w->id, 64);
    jsonw_key(&out, "held");
    jsonw_array(&out);
    list_each(node, &w->jobs) {
        const job *j = container_of(node, job, link);
        if (strcmp(j->worker, w->id) != 0) continue;
        jsonw_object(&out);
        json_text(&out, "id", j->task.id);
        json_number(&out, "fence", j->task.fence);
        jsonw_end_object(&out);
    }
    pthread_mutex_unlock(&w->lock);
    jsonw_end_array(&out);
    jsonw_end_object(&out);
}

static void renew(crew *w)
{
    pawl_error err;
    answer_of a;
    buf body, text;
    char worker[64];
    pawl_arena *arena = arena_new(alloc_default(), 0);
    buf_init(&body, alloc_default(), TEXT_MAX);
    buf_init(&text, alloc_default(), TEXT_MAX);
    int64_t sent_us = mono_us();
    write_renewal(w, &body, worker);
    pawl_status status = arena && *worker ? ask(w, worker, "renew", &body, arena, &text, &a, &err) : PAWL_NO_MEMORY;
    pthread_mutex_lock(&w->lock);
    if (!status) {
        believe(w, &a, sent_us);
        tell(w, a.stop, arena);
        tell(w, a.lost, arena);
    } else if (status == PAWL_NOT_FOUND) {
        lose_all(w, worker);
    }
    pthread_mutex_unlock(&w->lock);
    buf_done(&body);
    buf_done(&text);
    arena_free(arena);
}

/* ---- the whole ---------------------------------------------------------------------------------------------------------------------- */

static void set_mood(crew *w, mood mood)
{
    pthread_mutex_lock(&w->lock);
    if (mood > w->mood) w->mood = mood;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void on_signal(crew *w, stopper *stop, int64_t *kill_us)
{
    if (!stopper_signalled(stop)) return;
    if (*kill_us == INT64_MAX && !w->o->quiet && !w->c->json)
        fprintf(stderr, "pawl: stopping: running tasks may finish; a second signal stops at once\n");
    if (*kill_us == INT64_MAX) set_mood(w, DRAINING), *kill_us = mono_us() + w->o->grace_us;
    else *kill_us = 0;
}

/* Until the claimer has ended and nothing runs. */
static void attend(crew *w, stopper *stop)
{
    struct pollfd fd = {.fd = stop->signals, .events = POLLIN};
    int64_t kill_us = INT64_MAX, next_us = 0;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        bool over = w->done && w->running == 0;
        int64_t every_us = *w->id && w->renew_us ? w->renew_us : AGAIN_US;
        pthread_mutex_unlock(&w->lock);
        if (over) return;
        if (mono_us() >= next_us) renew(w), next_us = mono_us() + every_us;
        if (mono_us() >= kill_us) set_mood(w, KILLING);
        if (poll(&fd, 1, 50) > 0) on_signal(w, stop, &kill_us);
    }
}

static void leave(crew *w)
{
    char path[128];
    buf text;
    if (!*w->id) return;
    buf_init(&text, alloc_default(), 64 << 10);
    snprintf(path, sizeof path, "/v1/workers/%s", w->id);
    remote_call(w->c, "DELETE", path, NULL, &text, NULL);
    buf_done(&text);
}

int work_remote(cli *c, const work_settings *o, guard *guard)
{
    static crew w;
    stopper stop;
    pthread_t thread;
    pthread_condattr_t monotonic;
    pawl_error err;
    w = (crew){.c = c, .o = o, .guard = guard};
    list_init(&w.jobs);
    pthread_mutex_init(&w.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (stopper_init(&stop, o->grace_us, &err)) return cli_fail(c, &err);
    if (pthread_create(&thread, NULL, claimer, &w)) {
        err_set(&err, PAWL_UNAVAILABLE, "could not start a thread: %s", strerror(errno));
        return cli_fail(c, &err);
    }
    if (!o->quiet && !c->json)
        fprintf(stderr, "pawl: working on queue \"%s\" of %s, %lld at a time; Ctrl-C stops\n", o->queue, c->server,
                (long long)o->concurrency);
    attend(&w, &stop);
    pthread_join(thread, NULL);
    leave(&w);
    guard_stop(guard);
    return w.failure.status ? cli_fail(c, &w.failure) : 0;
}
