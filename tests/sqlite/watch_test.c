/* Noticing the commits of others, and not one's own. */
#include "support.h"
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool readable(pawl_store *s, int timeout_ms)
{
    struct pollfd p = {.fd = store_watch_fd(s), .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

/* As an engine's loop would: waits for the descriptor, and looks again when told. */
static bool notices(pawl_store *s)
{
    int64_t again_us = -1;
    for (;;) {
        bool changed = false;
        if (again_us < 0 && !readable(s, 10000)) return false;
        if (again_us >= 0) readable(s, (int)(again_us / 1000) + 1);
        store_watch_check(s, &changed, &again_us);
        if (changed) return true;
    }
}

/* Looks until there is nothing more to look at; whether anything was noticed meanwhile. */
static bool settles_with_a_change(pawl_store *s)
{
    bool any = false;
    int64_t again_us = 0;
    while (again_us >= 0 || readable(s, 0)) {
        bool changed = false;
        if (again_us > 0) readable(s, (int)(again_us / 1000) + 1);
        store_watch_check(s, &changed, &again_us);
        any |= changed;
    }
    return any;
}

static struct timespec touched(pawl_store *s)
{
    struct stat st;
    assert_int_equal(stat(inside(s)->side.path, &st), 0);
    return st.st_mtim;
}

static void alone_nothing_wakes(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    assert_true(store_watch_fd(s) >= 0);
    settles_with_a_change(s);
    struct timespec before = touched(s);
    for (int i = 0; i < 3; i++) insert_one(p, s);
    assert_false(readable(s, 0));
    struct timespec after = touched(s);
    assert_memory_equal(&before, &after, sizeof before);
    store_close(s);
}

static void commit_one(place *p, int said)
{
    pawl_store *s = open_store(p);
    pawl_op *op = insert_op(p, NULL);
    op->id = 0;
    if (apply_one(p, s, 0, 0, op) || op->result != PAWL_OP_DONE) _exit(1);
    store_close(s);
    child_say(said, 1);
}

static void another_process_wakes(void **state)
{
    place *p = *state;
    child children[3];
    for (int i = 0; i < 3; i++) children[i] = child_new(p, commit_one);
    pawl_store *s = open_store(p);
    for (int i = 0; i < 3; i++) {
        settles_with_a_change(s);
        child_go(&children[i]);
        assert_true(notices(s));
        child_wait(&children[i]);
    }
    store_close(s);
}

static void own_commits_are_no_news(void **state)
{
    place *p = *state;
    pawl_store *a = open_store(p), *b = open_store(p);
    insert_one(p, b);
    settles_with_a_change(a);
    settles_with_a_change(b);
    for (int i = 0; i < 5; i++) insert_one(p, a);
    assert_false(settles_with_a_change(a));
    assert_true(notices(b));
    store_close(a);
    store_close(b);
}

/* The host program touches nothing: only the -wal tells of it. */
static void a_connection_of_the_host_program_wakes(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = host_open(p);
    host_exec(db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    settles_with_a_change(s);
    for (int i = 0; i < 5; i++) {
        host_exec(db, "INSERT INTO orders DEFAULT VALUES");
        assert_true(notices(s));
        settles_with_a_change(s);
    }
    sqlite3_close(db);
    store_close(s);
}

/* Long transactions write to the -wal before they commit; the commit itself is what must be noticed. */
static void a_commit_long_after_its_write_is_noticed(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = host_open(p);
    host_exec(db, "CREATE TABLE big (x); PRAGMA cache_size=5; PRAGMA cache_spill=5");
    settles_with_a_change(s);
    host_exec(
        db,
        "BEGIN IMMEDIATE; WITH s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 200) INSERT INTO big SELECT randomblob(2000) FROM s");
    assert_true(readable(s, 10000)); /* it spilled */
    assert_false(settles_with_a_change(s));
    host_exec(db, "COMMIT");
    assert_true(notices(s));
    sqlite3_close(db);
    store_close(s);
}

static sqlite3_io_methods hooked;
static int (*real_sync)(sqlite3_file *, int);
static pawl_store *looking;
static int looks;

static int sync_and_look(sqlite3_file *file, int flags)
{
    bool changed = true;
    int64_t again_us;
    int rc = real_sync(file, flags);
    store_watch_check(looking, &changed, &again_us);
    assert_false(changed);
    looks++;
    return rc;
}

static void hook_wal(pawl_store *store)
{
    sqlite3_file *wal = NULL;
    assert_int_equal(sqlite3_file_control(inside(store)->writer.db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal), SQLITE_OK);
    hooked = *wal->pMethods;
    real_sync = hooked.xSync;
    hooked.xSync = sync_and_look;
    wal->pMethods = &hooked;
}

/* The -wal changes before the commit is visible. Whoever looks at that moment is told again when it is. */
static void a_look_before_the_commit_is_visible(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    looking = open_store(p);
    settles_with_a_change(looking);
    looks = 0;
    hook_wal(s);
    insert_one(p, s);
    assert_true(looks > 0);
    assert_true(readable(looking, 0));
    assert_true(notices(looking));
    store_close(s);
    store_close(looking);
}

static void what_was_committed_before_the_first_look(void **state)
{
    place *p = *state;
    pawl_store *a = open_store(p), *b = open_store(p);
    insert_one(p, b);
    bool changed = false;
    int64_t again_us;
    store_watch_check(a, &changed, &again_us);
    assert_true(changed);
    store_close(a);
    store_close(b);
}

/* The look does not wait for a writer that is busy. */
static void a_busy_writer_is_not_waited_for(void **state)
{
    place *p = *state;
    pawl_store *a = open_store(p), *b = open_store(p);
    settles_with_a_change(a);
    pthread_mutex_lock(&inside(a)->write_lock);
    insert_one(p, b);
    bool changed = true;
    int64_t again_us = -1;
    store_watch_check(a, &changed, &again_us);
    assert_false(changed);
    assert_true(again_us > 0);
    pthread_mutex_unlock(&inside(a)->write_lock);
    store_watch_check(a, &changed, &again_us);
    assert_true(changed);
    store_close(a);
    store_close(b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(alone_nothing_wakes),
        TEST(another_process_wakes),
        TEST(own_commits_are_no_news),
        TEST(a_connection_of_the_host_program_wakes),
        TEST(a_commit_long_after_its_write_is_noticed),
        TEST(a_look_before_the_commit_is_visible),
        TEST(what_was_committed_before_the_first_look),
        TEST(a_busy_writer_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
