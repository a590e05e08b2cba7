/* The store contract (pawl/store.h) the way a database server would carry it out: every call is one transaction, every
 * statement of it a step of its own, locks in the contract's order: life, receipt, limits, gates and spots, queues (they
 * are limits, too), keys, tasks by id, heartbeat.
 *
 * What a lock protects
 *   life row, shared    the node stays alive until this commits: leases can be granted, the heartbeat written
 *   life row, exclusive nobody grants leases to it, nobody renews it: it can be declared dead
 *   receipt             a copy of the same batch is waited for
 *   queue row           pause waits for claims under way and they for it, so nothing is leased after the pause committed
 *   key row             who holds the key
 *   task row            state and fence
 */
#include "rowstore.h"
#include "base/canary.h"
#include <stdlib.h>
#include <string.h>

static void *forever_alloc(void *ctx, size_t size) { return sim_alloc(ctx, size); }
static void *forever_resize(void *ctx, void *ptr, size_t size) { return ptr ? NULL : sim_alloc(ctx, size); }
static void forever_release(void *ctx, void *ptr) { (void)ctx, (void)ptr; }

rowstore *rowstore_new(sim *s)
{
    rowstore *rs = sim_alloc(s, sizeof *rs);
    rs->sim = s;
    rs->numbers = (int)between(s, NODES_MAX + 1, NUMBERS_MAX);
    rs->forever = (pawl_allocator){forever_alloc, forever_resize, forever_release, s};
    rows_init(&rs->db, s);
    return rs;
}

void rowstore_free(rowstore *rs) { rows_done(&rs->db); }

/* ---- looking at committed rows --------------------------------------------------------------------------------------------- */

static int leases_of(tx *t, int64_t node)
{
    int count = 0;
    list_each(link, &t->db->tables[ROW_TASK]) {
        const row_data *d = rowtx_read(t, container_of(link, row, link));
        count += d->task.state == PAWL_LEASED && d->task.node == node;
    }
    return count;
}

static void news_of_node(tx *t, pawl_news *news, const row *life)
{
    const row_data *l = rowtx_read(t, life), *h = rowtx_read(t, rows_get(t->db, ROW_HEART, life->id, NULL));
    if (leases_of(t, life->id) == 0) return;
    int64_t left = h->heart.expires_us - t->alive_us;
    bool proven = l->life.dead || !l->life.session->open;
    if ((left <= 0 || proven) && news->lapsed_count < PAWL_LAPSED_MAX) {
        news->lapsed[news->lapsed_count++] = (pawl_lapsed){.node = life->id, .renewal = h->heart.renewal, .proven_dead = proven};
    }
    if (left < 0) left = 0;
    if (news->foreign_expiry_us < 0 || left < news->foreign_expiry_us) news->foreign_expiry_us = left;
}

static bool tell_news(tx *t, pawl_news *news, int64_t node)
{
    news->store_now_us = t->now_us;
    news->limits_version = rowstore_of(t)->limits_version;
    news->foreign_expiry_us = -1;
    news->lapsed_count = news->cancels_count = 0;
    if (!rowtx_step(t)) return false;
    list_each(link, &t->db->tables[ROW_LIFE]) {
        row *life = container_of(link, row, link);
        if (life->id != node && life->data.life.exists) news_of_node(t, news, life);
    }
    if (!rowtx_step(t)) return false;
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        const row_data *d = rowtx_read(t, r);
        if (d->task.state != PAWL_LEASED || d->task.node != node || !d->task.cancel_asked) continue;
        if (news->cancels_count < PAWL_CANCELS_MAX) news->cancels[news->cancels_count++] = (pawl_lease){r->id, d->task.fence};
    }
    return true;
}

/* ---- the node -------------------------------------------------------------------------------------------------------------- */

static bool register_node(tx *t, pawl_registration *call)
{
    int64_t node = ++rowstore_of(t)->last_node;
    row *life = rows_get(t->db, ROW_LIFE, node, NULL);
    if (!rowtx_lock(t, life, true)) return false;
    row_data *d = rowtx_write(t, life);
    d->life.exists = true;
    d->life.session = t->wire->session;
    d->life.lease_us = call->lease_us;
    call->node = node;
    return rowtx_step(t);
}

static bool leave(tx *t, int64_t node)
{
    row *life = rows_get(t->db, ROW_LIFE, node, NULL);
    if (!rowtx_lock(t, life, true) || !rowtx_step(t)) return false;
    if (rowtx_read(t, life)->life.exists && leases_of(t, node) == 0) rowtx_write(t, life)->life.dead = true;
    return rowtx_step(t);
}

/* Own life row, shared. */
bool rowstore_lock_life(tx *t, int64_t node, bool *dead)
{
    row *life = rows_get(t->db, ROW_LIFE, node, NULL);
    if (!rowtx_lock(t, life, false)) return false;
    *dead = !rowtx_read(t, life)->life.exists || rowtx_read(t, life)->life.dead;
    return true;
}

bool rowstore_beat(tx *t, int64_t node, bool renewal)
{
    row *heart = rows_get(t->db, ROW_HEART, node, NULL);
    if (!rowtx_lock(t, heart, true)) return false;
    int64_t expires = t->alive_us + rowtx_read(t, rows_get(t->db, ROW_LIFE, node, NULL))->life.lease_us;
    row_data *d = rowtx_write(t, heart);
    if (expires > d->heart.expires_us) d->heart.expires_us = expires;
    d->heart.renewal += renewal;
    return true;
}

static bool renew(tx *t, pawl_renewal *call)
{
    if (!rowstore_lock_life(t, call->node, &call->news.node_dead)) return false;
    if (!call->news.node_dead && !rowstore_beat(t, call->node, true)) return false;
    if (!rowtx_step(t)) return false;
    call->held = leases_of(t, call->node);
    return tell_news(t, &call->news, call->node);
}

static bool held(tx *t, core_call *call)
{
    if (!rowtx_step(t)) return false;
    int count = 0;
    pawl_lease *leases = pawl_arena_alloc(call->arena, ((size_t)leases_of(t, call->u.held.node) + 1) * sizeof *leases);
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        const row_data *d = rowtx_read(t, r);
        if (d->task.state == PAWL_LEASED && d->task.node == call->u.held.node)
            leases[count++] = (pawl_lease){r->id, d->task.fence};
    }
    call->u.held.leases = leases;
    call->u.held.count = count;
    return true;
}

static bool number_free(tx *t, const row_data *d, int i, int64_t now_ms)
{
    int64_t owner = d->numbers.owner[i];
    if (owner == 0 || d->numbers.ceiling_ms[i] < now_ms) return true;
    const row_data *life = rowtx_read(t, rows_get(t->db, ROW_LIFE, owner, NULL));
    return life->life.dead || !life->life.session->open;
}

static bool take_ids(tx *t, pawl_ids *call)
{
    row *numbers = rows_get(t->db, ROW_NUMBERS, 0, NULL);
    if (!rowtx_lock(t, numbers, true)) return false;
    row_data *d = rowtx_write(t, numbers);
    int64_t now_ms = t->now_us / 1000 - PAWL_EPOCH_MS, base = now_ms > call->used_ms ? now_ms : call->used_ms;
    int i = call->number - 1;
    bool own = i >= 0 && d->numbers.owner[i] == call->node;
    if (call->give_back) {
        if (own) d->numbers.owner[i] = 0, d->numbers.ceiling_ms[i] = call->used_ms;
        return rowtx_step(t);
    }
    if (!own) {
        i = -1;
        for (int k = 0; k < rowstore_of(t)->numbers; k++) {
            if (number_free(t, d, k, now_ms) && (i < 0 || d->numbers.ceiling_ms[k] < d->numbers.ceiling_ms[i])) i = k;
        }
        if (i < 0) return t->killed = true, false; /* none to be had: not available */
        d->numbers.owner[i] = call->node;
        t->wire->sim->stats[STAT_NUMBERS]++;
        if (d->numbers.ceiling_ms[i] > base) base = d->numbers.ceiling_ms[i];
    }
    call->out_number = i + 1;
    call->floor_ms = d->numbers.ceiling_ms[i];
    if (d->numbers.ceiling_ms[i] < base + call->ahead_ms) d->numbers.ceiling_ms[i] = base + call->ahead_ms;
    call->ceiling_ms = d->numbers.ceiling_ms[i];
    return rowtx_step(t);
}

/* ---- claims ---------------------------------------------------------------------------------------------------------------- */

static bool knows(const pawl_want *w, const char *type)
{
    for (int i = 0; i < w->types_count; i++) {
        if (strcmp(w->types[i], type) == 0) return true;
    }
    return w->any_type;
}

static bool fits(const pawl_want *w, const row_data *d)
{
    return d->task.state == PAWL_PENDING && !d->task.blocked && strcmp(d->task.body->queue, w->queue) == 0 &&
           knows(w, d->task.body->type);
}

static int by_urgency(const void *a, const void *b)
{
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    if (x->data.task.body->priority != y->data.task.body->priority) {
        return x->data.task.body->priority < y->data.task.body->priority ? -1 : 1;
    }
    if (x->data.task.run_at_us != y->data.task.run_at_us) return x->data.task.run_at_us < y->data.task.run_at_us ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* What is committed and due now; the time of the next that is not. */
static row **candidates(tx *t, pawl_want *w, int *count)
{
    row **found = pawl_arena_alloc(t->wire->arena, (t->db->tasks.count + 1) * sizeof *found);
    *count = 0;
    w->next_due_us = 0;
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        if (!fits(w, &r->data)) continue;
        int64_t at = r->data.task.run_at_us;
        if (at <= t->now_us) found[(*count)++] = r;
        else if (w->next_due_us == 0 || at < w->next_due_us) w->next_due_us = at;
    }
    qsort(found, (size_t)*count, sizeof *found, by_urgency);
    return found;
}

static void grant(tx *t, pawl_claim *call, int want, row *r)
{
    pawl_want *w = &call->wants[want];
    row_data *d = rowtx_write(t, r);
    d->task.state = PAWL_LEASED;
    d->task.node = call->node;
    d->task.fence++;
    bool limited = rowstore_limited(t, d->task.body->type);
    int64_t until_us = rowstore_slot_until(t, d);
    d->task.not_started = d->task.body->key && (w->got >= w->free || limited);
    d->task.marked = false;
    d->task.gate = NULL;
    call->tasks[call->tasks_count++] = (pawl_claimed){.body = pawl_body_copy(call->allocator, d->task.body),
                                                      .fence = d->task.fence,
                                                      .run_at_us = d->task.run_at_us,
                                                      .runs = d->task.runs,
                                                      .failures = d->task.failures,
                                                      .rescues = d->task.rescues,
                                                      .interruptions = d->task.interruptions,
                                                      .want = want,
                                                      .not_started = d->task.not_started,
                                                      .limited = limited,
                                                      .until_us = until_us,
                                                      .epoch = d->task.slot_epoch,
                                                      .suspect = d->task.suspect,
                                                      .solo = d->task.solo};
    w->got++;
}

static bool claim_one_want(tx *t, pawl_claim *call, int want, bool *solo)
{
    pawl_want *w = &call->wants[want];
    int count;
    w->got = 0;
    w->more = false;
    w->paused = rowtx_read(t, rowstore_queue(t, w->queue))->queue.paused;
    row **found = candidates(t, w, &count);
    if (w->paused) return true;
    for (int i = 0; i < count; i++) {
        row *r = found[i];
        if (w->got == w->free + w->prefetch) {
            w->more = true;
            return true;
        }
        if (!rowtx_step(t)) return false;
        const row_data *d = &r->data;
        bool withheld = (d->task.suspect && w->got >= w->free) || (d->task.solo && (*solo || !w->solo));
        if (withheld || !tx_try_lock(t, r)) { /* it is due, and may still be there afterwards */
            w->more = true;
            continue;
        }
        if (!fits(w, rowtx_read(t, r)) || rowtx_read(t, r)->task.run_at_us > t->now_us) continue;
        if (!rowstore_stands(t, r) || (w->got >= w->free && rowstore_bounded(t, rowtx_read(t, r)->task.body))) {
            w->more = true;
            continue;
        }
        if (!rowstore_admit(t, r)) continue;
        *solo |= rowtx_read(t, r)->task.solo;
        grant(t, call, want, r);
    }
    return true;
}

/* Queues, and the spots of what may be granted; then those who are blocked there. */
static bool lock_queues(tx *t, pawl_claim *call)
{
    size_t most = (size_t)call->wants_count + 1 + 3 * t->db->tasks.count;
    lock_list l = {.locks = pawl_arena_alloc(t->wire->arena, most * sizeof *l.locks)};
    for (int i = 0; i < call->wants_count; i++) {
        int count;
        row **found = candidates(t, &call->wants[i], &count);
        for (int k = 0; k < count; k++) rowstore_want_spots_of(t, &l, found[k]->data.task.body);
        rowstore_want_lock(&l, rowstore_queue(t, call->wants[i].queue), false);
    }
    if (!rowstore_lock_all(t, &l)) return false;
    rowstore_want_blocked(t, &l);
    return rowstore_lock_all(t, &l);
}

static bool claim(tx *t, pawl_claim *call)
{
    bool solo = false;
    call->tasks_count = 0;
    call->news.unblocked = false;
    if (!rowstore_lock_life(t, call->node, &call->news.node_dead)) return false;
    if (!rowstore_lock_bounds(t, false) || !lock_queues(t, call)) return false;
    for (int i = 0; !call->news.node_dead && i < call->wants_count; i++) {
        if (!claim_one_want(t, call, i, &solo)) return false;
    }
    call->news.unblocked = rowstore_offer(t);
    if (call->tasks_count && !rowstore_beat(t, call->node, false)) return false;
    return tell_news(t, &call->news, call->node);
}

/* ---- rescue ---------------------------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static row **tasks_of(tx *t, int64_t node, int *count, int *marked)
{
    row **found = pawl_arena_alloc(t->wire->arena, (t->db->tasks.count + 1) * sizeof *found);
    *count = *marked = 0;
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        if (r->data.task.state != PAWL_LEASED || r->data.task.node != node) continue;
        *marked += r->data.task.marked;
        found[(*count)++] = r;
    }
    qsort(found, (size_t)*count, sizeof *found, by_id);
    return found;
}

static void free_task(tx *t, pawl_rescue *call, const row_data *life, row *r)
{
    row_data *d = rowtx_write(t, r);
    bool marked = d->task.marked, poison = false;
    if (marked && life->life.marked > 1) d->task.solo = true;
    if (marked && life->life.marked == 1 && life->life.counted) poison = ++d->task.counted >= 3 && !d->task.cancel_asked;
    d->task.fence++;
    d->task.rescues++;
    d->task.runs += !d->task.not_started;
    d->task.suspect = true;
    d->task.run_at_us = t->now_us;
    if (poison) d->task.reason = "rescued_too_often";
    if (!CANARY(PLACE_KEPT)) rowstore_leave_places(t, r);
    rowstore_unlease(d, poison ? PAWL_FAILED : d->task.cancel_asked ? PAWL_CANCELLED : PAWL_PENDING);
    call->tasks[call->freed + call->failed] = (pawl_lease){r->id, d->task.fence};
    if (poison) call->failed++;
    else call->freed++;
}

static bool declare_dead(tx *t, pawl_rescue *call, row *life)
{
    int count, marked;
    const row_data *was = rowtx_read(t, life), *heart = rowtx_read(t, rows_get(t->db, ROW_HEART, call->victim, NULL));
    bool proven = was->life.dead || !was->life.session->open;
    call->refused =
        !was->life.exists || (!proven && (heart->heart.expires_us > t->alive_us || heart->heart.renewal != call->renewal));
    if (call->refused || was->life.dead) return !call->refused;
    tasks_of(t, call->victim, &count, &marked);
    row_data *d = rowtx_write(t, life);
    d->life.dead = true;
    d->life.marked = marked;
    d->life.counted = call->counts;
    return true;
}

static bool lock_with_spots(tx *t, row **tasks, int count)
{
    lock_list l = {.locks = pawl_arena_alloc(t->wire->arena, (3 * t->db->tasks.count + 1) * sizeof *l.locks)};
    for (int i = 0; i < count; i++) rowstore_want_spots_of(t, &l, rowtx_read(t, tasks[i])->task.body);
    if (!rowstore_lock_all(t, &l)) return false;
    for (int i = 0; i < count; i++) rowstore_want_lock(&l, tasks[i], true);
    rowstore_want_blocked(t, &l);
    return rowstore_lock_all(t, &l);
}

static bool rescue(tx *t, pawl_rescue *call)
{
    int count, marked;
    row *life = rows_get(t->db, ROW_LIFE, call->victim, NULL);
    call->freed = call->failed = 0;
    call->more = false;
    if (!rowtx_lock(t, life, true) || !rowtx_step(t)) return false;
    if (!declare_dead(t, call, life)) return true;
    if (!rowstore_lock_bounds(t, false)) return false;
    row **tasks = tasks_of(t, call->victim, &count, &marked);
    call->more = count > call->limit;
    if (count > call->limit) count = call->limit;
    if (!lock_with_spots(t, tasks, count)) return false;
    for (int i = 0; i < count; i++) {
        const row_data *d = rowtx_read(t, tasks[i]);
        if (d->task.state != PAWL_LEASED || d->task.node != call->victim) continue;
        if (!rowstore_stands(t, tasks[i])) return t->again = true, false;
        free_task(t, call, rowtx_read(t, life), tasks[i]);
    }
    rowstore_offer(t);
    return rowtx_step(t);
}

/* ---- calls ----------------------------------------------------------------------------------------------------------------- */

static bool serve_once(tx *t, core_call *call)
{
    call->status = PAWL_OK;
    switch (call->kind) {
    case CORE_REGISTER: return register_node(t, &call->u.registration);
    case CORE_LEAVE: return leave(t, call->u.leave);
    case CORE_IDS: return take_ids(t, &call->u.ids);
    case CORE_APPLY: return rowstore_apply(t, &call->u.batch, &call->status);
    case CORE_CLAIM: return claim(t, &call->u.claim);
    case CORE_RENEW: return renew(t, &call->u.renewal);
    case CORE_HELD: return held(t, call);
    case CORE_RESCUE: return rescue(t, &call->u.rescue);
    default:
        call->u.sweep.removed = call->u.sweep.expiring = 0;
        call->u.sweep.more = false;
        call->u.sweep.next_us = -1;
        return rowtx_step(t);
    }
}

static void serve(tx *t, void *arg)
{
    (void)arg;
    core_call *call = &t->wire->call;
    bool done = serve_once(t, call);
    while (!done && t->again && !t->killed) {
        rowtx_rollback(t);
        t->again = false;
        done = serve_once(t, call);
    }
    if (done) {
        rowtx_commit(t);
        wire_executed(t->wire);
    } else {
        rowtx_rollback(t);
        call->status = PAWL_UNAVAILABLE;
    }
}

void rowstore_start(rowstore *rs, wire *w) { rowtx_start(&rs->db, w, serve, NULL); }

void rowstore_kill(rowstore *rs, wire *w)
{
    (void)rs;
    if (w->tx) rowtx_kill(w->tx);
}

bool rowstore_peek(rowstore *rs, pawl_id id, pawl_state *state, int64_t *fence)
{
    row *r = rows_find_task(&rs->db, id);
    if (!r || !r->data.task.state) return false;
    *state = r->data.task.state;
    *fence = r->data.task.fence;
    return true;
}
