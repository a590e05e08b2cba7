/* Loss of power on SQLite, at every sync from the first to the last.
 *
 *     power_test [SEEDS [FIRST_SEED]]
 *
 * A child process plays a whole story on a disk that remembers what was synced: open, dispatch, run, finish, retry, cancel, retention,
 * close. In the middle of each sync, and between calls, it writes down what the disk would hold if power failed now, in several ways
 * (all unsynced writes lost; all of them there; torn; garbled), and the parent, which has never seen these files, opens them: the
 * ledger the child had at that moment must be kept, whole, and the engine must go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "faults.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct scope { /* shared by the two processes */
    ledger book;
    char child_problem[800];
    uint64_t seed;
    disk_loss how;
    int at; /* the moment */
} scope;

static scope *shared;
static int seeds = 1;
static uint64_t first_seed = 1;

/* ---- the child ------------------------------------------------------------------------------------------------------------------ */

static world here;
static char crash_path[200];
static int go_on, lost;
static bool only_dropped;

static void lose_power(disk_loss how, uint64_t seed)
{
    char byte;
    shared->how = how;
    shared->seed = seed;
    disk_crash_copy(here.path, crash_path, how, seed);
    if (write(lost, "", 1) != 1 || read(go_on, &byte, 1) != 1) _exit(1);
}

static void lose_power_in_every_way(void)
{
    shared->at++;
    int64_t now_us = here.p ? pawl_now(here.p) : 0; /* 0: it is being closed */
    if (now_us) shared->book.now_us = now_us;
    lose_power(LOSS_DROPPED, 0);
    if (only_dropped) return;
    lose_power(LOSS_WRITTEN, 0);
    for (int i = 0; i < seeds; i++) {
        uint64_t seed = first_seed + (uint64_t)(shared->at * seeds + i);
        lose_power(LOSS_TORN, seed);
        lose_power(LOSS_GARBLED, seed);
    }
}

typedef enum disk_kind { DISK_HONEST, DISK_LYING, DISK_NEVER_ASKED } disk_kind;

static void play_the_story(disk_kind kind)
{
    disk_record(true);
    disk_lies = kind != DISK_HONEST;
    only_dropped = disk_lies;
    disk_in_sync = kind == DISK_NEVER_ASKED ? NULL : lose_power_in_every_way;
    story_moment = lose_power_in_every_way;
    story_act(&here);
    snprintf(shared->child_problem, sizeof shared->child_problem, "%s", here.problem);
    _exit(here.problem[0] != '\0');
}

/* ---- the parent ----------------------------------------------------------------------------------------------------------------- */

static void remove_crash(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal", "-pawl"};
    char path[220];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(path, sizeof path, "%s%s", crash_path, ends[i]);
        unlink(path);
    }
}

/* A copy of the ledger: what comes after the loss is no business of the child's. */
static void judge_crash(char problem_out[800])
{
    static ledger book;
    static world w;
    book = shared->book;
    w = (world){.sqlite = true, .source = &no_fault, .book = &book};
    snprintf(w.path, sizeof w.path, "%.150s", crash_path);
    snprintf(w.url, sizeof w.url, "sqlite:%s", w.path);
    if (access(w.path, F_OK) == 0) judge_integrity(&w);
    world_judge(&w);
    world_close(&w, false);
    snprintf(problem_out, 800, "%s", w.problem);
    remove_crash();
}

typedef struct verdict {
    int losses, broken;
    char first[1000];
} verdict;

static void hear(verdict *v, int said, int go)
{
    char byte, wrong[800];
    while (read(said, &byte, 1) == 1) {
        judge_crash(wrong);
        v->losses++;
        if (wrong[0] && !v->broken++)
            snprintf(v->first, sizeof v->first, "moment %d, loss %d, seed %llu: %s", shared->at, (int)shared->how,
                     (unsigned long long)shared->seed, wrong);
        if (write(go, "", 1) != 1) break;
    }
}

static verdict run(disk_kind kind)
{
    int said[2], go[2], code = 1;
    verdict v = {0};
    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(go), 0);
    assert_true(world_new(&here, "sqlite", &shared->book));
    snprintf(crash_path, sizeof crash_path, "%s/crash.db", here.dir);
    shared->at = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(said[0]);
        close(go[1]);
        lost = said[1];
        go_on = go[0];
        play_the_story(kind);
    }
    close(said[1]);
    close(go[0]);
    hear(&v, said[0], go[1]);
    close(said[0]);
    close(go[1]);
    assert_int_equal(waitpid(pid, &code, 0), pid);
    world_free(&here);
    if (code) fail_msg("the story was not played to its end (%d): %s", code, shared->child_problem);
    print_message("%d moments, %d losses of power\n", shared->at, v.losses);
    return v;
}

static void power_may_fail_at_any_moment(void **state)
{
    (void)state;
    verdict v = run(DISK_HONEST);
    if (v.broken) fail_msg("%d of %d losses did damage; the first: %s", v.broken, v.losses, v.first);
    assert_true(shared->at > 80); /* every commit syncs */
}

/* SQLite syncs more on a disk that may tear sectors, and the store writes in another way. */
static void or_tear_sectors(void **state)
{
    disk_tears = true;
    power_may_fail_at_any_moment(state);
    disk_tears = false;
}

static void must_be_found_out(disk_kind kind)
{
    verdict v = run(kind);
    print_message("%d did damage; the first: %s\n", v.broken, v.first);
    assert_true(2 * v.broken > v.losses);
}

/* The tests of the test: a disk that does not sync when it is told to, and a store that does not tell it to (synchronous=OFF). */
static void a_disk_that_lies_is_found_out(void **state)
{
    (void)state;
    must_be_found_out(DISK_LYING);
}

static void a_store_that_does_not_sync_is_found_out(void **state)
{
    (void)state;
    must_be_found_out(DISK_NEVER_ASKED);
}

int main(int argc, char **argv)
{
    if (argc > 1) seeds = atoi(argv[1]);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !disk_install()) return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_may_fail_at_any_moment),
        cmocka_unit_test(or_tear_sectors),
        cmocka_unit_test(a_disk_that_lies_is_found_out),
        cmocka_unit_test(a_store_that_does_not_sync_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
