/* The other questions, and reading while others write. */
#include "contract.h"
#include <pthread.h>
#include <stdatomic.h>

static void not_found(world *w)
{
    static const pawl_query_kind kinds[] = {PAWL_QUERY_GET, PAWL_QUERY_TRAIL, PAWL_QUERY_STATE};
    for (int i = 0; i < 3; i++) {
        pawl_query query = {.kind = kinds[i], .id = new_id(w)};
        assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_NOT_FOUND);
        assert_int_equal(w->err.status, PAWL_NOT_FOUND);
        assert_true(strlen(w->err.message) > 0);
    }
}

static void state_and_fence(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, op);
    assert_state(w, op->id, PAWL_LEASED);
    assert_true(fence_of(w, op->id) == 1);
    apply(w, w->a, n, op_finish(w, op->id, 1, PAWL_SUCCEEDED));
    assert_state(w, op->id, PAWL_SUCCEEDED);
    assert_true(fence_of(w, op->id) == 1);
}

static void settings(world *w)
{
    pawl_query query = {.kind = PAWL_QUERY_SETTINGS};
    assert_int_equal(store_read(w->a, &query, w->arena, &w->err), PAWL_OK);
    assert_non_null(strchr(query.text, '='));
}

static void both_handles_see_the_same(world *w)
{
    pawl_id id = insert(w, w->b, 0, (spec){.payload = "1"});
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = id};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    assert_memory_equal(get(w, id)->payload.data, query.info->payload.data, 1);
}

typedef struct reader {
    pthread_t thread;
    pawl_store *store;
    pawl_id id;
    atomic_bool stop;
    pawl_status status;
} reader;

static void *read_on(void *arg)
{
    reader *r = arg;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_filter filter = {.limit = 50};
    do {
        pawl_query queries[] = {
            {.kind = PAWL_QUERY_GET, .id = r->id}, {.kind = PAWL_QUERY_LIST, .filter = &filter}, {.kind = PAWL_QUERY_STATS}};
        for (int i = 0; i < 3 && r->status == PAWL_OK; i++) r->status = store_read(r->store, &queries[i], arena, NULL);
        arena_reset(arena);
    } while (!atomic_load(&r->stop) && r->status == PAWL_OK);
    arena_free(arena);
    return NULL;
}

static void while_others_write(world *w)
{
    int64_t n = join(w, w->a);
    reader readers[2] = {{.store = w->a}, {.store = w->b}};
    pawl_id id = insert(w, w->a, n, (spec){0});
    for (int i = 0; i < 2; i++) {
        readers[i].id = id;
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
    }
    for (int i = 0; i < 60; i++) {
        pawl_op *op = op_insert(w, (spec){.ask_lease = true});
        apply(w, w->a, n, op);
        apply(w, w->a, n, op_finish(w, op->id, op->out_fence, i % 2 ? PAWL_SUCCEEDED : PAWL_FAILED));
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&readers[i].stop, true);
        pthread_join(readers[i].thread, NULL);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(readers[i].status, PAWL_OK);
}

CASES(read_cases){
    {"read: not found", not_found},
    {"read: state and fence", state_and_fence},
    {"read: settings", settings},
    {"read: both handles see the same", both_handles_see_the_same},
    {"read: while others write", while_others_write},
    {NULL, NULL},
};
