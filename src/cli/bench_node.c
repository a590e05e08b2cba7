#include "cli/bench.h"

#include "base/error.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CAPACITY 1000

/* ---- counting ------------------------------------------------------------------------------------------------------------------- */

int64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool bench_share(bench *b)
{
    int slots = b->nodes * (b->workers + 8) + b->producers + 8;
    size_t slots_at = (sizeof(bench_shared) + 4095) / 4096 * 4096;
    size_t planned_at = slots_at + (size_t)slots * sizeof(bench_slot);
    b->shared_size = planned_at + (size_t)b->tasks * sizeof(int64_t);
    void *map = mmap(NULL, b->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return false;
    b->shared = map;
    b->shared->slots = slots;
    b->shared->slots_at = slots_at;
    b->shared->planned_at = planned_at;
    return true;
}

static bench_slot *slot_number(const bench *b, int i) { return (bench_slot *)((char *)b->shared + b->shared->slots_at) + i; }

bench_slot *bench_slot_here(bench *b)
{
    static _Thread_local bench_slot *mine;
    if (!mine) mine = slot_number(b, atomic_fetch_add(&b->shared->slots_used, 1) % b->shared->slots);
    return mine;
}

int64_t *bench_planned(bench *b) { return (int64_t *)((char *)b->shared + b->shared->planned_at); }

static void count_by_engine(bench *b, int64_t fillers, int64_t *finished, int64_t *last_ns)
{
    pawl_health health = {0};
    pawl_get_health(b->p, &health, NULL);
    *finished = health.events[PAWL_EVENT_SUCCEEDED] - fillers - (b->throttled > 0); /* of those one may run, and has by now */
    *last_ns = bench_now_ns();
}

void bench_totals(bench *b, int64_t *finished, int64_t *fillers, int64_t *last_ns)
{
    *finished = *fillers = *last_ns = 0;
    for (int i = 0; i < b->shared->slots; i++) {
        bench_slot *s = slot_number(b, i);
        int64_t last = atomic_load(&s->last_ns);
        *finished += atomic_load(&s->finished);
        *fillers += atomic_load(&s->fillers);
        if (last > *last_ns) *last_ns = last;
    }
    if (b->forgetful) count_by_engine(b, *fillers, finished, last_ns);
}

void bench_progress(const bench *b, const char *what, int64_t done, int64_t of)
{
    char left[32], right[32];
    if (!b->tty) return;
    number_grouped(done, left);
    number_grouped(of, right);
    fprintf(stderr, "\r\033[K%s: %s of %s", what, left, right);
    if (done >= of) fprintf(stderr, "\r\033[K");
}

pawl_status bench_interrupted(const bench *b, pawl_error *err)
{
    if (!atomic_load_explicit(&b->shared->interrupted, memory_order_relaxed)) return PAWL_OK;
    return err_set(err, PAWL_UNAVAILABLE, "interrupted");
}

static int64_t written_bytes(void)
{
    long long bytes = 0;
    char line[128];
    FILE *io = fopen("/proc/self/io", "re");
    if (!io) return 0;
    while (fgets(line, sizeof line, io)) {
        if (sscanf(line, "wchar: %lld", &bytes) == 1) break;
    }
    fclose(io);
    return bytes;
}

bench_usage bench_usage_now(pawl *p)
{
    struct rusage usage;
    pawl_health health = {0};
    getrusage(RUSAGE_SELF, &usage);
    if (p) pawl_get_health(p, &health, NULL);
    return (bench_usage){.cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
                         .commits = health.commits,
                         .bytes = written_bytes(),
                         .rss_bytes = (int64_t)usage.ru_maxrss * 1024};
}

/* ---- the handler ---------------------------------------------------------------------------------------------------------------- */

/* Payloads begin with {"n":"000000000123" */
static int64_t number_of(const pawl_run *run)
{
    const char *digits = (const char *)pawl_run_payload(run).data + 6;
    int64_t number = 0;
    for (int i = 0; i < 12; i++) number = 10 * number + (digits[i] - '0');
    return number;
}

static pawl_outcome run_task(pawl_run *run, void *ctx)
{
    bench *b = ctx;
    bench_slot *slot = bench_slot_here(b);
    if (number_of(run) >= b->tasks) return pawl_ok();
    latency_add(&slot->start, bench_now_ns() - bench_planned(b)[number_of(run)]);
    atomic_fetch_add_explicit(&slot->runs, 1, memory_order_relaxed);
    return pawl_ok();
}

static bool task_done(pawl_run *run, void *ctx)
{
    bench *b = ctx;
    bench_slot *slot = bench_slot_here(b);
    int64_t now = bench_now_ns();
    if (number_of(run) >= b->tasks) return true;
    latency_add(&slot->done, now - bench_planned(b)[number_of(run)]);
    atomic_store_explicit(&slot->last_ns, now, memory_order_relaxed);
    atomic_fetch_add_explicit(&slot->finished, 1, memory_order_release);
    return true;
}

/* Where a task costs less than looking at the clock. */
static pawl_outcome run_untimed(pawl_run *run, void *ctx)
{
    (void)run;
    atomic_llong *runs = &bench_slot_here(ctx)->runs; /* nobody else counts here */
    atomic_store_explicit(runs, atomic_load_explicit(runs, memory_order_relaxed) + 1, memory_order_relaxed);
    return pawl_ok();
}

static pawl_outcome run_filler(pawl_run *run, void *ctx)
{
    (void)run;
    (void)ctx;
    return pawl_ok();
}

static bool filler_done(pawl_run *run, void *ctx)
{
    (void)run;
    atomic_fetch_add_explicit(&bench_slot_here(ctx)->fillers, 1, memory_order_release);
    return true;
}

pawl_status bench_open(bench *b, pawl_error *err)
{
    static const char *const unused[] = {"default", "recurring"};
    pawl_status status = pawl_open(&b->options, &b->p, err);
    for (size_t i = 0; i < sizeof unused / sizeof *unused && !status; i++) {
        status = pawl_queue(b->p, &(pawl_queue_options){.name = unused[i], .workers = -1}, err);
    }
    int64_t all = b->tasks + b->history + b->scheduled + b->backlog + b->throttled + b->tenant_flood;
    int waiting = 2 * b->producers * b->batch; /* what one round of producers brings is held ready while the next is on its way */
    pawl_queue_options queue = {
        .name = BENCH_QUEUE, .workers = b->workers, .capacity = waiting > CAPACITY ? waiting : 0, .fair = b->tenant_flood > 0};
    if (b->forgetful) queue.depth_limit = b->in_flight < all ? b->in_flight + b->scheduled + b->backlog : all;
    if (!status) status = pawl_queue(b->p, &queue, err);
    pawl_handler task = {.type = BENCH_TYPE, .queue = BENCH_QUEUE, .run = run_task, .on_succeeded = task_done, .ctx = b},
                 timed = task;
    timed.type = BENCH_TIMED;
    if (b->forgetful) task.run = run_untimed, task.on_succeeded = NULL;
    pawl_handler filler = {.type = BENCH_FILLER, .queue = BENCH_QUEUE, .run = run_filler, .on_succeeded = filler_done, .ctx = b};
    if (!status) status = pawl_handle(b->p, &task, err);
    if (!status) status = pawl_handle(b->p, &timed, err);
    if (!status) status = pawl_handle(b->p, &filler, err);
    return status;
}

/* ---- other processes ------------------------------------------------------------------------------------------------------------ */

static bool told(int pipe)
{
    char word;
    ssize_t n;
    do n = read(pipe, &word, 1);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

/* A node in a process of its own: opens when told, starts when told, stops when the pipe ends. */
static int node_main(bench *b, int index, int pipe)
{
    pawl_error err;
    signal(SIGINT, SIG_IGN); /* this process ends when its pipe does */
    signal(SIGTERM, SIG_DFL);
    if (!told(pipe)) return 0;
    pawl_status status = bench_open(b, &err);
    if (!status) {
        atomic_fetch_add(&b->shared->ready, 1);
        if (told(pipe)) status = pawl_start(b->p, &err);
    }
    bench_usage before = bench_usage_now(b->p);
    if (status) {
        atomic_fetch_add(&b->shared->failed, 1);
        return cli_fail(b->c, &err);
    }
    while (told(pipe)) {}
    bench_usage after = bench_usage_now(b->p);
    b->shared->usage[index] =
        (bench_usage){after.cpu_s - before.cpu_s, after.commits - before.commits, after.bytes - before.bytes, after.rss_bytes};
    return pawl_close(b->p);
}

pawl_status bench_fork(bench *b, pawl_error *err)
{
    for (int i = 1; i < b->nodes; i++) {
        int ends[2];
        if (pipe(ends)) return err_set(err, PAWL_UNAVAILABLE, "could not make a pipe: %s", strerror(errno));
        fflush(NULL);
        pid_t child = fork();
        if (child < 0) return err_set(err, PAWL_UNAVAILABLE, "could not start node %d: %s", i, strerror(errno));
        if (child == 0) {
            close(ends[1]);
            for (int j = 1; j < i; j++) close(b->pipes[j]);
            int code = node_main(b, i, ends[0]);
            fflush(NULL);
            _exit(code);
        }
        close(ends[0]);
        b->children[i] = child;
        b->pipes[i] = ends[1];
    }
    return PAWL_OK;
}

static void tell_others(bench *b)
{
    for (int i = 1; i < b->nodes; i++) {
        while (write(b->pipes[i], "g", 1) < 0 && errno == EINTR) {}
    }
}

pawl_status bench_open_others(bench *b, pawl_error *err)
{
    tell_others(b);
    while (atomic_load(&b->shared->ready) < b->nodes - 1) {
        if (atomic_load(&b->shared->failed)) return err_set(err, PAWL_UNAVAILABLE, "another node could not open the store");
        if (bench_interrupted(b, err)) return err->status;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return PAWL_OK;
}

void bench_start_others(bench *b) { tell_others(b); }

pawl_status bench_stop_others(bench *b, pawl_error *err)
{
    pawl_status result = PAWL_OK;
    for (int i = 1; i < b->nodes; i++) {
        int status = 0;
        if (b->children[i] <= 0) continue;
        close(b->pipes[i]);
        while (waitpid(b->children[i], &status, 0) < 0 && errno == EINTR) {}
        b->children[i] = 0;
        if (status && !result) result = err_set(err, PAWL_INTERNAL, "node %d ended with status %d", i, status);
    }
    return result;
}

/* Until so many measured tasks and so many fillers have finished, by all nodes. */
pawl_status bench_wait(bench *b, int64_t finished, int64_t fillers, const char *what, pawl_error *err)
{
    int64_t seen = -1, moved_ns = bench_now_ns(), shown_ns = 0, done, filled, last_ns;
    for (;;) {
        bench_totals(b, &done, &filled, &last_ns);
        int64_t now = bench_now_ns();
        if (done >= finished && filled >= fillers) break;
        if (bench_interrupted(b, err)) return err->status;
        if (atomic_load(&b->shared->failed)) return err_set(err, PAWL_UNAVAILABLE, "another node could not start");
        if (done + filled != seen) moved_ns = now;
        seen = done + filled;
        if (now - moved_ns > BENCH_STUCK_NS) {
            return err_set(err, PAWL_TIMEOUT, "nothing has finished for a minute: %lld of %lld tasks are done", (long long)seen,
                           (long long)(finished + fillers));
        }
        if (now - shown_ns > 200000000) {
            bench_progress(b, what, finished ? done : filled, finished ? finished : fillers);
            shown_ns = now;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    bench_progress(b, what, 1, 1);
    return PAWL_OK;
}
