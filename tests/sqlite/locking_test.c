/* Whose turn it is, who is alive, and what a checkpoint waits for. */
#include "support.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static pawl_store *open_waiting(place *p, int64_t lock_wait_us)
{
    pawl_store_options o = options_of(p);
    pawl_store *store = NULL;
    o.lock_wait_us = lock_wait_us;
    assert_ok(p, store_open(&o, &store, &p->err));
    return store;
}

static void wait_for_ever(void)
{
    for (;;) pause();
}

/* ---- the turn ------------------------------------------------------------------------------------------------------------ */

static void waiting_for_the_turn_is_bounded(void **state)
{
    place *p = *state;
    pawl_store *a = open_store(p), *b = open_waiting(p, 100 * PAWL_MILLISECOND);
    assert_true(sidecar_take_turn(&inside(a)->side, mono_us()));
    int64_t began_us = mono_us();
    assert_refused(p, apply_one(p, b, 0, 0, insert_op(p, NULL)), PAWL_UNAVAILABLE, "try again");
    assert_true(mono_us() - began_us >= 100 * PAWL_MILLISECOND);
    assert_true(mono_us() - began_us < 5 * PAWL_SECOND);
    sidecar_end_turn(&inside(a)->side);
    insert_one(p, b);
    store_close(a);
    store_close(b);
}

static void *end_the_turn(void *side)
{
    sidecar_end_turn(side);
    return NULL;
}

static void the_end_of_a_turn_wakes_who_waits(void **state)
{
    place *p = *state;
    pawl_store *a = open_store(p), *b = open_waiting(p, 60 * PAWL_SECOND);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        assert_true(sidecar_take_turn(&inside(a)->side, mono_us() + PAWL_SECOND));
        assert_int_equal(pthread_create(&thread, NULL, end_the_turn, &inside(a)->side), 0);
        assert_true(sidecar_take_turn(&inside(b)->side, mono_us() + 60 * PAWL_SECOND));
        sidecar_end_turn(&inside(b)->side);
        pthread_join(thread, NULL);
    }
    store_close(a);
    store_close(b);
}

static void hold_the_turn(place *p, int said)
{
    pawl_store *s = open_store(p);
    child_say(said, sidecar_take_turn(&inside(s)->side, mono_us() + PAWL_SECOND));
    wait_for_ever();
}

static void a_killed_holder_leaves_its_turn(void **state)
{
    place *p = *state;
    child c = child_new(p, hold_the_turn);
    pawl_store *s = open_waiting(p, 100 * PAWL_MILLISECOND);
    child_go(&c);
    assert_true(child_hear(&c));
    assert_int_equal(apply_one(p, s, 0, 0, insert_op(p, NULL)), PAWL_UNAVAILABLE);
    child_kill(&c);
    insert_one(p, s);
    store_close(s);
}

typedef struct hammer {
    place *p;
    pawl_store *store;
    atomic_bool stop;
    atomic_int turns;
} hammer;

static void *take_turns(void *arg)
{
    hammer *h = arg;
    while (!atomic_load(&h->stop)) {
        if (!sidecar_take_turn(&inside(h->store)->side, mono_us() + 60 * PAWL_SECOND)) return arg;
        atomic_fetch_add(&h->turns, 1);
        sidecar_end_turn(&inside(h->store)->side);
    }
    return NULL;
}

/* One that writes again and again does not pass one that waits. */
static void turns_are_fair(void **state)
{
    place *p = *state;
    hammer h = {.p = p, .store = open_store(p)};
    pawl_store *b = open_store(p);
    pthread_t thread;
    int unfair = 0;
    assert_int_equal(pthread_create(&thread, NULL, take_turns, &h), 0);
    for (int i = 0; i < 50; i++) {
        while (atomic_load(&h.turns) == 0) sched_yield();
        assert_true(sidecar_take_turn(&inside(b)->side, mono_us() + 60 * PAWL_SECOND));
        int before = atomic_load(&h.turns);
        sidecar_end_turn(&inside(b)->side);
        /* Wait in line once more while the other one runs as fast as it can. */
        assert_true(sidecar_take_turn(&inside(b)->side, mono_us() + 60 * PAWL_SECOND));
        unfair += atomic_load(&h.turns) - before > 20;
        sidecar_end_turn(&inside(b)->side);
    }
    atomic_store(&h.stop, true);
    void *failed;
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_in_range(unfair, 0, 10); /* on a busy machine this thread may rest between its turns, but not every time */
    store_close(h.store);
    store_close(b);
}

static void wait_in_line(place *p, int said)
{
    pawl_store *s = open_store(p);
    child_say(said, 1);
    sidecar_take_turn(&inside(s)->side, mono_us() + 60 * PAWL_SECOND);
    wait_for_ever();
}

static bool someone_is_next(pawl_store *s)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
    assert_int_equal(fcntl(inside(s)->side.fd, F_OFD_GETLK, &lock), 0);
    return lock.l_type != F_UNLCK;
}

/* The line is a courtesy: a stopped process in it stops nobody for long. */
static void a_stopped_process_in_the_line(void **state)
{
    place *p = *state;
    child c = child_new(p, wait_in_line);
    pawl_store *s = open_waiting(p, 10 * PAWL_SECOND);
    assert_true(sidecar_take_turn(&inside(s)->side, mono_us() + PAWL_SECOND));
    child_go(&c);
    assert_true(child_hear(&c));
    while (!someone_is_next(s)) sched_yield();
    kill(c.pid, SIGSTOP);
    int code;
    assert_int_equal(waitpid(c.pid, &code, WUNTRACED), c.pid);
    assert_true(WIFSTOPPED(code));
    sidecar_end_turn(&inside(s)->side);
    insert_one(p, s);
    child_kill(&c);
    store_close(s);
}

/* ---- foreign locks ------------------------------------------------------------------------------------------------------- */

static void a_foreign_writer_is_waited_for_and_no_longer(void **state)
{
    place *p = *state;
    pawl_store *s = open_waiting(p, 100 * PAWL_MILLISECOND);
    sqlite3 *db = host_open(p);
    host_exec(db, "BEGIN IMMEDIATE");
    assert_refused(p, apply_one(p, s, 0, 0, insert_op(p, NULL)), PAWL_UNAVAILABLE, "write lock");
    host_exec(db, "COMMIT");
    insert_one(p, s);
    sqlite3_close(db);
    store_close(s);
}

static off_t size_of(place *p)
{
    struct stat st;
    assert_int_equal(stat(p->path, &st), 0);
    return st.st_size;
}

static void fill_wal(place *p, pawl_store *s)
{
    static char payload[100000];
    pawl_op *op = insert_op(p, NULL);
    op->u.insert.body->payload = (pawl_bytes){payload, sizeof payload};
    assert_ok(p, apply_one(p, s, 0, 0, op));
}

/* Without the writer lock there is no checkpoint at all: a passive one would write to the database file. */
static void a_checkpoint_is_never_demoted(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    sqlite3 *db = host_open(p);
    fill_wal(p, s);
    off_t before = size_of(p);
    host_exec(db, "BEGIN IMMEDIATE");
    int64_t began_us = mono_us();
    assert_true(ckpt_now(inside(s), 200 * PAWL_MILLISECOND));
    assert_int_equal(size_of(p), before);
    assert_true(mono_us() - began_us >= 200 * PAWL_MILLISECOND);
    host_exec(db, "ROLLBACK");
    assert_true(ckpt_now(inside(s), 200 * PAWL_MILLISECOND));
    assert_true(size_of(p) >= before + 100000);
    sqlite3_close(db);
    store_close(s);
}

/* A reader gets 50 ms, then the checkpoint is left incomplete and the next one comes later. */
static void a_reader_does_not_stop_writers(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    sqlite3 *db = host_open(p);
    insert_one(p, s);
    host_exec(db, "BEGIN");
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_body"), 1);
    fill_wal(p, s);
    int64_t limit = inside(s)->ckpt.limit, began_us = mono_us();
    assert_true(ckpt_now(inside(s), 60 * PAWL_SECOND));
    assert_true(mono_us() - began_us < 30 * PAWL_SECOND);
    assert_int_equal(inside(s)->ckpt.limit, 2 * limit);
    assert_true(ckpt_now(inside(s), 60 * PAWL_SECOND));
    assert_int_equal(inside(s)->ckpt.limit, 4 * limit);
    insert_one(p, s);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_body"), 1); /* its snapshot stands */
    host_exec(db, "COMMIT");
    assert_true(ckpt_now(inside(s), 60 * PAWL_SECOND));
    assert_int_equal(inside(s)->ckpt.limit, limit);
    sqlite3_close(db);
    store_close(s);
}

static void checkpoints_come_by_themselves(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    off_t before = size_of(p);
    for (int i = 0; i < 45; i++) fill_wal(p, s); /* more than 4 MiB */
    assert_true(size_of(p) > before + (3 << 20));
    store_close(s);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static void hold_a_lease(place *p, int said)
{
    pawl_store *s = open_store(p);
    pawl_claimed task;
    int64_t node = join(p, s);
    insert_one(p, s);
    if (claim_some(p, s, node, 1, &task, NULL) != 1) _exit(1);
    child_say(said, node);
    wait_for_ever();
}

static void a_killed_process_is_proven_dead(void **state)
{
    place *p = *state;
    child c = child_new(p, hold_a_lease);
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    pawl_news news;
    pawl_claimed task;
    child_go(&c);
    int64_t victim = child_hear(&c);
    claim_some(p, s, node, 0, &task, &news);
    assert_int_equal(news.lapsed_count, 0);
    assert_true(news.foreign_expiry_us > 0);
    pawl_lease freed[4];
    pawl_rescue call = {.node = node, .victim = victim, .renewal = 1, .counts = true, .limit = 4, .tasks = freed};
    assert_ok(p, s->type->rescue(s, &call, &p->err));
    assert_true(call.refused);

    child_kill(&c);
    claim_some(p, s, node, 0, &task, &news);
    assert_int_equal(news.lapsed_count, 1);
    assert_int_equal(news.lapsed[0].node, victim);
    assert_true(news.lapsed[0].proven_dead);
    assert_ok(p, s->type->rescue(s, &call, &p->err));
    assert_false(call.refused);
    assert_int_equal(call.freed, 1);
    store_close(s);
}

/* With the file gone nobody's death can be proven: the living must not seem dead in the new one. */
static void a_deleted_sidecar_proves_nothing(void **state)
{
    place *p = *state;
    pawl_store *a = open_store(p);
    pawl_claimed task, ignored;
    pawl_news news;
    int64_t living = join(p, a);
    insert_one(p, a);
    assert_int_equal(claim_some(p, a, living, 1, &task, NULL), 1);
    assert_int_equal(unlink(inside(a)->side.path), 0);
    pawl_store *b = open_store(p);
    claim_some(p, b, join(p, b), 0, &ignored, &news);
    assert_int_equal(news.lapsed_count, 0);
    free_bodies(&task, 1);
    store_close(b);
    store_close(a);
}

static bool seems_alive(place *p, pawl_store *s, int64_t node)
{
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    assert_ok(p, store_read(s, &query, p->arena, &p->err));
    for (size_t i = 0; i < query.nodes->count; i++)
        if (query.nodes->nodes[i].id == node) return query.nodes->nodes[i].alive;
    return false;
}

static void join_and_wait(place *p, int said)
{
    pawl_store *s = open_store(p);
    child_say(said, join(p, s));
    wait_for_ever();
}

static void an_idle_node_is_seen_to_live_and_die(void **state)
{
    place *p = *state;
    child c = child_new(p, join_and_wait);
    pawl_store *s = open_store(p);
    child_go(&c);
    int64_t node = child_hear(&c);
    assert_true(seems_alive(p, s, node));
    child_kill(&c);
    assert_false(seems_alive(p, s, node));
    pawl_sweep sweep = {.keep_succeeded_us = -1,
                        .keep_cancelled_us = -1,
                        .keep_resolved_us = -1,
                        .keep_failed_us = -1,
                        .keep_audit_us = -1,
                        .keep_logs_us = -1,
                        .limit = 10};
    assert_ok(p, s->type->sweep(s, &sweep, &p->err));
    sqlite3 *db = host_open(p);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_node WHERE alive = 1"), 0);
    sqlite3_close(db);
    store_close(s);
}

static void a_closed_handle_ends_its_nodes(void **state)
{
    place *p = *state;
    pawl_store *a = open_store(p), *b = open_store(p);
    int64_t node = join(p, b);
    assert_true(seems_alive(p, a, node));
    assert_true(seems_alive(p, b, node));
    store_close(b);
    assert_false(seems_alive(p, a, node));
    store_close(a);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(waiting_for_the_turn_is_bounded),  TEST(the_end_of_a_turn_wakes_who_waits),
        TEST(a_killed_holder_leaves_its_turn),  TEST(turns_are_fair),
        TEST(a_stopped_process_in_the_line),    TEST(a_foreign_writer_is_waited_for_and_no_longer),
        TEST(a_checkpoint_is_never_demoted),    TEST(a_reader_does_not_stop_writers),
        TEST(checkpoints_come_by_themselves),   TEST(a_killed_process_is_proven_dead),
        TEST(a_deleted_sidecar_proves_nothing), TEST(an_idle_node_is_seen_to_live_and_die),
        TEST(a_closed_handle_ends_its_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
