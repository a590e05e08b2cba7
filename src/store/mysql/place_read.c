/* What people see of concurrency limits: bounds, and spots that somebody has a place of, or waits at. */
#include "store/budget.h"
#include "store/mysql/place.h"
#include "store/mysql/read.h"
#include <stdio.h>

#define PAGE 200 /* rows of SQL_places_list */

enum { SCOPE, NAME, KEY, OWN, ALL, TAKEN, BLOCKED, HOLDER, TENANT }; /* its columns */

static int read_most(const answer *a, int row, int column, bool *ordered)
{
    const char *text = get_text(a, row, column);
    char *end = NULL;
    long most = text ? strtol(text, &end, 10) : 0;
    *ordered = most > 0 && strtol(end, NULL, 10) != 0;
    return (int)most;
}

static void describe(reading *r, const answer *a, int row, pawl_place_info *info)
{
    info->most = read_most(a, row, OWN, &info->ordered);
    info->own = info->most > 0;
    if (!info->own) info->most = read_most(a, row, ALL, &info->ordered);
    info->taken = get_int(a, row, TAKEN);
    info->blocked = get_int(a, row, BLOCKED);
    info->holder = get_int(a, row, HOLDER);
    if (!get_null(a, row, TENANT)) info->key = my_read_bytes(r, a, row, TENANT);
}

static bool same_key(pawl_bytes a, pawl_bytes b) { return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0); }

static void put_filter(const conn *c, buf *b, const pawl_place_filter *f)
{
    buf_str(b, "TRUE");
    if (f->scope) buf_fmt(b, " AND x.scope = %d", (int)f->scope);
    if (f->name) {
        buf_str(b, " AND n.text = ");
        lit_bytes(c, b, (pawl_bytes){f->name, strlen(f->name)});
    }
}

/* Where the page before ended. */
typedef struct place_at {
    int scope;
    const char *name;
    pawl_bytes key; /* as stored */
} place_at;

static bool ask_page(reading *r, const pawl_place_filter *f, const place_at *at)
{
    buf which;
    buf_init(&which, r->s->allocator, 64 << 10);
    put_filter(r->c, &which, f);
    if (which.failed) r->no_memory = true;
    my_script(r->c);
    my_put_int(r->c, at->scope);
    my_put_bytes(r->c, (pawl_bytes){at->name, strlen(at->name)});
    my_put_bytes(r->c, at->key.data ? at->key : (pawl_bytes){"", 0});
    my_put_raw(r->c, buf_text(&which), which.len);
    my_put_int(r->c, f->task);
    bool good = my_ask(r, SQL_places_list);
    buf_done(&which);
    return good && !r->no_memory;
}

static const char *cursor_of(reading *r, const place_at *last)
{
    char name[1100];
    snprintf(name, sizeof name, "%d%s", last->scope, last->name);
    return budget_cursor(r->arena, name, last->key);
}

/* false: that was all, or there is no more room. */
static bool take_page(reading *r, const pawl_place_filter *f, pawl_places *out, pawl_place_info *infos, place_at *at,
                      place_at *last)
{
    const answer *a = my_answer(r->c, SQL_places_list);
    for (int i = 0; i < a->rows && !r->no_memory; i++) {
        *at = (place_at){(int)get_int(a, i, SCOPE), my_read_text(r, a, i, NAME), my_read_bytes(r, a, i, KEY)};
        pawl_place_info info = {.scope = (pawl_scope)at->scope, .name = at->name, .key = at->key};
        describe(r, a, i, &info);
        if ((f->blocked && info.blocked == 0) || (f->key.len && !same_key(f->key, info.key))) continue;
        if (out->count == (size_t)f->limit) {
            out->next = cursor_of(r, last);
            return false;
        }
        *last = *at;
        infos[out->count++] = info;
    }
    return a->rows == PAGE;
}

bool my_places_read(reading *r, pawl_query *query)
{
    const pawl_place_filter *f = query->place_filter;
    place_at at = {.name = ""}, last = at;
    if (f->cursor) {
        if (!budget_cursor_read(r->arena, f->cursor, &at.name, &at.key) || at.name[0] < '0' || at.name[0] > '9') return false;
        at.scope = at.name[0] - '0';
        at.name++;
    }
    pawl_places *out = query->places = my_read_alloc(r, sizeof *out);
    pawl_place_info *infos = my_read_alloc(r, ((size_t)f->limit + 1) * sizeof *infos);
    if (!out || !infos) return true;
    out->places = infos;
    while (!r->failed && ask_page(r, f, &at) && take_page(r, f, out, infos, &at, &last)) {}
    return true;
}
