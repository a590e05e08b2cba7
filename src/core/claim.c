/* Queues: what is claimed, when, and how much.
 *
 * A queue is hungry while something may be due for it in the store; a hungry queue with room claims. Nothing is polled: hunger comes
 * from the due timer (the store tells when the next task falls due), from a wake, from what this node itself stored, and from a claim
 * that was answered with "more". What comes up while a claim is in flight (`stirred`) may be younger than its answer, so the queue
 * stays hungry.
 *
 * What this node itself stored and has not claimed yet is counted (`owed`). While nothing else is due (`caught_up`), inserts are granted
 * leases at birth in the room that this leaves, and claims ask for little more than that: so a burst that was larger than the room
 * does not send all that follows it the long way through the store.
 *
 * Room is the idle workers plus what the queue finishes in 50 ms (`prefetch`, at most its capacity): slow handlers hold nothing that
 * another node could run, fast ones are never idle between two claims. Where tenants take turns it is one for each worker, of brief runs
 * only: what is ready here is before everybody, but a tenant should get more than a task or two out of each claim.
 *
 * What is due and must wait for rate budgets for long (`flooded`, by the store's last word) is in nobody's way: it is claimed a little at
 * a time, to be told its slots, takes no room while it is claimed and asks, and inserts are granted leases beside it. Between two such bites
 * nothing of it is claimed for four times as long as the last one took: the store has most of its time for others. If others may be due, a
 * claim goes at once, and brings along some of the flood, which ask when their turn comes (batch.c).
 *
 * Of what is ready, a queue whose runs are over in microseconds hands out more than it has workers (`surplus`), so that a worker finds
 * the next run without waiting for a round of the engine, and outcomes come back many at a time. A run that takes long ends that at
 * once: it weighs as much as all those before it.
 */
#include "core/engine.h"
#include <string.h>

#define PREFETCH_US (50 * PAWL_MILLISECOND)
#define WINDOW_US (10 * PAWL_MILLISECOND)
#define SURPLUS_US 200 /* what is handed out ahead is begun within about so long */
#define SHORT_US 20    /* runs that last longer on average are handed out one by one */
#define BRIEF_US 200   /* where tenants take turns, only runs that are shorter on average are claimed ahead of the workers */
#define SLOW (16 * (int64_t)1000)
#define ASK_CLAIM_US (100 * PAWL_MILLISECOND) /* while inserts ask for leases, claim at least so often */
#define BITE_US 200                           /* a flood that is moved in less time is in nobody's way */
#define FLOOD_US PAWL_SECOND                  /* so long after a claim that saw nothing but a flood there may be one */
#define BESIDE 3                              /* more to claim where there is one: see claim_most */
#define REST_MOST_US (100 * PAWL_MILLISECOND)
#define BARREN_US (200 * PAWL_MILLISECOND) /* something is due that this node may not have yet: look again */

int claim_search_queue(core *c, const char *name)
{
    int at = c->recent_queue;
    if (c->queues_count == 0 || strcmp(c->queues[at].name, name) != 0)
        for (at = 0; at < c->queues_count && strcmp(c->queues[at].name, name) != 0;) at++;
    if (at == c->queues_count) return -1;
    c->recent_queue_name = name;
    return c->recent_queue = at;
}

int claim_search_handler(core *c, const char *type)
{
    int at = c->recent_handler;
    if (c->handlers_count == 0 || strcmp(c->handlers[at].type, type) != 0)
        for (at = 0; at < c->handlers_count && strcmp(c->handlers[at].type, type) != 0;) at++;
    if (at == c->handlers_count) return c->wildcard;
    c->recent_type_name = type;
    return c->recent_handler = at;
}

void claim_forget_names(core *c) { c->recent_queue_name = c->recent_type_name = NULL; }

static int most(int a, int b) { return a > b ? a : b; }
static int least(int64_t a, int b) { return a < b ? (int)a : b; }
static int idle_workers(const queue *q) { return q->workers - q->busy; }

static int claiming(const queue *q) { return CANARY(ROOM_TWICE) ? 0 : q->claiming; }

static int coming_most(const queue *q)
{
    return q->ready_count + (q->flooded ? 0 : q->reserving - q->reserving_far) + q->asked + claiming(q);
}

bool claim_full(const queue *q) { return coming_most(q) >= q->workers + q->capacity; }

/* What a flood asks slots for will not start here, and beside what is owed a claim brings little else. */
static int coming(const queue *q) { return coming_most(q) - (q->flooded ? claiming(q) - least(q->owed, claiming(q)) : 0); }

/* Tasks that would start at once. */
static int room_free(const queue *q) { return most(0, idle_workers(q) - coming(q)); }

static int room_prefetch(const queue *q)
{
    int waiting = most(0, coming(q) - idle_workers(q));
    return most(0, q->prefetch - waiting);
}

/* For leases at birth: what this node stored before comes first. */
static bool room_at_birth(const queue *q)
{
    int64_t first = q->owed > q->claiming ? q->owed - q->claiming : 0;
    return room_free(q) + room_prefetch(q) > first && !claim_full(q);
}

void claim_run_slow(queue *q)
{
    q->mean_us = SLOW;
    q->surplus = 0;
    q->at_once = 1;
}

static void measure_surplus(const core *c, queue *q, int64_t ran_us)
{
    q->mean_us += (16 * ran_us - q->mean_us) / 4;
    int64_t runs = q->mean_us < 16 * SHORT_US ? 16 * SURPLUS_US / (q->mean_us + 1) : 0;
    q->at_once = 1 + least(runs / 4, c->config.surplus);
    q->surplus = least(least(runs * q->workers, c->config.surplus), q->capacity);
}

static int turns_ahead(const queue *q) { return q->mean_us < 16 * BRIEF_US ? least(q->capacity, q->workers) : 0; }

static void measure_prefetch(core *c, queue *q)
{
    q->window_runs++;
    int64_t elapsed = c->now.mono_us - q->window_us;
    if (elapsed < WINDOW_US) return;
    int64_t rate = (int64_t)q->window_runs * PREFETCH_US / elapsed;
    int grown = rate < q->capacity ? (int)rate : q->capacity;
    q->prefetch = q->fair ? turns_ahead(q) : elapsed < PAWL_SECOND ? most(grown, q->prefetch / 2) : grown;
    q->window_runs = 0;
    q->window_us = c->now.mono_us;
}

void claim_run_finished(core *c, queue *q, int64_t ran_us)
{
    if (c->config.surplus && !q->pulled) measure_surplus(c, q, ran_us < SLOW ? ran_us : SLOW);
    measure_prefetch(c, q);
}

void core_workers(core *c, core_time now, int queue_at, int workers, bool nobody)
{
    queue *q = &c->queues[queue_at];
    c->now = now;
    q->workers = workers;
    q->nobody = nobody;
    if (nobody) {
        q->prefetch = 0;
        run_release_queue(c, q);
    }
    engine_push(c);
}

/* ---- born leased -------------------------------------------------------------------------------------------------------------- */

bool claim_may_ask(core *c, const pawl_body *body, int *queue_out)
{
    if (c->mode != MODE_STARTED || !c->node || c->lapsed || c->limits_untold > 0) return false;
    int at = claim_find_queue(c, body->queue), h = claim_find_handler(c, body->type);
    if (at < 0 || h < 0) return false;
    if (body->rate_key.len == 0 && c->handlers[h].limit.key) return false; /* the store knows no key to take a slot for */
    queue *q = &c->queues[at];
    if (!q->caught_up || q->paused || q->stirred) return false;
    if (!room_at_birth(q) || !run_promise(c, 1)) return false;
    if (c->now.mono_us - q->claimed_us >= ASK_CLAIM_US) q->hungry = true;
    q->asked++;
    *queue_out = at;
    return true;
}

void claim_asked(core *c, int at)
{
    c->queues[at].asked--;
    c->promised--;
}

/* ---- hunger -------------------------------------------------------------------------------------------------------------------- */

static void stir(core *c, queue *q)
{
    q->hungry = true;
    q->caught_up = false;
    q->stirred = c->claim.busy;
}

void claim_stir(core *c)
{
    for (int i = 0; i < c->queues_count; i++) stir(c, &c->queues[i]);
}

void claim_due(core *c, queue *q)
{
    q->hungry = true;
    if (c->claim.busy) q->stirred = true;
    else if (q->flooded && c->now.mono_us < q->rest_us) q->owed++; /* it is none of the flood, which rests */
}

static void due_by(core *c, queue *q, int64_t at_us)
{
    if (!heap_has(&q->due.node) || at_us < q->due.node.at) engine_timer(c, &q->due, at_us);
}

/* How many of a flood ask for slots at a time. */
static int flood_share(const queue *q) { return most(most(2, (q->workers + 1) / 2), q->prefetch / 8); }

void claim_moved(core *c, queue *q, int64_t sent_us)
{
    int64_t took_us = c->now.mono_us - q->claimed_us;
    if (c->now.mono_us - sent_us < BITE_US) measure_prefetch(c, q); /* then there may be more at a time */
    if (!q->flooded || took_us < BITE_US) return;
    q->rest_us = c->now.mono_us + (4 * took_us < REST_MOST_US ? 4 * took_us : REST_MOST_US);
    due_by(c, q, q->rest_us);
}

void claim_pending(core *c, const char *name, int64_t run_at_us, int64_t store_now_us)
{
    int at = claim_find_queue(c, name);
    if (at < 0 || c->mode != MODE_STARTED) return;
    queue *q = &c->queues[at];
    if (run_at_us <= store_now_us) {
        q->hungry = true;
        q->owed++;
        if (c->claim.busy) q->owed_late++;
        return;
    }
    int64_t due_us = c->now.mono_us + (run_at_us - store_now_us);
    if (c->claim.busy && due_us < q->due_late_us) q->due_late_us = due_us; /* its answer may not know of this one */
    due_by(c, q, due_us);
}

/* ---- claims -------------------------------------------------------------------------------------------------------------------- */

static bool solo_here(const core *c)
{
    map_each(node, &c->tasks)
        if (container_of(node, core_task, by_id)->solo) return true;
    return false;
}

/* It has bitten off enough of a flood for now, and nothing else is known to be due. */
static bool rests(const core *c, const queue *q)
{
    return q->caught_up && (q->reserving >= flood_share(q) || c->now.mono_us < q->rest_us);
}

static bool wants(const core *c, const queue *q)
{
    if (!q->hungry || q->workers == 0) return false;
    if (q->flooded && q->owed == 0 && rests(c, q)) return false;
    return room_free(q) > 0 || (q->prefetch > 0 && room_prefetch(q) * 2 >= q->prefetch);
}

/* A flood is about, also if the last claim was full of others. */
static bool beside_flood(const core *c, const queue *q) { return q->flooded || c->now.mono_us < q->flood_us; }

/* Where all that is due is known: that, and some more to see whether it is all. The rest of the room is for leases at birth. Where it is not
 * known, no more than that beside a flood: it would be what comes. It takes two of a claim, and one more shows whether there are others. */
static int64_t claim_most(const core *c, const queue *q)
{
    if (!q->caught_up && !beside_flood(c, q)) return INT64_MAX;
    if (q->caught_up && q->flooded) return q->owed ? q->owed + BESIDE : most(1, flood_share(q) - q->reserving);
    return q->owed + most(q->workers, q->prefetch / 4) + (beside_flood(c, q) ? BESIDE : 0);
}

static int build_wants(core *c)
{
    int count = 0, total = 0;
    for (int i = 0; i < c->queues_count; i++) {
        queue *q = &c->queues[i];
        if (!wants(c, q)) continue;
        int free = least(claim_most(c, q), room_free(q)), prefetch = least(claim_most(c, q) - free, room_prefetch(q));
        c->wants[count] = (pawl_want){.queue = q->name,
                                      .free = free,
                                      .prefetch = prefetch,
                                      .types = c->types,
                                      .types_count = c->handlers_count,
                                      .any_type = c->wildcard >= 0,
                                      .solo = !solo_here(c)};
        total += c->wants[count].free + c->wants[count].prefetch;
        c->want_queue[count++] = i;
    }
    c->claim.u.claim.wants_count = count;
    return total;
}

/* Room for the answer, before asking. */
static bool reserve(core *c, int total)
{
    if (total > c->claimed_room) {
        pawl_claimed *grown = alloc_resize(c->allocator, c->claimed, (size_t)total * sizeof *grown);
        if (!grown) return false;
        c->claimed = grown;
        c->claimed_room = total;
    }
    if (!run_promise(c, total)) return false;
    c->claim_promised = total;
    return true;
}

void claim_send(core *c)
{
    if (c->mode != MODE_STARTED || !c->node || c->claim.busy || heap_has(&c->claim_timer.node)) return;
    if (c->limits_untold > 0) return;
    pawl_claim *claim = &c->claim.u.claim;
    int total = build_wants(c);
    if (claim->wants_count == 0 && !c->news_wanted) return;
    c->claim_promised = 0;
    if (total > 0 && !reserve(c, total)) {
        engine_timer(c, &c->claim_timer, c->now.mono_us + engine_backoff(c, c->claim_tries++));
        return;
    }
    c->news_wanted = false;
    claim->node = c->node;
    claim->wants = c->wants;
    claim->allocator = c->allocator;
    claim->tasks = c->claimed;
    claim->tasks_count = 0;
    for (int i = 0; i < claim->wants_count; i++) {
        queue *q = &c->queues[c->want_queue[i]];
        q->claimed_us = c->now.mono_us;
        q->claiming = c->wants[i].free + c->wants[i].prefetch;
        q->owed_late = 0;
        q->due_late_us = INT64_MAX;
    }
    engine_call(c, &c->claim);
}

static void want_answered(core *c, const pawl_want *w, queue *q, int64_t store_now_us)
{
    bool stirred = q->stirred && !CANARY(STIR_IGNORED);
    q->stirred = false;
    if (w->paused) run_release_queue(c, q); /* claimed before the pause */
    /* Nobody was waiting, and what is due may not be claimed ahead (see CONCURRENCY LIMITS): the next free worker asks. */
    bool too_early = w->more && w->got == 0 && w->free == 0 && !w->paused;
    q->fair = w->fair;
    if (q->fair) q->prefetch = least(q->prefetch, turns_ahead(q));
    if (too_early) q->prefetch = 0;
    /* What more there is may be this node's own. */
    bool ours = q->caught_up && w->got > 0 && w->got < q->owed;
    q->flooded = w->more && w->flooded && !q->fair;
    if (q->flooded) q->flood_us = c->now.mono_us + FLOOD_US;
    q->caught_up = !stirred && !w->paused && (!w->more || ours || q->flooded);
    q->owed = ours && w->more && q->owed - w->got > q->owed_late ? q->owed - w->got : q->owed_late;
    q->owed_late = 0;
    q->hungry = stirred || too_early || (w->more && w->got > 0) || q->owed > 0;
    int64_t in_us = w->next_due_us > store_now_us ? w->next_due_us - store_now_us : 0;
    if (w->next_due_us > 0) engine_timer(c, &q->due, c->now.mono_us + in_us);
    else engine_timer_off(c, &q->due);
    if (q->due_late_us < INT64_MAX && !CANARY(STIR_IGNORED)) due_by(c, q, q->due_late_us);
    if (q->flooded && c->now.mono_us < q->rest_us) due_by(c, q, q->rest_us);
    if (w->more && w->got == 0 && !w->paused && !too_early) due_by(c, q, c->now.mono_us + BARREN_US);
}

static void take(core *c, pawl_claimed *got)
{
    if (run_find(c, got->body->id) && !CANARY(NO_DUPLICATE_GUARD)) { /* the duplicate guard: an older run of it is still here */
        if (!lease_release_unknown(c, got->body->id, got->fence, c->config.lease_us / 3)) lease_reconcile(c);
        pawl_body_free(c->allocator, got->body);
        return;
    }
    core_task *t = run_take(c);
    t->body = got->body;
    t->fence = got->fence;
    t->run_at_us = got->run_at_us;
    t->runs = got->runs;
    t->failures = got->failures;
    t->rescues = got->rescues;
    t->interruptions = got->interruptions;
    t->not_started = got->not_started;
    t->suspect = got->suspect;
    t->solo = got->solo;
    throttle_told told = {.limited = got->limited,
                          .slot_us = got->run_at_us,
                          .until_us = got->until_us,
                          .epoch = got->epoch,
                          .sent_us = c->claim.sent_us,
                          .store_now_us = c->claim.u.claim.news.store_now_us};
    run_adopt(c, t, c->want_queue[got->want], &told);
}

static void claim_failed(core *c)
{
    for (int i = 0; i < c->claim.u.claim.wants_count; i++) c->queues[c->want_queue[i]].stirred = false;
    c->news_wanted = true;
    if (c->claim.status == PAWL_UNKNOWN && !CANARY(LOST_CLAIM)) lease_reconcile_claim(c);
    engine_timer(c, &c->claim_timer, c->now.mono_us + engine_backoff(c, c->claim_tries++));
}

void claim_answered(core *c)
{
    pawl_claim *claim = &c->claim.u.claim;
    c->promised -= c->claim_promised;
    c->claim_promised = 0;
    for (int i = 0; i < claim->wants_count; i++) c->queues[c->want_queue[i]].claiming = 0;
    if (c->claim.status != PAWL_OK) {
        claim_failed(c);
        return;
    }
    c->claim_tries = 0;
    if (claim->node != c->node) { /* granted to a node that is dead by now */
        for (int i = 0; i < claim->tasks_count; i++) pawl_body_free(c->allocator, claim->tasks[i].body);
        claim_stir(c);
        return;
    }
    if (claim->tasks_count > 0) lease_granted(c, c->claim.sent_us);
    for (int i = 0; i < claim->wants_count; i++) c->queues[c->want_queue[i]].paused = claim->wants[i].paused;
    for (int i = 0; i < claim->tasks_count; i++) take(c, &claim->tasks[i]);
    for (int i = 0; i < claim->wants_count; i++)
        want_answered(c, &claim->wants[i], &c->queues[c->want_queue[i]], claim->news.store_now_us);
    claim_news(c, &claim->news);
    if (claim->news.unblocked && !CANARY(OFFER_UNHEARD)) claim_stir(c);
    lease_look(c, &claim->news, false);
}

/* The tasks are moving to another store: nothing starts any more, what waits here goes back. */
static void gate_seen(core *c, bool closed)
{
    for (int i = 0; closed && i < c->queues_count; i++) {
        c->queues[i].paused = true;
        c->queues[i].caught_up = false;
        run_release_queue(c, &c->queues[i]);
    }
    if (closed == c->closed) return;
    c->closed = closed;
    if (!closed) {
        claim_stir(c);
        return;
    }
    engine_event(c, PAWL_EVENT_STORE_CLOSED, NULL, 0, 0, 0, NULL);
    engine_log(c, PAWL_WARN, "the store is closed: its tasks are moving or have moved to another one; nothing starts any more");
}

/* What claims and renewals tell besides. */
void claim_news(core *c, const pawl_news *news)
{
    if (news->node_dead) {
        lease_node_dead(c);
        return;
    }
    if (c->limits_version >= 0 && news->limits_version > c->limits_version) {
        recur_unhold(c);
        engine_event(c, PAWL_EVENT_LIMITS_CHANGED, NULL, 0, 0, news->limits_version, NULL);
        engine_log(c, throttle_has_limits(c) ? PAWL_WARN : PAWL_INFO,
                   "limits were changed, here or by others: see `pawl limits`");
    }
    c->limits_version = news->limits_version;
    gate_seen(c, news->closed);
    if (c->mode == MODE_STARTED && c->recur_steps == 0) recur_news(c, news->schedule_due_us, news->store_now_us);
    if (news->unsettled) family_settle(c);
    for (int i = 0; i < news->cancels_count; i++) {
        core_task *t = run_find(c, news->cancels[i].id);
        if (t && t->fence == news->cancels[i].fence) run_cancel(c, t);
    }
    if (news->foreign_expiry_us > 0 && c->mode == MODE_STARTED)
        engine_timer(c, &c->news_timer, c->now.mono_us + news->foreign_expiry_us + 10 * PAWL_MILLISECOND);
}
