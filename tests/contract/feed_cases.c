/* The feed: facts are kept while somebody listens, in the order of their numbers, and a time in which nobody did is one number. */
#include "contract.h"

#define S PAWL_SECOND

static pawl_feed tell(world *w, pawl_store *store, int64_t listen_us, int count, const char *facts)
{
    pawl_feed call = {.listen_us = listen_us, .count = count, .facts = facts};
    assert_int_equal(store_feed(store, &call, &w->err), PAWL_OK);
    return call;
}

static pawl_query look(world *w, int64_t after, int limit)
{
    pawl_query query = {.kind = PAWL_QUERY_FEED, .before = after, .limit = limit};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    return query;
}

static void nothing_while_nobody_listens(world *w)
{
    pawl_feed f = tell(w, w->a, 0, 2, "x");
    assert_int_equal(f.left_us, 0);
    assert_int_equal(f.last, 0);
    pawl_query q = look(w, 0, 10);
    assert_int_equal(q.feed_rows_count, 0);
    assert_int_equal(q.feed.last, 0);
    assert_int_equal(q.feed.left_us, 0);
}

static void in_the_order_of_their_numbers(world *w)
{
    pawl_feed f = tell(w, w->b, 60 * S, 0, NULL);
    assert_int_equal(f.left_us, 60 * S);
    assert_int_equal(f.broken, f.last);
    int64_t first = f.last;
    assert_int_equal(tell(w, w->a, 0, 2, "x").last, first + 2);
    assert_int_equal(tell(w, w->b, 0, 3, "y \xc3\xa9").last, first + 5);
    pawl_query q = look(w, first, 10);
    assert_int_equal(q.feed_rows_count, 2);
    assert_int_equal(q.feed_rows[0].last, first + 2);
    assert_int_equal(q.feed_rows[0].count, 2);
    assert_string_equal(q.feed_rows[0].facts, "x");
    assert_int_equal(q.feed_rows[1].last, first + 5);
    assert_string_equal(q.feed_rows[1].facts, "y \xc3\xa9");
    assert_int_equal(q.feed.last, first + 5);
    assert_int_equal(q.feed.broken, first);
    assert_true(q.feed.left_us > 0);
    assert_int_equal(look(w, first + 2, 10).feed_rows_count, 1);
    assert_int_equal(look(w, first + 1, 10).feed_rows_count, 2); /* a row that has more behind it */
    assert_int_equal(look(w, first + 5, 10).feed_rows_count, 0);
    assert_int_equal(look(w, first, 1).feed_rows_count, 1);
}

static void listening_is_never_cut_short(world *w)
{
    tell(w, w->a, 60 * S, 0, NULL);
    advance(w, 30 * S);
    assert_int_equal(tell(w, w->b, 10 * S, 0, NULL).left_us, 30 * S);
    assert_int_equal(tell(w, w->b, 60 * S, 0, NULL).left_us, 60 * S);
}

static void a_time_in_which_nobody_listened(world *w)
{
    int64_t first = tell(w, w->a, 60 * S, 1, "a").last;
    advance(w, 59 * S);
    assert_int_equal(tell(w, w->a, 0, 1, "b").last, first + 1);
    advance(w, 2 * S);
    pawl_feed f = tell(w, w->a, 0, 1, "c");
    assert_int_equal(f.last, first + 1);
    assert_int_equal(f.left_us, 0);
    f = tell(w, w->b, 60 * S, 0, NULL);
    assert_int_equal(f.broken, first + 2);
    assert_int_equal(f.last, first + 2);
    assert_int_equal(tell(w, w->a, 0, 1, "d").last, first + 3);
    pawl_query q = look(w, 0, 10);
    assert_int_equal(q.feed_rows_count, 3);
    assert_string_equal(q.feed_rows[2].facts, "d");
    assert_int_equal(q.feed.broken, first + 2);
}

static void the_last_ones_are_kept(world *w)
{
    int64_t first = tell(w, w->a, 60 * S, 1, "old").last;
    tell(w, w->a, 0, PAWL_FEED_KEPT - 1, "many");
    assert_int_equal(look(w, 0, 10).feed_rows_count, 2);
    tell(w, w->a, 0, 1, "one too many");
    pawl_query q = look(w, 0, 10);
    assert_int_equal(q.feed_rows_count, 2);
    assert_int_equal(q.feed_rows[0].last, first + PAWL_FEED_KEPT - 1);
}

CASES(feed_cases){
    {"feed: nothing while nobody listens", nothing_while_nobody_listens},
    {"feed: in the order of their numbers", in_the_order_of_their_numbers},
    {"feed: listening is never cut short", listening_is_never_cut_short},
    {"feed: a time in which nobody listened", a_time_in_which_nobody_listened},
    {"feed: the last ones are kept", the_last_ones_are_kept},
    {NULL, NULL},
};
