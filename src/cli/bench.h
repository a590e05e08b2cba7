/* pawl bench: the inside.
 *
 *   cmd_bench.c     options and modes: what is prepared, what is measured
 *   bench_node.c    engines that run tasks: this process, and with --nodes also others
 *   bench_feed.c    producers
 *   bench_look.c    get, list and cancel, one call at a time
 *   bench_report.c  reading back, numbers, output
 *
 * Everything the processes share lies in one anonymous mapping made before they fork. Threads count into slots of their own, so that
 * counting does not disturb what is measured; sums are made by whoever looks. Times are CLOCK_MONOTONIC nanoseconds, which all
 * processes of a machine agree on.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/cli.h"
#include "cli/latency.h"
#include <stdatomic.h>
#include <sys/types.h>

#define BENCH_NODES_MAX 64
#define BENCH_QUEUE "bench"
#define BENCH_TYPE "bench.task"   /* what is measured */
#define BENCH_TIMED "bench.timed" /* on a forgetful store: those of them that are timed, one in BENCH_SAMPLE */
#define BENCH_SAMPLE 64
#define BENCH_FILLER "bench.filler" /* history, scheduled tasks and backlog made beforehand */
#define BENCH_STUCK_NS (60LL * 1000000000)

typedef struct bench_slot {
    latency dispatch, start, done;
    atomic_llong runs, finished; /* of measured tasks */
    atomic_llong fillers;        /* finished */
    atomic_llong last_ns;        /* when the last finish was seen */
    char apart[64];
} bench_slot;

typedef struct bench_usage { /* of one process, over the measured time */
    double cpu_s;
    int64_t commits, bytes, rss_bytes;
} bench_usage;

typedef struct bench_shared {
    atomic_int slots_used;
    atomic_int ready;       /* nodes that are open */
    atomic_int interrupted; /* by a signal */
    atomic_int failed;      /* nodes that could not do it: they have said why */
    bench_usage usage[BENCH_NODES_MAX];
    int slots;
    size_t slots_at, planned_at; /* where they begin in the mapping */
} bench_shared;

#define BENCH_SAMPLES 1000
#define BENCH_LISTS 10

typedef struct bench_samples { /* of tasks stored beforehand */
    pawl_id ids[BENCH_SAMPLES];
    int count;
} bench_samples;

typedef struct bench_looks {
    bench_samples history, scheduled;
    latency get, cancel, list[BENCH_LISTS];
} bench_looks;

typedef struct bench {
    cli *c;
    pawl_options options;
    const char *mode;
    bool forgetful; /* the store keeps little history: what has finished is known from the engine's counts */
    bool runs;      /* the mode runs tasks, not only stores them */
    int64_t tasks, rate, history, scheduled, backlog, rate_keys, throttled, tenant_flood;
    int64_t in_flight; /* most tasks dispatched and not finished */
    int producers, batch, workers, nodes;
    size_t payload;
    int64_t future_us; /* schedule: how far in the future */

    pawl *p;
    bench_shared *shared;
    size_t shared_size;
    pid_t children[BENCH_NODES_MAX];
    int pipes[BENCH_NODES_MAX]; /* a byte opens, another starts, the end stops */
    pawl_id *ids;               /* of the measured tasks, as the receipts said */
    int64_t wall_us;            /* when it all began */
    int64_t begin_ns, end_ns;
    int64_t settle_ns; /* until what is throttled was out of the way */
    bench_usage before;
    int64_t fillers_before, finished; /* finished: in the measured time, backlog included */
    int64_t lost;
    bench_looks *looks; /* mode look only */
    bool tty;           /* progress is shown */
} bench;

int64_t bench_now_ns(void);
bench_slot *bench_slot_here(bench *b); /* this thread's */
int64_t *bench_planned(bench *b);      /* [tasks]: when each should have been dispatched */
void bench_totals(bench *b, int64_t *finished, int64_t *fillers, int64_t *last_ns);
pawl_status bench_interrupted(const bench *b, pawl_error *err); /* OK: go on */
void bench_progress(const bench *b, const char *what, int64_t done, int64_t of);

/* bench_node.c */
bool bench_share(bench *b);                        /* makes the mapping; false: no memory */
pawl_status bench_fork(bench *b, pawl_error *err); /* the other nodes; before this process opens anything */
pawl_status bench_open(bench *b, pawl_error *err);
pawl_status bench_open_others(bench *b, pawl_error *err);
void bench_start_others(bench *b);
pawl_status bench_stop_others(bench *b, pawl_error *err);
pawl_status bench_wait(bench *b, int64_t finished, int64_t fillers, const char *what, pawl_error *err);
bench_usage bench_usage_now(pawl *p);

/* bench_feed.c */
pawl_status bench_feed(bench *b, pawl_error *err); /* all measured tasks */
typedef struct bench_filling {
    const char *what;
    int64_t count, delay_us; /* 0: due at once */
    int priority;
    const char *tenant;     /* may be NULL */
    const char *rate_key;   /* not NULL: they are of the measured type, and none of them counts */
    bench_samples *samples; /* may be NULL */
} bench_filling;
pawl_status bench_fill(bench *b, const bench_filling *f, pawl_error *err);

/* bench_look.c */
pawl_status bench_look_prepare(bench *b, pawl_error *err); /* before anything is stored */
pawl_status bench_look(bench *b, pawl_error *err);
const char *bench_list_name(int i);
void bench_sample(bench_samples *s, const pawl_receipt *receipts, int count, int64_t from, int64_t of);

/* bench_report.c */
pawl_status bench_read_back(bench *b, pawl_error *err);
int bench_report(bench *b);

#endif
