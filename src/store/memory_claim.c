/* Leases in the memory store: claims, renewals with their news, what a node holds, rescue.
 *
 * A claim merges the kinds it may take from: a cursor per kind stands on the kind's next task in the order priority,
 * run_at, id, and the cursors stand in a tree by that task. Choosing changes nothing; only when every chosen task has its
 * copy for the engine are the leases granted.
 */
#include "store/memory.h"

typedef struct cursor {
    tree_node order;
    mem_kind *kind;
    mem_task *task;
} cursor;

typedef struct claiming {
    mem *m;
    pawl_claim *call;
    pawl_want *want;
    int want_index;
    int64_t now_us;
    mem_task **chosen; /* beside call->tasks */
    bool solo_taken;
    tree cursors;
    bool withheld; /* something due was not for this claim */
} claiming;

static cursor *cursor_of(const tree_node *node) { return container_of(node, cursor, order); }

static bool more_urgent(const mem_task *x, const mem_task *y)
{
    int xp = x->level->priority, yp = y->level->priority;
    if (xp != yp) return xp < yp;
    return x->run_at_us != y->run_at_us ? x->run_at_us < y->run_at_us : x->id < y->id;
}

static bool cursor_before(const tree_node *a, const tree_node *b) { return more_urgent(cursor_of(a)->task, cursor_of(b)->task); }

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Which of a level's ready trees this claim may take from now: suspects only straight into a free worker. */
static bool allowed(const claiming *c, int suspicion)
{
    if (suspicion == 0) return true;
    if (c->want->got >= c->want->free) return false;
    return suspicion == 1 || (c->want->solo && !c->solo_taken);
}

/* The most urgent due task of the level that may be taken; what may not is noted. */
static mem_task *first_of_level(claiming *c, const mem_level *level)
{
    mem_task *best = NULL;
    for (int i = 0; i < SUSPICIONS; i++) {
        mem_task *t = level->ready[i].first ? task_of_order(level->ready[i].first) : NULL;
        if (!t || t->run_at_us > c->now_us) continue;
        if (!allowed(c, i)) c->withheld = true;
        else if (!best || more_urgent(t, best)) best = t;
    }
    return best;
}

static mem_task *first_of_kind(claiming *c, const mem_kind *kind)
{
    for (tree_node *node = kind->levels.first; node; node = tree_next(node)) {
        mem_task *t = first_of_level(c, level_of(node));
        if (t) return t;
    }
    return NULL;
}

/* Puts the cursor on the kind's next task, or leaves it out. */
static void aim(claiming *c, cursor *at)
{
    at->task = first_of_kind(c, at->kind);
    if (at->task) tree_insert(&c->cursors, &at->order);
}

static void see_due(const mem_kind *kind, int64_t now_us, int64_t *next_us)
{
    for (tree_node *l = kind->levels.first; l; l = tree_next(l)) {
        for (int i = 0; i < SUSPICIONS; i++) {
            const tree_node *node = mem_first_after(&level_of(l)->ready[i], now_us);
            int64_t at = node ? task_of_order(node)->run_at_us : 0;
            if (node && (!*next_us || at < *next_us)) *next_us = at;
        }
    }
}

static bool add_kind(claiming *c, mem_kind *kind, pawl_arena *arena)
{
    if (kind->claim == c->m->claims) return true; /* its type was named twice */
    cursor *at = pawl_arena_alloc(arena, sizeof *at);
    if (!at) return false;
    kind->claim = c->m->claims;
    at->kind = kind;
    aim(c, at);
    see_due(kind, c->now_us, &c->want->next_due_us);
    return true;
}

static bool add_kinds(claiming *c, const mem_queue *q, pawl_arena *arena)
{
    if (c->want->any_type) {
        list_each(link, &q->kinds) {
            if (!add_kind(c, container_of(link, mem_kind, link), arena)) return false;
        }
        return true;
    }
    for (int i = 0; i < c->want->types_count; i++) {
        mem_kind *kind = mem_kind_find(c->m, q->name, c->want->types[i]);
        if (kind && !add_kind(c, kind, arena)) return false;
    }
    return true;
}

/* Takes the task out of the ready tree, so that the next one shows; its state does not change yet. */
static bool choose(claiming *c, mem_task *t)
{
    int at = c->call->tasks_count;
    if (!pool_reserve(&c->m->rows, &c->m->allocator, (size_t)at + 1)) return false;
    pawl_body *body = pawl_body_share(c->call->allocator, t->body);
    if (!body) return false;
    bool limited = mem_limited(c->m, t->body->type);
    c->call->tasks[at] = (pawl_claimed){.body = body,
                                        .fence = t->fence + 1,
                                        .run_at_us = t->run_at_us,
                                        .runs = t->runs,
                                        .failures = t->failures,
                                        .rescues = t->rescues,
                                        .interruptions = t->interruptions,
                                        .want = c->want_index,
                                        .not_started = t->body->key && (c->want->got >= c->want->free || limited),
                                        .limited = limited,
                                        .until_us = mem_slot_until(c->m, t),
                                        .epoch = t->slot_epoch,
                                        .suspect = t->suspect,
                                        .solo = t->suspect && t->solo};
    c->chosen[at] = t;
    c->call->tasks_count++;
    c->want->got++;
    c->solo_taken |= t->suspect && t->solo;
    mem_unplace(c->m, t);
    return true;
}

/* Once the free workers have their tasks, the suspects that cursors stand on are out of reach. */
static void aim_all(claiming *c)
{
    tree old = c->cursors;
    tree_init(&c->cursors, cursor_before);
    while (old.first) {
        cursor *at = cursor_of(old.first);
        tree_remove(&old, &at->order);
        aim(c, at);
    }
}

static bool take_due(claiming *c)
{
    int room = c->want->free + c->want->prefetch;
    while (c->want->got < room && c->cursors.first) {
        cursor *at = cursor_of(c->cursors.first);
        bool solo = at->task->suspect && at->task->solo;
        tree_remove(&c->cursors, &at->order);
        if (!choose(c, at->task)) return false;
        aim(c, at);
        if (c->want->got == c->want->free || solo) aim_all(c);
    }
    return true;
}

static bool claim_want(claiming *c, pawl_arena *arena)
{
    pawl_want *w = c->want;
    const mem_queue *q = mem_queue_find(c->m, w->queue);
    w->got = 0;
    w->next_due_us = 0;
    w->more = false;
    w->paused = q && q->paused && !CANARY(PAUSE_UNSEEN);
    if (!q || w->paused) return true;
    tree_init(&c->cursors, cursor_before);
    c->withheld = false;
    c->m->claims++;
    if (!add_kinds(c, q, arena) || !take_due(c)) return false;
    w->more = c->cursors.first != NULL || c->withheld;
    return true;
}

/* ---- granting ---------------------------------------------------------------------------------------------------- */

static void grant(claiming *c, mem_node *n)
{
    for (int i = 0; i < c->call->tasks_count; i++) {
        mem_task *t = c->chosen[i];
        t->not_started = c->call->tasks[i].not_started;
        mem_slot_clear(t);
        mem_lease(c->m, t, n, TASK_GRANTED, &(mem_note){.now_us = c->now_us});
    }
}

static void give_up(claiming *c)
{
    for (int i = 0; i < c->call->tasks_count; i++) {
        mem_place(c->m, c->chosen[i]);
        pawl_body_free(c->call->allocator, c->call->tasks[i].body);
    }
    c->call->tasks_count = 0;
}

static bool choose_all(claiming *c, pawl_arena *arena)
{
    size_t room = 0;
    for (int i = 0; i < c->call->wants_count; i++) room += (size_t)(c->call->wants[i].free + c->call->wants[i].prefetch);
    if (!(c->chosen = pawl_arena_alloc(arena, room * sizeof *c->chosen))) return false;
    for (int i = 0; i < c->call->wants_count; i++) {
        c->want = &c->call->wants[i];
        c->want_index = i;
        if (!claim_want(c, arena)) return false;
    }
    return true;
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

static void add_lapsed(pawl_news *news, const mem_node *n, bool proven)
{
    if (news->lapsed_count == PAWL_LAPSED_MAX) return;
    news->lapsed[news->lapsed_count++] = (pawl_lapsed){.node = n->id, .renewal = n->renewal, .proven_dead = proven};
}

static void see_node(pawl_news *news, const mem_node *n, int64_t boot_us)
{
    if (!n->alive) {
        add_lapsed(news, n, true);
        return;
    }
    int64_t left = n->expires_boot_us > boot_us ? n->expires_boot_us - boot_us : 0;
    if (news->foreign_expiry_us < 0 || left < news->foreign_expiry_us) news->foreign_expiry_us = left;
    if (left == 0 || mem_node_gone(n)) add_lapsed(news, n, mem_node_gone(n));
}

static void tell_news(mem_handle *h, int64_t node, pawl_news *news)
{
    const mem_node *own = mem_find_node(h->m, node);
    news->node_dead = !own || !own->alive;
    news->store_now_us = mem_now(&h->base);
    news->limits_version = h->m->limits_version;
    news->schedule_due_us = mem_schedule_due(h->m);
    news->unsettled = !list_empty(&h->m->unsettled);
    news->foreign_expiry_us = -1;
    news->lapsed_count = news->cancels_count = 0;
    int64_t boot_us = mem_boot(&h->base);
    list_each(link, &h->m->holding) {
        const mem_node *n = container_of(link, mem_node, holding);
        if (n != own) see_node(news, n, boot_us);
    }
    if (!own) return;
    list_each(link, &own->asked) {
        const mem_task *t = container_of(link, mem_task, place.lease);
        if (news->cancels_count < PAWL_CANCELS_MAX) news->cancels[news->cancels_count++] = (pawl_lease){t->id, t->fence};
    }
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

static void want_nothing(pawl_claim *call)
{
    for (int i = 0; i < call->wants_count; i++) {
        pawl_want *w = &call->wants[i];
        w->got = 0;
        w->next_due_us = 0;
        w->paused = w->more = false;
    }
}

pawl_status memory_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    mem *m = mem_enter(store);
    mem_node *n = mem_find_node(m, call->node);
    claiming c = {.m = m, .call = call, .now_us = mem_now(store)};
    pawl_status status = PAWL_OK;
    call->tasks_count = 0;
    if (!n || (!n->alive && !CANARY(GRANTED_AFTER_RESCUE))) {
        want_nothing(call);
    } else if (choose_all(&c, arena)) {
        grant(&c, n);
        if (call->tasks_count > 0) mem_node_beat(n, mem_boot(store));
    } else {
        give_up(&c);
        status = mem_no_memory(err);
    }
    if (!status) tell_news(handle_of(store), call->node, &call->news);
    mem_exit(m);
    return status;
}

pawl_status memory_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    (void)err;
    mem *m = mem_enter(store);
    mem_node *n = mem_find_node(m, call->node);
    if (n && n->alive) mem_node_beat(n, mem_boot(store));
    call->held = n ? n->leases : 0;
    tell_news(handle_of(store), call->node, &call->news);
    mem_exit(m);
    return PAWL_OK;
}

static int list_leases(const list *from, pawl_lease *to)
{
    int count = 0;
    list_each(link, from) {
        const mem_task *t = container_of(link, mem_task, place.lease);
        to[count++] = (pawl_lease){t->id, t->fence};
    }
    return count;
}

pawl_status memory_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err)
{
    mem *m = mem_enter(store);
    const mem_node *n = mem_find_node(m, node);
    pawl_lease *found = pawl_arena_alloc(arena, n ? (size_t)n->leases * sizeof *found : 1);
    if (found) {
        *leases = found;
        *count = n ? list_leases(&n->leased, found) : 0;
        if (n) *count += list_leases(&n->asked, found + *count);
    }
    mem_exit(m);
    return found ? PAWL_OK : mem_no_memory(err);
}

/* ---- rescue ------------------------------------------------------------------------------------------------------ */

/* A victim holds leases and is dead already, provably gone, or silent since the renewal the rescuer saw. */
static bool may_rescue(const mem_node *victim, const pawl_rescue *call, int64_t boot_us)
{
    if (!victim->alive || mem_node_gone(victim) || CANARY(LIVING_RESCUED)) return true;
    return victim->leases > 0 && victim->id != call->node && mem_node_lapsed(victim, boot_us) && victim->renewal == call->renewal;
}

/* Exactly one task had begun under suspicion: it is to blame. Several: nobody knows which, so they run alone from now on. */
static void blame(mem_task *t, const mem_node *victim, bool counts)
{
    if (CANARY(NEIGHBOURS_BLAMED)) t->strikes++;
    if (!t->marked) return;
    if (victim->marked == 1) t->strikes = (signed char)(t->strikes + counts);
    else t->solo = true;
}

static task_why rescue_why(const mem_task *t)
{
    if (t->cancel_asked) return TASK_CANCEL;
    return t->strikes >= STRIKES_OUT ? TASK_POISON : TASK_AGAIN;
}

static void rescue_task(mem *m, mem_task *t, pawl_rescue *call, int64_t now_us)
{
    task_why why = rescue_why(t);
    call->tasks[call->freed + call->failed] = (pawl_lease){t->id, t->fence};
    t->rescues++;
    t->suspect = true;
    pawl_execution run = {.outcome = PAWL_ATTEMPT_RESCUED, .started_us = t->started_us};
    if (!t->not_started) mem_record_run(m, t, &run, NULL, NULL, false, now_us);
    if (why == TASK_POISON) t->ending = &mem_poisoned;
    if (why == TASK_AGAIN && t->run_at_us > now_us) t->run_at_us = now_us;
    m->minute->rescued++;
    mem_move(m, t, why, &(mem_note){.now_us = now_us, .rank = ROW_ERROR, .detail = "rescued"});
    t->fence++;
    if (why == TASK_POISON) call->failed++;
    else call->freed++;
}

static pawl_status free_tasks(mem *m, mem_node *victim, pawl_rescue *call, int64_t now_us, pawl_error *err)
{
    size_t limit = call->limit > 0 ? (size_t)call->limit : 0;
    if ((int64_t)limit > victim->leases) limit = (size_t)victim->leases;
    if (!pool_reserve(&m->rows, &m->allocator, limit) || !pool_reserve(&m->attempts, &m->allocator, limit))
        return mem_no_memory(err);
    if (!mem_minute_ready(m, now_us)) return mem_no_memory(err);
    if (victim->alive) mem_node_die(m, victim, now_us);
    for (; limit > 0; limit--) {
        list *from = list_empty(&victim->leased) ? &victim->asked : &victim->leased;
        mem_task *t = container_of(from->next, mem_task, place.lease);
        blame(t, victim, call->counts);
        rescue_task(m, t, call, now_us);
    }
    call->more = victim->leases > 0;
    return PAWL_OK;
}

pawl_status memory_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err)
{
    mem *m = mem_enter(store);
    mem_node *victim = mem_find_node(m, call->victim);
    pawl_status status = PAWL_OK;
    call->refused = call->more = false;
    call->freed = call->failed = 0;
    if (victim && !may_rescue(victim, call, mem_boot(store))) call->refused = true;
    else if (victim) status = free_tasks(m, victim, call, mem_now(store), err);
    if (call->freed + call->failed > 0) mem_wake_others(handle_of(store));
    mem_exit(m);
    return status;
}
