/* Rate limits and budgets that go to another store, or come from there. */
#include "store/sqlite/quota.h"

/* ---- out ----------------------------------------------------------------------------------------------------------------- */

static void read_limit(reading *r, query *q, pawl_past_limit *l)
{
    l->type = read_text(r, get_text(q));
    l->key = read_bytes(r, get_bytes(q));
    l->rate.permits = (int)get_int(q);
    l->rate.period_us = get_int(q);
    l->rate.burst = (int)get_int(q);
    l->rate.horizon_us = get_int(q);
    limit_flags_read(get_int(q), &l->rate, &l->paused);
}

void quota_dump_limits(reading *r, pawl_dump *d)
{
    query q = query_on(r->c, SQL_limit_each);
    while (!r->no_memory && query_row(&q)) {
        pawl_past_limit *all = read_grow(r, d->limits, d->count, sizeof *all);
        if (!all) break;
        d->limits = all;
        read_limit(r, &q, &all[d->count++]);
    }
    query_end(&q);
}

void quota_dump_budgets(reading *r, pawl_dump *d)
{
    query q = query_on(r->c, SQL_budget_each);
    put_int(&q, d->after);
    put_int(&q, d->limit);
    while (!r->no_memory && query_row(&q)) {
        pawl_past_budget *all = read_grow(r, d->budgets, d->count, sizeof *all);
        if (!all) break;
        d->budgets = all;
        pawl_past_budget *b = &all[d->count++];
        d->next = get_int(&q);
        b->type = read_text(r, get_text(&q));
        b->key = read_bytes(r, get_bytes(&q));
        b->tat_us = get_int(&q);
        b->tat_part = (int)get_int(&q);
        b->permits = (int)get_int(&q);
        b->period_us = get_int(&q);
        b->burst = (int)get_int(&q);
        b->seen_us = get_int(&q);
        b->epoch = get_int(&q);
    }
    query_end(&q);
    d->more = d->count == d->limit;
}

/* ---- in ------------------------------------------------------------------------------------------------------------------ */

void quota_load_limits(tx *t, const pawl_dump *d)
{
    for (int i = 0; i < d->count && !t->c->rc; i++) {
        const pawl_past_limit *l = &d->limits[i];
        const pawl_rate *rate = &l->rate;
        int64_t type_id = name_id(t->c, l->type);
        query q = query_on(t->c, SQL_limit_put);
        put_int(&q, type_id);
        put_key(&q, l->key);
        put_int(&q, rate->permits);
        put_int(&q, rate->period_us);
        put_int(&q, rate->burst);
        put_int(&q, rate->horizon_us);
        put_int(&q, limit_flags(rate, l->paused));
        put_int(&q, t->now_us);
        query_run(&q);
    }
    if (d->count) meta_put(t->c, "limits_version", meta_int(t->c, "limits_version", 0) + 1);
}

static int64_t find_or_add(tx *t, int64_t type_id, pawl_bytes key)
{
    static const sql_name steps[] = {SQL_budget_get, SQL_budget_add};
    int64_t id = 0;
    for (int i = 0; i < 2 && !id; i++) {
        query q = query_on(t->c, steps[i]);
        put_int(&q, type_id);
        put_key(&q, key);
        if (i) id = query_run(&q) ? sqlite3_last_insert_rowid(t->c->db) : 0;
        else if (query_row(&q)) id = get_int(&q);
        if (!i) query_end(&q);
    }
    return id;
}

void quota_load_budgets(tx *t, const pawl_dump *d)
{
    for (int i = 0; i < d->count && !t->c->rc; i++) {
        const pawl_past_budget *b = &d->budgets[i];
        budget_row row = budget_arrives(b, t->now_us);
        int64_t id = find_or_add(t, name_id(t->c, b->type), b->key);
        query q = query_on(t->c, SQL_budget_put);
        put_int(&q, row.tat.us);
        put_int(&q, row.tat.part);
        put_int(&q, row.permits);
        put_int(&q, row.period_us);
        put_int(&q, row.burst);
        put_int(&q, row.seen_us);
        put_int(&q, row.epoch);
        put_int(&q, 0);
        put_int(&q, 0);
        put_int(&q, id);
        query_run(&q);
    }
}
