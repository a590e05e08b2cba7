/* The rest of what workers ask: to be known, to be believed alive, to go; and who is there. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "server/crew.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define LEASE_LEAST_US (500 * PAWL_MILLISECOND)
#define RENEW_MOST_US (5 * PAWL_SECOND) /* so that a cancel is heard of in time */

typedef struct registration {
    const char *name;
    pawl_bytes queues_raw, types_raw;
    int64_t lease_us, timeout_us, retry_delay_us;
    int max_attempts;
    const char *queues[WORKER_QUEUES], *types[WORKER_TYPES];
    size_t queues_count, types_count;
} registration;

typedef struct renewal {
    pawl_bytes held;
    int64_t number;
} renewal;

/* clang-format off */
const field worker_body[] = {
    {"name", FIELD_TEXT, offsetof(registration, name), 0, 0, "for people; the host and process are a good one"},
    {"queues", FIELD_PAYLOAD, offsetof(registration, queues_raw), 0, 0, "an array of at most 8 names; [\"default\"] by default"},
    {"types", FIELD_PAYLOAD, offsetof(registration, types_raw), 0, 0, "an array of at most 200 types that it can run; all by default"},
    {"lease", FIELD_DURATION, offsetof(registration, lease_us), 0, 0, "silent for longer, it loses its tasks; half of the server's lease by default and at most"},
    {"max_attempts", FIELD_INT, offsetof(registration, max_attempts), 0, 1000000, "of tasks that do not say"},
    {"timeout", FIELD_DURATION, offsetof(registration, timeout_us), 0, 0, "of each attempt, for tasks that do not say"},
    {"retry_delay", FIELD_DURATION, offsetof(registration, retry_delay_us), 0, 0, "before the first retry; doubles each time"},
    {0},
};

const field renew_body[] = {
    {"held", FIELD_PAYLOAD, offsetof(renewal, held), 0, 0, "an array of objects with id and fence: all that the worker has"},
    {"number", FIELD_MICROS, offsetof(renewal, number), 0, 0, "what came with claims up to this number, and is not among held, is given back"},
    {0},
};
/* clang-format on */

/* ---- registering ---------------------------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorted, each once. */
static pawl_status read_names(call *c, const char *what, pawl_bytes raw, const char **names, size_t most, size_t *count,
                              pawl_error *err)
{
    json array = raw.len ? json_parse(raw) : (json){0}, key, value;
    if (!raw.len || array.kind == JSON_NULL) return PAWL_OK;
    if (array.kind != JSON_ARRAY) return err_set(err, PAWL_INVALID, "\"%s\" must be an array of names", what);
    for (size_t at = 0; json_each(array, &at, &key, &value);) {
        buf text;
        buf_init(&text, alloc_default(), 4096);
        bool ok = json_string(value, &text) && *count < most && name_valid(buf_text(&text), NULL) &&
                  !strchr(buf_text(&text), ',') && strlen(buf_text(&text)) == text.len;
        names[*count < most ? *count : 0] = ok ? pawl_arena_bytes(c->arena, buf_text(&text), text.len + 1) : NULL;
        buf_done(&text);
        if (!ok || !names[*count])
            return err_set(err, PAWL_INVALID, "\"%s\" must be at most %zu names of 1 to 200 bytes, without a comma", what, most);
        ++*count;
    }
    qsort(names, *count, sizeof *names, by_text);
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (!i || strcmp(names[i], names[kept - 1]) != 0) names[kept++] = names[i];
    *count = kept;
    return PAWL_OK;
}

static pawl_status read_registration(call *c, registration *r, pawl_error *err)
{
    int64_t most_us = c->s->options.lease_us / 2;
    pawl_status status = read_names(c, "queues", r->queues_raw, r->queues, WORKER_QUEUES, &r->queues_count, err);
    if (!status) status = read_names(c, "types", r->types_raw, r->types, WORKER_TYPES, &r->types_count, err);
    if (status) return status;
    if (!r->queues_count) r->queues[r->queues_count++] = "default";
    if (!r->name) r->name = http_peer_text(c->r);
    if (!name_valid(r->name, NULL)) return err_set(err, PAWL_INVALID, "\"name\" must have 1 to 200 bytes without control bytes");
    for (size_t i = 0; i < r->types_count; i++)
        if (strcmp(r->types[i], "*") == 0) r->types_count = 0;
    if (!r->lease_us) r->lease_us = most_us;
    if (r->lease_us < LEASE_LEAST_US || r->lease_us > most_us)
        return err_set(err, PAWL_INVALID, "\"lease\" must be between 500ms and %lldms, half of the server's own",
                       (long long)(most_us / PAWL_MILLISECOND));
    return PAWL_OK;
}

static char *join(const char *const *names, size_t count)
{
    buf text;
    buf_init(&text, alloc_default(), 64 << 10);
    for (size_t i = 0; i < count; i++) buf_fmt(&text, "%s%s", i ? "," : "", names[i]);
    char *copy = text.failed ? NULL : alloc_str(alloc_default(), count ? buf_text(&text) : "*");
    buf_done(&text);
    return copy;
}

static bool draw_id(char out[WORKER_ID_TEXT])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) return false;
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static worker *worker_new(const call *c, const registration *r, group *const *groups)
{
    worker *who = alloc_new(alloc_default(), sizeof *who);
    if (!who) return NULL;
    snprintf(who->name, sizeof who->name, "%s", r->name);
    snprintf(who->who, sizeof who->who, "%s", c->who.name);
    who->queues = join(r->queues, r->queues_count);
    who->types = join(r->types, r->types_count);
    if (who->queues && who->types && draw_id(who->id)) {
        who->lease_us = r->lease_us;
        who->groups_count = (int)r->queues_count;
        memcpy(who->groups, groups, r->queues_count * sizeof *groups);
        list_init(&who->held);
        list_init(&who->claims);
        return who;
    }
    alloc_free(alloc_default(), who->queues);
    alloc_free(alloc_default(), who->types);
    alloc_free(alloc_default(), who);
    return NULL;
}

/* Under open_lock: a group that was found stays. */
static pawl_status enter(call *c, const registration *r, char id[WORKER_ID_TEXT], pawl_error *err)
{
    crew *w = c->s->crew;
    group *groups[WORKER_QUEUES];
    for (size_t i = 0; i < r->queues_count; i++) {
        group_spec spec = {r->queues[i], r->types, r->types_count, r->max_attempts, r->timeout_us, r->retry_delay_us};
        if (group_open(w, &spec, &groups[i], err)) return err->status;
    }
    worker *who = worker_new(c, r, groups);
    if (!who) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    memcpy(id, who->id, WORKER_ID_TEXT);
    pthread_mutex_lock(&w->lock);
    list_append(&w->workers, &who->link);
    map_put(&w->by_id, &who->by_id, hash_bytes(who->id, strlen(who->id), 0));
    w->workers_count++;
    for (int i = 0; i < who->groups_count; i++) who->groups[i]->workers++;
    crew_seen(who);
    who->born_us = who->seen_us;
    crew_plan(w, who->deadline_us);
    pthread_mutex_unlock(&w->lock);
    return PAWL_OK;
}

static int64_t renew_us(int64_t lease_us) { return lease_us / 3 < RENEW_MOST_US ? lease_us / 3 : RENEW_MOST_US; }

static pawl_status check_room(crew *w, pawl_error *err)
{
    pthread_mutex_lock(&w->lock);
    bool full = w->workers_count >= WORKERS_MAX, draining = w->draining;
    pthread_mutex_unlock(&w->lock);
    if (draining) return err_set(err, PAWL_UNAVAILABLE, "the server is being stopped: try again");
    if (full) return err_set(err, PAWL_FULL, "%d workers are registered: that is as many as there may be", WORKERS_MAX);
    return PAWL_OK;
}

void route_worker_register(call *c)
{
    registration r = {0};
    crew *w = c->s->crew;
    pawl_error err;
    char id[WORKER_ID_TEXT];
    reply a;
    if (!call_query(c, no_fields, NULL) || !call_body(c, worker_body, &r)) return;
    pawl_status status = read_registration(c, &r, &err);
    pthread_mutex_lock(&w->open_lock);
    if (!status) status = check_room(w, &err);
    if (!status) status = enter(c, &r, id, &err);
    pthread_mutex_unlock(&w->open_lock);
    if (status) {
        call_fail(c, &err);
        return;
    }
    reply_begin(&a);
    jsonw_object(&a.w);
    json_text(&a.w, "worker", id);
    json_number(&a.w, "lease_us", r.lease_us);
    json_number(&a.w, "renew_us", renew_us(r.lease_us));
    jsonw_end_object(&a.w);
    reply_end(c, &a, 201);
}

/* ---- renewing ------------------------------------------------------------------------------------------------------------------- */

typedef struct lease {
    pawl_id id;
    int64_t fence;
} lease;

static pawl_status read_held(call *c, pawl_bytes raw, lease **out, size_t *count, pawl_error *err)
{
    static const field fields[] = {
        {"id", FIELD_ID, offsetof(lease, id), 0, 0, ""}, {"fence", FIELD_MICROS, offsetof(lease, fence), 1, 0, ""}, {0}};
    json array = raw.len ? json_parse(raw) : (json){0}, key, value;
    size_t n = 0;
    *count = 0;
    *out = NULL;
    if (!raw.len || array.kind == JSON_NULL) return PAWL_OK;
    if (array.kind != JSON_ARRAY) return err_set(err, PAWL_INVALID, "\"held\" must be an array of objects with id and fence");
    for (size_t at = 0; json_each(array, &at, &key, &value);) n++;
    if (n > HELD_MAX) return err_set(err, PAWL_TOO_LARGE, "\"held\" has more than %d items", HELD_MAX);
    *out = pawl_arena_alloc(c->arena, (n + 1) * sizeof **out);
    if (!*out) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    for (size_t at = 0; json_each(array, &at, &key, &value);) {
        lease *to = &(*out)[(*count)++];
        *to = (lease){0};
        pawl_status status = value.kind == JSON_OBJECT ? fields_read(fields, value, c->arena, to, err) : PAWL_INVALID;
        if (status || !to->id || !to->fence) return err_set(err, PAWL_INVALID, "\"held\" must be objects with id and fence");
    }
    return PAWL_OK;
}

static void lease_json(json_writer *w, pawl_id id, int64_t fence, const char *reason)
{
    jsonw_object(w);
    json_id(w, "id", id);
    json_number(w, "fence", fence);
    if (reason) json_text(w, "reason", reason);
    jsonw_end_object(w);
}

static bool name_held(crew *w, const worker *who, const lease *l)
{
    for (map_node *node = map_get(&w->tasks, (uint64_t)l->id); node; node = map_next(node)) {
        held *h = container_of(node, held, by_id);
        if (h->w == who && h->fence == l->fence) return h->named = true;
    }
    return false;
}

/* Under the lock: what it has and the server does not know of. */
static void write_lost(json_writer *w, crew *all, const worker *who, const lease *leases, size_t count)
{
    jsonw_key(w, "lost");
    jsonw_array(w);
    for (size_t i = 0; i < count; i++)
        if (!name_held(all, who, &leases[i])) lease_json(w, leases[i].id, leases[i].fence, NULL);
    jsonw_end_array(w);
}

static const char *reason_of(pawl_stop_reason reason)
{
    static const char *const names[] = {NULL, "cancelled", "timeout", "shutdown", "lease_lost"};
    return names[reason];
}

/* And what the server counts as the worker's and it does not have: the answer to its claim was lost. */
static void settle_held(json_writer *w, worker *who, int64_t number, crew_after *a)
{
    jsonw_key(w, "stop");
    jsonw_array(w);
    list_each(node, &who->held) {
        held *h = container_of(node, held, link);
        bool named = h->named;
        h->named = false;
        pawl_stop_reason reason = pawl_run_stopping(h->run);
        if (named && reason) lease_json(w, h->id, h->fence, reason_of(reason));
        if (!named && h->number <= number) after_end(a, h, PAWL_RUN_LOST, "its worker does not have it");
    }
    jsonw_end_array(w);
}

void route_worker_renew(call *c)
{
    renewal r = {.number = -1};
    crew *w = c->s->crew;
    crew_after a;
    pawl_error err;
    lease *leases;
    size_t count;
    reply out;
    int64_t arrived_us = crew_now();
    if (!call_query(c, no_fields, NULL) || !call_body(c, renew_body, &r)) return;
    if (read_held(c, r.held, &leases, &count, &err)) {
        call_fail(c, &err);
        return;
    }
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    worker *who = crew_find(w, c->segment);
    if (who) {
        crew_seen(who);
        reply_begin(&out);
        jsonw_object(&out.w);
        write_lost(&out.w, w, who, leases, count);
        settle_held(&out.w, who, r.number, &a);
        json_number(&out.w, "lease_us", crew_lease(who, arrived_us));
        json_number(&out.w, "renew_us", renew_us(who->lease_us));
        json_truth(&out.w, "drain", who->drain);
        json_truth(&out.w, "stopping", w->draining);
        jsonw_end_object(&out.w);
    }
    pthread_mutex_unlock(&w->lock);
    after_do(w, &a);
    if (who) reply_end(c, &out, 200);
    else crew_unknown(c);
}

/* ---- going, and being looked at --------------------------------------------------------------------------------------------------- */

void route_worker_leave(call *c)
{
    crew *w = c->s->crew;
    crew_after a;
    if (!call_query(c, no_fields, NULL)) return;
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    worker *who = crew_find(w, c->segment);
    if (who) crew_remove(w, who, PAWL_RUN_INTERRUPTED, "its worker has gone", &a);
    pthread_mutex_unlock(&w->lock);
    after_do(w, &a);
    if (who) reply_done(c, "gone");
    else crew_unknown(c);
}

void route_worker_drain(call *c)
{
    crew *w = c->s->crew;
    crew_after a;
    if (!call_query(c, no_fields, NULL)) return;
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    worker *who = crew_find(w, c->segment);
    if (who) {
        who->drain = true;
        list_each(node, &who->claims) claim_end(container_of(node, claim, link), &a);
    }
    pthread_mutex_unlock(&w->lock);
    after_do(w, &a);
    if (who) reply_done(c, "draining");
    else crew_unknown(c);
}

static void worker_json(json_writer *w, const worker *who)
{
    int64_t left_us = who->deadline_us - crew_now();
    jsonw_object(w);
    json_text(w, "worker", who->id);
    json_text(w, "name", who->name);
    json_text(w, "token", *who->who ? who->who : NULL);
    json_text(w, "queues", who->queues);
    json_text(w, "types", who->types);
    json_number(w, "held", who->held_count);
    json_truth(w, "waits", who->claims_count > 0);
    json_truth(w, "drain", who->drain);
    json_instant(w, "registered_at", who->born_us);
    json_instant(w, "seen_at", who->seen_us);
    json_number(w, "lease_left_us", left_us > 0 ? left_us : 0);
    jsonw_end_object(w);
}

void route_worker_list(call *c)
{
    crew *w = c->s->crew;
    reply a;
    if (!call_query(c, no_fields, NULL)) return;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "workers");
    jsonw_array(&a.w);
    pthread_mutex_lock(&w->lock);
    list_each(node, &w->workers) worker_json(&a.w, container_of(node, worker, link));
    pthread_mutex_unlock(&w->lock);
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}
