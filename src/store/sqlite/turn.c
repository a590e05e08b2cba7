/* Queues whose tenants take turns, and looking at concurrency limits.
 *
 * Tasks of such a queue are stored with their tenant and stand in an index of their own (pawl_shared). Once a queue has a row in
 * pawl_turn its claims look there, too, so that nothing is left behind when it is switched on or off.
 */
#include "base/alloc.h"
#include "store/budget.h"
#include "store/sqlite/place.h"
#include "store/sqlite/quota.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pawl_bytes tenant_key(int64_t tenant_id, char room[24])
{
    int n = snprintf(room, 24, "%lld", (long long)tenant_id);
    return (pawl_bytes){room, (size_t)n};
}

bool turns_on(tx *t, int64_t queue_id)
{
    bool ordered;
    return bound_most(t->c, PAWL_SCOPE_TENANTS, queue_id, (pawl_bytes){"", 0}, &ordered) > 0;
}

int64_t turn_tenant(tx *t, const task_row *row)
{
    if (!places_turns(t, row->queue_id, row->type_id)) return -1;
    query q = query_on(t->c, SQL_body_tenant);
    put_int(&q, row->id);
    int64_t tenant_id = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return tenant_id;
}

bool turn_get(tx *t, int64_t queue_id, turn *out)
{
    query q = query_on(t->c, SQL_turn_get);
    put_int(&q, queue_id);
    bool found = query_row(&q);
    if (found) {
        out->tenant_id = get_int(&q);
        out->rest = (int)get_int(&q);
    }
    query_end(&q);
    return found;
}

void turn_put(tx *t, int64_t queue_id, const turn *at)
{
    query q = query_on(t->c, SQL_turn_put);
    put_int(&q, queue_id);
    put_int(&q, at->tenant_id);
    put_int(&q, at->rest);
    query_run(&q);
}

int turn_weight(tx *t, int64_t queue_id, int64_t tenant_id)
{
    char room[24];
    bool ordered;
    int weight = bound_most(t->c, PAWL_SCOPE_TENANTS, queue_id, tenant_key(tenant_id, room), &ordered);
    return weight > 0 ? weight : 1;
}

void turns_bound(tx *t, pawl_op *op)
{
    char room[24], name[256] = "";
    int64_t queue_id = name_id(t->c, op->u.bound.name);
    pawl_bytes key = op->u.bound.key;
    if (key.len > 0 && key.len < sizeof name) {
        memcpy(name, key.data, key.len);
        key = tenant_key(name_id(t->c, name), room);
    }
    op->u.bound.ordered = false;
    op->u.bound.more = false;
    if (key.len == 0 && op->u.bound.most > 1) op->u.bound.most = 1;
    bool changed = bound_write(t, op, queue_id, key);
    turn at = {0};
    if (key.len > 0 || !turns_on(t, queue_id)) return;
    if (changed && !turn_get(t, queue_id, &at)) turn_put(t, queue_id, &at);
    if (op->u.bound.move <= 0) return;
    query q = query_on(t->c, SQL_turn_tag); /* tasks that were there before */
    put_int(&q, queue_id);
    put_int(&q, op->u.bound.move);
    query_run(&q);
    op->u.bound.more = sqlite3_changes(t->c->db) >= op->u.bound.move;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

static int64_t ask(conn *c, sql_name which, int64_t id)
{
    query q = query_on(c, which);
    put_int(&q, id);
    int64_t value = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return value;
}

static void describe(reading *r, pawl_place_info *info, int64_t name_id, int64_t spot_id)
{
    bool ordered = false;
    info->most = bound_most(r->c, info->scope, name_id, info->key, &ordered);
    info->own = info->most > 0;
    if (!info->most && info->key.len) info->most = bound_most(r->c, info->scope, name_id, (pawl_bytes){"", 0}, &ordered);
    info->ordered = ordered && info->most > 0;
    if (!spot_id) return;
    info->taken = ask(r->c, SQL_place_count, spot_id);
    info->blocked = ask(r->c, SQL_blocked_count, spot_id);
    info->holder = info->taken ? ask(r->c, SQL_place_oldest, spot_id) : 0;
}

/* A tenant's number, as stored, becomes its name. */
static void name_tenant(reading *r, pawl_place_info *info)
{
    const char *name = info->key.len ? name_text(r->c, strtoll(info->key.data, NULL, 10)) : NULL;
    if (name) info->key = pawl_str(read_text(r, name));
}

static bool asked_for(const pawl_place_filter *f, const pawl_place_info *i)
{
    if ((f->scope && f->scope != i->scope) || (f->name && strcmp(f->name, i->name) != 0) || (f->blocked && i->blocked == 0))
        return false;
    return f->key.len == 0 || (f->key.len == i->key.len && memcmp(f->key.data, i->key.data, f->key.len) == 0);
}

static const char *cursor_of(reading *r, const pawl_place_info *last, pawl_bytes stored_key)
{
    char name[256];
    snprintf(name, sizeof name, "%d%s", (int)last->scope, last->name);
    return budget_cursor(r->arena, name, stored_key);
}

bool places_read(reading *r, pawl_query *query_)
{
    const pawl_place_filter *f = query_->place_filter;
    const char *after = "0";
    pawl_bytes after_key = {"", 0}, last_key = {"", 0};
    if (f->cursor && !budget_cursor_read(r->arena, f->cursor, &after, &after_key)) return false;
    pawl_places *out = query_->places = read_alloc(r, sizeof *out);
    pawl_place_info *infos = read_alloc(r, ((size_t)f->limit + 1) * sizeof *infos);
    if (!out || !infos) return true;
    out->places = infos;
    int64_t where = f->task ? ask(r->c, SQL_live_blocked, f->task) : 0;
    query q = query_on(r->c, SQL_places_list);
    put_int(&q, after[0] - '0');
    put_text(&q, after + 1);
    put_key(&q, after_key);
    while (!r->no_memory && query_row(&q)) {
        pawl_place_info info = {.scope = (pawl_scope)get_int(&q), .name = read_text(r, get_text(&q))};
        pawl_bytes stored_key = info.key = read_bytes(r, get_bytes(&q));
        int64_t name_id = get_int(&q), spot_id = get_int(&q);
        if (f->task && (!where || spot_id != where)) continue;
        describe(r, &info, name_id, spot_id);
        if (info.scope == PAWL_SCOPE_TENANTS) name_tenant(r, &info);
        if (!info.name || !asked_for(f, &info)) continue;
        if (out->count == (size_t)f->limit) {
            out->next = cursor_of(r, &infos[out->count - 1], last_key);
            break;
        }
        last_key = stored_key;
        infos[out->count++] = info;
    }
    query_end(&q);
    return true;
}
