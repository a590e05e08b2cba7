/* Leases in the memory store: claims, renewals with their news, what a node holds, rescue.
 *
 * A claim merges the kinds it may take from: a cursor per kind stands on the kind's next task in the order priority,
 * run_at, id, and the cursors stand in a tree by that task. Choosing changes nothing; only when every chosen task has its
 * copy for the engine are the leases granted. Tasks that find no place of a concurrency limit are blocked on the way.
 *
 * Where tenants take turns, each has kinds of its own: among the cursors of the most urgent priority the one is taken whose tenant has
 * its turn.
 */
#include "store/memory.h"

typedef struct cursor {
    tree_node order;
    struct cursor *next; /* of all */
    mem_kind *kind;
    mem_task *task;
    bool bounded; /* its tasks may need places: only for workers that are free */
} cursor;

typedef struct claiming {
    mem *m;
    pawl_claim *call;
    pawl_want *want;
    int want_index;
    int64_t now_us;
    mem_task **chosen; /* beside call->tasks */
    bool solo_taken;
    mem_queue *queue;
    tree cursors; /* that stand on a task */
    cursor *all;
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
    bool kept = at->bounded && c->want->got >= c->want->free;
    at->task = first_of_kind(c, at->kind);
    if (at->task && kept) at->task = NULL, c->withheld = true;
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
    at->bounded = mem_bounded(c->m, kind);
    at->next = c->all;
    c->all = at;
    aim(c, at);
    see_due(kind, c->now_us, &c->want->next_due_us);
    return true;
}

static bool knows(const pawl_want *w, const mem_kind *kind)
{
    bool known = w->any_type;
    for (int i = 0; !known && i < w->types_count; i++) known = strcmp(w->types[i], kind->type) == 0;
    return known;
}

static bool add_kinds(claiming *c, const mem_queue *q, pawl_arena *arena)
{
    if (c->want->any_type || !list_empty(&q->shares)) {
        list_each(link, &q->kinds) {
            mem_kind *kind = container_of(link, mem_kind, link);
            if (knows(c->want, kind) && !add_kind(c, kind, arena)) return false;
        }
        return true;
    }
    for (int i = 0; i < c->want->types_count; i++) {
        mem_kind *kind = mem_kind_find(c->m, q, c->want->types[i]);
        if (kind && !add_kind(c, kind, arena)) return false;
    }
    return true;
}

/* A place of each limit that it is under, or it is blocked. It stands nowhere then, and if it may not go on, where it belongs. */
static mem_admission admit(claiming *c, mem_task *t)
{
    mem_unplace(c->m, t);
    mem_admission admission = mem_admit(c->m, t, c->now_us);
    if (admission != MEM_ADMITTED) mem_place(c->m, t);
    return admission;
}

/* Takes the task out of the ready tree, so that the next one shows; its state does not change yet. */
static bool choose(claiming *c, mem_task *t, bool bounded)
{
    int at = c->call->tasks_count;
    if (!pool_reserve(&c->m->rows, &c->m->allocator, (size_t)at + 1)) return false;
    mem_admission admission = bounded ? admit(c, t) : MEM_ADMITTED;
    if (admission != MEM_ADMITTED) return admission == MEM_BLOCKED;
    pawl_body *body = pawl_body_share(c->call->allocator, t->body);
    if (!body) {
        if (t->placed) mem_places_leave(c->m, t, false);
        if (bounded) mem_place(c->m, t);
        return false;
    }
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
    if (!bounded) mem_unplace(c->m, t);
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

static int turn_of(const cursor *at) { return at->kind->share ? at->kind->share->number : 0; }

/* Tenants take turns: of those with a task of the most urgent priority the first from the one whose turn it is, round about. */
static cursor *next_turn(const claiming *c)
{
    cursor *next = NULL, *first = NULL; /* from there on; of all */
    const mem_queue *q = c->queue;
    int from = q->turn_left > 0 ? q->turn : q->turn + 1, priority = cursor_of(c->cursors.first)->task->level->priority;
    for (tree_node *node = c->cursors.first; node; node = tree_next(node)) { /* within a tenant the most urgent comes first */
        cursor *at = cursor_of(node);
        if (at->task->level->priority != priority) break;
        if (!first || turn_of(at) < turn_of(first)) first = at;
        if (turn_of(at) >= from && (!next || turn_of(at) < turn_of(next))) next = at;
    }
    return next ? next : first;
}

static void take_turn(mem_queue *q, const cursor *at)
{
    if (turn_of(at) == q->turn && q->turn_left > 0) {
        q->turn_left--;
        return;
    }
    q->turn = turn_of(at);
    q->turn_left = at->kind->share && at->kind->share->weight > 0 ? at->kind->share->weight - 1 : 0;
}

/* ---- floods: what is due and must wait for budgets that have nothing left leaves most of a claim to others --------------- */

#define END_LOOK 64

static bool take_others(claiming *c, cursor *at, int most)
{
    mem_task *found[END_LOOK];
    tree *ready = &at->task->level->ready[0];
    tree_node *node = mem_first_after(ready, c->now_us);
    int count = 0, looked = 0;
    for (node = node ? tree_prev(node) : ready->last; node && looked < END_LOOK; node = tree_prev(node), looked++)
        if (!mem_spent(c->m, task_of_order(node), c->now_us)) found[count++] = task_of_order(node);
    while (count > 0 && c->want->got < most && !(at->bounded && c->want->got >= c->want->free))
        if (!choose(c, found[--count], at->bounded)) return false;
    return true;
}

static bool take_first(claiming *c, cursor *at, int most, int priority)
{
    while (at->task && at->task->level->priority == priority && c->want->got < most) {
        tree_remove(&c->cursors, &at->order);
        if (!choose(c, at->task, at->bounded)) return false;
        aim(c, at);
    }
    return true;
}

static bool pass_flood(claiming *c)
{
    const mem_task *first = c->cursors.first ? cursor_of(c->cursors.first)->task : NULL;
    int got = c->want->got, most = got + flood_others(c->want->free + c->want->prefetch - got, c->now_us);
    if (!first || !mem_spent(c->m, first, c->now_us)) return true;
    int priority = first->level->priority;
    for (cursor *at = c->all; at && c->want->got < most; at = at->next) {
        if (!at->task || at->task->suspect || at->task->level->priority != priority) continue;
        bool flooded = mem_spent(c->m, at->task, c->now_us);
        if (!(flooded ? take_others(c, at, most) : take_first(c, at, most, priority))) return false;
    }
    c->want->flooded = most > got && c->want->got < most;
    if (c->want->got > got) aim_all(c);
    return true;
}

static bool take_due(claiming *c)
{
    int room = c->want->free + c->want->prefetch;
    bool fair = !list_empty(&c->queue->shares) && !CANARY(TURNS_FORGOTTEN);
    if (!fair && c->m->limits_version > 0 && !pass_flood(c)) return false;
    while (c->want->got < room && c->cursors.first) {
        cursor *at = fair ? next_turn(c) : cursor_of(c->cursors.first);
        bool solo = at->task->suspect && at->task->solo;
        int got = c->want->got;
        tree_remove(&c->cursors, &at->order);
        if (!choose(c, at->task, at->bounded)) return false;
        if (fair && c->want->got > got) take_turn(c->queue, at);
        aim(c, at);
        if (c->want->got == c->want->free || solo) aim_all(c);
    }
    return true;
}

/* Those who were blocked may have left places to others: they are offered, and the claim goes on. */
static bool take_offered(claiming *c)
{
    while (!list_empty(&c->m->touched_spots) && mem_places_offer(c->m)) {
        c->call->news.unblocked = true;
        for (cursor *at = c->all; at; at = at->next) {
            if (at->task) tree_remove(&c->cursors, &at->order);
            aim(c, at);
        }
        if (!take_due(c)) return false;
    }
    return true;
}

static bool claim_want(claiming *c, pawl_arena *arena)
{
    pawl_want *w = c->want;
    mem_queue *q = mem_queue_find(c->m, w->queue);
    w->got = 0;
    w->next_due_us = 0;
    w->more = w->flooded = false;
    w->paused = q && q->paused && !CANARY(PAUSE_UNSEEN);
    w->fair = q && q->fair;
    if (!q || w->paused) return true;
    tree_init(&c->cursors, cursor_before);
    c->withheld = false;
    c->queue = q;
    c->all = NULL;
    c->m->claims++;
    if (!add_kinds(c, q, arena) || !take_due(c) || !take_offered(c)) return false;
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
        if (c->chosen[i]->placed) mem_places_leave(c->m, c->chosen[i], false);
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
        w->paused = w->more = w->flooded = w->fair = false;
    }
}

pawl_status memory_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    mem *m = mem_enter(store);
    mem_node *n = mem_find_node(m, call->node);
    claiming c = {.m = m, .call = call, .now_us = mem_now(store)};
    pawl_status status = PAWL_OK;
    call->tasks_count = 0;
    call->news.unblocked = false;
    if (!n || (!n->alive && !CANARY(GRANTED_AFTER_RESCUE))) {
        want_nothing(call);
    } else if (choose_all(&c, arena)) {
        grant(&c, n);
        if (call->tasks_count > 0) mem_node_beat(n, mem_boot(store));
    } else {
        give_up(&c);
        status = mem_no_memory(err);
    }
    if (m->bounds_in_force > 0 && mem_places_offer(m)) call->news.unblocked = true;
    if (call->news.unblocked) mem_wake_others(handle_of(store));
    if (!status) tell_news(handle_of(store), call->node, &call->news);
    mem_exit(m);
    return status;
}

static bool keep_told(mem *m, mem_node *n, pawl_bytes told)
{
    char *copy = told.len ? alloc_new(&m->allocator, told.len) : NULL;
    if (told.len && !copy) return false;
    alloc_free(&m->allocator, (char *)n->told.data);
    n->told = (pawl_bytes){copy, told.len};
    if (copy) memcpy(copy, told.data, told.len);
    return true;
}

pawl_status memory_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    mem *m = mem_enter(store);
    mem_node *n = mem_find_node(m, call->node);
    if (n && n->alive && call->told.data && !keep_told(m, n, call->told)) {
        mem_exit(m);
        return mem_no_memory(err);
    }
    if (n && n->alive) mem_node_beat(n, mem_boot(store));
    call->held = n ? n->leases : 0;
    call->news.unblocked = false;
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
    mem_places_offer(m);
    if (call->freed + call->failed > 0) mem_wake_others(handle_of(store));
    mem_exit(m);
    return status;
}
