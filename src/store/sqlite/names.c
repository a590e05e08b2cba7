/* Interned names: types, queues, tenants and node names are stored once, in pawl_name, and are numbers everywhere else.
 *
 * Names are never removed or changed, so what is cached stays true whatever other processes do. The one exception is a name
 * that this connection added in a transaction that was rolled back: whoever rolls back calls names_clear. The cache is emptied
 * between transactions (names_trim) when it has grown too large; until then texts that were lent stay where they are.
 */
#include "base/alloc.h"
#include "store/sqlite/conn.h"
#include <string.h>

#define NAMES_MAX 8192

typedef struct name_entry {
    map_node by_text, by_id;
    int64_t id;
    char text[];
} name_entry;

void names_init(names *n, const pawl_allocator *a)
{
    *n = (names){.allocator = a};
    map_init(&n->by_text, a);
    map_init(&n->by_id, a);
}

void names_clear(names *n)
{
    if (!n->allocator) return;
    map_each(node, &n->by_id) alloc_free(n->allocator, (char *)node - offsetof(name_entry, by_id));
    map_done(&n->by_text);
    map_done(&n->by_id);
    names_init(n, n->allocator);
}

void names_trim(names *n)
{
    if (n->count > NAMES_MAX) names_clear(n);
}

static uint64_t hash(const char *text) { return hash_bytes(text, strlen(text), 0); }

static name_entry *remember(names *n, const char *text, int64_t id)
{
    size_t size = strlen(text) + 1;
    name_entry *e = alloc_new(n->allocator, sizeof *e + size);
    if (!e) return NULL;
    e->id = id;
    memcpy(e->text, text, size);
    map_put(&n->by_text, &e->by_text, hash(text));
    map_put(&n->by_id, &e->by_id, (uint64_t)id);
    n->count++;
    return n->last = e;
}

static name_entry *cached(names *n, const char *text)
{
    if (n->last && strcmp(n->last->text, text) == 0) return n->last;
    for (map_node *node = map_get(&n->by_text, hash(text)); node; node = map_next(node)) {
        name_entry *e = (name_entry *)((char *)node - offsetof(name_entry, by_text));
        if (strcmp(e->text, text) == 0) return n->last = e;
    }
    return NULL;
}

int64_t name_find(conn *c, const char *text)
{
    name_entry *e = cached(&c->names, text);
    if (e) return e->id;
    query q = query_on(c, SQL_name_find);
    put_text(&q, text);
    int64_t id = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    if (id) remember(&c->names, text, id);
    return id;
}

int64_t name_id(conn *c, const char *text)
{
    int64_t id = name_find(c, text);
    if (id || c->rc) return id;
    query q = query_on(c, SQL_name_add);
    put_text(&q, text);
    if (!query_run(&q)) return 0;
    id = sqlite3_last_insert_rowid(c->db);
    remember(&c->names, text, id);
    return id;
}

const char *name_text(conn *c, int64_t id)
{
    map_node *node = map_get(&c->names.by_id, (uint64_t)id);
    if (node) return ((name_entry *)((char *)node - offsetof(name_entry, by_id)))->text;
    query q = query_on(c, SQL_name_text);
    put_int(&q, id);
    const char *text = NULL;
    if (query_row(&q)) {
        name_entry *e = remember(&c->names, get_text(&q), id);
        if (e) text = e->text;
        else conn_note(c, SQLITE_NOMEM);
    }
    query_end(&q);
    return text;
}
