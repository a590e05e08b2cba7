/* What the tests of the public API share. A program is run once per store: `test_x memory`, `test_x sqlite`.
 *
 * Every test has a world of its own: a directory, a store URL, an allocator that counts (the balance must be zero in the end),
 * a log sink that keeps the lines, a journal that handlers write to. Nothing sleeps: who waits, waits for a gate, an event or a
 * task.
 */
#ifndef API_HARNESS_H
#define API_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pawl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE (30 * PAWL_SECOND) /* no wait that succeeds comes near it */

/* Something that happens n times, and somebody who waits for it. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int count;
} gate;

#define GATE                                                   \
    {                                                          \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 \
    }

void gate_open(gate *g); /* lets one through */
void gate_pass(gate *g); /* waits for that; aborts the program after PATIENCE */

typedef struct world {
    bool sqlite;
    char dir[64], url[128];
    pawl *p; /* the engine most tests use; closed by the end if it is not NULL */
    pawl_allocator allocator;
    atomic_long blocks;
    atomic_long allocations, fail_at; /* fail_at > 0: that allocation fails, and every later one */
    pthread_mutex_t lock;
    char journal[4096]; /* what handlers noted, "a b c" */
    char log[16384];    /* the engine's log, one line each */
    pawl_error err;
} world;

/* Runs the tests on the store named by argv[1]. */
int run_on_store(int argc, char **argv, const char *name, const struct CMUnitTest *tests, size_t count);
#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
#define RUN_TESTS(name, tests) run_on_store(argc, argv, name, tests, sizeof(tests) / sizeof *(tests))
int world_setup(void **state);
int world_teardown(void **state);

void note(world *w, const char *fmt, ...) PAWL_PRINTF(2, 3);
void world_path(world *w, const char *name, char out[128]); /* a file in the test's directory */

/* Opens with the world's store, allocator and log, over what `options` says. */
pawl *world_open(world *w, pawl_options options);
void world_start(world *w, const pawl_handler *handlers, size_t count, pawl_options options); /* opens w->p, registers, starts */
void world_close(world *w);                                                                   /* w->p; must succeed */

pawl_id send(world *w, pawl_task task);             /* dispatch that must succeed */
void await(world *w, pawl_id id, pawl_state state); /* ends as */
pawl_info *get(world *w, pawl_id id);

#define ok(call) assert_ok_((call), w, #call, __FILE__, __LINE__)
#define refused(call, expected, text) assert_refused_((call), (expected), (text), w, #call, __FILE__, __LINE__)
void assert_ok_(pawl_status status, world *w, const char *call, const char *file, int line);
/* status as expected, and the message contains the text */
void assert_refused_(pawl_status status, pawl_status expected, const char *text, world *w, const char *call, const char *file,
                     int line);

pawl_outcome succeed(pawl_run *run, void *ctx); /* a handler that does */

#endif
