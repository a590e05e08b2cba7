/* pawl work --server: the same for a server (docs/workers.md).
 *
 *     main      signals; renews the lease
 *     claimer   waits for tasks, as many as there are free hands, and starts a thread for each
 *     jobs      run the command and report; while the server does not answer they try again, as long as the lease lasts
 *
 * A job whose lease is over is stopped and says nothing: somebody else has its task, or will. If the server does not know the worker any more
 * everything it holds is lost, and it registers again.
 */
#include "cli/work_remote.h"

#include "base/alloc.h"
#include "base/error.h"
#include "cli/remote.h"
#include "cli/stop.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define WAIT_TEXT "2s" /* a signal is heard of that late by the claimer */

int64_t remote_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000;
}

void remote_nap(crew *w, int64_t us)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + us % PAWL_SECOND * 1000;
    at.tv_sec += us / PAWL_SECOND + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&w->changed, &w->lock, &at);
}

void remote_ring(const crew *w)
{
    uint64_t one = 1;
    if (write(w->bell, &one, sizeof one) < 0) errno = 0; /* it rings already */
}

/* ---- the server ----------------------------------------------------------------------------------------------------------------- */

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

pawl_status remote_ask(const crew *w, const char *worker, const char *what, const buf *body, pawl_arena *arena, buf *text,
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

void remote_believe(crew *w, const answer_of *a, int64_t sent_us)
{
    w->until_us = sent_us + a->lease_us;
    if (a->renew_us) w->renew_us = a->renew_us;
    w->server_stops = a->stopping;
    if (a->drain && w->mood == WORKING) w->mood = DRAINING;
    pthread_cond_broadcast(&w->changed);
}

void remote_lose(crew *w, const char *worker)
{
    if (strcmp(w->id, worker) != 0) return;
    w->id[0] = '\0';
    list_each(node, &w->jobs) atomic_store(&container_of(node, job, link)->stop, PAWL_STOP_LEASE_LOST);
    pthread_cond_broadcast(&w->changed);
}

/* ---- claiming --------------------------------------------------------------------------------------------------------------------- */

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
    int64_t number = ++w->claims, sent_us = remote_now();
    pthread_mutex_unlock(&w->lock);
    buf_fmt(&body, "{\"max\":%d,\"wait\":\"%s\",\"number\":%lld}", most, w->o->once ? "0s" : WAIT_TEXT, (long long)number);
    pawl_status status = arena ? remote_ask(w, worker, "claim", &body, arena, &text, &a, &err) : PAWL_NO_MEMORY;
    pthread_mutex_lock(&w->lock);
    bool begin = w->mood == WORKING; /* else they are not named, and so given back */
    pthread_mutex_unlock(&w->lock);
    for (size_t at = 0; begin && !status && a.tasks.len && json_each(json_parse(a.tasks), &at, &key, &value);)
        if (remote_job(w, value, worker)) count++;
    pthread_mutex_lock(&w->lock);
    w->seen = number; /* what did not arrive is not among the jobs, and will not be */
    if (!status) remote_believe(w, &a, sent_us);
    else if (status == PAWL_NOT_FOUND) remote_lose(w, worker);
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
    int64_t sent_us = remote_now();
    buf_init(&body, alloc_default(), 64 << 10);
    buf_init(&text, alloc_default(), TEXT_MAX);
    write_registration(w, &body);
    pawl_status status =
        arena ? remote_ask(w, "", "", &body, arena, &text, &a, err) : err_set(err, PAWL_NO_MEMORY, "out of memory");
    if (!status && (!a.worker || strlen(a.worker) >= sizeof w->id))
        status = err_set(err, PAWL_INTERNAL, "the server's answer is odd");
    pthread_mutex_lock(&w->lock);
    if (!status) {
        snprintf(w->id, sizeof w->id, "%s", a.worker);
        w->claims = w->seen = 0;
        remote_believe(w, &a, sent_us);
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
        remote_nap(w, AGAIN_US);
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
        if (status || got < 0) remote_nap(w, AGAIN_US);
        bool finished = w->o->once && *worker && got == 0 && w->running == 0;
        pthread_mutex_unlock(&w->lock);
        if (finished) break;
    }
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    remote_ring(w);
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
        if (fields_pick(remote_task_fields, value, arena, &it, NULL)) continue;
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
    int64_t sent_us = remote_now();
    write_renewal(w, &body, worker);
    pawl_status status = arena && *worker ? remote_ask(w, worker, "renew", &body, arena, &text, &a, &err) : PAWL_NO_MEMORY;
    pthread_mutex_lock(&w->lock);
    if (!status) {
        remote_believe(w, &a, sent_us);
        tell(w, a.stop, arena);
        tell(w, a.lost, arena);
    } else if (status == PAWL_NOT_FOUND) {
        remote_lose(w, worker);
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
    if (*kill_us == INT64_MAX) set_mood(w, DRAINING), *kill_us = remote_now() + w->o->grace_us;
    else *kill_us = 0;
}

static int sleep_ms(int64_t next_us, int64_t kill_us)
{
    int64_t left_us = (next_us < kill_us ? next_us : kill_us) - remote_now();
    return left_us <= 0 ? 0 : (int)(left_us / 1000) + 1;
}

/* Until the claimer has ended and nothing runs. */
static void attend(crew *w, stopper *stop)
{
    struct pollfd fds[] = {{.fd = stop->signals, .events = POLLIN}, {.fd = w->bell, .events = POLLIN}};
    int64_t kill_us = INT64_MAX, next_us = 0;
    uint64_t rings;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        bool over = w->done && w->running == 0;
        int64_t every_us = *w->id && w->renew_us ? w->renew_us : AGAIN_US;
        pthread_mutex_unlock(&w->lock);
        if (over) return;
        if (remote_now() >= next_us) renew(w), next_us = remote_now() + every_us;
        if (remote_now() >= kill_us) set_mood(w, KILLING), kill_us = INT64_MAX - 1;
        if (poll(fds, 2, sleep_ms(next_us, kill_us)) <= 0) continue;
        if (fds[0].revents) on_signal(w, stop, &kill_us);
        if (fds[1].revents && read(w->bell, &rings, sizeof rings) < 0) errno = 0; /* it has stopped ringing */
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
    w = (crew){.c = c, .o = o, .guard = guard, .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
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
