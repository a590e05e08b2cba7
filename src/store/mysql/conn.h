/* A connection, and scripts on it. A script is some statements that go to the server in one message and come back in one:
 *
 *     my_script(c);
 *     my_put_int(c, id);
 *     my_add(c, SQL_state);
 *     if (!my_send(c, CALL_READS)) return my_conn_fail(c, "read", err);
 *     const answer *a = my_answer(c, SQL_state);
 *
 * The server carries out one statement after the other and stops at the first that fails, so a COMMIT at the end of a script happens only
 * if everything before it did. A script that begins a transaction and does not end it must be followed by one that does, or by
 * my_rollback, before the connection is given back.
 *
 * In a statement `@.` stands for the database and $1, $2, ... for what was put, as literals. The caller's own connection (borrowed) gets
 * the statements one by one, and literals that mean the same under any setting of a session.
 *
 * Connections are made when they are needed and made anew when they were lost. After a failure to connect the store waits a little
 * (link) before it tries again; calls meanwhile fail at once, with the same reason.
 */
#ifndef STORE_MYSQL_CONN_H
#define STORE_MYSQL_CONN_H

#include "base/buf.h"
#include "store/mysql/connector.h"
#include "store/mysql/statements.h"
#include "store/mysql/url.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct my_link { /* what all connections of a store share */
    my_url url;
    char *sql[SQL_COUNT]; /* with the database's name in it */
    char *session;        /* the settings of our sessions */
    int64_t call_us;      /* how long a call may take */
    int64_t backoff_us;   /* the longest wait between two attempts to connect */
    bool needs_primary;
    pthread_mutex_t lock;
    int64_t closed_until_us; /* of the monotonic clock: no attempt before */
    int tries;
    pawl_status status; /* why */
    int code;
    char why[300];
} my_link;

typedef struct answer { /* the rows of one statement */
    sql_name which;
    MYSQL_RES *res;
    int rows, columns;
    MYSQL_ROW *row;
    unsigned long *lengths; /* rows x columns of them */
} answer;

#define PARAMS_MAX 32
#define SCRIPT_MAX ((size_t)1 << 30)

typedef struct conn {
    my_link *link;
    const pawl_allocator *allocator;
    MYSQL *my; /* NULL: not connected */
    buf script, literals;
    struct {
        const char *text; /* NULL: in `literals`, from `at` on */
        size_t at, len;
    } params[PARAMS_MAX];
    int params_count;
    sql_name *sent; /* the statements of the script, and where each ends */
    size_t *ends;
    int sent_count, sent_room;
    answer *answers;
    int answers_count, answers_room;
    bool borrowed;      /* the caller's own */
    bool inside;        /* a transaction may be open */
    bool script_failed; /* a part of the script failed already */
    bool tls;           /* what it writes goes through a library that does not know of SIGPIPE */
    bool patient;       /* its script may take an hour */
    int64_t limit_us;   /* how long its calls may take; 0: as long as any */
    size_t packet_max;  /* what the server takes in one message */
    uint64_t affected;  /* rows, by the last statement */
    uint64_t insert_id;
    uint64_t unsettled; /* rows of pawl_unsettled that were written since somebody set it to 0 */
    /* The last failure. */
    pawl_status status;
    int code; /* the server's or the library's number; 0: there is none */
    char why[300];
} conn;

pawl_status my_link_init(my_link *l, const pawl_allocator *a, const pawl_store_options *o, pawl_error *err);
void my_link_done(my_link *l);

void my_conn_init(conn *c, my_link *l, const pawl_allocator *a);
void my_conn_close(conn *c); /* also of one that was never initialised */
void my_conn_drop(conn *c);  /* at once */
bool my_conn_ready(conn *c); /* connects if need be */

typedef enum call_mode {
    CALL_READS, /* a lost answer means that nothing happened: it only reads, or ends inside a transaction */
    CALL_WRITES /* a lost answer means that nobody knows */
} call_mode;

#define ANSWER_NO_MEMORY (-1) /* as code, with UNKNOWN: the script was carried out, but there is no memory for its answer */

/* ---- scripts ---- */

void my_script(conn *c); /* begins an empty one; answers of the one before are forgotten */
void my_put_int(conn *c, int64_t v);
void my_put_int_or_null(conn *c, int64_t v, int64_t nothing);
void my_put_text(conn *c, const char *text);            /* NULL is NULL */
void my_put_bytes(conn *c, pawl_bytes bytes);           /* data NULL is NULL */
void my_put_raw(conn *c, const char *text, size_t len); /* as it is; must live until my_add */
void my_add(conn *c, sql_name which);                   /* the statement with what was put */
void my_add_text(conn *c, const char *sql);             /* any other, `@.` included */
bool my_send(conn *c, call_mode mode);                  /* false: failed, and the connection says why */
void my_rollback(conn *c);                              /* whatever is open */
const answer *my_answer(const conn *c, sql_name which); /* of the first such statement; one without rows if there is none */
void my_answers_forget(conn *c);

/* Literals into any buffer, as the connection needs them. */
void lit_int(buf *b, int64_t v);
void lit_int_or_null(buf *b, int64_t v, int64_t nothing);
void lit_text(const conn *c, buf *b, const char *text);
void lit_clean(const conn *c, buf *b, const char *text, size_t len); /* of what is no UTF-8 only what is; NULL is NULL */
void lit_bytes(const conn *c, buf *b, pawl_bytes bytes);

bool my_conn_code(const conn *c, int code);
bool my_conn_about_data(const conn *c); /* the last failure is about the data of some operation, and not about the store */
pawl_status my_conn_fail(const conn *c, const char *what, pawl_error *err);
void my_conn_no_memory(conn *c);
void my_conn_note(conn *c, pawl_status status, int code, const char *why);

void my_conn_note_error(conn *c); /* the server's, or the library's, own words */
pawl_status my_code_status(int code);

void my_add_with_database(buf *b, const char *sql, size_t len, const char *database); /* `@.` becomes its name */
size_t my_statement_length(const char *sql);                                          /* without the semicolon at its end */

int64_t my_mono_us(void);

/* Between the two, writing to a connection that has ended raises no SIGPIPE in this thread, which is the program's to handle. */
typedef struct hush {
    bool on;
    sigset_t before;
} hush;
hush my_hush(bool on);
void my_hush_end(const hush *h);

/* ---- answers ---- */

static inline const char *get_text(const answer *a, int row, int column) { return a->row[row][column]; }

static inline bool get_null(const answer *a, int row, int column) { return !a->row[row][column]; }

static inline int64_t get_int(const answer *a, int row, int column)
{
    const char *text = a->row[row][column];
    return text ? strtoll(text, NULL, 10) : 0;
}

static inline pawl_bytes get_bytes(const answer *a, int row, int column)
{
    if (!a->row[row][column]) return (pawl_bytes){0};
    return (pawl_bytes){a->row[row][column], a->lengths[row * a->columns + column]};
}

/* Every answer of one statement that was sent perhaps in several parts. */
#define EACH_ANSWER(a, c, name)                                                               \
    for (const answer *a = (c)->answers, *a##_end = a + (c)->answers_count; a < a##_end; a++) \
        if (a->which == (name))

#endif
