/* Workers: who is there, how long, and what becomes of their runs when they are gone. The ticker ends what has waited long enough: claims,
 * leases, groups that nobody needs. It sleeps until the first of these is due. */
#include "server/crew.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define GROUP_IDLE_US (30 * PAWL_SECOND) /* nobody is registered for it */
#define READY_IDLE_US PAWL_SECOND        /* nobody asks: what waits in the engine goes back to the store */

int64_t crew_now(void)
{
    pawl_clock clock = clock_system();
    return clock.boot_us(clock.ctx);
}

static int64_t wall_now(void)
{
    pawl_clock clock = clock_system();
    return clock.wall_us(clock.ctx);
}

/* ---- workers ------------------------------------------------------------------------------------------------------------------ */

worker *crew_find(crew *w, const char *id)
{
    for (map_node *node = map_get(&w->by_id, hash_bytes(id, strlen(id), 0)); node; node = map_next(node)) {
        worker *who = container_of(node, worker, by_id);
        if (strcmp(who->id, id) == 0) return who;
    }
    return NULL;
}

void crew_unknown(call *c)
{
    call_problem(c, 404, "unknown_worker",
                 "there is no worker \"%.40s\": its lease has ended, or the server was restarted. Register again", c->segment);
}

/* What its engines' own leases allow, while it holds anything of theirs. */
static int64_t promised(const worker *who)
{
    int64_t least = who->lease_us;
    for (int i = 0; i < who->groups_count && who->held_count > 0; i++) {
        int64_t left = who->groups[i]->held > 0 ? pawl_lease_left(who->groups[i]->p) : least;
        if (left < least) least = left;
    }
    return least;
}

void crew_seen(worker *who)
{
    int64_t until_us = crew_now() + promised(who);
    if (until_us > who->deadline_us) who->deadline_us = until_us;
    who->seen_us = wall_now();
}

/* Counted from the arrival of the request that is answered: whoever sent it counts from before. */
int64_t crew_lease(const worker *who, int64_t arrived_us)
{
    int64_t until_us = crew_now() + promised(who);
    if (until_us > who->deadline_us || who->held_count == 0) until_us = who->deadline_us;
    return until_us > arrived_us ? until_us - arrived_us : 0;
}

void crew_plan(crew *w, int64_t at_us)
{
    if (at_us >= w->next_us) return;
    w->next_us = at_us;
    pthread_cond_signal(&w->tick);
}

void crew_remove(crew *w, worker *who, pawl_outcome_kind kind, const char *why, crew_after *a)
{
    list_each(node, &who->claims) claim_end(container_of(node, claim, link), a);
    list_each(node, &who->held) after_end(a, container_of(node, held, link), kind, why);
    for (int i = 0; i < who->groups_count; i++) {
        group *g = who->groups[i];
        if (--g->workers == 0) g->asked_us = crew_now(), crew_plan(w, g->asked_us + GROUP_IDLE_US);
    }
    list_remove(&who->link);
    map_remove(&w->by_id, &who->by_id);
    w->workers_count--;
    alloc_free(alloc_default(), who->queues);
    alloc_free(alloc_default(), who->types);
    alloc_free(alloc_default(), who);
}

/* ---- behind the lock ---------------------------------------------------------------------------------------------------------- */

void after_init(crew_after *a)
{
    a->adjust_count = 0;
    list_init(&a->ends);
    list_init(&a->claims);
}

void after_adjust(crew_after *a, const group *g, int by, bool nobody)
{
    size_t i = 0;
    while (i < a->adjust_count && a->adjust[i].p != g->p) i++;
    if (i == GROUPS_MAX) return; /* there are no more groups than that */
    struct crew_adjust *to = &a->adjust[i];
    if (i == a->adjust_count) {
        *to = (struct crew_adjust){.p = g->p};
        memcpy(to->queue, g->queue, sizeof to->queue);
        a->adjust_count++;
    }
    to->by += by;
    to->nobody = to->nobody || nobody;
}

void held_detach(held *h)
{
    if (!h->w) return;
    list_remove(&h->link);
    list_remove(&h->of_claim);
    h->w->held_count--;
    h->w = NULL;
}

void after_end(crew_after *a, held *h, pawl_outcome_kind kind, const char *why)
{
    held_detach(h);
    h->orphan = kind;
    snprintf(h->why, sizeof h->why, "%s", why);
    if (h->busy) return;
    after_adjust(a, h->g, -1, false);
    list_append(&a->ends, &h->link);
}

/* It may be gone before this returns. */
static void end_run(const held *h)
{
    pawl_run *run = h->run;
    pawl_outcome outcome = h->orphan == PAWL_RUN_LOST ? pawl_lost(run, "%s", h->why) : pawl_interrupted(run, "%s", h->why);
    pawl_run_finish(run, outcome, NULL);
}

/* Engines hear first that there are fewer workers: else they would start something in the room that an end makes. */
void after_do(crew *w, crew_after *a)
{
    list *node;
    for (size_t i = 0; i < a->adjust_count; i++) {
        const struct crew_adjust *it = &a->adjust[i];
        if (it->by || it->nobody) pawl_add_workers(it->p, it->queue, it->by, it->nobody, NULL);
    }
    while ((node = list_pop(&a->ends))) end_run(container_of(node, held, link));
    while ((node = list_pop(&a->claims))) claim_answer(w, container_of(node, claim, link));
}

/* ---- the ticker --------------------------------------------------------------------------------------------------------------- */

static void earlier(int64_t *next_us, int64_t at_us)
{
    if (at_us < *next_us) *next_us = at_us;
}

static void look_at_claims(worker *who, int64_t now_us, int64_t *next_us, crew_after *a)
{
    list_each(node, &who->claims) {
        claim *cl = container_of(node, claim, link);
        if (cl->deadline_us <= now_us) claim_end(cl, a);
        else earlier(next_us, cl->deadline_us);
    }
}

static void look_at_workers(crew *w, int64_t now_us, int64_t *next_us, crew_after *a)
{
    char why[128];
    list_each(node, &w->workers) {
        worker *who = container_of(node, worker, link);
        look_at_claims(who, now_us, next_us, a);
        if (who->deadline_us > now_us) {
            earlier(next_us, who->deadline_us);
            continue;
        }
        log_line(&w->s->options.log, who->held_count ? PAWL_WARN : PAWL_INFO,
                 "worker \"%s\" has not been heard of for its lease: %d tasks are given to others", who->name, who->held_count);
        snprintf(why, sizeof why, "worker \"%.80s\" was silent for longer than its lease", who->name);
        crew_remove(w, who, PAWL_RUN_LOST, why, a);
    }
}

/* Answers one to close, or NULL. */
static group *look_at_groups(crew *w, int64_t now_us, int64_t *next_us, crew_after *a)
{
    group *old = NULL;
    list_each(node, &w->groups) {
        group *g = container_of(node, group, link);
        if (!list_empty(&g->claims)) g->asked_us = now_us;
        if (g->ready && list_empty(&g->claims) && g->asked_us + READY_IDLE_US <= now_us) {
            g->ready = false;
            after_adjust(a, g, 0, true);
        } else if (g->ready && list_empty(&g->claims)) {
            earlier(next_us, g->asked_us + READY_IDLE_US);
        }
        if (g->workers > 0 || g->held > 0) continue;
        if (g->asked_us + GROUP_IDLE_US > now_us) earlier(next_us, g->asked_us + GROUP_IDLE_US);
        else old = g;
    }
    return old;
}

/* Somebody may register for it at this very moment: who opens and closes does so one after another. */
static void close_group(crew *w, group *old)
{
    bool found = false;
    pthread_mutex_lock(&w->open_lock);
    pthread_mutex_lock(&w->lock);
    list_each(node, &w->groups) found = found || container_of(node, group, link) == old;
    found = found && old->workers == 0 && old->held == 0;
    if (found) list_remove(&old->link), w->groups_count--;
    pthread_mutex_unlock(&w->lock);
    if (found) group_free(old);
    pthread_mutex_unlock(&w->open_lock);
}

static void sleep_until(crew *w)
{
    struct timespec at;
    if (w->next_us == INT64_MAX) {
        pthread_cond_wait(&w->tick, &w->lock);
        return;
    }
    int64_t left_us = w->next_us - crew_now();
    if (left_us <= 0) return;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t ns = at.tv_nsec + left_us % PAWL_SECOND * 1000;
    at.tv_sec += left_us / PAWL_SECOND + ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&w->tick, &w->lock, &at);
}

static void *tick(void *ctx)
{
    crew *w = ctx;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        int64_t now_us = crew_now(), next_us = INT64_MAX;
        if (w->next_us > now_us) {
            sleep_until(w);
            continue;
        }
        crew_after a;
        after_init(&a);
        look_at_workers(w, now_us, &next_us, &a);
        group *old = look_at_groups(w, now_us, &next_us, &a);
        w->next_us = old ? now_us : next_us;
        pthread_mutex_unlock(&w->lock);
        after_do(w, &a);
        if (old) close_group(w, old);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- birth and death ---------------------------------------------------------------------------------------------------------- */

crew *crew_new(server *s, pawl_error *err)
{
    crew *w = alloc_new(alloc_default(), sizeof *w);
    pthread_condattr_t monotonic;
    if (!w) {
        err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
        return NULL;
    }
    w->s = s;
    w->next_us = INT64_MAX;
    list_init(&w->workers);
    list_init(&w->groups);
    map_init(&w->by_id, alloc_default());
    map_init(&w->tasks, alloc_default());
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->open_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->tick, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->ticking = pthread_create(&w->ticker, NULL, tick, w) == 0;
    if (w->ticking) return w;
    err_set(err, PAWL_UNAVAILABLE, "could not start the thread that watches workers");
    crew_free(w);
    return NULL;
}

void crew_drain(crew *w)
{
    crew_after a;
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    w->draining = true;
    list_each(node, &w->workers) {
        worker *who = container_of(node, worker, link);
        list_each(at, &who->claims) claim_end(container_of(at, claim, link), &a);
    }
    pthread_mutex_unlock(&w->lock);
    after_do(w, &a);
}

int crew_workers(crew *w)
{
    pthread_mutex_lock(&w->lock);
    int count = w->workers_count;
    pthread_mutex_unlock(&w->lock);
    return count;
}

int crew_held(crew *w)
{
    pthread_mutex_lock(&w->lock);
    int count = w->held_count;
    pthread_mutex_unlock(&w->lock);
    return count;
}

static void give_all_back(crew *w)
{
    crew_after a;
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    while (!list_empty(&w->workers))
        crew_remove(w, container_of(w->workers.next, worker, link), PAWL_RUN_INTERRUPTED, "the server was stopped", &a);
    pthread_mutex_unlock(&w->lock);
    after_do(w, &a);
}

void crew_free(crew *w)
{
    list *node;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->tick);
    pthread_mutex_unlock(&w->lock);
    if (w->ticking) pthread_join(w->ticker, NULL);
    give_all_back(w);
    while ((node = list_pop(&w->groups))) group_free(container_of(node, group, link));
    map_done(&w->by_id);
    map_done(&w->tasks);
    pthread_cond_destroy(&w->tick);
    pthread_mutex_destroy(&w->open_lock);
    pthread_mutex_destroy(&w->lock);
    alloc_free(alloc_default(), w);
}
