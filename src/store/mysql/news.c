/* What claims and renewals tell besides: other nodes whose leases run out, cancels for this one, whether the gate is shut, when the first
 * schedule falls due, and whether somebody is still to be told what has ended. */
#include "store/mysql/inner.h"

void my_add_news(conn *c, int64_t node, bool schedules, bool families)
{
    my_put_int(c, node);
    my_add(c, SQL_others);
    my_put_int(c, node);
    my_add(c, SQL_cancels);
    my_add(c, SQL_gate_mode);
    if (schedules) my_add(c, SQL_schedule_first);
    if (families) my_add(c, SQL_unsettled_any);
}

static void read_other(const answer *a, int row, instant at, pawl_news *news)
{
    int64_t left_us = get_int(a, row, 1) - at.boot_us;
    bool alive = get_int(a, row, 3) == 1, gone = get_int(a, row, 4) != 0;
    if (alive && (news->foreign_expiry_us < 0 || left_us < news->foreign_expiry_us))
        news->foreign_expiry_us = left_us > 0 ? left_us : 0;
    if ((left_us > 0 && alive && !gone) || news->lapsed_count == PAWL_LAPSED_MAX) return;
    news->lapsed[news->lapsed_count++] = (pawl_lapsed){get_int(a, row, 0), get_int(a, row, 2), !alive || gone};
}

void my_news_read(const conn *c, instant at, bool alive, pawl_news *news)
{
    news->store_now_us = at.now_us;
    news->node_dead = !alive;
    news->closed = my_gate_shut(c);
    news->foreign_expiry_us = -1;
    news->lapsed_count = news->cancels_count = 0;
    const answer *a = my_answer(c, SQL_schedule_first);
    news->schedule_due_us = a->rows > 0 ? get_int(a, 0, 0) : 0;
    news->unsettled = my_answer(c, SQL_unsettled_any)->rows > 0;
    a = my_answer(c, SQL_others);
    for (int i = 0; i < a->rows; i++) read_other(a, i, at, news);
    a = my_answer(c, SQL_cancels);
    for (int i = 0; i < a->rows && i < PAWL_CANCELS_MAX; i++)
        news->cancels[news->cancels_count++] = (pawl_lease){get_int(a, i, 0), get_int(a, i, 1)};
}
