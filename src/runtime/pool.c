/* Workers: a fixed pool of long-lived threads per queue.
 *
 * Threads start when there is something for them, up to the queue's number; a queue that never gets a task has none. The core
 * never hands out more runs than there are workers, so a task in the list always finds one soon. Settled runs with a hook to
 * call come before tasks: they hold a task's memory.
 *
 * The driver collects a round's runs and puts them into the list under one lock. It counts who will take them: threads that wait,
 * threads that have just been started, and itself if it is a worker of this pool on its way back; for the rest it starts threads.
 */
#include "runtime/runtime.h"
#include <stdio.h>

_Thread_local pool *pool_here, *pool_returning;

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

static pawl_run *take(pool *p, bool fresh)
{
    pthread_mutex_lock(&p->lock);
    if (fresh) p->starting--;
    while (p->queued == 0 && !p->stopping) {
        p->idle++;
        pthread_cond_wait(&p->cond, &p->lock);
        p->idle--;
    }
    pawl_run *run = pop(&p->jobs, &p->jobs_last);
    if (!run) run = pop(&p->tasks, &p->tasks_last);
    if (run) p->queued--;
    pthread_mutex_unlock(&p->lock);
    return run;
}

static void *worker(void *arg)
{
    pool *p = arg;
    pool_here = p;
    pawl_run *run = take(p, true);
    while (run) {
        work_do(run);
        run = take(p, false);
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
    snprintf(name, sizeof name, "pawl-%.10s", p->name);
    if (!runtime_thread(&p->threads[p->threads_count], name, worker, p)) return false;
    p->threads_count++;
    p->starting++;
    return true;
}

/* Under the lock: threads for what is queued; answers how many of the waiting ones to wake. */
static int staff(pool *p)
{
    int here = pool_returning == p;
    while (p->queued > p->idle + p->starting + here && p->threads_count < p->workers)
        if (!start_thread(p)) break;
    int others = p->queued - here;
    return others < p->idle ? others : p->idle;
}

/* false: nobody could take its tasks; the core has them back */
static bool flush_one(runtime *rt, pool *p)
{
    pawl_run *refused = NULL;
    pthread_mutex_lock(&p->lock);
    splice(&p->new_jobs, &p->new_jobs_last, &p->jobs_last);
    splice(&p->new_tasks, &p->new_tasks_last, &p->tasks_last);
    p->queued += p->new_count;
    p->new_count = 0;
    int wake = staff(p);
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
    for (pawl_run *next; refused; refused = next) {
        next = refused->next;
        work_refuse(rt, refused);
    }
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

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

static bool init(runtime *rt, pool *p, const core_queue_numbers *q)
{
    p->rt = rt;
    p->name = q->name;
    p->workers = q->workers;
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
    for (int i = 0; i < p->threads_count; i++) pthread_join(p->threads[i], NULL);
    alloc_free(&rt->allocator, p->threads);
    pthread_cond_destroy(&p->cond);
    pthread_mutex_destroy(&p->lock);
}

void pool_done_all(runtime *rt)
{
    for (int i = 0; i < rt->pools_count; i++) done(rt, &rt->pools[i]);
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
