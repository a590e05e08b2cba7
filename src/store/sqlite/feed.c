/* The feed: what nodes tell of what they do, while somebody listens. See pawl_feed in pawl/store.h. */
#include "store/sqlite/read.h"

static const char what[] = "tell what happened in";

typedef struct head {
    int64_t last, broken, until_us;
} head;

static head read_head(conn *c)
{
    head h = {0};
    query q = query_on(c, SQL_feed_head);
    if (query_row(&q)) {
        h.last = get_int(&q);
        h.broken = get_int(&q);
        h.until_us = get_int(&q);
    }
    query_end(&q);
    return h;
}

static void answer_head(const head *h, int64_t now_us, pawl_feed *out)
{
    out->last = h->last;
    out->broken = h->broken;
    out->left_us = h->until_us > now_us ? h->until_us - now_us : 0;
}

static void put_facts(conn *c, head *h, const pawl_feed *call)
{
    h->last += call->count;
    query q = query_on(c, SQL_feed_put);
    put_int(&q, h->last);
    put_int(&q, call->count);
    put_text(&q, call->facts);
    query_run(&q);
    q = query_on(c, SQL_feed_trim);
    put_int(&q, h->last - PAWL_FEED_KEPT);
    query_run(&q);
}

pawl_status sqlite_feed(pawl_store *store, pawl_feed *call, pawl_error *err)
{
    sqlite_store *s = (sqlite_store *)store;
    tx t;
    pawl_status status = tx_begin(s, &t, what, err);
    if (status) return status;
    head h = read_head(t.c);
    bool fresh = call->listen_us && h.until_us <= t.now_us;
    if (fresh) h.broken = ++h.last;
    if (call->listen_us && h.until_us < t.now_us + call->listen_us) h.until_us = t.now_us + call->listen_us;
    bool told = call->count > 0 && h.until_us > t.now_us;
    if (told) put_facts(t.c, &h, call);
    if (told || call->listen_us) {
        query q = query_on(t.c, SQL_feed_head_put);
        put_int(&q, h.last);
        put_int(&q, h.broken);
        put_int(&q, h.until_us);
        query_run(&q);
    }
    if (t.c->rc) return tx_abort(&t, what, err);
    answer_head(&h, t.now_us, call);
    return tx_commit(&t, what, fresh, err);
}

static bool draining(reading *r, int64_t node)
{
    query q = query_on(r->c, SQL_drain_get);
    put_int(&q, node);
    bool yes = query_row(&q);
    query_end(&q);
    return yes;
}

void feed_read(reading *r, pawl_query *asked)
{
    head h = read_head(r->c);
    answer_head(&h, r->now_us, &asked->feed);
    if (asked->id) asked->draining = draining(r, asked->id);
    if (asked->limit <= 0) return;
    asked->feed_rows = read_alloc(r, (size_t)asked->limit * sizeof *asked->feed_rows);
    query q = query_on(r->c, SQL_feed_list);
    put_int(&q, asked->before);
    put_int(&q, asked->limit);
    while (asked->feed_rows && query_row(&q)) {
        pawl_feed_row *row = &asked->feed_rows[asked->feed_rows_count++];
        row->last = get_int(&q);
        row->count = (int)get_int(&q);
        row->facts = read_text(r, get_text(&q));
    }
    query_end(&q);
}
