/* GET /v1/events: what happens to tasks, as it happens.
 *
 * What all nodes of the store tell (follow.c), or, of a store that nobody shares, what this engine tells, goes into a ring of the last `most`.
 * One thread writes to the clients, whose connections were taken over from the listener: an idle one costs a few hundred bytes. A client
 * stands at a place in the ring and is written to from there, as far as its connection takes it. One that fell behind the ring, or
 * comes back from farther behind (Last-Event-ID), or from a time since which nobody listened, is told so by an event `gap`. One that
 * takes nothing for `slow_us` is cut off: it may resume.
 *
 * Ids are EPOCH-NUMBER. Numbers of the store are the same for all servers; where they are this process's own, the epoch is its start.
 * A comment line twice in that time shows both sides that the other is there.
 *
 * Everything belongs to the thread but what has a lock; the ring has it, too, because the follower fills it.
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

#define SLOW_US (30 * PAWL_SECOND) /* or half of the time for taking an answer, if that is less */
#define EVENT_TEXT_MAX (4u << 10)
#define SHARED_EPOCH "f"

typedef struct event_client {
    list link;
    int fd;
    uint64_t next;   /* place of the event it wants */
    uint64_t missed; /* so many before it are not there any more */
    bool lost;       /* the same, but nobody knows how many */
    bool blocked;    /* its connection takes no more: epoll says when */
    int64_t wrote_us;
    char *type, *queue; /* filter; NULL: any */
    buf out;            /* being written */
    size_t at;
    char after[64]; /* until it is let in: the id it comes with */
} event_client;

struct events {
    server *s;
    pawl_subscription *subscription; /* or: */
    follower *follower;
    pthread_t thread;
    bool runs;
    int wake_fd, epoll_fd;
    uint64_t most;
    list clients;
    int64_t slow_us, ping_us, pinged_us;
    char epoch[24];

    pthread_mutex_t lock; /* of what follows */
    pawl_fact *ring;
    uint64_t count; /* events so far: those at places > count - most are there, from 1 */
    int64_t broken; /* see pawl_facts */
    bool ready;     /* whoever comes can be told where it stands */
    bool news;      /* the ring has more than the clients were told */
    pthread_cond_t written;
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

void event_json(json_writer *w, const pawl_fact *fact)
{
    const pawl_event *e = &fact->event;
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
    if (e->kind == PAWL_EVENT_NODE_LOST) json_number(w, "lost_node", e->value);
    if (*e->text) json_shown(w, "text", e->text);
    json_text(w, "node", *fact->node ? fact->node : NULL);
    jsonw_end_object(w);
}

static void put_gap(buf *out, uint64_t lost)
{
    if (lost) buf_fmt(out, "event: gap\ndata: {\"lost\":%" PRIu64 "}\n\n", lost);
    else buf_str(out, "event: gap\ndata: {\"lost\":null}\n\n");
}

static void put_event(const events *s, buf *out, const pawl_fact *fact)
{
    json_writer w;
    if (fact->event.lost) put_gap(out, fact->event.lost);
    buf_fmt(out, "id: %s-%" PRId64 "\nevent: %s\ndata: ", s->epoch, fact->number, pawl_event_name(fact->event.kind));
    jsonw_init(&w, out, false);
    event_json(&w, fact);
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
    bool last = --s->clients_count == 0;
    s->dropped += dropped;
    if (last && s->follower) {
        s->ready = false;
        follow_want(s->follower, false);
    }
    pthread_mutex_unlock(&s->lock);
}

static bool wanted(const event_client *k, const pawl_event *e)
{
    return (!k->type || strcmp(k->type, e->type) == 0) && (!k->queue || strcmp(k->queue, e->queue) == 0);
}

static uint64_t oldest_place(const events *s) { return s->count > s->most ? s->count - s->most + 1 : 1; }

/* The next bit of text for it, if there is any. */
static void fill(events *s, event_client *k)
{
    buf_clear(&k->out);
    k->at = 0;
    pthread_mutex_lock(&s->lock);
    uint64_t oldest = oldest_place(s);
    if (k->next < oldest) {
        k->missed += oldest - k->next;
        k->next = oldest;
    }
    if (k->lost) put_gap(&k->out, 0);
    else if (k->missed) put_gap(&k->out, k->missed);
    k->lost = false;
    k->missed = 0;
    while (k->next <= s->count && k->out.len < EVENT_TEXT_MAX) {
        const pawl_fact *fact = &s->ring[k->next % s->most];
        if (fact->event.kind == PAWL_EVENT_NODE_LOST) put_gap(&k->out, 0); /* whatever it had not told, and of whatever type */
        if (wanted(k, &fact->event)) put_event(s, &k->out, fact);
        k->next++;
    }
    pthread_mutex_unlock(&s->lock);
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

/* The first place whose number is above this one. */
static uint64_t place_behind(const events *s, int64_t number)
{
    uint64_t low = oldest_place(s), high = s->count + 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (s->ring[middle % s->most].number > number) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* Where a client stands that has seen "EPOCH-NUMBER", or nothing. With the lock held. */
static void resume(const events *s, event_client *k)
{
    size_t n = strlen(s->epoch);
    int64_t number = 0;
    const char *dash = strchr(k->after, '-');
    k->next = s->count + 1;
    if (!dash) return;
    int64_t last = s->count ? s->ring[s->count % s->most].number : s->broken;
    bool ours = int_parse(dash + 1, 0, INT64_MAX - 1, &number) && (size_t)(dash - k->after) == n &&
                memcmp(k->after, s->epoch, n) == 0 && number <= last;
    k->next = ours ? place_behind(s, number) : oldest_place(s);
    k->lost = !ours || number < s->broken;
    if (ours && k->next <= s->count) k->missed = (uint64_t)(s->ring[k->next % s->most].number - number - 1);
}

/* ---- coming ---------------------------------------------------------------------------------------------------------------------- */

static bool id_valid(const char *id)
{
    size_t n = strspn(id, "0123456789abcdef");
    int64_t number;
    return n > 0 && strlen(id) < sizeof((event_client *)0)->after && id[n] == '-' &&
           int_parse(id + n + 1, 0, INT64_MAX - 1, &number);
}

/* The head is sent when it is let in: whoever has it is told what happens from then on. */
static event_client *client_new(const events_options *o, const char *after)
{
    event_client *k = alloc_new(alloc_default(), sizeof *k);
    if (!k) return NULL;
    *k = (event_client){.fd = -1,
                        .wrote_us = monotonic_us(),
                        .type = alloc_str(alloc_default(), o->type),
                        .queue = alloc_str(alloc_default(), o->queue)};
    buf_init(&k->out, alloc_default(), 1u << 20);
    http_stream_head(&k->out, "text/event-stream");
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
    if (room && s->follower) follow_want(s->follower, true);
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
    k->fd = http_take_over(c->r);
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
    for (list *node; s->ready && (node = list_pop(&s->coming));) {
        resume(s, container_of(node, event_client, link));
        list_append(&come, node);
    }
    bool stopped = s->stopped;
    pthread_mutex_unlock(&s->lock);
    for (list *node; (node = list_pop(&come));) {
        event_client *k = container_of(node, event_client, link);
        list_append(&s->clients, node);
        watch(s, k, EPOLL_CTL_ADD);
        client_write(s, k);
    }
    return !stopped;
}

/* With the lock held. */
static void put_fact(events *s, const pawl_fact *fact)
{
    s->ring[++s->count % s->most] = *fact;
    s->news = true;
}

/* With the lock held: until the clients have what is new, so that none that reads falls behind the ring. */
static void wait_written(events *s)
{
    while (s->news && !s->stopped) pthread_cond_wait(&s->written, &s->lock);
}

/* What all nodes tell, on the follower's thread. */
static void take_facts(void *ctx, const pawl_facts *facts, bool now)
{
    events *s = ctx;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < facts->count; i++) {
        if (i % ((s->most + 1) / 2) == 0 && s->news) {
            eventfd_write(s->wake_fd, 1);
            wait_written(s);
        }
        put_fact(s, &facts->facts[i]);
    }
    s->broken = facts->broken;
    bool wakes = s->news || (now && !s->ready);
    s->ready = now;
    pthread_mutex_unlock(&s->lock);
    if (wakes) eventfd_write(s->wake_fd, 1);
}

/* What this engine tells, where there are no others. */
static void take_own(events *s)
{
    pawl_fact fact = {0};
    while (pawl_next_event(s->subscription, 0, &fact.event)) {
        pthread_mutex_lock(&s->lock);
        fact.number = (int64_t)s->count + 1;
        put_fact(s, &fact);
        pthread_mutex_unlock(&s->lock);
    }
}

static void hand_on(events *s)
{
    if (s->subscription) take_own(s);
    pthread_mutex_lock(&s->lock);
    bool news = s->news;
    pthread_mutex_unlock(&s->lock);
    if (!news) return;
    list_each(node, &s->clients) {
        event_client *k = container_of(node, event_client, link);
        if (!k->blocked) client_write(s, k);
    }
    pthread_mutex_lock(&s->lock);
    s->news = false;
    pthread_cond_signal(&s->written);
    pthread_mutex_unlock(&s->lock);
}

static void ping_all(events *s)
{
    int64_t now = monotonic_us();
    if (now - s->pinged_us < s->ping_us) return;
    s->pinged_us = now;
    list_each(node, &s->clients) {
        event_client *k = container_of(node, event_client, link);
        bool slow = k->blocked && now - k->wrote_us > s->slow_us;
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
        int n = epoll_wait(s->epoll_fd, ready, 64, list_empty(&s->clients) ? -1 : (int)(s->ping_us / 1000));
        for (int i = 0; i < n; i++) attend(s, &ready[i]);
        hand_on(s);
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
           (!s->subscription || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, pawl_subscription_fd(s->subscription), &event) == 0);
}

/* Of all nodes, or, if the store has no others, of this one. */
static pawl_status open_source(events *s, pawl *p, pawl_error *err)
{
    if (strncmp(pawl_store_url(p), "memory:", 7) == 0) {
        s->ready = true;
        return pawl_subscribe(p, s->most, &s->subscription, err);
    }
    snprintf(s->epoch, sizeof s->epoch, "%s", SHARED_EPOCH);
    s->follower = follow_open(p, 0, take_facts, s, err);
    return s->follower ? PAWL_OK : err->status;
}

events *events_new(server *server, size_t most, pawl_error *err)
{
    events *s = alloc_new(alloc_default(), sizeof *s);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "out of memory"), NULL;
    s->s = server;
    s->most = most;
    s->wake_fd = s->epoll_fd = -1;
    int64_t patience_us = server->options.answer_us / 2;
    s->slow_us = patience_us < SLOW_US ? patience_us : SLOW_US;
    s->ping_us = s->slow_us / 2;
    s->pinged_us = monotonic_us();
    snprintf(s->epoch, sizeof s->epoch, "%" PRIx64, (uint64_t)server->started_us);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->written, NULL);
    list_init(&s->clients);
    list_init(&s->coming);
    s->ring = alloc_new(alloc_default(), most * sizeof *s->ring);
    pawl_status status = s->ring ? open_source(s, server->options.p, err) : err_set(err, PAWL_NO_MEMORY, "out of memory");
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
    pthread_cond_signal(&s->written);
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
    follow_close(s->follower);
    list_each(node, &s->coming) client_free(container_of(node, event_client, link));
    if (s->subscription) pawl_unsubscribe(s->subscription);
    if (s->wake_fd >= 0) close(s->wake_fd);
    if (s->epoll_fd >= 0) close(s->epoll_fd);
    alloc_free(alloc_default(), s->ring);
    pthread_cond_destroy(&s->written);
    pthread_mutex_destroy(&s->lock);
    alloc_free(alloc_default(), s);
}
