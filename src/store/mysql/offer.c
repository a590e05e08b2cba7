/* Places as tasks come and go: who leaves frees them, what is free is offered to those that are blocked, who comes lines up.
 *
 * Operations only note what happens. Once all of them have been carried out, and before anything is stored, what is free is offered (the
 * first blocked tasks of each line may be claimed again), and then the new ones look whether there is room.
 */
#include "store/mysql/place.h"
#include "core/limit.h"
#include <stdlib.h>

#define OFFER_MOST 2000   /* tasks unblocked at a spot at once */
#define SPOTS_AT_ONCE 200 /* spots asked about in one message */
#define LINES_MOST 2000   /* of a spot */
#define LINE_STEPS 16     /* lines asked for in one message */

typedef struct lining { /* a pending task that is about to be stored */
    struct lining *next;
    task_row row;
    pawl_bytes key;
    int32_t tenant_id;
} lining;

/* ---- leaving ------------------------------------------------------------------------------------------------------------- */

static void leave(work *w, spot *s, pawl_id id, bool ends)
{
    for (int i = s->count - 1; i >= 0; i--) {
        if (s->places[i].id != id) continue;
        if (ends || !spot_kept(s)) my_place_drop(w, s, i);
        else s->places[i].leased = false;
    }
}

void my_places_leave(work *w, pawl_id id, bool ends)
{
    map_each(node, &w->spots) leave(w, (spot *)node, id, ends);
}

void my_places_withdraw(work *w, const task_row *row)
{
    spot *wants[SPOTS_MAX];
    my_places_leave(w, row->id, true);
    if (!my_bounded(&w->limits, row->queue_id, row->type_id)) return;
    pawl_bytes key = row->head ? row->head->key : (pawl_bytes){0};
    int count = my_spots_of(w, row->queue_id, row->type_id, key, wants);
    for (int i = 0; i < count; i++) wants[i]->touched = true;
}

void my_places_end(work *w, const task_row *row)
{
    if (row->state == PAWL_PENDING) my_places_withdraw(w, row);
    else my_places_leave(w, row->id, true);
}

/* ---- offers -------------------------------------------------------------------------------------------------------------- */

static int free_places(const spot *s)
{
    bound_said b = spot_bound(s);
    if (b.most == 0) return OFFER_MOST;
    if (b.ordered) return s->count == 0;
    return b.most - s->count < OFFER_MOST ? b.most - s->count : OFFER_MOST;
}

static bool keeps_order(const spot *s)
{
    bound_said b = spot_bound(s);
    return b.most > 0 && b.ordered;
}

static void put_spot(work *w, const spot *s)
{
    my_put_int(w->c, s->scope);
    my_put_int(w->c, s->name_id);
    my_put_bytes(w->c, s->key);
}

static void unblock(work *w, pawl_id id, pawl_bytes line)
{
    char queue[9] = "";
    if (line.data && line.len >= 8) memcpy(queue, line.data, 8);
    my_note_id(w, &w->unblocked, id);
    bool turns = my_bound_on(&w->limits, PAWL_SCOPE_TENANTS, (int32_t)strtol(queue, NULL, 16));
    my_note_id(w, turns ? &w->shared : &w->readied, id);
    w->offers_left--;
    w->backs = true;
}

/* Which lines there are, the first and the last one; of those that keep an order who comes next. */
static bool ask_lines(work *w, spot **some, int count)
{
    my_script(w->c);
    for (int i = 0; i < count; i++) {
        put_spot(w, some[i]);
        if (keeps_order(some[i])) my_put_raw(w->c, "b.line", 6);
        my_put_int(w->c, i);
        my_add(w->c, keeps_order(some[i]) ? SQL_order_first : SQL_line_ends);
    }
    return my_send(w->c, CALL_READS);
}

static void take_first(work *w, spot **some)
{
    EACH_ANSWER(a, w->c, SQL_order_first)
    if (a->rows > 0 && w->offers_left > 0) {
        spot *s = some[get_int(a, 0, 0)];
        unblock(w, get_int(a, 0, 1), get_bytes(a, 0, 2));
        my_place_take(w, s, get_int(a, 0, 1), false);
    }
}

typedef struct offer {
    int spot;
    pawl_bytes line;
} offer;

typedef struct offers {
    offer *all;
    int count, room;
} offers;

static bool same_line(pawl_bytes a, pawl_bytes b) { return a.len == b.len && memcmp(a.data, b.data, a.len) == 0; }

static pawl_bytes add_line(work *w, offers *o, int spot, pawl_bytes line)
{
    if (o->count == o->room) {
        int room = 2 * o->room + 64;
        offer *grown = my_work_alloc(w, (size_t)room * sizeof *grown);
        if (grown && o->count) memcpy(grown, o->all, (size_t)o->count * sizeof *grown);
        if (!grown) return (pawl_bytes){0};
        o->all = grown;
        o->room = room;
    }
    const char *copy = pawl_arena_bytes(w->arena, line.data, line.len);
    if (!copy) w->no_memory = true;
    else o->all[o->count++] = (offer){spot, {copy, line.len}};
    return (pawl_bytes){copy, copy ? line.len : 0};
}

/* From the first line to the last, both are known. */
static bool walk_lines(work *w, offers *o, spot **some, int spot, pawl_bytes first, pawl_bytes last)
{
    pawl_bytes at = add_line(w, o, spot, first);
    int from = o->count;
    while (at.len && !same_line(at, last) && o->count - from < LINES_MOST) {
        my_script(w->c);
        my_put_bytes(w->c, at);
        my_add(w->c, SQL_line_from);
        for (int i = 0; i < LINE_STEPS; i++) {
            put_spot(w, some[spot]);
            my_add(w->c, SQL_line_step);
            my_add(w->c, SQL_line_at);
        }
        if (!my_send(w->c, CALL_READS)) return false;
        EACH_ANSWER(a, w->c, SQL_line_at)
        {
            at.len = 0;
            if (!get_null(a, 0, 0)) at = add_line(w, o, spot, get_bytes(a, 0, 0));
            if (at.len == 0) break;
        }
    }
    return true;
}

static bool read_lines(work *w, offers *o, spot **some)
{
    offers ends = {0};
    EACH_ANSWER(a, w->c, SQL_line_ends)
    if (!get_null(a, 0, 1)) {
        add_line(w, &ends, (int)get_int(a, 0, 0), get_bytes(a, 0, 1));
        add_line(w, &ends, (int)get_int(a, 0, 0), get_bytes(a, 0, 2));
    }
    if (w->no_memory) return true;
    for (int i = 0; i < ends.count; i += 2)
        if (!walk_lines(w, o, some, ends.all[i].spot, ends.all[i].line, ends.all[i + 1].line)) return false;
    return true;
}

static bool offer_lines(work *w, spot **some)
{
    offers o = {0};
    if (!read_lines(w, &o, some)) return false;
    if (o.count == 0) return true;
    my_script(w->c);
    for (int i = 0; i < o.count; i++) {
        const spot *s = some[o.all[i].spot];
        int most = free_places(s);
        put_spot(w, s);
        my_put_bytes(w->c, o.all[i].line);
        my_put_int(w->c, i);
        my_put_int(w->c, most < w->offers_left ? most : w->offers_left);
        my_add(w->c, SQL_line_first);
    }
    if (!my_send(w->c, CALL_READS)) return false;
    EACH_ANSWER(a, w->c, SQL_line_first)
    for (int i = 0; i < a->rows && w->offers_left > 0; i++) unblock(w, get_int(a, i, 1), o.all[get_int(a, i, 0)].line);
    return true;
}

/* What is free at some of the spots that were touched; *more: there are others. */
static bool offer_some(work *w, bool *more)
{
    spot *some[SPOTS_AT_ONCE];
    int count = 0;
    *more = false;
    map_each(node, &w->spots) {
        spot *s = (spot *)node;
        if (!s->touched) continue;
        if (count == SPOTS_AT_ONCE || w->offers_left <= 0) {
            *more = w->offers_left > 0;
            break;
        }
        s->touched = false;
        if (free_places(s) > 0) some[count++] = s;
    }
    if (count == 0) return true;
    if (!ask_lines(w, some, count)) return false;
    take_first(w, some);
    return offer_lines(w, some);
}

static bool any_to_offer(const work *w)
{
    map_each(node, &w->spots) {
        const spot *s = (const spot *)node;
        if (s->touched && free_places(s) > 0) return true;
    }
    return false;
}

/* ---- coming -------------------------------------------------------------------------------------------------------------- */

bool my_place_ordered(work *w, int32_t queue_id, int32_t type_id, pawl_bytes rate_key)
{
    spot *wants[SPOTS_MAX];
    if (w->borrowed || rate_key.len == 0 || !my_bound_ordered(&w->limits, type_id)) return false;
    return my_spots_of(w, queue_id, type_id, rate_key, wants) > 0 && spot_bound(wants[0]).ordered;
}

bool my_places_line_up(work *w, const task_row *row, pawl_bytes rate_key, int32_t tenant_id)
{
    char room[LIMIT_KEY_ROOM];
    if (w->borrowed || !my_bounded(&w->limits, row->queue_id, row->type_id)) return false;
    lining *l = my_work_alloc(w, sizeof *l);
    pawl_bytes key = rate_key.len ? limit_key(rate_key, room) : rate_key;
    const char *copy = l ? pawl_arena_bytes(w->arena, key.len ? key.data : "", key.len) : NULL;
    if (!copy) {
        w->no_memory = true;
        return true;
    }
    *l = (lining){.next = w->lining, .row = *row, .key = {copy, key.len}, .tenant_id = tenant_id};
    w->lining = l;
    return true;
}

static int by_id(const void *a, const void *b)
{
    const lining *x = *(lining *const *)a, *y = *(lining *const *)b;
    return x->row.id < y->row.id ? -1 : x->row.id > y->row.id;
}

static void line_up(work *w, const lining *l)
{
    spot *wants[SPOTS_MAX];
    int count = my_spots_of(w, l->row.queue_id, l->row.type_id, l->key, wants);
    const spot *full = NULL;
    for (int i = 0; i < count && !full; i++) {
        spot *s = wants[i];
        bool ordered = spot_bound(s).ordered, room = my_spot_room(s, l->row.id);
        if (!room && (ordered || l->row.run_at_us <= w->now_us)) full = s;
        else if (room && ordered && !my_spot_has(s, l->row.id)) my_place_take(w, s, l->row.id, false);
    }
    if (full) {
        my_live_put_blocked(w, &l->row);
        my_block(w, full, &l->row, l->tenant_id);
    } else {
        my_live_put(w, &l->row);
    }
}

static void line_up_all(work *w)
{
    int count = 0, n = 0;
    for (const lining *l = w->lining; l; l = l->next) count++;
    if (count == 0) return;
    lining **all = my_work_alloc(w, (size_t)count * sizeof *all);
    for (lining *l = w->lining; all && l; l = l->next) all[n++] = l;
    if (n) qsort(all, (size_t)n, sizeof *all, by_id);
    for (int i = 0; i < n && !w->failed; i++) line_up(w, all[i]);
    w->lining = NULL;
}

bool my_places_settle(work *w)
{
    bool more = any_to_offer(w);
    /* Questions would lose what the script has gathered, so it is sent first. */
    if (more && !my_send(w->c, CALL_READS)) return false;
    bool asked = more;
    while (more && !w->no_memory)
        if (!offer_some(w, &more)) return false;
    if (asked) my_script(w->c);
    line_up_all(w);
    return !w->failed;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

void my_places_flush(work *w)
{
    map_each(node, &w->spots) {
        const spot *s = (const spot *)node;
        for (int i = 0; i < s->count; i++) {
            if (!s->places[i].fresh) continue;
            buf *b = &w->tables[TABLE_PLACES].text;
            my_rows_begin(w, TABLE_PLACES);
            buf_fmt(b, "%d,%d,", (int)s->scope, (int)s->name_id);
            lit_bytes(w->c, b, s->key);
            buf_fmt(b, ",%d,%lld", s->places[i].number, (long long)s->places[i].id);
            my_rows_end(w, TABLE_PLACES);
        }
    }
}
