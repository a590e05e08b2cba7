/* Opening a connection the way this store needs it, running statements, and what SQLite's errors mean.
 *
 * No connection of ours ever checkpoints by itself, neither automatically nor when it is closed: on SQLite before 3.51.3 a
 * passive checkpoint that overlaps a commit of another connection can lose committed rows. See ckpt.c.
 */
#include "store/sqlite/conn.h"
#include "base/alloc.h"
#include "base/error.h"
#include "sqlite_sql.h"
#include "store/sqlite/vfs.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const texts[SQL_COUNT] = {
#define X(name) [SQL_##name] = sql_##name,
    SQL_TABLE(X)
#undef X
};

int64_t mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- errors -------------------------------------------------------------------------------------------------------------- */

void conn_note(conn *c, int rc)
{
    if (c->rc != SQLITE_OK) return;
    c->rc = rc;
    const char *said = c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc);
    bool own = c->db && sqlite3_errcode(c->db) == (rc & 0xff);
    own = own || (c->db && sqlite3_extended_errcode(c->db) == rc);
    snprintf(c->why, sizeof c->why, "%s", own ? said : sqlite3_errstr(rc));
}

void conn_clear(conn *c)
{
    c->rc = SQLITE_OK;
    c->why[0] = '\0';
}

bool conn_refused(const conn *c)
{
    int rc = c->rc & 0xff;
    return rc == SQLITE_TOOBIG || rc == SQLITE_CONSTRAINT || rc == SQLITE_MISMATCH || rc == SQLITE_RANGE;
}

pawl_status conn_status(const conn *c)
{
    if (c->rc == SQLITE_IOERR_CORRUPTFS) return PAWL_CORRUPT;
    if (c->rc == SQLITE_READONLY_DBMOVED) return PAWL_UNAVAILABLE;
    switch (c->rc & 0xff) {
    case SQLITE_OK: return PAWL_OK;
    case SQLITE_NOMEM: return PAWL_NO_MEMORY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return PAWL_CORRUPT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return PAWL_DENIED;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PROTOCOL:
    case SQLITE_INTERRUPT:
    case SQLITE_SCHEMA: return PAWL_UNAVAILABLE;
    default: return PAWL_INTERNAL;
    }
}

pawl_status conn_fail(const conn *c, const char *what, const char *path, pawl_error *err)
{
    pawl_status status = conn_status(c);
    switch (status) {
    case PAWL_CORRUPT:
        return err_set(err, status,
                       "\"%s\" is damaged (%s): stop every process that uses it, then restore a backup or try "
                       "`sqlite3 FILE .recover`",
                       path, c->why);
    case PAWL_DENIED:
        return err_set(err, status, "cannot %s \"%s\": %s; check the permissions of the file and its folder", what, path, c->why);
    case PAWL_NO_MEMORY: return err_set(err, status, "could not %s \"%s\": out of memory", what, path);
    case PAWL_UNAVAILABLE:
        if ((c->rc & 0xff) == SQLITE_BUSY)
            return err_set(err, status, "could not %s \"%s\": another program holds its write lock; try again", what, path);
        if ((c->rc & 0xff) == SQLITE_FULL)
            return err_set(err, status, "could not %s \"%s\": the disk is full; make room and try again", what, path);
        return err_set(err, status, "could not %s \"%s\": %s (%d)", what, path, c->why, c->rc);
    default: return err_set(err, status, "cannot %s \"%s\": %s (%d)", what, path, c->why, c->rc);
    }
}

/* ---- open and close ------------------------------------------------------------------------------------------------------ */

/* Waits for a lock that a foreign program holds; there is nothing to be told by, so it looks again, ever more slowly. */
static int on_busy(void *ctx, int times)
{
    conn *c = ctx;
    if (c->file && c->file->checkpointing) return vfs_checkpoint_busy(c->file);
    if (mono_us() >= c->busy_until_us) return 0;
    int64_t nap_us = times < 6 ? INT64_C(100) << times : 5000;
    nanosleep(&(struct timespec){.tv_nsec = nap_us * 1000}, NULL);
    return 1;
}

static int on_progress(void *ctx)
{
    const conn *c = ctx;
    return c->cut_at_us && mono_us() >= c->cut_at_us;
}

static bool set_up(conn *c, conn_mode mode)
{
    sqlite3_extended_result_codes(c->db, 1);
    sqlite3_busy_handler(c->db, on_busy, c);
    int rc = sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_wal_autocheckpoint(c->db, 0);
    if (rc != SQLITE_OK) conn_note(c, rc);
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (mode == CONN_READ) {
        sqlite3_progress_handler(c->db, 2000, on_progress, c);
        return conn_exec(c, "PRAGMA query_only=ON; PRAGMA cache_size=-8192; PRAGMA temp_store=MEMORY");
    }
    if (CANARY(UNSYNCED)) return conn_exec(c, "PRAGMA synchronous=NORMAL");
    return conn_exec(c, "PRAGMA synchronous=FULL; PRAGMA secure_delete=OFF; PRAGMA cache_size=-16384; PRAGMA temp_store=MEMORY;"
                        "PRAGMA journal_size_limit=67108864"); /* a WAL that a long reader made large shrinks again */
}

/* Payloads are nobody else's business: a file that is not there yet is made readable by its owner only, and -wal and -shm follow it.
 * A file that is there is never opened by hand: closing it would drop the locks of this process's other connections. */
static void make_private(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
}

pawl_status conn_open(conn *c, const pawl_allocator *a, const char *path, conn_mode mode, bool create, pawl_error *err)
{
    *c = (conn){.allocator = a, .busy_until_us = mono_us() + 5 * PAWL_SECOND};
    names_init(&c->names, a);
    const char *vfs = vfs_name();
    if (!vfs) return err_set(err, PAWL_NO_MEMORY, "could not open \"%s\": out of memory", path);
    int flags = SQLITE_OPEN_NOMUTEX | (mode == CONN_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE);
    if (create) make_private(path);
    int rc = sqlite3_open_v2(path, &c->db, flags | (create ? SQLITE_OPEN_CREATE : 0), vfs);
    if (rc != SQLITE_OK) conn_note(c, rc);
    if (!c->rc) set_up(c, mode);
    if (!c->rc) {
        rc = sqlite3_file_control(c->db, "main", SQLITE_FCNTL_FILE_POINTER, &c->file);
        if (rc != SQLITE_OK) conn_note(c, rc);
    }
    if (!c->rc) return PAWL_OK;
    pawl_status status = conn_fail(c, "open", path, err);
    conn_close(c);
    return status;
}

void conn_borrow(conn *c, const pawl_allocator *a, sqlite3 *db)
{
    *c = (conn){.db = db, .allocator = a, .borrowed = true};
    names_init(&c->names, a);
}

void conn_close(conn *c)
{
    for (int i = 0; i < SQL_COUNT; i++) sqlite3_finalize(c->stmts[i]);
    names_clear(&c->names);
    known_done(c);
    if (c->db && !c->borrowed) sqlite3_close(c->db);
    *c = (conn){0};
}

/* ---- statements ---------------------------------------------------------------------------------------------------------- */

sqlite3_stmt *conn_prepare(conn *c, sql_name which)
{
    if (c->rc) return NULL;
    unsigned flags = c->borrowed ? 0 : SQLITE_PREPARE_PERSISTENT;
    int rc = sqlite3_prepare_v3(c->db, texts[which], -1, flags, &c->stmts[which], NULL);
    if (rc != SQLITE_OK) conn_note(c, rc);
    return c->stmts[which];
}

void put_text(query *q, const char *text)
{
    if (!text) put_null(q);
    else if (q->st) put_checked(q, sqlite3_bind_text(q->st, ++q->param, text, -1, SQLITE_STATIC));
}

void put_bytes(query *q, pawl_bytes bytes)
{
    if (!bytes.data) put_null(q);
    else if (q->st) put_checked(q, sqlite3_bind_blob64(q->st, ++q->param, bytes.data, bytes.len, SQLITE_STATIC));
}

bool query_run(query *q)
{
    if (q->c->rc || !q->st) return false;
    int rc = sqlite3_step(q->st);
    if (rc != SQLITE_DONE && rc != SQLITE_ROW) conn_note(q->c, sqlite3_extended_errcode(q->c->db));
    sqlite3_reset(q->st);
    return q->c->rc == SQLITE_OK;
}

bool query_row(query *q)
{
    if (q->c->rc || !q->st) return false;
    q->column = 0;
    int rc = sqlite3_step(q->st);
    if (rc == SQLITE_ROW) return true;
    if (rc != SQLITE_DONE) conn_note(q->c, sqlite3_extended_errcode(q->c->db));
    query_end(q);
    return false;
}

void query_end(query *q)
{
    if (q->st) sqlite3_reset(q->st);
}

pawl_bytes get_bytes(query *q)
{
    int at = q->column++;
    if (sqlite3_column_type(q->st, at) == SQLITE_NULL) return (pawl_bytes){0};
    const char *data = sqlite3_column_blob(q->st, at);
    size_t len = (size_t)sqlite3_column_bytes(q->st, at);
    return (pawl_bytes){len ? data : "", len};
}

void conn_roll_back(conn *c)
{
    if (sqlite3_get_autocommit(c->db)) return;
    known_clear(c);
    sqlite3_stmt *st = c->stmts[SQL_rollback];
    if (st) {
        sqlite3_step(st);
        sqlite3_reset(st);
    } else {
        sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    }
}

bool conn_exec(conn *c, const char *sql)
{
    if (c->rc) return false;
    if (sqlite3_exec(c->db, sql, NULL, NULL, NULL) != SQLITE_OK) conn_note(c, sqlite3_extended_errcode(c->db));
    return c->rc == SQLITE_OK;
}

bool conn_pragma_int(conn *c, const char *sql, int64_t *out)
{
    sqlite3_stmt *st = NULL;
    if (c->rc) return false;
    bool found = false;
    if (sqlite3_prepare_v2(c->db, sql, -1, &st, NULL) != SQLITE_OK) conn_note(c, sqlite3_extended_errcode(c->db));
    int rc = c->rc ? SQLITE_DONE : sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        *out = sqlite3_column_int64(st, 0);
        found = true;
    } else if (rc != SQLITE_DONE) {
        conn_note(c, sqlite3_extended_errcode(c->db));
    }
    sqlite3_finalize(st);
    return found;
}

bool conn_version_moved(conn *c)
{
    query q = query_on(c, SQL_data_version);
    int64_t version = query_row(&q) ? get_int(&q) : c->version;
    query_end(&q);
    bool moved = version != c->version;
    c->version = version;
    if (moved) known_clear(c);
    return moved;
}
