/* load: a page of another store, in one transaction. (load.c has what batches need to know.)
 *
 * First one message that takes the gate and reads what is there already: tasks, keys, resolutions. Then one with rows by table, as for
 * batches, the gate's new position, and COMMIT. Names, and nodes that only history names, are made before that, in commits of their
 * own: they do no harm if nobody uses them.
 *
 * What people chose (names, keys, headers) must be text that the server takes, or the page is refused; what a run left behind is cleaned.
 */
#include "base/error.h"
#include "core/task.h"
#include "store/mysql/arrive.h"
#include <stdio.h>

static const char what[] = "load tasks into";

static bool no_memory(arriving *l)
{
    my_conn_no_memory(l->c);
    return false;
}

/* ---- what cannot be stored ----------------------------------------------------------------------------------------------- */

static size_t length(const char *text) { return text ? strlen(text) : 0; }

/* A byte may take two as a literal. */
static bool fits(const arriving *l, const pawl_record *t)
{
    size_t most = l->c->packet_max > 65536 ? (l->c->packet_max - 65536) / 2 : 0;
    size_t body = t->body.payload.len + t->body.rate_key.len + length(t->body.headers);
    size_t end = t->result.len + length(t->result_ref) + length(t->error) + length(t->progress_text) + length(t->note);
    bool good = body <= most && end <= most;
    for (int i = 0; i < t->logs_count; i++) good = good && length(t->logs[i].text) <= most;
    return good;
}

static pawl_status check(const arriving *l, pawl_error *err)
{
    for (int i = 0; l->d->part == PAWL_PART_TASKS && i < l->d->count; i++) {
        const pawl_record *t = &l->d->tasks[i];
        bool good = my_body_good(&t->body);
        char id[PAWL_ID_TEXT];
        if (good && fits(l, t)) continue;
        pawl_id_format(t->body.id, id);
        return err_set(err, PAWL_INVALID, "cannot store task \"%s\" in \"%s\": %s", id, l->s->link.url.name,
                       good ? "it is larger than max_allowed_packet of the server allows"
                            : "one of its texts is not UTF-8, or too long");
    }
    return PAWL_OK;
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

static int names_of(const pawl_dump *d, int i, const char **to)
{
    switch (d->part) {
    case PAWL_PART_TASKS:
        to[0] = d->tasks[i].body.type;
        to[1] = d->tasks[i].body.queue;
        to[2] = d->tasks[i].body.tenant;
        return to[2] && to[2][0] ? 3 : 2;
    case PAWL_PART_MINUTES:
        to[0] = d->minutes[i].queue;
        to[1] = d->minutes[i].type;
        return 2;
    case PAWL_PART_SETTINGS: to[0] = d->queues[i].name; return 1;
    case PAWL_PART_LIMITS: to[0] = d->limits[i].type; return 1;
    case PAWL_PART_BUDGETS: to[0] = d->budgets[i].type; return 1;
    case PAWL_PART_BOUNDS:
        to[0] = d->bounds[i].name;
        to[1] = d->bounds[i].key.data; /* of a tenant, as text */
        return d->bounds[i].scope == PAWL_SCOPE_TENANTS && d->bounds[i].key.len > 0 ? 2 : 1;
    case PAWL_PART_SCHEDULES:
        to[0] = d->schedules[i].name;
        to[1] = d->schedules[i].after;
        return to[1] ? 2 : 1;
    default: return 0;
    }
}

/* The numbers of all names of the page. */
static bool number_names(arriving *l)
{
    const pawl_dump *d = l->d;
    const char **missing = pawl_arena_alloc(l->arena, (size_t)(3 * d->count + 1) * sizeof *missing), *some[3];
    l->names = pawl_arena_alloc(l->arena, (size_t)(d->count + 1) * sizeof *l->names);
    for (int tries = 0; missing && l->names && tries < 10; tries++) {
        int count = 0;
        interned_open(&l->s->names);
        for (int i = 0; i < d->count; i++) {
            int n = names_of(d, i, some);
            for (int k = 0; k < n; k++)
                if (!(l->names[i][k] = interned_id(&l->s->names, some[k]))) missing[count++] = some[k];
        }
        interned_close(&l->s->names);
        if (count == 0) return true;
        if (!my_names_fetch(&l->s->names, l->c, missing, count)) return false;
    }
    return no_memory(l);
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static int node_index(arriving *l, const char *name)
{
    for (int i = l->nodes_count - 1; i >= 0; i--)
        if (strcmp(l->nodes[i].name, name) == 0) return i;
    return -1;
}

int64_t my_past_node(arriving *l, const char *name)
{
    int i = name ? node_index(l, name) : -1;
    return i >= 0 ? l->nodes[i].id : 0;
}

static void note_node(arriving *l, const char *name)
{
    if (!name || l->nodes_count == NODES_MOST || node_index(l, name) >= 0) return;
    l->nodes[l->nodes_count++].name = name;
}

/* Those without a number, as a list, or as rows. */
static bool list_nodes(arriving *l, buf *list, bool rows)
{
    buf_clear(list);
    for (int i = 0; i < l->nodes_count; i++) {
        if (l->nodes[i].id) continue;
        buf_str(list, list->len ? rows ? ",(" : "," : rows ? "(" : "");
        lit_clean(l->c, list, l->nodes[i].name, strlen(l->nodes[i].name));
        if (rows) buf_fmt(list, ",0,'','',0,%lld,-1,1,%lld,0)", (long long)l->w.now_us, (long long)l->w.now_us);
    }
    if (list->failed) return no_memory(l);
    return true;
}

static bool find_nodes(arriving *l, buf *list)
{
    if (!list_nodes(l, list, false)) return false;
    if (list->len == 0) return true;
    my_script(l->c);
    my_add(l->c, SQL_server_now);
    my_put_raw(l->c, list->data, list->len);
    my_add(l->c, SQL_past_nodes);
    if (!my_send(l->c, CALL_READS)) return false;
    l->w.now_us = my_instant(l->s, l->c).now_us;
    const answer *a = my_answer(l->c, SQL_past_nodes);
    for (int i = 0; i < a->rows; i++) {
        int k = node_index(l, get_text(a, i, 1));
        if (k >= 0) l->nodes[k].id = get_int(a, i, 0);
    }
    return true;
}

static bool make_nodes(arriving *l, buf *list)
{
    if (!list_nodes(l, list, true)) return false;
    if (list->len == 0) return true;
    my_script(l->c);
    my_put_raw(l->c, list->data, list->len);
    my_add(l->c, SQL_past_nodes_make);
    bool good = my_send(l->c, CALL_WRITES);
    if (!good && l->c->status == PAWL_UNKNOWN) l->c->status = PAWL_UNAVAILABLE; /* a node more does no harm */
    return good && find_nodes(l, list);
}

/* Nodes of another store leave their names only: one swept node for each. */
static bool number_nodes(arriving *l)
{
    const pawl_dump *d = l->d;
    buf list;
    l->nodes = pawl_arena_alloc(l->arena, NODES_MOST * sizeof *l->nodes);
    if (!l->nodes) return no_memory(l);
    for (int i = 0; i < d->count; i++) {
        const pawl_record *t = &d->tasks[i];
        note_node(l, t->node);
        for (int k = 0; k < t->attempts_count; k++) note_node(l, t->attempts[k].node);
        for (int k = 0; k < t->changes_count; k++) note_node(l, t->changes[k].node);
    }
    buf_init(&list, l->s->allocator, 16 << 20);
    bool good = find_nodes(l, &list) && make_nodes(l, &list);
    buf_done(&list);
    return good;
}

/* ---- what is there ------------------------------------------------------------------------------------------------------- */

static void ask_gate(arriving *l)
{
    if (l->call->move) my_add(l->c, SQL_gate_lock);
    else my_add_gate(l->c);
}

static void ask_keys(arriving *l)
{
    work *w = &l->w;
    w->keys = my_work_alloc(w, (size_t)(l->d->count + 1) * sizeof *w->keys);
    w->keys_count = 0;
    for (int i = 0; w->keys && i < l->d->count; i++) {
        const char *key = l->d->tasks[i].body.key;
        if (key) w->keys[w->keys_count++] = (key_row){.key = {key, strlen(key)}, .tenant_id = l->names[i][2]};
    }
    if (w->keys_count) my_add_keys(w, w->keys, w->keys_count);
}

static void ask_tasks(arriving *l)
{
    work *w = &l->w;
    int count = l->d->count, resolved = 0;
    w->ids = my_work_alloc(w, (size_t)(count + 1) * sizeof *w->ids);
    if (!w->ids) return;
    ask_keys(l);
    for (int i = 0; i < count; i++) w->ids[i] = l->d->tasks[i].body.id;
    my_add_ids(l->c, SQL_load_found, w->ids, my_sort_ids(w->ids, count));
    for (int i = 0; i < count; i++)
        if (l->d->tasks[i].resolved_us) w->ids[resolved++] = l->d->tasks[i].body.id;
    my_add_ids(l->c, SQL_failed_lock, w->ids, my_sort_ids(w->ids, resolved));
}

/* Whether the page may be loaded now. */
static pawl_status judge_gate(arriving *l, pawl_error *err)
{
    const char *name = l->s->link.url.name;
    if (!l->call->move)
        return my_gate_closed(l->c) ? err_set(err, PAWL_MOVED, "cannot load tasks into \"%s\": it is closed for a move", name)
                                    : PAWL_OK;
    const answer *a = my_answer(l->c, SQL_gate_lock);
    const char *move = a->rows > 0 ? get_text(a, 0, 1) : NULL, *at = a->rows > 0 ? get_text(a, 0, 2) : NULL;
    if (!move || get_int(a, 0, 0) != PAWL_GATE_ARRIVING || strcmp(move, l->call->move) != 0)
        return err_set(err, PAWL_CONFLICT, "\"%s\" does not take part in this move any more", name);
    l->call->stale = strcmp(at ? at : "", l->call->before ? l->call->before : "") != 0;
    return PAWL_OK;
}

/* By id, in the page; they are sorted, as any dump is. Pages that people made may not be, so -1 is followed by a look at all. */
static int find_task(const arriving *l, pawl_id id)
{
    int low = 0, high = l->d->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (l->d->tasks[middle].body.id < id) low = middle + 1;
        else high = middle;
    }
    if (low < l->d->count && l->d->tasks[low].body.id == id) return low;
    for (int i = 0; i < l->d->count; i++)
        if (l->d->tasks[i].body.id == id) return i;
    return -1;
}

static bool take_in_tasks(arriving *l)
{
    int count = l->d->count;
    l->results = my_work_alloc(&l->w, (size_t)(count + 1) * sizeof *l->results);
    l->open_queue = my_work_alloc(&l->w, (size_t)(count + 1) * sizeof *l->open_queue);
    if (!l->results || !l->open_queue) return no_memory(l);
    for (int i = 0; i < count; i++) l->results[i] = PAWL_LOADED_NEW;
    EACH_ANSWER(a, l->c, SQL_load_found)
    for (int row = 0; row < a->rows; row++) {
        int i = find_task(l, get_int(a, row, 0));
        bool same = get_int(a, row, 1) == l->d->tasks[i].body.created_us && get_int(a, row, 2) == l->names[i][0];
        l->results[i] = same ? PAWL_LOADED_BEFORE : PAWL_LOADED_TAKEN;
    }
    EACH_ANSWER(a, l->c, SQL_failed_lock)
    for (int row = 0; row < a->rows; row++)
        if (get_int(a, row, 5) == 0) l->open_queue[find_task(l, get_int(a, row, 0))] = (int32_t)get_int(a, row, 7);
    my_keys_take_in(&l->w);
    return true;
}

/* An import: of a key there is one live task at most. In a move there is, too, so it need not be looked for. */
static bool judge_keys(arriving *l)
{
    work *w = &l->w;
    int count = 0;
    if (l->call->move) return true;
    for (int i = 0; i < w->keys_count; i++)
        if (w->keys[i].holder) w->ids[count++] = w->keys[i].holder;
    if (!my_load(w, w->ids, count, LOAD_LOCK)) return false;
    for (int i = 0; i < l->d->count; i++) {
        const pawl_body *b = &l->d->tasks[i].body;
        if (l->results[i] != PAWL_LOADED_NEW || !b->key || pawl_state_terminal(l->d->tasks[i].state)) continue;
        const key_row *k = my_key_find(w, (pawl_bytes){b->key, strlen(b->key)}, l->names[i][2]);
        const task_row *holder = k && k->holder != b->id ? my_task(w, k->holder) : NULL;
        if (holder && holder->state && !pawl_state_terminal(holder->state)) l->results[i] = PAWL_LOADED_KEY;
    }
    return true;
}

/* ---- the transaction ----------------------------------------------------------------------------------------------------- */

static bool commit(arriving *l)
{
    work *w = &l->w;
    if (l->call->move) {
        my_put_text(l->c, l->call->position);
        my_add(l->c, SQL_gate_position);
    } else {
        my_add_wake(l->c, w->lane, w->now_us, true);
    }
    my_add(l->c, SQL_commit);
    if (w->no_memory) return no_memory(l);
    return my_send(l->c, CALL_WRITES);
}

/* false: the connection says why. *status: why it is not to be loaded. */
static bool carry_out(arriving *l, pawl_status *status, pawl_error *err)
{
    bool tasks = l->d->part == PAWL_PART_TASKS;
    work *w = &l->w;
    my_script(l->c);
    my_add(l->c, SQL_begin);
    my_add(l->c, SQL_server_now);
    ask_gate(l);
    if (tasks) ask_tasks(l);
    if (w->no_memory) return no_memory(l);
    if (!my_send(l->c, CALL_READS)) return false;
    w->now_us = w->boot_us = my_instant(l->s, l->c).now_us;
    *status = judge_gate(l, err);
    if (*status || l->call->stale) return true;
    if (tasks && (!take_in_tasks(l) || !judge_keys(l) || !my_arrive_judge_kin(l))) return false;
    if (l->d->part == PAWL_PART_SCHEDULES && !my_arrive_ask_schedules(l)) return false;
    my_script(l->c);
    my_arrive_rows(l);
    return commit(l);
}

static bool attempt(arriving *l, pawl_status *status, pawl_error *err)
{
    my_work_begin(&l->w, l->s, l->c, l->arena);
    l->w.lane = l->call->move ? 0 : my_new_lane(l->s);
    l->call->stale = false;
    bool good = my_limits_copy(l->s, l->arena, &l->w.limits) ? carry_out(l, status, err) : no_memory(l);
    my_work_done(&l->w);
    my_rollback(l->c);
    return good;
}

static pawl_status fail(const arriving *l, pawl_error *err)
{
    if (!my_conn_about_data(l->c)) return my_conn_fail(l->c, what, err);
    return err_set(err, PAWL_INVALID, "cannot load tasks into \"%s\": one of them is too large, or contradicts itself: %s",
                   l->s->link.url.name, l->c->why);
}

static pawl_status load(arriving *l, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    int tries = 0, duplicates = 0;
    if (!my_conn_ready(l->c)) return my_conn_fail(l->c, what, err);
    status = check(l, err);
    if (status) return status;
    if (!number_names(l) || (l->d->part == PAWL_PART_TASKS && !number_nodes(l))) return my_conn_fail(l->c, what, err);
    if (!my_limits_fetch(l->s, l->c)) return my_conn_fail(l->c, what, err);
    while (!attempt(l, &status, err)) {
        if (my_call_again(l->c, &tries)) continue;
        if (!my_conn_code(l->c, ER_DUP_ENTRY) || ++duplicates > 8) return fail(l, err); /* somebody else was quicker */
    }
    if (status || l->call->stale) return status;
    for (int i = 0; l->call->results && l->d->part == PAWL_PART_TASKS && i < l->d->count; i++)
        l->call->results[i] = l->results[i];
    if (!l->call->move) my_ready_chill(&l->s->ready);
    return PAWL_OK;
}

pawl_status my_arrive(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err)
{
    my_store *s = store_of(store);
    arriving l = {.s = s, .call = call, .d = call->page, .arena = arena};
    l.c = my_store_take(s, WRITER);
    pawl_status status = load(&l, err);
    my_store_give(s, l.c);
    return status;
}
