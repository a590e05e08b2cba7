/* Waiting for a task to end. Nobody polls: those who wait are woken when a batch of this engine touched their task, or when
 * somebody else committed, and then look. The order (register, look, sleep) loses no wake-up: `woken` is set under the lock
 * that the sleeper holds. */
#include "runtime/runtime.h"

typedef struct waiter {
    list link;
    pawl_id id;
    bool woken;
} waiter;

void waits_init(waits *w)
{
    pthread_mutex_init(&w->lock, NULL);
    runtime_cond_init(&w->cond);
    list_init(&w->all);
}

void waits_done(waits *w)
{
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->lock);
}

static bool touches(const pawl_batch *batch, pawl_id id)
{
    for (int i = 0; i < batch->count; i++)
        if (batch->ops[i]->id == id) return true;
    return false;
}

void waits_wake(runtime *rt, const pawl_batch *batch)
{
    waits *w = &rt->waits;
    if (atomic_load(&w->count) == 0) return;
    bool any = false;
    pthread_mutex_lock(&w->lock);
    list_each(node, &w->all) {
        waiter *one = container_of(node, waiter, link);
        if (batch && !batch->freed && !touches(batch, one->id)) continue;
        one->woken = any = true;
    }
    if (any) pthread_cond_broadcast(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

/* false: not in time */
static bool sleep_until_woken(waits *w, waiter *one, int64_t until)
{
    bool in_time = true;
    pthread_mutex_lock(&w->lock);
    while (!one->woken && in_time) in_time = runtime_wait(&w->cond, &w->lock, until);
    bool woken = one->woken;
    one->woken = false;
    pthread_mutex_unlock(&w->lock);
    return woken;
}

static pawl_status too_late(runtime *rt, pawl_id id, pawl_state state, pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(id, text);
    return err_set(err, PAWL_TIMEOUT, "task %s is still %s%s", text, pawl_state_name(state),
                   rt->options.inline_mode ? ": in inline mode it runs inside pawl_run_due and pawl_advance" : "");
}

static pawl_status watch(runtime *rt, waiter *one, int64_t until, pawl_state *state, pawl_error *err)
{
    for (;;) {
        pawl_status status = look_state(rt, one->id, state, err);
        if (status || pawl_state_terminal(*state)) return status;
        if (!sleep_until_woken(&rt->waits, one, until)) return too_late(rt, one->id, *state, err);
        if (atomic_load(&rt->closing)) return err_set(err, PAWL_CLOSED, "the engine was closed meanwhile");
    }
}

pawl_status waits_for(runtime *rt, pawl_id id, int64_t timeout_us, pawl_state *state, pawl_error *err)
{
    waits *w = &rt->waits;
    waiter one = {.id = id};
    pawl_state found = PAWL_STATE_NONE;
    pthread_mutex_lock(&w->lock);
    list_append(&w->all, &one.link);
    atomic_fetch_add(&w->count, 1);
    pthread_mutex_unlock(&w->lock);
    pawl_status status = watch(rt, &one, runtime_until(rt->options.inline_mode ? 0 : timeout_us), &found, err);
    pthread_mutex_lock(&w->lock);
    list_remove(&one.link);
    atomic_fetch_sub(&w->count, 1);
    pthread_mutex_unlock(&w->lock);
    if (!status && state) *state = found;
    return status;
}
