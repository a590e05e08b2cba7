/* The world of a scene: a directory, a store, an inline engine with a clock of its own, and what must hold after a failure. */
#include "faults.h"
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_US (INT64_C(1767225600) * PAWL_SECOND)

void problem(world *w, const char *fmt, ...)
{
    va_list args;
    if (w->problem[0]) return;
    va_start(args, fmt);
    vsnprintf(w->problem, sizeof w->problem, fmt, args);
    va_end(args);
}

bool world_new(world *w, const char *store, ledger *book)
{
    const char *tmp = getenv("TMPDIR");
    *w = (world){.sqlite = strcmp(store, "sqlite") == 0, .book = book, .source = &no_fault};
    *book = (ledger){.now_us = START_US};
    snprintf(w->dir, sizeof w->dir, "%.60s/pawl-faults-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(w->dir)) return false;
    snprintf(w->path, sizeof w->path, "%s/tasks.db", w->dir);
    if (w->sqlite) snprintf(w->url, sizeof w->url, "sqlite:%s", w->path);
    else snprintf(w->url, sizeof w->url, "memory:");
    return true;
}

void world_free(world *w)
{
    DIR *d = opendir(w->dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", w->dir, e->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    rmdir(w->dir);
}

/* ---- answers -------------------------------------------------------------------------------------------------------------------- */

static long fired(const world *w) { return atomic_load(&w->source->fired); }

static bool fits(const world *w, pawl_status status)
{
    if (status == PAWL_NO_MEMORY) return w->memory_source;
    return status == PAWL_UNAVAILABLE || status == PAWL_UNKNOWN || status == PAWL_TIMEOUT;
}

bool tried(world *w, pawl_status status, const char *call)
{
    w->calls++;
    if (status == PAWL_OK) return true;
    if (!fired(w)) problem(w, "%s failed by itself: %s: %s", call, pawl_status_name(status), w->err.message);
    else if (!fits(w, status)) problem(w, "%s calls a failure %s: %s", call, pawl_status_name(status), w->err.message);
    else if (w->err.status != status || !w->err.message[0])
        problem(w, "%s failed with %s and does not say why", call, pawl_status_name(status));
    w->err = (pawl_error){0};
    return false;
}

/* For calls that do without the store: a single failure is over when they are made again. */
static bool tried_twice(world *w, pawl_status (*call)(world *w), const char *name)
{
    if (tried(w, call(w), name)) return true;
    if (atomic_load(&w->source->for_good)) return false;
    pawl_status status = call(w);
    if (status) problem(w, "%s does not recover: %s: %s", name, pawl_status_name(status), w->err.message);
    return status == PAWL_OK;
}

/* ---- the engine ----------------------------------------------------------------------------------------------------------------- */

static void be_silent(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    if (getenv("FAULTS_LOG")) fprintf(stderr, "    %s: %s\n", pawl_level_name(level), line);
}

bool world_open(world *w, pawl_options options)
{
    options.store = w->url;
    options.shared_file = w->shared_file;
    options.inline_mode = true;
    options.inline_start_us = w->book->now_us;
    options.allocator = memory_allocator;
    options.log = be_silent;
    options.seed = 1;
    w->handlers_known = false;
    w->one_shot = options.one_shot;
    w->deferred_count = 0;
    return TRY(pawl_open(&options, &w->p, &w->err));
}

static pawl_status add_queue(world *w) { return pawl_queue(w->p, &(pawl_queue_options){.name = "side", .workers = 2}, &w->err); }
static pawl_status start(world *w) { return pawl_start(w->p, &w->err); }

void world_start(world *w)
{
    if (tried_twice(w, add_queue, "pawl_queue") && handlers_register(w)) tried_twice(w, start, "pawl_start");
}

void world_close(world *w, bool must)
{
    if (!w->p) return;
    w->book->now_us = pawl_now(w->p);
    int code = pawl_close(w->p);
    if (must && code) problem(w, "pawl_close answers %d", code);
    w->p = NULL;
    w->deferred_count = 0;
    if (!w->sqlite) w->book->count = 0; /* memory forgets */
    long blocks = atomic_load(&memory_blocks);
    if (blocks) problem(w, "%ld blocks of memory were not given back", blocks);
    atomic_store(&memory_blocks, 0);
}

void world_advance(world *w, int64_t us)
{
    w->book->gone_us += us;
    if (w->book->gone_us > 23 * PAWL_HOUR) w->book->swept = true;
    TRY(pawl_advance(w->p, us, NULL, &w->err));
    w->book->now_us = pawl_now(w->p);
}

static void note_answer(world *w, entry *e, pawl_status status, const pawl_receipt *r)
{
    e->answer = status == PAWL_OK ? ANSWER_OK : status == PAWL_UNKNOWN ? ANSWER_UNKNOWN : ANSWER_NO;
    if (e->answer == ANSWER_NO) return;
    e->id = r->id;
    if (!r->id && !w->one_shot) problem(w, "%s: %s without an id", e->tag, pawl_status_name(status));
}

entry *world_send(world *w, const char *type, pawl_task task)
{
    entry *e = ledger_new(w->book, type);
    pawl_receipt r = {0};
    task.type = type;
    task.payload = pawl_str("{\"n\":1}");
    task.created_by = task.headers = e->tag;
    e->shared = task.key != NULL;
    pawl_status status = pawl_dispatch_full(w->p, &task, &r, &w->err);
    note_answer(w, e, status, &r);
    return tried(w, status, "pawl_dispatch_full") ? e : NULL;
}

void world_finish_deferred(world *w)
{
    while (w->deferred_count > 0) {
        pawl_run *run = w->deferred[--w->deferred_count];
        TRY(pawl_run_finish(run, pawl_ok(), &w->err));
    }
}

void world_cancelled(world *w, entry *e)
{
    if (e->must && e->must != PAWL_CANCELLED) problem(w, "%s has %s and was cancelled", e->tag, pawl_state_name(e->must));
    e->must = PAWL_CANCELLED;
}

/* ---- afterwards ----------------------------------------------------------------------------------------------------------------- */

static bool must(world *w, pawl_status status, const char *what)
{
    if (status) problem(w, "nothing fails any more, and %s answers %s: %s", what, pawl_status_name(status), w->err.message);
    return status == PAWL_OK;
}

/* Repeats with its id what nobody knows about. */
static void ask_again(world *w, entry *e)
{
    char type[16];
    pawl_receipt r = {0};
    snprintf(type, sizeof type, "%.*s", (int)strcspn(e->tag, "-"), e->tag);
    pawl_task task = {.type = type, .payload = pawl_str("{\"n\":1}"), .created_by = e->tag, .headers = e->tag, .id = e->id};
    if (!must(w, pawl_dispatch_full(w->p, &task, &r, &w->err), "a dispatch with the id of an unknown outcome")) return;
    if (r.id != e->id) problem(w, "%s was repeated with its id and has another", e->tag);
    e->answer = ANSWER_OK;
}

static void settle_unknown(world *w)
{
    for (int i = 0; i < w->book->count; i++) {
        entry *e = &w->book->entries[i];
        if (e->answer == ANSWER_UNKNOWN && e->id && !e->shared && !e->transaction && !e->parent) ask_again(w, e);
    }
}

static void run_everything(world *w, int64_t us)
{
    w->settling = true;
    world_finish_deferred(w);
    must(w, pawl_resume(w->p, "side", NULL, &w->err), "pawl_resume");
    w->book->paused = 0;
    world_advance(w, us);
    judge_settled(w);
}

static void one_more(world *w)
{
    pawl_state state = PAWL_STATE_NONE;
    entry *e = world_send(w, "ok", (pawl_task){0});
    if (!e) {
        problem(w, "nothing fails any more, and a dispatch does");
        return;
    }
    world_advance(w, PAWL_SECOND);
    if (must(w, pawl_wait(w->p, e->id, 0, &state, &w->err), "pawl_wait") && state != PAWL_SUCCEEDED)
        problem(w, "the task after the failure is %s", pawl_state_name(state));
}

void world_recover(world *w)
{
    if (!w->p && world_open(w, (pawl_options){0})) world_start(w);
    if (!w->p) {
        problem(w, "nothing fails any more, and pawl_open does: %s", w->err.message);
        return;
    }
    world_advance(w, PAWL_MINUTE); /* whatever it waits for before it tries again */
    settle_unknown(w);
    one_more(w);
    run_everything(w, 70 * PAWL_MINUTE);
}

void world_judge(world *w)
{
    w->settling = true;
    if (!world_open(w, (pawl_options){0})) return;
    world_start(w);
    judge_ledger(w);
    settle_unknown(w);
    one_more(w);
    run_everything(w, w->book->gone_us + PAWL_HOUR); /* past the leases of a node that could not say goodbye */
    world_close(w, true);
    judge_rows(w);
}
