/* Calls of a store that waits for a disk or a network.
 *
 * The driver queues a call; a store thread makes it and brings back the answer as an input, which it then drives itself. A
 * store with one lane gets one call at a time, renewals before all that waits. A store with several gets as many as it has
 * lanes, and beside them renewals, and what nobody waits for (the core's last lane, see core/batch.c).
 *
 * A caller that waits for its own commit may make the call itself (storeq_help) when the store is idle: nobody needs to be woken
 * then. Only calls that a commit of new tasks depends on are made this way.
 *
 * With one lane a batch is formed by the thread that carries it (core_cork): all others only say that there is something. What is
 * gathered when a caller has its answer, say the outcome of the run before, then leaves with the next task of the same caller if that
 * comes soon: one commit instead of two, and the task does not wait for the outcome's. The store's thread gives callers that come one
 * after the other half the time of a commit for that (linger).
 *
 * Threads start when a call first needs one; a command that comes and goes never has any.
 */
#include "runtime/runtime.h"

#define LINGER_MAX_US 500
#define HELPED_US (2 * PAWL_MILLISECOND) /* so long after a caller's call the next one is expected */

bool storeq_init(runtime *rt)
{
    storeq *q = &rt->storeq;
    pthread_mutex_init(&q->lock, NULL);
    runtime_cond_init(&q->cond);
    q->last = &q->first;
    int lanes = rt->store->type->lanes;
    q->lanes = lanes < 1 ? 1 : lanes > LANES_MAX ? LANES_MAX : lanes;
    q->threads_most = q->lanes > 1 ? q->lanes + 2 : 1;
    q->threads = alloc_new(&rt->allocator, (size_t)q->threads_most * sizeof *q->threads);
    q->jobs = alloc_new(&rt->allocator, (size_t)(CORE_CALL_KINDS + q->lanes + 1) * sizeof *q->jobs);
    return q->threads && q->jobs;
}

static bool is_renewal(const storejob *job) { return job->call->kind == CORE_RENEW; }
static bool is_aside(const storeq *q, const storejob *job)
{
    return job->call->kind == CORE_APPLY && job->call->lane == q->lanes;
}

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
    if (call->kind == CORE_APPLY) q->kept = CORE_KEPT_NOTHING;
    pthread_mutex_unlock(&q->lock);
    q->wake_wanted = true;
}

_Thread_local runtime *storeq_helping;
static _Thread_local bool is_store_thread, answering;

/* A helper that brings the answer is on its way back to its program. */
bool storeq_carries(const runtime *rt)
{
    if (rt->direct || rt->storeq.lanes > 1) return true;
    return is_store_thread || (storeq_helping == rt && !answering);
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

static bool may_take(const storeq *q) { return q->first && (q->busy < q->lanes || is_aside(q, q->first)); }

static storejob *take_other(storeq *q)
{
    storejob *job = q->first;
    if (!may_take(q)) return NULL;
    q->first = job->next;
    if (!q->first) q->last = &q->first;
    if (is_aside(q, job)) q->aside = true;
    else q->busy++;
    return job;
}

static storejob *take(storeq *q)
{
    storejob *job = take_renewal(q);
    return job ? job : take_other(q);
}

static void give_back(storeq *q, const storejob *job)
{
    bool renewal = is_renewal(job), aside = is_aside(q, job);
    pthread_mutex_lock(&q->lock);
    if (renewal) q->renewing = false;
    if (aside) q->aside = false;
    else if (!renewal || q->lanes == 1) q->busy--;
    pthread_mutex_unlock(&q->lock);
}

static void make(runtime *rt, storejob *job)
{
    store_call(rt->store, job->call);
    give_back(&rt->storeq, job); /* first: what the answer leads to may be taken by whoever is there */
    loop_push(rt, &job->in, true);
}

/* ---- store threads ------------------------------------------------------------------------------------------------------- */

static bool keeps(const storeq *q) { return q->kept && q->busy == 0; }

/* Under the lock: gives the next caller a moment to carry outcomes along. true: things changed meanwhile */
static bool linger(storeq *q)
{
    int64_t us = q->call_us / 2 < LINGER_MAX_US ? q->call_us / 2 : LINGER_MAX_US;
    bool in_time = q->kept_us - q->helped_us < HELPED_US && q->kept_us + us > runtime_until(0);
    if (!in_time) return false;
    q->lingering = true;
    while (in_time && q->kept == CORE_KEPT_OUTCOMES && !q->first && !q->renew && !q->stopping)
        in_time = runtime_wait(&q->cond, &q->lock, q->kept_us + us);
    q->lingering = false;
    return in_time;
}

/* Has the core form the batch that it kept. false: it kept none */
static bool fetch(runtime *rt)
{
    storeq *q = &rt->storeq;
    pthread_mutex_lock(&q->lock);
    bool kept = keeps(q);
    if (kept) q->kept = CORE_KEPT_NOTHING;
    pthread_mutex_unlock(&q->lock);
    if (!kept) return false;
    loop_enter(rt, -1);
    loop_leave(rt);
    return true;
}

static void *store_thread(void *arg)
{
    runtime *rt = arg;
    storeq *q = &rt->storeq;
    is_store_thread = true;
    pthread_mutex_lock(&q->lock);
    while (!q->stopping) {
        storejob *job = take(q);
        if (!job && !keeps(q)) {
            pthread_cond_wait(&q->cond, &q->lock);
            continue;
        }
        if (!job && q->kept == CORE_KEPT_OUTCOMES && linger(q)) continue;
        pthread_mutex_unlock(&q->lock);
        if (job) make(rt, job);
        else fetch(rt);
        pthread_mutex_lock(&q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* Under the lock. */
static bool add_thread(runtime *rt)
{
    storeq *q = &rt->storeq;
    bool needed = q->threads_count < q->threads_most && q->busy + q->renewing + q->aside >= q->threads_count;
    if (!needed) return true;
    if (!runtime_thread(&q->threads[q->threads_count], "pawl-store", store_thread, rt)) return false;
    q->threads_count++;
    return true;
}

/* Whether a call waits that a thread could make at once; if the store is busy, whoever makes that call looks again after it. */
static bool needs_thread(const storeq *q)
{
    if (q->stopping) return false;
    if (q->lanes == 1)
        return q->busy == 0 && (q->first || q->renew || (q->kept && !(q->lingering && q->kept == CORE_KEPT_OUTCOMES)));
    return may_take(q) || (q->renew && !q->renewing);
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

static void keep(runtime *rt)
{
    storeq *q = &rt->storeq;
    core_kept kept = core_keeps(rt->core);
    if (!kept) return;
    pthread_mutex_lock(&q->lock);
    if (!q->kept) q->kept_us = runtime_until(0);
    q->kept = kept;
    q->wake_wanted = true;
    pthread_mutex_unlock(&q->lock);
}

void storeq_flush(runtime *rt)
{
    storeq *q = &rt->storeq;
    keep(rt);
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

static storejob *take_helping(storeq *q)
{
    pthread_mutex_lock(&q->lock);
    bool may = q->lanes == 1 && !q->renew && q->first && inserts_depend_on(q->first->call);
    storejob *job = may ? take_other(q) : NULL;
    pthread_mutex_unlock(&q->lock);
    return job;
}

static void helped(storeq *q, int64_t from_us, int64_t until_us)
{
    pthread_mutex_lock(&q->lock);
    q->helped_us = until_us;
    q->call_us += (until_us - from_us - q->call_us) / 8;
    pthread_mutex_unlock(&q->lock);
}

bool storeq_help(runtime *rt)
{
    storejob *job = take_helping(&rt->storeq);
    if (!job && fetch(rt)) job = take_helping(&rt->storeq);
    if (!job) return false;
    int64_t from = runtime_until(0);
    answering = true;
    make(rt, job);
    answering = false;
    helped(&rt->storeq, from, runtime_until(0));
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
