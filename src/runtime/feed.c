/* The feed: events of this engine for the other nodes of the store, and theirs for this one.
 *
 * Nothing is told while nobody listens, and nobody asks all the time whether somebody does: whoever begins to listen commits, which others
 * hear of; then, or when this node itself has committed and the last look is LOOK_US old, one thread looks. While somebody listens it
 * is a subscriber of this engine like any other, and tells what it gathered at most every REST_US, so that a busy engine adds some commits
 * a second. Every engine looks when it opens. A one_shot engine has no such thread: it tells what there is when it closes.
 *
 * Facts are JSON: {"engine":NUMBER,"id":NODE,"node":NAME,"facts":[[EVENT,AT,ID,ATTEMPT,FENCE,VALUE,LOST,TYPE,QUEUE,TEXT],...]}. What cannot be read, because it is of
 * a later version, is left out.
 */
#include "base/json.h"
#include "base/rand.h"
#include "runtime/runtime.h"
#include <stdio.h>

#define LISTEN_US (60 * PAWL_SECOND)
#define LOOK_US (2 * PAWL_SECOND)         /* from one look to the next, by own commits */
#define HEARD_US (500 * PAWL_MILLISECOND) /* the same, by those of others */
#define REST_US (50 * PAWL_MILLISECOND)   /* from one telling to the next */
#define POLL_US (200 * PAWL_MILLISECOND)  /* who listens looks for what others have told */
#define TELLING_US (2 * PAWL_SECOND)      /* how long is waited for this engine to begin to tell */
#define GATHERED 16384                    /* events that wait to be told; more are lost, and counted */
#define FACTS_MOST 500                    /* told in one row */
#define FACTS_TEXT (1u << 20)
#define ROWS_MOST 8

static int64_t mono_us(void) { return runtime_until(0); }

/* ---- as text ------------------------------------------------------------------------------------------------------------- */

void feed_fact(json_writer *w, const pawl_event *e)
{
    char id[PAWL_ID_TEXT] = "";
    if (e->id) pawl_id_format(e->id, id);
    jsonw_array(w);
    jsonw_string(w, pawl_event_name(e->kind));
    jsonw_int(w, e->at_us);
    jsonw_string(w, id);
    jsonw_int(w, e->attempt);
    jsonw_int(w, e->fence);
    jsonw_int(w, e->value);
    jsonw_int(w, (int64_t)e->lost);
    jsonw_string(w, e->type);
    jsonw_string(w, e->queue);
    jsonw_string(w, e->text);
    jsonw_end_array(w);
}

/* A string, cut to fit. */
static void read_text(const pawl_allocator *a, json value, char *out, size_t size)
{
    buf text;
    buf_init(&text, a, 4096);
    *out = '\0';
    if (json_string(value, &text)) {
        size_t n = utf8_cut(buf_text(&text), text.len < size ? text.len : size - 1);
        memcpy(out, buf_text(&text), n);
        out[n] = '\0';
    }
    buf_done(&text);
}

static pawl_event_kind read_kind(const pawl_allocator *a, json value)
{
    char name[32];
    read_text(a, value, name, sizeof name);
    for (int i = 1; i < PAWL_EVENT_COUNT; i++) {
        if (strcmp(name, pawl_event_name((pawl_event_kind)i)) == 0) return (pawl_event_kind)i;
    }
    return PAWL_EVENT_NONE;
}

static bool read_fact(const pawl_allocator *a, json array, pawl_event *e)
{
    json key, v[10];
    int count = 0;
    int64_t attempt = 0, lost = 0;
    char id[PAWL_ID_TEXT + 1];
    for (size_t at = 0; count < 10 && json_each(array, &at, &key, &v[count]);) count++;
    if (array.kind != JSON_ARRAY || count < 10) return false;
    *e = (pawl_event){.kind = read_kind(a, v[0])};
    json_int(v[1], &e->at_us);
    read_text(a, v[2], id, sizeof id);
    pawl_id_parse(id, &e->id);
    json_int(v[3], &attempt);
    json_int(v[4], &e->fence);
    json_int(v[5], &e->value);
    json_int(v[6], &lost);
    e->attempt = (int)attempt;
    e->lost = (uint64_t)lost;
    read_text(a, v[7], e->type, sizeof e->type);
    read_text(a, v[8], e->queue, sizeof e->queue);
    read_text(a, v[9], e->text, sizeof e->text);
    return e->kind != PAWL_EVENT_NONE;
}

/* ---- telling ------------------------------------------------------------------------------------------------------------- */

/* For how long somebody listens; and whether this node is to be drained. */
static int64_t look(runtime *rt)
{
    pawl_query query = {.kind = PAWL_QUERY_FEED, .draining = -1};
    if (atomic_load(&rt->drainable)) query.id = look_numbers(rt).node;
    int calls = atomic_load(&rt->drain_calls);
    answer *a = look_answer(rt);
    pawl_status status = a ? store_read(rt->store, &query, a->arena, NULL) : PAWL_NO_MEMORY;
    look_drop(a);
    if (calls % 2 || calls != atomic_load(&rt->drain_calls)) feed_poke(rt, true); /* later, then */
    else if (!status && query.id && query.draining >= 0) runtime_drain_asked(rt, query.draining);
    return status ? 0 : query.feed.left_us;
}

void feed_look(runtime *rt)
{
    if (rt->store->type->drain && !rt->store->type->feed) look(rt);
}

/* Whoever rescues a task does not know it. */
static void name_rescued(runtime *rt, pawl_event *e)
{
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = e->id};
    answer *a;
    if (look_ask(rt, &query, &a, NULL)) return;
    snprintf(e->type, sizeof e->type, "%s", query.info->type);
    snprintf(e->queue, sizeof e->queue, "%s", query.info->queue);
    e->type[utf8_cut(e->type, strlen(e->type))] = '\0';
    e->queue[utf8_cut(e->queue, strlen(e->queue))] = '\0';
    look_drop(a);
}

/* What the subscription has, as text; how many they are. */
static int gather(runtime *rt, pawl_subscription *from, buf *out)
{
    json_writer w;
    pawl_event e;
    int count = 0;
    jsonw_init(&w, out, false);
    jsonw_object(&w);
    feed_head(rt, &w);
    jsonw_key(&w, "facts");
    jsonw_array(&w);
    while (count < FACTS_MOST && pawl_next_event(from, 0, &e)) {
        if (rt->options.one_shot && !e.id) continue; /* it is no node that others know */
        if (e.kind == PAWL_EVENT_RESCUED && !*e.type) name_rescued(rt, &e);
        feed_fact(&w, &e);
        count++;
    }
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    return count;
}

static void note_told(runtime *rt)
{
    pthread_mutex_lock(&rt->feed.lock);
    rt->feed.told++;
    pthread_cond_broadcast(&rt->feed.cond);
    pthread_mutex_unlock(&rt->feed.lock);
}

/* Tells all there is. *left_us: how long somebody listens; as it was, if the store does not answer: what was to be told is lost then. */
static void tell_all(runtime *rt, pawl_subscription *from, int64_t *left_us)
{
    for (;;) {
        buf text;
        buf_init(&text, &rt->allocator, FACTS_TEXT);
        pawl_feed call = {.count = gather(rt, from, &text)};
        call.facts = buf_text(&text);
        bool told = call.count > 0 && !text.failed && store_feed(rt->store, &call, NULL) == PAWL_OK;
        buf_done(&text);
        if (told) *left_us = call.left_us;
        if (told) note_told(rt);
        if (call.count < FACTS_MOST) return;
    }
}

static bool stopping(news_feed *f)
{
    pthread_mutex_lock(&f->lock);
    bool stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return stop;
}

/* Between two tellings; true: no more. */
static bool rest(news_feed *f)
{
    int64_t until = runtime_until(REST_US);
    pthread_mutex_lock(&f->lock);
    while (!f->stop && runtime_wait(&f->cond, &f->lock, until)) {}
    bool stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return stop;
}

static void set_telling(news_feed *f, bool telling)
{
    pthread_mutex_lock(&f->lock);
    f->telling = telling;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
}

/* Somebody else has committed, and it is time to look. */
static bool poked_again(news_feed *f)
{
    int64_t now = mono_us();
    pthread_mutex_lock(&f->lock);
    bool yes = f->poked && now - f->looked_us >= HEARD_US;
    if (yes) f->poked = false;
    if (yes) f->looked_us = now;
    pthread_mutex_unlock(&f->lock);
    return yes;
}

static void tell_while_heard(runtime *rt, int64_t left_us)
{
    pawl_subscription *events = rt->feed.events;
    if (!events && events_subscribe(rt, GATHERED, &events, NULL)) return;
    rt->feed.events = NULL;
    set_telling(&rt->feed, true);
    int64_t until = runtime_until(left_us);
    for (bool stop = stopping(&rt->feed); !stop && left_us > 0;) {
        int64_t soon = runtime_until(HEARD_US);
        if (poked_again(&rt->feed)) look(rt);
        if (events_wait(events, until < soon ? until : soon)) {
            tell_all(rt, events, &left_us);
            until = runtime_until(left_us);
        } else if (mono_us() >= until) {
            left_us = look(rt);
            until = runtime_until(left_us);
        }
        stop = rest(&rt->feed);
    }
    set_telling(&rt->feed, false);
    if (left_us > 0) tell_all(rt, events, &left_us);
    pawl_unsubscribe(events);
}

static bool wait_for_poke(news_feed *f)
{
    pthread_mutex_lock(&f->lock);
    while (!f->stop && !f->poked) pthread_cond_wait(&f->cond, &f->lock);
    int64_t until = f->looked_us + HEARD_US;
    while (!f->stop && !f->urgent && f->looked_us && runtime_wait(&f->cond, &f->lock, until)) {}
    f->poked = f->urgent = false;
    bool stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return !stop;
}

static void *teller(void *arg)
{
    runtime *rt = arg;
    news_feed *f = &rt->feed;
    while (f->events || wait_for_poke(f)) {
        int64_t left_us = look(rt);
        if (left_us > 0 || f->events) tell_while_heard(rt, left_us);
        f->looked_us = mono_us();
        atomic_store(&f->look_us, f->looked_us + LOOK_US);
    }
    return NULL;
}

void feed_poke(runtime *rt, bool others)
{
    news_feed *f = &rt->feed;
    if (!f->threaded || (!others && runtime_now(rt).mono_us < atomic_load_explicit(&f->look_us, memory_order_relaxed))) return;
    atomic_store(&f->look_us, INT64_MAX); /* until it has looked */
    pthread_mutex_lock(&f->lock);
    f->poked = true;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
}

/* ---- listening ----------------------------------------------------------------------------------------------------------- */

/* Somebody here listens; *last: the newest number. */
static pawl_status listen(runtime *rt, int64_t *last, pawl_error *err)
{
    news_feed *f = &rt->feed;
    pawl_feed call = {.listen_us = LISTEN_US};
    pthread_mutex_lock(&f->lock);
    bool fresh = !f->heard_us || mono_us() - f->heard_us > LISTEN_US / 3;
    pthread_mutex_unlock(&f->lock);
    if (!fresh && !last) return PAWL_OK;
    pawl_status status = store_feed(rt->store, &call, err);
    if (status) return status;
    if (last) *last = call.last;
    int64_t until = runtime_until(TELLING_US);
    pthread_mutex_lock(&f->lock);
    f->heard_us = mono_us();
    f->poked = f->urgent = !f->telling; /* this engine itself is to tell, from the moment that this returns */
    pthread_cond_broadcast(&f->cond);
    while (f->threaded && !f->telling && !f->stop && runtime_wait(&f->cond, &f->lock, until)) {}
    pthread_mutex_unlock(&f->lock);
    return PAWL_OK;
}

static size_t read_row(const pawl_allocator *a, const pawl_feed_row *row, int64_t after, pawl_fact *to, size_t room)
{
    pawl_bytes text = pawl_str(row->facts);
    json key, item, object = json_valid(text, NULL, NULL) ? json_parse(text) : (json){0};
    json facts = object.kind == JSON_OBJECT ? json_member(object, "facts") : (json){0};
    int64_t number = row->last - row->count;
    size_t count = 0;
    if (facts.kind != JSON_ARRAY) return 0;
    for (size_t at = 0; count < room && json_each(facts, &at, &key, &item);) {
        if (++number <= after || !read_fact(a, item, &to[count].event)) continue;
        to[count].number = number;
        read_text(a, json_member(object, "node"), to[count].node, sizeof to->node);
        count++;
    }
    return count;
}

static pawl_status read_facts(runtime *rt, int64_t after, int most, answer **lent, pawl_facts *out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_FEED, .before = after, .limit = ROWS_MOST};
    pawl_status status = look_ask(rt, &query, lent, err);
    if (status) return status;
    *out = (pawl_facts){.next = after, .broken = query.feed.broken};
    if (after > query.feed.last) out->next = 0; /* of another store that was here before */
    if (query.feed_rows_count == 0) return PAWL_OK;
    pawl_fact *facts = pawl_arena_alloc((*lent)->arena, (size_t)most * sizeof *facts);
    if (!facts) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    int i = 0;
    for (; i < query.feed_rows_count && out->count < (size_t)most; i++) {
        out->count += read_row(&rt->allocator, &query.feed_rows[i], after, facts + out->count, (size_t)most - out->count);
        out->next = query.feed_rows[i].last;
    }
    if (out->count == (size_t)most) out->next = facts[out->count - 1].number;
    out->facts = facts;
    return PAWL_OK;
}

/* Until something was told here, or it is time to look what others have; false: too late, or the engine closes. */
static bool wait_a_little(runtime *rt, int64_t until_us)
{
    news_feed *f = &rt->feed;
    int64_t next = runtime_until(POLL_US);
    if (next > until_us) next = until_us;
    pthread_mutex_lock(&f->lock);
    int64_t seen = f->told;
    while (!f->stop && f->told == seen && runtime_wait(&f->cond, &f->lock, next)) {}
    bool stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return !stop && !atomic_load(&rt->closing) && mono_us() < until_us;
}

pawl_status feed_follow(runtime *rt, int64_t after, int64_t timeout_us, int most, pawl_facts **out, pawl_error *err)
{
    int64_t until_us = runtime_until(timeout_us);
    answer *lent = NULL;
    pawl_facts facts;
    if (most < 0 || most > GATHERED) return err_set(err, PAWL_INVALID, "most is %d: use 1 to %d, or 0", most, GATHERED);
    pawl_status status = listen(rt, after < 0 ? &after : NULL, err);
    while (!status) {
        feed_look_for_lost(rt);
        status = read_facts(rt, after, most ? most : 1000, &lent, &facts, err);
        if (status || facts.count > 0 || facts.next < after || !wait_a_little(rt, until_us)) break;
        look_drop(lent);
        lent = NULL;
        after = facts.next;
        status = listen(rt, NULL, err);
    }
    if (!status) return look_give(lent, &facts, sizeof facts, out, err);
    look_drop(lent);
    return status;
}

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

bool feed_start(runtime *rt)
{
    news_feed *f = &rt->feed;
    const pawl_options *o = &rt->options;
    if (!rt->store->type->feed || o->inline_mode || o->read_only) return true;
    while (!f->engine) f->engine = seed_from_system();
    if (look(rt) > 0) events_subscribe(rt, GATHERED, &f->events, NULL);
    if (o->one_shot) return true;
    f->threaded = true;
    if (!runtime_thread(&f->thread, "pawl-feed", teller, rt)) f->threaded = false;
    return f->threaded;
}

void feed_stop(runtime *rt)
{
    news_feed *f = &rt->feed;
    int64_t left_us = 0;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
    events_close(rt);
    if (f->threaded) pthread_join(f->thread, NULL);
    f->threaded = false;
    if (!f->events) return;
    tell_all(rt, f->events, &left_us);
    pawl_unsubscribe(f->events);
    f->events = NULL;
}

void feed_done(runtime *rt)
{
    alloc_free(&rt->allocator, rt->feed.lost);
    pthread_cond_destroy(&rt->feed.cond);
    pthread_mutex_destroy(&rt->feed.lock);
}
