#include "cli/bench.h"

#include "base/alloc.h"
#include "base/error.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

#define NUMBER_AT 6 /* of the digits in {"n":"000000000123" */
#define NUMBER_DIGITS 12
#define FILL_BATCH 1000
#define RATE_KEY_SIZE 24

typedef struct feeder {
    bench *b;
    atomic_llong next; /* the first task that nobody has taken */
    atomic_llong stored;
    atomic_bool stop;
    pthread_mutex_t lock; /* of error */
    pawl_error error;
} feeder;

/* One producer's tasks: `batch` of them, payloads behind each other. */
typedef struct basket {
    pawl_task *tasks;
    pawl_receipt *receipts;
    char *payloads;
    char (*keys)[RATE_KEY_SIZE];
} basket;

/* {"n":"000000000000","pad":"xxx..."} of exactly `size` bytes, or as short as it can be. */
static void write_payload(char *out, size_t size)
{
    static const char head[] = "{\"n\":\"000000000000\"", middle[] = ",\"pad\":\"", tail[] = "\"}";
    size_t at = sizeof head - 1;
    memcpy(out, head, at);
    if (size >= at + sizeof middle + sizeof tail - 2) {
        memcpy(out + at, middle, sizeof middle - 1);
        at += sizeof middle - 1;
        memset(out + at, 'x', size - at - 2);
        out[size - 2] = tail[0];
        out[size - 1] = tail[1];
    } else {
        memset(out + at, ' ', size - at - 1);
        out[size - 1] = '}';
    }
}

static bool basket_new(const bench *b, basket *k, int batch)
{
    const pawl_allocator *a = alloc_default();
    k->tasks = alloc_new(a, (size_t)batch * sizeof *k->tasks);
    k->receipts = alloc_new(a, (size_t)batch * sizeof *k->receipts);
    k->payloads = alloc_new(a, (size_t)batch * b->payload);
    k->keys = alloc_new(a, (size_t)batch * sizeof *k->keys);
    if (!k->tasks || !k->receipts || !k->payloads || !k->keys) return false;
    for (int i = 0; i < batch; i++) {
        char *payload = k->payloads + (size_t)i * b->payload;
        write_payload(payload, b->payload);
        k->tasks[i] = (pawl_task){.type = BENCH_TYPE, .queue = BENCH_QUEUE, .payload = {payload, b->payload}};
    }
    return true;
}

static void basket_free(basket *k)
{
    alloc_free(alloc_default(), k->tasks);
    alloc_free(alloc_default(), k->receipts);
    alloc_free(alloc_default(), k->payloads);
    alloc_free(alloc_default(), k->keys);
}

static void set_number(basket *k, const bench *b, int i, int64_t number)
{
    char *to = k->payloads + (size_t)i * b->payload + NUMBER_AT;
    if (i == 0) {
        for (int digit = NUMBER_DIGITS - 1; digit >= 0; digit--, number /= 10) to[digit] = (char)('0' + number % 10);
        return;
    }
    memcpy(to, to - b->payload, NUMBER_DIGITS); /* one more than the one before */
    for (int digit = NUMBER_DIGITS - 1; digit >= 0 && to[digit]++ == '9'; digit--) to[digit] = '0';
}

static pawl_bytes rate_key(basket *k, const bench *b, int i, int64_t number)
{
    snprintf(k->keys[i], sizeof k->keys[i], "%lld", (long long)(number % b->rate_keys));
    return pawl_str(k->keys[i]);
}

static void give_up(feeder *f, const pawl_error *err)
{
    pthread_mutex_lock(&f->lock);
    if (!atomic_exchange(&f->stop, true)) f->error = *err;
    pthread_mutex_unlock(&f->lock);
}

static void wait_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL)) {}
}

static pawl_status send_basket(bench *b, basket *k, int64_t from, int count, pawl_error *err)
{
    pawl_status status;
    if (b->batch == 1) status = pawl_dispatch_full(b->p, k->tasks, k->receipts, err);
    else status = pawl_dispatch_bulk(b->p, k->tasks, (size_t)count, k->receipts, err);
    for (int i = 0; i < count && !status; i++) {
        if (k->receipts[i].status)
            return err_set(err, k->receipts[i].status, "a task was refused: %s", pawl_status_text(k->receipts[i].status));
        b->ids[from + i] = k->receipts[i].id;
    }
    return status;
}

/* Numbers, times and options of the tasks from `from` on. In latency mode a task's time is the planned one, so that a late start of
 * the call counts too. */
static void prepare(bench *b, basket *k, int64_t from, int count)
{
    int64_t *planned = bench_planned(b);
    int64_t at_ns = b->rate ? b->begin_ns + from * 1000000000 / b->rate : 0;
    if (b->rate) wait_until(at_ns);
    int64_t now_ns = b->rate ? at_ns : bench_now_ns();
    for (int i = 0; i < count; i++) {
        set_number(k, b, i, from + i);
        planned[from + i] = now_ns;
        if (b->forgetful) k->tasks[i].type = (from + i) % BENCH_SAMPLE == 0 ? BENCH_TIMED : BENCH_TYPE;
        if (b->tenant_flood) k->tasks[i].tenant = "measured";
        if (b->rate_keys) k->tasks[i].rate_key = rate_key(k, b, i, from + i);
        k->tasks[i].delay_us = b->future_us ? b->future_us + (from + i) % PAWL_DAY : 0;
    }
}

/* Until there are few enough tasks under way; the memory store's queues have a limit of their own. */
static bool wait_for_room(feeder *f, int64_t from)
{
    bench *b = f->b;
    int64_t finished, fillers, last_ns, seen = -1, moved_ns = bench_now_ns();
    pawl_error err;
    while (!b->forgetful && b->in_flight < b->tasks) {
        bench_totals(b, &finished, &fillers, &last_ns);
        if (from + b->batch - finished <= b->in_flight || from == 0) break;
        if (atomic_load_explicit(&f->stop, memory_order_relaxed) || bench_interrupted(b, &err)) return false;
        if (finished != seen) moved_ns = bench_now_ns();
        seen = finished;
        if (bench_now_ns() - moved_ns > BENCH_STUCK_NS) {
            err_set(&err, PAWL_TIMEOUT, "nothing has finished for a minute: %lld tasks are done", (long long)finished);
            give_up(f, &err);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return true;
}

static void *produce(void *ctx)
{
    feeder *f = ctx;
    bench *b = f->b;
    bench_slot *slot = bench_slot_here(b);
    basket k = {0};
    pawl_error err;
    if (!basket_new(b, &k, b->batch)) {
        err_set(&err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
        give_up(f, &err);
    }
    while (!atomic_load_explicit(&f->stop, memory_order_relaxed)) {
        int64_t from = atomic_fetch_add(&f->next, b->batch);
        if (from >= b->tasks) break;
        if (bench_interrupted(b, &err)) give_up(f, &err);
        if (!wait_for_room(f, from)) break;
        int count = from + b->batch <= b->tasks ? b->batch : (int)(b->tasks - from);
        prepare(b, &k, from, count);
        int64_t called_ns = b->rate ? bench_planned(b)[from] : bench_now_ns();
        if (send_basket(b, &k, from, count, &err)) give_up(f, &err);
        latency_add(&slot->dispatch, bench_now_ns() - called_ns);
        atomic_fetch_add_explicit(&f->stored, count, memory_order_relaxed);
    }
    basket_free(&k);
    return NULL;
}

/* Shows progress while the producers work; they end by themselves. */
static void watch(feeder *f, pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++) {
        for (;;) {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 200000000;
            if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
            if (pthread_timedjoin_np(threads[i], NULL, &until) == 0) break;
            bench_progress(f->b, "dispatched", atomic_load(&f->stored), f->b->tasks);
        }
    }
    bench_progress(f->b, "dispatched", 1, 1);
}

pawl_status bench_feed(bench *b, pawl_error *err)
{
    feeder f = {.b = b, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t *threads = alloc_new(alloc_default(), (size_t)b->producers * sizeof *threads);
    int started = 0;
    if (!threads) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    while (started < b->producers && pthread_create(&threads[started], NULL, produce, &f) == 0) started++;
    if (started < b->producers) {
        err_set(err, PAWL_UNAVAILABLE, "could not start %d producer threads", b->producers);
        give_up(&f, err);
    }
    watch(&f, threads, started);
    alloc_free(alloc_default(), threads);
    if (!atomic_load(&f.stop)) return PAWL_OK;
    *err = f.error;
    return err->status;
}

pawl_status bench_fill(bench *b, const bench_filling *f, pawl_error *err)
{
    basket k = {0};
    pawl_status status = PAWL_OK;
    if (!f->count) return PAWL_OK;
    if (!basket_new(b, &k, FILL_BATCH)) status = err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    for (int64_t done = 0; done < f->count && !status;) {
        int n = f->count - done < FILL_BATCH ? (int)(f->count - done) : FILL_BATCH;
        for (int i = 0; i < n; i++) {
            k.tasks[i].type = f->rate_key ? BENCH_TYPE : BENCH_FILLER;
            k.tasks[i].rate_key = pawl_str(f->rate_key);
            if (f->rate_key) set_number(&k, b, i, b->tasks);
            k.tasks[i].tenant = f->tenant;
            k.tasks[i].priority = f->priority;
            k.tasks[i].delay_us = f->delay_us ? f->delay_us + done + i : 0;
        }
        status = bench_interrupted(b, err);
        if (!status) status = pawl_dispatch_bulk(b->p, k.tasks, (size_t)n, k.receipts, err);
        if (f->samples && !status) bench_sample(f->samples, k.receipts, n, done, f->count);
        done += n;
        if (done % 50000 < FILL_BATCH) bench_progress(b, f->what, done, f->count);
    }
    bench_progress(b, f->what, 1, 1);
    basket_free(&k);
    return status;
}
