/* The store contract (pawl/store.h) the way a database server would carry it out: every call is one transaction, every statement of
 * it a step of its own, locks in the contract's order: life, receipt, queues (they are limits), keys, tasks by id, heartbeat.
 *
 * What a lock protects
 *   life row, shared    the node stays alive until this commits: leases can be granted, the heartbeat written
 *   life row, exclusive nobody grants leases to it, nobody renews it: it can be declared dead
 *   receipt             a copy of the same batch is waited for
 *   queue row           pause waits for claims under way and they for it, so nothing is leased after the pause committed
 *   key row             who holds the key
 *   task row            state and fence
 */
#include "rows.h"
#include "base/idgen.h"
#include <stdlib.h>
#include <string.h>

typedef struct rowstore {
    rows db;
    sim *sim;
    int64_t last_node;
    int64_t last_id;
    int numbers;
    pawl_allocator forever; /* bodies live as long as the seed */
} rowstore;

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

static rowstore *store_of(const tx *t) { return container_of(t->db, rowstore, db); }
static bool live(pawl_state state) { return state == PAWL_PENDING || state == PAWL_LEASED; }

/* ---- looking at committed rows ------------------------------------------------------------------------------------------------ */

static int leases_of(tx *t, int64_t node)
{
    int count = 0;
    list_each(link, &t->db->tables[ROW_TASK]) {
        const row_data *d = tx_read(t, container_of(link, row, link));
        count += d->task.state == PAWL_LEASED && d->task.node == node;
    }
    return count;
}

static void news_of_node(tx *t, pawl_news *news, const row *life)
{
    const row_data *l = tx_read(t, life), *h = tx_read(t, rows_get(t->db, ROW_HEART, life->id, NULL));
    if (leases_of(t, life->id) == 0) return;
    int64_t left = h->heart.expires_us - t->now_us;
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
    news->foreign_expiry_us = -1;
    news->lapsed_count = news->cancels_count = 0;
    if (!tx_step(t)) return false;
    list_each(link, &t->db->tables[ROW_LIFE]) {
        row *life = container_of(link, row, link);
        if (life->id != node && life->data.life.exists) news_of_node(t, news, life);
    }
    if (!tx_step(t)) return false;
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        const row_data *d = tx_read(t, r);
        if (d->task.state != PAWL_LEASED || d->task.node != node || !d->task.cancel_asked) continue;
        if (news->cancels_count < PAWL_CANCELS_MAX) news->cancels[news->cancels_count++] = (pawl_lease){r->id, d->task.fence};
    }
    return true;
}

/* ---- the node ------------------------------------------------------------------------------------------------------------------- */

static bool register_node(tx *t, pawl_registration *call)
{
    int64_t node = ++store_of(t)->last_node;
    row *life = rows_get(t->db, ROW_LIFE, node, NULL);
    if (!tx_lock(t, life, true)) return false;
    row_data *d = tx_write(t, life);
    d->life.exists = true;
    d->life.session = t->wire->session;
    d->life.lease_us = call->lease_us;
    call->node = node;
    return tx_step(t);
}

static bool leave(tx *t, int64_t node)
{
    row *life = rows_get(t->db, ROW_LIFE, node, NULL);
    if (!tx_lock(t, life, true) || !tx_step(t)) return false;
    if (tx_read(t, life)->life.exists && leases_of(t, node) == 0) tx_write(t, life)->life.dead = true;
    return tx_step(t);
}

/* Own life row, shared. */
static bool lock_life(tx *t, int64_t node, bool *dead)
{
    row *life = rows_get(t->db, ROW_LIFE, node, NULL);
    if (!tx_lock(t, life, false)) return false;
    *dead = !tx_read(t, life)->life.exists || tx_read(t, life)->life.dead;
    return true;
}

static bool beat(tx *t, int64_t node, bool renewal)
{
    row *heart = rows_get(t->db, ROW_HEART, node, NULL);
    if (!tx_lock(t, heart, true)) return false;
    int64_t expires = t->now_us + tx_read(t, rows_get(t->db, ROW_LIFE, node, NULL))->life.lease_us;
    row_data *d = tx_write(t, heart);
    if (expires > d->heart.expires_us) d->heart.expires_us = expires;
    d->heart.renewal += renewal;
    return true;
}

static bool renew(tx *t, pawl_renewal *call)
{
    if (!lock_life(t, call->node, &call->news.node_dead)) return false;
    if (!call->news.node_dead && !beat(t, call->node, true)) return false;
    if (!tx_step(t)) return false;
    call->held = leases_of(t, call->node);
    return tell_news(t, &call->news, call->node);
}

static bool held(tx *t, core_call *call)
{
    if (!tx_step(t)) return false;
    int count = 0;
    pawl_lease *leases = pawl_arena_alloc(call->arena, ((size_t)leases_of(t, call->u.held.node) + 1) * sizeof *leases);
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        const row_data *d = tx_read(t, r);
        if (d->task.state == PAWL_LEASED && d->task.node == call->u.held.node) leases[count++] = (pawl_lease){r->id, d->task.fence};
    }
    call->u.held.leases = leases;
    call->u.held.count = count;
    return true;
}

static bool number_free(tx *t, const row_data *d, int i, int64_t now_ms)
{
    int64_t owner = d->numbers.owner[i];
    if (owner == 0 || d->numbers.ceiling_ms[i] < now_ms) return true;
    const row_data *life = tx_read(t, rows_get(t->db, ROW_LIFE, owner, NULL));
    return life->life.dead || !life->life.session->open;
}

static bool take_ids(tx *t, pawl_ids *call)
{
    row *numbers = rows_get(t->db, ROW_NUMBERS, 0, NULL);
    if (!tx_lock(t, numbers, true)) return false;
    row_data *d = tx_write(t, numbers);
    int64_t now_ms = t->now_us / 1000 - PAWL_EPOCH_MS, base = now_ms > call->used_ms ? now_ms : call->used_ms;
    int i = call->number - 1;
    bool own = i >= 0 && d->numbers.owner[i] == call->node;
    if (call->give_back) {
        if (own) d->numbers.owner[i] = 0, d->numbers.ceiling_ms[i] = call->used_ms;
        return tx_step(t);
    }
    if (!own) {
        i = -1;
        for (int k = 0; k < store_of(t)->numbers; k++) {
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
    return tx_step(t);
}

/* ---- operations ------------------------------------------------------------------------------------------------------------------ */

static row *task_row(tx *t, pawl_id id) { return rows_get(t->db, ROW_TASK, id, NULL); }
static row *key_row(tx *t, const char *key) { return rows_get(t->db, ROW_KEY, 0, key); }
static row *queue_row(tx *t, const char *queue) { return rows_get(t->db, ROW_QUEUE, 0, queue); }

static int64_t due_at(const tx *t, const pawl_op *op)
{
    int64_t at = op->u.insert.at_us ? op->u.insert.at_us : t->now_us + op->u.insert.delay_us;
    return at < t->now_us ? t->now_us : at;
}

static void put_body(tx *t, row *r, const pawl_op *op)
{
    row_data *d = tx_write(t, r);
    pawl_body body = *op->u.insert.body;
    body.id = r->id;
    body.created_us = t->now_us;
    d->task.body = pawl_body_copy(&store_of(t)->forever, &body);
    d->task.run_at_us = due_at(t, op);
}

/* A lease that has not started is taken back by raising its fence. */
static void update_task(tx *t, row *r, pawl_op *op)
{
    put_body(t, r, op);
    row_data *d = tx_write(t, r);
    if (d->task.state == PAWL_LEASED) d->task.fence++;
    d->task.state = PAWL_PENDING;
    d->task.node = 0;
    d->task.not_started = d->task.marked = d->task.cancel_asked = false;
    op->result = PAWL_OP_UPDATED;
    op->out_id = r->id;
    op->out_run_at_us = d->task.run_at_us;
}

/* What the key says: true if that settles it. */
static bool insert_by_key(tx *t, pawl_op *op, row *r)
{
    row *k = key_row(t, op->u.insert.body->key);
    pawl_id holder = tx_read(t, k)->key.task;
    const row_data *d = holder ? tx_read(t, task_row(t, holder)) : NULL;
    if (d && live(d->task.state)) {
        if (d->task.state == PAWL_PENDING || d->task.not_started) {
            update_task(t, task_row(t, holder), op);
        } else {
            op->result = PAWL_OP_EXISTING;
            op->out_id = holder;
            op->out_state = d->task.state;
        }
        return true;
    }
    op->result = holder ? PAWL_OP_REPLACED : PAWL_OP_DONE;
    tx_write(t, k)->key.task = r->id;
    return false;
}

static bool insert(tx *t, pawl_op *op, int64_t node)
{
    row *r = task_row(t, op->out_id);
    const row_data *there = tx_read(t, r);
    if (there->task.state) {
        op->result = op->u.insert.may_exist ? PAWL_OP_EXISTING : PAWL_OP_COLLISION;
        op->out_state = there->task.state;
        return false;
    }
    op->result = PAWL_OP_DONE;
    if (op->u.insert.body->key && insert_by_key(t, op, r)) return false;
    put_body(t, r, op);
    row_data *d = tx_write(t, r);
    op->out_run_at_us = d->task.run_at_us;
    bool due = d->task.run_at_us <= t->now_us, paused = tx_read(t, queue_row(t, d->task.body->queue))->queue.paused;
    d->task.state = op->u.insert.ask_lease && node && due && !paused ? PAWL_LEASED : PAWL_PENDING;
    if (d->task.state != PAWL_LEASED) return false;
    d->task.node = node;
    op->out_fence = d->task.fence = 1;
    return true;
}

static bool leased_under(const row_data *d, const pawl_op *op) { return d->task.state == PAWL_LEASED && d->task.fence == op->fence; }

static void unlease(row_data *d, pawl_state to)
{
    d->task.state = to;
    d->task.node = 0;
    d->task.not_started = d->task.marked = false;
}

static void start(tx *t, row *r, pawl_op *op)
{
    op->result = PAWL_OP_CANCELLING;
    if (tx_read(t, r)->task.cancel_asked) return;
    row_data *d = tx_write(t, r);
    d->task.not_started = false;
    d->task.marked |= op->u.start.mark;
    op->result = PAWL_OP_DONE;
}

static void finish(tx *t, row *r, pawl_op *op)
{
    row_data *d = tx_write(t, r);
    unlease(d, op->u.finish.to);
    d->task.reason = op->u.finish.reason ? strcpy(sim_alloc(t->db->sim, strlen(op->u.finish.reason) + 1), op->u.finish.reason) : NULL;
    if (op->u.finish.run.outcome != PAWL_ATTEMPT_NONE) {
        d->task.runs++;
        d->task.failures += op->u.finish.to == PAWL_FAILED;
    }
    for (int i = 0; i < op->u.finish.spawns_count; i++) insert(t, &op->u.finish.spawns[i], 0);
    op->result = PAWL_OP_DONE;
}

static void release(tx *t, row *r, pawl_op *op)
{
    row_data *d = tx_write(t, r);
    bool cancelled = d->task.cancel_asked;
    unlease(d, cancelled ? PAWL_CANCELLED : PAWL_PENDING);
    if (op->u.release.delay_us >= 0 && !cancelled) d->task.run_at_us = t->now_us + op->u.release.delay_us;
    if (op->u.release.run.outcome != PAWL_ATTEMPT_NONE) {
        d->task.runs++;
        d->task.suspect = d->task.solo = false; /* it returned: it is innocent */
    }
    d->task.failures += op->u.release.failure && !cancelled;
    d->task.interruptions += op->u.release.interruption && !cancelled;
    op->out_state = d->task.state;
    op->out_run_at_us = d->task.run_at_us;
    op->result = PAWL_OP_DONE;
}

static void cancel(tx *t, row *r, pawl_op *op)
{
    const row_data *was = tx_read(t, r);
    op->out_state = was->task.state;
    op->result = was->task.state ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
    if (!live(was->task.state)) return;
    row_data *d = tx_write(t, r);
    bool started = d->task.state == PAWL_LEASED && !d->task.not_started;
    op->result = started ? PAWL_OP_ASKED : PAWL_OP_DONE;
    if (started) {
        d->task.cancel_asked = true;
    } else {
        if (d->task.state == PAWL_LEASED) d->task.fence++;
        unlease(d, PAWL_CANCELLED);
    }
}

static void by_fence(tx *t, pawl_op *op)
{
    row *r = task_row(t, op->id);
    const row_data *d = tx_read(t, r);
    if (!leased_under(d, op)) {
        op->result = PAWL_OP_STALE;
        op->out_state = d->task.state;
    } else if (op->kind == PAWL_OP_START) {
        start(t, r, op);
    } else if (op->kind == PAWL_OP_FINISH) {
        finish(t, r, op);
    } else if (op->kind == PAWL_OP_RELEASE) {
        release(t, r, op);
    } else {
        op->result = PAWL_OP_DONE;
    }
}

static bool operate(tx *t, pawl_op *op, int64_t node)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return insert(t, op, node);
    case PAWL_OP_CANCEL: cancel(t, task_row(t, op->id), op); return false;
    case PAWL_OP_QUEUE:
        tx_write(t, queue_row(t, op->u.queue.queue))->queue.paused = op->u.queue.pause;
        op->result = PAWL_OP_DONE;
        return false;
    case PAWL_OP_START: case PAWL_OP_FINISH: case PAWL_OP_RELEASE: case PAWL_OP_PROGRESS: by_fence(t, op); return false;
    default: op->result = PAWL_OP_REFUSED; return false;
    }
}

/* ---- a batch: all its locks in order, then its operations ---------------------------------------------------------------------- */

typedef struct lock_list {
    struct {
        row *row;
        bool exclusive;
    } *locks;
    int count;
} lock_list;

static void want_lock(lock_list *l, row *r, bool exclusive)
{
    for (int i = 0; i < l->count; i++) {
        if (l->locks[i].row != r) continue;
        l->locks[i].exclusive |= exclusive;
        return;
    }
    l->locks[l->count].row = r;
    l->locks[l->count++].exclusive = exclusive;
}

static int by_table_and_name(const void *a, const void *b)
{
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    if (x->table != y->table) return x->table < y->table ? -1 : 1;
    if (x->name) return strcmp(x->name, y->name);
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool lock_all(tx *t, lock_list *l)
{
    qsort(l->locks, (size_t)l->count, sizeof *l->locks, by_table_and_name);
    for (int i = 0; i < l->count; i++) {
        if (!tx_lock(t, l->locks[i].row, l->locks[i].exclusive)) return false;
    }
    l->count = 0;
    return true;
}

static pawl_id draw_id(tx *t)
{
    rowstore *rs = store_of(t);
    int64_t ms = t->now_us / 1000 - PAWL_EPOCH_MS;
    pawl_id id = id_make(ms, 0, 0);
    rs->last_id = id > rs->last_id ? id : rs->last_id + 1;
    return rs->last_id;
}

static void want_names(tx *t, lock_list *l, pawl_op *op)
{
    op->result = PAWL_OP_NONE;
    op->out_id = op->out_fence = op->out_run_at_us = 0;
    op->out_state = PAWL_STATE_NONE;
    if (op->kind == PAWL_OP_QUEUE) want_lock(l, queue_row(t, op->u.queue.queue), true);
    if (op->kind == PAWL_OP_INSERT) {
        op->out_id = op->id ? op->id : draw_id(t);
        if (op->u.insert.ask_lease) want_lock(l, queue_row(t, op->u.insert.body->queue), false);
        if (op->u.insert.body->key) want_lock(l, key_row(t, op->u.insert.body->key), true);
    }
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++) want_names(t, l, &op->u.finish.spawns[i]);
}

/* With the keys locked it is known whom they name. */
static void want_tasks(tx *t, lock_list *l, pawl_op *op)
{
    if (op->kind == PAWL_OP_QUEUE) return;
    want_lock(l, task_row(t, op->kind == PAWL_OP_INSERT ? op->out_id : op->id), true);
    if (op->kind == PAWL_OP_INSERT && op->u.insert.body->key) {
        pawl_id holder = tx_read(t, key_row(t, op->u.insert.body->key))->key.task;
        if (holder) want_lock(l, task_row(t, holder), true);
    }
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++) want_tasks(t, l, &op->u.finish.spawns[i]);
}

static int locks_most(const pawl_batch *b)
{
    int most = 2;
    for (int i = 0; i < b->count; i++) {
        most += 2 + (b->ops[i]->kind == PAWL_OP_FINISH ? 2 * b->ops[i]->u.finish.spawns_count : 0);
    }
    return most;
}

static bool operate_all(tx *t, pawl_batch *b, bool *granted)
{
    lock_list l = {.locks = pawl_arena_alloc(t->wire->arena, (size_t)locks_most(b) * 2 * sizeof *l.locks)};
    for (int i = 0; i < b->count; i++) want_names(t, &l, b->ops[i]);
    if (!lock_all(t, &l)) return false;
    for (int i = 0; i < b->count; i++) want_tasks(t, &l, b->ops[i]);
    if (!lock_all(t, &l)) return false;
    for (int i = 0; i < b->count; i++) {
        if (!tx_step(t)) return false;
        *granted |= operate(t, b->ops[i], b->node_dead ? 0 : b->node);
    }
    return true;
}

/* The answers of the batch as it was applied the first time. */
static void answer_again(pawl_batch *b, const row_data *receipt)
{
    for (int i = 0; i < b->count; i++) {
        const pawl_op *from = &receipt->receipt.results[i];
        pawl_op *to = b->ops[i];
        to->result = from->result;
        to->out_id = from->out_id;
        to->out_fence = from->out_fence;
        to->out_run_at_us = from->out_run_at_us;
        to->out_state = from->out_state;
    }
    b->node_dead |= receipt->receipt.node_dead;
    b->store_now_us = receipt->receipt.store_now_us;
}

static void keep_answers(tx *t, const pawl_batch *b, row *r)
{
    pawl_op *results = sim_alloc(t->db->sim, (size_t)(b->count + 1) * sizeof *results);
    for (int i = 0; i < b->count; i++) results[i] = *b->ops[i];
    row_data *d = tx_write(t, r);
    d->receipt.number = b->number;
    d->receipt.results = results;
    d->receipt.node_dead = b->node_dead;
    d->receipt.store_now_us = b->store_now_us;
}

static bool apply(tx *t, pawl_batch *b, pawl_status *status)
{
    bool granted = false;
    row *receipt = NULL;
    b->node_dead = false;
    b->store_now_us = t->now_us;
    if (b->node) {
        receipt = rows_get(t->db, ROW_RECEIPT, b->node * LANES_MAX + b->lane, NULL);
        if (!lock_life(t, b->node, &b->node_dead) || !tx_lock(t, receipt, true)) return false;
        int64_t last = tx_read(t, receipt)->receipt.number;
        if (last == b->number) {
            answer_again(b, tx_read(t, receipt));
            return true;
        }
        if (last != b->number - 1) {
            *status = PAWL_CONFLICT;
            return true;
        }
    }
    if (!operate_all(t, b, &granted)) return false;
    if (granted && !beat(t, b->node, false)) return false;
    if (receipt) keep_answers(t, b, receipt);
    return tx_step(t);
}

/* ---- claims ------------------------------------------------------------------------------------------------------------------------ */

static bool knows(const pawl_want *w, const char *type)
{
    for (int i = 0; i < w->types_count; i++) {
        if (strcmp(w->types[i], type) == 0) return true;
    }
    return w->any_type;
}

static bool fits(const pawl_want *w, const row_data *d)
{
    return d->task.state == PAWL_PENDING && strcmp(d->task.body->queue, w->queue) == 0 && knows(w, d->task.body->type);
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
    row_data *d = tx_write(t, r);
    d->task.state = PAWL_LEASED;
    d->task.node = call->node;
    d->task.fence++;
    d->task.not_started = d->task.body->key && w->got >= w->free;
    d->task.marked = false;
    call->tasks[call->tasks_count++] = (pawl_claimed){
        .body = pawl_body_copy(call->allocator, d->task.body), .fence = d->task.fence, .run_at_us = d->task.run_at_us,
        .runs = d->task.runs, .failures = d->task.failures, .rescues = d->task.rescues, .interruptions = d->task.interruptions,
        .want = want, .not_started = d->task.not_started, .suspect = d->task.suspect, .solo = d->task.solo};
    w->got++;
}

static bool claim_one_want(tx *t, pawl_claim *call, int want, bool *solo)
{
    pawl_want *w = &call->wants[want];
    int count;
    w->got = 0;
    w->more = false;
    w->paused = tx_read(t, queue_row(t, w->queue))->queue.paused;
    row **found = candidates(t, w, &count);
    if (w->paused) return true;
    for (int i = 0; i < count; i++) {
        row *r = found[i];
        if (w->got == w->free + w->prefetch) {
            w->more = true;
            return true;
        }
        if (!tx_step(t)) return false;
        const row_data *d = &r->data;
        bool withheld = (d->task.suspect && w->got >= w->free) || (d->task.solo && (*solo || !w->solo));
        if (withheld || !tx_try_lock(t, r)) { /* it is due, and may still be there afterwards */
            w->more = true;
            continue;
        }
        if (!fits(w, tx_read(t, r)) || tx_read(t, r)->task.run_at_us > t->now_us) continue;
        *solo |= tx_read(t, r)->task.solo;
        grant(t, call, want, r);
    }
    return true;
}

static bool lock_queues(tx *t, pawl_claim *call)
{
    lock_list l = {.locks = pawl_arena_alloc(t->wire->arena, (size_t)(call->wants_count + 1) * sizeof *l.locks)};
    for (int i = 0; i < call->wants_count; i++) want_lock(&l, queue_row(t, call->wants[i].queue), false);
    return lock_all(t, &l);
}

static bool claim(tx *t, pawl_claim *call)
{
    bool solo = false;
    call->tasks_count = 0;
    if (!lock_life(t, call->node, &call->news.node_dead) || !lock_queues(t, call)) return false;
    for (int i = 0; !call->news.node_dead && i < call->wants_count; i++) {
        if (!claim_one_want(t, call, i, &solo)) return false;
    }
    if (call->tasks_count && !beat(t, call->node, false)) return false;
    return tell_news(t, &call->news, call->node);
}

/* ---- rescue ------------------------------------------------------------------------------------------------------------------------ */

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
    row_data *d = tx_write(t, r);
    bool marked = d->task.marked, poison = false;
    if (marked && life->life.marked > 1) d->task.solo = true;
    if (marked && life->life.marked == 1 && life->life.counted) poison = ++d->task.counted >= 3 && !d->task.cancel_asked;
    d->task.fence++;
    d->task.rescues++;
    d->task.runs += !d->task.not_started;
    d->task.suspect = true;
    d->task.run_at_us = t->now_us;
    if (poison) d->task.reason = "rescued_too_often";
    unlease(d, poison ? PAWL_FAILED : d->task.cancel_asked ? PAWL_CANCELLED : PAWL_PENDING);
    call->tasks[call->freed + call->failed] = (pawl_lease){r->id, d->task.fence};
    if (poison) call->failed++;
    else call->freed++;
}

static bool declare_dead(tx *t, pawl_rescue *call, row *life)
{
    int count, marked;
    const row_data *was = tx_read(t, life), *heart = tx_read(t, rows_get(t->db, ROW_HEART, call->victim, NULL));
    bool proven = was->life.dead || !was->life.session->open;
    call->refused = !was->life.exists || (!proven && (heart->heart.expires_us > t->now_us || heart->heart.renewal != call->renewal));
    if (call->refused || was->life.dead) return !call->refused;
    tasks_of(t, call->victim, &count, &marked);
    row_data *d = tx_write(t, life);
    d->life.dead = true;
    d->life.marked = marked;
    d->life.counted = call->counts;
    return true;
}

static bool rescue(tx *t, pawl_rescue *call)
{
    int count, marked;
    row *life = rows_get(t->db, ROW_LIFE, call->victim, NULL);
    call->freed = call->failed = 0;
    call->more = false;
    if (!tx_lock(t, life, true) || !tx_step(t)) return false;
    if (!declare_dead(t, call, life)) return true;
    row **tasks = tasks_of(t, call->victim, &count, &marked);
    for (int i = 0; i < count && i < call->limit; i++) {
        if (!tx_lock(t, tasks[i], true)) return false;
        const row_data *d = tx_read(t, tasks[i]);
        if (d->task.state == PAWL_LEASED && d->task.node == call->victim) free_task(t, call, tx_read(t, life), tasks[i]);
    }
    call->more = count > call->limit;
    return tx_step(t);
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------------- */

static bool serve_once(tx *t, core_call *call)
{
    call->status = PAWL_OK;
    switch (call->kind) {
    case CORE_REGISTER: return register_node(t, &call->u.registration);
    case CORE_LEAVE: return leave(t, call->u.leave);
    case CORE_IDS: return take_ids(t, &call->u.ids);
    case CORE_APPLY: return apply(t, &call->u.batch, &call->status);
    case CORE_CLAIM: return claim(t, &call->u.claim);
    case CORE_RENEW: return renew(t, &call->u.renewal);
    case CORE_HELD: return held(t, call);
    case CORE_RESCUE: return rescue(t, &call->u.rescue);
    default:
        call->u.sweep.removed = call->u.sweep.expiring = 0;
        call->u.sweep.more = false;
        call->u.sweep.next_us = -1;
        return tx_step(t);
    }
}

/* The locks have one order, so there is no deadlock; if there ever is, the whole call is tried again under the same receipt. */
static void serve(tx *t, void *arg)
{
    (void)arg;
    core_call *call = &t->wire->call;
    while (!serve_once(t, call)) {
        tx_rollback(t);
        if (t->killed) {
            call->status = PAWL_UNAVAILABLE;
            return;
        }
        t->deadlocked = false;
        t->now_us = store_wall(t->db->sim);
    }
    tx_commit(t);
    wire_executed(t->wire);
}

void rowstore_start(rowstore *rs, wire *w) { tx_start(&rs->db, w, serve, NULL); }

void rowstore_kill(rowstore *rs, wire *w)
{
    (void)rs;
    if (w->tx) tx_kill(w->tx);
}

bool rowstore_peek(rowstore *rs, pawl_id id, pawl_state *state, int64_t *fence)
{
    row *r = rows_find_task(&rs->db, id);
    if (!r || !r->data.task.state) return false;
    *state = r->data.task.state;
    *fence = r->data.task.fence;
    return true;
}
