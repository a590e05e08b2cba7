/* Fetching names into the cache. */
#include "store/mysql/names.h"

/* Takes in what the script answered. */
static bool learn(interned *n, conn *c)
{
    bool whole = true;
    size_t rows = 0;
    for (int i = 0; i < c->answers_count; i++) rows += (size_t)c->answers[i].rows;
    interned_open(n);
    interned_expect(n, rows);
    for (int i = 0; i < c->answers_count; i++)
        for (int row = 0; row < c->answers[i].rows && whole; row++)
            whole = interned_put(n, (int32_t)get_int(&c->answers[i], row, 0), get_text(&c->answers[i], row, 1));
    interned_close(n);
    my_answers_forget(c);
    if (!whole) my_conn_no_memory(c);
    return whole;
}

static bool ask(interned *n, conn *c, sql_name which, const buf *list)
{
    my_script(c);
    my_put_raw(c, buf_text(list), list->len);
    my_add(c, which);
    if (list->failed) {
        my_conn_no_memory(c);
        return false;
    }
    return my_send(c, CALL_READS) && learn(n, c);
}

static bool make(conn *c, const buf *rows)
{
    my_script(c);
    my_put_raw(c, buf_text(rows), rows->len);
    my_add(c, SQL_names_make);
    if (rows->failed) {
        my_conn_no_memory(c);
        return false;
    }
    bool good = my_send(c, CALL_WRITES);
    if (!good && c->status == PAWL_UNKNOWN) c->status = PAWL_UNAVAILABLE; /* a name more or less does no harm */
    return good;
}

/* Those that are not in the cache, as a list, or as rows; false: there is none. */
static bool list_missing(interned *n, const conn *c, buf *list, const char *const *texts, int count, bool rows)
{
    buf_clear(list);
    interned_open(n);
    for (int i = 0; i < count; i++) {
        if (!texts[i] || interned_id(n, texts[i])) continue;
        if (i > 0 && texts[i - 1] && strcmp(texts[i], texts[i - 1]) == 0) continue;
        if (list->len) buf_char(list, ',');
        if (rows) buf_char(list, '(');
        lit_bytes(c, list, (pawl_bytes){texts[i], strlen(texts[i])});
        if (rows) buf_char(list, ')');
    }
    interned_close(n);
    return list->len > 0;
}

bool my_names_fetch(interned *n, conn *c, const char *const *texts, int count)
{
    buf list;
    buf_init(&list, n->allocator, 256 << 20);
    bool good = true;
    if (list_missing(n, c, &list, texts, count, false)) good = ask(n, c, SQL_names, &list);
    if (good && list_missing(n, c, &list, texts, count, true)) {
        good = make(c, &list);
        if (good && list_missing(n, c, &list, texts, count, false)) good = ask(n, c, SQL_names, &list);
    }
    buf_done(&list);
    return good;
}

bool my_names_fetch_ids(interned *n, conn *c, const int32_t *ids, int count)
{
    buf list;
    buf_init(&list, n->allocator, 64 << 20);
    interned_open(n);
    for (int i = 0; i < count; i++) {
        if (!ids[i] || interned_text(n, ids[i])) continue;
        if (list.len) buf_char(&list, ',');
        lit_int(&list, ids[i]);
    }
    interned_close(n);
    bool good = list.len == 0 || ask(n, c, SQL_texts, &list);
    buf_done(&list);
    return good;
}
