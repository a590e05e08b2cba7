/* pawl work: runs tasks through an external command.
 *
 * Each run is one child process (child.h) on one worker thread of the engine. The main thread waits for signals, events and the end:
 *
 *     first SIGINT or SIGTERM    drain: start nothing more, let the running ones finish (for --grace), then stop
 *     second                     stop at once: the commands are killed; their tasks go back and cost no attempt
 *     --once                     the same end as a first signal, as soon as nothing is due
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "handlers/verdict.h"
#include "cli/help.h"
#include "cli/stop.h"
#include "cli/work.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ONCE_LOOK_MS 50

const char help_work[] =
    "Runs COMMAND once for each task of the queue: the payload on its standard input, what it prints becomes the result (JSON if it is "
    "valid JSON), its standard error becomes the run's log. Several \"pawl work\" on one store share the work. With --server "
    "it needs no store, but the scope \"work\".\n"
    "\n"
    "The environment tells it more: PAWL_TASK_ID, PAWL_TASK_TYPE, PAWL_TASK_ATTEMPT, PAWL_TASK_FENCE, PAWL_TASK_QUEUE, PAWL_TASK_KEY; "
    "and PAWL_STORE, so that \"pawl enqueue\" inside it finds the same store.\n"
    "\n"
    "Exit status   0   done\n"
    "              65  failed for good, no retry\n"
    "              75  not now: again after --snooze, costs no attempt\n"
    "              any other, or a signal: again later, by the retry policy\n"
    "\n"
    "A cancel, a timeout, a lost lease and a shutdown send SIGTERM to the command's process group, and SIGKILL five seconds later. "
    "Ctrl-C lets running tasks finish; a second one stops at once. If \"pawl work\" itself is killed, its commands are killed too.\n"
    "\n"
    "Examples\n"
    "  pawl work --queue mail -- ./send-mail.sh\n"
    "  pawl work --type thumbnail --concurrency 4 --timeout 2m -- python3 thumbnail.py\n"
    "  pawl work --once -- cat\n"
    "  pawl work --server http://tasks.example:7295 --token-file worker.token -- ./resize.sh\n";

static work_settings o;

const opt work_opts[] = {
    OPTION(OPT_NAME, "queue", &o.queue, "NAME", "the queue to work on", .fallback = "default"),
    OPTION(OPT_LIST, "type", &o.types, "TYPE", "only tasks of this type; may be repeated (default: every type)"),
    OPTION(OPT_INT, "concurrency", &o.concurrency, "N", "how many commands at a time (default: one per core)", .min = 1,
           .max = 1024),
    OPTION(OPT_FLAG, "once", &o.once, NULL, "exit when nothing is due and all is done"),
    OPTION(OPT_INT, "max-attempts", &o.max_attempts, "N", "for tasks that do not say (default: 4)", .min = 1, .max = 1000000),
    OPTION(OPT_DURATION, "timeout", &o.timeout_us, "DURATION", "of each attempt, for tasks that do not say (default: none)",
           .min = 1),
    OPTION(OPT_DURATION, "retry-delay", &o.retry_delay_us, "DURATION",
           "before the first retry; doubles each time (default: 500ms)", .min = 1),
    OPTION(OPT_DURATION, "snooze", &o.snooze_us, "DURATION", "how long exit status 75 puts a task off", .min = 1,
           .fallback = "30s"),
    OPTION(OPT_DURATION, "grace", &o.grace_us, "DURATION", "how long running tasks may go on after the first signal",
           .fallback = "30s"),
    OPTION(OPT_DURATION, "lease", &o.lease_us, "DURATION",
           "after this long without a sign of life others take over (default: 30s)", .min = 750 * PAWL_MILLISECOND,
           .max = PAWL_DAY),
    OPTION(OPT_NAME, "name", &o.name, "NAME", "of this node, for people (default: the host's name)"),
    OPTION(OPT_FLAG, "quiet", &o.quiet, NULL, "no line for each run"),
    OPTIONS_END};

typedef struct worker {
    cli *c;
    pawl *p;
    pawl_subscription *events;
    stopper stop;
    guard guard;
    int64_t looked_us; /* --once: when it was last asked whether anything is due */
    bool closed;       /* the store's tasks are moving: nothing starts any more */
} worker;

static atomic_bool kill_now; /* the second signal came */
extern char **environ;

/* ---- one run -------------------------------------------------------------------------------------------------------------------- */

typedef struct job {
    pawl_run *run;
    pawl_stop_reason stopped;
    char last[200]; /* the last line of its standard error, for the error text */
} job;

static void log_line_of(void *ctx, const char *line)
{
    job *j = ctx;
    pawl_run_log(j->run, PAWL_INFO, "%s", line);
    snprintf(j->last, sizeof j->last, "%s", line);
}

static child_stop stop_of(void *ctx)
{
    job *j = ctx;
    if (!j->stopped) j->stopped = pawl_run_stopping(j->run);
    if (atomic_load(&kill_now)) return CHILD_KILL;
    return j->stopped ? CHILD_TERM : CHILD_GO_ON;
}

/* "NAME=value" strings behind each other in `text`, pointers to them in the result; NULL: no memory. */
char **work_environment(buf *text, const work_task *task, const char *store)
{
    size_t count = 0, ours = 0;
    buf_fmt(text, "PAWL_TASK_ID=%s%c", task->id, 0);
    buf_fmt(text, "PAWL_TASK_TYPE=%s%c", task->type, 0);
    buf_fmt(text, "PAWL_TASK_QUEUE=%s%c", task->queue, 0);
    buf_fmt(text, "PAWL_TASK_KEY=%s%c", task->key ? task->key : "", 0);
    buf_fmt(text, "PAWL_TASK_ATTEMPT=%d%c", task->attempt, 0);
    buf_fmt(text, "PAWL_TASK_FENCE=%lld%c", (long long)task->fence, 0);
    if (store) buf_fmt(text, "PAWL_STORE=%s%c", store, 0);
    while (environ && environ[count]) count++;
    char **vector = text->failed ? NULL : alloc_new(alloc_default(), (count + 8) * sizeof *vector);
    if (!vector) return NULL;
    for (size_t at = 0; at < text->len; at += strlen(text->data + at) + 1) vector[ours++] = text->data + at;
    for (size_t i = 0; i < count; i++) {
        bool replaced = strncmp(environ[i], "PAWL_TASK_", 10) == 0 || (store && strncmp(environ[i], "PAWL_STORE=", 11) == 0);
        if (!replaced) vector[ours++] = environ[i];
    }
    return vector;
}

static char **environment(buf *text, const pawl_run *run, const char *store)
{
    work_task task = {.type = pawl_run_type(run),
                      .queue = pawl_run_queue(run),
                      .key = pawl_run_key(run),
                      .attempt = pawl_run_attempt(run),
                      .fence = pawl_run_fence(run)};
    pawl_id_format(pawl_run_id(run), task.id);
    return work_environment(text, &task, store);
}

static pawl_outcome judge(job *j, const child_end *end)
{
    bool ok = WIFEXITED(end->status) && WEXITSTATUS(end->status) == 0;
    if (!ok && !j->stopped && atomic_load(&kill_now))
        j->stopped = pawl_run_sleep(j->run, CHILD_GRACE_US); /* the word is on its way */
    return verdict_of(
        j->run,
        &(verdict){
            .status = end->status, .stopped = j->stopped, .last = j->last, .snooze_us = o.snooze_us, .output = end->output});
}

static pawl_outcome run_command(pawl_run *run, void *ctx)
{
    const worker *w = ctx;
    pawl_error err;
    pawl_outcome outcome;
    buf text, output;
    job j = {.run = run};
    buf_init(&text, alloc_default(), 1 << 20);
    buf_init(&output, alloc_default(), VERDICT_RESULT_MAX);
    char **env = environment(&text, run, w->c->store);
    child_end end = {.output = &output};
    child_spec spec = {.argv = w->c->rest,
                       .env = env,
                       .input = pawl_run_payload(run),
                       .line = log_line_of,
                       .stop = stop_of,
                       .ctx = &j,
                       .guard = &w->guard};
    if (!env) outcome = pawl_retry(run, "%s", pawl_status_text(PAWL_NO_MEMORY));
    else if (child_run(&spec, &end, &err)) outcome = pawl_retry(run, "%s", err.message);
    else outcome = judge(&j, &end);
    alloc_free(alloc_default(), env);
    buf_done(&output);
    buf_done(&text);
    return outcome;
}

/* ---- what people see ------------------------------------------------------------------------------------------------------------ */

static bool worth_showing(pawl_event_kind kind)
{
    switch (kind) {
    case PAWL_EVENT_SUCCEEDED:
    case PAWL_EVENT_FAILED:
    case PAWL_EVENT_RETRYING:
    case PAWL_EVENT_SNOOZED:
    case PAWL_EVENT_CANCELLED:
    case PAWL_EVENT_RELEASED:
    case PAWL_EVENT_RESCUED:
    case PAWL_EVENT_STUCK:
    case PAWL_EVENT_LEASE_LOST:
    case PAWL_EVENT_STORE_DOWN:
    case PAWL_EVENT_STORE_UP:
    case PAWL_EVENT_STORE_CLOSED: return true;
    default: return false;
    }
}

static void run_event_json(const cli *c, const pawl_event *e)
{
    answer a;
    cli_json_begin(c, &a);
    a.w.pretty = false;
    jsonw_object(&a.w);
    json_instant(&a.w, "at", e->at_us);
    json_text(&a.w, "event", pawl_event_name(e->kind));
    json_id(&a.w, "id", e->id);
    json_text(&a.w, "type", e->type);
    json_text(&a.w, "queue", e->queue);
    json_number(&a.w, "attempt", e->attempt);
    if (e->kind == PAWL_EVENT_RETRYING || e->kind == PAWL_EVENT_SNOOZED) json_number(&a.w, "delay_us", e->value);
    if (*e->text) json_shown(&a.w, "text", e->text);
    jsonw_end_object(&a.w);
    cli_json_end(c, &a);
}

static void event_text(const cli *c, const pawl_event *e)
{
    char id[PAWL_ID_TEXT] = "", at[16] = "", delay[WHEN_TEXT] = "";
    const char *name = pawl_event_name(e->kind);
    time_t seconds = (time_t)(e->at_us / PAWL_SECOND);
    struct tm local;
    buf text;
    if (localtime_r(&seconds, &local)) strftime(at, sizeof at, "%H:%M:%S", &local);
    if (e->id) pawl_id_format(e->id, id);
    if (e->value && (e->kind == PAWL_EVENT_RETRYING || e->kind == PAWL_EVENT_SNOOZED)) when_age(e->value, delay);
    buf_init(&text, alloc_default(), 8 << 10);
    buf_fmt(&text, "%-13s  ", id);
    term_safe(&text, pawl_str(e->type), false);
    if (e->attempt > 1) buf_fmt(&text, "  attempt %d", e->attempt);
    if (*delay) buf_fmt(&text, "  again in %s", delay);
    if (*e->text) buf_str(&text, "  ");
    term_safe(&text, pawl_str(e->text), false);
    if (c->term.width) term_cut(&c->term, &text, c->term.width - 21);
    printf("%s%s%s  %s%-9s%s  %s\n", term_on(&c->term, DIM), at, term_off(&c->term), term_on(&c->term, term_state(name)), name,
           term_off(&c->term), buf_text(&text));
    buf_done(&text);
}

void work_show(const cli *c, const pawl_event *e)
{
    if (c->json) run_event_json(c, e);
    else event_text(c, e);
}

static void show_events(worker *w)
{
    pawl_event e;
    while (pawl_next_event(w->events, 0, &e)) {
        w->closed = w->closed || e.kind == PAWL_EVENT_STORE_CLOSED;
        if (o.quiet || !worth_showing(e.kind)) continue;
        work_show(w->c, &e);
    }
    fflush(stdout);
}

static void say(const worker *w, const char *fmt, ...) PAWL_PRINTF(2, 3);
static void say(const worker *w, const char *fmt, ...)
{
    va_list args;
    if (w->c->json || o.quiet) return;
    va_start(args, fmt);
    fputs("pawl: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- when there is nothing to do -------------------------------------------------------------------------------------------------- */

/* Leases this process holds, by the store's word. */
static int64_t leases_here(pawl *p)
{
    pawl_nodes *nodes;
    int64_t leases = 0;
    if (pawl_get_nodes(p, &nodes, NULL)) return -1;
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->nodes[i].alive && nodes->nodes[i].pid == getpid()) leases += nodes->nodes[i].leases;
    }
    pawl_nodes_free(nodes);
    return leases;
}

/* Whether a pending task of the type is due. */
static bool type_due(pawl *p, const char *type)
{
    char cursor[256];
    pawl_filter filter = {.state = "pending", .queue = o.queue, .type = type, .oldest_first = true, .limit = 1000};
    for (;;) {
        pawl_page *page;
        if (pawl_list(p, &filter, &page, NULL)) return true;
        bool due = false, more = page->next != NULL;
        int64_t now_us = cli_now_us();
        for (size_t i = 0; i < page->count && !due; i++) due = page->tasks[i]->run_at_us <= now_us;
        if (more) snprintf(cursor, sizeof cursor, "%s", page->next);
        filter.cursor = cursor;
        pawl_page_free(page);
        if (due || !more) return due;
    }
}

static bool queue_due(pawl *p)
{
    pawl_stats *stats;
    bool due = false;
    if (pawl_get_stats(p, 0, &stats, NULL)) return true;
    for (size_t i = 0; i < stats->queues_count; i++) {
        const pawl_queue_info *q = &stats->queues[i];
        if (strcmp(q->name, o.queue) == 0) due = q->due > 0 && !q->paused;
    }
    pawl_stats_free(stats);
    if (!due || !o.types.count) return due;
    due = false;
    for (int i = 0; i < o.types.count && !due; i++) due = type_due(p, o.types.items[i]);
    return due;
}

/* Asked in this order: what was due before the first look and is not now was leased, so the second look sees it. */
static bool nothing_to_do(worker *w)
{
    int64_t now_us = cli_now_us();
    if (!o.once || w->stop.draining || now_us - w->looked_us < ONCE_LOOK_MS * 1000) return false;
    w->looked_us = now_us;
    return !queue_due(w->p) && leases_here(w->p) == 0;
}

/* ---- signals and the end ---------------------------------------------------------------------------------------------------------- */

/* true: the engine may be stopped now. */
static bool on_signal(worker *w)
{
    pawl_health health;
    char grace[32];
    if (!stopper_signalled(&w->stop)) return false;
    if (w->stop.draining) {
        say(w, "stopping at once");
        atomic_store(&kill_now, true);
        return true;
    }
    duration_format(o.grace_us, grace, sizeof grace);
    int64_t running = pawl_get_health(w->p, &health, NULL) ? 0 : health.running;
    say(w, "stopping: %lld running %s up to %s to finish; a second signal stops at once", (long long)running,
        running == 1 ? "task has" : "tasks have", grace);
    return !stopper_drain(&w->stop);
}

/* The tasks are moving to another store: what runs here comes to its end, then there is nothing left to do. */
static bool drain_closed(worker *w)
{
    say(w, "the store is closed: its tasks are moving to another one; stopping when what runs here has ended");
    w->stop.grace_us = -1;
    return stopper_drain(&w->stop);
}

/* What a closed store says about where its tasks went. */
static int moved_away(worker *w)
{
    pawl_error err;
    pawl_status status = pawl_start(w->p, &err);
    if (status) return cli_fail(w->c, &err);
    pawl_stop(w->p, NULL); /* the move was given up meanwhile */
    return 0;
}

/* Until a signal, or --once, says that it is over. */
static void attend(worker *w)
{
    struct pollfd fds[] = {{.fd = w->stop.signals, .events = POLLIN},
                           {.fd = w->stop.drained, .events = POLLIN},
                           {.fd = pawl_subscription_fd(w->events), .events = POLLIN}};
    for (;;) {
        if (poll(fds, sizeof fds / sizeof *fds, o.once ? ONCE_LOOK_MS : -1) < 0 && errno != EINTR) return;
        if (fds[2].revents) show_events(w);
        if (fds[1].revents & POLLIN) return;
        if ((fds[0].revents & POLLIN) && on_signal(w)) return;
        if (w->closed && !w->stop.draining && !drain_closed(w)) return;
        if (nothing_to_do(w)) return;
    }
}

/* ---- setting up ------------------------------------------------------------------------------------------------------------------- */

static pawl_status define_queues(worker *w, pawl_error *err)
{
    static const char *const builtin[] = {"default", "recurring"};
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++) {
        if (strcmp(o.queue, builtin[i]) == 0) continue;
        pawl_status status = pawl_queue(w->p, &(pawl_queue_options){.name = builtin[i], .workers = -1}, err);
        if (status) return status;
    }
    return pawl_queue(w->p, &(pawl_queue_options){.name = o.queue, .workers = (int)o.concurrency}, err);
}

static pawl_status define_handlers(worker *w, pawl_error *err)
{
    pawl_handler handler = {
        .type = "*",
        .run = run_command,
        .ctx = w,
        .queue = o.queue,
        .max_attempts = (int)o.max_attempts,
        .timeout_us = o.timeout_us,
        .retry = {.curve = o.retry_delay_us ? PAWL_CURVE_EXPONENTIAL : PAWL_CURVE_DEFAULT, .delay_us = o.retry_delay_us}};
    pawl_status status = PAWL_OK;
    if (!o.types.count) return pawl_handle(w->p, &handler, err);
    for (int i = 0; i < o.types.count && !status; i++) {
        handler.type = o.types.items[i];
        status = pawl_handle(w->p, &handler, err);
    }
    return status;
}

static int work(worker *w)
{
    pawl_error err;
    pawl_status status = define_queues(w, &err);
    if (!status) status = define_handlers(w, &err);
    if (!status) status = pawl_subscribe(w->p, 4096, &w->events, &err);
    if (!status) status = pawl_start(w->p, &err);
    if (status) return cli_fail(w->c, &err);
    say(w, "working on queue \"%s\" of %s, %lld at a time; Ctrl-C stops", o.queue, pawl_store_url(w->p),
        (long long)o.concurrency);
    attend(w);
    status = stopper_stop(&w->stop, &err);
    show_events(w);
    if (status) return cli_fail(w->c, &err);
    return w->closed ? moved_away(w) : 0;
}

int cmd_work(cli *c)
{
    static worker w;
    pawl_error err;
    int code = 0;
    if (!c->rest_count)
        return cli_usage(c, "the command to run is missing: put it behind \"--\", as in: pawl work -- ./handler.sh");
    if (!child_exists(c->rest[0])) return cli_usage(c, "cannot find the command \"%s\", or it is not executable", c->rest[0]);
    if (!o.concurrency) o.concurrency = sysconf(_SC_NPROCESSORS_ONLN);
    w.c = c;
    if (guard_start(&w.guard, &err)) return cli_fail(c, &err);
    if (c->server) return work_remote(c, &o, &w.guard);
    if (stopper_init(&w.stop, o.grace_us, &err)) return cli_fail(c, &err);
    w.p = w.stop.p = cli_open(
        c, &(pawl_options){.name = o.name, .workers = (int)o.concurrency, .grace_us = -1, .lease_us = o.lease_us}, &code);
    if (w.p) code = work(&w);
    pawl_unsubscribe(w.events);
    int closed = pawl_close(w.p);
    guard_stop(&w.guard);
    return code ? code : closed;
}
