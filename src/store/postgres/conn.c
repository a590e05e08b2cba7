/* Connections to the server: making them, calls with a deadline, what a failure means.
 *
 * A call is sent with its own Sync, so it is committed or not when the server says that it is ready for the next. If that answer does not
 * come, a write may have happened: UNKNOWN. An error that the server reports and survives means that nothing happened. A connection
 * whose call was given up is dropped with all that is still in its buffers.
 */
#include "store/postgres/conn.h"
#include "base/alloc.h"
#include "base/error.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define CONNECT_US (10 * PAWL_SECOND)
#define BACKOFF_US (50 * PAWL_MILLISECOND)
#define BACKOFF_MAX_US (2 * PAWL_SECOND) /* and a twelfth of the lease: after an outage all are back before anybody may rescue */

int64_t pg_mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * PAWL_SECOND + t.tv_nsec / 1000;
}

/* ---- what a failure means ------------------------------------------------------------------------------------------------ */

static pawl_status status_of(const char *code)
{
    static const struct {
        const char *code; /* or how it begins */
        pawl_status status;
    } table[] = {
        {"28", PAWL_DENIED},      {"42501", PAWL_DENIED},      {"3D000", PAWL_NOT_FOUND},   {"0A000", PAWL_UNSUPPORTED},
        {"42P01", PAWL_SCHEMA},   {"42883", PAWL_SCHEMA},      {"3F000", PAWL_SCHEMA},      {"42703", PAWL_SCHEMA},
        {"42704", PAWL_SCHEMA},   {"PW003", PAWL_UNSUPPORTED}, {"PW004", PAWL_MOVED},       {"PW005", PAWL_CONFLICT},
        {"PW", PAWL_UNAVAILABLE}, {"XX001", PAWL_CORRUPT},     {"XX002", PAWL_CORRUPT},     {"22", PAWL_INTERNAL},
        {"23", PAWL_INTERNAL},    {"42", PAWL_INTERNAL},       {"08P01", PAWL_UNSUPPORTED}, {"26", PAWL_UNSUPPORTED},
        {"54", PAWL_INTERNAL},    {"XX", PAWL_INTERNAL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(code, table[i].code, strlen(table[i].code)) == 0) return table[i].status;
    return PAWL_UNAVAILABLE; /* locks, time limits, memory, disk, shutdown, ...: it may work later */
}

/* One line of libpq's text, without its prefixes. */
static void copy_line(char *to, size_t size, const char *text)
{
    while (*text == '\n' || *text == ' ') text++;
    snprintf(to, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* Five characters with a digit among them: FATAL is none. */
static bool is_code(const char *at)
{
    static const char digits[] = "0123456789", letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    return strspn(at, letters) == 5 && strcspn(at, digits) < 5 && at[5] == ':' && at[6] == ' ';
}

/* With verbose errors the text says "FATAL:  28P01: password ...". */
void pg_conn_read_failure(PGconn *pg, pawl_status *status, char code[CODE_TEXT], char why[300])
{
    const char *text = pg ? PQerrorMessage(pg) : "out of memory", *found = NULL;
    for (const char *at = text; !found && *at; at++)
        if ((at == text || at[-1] == ' ') && strlen(at) > 7 && is_code(at)) found = at;
    code[0] = '\0';
    if (found) snprintf(code, CODE_TEXT, "%.5s", found);
    copy_line(why, 300, found ? found + 7 : text);
    *status = !pg ? PAWL_NO_MEMORY : found ? status_of(code) : PAWL_UNAVAILABLE;
    if (pg && PQconnectionNeedsPassword(pg)) *status = PAWL_DENIED;
    if (strncmp(code, "42", 2) == 0 && *status == PAWL_SCHEMA) *status = PAWL_UNAVAILABLE; /* a setting that the server lacks */
}

static void note(conn *c, pawl_status status, const char *code, const char *why)
{
    c->status = status;
    snprintf(c->code, sizeof c->code, "%s", code ? code : "");
    copy_line(c->why, sizeof c->why, why);
}

void pg_conn_no_memory(conn *c) { note(c, PAWL_NO_MEMORY, NULL, "out of memory"); }

bool pg_conn_code(const conn *c, const char *code) { return strcmp(c->code, code) == 0; }

static const char *advice(const conn *c)
{
    switch (c->status) {
    case PAWL_DENIED:
        return c->code[0] == '2' ? "; check user and password, and the server's pg_hba.conf"
                                 : "; grant the role what it needs (docs/postgresql.md)";
    case PAWL_NOT_FOUND: return "; check the database's name, or create it";
    case PAWL_SCHEMA: return "; its schema is not what this program knows: see `pawl migrate status`";
    case PAWL_UNAVAILABLE: return strcmp(c->code, "53100") == 0 ? "; make room on the server's disk" : "";
    case PAWL_UNSUPPORTED:
        if (c->code[0] == '2' || strcmp(c->code, "08P01") == 0)
            return "; if a pooling proxy is in between, add pawl_proxy=on to the URL";
        return strcmp(c->code, "PW003") == 0 ? "; set default_transaction_isolation to read committed for the role" : "";
    default: return "";
    }
}

pawl_status pg_conn_fail(const conn *c, const char *what, pawl_error *err)
{
    const char *may = pawl_status_retryable(c->status) && c->status != PAWL_UNKNOWN ? "could not" : "cannot";
    if (c->status == PAWL_UNKNOWN)
        return err_set(err, PAWL_UNKNOWN, "the answer of \"%s\" was lost; it may have happened: %s", c->link->url.name, c->why);
    return err_set(err, c->status, "%s %s \"%s\": %s%s", may, what, c->link->url.name, c->why, advice(c));
}

/* ---- what connections share ---------------------------------------------------------------------------------------------- */

/* Our sessions' settings. A proxy would not pass them on, or give them to somebody else. Plans are made once per session, perhaps
 * while a table is empty, and must be good for any number of rows, the dead ones that a long reader keeps among them: so none but by index,
 * in its order. */
static bool session_options(buf *b, const pg_url *u, const pawl_store_options *o, int64_t call_us)
{
    int64_t lock_ms = (o->lock_wait_us > 0 ? o->lock_wait_us : 5 * PAWL_SECOND) / 1000;
    buf_str(b, u->options);
    buf_fmt(b, " -c statement_timeout=%lld -c lock_timeout=%lld -c idle_in_transaction_session_timeout=%lld",
            (long long)call_us / 1000, (long long)lock_ms, (long long)call_us / 1000);
    return buf_str(b, " -c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off"
                      " -c default_transaction_deferrable=off -c client_connection_check_interval=2000 -c jit=off"
                      " -c plan_cache_mode=force_generic_plan -c max_parallel_workers_per_gather=0"
                      " -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off"
                      " -c enable_material=off");
}

/* "@." in a statement stands for the schema, a name that was checked to hold no control bytes. */
static char *with_schema(const pawl_allocator *a, const char *sql, const char *schema)
{
    buf b;
    buf_init(&b, a, 1 << 20);
    for (const char *at; (at = strstr(sql, "@.")); sql = at + 2) {
        buf_add(&b, sql, (size_t)(at - sql));
        buf_char(&b, '"');
        for (const char *s = schema; *s; s++) {
            if (*s == '"') buf_char(&b, '"');
            buf_char(&b, *s);
        }
        buf_str(&b, "\".");
    }
    buf_str(&b, sql);
    char *text = b.failed ? NULL : alloc_str(a, buf_text(&b));
    buf_done(&b);
    return text;
}

extern const char *const pg_statement_texts[SQL_COUNT]; /* sql.c */

pawl_status pg_link_init(pg_link *l, const pawl_allocator *a, const pawl_store_options *o, pawl_error *err)
{
    *l = (pg_link){.needs_primary = !o->read_only};
    pthread_mutex_init(&l->lock, NULL);
    pawl_status status = pg_url_read(&l->url, a, o->url, err);
    if (status) return status;
    int64_t lock_us = o->lock_wait_us > 0 ? o->lock_wait_us : 5 * PAWL_SECOND;
    l->call_us = 3 * lock_us > 15 * PAWL_SECOND ? 3 * lock_us : 15 * PAWL_SECOND;
    l->backoff_us = o->lease_us > 0 && o->lease_us / 12 < BACKOFF_MAX_US ? o->lease_us / 12 : BACKOFF_MAX_US;
    bool whole = true;
    for (int i = 0; i < SQL_COUNT && whole; i++)
        whole = (l->sql[i] = with_schema(a, pg_statement_texts[i], l->url.schema)) != NULL;
    if (whole && !l->url.proxy) {
        buf b;
        buf_init(&b, a, 4096);
        session_options(&b, &l->url, o, l->call_us);
        whole = !b.failed && (l->session = alloc_str(a, buf_text(&b)));
        buf_done(&b);
    }
    return whole ? PAWL_OK : err_set(err, PAWL_NO_MEMORY, "could not open \"%s\": out of memory", l->url.name);
}

void pg_link_done(pg_link *l)
{
    const pawl_allocator *a = l->url.allocator;
    if (a) {
        for (int i = 0; i < SQL_COUNT; i++) alloc_free(a, l->sql[i]);
        alloc_free(a, l->session);
    }
    pg_url_done(&l->url);
    pthread_mutex_destroy(&l->lock);
}

/* What comes before dbname can be changed by the URL, what comes behind it cannot. */
void pg_link_keywords(const pg_link *l, const char *words[CONNECT_WORDS], const char *values[CONNECT_WORDS])
{
    static const char *const defaults[][2] = {{"fallback_application_name", "pawl"},
                                              {"keepalives_idle", "10"},
                                              {"keepalives_interval", "5"},
                                              {"keepalives_count", "3"},
                                              {"tcp_user_timeout", "20000"}};
    int n = 0;
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++, n++) {
        words[n] = defaults[i][0];
        values[n] = defaults[i][1];
    }
    words[n] = "dbname";
    values[n++] = l->url.conninfo;
    words[n] = "client_encoding";
    values[n++] = "UTF8";
    if (l->session) {
        words[n] = "options";
        values[n++] = l->session;
    }
    words[n] = values[n] = NULL;
}

/* ---- connecting ---------------------------------------------------------------------------------------------------------- */

void pg_conn_init(conn *c, pg_link *l, const pawl_allocator *a)
{
    memset(c, 0, sizeof *c);
    c->link = l;
    pg_params_init(&c->params, a);
}

static void forget(conn *c)
{
    c->pg = NULL;
    memset(c->prepared, 0, sizeof c->prepared);
}

void pg_conn_drop(conn *c)
{
    if (!c->pg || c->borrowed) return;
    int fd = PQsocket(c->pg);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    PQfinish(c->pg);
    forget(c);
}

void pg_conn_close(conn *c)
{
    if (!c->link) return;
    if (!c->borrowed) PQfinish(c->pg);
    forget(c);
    pg_params_done(&c->params);
    c->link = NULL;
}

/* false: not in time */
static bool wait_for(PGconn *pg, short events, int64_t until_us)
{
    struct pollfd p = {.fd = PQsocket(pg), .events = events};
    for (;;) {
        int64_t left_us = until_us - pg_mono_us();
        int n = poll(&p, 1, left_us > 0 ? (int)(left_us / 1000) + 1 : 0);
        if (n > 0) return true;
        if (n == 0 && left_us <= 0) return false;
        if (n < 0 && errno != EINTR) return true; /* libpq will say what it is */
    }
}

static void ignore_notice(void *ctx, const PGresult *result)
{
    (void)ctx;
    (void)result;
}

/* Whether the connection that was made is of use. */
static bool suits(conn *c)
{
    const char *encoding = PQparameterStatus(c->pg, "server_encoding"), *standby = PQparameterStatus(c->pg, "in_hot_standby");
    int version = PQserverVersion(c->pg);
    char why[200];
    if (version < 140000) {
        snprintf(why, sizeof why, "the server has version %d, and pawl needs PostgreSQL 14 or newer", version / 10000);
        note(c, PAWL_UNSUPPORTED, NULL, why);
    } else if (encoding && strcmp(encoding, "UTF8") != 0) {
        snprintf(why, sizeof why, "the database's encoding is %s, and pawl needs UTF8; create a database with that", encoding);
        note(c, PAWL_UNSUPPORTED, NULL, why);
    } else if (c->link->needs_primary && standby && strcmp(standby, "on") == 0) {
        note(c, PAWL_UNAVAILABLE, NULL,
             "the server is a replica, and tasks can be kept on the primary only; name that one, or several "
             "hosts with target_session_attrs=read-write");
    } else {
        return true;
    }
    return false;
}

static int64_t until(const conn *c, int64_t most_us)
{
    return pg_mono_us() + (c->limit_us && c->limit_us < most_us ? c->limit_us : most_us);
}

static bool attempt(conn *c)
{
    const char *words[CONNECT_WORDS], *values[CONNECT_WORDS];
    int64_t until_us = until(c, CONNECT_US);
    pg_link_keywords(c->link, words, values);
    c->pg = PQconnectStartParams(words, values, 1);
    PostgresPollingStatusType state = c->pg && PQstatus(c->pg) != CONNECTION_BAD ? PGRES_POLLING_WRITING : PGRES_POLLING_FAILED;
    if (c->pg) PQsetErrorVerbosity(c->pg, PQERRORS_VERBOSE);
    bool in_time = true;
    while (in_time && state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
        in_time = wait_for(c->pg, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_us);
        if (in_time) state = PQconnectPoll(c->pg);
    }
    if (!in_time) {
        note(c, PAWL_UNAVAILABLE, NULL, "the server did not answer in time");
        return false;
    }
    if (state != PGRES_POLLING_OK) {
        pg_conn_read_failure(c->pg, &c->status, c->code, c->why);
        return false;
    }
    PQsetErrorVerbosity(c->pg, PQERRORS_DEFAULT);
    PQsetNoticeReceiver(c->pg, ignore_notice, NULL);
    PQsetnonblocking(c->pg, 1);
    return suits(c);
}

/* Under the link's lock: whether an attempt may be made now. */
static bool may_try(conn *c)
{
    pg_link *l = c->link;
    pthread_mutex_lock(&l->lock);
    bool may = pg_mono_us() >= l->closed_until_us;
    if (!may) note(c, l->status, NULL, l->why);
    pthread_mutex_unlock(&l->lock);
    return may;
}

static void note_attempt(conn *c, bool good)
{
    pg_link *l = c->link;
    pthread_mutex_lock(&l->lock);
    l->tries = good ? 0 : l->tries + 1;
    int64_t wait_us = BACKOFF_US << (l->tries < 8 ? l->tries : 8);
    if (wait_us > l->backoff_us) wait_us = l->backoff_us;
    l->closed_until_us = good ? 0 : pg_mono_us() + wait_us / 2 + (int64_t)((uint64_t)random() % (uint64_t)(wait_us / 2));
    if (!good) {
        l->status = c->status;
        snprintf(l->why, sizeof l->why, "%s", c->why);
    }
    pthread_mutex_unlock(&l->lock);
}

/* An idle connection has nothing to say, unless that it was closed. */
static bool still_there(conn *c)
{
    struct pollfd p = {.fd = PQsocket(c->pg), .events = POLLIN};
    if (PQstatus(c->pg) != CONNECTION_OK) return false;
    if (poll(&p, 1, 0) <= 0) return true;
    return PQconsumeInput(c->pg) && PQstatus(c->pg) == CONNECTION_OK && PQtransactionStatus(c->pg) == PQTRANS_IDLE;
}

bool pg_conn_ready(conn *c)
{
    if (c->borrowed) return true;
    if (c->pg && still_there(c)) return true;
    pg_conn_drop(c);
    if (!may_try(c)) return false;
    bool good = attempt(c);
    if (!good) {
        PQfinish(c->pg);
        forget(c);
    }
    note_attempt(c, good);
    return good;
}

/* ---- calls --------------------------------------------------------------------------------------------------------------- */

/* Sends what is in libpq's buffer, and takes in what comes meanwhile, so that neither side waits for the other. */
static bool flush(conn *c, int64_t until_us)
{
    for (int left; (left = PQflush(c->pg)) != 0;) {
        if (left < 0 || !wait_for(c->pg, POLLIN | POLLOUT, until_us) || !PQconsumeInput(c->pg)) return false;
    }
    return true;
}

static bool receive(conn *c, int64_t until_us)
{
    while (PQisBusy(c->pg))
        if (!wait_for(c->pg, POLLIN, until_us) || !PQconsumeInput(c->pg)) return false;
    return true;
}

static bool is_good(const PGresult *r)
{
    ExecStatusType s = PQresultStatus(r);
    return s == PGRES_TUPLES_OK || s == PGRES_COMMAND_OK || s == PGRES_EMPTY_QUERY;
}

static void note_result(conn *c, const PGresult *r)
{
    const char *code = PQresultErrorField(r, PG_DIAG_SQLSTATE), *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    note(c, status_of(code ? code : ""), code, text ? text : PQresultErrorMessage(r));
}

/* The connection is of no use any more. */
static void lost(conn *c, bool in_time, bool writes)
{
    char why[300];
    copy_line(why, sizeof why, !in_time ? "the server did not answer in time" : PQerrorMessage(c->pg));
    note(c, writes ? PAWL_UNKNOWN : PAWL_UNAVAILABLE, NULL, why[0] ? why : "the connection was lost");
    c->broke = in_time;
    pg_conn_drop(c);
}

/* All results up to the server's "ready"; the first one with rows counts, or the first error. */
static PGresult *collect(conn *c, bool writes, int64_t until_us)
{
    PGresult *kept = NULL, *r;
    bool failed = false, arrived = true;
    while ((arrived = receive(c, until_us)) && (r = PQgetResult(c->pg))) {
        if (!is_good(r) && !failed) note_result(c, r);
        failed |= !is_good(r);
        if (is_good(r) && (!kept || PQntuples(kept) == 0)) {
            PQclear(kept);
            kept = r;
        } else {
            PQclear(r);
        }
    }
    if (!arrived || PQstatus(c->pg) != CONNECTION_OK) {
        bool in_time = arrived || pg_mono_us() < until_us;
        char code[CODE_TEXT];
        snprintf(code, sizeof code, "%s", failed ? c->code : "");
        if (c->borrowed) note(c, PAWL_UNAVAILABLE, code, "the connection was lost");
        else lost(c, in_time, writes);
        failed = true;
    }
    if (!failed) return kept;
    PQclear(kept);
    return NULL;
}

static bool prepare(conn *c, sql_name which, int64_t until_us)
{
    char name[16];
    snprintf(name, sizeof name, "pawl_%d", (int)which);
    if (!PQsendPrepare(c->pg, name, c->link->sql[which], 0, NULL) || !flush(c, until_us)) {
        lost(c, true, false);
        return false;
    }
    PGresult *r = collect(c, false, until_us);
    PQclear(r);
    return c->prepared[which] = r != NULL;
}

/* Whoever dispatches or claims has outcomes to tell soon: they must need no answer before they can be sent. */
static bool prepare_for(conn *c, sql_name which, int64_t until_us)
{
    bool more = which == SQL_apply_one || which == SQL_claim || which == SQL_claim_one;
    if (!c->prepared[which] && !prepare(c, which, until_us)) return false;
    return !more || c->prepared[SQL_apply] || prepare(c, SQL_apply, until_us);
}

static bool send_call(conn *c, sql_name which, bool binary)
{
    const params *p = &c->params;
    char name[16];
    snprintf(name, sizeof name, "pawl_%d", (int)which);
    if (c->link->url.proxy || c->borrowed)
        return PQsendQueryParams(c->pg, c->link->sql[which], p->count, NULL, p->values, p->sizes, p->formats, binary) == 1;
    return PQsendQueryPrepared(c->pg, name, p->count, p->values, p->sizes, p->formats, binary) == 1;
}

static PGresult *call_once(conn *c, sql_name which, int mode)
{
    bool writes = mode & CALL_WRITES, named = !c->link->url.proxy && !c->borrowed;
    int64_t until_us = until(c, c->link->call_us + 3 * PAWL_SECOND);
    if (!pg_params_end(&c->params)) {
        pg_conn_no_memory(c);
        return NULL;
    }
    if (!pg_conn_ready(c) || (named && !prepare_for(c, which, until_us))) return NULL;
    if (!send_call(c, which, mode & CALL_BINARY)) { /* without its last bytes the server does nothing */
        lost(c, true, false);
        return NULL;
    }
    if (!flush(c, until_us)) {
        if (c->borrowed) note(c, PAWL_UNAVAILABLE, NULL, "the connection was lost");
        else lost(c, pg_mono_us() < until_us, writes);
        return NULL;
    }
    return collect(c, writes, until_us);
}

/* A connection that broke under a call which certainly did not happen is worth a second one. */
PGresult *pg_conn_call(conn *c, sql_name which, int mode)
{
    c->broke = false;
    PGresult *r = call_once(c, which, mode);
    return r || !c->broke || c->status != PAWL_UNAVAILABLE ? r : call_once(c, which, mode);
}

PGresult *pg_conn_query(conn *c, const char *sql, int mode)
{
    int64_t until_us = until(c, c->link->call_us + 3 * PAWL_SECOND);
    if (!pg_conn_ready(c)) return NULL;
    if (!PQsendQuery(c->pg, sql) || !flush(c, until_us)) {
        if (c->borrowed) note(c, PAWL_UNAVAILABLE, NULL, PQerrorMessage(c->pg));
        else lost(c, true, mode & CALL_WRITES);
        return NULL;
    }
    return collect(c, mode & CALL_WRITES, until_us);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------- */

int64_t pg_get_int(const PGresult *r, int row, int column) { return strtoll(PQgetvalue(r, row, column), NULL, 10); }

bool pg_get_is_null(const PGresult *r, int row, int column) { return PQgetisnull(r, row, column); }

bool pg_get_truth(const PGresult *r, int row, int column) { return PQgetvalue(r, row, column)[0] == 't'; }

const char *pg_get_text(const PGresult *r, int row, int column)
{
    return PQgetisnull(r, row, column) ? NULL : PQgetvalue(r, row, column);
}
