/* The feed: what nodes tell of what they do, while somebody listens. See pawl_feed in pawl/store.h and migrations/0005_feed.sql.
 *
 * The head's row is locked by whoever tells, so rows can be seen in the order of their numbers.
 */
#include "base/error.h"
#include "base/text.h"
#include "store/mysql/read.h"
#include <stdio.h>

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

/* *lives: there is such a node. */
static bool drain(my_store *s, conn *c, int64_t node, bool on, const char *by, bool *lives)
{
    char name[NAME_MAX_BYTES + 1];
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_server_now);
    my_put_int(c, node);
    my_add(c, SQL_drain_look);
    if (!my_send(c, CALL_READS)) return false;
    int64_t now_us = my_instant(s, c).now_us;
    const answer *a = my_answer(c, SQL_drain_look);
    *lives = a->rows > 0;
    if (!*lives) {
        my_rollback(c);
        return true;
    }
    snprintf(name, sizeof name, "%s", get_text(a, 0, 0));
    my_script(c);
    my_add(c, SQL_drain_tidy);
    my_put_int(c, node);
    my_add(c, on ? SQL_drain_put : SQL_drain_drop);
    if (by) {
        my_put_int(c, now_us);
        my_put_text(c, by);
        my_put_text(c, on ? "drain" : "undrain");
        my_put_int_or_null(c, 0, 0);
        my_put_text(c, name);
        my_add(c, SQL_oplog_put);
    }
    my_add_wake(c, my_new_lane(s), now_us, true);
    my_add(c, SQL_commit);
    return my_send(c, CALL_WRITES);
}

pawl_status my_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, WRITER);
    int tries = 0;
    bool good, lives = false;
    while (!(good = drain(s, c, node, on, by, &lives)) && my_call_again(c, &tries)) {}
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, "drain a node of", err);
    my_store_give(s, c);
    if (!good || lives) return status;
    return err_set(err, PAWL_NOT_FOUND, "no node %lld lives", (long long)node);
}

void my_feed_read(reading *r, pawl_query *query)
{
    int64_t until_us;
    my_script(r->c);
    my_add(r->c, SQL_server_now);
    my_put_int(r->c, query->id);
    if (!my_ask(r, SQL_feed_head)) return;
    if (query->id && my_answer(r->c, SQL_feed_head)->rows > 0)
        query->draining = get_int(my_answer(r->c, SQL_feed_head), 0, 3) != 0;
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
