/* Idempotency-Key: a request that is sent again with the same key gets the first one's answer. Kept in memory, for a day, the newest
 * few thousand; a server that was started anew has forgotten them (a task's own key is the durable way). Keys are per caller and route.
 *
 * An entry is there from the moment the first request begins: a second one meanwhile is told to wait.
 */
#include "base/alloc.h"
#include "base/map.h"
#include "server/parts.h"
#include <string.h>

#define ENTRIES_MAX 10000
#define BYTES_MAX (32u << 20)
#define KEEP_US PAWL_DAY

typedef struct idem {
    map_node node;
    list link; /* oldest first */
    char name[SHA256_HEX], body[SHA256_HEX];
    bool answered;
    int status;
    char *text;
    size_t len;
    int64_t at_us;
} idem;

struct idem_table {
    pthread_mutex_t lock;
    map entries;
    list order;
    size_t bytes;
};

idem_table *idem_new(void)
{
    idem_table *t = alloc_new(alloc_default(), sizeof *t);
    if (!t) return NULL;
    pthread_mutex_init(&t->lock, NULL);
    map_init(&t->entries, alloc_default());
    list_init(&t->order);
    return t;
}

static void forget(idem_table *t, idem *e)
{
    map_remove(&t->entries, &e->node);
    list_remove(&e->link);
    t->bytes -= e->len;
    alloc_free(alloc_default(), e->text);
    alloc_free(alloc_default(), e);
}

void idem_free(idem_table *t)
{
    if (!t) return;
    list_each(node, &t->order) forget(t, container_of(node, idem, link));
    map_done(&t->entries);
    pthread_mutex_destroy(&t->lock);
    alloc_free(alloc_default(), t);
}

static void make_room(idem_table *t, int64_t now_us)
{
    list_each(node, &t->order) {
        idem *e = container_of(node, idem, link);
        bool old = now_us - e->at_us > KEEP_US || t->entries.count >= ENTRIES_MAX || t->bytes > BYTES_MAX;
        if (!old) return;
        if (e->answered) forget(t, e);
    }
}

static uint64_t number_of(const char name[SHA256_HEX])
{
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) number = number << 4 | (uint64_t)(name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10);
    return number;
}

static idem *find(const idem_table *t, const char name[SHA256_HEX])
{
    for (map_node *node = map_get(&t->entries, number_of(name)); node; node = map_next(node)) {
        idem *e = container_of(node, idem, node);
        if (memcmp(e->name, name, SHA256_HEX) == 0) return e;
    }
    return NULL;
}

static void name_of(const call *c, const char *key, char name[SHA256_HEX])
{
    buf text;
    buf_init(&text, alloc_default(), 4096);
    buf_fmt(&text, "%s%c%s%c%s%c%s%c%s", c->who.name, 0, c->route->name, 0, c->segment, 0, c->who.tenant, 0, key);
    sha256_hex(buf_text(&text), text.len, name);
    buf_done(&text);
}

/* Under the lock. The answer that is there, as a copy; what is said otherwise goes to *status. */
static bool look(idem_table *t, call *c, const char name[SHA256_HEX], const char body[SHA256_HEX], buf *again, int *status)
{
    idem *e = find(t, name);
    if (e && memcmp(e->body, body, SHA256_HEX) != 0) return *status = 422, false;
    if (e && !e->answered) return *status = 409, false;
    if (e) return *status = e->status, buf_add(again, e->text, e->len), false;
    make_room(t, c->begun_us);
    e = t->entries.count < ENTRIES_MAX ? alloc_new(alloc_default(), sizeof *e) : NULL;
    if (!e) return true;
    memcpy(e->name, name, SHA256_HEX);
    memcpy(e->body, body, SHA256_HEX);
    e->at_us = c->begun_us;
    map_put(&t->entries, &e->node, number_of(name));
    list_append(&t->order, &e->link);
    c->idem = e;
    return true;
}

bool idem_begin(call *c)
{
    const char *key = http_header(c->r, "idempotency-key");
    char name[SHA256_HEX], body[SHA256_HEX];
    buf again;
    int status = 0;
    if (!key) return true;
    if (!*key || strlen(key) > 255)
        return call_problem(c, 400, "idempotency_key", "an Idempotency-Key has 1 to 255 bytes, and is given once"), false;
    pawl_bytes text = http_body(c->r);
    name_of(c, key, name);
    sha256_hex(text.data, text.len, body);
    buf_init(&again, alloc_default(), ANSWER_MAX);
    pthread_mutex_lock(&c->s->idem->lock);
    bool fresh = look(c->s->idem, c, name, body, &again, &status);
    pthread_mutex_unlock(&c->s->idem->lock);
    if (fresh) return true;
    if (again.len) {
        http_add_header(c->r, "Idempotent-Replayed", "true");
        call_answer(c, status, status < 400 ? "application/json" : "application/problem+json", &again);
    } else if (status == 422) {
        call_problem(c, 422, "idempotency_key", "this Idempotency-Key was used with another body: use a new one");
    } else {
        call_problem(c, 409, "idempotency_key", "the first request with this Idempotency-Key is still under way: try again");
    }
    return false;
}

/* What may be different next time is not kept. */
void idem_end(call *c, int status, const buf *body)
{
    idem_table *t = c->s->idem;
    idem *e = c->idem;
    char *copy = status < 500 && body && body->len ? alloc_new(alloc_default(), body->len) : NULL;
    c->idem = NULL;
    if (copy) memcpy(copy, body->data, body->len);
    pthread_mutex_lock(&t->lock);
    if (copy) {
        e->answered = true;
        e->status = status;
        e->text = copy;
        e->len = body->len;
        t->bytes += e->len;
    } else {
        forget(t, e);
    }
    pthread_mutex_unlock(&t->lock);
}
