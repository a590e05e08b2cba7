/* Rows, locks, transactions on fibers. See rows.h. */
#include "rows.h"
#include "base/check.h"
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#if defined(__has_feature)
#define FEATURE(x) __has_feature(x)
#else
#define FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || FEATURE(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define WITH_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) || FEATURE(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define WITH_TSAN 1
#endif

#define STACK (256 * 1024)

/* ---- fibers ---------------------------------------------------------------------------------------------------------------- */

typedef struct fiber {
    struct fiber *next;
    ucontext_t context;
    char *stack;
    void *fake_stack, *tsan;
    tx *tx;
    bool done;
} fiber;

static fiber *free_fibers, *running;
static ucontext_t outside;
#ifdef WITH_ASAN
static void *outside_fake;
static const void *outside_stack;
static size_t outside_size;
#endif
#ifdef WITH_TSAN
static void *outside_tsan;
#endif

static void arrived(void *fake)
{
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(fake, running ? &outside_stack : NULL, running ? &outside_size : NULL);
#else
    (void)fake;
#endif
}

static void switch_in(fiber *f)
{
    running = f;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&outside_fake, f->stack, STACK);
#endif
#ifdef WITH_TSAN
    outside_tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->tsan, 0);
#endif
    swapcontext(&outside, &f->context);
#ifdef WITH_ASAN
    arrived(outside_fake);
#endif
}

static void switch_out(void)
{
    fiber *f = running;
    running = NULL;
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(f->done ? NULL : &f->fake_stack, outside_stack, outside_size);
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(outside_tsan, 0);
#endif
    swapcontext(&f->context, &outside);
    arrived(f->fake_stack);
}

static void fiber_main(void)
{
    arrived(NULL);
    fiber *f = running;
    f->tx->body(f->tx, f->tx->arg);
    f->done = true;
    switch_out();
}

static void make_context(ucontext_t *context, char *stack)
{
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = STACK;
    context->uc_link = NULL;
    makecontext(context, fiber_main, 0);
}

static fiber *fiber_new(tx *t)
{
    fiber *f = free_fibers;
    if (f) {
        free_fibers = f->next;
    } else {
        f = calloc(1, sizeof *f);
        CHECK(f && (f->stack = malloc(STACK)));
    }
    f->tx = t;
    f->done = false;
    f->fake_stack = NULL;
#ifdef WITH_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    make_context(&f->context, f->stack);
    return f;
}

static void fiber_free(fiber *f)
{
#ifdef WITH_TSAN
    __tsan_destroy_fiber(f->tsan);
#endif
    f->next = free_fibers;
    free_fibers = f;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

typedef struct row_lock {
    list of_row, of_tx;
    row *row;
    tx *tx;
    bool exclusive, granted;
} row_lock;

void rows_init(rows *db, sim *s)
{
    db->sim = s;
    for (int i = 0; i < ROW_TABLES; i++) list_init(&db->tables[i]);
    list_init(&db->free_locks);
    list_init(&db->free_tx);
    map_init(&db->tasks, alloc_default());
}

void rows_done(rows *db) { map_done(&db->tasks); }

row *rows_find_task(rows *db, pawl_id id)
{
    map_node *node = map_get(&db->tasks, (uint64_t)id);
    return node ? container_of(node, row, by_id) : NULL;
}

static bool is_row(const row *r, int64_t id, const char *name) { return r->id == id && (!name || strcmp(r->name, name) == 0); }

row *rows_get(rows *db, row_table table, int64_t id, const char *name)
{
    row *r = table == ROW_TASK ? rows_find_task(db, id) : NULL;
    if (r) return r;
    list_each(node, &db->tables[table]) {
        r = container_of(node, row, link);
        if (table != ROW_TASK && is_row(r, id, name)) return r;
    }
    r = sim_alloc(db->sim, sizeof *r);
    r->table = table;
    r->id = id;
    if (name) r->name = strcpy(sim_alloc(db->sim, strlen(name) + 1), name);
    list_init(&r->locks);
    list_append(&db->tables[table], &r->link);
    if (table == ROW_TASK) map_put(&db->tasks, &r->by_id, (uint64_t)id);
    return r;
}

/* ---- locks ----------------------------------------------------------------------------------------------------------------- */

static bool conflict(const row_lock *a, const row_lock *b) { return a->tx != b->tx && (a->exclusive || b->exclusive); }

/* Whether nothing before it in the row's queue stands in its way. */
static bool grantable(const row_lock *l)
{
    for (list *node = l->row->locks.next; node != &l->of_row; node = node->next) {
        row_lock *other = container_of(node, row_lock, of_row);
        if (conflict(l, other) || (!other->granted && other->tx != l->tx)) return false;
    }
    return true;
}

static row_lock *lock_of(const tx *t, const row *r)
{
    for (list *node = t->locks.next; node != &t->locks; node = node->next) {
        row_lock *l = container_of(node, row_lock, of_tx);
        if (l->row == r) return l;
    }
    return NULL;
}

static row_lock *lock_new(tx *t, row *r, bool exclusive)
{
    list *node = list_pop(&t->db->free_locks);
    row_lock *l = node ? container_of(node, row_lock, of_tx) : sim_alloc(t->db->sim, sizeof *l);
    memset(l, 0, sizeof *l);
    l->tx = t;
    l->row = r;
    l->exclusive = exclusive;
    list_append(&r->locks, &l->of_row);
    list_append(&t->locks, &l->of_tx);
    return l;
}

static void resume(sim *s, void *arg, int64_t number);

static void grant_next(row *r)
{
    list_each(node, &r->locks) {
        row_lock *l = container_of(node, row_lock, of_row);
        if (l->granted) continue;
        if (!grantable(l)) return;
        l->granted = true;
        l->tx->waiting = NULL;
        sim_at(l->tx->db->sim, between(l->tx->db->sim, 0, 100), NULL, resume, l->tx, 0);
    }
}

static void unlock(row_lock *l)
{
    row *r = l->row;
    rows *db = l->tx->db;
    list_remove(&l->of_row);
    list_remove(&l->of_tx);
    list_append(&db->free_locks, &l->of_tx);
    grant_next(r);
}

/* Does `t`, through whom it waits for, wait for `who`? */
static bool waits_for(tx *t, const tx *who)
{
    if (!t->waiting || t->visited) return false;
    t->visited = 1;
    for (list *node = t->waiting->row->locks.next; node != &t->waiting->of_row; node = node->next) {
        row_lock *other = container_of(node, row_lock, of_row);
        if (other->tx == t || (other->granted && !conflict(t->waiting, other))) continue;
        if (other->tx == who || waits_for(other->tx, who)) return true;
    }
    return false;
}

static void clear_visits(rows *db)
{
    list_each(node, &db->sim->busy_wires) {
        tx *t = container_of(node, wire, link)->tx;
        if (t) t->visited = 0;
    }
}

bool rowtx_step(tx *t)
{
    sim *s = t->db->sim;
    if (t->killed) return false;
    if (chance(s, 500)) return true;
    sim_at(s, spread(s, s->plan.step_us), NULL, resume, t, 0);
    switch_out();
    return !t->killed;
}

static bool wait_for_lock(tx *t, row_lock *l)
{
    rows *db = t->db;
    t->waiting = l;
    db->sim->stats[STAT_WAITS]++;
    clear_visits(db);
    if (waits_for(t, t)) broken(db->sim, "locks have one order", "a deadlock over a row of table %d", l->row->table);
    switch_out();
    return !t->killed;
}

bool rowtx_lock(tx *t, row *r, bool exclusive)
{
    if (!rowtx_step(t)) return false;
    row_lock *held = lock_of(t, r);
    if (held && (held->exclusive || !exclusive)) return true;
    CHECK(!held); /* nobody upgrades: that is how deadlocks are made */
    row_lock *l = lock_new(t, r, exclusive);
    l->granted = grantable(l);
    return l->granted || wait_for_lock(t, l);
}

bool rowtx_holds(const tx *t, const row *r)
{
    const row_lock *held = lock_of(t, r);
    return held && held->granted && held->exclusive;
}

bool tx_try_lock(tx *t, row *r)
{
    row_lock *held = lock_of(t, r);
    if (held) return held->exclusive;
    row_lock *l = lock_new(t, r, true);
    l->granted = grantable(l);
    if (!l->granted) unlock(l);
    return l->granted;
}

/* ---- transactions ---------------------------------------------------------------------------------------------------------- */

const row_data *rowtx_read(const tx *t, const row *r)
{
    if (r->draft && lock_of(t, r)) return r->draft;
    return &r->data;
}

row_data *rowtx_write(tx *t, row *r)
{
    row_lock *l = lock_of(t, r);
    CHECK(l && l->granted && l->exclusive);
    if (!r->draft) {
        r->draft = sim_alloc(t->db->sim, sizeof *r->draft);
        *r->draft = r->data;
    }
    return r->draft;
}

static void end(tx *t, bool commit)
{
    list_each(node, &t->locks) {
        row_lock *l = container_of(node, row_lock, of_tx);
        if (!l->exclusive || !l->row->draft) continue;
        if (commit) l->row->data = *l->row->draft;
        l->row->draft = NULL;
    }
}

static void unlock_all(tx *t)
{
    while (!list_empty(&t->locks)) unlock(container_of(t->locks.next, row_lock, of_tx));
}

void rowtx_commit(tx *t)
{
    end(t, true);
    unlock_all(t);
}

void rowtx_rollback(tx *t)
{
    end(t, false);
    unlock_all(t);
}

static void run(tx *t)
{
    switch_in(t->fiber);
    if (!t->fiber->done) return;
    wire *w = t->wire;
    CHECK(list_empty(&t->locks));
    fiber_free(t->fiber);
    list_append(&t->db->free_tx, &t->link);
    w->tx = NULL;
    wire_finished(w);
}

static void resume(sim *s, void *arg, int64_t number)
{
    (void)s, (void)number;
    run(arg);
}

void rowtx_start(rows *db, wire *w, rowtx_body body, void *arg)
{
    list *node = list_pop(&db->free_tx);
    tx *t = node ? container_of(node, tx, link) : sim_alloc(db->sim, sizeof *t);
    memset(t, 0, sizeof *t);
    t->db = db;
    t->wire = w;
    t->now_us = store_wall(db->sim);
    t->alive_us = WALL_BASE + db->sim->now;
    w->began_us = w->at_us = db->sim->now;
    w->shift_us = db->sim->wall_shift;
    w->clock_steps = db->sim->clock_steps;
    t->body = body;
    t->arg = arg;
    list_init(&t->locks);
    t->fiber = fiber_new(t);
    w->tx = t;
    run(t);
}

void rowtx_kill(tx *t)
{
    if (t->killed) return;
    t->killed = true;
    if (!t->waiting) return; /* it notices at its next step */
    row_lock *l = t->waiting;
    t->waiting = NULL;
    unlock(l);
    sim_at(t->db->sim, 0, NULL, resume, t, 0);
}
