/* What a person should know about the database itself: the copy of SQLite, the WAL, who keeps it from starting anew, and tasks
 * of types that nobody knows.
 *
 * How far the WAL has come into the database is read from the WAL index, whose form is documented (https://sqlite.org/walformat.html)
 * and which SQLite itself has mapped for our connection: asking for a checkpoint would be a change, and a passive one is what
 * loses rows. Who is reading stands in the kernel's list of locks, so no descriptor of the -shm file is opened by hand, whose closing
 * would drop SQLite's own locks. A lock that is there at two looks LOOKS_APART_US apart belongs to a reader that does not let go.
 */
#include "base/alloc.h"
#include "store/sqlite/read.h"
#include "store/sqlite/vfs.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define MIB (INT64_C(1) << 20)
#define BEHIND_WARN (16 * MIB) /* four ordinary checkpoints that did not happen */
#define BEHIND_ACT (256 * MIB)
#define WAL_WARN (128 * MIB) /* twice what is left of it after a checkpoint */
#define LOOKS_APART_US (400 * PAWL_MILLISECOND)
#define LOCKS_MAX 64
#define MARKS 5
#define FIRST_MARK 123 /* the byte that is locked for it */
#define FRAME_HEADER 24
#define SHM_REGION 32768
#define TYPES_MAX 16  /* of one queue */
#define DUE_MAX 10000 /* so far is counted */
#define FIRST_BAD 3007000
#define FIRST_GOOD 3051003

/* ---- SQLite itself --------------------------------------------------------------------------------------------------------------- */

static void examine_version(bool shared, pawl_findings *f)
{
    static const char check[] = "sqlite";
    int version = sqlite3_libversion_number();
    const char *name = sqlite3_libversion();
    if (version < FIRST_BAD || version >= FIRST_GOOD) {
        pawl_find(f, check, PAWL_VERDICT_OK, "SQLite %s has no known fault that loses tasks.", name);
    } else if (!shared) {
        pawl_find(f, check, PAWL_VERDICT_OK,
                  "SQLite %s can lose committed rows when a passive checkpoint meets a commit (3.7.0 to 3.51.2 "
                  "can). Pawl never makes one, and this file is its own.",
                  name);
        pawl_advise(f, "Let no other program write to this file, the sqlite3 shell included, while tasks run.");
    } else {
        pawl_find(
            f, check, PAWL_VERDICT_WARN,
            "SQLite %s can lose committed rows when a passive checkpoint meets a commit (3.7.0 to "
            "3.51.2 can), and this file is shared with other programs. Pawl never makes one, but any connection that was not "
            "prepared does so by itself, and then tasks and the program's own rows can be lost.",
            name);
        pawl_advise(
            f, "Call pawl_sqlite_prepare on every connection of every program to this file, keep the sqlite3 shell away from it, "
               "and update SQLite to 3.51.3 or later.");
    }
}

/* ---- the WAL ------------------------------------------------------------------------------------------------------------------------ */

typedef struct wal {
    int64_t bytes; /* of the file */
    int64_t page_size;
    int64_t frames, backfilled; /* committed; of these, already in the database */
    int64_t marks[MARKS];       /* the last frame that readers of this mark see */
    bool known;
} wal;

static uint32_t word(const volatile void *page, size_t at)
{
    return *(const volatile uint32_t *)((const volatile char *)page + at);
}

/* The first page of the WAL index: the header twice (48 bytes each), then what checkpoints and readers note. */
static void read_index(conn *c, wal *w)
{
    volatile void *page = NULL;
    sqlite3_file *file = c->file ? c->file->real : NULL;
    if (!file || !file->pMethods || file->pMethods->iVersion < 2) return;
    if (file->pMethods->xShmMap(file, 0, SHM_REGION, 0, &page) != SQLITE_OK || !page) return;
    w->frames = word(page, 16);
    w->backfilled = word(page, 96);
    for (int i = 0; i < MARKS; i++) w->marks[i] = word(page, 100 + 4 * (size_t)i);
    w->known = true;
}

static wal read_wal(sqlite_store *s, conn *c)
{
    char path[PATH_MAX];
    struct stat st;
    wal w = {.page_size = 4096};
    snprintf(path, sizeof path, "%s-wal", s->path);
    if (stat(path, &st) == 0) w.bytes = st.st_size;
    conn_pragma_int(c, "PRAGMA page_size", &w.page_size);
    if (w.bytes > 0) read_index(c, &w);
    return w;
}

static int64_t frame_bytes(const wal *w, int64_t frames) { return frames > 0 ? frames * (w->page_size + FRAME_HEADER) : 0; }

static void examine_wal(const wal *w, pawl_findings *f)
{
    char size[32], behind_text[32];
    int64_t behind = w->known ? frame_bytes(w, w->frames - w->backfilled) : 0;
    size_text(w->bytes, size);
    size_text(behind, behind_text);
    pawl_verdict verdict = behind >= BEHIND_ACT                            ? PAWL_VERDICT_ACT
                           : behind >= BEHIND_WARN || w->bytes >= WAL_WARN ? PAWL_VERDICT_WARN
                                                                           : PAWL_VERDICT_OK;
    if (w->bytes == 0) pawl_find(f, "wal", verdict, "The WAL is empty: everything is in the database file.");
    else if (!w->known) pawl_find(f, "wal", verdict, "The WAL has %s.", size);
    else pawl_find(f, "wal", verdict, "The WAL has %s; up to %s of it are not in the database file yet.", size, behind_text);
    if (verdict != PAWL_VERDICT_OK)
        pawl_advise(
            f,
            "Something keeps checkpoints from completing, mostly a long reader (see below). Once it is gone, the next %d MiB of "
            "commits bring the WAL down; stopping all programs that use the store does it at once.",
            4);
}

/* ---- who reads ------------------------------------------------------------------------------------------------------------------------ */

typedef struct reader_lock {
    int64_t pid;
    int mark;
} reader_lock;

typedef struct reader_locks {
    reader_lock list[LOCKS_MAX];
    int count;
    bool known;
} reader_locks;

/* Some file systems show programs another device than the kernel notes with the lock; the inode must do there. */
static bool devices_match(const char *path, const struct stat *st, unsigned major_no, unsigned minor_no)
{
    struct statfs fs;
    if (major_no == major(st->st_dev) && minor_no == minor(st->st_dev)) return true;
    return statfs(path, &fs) == 0 && ((unsigned long)fs.f_type == 0x9123683e || (unsigned long)fs.f_type == 0x794c7630);
}

/* Readers hold a shared lock on a byte of the -shm file, the 123rd and those behind it, one for each mark. Neighbouring locks of one
 * process are one line. */
static void note_lock(const char *line, const char *path, const struct stat *st, reader_locks *out)
{
    char kind[16], access[16];
    unsigned major_no, minor_no;
    long pid;
    unsigned long inode, from, to;
    if (sscanf(line, "%*d: %15s %*s %15s %ld %x:%x:%lu %lu %lu", kind, access, &pid, &major_no, &minor_no, &inode, &from, &to) !=
        8)
        return;
    if (strcmp(kind, "POSIX") != 0 || strcmp(access, "READ") != 0 || inode != st->st_ino) return;
    if (!devices_match(path, st, major_no, minor_no)) return;
    for (unsigned long at = FIRST_MARK; at < FIRST_MARK + MARKS; at++)
        if (from <= at && at <= to && out->count < LOCKS_MAX)
            out->list[out->count++] = (reader_lock){pid, (int)(at - FIRST_MARK)};
}

static reader_locks list_readers(const sqlite_store *s)
{
    char path[PATH_MAX], line[256];
    struct stat st;
    reader_locks out = {0};
    snprintf(path, sizeof path, "%s-shm", s->path);
    if (stat(path, &st) != 0) return (reader_locks){.known = true}; /* nobody has it open */
    FILE *locks = fopen("/proc/locks", "re");
    if (!locks) return out;
    out.known = true;
    while (fgets(line, sizeof line, locks)) note_lock(line, path, &st, &out);
    fclose(locks);
    return out;
}

static bool still_there(const reader_locks *before, const reader_lock *lock)
{
    for (int i = 0; i < before->count; i++)
        if (before->list[i].pid == lock->pid && before->list[i].mark == lock->mark) return true;
    return false;
}

static void program_name(int64_t pid, char out[64])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(out, 64, file)) strcpy(out, "?");
    if (file) fclose(file);
    out[strcspn(out, "\n")] = '\0';
}

/* How much WAL cannot go into the database because of a reader of this mark; mark 0 reads the database file alone. */
static int64_t held_back(const wal *w, int mark) { return frame_bytes(w, w->frames - (mark ? w->marks[mark] : w->backfilled)); }

static int find_readers(const wal *w, const reader_locks *before, const reader_locks *after, pawl_findings *f)
{
    int found = 0;
    for (int i = 0; i < after->count; i++) {
        const reader_lock *lock = &after->list[i];
        int64_t held = held_back(w, lock->mark);
        char name[64], size[32];
        if (!still_there(before, lock)) continue;
        found++;
        program_name(lock->pid, name);
        size_text(held, size);
        pawl_verdict verdict = held >= BEHIND_ACT ? PAWL_VERDICT_ACT : held >= BEHIND_WARN ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK;
        pawl_find(f, "readers", verdict,
                  "Process %" PRId64 " (%s) does not let go of a read transaction, and keeps %s of WAL from "
                  "the database file.",
                  lock->pid, name, size);
        if (verdict != PAWL_VERDICT_OK)
            pawl_advise(f, "End that transaction, or the process: while it lasts the WAL grows with every commit.");
    }
    return found;
}

/* Between the looks our own connection is in no transaction. */
static void examine_readers(const sqlite_store *s, const wal *w, pawl_findings *f)
{
    reader_locks before = list_readers(s);
    nanosleep(&(struct timespec){.tv_nsec = LOOKS_APART_US * 1000}, NULL);
    reader_locks after = list_readers(s);
    if (!after.known) {
        pawl_find(f, "readers", PAWL_VERDICT_OK, "Who is reading is not known: there is no list of locks on this machine.");
        return;
    }
    if (find_readers(w, &before, &after, f) == 0) pawl_find(f, "readers", PAWL_VERDICT_OK, "No long reader.");
}

/* ---- types that nobody knows ------------------------------------------------------------------------------------------------------------ */

static int64_t due_in(reading *r, const lane_key *lane)
{
    query q = query_on(r->c, SQL_lane_count);
    put_int(&q, lane->queue_id);
    put_int(&q, lane->priority);
    put_int(&q, lane->class);
    put_int(&q, lane->type_id);
    put_int(&q, r->now_us);
    put_int(&q, DUE_MAX);
    int64_t due = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return due;
}

typedef struct type_list {
    int64_t type_id[TYPES_MAX], due[TYPES_MAX];
    int count;
} type_list;

/* A type has a lane for each priority. */
static void count_type(type_list *list, int64_t type_id, int64_t due)
{
    int i = 0;
    while (i < list->count && list->type_id[i] != type_id) i++;
    if (i == TYPES_MAX || due == 0) return;
    if (i == list->count) list->type_id[list->count++] = type_id;
    list->due[i] += due;
}

/* Those of tenants that take turns have an index of their own. */
static void count_shared(reading *r, const pawl_query *nodes, int64_t queue_id, const char *queue, type_list *list)
{
    query q = query_on(r->c, SQL_shared_types);
    put_int(&q, queue_id);
    put_int(&q, r->now_us);
    put_int(&q, DUE_MAX);
    while (query_row(&q)) {
        int64_t type_id = get_int(&q);
        const char *type = name_text(r->c, type_id);
        if (type && !pawl_type_known(nodes, queue, type)) count_type(list, type_id, get_int(&q));
    }
    query_end(&q);
}

static int types_of_queue(reading *r, const pawl_query *nodes, int64_t queue_id, const char *queue, pawl_findings *f)
{
    type_list list = {0};
    for (lane_key lane = LANE_FIRST(queue_id); lane_next(r->c, &lane);) {
        const char *type = name_text(r->c, lane.type_id);
        if (type && !pawl_type_known(nodes, queue, type)) count_type(&list, lane.type_id, due_in(r, &lane));
    }
    count_shared(r, nodes, queue_id, queue, &list);
    for (int i = 0; i < list.count; i++) {
        const char *type = name_text(r->c, list.type_id[i]);
        if (type) pawl_find_unknown_type(f, queue, type, list.due[i], DUE_MAX);
    }
    return list.count;
}

static void examine_types(reading *r, pawl_findings *f)
{
    pawl_query nodes = {0};
    int found = 0;
    nodes_read(r, &nodes);
    if (!nodes.nodes) return;
    query q = query_on(r->c, SQL_queues_list);
    while (query_row(&q)) {
        int64_t queue_id = get_int(&q);
        const char *queue = read_text(r, get_text(&q));
        bool paused = get_int(&q) != 0;
        if (queue && !paused) found += types_of_queue(r, &nodes, queue_id, queue, f);
    }
    query_end(&q);
    if (!found && !r->c->rc) pawl_find(f, "unknown_types", PAWL_VERDICT_OK, "No due task is of a type that nobody knows.");
}

/* ---- all of it ---------------------------------------------------------------------------------------------------------------------------- */

static void examine_database(sqlite_store *s, pawl_arena *arena, pawl_findings *f)
{
    conn *c = &s->readers[0].conn;
    reading r = {
        .s = s, .c = c, .arena = arena, .now_us = s->clock.wall_us(s->clock.ctx), .boot_us = s->clock.boot_us(s->clock.ctx)};
    examine_version(meta_int(c, "shared", 0) != 0, f);
    wal w = read_wal(s, c);
    examine_wal(&w, f);
    examine_readers(s, &w, f);
    examine_types(&r, f);
    if (c->rc) pawl_find(f, "store", PAWL_VERDICT_ACT, "The database could not be read to its end: %s.", c->why);
}

void sqlite_examine(const pawl_store_options *o, pawl_store *store, pawl_findings *f)
{
    const char *path = sqlite_path(o->url, NULL);
    if (path) disk_examine(path, f);
    if (!store) {
        examine_version(o->shared_file, f);
        return;
    }
    sqlite_store *s = (sqlite_store *)store;
    pawl_arena *arena = arena_new(s->allocator, 0);
    if (!arena) return;
    pthread_mutex_lock(&s->readers[0].lock);
    examine_database(s, arena, f);
    pthread_mutex_unlock(&s->readers[0].lock);
    arena_free(arena);
}
