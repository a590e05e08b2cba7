/* GET /v1/events: what happens to tasks, as it happens.
 *
 * One thread takes events from the engine into a ring of the last `most`, and writes to the clients, whose connections were taken over from
 * the listener: an idle one costs a few hundred bytes. A client stands at a number in the ring and is written to from there, as far as its
 * connection takes it. One that fell behind the ring, or comes back from farther behind (Last-Event-ID) or from before this start of the
 * server, is told so by an event `gap`. One that takes nothing for SLOW_US is cut off: it may resume.
 *
 * Ids are EPOCH-NUMBER; the epoch is the server's start. A comment line every PING_US shows both sides that the other is there.
 *
 * Everything belongs to the thread but the list of those who come, which has a lock.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "server/parts.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PING_US (15 * PAWL_SECOND)
#define SLOW_US (30 * PAWL_SECOND)
#define EVENT_TEXT_MAX (4u << 10)

typedef struct event_client {
    list link;
    int fd;
    uint64_t next; /* number of the event it wants */
    bool lost;     /* it came from farther back than is known: a gap of unknown size */
    bool blocked;  /* its connection takes no more: epoll says when */
    int64_t wrote_us;
    char *type, *queue; /* filter; NULL: any */
    buf out;            /* being written */
    size_t at;
    char after[64]; /* until it is let in: the id it comes with */
} event_client;

struct events {
    server *s;
    pawl_subscription *subscription;
    pthread_t thread;
    bool runs;
    int wake_fd, epoll_fd;
    pawl_event *ring;
    uint64_t most, count; /* events so far: those with number > count - most are there, from 1 */
    list clients;
    int64_t pinged_us;
    char epoch[24];

    pthread_mutex_t lock; /* of what follows */
    list coming;
    bool stopped;
    int clients_count;
    int64_t dropped;
};

typedef struct events_options {
    const char *type, *queue, *after;
} events_options;

/* clang-format off */
const field events_query[] = {
    {"type", FIELD_TEXT, offsetof(events_options, type), 0, 0, "only of tasks of this type"},
    {"queue", FIELD_TEXT, offsetof(events_options, queue), 0, 0, "only of this queue"},
    {"after", FIELD_TEXT, offsetof(events_options, after), 0, 0, "the id of an event: go on behind it, as Last-Event-ID does"},
    {0},
};
/* clang-format on */

static int64_t monotonic_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000;
}

/* ---- as text ------------------------------------------------------------------------------------------------------------------ */

static void event_json(json_writer *w, const pawl_event *e)
{
    jsonw_object(w);
    json_instant(w, "at", e->at_us);
    json_text(w, "event", pawl_event_name(e->kind));
    json_id(w, "id", e->id);
    json_text(w, "type", *e->type ? e->type : NULL);
    json_text(w, "queue", *e->queue ? e->queue : NULL);
    json_number(w, "attempt", e->attempt);
    json_number(w, "fence", e->fence);
    if (e->kind == PAWL_EVENT_RETRYING || e->kind == PAWL_EVENT_SNOOZED) json_number(w, "delay_us", e->value);
    if (e->kind == PAWL_EVENT_PROGRESS) json_number(w, "percent", e->value);
    if (*e->text) json_text(w, "text", e->text);
    jsonw_end_object(w);
}

static void put_gap(buf *out, uint64_t lost)
{
    if (lost) buf_fmt(out, "event: gap\ndata: {\"lost\":%" PRIu64 "}\n\n", lost);
    else buf_str(out, "event: gap\ndata: {\"lost\":null}\n\n");
}

static void put_event(const events *s, buf *out, const pawl_event *e, uint64_t number)
{
    json_writer w;
    if (e->lost) put_gap(out, e->lost);
    buf_fmt(out, "id: %s-%" PRIu64 "\nevent: %s\ndata: ", s->epoch, number, pawl_event_name(e->kind));
    jsonw_init(&w, out, false);
    event_json(&w, e);
    buf_str(out, "\n\n");
}

/* ---- one client ---------------------------------------------------------------------------------------------------------------- */

static void client_free(event_client *k)
{
    if (k->fd >= 0) close(k->fd);
    buf_done(&k->out);
    alloc_free(alloc_default(), k->type);
    alloc_free(alloc_default(), k->queue);
    alloc_free(alloc_default(), k);
}

static void client_leave(events *s, event_client *k, bool dropped)
{
    list_remove(&k->link);
    client_free(k);
    pthread_mutex_lock(&s->lock);
    s->clients_count--;
    s->dropped += dropped;
    pthread_mutex_unlock(&s->lock);
}

static bool wanted(const event_client *k, const pawl_event *e)
{
    return (!k->type || strcmp(k->type, e->type) == 0) && (!k->queue || strcmp(k->queue, e->queue) == 0);
}

/* The next bit of text for it, if there is any. */
static void fill(const events *s, event_client *k)
{
    uint64_t oldest = s->count > s->most ? s->count - s->most + 1 : 1;
    buf_clear(&k->out);
    k->at = 0;
    if (k->lost) put_gap(&k->out, 0);
    k->lost = false;
    if (k->next < oldest) {
        put_gap(&k->out, oldest - k->next);
        k->next = oldest;
    }
    while (k->next <= s->count && k->out.len < EVENT_TEXT_MAX) {
        const pawl_event *e = &s->ring[k->next % s->most];
        if (wanted(k, e)) put_event(s, &k->out, e, k->next);
        k->next++;
    }
}

static void watch(const events *s, event_client *k, int what)
{
    struct epoll_event event = {.events = EPOLLRDHUP | (k->blocked ? EPOLLOUT : 0), .data.ptr = k};
    epoll_ctl(s->epoll_fd, what, k->fd, &event);
}

static void block(const events *s, event_client *k, bool blocked)
{
    if (k->blocked == blocked) return;
    k->blocked = blocked;
    watch(s, k, EPOLL_CTL_MOD);
}

/* Writes what there is, as far as it goes. */
static void client_write(events *s, event_client *k)
{
    for (;;) {
        if (k->at == k->out.len) fill(s, k);
        if (k->at == k->out.len) break;
        ssize_t n = send(k->fd, k->out.data + k->at, k->out.len - k->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            block(s, k, true);
            return;
        }
        if (n < 0 || k->out.failed) {
            client_leave(s, k, false);
            return;
        }
        k->at += (size_t)n;
        k->wrote_us = monotonic_us();
    }
    buf_done(&k->out); /* an idle client costs next to nothing */
    k->at = 0;
    block(s, k, false);
}

/* "EPOCH-NUMBER", or nothing. */
static void resume(const events *s, event_client *k)
{
    size_t n = strlen(s->epoch);
    int64_t number = 0;
    const char *dash = strchr(k->after, '-');
    k->next = s->count + 1;
    if (!dash) return;
    bool ours = int_parse(dash + 1, 0, INT64_MAX - 1, &number) && (size_t)(dash - k->after) == n &&
                memcmp(k->after, s->epoch, n) == 0 && (uint64_t)number <= s->count;
    k->next = ours ? (uint64_t)number + 1 : 1;
    k->lost = !ours;
}

/* ---- coming ---------------------------------------------------------------------------------------------------------------------- */

static bool id_valid(const char *id)
{
    size_t n = strspn(id, "0123456789abcdef");
    int64_t number;
    return n > 0 && strlen(id) < sizeof((event_client *)0)->after && id[n] == '-' &&
           int_parse(id + n + 1, 0, INT64_MAX - 1, &number);
}

static event_client *client_new(const events_options *o, const char *after)
{
    event_client *k = alloc_new(alloc_default(), sizeof *k);
    if (!k) return NULL;
    *k = (event_client){.fd = -1,
                        .wrote_us = monotonic_us(),
                        .type = alloc_str(alloc_default(), o->type),
                        .queue = alloc_str(alloc_default(), o->queue)};
    buf_init(&k->out, alloc_default(), 1u << 20);
    if (after) snprintf(k->after, sizeof k->after, "%s", after);
    if ((!o->type || k->type) && (!o->queue || k->queue)) return k;
    client_free(k);
    return NULL;
}

static bool take_place(events *s)
{
    pthread_mutex_lock(&s->lock);
    bool room = !s->stopped && s->clients_count < s->s->options.connections_max;
    s->clients_count += room;
    pthread_mutex_unlock(&s->lock);
    return room;
}

static void join(events *s, event_client *k)
{
    pthread_mutex_lock(&s->lock);
    list_append(&s->coming, &k->link);
    pthread_mutex_unlock(&s->lock);
    eventfd_write(s->wake_fd, 1);
}

void route_events(call *c)
{
    events *s = c->s->events;
    events_options o = {0};
    if (!call_query(c, events_query, &o)) return;
    const char *last = http_header(c->r, "last-event-id");
    if (!last) last = o.after;
    if (last && !id_valid(last)) {
        call_problem(c, 400, "invalid", "the last event's id is not one of this server's: leave it out");
        return;
    }
    if (http_is_head(c->r)) {
        call_answer(c, 200, "text/event-stream", NULL);
        return;
    }
    event_client *k = client_new(&o, last);
    if (!k || !take_place(s)) {
        if (k) client_free(k);
        call_problem(c, 503, "unavailable", "there are too many clients of this stream: try again later");
        return;
    }
    k->fd = http_take_over(c->r, "text/event-stream");
    if (k->fd >= 0) {
        join(s, k);
        return;
    }
    list_init(&k->link);
    client_leave(s, k, false);
    call_problem(c, 503, "unavailable", "the stream could not be begun: try again");
}

/* ---- the thread --------------------------------------------------------------------------------------------------------------- */

static bool let_in(events *s)
{
    list come;
    list_init(&come);
    pthread_mutex_lock(&s->lock);
    for (list *node; (node = list_pop(&s->coming));) list_append(&come, node);
    bool stopped = s->stopped;
    pthread_mutex_unlock(&s->lock);
    for (list *node; (node = list_pop(&come));) {
        event_client *k = container_of(node, event_client, link);
        resume(s, k);
        list_append(&s->clients, node);
        watch(s, k, EPOLL_CTL_ADD);
        client_write(s, k);
    }
    return !stopped;
}

static void take_events(events *s)
{
    pawl_event e;
    bool any = false;
    for (; pawl_next_event(s->subscription, 0, &e); any = true) s->ring[++s->count % s->most] = e;
    if (!any) return;
    list_each(node, &s->clients) {
        event_client *k = container_of(node, event_client, link);
        if (!k->blocked) client_write(s, k);
    }
}

static void ping_all(events *s)
{
    int64_t now = monotonic_us();
    if (now - s->pinged_us < PING_US) return;
    s->pinged_us = now;
    list_each(node, &s->clients) {
        event_client *k = container_of(node, event_client, link);
        bool slow = k->blocked && now - k->wrote_us > SLOW_US;
        if (slow) client_leave(s, k, true);
        else if (!k->blocked && send(k->fd, ": here\n\n", 8, MSG_NOSIGNAL | MSG_DONTWAIT) < 8) client_leave(s, k, false);
    }
}

static void attend(events *s, const struct epoll_event *ready)
{
    event_client *k = ready->data.ptr;
    eventfd_t count;
    if (!k) eventfd_read(s->wake_fd, &count); /* or the subscription: looked at anyhow */
    else if (ready->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) client_leave(s, k, false);
    else client_write(s, k);
}

static void *run(void *ctx)
{
    events *s = ctx;
    struct epoll_event ready[64];
    while (let_in(s)) {
        int n = epoll_wait(s->epoll_fd, ready, 64, list_empty(&s->clients) ? -1 : (int)(PING_US / 1000));
        for (int i = 0; i < n; i++) attend(s, &ready[i]);
        take_events(s);
        ping_all(s);
    }
    list_each(node, &s->clients) client_leave(s, container_of(node, event_client, link), false);
    return NULL;
}

/* ---- birth and end ------------------------------------------------------------------------------------------------------------ */

static bool open_loop(events *s)
{
    struct epoll_event event = {.events = EPOLLIN};
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return s->wake_fd >= 0 && s->epoll_fd >= 0 && epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &event) == 0 &&
           epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, pawl_subscription_fd(s->subscription), &event) == 0;
}

events *events_new(server *server, size_t most, pawl_error *err)
{
    events *s = alloc_new(alloc_default(), sizeof *s);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "out of memory"), NULL;
    s->s = server;
    s->most = most;
    s->wake_fd = s->epoll_fd = -1;
    s->pinged_us = monotonic_us();
    snprintf(s->epoch, sizeof s->epoch, "%" PRIx64, (uint64_t)server->started_us);
    pthread_mutex_init(&s->lock, NULL);
    list_init(&s->clients);
    list_init(&s->coming);
    s->ring = alloc_new(alloc_default(), most * sizeof *s->ring);
    pawl_status status =
        s->ring ? pawl_subscribe(server->options.p, most, &s->subscription, err) : err_set(err, PAWL_NO_MEMORY, "out of memory");
    if (!status && open_loop(s)) s->runs = pthread_create(&s->thread, NULL, run, s) == 0;
    if (s->runs) return s;
    if (!status) err_set(err, PAWL_UNAVAILABLE, "could not serve events: %s", strerror(errno));
    events_free(s);
    return NULL;
}

void events_stop(events *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopped = true;
    pthread_mutex_unlock(&s->lock);
    if (s->wake_fd >= 0) eventfd_write(s->wake_fd, 1);
}

int events_clients(events *s)
{
    pthread_mutex_lock(&s->lock);
    int count = s->clients_count;
    pthread_mutex_unlock(&s->lock);
    return count;
}

int64_t events_dropped(events *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t count = s->dropped;
    pthread_mutex_unlock(&s->lock);
    return count;
}

void events_free(events *s)
{
    if (!s) return;
    events_stop(s);
    if (s->runs) pthread_join(s->thread, NULL);
    list_each(node, &s->coming) client_free(container_of(node, event_client, link));
    if (s->subscription) pawl_unsubscribe(s->subscription);
    if (s->wake_fd >= 0) close(s->wake_fd);
    if (s->epoll_fd >= 0) close(s->epoll_fd);
    alloc_free(alloc_default(), s->ring);
    pthread_mutex_destroy(&s->lock);
    alloc_free(alloc_default(), s);
}
