/* GET /v1/events: what happens to tasks, as it happens.
 *
 * One thread takes events from the engine into a ring of the last `most`. A client stands at a number in it; it is woken when there is
 * something new, and writes from where it stands. A client that fell behind the ring, or comes back from farther behind (Last-Event-ID)
 * or from before this start of the server, is told so by an event `gap`. One that takes nothing for SLOW_US is cut off: it may resume.
 *
 * Ids are EPOCH-NUMBER; the epoch is the server's start. A comment line every PING_US shows both sides that the other is there.
 *
 * Lock order: events.lock, then the listener's own. `done` of a request takes events.lock to leave, so that nobody is woken who is gone.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "server/parts.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define PING_US (15 * PAWL_SECOND)
#define SLOW_US (30 * PAWL_SECOND)
#define EVENT_TEXT_MAX (4u << 10)

typedef struct event_client {
    list link;
    call *c;
    uint64_t next; /* number of the event it wants */
    bool waiting;  /* suspended: wake it */
    bool ping;
    bool lost;                /* it came from farther back than is known: a gap of unknown size */
    int64_t read_us;          /* when it last took something */
    const char *type, *queue; /* filter; in the call's arena */
    buf out;                  /* being written */
    size_t at;
} event_client;

struct events {
    server *s;
    pawl_subscription *subscription;
    pthread_t thread;
    bool runs;
    int wake_fd;
    pthread_mutex_t lock;
    pawl_event *ring;
    uint64_t most, count; /* events so far: those with number > count - most are there, from 1 */
    list clients;
    int clients_count;
    bool stopped;
    int64_t dropped;
    char epoch[24];
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

/* ---- a client reads ----------------------------------------------------------------------------------------------------------- */

static bool wanted(const event_client *k, const pawl_event *e)
{
    return (!k->type || strcmp(k->type, e->type) == 0) && (!k->queue || strcmp(k->queue, e->queue) == 0);
}

/* The next bit of text for it, if there is any. */
static void fill(events *s, event_client *k)
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
    while (k->next <= s->count && k->out.len < EVENT_TEXT_MAX / 2) {
        const pawl_event *e = &s->ring[k->next % s->most];
        if (wanted(k, e)) put_event(s, &k->out, e, k->next);
        k->next++;
    }
    if (!k->out.len && k->ping) buf_str(&k->out, ": here\n\n");
    k->ping = false;
}

static ssize_t client_read(void *ctx, http_request *r, char *to, size_t most)
{
    events *s = ((server *)ctx)->events;
    event_client *k = ((call *)http_user(r))->client;
    ssize_t n = 0;
    pthread_mutex_lock(&s->lock);
    k->read_us = monotonic_us();
    if (k->at == k->out.len) fill(s, k);
    if (k->out.failed || (s->stopped && k->at == k->out.len)) {
        n = -1;
    } else if (k->at < k->out.len) {
        n = (ssize_t)(k->out.len - k->at < most ? k->out.len - k->at : most);
        memcpy(to, k->out.data + k->at, (size_t)n);
        k->at += (size_t)n;
    } else {
        buf_done(&k->out); /* an idle client costs next to nothing */
        k->at = 0;
        k->waiting = true;
        http_stream_wait(r);
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* "EPOCH-NUMBER" */
static bool resume(const events *s, event_client *k, const char *id)
{
    size_t n = strlen(s->epoch);
    int64_t number;
    const char *dash = strchr(id, '-');
    if (!dash || !int_parse(dash + 1, 0, INT64_MAX - 1, &number)) return false;
    bool ours = (size_t)(dash - id) == n && memcmp(id, s->epoch, n) == 0 && (uint64_t)number <= s->count;
    k->next = ours ? (uint64_t)number + 1 : 1;
    k->lost = !ours;
    return true;
}

static bool join(events *s, event_client *k, const char *after)
{
    pthread_mutex_lock(&s->lock);
    k->next = s->count + 1;
    bool ok = !after || resume(s, k, after);
    if (ok) {
        list_append(&s->clients, &k->link);
        k->c->client = k;
        if (s->clients_count++ == 0) eventfd_write(s->wake_fd, 1); /* now there is somebody to ping */
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

void route_events(call *c)
{
    events_options o = {0};
    if (!call_query(c, events_query, &o)) return;
    event_client *k = alloc_new(alloc_default(), sizeof *k);
    if (!k) {
        call_problem(c, 503, "no_memory", "%s", pawl_status_text(PAWL_NO_MEMORY));
        return;
    }
    *k = (event_client){.c = c, .type = o.type, .queue = o.queue, .read_us = monotonic_us(), .ping = true};
    buf_init(&k->out, alloc_default(), 1u << 20);
    const char *last = http_header(c->r, "last-event-id");
    if (!join(c->s->events, k, last ? last : o.after)) {
        alloc_free(alloc_default(), k);
        call_problem(c, 400, "invalid", "the last event's id is not one of this server's: leave it out");
        return;
    }
    http_add_header(c->r, "X-Accel-Buffering", "no");
    http_stream(c->r, "text/event-stream", client_read);
}

void events_leave(call *c)
{
    events *s = c->s->events;
    event_client *k = c->client;
    pthread_mutex_lock(&s->lock);
    list_remove(&k->link);
    s->clients_count--;
    pthread_mutex_unlock(&s->lock);
    buf_done(&k->out);
    alloc_free(alloc_default(), k);
    c->client = NULL;
}

/* ---- the thread --------------------------------------------------------------------------------------------------------------- */

static void wake(event_client *k)
{
    if (!k->waiting) return;
    k->waiting = false;
    http_stream_wake(k->c->r);
}

static void wake_all(events *s)
{
    list_each(node, &s->clients) wake(container_of(node, event_client, link));
}

static void ping_all(events *s)
{
    int64_t now = monotonic_us();
    list_each(node, &s->clients) {
        event_client *k = container_of(node, event_client, link);
        bool slow = !k->waiting && now - k->read_us > SLOW_US;
        k->ping = true;
        wake(k);
        if (!slow) continue;
        s->dropped++;
        http_cut(k->c->r);
    }
}

static bool take_events(events *s)
{
    pawl_event e;
    bool any = false;
    while (pawl_next_event(s->subscription, 0, &e)) {
        pthread_mutex_lock(&s->lock);
        s->ring[++s->count % s->most] = e;
        pthread_mutex_unlock(&s->lock);
        any = true;
    }
    return any;
}

static void *run(void *ctx)
{
    events *s = ctx;
    struct pollfd fds[2] = {{.fd = pawl_subscription_fd(s->subscription), .events = POLLIN},
                            {.fd = s->wake_fd, .events = POLLIN}};
    int64_t pinged_us = monotonic_us();
    eventfd_t count;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        bool stopped = s->stopped, anybody = s->clients_count > 0;
        pthread_mutex_unlock(&s->lock);
        if (stopped) return NULL;
        poll(fds, 2, anybody ? (int)(PING_US / 1000) : -1);
        if (fds[1].revents) eventfd_read(s->wake_fd, &count);
        bool any = take_events(s);
        bool ping = monotonic_us() - pinged_us >= PING_US;
        if (!any && !ping) continue;
        pthread_mutex_lock(&s->lock);
        if (ping) ping_all(s), pinged_us = monotonic_us();
        else wake_all(s);
        pthread_mutex_unlock(&s->lock);
    }
}

/* ---- birth and end ------------------------------------------------------------------------------------------------------------ */

events *events_new(server *server, size_t most, pawl_error *err)
{
    events *s = alloc_new(alloc_default(), sizeof *s);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "out of memory"), NULL;
    s->s = server;
    s->most = most;
    snprintf(s->epoch, sizeof s->epoch, "%" PRIx64, (uint64_t)server->started_us);
    pthread_mutex_init(&s->lock, NULL);
    list_init(&s->clients);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->ring = alloc_new(alloc_default(), most * sizeof *s->ring);
    bool ok = s->ring && s->wake_fd >= 0 && pawl_subscribe(server->options.p, most, &s->subscription, err) == PAWL_OK;
    if (ok && !(s->runs = pthread_create(&s->thread, NULL, run, s) == 0))
        err_set(err, PAWL_UNAVAILABLE, "could not start a thread: %s", strerror(errno));
    if (s->runs) return s;
    if (!s->ring) err_set(err, PAWL_NO_MEMORY, "out of memory");
    events_free(s);
    return NULL;
}

void events_stop(events *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopped = true;
    wake_all(s);
    pthread_mutex_unlock(&s->lock);
    eventfd_write(s->wake_fd, 1);
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
    if (s->runs) {
        events_stop(s);
        pthread_join(s->thread, NULL);
    }
    if (s->subscription) pawl_unsubscribe(s->subscription);
    if (s->wake_fd >= 0) close(s->wake_fd);
    alloc_free(alloc_default(), s->ring);
    pthread_mutex_destroy(&s->lock);
    alloc_free(alloc_default(), s);
}
