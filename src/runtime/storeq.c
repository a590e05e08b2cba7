/* Calls of a store that waits for a disk or a network.
 *
 * The driver queues a call; a store thread makes it and brings back the answer as an input, which it then drives itself. A
 * store with one lane gets one call at a time, renewals before all that waits. A store with several gets as many as it has
 * lanes, and renewals have a thread of their own.
 *
 * A caller that waits for its own commit may make the call itself (storeq_help) when the store is idle: nobody needs to be woken
 * then. Only calls that a commit of new tasks depends on are made this way.
 *
 * Threads start when a call first needs one; a command that comes and goes never has any.
 */
#include "runtime/runtime.h"

bool storeq_init(runtime *rt)
{
    storeq *q = &rt->storeq;
    pthread_mutex_init(&q->lock, NULL);
    runtime_cond_init(&q->cond);
    q->last = &q->first;
    int lanes = rt->store->type->lanes;
    q->lanes = lanes < 1 ? 1 : lanes > LANES_MAX ? LANES_MAX : lanes;
    q->threads_most = q->lanes > 1 ? q->lanes + 1 : 1;
    q->threads = alloc_new(&rt->allocator, (size_t)q->threads_most * sizeof *q->threads);
    q->jobs = alloc_new(&rt->allocator, (size_t)(CORE_CALL_KINDS + q->lanes) * sizeof *q->jobs);
    return q->threads && q->jobs;
}

static bool is_renewal(const storejob *job) { return job->call->kind == CORE_RENEW; }

void storeq_add(runtime *rt, core_call *call)
{
    storeq *q = &rt->storeq;
    storejob *job = &q->jobs[call->kind == CORE_APPLY ? CORE_CALL_KINDS + call->lane : (int)call->kind];
    *job = (storejob){.in = {.kind = INPUT_ANSWERED}, .call = call};
    pthread_mutex_lock(&q->lock);
    if (is_renewal(job)) {
        q->renew = job;
    } else {
        *q->last = job;
        q->last = &job->next;
    }
    pthread_mutex_unlock(&q->lock);
    q->wake_wanted = true;
}

/* ---- taking a call: under the lock --------------------------------------------------------------------------------------- */

static storejob *take_renewal(storeq *q)
{
    storejob *job = q->renew;
    if (!job || q->renewing || (q->lanes == 1 && q->busy > 0)) return NULL;
    q->renew = NULL;
    q->renewing = true;
    q->busy += q->lanes == 1;
    return job;
}

static storejob *take_other(storeq *q)
{
    storejob *job = q->first;
    if (!job || q->busy >= q->lanes) return NULL;
    q->first = job->next;
    if (!q->first) q->last = &q->first;
    q->busy++;
    return job;
}

static storejob *take(storeq *q)
{
    storejob *job = take_renewal(q);
    return job ? job : take_other(q);
}

static void give_back(storeq *q, bool renewal)
{
    pthread_mutex_lock(&q->lock);
    if (renewal) q->renewing = false;
    if (!renewal || q->lanes == 1) q->busy--;
    pthread_mutex_unlock(&q->lock);
}

static void make(runtime *rt, storejob *job)
{
    bool renewal = is_renewal(job);
    store_call(rt->store, job->call);
    give_back(&rt->storeq, renewal); /* first: what the answer leads to may be taken by whoever is there */
    loop_push(rt, &job->in, true);
}

/* ---- store threads ------------------------------------------------------------------------------------------------------- */

_Thread_local runtime *storeq_helping;
static _Thread_local bool is_store_thread;

static void *store_thread(void *arg)
{
    runtime *rt = arg;
    storeq *q = &rt->storeq;
    is_store_thread = true;
    pthread_mutex_lock(&q->lock);
    while (!q->stopping) {
        storejob *job = take(q);
        if (!job) {
            pthread_cond_wait(&q->cond, &q->lock);
            continue;
        }
        pthread_mutex_unlock(&q->lock);
        make(rt, job);
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* Under the lock. */
static bool add_thread(runtime *rt)
{
    storeq *q = &rt->storeq;
    bool needed = q->threads_count < q->threads_most && q->busy + q->renewing >= q->threads_count;
    if (!needed) return true;
    if (!runtime_thread(&q->threads[q->threads_count], "pawl-store", store_thread, rt)) return false;
    q->threads_count++;
    return true;
}

/* Whether a call waits that a thread could make at once; if the store is busy, whoever makes that call looks again after it. */
static bool needs_thread(const storeq *q)
{
    if (q->stopping) return false;
    if (q->lanes == 1) return q->busy == 0 && (q->first || q->renew);
    return (q->first && q->busy < q->lanes) || (q->renew && !q->renewing);
}

void storeq_wake(runtime *rt)
{
    storeq *q = &rt->storeq;
    pthread_mutex_lock(&q->lock);
    bool needed = needs_thread(q), ok = !needed || add_thread(rt);
    pthread_mutex_unlock(&q->lock);
    if (needed) pthread_cond_broadcast(&q->cond);
    if (!ok) log_line(&rt->log, PAWL_ERROR, "could not start a thread for the store: the engine waits until one can be started");
}

void storeq_flush(runtime *rt)
{
    storeq *q = &rt->storeq;
    if (!q->wake_wanted) return;
    q->wake_wanted = false;
    if (storeq_helping == rt || (is_store_thread && q->lanes == 1)) return; /* this thread will look itself */
    storeq_wake(rt);
}

/* ---- helping ------------------------------------------------------------------------------------------------------------- */

static bool inserts_depend_on(const core_call *call)
{
    return call->kind == CORE_APPLY || call->kind == CORE_IDS || call->kind == CORE_REGISTER;
}

bool storeq_help(runtime *rt)
{
    storeq *q = &rt->storeq;
    pthread_mutex_lock(&q->lock);
    bool may = q->lanes == 1 && !q->renew && q->first && inserts_depend_on(q->first->call);
    storejob *job = may ? take_other(q) : NULL;
    pthread_mutex_unlock(&q->lock);
    if (!job) return false;
    make(rt, job);
    return true;
}

void storeq_done(runtime *rt)
{
    storeq *q = &rt->storeq;
    pthread_mutex_lock(&q->lock);
    q->stopping = true;
    pthread_cond_broadcast(&q->cond);
    pthread_mutex_unlock(&q->lock);
    for (int i = 0; i < q->threads_count; i++) pthread_join(q->threads[i], NULL);
    alloc_free(&rt->allocator, q->threads);
    alloc_free(&rt->allocator, q->jobs);
    pthread_cond_destroy(&q->cond);
    pthread_mutex_destroy(&q->lock);
}
