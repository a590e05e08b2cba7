/* Families in the simulation (mode a): tasks that wait for others, and the judge on them.
 *
 * The judge does not repeat what the store does step by step. After each commit it asks the store which of the waiting tasks wait no more,
 * and holds that against what it knows of their parents: nobody is freed or cancelled without a reason, and nobody waits for what
 * has ended once the store says that nothing is left to tell. */
#include "judge.h"

void families_plan(const sim *s, plan *p) { p->families = !s->rows && !p->limits && !p->theme && s->seed % 4 == 2; }

/* One or two of the tasks that are stored. */
void families_item(sim *s, item *i)
{
    if (!s->plan.families || s->items_count == 0 || !chance(s, 400)) return;
    int wanted = chance(s, 300) ? 2 : 1, first = (int)between(s, 0, s->items_count - 1);
    for (int k = 0; k < s->items_count && i->parents_count < wanted; k++) {
        const item *other = &s->items[(first + k) % s->items_count];
        if (other->id && (!i->parents_count || i->parents[0] != other->id)) i->parents[i->parents_count++] = other->id;
    }
    if (i->parents_count == 0) return;
    i->if_failed = chance(s, 500) ? PAWL_IF_FAILED_RUN : PAWL_IF_FAILED_CANCEL;
    i->key = -1;
}

const pawl_family *families_of(sim *s, const item *i)
{
    if (i->parents_count == 0) return NULL;
    pawl_family *f = sim_alloc(s, sizeof *f);
    pawl_kin *kin = sim_alloc(s, 2 * sizeof *kin);
    for (int k = 0; k < i->parents_count; k++) kin[k] = (pawl_kin){.id = i->parents[k]};
    *f = (pawl_family){.parents = kin, .parents_count = i->parents_count, .if_failed = i->if_failed};
    return f;
}

typedef enum hope { HOPE_WAITS, HOPE_FREE, HOPE_LOST } hope;

static hope hope_of(const judge *j, const pawl_family *f)
{
    hope h = HOPE_FREE;
    for (int i = 0; i < f->parents_count; i++) {
        const mtask *parent = judge_task(j, f->parents[i].id);
        if (!pawl_state_terminal(parent->state)) {
            if (h == HOPE_FREE) h = HOPE_WAITS;
        } else if (parent->state != PAWL_SUCCEEDED && f->if_failed == PAWL_IF_FAILED_CANCEL) {
            h = HOPE_LOST;
        }
    }
    return h;
}

void judge_family_stored(judge *j, mtask *t, const pawl_op *op)
{
    sim *s = j->sim;
    if (!(t->family = op->u.insert.family)) return;
    bool waits = hope_of(j, t->family) != HOPE_FREE;
    if ((op->out_state == PAWL_WAITING) != waits)
        broken(s, "a child waits for its parents", "%s is %s when it is stored", trace_id(s, t->id),
               pawl_state_name(op->out_state));
    if (!waits) return;
    t->state = PAWL_WAITING;
    NOTE(s, NULL, "%t waits for %t (%d in all)", t->id, t->family->parents[0].id, t->family->parents_count);
}

static pawl_state stored_state(const sim *s, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_STATE, .id = id};
    return s->observer->type->read(s->observer, &query, NULL, NULL) == PAWL_OK ? query.state : PAWL_STATE_NONE;
}

static void check_fate(judge *j, const mtask *t, bool unsettled)
{
    sim *s = j->sim;
    hope h = hope_of(j, t->family);
    if (t->state == PAWL_PENDING && h != HOPE_FREE)
        broken(s, "a child waits for its parents", "%s was freed too early", trace_id(s, t->id));
    if (t->state == PAWL_CANCELLED && h != HOPE_LOST)
        broken(s, "a child waits for its parents", "%s was cancelled though no parent failed", trace_id(s, t->id));
    if (t->state == PAWL_WAITING && h != HOPE_WAITS && !unsettled)
        broken(s, "no child waits for ever", "%s waits, its parents have ended, and nobody is to be told", trace_id(s, t->id));
}

/* After a commit. */
void judge_families(judge *j, const pawl_batch *b)
{
    mtask *changed[TOUCHED_MAX];
    int count = 0;
    if (!j->sim->plan.families) return;
    list_each(node, &j->tasks) {
        mtask *t = container_of(node, mtask, link);
        if (t->state != PAWL_WAITING) continue;
        if (count == TOUCHED_MAX) break;
        changed[count++] = t;
        pawl_state now = stored_state(j->sim, t->id);
        if (now == PAWL_WAITING) continue;
        NOTE(j->sim, NULL, "%t waits no more: %s", t->id, TEXT(pawl_state_name(now)));
        judge_move(j, t, now);
        if (now == PAWL_PENDING && t->run_at_us < b->store_now_us) t->run_at_us = b->store_now_us;
    }
    for (int i = 0; i < count; i++) check_fate(j, changed[i], b->unsettled);
}
