/* The node: its registration and ids, its lease and own deadline, reconciliation, rescue, retention, leaving.
 *
 * The deadline. Every commit that grants leases and every renewal writes the node's heartbeat. The node counts from the moment before
 * it sent that, so its own deadline is never later than the store's. Past it nothing starts and the runs are told; their outcomes are
 * kept and offered, and the fences decide.
 *
 * Reconciliation. Whenever the store and we may disagree about what we hold (a claim without an answer, a renewal after the deadline,
 * counts that differ twice in a row, an outage), the store is asked. What it has and we do not know of at two readings a third of a
 * lease apart is released by fence. What we have and it does not is lost.
 *
 * Rescue. A node that the store proves dead is rescued at once. One that has merely lapsed is rescued after we have renewed twice, a
 * third of a lease apart, and saw its renewal number unchanged both times: after an outage nobody rescues the living.
 */
#include "core/engine.h"
#include <string.h>

#define IDS_AHEAD_MS (10 * 60 * 1000)
#define SWEEP_ROWS 500
#define SWEEP_STEP_US (50 * PAWL_MILLISECOND)
#define SWEEP_LEAST_US PAWL_MINUTE
#define SWEEP_MOST_US PAWL_HOUR

static int64_t third(const core *c)
{
    int64_t t = c->config.lease_us / 3;
    return t < 250 * PAWL_MILLISECOND ? 250 * PAWL_MILLISECOND : t;
}

static void call_failed(core *c) { engine_timer(c, &c->call_timer, c->now.mono_us + engine_backoff(c, c->call_tries++)); }

/* ---- registration, ids, leaving -------------------------------------------------------------------------------------------------- */

static bool needs_node(const core *c)
{
    if (c->node || c->config.one_shot || c->mode == MODE_LEAVING) return false;
    return c->mode == MODE_STARTED || batch_gathered(c);
}

static void send_registration(core *c)
{
    bool serves = c->mode == MODE_STARTED;
    c->serving = serves;
    c->reg.u.registration = (pawl_registration){.name = c->node_name,
                                                .pid = c->config.pid,
                                                .queues = serves ? c->queues_csv : "",
                                                .types = serves ? c->types_csv : "",
                                                .lease_us = c->config.lease_us,
                                                .outlives = c->config.outlives};
    engine_call(c, &c->reg);
}

void lease_registered(core *c)
{
    if (c->reg.status != PAWL_OK) {
        call_failed(c);
        return;
    }
    c->call_tries = 0;
    c->node = c->reg.u.registration.node;
    c->deadline_us = 0;
    if (c->mode == MODE_STARTED && !c->serving) { /* started while it was on its way */
        c->old_node = c->node;
        c->node = 0;
    }
}

static void send_ids(core *c, bool give_back)
{
    int64_t now_ms = c->now.wall_us / 1000 - PAWL_EPOCH_MS; /* this node's clock may be ahead of the store's */
    c->ids_call.u.ids = (pawl_ids){.node = c->node,
                                   .number = c->ids.number,
                                   .ahead_ms = IDS_AHEAD_MS,
                                   .used_ms = give_back || c->ids.ms > now_ms ? c->ids.ms : now_ms,
                                   .give_back = give_back};
    engine_call(c, &c->ids_call);
}

void lease_ids(core *c)
{
    const pawl_ids *got = &c->ids_call.u.ids;
    if (got->give_back) {
        c->ids.number = 0; /* if that failed, the number comes free with its ceiling */
        return;
    }
    if (c->ids_call.status != PAWL_OK) {
        call_failed(c);
        return;
    }
    c->call_tries = 0;
    if (got->node != c->node) return; /* taken by a node we are no longer */
    c->ids_wanted = false;
    idgen_take(&c->ids, got->out_number, got->floor_ms, got->ceiling_ms);
    if (idgen_room(&c->ids, c->now.wall_us / 1000 - PAWL_EPOCH_MS) <= 0) call_failed(c);
}

static void send_leave(core *c, int64_t node)
{
    c->leave.u.leave = node;
    engine_call(c, &c->leave);
}

void lease_left(core *c)
{
    if (c->leave.u.leave == c->old_node) c->old_node = 0;
    if (c->leave.u.leave == c->node) c->node = 0;
}

static void send_membership(core *c)
{
    if (heap_has(&c->call_timer.node)) return;
    if (needs_node(c) && !c->reg.busy) send_registration(c);
    if (c->old_node && !c->leave.busy) send_leave(c, c->old_node);
    if (c->mode == MODE_LEAVING) {
        if (!c->node || c->leave.busy || c->ids_call.busy) return;
        if (c->ids.number) send_ids(c, true);
        else send_leave(c, c->node);
    } else if (c->node && c->ids_wanted && !c->ids_call.busy) {
        send_ids(c, false);
    }
}

/* ---- the lease ---------------------------------------------------------------------------------------------------------------------- */

/* Grants renew, too, so a busy node needs no renewals of its own; but whoever watches a victim does, or it would never rescue it. */
void lease_plan(core *c)
{
    int64_t tell_us = tell_due(c);
    bool needed = c->node && (c->held > 0 || c->victims_count > 0 || tell_us < INT64_MAX);
    if (!needed) {
        engine_timer_off(c, &c->renew_timer);
        engine_timer_off(c, &c->deadline_timer);
        return;
    }
    int64_t at = (c->victims_count > 0 && !CANARY(BUSY_BLIND) ? c->asked_us : c->renewed_us) + third(c);
    if (at > tell_us) at = tell_us;
    if (at < c->renew_again_us) at = c->renew_again_us;
    if (!heap_has(&c->renew_timer.node) || c->renew_timer.node.at != at) engine_timer(c, &c->renew_timer, at);
    bool set = heap_has(&c->deadline_timer.node) && c->deadline_timer.node.at == c->deadline_us;
    if (c->held > 0 && !c->lapsed && !set) engine_timer(c, &c->deadline_timer, c->deadline_us);
}

void lease_granted(core *c, int64_t sent_us)
{
    if (CANARY(DEADLINE_LATE)) sent_us = c->now.mono_us;
    bool late = c->lapsed || (c->held > 0 && sent_us + c->config.lease_us <= c->now.mono_us);
    if (sent_us + c->config.lease_us > c->deadline_us) c->deadline_us = sent_us + c->config.lease_us;
    if (sent_us > c->renewed_us) c->renewed_us = sent_us;
    if (late) lease_reconcile(c);
    if (c->deadline_us > c->now.mono_us) c->lapsed = false;
    lease_plan(c);
}

void lease_deadline(core *c)
{
    if (c->held == 0 || c->lapsed) return;
    c->lapsed = true;
    engine_log(c, PAWL_WARN, "the node's lease ran out before the store renewed it: nothing starts until it does");
    map_each(node, &c->tasks) {
        core_task *t = container_of(node, core_task, by_id);
        if (t->state != CORE_RUNNING) continue;
        t->lost = true;
        engine_event(c, PAWL_EVENT_LEASE_LOST, t->body, t->failures + 1, t->fence, 0, NULL);
        run_stop(c, t, PAWL_STOP_LEASE_LOST);
    }
}

static bool renewal_due(const core *c)
{
    if (!c->node || c->renew.busy || heap_has(&c->renew_timer.node)) return false;
    return c->held > 0 || c->victims_count > 0 || tell_due(c) < INT64_MAX;
}

static void send_renewal(core *c)
{
    memset(&c->renew.u.renewal, 0, sizeof c->renew.u.renewal);
    c->renew.u.renewal.node = c->node;
    tell_send(c, &c->renew.u.renewal);
    c->mismatch_seq = batch_idle(c) && !c->claim.busy ? c->change_seq : -1;
    engine_call(c, &c->renew);
}

/* The store counts our leases; ours may differ for a moment, but not twice in a row with nothing under way. */
static void compare_counts(core *c)
{
    if (c->mismatch_seq != c->change_seq || !batch_idle(c) || c->claim.busy) return;
    int64_t ours = 0;
    map_each(node, &c->tasks) ours += !container_of(node, core_task, by_id)->lost;
    if (c->renew.u.renewal.held == ours) c->mismatches = 0;
    else if (++c->mismatches >= 2) lease_reconcile(c);
}

void lease_renewed(core *c)
{
    if (c->renew.u.renewal.node != c->node) return;
    tell_answered(c, &c->renew.u.renewal);
    if (c->renew.status != PAWL_OK) {
        if (CANARY(VICTIM_FORGOTTEN)) c->victims_count = 0;
        for (int i = 0; i < c->victims_count; i++) c->victims[i].since_us = INT64_MAX; /* two good renewals in a row are needed */
        c->renew_again_us = c->now.mono_us + third(c) / 4;
        lease_plan(c);
        return;
    }
    if (c->renew.u.renewal.news.node_dead) {
        lease_node_dead(c);
        return;
    }
    c->asked_us = c->renew.sent_us;
    lease_granted(c, c->renew.sent_us);
    compare_counts(c);
    claim_news(c, &c->renew.u.renewal.news);
    lease_look(c, &c->renew.u.renewal.news, true);
    lease_plan(c);
}

/* The store declared this node dead. Everything it held is lost; the process goes on as a new node. */
void lease_node_dead(core *c)
{
    if (!c->node) return;
    engine_log(c, PAWL_WARN, "this node was declared dead by another one; going on as a new node");
    c->node = 0;
    tell_forget(c);
    c->ids.number = 0;
    c->lapsed = false;
    c->deadline_us = 0;
    c->victims_count = c->todo_count = c->mismatches = 0;
    c->reconcile = false;
    c->unknown_count = 0;
    map_each(node, &c->tasks) run_lose(c, container_of(node, core_task, by_id));
    claim_stir(c);
    lease_plan(c);
}

/* ---- reconciliation ------------------------------------------------------------------------------------------------------------------ */

void lease_reconcile(core *c)
{
    if (!c->serving) return; /* it never claimed */
    c->reconcile = true;
    c->reading_stale = c->held_call.busy; /* what is being read now may be older than the doubt */
}

/* A claim of unknown outcome may still take effect for a while: one reading is not enough. */
void lease_reconcile_claim(core *c)
{
    c->looks = CANARY(ONE_LOOK) ? 1 : 2;
    lease_reconcile(c);
}

static void send_held(core *c)
{
    c->held_call.u.held.node = c->node;
    c->held_call.u.held.leases = NULL;
    c->held_call.u.held.count = 0;
    c->held_seq = c->lease_seq;
    engine_call(c, &c->held_call);
}

/* Releases by fence a lease that nobody here knows; false: no memory. */
bool lease_release_unknown(core *c, pawl_id id, int64_t fence, int64_t delay_us)
{
    core_request *r = core_request_new(c, 1);
    if (!r) return false;
    r->own = true;
    r->answer.kind = CORE_ANSWER; /* nobody waits for an answer */
    r->ops[0].kind = PAWL_OP_RELEASE;
    r->ops[0].id = id;
    r->ops[0].fence = fence;
    r->ops[0].audit = PAWL_AUDIT_FULL;
    r->ops[0].u.release.delay_us = delay_us;
    r->ops[0].u.release.run.progress = -1;
    r->locks = alloc_new(c->allocator, 2 * sizeof *r->locks);
    if (!r->locks) {
        core_request_free(c, r);
        return false;
    }
    request_gather(c, r);
    return true;
}

static int64_t unknown_since(const core *c, const pawl_lease *lease)
{
    for (int i = 0; i < c->unknown_count; i++)
        if (c->unknown[i].lease.id == lease->id && c->unknown[i].lease.fence == lease->fence) return c->unknown[i].since_us;
    return INT64_MAX;
}

static bool known(core *c, const pawl_lease *lease)
{
    core_task *t = run_find(c, lease->id);
    if (t && t->fence == lease->fence) {
        t->confirmed_seq = c->held_seq;
        return true;
    }
    return false;
}

/* An operation about it is on its way, whose answer may bring this lease or end it: not to be given back now, nor forgotten. */
static bool in_flight(const core *c, const pawl_lease *lease)
{
    return batch_inserting(c, lease->id) || (c->locks.count > 0 && map_get(&c->locks, (uint64_t)lease->id));
}

/* Whether no claim is on its way any more that could have got this lease before it was first seen, a third of a lease ago. */
static bool forsaken(const core *c, int64_t since_us)
{
    if (since_us == INT64_MAX || c->now.mono_us - since_us < third(c)) return false;
    return !c->claim.busy || c->claim.sent_us > since_us || CANARY(LATE_CLAIM);
}

/* Keeps what is unknown for the second look; at the second look releases it. */
static void look_for_unknown(core *c)
{
    const pawl_lease *leases = c->held_call.u.held.leases;
    struct unknown *kept = c->unknown_spare;
    int count = 0;
    for (int i = 0; i < c->held_call.u.held.count && count < UNKNOWN_MAX; i++) {
        if (known(c, &leases[i])) continue;
        int64_t since_us = in_flight(c, &leases[i]) ? c->now.mono_us : unknown_since(c, &leases[i]);
        if (forsaken(c, since_us) && lease_release_unknown(c, leases[i].id, leases[i].fence, -1)) continue;
        kept[count++] = (struct unknown){leases[i], since_us < INT64_MAX ? since_us : c->now.mono_us};
    }
    c->unknown_spare = c->unknown;
    c->unknown = kept;
    c->unknown_count = count;
}

static void look_for_lost(core *c)
{
    map_each(node, &c->tasks) {
        core_task *t = container_of(node, core_task, by_id);
        if (t->leased_seq > c->held_seq || t->confirmed_seq == c->held_seq) continue;
        if (t->op_place == OP_IDLE || t->op.kind == PAWL_OP_PROGRESS) run_lose(c, t);
    }
}

void lease_held(core *c)
{
    if (c->held_call.u.held.node != c->node) return;
    if (c->held_call.status != PAWL_OK) {
        engine_timer(c, &c->held_timer, c->now.mono_us + third(c) / 2);
        return;
    }
    c->held_seq = c->held_seq ? c->held_seq : -1; /* never equal to the 0 of a task no reading confirmed */
    look_for_unknown(c);
    look_for_lost(c);
    c->mismatches = 0;
    if (c->reading_stale) {
        c->reading_stale = false;
        return;
    }
    if (c->looks > 0) c->looks--;
    c->reconcile = c->unknown_count > 0 || c->looks > 0;
    if (c->reconcile) engine_timer(c, &c->held_timer, c->now.mono_us + third(c));
}

/* ---- rescue --------------------------------------------------------------------------------------------------------------------------- */

static void add_todo(core *c, const pawl_lapsed *lapsed)
{
    for (int i = 0; i < c->todo_count; i++)
        if (c->todo[i].node == lapsed->node) return;
    if (c->todo_count < PAWL_LAPSED_MAX) c->todo[c->todo_count++] = *lapsed;
}

static victim *find_victim(core *c, int64_t node)
{
    for (int i = 0; i < c->victims_count; i++)
        if (c->victims[i].node == node) return &c->victims[i];
    return NULL;
}

static void watch_victim(core *c, const pawl_lapsed *lapsed, bool renewed)
{
    victim *v = find_victim(c, lapsed->node);
    if (!v && c->victims_count < PAWL_LAPSED_MAX) {
        v = &c->victims[c->victims_count++];
        *v = (victim){.node = lapsed->node, .renewal = lapsed->renewal, .since_us = INT64_MAX};
    }
    if (!v) return;
    v->seen = true;
    if (v->renewal != lapsed->renewal) {
        v->renewal = lapsed->renewal;
        v->since_us = INT64_MAX;
    }
    if (!renewed) return;
    if (v->since_us == INT64_MAX) v->since_us = c->now.mono_us;
    else if (c->now.mono_us - v->since_us >= third(c)) add_todo(c, lapsed);
    if (CANARY(RESCUE_HASTY)) add_todo(c, lapsed);
}

void lease_look(core *c, const pawl_news *news, bool renewed)
{
    if (c->mode != MODE_STARTED || news->node_dead) return;
    for (int i = 0; i < c->victims_count; i++) c->victims[i].seen = false;
    for (int i = 0; i < news->lapsed_count; i++) {
        if (news->lapsed[i].proven_dead) add_todo(c, &news->lapsed[i]);
        else watch_victim(c, &news->lapsed[i], renewed);
    }
    int kept = 0;
    for (int i = 0; i < c->victims_count; i++)
        if (c->victims[i].seen) c->victims[kept++] = c->victims[i];
    c->victims_count = kept;
    lease_plan(c);
}

static void send_rescue(core *c)
{
    const pawl_lapsed *l = &c->todo[0];
    bool calm = c->trouble_us == INT64_MIN || c->now.mono_us - c->trouble_us > c->config.lease_us;
    c->rescue.u.rescue = (pawl_rescue){.node = c->node,
                                       .victim = l->node,
                                       .renewal = l->renewal,
                                       .counts = l->proven_dead || calm || CANARY(OUTAGE_BLAMED),
                                       .limit = UNKNOWN_MAX,
                                       .tasks = c->rescued};
    engine_call(c, &c->rescue);
}

static void drop_todo(core *c)
{
    if (c->todo_count == 0) return;
    c->todo_count--;
    memmove(&c->todo[0], &c->todo[1], (size_t)c->todo_count * sizeof c->todo[0]);
}

static void rescue_events(core *c, const pawl_rescue *r)
{
    for (int i = 0; i < r->freed + r->failed; i++) {
        pawl_body about = {.id = r->tasks[i].id};
        engine_event(c, PAWL_EVENT_RESCUED, &about, 0, r->tasks[i].fence, 0, NULL);
    }
    if (r->freed + r->failed > 0)
        engine_log(c, PAWL_WARN, "rescued %d tasks of a dead node, %d of them failed for good", r->freed + r->failed, r->failed);
}

void lease_rescued(core *c)
{
    const pawl_rescue *r = &c->rescue.u.rescue;
    request_unpark(c, -1); /* cancelled and failed tasks leave room */
    if (c->rescue.status != PAWL_OK) {
        drop_todo(c);                                 /* the next news bring it again */
        if (!CANARY(RESCUE_UNSTIRRED)) claim_stir(c); /* it may have happened: then the freed tasks are due */
        if (c->rescue.status == PAWL_UNKNOWN && !CANARY(RESCUE_UNSTIRRED))
            engine_timer(c, &c->rescue_timer, c->now.mono_us + third(c));
        engine_timer(c, &c->news_timer, c->now.mono_us + engine_backoff(c, 2));
        return;
    }
    rescue_events(c, r);
    if (!r->refused) claim_stir(c); /* an earlier call without an answer may have freed them */
    if (r->more && c->todo_count > 0 && c->todo[0].node == r->victim) return;
    if (!r->refused) engine_event(c, PAWL_EVENT_NODE_LOST, NULL, 0, 0, r->victim, NULL);
    drop_todo(c);
    victim *v = find_victim(c, r->victim);
    if (v) *v = c->victims[--c->victims_count];
    if (r->refused) engine_timer(c, &c->news_timer, c->now.mono_us + third(c));
    else c->news_wanted = true;
    lease_plan(c);
}

/* ---- retention ------------------------------------------------------------------------------------------------------------------------- */

void lease_sweep(core *c)
{
    if (c->mode != MODE_STARTED || c->sweep.busy) return;
    c->sweep.u.sweep = c->config.retention;
    c->sweep.u.sweep.limit = SWEEP_ROWS;
    engine_call(c, &c->sweep);
}

void lease_swept(core *c)
{
    const pawl_sweep *s = &c->sweep.u.sweep;
    if (c->mode != MODE_STARTED) return;
    int64_t in_us = SWEEP_MOST_US;
    if (c->sweep.status == PAWL_OK) {
        if (s->expiring > 0)
            engine_log(c, PAWL_WARN, "%lld unresolved dead letters will be removed within a week: retry or acknowledge them",
                       (long long)s->expiring);
        if (s->next_us < 0 && !s->more) return; /* lease_sweep_soon begins anew */
        if (s->more) in_us = SWEEP_STEP_US;
        else if (s->next_us < SWEEP_MOST_US) in_us = s->next_us > SWEEP_LEAST_US ? s->next_us : SWEEP_LEAST_US;
    }
    engine_timer(c, &c->sweep_timer, c->now.mono_us + in_us);
}

void lease_sweep_soon(core *c)
{
    if (c->mode == MODE_STARTED && !c->sweep.busy && !heap_has(&c->sweep_timer.node))
        engine_timer(c, &c->sweep_timer, c->now.mono_us + SWEEP_MOST_US);
}

/* ---- what goes out ----------------------------------------------------------------------------------------------------------------------- */

void lease_send(core *c)
{
    if (c->config.one_shot) return;
    send_membership(c);
    if (renewal_due(c)) send_renewal(c);
    if (c->reconcile && c->node && !c->held_call.busy && !heap_has(&c->held_timer.node)) send_held(c);
    if (c->todo_count > 0 && c->node && !c->rescue.busy) send_rescue(c);
}
