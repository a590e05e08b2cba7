/* A consistent copy while the store is in use.
 *
 * The copy is made from one read transaction, so commits meanwhile do not start it anew. It is written under another name and
 * renamed when it is complete: a file of the wanted name is a whole backup.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "store/sqlite/inner.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES_AT_ONCE 256

static pawl_status failed(const char *path, const char *why, pawl_status status, pawl_error *err)
{
    return err_set(err, status, "could not write the backup \"%s\": %s", path, why);
}

static pawl_status copy(conn *from, sqlite3 *to, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err)
{
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from->db, "main");
    if (!b) return failed(path, sqlite3_errmsg(to), PAWL_UNAVAILABLE, err);
    int rc;
    bool go_on = true;
    while (go_on && (rc = sqlite3_backup_step(b, PAGES_AT_ONCE)) == SQLITE_OK) {
        int total = sqlite3_backup_pagecount(b), left = sqlite3_backup_remaining(b);
        go_on = !progress || progress(ctx, total - left, total);
    }
    sqlite3_backup_finish(b);
    if (!go_on) return err_set(err, PAWL_CONFLICT, "the backup \"%s\" was stopped: no file is left", path);
    return rc == SQLITE_DONE ? PAWL_OK : failed(path, sqlite3_errstr(rc), PAWL_UNAVAILABLE, err);
}

static pawl_status copy_to(conn *from, const char *temporary, const char *path, pawl_backup_fn progress, void *ctx,
                           pawl_error *err)
{
    sqlite3 *to = NULL;
    int rc = sqlite3_open_v2(temporary, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    pawl_status status = rc ? failed(path, sqlite3_errstr(rc), PAWL_UNAVAILABLE, err) : copy(from, to, path, progress, ctx, err);
    rc = sqlite3_close(to);
    return status || rc == SQLITE_OK ? status : failed(path, sqlite3_errstr(rc), PAWL_UNAVAILABLE, err);
}

/* An empty file under a name that nobody else has. */
static pawl_status reserve(const char *temporary, const char *path, pawl_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        return err_set(err, PAWL_CONFLICT, "cannot write the backup \"%s\": the file exists; choose another name", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return failed(path, strerror(errno), errno == EACCES || errno == EROFS ? PAWL_DENIED : PAWL_UNAVAILABLE, err);
    close(fd);
    return PAWL_OK;
}

/* The new name is durable once the folder is. */
static pawl_status give_name(const char *temporary, const char *path, pawl_error *err)
{
    if (link(temporary, path) != 0) {
        if (errno == EEXIST)
            return err_set(err, PAWL_CONFLICT, "cannot write the backup \"%s\": the file exists; choose another name", path);
        return failed(path, strerror(errno), PAWL_UNAVAILABLE, err);
    }
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash) strcpy(folder, ".");
    else slash[slash == folder] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    return PAWL_OK;
}

pawl_status sqlite_backup(pawl_store *store, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err)
{
    sqlite_store *s = (sqlite_store *)store;
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.part-%ld", path, (long)getpid()) >= (int)sizeof temporary)
        return err_set(err, PAWL_INVALID, "cannot write the backup: its name is too long");
    pawl_status status = reserve(temporary, path, err);
    if (status) return status;
    conn from;
    status = conn_open(&from, s->allocator, s->path, CONN_READ, false, err);
    if (status == PAWL_OK) {
        int64_t ignored;
        from.busy_until_us = mono_us() + s->lock_wait_us;
        conn_exec(&from, CANARY(BACKUP_MOVING) ? "SELECT 1" : "BEGIN");
        conn_pragma_int(&from, "SELECT count(*) FROM sqlite_schema", &ignored);
        status = from.rc ? conn_fail(&from, "read", s->path, err) : copy_to(&from, temporary, path, progress, ctx, err);
        conn_close(&from);
    }
    if (status == PAWL_OK) status = give_name(temporary, path, err);
    unlink(temporary);
    return status;
}
