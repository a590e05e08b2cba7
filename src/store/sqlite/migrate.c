/* The schema: creating it, moving it forward, and refusing what does not fit.
 *
 * A store records the number of its schema and the oldest program that may still use it (min_reader, in schema numbers).
 * Migrations are numbered and never edited. One that only adds leaves min_reader alone, so older programs go on working; one
 * that they would trip over raises it, and they refuse at open, and at their next write if they are running already. That kind
 * is not applied at open, but by `pawl migrate up` (migrate_all): it takes a person to see that the older programs are gone.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "sqlite_sql.h"
#include "store/sqlite/inner.h"
#include "store/sqlite/sqlite.h"
#include <stdio.h>
#include <string.h>

/* Programs must know this schema number, or a later one, to use a store with that schema. */
static int min_reader(int schema)
{
    static const int numbers[] = {0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}; /* nothing less than 9 was ever released */
    return schema < (int)(sizeof numbers / sizeof *numbers) ? numbers[schema] : schema;
}

int (*sqlite_min_reader)(int schema) = min_reader;

/* Whether programs that know the schema before it go on working. */
static bool expands(int schema) { return schema <= 1 || sqlite_min_reader(schema) <= sqlite_min_reader(schema - 1); }

static bool all_expand(int64_t schema)
{
    for (int i = (int)schema + 1; schema > 0 && i <= sqlite_migrations_count; i++)
        if (!expands(i)) return false;
    return true;
}

typedef struct found {
    int64_t tables, ours; /* of anybody; of pawl, 0 without pawl_meta */
    int64_t schema;
} found;

static void written_by(conn *c, char *out, size_t size)
{
    query q = query_on(c, SQL_meta_get);
    put_text(&q, "written_by");
    const char *text = query_row(&q) ? get_text(&q) : NULL;
    snprintf(out, size, "%s", text ? text : "unknown");
    query_end(&q);
}

pawl_status migrate_check(conn *c, const char *path, pawl_error *err)
{
    int64_t min_reader = meta_int(c, "min_reader", 0), schema = meta_int(c, "schema", 0);
    if (c->rc) return conn_fail(c, "read the schema of", path, err);
    if (min_reader <= sqlite_migrations_count) return PAWL_OK;
    char by[64];
    written_by(c, by, sizeof by);
    return err_set(err, PAWL_SCHEMA,
                   "\"%s\" has schema %lld, written by pawl %s; this is pawl %s, which knows schema %d: update this "
                   "program to at least that version",
                   path, (long long)schema, by, PAWL_VERSION, sqlite_migrations_count);
}

static bool look(conn *c, found *f)
{
    int64_t meta = 0;
    *f = (found){0};
    conn_pragma_int(c, "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite!_%' ESCAPE '!'", &f->tables);
    conn_pragma_int(c, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'pawl_meta'", &meta);
    if (!meta) return c->rc == SQLITE_OK;
    conn_pragma_int(c, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name GLOB 'pawl_*'", &f->ours);
    f->schema = meta_int(c, "schema", 0);
    return c->rc == SQLITE_OK;
}

/* What the migrations up to that number create. */
static int64_t tables_of(int64_t schema)
{
    int64_t count = 0;
    for (int i = 0; i < sqlite_migrations_count && i < schema; i++)
        for (const char *at = sqlite_migrations[i].text; (at = strstr(at, "CREATE TABLE")); at++) count++;
    return count;
}

/* Whether it is a store, or may become one. */
static pawl_status judge_file(const char *path, const found *f, bool shared, pawl_error *err)
{
    if (f->ours == 0 && f->tables > 0 && !shared)
        return err_set(err, PAWL_INVALID,
                       "\"%s\" is a database of another program: choose another file, or set shared_file to keep "
                       "tasks in it (then prepare every connection to it with pawl_sqlite_prepare)",
                       path);
    if (f->ours > 0 && (f->schema == 0 || f->ours < tables_of(f->schema)))
        return err_set(err, PAWL_CORRUPT, "\"%s\" is damaged: it has only %lld of the tables of schema %lld; restore a backup",
                       path, (long long)f->ours, (long long)f->schema);
    return PAWL_OK;
}

static pawl_status judge(const sqlite_store *s, const found *f, const pawl_store_options *o, pawl_error *err)
{
    pawl_status status = judge_file(s->path, f, o->shared_file, err);
    if (status || f->schema >= sqlite_migrations_count) return status;
    if (o->no_migrate || o->read_only)
        return err_set(err, PAWL_SCHEMA,
                       "\"%s\" has schema %lld and this program needs %d: run `pawl migrate up`, or open it once without "
                       "no_migrate and read_only",
                       s->path, (long long)f->schema, sqlite_migrations_count);
    if (!o->migrate_all && !all_expand(f->schema))
        return err_set(err, PAWL_SCHEMA,
                       "\"%s\" has schema %lld and this program needs %d, which older programs cannot use: stop them, "
                       "then run `pawl migrate up`",
                       s->path, (long long)f->schema, sqlite_migrations_count);
    return PAWL_OK;
}

static void record(conn *c, bool fresh)
{
    meta_put(c, "schema", sqlite_migrations_count);
    meta_put(c, "min_reader", sqlite_min_reader(sqlite_migrations_count));
    if (fresh) meta_put(c, "store_id", (int64_t)(seed_from_system() >> 1));
    query q = query_on(c, SQL_meta_put);
    put_text(&q, "written_by");
    put_text(&q, PAWL_VERSION);
    query_run(&q);
}

/* Inside SQLite's own writer lock; looks again there, for another program may have been faster. */
static void migrate_inside(conn *c)
{
    found f;
    look(c, &f);
    if (f.schema >= sqlite_migrations_count) return;
    for (int64_t i = f.schema; i < sqlite_migrations_count; i++) conn_exec(c, sqlite_migrations[i].text);
    if (!c->rc) record(c, f.schema == 0);
}

static pawl_status migrate(sqlite_store *s, pawl_error *err)
{
    conn *c = &s->writer;
    found f;
    if (look(c, &f) && f.schema >= sqlite_migrations_count) return PAWL_OK;
    conn_exec(c, "BEGIN IMMEDIATE");
    migrate_inside(c);
    conn_exec(c, "COMMIT");
    if (!c->rc) return PAWL_OK;
    pawl_status status = conn_fail(c, "migrate", s->path, err);
    if (!sqlite3_get_autocommit(c->db)) sqlite3_exec(c->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static bool use_wal(conn *c)
{
    query q = query_on(c, SQL_use_wal);
    bool wal = query_row(&q) && strcmp(get_text(&q), "wal") == 0;
    query_end(&q);
    return wal;
}

pawl_status migrate_judge(sqlite_store *s, const pawl_store_options *o, pawl_error *err)
{
    conn *c = s->read_only ? &s->readers[0].conn : &s->writer;
    found f;
    if (!look(c, &f)) return conn_fail(c, "read", s->path, err);
    pawl_status status = judge(s, &f, o, err);
    return status == PAWL_OK && f.schema > 0 ? migrate_check(c, s->path, err) : status;
}

static bool is_wal(conn *c)
{
    query q = query_on(c, SQL_journal_mode);
    bool wal = query_row(&q) && strcmp(get_text(&q), "wal") == 0;
    query_end(&q);
    return wal;
}

/* Whether everything is as this program wants it; then there is nothing to write. */
bool migrate_done(sqlite_store *s, bool shared)
{
    conn *c = &s->writer;
    found f;
    if (!look(c, &f) || f.schema < sqlite_migrations_count || !is_wal(c)) return false;
    s->shared = meta_int(c, "shared", 0) != 0;
    return s->shared || !shared;
}

pawl_status migrate_open(sqlite_store *s, bool shared, pawl_error *err)
{
    conn *c = &s->writer;
    if (!use_wal(c)) {
        if (c->rc) return conn_fail(c, "turn on write-ahead logging in", s->path, err);
        return err_set(err, PAWL_UNSUPPORTED, "\"%s\" cannot use write-ahead logging on this file system: choose another place",
                       s->path);
    }
    pawl_status status = migrate(s, err);
    if (status) return status;
    if (shared) meta_put(c, "shared", 1);
    s->shared = shared || meta_int(c, "shared", 0) != 0;
    return c->rc ? conn_fail(c, "prepare", s->path, err) : PAWL_OK;
}

/* ---- what there is, for people ------------------------------------------------------------------------------------------- */

static bool list_migrations(pawl_schema *out, pawl_arena *arena)
{
    pawl_migration *list = pawl_arena_alloc(arena, (size_t)sqlite_migrations_count * sizeof *list);
    if (!list) return false;
    for (int i = 0; i < sqlite_migrations_count; i++) {
        const sqlite_migration *m = &sqlite_migrations[i];
        list[i] = (pawl_migration){m->version, m->name, m->text, expands(m->version), m->version > out->stored};
        if (list[i].pending) out->pending++;
    }
    out->closing = !all_expand(out->stored);
    out->count = (size_t)sqlite_migrations_count;
    out->migrations = list;
    return true;
}

static pawl_status describe(conn *c, const char *path, bool shared, pawl_schema *out, pawl_arena *arena, pawl_error *err)
{
    found f;
    char by[64];
    if (!look(c, &f)) return conn_fail(c, "read", path, err);
    pawl_status status = judge_file(path, &f, shared, err);
    if (status) return status;
    out->stored = f.schema;
    out->known = sqlite_migrations_count;
    if (f.schema > 0) {
        out->min_reader = meta_int(c, "min_reader", 0);
        written_by(c, by, sizeof by);
        if (!(out->written_by = pawl_arena_str(arena, by))) conn_note(c, SQLITE_NOMEM);
    }
    out->fits = out->min_reader <= out->known;
    if (!list_migrations(out, arena)) conn_note(c, SQLITE_NOMEM);
    return c->rc ? conn_fail(c, "read the schema of", path, err) : PAWL_OK;
}

pawl_status sqlite_schema(const pawl_store_options *o, pawl_schema *out, pawl_arena *arena, pawl_error *err)
{
    const char *path = sqlite_path(o->url, err);
    if (!path) return PAWL_INVALID;
    pawl_status status = sqlite_check_file(path, true, err);
    if (status) return status;
    conn c;
    status = conn_open(&c, o->allocator ? o->allocator : alloc_default(), path, CONN_READ, false, err);
    if (status) return status;
    status = describe(&c, path, o->shared_file, out, arena, err);
    conn_close(&c);
    return status;
}
