/* Families that go to another store, or come from there. Counts of who waits follow from the edges; members do not change the counts of
 * their batch, which come with it. */
#include "store/sqlite/family.h"
#include "store/sqlite/read.h"

/* ---- out ----------------------------------------------------------------------------------------------------------------- */

bool family_related(conn *c)
{
    query q = query_on(c, SQL_edge_any_at_all);
    bool any = query_row(&q) && get_int(&q) != 0;
    query_end(&q);
    return any;
}

static void dump_parents(reading *r, pawl_record *t)
{
    pawl_past_parent *all = NULL;
    query q = query_on(r->c, SQL_dump_parents);
    put_int(&q, t->body.id);
    while (!r->no_memory && query_row(&q)) {
        all = read_grow(r, all, t->parents_count, sizeof *all);
        if (!all) break;
        pawl_past_parent *p = &all[t->parents_count++];
        p->id = get_int(&q);
        p->state = (pawl_edge_state)get_int(&q);
    }
    query_end(&q);
    t->parents = all;
}

void family_dump(reading *r, pawl_record *t)
{
    dump_parents(r, t);
    query q = query_on(r->c, SQL_member_get);
    put_int(&q, t->body.id);
    if (query_row(&q)) t->batch = get_int(&q);
    query_end(&q);
    if (t->state != PAWL_WAITING) return;
    q = query_on(r->c, SQL_wait_get);
    put_int(&q, t->body.id);
    if (query_row(&q)) {
        q.column += 2;
        t->if_failed = (pawl_if_failed)get_int(&q);
    }
    query_end(&q);
}

void family_dump_batches(reading *r, pawl_dump *d)
{
    batch_row row;
    query q = query_on(r->c, SQL_dump_batches);
    put_int(&q, d->after);
    put_int(&q, d->limit);
    while (!r->no_memory && batch_read(&q, &row)) {
        pawl_past_batch *all = read_grow(r, d->batches, d->count, sizeof *all);
        if (!all) break;
        d->batches = all;
        all[d->count] = row.info;
        all[d->count++].name = read_text(r, row.info.name);
        d->next = row.info.id;
    }
    query_end(&q);
    d->more = d->count == d->limit;
}

void family_dump_kept(reading *r, pawl_dump *d)
{
    size_t bytes = 0;
    query q = query_on(r->c, SQL_dump_kept);
    put_int(&q, d->after);
    put_int(&q, d->limit);
    while (!r->no_memory && !(d->bytes && bytes >= d->bytes) && query_row(&q)) {
        pawl_past_kept *all = read_grow(r, d->kept, d->count, sizeof *all);
        if (!all) break;
        d->kept = all;
        pawl_past_kept *k = &all[d->count++];
        d->next = k->id = get_int(&q);
        k->state = (pawl_state)get_int(&q);
        k->error = read_text(r, get_text(&q));
        k->result_type = read_text(r, get_text(&q));
        k->result_ref = read_text(r, get_text(&q));
        if (!get_is_null(&q)) k->result = read_bytes(r, get_bytes(&q));
        bytes += k->result.len;
    }
    query_end(&q);
    d->more = d->count == d->limit || (d->bytes && bytes >= d->bytes);
}

/* ---- in ------------------------------------------------------------------------------------------------------------------ */

bool family_here(tx *t, const pawl_record *r)
{
    for (int i = 0; i < r->parents_count; i++)
        if (r->parents[i].state != PAWL_EDGE_TOLD && kin_state(t, r->parents[i].id) == PAWL_STATE_NONE) return false;
    return true;
}

static void put_edge(tx *t, pawl_id child, const pawl_past_parent *parent)
{
    query q = query_on(t->c, SQL_edge_put);
    put_int(&q, parent->id);
    put_int(&q, child);
    put_int(&q, parent->state);
    query_run(&q);
}

static void put_member(tx *t, pawl_id id, pawl_id batch)
{
    query q = query_on(t->c, SQL_member_put);
    put_int(&q, id);
    put_int(&q, batch);
    query_run(&q);
}

static void put_wait(tx *t, const pawl_record *r, int unmet, int held)
{
    query q = query_on(t->c, SQL_wait_put);
    put_int(&q, r->body.id);
    put_int(&q, unmet);
    put_int(&q, held);
    put_int(&q, r->if_failed);
    query_run(&q);
}

/* In a move everybody has been told before. In an import a parent may have ended here. */
void family_load(tx *t, const pawl_record *r, bool move)
{
    int unmet = 0, held = 0;
    for (int i = 0; i < r->parents_count && !t->c->rc; i++) {
        const pawl_past_parent *p = &r->parents[i];
        pawl_state state = !move && p->state == PAWL_EDGE_UNTOLD ? kin_state(t, p->id) : PAWL_STATE_NONE;
        put_edge(t, r->body.id, p);
        unmet += p->state == PAWL_EDGE_UNTOLD;
        held += p->state == PAWL_EDGE_HELD;
        if (pawl_state_terminal(state)) unsettled_put(t, p->id, UNTOLD_END, r->body.id - 1, state);
    }
    if (r->state == PAWL_WAITING) put_wait(t, r, unmet, held);
    if (r->batch) put_member(t, r->body.id, r->batch);
}

void family_load_batches(tx *t, const pawl_dump *d)
{
    for (int i = 0; i < d->count && !t->c->rc; i++) {
        const pawl_past_batch *b = &d->batches[i];
        query q = query_on(t->c, SQL_load_batch);
        put_int(&q, b->id);
        put_text(&q, b->name);
        put_int(&q, b->within);
        put_int(&q, b->created_us);
        put_int_or_null(&q, b->closed_us, 0);
        put_int_or_null(&q, b->ended_us, 0);
        put_int(&q, b->ended_us ? b->state : 0);
        put_int(&q, b->cancel_asked);
        put_int(&q, b->unfinished);
        put_int(&q, b->succeeded);
        put_int(&q, b->failed);
        put_int(&q, b->cancelled);
        query_run(&q);
        if (b->within) put_member(t, b->id, b->within);
    }
}

void family_load_kept(tx *t, const pawl_dump *d)
{
    for (int i = 0; i < d->count && !t->c->rc; i++) {
        const pawl_past_kept *k = &d->kept[i];
        query q = query_on(t->c, SQL_load_kept);
        put_int(&q, k->id);
        put_int(&q, k->state);
        put_text(&q, k->error);
        put_text(&q, k->result_type);
        put_text(&q, k->result_ref);
        put_bytes(&q, k->result);
        query_run(&q);
    }
}
