/* Finding and registering stores, and what `memory:` and `memory:NAME` share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "store/store.h"
#include <pthread.h>
#include <string.h>

static pawl_status open_url(const char *url, pawl_store **out, pawl_error *err)
{
    pawl_store_options options = {.url = url, .clock = clock_system(), .allocator = alloc_default(), .lease_us = PAWL_SECOND};
    return store_open(&options, out, err);
}

static void assert_refused(const char *url, pawl_status wanted)
{
    pawl_store *store = NULL;
    pawl_error err = {0};
    assert_int_equal(open_url(url, &store, &err), wanted);
    assert_int_equal(err.status, wanted);
    assert_true(strlen(err.message) > 20);
    assert_null(store);
}

static void bad_urls(void **state)
{
    (void)state;
    assert_refused(NULL, PAWL_INVALID);
    assert_refused("", PAWL_INVALID);
    assert_refused("pawl.db", PAWL_INVALID);
    assert_refused(":memory:", PAWL_INVALID);
    assert_refused("oracle:db", PAWL_UNSUPPORTED);
    assert_refused("MEMORY:", PAWL_UNSUPPORTED);
    assert_refused("memory:a\nb", PAWL_INVALID);
}

static void an_error_shows_no_password(void **state)
{
    (void)state;
    pawl_store *store = NULL;
    pawl_error err = {0};
    assert_int_equal(open_url("cloud://ann:secret@host/db", &store, &err), PAWL_UNSUPPORTED);
    assert_null(strstr(err.message, "secret"));
    assert_non_null(strstr(err.message, "cloud"));
}

/* ---- registering ------------------------------------------------------------------------------------------------- */

static pawl_status open_other(const pawl_store_options *options, pawl_store **out, pawl_error *err)
{
    pawl_store_options inner = *options;
    inner.url = "memory:";
    return store_memory_type.open(&inner, out, err);
}

static void assert_not_registered(const pawl_store_type *type, pawl_status wanted, const char *word)
{
    pawl_error err = {0};
    assert_int_equal(pawl_register_store(type, &err), wanted);
    assert_non_null(strstr(err.message, word));
}

static void incomplete_tables_are_refused(void **state)
{
    (void)state;
    pawl_store_type type = store_memory_type;
    assert_not_registered(NULL, PAWL_INVALID, "NULL");
    type.scheme = "test-a";
    type.version = PAWL_STORE_VERSION + 1;
    assert_not_registered(&type, PAWL_UNSUPPORTED, "version");
    type.version = PAWL_STORE_VERSION;
    type.claim = NULL;
    assert_not_registered(&type, PAWL_INVALID, "claim");
    type = store_memory_type;
    type.scheme = "test-a";
    type.watch_check = NULL;
    assert_not_registered(&type, PAWL_INVALID, "watch_check");
    type = store_memory_type;
    type.scheme = "test-a";
    type.lanes = 0;
    assert_not_registered(&type, PAWL_INVALID, "lane");
    static const char *const bad[] = {NULL, "", "With:colon", "UPPER", "sp ace"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        type = store_memory_type;
        type.scheme = bad[i];
        assert_not_registered(&type, PAWL_INVALID, "scheme");
    }
    assert_refused("test-a:x", PAWL_UNSUPPORTED);
}

static void taken_schemes_are_refused(void **state)
{
    (void)state;
    assert_not_registered(&store_memory_type, PAWL_CONFLICT, "memory");
    pawl_store_type type = store_memory_type;
    type.scheme = "sqlite";
    assert_not_registered(&type, PAWL_CONFLICT, "sqlite");
}

static void a_registered_store_opens(void **state)
{
    (void)state;
    static pawl_store_type type;
    type = store_memory_type;
    type.scheme = "other";
    type.open = open_other;
    type.tx_apply = NULL;
    type.backup = NULL;
    pawl_error err;
    pawl_store *store = NULL;
    assert_refused("other:x", PAWL_UNSUPPORTED);
    assert_int_equal(pawl_register_store(&type, &err), PAWL_OK);
    assert_not_registered(&type, PAWL_CONFLICT, "other");
    assert_int_equal(open_url("other:x", &store, &err), PAWL_OK);
    store_close(store);
    assert_refused("othe:x", PAWL_UNSUPPORTED);
    store_close(NULL);
}

static void what_a_store_has_not_is_unsupported(void **state)
{
    (void)state;
    pawl_error err;
    pawl_store *store = NULL;
    assert_int_equal(open_url("memory:", &store, &err), PAWL_OK);
    assert_int_equal(store_backup(store, "copy", NULL, NULL, &err), PAWL_UNSUPPORTED);
    assert_int_equal(store_tx_apply(store, NULL, NULL, 0, NULL, &err), PAWL_UNSUPPORTED);
    store_close(store);
}

/* ---- memory: ----------------------------------------------------------------------------------------------------- */

static int64_t count_nodes(pawl_store *store)
{
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    assert_int_equal(store_read(store, &query, arena, NULL), PAWL_OK);
    int64_t count = (int64_t)query.nodes->count;
    arena_free(arena);
    return count;
}

static void add_node(pawl_store *store)
{
    core_call call = {.kind = CORE_REGISTER};
    call.u.registration = (pawl_registration){.name = "n", .queues = "", .types = "", .lease_us = PAWL_SECOND};
    store_call(store, &call);
    assert_int_equal(call.status, PAWL_OK);
}

static void names_are_shared_in_the_process(void **state)
{
    (void)state;
    pawl_store *a, *b, *c, *d;
    assert_int_equal(open_url("memory:one", &a, NULL), PAWL_OK);
    assert_int_equal(open_url("memory:one", &b, NULL), PAWL_OK);
    assert_int_equal(open_url("memory:two", &c, NULL), PAWL_OK);
    assert_int_equal(open_url("memory:", &d, NULL), PAWL_OK);
    add_node(a);
    assert_true(count_nodes(b) == 1 && count_nodes(c) == 0 && count_nodes(d) == 0);
    assert_true(store_watch_fd(a) >= 0 && store_watch_fd(a) != store_watch_fd(b) && store_watch_fd(d) == -1);
    store_close(a);
    assert_int_equal(count_nodes(b), 1);
    store_close(b);
    assert_int_equal(open_url("memory:one", &a, NULL), PAWL_OK);
    assert_int_equal(count_nodes(a), 0);
    store_close(a);
    store_close(c);
    store_close(d);
}

static void *open_and_close(void *arg)
{
    for (int i = 0; i < 200; i++) {
        pawl_store *store;
        if (open_url("memory:many", &store, NULL)) return arg; /* anything but NULL */
        count_nodes(store);
        store_close(store);
    }
    return NULL;
}

static void handles_come_and_go_on_many_threads(void **state)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, state), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(an_error_shows_no_password),
        cmocka_unit_test(incomplete_tables_are_refused),
        cmocka_unit_test(taken_schemes_are_refused),
        cmocka_unit_test(a_registered_store_opens),
        cmocka_unit_test(what_a_store_has_not_is_unsupported),
        cmocka_unit_test(names_are_shared_in_the_process),
        cmocka_unit_test(handles_come_and_go_on_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
