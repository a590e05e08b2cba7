/* Checkpoints.
 *
 * SQLite 3.7.0 to 3.51.2 can lose committed rows when a passive checkpoint of one connection overlaps a commit of another that
 * starts the WAL anew. So every checkpoint of ours is FULL, on the writer connection and with the turn held: it has SQLite's
 * writer lock, and nobody can commit meanwhile. vfs.c sees to it that a FULL checkpoint never becomes a passive one.
 *
 * One is made about every 4 MiB of new WAL, and at close. A reader that does not let go leaves it incomplete after 50 ms; then
 * twice as much WAL may gather before the next, until one is complete.
 */
#include "base/error.h"
#include "store/sqlite/inner.h"
#include "store/sqlite/vfs.h"
#include <stdio.h>

#define WAL_BYTES (INT64_C(4) << 20)
#define WAL_BYTES_MAX (INT64_C(1) << 30)
#define CLOSE_WAIT_US (250 * PAWL_MILLISECOND)

static int on_wal(void *ctx, sqlite3 *db, const char *name, int frames)
{
    (void)db;
    (void)name;
    checkpointer *k = ctx;
    if (frames < k->frames) k->base = 0; /* it began anew */
    k->frames = frames;
    return SQLITE_OK;
}

static int64_t first_limit(const checkpointer *k) { return WAL_BYTES / k->page_size; }

void ckpt_init(sqlite_store *s)
{
    s->ckpt = (checkpointer){.page_size = 4096};
    conn_pragma_int(&s->writer, "PRAGMA page_size", &s->ckpt.page_size);
    s->ckpt.limit = first_limit(&s->ckpt);
    sqlite3_wal_hook(s->writer.db, on_wal, &s->ckpt);
}

static void complain(sqlite_store *s, int rc)
{
    char line[300];
    snprintf(line, sizeof line, "could not checkpoint \"%s\": %s; it will be tried again", s->path, sqlite3_errstr(rc));
    if (s->log) s->log(s->log_ctx, PAWL_WARN, line);
}

static int checkpoint(sqlite_store *s, int64_t wait_us, int *log, int *done)
{
    int how = CANARY(PASSIVE_CHECKPOINT) ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_FULL;
    if (CANARY(PASSIVE_CHECKPOINT)) sidecar_end_turn(&s->side); /* as one who does not write would */
    vfs_checkpoint_begin(s->writer.file, wait_us);
    int rc = sqlite3_wal_checkpoint_v2(s->writer.db, "main", how, log, done);
    vfs_checkpoint_end(s->writer.file);
    if (CANARY(PASSIVE_CHECKPOINT)) sidecar_take_turn(&s->side, INT64_MAX);
    return rc;
}

static void run(sqlite_store *s, int64_t wait_us)
{
    checkpointer *k = &s->ckpt;
    int log = 0, done = 0;
    int rc = checkpoint(s, wait_us, &log, &done);
    k->base = k->frames;
    if (rc == SQLITE_OK && done >= log) {
        k->limit = first_limit(k);
        return;
    }
    if (rc != SQLITE_OK && rc != SQLITE_BUSY) complain(s, rc);
    if (k->limit * 2 * k->page_size <= WAL_BYTES_MAX) k->limit *= 2;
}

void ckpt_after_commit(sqlite_store *s)
{
    if (s->ckpt.frames - s->ckpt.base >= s->ckpt.limit) run(s, s->lock_wait_us);
}

bool ckpt_now(sqlite_store *s, int64_t wait_us)
{
    if (!sidecar_take_turn(&s->side, mono_us() + wait_us)) return false;
    run(s, wait_us);
    sidecar_end_turn(&s->side);
    return true;
}

/* Leaves everything in the database file if that can be had without a long wait; otherwise it stays in the WAL, as durable. */
void ckpt_at_close(sqlite_store *s)
{
    if (s->ckpt.page_size == 0) return; /* opened to read */
    if (s->ckpt.frames > s->ckpt.base || sidecar_alone(&s->side)) ckpt_now(s, CLOSE_WAIT_US);
}
