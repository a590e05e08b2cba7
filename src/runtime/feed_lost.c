/* Who told, and is gone without a word.
 *
 * A node that is killed takes along what it had not told. If it had tasks, whoever rescues them tells NODE_LOST; here that is told of the others, too, so
 * that whoever follows knows of each node that something may be missing. Whoever follows looks: at the rows, which say which engine told them and
 * as which node, and every LOOK_US at the nodes of the store. An engine whose last fact was not NODE_STOPPED, and whose node was found
 * dead twice, is lost. What was told before nobody listened for a while does not count.
 *
 * Behind a pooling proxy an idle node cannot be told from a dead one: an engine that tells something after it was taken for dead is not asked
 * about again. Several who follow may all tell it; that does no harm.
 */
#include "base/json.h"
#include "runtime/runtime.h"
#include <inttypes.h>
#include <stdio.h>

#define LOOK_US PAWL_SECOND
#define ROWS_MOST 64
#define ENGINES_MOST 256 /* that are remembered; the one that told the longest time ago is forgotten */
#define DEAD_TWICE 2

typedef struct heard {
    uint64_t engine; /* 0: free */
    int64_t node;    /* 0: it had none yet */
    int64_t last;    /* number of its last fact */
    int dead;        /* looks that found it dead since then */
    bool open;       /* there may be more to come */
    bool unsure;     /* whether it lives cannot be seen */
} heard;

struct feed_lost {
    int64_t seen; /* rows up to this number */
    int64_t next_us;
    heard engines[ENGINES_MOST];
};

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

void feed_head(runtime *rt, json_writer *w)
{
    char engine[24];
    int64_t node = look_numbers(rt).node;
    if (node) rt->feed.node = node; /* once it has left it is none, and tells that it did */
    snprintf(engine, sizeof engine, "%" PRIx64, rt->feed.engine);
    jsonw_key(w, "engine");
    jsonw_string(w, engine);
    jsonw_key(w, "id");
    jsonw_int(w, rt->feed.node);
    jsonw_key(w, "node");
    jsonw_string(w, rt->options.name);
}

static bool is_text(json value, const char *text)
{
    size_t n = strlen(text);
    return value.kind == JSON_STRING && value.raw.len == n + 2 && memcmp(value.raw.data + 1, text, n) == 0;
}

static uint64_t read_engine(json value)
{
    uint64_t engine = 0;
    if (value.kind != JSON_STRING || value.raw.len > 18) return 0;
    for (size_t i = 1; i + 1 < value.raw.len; i++) {
        char c = value.raw.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return 0;
        engine = engine << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return engine;
}

static heard *find(feed_lost *l, uint64_t engine)
{
    heard *oldest = &l->engines[0];
    for (heard *h = l->engines; h < l->engines + ENGINES_MOST; h++) {
        if (h->engine == engine) return h;
        if (h->last < oldest->last) oldest = h;
    }
    *oldest = (heard){.engine = engine};
    return oldest;
}

static void note_lost(feed_lost *l, int64_t node)
{
    for (heard *h = l->engines; h < l->engines + ENGINES_MOST; h++)
        if (h->engine && h->node == node) h->open = false;
}

/* What its facts say about nodes; whether the last one is that this one stopped. */
static bool read_facts(feed_lost *l, json facts)
{
    json key, fact, what, v;
    bool stopped = false;
    for (size_t at = 0; json_each(facts, &at, &key, &fact);) {
        size_t within = 0;
        int64_t node = 0;
        if (!json_each(fact, &within, &key, &what)) continue;
        stopped = is_text(what, pawl_event_name(PAWL_EVENT_NODE_STOPPED));
        if (!is_text(what, pawl_event_name(PAWL_EVENT_NODE_LOST))) continue;
        for (int i = 1; i <= 5 && json_each(fact, &within, &key, &v); i++)
            if (i == 5) json_int(v, &node);
        note_lost(l, node);
    }
    return stopped;
}

static void read_row(feed_lost *l, const pawl_feed_row *row)
{
    pawl_bytes text = pawl_str(row->facts);
    if (!json_valid(text, NULL, NULL)) return;
    json object = json_parse(text);
    uint64_t engine = object.kind == JSON_OBJECT ? read_engine(json_member(object, "engine")) : 0;
    if (!engine) return;
    heard *h = find(l, engine);
    if (h->dead > 0) h->unsure = true;
    h->dead = 0;
    h->last = row->last;
    json_int(json_member(object, "id"), &h->node);
    h->open = !read_facts(l, json_member(object, "facts"));
}

/* Rows that have come since the last look. */
static pawl_status read_rows(runtime *rt, feed_lost *l)
{
    for (;;) {
        pawl_query query = {.kind = PAWL_QUERY_FEED, .before = l->seen, .limit = ROWS_MOST};
        answer *a;
        pawl_status status = look_ask(rt, &query, &a, NULL);
        if (status) return status;
        int rows = query.feed_rows_count;
        if (query.feed.last < l->seen || query.feed.broken > l->seen) { /* another store, or nobody listened: begin anew */
            memset(l->engines, 0, sizeof l->engines);
            l->seen = query.feed.broken;
            rows = ROWS_MOST;
        } else {
            for (int i = 0; i < rows; i++) read_row(l, &query.feed_rows[i]);
            if (rows > 0) l->seen = query.feed_rows[rows - 1].last;
        }
        look_drop(a);
        if (rows < ROWS_MOST) return PAWL_OK;
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------- */

static bool lives(const pawl_nodes *nodes, int64_t node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->nodes[i].id == node) return nodes->nodes[i].alive;
    return false;
}

static void tell_lost(runtime *rt, const heard *h)
{
    buf text;
    json_writer w;
    buf_init(&text, &rt->allocator, 64 << 10);
    jsonw_init(&w, &text, false);
    jsonw_object(&w);
    feed_head(rt, &w);
    jsonw_key(&w, "facts");
    jsonw_array(&w);
    feed_fact(&w, &(pawl_event){.kind = PAWL_EVENT_NODE_LOST, .at_us = runtime_now(rt).wall_us, .value = h->node});
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    pawl_feed call = {.count = 1, .facts = buf_text(&text)};
    if (!text.failed) store_feed(rt->store, &call, NULL);
    buf_done(&text);
}

static bool in_doubt(const runtime *rt, const heard *h)
{
    return h->engine && h->engine != rt->feed.engine && h->open && !h->unsure && h->node;
}

static void look_at_nodes(runtime *rt, feed_lost *l)
{
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    answer *a;
    bool any = false;
    for (const heard *h = l->engines; h < l->engines + ENGINES_MOST; h++) any = any || in_doubt(rt, h);
    if (!any || look_ask(rt, &query, &a, NULL)) return;
    for (heard *h = l->engines; h < l->engines + ENGINES_MOST; h++) {
        if (!in_doubt(rt, h)) continue;
        h->dead = lives(query.nodes, h->node) ? 0 : h->dead + 1;
        if (h->dead < DEAD_TWICE) continue;
        h->open = false;
        tell_lost(rt, h);
    }
    look_drop(a);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------- */

/* Whoever comes when it is time has it until it gives it back; NULL: it is not time, or another one has it. */
static feed_lost *take(news_feed *f, const pawl_allocator *a)
{
    pthread_mutex_lock(&f->lock);
    if (!f->lost && !f->looking) f->lost = alloc_new(a, sizeof *f->lost);
    feed_lost *l = f->lost && !f->looking && runtime_until(0) >= f->lost->next_us ? f->lost : NULL;
    if (l) f->looking = true;
    pthread_mutex_unlock(&f->lock);
    return l;
}

void feed_look_for_lost(runtime *rt)
{
    news_feed *f = &rt->feed;
    feed_lost *l = take(f, &rt->allocator);
    if (!l) return;
    if (!read_rows(rt, l)) look_at_nodes(rt, l);
    pthread_mutex_lock(&f->lock);
    l->next_us = runtime_until(LOOK_US);
    f->looking = false;
    pthread_mutex_unlock(&f->lock);
}
