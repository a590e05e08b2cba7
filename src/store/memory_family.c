/* Families in the memory store: parents, children and batches of tasks, and telling them what has ended.
 *
 * Whoever has relatives has a mem_kin, found by its id; others cost nothing. The children of a kin are edges in two lists: those that were
 * not told of its end, and the rest; so telling goes on where it stopped without a cursor. Kins that have something to tell stand in
 * m->unsettled. A kin whose task is swept stays, with its state and result, as long as it has children.
 */
#include "store/memory_family.h"

typedef struct mem_edge {
    list up, down; /* among the parents of its child; among the children of its parent */
    mem_kin *parent, *child;
    bool told, held;
} mem_edge;

enum { TO_DRAIN = 1, TO_TELL = 2, TO_CANCEL = 4, TO_RETRY = 8 };

static mem_edge *of_up(const list *node) { return container_of(node, mem_edge, up); }
static mem_edge *of_down(const list *node) { return container_of(node, mem_edge, down); }

void mem_families_init(mem *m)
{
    pool_init(&m->kin_pool, sizeof(mem_kin));
    pool_init(&m->edges, sizeof(mem_edge));
    list_init(&m->unsettled);
    list_init(&m->batches);
}

mem_kin *mem_kin_find(const mem *m, pawl_id id)
{
    map_node *node = m->kins.count > 0 ? map_get(&m->kins, (uint64_t)id) : NULL;
    return node ? container_of(node, mem_kin, by_id) : NULL;
}

static mem_kin *kin_make(mem *m, pawl_id id)
{
    mem_kin *k = mem_kin_find(m, id);
    if (k) return k;
    k = pool_get(&m->kin_pool);
    k->id = id;
    k->task = mem_find(m, id);
    list_init(&k->parents);
    list_init(&k->untold);
    list_init(&k->told);
    map_put(&m->kins, &k->by_id, (uint64_t)id);
    return k;
}

/* The id of one that was swept, but has children, is used again. */
void mem_family_born(const mem *m, mem_task *t)
{
    mem_kin *k = mem_kin_find(m, t->id);
    if (!k || k->batch) return;
    k->task = t;
    k->ended = 0;
}

static void kin_drop(mem *m, mem_kin *k)
{
    if (k->task || k->batch || !list_empty(&k->untold) || !list_empty(&k->told)) return;
    list_remove(&k->work);
    map_remove(&m->kins, &k->by_id);
    if (!mem_ending_lent(k->kept)) alloc_free(&m->allocator, k->kept);
    pool_put(&m->kin_pool, k);
}

/* Told in the order of their ids, as by other stores; what ends later is mostly younger. */
static void todo(mem *m, mem_kin *k, unsigned what)
{
    list *before = &m->unsettled;
    k->todo |= what;
    m->stirred = true;
    if (list_linked(&k->work)) return;
    while (before->prev != &m->unsettled && container_of(before->prev, mem_kin, work)->id > k->id) before = before->prev;
    list_insert_before(before, &k->work);
}

/* ---- a new task ------------------------------------------------------------------------------------------------------ */

/* NONE: there is none; PENDING: it has not ended. */
static pawl_state state_of(mem *m, pawl_id id)
{
    const mem_kin *k = mem_kin_find(m, id);
    const mem_task *t = k ? k->task : mem_find(m, id);
    if (t) return mem_live(t) ? PAWL_PENDING : (pawl_state)t->state;
    if (!k) return PAWL_STATE_NONE;
    return k->ended ? (pawl_state)k->ended : PAWL_PENDING;
}

/* Of what retention has removed something may be kept for the children it had; it takes no others. */
static bool gone(mem *m, pawl_id id)
{
    const mem_kin *k = mem_kin_find(m, id);
    return k && !k->task && !k->batch;
}

static bool stored(const pawl_op *op)
{
    if (op->kind == PAWL_OP_BATCH) return op->result == PAWL_OP_DONE;
    return op->result == PAWL_OP_DONE || op->result == PAWL_OP_EXISTING || op->result == PAWL_OP_UPDATED ||
           op->result == PAWL_OP_REPLACED;
}

/* Whom it means; -1: a spawn that is stored before it. */
static pawl_id who(const mem_siblings *s, const pawl_kin *kin, pawl_op_result *result)
{
    *result = PAWL_OP_DONE;
    if (kin->op) {
        if (stored(kin->op)) return kin->op->out_id;
        *result = kin->op->result == PAWL_OP_COLLISION || kin->op->result == PAWL_OP_FULL ? kin->op->result : PAWL_OP_CONFLICT;
        return 0;
    }
    for (int i = 0; s && i < s->count; i++)
        if (s->spawns[i].id == kin->id) return s->spawns[i].result ? s->spawns[i].out_id : -1;
    return kin->id;
}

static void judge_parent(mem *m, const pawl_family *f, const pawl_kin *parent, const mem_siblings *s, mem_kinship *k)
{
    pawl_id id = who(s, parent, &k->result);
    if (k->result != PAWL_OP_DONE) return;
    pawl_state state = id < 0 ? PAWL_PENDING : state_of(m, id);
    if (CANARY(END_UNNOTICED) && state) state = PAWL_PENDING;
    k->id = id;
    if (state == PAWL_STATE_NONE || gone(m, id)) k->result = PAWL_OP_NOT_FOUND;
    else if (!pawl_state_terminal(state)) k->waits = true;
    else if (state != PAWL_SUCCEEDED && f->if_failed != PAWL_IF_FAILED_RUN) k->waits = true;
}

static void judge_batch(const mem *m, const pawl_family *f, const mem_siblings *s, mem_kinship *k)
{
    k->id = who(s, &f->batch, &k->result);
    if (k->result != PAWL_OP_DONE) return;
    const mem_kin *batch = mem_kin_find(m, k->id), *spawner = s ? mem_kin_find(m, s->spawner) : NULL;
    if (!batch || !batch->batch) k->result = PAWL_OP_NOT_FOUND;
    else if (batch->ended || (batch->batch->info.closed_us && !(spawner && spawner->member_of == batch)))
        k->result = PAWL_OP_CONFLICT;
}

mem_kinship mem_family_judge(mem *m, const pawl_op *op, const mem_siblings *s)
{
    mem_kinship k = {.result = PAWL_OP_DONE};
    const pawl_family *f = op->u.insert.family;
    for (int i = 0; f && i < f->parents_count && k.result == PAWL_OP_DONE; i++) judge_parent(m, f, &f->parents[i], s, &k);
    if (f && (f->batch.id || f->batch.op) && k.result == PAWL_OP_DONE) judge_batch(m, f, s, &k);
    return k;
}

static void join(mem_kin *batch, mem_kin *member)
{
    member->member_of = batch;
    list_append(&batch->batch->members, &member->member);
    batch->batch->info.unfinished++;
    batch->batch->info.total++;
}

/* One that was retried before it had children: they wait for the last of its retries. */
static void find_retry(mem *m, mem_kin *k)
{
    pawl_id as = 0;
    for (const mem_task *t = k->task; t && t->resolution && t->resolution->retried_as; t = mem_find(m, as))
        as = t->resolution->retried_as;
    if (!as || k->retried_as || !mem_find(m, as)) return;
    kin_make(m, as);
    k->retried_as = as;
}

static mem_edge *edge_of(const mem_kin *child, const mem_kin *parent)
{
    list_each(node, &child->parents) {
        mem_edge *e = of_up(node);
        if (e->parent == parent) return e;
    }
    return NULL;
}

static void add_parent(mem *m, mem_kin *child, mem_kin *parent)
{
    if (edge_of(child, parent)) return; /* two of one call that were stored as one */
    pawl_state state = CANARY(END_UNNOTICED) ? PAWL_PENDING : state_of(m, parent->id);
    bool ended = pawl_state_terminal(state), badly = ended && state != PAWL_SUCCEEDED && child->if_failed != PAWL_IF_FAILED_RUN;
    mem_edge *e = pool_get(&m->edges);
    e->parent = parent;
    e->child = child;
    e->told = ended && !badly;
    list_append(&child->parents, &e->up);
    list_append(e->told ? &parent->told : &parent->untold, &e->down);
    child->unmet += !e->told;
    if (!badly) return;
    find_retry(m, parent);
    todo(m, parent, TO_TELL);
}

void mem_family_put(mem *m, const pawl_op *op, mem_task *t, const mem_siblings *s, bool waits)
{
    const pawl_family *f = op->u.insert.family;
    pawl_op_result result;
    mem_kin *child = kin_make(m, t->id);
    child->if_failed = (unsigned char)f->if_failed;
    child->waits = waits;
    for (int i = 0; i < f->parents_count; i++) add_parent(m, child, kin_make(m, who(s, &f->parents[i], &result)));
    if (f->batch.id || f->batch.op) join(mem_kin_find(m, who(s, &f->batch, &result)), child);
}

/* ---- ends ------------------------------------------------------------------------------------------------------------ */

static void count_end(mem *m, mem_kin *member, pawl_state to)
{
    mem_kin *k = member->member_of;
    if (!k || !k->batch) return;
    pawl_batch_info *i = &k->batch->info;
    i->unfinished--;
    i->succeeded += to == PAWL_SUCCEEDED;
    i->failed += to == PAWL_FAILED;
    i->cancelled += to == PAWL_CANCELLED;
    if (i->closed_us && i->unfinished == 0) todo(m, k, TO_DRAIN);
}

static void ended(mem *m, mem_kin *k, pawl_state to)
{
    k->ended = (unsigned char)to;
    k->waits = false;
    if (!list_empty(&k->untold)) todo(m, k, TO_TELL);
    count_end(m, k, to);
}

void mem_family_ended(mem *m, const mem_task *t)
{
    mem_kin *k = mem_kin_find(m, t->id);
    if (k) ended(m, k, (pawl_state)t->state);
}

void mem_family_retried(mem *m, pawl_id id, pawl_id as)
{
    mem_kin *k = mem_kin_find(m, id);
    if (!k) return;
    kin_make(m, as);
    k->retried_as = as;
    if (!list_empty(&k->told) || !list_empty(&k->untold)) todo(m, k, TO_RETRY);
}

static void drain(mem *m, mem_kin *k, int64_t now_us)
{
    pawl_batch_info *i = k->batch ? &k->batch->info : NULL;
    if (!i || k->ended || !i->closed_us || (i->unfinished > 0 && !CANARY(BATCH_ENDS_EARLY))) return;
    i->ended_us = now_us;
    ended(m, k, i->failed ? PAWL_FAILED : i->cancelled ? PAWL_CANCELLED : PAWL_SUCCEEDED);
}

/* ---- telling --------------------------------------------------------------------------------------------------------- */

static void set_free(mem *m, mem_kin *child, int64_t now_us)
{
    mem_task *t = child->task;
    child->waits = false;
    if (t->run_at_us < now_us) t->run_at_us = now_us;
    mem_move(m, t, TASK_PARENTS_DONE, &(mem_note){.now_us = now_us});
    m->freed = true;
}

static void end_orphan(mem *m, mem_kin *child, pawl_state parent, int64_t now_us)
{
    mem_task *t = child->task;
    t->ending = &mem_orphans[parent == PAWL_CANCELLED];
    mem_move(m, t, TASK_PARENT_POLICY, &(mem_note){.now_us = now_us, .detail = t->ending->reason});
    m->freed = true;
}

static void tell_child(mem *m, mem_kin *k, mem_edge *e, int64_t now_us)
{
    mem_kin *child = e->child;
    pawl_state state = state_of(m, k->id);
    bool badly = state != PAWL_SUCCEEDED && !CANARY(FAILURE_IGNORED);
    list_remove(&e->down);
    list_append(&k->told, &e->down);
    e->told = true;
    if (!child->waits) return;
    if (badly && child->if_failed == PAWL_IF_FAILED_CANCEL) {
        end_orphan(m, child, state, now_us);
        return;
    }
    child->unmet--;
    e->held = badly && child->if_failed == PAWL_IF_FAILED_HOLD;
    child->held += e->held;
    if (e->held && k->retried_as) todo(m, k, TO_RETRY);
    if (child->unmet == 0 && child->held == 0) set_free(m, child, now_us);
}

/* Who is held by its failure waits for the new one from now on. */
static void wait_for_retry(mem *m, mem_kin *k, mem_edge *e, int64_t now_us)
{
    mem_kin *as = mem_kin_find(m, k->retried_as);
    e->held = false;
    e->child->held--;
    if (edge_of(e->child, as)) { /* it waits for that one anyway */
        if (e->child->unmet == 0 && e->child->held == 0) set_free(m, e->child, now_us);
        return;
    }
    e->told = false;
    e->child->unmet++;
    e->parent = as;
    list_remove(&e->down);
    list_append(&as->untold, &e->down);
    if (pawl_state_terminal(state_of(m, as->id))) todo(m, as, TO_TELL);
}

static int tell_held(mem *m, mem_kin *k, int64_t now_us)
{
    int count = 1;
    list_each(node, &k->told) {
        mem_edge *e = of_down(node);
        if (!e->held || !e->child->waits) continue;
        wait_for_retry(m, k, e, now_us);
        count++;
    }
    k->todo &= ~(unsigned)TO_RETRY;
    return count;
}

static void cancel_it(mem *m, mem_kin *k, int64_t now_us)
{
    pawl_batch_info *i = &k->batch->info;
    if (k->ended || i->cancel_asked) return;
    i->cancel_asked = true;
    if (!i->closed_us) i->closed_us = now_us;
    todo(m, k, TO_CANCEL | TO_DRAIN);
}

static int cancel_members(mem *m, mem_kin *k, int most, int64_t now_us)
{
    int count = 0;
    while (count < most && !list_empty(&k->batch->members)) {
        list *node = list_pop(&k->batch->members);
        mem_kin *member = container_of(node, mem_kin, member);
        list_append(&k->batch->told, node);
        count++;
        m->freed = true;
        if (member->batch) cancel_it(m, member, now_us);
        else if (member->task && mem_live(member->task)) mem_cancel(m, member->task, &(mem_note){.now_us = now_us});
    }
    if (list_empty(&k->batch->members)) k->todo &= ~(unsigned)TO_CANCEL;
    return count ? count : 1;
}

static int tell(mem *m, mem_kin *k, int most, int64_t now_us)
{
    int count = 0;
    if (k->todo & TO_DRAIN) {
        k->todo &= ~(unsigned)TO_DRAIN;
        drain(m, k, now_us);
        return 1;
    }
    if (k->todo & TO_CANCEL) return cancel_members(m, k, most, now_us);
    for (; k->todo & TO_TELL && count < most && !list_empty(&k->untold); count++)
        tell_child(m, k, of_down(k->untold.next), now_us);
    if (list_empty(&k->untold) || CANARY(FIRST_PAGE_ONLY)) k->todo &= ~(unsigned)TO_TELL;
    if (k->todo == TO_RETRY && count < most) count += tell_held(m, k, now_us);
    return count ? count : 1;
}

int mem_settle(mem *m, int limit, int64_t now_us)
{
    int left = limit;
    while (left > 0 && !list_empty(&m->unsettled)) {
        mem_kin *k = container_of(m->unsettled.next, mem_kin, work);
        left -= tell(m, k, left, now_us);
        if (!k->todo) list_remove(&k->work);
    }
    return limit - left;
}

/* ---- batches --------------------------------------------------------------------------------------------------------- */

mem_batch *mem_batch_new(mem *m, const char *name)
{
    size_t size = strlen(name) + 1;
    mem_batch *b = alloc_new(&m->allocator, sizeof *b + size);
    if (!b) return NULL;
    memcpy(b->name, name, size);
    b->info.name = b->name;
    list_init(&b->members);
    list_init(&b->told);
    return b;
}

static mem_kin *batch_named(const mem *m, const char *name)
{
    list_each(node, &m->batches) {
        mem_batch *b = container_of(node, mem_batch, link);
        if (strcmp(b->name, name) == 0) return b->kin;
    }
    return NULL;
}

static pawl_op_result open_batch(mem *m, pawl_op *op, mem_batch **made, int64_t now_us)
{
    const pawl_batch_put *put = op->u.batch;
    mem_kin *same = batch_named(m, put->name), *within = put->within ? mem_kin_find(m, put->within) : NULL;
    if (same) {
        op->out_id = same->id;
        return PAWL_OP_EXISTING;
    }
    op->out_id = put->within;
    if (put->within && (!within || !within->batch)) return PAWL_OP_NOT_FOUND;
    if (within && within->batch->info.closed_us) return PAWL_OP_CONFLICT;
    op->out_id = 0;
    if (op->id && state_of(m, op->id)) return PAWL_OP_COLLISION;
    op->out_id = op->id ? op->id : mem_draw_id(m, now_us);
    mem_kin *k = kin_make(m, op->out_id);
    k->batch = *made;
    *made = NULL;
    k->batch->kin = k;
    k->batch->info.id = k->id;
    k->batch->info.within = put->within;
    k->batch->info.created_us = now_us;
    list *before = &m->batches; /* by id */
    while (before->prev != &m->batches && container_of(before->prev, mem_batch, link)->info.id > k->id) before = before->prev;
    list_insert_before(before, &k->batch->link);
    if (within) join(within, k);
    return PAWL_OP_DONE;
}

pawl_op_result mem_batch_put(mem *m, pawl_op *op, mem_batch **made, int64_t now_us)
{
    if (op->u.batch->act == PAWL_BATCH_OPEN) return open_batch(m, op, made, now_us);
    mem_kin *k = mem_kin_find(m, op->id);
    bool cancel = op->u.batch->act == PAWL_BATCH_CANCEL;
    op->out_id = op->id;
    if (!k || !k->batch) return PAWL_OP_NOT_FOUND;
    if (k->ended || (!cancel && k->batch->info.closed_us)) return PAWL_OP_CONFLICT;
    if (cancel && k->batch->info.cancel_asked) return PAWL_OP_EXISTING;
    if (cancel) {
        cancel_it(m, k, now_us);
    } else {
        k->batch->info.closed_us = now_us;
        todo(m, k, TO_DRAIN);
    }
    return PAWL_OP_DONE;
}

/* ---- forgetting ------------------------------------------------------------------------------------------------------ */

static void forget_parents(mem *m, mem_kin *k)
{
    list_each(node, &k->parents) {
        mem_edge *e = of_up(node);
        mem_kin *parent = e->parent;
        list_remove(&e->up);
        list_remove(&e->down);
        pool_put(&m->edges, e);
        if (list_empty(&parent->untold)) parent->todo &= ~(unsigned)TO_TELL;
        kin_drop(m, parent);
    }
}

void mem_family_forget(mem *m, mem_task *t)
{
    mem_kin *k = mem_kin_find(m, t->id);
    if (!k) return;
    forget_parents(m, k);
    list_remove(&k->member);
    k->member_of = NULL;
    k->ended = t->state;
    k->task = NULL;
    if (!list_empty(&k->untold) || !list_empty(&k->told)) {
        if (!mem_ending_lent(k->kept)) alloc_free(&m->allocator, k->kept);
        k->kept = t->ending;
        t->ending = NULL;
    }
    kin_drop(m, k);
}

static void forget_batch(mem *m, mem_batch *b)
{
    mem_kin *k = b->kin;
    list *lists[] = {&b->members, &b->told};
    for (int i = 0; i < 2; i++) {
        list *node;
        while ((node = list_pop(lists[i]))) container_of(node, mem_kin, member)->member_of = NULL;
    }
    list_remove(&b->link);
    list_remove(&k->member);
    k->member_of = NULL;
    k->batch = NULL;
    k->todo = 0;
    list_remove(&k->work);
    alloc_free(&m->allocator, b);
    kin_drop(m, k);
}

int mem_batch_sweep(mem *m, const pawl_sweep *call, int most, int64_t now_us)
{
    int removed = 0;
    list_each(node, &m->batches) {
        mem_batch *b = container_of(node, mem_batch, link);
        int state = b->kin->ended;
        int64_t keep_us = state == PAWL_SUCCEEDED   ? call->keep_succeeded_us
                          : state == PAWL_CANCELLED ? call->keep_cancelled_us
                                                    : call->keep_failed_us;
        if (!state || b->kin->todo || keep_us < 0 || mem_add(b->info.ended_us, keep_us) > now_us) continue;
        if (removed++ >= most) return most;
        forget_batch(m, b);
    }
    return removed;
}

void mem_families_done(mem *m)
{
    list_each(node, &m->batches) forget_batch(m, container_of(node, mem_batch, link));
    map_done(&m->kins);
    pool_done(&m->kin_pool, &m->allocator);
    pool_done(&m->edges, &m->allocator);
}

/* ---- questions ------------------------------------------------------------------------------------------------------- */

static pawl_batch_info info_of(const mem_batch *b)
{
    pawl_batch_info info = b->info;
    info.state = b->kin->ended ? (pawl_state)b->kin->ended : info.closed_us ? PAWL_WAITING : PAWL_PENDING;
    return info;
}

static bool copy_batch(const mem_batch *b, pawl_batch_info *to, pawl_arena *arena)
{
    *to = info_of(b);
    return (to->name = pawl_arena_str(arena, b->name)) != NULL;
}

static pawl_status no_answer(pawl_error *err)
{
    return err_set(err, PAWL_NO_MEMORY, "could not read the memory store: the answer does not fit into memory");
}

static pawl_status no_batch(const pawl_query *query, pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(query->id, text);
    return err_set(err, PAWL_NOT_FOUND, "there is no batch '%s'", query->id ? text : query->name);
}

pawl_status mem_batches_read(const mem *m, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    bool one = query->kind == PAWL_QUERY_BATCH;
    int limit = one ? 1 : query->batch_filter->limit;
    mem_kin *found = !one ? NULL : query->id ? mem_kin_find(m, query->id) : batch_named(m, query->name);
    query->batches_count = 0;
    query->batches_more = false;
    if (one && (!found || !found->batch)) return no_batch(query, err);
    if (!(query->batches = pawl_arena_alloc(arena, ((size_t)limit + 1) * sizeof *query->batches))) return no_answer(err);
    if (one) query->batches_count = 1;
    if (one) return copy_batch(found->batch, query->batches, arena) ? PAWL_OK : no_answer(err);
    for (const list *node = m->batches.prev; node != &m->batches; node = node->prev) {
        const mem_batch *b = container_of(node, mem_batch, link);
        if ((query->id && b->info.id >= query->id) || (query->batch_filter->unfinished && b->kin->ended)) continue;
        query->batches_more = query->batches_count == limit;
        if (query->batches_more) break;
        if (!copy_batch(b, &query->batches[query->batches_count++], arena)) return no_answer(err);
    }
    return PAWL_OK;
}

static bool describe(const mem_kin *k, pawl_relative *to, bool results, pawl_arena *arena)
{
    const mem_ending *e = k->task ? k->task->ending : k->kept;
    to->id = k->id;
    to->batch = k->batch != NULL;
    to->state = k->batch ? info_of(k->batch).state : k->task ? (pawl_state)k->task->state : (pawl_state)k->ended;
    const char *type = k->batch ? k->batch->name : k->task ? k->task->body->type : NULL;
    if (type && !(to->type = pawl_arena_str(arena, type))) return false;
    if (!results || !e || !pawl_state_terminal(to->state)) return true;
    if (e->result.data && !(to->result.data = pawl_arena_bytes(arena, e->result.data, e->result.len))) return false;
    to->result.len = e->result.len;
    to->result_type = pawl_arena_str(arena, e->result_type);
    to->result_ref = pawl_arena_str(arena, e->result_ref);
    to->error = pawl_arena_str(arena, e->error);
    return (!e->result_type || to->result_type) && (!e->result_ref || to->result_ref) && (!e->error || to->error);
}

/* The `count` that follow `after`, by id, stand first; lists are in the order in which children came, which is nearly that. */
static bool take(pawl_relatives_query *f, const mem_kin *k, const mem_edge *e, pawl_arena *arena)
{
    pawl_relative one = {0};
    one.waits = e && e->child->waits && (!e->told || e->held);
    one.held = one.waits && e->held;
    if (one.waits) one.if_failed = (pawl_if_failed)e->child->if_failed;
    if (k->id <= f->after || (f->waited_for && !one.waits)) return true;
    if (f->count > f->limit && f->relatives[f->limit].id < k->id) return true;
    if (!describe(k, &one, f->relation == PAWL_PARENTS, arena)) return false;
    int at = f->count <= f->limit ? f->count++ : f->limit;
    for (; at > 0 && f->relatives[at - 1].id > one.id; at--) f->relatives[at] = f->relatives[at - 1];
    f->relatives[at] = one;
    return true;
}

static bool take_all(pawl_relatives_query *f, const mem_kin *of, pawl_arena *arena)
{
    bool ok = true;
    if (f->relation == PAWL_BATCH_OF && of->member_of) return take(f, of->member_of, NULL, arena);
    if (f->relation == PAWL_PARENTS)
        list_each(node, &of->parents) ok = ok && take(f, of_up(node)->parent, of_up(node), arena);
    for (int i = 0; i < 2 && f->relation == PAWL_CHILDREN; i++) {
        const list *children = i ? &of->told : &of->untold;
        list_each(node, children) ok = ok && take(f, of_down(node)->child, of_down(node), arena);
    }
    for (int i = 0; i < 2 && f->relation == PAWL_MEMBERS && of->batch; i++) {
        const list *members = i ? &of->batch->told : &of->batch->members;
        list_each(node, members) ok = ok && take(f, container_of(node, mem_kin, member), NULL, arena);
    }
    return ok;
}

pawl_status mem_relatives(const mem *m, pawl_relatives_query *f, pawl_arena *arena, pawl_error *err)
{
    const mem_kin *of = mem_kin_find(m, f->of);
    f->count = 0;
    f->more = false;
    if (!(f->relatives = pawl_arena_alloc(arena, ((size_t)f->limit + 2) * sizeof *f->relatives))) return no_answer(err);
    if (of && !take_all(f, of, arena)) return no_answer(err);
    f->more = f->count > f->limit;
    if (f->more) f->count = f->limit;
    return PAWL_OK;
}
