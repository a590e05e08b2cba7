/* Groups: an engine for each set of queue, types and policies that somebody works on. It is opened with the first worker, and closed by the
 * ticker when nobody has been there for a while. */
#include "base/alloc.h"
#include "base/error.h"
#include "server/crew.h"
#include <stdio.h>
#include <string.h>

#define KEY_MAX (64u << 10)

/* Handlers say what types there are; what is pulled is not given to them. */
static pawl_outcome never(pawl_run *run, void *ctx)
{
    (void)ctx;
    return pawl_interrupted(run, "it was not pulled");
}

static char *make_key(const group_spec *spec)
{
    buf key;
    buf_init(&key, alloc_default(), KEY_MAX);
    buf_fmt(&key, "%s\n%d %lld %lld", spec->queue, spec->max_attempts, (long long)spec->timeout_us,
            (long long)spec->retry_delay_us);
    for (size_t i = 0; i < spec->types_count; i++) buf_fmt(&key, "\n%s", spec->types[i]);
    char *copy = key.failed ? NULL : alloc_str(alloc_default(), buf_text(&key));
    buf_done(&key);
    return copy;
}

static group *find_group(const crew *w, const char *key)
{
    list_each(node, &w->groups) {
        group *g = container_of(node, group, link);
        if (strcmp(g->key, key) == 0) return g;
    }
    return NULL;
}

static pawl_status add_queues(group *g, pawl_error *err)
{
    static const char *const others[] = {"default", "recurring"};
    pawl_puller puller = {.take = claim_take, .ended = report_ended, .ctx = g};
    pawl_status status = pawl_queue(g->p, &(pawl_queue_options){.name = g->queue, .puller = &puller}, err);
    for (size_t i = 0; !status && i < sizeof others / sizeof *others; i++) {
        if (strcmp(others[i], g->queue) == 0) continue;
        status = pawl_queue(g->p, &(pawl_queue_options){.name = others[i], .workers = -1}, err);
    }
    return status;
}

static pawl_status add_handlers(group *g, const group_spec *spec, pawl_error *err)
{
    if (!spec->types_count) return pawl_handle(g->p, &(pawl_handler){.type = "*", .run = never, .queue = g->queue}, err);
    pawl_status status = PAWL_OK;
    for (size_t i = 0; !status && i < spec->types_count; i++)
        status = pawl_handle(g->p, &(pawl_handler){.type = spec->types[i], .run = never, .queue = g->queue}, err);
    return status;
}

static pawl_status start(group *g, const group_spec *spec, pawl_error *err)
{
    const server_options *o = &g->crew->s->options;
    pawl_options options = {.store = o->store,
                            .name = o->name,
                            .lease_us = o->lease_us,
                            .grace_us = -1,
                            .max_attempts = spec->max_attempts,
                            .timeout_us = spec->timeout_us,
                            .payload_max = o->payload_max,
                            .leases_outlive = true,
                            .log = o->log.sink,
                            .log_ctx = o->log.ctx,
                            .log_level = o->log.level,
                            .redact = o->redact};
    if (spec->retry_delay_us)
        options.retry = (pawl_retry_policy){.curve = PAWL_CURVE_EXPONENTIAL, .delay_us = spec->retry_delay_us};
    pawl_status status = pawl_open(&options, &g->p, err);
    if (!status) status = add_queues(g, err);
    if (!status) status = add_handlers(g, spec, err);
    return status ? status : pawl_start(g->p, err);
}

void group_free(group *g)
{
    if (g->p) pawl_close(g->p);
    alloc_free(alloc_default(), g->key);
    alloc_free(alloc_default(), g);
}

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

static pawl_status check(const crew *w, const group_spec *spec, pawl_error *err)
{
    if (strcmp(pawl_store_url(w->s->options.p), "memory:") == 0)
        return err_set(err, PAWL_UNSUPPORTED,
                       "tasks of the store \"memory:\" are one handle's own: serve memory:NAME, or a durable store");
    if (w->groups_count >= GROUPS_MAX)
        return err_set(err, PAWL_FULL,
                       "workers name %d different sets of queue, types and policies already: let them name the same ones",
                       GROUPS_MAX);
    if (strlen(spec->queue) > WORKER_NAME_MAX)
        return err_set(err, PAWL_INVALID, "a queue's name has at most %d bytes", WORKER_NAME_MAX);
    return PAWL_OK;
}

static pawl_status make(crew *w, const group_spec *spec, char *key, group **out, pawl_error *err)
{
    pawl_status status = check(w, spec, err);
    group *g = status ? NULL : alloc_new(alloc_default(), sizeof *g);
    if (!g) {
        alloc_free(alloc_default(), key);
        return status ? status : no_memory(err);
    }
    g->crew = w;
    g->key = key;
    snprintf(g->queue, sizeof g->queue, "%s", spec->queue);
    list_init(&g->claims);
    if ((status = start(g, spec, err))) {
        group_free(g);
        return status;
    }
    *out = g;
    return PAWL_OK;
}

pawl_status group_open(crew *w, const group_spec *spec, group **out, pawl_error *err)
{
    char *key = make_key(spec);
    if (!key) return no_memory(err);
    group *g = find_group(w, key); /* only ever changed under open_lock */
    if (g) {
        alloc_free(alloc_default(), key);
        *out = g;
        return PAWL_OK;
    }
    pawl_status status = make(w, spec, key, &g, err);
    if (status) return status;
    pthread_mutex_lock(&w->lock);
    list_append(&w->groups, &g->link);
    w->groups_count++;
    g->asked_us = crew_now();
    pthread_mutex_unlock(&w->lock);
    *out = g;
    return PAWL_OK;
}
