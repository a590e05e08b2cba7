/* The store `postgres:`: opening and closing, connections, the table. See README.md for the ideas. */
#include "store/postgres/postgres.h"
#include "base/alloc.h"
#include "base/error.h"
#include "store/postgres/inner.h"
#include <stdarg.h>
#include <stdio.h>

const pawl_clock *(*postgres_test_clock)(const pawl_clock *of_options);

/* ---- connections --------------------------------------------------------------------------------------------------------- */

static conn *find_free(pg_store *s, role which)
{
    pool *p = &s->pools[which];
    for (int i = 0; i < p->count; i++) {
        if (p->taken[i]) continue;
        p->taken[i] = true;
        return &p->conns[i];
    }
    return NULL;
}

conn *pg_store_take(pg_store *s, role which)
{
    conn *c;
    pthread_mutex_lock(&s->lock);
    while (!(c = find_free(s, which))) pthread_cond_wait(&s->freed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return c;
}

void pg_store_give(pg_store *s, conn *c)
{
    pthread_mutex_lock(&s->lock);
    for (int k = 0; k < ROLES; k++) {
        pool *p = &s->pools[k];
        if (c >= p->conns && c < p->conns + p->count) p->taken[c - p->conns] = false;
    }
    pthread_cond_broadcast(&s->freed);
    pthread_mutex_unlock(&s->lock);
}

#define RENEW_LEAST_US (500 * PAWL_MILLISECOND)

static void pools_init(pg_store *s)
{
    s->pools[WRITER] = (pool){s->writers, s->taken, WRITERS};
    s->pools[RENEWER] = (pool){s->renewers, s->taken + WRITERS, 1};
    s->pools[READER] = (pool){s->readers, s->taken + WRITERS + 1, READERS};
    for (int k = 0; k < ROLES; k++)
        for (int i = 0; i < s->pools[k].count; i++) pg_conn_init(&s->pools[k].conns[i], &s->link, s->allocator);
    /* Where a connection fell silent there must be time for another one. */
    s->renewers[0].limit_us = s->lease_us / 3 > RENEW_LEAST_US ? s->lease_us / 3 : RENEW_LEAST_US;
}

/* ---- the server's clock -------------------------------------------------------------------------------------------------- */

/* As old as the answer is, so never ahead of the server. */
int64_t pg_server_now(pg_store *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t now_us = s->server_us ? s->server_us + pg_mono_us() - s->server_at_us : 0;
    pthread_mutex_unlock(&s->lock);
    return now_us;
}

void pg_server_seen(pg_store *s, int64_t now_us)
{
    pthread_mutex_lock(&s->lock);
    s->server_us = now_us;
    s->server_at_us = pg_mono_us();
    pthread_mutex_unlock(&s->lock);
}

void pg_store_log(const pg_store *s, pawl_level level, const char *fmt, ...)
{
    char line[512];
    va_list args;
    if (!s->log) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    s->log(s->log_ctx, level, line);
}

/* ---- open and close ------------------------------------------------------------------------------------------------------ */

static void store_free(pg_store *s)
{
    pg_watch_close(s);
    for (int k = 0; k < ROLES; k++)
        for (int i = 0; i < s->pools[k].count; i++) pg_conn_close(&s->pools[k].conns[i]);
    pg_ready_done(&s->ready);
    interned_done(&s->names);
    pg_link_done(&s->link);
    pthread_cond_destroy(&s->freed);
    pthread_mutex_destroy(&s->lock);
    alloc_free(s->allocator, s);
}

static pg_store *store_new(const pawl_store_options *o)
{
    const pawl_allocator *a = o->allocator ? o->allocator : alloc_default();
    pg_store *s = alloc_new(a, sizeof *s);
    if (!s) return NULL;
    s->base.type = &store_postgres_type;
    s->allocator = a;
    s->clock = o->clock;
    s->log = o->log;
    s->log_ctx = o->log_ctx;
    s->lease_us = o->lease_us > 0 ? o->lease_us : 30 * PAWL_SECOND;
    s->read_only = o->read_only;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->freed, NULL);
    interned_init(&s->names, a);
    pg_ready_init(&s->ready, a);
    pg_watch_init(s);
    return s;
}

static pawl_status pg_open(const pawl_store_options *o, pawl_store **out, pawl_error *err)
{
    pg_store *s = store_new(o);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "could not open the store: out of memory");
    pawl_status status = pg_link_init(&s->link, s->allocator, o, err);
    pools_init(s);
    if (s->link.url.proxy) s->wait_ms = (int)((o->lock_wait_us > 0 ? o->lock_wait_us : 5 * PAWL_SECOND) / 1000);
    if (!status) status = pg_migrate_open(s, o, err);
    if (status) store_free(s);
    else *out = &s->base;
    return status;
}

static void pg_close(pawl_store *store)
{
    pg_store *s = store_of(store);
    if (!s->read_only) pg_nodes_gone(s);
    store_free(s);
}

const pawl_store_type store_postgres_type = {
    .version = PAWL_STORE_VERSION,
    .scheme = "postgres",
    .blocking = true,
    .durable = true,
    .limits = true,
    .places = true,
    .schedules = true,
    .families = true,
    .lanes = LANES,
    .open = pg_open,
    .close = pg_close,
    .register_node = pg_register_node,
    .leave = pg_leave,
    .take_ids = pg_take_ids,
    .apply = pg_apply,
    .claim = pg_claim,
    .renew = pg_renew,
    .held = pg_held,
    .rescue = pg_rescue,
    .sweep = pg_sweep,
    .read = pg_read,
    .tx_apply = pg_tx_apply,
    .watch_fd = pg_watch_fd,
    .watch_check = pg_watch_check,
    .schema = pg_schema,
    .examine = pg_examine,
    .feed = pg_feed,
    .drain = pg_drain,
    .set_gate = pg_set_gate,
    .load = pg_load,
};

/* The one function that the module and the archive show. */
__attribute__((visibility("default"))) const pawl_store_type *pawl_postgres_store(const char *version)
{
    return strcmp(version, PAWL_VERSION) == 0 ? &store_postgres_type : NULL;
}
