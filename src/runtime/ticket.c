/* Tickets: one call of the API that changes something, on its way to the core and back.
 *
 * A ticket holds the request, and what its caller wants to know of the answer. Two may hold it: the caller, until it has its
 * answer, and the core, until it needs the request no more (CORE_DROP): a batch under way refers to the request even when its
 * caller has given up. The driver reads the results out of the request (`read`) when the core answers.
 *
 * A blocking caller drives the core itself where it can, and makes the store's calls its answer depends on itself while the store
 * is idle. Otherwise it sleeps until the driver wakes it, or gives up after dispatch_timeout_us.
 *
 * A ticket with a callback has no caller to wait for it. They stand in a list, oldest first; the driver gives up for those that
 * have waited too long.
 */
#include "runtime/gate.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>

#define CLOSING_PATIENCE_US (250 * PAWL_MILLISECOND) /* an engine that closes lets commits under way come back */

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not take the call: out of memory"); }

static ticket *new_ticket(runtime *rt, core_request *r, pawl_error *err)
{
    ticket *t = r ? alloc_new(&rt->allocator, sizeof *t) : NULL;
    if (!t) {
        core_request_free(rt->core, r);
        no_memory(err);
        return NULL;
    }
    t->rt = rt;
    t->request = r;
    r->owner = t;
    r->in_handler = work_inside == rt || rt->options.inline_mode;
    atomic_store_explicit(&t->refs, 1, memory_order_relaxed);
    pthread_mutex_init(&t->lock, NULL);
    runtime_cond_init(&t->cond);
    return t;
}

ticket *ticket_new(runtime *rt, int count, pawl_error *err) { return new_ticket(rt, core_request_new(rt->core, count), err); }

ticket *ticket_for_items(runtime *rt, int count, pawl_error *err)
{
    ticket *t = new_ticket(rt, core_request_room(rt->core, count), err);
    if (!t) return NULL;
    t->items = rt->allocator.alloc(rt->allocator.ctx, (size_t)count * sizeof *t->items);
    if (t->items) return t;
    ticket_free(t);
    no_memory(err);
    return NULL;
}

static void unref(ticket *t)
{
    if (atomic_fetch_sub(&t->refs, 1) != 1) return;
    const pawl_allocator *a = &t->rt->allocator;
    for (struct kept_text *k = t->texts, *next; k; k = next) {
        next = k->next;
        alloc_free(a, k);
    }
    pthread_cond_destroy(&t->cond);
    pthread_mutex_destroy(&t->lock);
    alloc_free(a, t->op_of);
    alloc_free(a, t->items);
    alloc_free(a, t);
}

void ticket_free(ticket *t)
{
    if (!t) return;
    if (t->request && !t->submitted) {
        for (int i = 0; t->items && i < t->items_count; i++) pawl_body_free(&t->rt->allocator, t->items[i].body);
        core_request_free(t->rt->core, t->request);
    }
    unref(t);
}

bool ticket_keep_bytes(ticket *t, pawl_bytes bytes, const char **kept)
{
    struct kept_text *k = t->rt->allocator.alloc(t->rt->allocator.ctx, sizeof *k + bytes.len + 1);
    if (!k) return false;
    k->next = t->texts;
    t->texts = k;
    if (bytes.len) memcpy(k->text, bytes.data, bytes.len);
    k->text[bytes.len] = '\0';
    *kept = k->text;
    return true;
}

void *ticket_keep_room(ticket *t, size_t size)
{
    struct kept_text *k = alloc_new(&t->rt->allocator, sizeof *k + size);
    if (!k) return NULL;
    k->next = t->texts;
    t->texts = k;
    return k->text;
}

bool ticket_keep(ticket *t, const char *text, const char **kept)
{
    *kept = NULL;
    return !text || ticket_keep_bytes(t, pawl_str(text), kept);
}

/* ---- the driver's side --------------------------------------------------------------------------------------------------- */

static void nudge(ticket *t)
{
    pthread_mutex_lock(&t->lock);
    pthread_cond_signal(&t->cond);
    pthread_mutex_unlock(&t->lock);
}

static void fill(ticket *t)
{
    core_request *r = t->request;
    for (int i = 0; i < t->items_count; i++) {
        const ticket_item *item = &t->items[i];
        zero(&r->ops[i], sizeof r->ops[i]);
        dispatch_insert(&r->ops[i], item->body, item->delay_us, item->at_us);
        r->ops[i].u.insert.family = item->family;
    }
    r->count += t->items_count;
    t->items_count = 0;
}

void ticket_submit(runtime *rt, core_time now, ticket *t)
{
    fill(t);
    list_append(&rt->tickets, &t->link);
    if (t->callback) list_append(&rt->callbacks_waiting, &t->waiting);
    t->fed = true;
    core_submit(rt->core, now, t->request);
    if (t->given_up) core_give_up(rt->core, now, t->request);
    else if (atomic_load(&rt->closing)) nudge(t);
}

static void explain(runtime *rt, ticket *t)
{
    if (t->status == PAWL_OK) return;
    char id[PAWL_ID_TEXT] = "";
    const core_request *r = t->request;
    if (r->count > 0 && r->ops[0].id) pawl_id_format(r->ops[0].id, id);
    const char *said = rt->store_error[0] ? rt->store_error : "it did not answer in time";
    switch (t->status) {
    case PAWL_FULL:
        err_set(&t->err, PAWL_FULL, "queue \"%s\" is full, nothing was stored: try again when some of its tasks have run",
                t->queue);
        break;
    case PAWL_UNAVAILABLE:
        err_set(&t->err, PAWL_UNAVAILABLE, "could not reach the store, nothing was stored, try again: %s", said);
        break;
    case PAWL_UNKNOWN:
        err_set(&t->err, PAWL_UNKNOWN, "the store may or may not have stored it%s%s: %s",
                id[0] ? "; repeat the call with id " : "", id, said);
        break;
    default: err_set(&t->err, t->status, "could not change the store: %s", pawl_status_text(t->status)); break;
    }
}

void ticket_answer(runtime *rt, core_request *r)
{
    ticket *t = r->owner;
    t->answered = true;
    t->status = r->status;
    list_remove(&t->waiting);
    explain(rt, t);
    if (t->read) t->read(t, r);
    t->next = NULL;
    *rt->answered_last = t;
    rt->answered_last = &t->next;
}

void ticket_drop(runtime *rt, core_request *r)
{
    ticket *t = r->owner;
    core_request_free(rt->core, r);
    if (!t) return; /* the core's own: it gave back a lease */
    list_remove(&t->link);
    t->request = NULL;
    unref(t);
}

static void wake(ticket *t)
{
    pthread_mutex_lock(&t->lock);
    t->done = true;
    pthread_cond_signal(&t->cond);
    pthread_mutex_unlock(&t->lock);
}

void ticket_flush(runtime *rt)
{
    ticket *t = rt->answered;
    rt->answered = NULL;
    rt->answered_last = &rt->answered;
    for (ticket *next; t; t = next) {
        next = t->next;
        if (!t->callback) wake(t);
        else if (rt->loop.threaded) loop_callback(rt, t);
        else ticket_call_back(t);
    }
}

void ticket_call_back(ticket *t)
{
    t->callback(t->callback_ctx, &t->receipt, t->status ? &t->err : NULL);
    unref(t);
}

int64_t ticket_deadline(const runtime *rt)
{
    if (list_empty(&rt->callbacks_waiting)) return INT64_MAX;
    return container_of(rt->callbacks_waiting.next, ticket, waiting)->deadline_us;
}

void ticket_expire(runtime *rt, core_time now)
{
    while (ticket_deadline(rt) <= now.mono_us) {
        ticket *t = container_of(list_pop(&rt->callbacks_waiting), ticket, waiting);
        core_give_up(rt->core, now, t->request);
    }
}

void ticket_expire_all(runtime *rt)
{
    core_time now = runtime_now(rt);
    list *node;
    while (!CANARY(CALLBACK_LOST) && (node = list_pop(&rt->callbacks_waiting)))
        core_give_up(rt->core, now, container_of(node, ticket, waiting)->request);
}

void ticket_wake_all(runtime *rt)
{
    list_each(node, &rt->tickets) nudge(container_of(node, ticket, link));
}

void ticket_done_all(runtime *rt)
{
    list *node;
    while ((node = list_pop(&rt->tickets))) {
        ticket *t = container_of(node, ticket, link);
        t->request = NULL;
        unref(t);
    }
}

/* ---- the caller's side --------------------------------------------------------------------------------------------------- */

static pawl_status check_caller(runtime *rt, pawl_error *err)
{
    if (rt->options.read_only)
        return err_set(err, PAWL_MISUSE, "%s was opened read_only: open it without to change anything", rt->url);
    if (loop_is_here(rt))
        return err_set(err, PAWL_MISUSE,
                       "a callback runs on the engine's own thread and must not call pawl: pass the news on to another thread");
    if (sqlite_inside_own_write(rt->store))
        return err_set(err, PAWL_MISUSE,
                       "this thread is inside a write transaction of its own on the same file and would wait for itself: "
                       "use pawl_dispatch_sqlite, or commit first");
    return PAWL_OK;
}

static input *submit(ticket *t)
{
    t->submitted = true;
    t->in.kind = INPUT_SUBMIT;
    atomic_fetch_add(&t->refs, 1);
    return &t->in;
}

static bool is_done(ticket *t)
{
    pthread_mutex_lock(&t->lock);
    bool done = t->done;
    pthread_mutex_unlock(&t->lock);
    return done;
}

/* Submits and does what it can do itself to get the answer. */
static void submit_and_help(ticket *t)
{
    runtime *rt = t->rt;
    int owed = pool_owed(rt); /* a worker that waits is not one to wait for */
    if (rt->direct) {
        loop_push_soon(rt, submit(t), owed);
        return;
    }
    storeq_helping = rt;
    loop_come_back(rt, submit(t), &t->in, owed);
    while (!is_done(t) && storeq_help(rt)) continue;
    storeq_helping = NULL;
    storeq_wake(rt);
}

static bool is_ending(const runtime *rt) { return atomic_load(&rt->closing) && work_inside != rt; }

/* Under the ticket's lock. */
static void wait_until(ticket *t, int64_t until)
{
    bool in_time = true, ending = false;
    while (!t->done && in_time) {
        if (!ending && is_ending(t->rt)) {
            int64_t soon = runtime_until(CLOSING_PATIENCE_US);
            if (soon < until) until = soon;
            ending = true;
        }
        in_time = runtime_wait(&t->cond, &t->lock, until);
    }
}

static void give_up(ticket *t)
{
    runtime *rt = t->rt;
    loop_enter(rt, -1);
    if (!t->fed) t->given_up = true; /* it is still in the inbox */
    else if (!t->answered) core_give_up(rt->core, runtime_now(rt), t->request);
    loop_leave(rt);
}

static void await(ticket *t)
{
    int64_t until = t->rt->options.inline_mode ? 0 : runtime_until(t->rt->options.dispatch_timeout_us);
    pthread_mutex_lock(&t->lock);
    wait_until(t, until);
    bool done = t->done;
    pthread_mutex_unlock(&t->lock);
    if (done) return;
    give_up(t);
    pthread_mutex_lock(&t->lock);
    while (!t->done) pthread_cond_wait(&t->cond, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

pawl_status ticket_run(ticket *t, pawl_error *err)
{
    runtime *rt = t->rt;
    pawl_status status = check_caller(rt, err);
    if (status) return status;
    submit_and_help(t);
    await(t);
    if ((t->status == PAWL_UNAVAILABLE || t->status == PAWL_FULL) && is_ending(rt))
        t->status = err_set(&t->err, PAWL_CLOSED, "the engine was closed before anything was stored");
    if (t->status == PAWL_MOVED) gate_explain(rt, &t->err);
    if (t->status && err) *err = t->err;
    return t->status;
}

pawl_status ticket_send(ticket *t, pawl_error *err)
{
    runtime *rt = t->rt;
    pawl_status status = check_caller(rt, err);
    if (status) return status;
    t->deadline_us = runtime_now(rt).mono_us + rt->options.dispatch_timeout_us;
    loop_push(rt, submit(t), false);
    return PAWL_OK;
}
