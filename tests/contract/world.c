/* The world of a case: the store under test, its clock, its memory. */
#include "contract.h"
#ifdef PAWL_POSTGRES
#include "postgres/bed.h"
#include "store/postgres/postgres.h"
#endif
#ifdef PAWL_MYSQL
#include "mysql/bed.h"
#include "store/mysql/mysql.h"
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define START_US INT64_C(1800000000000000) /* 2027-01-15 */
#define START_BOOT_US (1000 * PAWL_SECOND)

typedef enum wrapper { PLAIN, TRACE, FAULTS } wrapper;
static wrapper wrapping = PLAIN;

bool store_wrapper_set(const char *name)
{
    static const char *const names[] = {[PLAIN] = "plain", [TRACE] = "trace", [FAULTS] = "faults"};
    for (int i = PLAIN; i <= FAULTS; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        wrapping = (wrapper)i;
        return true;
    }
    return false;
}

/* ---- the stores: a new one is one line in `kinds` ---------------------------------------------------------------- */

static void memory_url(world *w)
{
    static int count;
    snprintf(w->url, sizeof w->url, "memory:contract %d", ++count);
}

static void memory_remove(world *w) { (void)w; }

static void sqlite_url(world *w)
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp) tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* nothing here rests on a disk */
    snprintf(w->dir, sizeof w->dir, "%s/pawl-contract-XXXXXX", tmp);
    assert_non_null(mkdtemp(w->dir));
    snprintf(w->url, sizeof w->url, "sqlite:%s/pawl.db", w->dir);
}

static void sqlite_remove(world *w)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", w->dir);
    assert_int_equal(system(command), 0);
}

#ifdef PAWL_POSTGRES
/* One schema for all cases, emptied between them, and another one for those who want a store that does not exist. */
static char schema[64], empty_schema[64];

static bool postgres_begin(void)
{
    pawl_error err;
    if (!bed_there(false)) return false;
    bed_use_clock_of_options();
    bed_schema(schema, sizeof schema, "contract");
    bed_schema(empty_schema, sizeof empty_schema, "contract");
    return pawl_register_store(&store_postgres_type, &err) == PAWL_OK;
}

static bool pgbouncer_begin(void) { return bed_there(true) && postgres_begin(); }

static void postgres_end(void)
{
    bed_drop(schema);
    bed_drop(empty_schema);
}

static void fresh(world *w, bool proxy)
{
    bool second = w->dir[0] != '\0';
    if (!second) bed_empty(schema);
    snprintf(w->dir, sizeof w->dir, "%s", second ? empty_schema : schema);
    bed_url(w->url, sizeof w->url, w->dir, proxy);
}

static void postgres_url(world *w) { fresh(w, false); }
static void pgbouncer_url(world *w) { fresh(w, true); }

static void postgres_remove(world *w)
{
    if (strcmp(w->dir, empty_schema) == 0) bed_drop(empty_schema);
}
#endif

#ifdef PAWL_MYSQL
/* One database for all cases, and another one, as for PostgreSQL. */
static char database[64], empty_database[64];

static bool mysql_begin(void)
{
    pawl_error err;
    if (!my_bed_there()) return false;
    my_bed_use_clock_of_options();
    my_bed_database(database, sizeof database, "contract");
    my_bed_database(empty_database, sizeof empty_database, "contract");
    return pawl_register_store(&store_mysql_type, &err) == PAWL_OK;
}

static void mysql_end(void)
{
    my_bed_drop(database);
    my_bed_drop(empty_database);
}

static void mysql_url(world *w)
{
    bool second = w->dir[0] != '\0';
    if (!second) my_bed_empty(database);
    snprintf(w->dir, sizeof w->dir, "%s", second ? empty_database : database);
    my_bed_url(w->url, sizeof w->url, w->dir);
}

static void mysql_remove(world *w)
{
    if (strcmp(w->dir, empty_database) == 0) my_bed_clear(empty_database);
}
#endif

static const store_kind kinds[] = {
    {"memory", memory_url, memory_remove, NULL, NULL, false},
    {"sqlite", sqlite_url, sqlite_remove, NULL, NULL, false},
#ifdef PAWL_POSTGRES
    {"postgres", postgres_url, postgres_remove, postgres_begin, postgres_end, false},
    {"pgbouncer", pgbouncer_url, postgres_remove, pgbouncer_begin, postgres_end, true},
#endif
#ifdef PAWL_MYSQL
    {"mysql", mysql_url, mysql_remove, mysql_begin, mysql_end, false},
#endif
};

const store_kind *store_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

/* ---- memory that counts, and fails when told --------------------------------------------------------------------- */

static bool fails(world *w) { return ++w->allocations == w->fail_at; }

static void *world_alloc(void *ctx, size_t size)
{
    world *w = ctx;
    void *ptr = fails(w) ? NULL : malloc(size);
    w->blocks += ptr != NULL;
    return ptr;
}

static void *world_resize(void *ctx, void *ptr, size_t size)
{
    world *w = ctx;
    void *moved = fails(w) ? NULL : realloc(ptr, size);
    w->blocks += moved && !ptr;
    return moved;
}

static void world_release(void *ctx, void *ptr)
{
    world *w = ctx;
    w->blocks -= ptr != NULL;
    free(ptr);
}

/* ---- handles ----------------------------------------------------------------------------------------------------- */

static void ignore_line(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    (void)level;
    assert_true(strncmp(line, "store: ", 7) == 0);
}

static void ignore_log(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static fault decide(void *ctx, core_call_kind kind)
{
    world *w = ctx;
    w->fault_calls++;
    return w->fault ? w->fault(w, kind) : FAULT_NONE;
}

pawl_store *open_handle(world *w)
{
    pawl_store *store = NULL, *wrapped = NULL;
    pawl_store_options options = {.url = w->url,
                                  .lease_us = LEASE,
                                  .lock_wait_us = 5 * PAWL_SECOND,
                                  .clock = clock_virtual(&w->clock),
                                  .allocator = &w->allocator,
                                  .log = ignore_log};
    if (store_open(&options, &store, &w->err)) fail_msg("cannot open %s: %s", w->url, w->err.message);
    if (wrapping == TRACE) assert_int_equal(store_with_trace(store, &w->allocator, ignore_line, w, &wrapped), PAWL_OK);
    if (wrapping == FAULTS) assert_int_equal(store_with_faults(store, &w->allocator, decide, w, &wrapped), PAWL_OK);
    return wrapped ? wrapped : store;
}

void close_handle(world *w, pawl_store **store)
{
    (void)w;
    store_close(*store);
    *store = NULL;
}

void reopen(world *w)
{
    close_handle(w, &w->a);
    close_handle(w, &w->b);
    w->a = open_handle(w);
    w->b = open_handle(w);
}

void world_open(world *w, const store_kind *kind)
{
    memset(w, 0, sizeof *w);
    w->kind = kind;
    w->clock = (virtual_clock){.now_us = START_US, .boot_us = START_BOOT_US};
    w->allocator = (pawl_allocator){world_alloc, world_resize, world_release, w};
    w->arena = arena_new(alloc_default(), 0);
    w->last_id = (START_US / 1000 - PAWL_EPOCH_MS) << 22 | 7 << 12;
    kind->fresh_url(w);
    w->a = open_handle(w);
    w->b = open_handle(w);
}

void world_close(world *w)
{
    for (int i = 0; i < w->claimed_count; i++) pawl_body_free(&w->allocator, w->claimed[i].body);
    store_close(w->a);
    store_close(w->b);
    w->kind->remove(w);
    arena_free(w->arena);
    assert_int_equal(w->blocks, 0);
}

void advance(world *w, int64_t us)
{
    w->clock.now_us += us;
    w->clock.boot_us += us;
}

void step_wall(world *w, int64_t us) { w->clock.now_us += us; }

void *keep(world *w, size_t size)
{
    void *ptr = pawl_arena_alloc(w->arena, size);
    assert_non_null(ptr);
    return ptr;
}

int64_t join_as(world *w, pawl_store *store, const char *name, const char *queues, const char *types, int64_t lease_us)
{
    pawl_registration call = {.name = name, .pid = 4711, .queues = queues, .types = types, .lease_us = lease_us};
    if (store->type->register_node(store, &call, &w->err)) fail_msg("cannot register: %s", w->err.message);
    assert_true(call.node > 0);
    for (int i = 0; i < NODES_MAX; i++) {
        assert_int_not_equal(w->numbers[i][0], call.node);
        if (w->numbers[i][0]) continue;
        w->numbers[i][0] = call.node;
        return call.node;
    }
    fail_msg("more than %d nodes", NODES_MAX);
    return 0;
}

int64_t join(world *w, pawl_store *store) { return join_as(w, store, "node", "q,p", "*", LEASE); }
