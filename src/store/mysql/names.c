/* The cache of names. It is emptied when it has grown too large, which happens only while nobody has it open. */
#include "store/mysql/names.h"
#include "base/alloc.h"

#define NAMES_MAX 65536

typedef struct name_entry {
    map_node by_text, by_id;
    int32_t id;
    char text[];
} name_entry;

static void start(names *n)
{
    map_init(&n->by_text, n->allocator);
    map_init(&n->by_id, n->allocator);
    n->last = NULL;
    n->count = 0;
}

static void clear(names *n)
{
    map_each(node, &n->by_id) alloc_free(n->allocator, (name_entry *)((char *)node - offsetof(name_entry, by_id)));
    map_done(&n->by_text);
    map_done(&n->by_id);
    start(n);
}

void my_names_init(names *n, const pawl_allocator *a)
{
    *n = (names){.allocator = a};
    pthread_mutex_init(&n->lock, NULL);
    start(n);
}

void my_names_done(names *n)
{
    if (!n->allocator) return;
    clear(n);
    map_done(&n->by_text);
    map_done(&n->by_id);
    pthread_mutex_destroy(&n->lock);
    n->allocator = NULL;
}

void my_names_open(names *n) { pthread_mutex_lock(&n->lock); }

void my_names_close(names *n) { pthread_mutex_unlock(&n->lock); }

static uint64_t hash(const char *text) { return hash_bytes(text, strlen(text), 0); }

static name_entry *by_text(names *n, const char *text)
{
    if (n->last && strcmp(n->last->text, text) == 0) return n->last;
    for (map_node *node = map_get(&n->by_text, hash(text)); node; node = map_next(node)) {
        name_entry *e = (name_entry *)((char *)node - offsetof(name_entry, by_text));
        if (strcmp(e->text, text) == 0) return n->last = e;
    }
    return NULL;
}

static name_entry *by_id(names *n, int32_t id)
{
    if (n->last && n->last->id == id) return n->last;
    map_node *node = map_get(&n->by_id, (uint64_t)id);
    return node ? n->last = (name_entry *)((char *)node - offsetof(name_entry, by_id)) : NULL;
}

int32_t my_name_id(names *n, const char *text)
{
    const name_entry *e = by_text(n, text);
    return e ? e->id : 0;
}

const char *my_name_text(names *n, int32_t id)
{
    const name_entry *e = by_id(n, id);
    return e ? e->text : NULL;
}

static bool remember(names *n, int32_t id, const char *text)
{
    size_t size = strlen(text) + 1;
    if (by_id(n, id)) return true;
    name_entry *e = alloc_new(n->allocator, sizeof *e + size);
    if (!e) return false;
    e->id = id;
    memcpy(e->text, text, size);
    map_put(&n->by_text, &e->by_text, hash(text));
    map_put(&n->by_id, &e->by_id, (uint64_t)id);
    n->count++;
    return true;
}

/* Takes in what the script answered. */
static bool learn(names *n, conn *c)
{
    bool whole = true;
    size_t rows = 0;
    for (int i = 0; i < c->answers_count; i++) rows += (size_t)c->answers[i].rows;
    my_names_open(n);
    if (n->count + rows > NAMES_MAX) clear(n);
    for (int i = 0; i < c->answers_count; i++)
        for (int row = 0; row < c->answers[i].rows && whole; row++)
            whole = remember(n, (int32_t)get_int(&c->answers[i], row, 0), get_text(&c->answers[i], row, 1));
    my_names_close(n);
    my_answers_forget(c);
    if (!whole) my_conn_no_memory(c);
    return whole;
}

static bool ask(names *n, conn *c, sql_name which, const buf *list)
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
static bool list_missing(names *n, const conn *c, buf *list, const char *const *texts, int count, bool rows)
{
    buf_clear(list);
    my_names_open(n);
    for (int i = 0; i < count; i++) {
        if (!texts[i] || my_name_id(n, texts[i])) continue;
        if (i > 0 && texts[i - 1] && strcmp(texts[i], texts[i - 1]) == 0) continue;
        if (list->len) buf_char(list, ',');
        if (rows) buf_char(list, '(');
        lit_bytes(c, list, (pawl_bytes){texts[i], strlen(texts[i])});
        if (rows) buf_char(list, ')');
    }
    my_names_close(n);
    return list->len > 0;
}

bool my_names_fetch(names *n, conn *c, const char *const *texts, int count)
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

bool my_names_fetch_ids(names *n, conn *c, const int32_t *ids, int count)
{
    buf list;
    buf_init(&list, n->allocator, 64 << 20);
    my_names_open(n);
    for (int i = 0; i < count; i++) {
        if (!ids[i] || my_name_text(n, ids[i])) continue;
        if (list.len) buf_char(&list, ',');
        lit_int(&list, ids[i]);
    }
    my_names_close(n);
    bool good = list.len == 0 || ask(n, c, SQL_texts, &list);
    buf_done(&list);
    return good;
}
