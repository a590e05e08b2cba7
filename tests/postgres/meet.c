#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "meet.h"
#include "store/postgres/postgres.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* ---- handles ------------------------------------------------------------------------------------------------------------- */

static pawl_store *open_as(meeting *m, const char *name, int64_t lease_us)
{
    char url[600], schema_url[500];
    pawl_store *store;
    pawl_error err;
    bed_url(schema_url, sizeof schema_url, m->schema, false);
    snprintf(url, sizeof url, "%s&application_name=%s_%s", schema_url, m->schema, name);
    pawl_store_options options = {.url = url,
                                  .lease_us = lease_us,
                                  .lock_wait_us = 10 * PAWL_SECOND,
                                  .clock = clock_virtual(&m->clock),
                                  .allocator = alloc_default()};
    if (store_postgres_type.open(&options, &store, &err)) fail_msg("%s", err.message);
    return store;
}

static void hold_commits(meeting *m)
{
    static const char *const tables[] = {"pawl_leased", "pawl_live",           "pawl_lane",   "pawl_node",
                                         "pawl_key",    "pawl_count",          "pawl_budget", "pawl_limit",
                                         "pawl_bound",  "pawl_schedule_state", "pawl_batch",  "pawl_unsettled"};
    bed_exec(m->pg,
             "CREATE FUNCTION hold_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
             "IF current_setting('application_name') LIKE '%%_slow' THEN PERFORM pg_advisory_xact_lock_shared(%lld); END IF; "
             "RETURN NULL; END $$",
             (long long)m->key);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        bed_exec(m->pg,
                 "CREATE CONSTRAINT TRIGGER hold AFTER INSERT OR UPDATE OR DELETE ON %s DEFERRABLE INITIALLY DEFERRED "
                 "FOR EACH ROW EXECUTE FUNCTION hold_commit()",
                 tables[i]);
}

void meet_open(meeting *m, const char *what, int64_t lease_us)
{
    bed_use_clock_of_options();
    bed_schema(m->schema, sizeof m->schema, what);
    m->clock = (virtual_clock){.now_us = INT64_C(1800000000000000), .boot_us = 1000 * PAWL_SECOND};
    m->key = 1000000 + getpid();
    m->quick = open_as(m, "quick", lease_us);
    m->pg = bed_connect(m->schema);
    hold_commits(m);
    m->slow = open_as(m, "slow", lease_us);
}

void meet_close(meeting *m)
{
    m->slow->type->close(m->slow);
    m->quick->type->close(m->quick);
    PQfinish(m->pg);
    bed_drop(m->schema);
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

typedef struct running {
    pthread_t thread;
    meet_fn *run;
    pawl_store *store;
    void *answer;
    bool done;
} running;

static void *run_act(void *arg)
{
    running *r = arg;
    r->run(r->store, r->answer);
    __atomic_store_n(&r->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void begin(running *r, meet_fn *run, void *answer, pawl_store *store)
{
    *r = (running){.run = run, .answer = answer, .store = store};
    assert_int_equal(pthread_create(&r->thread, NULL, run_act, r), 0);
}

static bool done(const running *r) { return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE); }

/* Until it is done, or its session waits for a lock. */
static void await(const meeting *m, const running *r, const char *name)
{
    while (!done(r)) {
        if (bed_int(m->pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s_%s' AND wait_event_type = 'Lock'",
                    m->schema, name))
            return;
    }
}

void meet_run(meeting *m, meet_fn *x, void *x_answer, meet_fn *y, void *y_answer, bool kill)
{
    running first, second;
    bed_exec(m->pg, "SELECT pg_advisory_lock(%lld)", (long long)m->key);
    begin(&first, x, x_answer, m->slow);
    await(m, &first, "slow");
    begin(&second, y, y_answer, m->quick);
    await(m, &second, "quick");
    if (kill && !done(&first))
        bed_exec(
            m->pg,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '%s_slow' AND wait_event = 'advisory'",
            m->schema);
    bed_exec(m->pg, "SELECT pg_advisory_unlock(%lld)", (long long)m->key);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
}
