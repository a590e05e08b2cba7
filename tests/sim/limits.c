/* Rate limits: which a seed has, who has them, how they change while tasks wait. A third of the seeds have some. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

const char *const rate_key_names[RATE_KEYS] = {"r0", "r1", "r2"};

static pawl_rate some_rate(sim *s)
{
    static const int64_t apart_ms[] = {4, 15, 60, 250, 900, 2500, 8000, 20000};
    int most = s->plan.asks > 40 ? 4 : 7;
    int64_t apart_us = apart_ms[between(s, 0, most)] * 1000;
    pawl_rate r = {.permits = (int)between(s, 1, 4), .burst = (int)between(s, 0, 5)};
    r.period_us = apart_us * r.permits + between(s, 0, 3);
    r.start_empty = chance(s, 200);
    r.retries_free = chance(s, 200);
    r.discard = chance(s, 100);
    r.horizon_us = chance(s, 150) ? apart_us * between(s, 1, 12) : chance(s, 500) ? -1 : 0;
    return r;
}

/* A store so far away that a slot would be over when its answer arrives. */
static void far_away(plan *p)
{
    p->latency_us = 150 * PAWL_MILLISECOND;
    p->step_us = 1;
    if (p->lease_us < 10 * PAWL_SECOND) p->lease_us = 10 * PAWL_SECOND;
    for (int t = 0; t < TYPES; t++)
        for (int v = 0; v < 2; v++)
            if (p->rates[t][v].permits) p->rates[t][v].period_us = 20 * PAWL_MILLISECOND * p->rates[t][v].permits;
}

void limits_plan(sim *s, plan *p)
{
    if (p->theme || s->bounded || (s->seed % 3 != 2 && !s->both)) return;
    p->limits = true;
    p->local = chance(s, 150);
    p->rate_keys = (int)between(s, 1, RATE_KEYS);
    p->rate_share = (int)between(s, 500, 1000);
    p->told_share = chance(s, 300) ? (int)between(s, 100, 1000) : 0;
    p->limit_changes = chance(s, 300) ? (int)between(s, 10, 100) : 0;
    p->versions = chance(s, 200) ? 300 : 0;
    p->steps = chance(s, 300) ? (int)between(s, 1, 4) : 0;
    p->parked_max = chance(s, 300) ? (int)between(s, 1, 4) : 0;
    p->hot_type = (int)between(s, 0, TYPES - 1);
    for (int t = 0; t < TYPES; t++) {
        if (t != p->hot_type && !chance(s, 400)) continue;
        for (int v = 0; v < 2; v++) p->rates[t][v] = some_rate(s);
    }
    if (chance(s, 80)) far_away(p);
}

void limits_item(sim *s, item *i)
{
    i->rate_key = -1;
    if (s->plan.limits && chance(s, 500)) i->type = s->plan.hot_type;
    if (!s->plan.limits || !chance(s, s->plan.rate_share)) return;
    i->rate_key = (int)between(s, 0, s->plan.rate_keys - 1);
    i->told = chance(s, s->plan.told_share);
}

/* Handlers read the rate key out of the payload; and what they say is gone when they are asked again. */
static bool tell_key(void *ctx, pawl_bytes payload, const char *tenant, pawl_bytes *key)
{
    (void)tenant;
    static char told[8];
    const sim *s = ((sim_node *)ctx)->sim;
    const item *i = &s->items[s->asks[atoi(payload.data)].item];
    memset(told, '?', sizeof told);
    if (i->rate_key < 0) return false;
    *key = (pawl_bytes){strcpy(told, rate_key_names[i->rate_key]), strlen(rate_key_names[i->rate_key])};
    return true;
}

void limits_handler(sim_node *n, int type, core_handler_config *config)
{
    sim *s = n->sim;
    if (!s->plan.limits) return;
    config->limit.key = tell_key;
    config->limit.key_ctx = n;
    if (type < 0) return;
    n->local[type] = (pawl_rate){0};
    if (s->plan.rates[type][0].permits == 0) return;
    config->limit.rate = s->plan.rates[type][chance(s, s->plan.versions)];
    config->limit.scope = s->plan.local ? PAWL_RATE_LOCAL : PAWL_RATE_SHARED;
    if (s->plan.local) n->local[type] = config->limit.rate;
}

ask limits_ask(sim *s)
{
    ask a = {.kind = PAWL_OP_LIMIT, .type = (int)between(s, 0, TYPES - 1), .rate_key = -1, .rate = some_rate(s)};
    if (chance(s, 400)) a.rate_key = (int)between(s, 0, s->plan.rate_keys - 1);
    if (chance(s, 200)) a.rate = (pawl_rate){0};
    a.pause = chance(s, 150);
    return a;
}

void limits_fill(const sim *s, pawl_op *op, const ask *a)
{
    (void)s;
    const char *key = a->rate_key >= 0 ? rate_key_names[a->rate_key] : "";
    op->u.limit.type = type_names[a->type];
    op->u.limit.key = (pawl_bytes){key, strlen(key)};
    op->u.limit.rate = a->rate;
    op->u.limit.paused = a->pause;
    op->u.limit.move = 1000;
}

/* By up to ten seconds; mostly by what was slept or mended. Nobody is told. */
void limits_step(sim *s)
{
    int64_t by = between(s, -10 * PAWL_SECOND, 10 * PAWL_SECOND);
    if (chance(s, 300)) by /= 1000;
    s->wall_shift += by;
    s->stats[STAT_STEPS]++;
    NOTE(s, NULL, "the store's clock steps by %u", by);
    judge_stepped(s, by);
}
