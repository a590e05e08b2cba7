/* One task in the memory store: where it stands (mem_place), how its state changes (mem_move), what it leaves behind. */
#include "store/memory.h"

/* ---- orders ------------------------------------------------------------------------------------------------------ */

static bool id_before(const tree_node *a, const tree_node *b) { return task_of_id(a)->id < task_of_id(b)->id; }

void mem_init_orders(mem *m)
{
    tree_init(&m->all, id_before);
    list_init(&m->fresh);
    for (int age = 0; age < AGES; age++) list_init(&m->aged[age]);
}

static void sort_oldest(mem *m)
{
    mem_task *t = container_of(list_pop(&m->fresh), mem_task, fresh);
    m->fresh_count--;
    t->sorted = true;
    tree_insert(&m->all, &t->by_id);
}

void mem_sort(mem *m)
{
    while (m->fresh_count > 0) sort_oldest(m);
}

static void enter(mem *m, mem_task *t)
{
    if (m->fresh_count == FRESH) sort_oldest(m);
    list_append(&m->fresh, &t->fresh);
    m->fresh_count++;
    if (t->id > m->greatest) m->greatest = t->id;
}

static void leave(mem *m, mem_task *t)
{
    if (t->sorted) {
        tree_remove(&m->all, &t->by_id);
        return;
    }
    list_remove(&t->fresh);
    m->fresh_count--;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

mem_task *mem_find_live(const mem *m, pawl_id id)
{
    map_node *node = map_get(&m->live, (uint64_t)id);
    return node ? container_of(node, mem_task, live) : NULL;
}

static bool id_below(const tree_node *node, const void *key) { return task_of_id(node)->id < *(const pawl_id *)key; }

mem_task *mem_find(mem *m, pawl_id id)
{
    if (id > m->greatest) return NULL;
    mem_task *t = mem_find_live(m, id);
    if (t) return t;
    mem_sort(m);
    tree_node *node = tree_from(&m->all, id_below, &id);
    return node && task_of_id(node)->id == id ? task_of_id(node) : NULL;
}

mem_task *mem_after(mem *m, pawl_id id, bool upwards)
{
    mem_sort(m);
    pawl_id key = upwards && id < INT64_MAX ? id + 1 : id;
    tree_node *node = tree_from(&m->all, id_below, &key);
    if (!upwards) node = node ? tree_prev(node) : m->all.last;
    return node ? task_of_id(node) : NULL;
}

static uint64_t key_hash(const char *tenant, const char *key)
{
    return hash_bytes(key, strlen(key), hash_bytes(tenant, strlen(tenant), 0));
}

static mem_key *key_find(const mem *m, const char *tenant, const char *key)
{
    for (map_node *node = map_get(&m->by_key, key_hash(tenant, key)); node; node = map_next(node)) {
        mem_key *k = container_of(node, mem_key, by_hash);
        const pawl_body *body = k->task->body;
        if (strcmp(body->key, key) == 0 && strcmp(body->tenant, tenant) == 0) return k;
    }
    return NULL;
}

mem_task *mem_by_key(const mem *m, const char *tenant, const char *key)
{
    mem_key *k = key_find(m, tenant, key);
    return k ? k->task : NULL;
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

pawl_id mem_draw_id(mem *m, int64_t now_us)
{
    int64_t ms = now_us / PAWL_MILLISECOND - PAWL_EPOCH_MS;
    pawl_id id = id_make(ms > 0 ? ms : 1, 0, 0);
    do {
        pawl_id next = m->last_id + 1;
        if (id_number(next) != 0) next = id_make(id_ms(m->last_id) + 1, 0, 0);
        m->last_id = id > m->last_id ? id : next;
    } while (mem_find(m, m->last_id));
    return m->last_id;
}

void mem_take_key(mem *m, mem_task *t)
{
    if (!t->body->key) return;
    mem_key *k = key_find(m, t->body->tenant, t->body->key);
    if (k) {
        k->task->key = NULL;
    } else {
        k = pool_get(&m->keys);
        map_put(&m->by_key, &k->by_hash, key_hash(t->body->tenant, t->body->key));
    }
    k->task = t;
    t->key = k;
}

mem_task *mem_create(mem *m, pawl_id id, pawl_body *body, mem_level *level, pawl_audit audit, int64_t now_us)
{
    mem_task *t = pool_get(&m->tasks);
    t->id = id;
    t->body = body;
    body->id = id;
    body->created_us = now_us;
    t->level = level;
    t->kind = level->kind;
    t->audit = (unsigned char)(audit == PAWL_AUDIT_DEFAULT ? PAWL_AUDIT_FULL : audit);
    t->progress = -1;
    enter(m, t);
    map_put(&m->live, &t->live, (uint64_t)id);
    mem_take_key(m, t);
    if (m->kins.count > 0) mem_family_born(m, t);
    m->minute->dispatched++;
    return t;
}

/* ---- where it stands --------------------------------------------------------------------------------------------- */

static tree *ready_of(const mem_task *t) { return &t->level->ready[t->suspect ? 1 + t->solo : 0]; }

static mem_age age_of(const mem_task *t)
{
    if (t->state == PAWL_SUCCEEDED) return AGE_SUCCEEDED;
    if (t->state == PAWL_CANCELLED) return AGE_CANCELLED;
    return t->resolution ? AGE_RESOLVED : AGE_FAILED;
}

static void age(mem *m, mem_task *t)
{
    list_append(&m->aged[age_of(t)], &t->place.age);
    m->aged_count[age_of(t)]++;
}

static void unage(mem *m, mem_task *t)
{
    list_remove(&t->place.age);
    m->aged_count[age_of(t)]--;
}

static int64_t *counter_of(const mem_task *t)
{
    mem_queue *q = t->kind->queue;
    switch (t->state) {
    case PAWL_WAITING: return &q->waiting;
    case PAWL_PENDING: return &q->pending;
    case PAWL_LEASED: return &q->leased;
    case PAWL_FAILED: return t->resolution ? NULL : &q->failed;
    default: return NULL;
    }
}

static void hold(mem *m, mem_task *t)
{
    mem_node *n = t->node;
    list_append(t->cancel_asked ? &n->asked : &n->leased, &t->place.lease);
    if (n->leases++ == 0) list_append(&m->holding, &n->holding);
}

static void let_go(mem_task *t)
{
    mem_node *n = t->node;
    list_remove(&t->place.lease);
    if (--n->leases == 0) list_remove(&n->holding);
    if (t->marked && n->alive) n->marked--;
}

static tree *pending_of(const mem_task *t, int change)
{
    if (!t->blocked) return ready_of(t);
    t->spot->blocked_count += change;
    return &t->spot->blocked;
}

void mem_place(mem *m, mem_task *t)
{
    int64_t *counter = counter_of(t);
    if (counter) ++*counter;
    if (t->state == PAWL_PENDING) tree_insert(pending_of(t, 1), &t->place.order);
    else if (t->state == PAWL_LEASED) hold(m, t);
    else if (!mem_live(t)) age(m, t);
}

void mem_unplace(mem *m, mem_task *t)
{
    int64_t *counter = counter_of(t);
    if (counter) --*counter;
    if (t->state == PAWL_PENDING) tree_remove(pending_of(t, -1), &t->place.order);
    else if (t->state == PAWL_LEASED) let_go(t);
    else if (t->state != PAWL_STATE_NONE && !mem_live(t)) unage(m, t);
}

void mem_set_node(mem *m, mem_task *t, mem_node *n)
{
    if (n) mem_node_named(n);
    if (t->node) mem_node_unnamed(m, t->node);
    t->node = n;
}

void mem_ask_cancel(mem_task *t)
{
    if (t->cancel_asked) return;
    t->cancel_asked = true;
    list_remove(&t->place.lease);
    list_append(&t->node->asked, &t->place.lease);
}

/* ---- changes of state -------------------------------------------------------------------------------------------- */

static bool row_kept(const mem_task *t, const mem_note *note)
{
    switch (note->audit == PAWL_AUDIT_DEFAULT ? (pawl_audit)t->audit : note->audit) {
    case PAWL_AUDIT_MINIMAL: return note->rank >= ROW_END;
    case PAWL_AUDIT_ERRORS: return note->rank == ROW_ERROR;
    case PAWL_AUDIT_NONE: return false;
    default: return true;
    }
}

static void add_row(mem *m, mem_task *t, pawl_state from, const mem_note *note)
{
    mem_row *row = pool_get(&m->rows);
    row->task = t;
    row->at_us = note->now_us;
    row->fence = t->fence;
    row->detail = note->detail;
    row->from = from;
    row->to = (pawl_state)t->state;
    if ((row->node = t->node)) mem_node_named(t->node);
    row->next = t->rows ? t->rows->next : row;
    if (t->rows) t->rows->next = row;
    t->rows = row;
    list_append(&m->rows_by_age, &row->age);
}

static void count_end(mem *m, const mem_task *t)
{
    mem_minute *minute = m->minute;
    if (t->state == PAWL_SUCCEEDED) minute->succeeded++;
    else if (t->state == PAWL_FAILED) minute->failed++;
    else minute->cancelled++;
}

static void end(mem *m, mem_task *t, int64_t now_us)
{
    t->finished_us = now_us;
    map_remove(&m->live, &t->live);
    mem_level_drop(m, t->level);
    t->level = NULL;
    count_end(m, t);
}

static void wait_again(mem *m, mem_task *t)
{
    mem_set_node(m, t, NULL);
    alloc_free(&m->allocator, t->progress_text);
    t->progress_text = NULL;
    t->progress = -1;
    t->started_us = 0;
}

/* The only place where a state changes. What decides the new place (run_at, suspicion, node) is set before. */
void mem_arrive(mem *m, mem_task *t, task_why why, const mem_note *note)
{
    pawl_state from = (pawl_state)t->state, to = task_move(from, why);
    CHECK(to != PAWL_STATE_NONE);
    t->state = (unsigned char)to;
    if (row_kept(t, note)) add_row(m, t, from, note);
    if (from == PAWL_LEASED) t->marked = t->not_started = false;
    if (t->placed && from == PAWL_LEASED) mem_places_leave(m, t, !mem_live(t));
    if (m->bounds_in_force + t->placed > 0 && from == PAWL_PENDING && to != PAWL_LEASED) mem_places_withdraw(m, t);
    if (to == PAWL_PENDING) wait_again(m, t);
    if (!mem_live(t)) end(m, t, note->now_us);
    if (!mem_live(t) && m->open.count > 0) mem_schedule_ended(m, t, note->now_us);
    if (!mem_live(t) && m->kins.count > 0) mem_family_ended(m, t);
    mem_place(m, t);
}

void mem_move(mem *m, mem_task *t, task_why why, const mem_note *note)
{
    mem_unplace(m, t);
    mem_arrive(m, t, why, note);
}

void mem_lease(mem *m, mem_task *t, mem_node *n, task_why why, const mem_note *note)
{
    mem_set_node(m, t, n);
    t->fence++;
    t->started_us = note->now_us;
    mem_arrive(m, t, why, note);
}

/* A lease that has not started is taken back: its fence means nothing any more. */
void mem_take_back(mem *m, mem_task *t, const mem_note *note)
{
    mem_note taken = *note;
    taken.detail = "taken back";
    t->fence++;
    mem_move(m, t, TASK_AGAIN, &taken);
}

bool mem_cancel(mem *m, mem_task *t, const mem_note *note)
{
    if (t->state == PAWL_LEASED && !t->not_started) {
        mem_ask_cancel(t);
        return true;
    }
    if (t->state == PAWL_LEASED) t->fence++;
    mem_slot_give_back(m, t, note->now_us);
    alloc_free(&m->allocator, t->progress_text);
    t->progress_text = NULL;
    t->progress = -1;
    mem_move(m, t, TASK_CANCEL, note);
    return false;
}

static void add_log(mem *m, mem_task *t, mem_log *log, int64_t now_us)
{
    log->task = t;
    log->attempt = t->runs;
    log->at_us = now_us;
    log->next = t->logs ? t->logs->next : log;
    if (t->logs) t->logs->next = log;
    t->logs = log;
    list_append(&m->logs_by_age, &log->age);
}

static void add_attempt(mem *m, mem_task *t, const pawl_execution *run, mem_ending *ending)
{
    mem_attempt *a = pool_get(&m->attempts);
    *a = (mem_attempt){.node = t->node,
                       .ending = ending,
                       .started_us = run->started_us,
                       .finished_us = run->finished_us,
                       .fence = t->fence,
                       .number = t->runs,
                       .log_lines = run->log_lines,
                       .outcome = run->outcome};
    mem_node_named(t->node);
    a->next = t->attempts ? t->attempts->next : a;
    if (t->attempts) t->attempts->next = a;
    t->attempts = a;
}

/* Writes down an execution; the last one stays with the task itself. Before the move that ends the lease. */
void mem_record_run(mem *m, mem_task *t, const pawl_execution *run, mem_ending *ending, mem_log *log, bool last, int64_t now_us)
{
    t->runs++;
    if (CANARY(LOG_DROPPED) && last) alloc_free(&m->allocator, log), log = NULL;
    if (log) add_log(m, t, log, now_us);
    if (run->finished_us) mem_count_run(m, t, run);
    if (!last) {
        add_attempt(m, t, run, ending);
        return;
    }
    t->outcome = (unsigned char)run->outcome;
    t->started_us = run->started_us;
    t->run_finished_us = run->finished_us;
    t->log_lines = run->log_lines;
    t->ending = ending;
}

mem_ending mem_poisoned = {.reason = "rescued_too_often"};
mem_ending mem_orphans[2] = {{.reason = "parent_failed"}, {.reason = "parent_cancelled"}};

/* ---- forgetting -------------------------------------------------------------------------------------------------- */

void mem_forget_row(mem *m, mem_row *row)
{
    mem_task *t = row->task;
    CHECK(t->rows->next == row);
    if (t->rows == row) t->rows = NULL;
    else t->rows->next = row->next;
    if (row->node) mem_node_unnamed(m, row->node);
    list_remove(&row->age);
    pool_put(&m->rows, row);
}

void mem_forget_log(mem *m, mem_log *log)
{
    mem_task *t = log->task;
    CHECK(t->logs->next == log);
    if (t->logs == log) t->logs = NULL;
    else t->logs->next = log->next;
    list_remove(&log->age);
    alloc_free(&m->allocator, log);
}

static void forget_attempt(mem *m, mem_task *t)
{
    mem_attempt *a = t->attempts->next;
    if (t->attempts == a) t->attempts = NULL;
    else t->attempts->next = a->next;
    mem_node_unnamed(m, a->node);
    alloc_free(&m->allocator, a->ending);
    pool_put(&m->attempts, a);
}

void mem_forget(mem *m, mem_task *t)
{
    if (m->kins.count > 0) mem_family_forget(m, t);
    mem_unplace(m, t);
    leave(m, t);
    while (t->rows) mem_forget_row(m, t->rows->next);
    while (t->logs) mem_forget_log(m, t->logs->next);
    while (t->attempts) forget_attempt(m, t);
    if (t->key) {
        map_remove(&m->by_key, &t->key->by_hash);
        pool_put(&m->keys, t->key);
    }
    mem_set_node(m, t, NULL);
    body_free(&m->moves, &m->allocator, t->body);
    if (!mem_ending_lent(t->ending)) alloc_free(&m->allocator, t->ending);
    alloc_free(&m->allocator, t->resolution);
    alloc_free(&m->allocator, t->progress_text);
    pool_put(&m->tasks, t);
}

const char *mem_display(const mem_task *t, int64_t now_us, int64_t boot_us)
{
    if (t->state == PAWL_PENDING && t->blocked) return "blocked";
    if (t->state == PAWL_PENDING && t->run_at_us > now_us)
        return t->budget ? "throttled" : t->failures > 0 ? "retrying" : "scheduled";
    if (t->state == PAWL_LEASED) return !t->node->alive || mem_node_lapsed(t->node, boot_us) ? "stale" : "running";
    return pawl_state_name((pawl_state)t->state);
}
