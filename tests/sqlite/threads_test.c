/* Everything at once: one thread writes, others read, watch, copy and use transactions of their own; two handles share the
 * file. For the thread sanitizer, and for the counts at the end. */
#include "support.h"
#include <stdio.h>
#include <unistd.h>

#define ROUNDS 40

typedef struct shared {
    place *p;
    pawl_store *store;
    atomic_bool stop;
    atomic_int problems;
} shared;

static void *reader_thread(void *arg)
{
    shared *x = arg;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_filter filter = {.limit = 20};
    while (!atomic_load(&x->stop)) {
        static const pawl_query_kind kinds[] = {PAWL_QUERY_LIST, PAWL_QUERY_STATS, PAWL_QUERY_NODES};
        for (int i = 0; i < 3; i++) {
            pawl_query query = {.kind = kinds[i], .filter = &filter};
            if (store_read(x->store, &query, arena, NULL)) atomic_fetch_add(&x->problems, 1);
            arena_reset(arena);
        }
    }
    arena_free(arena);
    return NULL;
}

static void *watch_thread(void *arg)
{
    shared *x = arg;
    while (!atomic_load(&x->stop)) {
        bool changed;
        int64_t again_us;
        store_watch_check(x->store, &changed, &again_us);
        sqlite_inside_own_write(x->store);
        sched_yield();
    }
    return NULL;
}

static void *host_thread(void *arg)
{
    shared *x = arg;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    sqlite3 *db = NULL;
    sqlite3_open(x->p->path, &db);
    sqlite3_busy_timeout(db, 30000);
    bool bad = pawl_sqlite_prepare(db, NULL) != PAWL_OK;
    for (int i = 0; i < ROUNDS && !bad; i++) {
        pawl_body body = {.type = "t", .queue = "q", .tenant = ""};
        pawl_op op = {.kind = PAWL_OP_INSERT, .audit = PAWL_AUDIT_FULL, .u.insert.body = &body};
        bad = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) || store_tx_apply(x->store, db, &op, 1, arena, NULL) ||
              sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        arena_reset(arena);
    }
    if (bad) atomic_fetch_add(&x->problems, 1);
    sqlite3_close(db);
    arena_free(arena);
    return NULL;
}

/* A node of its own on a handle of its own: dispatch, claim, finish. */
static void *node_thread(void *arg)
{
    shared *x = arg;
    place own = {.clock = x->p->clock, .arena = arena_new(alloc_default(), 0), .last_id = 1};
    memcpy(own.url, x->p->url, sizeof own.url);
    pawl_store_options o = options_of(&own);
    o.lock_wait_us = 30 * PAWL_SECOND;
    pawl_store *s = NULL;
    bool bad = store_open(&o, &s, NULL) != PAWL_OK;
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = LEASE};
    bad = bad || s->type->register_node(s, &call, NULL);
    for (int i = 0; i < ROUNDS && !bad; i++) {
        pawl_claimed task;
        pawl_want want = {.queue = "q", .free = 1, .any_type = true};
        pawl_claim claim = {.node = call.node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &task};
        pawl_op *insert = insert_op(&own, NULL);
        insert->id = 0;
        bad = apply_one(&own, s, call.node, 2 * i + 1, insert) || s->type->claim(s, &claim, own.arena, NULL) ||
              claim.tasks_count != 1;
        if (bad) break;
        pawl_op *finish = finish_op(&own, task.body->id, task.fence);
        bad = apply_one(&own, s, call.node, 2 * i + 2, finish) || finish->result != PAWL_OP_DONE;
        free_bodies(&task, 1);
        arena_reset(own.arena);
    }
    if (bad) atomic_fetch_add(&x->problems, 1);
    store_close(s);
    arena_free(own.arena);
    return NULL;
}

static void everything_at_once(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    shared x = {.p = p};
    o.shared_file = true;
    o.lock_wait_us = 30 * PAWL_SECOND;
    assert_ok(p, store_open(&o, &x.store, &p->err));
    inside(x.store)->ckpt.limit = 20;
    pthread_t threads[6];
    void *(*const acts[6])(void *) = {reader_thread, reader_thread, watch_thread, host_thread, node_thread, node_thread};
    for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&threads[i], NULL, acts[i], &x), 0);
    for (int i = 0; i < ROUNDS; i++) {
        pawl_op *op = insert_op(p, NULL);
        assert_ok(p, apply_one(p, x.store, 0, 0, op));
        if (i % 10 == 5) {
            char path[300];
            snprintf(path, sizeof path, "%s/copy%d.db", p->dir, i);
            assert_ok(p, x.store->type->backup(x.store, path, NULL, NULL, &p->err));
        }
    }
    for (int i = 3; i < 6; i++) pthread_join(threads[i], NULL);
    atomic_store(&x.stop, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&x.problems), 0);
    store_close(x.store);
    sqlite3 *db = host_open(p);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_body"), 4 * ROUNDS);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_done"), 2 * ROUNDS);
    assert_int_equal(host_int(db, "SELECT pending FROM pawl_queue"), 2 * ROUNDS);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_leased"), 0);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(everything_at_once, place_new, place_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
