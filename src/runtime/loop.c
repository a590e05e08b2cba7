/* Who drives the core, and the loop thread.
 *
 * The core has one owner at a time, but not always the same one: the thread that brings an input drives it if nobody else does.
 * A task that is dispatched, committed and handed to a worker this way wakes one thread instead of three. Inputs that arrive
 * meanwhile gather in the inbox; the driver takes them all at once, round after round, until there are none.
 *
 *     loop_push   leave an input; drive, if nobody does
 *     loop_enter  wait until nobody drives, then be the driver: for everything that must look at the core itself
 *
 * What is brought while workers have runs of microseconds before them (`out`, `soon`) may wait for the first of these to come back: it
 * drives, and what the core and a store in memory have in the caches stays with one processor. If it does not come, pool_look does.
 *
 * `busy` says that somebody drives. Leaving an input and looking at `busy` happen under one lock, as do finding the inbox empty
 * and clearing `busy`: so no input is left behind. A thread that only brought an input drives for ROUNDS rounds and then hands
 * over to the loop thread (`handed`; busy stays set; whoever comes first may take it). A program's retry function and dispatch
 * callbacks are promised the engine's own thread: engines with the former are stepped by nobody else, the latter are called
 * after the loop thread's own steps.
 *
 * The loop thread sleeps in epoll until its timer, a jump of the wall clock, another process's commit or a hand-over wakes it.
 * The timer is only ever set earlier; a step that finds nothing due sets it anew. Idle, there is no system call at all.
 */
#include "runtime/runtime.h"
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#ifndef TFD_TIMER_CANCEL_ON_SET
#define TFD_TIMER_CANCEL_ON_SET (1 << 1)
#endif

#define ROUNDS 8

static _Thread_local runtime *looping; /* this is the loop thread of that engine */

/* ---- driving ------------------------------------------------------------------------------------------------------------- */

static int64_t mono(const runtime *rt) { return rt->clock.boot_us(rt->clock.ctx); }

static void set_busy(runtime *rt)
{
    rt->loop.busy = true;
    rt->loop.busy_since_us = mono(rt);
}

void loop_wake(runtime *rt)
{
    uint64_t one = 1;
    if (rt->loop.threaded && write(rt->loop.wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_line(&rt->log, PAWL_ERROR, "could not wake the engine's thread: %s", strerror(errno));
}

bool loop_is_here(const runtime *rt) { return looping == rt; }

bool loop_may_step(const runtime *rt)
{
    return looping == rt || !rt->loop.threaded || !atomic_load_explicit(&rt->custom_retry, memory_order_relaxed);
}

/* The next inputs for this driver, or NULL: it drives no more. */
static input *take_inputs(runtime *rt, int round)
{
    loop *l = &rt->loop;
    bool soon = pool_short(rt) && !atomic_load_explicit(&rt->custom_retry, memory_order_relaxed),
         here = looping == rt || !l->threaded || (round < ROUNDS && loop_may_step(rt));
    pthread_mutex_lock(&l->lock);
    l->soon = soon;
    bool leave = round > 0 && soon && l->out > 0, wake = false, go_on = here && !leave;
    input *all = l->first;
    if (all && l->wanting == 0 && go_on) {
        l->first = NULL;
        l->last = &l->first;
        if (round > 0) l->busy_since_us = mono(rt);
    } else {
        wake = l->handed = all && l->wanting == 0;
        l->busy = wake;
        if (l->wanting > 0) pthread_cond_signal(&l->freed);
        all = NULL;
    }
    pthread_mutex_unlock(&l->lock);
    if (wake && !leave) loop_wake(rt);
    return all;
}

static void drive(runtime *rt)
{
    input *in;
    for (int round = 0; (in = take_inputs(rt, round)); round++) step_inputs(rt, in);
}

typedef enum who { WHO_LOOP, WHO_SOON, WHO_HERE } who; /* is to drive: the loop thread, a worker that comes, this thread */

static void append(loop *l, input *first, input *last)
{
    if (!first) return;
    last->next = NULL;
    *l->last = first;
    l->last = &last->next;
}

static void push(runtime *rt, input *first, input *last, who who, int back)
{
    loop *l = &rt->loop;
    bool here = !l->threaded || looping == rt || (who != WHO_LOOP && loop_may_step(rt));
    pthread_mutex_lock(&l->lock);
    append(l, first, last);
    l->out -= back;
    bool later = who == WHO_SOON && here && l->soon && l->out > 0;
    bool mine = l->first && (!l->busy || (l->handed && here && !later)) && l->wanting == 0;
    if (mine) {
        set_busy(rt);
        l->handed = !here || later;
    }
    pthread_mutex_unlock(&l->lock);
    if (!mine || later) return;
    if (here) drive(rt);
    else loop_wake(rt);
}

void loop_push(runtime *rt, input *in, bool may_drive) { push(rt, in, in, may_drive ? WHO_HERE : WHO_LOOP, 0); }
void loop_push_soon(runtime *rt, input *in, int runs) { push(rt, in, in, WHO_SOON, runs); }
void loop_come_back(runtime *rt, input *first, input *last, int runs) { push(rt, first, last, WHO_HERE, runs); }

void loop_out(runtime *rt, int runs)
{
    if (runs == 0) return;
    pthread_mutex_lock(&rt->loop.lock);
    rt->loop.out += runs;
    pthread_mutex_unlock(&rt->loop.lock);
}

bool loop_enter(runtime *rt, int64_t timeout_us)
{
    loop *l = &rt->loop;
    int64_t until = runtime_until(timeout_us);
    bool in_time = true;
    pthread_mutex_lock(&l->lock);
    l->wanting++;
    while (l->busy && !l->handed && in_time) in_time = runtime_wait(&l->freed, &l->lock, until);
    l->wanting--;
    bool mine = !l->busy || l->handed;
    if (mine) set_busy(rt);
    if (mine) l->handed = false;
    pthread_mutex_unlock(&l->lock);
    return mine;
}

void loop_leave(runtime *rt)
{
    step_inputs(rt, NULL);
    drive(rt);
}

int64_t loop_lag(runtime *rt)
{
    loop *l = &rt->loop;
    int64_t now = mono(rt), armed = atomic_load(&l->armed_us), lag = armed < now ? now - armed : 0;
    pthread_mutex_lock(&l->lock);
    if (l->busy && now - l->busy_since_us > lag) lag = now - l->busy_since_us;
    pthread_mutex_unlock(&l->lock);
    return lag;
}

/* ---- the loop thread ----------------------------------------------------------------------------------------------------- */

static struct itimerspec timer_at(int64_t us)
{
    if (us < 1) us = 1; /* zero would mean never */
    return (struct itimerspec){.it_value = {.tv_sec = us / PAWL_SECOND, .tv_nsec = us % PAWL_SECOND * 1000}};
}

void loop_arm(runtime *rt, int64_t at_us)
{
    loop *l = &rt->loop;
    if (!l->threaded || at_us >= atomic_load_explicit(&l->armed_us, memory_order_relaxed)) return;
    atomic_store(&l->armed_us, at_us);
    struct itimerspec at = timer_at(at_us);
    timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Far away, and cancelled by any jump of the wall clock. */
static bool watch_clock(loop *l)
{
    struct itimerspec far = timer_at(INT64_C(4102444800) * PAWL_SECOND);
    return timerfd_settime(l->clock_fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL) == 0;
}

static void empty(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) > 0) continue;
}

void loop_callback(runtime *rt, ticket *t)
{
    loop *l = &rt->loop;
    t->next = NULL;
    pthread_mutex_lock(&l->lock);
    *l->callbacks_last = t;
    l->callbacks_last = &t->next;
    pthread_mutex_unlock(&l->lock);
    if (looping != rt) loop_wake(rt);
}

static void call_back(runtime *rt)
{
    loop *l = &rt->loop;
    pthread_mutex_lock(&l->lock);
    ticket *t = l->callbacks;
    l->callbacks = NULL;
    l->callbacks_last = &l->callbacks;
    pthread_mutex_unlock(&l->lock);
    for (ticket *next; t; t = next) {
        next = t->next;
        ticket_call_back(t);
    }
}

static void woken(runtime *rt)
{
    loop *l = &rt->loop;
    empty(l->wake_fd);
    pthread_mutex_lock(&l->lock);
    bool mine = l->handed;
    l->handed = false;
    pthread_mutex_unlock(&l->lock);
    if (mine) drive(rt);
}

static void time_has_come(runtime *rt)
{
    empty(rt->loop.timer_fd);
    loop_enter(rt, -1);
    atomic_store(&rt->loop.armed_us, INT64_MAX);
    step_tick(rt, runtime_now(rt));
    loop_leave(rt);
}

static void clock_jumped(runtime *rt)
{
    uint64_t count;
    ssize_t n = read(rt->loop.clock_fd, &count, sizeof count);
    bool jumped = n < 0 && errno == ECANCELED;
    watch_clock(&rt->loop);
    if (!jumped) return;
    log_line(&rt->log, PAWL_INFO, "the wall clock jumped");
    loop_enter(rt, -1);
    core_clock_jumped(rt->core, runtime_now(rt));
    loop_leave(rt);
}

/* Somebody else may have committed. */
static void look_at_watch(runtime *rt)
{
    bool changed = false;
    int64_t again_us = -1;
    store_watch_check(rt->store, &changed, &again_us);
    rt->loop.recheck_us = again_us >= 0 ? mono(rt) + again_us : INT64_MAX;
    if (!changed) return;
    loop_enter(rt, -1); /* first of all: there may be work */
    core_wake(rt->core, runtime_now(rt));
    loop_leave(rt);
    if (!CANARY(WAIT_UNWOKEN)) waits_wake(rt, NULL);
    feed_poke(rt, true);
    feed_look(rt);
}

static int sleep_ms(const runtime *rt)
{
    if (rt->loop.recheck_us == INT64_MAX) return -1;
    int64_t left = rt->loop.recheck_us - mono(rt);
    return left <= 0 ? 0 : (int)((left + 999) / 1000);
}

static bool quitting(loop *l)
{
    pthread_mutex_lock(&l->lock);
    bool quit = l->quit;
    pthread_mutex_unlock(&l->lock);
    return quit;
}

static void handle_event(runtime *rt, int fd)
{
    loop *l = &rt->loop;
    if (fd == l->wake_fd) woken(rt);
    else if (fd == l->timer_fd) time_has_come(rt);
    else if (fd == l->clock_fd) clock_jumped(rt);
    else look_at_watch(rt);
}

static void *loop_thread(void *arg)
{
    runtime *rt = arg;
    loop *l = &rt->loop;
    struct epoll_event ready[4];
    looping = rt;
    while (!quitting(l)) {
        int n = epoll_wait(l->epoll_fd, ready, 4, sleep_ms(rt));
        for (int i = 0; i < n; i++) handle_event(rt, ready[i].data.fd);
        if (l->recheck_us <= mono(rt)) look_at_watch(rt);
        call_back(rt);
    }
    looping = NULL;
    if (!rt->abandoned) return NULL;
    pthread_detach(pthread_self());
    runtime_free(rt);
    return NULL;
}

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

bool loop_init(runtime *rt)
{
    loop *l = &rt->loop;
    pthread_mutex_init(&l->lock, NULL);
    runtime_cond_init(&l->freed);
    l->last = &l->first;
    l->callbacks_last = &l->callbacks;
    l->epoll_fd = l->wake_fd = l->timer_fd = l->clock_fd = l->watch_fd = -1;
    l->recheck_us = INT64_MAX;
    atomic_store(&l->armed_us, INT64_MAX);
    return true;
}

static bool watch(loop *l, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd >= 0 && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool loop_start(runtime *rt)
{
    loop *l = &rt->loop;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    l->clock_fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (!watch(l, l->wake_fd) || !watch(l, l->timer_fd) || !watch(l, l->clock_fd) || !watch_clock(l)) return false;
    l->watch_fd = store_watch_fd(rt->store);
    if (l->watch_fd >= 0 && !watch(l, l->watch_fd)) return false;
    l->threaded = true;
    if (!runtime_thread(&l->thread, "pawl-loop", loop_thread, rt)) l->threaded = false;
    return l->threaded;
}

void loop_quit(runtime *rt)
{
    pthread_mutex_lock(&rt->loop.lock);
    rt->loop.quit = true;
    pthread_mutex_unlock(&rt->loop.lock);
    loop_wake(rt);
}

void loop_done(runtime *rt)
{
    loop *l = &rt->loop;
    call_back(rt);
    int fds[] = {l->epoll_fd, l->wake_fd, l->timer_fd, l->clock_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0) close(fds[i]);
    pthread_cond_destroy(&l->freed);
    pthread_mutex_destroy(&l->lock);
}
