/* The handlers of the scenes. What a hook is told goes into the ledger: it was told after the commit. */
#include "faults.h"
#include <string.h>

static entry *entry_of(world *w, const pawl_run *run)
{
    entry *e = ledger_by_id(w->book, pawl_run_id(run));
    if (e) return e;
    e = ledger_find(w->book, pawl_run_headers(run));
    if (!e || e->id) return NULL;
    e->id = pawl_run_id(run);
    return e;
}

/* ---- hooks ---------------------------------------------------------------------------------------------------------------------- */

static bool ended(world *w, pawl_run *run, pawl_state state)
{
    entry *e = entry_of(w, run);
    if (!e) return true;
    if (e->ends++) problem(w, "%s ends for the %d. time", e->tag, e->ends);
    if (e->must && e->must != state)
        problem(w, "%s has %s and then %s", e->tag, pawl_state_name(e->must), pawl_state_name(state));
    if (e->answer == ANSWER_UNKNOWN) e->answer = ANSWER_OK; /* now it is known */
    e->must = state;
    return true;
}

static bool on_started(pawl_run *run, void *ctx)
{
    world *w = ctx;
    entry *e = entry_of(w, run);
    if (e && e->must) problem(w, "%s has %s and runs again", e->tag, pawl_state_name(e->must));
    if (e) e->runs++;
    return true;
}

static bool on_succeeded(pawl_run *run, void *ctx) { return ended(ctx, run, PAWL_SUCCEEDED); }
static bool on_cancelled(pawl_run *run, void *ctx) { return ended(ctx, run, PAWL_CANCELLED); }

static bool on_failed(pawl_run *run, void *ctx, const char *error)
{
    (void)error;
    return ended(ctx, run, PAWL_FAILED);
}

static bool on_retry(pawl_run *run, void *ctx, int attempt, const char *error, int64_t delay_us)
{
    (void)run;
    (void)error;
    if (attempt < 1 || delay_us < 0) problem(ctx, "a retry of attempt %d in %lld", attempt, (long long)delay_us);
    return true;
}

/* ---- runs ----------------------------------------------------------------------------------------------------------------------- */

static pawl_outcome run_ok(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl_run_log(run, PAWL_INFO, "attempt %d of %s", pawl_run_attempt(run), pawl_run_type(run));
    pawl_run_progress(run, 50, "half");
    if (!TRY(pawl_run_result(run, pawl_str("[1,2]"), NULL, &w->err))) return pawl_retry(run, "no result");
    if (!TRY(pawl_run_result_ref(run, "Thing:1", &w->err))) return pawl_retry(run, "no reference");
    return pawl_ok();
}

static pawl_outcome run_spawn(pawl_run *run, void *ctx)
{
    world *w = ctx;
    entry *parent = entry_of(w, run);
    if (w->settling || !parent) return pawl_ok();
    for (int i = 0; i < 2; i++) {
        entry *e = ledger_new(w->book, "ok");
        e->parent = (int)(parent - w->book->entries) + 1;
        pawl_task task = {.type = "ok", .payload = pawl_str("{\"n\":1}"), .created_by = e->tag, .headers = e->tag};
        pawl_id id = 0;
        if (!TRY(pawl_run_spawn(run, &task, i ? &id : NULL, &w->err))) return pawl_retry(run, "no child");
        e->id = id;
    }
    return pawl_ok();
}

static pawl_outcome run_retry(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_run_log(run, PAWL_WARN, "attempt %d", pawl_run_attempt(run));
    pawl_run_error_code(run, "again");
    return pawl_run_attempt(run) < 3 ? pawl_retry(run, "attempt %d", pawl_run_attempt(run)) : pawl_ok();
}

static pawl_outcome run_fail(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_run_error_code(run, "never");
    return pawl_fail(run, "it cannot be done");
}

static pawl_outcome run_snooze(pawl_run *run, void *ctx)
{
    world *w = ctx;
    entry *e = entry_of(w, run);
    return e && e->runs < 2 && !w->settling ? pawl_snooze(PAWL_SECOND) : pawl_ok();
}

static pawl_outcome run_defer(pawl_run *run, void *ctx)
{
    world *w = ctx;
    if (w->settling || w->deferred_count == DEFERRED_MAX) return pawl_ok();
    w->deferred[w->deferred_count++] = run;
    return pawl_deferred();
}

static pawl_outcome run_slow(pawl_run *run, void *ctx)
{
    (void)ctx;
    return pawl_run_sleep(run, PAWL_MINUTE) == PAWL_GO_ON ? pawl_ok() : pawl_retry(run, "stopped");
}

static pawl_outcome run_stop(pawl_run *run, void *ctx)
{
    world *w = ctx;
    if (w->settling) return pawl_ok();
    TRY(pawl_cancel(w->p, pawl_run_id(run), "self", &w->err));
    return pawl_run_stopping(run) == PAWL_STOP_CANCELLED ? pawl_cancelled() : pawl_retry(run, "not asked");
}

/* Completes in a transaction of the program's own. */
static pawl_outcome run_tx(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl_outcome outcome = pawl_retry(run, "not completed");
    if (!w->host) return pawl_ok();
    if (sqlite3_exec(w->host, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) return outcome;
    bool done = sqlite3_exec(w->host, "INSERT INTO business DEFAULT VALUES", NULL, NULL, NULL) == SQLITE_OK;
    done = done && TRY(pawl_complete_sqlite(run, w->host, &outcome, &w->err));
    if (done) sqlite3_exec(w->host, "COMMIT", NULL, NULL, NULL);
    host_roll_back(w);
    return outcome;
}

/* ---- registration --------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *type;
    pawl_outcome (*run)(pawl_run *run, void *ctx);
} types[] = {{"ok", run_ok},       {"spawn", run_spawn}, {"retry", run_retry}, {"fail", run_fail}, {"snooze", run_snooze},
             {"defer", run_defer}, {"slow", run_slow},   {"stop", run_stop},   {"tx", run_tx}};

static pawl_handler handler_of(world *w, size_t i)
{
    static const char *const never[] = {"never", NULL};
    pawl_handler h = {.type = types[i].type,
                      .run = types[i].run,
                      .ctx = w,
                      .max_attempts = 5,
                      .on_started = on_started,
                      .on_succeeded = on_succeeded,
                      .on_failed = on_failed,
                      .on_retry = on_retry,
                      .on_cancelled = on_cancelled};
    h.retry = (pawl_retry_policy){
        .curve = PAWL_CURVE_LIST, .delays_us = {PAWL_SECOND, 2 * PAWL_SECOND}, .delays = 2, .never_codes = never};
    if (strcmp(h.type, "snooze") == 0) h.queue = "side";
    return h;
}

bool handlers_register(world *w)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        pawl_handler h = handler_of(w, i);
        if (TRY(pawl_handle(w->p, &h, &w->err))) continue;
        if (atomic_load(&w->source->for_good)) return false;
        if (TRY(pawl_handle(w->p, &h, &w->err))) continue; /* a single failure is over */
        problem(w, "pawl_handle does not recover");
        return false;
    }
    return w->handlers_known = true;
}
