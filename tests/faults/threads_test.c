/* Failures at random while threads dispatch and workers run: one call in so many fails, from whatever thread it comes.
 *
 *     threads_test SOURCE STORE ROUNDS
 *
 * When the failures stop, everything that was acknowledged must run to its end, the engine must close well, nothing may leak, and on
 * SQLite a new engine must find what the ledger says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "faults.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PRODUCERS 3
#define EACH 25
#define SPAN_S 2 /* of failures */
#define TRIES 20 /* of a call that must work in the end */
#define PATIENCE (60 * PAWL_SECOND)

static countdown *source;
static bool memory_source;
static const char *store;
static int rounds;
static world here;
static ledger book;
static pthread_mutex_t book_lock = PTHREAD_MUTEX_INITIALIZER; /* and of here.problem */

static void wrong(const char *tag, const char *what, const char *more)
{
    pthread_mutex_lock(&book_lock);
    problem(&here, "%s: %s %s", tag, what, more);
    pthread_mutex_unlock(&book_lock);
}

/* ---- handlers ------------------------------------------------------------------------------------------------------------------- */

static bool on_succeeded(pawl_run *run, void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&book_lock);
    entry *e = ledger_find(&book, pawl_run_headers(run));
    if (e && e->ends++) problem(&here, "%s succeeds twice", e->tag);
    if (e) e->must = PAWL_SUCCEEDED;
    if (e && !e->id) e->id = pawl_run_id(run);
    pthread_mutex_unlock(&book_lock);
    return true;
}

static pawl_outcome run_it(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_run_log(run, PAWL_INFO, "attempt %d", pawl_run_attempt(run));
    pawl_run_progress(run, 10, "on its way");
    if (pawl_run_result(run, pawl_str("1"), NULL, NULL)) return pawl_retry(run, "no result");
    return pawl_run_id(run) % 5 == 0 && pawl_run_attempt(run) == 1 ? pawl_retry(run, "once more") : pawl_ok();
}

/* ---- producers ------------------------------------------------------------------------------------------------------------------ */

static entry *new_entry(void)
{
    pthread_mutex_lock(&book_lock);
    entry *e = ledger_new(&book, "ok");
    pthread_mutex_unlock(&book_lock);
    return e;
}

static void note_answer(entry *e, pawl_status status, pawl_id id)
{
    pthread_mutex_lock(&book_lock);
    e->answer = status == PAWL_OK ? ANSWER_OK : status == PAWL_UNKNOWN ? ANSWER_UNKNOWN : ANSWER_NO;
    if (e->answer != ANSWER_NO) e->id = id;
    pthread_mutex_unlock(&book_lock);
}

static void send_one(pawl_id again, entry *e)
{
    pawl_task task = {.type = "ok",
                      .payload = pawl_str("{\"n\":1}"),
                      .created_by = e->tag,
                      .headers = e->tag,
                      .id = again,
                      .max_attempts = 100};
    pawl_id id = 0;
    pawl_error err = {0};
    pawl_status status = pawl_dispatch(here.p, &task, &id, &err);
    bool fits =
        status == PAWL_OK || status == PAWL_UNAVAILABLE || status == PAWL_UNKNOWN || (status == PAWL_NO_MEMORY && memory_source);
    if (!fits) wrong(e->tag, pawl_status_name(status), err.message);
    if ((status == PAWL_OK || status == PAWL_UNKNOWN) && !id) wrong(e->tag, "no id", "");
    if (again && status && status != PAWL_UNKNOWN) return; /* this call stored nothing; the first is as unknown as before */
    note_answer(e, status, id);
}

static void *produce(void *arg)
{
    time_t end = time(NULL) + SPAN_S;
    (void)arg;
    for (int i = 0; i < EACH && time(NULL) <= end; i++) {
        send_one(0, new_entry());
        pawl_stats *stats = NULL;
        pawl_page *page = NULL;
        if (i % 5 == 0 && pawl_get_stats(here.p, 0, &stats, NULL) == PAWL_OK) pawl_stats_free(stats);
        if (i % 7 == 0 && pawl_list(here.p, NULL, &page, NULL) == PAWL_OK) pawl_page_free(page);
    }
    return NULL;
}

/* ---- a round -------------------------------------------------------------------------------------------------------------------- */

static void be_silent(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void start(void)
{
    pawl_error err = {0};
    pawl_options options = {.store = here.url,
                            .allocator = memory_allocator,
                            .log = be_silent,
                            .lease_us = 2 * PAWL_SECOND,
                            .dispatch_timeout_us = PAWL_SECOND,
                            .workers = 3,
                            .max_attempts = 100};
    pawl_handler handler = {.type = "ok", .run = run_it, .on_succeeded = on_succeeded};
    handler.retry = (pawl_retry_policy){.curve = PAWL_CURVE_FIXED, .delay_us = 10 * PAWL_MILLISECOND};
    if (pawl_open(&options, &here.p, &err) || pawl_handle(here.p, &handler, &err) || pawl_start(here.p, &err))
        fail_msg("%s", err.message);
}

static void await_everything(void)
{
    for (int i = 0; i < book.count; i++) {
        entry *e = &book.entries[i];
        pawl_state state = PAWL_STATE_NONE;
        pawl_error err = {0};
        for (int k = 0; k < TRIES && e->answer == ANSWER_UNKNOWN; k++) send_one(e->id, e);
        if (e->answer == ANSWER_UNKNOWN) wrong(e->tag, "is still unknown", "");
        if (e->answer != ANSWER_OK) continue;
        if (pawl_wait(here.p, e->id, PATIENCE, &state, &err)) wrong(e->tag, "does not end:", err.message);
        else if (state != PAWL_SUCCEEDED) wrong(e->tag, "is", pawl_state_name(state));
    }
}

static long play_round(long one_in)
{
    pthread_t threads[PRODUCERS];
    assert_true(world_new(&here, store, &book));
    start();
    fault_scatter(source, one_in);
    for (int i = 0; i < PRODUCERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, produce, NULL), 0);
    for (int i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
    long failures = atomic_load(&source->fired);
    fault_disarm(source);
    await_everything();
    world_close(&here, true);
    if (here.sqlite) world_judge(&here);
    world_free(&here);
    if (here.problem[0]) fail_msg("one in %ld: %s", one_in, here.problem);
    print_message("one in %ld: %ld failures\n", one_in, failures);
    return failures;
}

static void failures_from_everywhere(void **state)
{
    (void)state;
    static const long odds[] = {60, 23, 150, 11};
    long failures = 0; /* a round with few calls may have none */
    for (int i = 0; i < rounds; i++) failures += play_round(odds[i % 4] + i / 4);
    assert_true(failures > rounds);
}

static bool use(const char *name)
{
    source = strcmp(name, "memory") == 0          ? &memory_fault
             : strcmp(name, "sqlite-memory") == 0 ? &sqlite_memory_fault
                                                  : &disk_fault;
    memory_source = source != &disk_fault;
    disk_kinds = DISK_WRITE | DISK_SYNC | DISK_READ | DISK_SHM_LOCK;
    return (source != &sqlite_memory_fault || sqlite_memory_install()) && disk_install();
}

int main(int argc, char **argv)
{
    if (argc != 4 || !use(argv[1])) {
        fprintf(stderr, "usage: threads_test memory|sqlite-memory|disk memory|sqlite ROUNDS\n");
        return 2;
    }
    store = argv[2];
    rounds = atoi(argv[3]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(failures_from_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
