/* pawl bench: measures how fast tasks go through a store. See bench.h for the inside. */
#include "base/alloc.h"
#include "base/error.h"
#include "cli/bench.h"
#include "cli/help.h"
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <unistd.h>

const char help_bench[] =
    "Modes\n"
    "  full      dispatch and run at the same time; a task counts once its finish is committed\n"
    "  enqueue   dispatch only\n"
    "  drain     dispatch first, then measure how fast the backlog is run\n"
    "  latency   dispatch at a steady --rate (by planned arrival times) and run, after a warm-up\n"
    "  schedule  dispatch into the future\n"
    "  look      get, list and cancel tasks, one call at a time, on what the --preload options put there\n"
    "\n"
    "Afterwards every id is read back from the store; \"lost\" must be 0 or the command fails. Without --store it works on a file of its "
    "own in the current directory and removes it; the environment is not asked, so no real store is filled by mistake.\n"
    "\n"
    "Examples\n"
    "  pawl bench --tasks 200000 --producers 2 --batch 1000\n"
    "  pawl bench --mode latency --rate 500 --tasks 5000 --json\n"
    "  pawl bench --mode drain --nodes 2 --store sqlite:/data/bench.db\n";

static struct {
    int64_t tasks, producers, batch, workers, payload, rate, nodes, in_flight, history, scheduled, urgency, backlog, rate_keys,
        throttled, tenant_flood;
    const char *mode, *audit;
    bool apart, in_flood;
} o;

const opt bench_opts[] = {
    OPTION(OPT_CHOICE, "mode", &o.mode, "MODE", "full, enqueue, drain, latency, schedule or look", .fallback = "full",
           .choices = "full|enqueue|drain|latency|schedule|look"),
    OPTION(OPT_INT, "tasks", &o.tasks, "N", "how many (default: 100000; latency: 10 seconds' worth; look: 1000)", .min = 1,
           .max = 1000000000),
    OPTION(OPT_INT, "producers", &o.producers, "N", "threads that dispatch (default: 1; latency: 16)", .min = 1, .max = 1024),
    OPTION(OPT_INT, "batch", &o.batch, "N", "tasks in one call (default: 100; latency: 1)", .min = 1, .max = PAWL_BULK_MAX),
    OPTION(OPT_INT, "workers", &o.workers, "N", "of each node (default: twice the cores, at least 4)", .min = 1, .max = 1024),
    OPTION(OPT_INT, "payload", &o.payload, "BYTES", "size of each payload, 20 at least", .min = 20, .max = 1 << 20,
           .fallback = "200"),
    OPTION(OPT_INT, "rate", &o.rate, "N", "latency: tasks per second", .min = 1, .max = 10000000, .fallback = "500"),
    OPTION(OPT_INT, "nodes", &o.nodes, "N", "processes that run tasks, this one included", .min = 1, .max = BENCH_NODES_MAX,
           .fallback = "1"),
    OPTION(OPT_FLAG, "apart", &o.apart, NULL, "this process only dispatches: the other --nodes run the tasks"),
    OPTION(OPT_INT, "in-flight", &o.in_flight, "N",
           "full: producers wait while so many tasks are unfinished (default: 4 batches of each, at least 4000)", .min = 1,
           .max = 1000000000),
    OPTION(OPT_CHOICE, "audit", &o.audit, "LEVEL", "full, minimal, errors or none", .fallback = "minimal",
           .choices = "full|minimal|errors|none"),
    OPTION(OPT_INT, "preload-history", &o.history, "N", "run so many tasks beforehand", .max = 1000000000, .fallback = "0"),
    OPTION(OPT_INT, "preload-scheduled", &o.scheduled, "N", "store so many future tasks beforehand", .max = 1000000000,
           .fallback = "0"),
    OPTION(OPT_INT, "scheduled-priority", &o.urgency, "N", "of what --preload-scheduled stores; lower is more urgent",
           .min = -32768, .max = 32767, .fallback = "0"),
    OPTION(OPT_INT, "backlog", &o.backlog, "N", "store so many due tasks of lower priority beforehand", .max = 1000000000,
           .fallback = "0"),
    OPTION(OPT_INT, "rate-keys", &o.rate_keys, "N", "give the tasks so many rate keys, with limits that let all of them start",
           .max = 1000000000, .fallback = "0"),
    OPTION(OPT_INT, "throttled", &o.throttled, "N",
           "store so many due tasks of a rate key that lets one start a day beforehand, and wait until they are out of the way",
           .max = 1000000000, .fallback = "0"),
    OPTION(OPT_INT, "tenant-flood", &o.tenant_flood, "N",
           "let tenants take turns, and store so many due tasks of another tenant beforehand", .max = 1000000000,
           .fallback = "0"),
    OPTION(OPT_FLAG, "in-flood", &o.in_flood, NULL, "do not wait for what --throttled stored: measure while it is moved away"),
    OPTIONS_END};

static char own_dir[] = "pawl-bench-XXXXXX"; /* where the store is if --store does not say */
static char own_store[64];

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static bool take_store(bench *b)
{
    pawl_error err;
    b->options.store = b->c->store;
    if (b->c->store) return true;
    if (!mkdtemp(own_dir)) {
        err_set(&err, PAWL_DENIED, "could not make a directory for the store here: %s", strerror(errno));
        cli_fail(b->c, &err);
        return false;
    }
    snprintf(own_store, sizeof own_store, "sqlite:%s/bench.db", own_dir);
    b->options.store = own_store;
    return true;
}

static void take_options(bench *b)
{
    bool latency = strcmp(o.mode, "latency") == 0, look = strcmp(o.mode, "look") == 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    b->mode = o.mode;
    b->runs = strcmp(o.mode, "enqueue") != 0 && strcmp(o.mode, "schedule") != 0 && !look;
    b->rate = latency ? o.rate : 0;
    b->tasks = o.tasks ? o.tasks : latency ? 10 * o.rate : look ? BENCH_SAMPLES : 100000;
    b->producers = (int)(o.producers ? o.producers : latency ? 16 : 1);
    b->batch = (int)(o.batch ? o.batch : latency ? 1 : 100);
    b->workers = (int)(o.workers ? o.workers : cores > 2 ? 2 * cores : 4);
    b->payload = (size_t)o.payload;
    b->nodes = b->runs ? (int)o.nodes : 1;
    b->history = o.history;
    b->scheduled = look && !o.scheduled ? b->tasks : o.scheduled;
    b->backlog = o.backlog;
    b->rate_keys = o.rate_keys;
    b->throttled = o.throttled;
    b->tenant_flood = o.tenant_flood;
    int64_t flow = 4 * (int64_t)b->producers * b->batch;
    b->in_flight = strcmp(o.mode, "full") != 0 ? INT64_MAX : o.in_flight ? o.in_flight : flow > 4000 ? flow : 4000;
    b->future_us = strcmp(o.mode, "schedule") == 0 ? 30 * PAWL_DAY : 0;
    pawl_audit_parse(o.audit, &b->options.audit);
    term err_term;
    term_init(&err_term, stderr, true);
    b->tty = err_term.tty;
}

/* ---- what is there before ----------------------------------------------------------------------------------------------------------- */

#define THROTTLED "throttled"

static pawl_status set_limits(bench *b, pawl_error *err)
{
    pawl_rate all = {.permits = 1000000, .period_us = PAWL_SECOND},
              daily = {.permits = 1, .period_us = PAWL_DAY, .horizon_us = -1};
    pawl_status status = PAWL_OK;
    if (b->rate_keys || b->throttled) status = pawl_set_limit(b->p, BENCH_TYPE, (pawl_bytes){0}, &all, NULL, err);
    if (!status && b->rate_keys && b->forgetful) status = pawl_set_limit(b->p, BENCH_TIMED, (pawl_bytes){0}, &all, NULL, err);
    if (!status && b->throttled) status = pawl_set_limit(b->p, BENCH_TYPE, pawl_str(THROTTLED), &daily, NULL, err);
    if (!status && b->tenant_flood)
        status = pawl_set_concurrency(b->p, PAWL_SCOPE_TENANTS, BENCH_QUEUE, (pawl_bytes){0}, 1, false, NULL, err);
    return status;
}

static pawl_status preload(bench *b, pawl_error *err)
{
    pawl_status status = strcmp(b->mode, "look") == 0 ? bench_look_prepare(b, err) : PAWL_OK;
    if (!status) status = set_limits(b, err);
    if (!status && b->history) {
        status = pawl_start(b->p, err);
        bench_filling history = {.what = "history", .count = b->history, .samples = b->looks ? &b->looks->history : NULL};
        if (!status) status = bench_fill(b, &history, err);
        if (!status) status = bench_wait(b, 0, b->history, "history run", err);
        if (!status) status = pawl_drain(b->p, -1, err);
    }
    bench_filling scheduled = {.what = "scheduled", .count = b->scheduled, .delay_us = 60 * PAWL_DAY, .priority = (int)o.urgency};
    bench_filling backlog = {.what = "backlog", .count = b->backlog, .priority = 1000};
    bench_filling flood = {.what = "flood", .count = b->tenant_flood, .tenant = "flood"};
    bench_filling throttled = {.what = "throttled", .count = b->throttled, .rate_key = THROTTLED};
    if (b->looks) scheduled.samples = &b->looks->scheduled;
    if (!status) status = bench_fill(b, &scheduled, err);
    if (!status) status = bench_fill(b, &backlog, err);
    if (!status) status = bench_fill(b, &flood, err);
    return status ? status : bench_fill(b, &throttled, err);
}

/* ---- what is measured --------------------------------------------------------------------------------------------------------------- */

/* Until all that are throttled but one, which may start, have their slots: what is measured is how they are in the way then. */
static pawl_status settle(bench *b, pawl_error *err)
{
    int64_t since_ns = bench_now_ns(), waiting = 0;
    pawl_limit_filter only = {.type = BENCH_TYPE, .key = pawl_str(THROTTLED)};
    pawl_limits *limits;
    pawl_status status = PAWL_OK;
    while (!status && waiting + 1 < b->throttled) {
        status = bench_interrupted(b, err);
        if (!status) status = pawl_get_limits(b->p, &only, &limits, err);
        if (status) break;
        waiting = limits->count ? limits->limits[0].waiting : 0;
        pawl_limits_free(limits);
        bench_progress(b, "throttled", waiting, b->throttled);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    b->settle_ns = bench_now_ns() - since_ns;
    return status;
}

#define WARM_UP 50

/* Who has just started does everything for the first time, which on a server takes a while; that is not what is measured. Other fillers
 * may run beside these, so each is waited for by its id: none of them may stand before what is measured. */
static pawl_status warm_up(bench *b, pawl_error *err)
{
    int64_t finished, fillers, last_ns;
    bench_samples ids = {0};
    bench_filling one = {.what = "warm-up", .count = 1, .tenant = b->tenant_flood ? "measured" : NULL, .samples = &ids};
    pawl_status status = PAWL_OK;
    bench_totals(b, &finished, &fillers, &last_ns);
    for (int i = 0; i < WARM_UP && !status; i++) status = bench_fill(b, &one, err);
    for (int i = 0; i < ids.count && !status; i++) {
        status = bench_interrupted(b, err);
        if (!status) status = pawl_wait(b->p, ids.ids[i], PAWL_MINUTE, NULL, err);
        if (status == PAWL_NOT_FOUND) status = PAWL_OK; /* it has ended, and the store keeps little */
    }
    return status ? status : bench_wait(b, 0, fillers + WARM_UP, "warm-up", err);
}

static void begin(bench *b)
{
    int64_t finished, last_ns;
    bench_totals(b, &finished, &b->fillers_before, &last_ns);
    b->before = bench_usage_now(b->p);
    b->begin_ns = bench_now_ns();
}

static void end(bench *b)
{
    int64_t finished, fillers, last_ns;
    bench_usage after = bench_usage_now(b->p);
    bench_totals(b, &finished, &fillers, &last_ns);
    b->end_ns = b->runs ? last_ns : bench_now_ns();
    b->finished = b->tasks + fillers - b->fillers_before;
    b->shared->usage[0] = (bench_usage){after.cpu_s - b->before.cpu_s, after.commits - b->before.commits,
                                        after.bytes - b->before.bytes, after.rss_bytes};
}

static pawl_status measure(bench *b, pawl_error *err)
{
    bool drain = strcmp(b->mode, "drain") == 0;
    pawl_status status = drain ? bench_feed(b, err) : PAWL_OK;
    if (!status && !drain && b->runs) {
        bench_start_others(b);
        status = pawl_start(b->p, err);
        if (!status && b->throttled && !o.in_flood) status = settle(b, err);
        if (!status && b->rate) status = warm_up(b, err);
    }
    begin(b);
    if (!status && drain) {
        bench_start_others(b);
        status = pawl_start(b->p, err);
    }
    if (!status && b->looks) status = bench_look(b, err);
    else if (!status && !drain) status = bench_feed(b, err);
    if (!status && b->runs) status = bench_wait(b, b->tasks, 0, "run", err);
    end(b);
    return status;
}

static pawl_status run(bench *b, pawl_error *err)
{
    pawl_status status = bench_fork(b, err);
    b->wall_us = cli_now_us();
    if (o.apart) b->workers = -1;
    if (!status) status = bench_open(b, err);
    if (!status) status = preload(b, err);
    if (!status) status = bench_open_others(b, err);
    if (!status) status = measure(b, err);
    if (status) {
        bench_stop_others(b, NULL);
        return status;
    }
    status = bench_stop_others(b, err);
    if (!status && b->runs) status = pawl_drain(b->p, -1, err);
    return status || b->looks ? status : bench_read_back(b, err);
}

static bench b;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&b.shared->interrupted, 1);
}

int cmd_bench(cli *c)
{
    pawl_error err;
    int code;
    b.c = c;
    take_options(&b);
    if (c->store && strncmp(c->store, "memory:", 7) == 0 && b.nodes > 1) {
        return cli_usage(c, "memory: belongs to one process: --nodes needs a store that processes can share");
    }
    if (o.apart && (b.nodes < 2 || b.history)) {
        return cli_usage(c, "--apart needs --nodes 2 or more to run the tasks, and goes without --preload-history");
    }
    if (!take_store(&b)) return pawl_status_exit_code(PAWL_DENIED);
    b.forgetful = strncmp(b.options.store, "memory:", 7) == 0;
    b.ids = alloc_new(alloc_default(), (size_t)b.tasks * sizeof *b.ids);
    bool ready = b.ids && bench_share(&b);
    if (ready) {
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
    }
    if (!ready) code = cli_no_memory(c);
    else if (run(&b, &err)) code = cli_fail(c, &err);
    else code = bench_report(&b);
    if (b.p) pawl_close(b.p);
    if (b.shared) munmap(b.shared, b.shared_size);
    alloc_free(alloc_default(), b.ids);
    alloc_free(alloc_default(), b.looks);
    if (!c->store) nftw(own_dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return code;
}
