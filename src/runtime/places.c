/* Concurrency limits while running: changing and showing those in the store. */
#include "core/limit.h"
#include "core/place.h"
#include "runtime/runtime.h"
#include <string.h>

#define MOVE 2000 /* tasks that are unblocked in one commit */
#define PAGE 100
#define PAGE_MOST 1000

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not take the call: out of memory"); }

pawl_status places_valid(const char *what, int64_t most, pawl_error *err)
{
    if (most >= 0 && most <= PLACE_MOST) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "%s %lld is out of range: 1 to %d, or 0 for no limit", what, (long long)most, PLACE_MOST);
}

pawl_status places_kept(const runtime *rt, pawl_error *err)
{
    if (rt->store->type->places) return PAWL_OK;
    return err_set(
        err, PAWL_UNSUPPORTED,
        "the store %s cannot keep concurrency limits nor let tenants take turns yet: limit the workers of each node, or use "
        "another store",
        rt->url);
}

static pawl_status check_name(pawl_scope scope, const char *name, pawl_error *err)
{
    bool queue = scope == PAWL_SCOPE_QUEUE || scope == PAWL_SCOPE_TENANTS;
    if (scope < PAWL_SCOPE_QUEUE || scope > PAWL_SCOPE_TENANTS)
        return err_set(err, PAWL_INVALID, "%d is none of pawl_scope", (int)scope);
    pawl_status status = valid_name(name, queue ? "queue" : "type", err);
    if (!status && !queue && strcmp(name, "*") == 0)
        status = err_set(err, PAWL_INVALID, "\"*\" is no type: name the one to be limited");
    return status;
}

static pawl_status check_key(pawl_scope scope, pawl_bytes key, pawl_error *err)
{
    if (scope == PAWL_SCOPE_KEYS) return valid_rate_key(key, err);
    if (key.len == 0) return PAWL_OK;
    if (scope != PAWL_SCOPE_TENANTS) return err_set(err, PAWL_INVALID, "a limit of a queue or a type as a whole has no key");
    char tenant[256] = "";
    if (key.len < sizeof tenant) memcpy(tenant, key.data, key.len);
    return valid_name(tenant, "tenant", err);
}

/* ---- changing ------------------------------------------------------------------------------------------------------------ */

static void read_more(ticket *t, const core_request *r)
{
    if (r->status) return;
    t->done_count = r->ops[0].u.bound.more;
    t->result = r->ops[0].result;
    if (t->result == PAWL_OP_CLOSED) t->status = PAWL_MOVED;
}

static pawl_status none_there(const pawl_op *op, pawl_error *err)
{
    static const char *const texts[][2] = {{"queue", "has no concurrency limit"},
                                           {"type", "has no concurrency limit"},
                                           {"type", "has no concurrency limit of each rate key"},
                                           {"queue", "has no tenants that take turns"},
                                           {"this rate key of type", "has no concurrency limit of its own"},
                                           {"this tenant of queue", "has no weight"}};
    const char *const *text = texts[(int)op->u.bound.scope - 1 + (op->u.bound.key.len ? 2 : 0)];
    return err_set(err, PAWL_NOT_FOUND, "%s '%s' %s: there is nothing to take away", text[0], op->u.bound.name, text[1]);
}

static pawl_status put_once(runtime *rt, pawl_op *like, const char *by, bool *more, pawl_error *err)
{
    ticket *t;
    pawl_status status = ops_single(rt, PAWL_OP_BOUND, 0, by, &t, err);
    if (status) return status;
    pawl_op *op = &t->request->ops[0];
    const char *key = "";
    op->u.bound = like->u.bound;
    t->read = read_more;
    bool kept = ticket_keep(t, like->u.bound.name, &op->u.bound.name) && ticket_keep_bytes(t, like->u.bound.key, &key);
    op->u.bound.key = (pawl_bytes){key, like->u.bound.key.len};
    status = kept ? ticket_run(t, err) : no_memory(err);
    *more = t->done_count > 0;
    if (!status && t->result == PAWL_OP_NOT_FOUND) status = none_there(like, err);
    ticket_free(t);
    return status;
}

pawl_status places_set(runtime *rt, pawl_scope scope, const char *name, pawl_bytes key, int most, bool ordered, const char *by,
                       pawl_error *err)
{
    pawl_status status = places_kept(rt, err);
    if (!status) status = check_name(scope, name, err);
    if (!status) status = check_key(scope, key, err);
    if (!status) status = places_valid(scope == PAWL_SCOPE_TENANTS ? "the weight" : "the limit", most, err);
    if (!status && ordered && (scope != PAWL_SCOPE_KEYS || most != 1))
        status = err_set(err, PAWL_INVALID, "only a limit of one task at a time per rate key can be ordered");
    pawl_op op = {.kind = PAWL_OP_BOUND};
    op.u.bound.scope = scope;
    op.u.bound.name = name;
    op.u.bound.key = key;
    op.u.bound.most = most;
    op.u.bound.ordered = ordered;
    op.u.bound.move = MOVE;
    bool more = false;
    if (!status) status = put_once(rt, &op, by, &more, err);
    op.u.bound.only_move = true; /* what is there by now, whoever put it */
    pawl_status moved = PAWL_OK;
    while (!moved && more) moved = put_once(rt, &op, by, &more, err);
    return moved ? moved : status;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

pawl_status places_get(runtime *rt, const pawl_place_filter *filter, pawl_places **out, pawl_error *err)
{
    char room[LIMIT_KEY_ROOM];
    pawl_place_filter f = filter ? *filter : (pawl_place_filter){0};
    pawl_status status = places_kept(rt, err);
    if (!status) status = valid_optional(f.name, "name", err);
    if (!status) status = valid_rate_key(f.key, err);
    if (!status && (f.limit < 0 || f.limit > PAGE_MOST))
        status = err_set(err, PAWL_INVALID, "%d limits are too many for a page: 1 to %d, or 0 for %d", f.limit, PAGE_MOST, PAGE);
    if (status) return status;
    if (f.limit == 0) f.limit = PAGE;
    f.key = limit_key(f.key, room);
    return look_places(rt, &f, out, err);
}
