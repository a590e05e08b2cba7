/* Connections to the server: making them, and what a failure means.
 *
 * Nothing is taken from the server's defaults: character set, SQL mode, isolation and time limits are set on every connection.
 */
#include "store/mysql/conn.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include <errmsg.h>
#include <errno.h>
#include <mysqld_error.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#define BACKOFF_US (50 * PAWL_MILLISECOND)
#define BACKOFF_MAX_US (2 * PAWL_SECOND) /* and a twelfth of the lease: after an outage all are back before anybody may rescue */
#define VERSION_LEAST 100600

int64_t my_mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * PAWL_SECOND + t.tv_nsec / 1000;
}

/* ---- what a failure means ------------------------------------------------------------------------------------------------ */

static const struct {
    int code;
    pawl_status status;
} meanings[] = {
    {ER_DBACCESS_DENIED_ERROR, PAWL_DENIED},
    {ER_ACCESS_DENIED_ERROR, PAWL_DENIED},
    {ER_TABLEACCESS_DENIED_ERROR, PAWL_DENIED},
    {ER_COLUMNACCESS_DENIED_ERROR, PAWL_DENIED},
    {ER_SPECIFIC_ACCESS_DENIED_ERROR, PAWL_DENIED},
    {ER_ACCESS_DENIED_NO_PASSWORD_ERROR, PAWL_DENIED},
    {ER_HOST_NOT_PRIVILEGED, PAWL_DENIED},
    {ER_MUST_CHANGE_PASSWORD, PAWL_DENIED},
    {ER_MUST_CHANGE_PASSWORD_LOGIN, PAWL_DENIED},
    {ER_ACCOUNT_HAS_BEEN_LOCKED, PAWL_DENIED},
    {ER_BAD_DB_ERROR, PAWL_NOT_FOUND},
    {ER_NO_SUCH_TABLE, PAWL_SCHEMA},
    {ER_BAD_FIELD_ERROR, PAWL_SCHEMA},
    {ER_WRONG_VALUE_COUNT_ON_ROW, PAWL_SCHEMA},
    {ER_UNKNOWN_SYSTEM_VARIABLE, PAWL_UNSUPPORTED},
    {ER_PARSE_ERROR, PAWL_INTERNAL},
    {ER_DUP_ENTRY, PAWL_INTERNAL},
    {ER_DATA_TOO_LONG, PAWL_INTERNAL},
    {ER_WARN_DATA_OUT_OF_RANGE, PAWL_INTERNAL},
    {ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, PAWL_INTERNAL},
    {ER_INVALID_CHARACTER_STRING, PAWL_INTERNAL},
    {ER_TOO_BIG_ROWSIZE, PAWL_INTERNAL},
    {ER_BAD_NULL_ERROR, PAWL_INTERNAL},
    {ER_CONSTRAINT_FAILED, PAWL_INTERNAL},
    {ER_NET_PACKET_TOO_LARGE, PAWL_INTERNAL},
    {CR_NET_PACKET_TOO_LARGE, PAWL_INTERNAL},
    {ER_NOT_KEYFILE, PAWL_CORRUPT},
    {ER_CRASHED_ON_USAGE, PAWL_CORRUPT},
    {ER_INDEX_CORRUPT, PAWL_CORRUPT},
    {CR_OUT_OF_MEMORY, PAWL_NO_MEMORY},
    {CR_SSL_CONNECTION_ERROR, PAWL_UNAVAILABLE},
};

pawl_status my_code_status(int code)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].code == code) return meanings[i].status;
    return PAWL_UNAVAILABLE; /* locks, time limits, disk, shutdown, ...: it may work later */
}

void my_conn_note(conn *c, pawl_status status, int code, const char *why)
{
    c->status = status;
    c->code = code;
    snprintf(c->why, sizeof c->why, "%.*s", (int)strcspn(why, "\n"), why);
}

bool my_conn_code(const conn *c, int code) { return c->code == code && c->status != PAWL_UNKNOWN; }

bool my_conn_about_data(const conn *c)
{
    static const int codes[] = {ER_DATA_TOO_LONG,
                                ER_WARN_DATA_OUT_OF_RANGE,
                                ER_TRUNCATED_WRONG_VALUE_FOR_FIELD,
                                ER_INVALID_CHARACTER_STRING,
                                ER_TOO_BIG_ROWSIZE,
                                ER_BAD_NULL_ERROR,
                                ER_CONSTRAINT_FAILED,
                                ER_NET_PACKET_TOO_LARGE,
                                CR_NET_PACKET_TOO_LARGE};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (my_conn_code(c, codes[i])) return true;
    return false;
}

void my_conn_no_memory(conn *c) { my_conn_note(c, PAWL_NO_MEMORY, 0, "out of memory"); }

static const char *advice(const conn *c)
{
    switch (c->code) {
    case ER_BAD_DB_ERROR: return "; create it (CREATE DATABASE), or check the URL";
    case ER_NO_SUCH_TABLE:
    case ER_BAD_FIELD_ERROR: return "; run `pawl migrate status`";
    case ER_ACCESS_DENIED_ERROR: return "; check user and password in the URL, and whether the user must encrypt (ssl=on)";
    case CR_SSL_CONNECTION_ERROR: return "; check host, ssl_ca and ssl_verify in the URL";
    case ER_OPTION_PREVENTS_STATEMENT: return "; the server takes no writes: name the primary in the URL";
    default: break;
    }
    return c->status == PAWL_DENIED ? "; grant it what docs/mariadb.md lists" : "";
}

pawl_status my_conn_fail(const conn *c, const char *what, pawl_error *err)
{
    bool may_work = c->status == PAWL_UNAVAILABLE || c->status == PAWL_NO_MEMORY;
    if (c->status == PAWL_UNKNOWN)
        return err_set(err, PAWL_UNKNOWN, "the answer of \"%s\" was lost; it may have happened: %s", c->link->url.name, c->why);
    return err_set(err, c->status, "%s %s \"%s\": %s%s", may_work ? "could not" : "cannot", what, c->link->url.name, c->why,
                   advice(c));
}

/* ---- what connections share ---------------------------------------------------------------------------------------------- */

static int64_t seconds_of(int64_t us) { return us < PAWL_SECOND ? 1 : (us + PAWL_SECOND - 1) / PAWL_SECOND; }

/* The settings of a session. A script that does not come because its sender is stopped or cut off must not hold locks for long. */
static void add_session(buf *b, const pawl_store_options *o, int64_t call_us)
{
    long long lock_s = (long long)seconds_of(o->lock_wait_us > 0 ? o->lock_wait_us : 5 * PAWL_SECOND);
    buf_fmt(
        b,
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, time_zone = '+00:00', "
        "innodb_lock_wait_timeout = %lld, lock_wait_timeout = %lld, max_statement_time = %lld, idle_transaction_timeout = %lld, "
        "wait_timeout = 86400, sql_select_limit = DEFAULT, sql_safe_updates = 0, big_tables = 0, tx_isolation = 'READ-COMMITTED', "
        "tx_read_only = 0, in_predicate_conversion_threshold = 0, eq_range_index_dive_limit = 1, foreign_key_checks = 1, "
        "unique_checks = 1, character_set_client = utf8mb4, character_set_results = utf8mb4, collation_connection = utf8mb4_bin",
        lock_s, lock_s, (long long)seconds_of(call_us), lock_s);
}

/* "@." in a statement stands for the database, a name that was checked to hold no backquote. */
void my_add_with_database(buf *b, const char *sql, size_t len, const char *database)
{
    const char *end = sql + len;
    for (const char *at; (at = memmem(sql, (size_t)(end - sql), "@.", 2)); sql = at + 2) {
        buf_add(b, sql, (size_t)(at - sql));
        buf_fmt(b, "`%s`.", database);
    }
    buf_add(b, sql, (size_t)(end - sql));
}

size_t my_statement_length(const char *sql)
{
    size_t len = strlen(sql);
    while (len > 0 && strchr("; \n", sql[len - 1])) len--;
    return len;
}

extern const char *const my_statement_texts[SQL_COUNT]; /* sql.c */

static bool make_texts(my_link *l, const pawl_allocator *a, const pawl_store_options *o)
{
    buf b;
    bool whole = true;
    buf_init(&b, a, 1 << 20);
    for (int i = 0; i < SQL_COUNT && whole; i++) {
        buf_clear(&b);
        my_add_with_database(&b, my_statement_texts[i], my_statement_length(my_statement_texts[i]), l->url.database);
        whole = !b.failed && (l->sql[i] = alloc_str(a, buf_text(&b)));
    }
    buf_clear(&b);
    add_session(&b, o, l->call_us);
    whole = whole && !b.failed && (l->session = alloc_str(a, buf_text(&b)));
    buf_done(&b);
    return whole;
}

/* The library takes SIGPIPE away from the program when it is first used; that is given back. */
static void start_library(void)
{
    struct sigaction before;
    sigaction(SIGPIPE, NULL, &before);
    mysql_library_init(0, NULL, NULL);
    sigaction(SIGPIPE, &before, NULL);
}

pawl_status my_link_init(my_link *l, const pawl_allocator *a, const pawl_store_options *o, pawl_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_library);
    *l = (my_link){.needs_primary = !o->read_only};
    pthread_mutex_init(&l->lock, NULL);
    pawl_status status = my_url_read(&l->url, a, o->url, err);
    if (status) return status;
    int64_t lock_us = o->lock_wait_us > 0 ? o->lock_wait_us : 5 * PAWL_SECOND;
    l->call_us = 3 * lock_us > 15 * PAWL_SECOND ? 3 * lock_us : 15 * PAWL_SECOND;
    l->backoff_us = o->lease_us > 0 && o->lease_us / 12 < BACKOFF_MAX_US ? o->lease_us / 12 : BACKOFF_MAX_US;
    if (make_texts(l, a, o)) return PAWL_OK;
    return err_set(err, PAWL_NO_MEMORY, "could not open \"%s\": out of memory", l->url.name);
}

void my_link_done(my_link *l)
{
    const pawl_allocator *a = l->url.allocator;
    if (a) {
        for (int i = 0; i < SQL_COUNT; i++) alloc_free(a, l->sql[i]);
        alloc_free(a, l->session);
    }
    my_url_done(&l->url);
    pthread_mutex_destroy(&l->lock);
}

/* ---- signals ------------------------------------------------------------------------------------------------------------- */

static sigset_t pipe_only(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    return set;
}

/* One that is pending already is not ours, and blocked. */
hush my_hush(bool on)
{
    hush h = {.on = false};
    sigset_t pipe = pipe_only(), pending;
    if (!on) return h;
    sigpending(&pending);
    h.on = !sigismember(&pending, SIGPIPE) && pthread_sigmask(SIG_BLOCK, &pipe, &h.before) == 0;
    return h;
}

void my_hush_end(const hush *h)
{
    sigset_t pipe = pipe_only();
    if (!h->on) return;
    while (sigtimedwait(&pipe, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {}
    pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

/* ---- connecting ---------------------------------------------------------------------------------------------------------- */

void my_conn_init(conn *c, my_link *l, const pawl_allocator *a)
{
    memset(c, 0, sizeof *c);
    c->link = l;
    c->allocator = a;
    buf_init(&c->script, a, SCRIPT_MAX);
    buf_init(&c->literals, a, SCRIPT_MAX);
    c->packet_max = (size_t)16 << 20;
}

/* Says goodbye, to somebody who may be gone. */
static void end_session(MYSQL *my)
{
    hush h = my_hush(true);
    mysql_close(my);
    my_hush_end(&h);
}

void my_conn_drop(conn *c)
{
    if (!c->my || c->borrowed) return;
    int fd = (int)mysql_get_socket(c->my);
    if (fd >= 0) shutdown(fd, SHUT_RDWR); /* so that saying goodbye waits for nobody */
    end_session(c->my);
    c->my = NULL;
    c->inside = false;
}

void my_conn_close(conn *c)
{
    if (!c->link) return;
    my_answers_forget(c);
    if (!c->borrowed && c->my) end_session(c->my);
    buf_done(&c->script);
    buf_done(&c->literals);
    alloc_free(c->allocator, c->sent);
    alloc_free(c->allocator, c->ends);
    alloc_free(c->allocator, c->answers);
    memset(c, 0, sizeof *c);
}

static void set_options(const conn *c)
{
    const my_url *u = &c->link->url;
    int64_t connect_us = c->limit_us && c->limit_us < u->connect_us ? c->limit_us : u->connect_us;
    int64_t call_us = c->limit_us && c->limit_us < c->link->call_us ? c->limit_us : c->link->call_us + 3 * PAWL_SECOND;
    unsigned connect_s = (unsigned)seconds_of(connect_us), call_s = (unsigned)seconds_of(call_us), off = 0;
    my_bool no = 0, yes = 1, verify = u->ssl_verify;
    mysql_optionsv(c->my, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    mysql_optionsv(c->my, MYSQL_OPT_READ_TIMEOUT, &call_s);
    mysql_optionsv(c->my, MYSQL_OPT_WRITE_TIMEOUT, &call_s);
    mysql_optionsv(c->my, MYSQL_OPT_LOCAL_INFILE, &off);
    mysql_optionsv(c->my, MYSQL_OPT_RECONNECT, &no);
    mysql_optionsv(c->my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_optionsv(c->my, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "pawl");
    if (u->ssl_ca) mysql_optionsv(c->my, MYSQL_OPT_SSL_CA, u->ssl_ca);
    if (u->ssl_capath) mysql_optionsv(c->my, MYSQL_OPT_SSL_CAPATH, u->ssl_capath);
    if (u->ssl_cert) mysql_optionsv(c->my, MYSQL_OPT_SSL_CERT, u->ssl_cert);
    if (u->ssl_key) mysql_optionsv(c->my, MYSQL_OPT_SSL_KEY, u->ssl_key);
    if (u->ssl_cipher) mysql_optionsv(c->my, MYSQL_OPT_SSL_CIPHER, u->ssl_cipher);
    if (u->tls_version) mysql_optionsv(c->my, MARIADB_OPT_TLS_VERSION, u->tls_version);
    if (!u->ssl) return;
    mysql_optionsv(c->my, MYSQL_OPT_SSL_ENFORCE, &yes);
    mysql_optionsv(c->my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
}

void my_conn_note_error(conn *c)
{
    my_conn_note(c, my_code_status((int)mysql_errno(c->my)), (int)mysql_errno(c->my), mysql_error(c->my));
}

/* Whether the server that was found is of use: the kind and the version of it, and whether it takes writes. */
static bool suits(conn *c)
{
    const char *info = mysql_get_server_info(c->my);
    char why[200];
    if (!strstr(info, "MariaDB")) {
        snprintf(why, sizeof why, "the server is no MariaDB (%.60s), and pawl uses statements that MariaDB alone has", info);
        my_conn_note(c, PAWL_UNSUPPORTED, 0, why);
        return false;
    }
    if (mysql_get_server_version(c->my) < VERSION_LEAST) {
        snprintf(why, sizeof why, "the server is MariaDB %.60s, and pawl needs 10.6 or newer", info);
        my_conn_note(c, PAWL_UNSUPPORTED, 0, why);
        return false;
    }
    my_script(c);
    my_add_text(c, c->link->session);
    my_add(c, SQL_greet);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_greet);
    c->packet_max = (size_t)get_int(a, 0, 0);
    bool replica = get_int(a, 0, 1) != 0 && c->link->needs_primary;
    my_answers_forget(c);
    if (replica)
        my_conn_note(c, PAWL_UNAVAILABLE, 0,
                     "the server is read-only, perhaps a replica, and tasks can be kept on the primary only");
    return !replica;
}

static bool attempt(conn *c)
{
    const my_url *u = &c->link->url;
    c->my = mysql_init(NULL);
    if (!c->my) {
        my_conn_no_memory(c);
        return false;
    }
    set_options(c);
    hush h = my_hush(true);
    bool good = mysql_real_connect(c->my, u->host, u->user, u->password, u->database, u->port, u->host ? NULL : u->socket,
                                   CLIENT_MULTI_STATEMENTS) != NULL;
    my_hush_end(&h);
    c->tls = good && mysql_get_ssl_cipher(c->my);
    if (!good) {
        my_conn_note_error(c);
        return false;
    }
    return suits(c);
}

/* Under the link's lock: whether an attempt may be made now. */
static bool may_try(conn *c)
{
    my_link *l = c->link;
    pthread_mutex_lock(&l->lock);
    bool may = my_mono_us() >= l->closed_until_us;
    if (!may) my_conn_note(c, l->status, l->code, l->why);
    pthread_mutex_unlock(&l->lock);
    return may;
}

static void note_attempt(conn *c, bool good)
{
    my_link *l = c->link;
    pthread_mutex_lock(&l->lock);
    l->tries = good ? 0 : l->tries + 1;
    int64_t wait_us = BACKOFF_US << (l->tries < 8 ? l->tries : 8);
    if (wait_us > l->backoff_us) wait_us = l->backoff_us;
    l->closed_until_us = good ? 0 : my_mono_us() + wait_us / 2 + (int64_t)((uint64_t)random() % (uint64_t)(wait_us / 2 + 1));
    if (!good) {
        l->status = c->status;
        l->code = c->code;
        snprintf(l->why, sizeof l->why, "%s", c->why);
    }
    pthread_mutex_unlock(&l->lock);
}

/* An idle connection has nothing to say, unless that it was closed. */
static bool still_there(const conn *c)
{
    struct pollfd p = {.fd = (int)mysql_get_socket(c->my), .events = POLLIN};
    return p.fd >= 0 && poll(&p, 1, 0) == 0;
}

bool my_conn_ready(conn *c)
{
    if (c->borrowed || (c->my && c->inside)) return true;
    if (c->my && still_there(c)) return true;
    my_conn_drop(c);
    if (!may_try(c)) return false;
    /* What was put together so far is for after the greeting. */
    buf script = c->script;
    sql_name *sent = c->sent;
    size_t *ends = c->ends;
    int count = c->sent_count, room = c->sent_room;
    buf_init(&c->script, c->allocator, SCRIPT_MAX);
    c->sent = NULL;
    c->ends = NULL;
    c->sent_count = c->sent_room = 0;
    bool good = attempt(c);
    if (!good) my_conn_drop(c);
    buf_done(&c->script);
    alloc_free(c->allocator, c->sent);
    alloc_free(c->allocator, c->ends);
    c->script = script;
    c->sent = sent;
    c->ends = ends;
    c->sent_count = count;
    c->sent_room = room;
    note_attempt(c, good);
    return good;
}
