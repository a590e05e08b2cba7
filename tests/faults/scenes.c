/* The scenes: between them every call of pawl.h that can fail. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- opening -------------------------------------------------------------------------------------------------------------------- */

static void prepare_nothing(world *w) { (void)w; }

static void prepare_store(world *w)
{
    if (world_open(w, (pawl_options){0})) world_close(w, true);
}

static void act_open(world *w)
{
    world_open(w, (pawl_options){.name = "first"});
    world_close(w, false);
    if (world_open(w, (pawl_options){0})) world_start(w);
}

/* Those who come and go: one_shot, read_only. */
static void act_visit(world *w)
{
    if (world_open(w, (pawl_options){.one_shot = true})) world_send(w, "ok", (pawl_task){0});
    world_close(w, false);
    pawl_page *page = NULL;
    if (w->sqlite && world_open(w, (pawl_options){.read_only = true}) && TRY(pawl_list(w->p, NULL, &page, &w->err)))
        pawl_page_free(page);
    world_close(w, false);
}

static void prepare_open(world *w) { world_open(w, (pawl_options){0}); }

static void act_setup(world *w)
{
    char settings[200];
    TRY(pawl_store_settings(w->p, settings, sizeof settings, &w->err));
    world_start(w);
}

/* ---- dispatching ---------------------------------------------------------------------------------------------------------------- */

static void prepare_started(world *w)
{
    if (world_open(w, (pawl_options){0})) world_start(w);
}

static void note_async(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    entry *e = ctx;
    (void)err;
    e->id = receipt->id;
    e->answer = receipt->status == PAWL_OK ? ANSWER_OK : receipt->status == PAWL_UNKNOWN ? ANSWER_UNKNOWN : ANSWER_NO;
}

static void send_async(world *w)
{
    entry *e = ledger_new(w->book, "ok");
    pawl_task task = {.type = "ok", .payload = pawl_str("{\"n\":1}"), .created_by = e->tag, .headers = e->tag};
    if (!TRY(pawl_dispatch_async(w->p, &task, note_async, e, &w->err))) e->answer = ANSWER_NO;
}

static void send_bulk(world *w)
{
    enum { N = 4 };
    pawl_task tasks[N];
    pawl_receipt receipts[N] = {0};
    entry *entries[N];
    for (int i = 0; i < N; i++) {
        entry *e = entries[i] = ledger_new(w->book, "ok");
        tasks[i] = (pawl_task){.type = "ok", .payload = pawl_str("{\"n\":1}"), .created_by = e->tag, .headers = e->tag};
        if (i >= 2) tasks[i].key = "bulk"; /* the last two are one */
        e->shared = i >= 2;
    }
    pawl_status status = pawl_dispatch_bulk(w->p, tasks, N, receipts, &w->err);
    for (int i = 0; i < N; i++) {
        pawl_status own = status == PAWL_OK ? receipts[i].status : status;
        entries[i]->answer = own == PAWL_OK ? ANSWER_OK : own == PAWL_UNKNOWN ? ANSWER_UNKNOWN : ANSWER_NO;
        entries[i]->id = i == 3 ? 0 : receipts[i].id;
    }
    tried(w, status, "pawl_dispatch_bulk");
}

static void act_dispatch(world *w)
{
    world_send(w, "ok", (pawl_task){0});
    world_send(w, "ok",
               (pawl_task){.delay_us = PAWL_MINUTE,
                           .tenant = "t",
                           .rate_key = pawl_str("r"),
                           .traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"});
    world_send(w, "ok", (pawl_task){.key = "k", .delay_us = PAWL_HOUR});
    world_send(w, "ok", (pawl_task){.key = "k", .delay_us = PAWL_MINUTE});
    send_bulk(w);
    send_async(w);
    world_send(w, "snooze", (pawl_task){0});
}

static void act_eager(world *w)
{
    if (!world_open(w, (pawl_options){.inline_eager = true})) return;
    world_start(w);
    if (w->handlers_known) world_send(w, "ok", (pawl_task){0});
    if (w->handlers_known) world_send(w, "spawn", (pawl_task){0});
}

/* ---- running -------------------------------------------------------------------------------------------------------------------- */

static void send_some(world *w)
{
    static const char *const kinds[] = {"ok", "spawn", "retry", "fail", "snooze", "defer", "stop"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) world_send(w, kinds[i], (pawl_task){0});
    world_send(w, "slow", (pawl_task){.timeout_us = 10 * PAWL_SECOND, .max_attempts = 1});
}

static void prepare_sent(world *w)
{
    prepare_started(w);
    send_some(w);
}

static void act_run(world *w)
{
    TRY(pawl_run_due(w->p, NULL, &w->err));
    world_advance(w, 2 * PAWL_SECOND);
    world_finish_deferred(w);
    world_advance(w, 2 * PAWL_MINUTE);
}

static void prepare_finished(world *w)
{
    prepare_sent(w);
    act_run(w);
    world_send(w, "ok", (pawl_task){.delay_us = PAWL_HOUR});
    world_send(w, "defer", (pawl_task){0});
    world_advance(w, PAWL_SECOND);
}

/* ---- looking -------------------------------------------------------------------------------------------------------------------- */

static void look_at(world *w, pawl_id id)
{
    pawl_info *info = NULL;
    pawl_trail *trail = NULL;
    pawl_why_answer why;
    if (TRY(pawl_get(w->p, id, &info, &w->err))) pawl_info_free(info);
    if (TRY(pawl_get_trail(w->p, id, &trail, &w->err))) pawl_trail_free(trail);
    TRY(pawl_why(w->p, id, &why, &w->err));
}

static void act_look(world *w)
{
    pawl_page *page = NULL;
    pawl_stats *stats = NULL;
    pawl_nodes *nodes = NULL;
    pawl_acts *acts = NULL;
    pawl_health health;
    pawl_state state;
    for (int i = 0; i < w->book->count; i++)
        if (w->book->entries[i].id) look_at(w, w->book->entries[i].id);
    if (TRY(pawl_list(w->p, &(pawl_filter){.state = "failed", .type = "fail", .limit = 5}, &page, &w->err))) pawl_page_free(page);
    if (TRY(pawl_list(w->p, &(pawl_filter){.oldest_first = true, .limit = 3}, &page, &w->err))) pawl_page_free(page);
    if (TRY(pawl_get_stats(w->p, 0, &stats, &w->err))) pawl_stats_free(stats);
    if (TRY(pawl_get_nodes(w->p, &nodes, &w->err))) pawl_nodes_free(nodes);
    if (TRY(pawl_get_acts(w->p, 0, 0, &acts, &w->err))) pawl_acts_free(acts);
    TRY(pawl_get_health(w->p, &health, &w->err));
    TRY(pawl_wait(w->p, w->book->entries[0].id, 0, &state, &w->err));
}

static void act_events(world *w)
{
    pawl_subscription *s = NULL;
    pawl_event event;
    int seen = 0;
    if (TRY(pawl_subscribe(w->p, 4, &s, &w->err)) && pawl_subscription_fd(s) < 0)
        problem(w, "a subscription without a descriptor");
    world_send(w, "ok", (pawl_task){0});
    TRY(pawl_run_due(w->p, NULL, &w->err));
    while (s && pawl_next_event(s, 0, &event)) seen++;
    if (s && !atomic_load(&w->source->fired) && seen == 0) problem(w, "no event");
    pawl_unsubscribe(s);
}

/* ---- what people do ------------------------------------------------------------------------------------------------------------- */

static entry *finished(world *w, const char *kind, pawl_state state)
{
    for (int i = 0; i < w->book->count; i++) {
        entry *e = &w->book->entries[i];
        if (strncmp(e->tag, kind, strlen(kind)) == 0 && e->must == state && !e->retried_as && !e->resolved) return e;
    }
    return NULL;
}

static void prepare_people(world *w)
{
    prepare_started(w);
    for (int i = 0; i < 4; i++) world_send(w, "fail", (pawl_task){0});
    world_advance(w, PAWL_SECOND);
    for (int i = 0; i < 3; i++) world_send(w, "ok", (pawl_task){.delay_us = PAWL_HOUR, .tenant = i ? "many" : NULL});
    for (int i = 0; i < 4; i++)
        if (!finished(w, "fail", PAWL_FAILED)) problem(w, "the failing tasks have not failed");
}

static void cancel_them(world *w)
{
    entry *pending[3];
    int64_t count = 0;
    for (int i = 0; i < 3; i++) pending[i] = &w->book->entries[4 + i];
    if (TRY(pawl_cancel(w->p, pending[0]->id, "ann", &w->err))) world_cancelled(w, pending[0]);
    if (!TRY(pawl_cancel_where(w->p, &(pawl_filter){.tenant = "many"}, "ann", &count, &w->err))) return;
    if (count == 2) {
        world_cancelled(w, pending[1]);
        world_cancelled(w, pending[2]);
    } else if (!atomic_load(&w->source->fired)) {
        problem(w, "%lld tasks were cancelled", (long long)count);
    }
}

static void retry_one(world *w, entry *e)
{
    pawl_receipt r = {0};
    if (!e || !TRY(pawl_retry_task(w->p, e->id, "ann", &r, &w->err))) return;
    entry *again = ledger_new(w->book, "again");
    again->shared = true;
    again->answer = ANSWER_OK;
    again->id = e->retried_as = r.id;
    e->resolved = true;
}

static void pause_side(world *w)
{
    w->book->paused = -1;
    if (TRY(pawl_pause(w->p, "side", "ann", &w->err))) w->book->paused = 1;
}

static void resume_side(world *w)
{
    w->book->paused = -1;
    if (TRY(pawl_resume(w->p, "side", "ann", &w->err))) w->book->paused = 0;
}

static void act_people(world *w)
{
    int64_t count;
    pause_side(w);
    cancel_them(w);
    retry_one(w, finished(w, "fail", PAWL_FAILED));
    entry *e = finished(w, "fail", PAWL_FAILED);
    if (e && TRY(pawl_dead_ack(w->p, e->id, NULL, "ann", "seen", NULL, &w->err))) e->resolved = true;
    resume_side(w);
    TRY(pawl_dead_retry(w->p, &(pawl_filter){.type = "fail", .limit = 1}, "ann", &count, &w->err));
    TRY(pawl_dead_ack(w->p, 0, &(pawl_filter){.type = "fail"}, "ann", NULL, &count, &w->err));
}

/* ---- inside the program's own transaction ---------------------------------------------------------------------------------------- */

static void prepare_shared(world *w)
{
    if (!world_open(w, (pawl_options){0})) return;
    world_start(w);
    world_send(w, "tx", (pawl_task){0});
}

void host_roll_back(world *w)
{
    if (sqlite3_get_autocommit(w->host)) return;
    sqlite3_step(w->undo);
    sqlite3_reset(w->undo);
}

static bool host_exec(world *w, const char *sql) { return w->host && sqlite3_exec(w->host, sql, NULL, NULL, NULL) == SQLITE_OK; }

/* The program commits its own rows even if it could not send the task: then nothing of the task may be there. */
static void send_in_transaction(world *w, const char *end)
{
    entry *e = ledger_new(w->book, "ok");
    pawl_receipt r = {0};
    pawl_task task = {.type = "ok", .payload = pawl_str("{\"n\":1}"), .created_by = e->tag, .headers = e->tag};
    e->transaction = true;
    e->answer = ANSWER_NO;
    if (!host_exec(w, "BEGIN IMMEDIATE")) return;
    bool sent =
        host_exec(w, "INSERT INTO business DEFAULT VALUES") && TRY(pawl_dispatch_sqlite(w->p, w->host, &task, &r, &w->err));
    bool ended = host_exec(w, end);
    if (sent && ended) e->answer = strcmp(end, "COMMIT") == 0 ? ANSWER_OK : ANSWER_NO;
    else if (sent) e->answer = ANSWER_UNKNOWN;
    host_roll_back(w);
    if (e->answer == ANSWER_OK) e->id = r.id;
    pawl_committed(w->p);
}

static void act_transaction(world *w)
{
    bool open = sqlite3_open(w->path, &w->host) == SQLITE_OK;
    if (open) sqlite3_busy_timeout(w->host, 5000);
    open = open && TRY(pawl_sqlite_prepare(w->host, &w->err)) && host_exec(w, "CREATE TABLE business(id INTEGER PRIMARY KEY)");
    if (open && sqlite3_prepare_v2(w->host, "ROLLBACK", -1, &w->undo, NULL) == SQLITE_OK) {
        send_in_transaction(w, "COMMIT");
        send_in_transaction(w, "ROLLBACK");
        TRY(pawl_run_due(w->p, NULL, &w->err));
    }
    pawl_sqlite_forget(w->host);
    sqlite3_finalize(w->undo);
    sqlite3_close(w->host);
    w->host = NULL;
    w->undo = NULL;
}

/* ---- upkeep, stopping, rescuing --------------------------------------------------------------------------------------------------- */

static void check_backup(world *w, const char *path, bool acked)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    bool there = access(path, F_OK) == 0;
    if (acked && !there) problem(w, "the backup was acknowledged and is not there");
    if (!there) return;
    fault_disarm(w->source); /* a backup under its name is whole, whoever looks */
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW || strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0)
        problem(w, "the backup is damaged");
    sqlite3_finalize(st);
    sqlite3_close(db);
}

static void act_backup(world *w)
{
    char path[200];
    snprintf(path, sizeof path, "%s/copy.db", w->dir);
    bool acked = TRY(pawl_backup(w->p, path, NULL, NULL, &w->err));
    long fired = atomic_load(&w->source->fired), calls = atomic_load(&w->source->calls);
    check_backup(w, path, acked);
    atomic_store(&w->source->fired, fired);
    atomic_store(&w->source->calls, calls);
}

static void act_stop(world *w)
{
    TRY(pawl_run_due(w->p, NULL, &w->err));
    TRY(pawl_drain(w->p, 0, &w->err));
    world_finish_deferred(w);
    TRY(pawl_stop(w->p, &w->err));
    if (TRY(pawl_start(w->p, &w->err))) TRY(pawl_run_due(w->p, NULL, &w->err));
    w->deferred_count = 0;
    world_close(w, false);
}

/* Deferred runs are over before time goes by: without them a drain ends at once. */
static void prepare_stop(world *w)
{
    prepare_started(w);
    world_send(w, "ok", (pawl_task){0});
    world_send(w, "retry", (pawl_task){0});
    world_send(w, "ok", (pawl_task){.delay_us = PAWL_HOUR});
}

static void act_sweep(world *w)
{
    for (int i = 0; i < 5; i++) world_advance(w, 10 * PAWL_HOUR);
}

static void prepare_sweep(world *w)
{
    prepare_sent(w);
    act_run(w);
    world_send(w, "ok", (pawl_task){.delay_us = 50 * PAWL_HOUR});
}

/* A process that dies in the middle of a run, and one that finds what it left. */
static pawl_outcome die(pawl_run *run, void *ctx)
{
    (void)run;
    (void)ctx;
    _exit(0);
}

static void be_the_victim(world *w, int said)
{
    pawl_id id = 0;
    pawl_task task = {.type = "ok", .payload = pawl_str("{\"n\":1}"), .created_by = "ok-1", .headers = "ok-1"};
    if (!world_open(w, (pawl_options){0}) || pawl_handle(w->p, &(pawl_handler){.type = "ok", .run = die}, NULL) ||
        pawl_start(w->p, NULL) || pawl_dispatch(w->p, &task, &id, NULL) || write(said, &id, sizeof id) != sizeof id)
        _exit(1);
    pawl_run_due(w->p, NULL, NULL);
    _exit(1);
}

static void prepare_victim(world *w)
{
    int said[2], code = 1;
    entry *e = ledger_new(w->book, "ok");
    if (pipe(said) != 0) problem(w, "no pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) be_the_victim(w, said[1]);
    close(said[1]);
    if (read(said[0], &e->id, sizeof e->id) != sizeof e->id || waitpid(pid, &code, 0) != pid || code != 0)
        problem(w, "the victim did not die as it should");
    close(said[0]);
    e->answer = ANSWER_OK;
    prepare_started(w);
}

static void act_rescue(world *w) { world_advance(w, 3 * PAWL_MINUTE); }

/* ---- all in one ----------------------------------------------------------------------------------------------------------------- */

void (*story_moment)(void);

static void moment(void)
{
    if (story_moment) story_moment();
}

/* A checkpoint, and a WAL that begins anew. */
static void open_again(world *w)
{
    world_finish_deferred(w);
    world_close(w, true);
    moment();
    prepare_started(w);
}

static void change_minds(world *w)
{
    entry *later = world_send(w, "ok", (pawl_task){.delay_us = PAWL_HOUR});
    moment();
    if (later && TRY(pawl_cancel(w->p, later->id, "ann", &w->err))) world_cancelled(w, later);
    moment();
    retry_one(w, finished(w, "fail", PAWL_FAILED));
    moment();
    pause_side(w);
    world_send(w, "snooze", (pawl_task){0});
    moment();
    resume_side(w);
}

void story_act(world *w)
{
    prepare_started(w);
    act_dispatch(w);
    moment();
    send_some(w);
    moment();
    act_run(w);
    open_again(w);
    change_minds(w);
    world_advance(w, PAWL_MINUTE);
    moment();
    open_again(w);
    act_sweep(w);
    world_send(w, "spawn", (pawl_task){0});
    world_advance(w, PAWL_MINUTE);
    moment();
    world_close(w, true);
    moment();
}

const scene scenes[] = {
    {"open", false, false, prepare_nothing, act_open},     {"visit", true, false, prepare_store, act_visit},
    {"setup", false, false, prepare_open, act_setup},      {"dispatch", false, false, prepare_started, act_dispatch},
    {"eager", false, false, prepare_nothing, act_eager},   {"run", false, false, prepare_sent, act_run},
    {"look", false, false, prepare_finished, act_look},    {"events", false, false, prepare_started, act_events},
    {"people", false, false, prepare_people, act_people},  {"transaction", true, true, prepare_shared, act_transaction},
    {"backup", true, false, prepare_finished, act_backup}, {"stop", false, false, prepare_stop, act_stop},
    {"sweep", false, false, prepare_sweep, act_sweep},     {"rescue", true, false, prepare_victim, act_rescue},
};
const int scenes_count = sizeof scenes / sizeof *scenes;
