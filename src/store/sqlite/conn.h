/* A connection: the SQLite handle, its prepared statements, interned names, and the first error since the last conn_clear.
 *
 * Statements are used like this; a parameter and a column are taken in the order in which the SQL names them:
 *
 *     query q = query_on(c, SQL_live_get);
 *     put_int(&q, id);
 *     if (query_row(&q)) fence = get_int(&q);
 *     query_end(&q);
 *
 * An error is kept in the connection (c->rc) and makes everything after it do nothing, so a sequence is checked once, at its end.
 */
#ifndef STORE_SQLITE_CONN_H
#define STORE_SQLITE_CONN_H

#include "base/canary.h"
#include "base/map.h"
#include "store/sqlite/statements.h"
#include <pawl/store.h>
#include <sqlite3.h>

typedef struct names { /* text <-> number of pawl_name, both ways; see names.c */
    const pawl_allocator *allocator;
    map by_text, by_id;
    struct name_entry *last; /* the one asked for last */
    size_t count;
} names;

typedef struct conn {
    sqlite3 *db;
    const pawl_allocator *allocator;
    bool borrowed; /* the caller's own connection: not closed, statements not kept */
    sqlite3_stmt *stmts[SQL_COUNT];
    names names;
    int rc;                 /* 0, or SQLite's extended result code */
    char why[200];          /* what SQLite said */
    int64_t version;        /* PRAGMA data_version at the last look */
    int64_t busy_until_us;  /* when waiting for a lock is given up (monotonic) */
    int64_t cut_at_us;      /* when a read is cut (monotonic); 0: never */
    struct known *known;    /* leases that this connection wrote; see known.c */
    struct shim_file *file; /* the database file; NULL on a borrowed connection */
} conn;

typedef enum conn_mode { CONN_WRITE, CONN_READ } conn_mode;

pawl_status conn_open(conn *c, const pawl_allocator *a, const char *path, conn_mode mode, bool create, pawl_error *err);
void conn_borrow(conn *c, const pawl_allocator *a, sqlite3 *db);
void conn_close(conn *c); /* also of one that was never opened */

void conn_clear(conn *c); /* forgets the error */
/* Ends a transaction that is under way. Needs no memory if SQL_rollback was prepared before it began. */
void conn_roll_back(conn *c);
bool conn_exec(conn *c, const char *sql);
bool conn_pragma_int(conn *c, const char *sql, int64_t *out); /* the first column of the first row of any SQL */
pawl_status conn_status(const conn *c);                       /* what the error means for the caller of the store */
pawl_status conn_fail(const conn *c, const char *what, const char *path, pawl_error *err); /* the same, with a message */
bool conn_refused(const conn *c); /* the error is about one row: too large, or against a constraint */
bool conn_version_moved(conn *c); /* others committed since the last look */

void known_clear(conn *c); /* known.c: somebody else may have changed what it wrote */
void known_done(conn *c);
int64_t mono_us(void);

/* ---- statements ---- */

typedef struct query {
    conn *c;
    sqlite3_stmt *st;
    int param, column;
} query;

sqlite3_stmt *conn_prepare(conn *c, sql_name which);

static inline query query_on(conn *c, sql_name which)
{
    sqlite3_stmt *st = c->stmts[which];
    return (query){c, st ? st : conn_prepare(c, which), 0, 0};
}

void conn_note(conn *c, int rc); /* remembers the first error */

static inline void put_checked(query *q, int rc)
{
    if (rc != SQLITE_OK) conn_note(q->c, rc);
}

static inline void put_int(query *q, int64_t value)
{
    if (q->st) put_checked(q, sqlite3_bind_int64(q->st, ++q->param, value));
}

static inline void put_null(query *q)
{
    if (q->st) put_checked(q, sqlite3_bind_null(q->st, ++q->param));
}

/* NULL when it has the default, so that it takes no room. */
static inline void put_int_or_null(query *q, int64_t value, int64_t nothing)
{
    if (value == nothing) put_null(q);
    else put_int(q, value);
}

void put_text(query *q, const char *text);  /* NULL: NULL. The text must live until the statement has run */
void put_bytes(query *q, pawl_bytes bytes); /* as a blob */
bool query_run(query *q);                   /* to its end; false: failed */
bool query_row(query *q);                   /* the next row; false: no more, or failed */
void query_end(query *q);                   /* before the last row */

static inline int64_t get_int(query *q) { return sqlite3_column_int64(q->st, q->column++); }
static inline bool get_is_null(query *q) { return sqlite3_column_type(q->st, q->column) == SQLITE_NULL; }

static inline int64_t get_int_or(query *q, int64_t nothing) { return get_is_null(q) ? (q->column++, nothing) : get_int(q); }

/* Lent until the next row. */
static inline const char *get_text(query *q) { return (const char *)sqlite3_column_text(q->st, q->column++); }
pawl_bytes get_bytes(query *q);

/* ---- names ---- */

void names_init(names *n, const pawl_allocator *a);
void names_clear(names *n);
void names_trim(names *n);                    /* at the start of a transaction */
int64_t name_id(conn *c, const char *text);   /* interns it; 0: failed */
int64_t name_find(conn *c, const char *text); /* 0: nothing stored has this name */
const char *name_text(conn *c, int64_t id);   /* lent until the transaction ends; NULL: no such name */

#endif
