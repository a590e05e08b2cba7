/* The judge on rate limits.
 *
 * It knows every slot from when it was taken until it is used, given back or lost, and counts each budget itself, in the time of the
 * simulation, which does not step:
 *
 *   - a slot lies where the budget allows it, not earlier and not later;
 *   - a task of a limited key starts with a slot of its own, within its time, and no slot serves twice;
 *   - of the starts of a key no window has more than it may;
 *   - a task that waits near its slot costs no write of its row, one that is far holds no lease;
 *   - refused is only what may be; and what waits gets a slot that it can use.
 *
 * A budget is known between two bounds (`low`, `high`, in 1 / permits of a microsecond): what may have been given back, and a clock
 * that stepped, make them differ; a budget that is whole again makes them the same.
 */
#include "judge.h"
#include <stdlib.h>
#include <string.h>

#define IDLE_US (30 * PAWL_MINUTE) /* from then on a store may have forgotten the gate */
#define STEP_US (10 * PAWL_MILLISECOND)
#define HASTE_US (5 * PAWL_MILLISECOND)
#define GRACE_MOST_US PAWL_SECOND
#define MISSED_MOST 300

/* ---- limits ---------------------------------------------------------------------------------------------------------------- */

static int name_at(const char *const *names, int count, const char *name, size_t n)
{
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0) return i;
    return -1;
}

static const mlimit *limit_of(const judge *j, int type, int rate_key)
{
    if (rate_key < 0) return NULL;
    const mlimit *l = &j->limits[type][rate_key + 1];
    if (!l->stored) l = &j->limits[type][0];
    return l->stored ? l : NULL;
}

static bool limited(const judge *j, int type)
{
    for (int k = 0; k <= RATE_KEYS; k++)
        if (j->limits[type][k].stored) return true;
    return false;
}

static pawl_rate rate_of(const mlimit *l)
{
    pawl_rate r = l->rate.permits > 0 ? l->rate : (pawl_rate){.permits = 1, .period_us = PAWL_SECOND};
    if (r.burst == 0) r.burst = r.permits;
    if (r.horizon_us == 0) r.horizon_us = PAWL_HOUR;
    return r;
}

static int64_t late_us(const pawl_rate *r)
{
    int64_t apart = r->period_us / r->permits;
    return apart < 50 * PAWL_MILLISECOND ? 50 * PAWL_MILLISECOND : apart > PAWL_SECOND ? PAWL_SECOND : apart;
}

static bool same_rate(const pawl_rate *a, const pawl_rate *b)
{
    return a->permits == b->permits && a->period_us == b->period_us && a->burst == b->burst && a->start_empty == b->start_empty &&
           a->retries_free == b->retries_free && a->discard == b->discard && a->horizon_us == b->horizon_us;
}

void judge_limit_put(judge *j, const pawl_op *op, const wire *w)
{
    sim *s = j->sim;
    int type = name_at(type_names, TYPES, op->u.limit.type, strlen(op->u.limit.type));
    int key = op->u.limit.key.len ? name_at(rate_key_names, RATE_KEYS, op->u.limit.key.data, op->u.limit.key.len) : -1;
    mlimit *l = &j->limits[type][key + 1];
    pawl_rate rate = l->stored && op->u.limit.keep_rate ? l->rate : op->u.limit.rate;
    bool paused = l->stored && (op->u.limit.initial || op->u.limit.keep_paused) ? l->paused : op->u.limit.paused;
    bool has = rate.permits > 0 || paused;
    bool stays = l->stored ? same_rate(&l->rate, &rate) && l->paused == paused : !has;
    bool none = stays && rate.permits == 0 && (!has || (op->u.limit.keep_paused && !op->u.limit.keep_rate));
    pawl_op_result right = none ? PAWL_OP_NOT_FOUND : stays ? PAWL_OP_EXISTING : l->stored ? PAWL_OP_UPDATED : PAWL_OP_DONE;
    NOTE(s, NULL, "limit of %s, key %d: %d per %u, burst %d, pause %d: result %d", TEXT(type_names[type]), key, rate.permits,
         rate.period_us, rate.burst, paused, op->result);
    if (op->result != right)
        broken(s, "the newest limit wins", "type %d, key %d: answered %d, should be %d", type, key, op->result, right);
    if (!stays) {
        *l = (mlimit){.rate = rate, .paused = paused, .stored = rate.permits > 0 || paused};
        for (int k = 0; k < RATE_KEYS; k++)
            if (key < 0 || key == k) j->gates[type * RATE_KEYS + k].changes++;
        s->stats[STAT_LIMIT_CHANGES]++;
    }
    j->limits_changed_us = s->now;
    if (!op->u.limit.move) return;
    list_each(link, &j->tasks) {
        mtask *t = container_of(link, mtask, link);
        const right_to_start *r = &t->right;
        if (t->state != PAWL_PENDING || r->kind != RIGHT_SLOT || r->gate / RATE_KEYS != type) continue;
        if (key >= 0 && r->gate % RATE_KEYS != key) continue;
        judge_right_drop(j, t);
        int64_t now_us = WALL_BASE + w->at_us + w->shift_us;
        if (t->run_at_us > now_us) t->run_at_us = now_us;
    }
}

bool judge_paused_limit(const sim *s, int type, int rate_key, pawl_rate *rate)
{
    const mlimit *l = &s->judge->limits[type][rate_key + 1];
    *rate = l->rate;
    return l->stored && l->paused;
}

void judge_stepped(sim *s, int64_t by_us)
{
    judge *j = s->judge;
    if (s->clock_steps < STEPS_MOST) j->steps[s->clock_steps++] = by_us;
}

/* Slots of different eras are not counted together: between them the limit changed, or the clock stepped. */
static int era_of(const mgate *g, int clock_steps) { return g->changes * STEPS_MOST + clock_steps; }

/* ---- budgets --------------------------------------------------------------------------------------------------------------- */

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t tolerance(const pawl_rate *r) { return r->period_us * (r->burst - 1); } /* in 1 / permits us */

/* The slot of a TAT, in whole us, rounded up. */
static int64_t slot_at(const pawl_rate *r, int64_t tat, int64_t now_us)
{
    int64_t parts = most(tat, now_us * r->permits) - tolerance(r);
    return most(now_us, parts > 0 ? (parts + r->permits - 1) / r->permits : 0);
}

/* What the budget is when the store looks at it. */
static void see(judge *j, mgate *g, const pawl_rate *r, const wire *w)
{
    int64_t now_us = w->at_us, ahead_us = 0, back_us = 0;
    for (; g->steps < w->clock_steps; g->steps++) *(j->steps[g->steps] > 0 ? &ahead_us : &back_us) += llabs(j->steps[g->steps]);
    int64_t fresh = now_us * r->permits, empty = fresh + (r->start_empty ? tolerance(r) : 0);
    bool same = g->permits == r->permits && g->burst == r->burst && g->period_us == r->period_us;
    if (g->unknown) {
        g->low = fresh;
        g->high = INT64_MAX / 4;
    } else if (!g->used) {
        g->low = g->high = empty;
    } else if (!same) { /* as much is spent as before, up to the new burst */
        g->low = fresh;
        g->high = fresh + r->period_us * r->burst;
    } else {
        g->low -= ahead_us * r->permits;
        if (back_us) g->high += (least(back_us, now_us - g->seen_us) + STEP_US) * r->permits;
    }
    if (g->used && (!same || now_us - g->seen_us > IDLE_US)) g->high = most(g->high, empty);
    if (back_us) g->stepped_us = now_us;
    g->used = true;
    g->unknown = false;
    g->permits = r->permits;
    g->burst = r->burst;
    g->period_us = r->period_us;
    g->seen_us = now_us;
}

/* Whether the store's time may stand still for a moment: what is due now has a slot that lies ahead. */
static bool clamped_now(const mgate *g, int64_t now_us) { return g->stepped_us && now_us - g->stepped_us < 2 * STEP_US; }

/* Somebody was told a slot of the gate, `taken` or not: is it where it must be? */
static void told(judge *j, mgate *g, const pawl_rate *r, int64_t now_us, int64_t slot_us, bool taken)
{
    sim *s = j->sim;
    bool clamped = clamped_now(g, now_us);
    int64_t low = slot_at(r, g->low, now_us), high = slot_at(r, g->high, now_us) + (clamped ? STEP_US : 0);
    if (slot_us < low || slot_us > high) {
        broken(s, "slots keep their distance", "type %d, key %d: a slot in %lld us, should be in %lld to %lld us",
               (int)(g - j->gates) / RATE_KEYS, (int)(g - j->gates) % RATE_KEYS, (long long)(slot_us - now_us),
               (long long)(low - now_us), (long long)(high - now_us));
    }
    if (slot_us > now_us && !clamped) g->low = most(g->low, slot_us * r->permits - r->permits + 1 + tolerance(r));
    int64_t tat = slot_us * r->permits + tolerance(r);
    g->high = clamped && slot_us > now_us ? tat : least(g->high, tat);
    if (g->high < g->low) g->high = g->low;
    if (!taken) return;
    g->low = most(g->low, now_us * r->permits) + r->period_us;
    g->high = most(g->high, slot_us > now_us && clamped ? slot_us * r->permits : now_us * r->permits) + r->period_us;
}

/* ---- rights to start ------------------------------------------------------------------------------------------------------- */

static const item *item_of(const sim *s, const mtask *t) { return &s->items[s->asks[t->ask].item]; }

static mgate *gate_of(judge *j, const mtask *t)
{
    const item *i = item_of(j->sim, t);
    return &j->gates[i->type * RATE_KEYS + i->rate_key];
}

void judge_right_drop(judge *j, mtask *t)
{
    if (t->right.kind == RIGHT_SLOT && !t->right.used && !t->right.any) {
        j->sim->stats[STAT_SLOTS_LOST]++;
        t->lost_us = t->right.slot_us;
        t->lost_gate = t->right.gate;
    } else if (t->right.any) { /* and may have had one, wherever */
        t->lost_us = INT64_MAX;
        t->lost_gate = t->right.gate;
    }
    t->right = (right_to_start){.kind = RIGHT_NONE};
}

/* Whether the store may think that this time is still to come: its clock may have stepped back since. */
static bool may_be_ahead(const judge *j, int64_t at_us)
{
    int64_t back_us = 0;
    for (int i = 0; i < j->sim->clock_steps; i++)
        if (j->steps[i] < 0) back_us -= j->steps[i];
    return at_us > j->clock_us - back_us;
}

/* It ends, or gets another body: its slot goes back if it is the gate's last; so may one that it had before and lost. */
void judge_right_end(judge *j, mtask *t)
{
    const right_to_start *r = &t->right;
    bool has = r->kind == RIGHT_SLOT && !r->used && !r->any;
    if (has) {
        t->lost_us = r->slot_us;
        t->lost_gate = r->gate;
    } else if (r->any) { /* and may have one, wherever */
        t->lost_us = INT64_MAX;
        t->lost_gate = r->gate;
    }
    if (may_be_ahead(j, t->lost_us)) {
        j->gates[t->lost_gate].low -= j->gates[t->lost_gate].period_us;
        j->sim->stats[STAT_SLOTS_BACK] += has;
        t->right.used = true;
    }
    judge_right_drop(j, t);
}

static void slot_taken(judge *j, mtask *t, const wire *w, const pawl_rate *r, int64_t slot_us, int64_t epoch)
{
    mgate *g = gate_of(j, t);
    int64_t real_us = slot_us - WALL_BASE - w->shift_us;
    judge_right_drop(j, t);
    see(j, g, r, w);
    told(j, g, r, w->at_us, real_us, true);
    t->right = (right_to_start){.kind = RIGHT_SLOT,
                                .gate = (int)(g - j->gates),
                                .told_us = slot_us,
                                .slot_us = real_us,
                                .until_us = real_us + late_us(r),
                                .epoch = epoch,
                                .era = era_of(g, w->clock_steps)};
    if (epoch >= 0 && g->epoch != epoch) g->epoch_us = j->sim->now;
    g->epoch = epoch;
    j->sim->stats[STAT_SLOTS]++;
    if (j->sim->now > j->sim->calm_at && ++t->missed > MISSED_MOST)
        broken(j->sim, "slots can be met", "%s had %d and did not start", trace_id(j->sim, t->id), MISSED_MOST);
}

/* A batch that also changes limits: who comes first is the store's to choose. */
static void stored_mixed(judge *j, mtask *t, const pawl_op *op)
{
    judge_right_drop(j, t);
    t->right = (right_to_start){.kind = op->out_fence > 0 ? RIGHT_FREE : RIGHT_SLOT,
                                .gate = (int)(gate_of(j, t) - j->gates),
                                .told_us = op->out_run_at_us,
                                .any = true};
    gate_of(j, t)->unknown = true;
    gate_of(j, t)->changes++;
}

/* Until its limit is put again. */
static void wait_paused(judge *j, mtask *t, int64_t slot_us)
{
    judge_right_drop(j, t);
    t->right = (right_to_start){.kind = RIGHT_SLOT, .gate = (int)(gate_of(j, t) - j->gates), .told_us = slot_us, .used = true};
}

/* An insert, an update, a retry. */
void judge_right_stored(judge *j, mtask *t, const pawl_op *op, const wire *w, bool due)
{
    sim *s = j->sim;
    const item *i = item_of(s, t);
    const mlimit *l = i->told ? NULL : limit_of(j, i->type, i->rate_key);
    int64_t now_us = WALL_BASE + w->at_us + w->shift_us;
    bool leased = op->kind == PAWL_OP_INSERT && op->out_fence > 0,
         anew = op->kind == PAWL_OP_INSERT && op->result != PAWL_OP_UPDATED;
    if (j->mixed && due && i->rate_key >= 0 && !i->told) {
        stored_mixed(j, t, op);
        return;
    }
    if (!l || !due) {
        judge_right_drop(j, t);
        if (leased && !(i->told && limit_of(j, i->type, i->rate_key))) t->right.kind = RIGHT_FREE;
        return;
    }
    if (judge_in_line(j, t)) {
        if (leased || op->out_run_at_us > now_us) broken(s, "who stands in a line takes no slot", "%s does", trace_id(s, t->id));
        judge_right_drop(j, t);
        return;
    }
    pawl_rate r = rate_of(l);
    see(j, gate_of(j, t), &r, w);
    if (l->paused) {
        if (leased || op->out_run_at_us - now_us < PAWL_DAY)
            broken(s, "a paused limit starts nothing", "%s does not wait", trace_id(s, t->id));
        wait_paused(j, t, op->out_run_at_us);
        return;
    }
    if (leased && op->out_until_us == INT64_MAX)
        broken(s, "starts need a slot", "%s is leased at birth without one", trace_id(s, t->id));
    if (leased || op->out_run_at_us > now_us) {
        int64_t lasts_us = op->out_until_us - op->out_run_at_us,
                ahead_us = leased && clamped_now(gate_of(j, t), w->at_us) ? STEP_US : 0;
        if (anew && (lasts_us < late_us(&r) || lasts_us > late_us(&r) + ahead_us))
            broken(s, "the contract", "%s: the right to start ends %lld us after its slot", trace_id(s, t->id),
                   (long long)lasts_us);
        slot_taken(j, t, w, &r, op->out_run_at_us, anew ? op->out_epoch : -1);
        if (!leased) s->stats[STAT_MOVED]++;
    } else {
        judge_right_drop(j, t);
    }
}

/* Before an update: does it keep the slot it has? */
bool judge_right_kept(judge *j, const mtask *t, const pawl_op *op, int number)
{
    const right_to_start *r = &t->right;
    const item *was = item_of(j->sim, t), *is = &j->sim->items[j->sim->asks[number].item];
    bool same = was->type == is->type && was->rate_key == is->rate_key && was->told == is->told;
    return t->state == PAWL_PENDING && r->kind == RIGHT_SLOT && same && op->out_run_at_us == r->told_us;
}

void judge_right_claimed(judge *j, mtask *t, const pawl_claimed *got, const wire *w)
{
    sim *s = j->sim;
    const item *i = item_of(s, t);
    bool raced = s->rows && j->limits_changed_us >= w->began_us;
    if (got->limited != limited(j, i->type) && !raced)
        broken(s, "starts need a slot", "%s is claimed as %s", trace_id(s, t->id), got->limited ? "limited" : "not limited");
    if (!got->limited || i->rate_key < 0) {
        judge_right_drop(j, t);
        t->right.kind = RIGHT_FREE;
        return;
    }
    if (got->until_us == 0) {
        judge_right_drop(j, t);
        return;
    }
    right_to_start *r = &t->right;
    if (r->any) {
        r->kind = RIGHT_FREE;
        return;
    }
    const mgate *g = &j->gates[r->gate];
    if (r->kind != RIGHT_SLOT || r->used || r->told_us != got->run_at_us)
        broken(s, "no slot serves twice", "%s is claimed with one that it does not have", trace_id(s, t->id));
    if (r->epoch >= 0 && g->epoch >= 0 && r->epoch != g->epoch && !(s->rows && g->epoch_us >= w->began_us))
        broken(s, "slots of an older epoch are void", "%s is claimed with one", trace_id(s, t->id));
    r->slot_us = got->run_at_us - WALL_BASE - w->shift_us; /* the clock may have stepped */
    r->until_us = got->until_us - WALL_BASE - w->shift_us;
    r->grace_us = 0;
}

static void check_beyond(judge *j, const mtask *t, const pawl_op *op, const pawl_rate *r, int64_t ahead_us)
{
    bool may = !op->u.reserve.again && ahead_us > 0 && (r->discard || (r->horizon_us >= 0 && ahead_us > r->horizon_us));
    if (!may)
        broken(j->sim, "refused is only what may be", "%s: its slot is %lld us away, the horizon %lld us, discard %d, again %d",
               trace_id(j->sim, t->id), (long long)ahead_us, (long long)r->horizon_us, r->discard, op->u.reserve.again);
}

static void reserve_mixed(judge *j, mtask *t, const pawl_op *op)
{
    if (op->result == PAWL_OP_BEYOND) t->beyond_fence = op->fence;
    if (op->result == PAWL_OP_MOVED) judge_move(j, t, PAWL_PENDING);
    if (op->result == PAWL_OP_MOVED) t->run_at_us = op->out_run_at_us;
    stored_mixed(j, t, op);
    if (op->result == PAWL_OP_DONE) t->right.kind = RIGHT_FREE;
}

static void reserve_free(judge *j, mtask *t, const pawl_op *op)
{
    if (op->result != PAWL_OP_DONE || op->out_until_us != INT64_MAX)
        broken(j->sim, "the contract", "%s has no limit and was answered %d", trace_id(j->sim, t->id), op->result);
    judge_right_drop(j, t);
    t->right.kind = RIGHT_FREE;
}

static void reserve_paused(judge *j, mtask *t, const pawl_op *op)
{
    if (op->result != PAWL_OP_MOVED)
        broken(j->sim, "a paused limit starts nothing", "%s was answered %d", trace_id(j->sim, t->id), op->result);
    wait_paused(j, t, op->out_run_at_us);
    judge_move(j, t, PAWL_PENDING);
    t->run_at_us = op->out_run_at_us;
}

/* Near, it keeps its lease; far, it has lost it. */
static void reserve_slot(judge *j, mtask *t, const pawl_op *op, const wire *w, const pawl_rate *r)
{
    sim *s = j->sim;
    int64_t slot_us = op->out_run_at_us, now_us = WALL_BASE + w->at_us + w->shift_us;
    bool far = slot_us - now_us > op->u.reserve.near_us && slot_us > now_us;
    bool stepped = s->clock_steps > 0; /* its now may be some milliseconds later */
    if ((op->result == PAWL_OP_MOVED) != far && !stepped)
        broken(s, "near ones wait at their node", "%s: a slot in %lld us was answered %d", trace_id(s, t->id),
               (long long)(slot_us - now_us), op->result);
    slot_taken(j, t, w, r, slot_us, op->out_epoch);
    s->stats[op->result == PAWL_OP_MOVED ? STAT_MOVED : STAT_NEAR] += slot_us > now_us;
    if (op->result != PAWL_OP_MOVED) return;
    judge_move(j, t, PAWL_PENDING);
    t->run_at_us = slot_us;
}

static void reserve_limited(judge *j, mtask *t, const pawl_op *op, const wire *w, const mlimit *l)
{
    sim *s = j->sim;
    pawl_rate r = rate_of(l);
    int64_t ahead_us = op->out_run_at_us - WALL_BASE - w->at_us - w->shift_us;
    see(j, gate_of(j, t), &r, w);
    if (l->paused) {
        reserve_paused(j, t, op);
        return;
    }
    if (op->out_until_us != op->out_run_at_us + late_us(&r))
        broken(s, "the contract", "%s: the right to start ends %lld us after its slot", trace_id(s, t->id),
               (long long)(op->out_until_us - op->out_run_at_us));
    if (op->result != PAWL_OP_BEYOND) {
        reserve_slot(j, t, op, w, &r);
        return;
    }
    told(j, gate_of(j, t), &r, w->at_us, op->out_run_at_us - WALL_BASE - w->shift_us, false);
    check_beyond(j, t, op, &r, ahead_us);
    if (t->right.kind == RIGHT_SLOT && !t->right.used && !t->right.any)
        broken(s, "refused is only what may be", "%s had a slot under this lease", trace_id(s, t->id));
    judge_right_drop(j, t);
    t->beyond_fence = op->fence;
}

void judge_reserved(judge *j, mtask *t, pawl_op *op, const wire *w)
{
    sim *s = j->sim;
    const item *i = item_of(s, t);
    const mlimit *l = limit_of(j, i->type, i->rate_key);
    pawl_bytes key = op->u.reserve.key;
    if ((op->result == PAWL_OP_CANCELLING) != t->cancel_asked)
        broken(s, "the contract", "%s: a reservation was answered %d while its cancel was%s asked", trace_id(s, t->id),
               op->result, t->cancel_asked ? "" : " not");
    if (op->result == PAWL_OP_CANCELLING) return;
    if (i->told && (key.len != 2 || memcmp(key.data, rate_key_names[i->rate_key], 2)))
        broken(s, "every task under its own key", "%s asks for a slot of another one", trace_id(s, t->id));
    if (j->mixed) reserve_mixed(j, t, op);
    else if (!l || (l->rate.retries_free && t->failures > 0)) reserve_free(j, t, op);
    else reserve_limited(j, t, op, w, l);
}

/* Its holder hears of its slot. If the answer took long, the right to start lasts longer. */
void judge_right_told(judge *j, pawl_id id, int64_t fence, const wire *w)
{
    mtask *t = judge_task(j, id);
    if (!t || t->fence != fence || t->right.kind != RIGHT_SLOT || t->right.any) return;
    int64_t missing = 3 * (j->sim->now - w->sent_us) + HASTE_US - (t->right.until_us - t->right.slot_us);
    t->right.grace_us = most(0, least(missing, GRACE_MOST_US));
}

/* It goes back to the store, with its slot or without. */
void judge_right_released(judge *j, mtask *t, const pawl_op *op)
{
    sim *s = j->sim;
    const right_to_start *r = &t->right;
    if (!op->u.release.slot_us || t->cancel_asked) {
        judge_right_drop(j, t);
        return;
    }
    if (r->any) t->right.kind = RIGHT_SLOT;
    if (!r->any && (r->kind != RIGHT_SLOT || r->used || r->told_us != op->u.release.slot_us))
        broken(s, "no slot serves twice", "%s goes back with one that it does not have", trace_id(s, t->id));
}

pawl_id judge_waiting_task(sim *s)
{
    int count = 0;
    pawl_id found = 0;
    list_each(node, &s->judge->tasks) {
        const mtask *t = container_of(node, mtask, link);
        bool waits = !pawl_state_terminal(t->state) && t->right.kind == RIGHT_SLOT && !t->right.used;
        if (waits && between(s, 0, count++) == 0) found = t->id;
    }
    return found;
}

/* ---- starts ---------------------------------------------------------------------------------------------------------------- */

/* No window that ends now has too many. */
static void check_window(judge *j, mstarts *all, const pawl_rate *r, int era, int64_t late, const mtask *t)
{
    sim *s = j->sim;
    int has = 1;
    const mstart newest = {s->now, late, era};
    for (int n = 1; n < STARTS && n <= all->count; n++) {
        const mstart *first = &all->starts[(all->count - n) % STARTS];
        if (first->era != era) continue;
        late = most(late, first->late_us);
        int64_t window_us = s->now - first->at_us, may = r->burst + (window_us + late) * r->permits / r->period_us;
        if (++has > may)
            broken(s, "no window has more starts than it may", "%s is the %d. start within %lld us, %lld may be",
                   trace_id(s, t->id), has, (long long)window_us, (long long)may);
    }
    all->starts[all->count++ % STARTS] = newest;
}

/* A limiter that finds no memory for a key lets its tasks go, and counts them: what went before says nothing then. */
static void start_local(sim_node *n, const mtask *t, const item *i)
{
    judge *j = n->sim->judge;
    pawl_rate r = rate_of(&(mlimit){.rate = n->local[i->type]});
    core_numbers numbers;
    core_numbers_get(n->core, (core_time){0}, &numbers);
    bool new_life = j->local_life[n->index] != n->life, opened = numbers.opened != (new_life ? 0 : j->local_opened[n->index]);
    if (new_life || opened) memset(j->local[n->index], 0, sizeof j->local[n->index]);
    j->local_life[n->index] = n->life;
    j->local_opened[n->index] = numbers.opened;
    if (r.retries_free && t->failures > 0) return;
    n->sim->stats[STAT_LIMITED_LOCAL]++;
    if (!opened) check_window(j, &j->local[n->index][i->type * RATE_KEYS + i->rate_key], &r, 0, late_us(&r), t);
}

void judge_right_used(sim_node *n, mtask *t, const core_task *task)
{
    sim *s = n->sim;
    judge *j = s->judge;
    const item *i = item_of(s, t);
    right_to_start *r = &t->right;
    if (!s->plan.limits || i->rate_key < 0) return;
    if (task->throttle == THROTTLE_LOCAL) start_local(n, t, i);
    if (r->kind == RIGHT_FREE) {
        if (task->throttle == THROTTLE_NONE && n->local[i->type].permits > 0)
            broken(s, "starts need a slot", "%s starts and its node's limit was not asked", trace_id(s, t->id));
        return;
    }
    if (r->kind == RIGHT_NONE) broken(s, "starts need a slot", "%s starts without one", trace_id(s, t->id));
    if (r->used) broken(s, "no slot serves twice", "%s starts with one that was used", trace_id(s, t->id));
    if (s->now < r->slot_us)
        broken(s, "slots have their time", "%s starts %lld us before its slot", trace_id(s, t->id),
               (long long)(r->slot_us - s->now));
    if (s->now >= r->until_us + r->grace_us)
        broken(s, "slots have their time", "%s starts %lld us after its slot ended", trace_id(s, t->id),
               (long long)(s->now - r->until_us - r->grace_us));
    mgate *g = &j->gates[r->gate];
    const mlimit *l = limit_of(j, i->type, i->rate_key);
    r->used = true;
    t->missed = 0;
    s->stats[STAT_SLOTS_USED]++;
    if (!l || r->era != era_of(g, s->clock_steps)) return;
    pawl_rate rate = rate_of(l);
    check_window(j, &g->starts, &rate, r->era, late_us(&rate) + r->grace_us, t);
}

/* A task that never ran is settled: it was refused. */
void judge_refused_run(sim_node *n, const core_task *task, core_settled how)
{
    sim *s = n->sim;
    mtask *t = judge_task(s->judge, task->body->id);
    const item *i = item_of(s, t);
    const pawl_rate *local = &n->local[i->type];
    bool by_node = task->throttle == THROTTLE_LOCAL && (local->discard || local->horizon_us >= 0);
    NOTE(s, n, "%t fence %d was refused", t->id, task->fence);
    s->stats[STAT_REFUSED]++;
    if (how != CORE_SETTLED_LOST && !by_node && t->beyond_fence != task->fence)
        broken(s, "refused is only what may be", "%s is refused and the store did not say so", trace_id(s, t->id));
}

/* The outcome of a task that never ran. */
void judge_unstarted(judge *j, mtask *t, const pawl_op *op)
{
    sim *s = j->sim;
    bool rate = op->u.finish.reason && strcmp(op->u.finish.reason, "rate_limited") == 0;
    if (op->u.finish.to == PAWL_FAILED && !rate)
        broken(s, "outcomes come from runs", "%s failed and never ran", trace_id(s, t->id));
    if (rate && t->beyond_fence != op->fence && !s->plan.local)
        broken(s, "refused is only what may be", "%s ends as refused, and nobody said so", trace_id(s, t->id));
    judge_right_end(j, t);
}
