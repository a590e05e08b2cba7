/* The schema of a store, seen and moved forward without an engine. An answer is an arena of its own; the struct the caller gets
 * stands in it behind the way back to the arena. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/runtime.h"
#include "runtime/upkeep.h"
#include <string.h>

#define LOCK_WAIT_US (10 * PAWL_SECOND)

typedef struct head {
    _Alignas(16) pawl_arena *arena;
} head;

const pawl_allocator *upkeep_allocator(const pawl_options *options)
{
    return options && options->allocator.alloc ? &options->allocator : alloc_default();
}

pawl_store_options upkeep_store(const pawl_options *options)
{
    return (pawl_store_options){.url = options && options->store ? options->store : config_default_store(),
                                .shared_file = options && options->shared_file,
                                .lock_wait_us = LOCK_WAIT_US,
                                .clock = clock_system(),
                                .allocator = upkeep_allocator(options)};
}

void *upkeep_give(pawl_arena *arena, const void *value, size_t size)
{
    head *h = pawl_arena_alloc(arena, sizeof *h + size);
    if (!h) return NULL;
    h->arena = arena;
    return memcpy(h + 1, value, size);
}

void upkeep_take_back(const void *value)
{
    if (value) arena_free(((const head *)value - 1)->arena);
}

pawl_status upkeep_no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not look: out of memory"); }

pawl_status pawl_get_schema(const pawl_options *options, pawl_schema **out, pawl_error *err)
{
    pawl_store_options store = upkeep_store(options);
    pawl_schema schema;
    if (!out) return err_set(err, PAWL_INVALID, "out is NULL");
    pawl_arena *arena = arena_new(store.allocator, 0);
    if (!arena) return upkeep_no_memory(err);
    pawl_status status = store_schema(&store, &schema, arena, err);
    pawl_schema *given = status ? NULL : upkeep_give(arena, &schema, sizeof schema);
    if (!status && !given) status = upkeep_no_memory(err);
    if (status) arena_free(arena);
    else *out = given;
    return status;
}

void pawl_schema_free(pawl_schema *schema) { upkeep_take_back(schema); }

/* Looks first: what does not exist is not created, and what fits is not opened for writing. */
pawl_status pawl_migrate(const pawl_options *options, pawl_error *err)
{
    pawl_schema *schema;
    pawl_status status = pawl_get_schema(options, &schema, err);
    if (status) return status;
    bool done = schema->pending == 0 && schema->fits;
    pawl_schema_free(schema);
    if (done) return PAWL_OK;
    pawl_store_options with = upkeep_store(options);
    pawl_store *store;
    with.migrate_all = true;
    status = store_open(&with, &store, err); /* one that is too new says so here */
    if (!status) store_close(store);
    return status;
}
