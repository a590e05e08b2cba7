#include "store/budget.h"
#include "base/canary.h"
#include <stdio.h>
#include <string.h>

#define STEP_US (10 * PAWL_MILLISECOND) /* a clock that steps back by less is waited for */
#define IDLE_US PAWL_HOUR

bool budget_limit_make(const pawl_rate *rate, bool paused, budget_limit *out)
{
    pawl_error err;
    *out = (budget_limit){.period_us = rate->period_us, .paused = paused};
    return rate_make(rate, "", &out->r, &err) == PAWL_OK;
}

int limit_flags(const pawl_rate *r, bool paused)
{
    return (r->start_empty ? LIMIT_START_EMPTY : 0) | (r->retries_free ? LIMIT_RETRIES_FREE : 0) |
           (r->discard ? LIMIT_DISCARD : 0) | (paused ? LIMIT_PAUSED : 0);
}

void limit_flags_read(int64_t flags, pawl_rate *rate, bool *paused)
{
    rate->start_empty = flags & LIMIT_START_EMPTY;
    rate->retries_free = flags & LIMIT_RETRIES_FREE;
    rate->discard = flags & LIMIT_DISCARD;
    *paused = flags & LIMIT_PAUSED;
}

static bool same_rate(const pawl_rate *a, const pawl_rate *b)
{
    return a->permits == b->permits && a->period_us == b->period_us && a->burst == b->burst && a->start_empty == b->start_empty &&
           a->retries_free == b->retries_free && a->discard == b->discard && a->horizon_us == b->horizon_us;
}

pawl_op_result limit_change(const pawl_op *op, bool had, pawl_rate *rate, bool *paused)
{
    const pawl_rate was = *rate;
    const bool was_paused = *paused;
    if (op->u.limit.only_move) return PAWL_OP_EXISTING;
    if (!had || !op->u.limit.keep_rate) *rate = op->u.limit.rate;
    if (!had || !(op->u.limit.keep_paused || op->u.limit.initial)) *paused = op->u.limit.paused;
    if (!had) return rate->permits > 0 || *paused ? PAWL_OP_DONE : PAWL_OP_NOT_FOUND;
    if (!same_rate(&was, rate) || was_paused != *paused) return PAWL_OP_UPDATED;
    bool drops = op->u.limit.rate.permits == 0 && op->u.limit.keep_paused; /* what is only paused has no rate */
    return drops && !op->u.limit.keep_rate ? PAWL_OP_NOT_FOUND : PAWL_OP_EXISTING;
}

static bool counted_by(const budget_row *g, const budget_limit *l)
{
    return g->permits == l->r.permits && g->burst == l->r.burst && g->period_us == l->period_us;
}

/* As many starts count as spent as before; slots that lay ahead are void by the new epoch. */
static void convert(budget_row *g, const budget_limit *l, int64_t now_us)
{
    budget_limit old;
    pawl_rate was = {.permits = g->permits, .burst = g->burst, .period_us = g->period_us};
    bool known = g->permits > 0 && budget_limit_make(&was, false, &old);
    g->tat = known ? rate_convert(&old.r, &l->r, g->tat, now_us) : rate_fresh(&l->r, now_us);
    g->permits = l->r.permits;
    g->burst = l->r.burst;
    g->period_us = l->period_us;
    g->last_id = 0;
    g->epoch++;
}

void budget_see(budget_row *g, const budget_limit *l, int64_t *now_us)
{
    *now_us = rate_clock(*now_us);
    if (g->permits > 0 && *now_us < g->seen_us && !CANARY(GATE_CLOCK)) {
        if (g->seen_us - *now_us <= STEP_US) {
            *now_us = g->seen_us;
        } else {
            g->tat.us -= g->seen_us - *now_us;
            g->last_id = 0;
            g->epoch++;
        }
    }
    if (!counted_by(g, l)) convert(g, l, *now_us);
    g->seen_us = *now_us;
}

budget_answer budget_take(budget_row *g, const budget_limit *l, int64_t now_us, const budget_ask *ask, budget_slot *out)
{
    budget_see(g, l, &now_us);
    int64_t slot = rate_slot(&l->r, g->tat, now_us);
    *out = (budget_slot){.slot_us = slot, .until_us = slot + l->r.late_us, .epoch = g->epoch};
    if (l->paused) {
        out->slot_us = now_us + BUDGET_NEVER_US;
        out->until_us = out->slot_us + l->r.late_us;
        return BUDGET_LATER;
    }
    bool ahead = slot > now_us, far = l->r.horizon_us >= 0 && slot - now_us > l->r.horizon_us;
    if (!ask->again && ahead && (l->r.discard || far)) return BUDGET_BEYOND;
    if (!ahead && ask->ahead_only) return BUDGET_NOW;
    rate_instant tat = g->tat;
    if (!rate_take(&l->r, &tat, now_us, 1)) return BUDGET_BEYOND;
    if (!CANARY(RESERVE_FREE)) g->tat = tat;
    g->last_id = ahead ? ask->id : 0;
    g->last_slot_us = slot;
    return ahead ? BUDGET_LATER : BUDGET_NOW;
}

bool budget_give_back(budget_row *g, const budget_limit *l, int64_t now_us, pawl_id id, int64_t slot_us)
{
    if (l->paused || g->permits == 0 || !counted_by(g, l)) return false;
    if (now_us < g->seen_us) return false; /* it stepped back: what lies ahead may have been used */
    if (slot_us == 0 && g->last_id == id) slot_us = g->last_slot_us;
    if (slot_us <= now_us) return false;
    rate_instant before = g->tat;
    rate_give_back(&l->r, &before, 1);
    if (rate_slot(&l->r, before, now_us) != slot_us) return false;
    g->tat = before;
    g->last_id = 0;
    return true;
}

void budget_settle(budget_row *g, int64_t now_us)
{
    budget_limit l;
    pawl_rate by = {.permits = g->permits, .burst = g->burst, .period_us = g->period_us};
    int64_t ahead = 1;
    g->last_id = g->last_slot_us = 0;
    g->epoch++;
    if (!budget_limit_make(&by, false, &l)) {
        *g = (budget_row){.epoch = g->epoch};
        return;
    }
    now_us = rate_clock(now_us);
    while (ahead > 0) { /* how many steps, at least; no more at once than the arithmetic takes */
        ahead = (rate_slot(&l.r, g->tat, now_us) - now_us - 1) / (l.r.step.us + 1);
        if (ahead > 0) rate_give_back(&l.r, &g->tat, ahead < l.r.burst ? (int)ahead : l.r.burst);
    }
}

budget_row budget_arrives(const pawl_past_budget *past, int64_t now_us)
{
    budget_row row = {.tat = {past->tat_us, past->tat_part},
                      .permits = past->permits,
                      .burst = past->burst,
                      .period_us = past->period_us,
                      .seen_us = past->seen_us,
                      .epoch = past->epoch};
    budget_settle(&row, now_us);
    return row;
}

bool budget_spent(const budget_row *g, const budget_limit *l, int64_t now_us)
{
    budget_row seen = g ? *g : (budget_row){0};
    if (l->paused) return true;
    budget_see(&seen, l, &now_us);
    return rate_slot(&l->r, seen.tat, now_us) - now_us > BUDGET_NEAR_US;
}

bool budget_idle(const budget_row *g, int64_t now_us) { return g->tat.us < now_us - IDLE_US && g->seen_us < now_us - IDLE_US; }

/* ---- looking --------------------------------------------------------------------------------------------------------------- */

void budget_tell(const budget_row *g, const budget_limit *l, int64_t now_us, pawl_limit_info *info)
{
    budget_row row = g ? *g : (budget_row){0};
    budget_see(&row, l, &now_us);
    info->left = l->paused ? 0 : rate_left(&l->r, row.tat, now_us);
    info->next_slot_us = l->paused ? now_us + BUDGET_NEVER_US : rate_slot(&l->r, row.tat, now_us);
}

int budget_order(const char *type, pawl_bytes key, const char *other_type, pawl_bytes other_key)
{
    int by_type = strcmp(type, other_type);
    size_t least = key.len < other_key.len ? key.len : other_key.len;
    int by_key = by_type || least == 0 ? by_type : memcmp(key.data, other_key.data, least);
    return by_key ? by_key : (key.len > other_key.len) - (key.len < other_key.len);
}

/* "<key in hex>.<type>" */
const char *budget_cursor(pawl_arena *arena, const char *type, pawl_bytes key)
{
    char *text = pawl_arena_alloc(arena, 2 * key.len + strlen(type) + 2), *at = text;
    if (!text) return NULL;
    for (size_t i = 0; i < key.len; i++) at += sprintf(at, "%02x", (unsigned char)key.data[i]);
    sprintf(at, ".%s", type);
    return text;
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool budget_cursor_read(pawl_arena *arena, const char *cursor, const char **type, pawl_bytes *key)
{
    size_t n = strcspn(cursor, ".");
    char *bytes = n % 2 == 0 && cursor[n] ? pawl_arena_alloc(arena, n / 2 + 1) : NULL;
    for (size_t i = 0; bytes && i < n / 2; i++) {
        int high = digit(cursor[2 * i]), low = digit(cursor[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        bytes[i] = (char)(high * 16 + low);
    }
    *type = cursor + n + 1;
    *key = (pawl_bytes){bytes, n / 2};
    return bytes;
}
