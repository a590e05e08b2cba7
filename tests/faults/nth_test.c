/* The n-th call fails: n = 1, 2, 3, ... until a scene is played without a failure; once, and for good.
 *
 *     nth_test SOURCE STORE MOST [SCENE [N once|stays]]
 *
 * MOST limits how often a scene is played; then n goes up in steps that spread over the whole scene. 0: no limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "faults.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct source {
    const char *name;
    countdown *fault;
    bool memory;
    int kinds, rc; /* of the disk */
} source;

#define EVERY \
    (DISK_OPEN | DISK_READ | DISK_WRITE | DISK_SYNC | DISK_TRUNCATE | DISK_SHM_MAP | DISK_SHM_LOCK | DISK_DELETE | DISK_SIZE)

static const source sources[] = {
    {"memory", &memory_fault, true, 0, 0},
    {"sqlite-memory", &sqlite_memory_fault, true, 0, 0},
    {"disk", &disk_fault, false, EVERY, 0},
    {"full", &disk_fault, false, DISK_WRITE, SQLITE_FULL},
    {"open", &disk_fault, false, DISK_OPEN, 0},
    {"read", &disk_fault, false, DISK_READ, 0},
    {"write", &disk_fault, false, DISK_WRITE, 0},
    {"sync", &disk_fault, false, DISK_SYNC, 0},
    {"truncate", &disk_fault, false, DISK_TRUNCATE, 0},
    {"shm-map", &disk_fault, false, DISK_SHM_MAP, 0},
    {"shm-lock", &disk_fault, false, DISK_SHM_LOCK, 0},
    {"delete", &disk_fault, false, DISK_DELETE, 0},
};

static const source *from;
static const char *store;
static long most;

/* ---- one playing ---------------------------------------------------------------------------------------------------------------- */

static void after_a_failure(world *w, bool for_good)
{
    if (for_good) world_close(w, false);
    fault_disarm(from->fault);
    if (!for_good) {
        world_recover(w);
        world_close(w, true);
    }
    if (w->sqlite) world_judge(w);
}

/* Returns the calls that were counted; *failed: whether it came to a failure. */
static long play(const scene *s, long n, bool for_good, bool *failed)
{
    static ledger book;
    world w;
    sqlite3_int64 used = sqlite3_memory_used();
    if (!world_new(&w, store, &book)) fail_msg("no directory");
    w.source = from->fault;
    w.memory_source = from->memory;
    w.shared_file = s->shared_file;
    s->prepare(&w);
    if (w.problem[0]) fail_msg("%s cannot be prepared: %s", s->name, w.problem);
    fault_arm(from->fault, n, for_good);
    s->act(&w);
    long calls = atomic_load(&from->fault->calls);
    *failed = atomic_load(&from->fault->fired) > 0;
    after_a_failure(&w, for_good);
    world_close(&w, false);
    if (sqlite3_memory_used() != used) problem(&w, "SQLite keeps %lld bytes", (long long)(sqlite3_memory_used() - used));
    world_free(&w);
    if (w.problem[0])
        fail_msg("%s %s, %s: call %ld %s: %s", from->name, store, s->name, n, for_good ? "stays" : "once", w.problem);
    return calls;
}

/* ---- all of them ---------------------------------------------------------------------------------------------------------------- */

typedef struct part {
    const scene *scene;
    bool for_good;
    long only; /* 0: every n */
} part;

static void every_call(void **state)
{
    const part *p = *state;
    bool failed;
    if (p->only) {
        play(p->scene, p->only, p->for_good, &failed);
        return;
    }
    long calls = play(p->scene, LONG_MAX, false, &failed), plays = 0, step = most && calls > most ? calls / most : 1;
    assert_false(failed);
    for (long n = 1; plays++, play(p->scene, n, p->for_good, &failed), failed; n += step) continue;
    print_message("%s: %ld calls, played %ld times\n", p->scene->name, calls, plays);
}

static int use(const char *name)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strcmp(sources[i].name, name) == 0) from = &sources[i];
    if (!from) return -1;
    if (from->fault == &sqlite_memory_fault && !sqlite_memory_install()) return -1;
    disk_kinds = from->kinds;
    disk_rc = from->rc;
    return disk_install() ? 0 : -1;
}

static size_t choose(int argc, char **argv, part *parts)
{
    size_t count = 0;
    for (int i = 0; i < 2 * scenes_count; i++) {
        part p = {.scene = &scenes[i / 2], .for_good = i % 2, .only = argc > 5 ? atol(argv[5]) : 0};
        if (p.scene->sqlite_only && strcmp(store, "sqlite") != 0) continue;
        if (argc > 4 && strcmp(p.scene->name, argv[4]) != 0) continue;
        if (argc > 6 && p.for_good != (strcmp(argv[6], "stays") == 0)) continue;
        parts[count++] = p;
    }
    return count;
}

int main(int argc, char **argv)
{
    static part parts[100];
    static struct CMUnitTest tests[100];
    static char names[100][60];
    if (argc < 4 || use(argv[1]) != 0) {
        fprintf(stderr, "usage: nth_test SOURCE memory|sqlite MOST [SCENE [N once|stays]]\n");
        return 2;
    }
    store = argv[2];
    most = atol(argv[3]);
    size_t count = choose(argc, argv, parts);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%s %s", parts[i].scene->name, parts[i].for_good ? "stays" : "once");
        tests[i] = (struct CMUnitTest){names[i], every_call, NULL, NULL, &parts[i]};
    }
    return count == 0 || _cmocka_run_group_tests(argv[1], tests, count, NULL, NULL) != 0;
}
