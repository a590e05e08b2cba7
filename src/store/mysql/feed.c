/* The feed: what nodes tell of what they do, while somebody listens. See pawl_feed in pawl/store.h and migrations/0005_feed.sql.
 *
 * The head's row is locked by whoever tells, so rows can be seen in the order of their numbers.
 */
#include "store/mysql/read.h"

static void read_head(const answer *a, int64_t now_us, pawl_feed *out, int64_t *until_us)
{
    out->last = a->rows > 0 ? get_int(a, 0, 0) : 0;
    out->broken = a->rows > 0 ? get_int(a, 0, 1) : 0;
    *until_us = a->rows > 0 ? get_int(a, 0, 2) : 0;
    out->left_us = *until_us > now_us ? *until_us - now_us : 0;
}

static void add_facts(conn *c, pawl_feed *call)
{
    call->last += call->count;
    my_put_int(c, call->last);
    my_put_int(c, call->count);
    my_put_text(c, call->facts);
    my_add(c, SQL_feed_put);
    my_put_int(c, call->last - PAWL_FEED_KEPT);
    my_add(c, SQL_feed_trim);
}

static bool tell(my_store *s, conn *c, pawl_feed *call)
{
    int64_t until_us;
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_feed_lock);
    my_add(c, SQL_server_now);
    if (!my_send(c, CALL_READS)) return false;
    int64_t now_us = my_instant(s, c).now_us;
    read_head(my_answer(c, SQL_feed_lock), now_us, call, &until_us);
    bool fresh = call->listen_us && !call->left_us;
    if (fresh) call->broken = ++call->last;
    if (call->listen_us && until_us < now_us + call->listen_us) until_us = now_us + call->listen_us;
    call->left_us = until_us > now_us ? until_us - now_us : 0;
    my_script(c);
    if (call->count > 0 && call->left_us) add_facts(c, call);
    my_put_int(c, call->last);
    my_put_int(c, call->broken);
    my_put_int(c, until_us);
    my_add(c, SQL_feed_head_put);
    if (fresh) my_add_wake(c, my_new_lane(s), now_us, true);
    my_add(c, SQL_commit);
    return my_send(c, CALL_WRITES);
}

pawl_status my_feed(pawl_store *store, pawl_feed *call, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, WRITER);
    int tries = 0;
    bool good;
    while (!(good = tell(s, c, call)) && my_call_again(c, &tries)) {}
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, "tell what happened in", err);
    my_store_give(s, c);
    return status;
}

void my_feed_read(reading *r, pawl_query *query)
{
    int64_t until_us;
    my_script(r->c);
    my_add(r->c, SQL_server_now);
    if (!my_ask(r, SQL_feed_head)) return;
    read_head(my_answer(r->c, SQL_feed_head), my_instant(r->s, r->c).now_us, &query->feed, &until_us);
    if (query->limit <= 0) return;
    my_script(r->c);
    my_put_int(r->c, query->before);
    my_put_int(r->c, query->limit);
    if (!my_ask(r, SQL_feed_list)) return;
    const answer *a = my_answer(r->c, SQL_feed_list);
    query->feed_rows = my_read_alloc(r, (size_t)(a->rows + 1) * sizeof *query->feed_rows);
    for (int i = 0; query->feed_rows && i < a->rows; i++)
        query->feed_rows[query->feed_rows_count++] =
            (pawl_feed_row){.last = get_int(a, i, 0), .count = (int)get_int(a, i, 1), .facts = my_read_text(r, a, i, 2)};
}
