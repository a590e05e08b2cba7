/* The store `sqlite:`: opening and closing. See README.md for the ideas. */
#include "store/sqlite/sqlite.h"
#include "base/alloc.h"
#include "base/error.h"
#include "store/sqlite/inner.h"
#include "store/store.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECEIPT_MAX (16 << 20)
#define LOCK_WAIT_US (5 * PAWL_SECOND)

int (*sqlite_statfs)(const char *path, struct statfs *out) = statfs;

/* ---- what may be opened -------------------------------------------------------------------------------------------------- */

/* The path in a URL: sqlite:PATH, or sqlite:///PATH for an absolute one. */
const char *sqlite_path(const char *url, pawl_error *err)
{
    const char *path = url + strlen("sqlite:");
    if (strncmp(path, "//", 2) == 0) {
        if (path[2] != '/') {
            err_set(err, PAWL_INVALID, "cannot open store \"%s\": write sqlite:PATH, or sqlite:///PATH for an absolute path",
                    url);
            return NULL;
        }
        path += 2;
    }
    if (!path[0] || strcmp(path, ":memory:") == 0 || strncmp(path, "file:", 5) == 0 || strlen(path) > PATH_MAX - 16) {
        err_set(err, PAWL_INVALID, "cannot open store \"%.200s\": it must name a file (for a store in memory write memory:)",
                url);
        return NULL;
    }
    return path;
}

void sqlite_folder(const char *path, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s", path);
    char *slash = strrchr(out, '/');
    if (!slash) strcpy(out, ".");
    else slash[slash == out] = '\0';
}

/* Locks and shared memory, which SQLite's WAL needs, do not work across machines. */
const char *sqlite_network(const struct statfs *fs)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } networks[] = {{0x6969, "NFS"},        {0x517b, "SMB"},       {0xff534d42, "CIFS"},   {0xfe534d42, "SMB2"},
                    {0x01021997, "9p"},     {0x00c36400, "Ceph"},  {0x0bd00bd0, "Lustre"}, {0x5346414f, "AFS"},
                    {0x6b414653, "AFS"},    {0x73757245, "Coda"},  {0x47504653, "GPFS"},   {0x7461636f, "OCFS2"},
                    {0x01161970, "GFS2"},   {0x564c, "NCP"},       {0x65735546, "FUSE"},   {0xaad7aaea, "PanFS"},
                    {0x19830326, "BeeGFS"}, {0x013111a8, "IBRIX"}, {0x61756673, "AUFS"}};
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (((unsigned long)fs->f_type & 0xffffffff) == networks[i].magic) return networks[i].name;
    return NULL;
}

static pawl_status check_file_system(const char *path, const char *folder, pawl_error *err)
{
    struct statfs fs;
    if (sqlite_statfs(path, &fs) != 0 && sqlite_statfs(folder, &fs) != 0) return PAWL_OK; /* opening it will tell */
    const char *network = sqlite_network(&fs);
    if (!network) return PAWL_OK;
    return err_set(err, PAWL_UNSUPPORTED,
                   "\"%s\" is on a network file system (%s), where SQLite cannot keep data safe: use a local disk, or "
                   "a database server",
                   path, network);
}

static pawl_status denied(const char *path, const char *which, pawl_error *err)
{
    return err_set(err, PAWL_DENIED, "cannot write to %s \"%s\": change its permissions, or open the store read-only", which,
                   path);
}

static pawl_status check_new_file(const char *path, const char *folder, bool read_only, pawl_error *err)
{
    struct stat st;
    if (errno == EACCES) return err_set(err, PAWL_DENIED, "cannot look into the folder of \"%s\": check its permissions", path);
    if (read_only) return err_set(err, PAWL_NOT_FOUND, "there is no store \"%s\": check the path", path);
    if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(err, PAWL_INVALID, "cannot create \"%s\": its folder \"%s\" does not exist; create it first", path,
                       folder);
    return eaccess(folder, W_OK) == 0 ? PAWL_OK : denied(folder, "the folder", err);
}

pawl_status sqlite_check_file(const char *path, bool read_only, pawl_error *err)
{
    char folder[PATH_MAX];
    struct stat st;
    sqlite_folder(path, folder);
    pawl_status status = check_file_system(path, folder, err);
    if (status) return status;
    if (stat(path, &st) != 0) return check_new_file(path, folder, read_only, err);
    if (S_ISDIR(st.st_mode)) return err_set(err, PAWL_INVALID, "\"%s\" is a folder: name a file in it", path);
    if (!S_ISREG(st.st_mode)) return err_set(err, PAWL_INVALID, "\"%s\" is not a regular file", path);
    if (eaccess(path, R_OK) != 0) return err_set(err, PAWL_DENIED, "cannot read \"%s\": change its permissions", path);
    if (read_only) return PAWL_OK;
    if (eaccess(path, W_OK) != 0) return denied(path, "the file", err);
    return eaccess(folder, W_OK) == 0 ? PAWL_OK : denied(folder, "the folder", err);
}

/* Whether this SQLite was built, and set up by the program, for use from several threads. */
static pawl_status check_threads(pawl_error *err)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_FULLMUTEX;
    int rc = sqlite3_threadsafe() ? sqlite3_open_v2(":memory:", &db, flags, NULL) : SQLITE_OK;
    bool safe = db && sqlite3_db_mutex(db);
    sqlite3_close(db);
    if (rc == SQLITE_NOMEM) return err_set(err, PAWL_NO_MEMORY, "could not open SQLite: out of memory");
    if (safe) return PAWL_OK;
    return err_set(err, PAWL_UNSUPPORTED,
                   "this copy of SQLite (%s) cannot be used from several threads: link one built with "
                   "SQLITE_THREADSAFE=1 or 2, and do not configure it as single-threaded",
                   sqlite3_libversion());
}

/* ---- open and close ------------------------------------------------------------------------------------------------------ */

static void store_free(sqlite_store *s)
{
    watch_close(s);
    for (int i = 0; i < READERS; i++) {
        conn_close(&s->readers[i].conn);
        pthread_mutex_destroy(&s->readers[i].lock);
    }
    conn_close(&s->writer);
    sidecar_close(&s->side);
    tally_done(&s->tally);
    buf_done(&s->receipt);
    pthread_mutex_destroy(&s->write_lock);
    pthread_mutex_destroy(&s->watch_lock);
    alloc_free(s->allocator, s->path);
    alloc_free(s->allocator, s);
}

static sqlite_store *store_new(const pawl_store_options *o)
{
    const pawl_allocator *a = o->allocator ? o->allocator : alloc_default();
    sqlite_store *s = alloc_new(a, sizeof *s);
    if (!s) return NULL;
    s->base.type = &store_sqlite_type;
    s->allocator = a;
    s->clock = o->clock;
    s->log = o->log;
    s->log_ctx = o->log_ctx;
    s->lock_wait_us = o->lock_wait_us > 0 ? o->lock_wait_us : LOCK_WAIT_US;
    s->read_only = o->read_only;
    s->gate = s->bounded = -1;
    s->side = (sidecar){.fd = -1, .probe = -1};
    s->watch = (watch){.fd = -1, .side = -1, .wal = -1};
    tally_init(&s->tally, a);
    buf_init(&s->receipt, a, RECEIPT_MAX);
    pthread_mutex_init(&s->write_lock, NULL);
    pthread_mutex_init(&s->watch_lock, NULL);
    for (int i = 0; i < READERS; i++) pthread_mutex_init(&s->readers[i].lock, NULL);
    return s;
}

static pawl_status no_memory(const char *path, pawl_error *err)
{
    return err_set(err, PAWL_NO_MEMORY, "could not open \"%s\": out of memory", path);
}

/* SQLite resolves symbolic links; what lies beside the file must have the same name for everybody. */
static pawl_status set_path(sqlite_store *s, const conn *c, const char *path, pawl_error *err)
{
    struct stat st;
    s->path = alloc_str(s->allocator, sqlite3_db_filename(c->db, "main"));
    if (!s->path) return no_memory(path, err);
    if (stat(s->path, &st) == 0) {
        s->device = st.st_dev;
        s->inode = st.st_ino;
    }
    return PAWL_OK;
}

static pawl_status set_up_schema(sqlite_store *s, const pawl_store_options *o, pawl_error *err)
{
    s->writer.busy_until_us = mono_us() + s->lock_wait_us;
    if (migrate_done(s, o->shared_file)) return PAWL_OK;
    if (!sidecar_take_turn(&s->side, s->writer.busy_until_us))
        return err_set(err, PAWL_UNAVAILABLE, "could not open \"%s\": other processes are busy with it; try again", s->path);
    pawl_status status = migrate_open(s, o->shared_file, err);
    sidecar_end_turn(&s->side);
    return status;
}

/* Beside a file that is not ours nothing is created: it is judged before the sidecar is opened. */
static pawl_status open_to_write(sqlite_store *s, const pawl_store_options *o, const char *path, pawl_error *err)
{
    conn *c = &s->writer;
    pawl_status status = conn_open(c, s->allocator, path, CONN_WRITE, true, err);
    if (status == PAWL_OK) status = set_path(s, c, path, err);
    if (status == PAWL_OK) status = migrate_judge(s, o, err);
    if (status == PAWL_OK) status = sidecar_open(&s->side, s->allocator, s->path, false, err);
    if (status == PAWL_OK) status = set_up_schema(s, o, err);
    if (status) return status;
    conn_version_moved(c);
    s->open_version = c->version;
    atomic_store(&s->seen_version, c->version);
    ckpt_init(s);
    sidecar_touch(&s->side); /* those who were alone learn that they are not */
    return c->rc ? conn_fail(c, "open", s->path, err) : PAWL_OK;
}

static pawl_status open_to_read(sqlite_store *s, const pawl_store_options *o, const char *path, pawl_error *err)
{
    conn *c = &s->readers[0].conn;
    pawl_status status = conn_open(c, s->allocator, path, CONN_READ, false, err);
    if (status == PAWL_OK) status = set_path(s, c, path, err);
    if (status == PAWL_OK) status = migrate_judge(s, o, err);
    return status ? status : sidecar_open(&s->side, s->allocator, s->path, true, err);
}

static pawl_status sqlite_open(const pawl_store_options *o, pawl_store **out, pawl_error *err)
{
    const char *path = sqlite_path(o->url, err);
    if (!path) return PAWL_INVALID;
    pawl_status status = check_threads(err);
    if (status == PAWL_OK) status = sqlite_check_file(path, o->read_only, err);
    if (status) return status;
    sqlite_store *s = store_new(o);
    if (!s) return no_memory(path, err);
    status = o->read_only ? open_to_read(s, o, path, err) : open_to_write(s, o, path, err);
    if (status) store_free(s);
    else *out = &s->base;
    return status;
}

static void sqlite_close(pawl_store *store)
{
    sqlite_store *s = (sqlite_store *)store;
    ckpt_at_close(s);
    sidecar_leave(&s->side);
    store_free(s);
}

const pawl_store_type store_sqlite_type = {
    .version = PAWL_STORE_VERSION,
    .scheme = "sqlite",
    .blocking = true,
    .durable = true,
    .limits = true,
    .places = true,
    .schedules = true,
    .families = true,
    .lanes = 1,
    .open = sqlite_open,
    .close = sqlite_close,
    .register_node = sqlite_register_node,
    .leave = sqlite_leave,
    .take_ids = sqlite_take_ids,
    .apply = sqlite_apply,
    .claim = sqlite_claim,
    .renew = sqlite_renew,
    .held = sqlite_held,
    .rescue = sqlite_rescue,
    .sweep = sqlite_sweep,
    .read = sqlite_read,
    .tx_apply = sqlite_tx_apply,
    .watch_fd = sqlite_watch_fd,
    .watch_check = sqlite_watch_check,
    .backup = sqlite_backup,
    .schema = sqlite_schema,
    .examine = sqlite_examine,
    .feed = sqlite_feed,
    .drain = sqlite_drain,
    .set_gate = sqlite_set_gate,
    .load = sqlite_load,
};
