/* Concurrency limits and turns of tenants that go to another store, or come from there. Who holds a place is decided anew by the leases of
 * the other store; only the lines of ordered keys come along, task by task (places_rejoin). */
#include "store/budget.h"
#include "store/sqlite/place.h"
#include "store/sqlite/quota.h"
#include <stdlib.h>
#include <string.h>

/* ---- out ----------------------------------------------------------------------------------------------------------------- */

pawl_line places_dump_line(reading *r, pawl_id id)
{
    query q = query_on(r->c, SQL_dump_line);
    put_int(&q, id);
    pawl_line line = query_row(&q) ? (pawl_line)get_int(&q) : PAWL_LINE_NONE;
    query_end(&q);
    return line;
}

void places_dump_bounds(reading *r, pawl_dump *d)
{
    query q = query_on(r->c, SQL_dump_bounds);
    while (!r->no_memory && query_row(&q)) {
        pawl_past_bound *all = read_grow(r, d->bounds, d->count, sizeof *all);
        if (!all) break;
        d->bounds = all;
        pawl_past_bound *b = &all[d->count++];
        b->scope = (pawl_scope)get_int(&q);
        b->name = read_text(r, get_text(&q));
        b->key = read_bytes(r, get_bytes(&q));
        b->most = (int)get_int(&q);
        b->ordered = get_int(&q) != 0;
        const char *tenant =
            b->scope == PAWL_SCOPE_TENANTS && b->key.len ? name_text(r->c, strtoll(b->key.data, NULL, 10)) : NULL;
        if (tenant) b->key = pawl_str(read_text(r, tenant));
    }
    query_end(&q);
}

/* ---- in ------------------------------------------------------------------------------------------------------------------ */

/* A row in pawl_turn says that tasks of the queue may be stored with tenants. */
static void begin_turns(tx *t, int64_t queue_id)
{
    turn at = {0};
    if (!turn_get(t, queue_id, &at)) turn_put(t, queue_id, &at);
    query q = query_on(t->c, SQL_turn_tag);
    put_int(&q, queue_id);
    put_int(&q, -1);
    query_run(&q);
}

void places_load_bounds(tx *t, const pawl_dump *d)
{
    char room[24], tenant[256];
    for (int i = 0; i < d->count && !t->c->rc; i++) {
        const pawl_past_bound *b = &d->bounds[i];
        bool turns = b->scope == PAWL_SCOPE_TENANTS, own = turns && b->key.len > 0 && b->key.len < sizeof tenant;
        int64_t id = name_id(t->c, b->name);
        if (own) memcpy(tenant, b->key.data, b->key.len);
        if (own) tenant[b->key.len] = '\0';
        bound_put(t, b->scope, id, own ? tenant_key(name_id(t->c, tenant), room) : b->key, b->most, b->ordered);
        if (turns && !own) begin_turns(t, id);
    }
    if (d->count == 0) return;
    meta_put(t->c, "limits_version", meta_int(t->c, "limits_version", 0) + 1);
    places_forget(t);
    places_offer_all(t);
}
