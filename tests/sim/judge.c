/* The judge: a model of what the store must hold, moved forward by what the store was seen to do, and the promises checked
 * against it.
 *
 * It sees every call when core sends it, when its effect happens at the store (whatever the node is told about it later), and
 * when its answer arrives; every start, stop and end of a run; every answer to a caller. So it knows what is true, and holds
 * both sides to it: the store to the contract, core to the promises. */
#include "judge.h"
#include <string.h>

/* ---- finding things -------------------------------------------------------------------------------------------------------- */

judge *judge_new(sim *s)
{
    judge *j = sim_alloc(s, sizeof *j);
    j->sim = s;
    map_init(&j->by_id, alloc_default());
    list_init(&j->tasks);
    list_init(&j->nodes);
    list_init(&j->receipts);
    return j;
}

void judge_free(judge *j) { map_done(&j->by_id); }

mtask *judge_task(const judge *j, pawl_id id)
{
    map_node *node = map_get(&j->by_id, (uint64_t)id);
    return node ? container_of(node, mtask, by_id) : NULL;
}

mnode *judge_node(const judge *j, int64_t id)
{
    for (list *node = j->nodes.next; node != &j->nodes; node = node->next) {
        mnode *n = container_of(node, mnode, link);
        if (n->id == id) return n;
    }
    return NULL;
}

int judge_alias(const sim *s, pawl_id id)
{
    mtask *t = s->judge ? judge_task(s->judge, id) : NULL;
    return t ? t->alias : 0;
}

static mtask *live_with_key(judge *j, int key, pawl_id except)
{
    list_each(node, &j->tasks) {
        mtask *t = container_of(node, mtask, link);
        if (t->key == key && t->id != except && !pawl_state_terminal(t->state)) return t;
    }
    return NULL;
}

mtask *judge_add_task(judge *j, pawl_id id, int ask_number)
{
    sim *s = j->sim;
    mtask *t = sim_alloc(s, sizeof *t);
    item *i = &s->items[s->asks[ask_number].item];
    t->id = id;
    t->alias = ++j->count;
    t->ask = ask_number;
    t->key = i->key;
    t->queue = i->queue;
    t->state = PAWL_PENDING;
    if (t->key >= 0 && live_with_key(j, t->key, id)) broken(s, "keys", "%s is a second live task of its key", trace_id(s, id));
    map_put(&j->by_id, &t->by_id, (uint64_t)id);
    list_append(&j->tasks, &t->link);
    j->unfinished++;
    s->stats[STAT_TASKS]++;
    return t;
}

int judge_unfinished(const sim *s) { return s->judge->unfinished; }
bool judge_paused(const sim *s, int queue) { return s->judge->paused[queue]; }

int judge_leases(const sim *s)
{
    int count = 0;
    list_each(node, &s->judge->tasks) count += container_of(node, mtask, link)->state == PAWL_LEASED;
    return count;
}

pawl_id judge_some_task(sim *s)
{
    if (s->judge->count == 0) return 0;
    int64_t alias = between(s, 1, s->judge->count);
    list_each(node, &s->judge->tasks) {
        mtask *t = container_of(node, mtask, link);
        if (t->alias == alias) return t->id;
    }
    return 0;
}

/* ---- moving the model ------------------------------------------------------------------------------------------------------ */

void judge_move(judge *j, mtask *t, pawl_state to)
{
    j->unfinished -= !pawl_state_terminal(t->state) && pawl_state_terminal(to);
    if (pawl_state_terminal(t->state)) {
        broken(j->sim, "a finished task stays finished", "%s was %s and became %s", trace_id(j->sim, t->id),
               pawl_state_name(t->state), pawl_state_name(to));
    }
    t->state = to;
    if (t->holds && to != PAWL_LEASED) judge_place_left(j, t);
    if (to != PAWL_LEASED) {
        t->node = 0;
        t->not_started = t->marked = false;
    }
}

/* A lease was granted: to a living node, of a queue that is not paused, under a fence never seen before. */
void judge_grant(judge *j, mtask *t, mnode *n, int64_t fence, int64_t at_us)
{
    sim *s = j->sim;
    if (t->state == PAWL_LEASED) broken(s, "one holder (2)", "%s is leased twice", trace_id(s, t->id));
    if (!n || n->dead) broken(s, "one holder (2)", "%s is leased to a dead node", trace_id(s, t->id));
    if (fence <= t->fence)
        broken(s, "fences rise (2)", "%s got fence %lld after %lld", trace_id(s, t->id), (long long)fence, (long long)t->fence);
    if (j->paused[t->queue]) broken(s, "a paused queue starts nothing", "%s is leased", trace_id(s, t->id));
    judge_move(j, t, PAWL_LEASED);
    t->node = n->id;
    t->fence = fence;
    if (at_us + n->lease_us > n->expires_us) n->expires_us = at_us + n->lease_us;
    judge_place_granted(j, t);
}

/* What the store itself says about a task must be what the model says. The fence of a lease that was taken back is the store's to
 * choose, as long as it is new. */
static void compare(judge *j, mtask *t)
{
    sim *s = j->sim;
    pawl_state state = PAWL_STATE_NONE;
    int64_t fence = 0;
    if (s->rows) {
        rowstore_peek(s->rowstore, t->id, &state, &fence);
    } else {
        pawl_query query = {.kind = PAWL_QUERY_STATE, .id = t->id};
        if (s->observer->type->read(s->observer, &query, NULL, NULL) == PAWL_OK) state = query.state, fence = query.fence;
    }
    if (t->fence_raised && fence <= t->fence) {
        broken(s, "fences rise (2)", "the lease of %s was taken back but its fence is still %lld", trace_id(s, t->id),
               (long long)fence);
    }
    if (state != t->state || (!t->fence_raised && fence != t->fence)) {
        broken(s, "nothing acked is lost (1)", "%s should be %s with fence %lld, the store says %s with fence %lld",
               trace_id(s, t->id), pawl_state_name(t->state), (long long)t->fence,
               state ? pawl_state_name(state) : "there is no such task", (long long)fence);
    }
    t->fence = fence;
    t->fence_raised = false;
}

void judge_touched(judge *j, mtask *t)
{
    for (int i = 0; i < j->touched_count; i++) {
        if (j->touched[i] == t) return;
    }
    if (j->touched_count == TOUCHED_MAX) broken(j->sim, "a bounded batch", "more than %d tasks in one call", TOUCHED_MAX);
    j->touched[j->touched_count++] = t;
}

/* ---- calls other than batches ---------------------------------------------------------------------------------------------- */

static void registered(judge *j, wire *w)
{
    sim *s = j->sim;
    const pawl_registration *r = &w->call.u.registration;
    if (judge_node(j, r->node)) broken(s, "a node's id is new", "node %lld registered twice", (long long)r->node);
    mnode *n = sim_alloc(s, sizeof *n);
    n->id = r->node;
    n->lease_us = r->lease_us;
    n->session = w->session;
    n->index = w->node_index;
    n->life = w->life;
    list_append(&j->nodes, &n->link);
}

static void left(judge *j, int64_t node)
{
    mnode *n = judge_node(j, node);
    if (n && judge_held(j, node) == 0) n->dead = true;
}

int64_t judge_held(const judge *j, int64_t node)
{
    int64_t count = 0;
    list_each(link, &j->tasks) {
        const mtask *t = container_of(link, mtask, link);
        count += t->state == PAWL_LEASED && t->node == node;
    }
    return count;
}

static void claimed_one(judge *j, wire *w, pawl_claim *c, pawl_claimed *got)
{
    sim *s = j->sim;
    mtask *t = judge_task(j, got->body->id);
    if (!t) broken(s, "nothing unexpected", "a claim brought a task that nobody stored: %s", trace_id(s, got->body->id));
    if (t->state != PAWL_PENDING)
        broken(s, "one holder (2)", "%s was claimed while %s", trace_id(s, t->id), pawl_state_name(t->state));
    if (t->run_at_us > c->news.store_now_us)
        broken(s, "never early", "%s was claimed %lld us before its time", trace_id(s, t->id),
               (long long)(t->run_at_us - c->news.store_now_us));
    if (strcmp(queue_names[t->queue], c->wants[got->want].queue))
        broken(s, "queues", "%s was claimed for another queue", trace_id(s, t->id));
    if (got->suspect != t->suspect)
        broken(s, "poison", "%s: suspect %d, should be %d", trace_id(s, t->id), got->suspect, t->suspect);
    judge_grant(j, t, judge_node(j, c->node), got->fence, w->began_us);
    if (s->plan.limits) judge_right_claimed(j, t, got, w);
    t->not_started = got->not_started;
    t->solo = got->solo;
    judge_touched(j, t);
    NOTE(s, w->node, "claimed %t fence %d%s%s%s", t->id, t->fence, TEXT(t->suspect ? ", suspect" : ""),
         TEXT(t->solo ? ", solo" : ""), TEXT(t->not_started ? ", not started" : ""));
}

static void claimed(judge *j, wire *w, pawl_claim *c)
{
    mnode *n = judge_node(j, c->node);
    if (c->news.node_dead != n->dead)
        broken(j->sim, "one holder (2)", "a claim says dead %d of a node that is %d", c->news.node_dead, n->dead);
    for (int i = 0; i < c->tasks_count; i++) claimed_one(j, w, c, &c->tasks[i]);
    for (int i = 0; i < c->wants_count; i++) {
        if (c->wants[i].got > c->wants[i].free + c->wants[i].prefetch)
            broken(j->sim, "memory is bounded (7)", "a claim brought too many");
    }
}

static void renewed(judge *j, wire *w, pawl_renewal *r)
{
    mnode *n = judge_node(j, r->node);
    if (r->news.node_dead != n->dead)
        broken(j->sim, "one holder (2)", "a renewal says dead %d of a node that is %d", r->news.node_dead, n->dead);
    if (n->dead) return;
    int64_t expires = w->began_us + n->lease_us;
    if (expires > n->expires_us) n->expires_us = expires;
}

/* Which of the victim's tasks died under a start mark decides who is blamed. */
static void declare_dead(judge *j, mnode *victim, const pawl_rescue *r)
{
    victim->dead = true;
    victim->counts = r->counts;
    victim->marked = 0;
    list_each(link, &j->tasks) {
        mtask *t = container_of(link, mtask, link);
        victim->marked += t->state == PAWL_LEASED && t->node == victim->id && t->marked;
    }
}

static void rescued_one(judge *j, wire *w, mnode *victim, mtask *t)
{
    sim *s = j->sim;
    if (t->state != PAWL_LEASED || t->node != victim->id)
        broken(s, "one holder (2)", "%s was rescued from a node that had no lease on it", trace_id(s, t->id));
    bool counts = t->marked && victim->marked == 1 && victim->counts;
    if (t->marked && victim->marked > 1) t->solo = true;
    t->counted += counts;
    t->suspect = true;
    t->rescues++;
    pawl_state to = t->cancel_asked ? PAWL_CANCELLED : counts && t->counted >= 3 ? PAWL_FAILED : PAWL_PENDING;
    NOTE(s, w->node, "rescued %t from node %d: %s, counted %d, marked %d of %d", t->id, victim->id, TEXT(pawl_state_name(to)),
         t->counted, t->marked, victim->marked);
    s->stats[STAT_RESCUES]++;
    s->stats[STAT_POISONED] += to == PAWL_FAILED;
    judge_move(j, t, to);
    judge_right_drop(j, t);
    t->run_at_us = 0;
    t->fence_raised = true;
    judge_touched(j, t);
}

static void rescued(judge *j, wire *w, pawl_rescue *r)
{
    sim *s = j->sim;
    mnode *victim = judge_node(j, r->victim);
    if (r->refused) return;
    bool gone = victim->dead || !victim->session->open;
    if (!gone && victim->expires_us > s->now) {
        broken(s, "one holder (2)", "node %lld was rescued while its lease was good for %lld us", (long long)victim->id,
               (long long)(victim->expires_us - s->now));
    }
    if (!victim->dead) declare_dead(j, victim, r);
    for (int i = 0; i < r->freed + r->failed; i++) {
        mtask *t = judge_task(j, r->tasks[i].id);
        if (!t) broken(s, "nothing unexpected", "a rescue freed a task that nobody stored");
        rescued_one(j, w, victim, t);
    }
}

void judge_executed(wire *w)
{
    judge *j = w->sim->judge;
    core_call *call = &w->call;
    j->touched_count = 0;
    j->clock_us = w->at_us;
    if (call->status != PAWL_OK) {
        judge_refused(j, w);
        return;
    }
    switch (call->kind) {
    case CORE_REGISTER: registered(j, w); break;
    case CORE_LEAVE: left(j, call->u.leave); break;
    case CORE_APPLY: judge_applied(j, w, &call->u.batch); break;
    case CORE_CLAIM: claimed(j, w, &call->u.claim); break;
    case CORE_RENEW: renewed(j, w, &call->u.renewal); break;
    case CORE_RESCUE: rescued(j, w, &call->u.rescue); break;
    default: break;
    }
    for (int i = 0; i < j->touched_count; i++) compare(j, j->touched[i]);
    judge_places(j);
}

/* ---- the end --------------------------------------------------------------------------------------------------------------- */

static void compare_info(judge *j, mtask *t, pawl_arena *arena)
{
    sim *s = j->sim;
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = t->id};
    arena_reset(arena);
    if (s->observer->type->read(s->observer, &query, arena, NULL))
        broken(s, "nothing acked is lost (1)", "%s cannot be read", trace_id(s, t->id));
    const pawl_info *info = query.info;
    if (info->failures != t->failures || info->rescues != t->rescues || info->interruptions != t->interruptions) {
        broken(s, "nothing happens twice", "%s: %d failures, %d rescues, %d interruptions stored; there were %d, %d, %d",
               trace_id(s, t->id), info->failures, info->rescues, info->interruptions, t->failures, t->rescues, t->interruptions);
    }
}

/* The store has what the model has and nothing else. */
static void count_all(judge *j, pawl_arena *arena)
{
    sim *s = j->sim;
    int count = 0;
    pawl_filter filter = {.limit = 1000};
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter, .deadline_us = INT64_MAX};
    arena_reset(arena);
    if (s->observer->type->read(s->observer, &query, arena, NULL))
        broken(s, "nothing acked is lost (1)", "tasks cannot be listed");
    count = (int)query.page->count;
    if (count != j->count && !query.page->next) broken(s, "nothing unexpected", "%d tasks are stored, %d were", count, j->count);
}

void judge_final(sim *s)
{
    judge *j = s->judge;
    list_each(node, &j->tasks) compare(j, container_of(node, mtask, link));
    for (int i = 0; i < s->asks_count; i++) {
        const ask *a = &s->asks[i];
        if (a->kind == PAWL_OP_INSERT && a->answered && a->status == PAWL_OK && a->out_id && !judge_task(j, a->out_id)) {
            broken(s, "nothing acked is lost (1)", "ask %d was answered with a task that is not there", i);
        }
    }
    const int64_t *n = s->stats;
    if (n[STAT_SLOTS] != n[STAT_SLOTS_USED] + n[STAT_SLOTS_BACK] + n[STAT_SLOTS_LOST])
        broken(s, "no slot serves twice", "%lld were taken, %lld used, %lld given back, %lld lost", (long long)n[STAT_SLOTS],
               (long long)n[STAT_SLOTS_USED], (long long)n[STAT_SLOTS_BACK], (long long)n[STAT_SLOTS_LOST]);
    if (s->rows) return;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    list_each(node, &j->tasks) compare_info(j, container_of(node, mtask, link), arena);
    count_all(j, arena);
    arena_free(arena);
}
