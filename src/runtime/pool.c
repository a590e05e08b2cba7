/* Workers: a fixed pool of long-lived threads per queue.
 *
 * Threads start when there is something for them, up to the queue's number; a queue that never gets a task has none. Settled runs with
 * a hook to call come before tasks: they hold a task's memory.
 *
 * The driver collects a round's runs and puts them into the list under one lock. It counts who will take them: threads that wait,
 * threads that have just been started, and itself if it is a worker of this pool on its way back; for the rest it starts threads.
 *
 * A worker takes one run, does it and drives the engine with its outcome. But while runs last microseconds the core hands out more
 * than there are workers (core/claim.c); then a worker takes up to POOL_TAKE at once and reports them together. Two promises keep that
 * harmless. What a worker took and has not begun can be taken from it (`next` decides who has a run), and so can outcomes that it has
 * not reported. And while anything waits, the driver looks every POOL_LATE_US (pool_look): whatever has not moved since the last look
 * goes back to the core, to start when a worker is free, and the core hands out one by one from then on.
 */
#include "runtime/runtime.h"
#include <stdio.h>

_Thread_local pool *pool_returning;
static _Thread_local worker *self;

/* ---- workers ------------------------------------------------------------------------------------------------------------- */

static pawl_run *pop(pawl_run **first, pawl_run ***last)
{
    pawl_run *run = *first;
    if (!run) return NULL;
    *first = run->next;
    if (!*first) *last = first;
    run->next = NULL;
    return run;
}

/* false: the pool stops */
static bool take(pool *p, worker *w, bool fresh)
{
    pthread_mutex_lock(&p->lock);
    if (fresh) p->starting--;
    while (p->queued == 0 && !p->stopping) {
        p->idle++;
        pthread_cond_wait(&p->cond, &p->lock);
        p->idle--;
    }
    for (w->count = 0; w->count < p->at_once && p->queued > 0; p->queued--) {
        pawl_run *run = pop(&p->jobs, &p->jobs_last);
        w->runs[w->count++] = run ? run : pop(&p->tasks, &p->tasks_last);
    }
    w->reported = 0;
    atomic_store_explicit(&w->done, 0, memory_order_relaxed);
    atomic_store_explicit(&w->owed, w->count, memory_order_relaxed);
    atomic_store(&w->next, 0);
    p->taken++;
    pthread_mutex_unlock(&p->lock);
    return w->count > 0;
}

static int unreported(const worker *w) { return atomic_load_explicit(&w->done, memory_order_acquire) - w->reported; }

/* Under the lock: takes what this worker has to report, oldest first. */
static input *take_outcomes(worker *w, input **last)
{
    input *first = NULL, **end = &first;
    *last = NULL;
    for (int left = unreported(w); left > 0; left--) {
        pawl_run *run = w->runs[w->reported++];
        if (!run) continue;
        *end = *last = &run->in;
        end = &run->in.next;
    }
    *end = NULL;
    return first;
}

static void come_back(worker *w, input *first, input *last)
{
    int owed = atomic_exchange(&w->owed, 0);
    if (!first && !owed) return;
    pool_returning = w->pool;
    loop_come_back(w->pool->rt, first, last, owed);
    pool_returning = NULL;
}

void pool_report(pawl_run *run)
{
    worker *w = self;
    if (!w || w->pool->rt != run->rt) {
        loop_push(run->rt, &run->in, true);
    } else if (w->count == 1) {
        come_back(w, &run->in, &run->in);
    } else {
        w->reporting = run;
    }
}

int pool_owed(const runtime *rt) { return self && self->pool->rt == rt ? atomic_exchange(&self->owed, 0) : 0; }

bool pool_short(runtime *rt)
{
    core_queue_numbers q;
    if (rt->look_us == INT64_MAX) return false;
    for (int i = 0; i < rt->pools_count; i++) {
        core_queue_get(rt->core, i, &q);
        if (q.at_once > 1) return true;
    }
    return false;
}

/* What was not left to be reported may be gone by now. */
static void do_run(worker *w, int i)
{
    w->reporting = NULL;
    work_do(w->runs[i]);
    w->runs[i] = w->reporting;
    atomic_store_explicit(&w->done, i + 1, memory_order_release);
}

/* Of a single run, pool_report has. */
static void report(worker *w)
{
    input *first = NULL, *last = NULL;
    if (w->count > 1) {
        pthread_mutex_lock(&w->pool->lock);
        first = take_outcomes(w, &last);
        pthread_mutex_unlock(&w->pool->lock);
    }
    come_back(w, first, last);
}

static void *work(void *arg)
{
    worker *w = self = arg;
    for (bool fresh = true; take(w->pool, w, fresh); fresh = false) {
        work_took();
        for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->count;) do_run(w, i);
        report(w);
    }
    return NULL;
}

/* ---- the driver's side --------------------------------------------------------------------------------------------------- */

static void append(pawl_run *run, pawl_run ***last)
{
    run->next = NULL;
    **last = run;
    *last = &run->next;
}

void pool_add(runtime *rt, pawl_run *run, bool job)
{
    run->is_job = job;
    if (!rt->loop.threaded) {
        append(run, &rt->inline_runs_last);
        return;
    }
    pool *p = &rt->pools[run->task->queue];
    append(run, job ? &p->new_jobs_last : &p->new_tasks_last);
    p->new_count++;
    if (p->dirty) return;
    p->dirty = true;
    p->next_dirty = rt->dirty_pools;
    rt->dirty_pools = p;
}

static void splice(pawl_run **from, pawl_run ***from_last, pawl_run ***to_last)
{
    if (!*from) return;
    **to_last = *from;
    *to_last = *from_last;
    *from = NULL;
    *from_last = from;
}

static bool start_thread(pool *p)
{
    char name[16];
    worker *w = &p->threads[p->threads_count];
    w->pool = p;
    snprintf(name, sizeof name, "pawl-%.10s", p->name);
    if (!runtime_thread(&w->thread, name, work, w)) return false;
    p->threads_count++;
    p->starting++;
    return true;
}

/* Under the lock: threads for what is queued; answers how many of the waiting ones to wake. */
static int staff(pool *p)
{
    int here = pool_returning == p, loads = (p->queued + p->at_once - 1) / p->at_once;
    while (loads > p->idle + p->starting + here && p->threads_count < p->workers)
        if (!start_thread(p)) break;
    int others = loads - here;
    return others < p->idle ? others : p->idle;
}

#define HAND_OVER 256

/* What can start in a queue with a puller is out as soon as it is known. */
static void hand_over(pool *p)
{
    pawl_run *runs[HAND_OVER], *run;
    size_t count = 0;
    while ((run = pop(&p->new_tasks, &p->new_tasks_last))) {
        p->new_count--;
        work_pulled(run);
        runs[count++] = run;
        if (count < HAND_OVER && p->new_tasks) continue;
        p->puller->take(p->puller->ctx, runs, count);
        count = 0;
    }
}

/* false: nobody could take its tasks; the core has them back */
static bool flush_one(runtime *rt, pool *p)
{
    if (p->puller) {
        hand_over(p);
        return true;
    }
    pawl_run *refused = NULL;
    core_queue_numbers numbers;
    core_queue_get(rt->core, (int)(p - rt->pools), &numbers);
    loop_out(rt, p->new_count);
    pthread_mutex_lock(&p->lock);
    p->at_once = numbers.at_once < POOL_TAKE ? numbers.at_once : POOL_TAKE;
    splice(&p->new_jobs, &p->new_jobs_last, &p->jobs_last);
    splice(&p->new_tasks, &p->new_tasks_last, &p->tasks_last);
    p->queued += p->new_count;
    p->new_count = 0;
    int wake = staff(p);
    if (p->at_once > 1 && rt->look_us == INT64_MAX) rt->look_us = runtime_now(rt).mono_us + POOL_LATE_US;
    if (p->threads_count == 0) {
        refused = p->tasks;
        p->tasks = NULL;
        p->tasks_last = &p->tasks;
        p->queued = 0;
    }
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < wake; i++) pthread_cond_signal(&p->cond);
    if (!refused) return true;
    log_line(&rt->log, PAWL_ERROR, "could not start a worker for queue \"%s\": its tasks are tried again later", p->name);
    int count = 0;
    for (pawl_run *next; refused; refused = next, count++) {
        next = refused->next;
        work_refuse(rt, refused);
    }
    loop_out(rt, -count);
    return false;
}

bool pool_flush(runtime *rt)
{
    bool all = true;
    while (rt->dirty_pools) {
        pool *p = rt->dirty_pools;
        rt->dirty_pools = p->next_dirty;
        p->dirty = false;
        all = flush_one(rt, p) && all;
    }
    return all;
}

/* ---- what nobody begins -------------------------------------------------------------------------------------------------- */

/* The core puts each that comes back before the others, so the last of them goes first: `first` begins a chain of inputs that grows at
 * its front. */
static void recall(pawl_run *run, input **first)
{
    run->in.kind = INPUT_RECALLED;
    run->in.next = *first;
    *first = &run->in;
}

static void back_to_front(pool *p, pawl_run *run)
{
    run->next = p->jobs;
    if (!p->jobs) p->jobs_last = &run->next;
    p->jobs = run;
    p->queued++;
}

/* Answers how many of them will be taken anew. */
static int take_rest(pool *p, worker *w, input **first)
{
    int next = atomic_exchange(&w->next, POOL_TAKE), before = p->queued;
    for (int i = next; i < w->count; i++)
        if (!w->runs[i]->is_job) recall(w->runs[i], first);
    for (int i = w->count - 1; i >= next; i--)
        if (w->runs[i]->is_job) back_to_front(p, w->runs[i]);
    return p->queued - before;
}

/* Answers how many. */
static int take_tasks(pool *p, input **first)
{
    int before = p->queued;
    for (pawl_run *run; (run = pop(&p->tasks, &p->tasks_last)); p->queued--) recall(run, first);
    return before - p->queued;
}

/* Under the lock: a worker that has not begun another run since the last look loses the rest, and what it has to report; nobody counts on
 * it any more (*out). true: it may yet. */
static bool look_at_worker(pool *p, worker *w, input **first, int *out)
{
    int next = atomic_load(&w->next), seen = w->seen_next;
    w->seen_next = next;
    if (next != seen && (next < w->count || unreported(w) > 0)) return true;
    *out -= next == seen ? atomic_exchange(&w->owed, 0) : 0;
    if (next >= w->count && unreported(w) == 0) return false;
    *out += take_rest(p, w, first);
    input *newest, *oldest = take_outcomes(w, &newest);
    if (!oldest) return false;
    newest->next = *first;
    *first = oldest;
    return false;
}

/* true: something waits, look again */
static bool look_at(pool *p, input **first)
{
    bool waits = false;
    int out = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->threads_count; i++) waits = look_at_worker(p, &p->threads[i], first, &out) || waits;
    bool stuck = p->taken == p->seen_taken && p->idle == 0 && p->starting == 0;
    p->seen_taken = p->taken;
    if (stuck) out -= take_tasks(p, first);
    int wake = staff(p);
    waits = waits || p->queued > 0;
    pthread_mutex_unlock(&p->lock);
    loop_out(p->rt, out);
    for (int i = 0; i < wake; i++) pthread_cond_signal(&p->cond);
    return waits;
}

input *pool_recall(runtime *rt, int queue)
{
    pool *p = &rt->pools[queue];
    input *first = NULL;
    int out = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->threads_count; i++) out += take_rest(p, &p->threads[i], &first);
    out -= take_tasks(p, &first);
    for (pawl_run *run; (run = pop(&p->new_tasks, &p->new_tasks_last)); p->new_count--) recall(run, &first);
    int wake = staff(p);
    pthread_mutex_unlock(&p->lock);
    loop_out(rt, out);
    for (int i = 0; i < wake; i++) pthread_cond_signal(&p->cond);
    return first;
}

input *pool_look(runtime *rt, core_time now)
{
    input *first = NULL;
    if (now.mono_us < rt->look_us) return NULL;
    bool again = false;
    for (int i = 0; i < rt->pools_count; i++) again = look_at(&rt->pools[i], &first) || again;
    rt->look_us = again ? now.mono_us + POOL_LATE_US : INT64_MAX;
    return first;
}

/* ---- pullers ------------------------------------------------------------------------------------------------------------- */

static pool *find_pool(runtime *rt, const char *queue)
{
    for (int i = 0; queue && rt->pools && i < rt->pools_count; i++)
        if (rt->pools[i].puller && strcmp(rt->pools[i].name, queue) == 0) return &rt->pools[i];
    return NULL;
}

pawl_status pool_add_workers(runtime *rt, const char *queue, int count, bool nobody, pawl_error *err)
{
    pool *p = find_pool(rt, queue);
    if (!p) return err_set(err, PAWL_NOT_FOUND, "no queue \"%s\" with a puller was started here", queue ? queue : "");
    atomic_fetch_add(&p->pullers, count);
    atomic_store(&p->nobody, nobody);
    if (atomic_exchange(&p->workers_told, true)) return PAWL_OK;
    p->workers_in.kind = INPUT_WORKERS;
    loop_push(rt, &p->workers_in, true);
    return PAWL_OK;
}

void pool_workers(runtime *rt, core_time now, pool *p)
{
    atomic_store(&p->workers_told, false);
    int workers = atomic_load(&p->pullers);
    core_workers(rt->core, now, (int)(p - rt->pools), workers > 0 ? workers : 0, atomic_load(&p->nobody));
}

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

static bool init(runtime *rt, pool *p, const core_queue_numbers *q)
{
    p->rt = rt;
    p->name = q->name;
    p->workers = q->workers;
    p->at_once = 1;
    p->puller = q->owner;
    p->tasks_last = &p->tasks;
    p->jobs_last = &p->jobs;
    p->new_tasks_last = &p->new_tasks;
    p->new_jobs_last = &p->new_jobs;
    pthread_mutex_init(&p->lock, NULL);
    runtime_cond_init(&p->cond);
    p->threads = alloc_new(&rt->allocator, (size_t)(p->workers + 1) * sizeof *p->threads); /* a queue not served here has none */
    return p->threads;
}

static void done(runtime *rt, pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->cond);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->threads_count; i++) pthread_join(p->threads[i].thread, NULL);
    alloc_free(&rt->allocator, p->threads);
    pthread_cond_destroy(&p->cond);
    pthread_mutex_destroy(&p->lock);
}

void pool_done_all(runtime *rt)
{
    for (int i = 0; rt->pools && i < rt->pools_count; i++) done(rt, &rt->pools[i]);
    alloc_free(&rt->allocator, rt->pools);
    rt->pools = NULL;
    rt->pools_count = 0;
}

bool pool_start_all(runtime *rt)
{
    if (rt->pools) return true;
    int count = core_queues(rt->core);
    bool ok = (rt->pools = alloc_new(&rt->allocator, (size_t)count * sizeof *rt->pools));
    for (int i = 0; ok && i < count; i++) {
        core_queue_numbers q;
        core_queue_get(rt->core, i, &q);
        rt->pools_count++;
        ok = init(rt, &rt->pools[i], &q);
    }
    if (!ok) pool_done_all(rt);
    return ok;
}
