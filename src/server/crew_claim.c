/* Claims: a request that waits for tasks. Its groups' engines are told of as many workers as it wants tasks, each; the first that has
 * something answers it, with what it has at that moment, and the others are told that nobody waits any more. What they hand over in
 * between goes to another claim, or back. */
#include "base/alloc.h"
#include "server/crew.h"
#include <string.h>

#define WAIT_LEAST_US (100 * PAWL_MILLISECOND) /* what is due must have time to come */

typedef struct claim_options {
    int max;
    int64_t wait_us, number;
} claim_options;

/* clang-format off */
const field claim_body[] = {
    {"max", FIELD_INT, offsetof(claim_options, max), 1, CLAIM_MAX, "tasks at most; 1 by default"},
    {"wait", FIELD_DURATION, offsetof(claim_options, wait_us), 0, 0, "how long to wait for the first of them; 20s by default, at most two thirds of the lease"},
    {"number", FIELD_MICROS, offsetof(claim_options, number), 0, 0, "of this claim: they grow. See \"number\" of a renewal"},
    {0},
};
/* clang-format on */

/* ---- the answer ----------------------------------------------------------------------------------------------------------------- */

static void task_of(json_writer *w, const held *h)
{
    const pawl_run *run = h->run;
    jsonw_object(w);
    json_id(w, "id", h->id);
    json_number(w, "fence", h->fence);
    json_text(w, "type", pawl_run_type(run));
    json_text(w, "queue", pawl_run_queue(run));
    json_text(w, "key", pawl_run_key(run));
    json_text(w, "tenant", pawl_run_tenant(run));
    json_number(w, "attempt", pawl_run_attempt(run));
    json_number(w, "max_attempts", pawl_run_max_attempts(run));
    json_instant(w, "deadline", pawl_run_deadline_us(run));
    json_text(w, "headers", pawl_run_headers(run));
    json_text(w, "traceparent", pawl_run_traceparent(run));
    json_text(w, "content_type", pawl_run_content_type(run));
    json_plain(w, "payload", pawl_run_payload(run), pawl_run_content_type(run));
    jsonw_end_object(w);
}

/* Under the lock: the runs may end as soon as it is free. */
static void write_answer(const crew *w, claim *cl)
{
    json_writer *out = &cl->out.w;
    list *node;
    reply_begin(&cl->out);
    jsonw_object(out);
    jsonw_key(out, "tasks");
    jsonw_array(out);
    while ((node = list_pop(&cl->got))) task_of(out, container_of(node, held, of_claim));
    jsonw_end_array(out);
    json_number(out, "lease_us", crew_lease(cl->w, cl->arrived_us));
    json_truth(out, "drain", cl->w->drain);
    json_truth(out, "stopping", w->draining);
    jsonw_end_object(out);
    cl->answered = true;
}

/* Under the lock. Its worker may be on its way out. */
void claim_end(claim *cl, crew_after *a)
{
    crew *w = cl->c->s->crew;
    for (int i = 0; i < cl->waits_count; i++) {
        struct claim_wait *at = &cl->waits[i];
        list_remove(&at->link);
        at->g->asked_us = crew_now();
        at->g->ready = true;
        if (list_empty(&at->g->claims)) crew_plan(w, at->g->asked_us + PAWL_SECOND);
        after_adjust(a, at->g, at->got - cl->want, false);
    }
    list_remove(&cl->link);
    cl->w->claims_count--;
    write_answer(w, cl);
    list_append(&a->claims, &cl->link);
}

void claim_answer(crew *w, claim *cl)
{
    call *c = cl->c;
    (void)w;
    reply_end(c, &cl->out, 200);
    alloc_free(alloc_default(), cl);
}

/* ---- what an engine hands over -------------------------------------------------------------------------------------------------- */

static bool give(crew *w, group *g, struct claim_wait *to, pawl_run *run)
{
    claim *cl = to->claim;
    held *h = alloc_new(alloc_default(), sizeof *h);
    if (!h) return false;
    *h = (held){.run = run, .w = cl->w, .g = g, .id = pawl_run_id(run), .fence = pawl_run_fence(run), .number = cl->number};
    pawl_run_set_user(run, h);
    map_put(&w->tasks, &h->by_id, (uint64_t)h->id);
    list_append(&cl->w->held, &h->link);
    list_append(&cl->got, &h->of_claim);
    cl->w->held_count++;
    w->held_count++;
    g->held++;
    to->got++;
    cl->got_count++;
    cl->bytes += pawl_run_payload(run).len;
    return true;
}

void claim_take(void *ctx, pawl_run *const *runs, size_t count)
{
    group *g = ctx;
    crew *w = g->crew;
    crew_after a;
    size_t at = 0;
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    while (at < count && !list_empty(&g->claims)) {
        struct claim_wait *to = container_of(g->claims.next, struct claim_wait, link);
        if (!give(w, g, to, runs[at])) break;
        at++;
        if (to->claim->got_count == to->claim->want || to->claim->bytes >= CLAIM_BYTES || at == count) claim_end(to->claim, &a);
    }
    if (at < count) {
        g->ready = true; /* the ticker sees to it, if nobody asks */
        crew_plan(w, crew_now() + PAWL_SECOND);
    }
    pthread_mutex_unlock(&w->lock);
    for (; at < count; at++) pawl_run_return(runs[at], NULL);
    after_do(w, &a);
}

/* ---- the request ---------------------------------------------------------------------------------------------------------------- */

static claim *claim_new(call *c, worker *who, const claim_options *o)
{
    claim *cl = alloc_new(alloc_default(), sizeof *cl);
    if (!cl) return NULL;
    *cl = (claim){
        .c = c, .w = who, .want = o->max, .number = o->number, .arrived_us = crew_now(), .waits_count = who->groups_count};
    list_init(&cl->got);
    int64_t most_us = who->lease_us * 2 / 3, wait_us = o->wait_us < WAIT_LEAST_US ? WAIT_LEAST_US : o->wait_us;
    cl->deadline_us = cl->arrived_us + (wait_us < most_us ? wait_us : most_us);
    for (int i = 0; i < who->groups_count; i++) {
        cl->waits[i] = (struct claim_wait){.claim = cl, .g = who->groups[i]};
        list_append(&who->groups[i]->claims, &cl->waits[i].link);
        who->groups[i]->asked_us = cl->arrived_us;
    }
    list_append(&who->claims, &cl->link);
    who->claims_count++;
    return cl;
}

void route_worker_claim(call *c)
{
    claim_options o = {.max = 1, .wait_us = 20 * PAWL_SECOND};
    crew *w = c->s->crew;
    crew_after a;
    claim *cl = NULL;
    if (!call_query(c, no_fields, NULL) || !call_body(c, claim_body, &o)) return;
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    worker *who = crew_find(w, c->segment);
    bool crowded = who && who->claims_count >= CLAIMS_MAX;
    if (who) crew_seen(who);
    if (who && !crowded) cl = claim_new(c, who, &o);
    if (cl) http_hold(c->r);
    if (cl && (w->draining || who->drain)) {
        cl->want = 0; /* no engine was told of it */
        claim_end(cl, &a);
    } else if (cl) {
        for (int i = 0; i < cl->waits_count; i++) after_adjust(&a, cl->waits[i].g, cl->want, false);
        crew_plan(w, cl->deadline_us);
    }
    pthread_mutex_unlock(&w->lock);
    if (!who) crew_unknown(c);
    else if (crowded) call_problem(c, 429, "too_many", "%d claims of this worker wait already: one is enough", CLAIMS_MAX);
    else if (!cl) call_problem(c, 503, "no_memory", "%s", pawl_status_text(PAWL_NO_MEMORY));
    after_do(w, &a);
}
