/* Birth, start, drain, stop and death of an engine.
 *
 * Stopping is the core's business; here somebody asks for it and waits to be told (CORE_DRAINED, CORE_STOPPED). An engine that
 * is closed while a handler will not return is abandoned: the caller gets TIMEOUT, but the engine's threads go on in the
 * background and keep the lease, so that nobody else runs the task beside it. When the last run has returned, the loop thread
 * frees everything, itself last.
 */
#include "runtime/gate.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_MOST_US (5 * PAWL_SECOND)
#define FOREVER_US (INT64_C(36525) * PAWL_DAY)

int64_t runtime_patience_us = 5 * PAWL_SECOND;

/* ---- time, waiting, threads ---------------------------------------------------------------------------------------------- */

core_time runtime_now(const runtime *rt)
{
    return (core_time){.mono_us = rt->clock.boot_us(rt->clock.ctx), .wall_us = rt->clock.wall_us(rt->clock.ctx)};
}

void runtime_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int64_t runtime_until(int64_t timeout_us)
{
    if (timeout_us < 0 || timeout_us > FOREVER_US) return INT64_MAX;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000 + timeout_us;
}

bool runtime_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us)
{
    if (until_us == INT64_MAX) {
        pthread_cond_wait(cond, lock);
        return true;
    }
    struct timespec until = {.tv_sec = until_us / PAWL_SECOND, .tv_nsec = until_us % PAWL_SECOND * 1000};
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}

bool runtime_thread(pthread_t *thread, const char *name, void *(*body)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) pthread_setname_np(*thread, name);
    return !failed;
}

/* ---- birth --------------------------------------------------------------------------------------------------------------- */

static void init_locks(runtime *rt)
{
    pthread_mutex_init(&rt->config_lock, NULL);
    zones_init(rt);
    pthread_mutex_init(&rt->stop_lock, NULL);
    pthread_mutex_init(&rt->phase_lock, NULL);
    runtime_cond_init(&rt->stop_cond);
    runtime_cond_init(&rt->phase_cond);
    waits_init(&rt->waits);
    events_init(rt);
    pthread_mutex_init(&rt->feed.lock, NULL);
    runtime_cond_init(&rt->feed.cond);
    loop_init(rt);
}

static runtime *new_runtime(const pawl_options *options)
{
    const pawl_allocator *a = options && options->allocator.alloc ? &options->allocator : alloc_default();
    runtime *rt = alloc_new(a, sizeof *rt);
    if (!rt) return NULL;
    rt->allocator = *a;
    init_locks(rt);
    map_init(&rt->handlers, &rt->allocator);
    list_init(&rt->tickets);
    list_init(&rt->callbacks_waiting);
    list_init(&rt->runs);
    list_init(&rt->late);
    rt->look_us = INT64_MAX;
    rt->answered_last = &rt->answered;
    rt->inline_runs_last = &rt->inline_runs;
    rt->kept = arena_new(&rt->allocator, 0);
    return rt;
}

static void init_clock(runtime *rt)
{
    rt->clock = clock_system();
    if (!rt->options.inline_mode) return;
    core_time now = runtime_now(rt);
    rt->virtual_now.now_us = rt->options.inline_start_us ? rt->options.inline_start_us : now.wall_us;
    rt->virtual_now.boot_us = now.mono_us;
    rt->clock = clock_virtual(&rt->virtual_now);
}

/* "password", "sslpassword"; what is coded may be one of these. */
static bool names_secret(const char *name, size_t n)
{
    return memchr(name, '%', n) || (n >= 8 && strncasecmp(name + n - 8, "password", 8) == 0);
}

#define SPACES " \f\n\r\t\v"

static const char *end_of_value(const char *at, bool words)
{
    if (!words) return at + strcspn(at, "&");
    bool quoted = *at == '\'';
    for (at += quoted; *at && !strchr(quoted ? "'" : SPACES, *at); at++)
        if (*at == '\\' && at[1]) at++;
    return quoted && *at ? at + 1 : at;
}

/* name=value&name=value, or name = 'value' name=value: a secret becomes an asterisk. */
static void hide_values(char *at, bool words)
{
    while (*(at += strspn(at, words ? SPACES : "&"))) {
        char *name = at;
        size_t n = strcspn(name, words ? SPACES "=" : "&=");
        at += n;
        if (words) at += strspn(at, SPACES);
        if (*at != '=') continue;
        at++;
        if (words) at += strspn(at, SPACES);
        const char *end = end_of_value(at, words);
        if (names_secret(name, n) && end > at) {
            *at++ = '*';
            memmove(at, end, strlen(end) + 1);
        } else {
            at += end - at;
        }
    }
}

static bool is_path(const char *url) { return strncmp(url, "sqlite:", 7) == 0 || strncmp(url, "memory:", 7) == 0; }

/* The URL without what stands between "user:" and "@", and without passwords among its parameters; a path has neither. */
char *runtime_public_url(pawl_arena *arena, const char *url)
{
    char *copy = pawl_arena_str(arena, url);
    const char *slashes = url + strcspn(url, ":"), *at = strncmp(slashes, "://", 3) == 0 ? strrchr(slashes, '@') : NULL;
    const char *colon = at && slashes[3] != '/' ? memchr(slashes + 3, ':', (size_t)(at - slashes - 3)) : NULL;
    if (copy && colon) strcpy(copy + (colon - url), at);
    if (!copy || is_path(url)) return copy;
    bool words = strncmp(slashes, "://", 3) != 0;
    char *parameters = copy + strcspn(copy, words ? ":" : "?");
    if (*parameters) hide_values(parameters + 1, words);
    return copy;
}

static pawl_status open_store(runtime *rt, pawl_error *err)
{
    const pawl_options *o = &rt->options;
    int64_t wait_us = o->lease_us / 6 < LOCK_WAIT_MOST_US ? o->lease_us / 6 : LOCK_WAIT_MOST_US;
    pawl_store_options store = {.url = o->store,
                                .no_migrate = o->no_migrate,
                                .shared_file = o->shared_file,
                                .read_only = o->read_only,
                                .lease_us = o->lease_us,
                                .lock_wait_us = wait_us < o->dispatch_timeout_us ? wait_us : o->dispatch_timeout_us,
                                .clock = rt->clock,
                                .allocator = &rt->allocator,
                                .log = rt->log.sink,
                                .log_ctx = rt->log.ctx};
    pawl_status status = store_open(&store, &rt->store, err);
    if (!status) rt->direct = o->inline_mode || !rt->store->type->blocking;
    return status;
}

static pawl_sweep retention(const pawl_options *o)
{
    return (pawl_sweep){.keep_succeeded_us = o->keep_succeeded_us,
                        .keep_cancelled_us = o->keep_cancelled_us,
                        .keep_resolved_us = o->keep_resolved_us,
                        .keep_failed_us = o->keep_failed_us,
                        .keep_audit_us = o->keep_audit_us,
                        .keep_logs_us = o->keep_logs_us};
}

static pawl_status new_core(runtime *rt)
{
    const pawl_options *o = &rt->options;
    core_config config = {.allocator = &rt->allocator,
                          .seed = o->seed,
                          .lanes = rt->store->type->lanes < LANES_MAX ? rt->store->type->lanes : LANES_MAX,
                          .one_shot = o->one_shot,
                          .lease_us = o->lease_us,
                          .long_run_us = o->long_run_us,
                          .capacity = o->capacity,
                          .surplus = o->inline_mode ? 0 : POOL_SURPLUS,
                          .parked_max = o->parked_max,
                          .keys_max = o->rate_keys_max,
                          .deferral_events_off = o->no_deferral_events,
                          .depth_is_capacity = !rt->store->type->durable,
                          .engine = config_policy(o),
                          .retention = retention(o),
                          .node_name = o->name,
                          .pid = getpid(),
                          .outlives = o->leases_outlive,
                          .zone = zones_get,
                          .zone_ctx = rt};
    return core_new(&config, &rt->core);
}

static pawl_status build(runtime *rt, const pawl_options *options, pawl_error *err)
{
    if (!rt->kept) return err_set(err, PAWL_NO_MEMORY, "could not open the engine: out of memory");
    pawl_status status = config_fill(rt, options, err);
    if (status) return status;
    logger_init(&rt->log, rt->options.log, rt->options.log_ctx, rt->options.log_level);
    rt->log.hidden = &rt->hidden;
    init_clock(rt);
    if ((status = open_store(rt, err))) return status;
    rt->url = runtime_public_url(rt->kept, rt->options.store);
    if (!rt->url || new_core(rt) || !storeq_init(rt))
        return err_set(err, PAWL_NO_MEMORY, "could not open \"%s\": out of memory", rt->options.store);
    if ((status = config_defaults(rt, err))) return status;
    if (!rt->options.inline_mode && !loop_start(rt))
        return err_set(err, PAWL_UNAVAILABLE, "could not start the engine's thread: %s", strerror(errno));
    if (!feed_start(rt)) return err_set(err, PAWL_UNAVAILABLE, "could not start the engine's thread: %s", strerror(errno));
    if (!(rt->handle = handle_new(rt))) return err_set(err, PAWL_NO_MEMORY, "could not open the engine: out of memory");
    return PAWL_OK;
}

static void end_loop_thread(runtime *rt)
{
    if (!rt->loop.threaded) return;
    loop_quit(rt);
    pthread_join(rt->loop.thread, NULL);
}

pawl_status runtime_open(const pawl_options *options, runtime **out, pawl_error *err)
{
    const pawl_allocator *a = options ? &options->allocator : NULL;
    if (a && (!a->alloc != !a->resize || !a->alloc != !a->release))
        return err_set(err, PAWL_INVALID, "the allocator lacks a function: set all of alloc, resize and release");
    runtime *rt = new_runtime(options);
    if (!rt) return err_set(err, PAWL_NO_MEMORY, "could not open the engine: out of memory");
    pawl_status status = build(rt, options, err);
    if (status) {
        feed_stop(rt);
        end_loop_thread(rt);
        runtime_free(rt);
        return status;
    }
    *out = rt;
    return PAWL_OK;
}

/* ---- start --------------------------------------------------------------------------------------------------------------- */

static void set_phase(runtime *rt, phase to)
{
    pthread_mutex_lock(&rt->phase_lock);
    rt->phase = to;
    pthread_cond_broadcast(&rt->phase_cond);
    pthread_mutex_unlock(&rt->phase_lock);
}

static phase get_phase(runtime *rt)
{
    pthread_mutex_lock(&rt->phase_lock);
    phase now = rt->phase;
    pthread_mutex_unlock(&rt->phase_lock);
    return now;
}

/* As the driver. */
static pawl_status start(runtime *rt, pawl_error *err)
{
    if (get_phase(rt) == PHASE_STARTED) return err_set(err, PAWL_MISUSE, "the engine is started already");
    if (get_phase(rt) == PHASE_STOPPING)
        return err_set(err, PAWL_MISUSE, "the engine is being stopped: start it when pawl_stop has returned");
    if (!rt->handlers_list) return err_set(err, PAWL_MISUSE, "the engine has no handler: register one with pawl_handle first");
    pawl_status status = atomic_load(&rt->frozen) ? PAWL_OK : config_handler_queues(rt, err);
    if (status) return status;
    if (core_start(rt->core, runtime_now(rt)) || (rt->loop.threaded && !pool_start_all(rt)))
        return err_set(err, PAWL_NO_MEMORY, "could not start the engine: out of memory");
    atomic_store(&rt->frozen, true);
    atomic_store(&rt->drainable, true);
    rt->drained_for = false;
    set_phase(rt, PHASE_STARTED);
    return PAWL_OK;
}

pawl_status runtime_start(runtime *rt, pawl_error *err)
{
    if (rt->options.one_shot)
        return err_set(err, PAWL_MISUSE, "the engine was opened one_shot and cannot run tasks: open it without");
    if (rt->options.read_only)
        return err_set(err, PAWL_MISUSE, "the engine was opened read_only and cannot run tasks: open it without");
    pawl_status status = gate_check(rt, err);
    if (status == PAWL_UNAVAILABLE) status = PAWL_OK; /* it is started all the same, and goes on when the store is back */
    if (status) return status;
    loop_enter(rt, -1);
    status = start(rt, err);
    loop_leave(rt);
    return status;
}

/* ---- drain and stop ------------------------------------------------------------------------------------------------------ */

void runtime_told(runtime *rt, const core_action *action)
{
    bool last = action->kind == CORE_STOPPED && rt->abandoned && action->stuck == 0;
    pthread_mutex_lock(&rt->phase_lock);
    if (action->kind == CORE_STOPPED) {
        rt->stopped_seq++;
        rt->stuck = action->stuck;
    }
    if (action->kind != CORE_STOPPED || action->stuck == 0) rt->drained_seq++; /* a stop also ends a drain it overtook */
    pthread_cond_broadcast(&rt->phase_cond);
    pthread_mutex_unlock(&rt->phase_lock);
    if (last) loop_quit(rt);
}

/* Waits until *seq is beyond `seen`; false: not in time, or the engine closes under a call from outside. */
static bool told(runtime *rt, const int64_t *seq, int64_t seen, int64_t timeout_us, bool closing_too)
{
    int64_t until = runtime_until(timeout_us);
    bool in_time = true;
    pthread_mutex_lock(&rt->phase_lock);
    while (*seq <= seen && in_time && (closing_too || !atomic_load(&rt->closing)))
        in_time = runtime_wait(&rt->phase_cond, &rt->phase_lock, until);
    bool yes = *seq > seen;
    pthread_mutex_unlock(&rt->phase_lock);
    return yes;
}

static int64_t read_seq(runtime *rt, const int64_t *seq)
{
    pthread_mutex_lock(&rt->phase_lock);
    int64_t value = *seq;
    pthread_mutex_unlock(&rt->phase_lock);
    return value;
}

static pawl_status closing(pawl_error *err) { return err_set(err, PAWL_CLOSED, "the engine was closed meanwhile"); }

pawl_status runtime_drain(runtime *rt, int64_t timeout_us, pawl_error *err)
{
    loop_enter(rt, -1);
    phase now = get_phase(rt);
    int64_t seen = read_seq(rt, &rt->drained_seq);
    bool runs = now == PHASE_STARTED || now == PHASE_DRAINED;
    if (runs) core_drain(rt->core, runtime_now(rt));
    if (runs) set_phase(rt, PHASE_DRAINED);
    loop_leave(rt);
    if (!runs) return err_set(err, PAWL_MISUSE, "the engine is not started: there is nothing to drain");
    if (told(rt, &rt->drained_seq, seen, rt->options.inline_mode ? 0 : timeout_us, false)) return PAWL_OK;
    if (atomic_load(&rt->closing)) return closing(err);
    return err_set(err, PAWL_TIMEOUT, "runs are still going on: they will end by themselves, nothing new starts meanwhile");
}

/* A node that its own program has drained or stopped stays so. */
void runtime_drain_asked(runtime *rt, bool on)
{
    loop_enter(rt, -1);
    bool turn = get_phase(rt) == PHASE_STARTED && rt->drained_for != on;
    if (turn && on) core_drain(rt->core, runtime_now(rt));
    if (turn && (on || core_start(rt->core, runtime_now(rt)) == PAWL_OK)) rt->drained_for = on;
    loop_leave(rt);
    if (turn)
        log_line(&rt->log, PAWL_WARN,
                 on ? "this node was asked to drain: nothing more starts here"
                    : "this node starts tasks again, as it was asked to");
}

pawl_status runtime_drain_node(runtime *rt, int64_t node, bool on, const char *by, pawl_error *err)
{
    if (rt->options.read_only)
        return err_set(err, PAWL_MISUSE, "%s was opened read_only: open it without to change anything", rt->url);
    pawl_status status = valid_optional(by, "name of the person", err);
    if (status) return status;
    atomic_fetch_add(&rt->drain_calls, 1);
    status = store_drain(rt->store, node, on, by, err);
    if (!status && atomic_load(&rt->drainable) && look_numbers(rt).node == node) runtime_drain_asked(rt, on);
    atomic_fetch_add(&rt->drain_calls, 1);
    return status;
}

static pawl_status not_stopped(runtime *rt, pawl_error *err)
{
    long long running = look_numbers(rt).running;
    if (running == 0)
        return err_set(err, PAWL_TIMEOUT, "the store could not be told that this node goes: others will find out by themselves");
    return err_set(err, PAWL_TIMEOUT, "%lld %s not return: the lease is kept until it does, or until this process ends", running,
                   running == 1 ? "run did" : "runs did");
}

static pawl_status stop(runtime *rt, int64_t grace_us, bool for_close, pawl_error *err)
{
    bool inl = rt->options.inline_mode;
    loop_enter(rt, -1);
    int64_t seen = read_seq(rt, &rt->stopped_seq);
    set_phase(rt, PHASE_STOPPING);
    core_stop(rt->core, runtime_now(rt), inl || grace_us < 0 ? 0 : grace_us, inl ? 1 : runtime_patience_us);
    loop_leave(rt);
    if (inl) inline_give_back(rt);
    if (!told(rt, &rt->stopped_seq, seen, inl ? 0 : -1, for_close)) return closing(err);
    set_phase(rt, PHASE_STOPPED);
    return rt->stuck == 0 ? PAWL_OK : not_stopped(rt, err);
}

pawl_status runtime_stop(runtime *rt, pawl_error *err)
{
    phase now = get_phase(rt);
    if (now == PHASE_OPEN || now == PHASE_STOPPED) return PAWL_OK;
    return stop(rt, rt->options.grace_us, false, err);
}

/* ---- death --------------------------------------------------------------------------------------------------------------- */

static void destroy_handlers(runtime *rt)
{
    for (handler_def *def = rt->handlers_list; def; def = def->next)
        if (def->h.destroy) def->h.destroy(def->h.ctx);
}

static void destroy_locks(runtime *rt)
{
    pthread_cond_destroy(&rt->stop_cond);
    pthread_cond_destroy(&rt->phase_cond);
    pthread_mutex_destroy(&rt->stop_lock);
    pthread_mutex_destroy(&rt->phase_lock);
    pthread_mutex_destroy(&rt->config_lock);
    zones_done(rt);
    waits_done(&rt->waits);
}

/* The loop thread has ended (or is the caller), nobody is inside. Also for one that was never finished. */
void runtime_free(runtime *rt)
{
    pool_done_all(rt);
    if (rt->store) storeq_done(rt);
    loop_done(rt);
    core_free(rt->core);
    ticket_done_all(rt);
    work_done(rt);
    store_close(rt->store);
    events_done(rt);
    feed_done(rt);
    destroy_handlers(rt);
    map_done(&rt->handlers);
    destroy_locks(rt);
    handle_recycle(rt->handle);
    arena_free(rt->kept);
    pawl_allocator a = rt->allocator;
    alloc_free(&a, rt);
}

static void wake_everybody(runtime *rt)
{
    atomic_store(&rt->closing, true);
    set_phase(rt, get_phase(rt));
    waits_wake(rt, NULL);
    loop_enter(rt, -1);
    ticket_wake_all(rt);
    loop_leave(rt);
}

static void abandon(runtime *rt)
{
    log_line(&rt->log, PAWL_WARN, "closed while %d of its runs would not return: their leases are kept until they do", rt->stuck);
    loop_enter(rt, -1);
    rt->abandoned = true;
    core_stop(rt->core, runtime_now(rt), 0, FOREVER_US);
    loop_leave(rt);
}

pawl_status runtime_close(runtime *rt, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    wake_everybody(rt);
    phase now = get_phase(rt);
    if (!rt->options.read_only)
        status = stop(rt, now == PHASE_OPEN || now == PHASE_STOPPED ? 0 : rt->options.grace_us, true, err);
    handle_closed(rt->handle);
    loop_enter(rt, -1);
    ticket_expire_all(rt);
    loop_leave(rt);
    feed_stop(rt);
    if (status && look_numbers(rt).running > 0 && rt->loop.threaded) {
        abandon(rt);
        return status;
    }
    end_loop_thread(rt);
    runtime_free(rt);
    return status;
}
