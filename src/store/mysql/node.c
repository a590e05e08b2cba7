/* Nodes: birth and death, heartbeats, what they hold, numbers for ids.
 *
 * A handle remembers the nodes that were registered through it: it holds their session locks (watch.c), and says so when it closes. A
 * session lock that is free proves nothing here: connections break without anybody dying.
 */
#include "base/error.h"
#include "base/idgen.h"
#include "store/mysql/inner.h"

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

/* With more than there is room for the oldest is forgotten: it has been dead for long. */
static void remember(my_store *s, int32_t node)
{
    pthread_mutex_lock(&s->lock);
    s->nodes[s->nodes_count++ % NODES_MAX] = node;
    pthread_mutex_unlock(&s->lock);
}

#define QUEUES_MAX 256

/* The numbers of the queues that a node serves, as rows; "" if there are none. */
static bool list_queues(my_store *s, conn *c, const char *queues, buf *rows_text)
{
    char room[32768];
    const char *texts[QUEUES_MAX] = {0};
    int count = 0;
    if (strlen(queues) >= sizeof room) queues = "";
    strcpy(room, queues);
    for (char *at = room, *next; at && *at && count < QUEUES_MAX; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        if (*at) texts[count++] = at;
    }
    if (!my_names_fetch(&s->names, c, texts, count)) return false;
    interned_open(&s->names);
    for (int i = 0; i < count; i++) buf_fmt(rows_text, "%s(%d)", i ? "," : "", (int)interned_id(&s->names, texts[i]));
    interned_close(&s->names);
    return true;
}

static bool send_registration(my_store *s, conn *c, const pawl_registration *call)
{
    buf queues;
    buf_init(&queues, s->allocator, 1 << 20);
    bool good = list_queues(s, c, call->queues ? call->queues : "", &queues);
    my_script(c);
    my_add(c, SQL_server_now);
    if (good) good = my_send(c, CALL_READS);
    if (good) {
        instant at = my_instant(s, c);
        my_script(c);
        my_add(c, SQL_begin);
        my_put_text(c, call->name ? call->name : "");
        my_put_int(c, call->pid);
        my_put_text(c, call->queues ? call->queues : "");
        my_put_text(c, call->types ? call->types : "");
        my_put_int(c, call->lease_us);
        my_put_int(c, at.now_us);
        my_add(c, SQL_node_add);
        if (queues.len) {
            my_put_raw(c, queues.data, queues.len);
            my_add(c, SQL_queue_make);
        }
        my_add(c, SQL_commit);
        good = my_send(c, CALL_WRITES);
    }
    buf_done(&queues);
    return good;
}

pawl_status my_register_node(pawl_store *store, pawl_registration *call, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, WRITER);
    bool good;
    int tries = 0;
    while (!(good = send_registration(s, c, call)) && my_call_again(c, &tries)) {}
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, "register a node in", err);
    if (good) call->node = (int64_t)c->insert_id;
    my_store_give(s, c);
    if (status) return status;
    remember(s, (int32_t)call->node);
    if (!my_watch_live(s)) my_store_log(s, PAWL_WARN, "the lock that shows that this node lives could not be taken yet");
    return PAWL_OK;
}

void my_add_kill(conn *c, int64_t node, int64_t now_us, int blame)
{
    my_put_int(c, node);
    my_put_int(c, now_us);
    my_put_int(c, blame);
    my_add(c, SQL_node_kill);
    my_put_int(c, node);
    my_add(c, SQL_node_numbers);
    my_put_int(c, node);
    my_add(c, SQL_node_lapse);
    my_put_int(c, node);
    my_add(c, SQL_untell);
}

/* One that holds leases stays, and others will rescue it. */
bool my_node_bury(my_store *s, conn *c, int64_t node)
{
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_server_now);
    my_put_int(c, node);
    my_add(c, SQL_node_lock);
    my_put_int(c, node);
    my_add(c, SQL_pulse);
    if (!my_send(c, CALL_READS)) return false;
    const answer *life = my_answer(c, SQL_node_lock);
    bool alive = life->rows > 0 && get_int(life, 0, 1) == 1, holds = get_int(my_answer(c, SQL_pulse), 0, 2) != 0;
    instant at = my_instant(s, c);
    my_script(c);
    if (alive && !holds) my_add_kill(c, node, at.now_us, 0);
    my_add(c, SQL_commit);
    return my_send(c, CALL_WRITES);
}

pawl_status my_leave(pawl_store *store, int64_t node, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, WRITER);
    bool good;
    int tries = 0;
    while (!(good = my_node_bury(s, c, node)) && my_call_again(c, &tries)) {}
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, "take a node out of", err);
    my_store_give(s, c);
    return status;
}

void my_nodes_gone(my_store *s)
{
    pawl_id nodes[NODES_MAX];
    int count = 0;
    for (int i = 0; i < NODES_MAX; i++)
        if (s->nodes[i]) nodes[count++] = s->nodes[i];
    if (count == 0) return;
    conn *c = my_store_take(s, WRITER);
    my_script(c);
    my_add_ids(c, SQL_node_gone, nodes, my_sort_ids(nodes, count));
    my_send(c, CALL_WRITES);
    my_store_give(s, c);
}

/* ---- renewals and what a node holds -------------------------------------------------------------------------------------- */

/* Leases that ended in commits of nobody in particular are added up here. */
static int64_t fold_ended(const answer *ended, buf *list)
{
    int64_t sum = 0;
    for (int i = 0; i < ended->rows; i++) {
        sum += get_int(ended, i, 1);
        buf_fmt(list, "%s%s", i ? "," : "", get_text(ended, i, 0));
    }
    return sum;
}

static bool renew(my_store *s, conn *c, pawl_renewal *call)
{
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_server_now);
    my_put_int(c, call->node);
    my_add(c, SQL_life_shared);
    my_put_int(c, call->node);
    my_add(c, SQL_ended_leases);
    if (!my_send(c, CALL_READS)) return false;
    const answer *life = my_answer(c, SQL_life_shared);
    bool alive = life->rows > 0 && get_int(life, 0, 0) == 1;
    int64_t lease_us = alive ? get_int(life, 0, 1) : 0;
    instant at = my_instant(s, c);
    buf list;
    buf_init(&list, s->allocator, 16 << 20);
    int64_t ended = fold_ended(my_answer(c, SQL_ended_leases), &list);
    my_script(c);
    if (alive && list.len && !list.failed) {
        my_put_int(c, call->node);
        my_put_raw(c, list.data, list.len);
        my_add(c, SQL_ended_drop);
    } else {
        ended = 0;
    }
    buf_done(&list);
    if (alive) {
        my_put_int(c, call->node);
        my_put_int(c, -2);
        my_put_int(c, ended);
        my_put_int(c, at.boot_us + lease_us);
        my_put_int(c, s->clock.wall_us(s->clock.ctx) - at.now_us);
        my_put_int(c, 0);
        my_add(c, SQL_beat);
    }
    if (alive && call->told.data) {
        my_put_int(c, call->node);
        if (call->told.len) my_put_bytes(c, call->told);
        my_add(c, call->told.len ? SQL_tell : SQL_untell);
    }
    my_put_int(c, call->node);
    my_add(c, SQL_pulse);
    my_add_news(c, call->node, true, true);
    my_add(c, SQL_limits_now);
    my_add(c, SQL_commit);
    if (!my_send(c, CALL_WRITES)) return false;
    call->held = get_int(my_answer(c, SQL_pulse), 0, 2);
    my_news_read(c, at, alive, &call->news);
    call->news.limits_version = get_int(my_answer(c, SQL_limits_now), 0, 1);
    return true;
}

pawl_status my_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, RENEWER);
    bool good;
    int tries = 0;
    while (!(good = renew(s, c, call)) && my_call_again(c, &tries)) {}
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, "renew the node's lease in", err);
    my_store_give(s, c);
    return status;
}

pawl_status my_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, WRITER);
    my_script(c);
    my_put_int(c, node);
    my_add(c, SQL_held);
    pawl_status status = my_send(c, CALL_READS) ? PAWL_OK : my_conn_fail(c, "read the leases in", err);
    const answer *a = my_answer(c, SQL_held);
    pawl_lease *found = status ? NULL : pawl_arena_alloc(arena, (size_t)(a->rows + 1) * sizeof *found);
    if (!status && !found)
        status = err_set(err, PAWL_NO_MEMORY, "could not read the leases in \"%s\": out of memory", s->link.url.name);
    for (int i = 0; found && i < a->rows; i++) found[i] = (pawl_lease){get_int(a, i, 0), get_int(a, i, 1)};
    if (!status) {
        *leases = found;
        *count = a->rows;
    }
    my_store_give(s, c);
    return status;
}

/* ---- numbers for ids ----------------------------------------------------------------------------------------------------- */

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static bool put_number(conn *c, int64_t number, int64_t node, int64_t floor_ms, int64_t ceiling_ms)
{
    my_script(c);
    my_put_int(c, number);
    my_put_int(c, node);
    my_put_int(c, floor_ms);
    my_put_int(c, ceiling_ms);
    my_add(c, SQL_number_put);
    my_add(c, SQL_commit);
    return my_send(c, CALL_WRITES);
}

static bool raise_number(conn *c, pawl_ids *call, int64_t number, int64_t floor_ms, int64_t ceiling_ms, int64_t now_ms)
{
    int64_t raised_ms = most(ceiling_ms, most(most(now_ms, call->used_ms), floor_ms) + call->ahead_ms);
    if (!put_number(c, number, call->node, floor_ms, raised_ms)) return false;
    call->out_number = (int)number;
    call->floor_ms = floor_ms;
    call->ceiling_ms = raised_ms;
    return true;
}

/* One that is free, lowest ceiling first; others may be faster with it. */
static bool take_number(conn *c, pawl_ids *call, int64_t now_ms)
{
    int64_t numbers[64], ceilings[64];
    int count = 0;
    my_script(c);
    my_put_int(c, now_ms);
    my_add(c, SQL_number_free);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_number_free);
    for (; count < a->rows && count < 64; count++) {
        numbers[count] = get_int(a, count, 0);
        ceilings[count] = get_int(a, count, 1);
    }
    for (int i = 0; i < count; i++) {
        my_script(c);
        my_put_int(c, numbers[i]);
        my_put_int(c, ceilings[i]);
        my_add(c, SQL_number_lock);
        if (!my_send(c, CALL_READS)) return false;
        if (my_answer(c, SQL_number_lock)->rows > 0) return raise_number(c, call, numbers[i], ceilings[i], ceilings[i], now_ms);
    }
    return true;
}

static bool give_number(conn *c, const pawl_ids *call, int64_t floor_ms, int64_t ceiling_ms)
{
    int64_t used_ms = call->used_ms < ceiling_ms ? most(call->used_ms, floor_ms) : ceiling_ms;
    return put_number(c, call->number, 0, floor_ms, used_ms);
}

static bool take_ids(my_store *s, conn *c, pawl_ids *call)
{
    call->out_number = 0;
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_server_now);
    my_put_int(c, call->number);
    my_put_int(c, call->node);
    my_add(c, SQL_number_mine);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_number_mine);
    int64_t now_ms = my_instant(s, c).now_us / 1000 - PAWL_EPOCH_MS;
    bool mine = a->rows > 0;
    int64_t floor_ms = mine ? get_int(a, 0, 1) : 0, ceiling_ms = mine ? get_int(a, 0, 2) : 0;
    if (call->give_back) return !mine || give_number(c, call, floor_ms, ceiling_ms);
    if (mine) return raise_number(c, call, call->number, floor_ms, ceiling_ms, now_ms);
    return take_number(c, call, now_ms);
}

pawl_status my_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, WRITER);
    bool good;
    int tries = 0;
    while (!(good = take_ids(s, c, call)) && my_call_again(c, &tries)) {}
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, "take ids from", err);
    if (!status && !call->out_number && !call->give_back)
        status = err_set(
            err, PAWL_UNAVAILABLE,
            "could not take ids from \"%s\": all %d node numbers are in use; one becomes free when a process stops, or ten "
            "minutes after it was last used",
            s->link.url.name, ID_NUMBER_MAX);
    my_store_give(s, c);
    return status;
}
