/* The judge on cores: what they send, what they start, what they tell callers and handlers. */
#include "judge.h"
#include <string.h>

/* ---- what is sent ---------------------------------------------------------------------------------------------------------- */

static const char *key_of(const judge *j, const pawl_op *op)
{
    if (op->kind == PAWL_OP_INSERT) return op->u.insert.body->key;
    bool unknown =
        op->kind == PAWL_OP_RELEASE && op->u.release.run.outcome == PAWL_ATTEMPT_NONE; /* perhaps it never saw the body */
    mtask *t = (op->kind <= PAWL_OP_PROGRESS || op->kind == PAWL_OP_RESERVE) && !unknown ? judge_task(j, op->id) : NULL;
    return t && t->key >= 0 ? key_names[t->key] : NULL;
}

/* A task can be claimed and run before the answer to its insert is here: that meeting is harmless. */
static bool fresh(const pawl_op *op) { return op->kind == PAWL_OP_INSERT && !op->u.insert.may_exist; }

static bool same(const judge *j, const pawl_op *a, const pawl_op *b)
{
    const char *ka = key_of(j, a), *kb = key_of(j, b);
    if (a->kind == PAWL_OP_QUEUE && b->kind == PAWL_OP_QUEUE) return strcmp(a->u.queue.queue, b->u.queue.queue) == 0;
    if (a->kind == PAWL_OP_BOUND || b->kind == PAWL_OP_BOUND) return false;
    if (a->kind == PAWL_OP_LIMIT && b->kind == PAWL_OP_LIMIT) return strcmp(a->u.limit.type, b->u.limit.type) == 0;
    if (a->id && a->id == b->id) return !fresh(a) && !fresh(b);
    return ka && kb && strcmp(ka, kb) == 0;
}

/* Of all that is in flight there is at most one operation per task, per key and per queue. */
static void check_alone(sim_node *n, const pawl_batch *b, int at, const pawl_batch *other, int from)
{
    const judge *j = n->sim->judge;
    for (int i = from; i < other->count; i++) {
        if (same(j, b->ops[at], other->ops[i])) {
            broken(n->sim, "one operation per task, key and queue", "two operations in flight about %s, kinds %d and %d",
                   trace_id(n->sim, b->ops[at]->id), b->ops[at]->kind, other->ops[i]->kind);
        }
    }
}

static void sent_batch(sim_node *n, const core_call *call)
{
    const pawl_batch *b = &call->u.batch;
    for (int i = 0; i < b->count; i++) {
        check_alone(n, b, i, b, i + 1);
        for (int lane = 0; lane < LANES_MAX; lane++) {
            wire *w = lane == call->lane ? NULL : n->calls[CORE_APPLY][lane];
            if (w) check_alone(n, b, i, &w->call.u.batch, 0);
        }
    }
}

static int64_t third(const sim_node *n)
{
    return n->lease_us / 3 > 250 * PAWL_MILLISECOND ? n->lease_us / 3 : 250 * PAWL_MILLISECOND;
}

static sighting *sighting_of(judge *j, const sim_node *n, int64_t victim)
{
    if (j->sightings_life[n->index] != n->life) {
        j->sightings_life[n->index] = n->life;
        j->sightings_count[n->index] = 0;
    }
    for (int i = 0; i < j->sightings_count[n->index]; i++) {
        if (j->sightings[n->index][i].victim == victim) return &j->sightings[n->index][i];
    }
    return NULL;
}

/* Nobody is rescued who was not seen dead, or lapsed and unchanged in two renewals of one's own a third of a lease apart. */
static void sent_rescue(sim_node *n, const pawl_rescue *r)
{
    sighting *seen = sighting_of(n->sim->judge, n, r->victim);
    if (!seen) broken(n->sim, "nobody rescues the living", "node %lld is rescued unseen", (long long)r->victim);
    if (seen->proven) return;
    if (r->counts && n->sim->now - n->trouble_at < n->lease_us) {
        broken(n->sim, "after an outage nobody is blamed", "node %lld is rescued and counted %lld us after the store failed",
               (long long)r->victim, (long long)(n->sim->now - n->trouble_at));
    }
    if (seen->renewal == r->renewal && seen->last_us - seen->first_us < third(n)) { /* an older number the store refuses */
        broken(n->sim, "nobody rescues the living",
               "node %lld is rescued, seen lapsed for %lld us, a third of a lease is %lld us", (long long)r->victim,
               (long long)(seen->last_us - seen->first_us), (long long)third(n));
    }
}

void judge_sent(sim_node *n, const core_call *call)
{
    if (call->kind == CORE_APPLY) sent_batch(n, call);
    if (call->kind == CORE_RESCUE) sent_rescue(n, &call->u.rescue);
}

static void look(sim_node *n, const pawl_lapsed *l, bool renewal)
{
    judge *j = n->sim->judge;
    sighting *seen = sighting_of(j, n, l->node);
    if (!seen) {
        if (j->sightings_count[n->index] == SIGHTINGS_MAX) j->sightings_count[n->index] = 0;
        seen = &j->sightings[n->index][j->sightings_count[n->index]++];
        *seen = (sighting){.victim = l->node, .renewal = -1};
    }
    seen->proven |= l->proven_dead;
    if (!renewal) return;
    if (seen->renewal != l->renewal) seen->first_us = n->sim->now;
    seen->renewal = l->renewal;
    seen->last_us = n->sim->now;
}

static void look_for_cancel(sim_node *n, const pawl_lease *lease)
{
    list_each(node, &n->runs) {
        sim_run *run = container_of(node, sim_run, link);
        run->cancel_known |= run->id == lease->id && run->fence == lease->fence;
    }
}

static void look_for_pauses(sim_node *n, const pawl_claim *c)
{
    for (int i = 0; i < c->wants_count && !c->news.node_dead; i++) {
        for (int q = 0; q < QUEUES; q++) {
            if (strcmp(queue_names[q], c->wants[i].queue) == 0) n->knows_paused[q] = c->wants[i].paused;
        }
    }
}

/* Slots that a node hears of. */
static void look_for_slots(sim_node *n, const wire *w)
{
    judge *j = n->sim->judge;
    const pawl_claim *c = w->call.kind == CORE_CLAIM ? &w->call.u.claim : NULL;
    const pawl_batch *b = w->call.kind == CORE_APPLY ? &w->call.u.batch : NULL;
    for (int i = 0; c && i < c->tasks_count; i++) judge_right_told(j, c->tasks[i].body->id, c->tasks[i].fence, w);
    for (int i = 0; b && i < b->count; i++) {
        const pawl_op *op = b->ops[i];
        if (op->kind == PAWL_OP_RESERVE) judge_right_told(j, op->id, op->fence, w);
        if (op->kind == PAWL_OP_INSERT && op->out_fence) judge_right_told(j, op->out_id, op->out_fence, w);
    }
}

void judge_delivered(sim_node *n, const wire *w)
{
    if (n->sim->plan.limits) look_for_slots(n, w);
    bool renewal = w->call.kind == CORE_RENEW;
    if (w->call.kind == CORE_CLAIM) look_for_pauses(n, &w->call.u.claim);
    const pawl_news *news = renewal ? &w->call.u.renewal.news : w->call.kind == CORE_CLAIM ? &w->call.u.claim.news : NULL;
    for (int i = 0; news && i < news->lapsed_count; i++) look(n, &news->lapsed[i], renewal);
    for (int i = 0; news && i < news->cancels_count; i++) look_for_cancel(n, &news->cancels[i]);
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------ */

static bool behind(const sim_node *n) { return n->asleep || n->sim->now - n->woke_at < 10 * PAWL_MILLISECOND; }

/* No run of the task goes on anywhere else, unless it was told that its lease is lost (or its process sleeps). */
static void check_overlap(sim_node *n, const mtask *t)
{
    sim *s = n->sim;
    for (int i = 0; i < s->plan.nodes; i++) {
        sim_node *m = &s->nodes[i];
        if (!m->up) continue;
        list_each(node, &m->runs) {
            sim_run *run = container_of(node, sim_run, link);
            if (run->id != t->id || run->ended || run->waiting) continue;
            if (m == n)
                broken(s, "an id runs once in a process", "%s starts under fence %lld while it runs under %lld",
                       trace_id(s, t->id), (long long)t->fence, (long long)run->fence);
            s->stats[STAT_OVERLAPS]++;
            if (!run->told_lost && !behind(m)) {
                broken(s, "no two executions overlap (2)",
                       "%s starts under fence %lld while node %d runs it under %lld and was not told", trace_id(s, t->id),
                       (long long)t->fence, m->index, (long long)run->fence);
            }
        }
    }
}

static void check_suspects(sim_node *n, const mtask *t)
{
    judge *j = n->sim->judge;
    if (!t->suspect) return;
    if (!t->marked) broken(n->sim, "poison", "suspect %s starts without a start mark", trace_id(n->sim, t->id));
    list_each(node, &n->runs) {
        sim_run *run = container_of(node, sim_run, link);
        mtask *other = judge_task(j, run->id);
        if (run->ended || run->waiting || !other->suspect || other->fence != run->fence) continue;
        if (t->solo || other->solo)
            broken(n->sim, "poison", "%s and %s run side by side, one of them must run alone", trace_id(n->sim, t->id),
                   trace_id(n->sim, other->id));
    }
}

void judge_run(sim_node *n, core_task *task)
{
    sim *s = n->sim;
    judge *j = s->judge;
    mtask *t = judge_task(j, task->body->id);
    if (!t) broken(s, "nothing unexpected", "a task runs that nobody stored");
    mnode *holder = t->node ? judge_node(j, t->node) : NULL;
    if (!n->started || n->draining || n->stopping) broken(s, "a drained node starts nothing", "%s starts", trace_id(s, t->id));
    if (t->state != PAWL_LEASED || t->fence != task->fence || !holder || holder->index != n->index || holder->life != n->life) {
        broken(s, "runs need a lease (2)", "%s starts under fence %lld; it is %s with fence %lld of node %lld",
               trace_id(s, t->id), (long long)task->fence, pawl_state_name(t->state), (long long)t->fence, (long long)t->node);
    }
    if (holder->dead || holder->expires_us <= s->now) {
        broken(s, "nothing starts past the lease (2)", "%s starts %lld us after the lease of node %lld ran out",
               trace_id(s, t->id), (long long)(s->now - holder->expires_us), (long long)holder->id);
    }
    if (n->knows_paused[t->queue])
        broken(s, "a paused queue starts nothing", "%s starts though its node knows", trace_id(s, t->id));
    if (t->not_started) broken(s, "a lease that can be taken back does not run", "%s starts", trace_id(s, t->id));
    if (t->started_fence == task->fence)
        broken(s, "one run per lease (2)", "%s runs twice under fence %lld", trace_id(s, t->id), (long long)task->fence);
    if (ask_of_body(s, task->body) != t->ask) broken(s, "keys", "%s runs with a body that was replaced", trace_id(s, t->id));
    check_overlap(n, t);
    check_suspects(n, t);
    judge_right_used(n, t, task);
    t->started_fence = task->fence;
}

void judge_ended(sim_node *n, sim_run *run)
{
    mtask *t = judge_task(n->sim->judge, run->id);
    if (t->started_fence != run->fence) return; /* somebody else runs it by now */
    t->ended_fence = run->fence;
    t->ended_kind = run->outcome.outcome.kind;
    t->ended_told = run->told_all;
    const core_task *c = run->task;
    if (c->timeout_us > 0 && node_time(n).mono_us >= c->started_mono_us + c->timeout_us) t->ended_told |= 1u << PAWL_STOP_TIMEOUT;
}

void judge_settled(sim_node *n, sim_run *run, core_settled how)
{
    sim *s = n->sim;
    mtask *t = judge_task(s->judge, run->id);
    const verdict *v = t->verdicts;
    if (!run->ended) broken(s, "a run is settled after it ended", "%s is settled while it runs", trace_id(s, run->id));
    while (v && v->fence != run->fence) v = v->next;
    core_settled right = v ? v->how : CORE_SETTLED_LOST;
    if (how != right) {
        broken(s, "what hooks are told is true", "%s fence %lld is settled as %d, committed was %d (7: nothing)",
               trace_id(s, run->id), (long long)run->fence, how, right);
    }
}

/* ---- callers --------------------------------------------------------------------------------------------------------------- */

static void check_answer(sim *s, const core_request *r, const pawl_op *op, ask *a, int number)
{
    if (r->status == PAWL_OK) {
        if (!a->committed) broken(s, "an ack is a promise (1)", "ask %d is answered OK and nothing is committed", number);
        if (a->result != op->result)
            broken(s, "answers are true", "ask %d is answered %d, committed was %d", number, op->result, a->result);
        if (op->kind == PAWL_OP_INSERT && a->out_id != op->out_id)
            broken(s, "answers are true", "ask %d is answered with another task", number);
    } else if (r->status != PAWL_UNKNOWN && a->committed) {
        broken(s, "an error means nothing happened (1)", "ask %d is answered \"%s\" and was committed", number,
               pawl_status_name(r->status));
    }
}

void judge_answer(sim_node *n, sim_request *r)
{
    sim *s = n->sim;
    if (r->answered) broken(s, "every caller is answered once", "ask %d is answered again", r->asks[0]);
    for (int i = 0; i < r->count; i++) {
        ask *a = &s->asks[r->asks[i]];
        check_answer(s, r->request, &r->request->ops[i], a, r->asks[i]);
        a->answered = true;
        a->status = r->request->status;
        if (a->kind == PAWL_OP_QUEUE && a->status == PAWL_OK) n->knows_paused[a->queue] = a->pause;
        if (a->status == PAWL_UNKNOWN && a->kind == PAWL_OP_INSERT && !r->one_shot && !r->request->ops[i].id) {
            broken(s, "an unknown outcome carries the id (1)", "ask %d has none", r->asks[i]);
        }
    }
}

/* ---- after every step ------------------------------------------------------------------------------------------------------ */

#define LATE_US (20 * PAWL_MILLISECOND) /* how late a timer may be */

/* What a run should have been told by now. */
static void check_told(sim_node *n, const sim_run *run)
{
    sim *s = n->sim;
    const core_task *t = run->task;
    const mtask *m = judge_task(s->judge, run->id);
    const mnode *holder = m->node ? judge_node(s->judge, m->node) : NULL;
    bool rescued = m->fence != run->fence || !holder || holder->dead, lapsed = holder && s->now > holder->expires_us + LATE_US;
    if (run->ended || run->told || behind(n)) return;
    if (run->cancel_known) broken(s, "a cancel reaches its run", "the run of %s was not told", trace_id(s, run->id));
    if (t->timeout_us > 0 && node_time(n).mono_us > t->started_mono_us + t->timeout_us + LATE_US) {
        broken(s, "timeouts", "the run of %s was not told", trace_id(s, run->id));
    }
    if (rescued || lapsed) broken(s, "a run that lost its lease is told (2)", "the run of %s was not", trace_id(s, run->id));
}

void judge_step(sim_node *n)
{
    core_queue_numbers numbers;
    list_each(node, &n->runs) check_told(n, container_of(node, sim_run, link));
    for (int i = 0; i < core_queues(n->core); i++) {
        core_queue_get(n->core, i, &numbers);
        for (int q = 0; q < QUEUES; q++) {
            if (strcmp(numbers.name, queue_names[q])) continue;
            if (node_runs(n, q) > n->workers[q])
                broken(n->sim, "workers are bounded", "queue %s: %d runs, %d workers", numbers.name, node_runs(n, q),
                       n->workers[q]);
            if (numbers.ready > n->workers[q] + n->capacity[q]) {
                broken(n->sim, "memory is bounded (7)", "queue %s holds %d ready tasks with %d workers and capacity %d",
                       numbers.name, numbers.ready, n->workers[q], n->capacity[q]);
            }
        }
    }
}
