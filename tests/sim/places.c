/* Concurrency limits and tenants that take turns: which a seed has, who has them, how they change. Another third of the seeds of mode a have
 * some, and all of modes c and d; on rows (mode d) without order and turns. */
#include "sim.h"
#include <string.h>

const char *const tenant_names[TENANTS] = {"", "a", "b", "c"};

static int some_most(sim *s) { return chance(s, 500) ? 1 : (int)between(s, 1, 4); }

void places_plan(sim *s, plan *p)
{
    if (p->theme || (s->rows && !s->bounded) || (s->seed % 3 != 1 && !s->both && !s->bounded)) return;
    p->places = true;
    if (s->rows) p->step_us = 1 + p->step_us / 20; /* there are many more locks, and a claim must not take longer than a lease */
    if (!s->both) {                                /* limits_plan has drawn them */
        p->rate_keys = (int)between(s, 1, RATE_KEYS);
        p->rate_share = (int)between(s, 500, 1000);
        p->hot_type = (int)between(s, 0, TYPES - 1);
    }
    p->bound_changes = chance(s, 400) ? (int)between(s, 10, 120) : 0;
    p->versions = chance(s, 300) ? 300 : 0;
    for (int t = 0; t < TYPES; t++) {
        if (chance(s, 400)) p->type_most[t] = some_most(s);
        if (t != p->hot_type && !chance(s, 400)) continue;
        p->key_most[t] = some_most(s);
        p->ordered[t] = p->key_most[t] == 1 && !s->rows && chance(s, 500);
    }
    for (int q = 0; q < QUEUES; q++) {
        if (chance(s, 300)) p->queue_most[q] = some_most(s);
        p->fair[q] = !s->rows && chance(s, 300);
    }
}

void places_item(sim *s, item *i)
{
    if (!s->plan.places) return;
    if (!s->both && chance(s, 500)) i->type = s->plan.hot_type;
    if (!s->both && chance(s, s->plan.rate_share)) i->rate_key = (int)between(s, 0, s->plan.rate_keys - 1);
    if (i->key < 0) i->tenant = (int)between(s, 0, TENANTS - 1); /* keys are unique per tenant */
}

static int varied(sim *s, int most) { return most && chance(s, s->plan.versions) ? some_most(s) : most; }

void places_handler(sim *s, int type, core_handler_config *config)
{
    if (!s->plan.places || type < 0) return;
    config->limit.concurrency = varied(s, s->plan.type_most[type]);
    config->limit.key_concurrency = varied(s, s->plan.key_most[type]);
    config->limit.ordered = s->plan.ordered[type] && config->limit.key_concurrency == 1;
}

void places_queue(sim *s, int queue, core_queue_config *config)
{
    if (!s->plan.places) return;
    config->concurrency = varied(s, s->plan.queue_most[queue]);
    config->fair = s->plan.fair[queue];
}

ask places_ask(sim *s)
{
    ask a = {.kind = PAWL_OP_BOUND,
             .scope = (int)between(s, PAWL_SCOPE_QUEUE, s->rows ? PAWL_SCOPE_KEYS : PAWL_SCOPE_TENANTS),
             .rate_key = -1};
    bool queue = a.scope == PAWL_SCOPE_QUEUE || a.scope == PAWL_SCOPE_TENANTS;
    a.type = (int)between(s, 0, queue ? s->plan.queues - 1 : TYPES - 1);
    if (!queue && chance(s, 500)) a.type = s->plan.hot_type;
    a.most = chance(s, 250) ? 0 : some_most(s);
    if (a.scope == PAWL_SCOPE_KEYS && chance(s, 400)) a.rate_key = (int)between(s, 0, s->plan.rate_keys - 1);
    if (a.scope == PAWL_SCOPE_TENANTS && chance(s, 500)) a.rate_key = (int)between(s, 1, TENANTS - 1);
    a.pause = a.scope == PAWL_SCOPE_KEYS && a.most == 1 && !s->rows && chance(s, 400);
    return a;
}

void places_fill(pawl_op *op, const ask *a)
{
    const char *const *keys = a->scope == PAWL_SCOPE_TENANTS ? tenant_names : rate_key_names;
    bool queue = a->scope == PAWL_SCOPE_QUEUE || a->scope == PAWL_SCOPE_TENANTS;
    op->u.bound.scope = (pawl_scope)a->scope;
    op->u.bound.name = queue ? queue_names[a->type] : type_names[a->type];
    op->u.bound.key = pawl_str(a->rate_key >= 0 ? keys[a->rate_key] : NULL);
    op->u.bound.most = a->most;
    op->u.bound.ordered = a->pause;
    op->u.bound.move = 1000;
}
