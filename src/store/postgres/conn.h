/* A connection, and calls on it. A call is one statement, which is one transaction; nothing is ever left open between two calls.
 *
 *     pg_params_begin(&c->params);
 *     pg_param_int8(&c->params, id);
 *     PGresult *r = pg_conn_call(c, SQL_state, CALL_READS);
 *     if (!r) return pg_conn_fail(c, "read", err);
 *
 * Connections are made when they are needed and made anew when they were lost. After a failure to connect the store waits a little
 * (link) before it tries again; calls meanwhile fail at once, with the same reason.
 */
#ifndef STORE_POSTGRES_CONN_H
#define STORE_POSTGRES_CONN_H

#include "store/postgres/params.h"
#include "store/postgres/statements.h"
#include "store/postgres/url.h"
#include <libpq-fe.h>
#include <pthread.h>

#define CODE_TEXT 6 /* five characters and a NUL */

typedef struct pg_link { /* what all connections of a store share */
    pg_url url;
    char *sql[SQL_COUNT]; /* with the schema's name in it */
    char *session;        /* the `options` of our sessions; NULL: none (behind a proxy) */
    int64_t call_us;      /* how long a call may take */
    int64_t backoff_us;   /* the longest wait between two attempts to connect */
    bool needs_primary;
    pthread_mutex_t lock;
    int64_t closed_until_us; /* of the monotonic clock: no attempt before */
    int tries;
    pawl_status status; /* why */
    char why[300];
} pg_link;

typedef struct conn {
    pg_link *link;
    PGconn *pg; /* NULL: not connected */
    bool prepared[SQL_COUNT];
    params params;
    bool borrowed;    /* the caller's own */
    bool broke;       /* under the last call */
    int64_t limit_us; /* how long its calls may take; 0: as long as any */
    /* The last failure. */
    pawl_status status;
    char code[CODE_TEXT]; /* SQLSTATE; "" if there is none */
    char why[300];
} conn;

pawl_status pg_link_init(pg_link *l, const pawl_allocator *a, const pawl_store_options *o, pawl_error *err);
void pg_link_done(pg_link *l);

void pg_conn_init(conn *c, pg_link *l, const pawl_allocator *a);
void pg_conn_close(conn *c); /* also of one that was never initialised */
void pg_conn_drop(conn *c);  /* at once: what was not sent yet is not sent any more */
bool pg_conn_ready(conn *c); /* connects if need be */

typedef enum call_mode {
    CALL_READS,  /* a lost answer means that nothing happened */
    CALL_WRITES, /* a lost answer means that nobody knows */
    CALL_BINARY = 2
} call_mode; /* CALL_BINARY may be added: the answer in binary form */

/* NULL: failed, and the connection says why. Otherwise the caller's, to PQclear. */
PGresult *pg_conn_call(conn *c, sql_name which, int mode);
PGresult *pg_conn_query(conn *c, const char *sql, int mode); /* without parameters, several statements if need be */

bool pg_conn_code(const conn *c, const char *code); /* the last failure had this SQLSTATE */
pawl_status pg_conn_fail(const conn *c, const char *what, pawl_error *err);
void pg_conn_no_memory(conn *c);

/* The keywords of a connection for PQconnectStartParams; both arrays end with NULL. */
#define CONNECT_WORDS 16
void pg_link_keywords(const pg_link *l, const char *words[CONNECT_WORDS], const char *values[CONNECT_WORDS]);
void pg_conn_read_failure(PGconn *pg, pawl_status *status, char code[CODE_TEXT],
                          char why[300]); /* of a failed attempt to connect */

int64_t pg_mono_us(void);

/* ---- answers ---- */

int64_t pg_get_int(const PGresult *r, int row, int column); /* text form; NULL is 0 */
bool pg_get_is_null(const PGresult *r, int row, int column);
bool pg_get_truth(const PGresult *r, int row, int column);
const char *pg_get_text(const PGresult *r, int row, int column); /* NULL stays NULL */

/* Binary form. */
static inline int64_t wire64(const PGresult *r, int row, int column)
{
    uint64_t v;
    if (PQgetisnull(r, row, column)) return 0;
    memcpy(&v, PQgetvalue(r, row, column), 8);
    return (int64_t)be64toh(v);
}

static inline int32_t wire32(const PGresult *r, int row, int column)
{
    uint32_t v;
    if (PQgetisnull(r, row, column)) return 0;
    memcpy(&v, PQgetvalue(r, row, column), 4);
    return (int32_t)be32toh(v);
}

static inline int16_t wire16(const PGresult *r, int row, int column)
{
    uint16_t v;
    if (PQgetisnull(r, row, column)) return 0;
    memcpy(&v, PQgetvalue(r, row, column), 2);
    return (int16_t)be16toh(v);
}

static inline pawl_bytes wire_bytes(const PGresult *r, int row, int column)
{
    if (PQgetisnull(r, row, column)) return (pawl_bytes){0};
    return (pawl_bytes){PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column)};
}

#endif
