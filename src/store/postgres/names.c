/* The cache of names. It is emptied when it has grown too large, which happens only while nobody has it open. */
#include "store/postgres/names.h"
#include "base/alloc.h"
#include "base/list.h"

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
    map_each(node, &n->by_id) alloc_free(n->allocator, container_of(node, name_entry, by_id));
    map_done(&n->by_text);
    map_done(&n->by_id);
    start(n);
}

void pg_names_init(names *n, const pawl_allocator *a)
{
    *n = (names){.allocator = a};
    pthread_mutex_init(&n->lock, NULL);
    start(n);
}

void pg_names_done(names *n)
{
    if (!n->allocator) return;
    clear(n);
    map_done(&n->by_text);
    map_done(&n->by_id);
    pthread_mutex_destroy(&n->lock);
    n->allocator = NULL;
}

void pg_names_open(names *n) { pthread_mutex_lock(&n->lock); }

void pg_names_close(names *n) { pthread_mutex_unlock(&n->lock); }

static uint64_t hash(const char *text) { return hash_bytes(text, strlen(text), 0); }

static name_entry *by_text(names *n, const char *text)
{
    if (n->last && strcmp(n->last->text, text) == 0) return n->last;
    for (map_node *node = map_get(&n->by_text, hash(text)); node; node = map_next(node)) {
        name_entry *e = container_of(node, name_entry, by_text);
        if (strcmp(e->text, text) == 0) return n->last = e;
    }
    return NULL;
}

static name_entry *by_id(names *n, int32_t id)
{
    if (n->last && n->last->id == id) return n->last;
    map_node *node = map_get(&n->by_id, (uint64_t)id);
    return node ? n->last = container_of(node, name_entry, by_id) : NULL;
}

int32_t pg_name_id(names *n, const char *text)
{
    const name_entry *e = by_text(n, text);
    return e ? e->id : 0;
}

const char *pg_name_text(names *n, int32_t id)
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

static bool pg_ask(names *n, conn *c, sql_name which)
{
    PGresult *r = pg_conn_call(c, which, which == SQL_names ? CALL_WRITES : CALL_READS);
    if (!r && c->status == PAWL_UNKNOWN) c->status = PAWL_UNAVAILABLE; /* a name more or less does no harm */
    if (!r) return false;
    bool whole = true;
    pg_names_open(n);
    if (n->count + (size_t)PQntuples(r) > NAMES_MAX) clear(n);
    for (int i = 0; i < PQntuples(r) && whole; i++) whole = remember(n, (int32_t)pg_get_int(r, i, 0), pg_get_text(r, i, 1));
    pg_names_close(n);
    PQclear(r);
    if (!whole) pg_conn_no_memory(c);
    return whole;
}

bool pg_names_fetch(names *n, conn *c, const char *const *texts, int count)
{
    params *p = &c->params;
    bool missing = false;
    pg_params_begin(p);
    pg_array_begin(p, OID_TEXT);
    pg_names_open(n);
    for (int i = 0; i < count; i++) {
        if (!texts[i] || pg_name_id(n, texts[i])) continue;
        if (i > 0 && texts[i - 1] && strcmp(texts[i], texts[i - 1]) == 0) continue;
        missing = true;
        pg_array_text(p, texts[i]);
    }
    pg_names_close(n);
    pg_array_end(p);
    return !missing || pg_ask(n, c, SQL_names);
}

bool pg_names_fetch_ids(names *n, conn *c, const int32_t *ids, int count)
{
    params *p = &c->params;
    bool missing = false;
    pg_params_begin(p);
    pg_array_begin(p, OID_INT4);
    pg_names_open(n);
    for (int i = 0; i < count; i++) {
        if (!ids[i] || pg_name_text(n, ids[i])) continue;
        missing = true;
        array_int4(p, ids[i]);
    }
    pg_names_close(n);
    pg_array_end(p);
    return !missing || pg_ask(n, c, SQL_texts);
}
