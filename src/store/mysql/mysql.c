/* The store `mysql:`: opening and closing, connections, the table. See README.md for the ideas. */
#include "store/mysql/mysql.h"
#include "base/alloc.h"
#include "base/error.h"
#include "store/mysql/inner.h"
#include <mysqld_error.h>
#include <stdarg.h>
#include <stdio.h>

const pawl_clock *(*mysql_test_clock)(const pawl_clock *of_options);

/* ---- connections --------------------------------------------------------------------------------------------------------- */

static conn *find_free(my_store *s, role which)
{
    pool *p = &s->pools[which];
    for (int i = 0; i < p->count; i++) {
        if (p->taken[i]) continue;
        p->taken[i] = true;
        return &p->conns[i];
    }
    return NULL;
}

conn *my_store_take(my_store *s, role which)
{
    conn *c;
    pthread_mutex_lock(&s->lock);
    while (!(c = find_free(s, which))) pthread_cond_wait(&s->freed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return c;
}

void my_store_give(my_store *s, conn *c)
{
    my_rollback(c);
    my_answers_forget(c);
    pthread_mutex_lock(&s->lock);
    for (int k = 0; k < ROLES; k++) {
        pool *p = &s->pools[k];
        if (c >= p->conns && c < p->conns + p->count) p->taken[c - p->conns] = false;
    }
    pthread_cond_broadcast(&s->freed);
    pthread_mutex_unlock(&s->lock);
}

#define RENEW_LEAST_US (500 * PAWL_MILLISECOND)

static void pools_init(my_store *s)
{
    s->pools[WRITER] = (pool){s->writers, s->taken, WRITERS};
    s->pools[RENEWER] = (pool){s->renewers, s->taken + WRITERS, 1};
    s->pools[READER] = (pool){s->readers, s->taken + WRITERS + 1, READERS};
    for (int k = 0; k < ROLES; k++)
        for (int i = 0; i < s->pools[k].count; i++) my_conn_init(&s->pools[k].conns[i], &s->link, s->allocator);
    /* Where a connection fell silent there must be time for another one. */
    s->renewers[0].limit_us = s->lease_us / 3 > RENEW_LEAST_US ? s->lease_us / 3 : RENEW_LEAST_US;
}

/* ---- clocks and chance --------------------------------------------------------------------------------------------------- */

const pawl_clock *my_test_clock(const my_store *s) { return mysql_test_clock ? mysql_test_clock(&s->clock) : NULL; }

/* As old as the answer is, so never ahead of the server. */
int64_t my_server_now(my_store *s)
{
    const pawl_clock *test = my_test_clock(s);
    if (test) return test->wall_us(test->ctx);
    pthread_mutex_lock(&s->lock);
    int64_t now_us = s->server_us ? s->server_us + my_mono_us() - s->server_at_us : 0;
    pthread_mutex_unlock(&s->lock);
    return now_us;
}

void my_server_seen(my_store *s, int64_t now_us)
{
    pthread_mutex_lock(&s->lock);
    s->server_us = now_us;
    s->server_at_us = my_mono_us();
    pthread_mutex_unlock(&s->lock);
}

instant my_instant(my_store *s, const conn *c)
{
    const pawl_clock *test = my_test_clock(s);
    const answer *a = my_answer(c, SQL_server_now);
    int64_t now_us = a->rows > 0 ? get_int(a, 0, 0) : 0;
    if (test) return (instant){test->wall_us(test->ctx), test->boot_us(test->ctx)};
    if (now_us) my_server_seen(s, now_us);
    return (instant){now_us, now_us};
}

uint64_t my_random(my_store *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t n = rng_next(&s->random);
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- what transactions have in common ------------------------------------------------------------------------------------ */

#define TRIES 8

bool my_call_again(conn *c, int *tries)
{
    bool again = my_conn_code(c, ER_LOCK_DEADLOCK) || my_conn_code(c, ER_CHECKREAD) ||
                 (my_conn_code(c, ER_LOCK_WAIT_TIMEOUT) && *tries == 0);
    my_rollback(c);
    return again && ++*tries <= TRIES;
}

int64_t my_until(my_store *s)
{
    int64_t now_us = my_test_clock(s) ? 0 : my_server_now(s);
    return now_us ? now_us + s->lease_us / 4 : 0;
}

void my_add_guard(conn *c, int64_t until_us)
{
    if (!until_us) return;
    my_put_int(c, until_us);
    my_add(c, SQL_guard);
}

static int compare_ids(const void *a, const void *b)
{
    pawl_id x = *(const pawl_id *)a, y = *(const pawl_id *)b;
    return x < y ? -1 : x > y;
}

int my_sort_ids(pawl_id *ids, int count)
{
    int kept = 0;
    if (count > 1) qsort(ids, (size_t)count, sizeof *ids, compare_ids);
    for (int i = 0; i < count; i++)
        if (kept == 0 || ids[kept - 1] != ids[i]) ids[kept++] = ids[i];
    return kept;
}

#define IDS_AT_ONCE 1000

static void list_ids(buf *list, const pawl_id *ids, int count, bool as_rows)
{
    buf_clear(list);
    if (as_rows) buf_char(list, '(');
    for (int i = 0; i < count; i++) {
        if (i) buf_str(list, as_rows ? "),(" : ",");
        lit_int(list, ids[i]);
    }
    if (as_rows) buf_char(list, ')');
}

/* $1: 1,2,3. $2: (1),(2),(3). */
void my_add_ids(conn *c, sql_name which, const pawl_id *ids, int count)
{
    bool as_rows = strstr(c->link->sql[which], "$2") != NULL;
    buf list;
    buf_init(&list, c->allocator, 1 << 20);
    for (int from = 0; from < count; from += IDS_AT_ONCE) {
        int some = count - from < IDS_AT_ONCE ? count - from : IDS_AT_ONCE;
        list_ids(&list, ids + from, some, as_rows);
        if (list.failed) c->script.failed = true;
        my_put_raw(c, buf_text(&list), list.len);
        if (as_rows) my_put_raw(c, buf_text(&list), list.len);
        my_add(c, which);
    }
    buf_done(&list);
}

void my_store_log(const my_store *s, pawl_level level, const char *fmt, ...)
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

static void store_free(my_store *s)
{
    my_watch_close(s);
    for (int k = 0; k < ROLES; k++)
        for (int i = 0; i < s->pools[k].count; i++) my_conn_close(&s->pools[k].conns[i]);
    my_ready_done(&s->ready);
    interned_done(&s->names);
    my_limits_free(s->allocator, &s->limits);
    my_link_done(&s->link);
    pthread_cond_destroy(&s->freed);
    pthread_mutex_destroy(&s->lock);
    alloc_free(s->allocator, s);
}

static my_store *store_new(const pawl_store_options *o)
{
    const pawl_allocator *a = o->allocator ? o->allocator : alloc_default();
    my_store *s = alloc_new(a, sizeof *s);
    if (!s) return NULL;
    s->base.type = &store_mysql_type;
    s->allocator = a;
    s->clock = o->clock;
    s->log = o->log;
    s->log_ctx = o->log_ctx;
    s->lease_us = o->lease_us > 0 ? o->lease_us : 30 * PAWL_SECOND;
    s->read_only = o->read_only;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->freed, NULL);
    rng_init(&s->random, seed_from_system());
    interned_init(&s->names, a);
    my_ready_init(&s->ready, a);
    my_watch_init(s);
    return s;
}

static pawl_status my_open(const pawl_store_options *o, pawl_store **out, pawl_error *err)
{
    my_store *s = store_new(o);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "could not open the store: out of memory");
    pawl_status status = my_link_init(&s->link, s->allocator, o, err);
    pools_init(s);
    if (!status) status = my_migrate_open(s, o, err);
    if (status) store_free(s);
    else *out = &s->base;
    return status;
}

static void my_close(pawl_store *store)
{
    my_store *s = store_of(store);
    if (!s->read_only) my_nodes_gone(s);
    store_free(s);
}

const pawl_store_type store_mysql_type = {
    .version = PAWL_STORE_VERSION,
    .scheme = "mysql",
    .blocking = true,
    .durable = true,
    .limits = true,
    .places = true,
    .schedules = true,
    .families = true,
    .lanes = LANES,
    .open = my_open,
    .close = my_close,
    .register_node = my_register_node,
    .leave = my_leave,
    .take_ids = my_take_ids,
    .apply = my_apply,
    .claim = my_claim,
    .renew = my_renew,
    .held = my_held,
    .rescue = my_rescue,
    .sweep = my_sweep,
    .read = my_read,
    .tx_apply = my_tx_apply,
    .watch_fd = my_watch_fd,
    .watch_check = my_watch_check,
    .schema = my_schema,
    .examine = my_examine,
    .feed = my_feed,
    .drain = my_drain,
    .set_gate = my_set_gate,
    .load = my_arrive,
};

/* The one function that the module and the archive show. */
__attribute__((visibility("default"))) const pawl_store_type *pawl_mysql_store(const char *version)
{
    return strcmp(version, PAWL_VERSION) == 0 ? &store_mysql_type : NULL;
}
