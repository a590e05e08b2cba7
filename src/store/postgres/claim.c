/* claim: one call that leases what is due and brings the bodies along. See functions/claims.sql.
 *
 * The leases are granted once the server has committed, before the answer is read here. If there is no memory for the bodies then, the
 * leases are given back at once.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "store/postgres/inner.h"

static const char what[] = "claim tasks in";

enum { /* columns of the answer */
       WANT,
       ID,
       FENCE,
       RUN_AT,
       RUNS,
       FAILURES,
       RESCUES,
       INTERRUPTIONS,
       CLASS,
       NOT_STARTED,
       TYPE,
       QUEUE,
       CREATED,
       PRIORITY,
       AUDIT,
       TENANT,
       MAX_ATTEMPTS,
       TIMEOUT,
       RETRY_OF,
       KEY,
       CONTENT_TYPE,
       CREATED_BY,
       TRACEPARENT,
       HEADERS,
       RATE_KEY,
       PAYLOAD,
       NEWS
};

typedef struct claiming {
    pg_store *s;
    conn *c;
    pawl_claim *call;
    pawl_arena *arena;
    int32_t *queues; /* by want */
    uint64_t *types; /* by want: which types, as one number */
} claiming;

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

uint64_t pg_types_hash(const pawl_want *w)
{
    uint64_t sum = 1;
    if (w->any_type) return 0;
    for (int i = 0; i < w->types_count; i++) sum += hash_bytes(w->types[i], strlen(w->types[i]), 7);
    return sum;
}

static bool fetch_names(claiming *k)
{
    size_t room = 1;
    const pawl_claim *call = k->call;
    for (int i = 0; i < call->wants_count; i++) room += 1 + (size_t)call->wants[i].types_count;
    const char **texts = pawl_arena_alloc(k->arena, room * sizeof *texts);
    if (!texts) {
        pg_conn_no_memory(k->c);
        return false;
    }
    int count = 0;
    for (int i = 0; i < call->wants_count; i++) {
        texts[count++] = call->wants[i].queue;
        for (int t = 0; t < call->wants[i].types_count && !call->wants[i].any_type; t++) texts[count++] = call->wants[i].types[t];
    }
    return pg_names_fetch(&k->s->names, k->c, texts, count);
}

#define EACH_WANT(oid, write)                         \
    do {                                              \
        pg_array_begin(p, oid);                       \
        for (int i = 0; i < call->wants_count; i++) { \
            const pawl_want *w = &call->wants[i];     \
            (void)w;                                  \
            write;                                    \
        }                                             \
        pg_array_end(p);                              \
    } while (0)

#define EACH_TYPE(write) EACH_WANT(OID_INT4, for (int t = 0; t < w->types_count && !w->any_type; t++) write)

static void put_wants(claiming *k, params *p)
{
    const pawl_claim *call = k->call;
    interned *n = &k->s->names;
    interned_open(n);
    for (int i = 0; i < call->wants_count; i++) {
        k->queues[i] = interned_id(n, call->wants[i].queue);
        k->types[i] = pg_types_hash(&call->wants[i]);
    }
    EACH_WANT(OID_INT4, array_int4(p, k->queues[i]));
    EACH_WANT(OID_INT4, array_int4(p, w->free));
    EACH_WANT(OID_INT4, array_int4(p, w->prefetch));
    EACH_WANT(OID_BOOL, array_bool(p, w->solo));
    EACH_WANT(OID_BOOL, array_bool(p, w->any_type));
    EACH_TYPE(array_int4(p, i + 1));
    EACH_TYPE(array_int4(p, interned_id(n, w->types[t])));
    interned_close(n);
}

typedef struct known_lane {
    int want;
    ready_lane lane;
} known_lane;

typedef struct gap {
    int want;
    int64_t low, high; /* lanes; neither is part of it */
} gap;

#define EACH_LANE(oid, write)                     \
    do {                                          \
        pg_array_begin(p, oid);                   \
        for (int i = 0; i < count; i++) {         \
            const ready_lane *l = &known[i].lane; \
            (void)l;                              \
            write;                                \
        }                                         \
        pg_array_end(p);                          \
    } while (0)

/* With the clock of a test they are looked at from the beginning: it may go anywhere. */
static int known_lanes(claiming *k, known_lane **out)
{
    int total = 0;
    *out = NULL;
    for (int i = 0; i < k->call->wants_count; i++) {
        ready_lane *lanes;
        int count = pg_ready_lanes(&k->s->ready, k->queues[i], k->types[i], k->arena, &lanes);
        known_lane *grown = count ? pawl_arena_alloc(k->arena, (size_t)(total + count) * sizeof *grown) : NULL;
        if (!grown) continue;
        if (total) memcpy(grown, *out, (size_t)total * sizeof *grown);
        for (int l = 0; l < count; l++) {
            if (postgres_test_clock && lanes[l].from_us > 0) lanes[l].from_us = 0;
            grown[total++] = (known_lane){i + 1, lanes[l]};
        }
        *out = grown;
    }
    return total;
}

static void put_lanes(params *p, const known_lane *known, int count)
{
    EACH_LANE(OID_INT4, array_int4(p, known[i].want));
    EACH_LANE(OID_INT8, array_int8(p, l->lane));
    EACH_LANE(OID_INT8, array_int8(p, l->from_us));
}

/* What lies before, between and behind the lanes that are known, which are sorted by want and number. */
static int gaps_of(const claiming *k, const known_lane *known, int count, gap **out)
{
    int at = 0, total = 0;
    gap *gaps = pawl_arena_alloc(k->arena, (size_t)(count + k->call->wants_count) * sizeof *gaps);
    for (int want = 1; gaps && want <= k->call->wants_count; want++) {
        int64_t low = -1;
        for (; at < count && known[at].want == want; at++) {
            gaps[total++] = (gap){want, low, known[at].lane.lane};
            low = known[at].lane.lane;
        }
        gaps[total++] = (gap){want, low, INT64_MAX};
    }
    *out = gaps;
    return total;
}

#define EACH_GAP(oid, write)                        \
    do {                                            \
        pg_array_begin(p, oid);                     \
        for (int i = 0; i < gaps_count; i++) write; \
        pg_array_end(p);                            \
    } while (0)

static void put_gaps(params *p, const gap *gaps, int gaps_count)
{
    EACH_GAP(OID_INT4, array_int4(p, gaps[i].want));
    EACH_GAP(OID_INT8, array_int8(p, gaps[i].low));
    EACH_GAP(OID_INT8, array_int8(p, gaps[i].high));
}

/* A quarter of the lease after now nobody may count on it any more. */
static void put_until(pg_store *s, params *p)
{
    int64_t now_us = postgres_test_clock ? 0 : pg_server_now(s);
    if (now_us) pg_param_int8(p, now_us + s->lease_us / 4);
    else pg_param_null(p);
}

static PGresult *pg_ask(claiming *k, bool seen)
{
    params *p = &k->c->params;
    pg_params_begin(p);
    pg_params_call(k->s, p);
    put_until(k->s, p);
    pg_param_int4(p, (int32_t)k->call->node);
    pg_param_bool(p, seen);
    put_wants(k, p);
    known_lane *known;
    gap *gaps = NULL;
    int count = known_lanes(k, &known);
    put_lanes(p, known, count);
    int gaps_count = count > 0 && pg_ready_idle(&k->s->ready) ? gaps_of(k, known, count, &gaps) : 0;
    if (gaps) put_gaps(p, gaps, gaps_count);
    return pg_conn_call(k->c, gaps ? SQL_claim_one : SQL_claim, CALL_WRITES | CALL_BINARY);
}

/* ---- the answer ---------------------------------------------------------------------------------------------------------- */

static void read_want(pawl_claim *call, const char *at)
{
    int64_t n[5];
    for (int i = 0; i < 5; i++)
        if (!(at = pg_number_read(at, &n[i]))) return;
    if (n[0] < 1 || n[0] > call->wants_count) return;
    pawl_want *w = &call->wants[n[0] - 1];
    w->paused = n[1] != 0;
    w->more = n[2] != 0;
    w->next_due_us = n[3];
    w->fair = n[4] != 0;
}

static bool read_lane(const char *at, int64_t *want, ready_lane *lane)
{
    lane->hint_us = INT64_MAX;
    return (at = pg_number_read(at, want)) && (at = pg_number_read(at, &lane->lane)) && pg_number_read(at, &lane->from_us);
}

/* Where the next claim goes on. */
static void learn_lanes(claiming *k, const char *text)
{
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++) lines++;
    ready_lane *lanes = pawl_arena_alloc(k->arena, (lines + 1) * sizeof *lanes);
    for (int i = 0; i < k->call->wants_count; i++) {
        int count = 0;
        int64_t want;
        for (const char *at = text; lanes && *at; at = strchr(at, '\n') + 1)
            if (at[0] == 'V' && read_lane(at + 1, &want, &lanes[count]) && want == i + 1) count++;
        pg_ready_learn(&k->s->ready, k->queues[i], k->types[i], lanes, count);
    }
}

/* The queues that are flooded, by their ids. */
static void read_floods(claiming *k, const char *text)
{
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        const char *next = at[0] == 'F' ? at + 1 : NULL;
        for (int64_t queue; next && (next = pg_number_read(next, &queue));)
            for (int i = 0; i < k->call->wants_count; i++) k->call->wants[i].flooded |= k->queues[i] == queue;
    }
}

static void read_news(claiming *k, const char *text)
{
    int64_t now_us = 0;
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        if (at[0] == 'N') pg_number_read(at + 1, &now_us);
        else if (at[0] == 'W') read_want(k->call, at + 1);
    }
    read_floods(k, text);
    pg_news_read(k->s, k->call->node, text, now_us, &k->call->news);
    for (int i = 0; i < k->call->wants_count && k->call->news.closed; i++) {
        k->call->wants[i].paused = true;
        k->call->wants[i].more = false;
    }
    if (!postgres_test_clock) pg_server_seen(k->s, now_us);
    learn_lanes(k, text);
}

static const char *text_at(const PGresult *r, int row, int column)
{
    return PQgetisnull(r, row, column) ? NULL : PQgetvalue(r, row, column);
}

static const char *content_type_at(const PGresult *r, int row)
{
    const char *text = text_at(r, row, CONTENT_TYPE);
    return !text ? "application/json" : text[0] ? text : NULL;
}

static pawl_body *copy_body(const claiming *k, const PGresult *r, int row)
{
    interned *n = &k->s->names;
    pawl_body b = {.id = wire64(r, row, ID),
                   .type = interned_text(n, wire32(r, row, TYPE)),
                   .queue = interned_text(n, wire32(r, row, QUEUE)),
                   .tenant = PQgetisnull(r, row, TENANT) ? "" : interned_text(n, wire32(r, row, TENANT)),
                   .key = text_at(r, row, KEY),
                   .content_type = content_type_at(r, row),
                   .created_by = text_at(r, row, CREATED_BY),
                   .traceparent = text_at(r, row, TRACEPARENT),
                   .headers = text_at(r, row, HEADERS),
                   .payload = wire_bytes(r, row, PAYLOAD),
                   .rate_key = wire_bytes(r, row, RATE_KEY),
                   .priority = wire16(r, row, PRIORITY),
                   .max_attempts = wire32(r, row, MAX_ATTEMPTS),
                   .timeout_us = wire64(r, row, TIMEOUT),
                   .audit = (pawl_audit)wire16(r, row, AUDIT),
                   .retry_of = wire64(r, row, RETRY_OF),
                   .created_us = wire64(r, row, CREATED)};
    return b.type && b.queue && b.tenant ? pawl_body_copy(k->call->allocator, &b) : NULL;
}

static bool take_task(const claiming *k, const PGresult *r, int row)
{
    pawl_claim *call = k->call;
    pawl_body *body = copy_body(k, r, row);
    if (!body) return false;
    int class = wire16(r, row, CLASS), want = wire32(r, row, WANT) - 1;
    call->tasks[call->tasks_count++] = (pawl_claimed){.body = body,
                                                      .fence = wire32(r, row, FENCE),
                                                      .run_at_us = wire64(r, row, RUN_AT),
                                                      .runs = wire32(r, row, RUNS),
                                                      .failures = wire32(r, row, FAILURES),
                                                      .rescues = wire32(r, row, RESCUES),
                                                      .interruptions = wire32(r, row, INTERRUPTIONS),
                                                      .want = want,
                                                      .not_started = PQgetvalue(r, row, NOT_STARTED)[0] != 0,
                                                      .suspect = class != 0,
                                                      .solo = class == 2};
    call->wants[want].got++;
    return true;
}

/* Types, queues and tenants that no other call has named before. */
static bool fetch_texts(claiming *k, const PGresult *r, int rows)
{
    static const int columns[] = {TYPE, QUEUE, TENANT};
    int32_t *ids = pawl_arena_alloc(k->arena, (size_t)(3 * rows + 1) * sizeof *ids);
    if (!ids) {
        pg_conn_no_memory(k->c);
        return false;
    }
    for (int i = 0; i < 3 * rows; i++) ids[i] = wire32(r, i / 3, columns[i % 3]);
    return pg_names_fetch_ids(&k->s->names, k->c, ids, 3 * rows);
}

/* What the news say of a task with a limit. */
static void take_slot(pawl_claim *call, const char *at, int *from)
{
    int64_t n[3];
    for (int i = 0; i < 3; i++)
        if (!(at = pg_number_read(at, &n[i]))) return;
    for (int i = 0; i < call->tasks_count; i++) {
        pawl_claimed *t = &call->tasks[(*from + i) % call->tasks_count];
        if (t->body->id != n[0]) continue;
        t->limited = true;
        t->until_us = n[1];
        t->epoch = n[2];
        t->not_started |= t->body->key != NULL;
        *from = (*from + i + 1) % call->tasks_count; /* they come in the order of the tasks */
        return;
    }
}

static void take_slots(pawl_claim *call, const char *news)
{
    int from = 0;
    for (const char *at = news; *at; at = strchr(at, '\n') + 1)
        if (at[0] == 'S') take_slot(call, at + 1, &from);
}

/* Others may have something to claim, too. */
static void tell_unblocked(claiming *k, const char *news)
{
    for (const char *at = news; *at; at = strchr(at, '\n') + 1) {
        if (at[0] != 'U') continue;
        char *hints = pawl_arena_bytes(k->arena, at + 2, strcspn(at + 2, "\n"));
        pg_watch_tell(k->s, k->c, hints ? hints : "*", false);
        return;
    }
}

static bool take_tasks(claiming *k, const PGresult *r, int rows)
{
    bool whole = true;
    interned_open(&k->s->names);
    for (int i = 0; i < rows && whole; i++) whole = take_task(k, r, i);
    interned_close(&k->s->names);
    return whole;
}

static void clear_answer(pawl_claim *call)
{
    for (int i = 0; i < call->tasks_count; i++) alloc_free(call->allocator, call->tasks[i].body);
    call->tasks_count = 0;
    for (int i = 0; i < call->wants_count; i++) {
        pawl_want *w = &call->wants[i];
        w->got = 0;
        w->next_due_us = 0;
        w->paused = w->more = w->flooded = w->fair = false;
    }
}

/* What was granted goes back; UNKNOWN where even that is in doubt. */
static pawl_status give_back(claiming *k, const PGresult *r, int rows, pawl_error *err)
{
    params *p = &k->c->params;
    clear_answer(k->call);
    pg_params_begin(p);
    pg_params_call(k->s, p);
    pg_param_int4(p, (int32_t)k->call->node);
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < rows; i++) array_int8(p, wire64(r, i, ID));
    pg_array_end(p);
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < rows; i++) array_int8(p, wire32(r, i, FENCE));
    pg_array_end(p);
    PGresult *given = rows > 0 ? pg_conn_call(k->c, SQL_unclaim, CALL_WRITES) : NULL;
    bool back = rows == 0 || given;
    PQclear(given);
    pg_ready_chill(&k->s->ready);
    return err_set(err, back ? PAWL_NO_MEMORY : PAWL_UNKNOWN, "could not %s \"%s\": out of memory%s", what, k->s->link.url.name,
                   back ? "" : ", and the tasks could not be given back");
}

static pawl_status take(claiming *k, const PGresult *r, pawl_error *err)
{
    int rows = PQntuples(r) - 1; /* the last one has the news */
    clear_answer(k->call);
    if (rows > 0 && !fetch_texts(k, r, rows)) return give_back(k, r, rows, err);
    read_news(k, text_at(r, rows, NEWS));
    if (!take_tasks(k, r, rows)) return give_back(k, r, rows, err);
    take_slots(k->call, text_at(r, rows, NEWS));
    tell_unblocked(k, text_at(r, rows, NEWS));
    pg_ready_found(&k->s->ready, rows > 1 || k->call->news.limits_version > 0);
    return PAWL_OK;
}

/* ---- the call ------------------------------------------------------------------------------------------------------------ */

/* The server's clock was set forward: what we know of it is read again. */
static bool clock_again(claiming *k, int *tries)
{
    if (!pg_conn_code(k->c, "PW002") || ++*tries > 2) return false;
    pg_params_begin(&k->c->params);
    PGresult *r = pg_conn_call(k->c, SQL_server_now, CALL_READS);
    if (r) pg_server_seen(k->s, pg_get_int(r, 0, 0));
    PQclear(r);
    return r != NULL;
}

static pawl_status claim(claiming *k, pawl_error *err)
{
    int tries = 0, clocks = 0;
    if (!fetch_names(k)) return pg_conn_fail(k->c, what, err);
    bool seen = pg_node_seen_due(k->s);
    for (;;) {
        PGresult *r = pg_ask(k, seen);
        if (!r && (pg_call_again(k->s, k->c, &tries) || clock_again(k, &clocks))) continue;
        if (!r) {
            pg_ready_chill(&k->s->ready);
            return pg_conn_fail(k->c, what, err);
        }
        pawl_status status = take(k, r, err);
        PQclear(r);
        return status;
    }
}

pawl_status pg_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    pg_store *s = store_of(store);
    size_t wants = (size_t)call->wants_count + 1;
    claiming k = {.s = s, .call = call, .arena = arena};
    call->tasks_count = 0;
    k.queues = pawl_arena_alloc(arena, wants * sizeof *k.queues);
    k.types = pawl_arena_alloc(arena, wants * sizeof *k.types);
    if (!k.queues || !k.types) return err_set(err, PAWL_NO_MEMORY, "could not %s \"%s\": out of memory", what, s->link.url.name);
    k.c = pg_store_take(s, WRITER);
    pawl_status status = claim(&k, err);
    pg_store_give(s, k.c);
    return status;
}
