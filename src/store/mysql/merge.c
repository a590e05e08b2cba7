/* Sums of sums: what lanes that are no more left behind is added up in lane 0 of node 0: that of commits of nobody in particular, and that of
 * nodes that were swept. Rollups and hours of the living follow when they are old. What somebody has locked is left for another time.
 */
#include "base/alloc.h"
#include "store/mysql/inner.h"

#define ROWS_AT_ONCE 1000
#define MERGED_SLACK 60 /* minutes before those that were merged last, for commits that took their time */

/* Removes rows by their keys, which are the first columns of the answer. `minute`: of rollups. */
static void drop_rows(work *w, sql_name which, const answer *a, int columns, int64_t minute)
{
    buf b;
    buf_init(&b, w->s->allocator, 4 << 20);
    for (int from = 0; from < a->rows; from += ROWS_AT_ONCE) {
        buf_clear(&b);
        for (int i = from; i < a->rows && i < from + ROWS_AT_ONCE; i++) {
            buf_str(&b, i > from ? ",(" : "(");
            for (int k = 0; k < columns; k++) buf_fmt(&b, "%s%s", k ? "," : "", get_text(a, i, k));
            buf_char(&b, ')');
        }
        if (b.failed) w->no_memory = true;
        my_put_raw(w->c, buf_text(&b), b.len);
        my_put_int(w->c, minute);
        my_add(w->c, which);
    }
    buf_done(&b);
}

static bool finish(work *w)
{
    my_add(w->c, SQL_commit);
    if (w->no_memory) my_conn_no_memory(w->c);
    return !w->no_memory && my_send(w->c, CALL_WRITES);
}

static void begin(work *w)
{
    my_script(w->c);
    my_add(w->c, SQL_begin);
}

/* The answers stay while the next statements are put together: my_send leaves an empty script behind. */
static bool ask(work *w) { return my_send(w->c, CALL_READS); }

static bool merge_counts(work *w, const buf *nodes)
{
    begin(w);
    my_put_raw(w->c, nodes->data, nodes->len);
    my_add(w->c, SQL_merge_counts);
    if (!ask(w)) return false;
    const answer *a = my_answer(w->c, SQL_merge_counts);
    for (int i = 0; i < a->rows; i++) {
        queue_tally *q = my_queue(w, (int32_t)get_int(a, i, 2));
        q->delta[PAWL_WAITING] += get_int(a, i, 3);
        q->delta[PAWL_PENDING] += get_int(a, i, 4);
        q->delta[PAWL_LEASED] += get_int(a, i, 5);
        q->delta[PAWL_FAILED] += get_int(a, i, 6);
    }
    drop_rows(w, SQL_merge_counts_drop, a, 3, 0);
    my_tally_flush(w);
    return finish(w);
}

static bool merge_lanes(work *w)
{
    int64_t number = 0, backs = 0;
    begin(w);
    my_add(w->c, SQL_merge_lanes);
    if (!ask(w)) return false;
    const answer *a = my_answer(w->c, SQL_merge_lanes);
    for (int i = 0; i < a->rows; i++) {
        number += get_int(a, i, 1);
        backs += get_int(a, i, 2);
    }
    drop_rows(w, SQL_merge_lanes_drop, a, 1, 0);
    if (a->rows) {
        my_put_int(w->c, number);
        my_put_int(w->c, backs);
        my_add(w->c, SQL_merge_lanes_put);
    }
    return finish(w);
}

static bool merge_born(work *w, const buf *nodes, int64_t now_us)
{
    buf rows_text;
    begin(w);
    my_put_raw(w->c, nodes->data, nodes->len);
    my_put_int(w->c, now_us / PAWL_HOUR - 1);
    my_add(w->c, SQL_merge_born);
    if (!ask(w)) return false;
    const answer *a = my_answer(w->c, SQL_merge_born);
    buf_init(&rows_text, w->s->allocator, 4 << 20);
    for (int i = 0; i < a->rows; i++)
        buf_fmt(&rows_text, "%s(%s,0,0,%s,%s)", i ? "," : "", get_text(a, i, 0), get_text(a, i, 3), get_text(a, i, 4));
    drop_rows(w, SQL_merge_born_drop, a, 3, 0);
    if (rows_text.failed) w->no_memory = true;
    if (a->rows) {
        my_put_raw(w->c, buf_text(&rows_text), rows_text.len);
        my_add(w->c, SQL_born_put);
    }
    buf_done(&rows_text);
    return finish(w);
}

/* One minute, with what was added up before. */
static bool merge_minute(work *w, int64_t minute, bool old)
{
    w->now_us = minute * PAWL_MINUTE;
    begin(w);
    my_put_int(w->c, minute);
    my_put_int(w->c, old);
    my_add(w->c, SQL_merge_rollups);
    if (!ask(w)) return false;
    const answer *a = my_answer(w->c, SQL_merge_rollups);
    for (int i = 0; i < a->rows; i++)
        my_roll_add(w, (int32_t)get_int(a, i, 2), (int32_t)get_int(a, i, 3), (rollup_outcome)get_int(a, i, 4), get_int(a, i, 5),
                    get_bytes(a, i, 6), get_bytes(a, i, 7));
    drop_rows(w, SQL_merge_rollups_drop, a, 5, minute);
    my_tally_flush(w);
    return finish(w);
}

static bool merge_rollups(my_store *s, conn *c, pawl_arena *arena, int64_t now_us)
{
    int64_t minutes[120], old = now_us / PAWL_MINUTE - 5;
    int count = 0;
    my_script(c);
    my_put_int(c, old);
    my_put_int(c, s->merged_minute - MERGED_SLACK);
    my_add(c, SQL_merge_minutes);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_merge_minutes);
    for (; count < a->rows && count < 120; count++) minutes[count] = get_int(a, count, 0);
    bool good = true;
    for (int i = 0; i < count && good; i++) {
        work w;
        my_work_begin(&w, s, c, arena);
        good = merge_minute(&w, minutes[i], minutes[i] < old);
        my_work_done(&w);
        arena_reset(arena);
    }
    if (good) s->merged_minute = count < 120 ? old : minutes[count - 1];
    return good;
}

bool my_merge(my_store *s, conn *c, int64_t now_us, const int32_t *nodes, int count)
{
    work w;
    buf list;
    pawl_arena *arena = arena_new(s->allocator, 0);
    buf_init(&list, s->allocator, 1 << 20);
    buf_str(&list, "0");
    for (int i = 0; i < count; i++) buf_fmt(&list, ",%d", (int)nodes[i]);
    bool good = arena && !list.failed;
    if (!good) my_conn_no_memory(c);
    for (int i = 0; i < 3 && good; i++) {
        my_work_begin(&w, s, c, arena);
        w.now_us = now_us;
        good = i == 0 ? merge_counts(&w, &list) : i == 1 ? merge_lanes(&w) : merge_born(&w, &list, now_us);
        my_work_done(&w);
    }
    if (good) good = merge_rollups(s, c, arena, now_us);
    buf_done(&list);
    arena_free(arena);
    return good;
}
