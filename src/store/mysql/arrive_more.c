/* What comes from another store beside tasks and numbers: concurrency limits, and the lines of ordered keys. */
#include "core/limit.h"
#include "store/mysql/arrive.h"
#include "store/mysql/place.h"

void my_arrive_add(arriving *l, buf *b, sql_name which)
{
    if (b->failed) l->w.no_memory = true;
    if (b->len && !b->failed) {
        my_put_raw(l->c, b->data, b->len);
        my_add(l->c, which);
    }
    buf_clear(b);
}

/* ---- concurrency limits -------------------------------------------------------------------------------------------------- */

static void put_bound(arriving *l, buf *b, const pawl_past_bound *past, const int32_t ids[3])
{
    bool tenant = past->scope == PAWL_SCOPE_TENANTS && past->key.len > 0;
    buf_fmt(b, "%s(%d,%d,", b->len ? "," : "", (int)past->scope, (int)ids[0]);
    if (tenant) buf_fmt(b, "'%d'", (int)ids[1]);
    else lit_bytes(l->c, b, past->key.len ? past->key : (pawl_bytes){"", 0});
    buf_fmt(b, ",%d,%d,%lld)", past->most, past->ordered, (long long)l->w.now_us);
    if (past->scope != PAWL_SCOPE_TENANTS || tenant) return;
    my_put_int(l->c, ids[0]);
    my_add(l->c, SQL_turn_make);
}

/* Who is in a line where nobody has the turn gets it. */
void my_arrive_bounds(arriving *l, buf *b)
{
    for (int i = 0; i < l->d->count; i++) put_bound(l, b, &l->d->bounds[i], l->names[i]);
    if (b->len == 0) return;
    my_arrive_add(l, b, SQL_load_bounds);
    my_add(l->c, SQL_limits_changed);
    my_add(l->c, SQL_load_turns_taken);
    my_add(l->c, SQL_load_turns_ready);
    my_add(l->c, SQL_load_turns_shared);
    my_add(l->c, SQL_load_turns_told);
}

/* ---- lines --------------------------------------------------------------------------------------------------------------- */

static spot spot_of(const pawl_record *t, const task_row *row, char room[LIMIT_KEY_ROOM])
{
    return (spot){.scope = PAWL_SCOPE_KEYS, .name_id = row->type_id, .key = limit_key(t->body.rate_key, room)};
}

/* true: it is stored, as blocked. */
bool my_arrive_blocked(arriving *l, const pawl_record *t, const task_row *row, int32_t tenant_id)
{
    char room[LIMIT_KEY_ROOM];
    if (t->line != PAWL_LINE_WAITS || !l->call->move || !l->w.limits.bounds_count) return false;
    spot s = spot_of(t, row, room);
    my_live_put_blocked(&l->w, row);
    my_block(&l->w, &s, row, tenant_id);
    return true;
}

static void add_spot(arriving *l, buf *b, const pawl_record *t, int32_t type_id, bool place)
{
    char room[LIMIT_KEY_ROOM];
    buf_fmt(b, "%s(%d,%d,", b->len ? "," : "", (int)PAWL_SCOPE_KEYS, (int)type_id);
    lit_bytes(l->c, b, limit_key(t->body.rate_key, room));
    if (place) buf_fmt(b, ",1,%lld", (long long)t->body.id);
    buf_char(b, ')');
}

void my_arrive_lines(arriving *l)
{
    buf spots, places;
    if (!l->call->move || !l->w.limits.bounds_count) return;
    buf_init(&spots, l->s->allocator, 64 << 20);
    buf_init(&places, l->s->allocator, 64 << 20);
    for (int i = 0; i < l->d->count; i++) {
        const pawl_record *t = &l->d->tasks[i];
        if (!t->line || l->results[i] != PAWL_LOADED_NEW) continue;
        add_spot(l, &spots, t, l->names[i][0], false);
        if (t->line == PAWL_LINE_HOLDS) add_spot(l, &places, t, l->names[i][0], true);
    }
    my_arrive_add(l, &spots, SQL_load_spots);
    my_arrive_add(l, &places, SQL_load_places);
    buf_done(&spots);
    buf_done(&places);
}
