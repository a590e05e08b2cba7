/* Rate limits while running: changing, pausing and showing those in the store. */
#include "base/text.h"
#include "core/limit.h"
#include "runtime/runtime.h"
#include <string.h>

#define MOVE 2000 /* tasks that ask anew in one commit */
#define PAGE 100
#define PAGE_MOST 1000

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not take the call: out of memory"); }

pawl_status limits_kept(const runtime *rt, pawl_error *err)
{
    if (rt->store->type->limits) return PAWL_OK;
    return err_set(err, PAWL_UNSUPPORTED,
                   "the store %s cannot keep rate limits yet: use limits of the scope PAWL_RATE_LOCAL, or another store",
                   rt->url);
}

static pawl_status check_scope(const runtime *rt, const char *type, pawl_bytes key, pawl_error *err)
{
    pawl_status status = limits_kept(rt, err);
    if (!status) status = valid_name(type, "type", err);
    if (!status && strcmp(type, "*") == 0) status = err_set(err, PAWL_INVALID, "\"*\" is no type: name the one to be limited");
    return status ? status : valid_rate_key(key, err);
}

pawl_status limits_check(const pawl_rate *r, const char *type, pawl_error *err)
{
    rate made;
    return rate_make(r, type, &made, err);
}

/* ---- changing ------------------------------------------------------------------------------------------------------------ */

static void read_more(ticket *t, const core_request *r)
{
    if (r->status) return;
    t->done_count = r->ops[0].u.limit.more;
    t->result = r->ops[0].result;
    if (t->result == PAWL_OP_CLOSED) t->status = PAWL_MOVED;
}

typedef struct change {
    const char *type, *by;
    pawl_bytes key;
    pawl_rate rate;
    bool pauses, paused; /* only that changes; else the rate does */
} change;

static pawl_status none_there(const change *c, pawl_error *err)
{
    const char *whose = c->key.len ? "this rate key of " : "", *own = c->key.len ? " of its own" : "";
    if (c->pauses)
        return err_set(err, PAWL_NOT_FOUND, "%stype '%s' is not paused and has no rate limit%s: there is nothing to resume",
                       whose, c->type, own);
    return err_set(err, PAWL_NOT_FOUND, "%stype '%s' has no rate limit%s: there is nothing to take away", whose, c->type, own);
}

/* `rest`: nothing is put, only more tasks are moved. */
static pawl_status put_once(runtime *rt, const change *c, bool rest, bool *more, pawl_error *err)
{
    ticket *t;
    pawl_status status = ops_single(rt, PAWL_OP_LIMIT, 0, c->by, &t, err);
    if (status) return status;
    pawl_op *op = &t->request->ops[0];
    const char *key = "";
    op->u.limit.rate = c->rate;
    op->u.limit.paused = c->paused;
    op->u.limit.keep_rate = c->pauses;
    op->u.limit.keep_paused = !c->pauses;
    op->u.limit.move = MOVE;
    op->u.limit.only_move = rest;
    t->read = read_more;
    bool kept = ticket_keep(t, c->type, &op->u.limit.type) && ticket_keep_bytes(t, c->key, &key);
    op->u.limit.key = (pawl_bytes){key, c->key.len};
    status = kept ? ticket_run(t, err) : no_memory(err);
    *more = t->done_count > 0;
    if (!status && t->result == PAWL_OP_NOT_FOUND) status = none_there(c, err);
    ticket_free(t);
    return status;
}

/* Where there is nothing to take away, tasks that somebody's change left behind are moved all the same. */
static pawl_status put(runtime *rt, const change *c, pawl_error *err)
{
    bool more = false;
    pawl_status status = put_once(rt, c, false, &more, err), moved = PAWL_OK;
    while (!moved && more) moved = put_once(rt, c, true, &more, err);
    return moved ? moved : status;
}

pawl_status limits_set(runtime *rt, const char *type, pawl_bytes key, const pawl_rate *r, const char *by, pawl_error *err)
{
    pawl_status status = check_scope(rt, type, key, err);
    if (!status && r->permits != 0) status = limits_check(r, type, err);
    return status ? status : put(rt, &(change){.type = type, .key = key, .rate = *r, .by = by}, err);
}

pawl_status limits_pause(runtime *rt, const char *type, pawl_bytes key, bool pause, const char *by, pawl_error *err)
{
    pawl_status status = check_scope(rt, type, key, err);
    return status ? status : put(rt, &(change){.type = type, .key = key, .pauses = true, .paused = pause, .by = by}, err);
}

/* ---- schedules ----------------------------------------------------------------------------------------------------------- */

#define AHEAD 8 /* occurrences that are looked at */

/* The limit of the key; none: of the type, which stands before those of its keys. */
static void stored_rate(runtime *rt, const char *type, pawl_bytes key, pawl_rate *out)
{
    pawl_limits *l;
    if (!rt->store->type->limits || limits_get(rt, &(pawl_limit_filter){.type = type, .key = key, .limit = 1}, &l, NULL)) return;
    const pawl_limit_info *at = l->count ? &l->limits[0] : NULL;
    if (at && at->rate.permits > 0 && !at->node && (at->key.len > 0) == (key.len > 0)) *out = at->rate;
    pawl_limits_free(l);
}

static pawl_rate rate_of(runtime *rt, const char *type, pawl_bytes key)
{
    pawl_rate r = config_rate_of(rt, type);
    stored_rate(rt, type, (pawl_bytes){0}, &r);
    stored_rate(rt, type, key, &r);
    return r;
}

void limits_check_pace(runtime *rt, const pawl_schedule *s)
{
    int64_t times_us[AHEAD];
    size_t count;
    char often[DURATION_TEXT], apart[DURATION_TEXT];
    pawl_bytes key =
        config_rate_key(rt, &(pawl_task){.type = s->type, .payload = s->payload, .tenant = s->tenant, .rate_key = s->rate_key});
    if (key.len == 0 || s->after || schedules_preview(rt, s, 0, times_us, AHEAD, &count, NULL) || count < 2) return;
    pawl_rate r = rate_of(rt, s->type, key);
    int64_t every_us = (times_us[count - 1] - times_us[0]) / (int64_t)(count - 1);
    if (r.permits == 0 || every_us >= r.period_us / r.permits) return;
    duration_format(every_us, often, sizeof often);
    duration_format(r.period_us / r.permits, apart, sizeof apart);
    log_line(
        &rt->log, PAWL_WARN,
        "schedule '%s' falls due every %s, but its rate key lets a task of type '%s' start only every %s: others will wait or be skipped",
        s->name, often, s->type, apart);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

pawl_status limits_get(runtime *rt, const pawl_limit_filter *filter, pawl_limits **out, pawl_error *err)
{
    char room[LIMIT_KEY_ROOM];
    pawl_limit_filter f = filter ? *filter : (pawl_limit_filter){0};
    pawl_status status = valid_optional(f.type, "type", err);
    if (!status) status = valid_rate_key(f.key, err);
    if (!status && (f.limit < 0 || f.limit > PAGE_MOST))
        status = err_set(err, PAWL_INVALID, "%d limits are too many for a page: 1 to %d, or 0 for %d", f.limit, PAGE_MOST, PAGE);
    if (status) return status;
    if (f.limit == 0) f.limit = PAGE;
    f.key = limit_key(f.key, room);
    return look_limits(rt, &f, out, err);
}
