#include "harness.h"
#include <dirent.h>
#include <time.h>
#include <unistd.h>

static bool on_sqlite;

/* ---- gates --------------------------------------------------------------------------------------------------------------- */

void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->count++;
    pthread_cond_broadcast(&g->cond);
    pthread_mutex_unlock(&g->lock);
}

void gate_pass(gate *g)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE / PAWL_SECOND;
    pthread_mutex_lock(&g->lock);
    while (g->count == 0) {
        if (pthread_cond_timedwait(&g->cond, &g->lock, &until) == 0) continue;
        fprintf(stderr, "nobody opened the gate\n");
        abort();
    }
    g->count--;
    pthread_mutex_unlock(&g->lock);
}

/* ---- the allocator ------------------------------------------------------------------------------------------------------- */

static bool may_allocate(world *w)
{
    long fail_at = atomic_load(&w->fail_at), number = atomic_fetch_add(&w->allocations, 1) + 1;
    return fail_at == 0 || number < fail_at;
}

static void *count_alloc(void *ctx, size_t size)
{
    world *w = ctx;
    void *ptr = may_allocate(w) ? malloc(size) : NULL;
    if (ptr) atomic_fetch_add(&w->blocks, 1);
    return ptr;
}

static void *count_resize(void *ctx, void *ptr, size_t size)
{
    world *w = ctx;
    void *moved = may_allocate(w) ? realloc(ptr, size) : NULL;
    if (moved && !ptr) atomic_fetch_add(&w->blocks, 1);
    return moved;
}

static void count_release(void *ctx, void *ptr)
{
    world *w = ctx;
    if (ptr) atomic_fetch_sub(&w->blocks, 1);
    free(ptr);
}

/* ---- the world ----------------------------------------------------------------------------------------------------------- */

static void keep_line(void *ctx, pawl_level level, const char *line)
{
    world *w = ctx;
    pthread_mutex_lock(&w->lock);
    size_t n = strlen(w->log);
    snprintf(w->log + n, sizeof w->log - n, "%s: %s\n", pawl_level_name(level), line);
    pthread_mutex_unlock(&w->lock);
}

void note(world *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pthread_mutex_lock(&w->lock);
    size_t n = strlen(w->journal);
    if (n) w->journal[n++] = ' ';
    vsnprintf(w->journal + n, sizeof w->journal - n, fmt, args);
    pthread_mutex_unlock(&w->lock);
    va_end(args);
}

void world_path(world *w, const char *name, char out[128]) { snprintf(out, 128, "%s/%s", w->dir, name); }

int world_setup(void **state)
{
    world *w = calloc(1, sizeof *w);
    w->sqlite = on_sqlite;
    snprintf(w->dir, sizeof w->dir, "/tmp/pawl-api-XXXXXX");
    if (!mkdtemp(w->dir)) return -1;
    snprintf(w->url, sizeof w->url, on_sqlite ? "sqlite:%s/pawl.db" : "memory:", w->dir);
    pthread_mutex_init(&w->lock, NULL);
    w->allocator = (pawl_allocator){count_alloc, count_resize, count_release, w};
    *state = w;
    return 0;
}

static void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    rmdir(dir);
}

int world_teardown(void **state)
{
    world *w = *state;
    if (w->p) pawl_close(w->p);
    long left = atomic_load(&w->blocks);
    if (left != 0) fprintf(stderr, "%ld blocks were not given back\n", left);
    remove_dir(w->dir);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return left == 0 ? 0 : -1;
}

int run_on_store(int argc, char **argv, const char *name, const struct CMUnitTest *tests, size_t count)
{
    if (argc < 2 || (strcmp(argv[1], "memory") != 0 && strcmp(argv[1], "sqlite") != 0)) {
        fprintf(stderr, "usage: %s memory|sqlite [test]\n", argv[0]);
        return 2;
    }
    on_sqlite = strcmp(argv[1], "sqlite") == 0;
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    char group[64];
    snprintf(group, sizeof group, "%s on %s", name, argv[1]);
    return _cmocka_run_group_tests(group, tests, count, NULL, NULL) != 0;
}

/* ---- engines ------------------------------------------------------------------------------------------------------------- */

pawl *world_open(world *w, pawl_options options)
{
    pawl *p = NULL;
    if (!options.store) options.store = w->url;
    options.allocator = w->allocator;
    if (!options.log) {
        options.log = keep_line;
        options.log_ctx = w;
    }
    if (!options.seed) options.seed = 1;
    ok(pawl_open(&options, &p, &w->err));
    assert_non_null(p);
    return p;
}

void world_start(world *w, const pawl_handler *handlers, size_t count, pawl_options options)
{
    w->p = world_open(w, options);
    for (size_t i = 0; i < count; i++) ok(pawl_handle(w->p, &handlers[i], &w->err));
    ok(pawl_start(w->p, &w->err));
}

void world_close(world *w)
{
    int code = pawl_close(w->p);
    w->p = NULL;
    assert_int_equal(code, 0);
}

pawl_id send(world *w, pawl_task task)
{
    pawl_id id = 0;
    ok(pawl_dispatch(w->p, &task, &id, &w->err));
    assert_true(id > 0);
    return id;
}

void await(world *w, pawl_id id, pawl_state state)
{
    pawl_state found = PAWL_STATE_NONE;
    ok(pawl_wait(w->p, id, PATIENCE, &found, &w->err));
    assert_string_equal(pawl_state_name(found), pawl_state_name(state));
}

pawl_info *get(world *w, pawl_id id)
{
    pawl_info *info = NULL;
    ok(pawl_get(w->p, id, &info, &w->err));
    assert_int_equal(info->id, id);
    return info;
}

void assert_ok_(pawl_status status, world *w, const char *call, const char *file, int line)
{
    if (status == PAWL_OK) return;
    print_error("%s: %s: %s\n%s", call, pawl_status_name(status), w->err.message, w->log);
    _fail(file, line);
}

void assert_refused_(pawl_status status, pawl_status expected, const char *text, world *w, const char *call, const char *file,
                     int line)
{
    if (status == expected && strstr(w->err.message, text) && w->err.status == expected) return;
    print_error("%s: %s (expected %s): \"%s\" (expected \"%s\")\n", call, pawl_status_name(status), pawl_status_name(expected),
                status ? w->err.message : "", text);
    _fail(file, line);
}

pawl_outcome succeed(pawl_run *run, void *ctx)
{
    (void)run;
    (void)ctx;
    return pawl_ok();
}
