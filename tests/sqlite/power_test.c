/* Loss of power at every sync: whatever was acknowledged is there afterwards, and every batch is there whole or not at all. */
#include "faults/disk.h"
#include "support.h"
#include <stdio.h>
#include <unistd.h>

#define BATCHES 24
#define CRASHES_MAX 400

typedef struct crash {
    char path[200];
    int acked; /* batches acknowledged before it */
} crash;

static place *here;
static crash crashes[CRASHES_MAX];
static int crashes_count, acked;
static pawl_id pairs[BATCHES][2];

static void crash_now(void)
{
    assert_true(crashes_count < CRASHES_MAX);
    crash *c = &crashes[crashes_count++];
    snprintf(c->path, sizeof c->path, "%s/crash%d.db", here->dir, crashes_count);
    c->acked = acked;
    disk_crash_copy(here->path, c->path, (disk_loss)(crashes_count % LOSS_COUNT), (uint64_t)crashes_count);
}

/* A batch: two new tasks, and the end of one of the batch before. */
static void commit_pair(place *p, pawl_store *s, int64_t node, int at)
{
    static char payload[3000];
    pawl_op *ops[3] = {insert_op(p, NULL), insert_op(p, NULL), NULL};
    for (int i = 0; i < 2; i++) {
        ops[i]->u.insert.body->payload = (pawl_bytes){payload, sizeof payload};
        ops[i]->u.insert.ask_lease = true;
        pairs[at][i] = ops[i]->id;
    }
    if (at > 0) ops[2] = finish_op(p, pairs[at - 1][0], 1);
    pawl_batch batch = {.node = node, .number = at + 1, .ops = ops, .count = at > 0 ? 3 : 2};
    assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
    acked = at + 1;
}

static void work(place *p)
{
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    disk_in_sync = crash_now;
    for (int i = 0; i < BATCHES; i++) {
        inside(s)->ckpt.limit = i % 3 ? 8 : 1000; /* many checkpoints, and a WAL that starts anew now and then */
        commit_pair(p, s, node, i);
        crash_now();
    }
    disk_in_sync = NULL;
    store_close(s);
}

static void check_integrity(place *p, const char *path)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    if (strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0)
        fail_msg("%s in %s: %s", path, p->dir, sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static void check_crash(place *p, const crash *c)
{
    pawl_store_options o = options_of(p);
    pawl_store *s = NULL;
    char url[220];
    check_integrity(p, c->path);
    snprintf(url, sizeof url, "sqlite:%s", c->path);
    o.url = url;
    assert_ok(p, store_open(&o, &s, &p->err));
    for (int i = 0; i < BATCHES; i++) {
        pawl_state first = state_of(p, s, pairs[i][0]), second = state_of(p, s, pairs[i][1]);
        assert_int_equal(first == PAWL_STATE_NONE, second == PAWL_STATE_NONE);
        if (i < c->acked) assert_int_not_equal(second, PAWL_STATE_NONE);
        if (i < c->acked - 1) assert_int_equal(first, PAWL_SUCCEEDED);
        if (i > c->acked) assert_int_equal(first, PAWL_STATE_NONE);
    }
    store_close(s);
    arena_reset(p->arena);
}

static void power_may_fail_at_any_sync(void **state)
{
    place *p = here = *state;
    crashes_count = acked = 0;
    disk_record(true);
    work(p);
    disk_record(false);
    assert_true(crashes_count > 2 * BATCHES); /* commits and checkpoints */
    for (int i = 0; i < crashes_count; i++) check_crash(p, &crashes[i]);
}

/* Then SQLite writes in another way, and syncs more. */
static void sectors_may_be_torn(void **state)
{
    disk_tears = true;
    power_may_fail_at_any_sync(state);
    disk_tears = false;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    if (!disk_install()) return 1;
    const struct CMUnitTest tests[] = {TEST(power_may_fail_at_any_sync), TEST(sectors_may_be_torn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
