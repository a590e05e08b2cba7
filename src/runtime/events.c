/* Subscriptions: a ring of events for each subscriber. Whoever publishes never waits: a full ring loses its oldest, and the
 * next one handed out says how many were lost. A subscription outlives its engine; it then hands out what it still has. */
#include "runtime/runtime.h"
#include <sys/eventfd.h>
#include <unistd.h>

#define CAPACITY 1024
#define CAPACITY_MOST ((size_t)1 << 20)

struct pawl_subscription {
    list link;
    pawl_allocator allocator;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    runtime *rt; /* under `ends`; NULL: closed */
    bool closed;
    pawl_event *ring;
    size_t room, first, count;
    uint64_t lost;
    int fd; /* readable while count > 0; -1: nobody asked for it */
};

/* Orders the ends of engines and of their subscriptions, which may come in any order; taken before an engine's events.lock. */
static pthread_mutex_t ends = PTHREAD_MUTEX_INITIALIZER;

void events_init(runtime *rt)
{
    pthread_mutex_init(&rt->events.lock, NULL);
    list_init(&rt->events.subscriptions);
}

/* ---- the descriptor: under the subscription's lock ----------------------------------------------------------------------- */

static void set_readable(pawl_subscription *s, bool readable)
{
    uint64_t count = 1;
    if (s->fd < 0) return;
    ssize_t n = readable ? write(s->fd, &count, sizeof count) : read(s->fd, &count, sizeof count);
    (void)n; /* it is in that state already */
}

/* ---- publishing ---------------------------------------------------------------------------------------------------------- */

static void put(pawl_subscription *s, const pawl_event *event)
{
    pthread_mutex_lock(&s->lock);
    if (s->count == s->room) {
        s->lost += !CANARY(LOSS_UNTOLD);
        s->first = (s->first + 1) % s->room;
        s->count--;
    }
    pawl_event *at = &s->ring[(s->first + s->count++) % s->room];
    *at = *event;
    if (s->count == 1) set_readable(s, true);
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->lock);
}

void events_publish(runtime *rt, const pawl_event *event)
{
    pthread_mutex_lock(&rt->events.lock);
    bool wanted = !list_empty(&rt->events.subscriptions);
    list_each(node, &rt->events.subscriptions) put(container_of(node, pawl_subscription, link), event);
    pthread_mutex_unlock(&rt->events.lock);
    if (!wanted) core_want_events(rt->core, false);
}

bool events_wanted(runtime *rt)
{
    pthread_mutex_lock(&rt->events.lock);
    bool wanted = !list_empty(&rt->events.subscriptions);
    pthread_mutex_unlock(&rt->events.lock);
    return wanted;
}

/* ---- subscribing --------------------------------------------------------------------------------------------------------- */

static pawl_subscription *subscription_new(runtime *rt, size_t capacity)
{
    pawl_subscription *s = alloc_new(&rt->allocator, sizeof *s);
    if (!s) return NULL;
    s->allocator = rt->allocator;
    s->room = capacity;
    s->ring = alloc_new(&rt->allocator, capacity * sizeof *s->ring);
    if (!s->ring) {
        alloc_free(&rt->allocator, s);
        return NULL;
    }
    s->rt = rt;
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    runtime_cond_init(&s->cond);
    return s;
}

pawl_status events_subscribe(runtime *rt, size_t capacity, pawl_subscription **out, pawl_error *err)
{
    if (!out) return err_set(err, PAWL_INVALID, "out is NULL");
    if (capacity > CAPACITY_MOST)
        return err_set(err, PAWL_INVALID, "a capacity of %zu events is more than %zu", capacity, CAPACITY_MOST);
    pawl_subscription *s = subscription_new(rt, capacity ? capacity : CAPACITY);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "could not subscribe: out of memory");
    loop_enter(rt, -1);
    pthread_mutex_lock(&rt->events.lock);
    list_append(&rt->events.subscriptions, &s->link);
    pthread_mutex_unlock(&rt->events.lock);
    core_want_events(rt->core, true);
    loop_leave(rt);
    *out = s;
    return PAWL_OK;
}

static bool is_ready(pawl_subscription *s, int64_t until)
{
    bool in_time = true;
    while (s->count == 0 && !s->closed && in_time) in_time = runtime_wait(&s->cond, &s->lock, until);
    return s->count > 0;
}

bool events_wait(pawl_subscription *s, int64_t until)
{
    pthread_mutex_lock(&s->lock);
    bool ready = is_ready(s, until);
    pthread_mutex_unlock(&s->lock);
    return ready;
}

bool pawl_next_event(pawl_subscription *s, int64_t timeout_us, pawl_event *event)
{
    if (!s || !event) return false;
    int64_t until = runtime_until(timeout_us);
    pthread_mutex_lock(&s->lock);
    bool ready = is_ready(s, until);
    if (ready) {
        *event = s->ring[s->first];
        event->lost = s->lost;
        s->lost = 0;
        s->first = (s->first + 1) % s->room;
        if (--s->count == 0) set_readable(s, false);
    }
    pthread_mutex_unlock(&s->lock);
    return ready;
}

int pawl_subscription_fd(pawl_subscription *s)
{
    if (!s) return -1;
    pthread_mutex_lock(&s->lock);
    if (s->fd < 0) {
        s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (s->count > 0 || s->closed) set_readable(s, true);
    }
    int fd = s->fd;
    pthread_mutex_unlock(&s->lock);
    return fd;
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------- */

static void unlink_from(runtime *rt, pawl_subscription *s)
{
    pthread_mutex_lock(&rt->events.lock);
    list_remove(&s->link);
    pthread_mutex_unlock(&rt->events.lock);
    s->rt = NULL;
}

void pawl_unsubscribe(pawl_subscription *s)
{
    if (!s) return;
    pthread_mutex_lock(&ends);
    if (s->rt) unlink_from(s->rt, s);
    pthread_mutex_unlock(&ends);
    if (s->fd >= 0) close(s->fd);
    pthread_cond_destroy(&s->cond);
    pthread_mutex_destroy(&s->lock);
    pawl_allocator a = s->allocator;
    alloc_free(&a, s->ring);
    alloc_free(&a, s);
}

static void tell_closed(pawl_subscription *s)
{
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    set_readable(s, true);
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->lock);
}

void events_close(runtime *rt)
{
    pthread_mutex_lock(&ends);
    while (!list_empty(&rt->events.subscriptions)) {
        pawl_subscription *s = container_of(rt->events.subscriptions.next, pawl_subscription, link);
        unlink_from(rt, s);
        tell_closed(s);
    }
    pthread_mutex_unlock(&ends);
}

void events_done(runtime *rt)
{
    events_close(rt);
    pthread_mutex_destroy(&rt->events.lock);
}
