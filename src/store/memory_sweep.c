/* Retention in the memory store: one small step at a time, oldest first of each kind.
 *
 * Tasks, audit rows, logs and the operator log are looked at in the order in which they finished or were written, which is their order
 * by time unless the wall clock was set back; then some go a little later.
 */
#include "store/memory_family.h"

typedef struct sweeping {
    mem *m;
    pawl_sweep *call;
    int64_t now_us;
    int64_t left; /* rows this step may still remove */
} sweeping;

/* Whether a row of that age goes now. If not, it says when, unless rows of the kind are kept for ever. */
static bool falls_due(sweeping *s, int64_t since_us, int64_t keep_us)
{
    if (keep_us < 0) return false;
    int64_t left = mem_add(since_us, keep_us) - s->now_us;
    if (left <= 0 && s->left > 0) {
        s->left--;
        s->call->removed++;
        return true;
    }
    if (left <= 0) s->call->more = true;
    else if (s->call->next_us < 0 || left < s->call->next_us) s->call->next_us = left;
    return false;
}

static void sweep_tasks(sweeping *s, mem_age age, int64_t keep_us)
{
    while (!list_empty(&s->m->aged[age])) {
        mem_task *t = task_of_age(s->m->aged[age].next);
        if (!falls_due(s, age == AGE_RESOLVED ? t->resolution->resolved_us : t->finished_us, keep_us)) return;
        mem_forget(s->m, t);
    }
}

/* Tells the processor what mem_forget will look at: history has long left its caches. `far` stands some tasks before `near`, so that
 * reading either does not wait. */
static void fetch(const list *far, const list *near)
{
    const char *next = (const char *)task_of_age(far->next);
    for (size_t at = 0; at < sizeof(mem_task); at += 64) __builtin_prefetch(next + at, 1);
    const mem_task *t = task_of_age(near);
    __builtin_prefetch(&t->body->block);
    if (t->rows) __builtin_prefetch(t->rows, 1);
}

void mem_trim(mem *m)
{
    for (int age = 0; age < AGES; age++) {
        const list *near = m->aged[age].next->next->next, *far = near->next->next->next;
        for (; m->aged_count[age] > HISTORY; near = near->next, far = far->next) {
            fetch(far, near);
            mem_forget(m, task_of_age(m->aged[age].next));
        }
    }
    body_moves_done(&m->moves);
}

static void sweep_rows(sweeping *s)
{
    while (!list_empty(&s->m->rows_by_age)) {
        mem_row *row = container_of(s->m->rows_by_age.next, mem_row, age);
        if (!falls_due(s, row->at_us, s->call->keep_audit_us)) return;
        mem_forget_row(s->m, row);
    }
}

static void sweep_logs(sweeping *s)
{
    while (!list_empty(&s->m->logs_by_age)) {
        mem_log *log = container_of(s->m->logs_by_age.next, mem_log, age);
        if (!falls_due(s, log->at_us, s->call->keep_logs_us)) return;
        mem_forget_log(s->m, log);
    }
}

static void sweep_operators(sweeping *s)
{
    while (!list_empty(&s->m->operators)) {
        mem_operator *o = container_of(s->m->operators.next, mem_operator, age);
        if (!falls_due(s, o->at_us, s->call->keep_audit_us)) return;
        list_remove(&o->age);
        alloc_free(&s->m->allocator, o);
    }
}

/* A dead node that no task is leased to. It keeps its memory as long as history points at its name. One that is gone and held
 * nothing was never rescued: it dies here. */
static void sweep_nodes(sweeping *s)
{
    list_each(link, &s->m->node_list) {
        mem_node *n = container_of(link, mem_node, link);
        if (mem_node_gone(n) && n->leases == 0) mem_node_die(s->m, n, s->now_us);
        if (n->alive || n->swept || n->leases > 0 || !falls_due(s, n->died_us, RECEIPT_US)) continue;
        n->swept = true;
        map_remove(&s->m->nodes, &n->by_id);
        n->names++;
        mem_node_unnamed(s->m, n);
    }
}

static int64_t receipt_since(const sweeping *s, const mem_receipt *r)
{
    const mem_node *n = mem_find_node(s->m, r->node);
    if (!n) return r->used_us;
    return n->alive ? INT64_MAX : n->died_us;
}

static void sweep_receipts(sweeping *s)
{
    map_each(node, &s->m->receipts) {
        mem_receipt *r = container_of(node, mem_receipt, by_lane);
        int64_t since_us = receipt_since(s, r);
        if (since_us == INT64_MAX || !falls_due(s, since_us, RECEIPT_US)) continue;
        map_remove(&s->m->receipts, &r->by_lane);
        alloc_free(&s->m->allocator, r->results);
        alloc_free(&s->m->allocator, r);
    }
}

/* Dead letters that go within a week. */
static int64_t count_expiring(const mem *m, int64_t now_us, int64_t keep_us)
{
    if (keep_us < 0) return 0;
    int64_t count = 0, until_us = mem_add(now_us, 7 * PAWL_DAY) - keep_us;
    list_each(link, &m->aged[AGE_FAILED]) count += task_of_age(link)->finished_us < until_us;
    return count;
}

pawl_status memory_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err)
{
    (void)err;
    mem *m = mem_enter(store);
    sweeping s = {.m = m, .call = call, .now_us = mem_now(store), .left = call->limit > 0 ? call->limit : 1000};
    call->removed = 0;
    call->more = false;
    call->next_us = -1;
    sweep_tasks(&s, AGE_SUCCEEDED, call->keep_succeeded_us);
    sweep_tasks(&s, AGE_CANCELLED, call->keep_cancelled_us);
    sweep_tasks(&s, AGE_RESOLVED, call->keep_resolved_us);
    sweep_tasks(&s, AGE_FAILED, call->keep_failed_us);
    body_moves_done(&m->moves);
    sweep_rows(&s);
    sweep_logs(&s);
    sweep_operators(&s);
    sweep_receipts(&s);
    sweep_nodes(&s);
    call->removed += mem_budget_sweep(m, s.left > 0 ? s.left : 0, s.now_us);
    call->removed += mem_batch_sweep(m, call, s.left > 0 ? (int)s.left : 0, s.now_us);
    if (call->more) call->next_us = 0;
    call->expiring = count_expiring(m, s.now_us, call->keep_failed_us);
    mem_exit(m);
    return PAWL_OK;
}
