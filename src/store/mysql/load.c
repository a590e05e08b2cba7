/* Tasks as they stand: read before anything is changed, and locked where they will be.
 *
 * A task that goes from one table to another while they are read one after the other is found in none of them. It has a body, though:
 * then it is looked for again. What was locked stands still.
 */
#include "store/mysql/place.h"
#include <mysqld_error.h>

typedef struct known_task {
    map_node node;
    task_row row;
} known_task;

void *my_work_alloc(work *w, size_t size)
{
    void *ptr = pawl_arena_alloc(w->arena, size);
    if (!ptr) w->no_memory = true;
    return ptr;
}

static known_task *find(const work *w, pawl_id id)
{
    for (map_node *node = map_get(&w->tasks, (uint64_t)id); node; node = map_next(node))
        if (((known_task *)node)->row.id == id) return (known_task *)node;
    return NULL;
}

task_row *my_task(work *w, pawl_id id)
{
    known_task *known = find(w, id);
    return known && (known->row.state || known->row.body) ? &known->row : NULL;
}

task_row *my_task_learn(work *w, pawl_id id)
{
    known_task *known = find(w, id);
    if (!known) {
        known = my_work_alloc(w, sizeof *known);
        if (!known) return NULL;
        map_put(&w->tasks, &known->node, (uint64_t)id);
    }
    known->row = (task_row){.id = id, .progress = -1};
    return &known->row;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

void my_read_live(task_row *row, const answer *a, int i)
{
    int at = 0;
    row->id = get_int(a, i, at++);
    row->run_at_us = get_int(a, i, at++);
    row->queue_id = (int32_t)get_int(a, i, at++);
    row->type_id = (int32_t)get_int(a, i, at++);
    row->fence = get_int(a, i, at++);
    row->priority = (int)get_int(a, i, at++);
    row->class = (int)get_int(a, i, at++);
    row->state = (pawl_state)get_int(a, i, at++);
    row->level = (int)get_int(a, i, at++);
    row->keyed = get_int(a, i, at++) != 0;
    row->runs = (int)get_int(a, i, at++);
    row->failures = (int)get_int(a, i, at++);
    row->interruptions = (int)get_int(a, i, at++);
    row->rescues = (int)get_int(a, i, at++);
    row->strikes = (int)get_int(a, i, at++);
}

void my_read_leased(work *w, task_row *row, const answer *a, int i)
{
    int at = 0;
    row->id = get_int(a, i, at++);
    row->state = PAWL_LEASED;
    row->leased_us = get_int(a, i, at++);
    row->born_leased = get_null(a, i, at);
    row->run_at_us = row->born_leased ? row->leased_us : get_int(a, i, at);
    at++;
    row->started_us = get_null(a, i, at) ? row->leased_us : get_int(a, i, at);
    at++;
    row->node = get_int(a, i, at++);
    row->queue_id = (int32_t)get_int(a, i, at++);
    row->type_id = (int32_t)get_int(a, i, at++);
    row->fence = get_int(a, i, at++);
    row->priority = (int)get_int(a, i, at++);
    row->class = (int)get_int(a, i, at++);
    row->level = (int)get_int(a, i, at++);
    row->keyed = get_int(a, i, at++) != 0;
    row->strikes = (int)get_int(a, i, at++);
    row->runs = (int)get_int(a, i, at++);
    row->failures = (int)get_int(a, i, at++);
    row->interruptions = (int)get_int(a, i, at++);
    row->rescues = (int)get_int(a, i, at++);
    row->not_started = get_int(a, i, at++) != 0;
    row->mark = get_int(a, i, at++) != 0;
    row->cancel_asked = get_int(a, i, at++) != 0;
    row->progress = get_null(a, i, at) ? -1 : (int)get_int(a, i, at);
    at++;
    if (get_null(a, i, at)) return;
    row->progress_text = pawl_arena_str(w->arena, get_text(a, i, at));
    if (!row->progress_text) w->no_memory = true;
}

static void read_end(task_row *row, const answer *a, int i)
{
    row->state = (pawl_state)get_int(a, i, 1);
    row->fence = get_int(a, i, 2);
    row->run_at_us = get_int(a, i, 3);
    row->retried_as = get_int(a, i, 4);
    row->resolved = get_int(a, i, 5) != 0;
    row->unreadable = get_int(a, i, 6) != 0;
    row->queue_id = (int32_t)get_int(a, i, 7);
}

/* Answered after the rows. */
static void read_heads(work *w, const answer *a)
{
    for (int i = 0; i < a->rows; i++) {
        known_task *known = find(w, get_int(a, i, 0));
        rate_head *head = known ? my_work_alloc(w, sizeof *head) : NULL;
        if (!head) continue;
        pawl_bytes key = get_bytes(a, i, 1), slot_key = get_bytes(a, i, 2);
        *head = (rate_head){.slotted = !get_null(a, i, 2), .epoch = get_int(a, i, 3)};
        head->key = (pawl_bytes){pawl_arena_bytes(w->arena, key.len ? key.data : "", key.len), key.len};
        head->slot_key = (pawl_bytes){pawl_arena_bytes(w->arena, slot_key.len ? slot_key.data : "", slot_key.len), slot_key.len};
        if (!head->key.data || !head->slot_key.data) w->no_memory = true;
        known->row.head = head;
    }
}

void my_take_in(work *w)
{
    for (int k = 0; k < w->c->answers_count; k++) {
        const answer *a = &w->c->answers[k];
        bool live = a->which == SQL_live_lock || a->which == SQL_live_look || a->which == SQL_live_share;
        bool leased = a->which == SQL_leased_lock || a->which == SQL_leased_look || a->which == SQL_leased_share;
        bool ended = a->which == SQL_ends_look || a->which == SQL_done_lock || a->which == SQL_failed_lock;
        for (int i = 0; i < a->rows && (live || leased || ended); i++) {
            task_row *row = my_task_learn(w, get_int(a, i, 0));
            if (!row) return;
            if (live) my_read_live(row, a, i);
            else if (leased) my_read_leased(w, row, a, i);
            else read_end(row, a, i);
        }
        if (a->which == SQL_rate_heads) read_heads(w, a);
    }
}

/* ---- wherever they are --------------------------------------------------------------------------------------------------- */

#define LOOKS 20

/* Something is wrong with these tasks: they are there, and in no state. */
static bool give_up(work *w, const pawl_id *ids, int count, load_mode mode)
{
    for (int i = 0; i < count && mode == LOAD_LOOK; i++) {
        task_row *row = my_task_learn(w, ids[i]);
        if (row) row->body = true;
    }
    if (mode != LOAD_LOOK) my_conn_note(w->c, PAWL_UNAVAILABLE, ER_LOCK_DEADLOCK, "a task does not stand still");
    return mode == LOAD_LOOK;
}

/* Keeps those that have a body and were found nowhere. */
static int still_missing(work *w, pawl_id *ids)
{
    int missing = 0;
    EACH_ANSWER(a, w->c, SQL_bodies_look)
    for (int i = 0; i < a->rows; i++)
        if (!my_task(w, get_int(a, i, 0))) ids[missing++] = get_int(a, i, 0);
    return missing;
}

bool my_load(work *w, pawl_id *ids, int count, load_mode mode)
{
    static const sql_name live[] = {SQL_live_look, SQL_live_share, SQL_live_lock},
                          leased[] = {SQL_leased_look, SQL_leased_share, SQL_leased_lock};
    conn *c = w->c;
    count = my_sort_ids(ids, count);
    for (int looks = 0; count > 0; looks++) {
        if (looks == LOOKS) return give_up(w, ids, count, mode);
        my_script(c);
        my_add_ids(c, live[mode], ids, count);
        my_add_ids(c, leased[mode], ids, count);
        bool heads = w->limits.count || w->limits.bounds_count || (w->borrowed && w->f->rated);
        if (mode == LOAD_LOCK && heads) my_add_ids(c, SQL_rate_heads, ids, count);
        if (mode == LOAD_LOCK) my_places_verify(w, ids, count);
        my_add_ids(c, SQL_ends_look, ids, count);
        my_add_ids(c, SQL_bodies_look, ids, count);
        if (!my_send(c, CALL_READS)) return false;
        my_take_in(w);
        if (w->no_memory) my_conn_no_memory(c);
        if (w->no_memory || !my_spots_take_in(w)) return false;
        count = still_missing(w, ids);
    }
    return true;
}
