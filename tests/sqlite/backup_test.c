/* A copy of a store in use. */
#include "support.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void copy_path(const place *p, char path[300], char url[320])
{
    snprintf(path, 300, "%s/copy.db", p->dir);
    snprintf(url, 320, "sqlite:%s", path);
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

typedef struct writing {
    place *p;
    pawl_store *store;
    int calls, stop_at;
    int64_t done, total;
} writing;

/* Commits between two steps of the copy. */
static bool write_meanwhile(void *ctx, int64_t done, int64_t total)
{
    writing *w = ctx;
    assert_true(done >= w->done && done <= total);
    w->done = done;
    w->total = total;
    assert_true(w->calls < 1000); /* it does not begin anew with every commit */
    insert_one(w->p, w->store);
    return ++w->calls != w->stop_at;
}

static void fill(place *p, pawl_store *s)
{
    static char payload[100000];
    for (int i = 0; i < 60; i++) {
        pawl_op *op = insert_op(p, NULL);
        op->u.insert.body->payload = (pawl_bytes){payload, sizeof payload};
        assert_ok(p, apply_one(p, s, 0, 0, op));
    }
}

static void a_copy_is_whole_and_of_one_moment(void **state)
{
    place *p = *state;
    char path[300], url[320];
    copy_path(p, path, url);
    pawl_store *s = open_store(p), *copy = NULL;
    fill(p, s);
    writing w = {.p = p, .store = s};
    assert_ok(p, s->type->backup(s, path, write_meanwhile, &w, &p->err));
    assert_true(w.calls > 2); /* it did not begin anew with every commit either */
    assert_true(w.calls < 20);
    pawl_store_options o = options_of(p);
    o.url = url;
    assert_ok(p, store_open(&o, &copy, &p->err));
    pawl_query query = {.kind = PAWL_QUERY_STATS};
    assert_ok(p, store_read(copy, &query, p->arena, &p->err));
    assert_int_equal(query.stats->pending, 60); /* nothing of what was committed meanwhile */
    insert_one(p, copy);
    store_close(copy);
    store_close(s);
}

static void a_copy_that_is_stopped_leaves_nothing(void **state)
{
    place *p = *state;
    char path[300], url[320], command[400];
    copy_path(p, path, url);
    pawl_store *s = open_store(p);
    fill(p, s);
    writing w = {.p = p, .store = s, .stop_at = 1};
    assert_refused(p, s->type->backup(s, path, write_meanwhile, &w, &p->err), PAWL_CONFLICT, "stopped");
    assert_false(there(path));
    snprintf(command, sizeof command, "test -z \"$(ls '%s' | grep copy)\"", p->dir);
    FILE *ls = popen(command, "r");
    assert_int_equal(pclose(ls), 0);
    store_close(s);
}

static void nothing_is_overwritten(void **state)
{
    place *p = *state;
    char path[300], url[320];
    copy_path(p, path, url);
    pawl_store *s = open_store(p);
    assert_int_equal(symlink("/nowhere/else", path), 0);
    assert_refused(p, s->type->backup(s, path, NULL, NULL, &p->err), PAWL_CONFLICT, "exists");
    assert_int_equal(unlink(path), 0);
    assert_ok(p, s->type->backup(s, path, NULL, NULL, &p->err));
    assert_refused(p, s->type->backup(s, path, NULL, NULL, &p->err), PAWL_CONFLICT, "exists");
    snprintf(path, sizeof path, "%s/no/such/folder", p->dir);
    assert_refused(p, s->type->backup(s, path, NULL, NULL, &p->err), PAWL_UNAVAILABLE, "could not write the backup");
    store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_copy_is_whole_and_of_one_moment),
        TEST(a_copy_that_is_stopped_leaves_nothing),
        TEST(nothing_is_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
