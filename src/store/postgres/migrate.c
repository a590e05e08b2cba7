/* The schema: creating it, moving it forward, and refusing what does not fit.
 *
 * A store records the number of its schema and the oldest program that may still use it (min_reader, in schema numbers). Migrations are
 * numbered and never edited. One that only adds leaves min_reader alone, so older programs go on working beside newer ones: what they call
 * (functions with their arguments) stays. One that they would trip over raises min_reader and drops what they call; they refuse at open,
 * and at their next call if they are running already. That kind is not applied at open, but by `pawl migrate up` (migrate_all): it
 * takes a person to see that the older programs are gone.
 *
 * All that is pending is applied in one transaction, under a lock. The functions (functions/) come after that, all of them as they are now:
 * so a migration calls none, and one that changes nothing but functions says what, and holds no statement.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "postgres_sql.h"
#include "store/postgres/inner.h"
#include <stdio.h>
#include <stdlib.h>

/* Programs must know this schema number, or a later one, to use a store with that schema. */
static int min_reader(int schema)
{
    static const int numbers[] = {0,  17, 17, 17, 17, 17, 17, 17, 17, 17, /* nothing less than 17 was ever released */
                                  17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17};
    return schema < (int)(sizeof numbers / sizeof *numbers) ? numbers[schema] : schema;
}

int (*postgres_min_reader)(int schema) = min_reader;

static bool expands(int schema) { return schema <= 1 || postgres_min_reader(schema) <= postgres_min_reader(schema - 1); }

static bool all_expand(int64_t schema)
{
    for (int i = (int)schema + 1; schema > 0 && i <= postgres_migrations_count; i++)
        if (!expands(i)) return false;
    return true;
}

typedef struct found {
    bool there;  /* the schema exists */
    bool usable; /* and may be used by this role */
    int64_t schema, min_reader;
    char written_by[64], store_id[64];
} found;

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

static pawl_status read_meta(conn *c, found *f, pawl_error *err)
{
    pg_params_begin(&c->params);
    PGresult *r = pg_conn_call(c, SQL_look, CALL_READS);
    if (!r) return pg_conn_fail(c, "read the schema of", err);
    for (int i = 0; i < PQntuples(r); i++) {
        const char *key = pg_get_text(r, i, 0), *value = pg_get_text(r, i, 1);
        if (strcmp(key, "schema") == 0) f->schema = strtoll(value, NULL, 10);
        else if (strcmp(key, "min_reader") == 0) f->min_reader = strtoll(value, NULL, 10);
        else if (strcmp(key, "written_by") == 0) snprintf(f->written_by, sizeof f->written_by, "%s", value);
        else if (strcmp(key, "store_id") == 0) snprintf(f->store_id, sizeof f->store_id, "%s", value);
    }
    PQclear(r);
    return PAWL_OK;
}

/* What there is: no schema, one without our tables, or a store. */
static pawl_status look(conn *c, found *f, pawl_error *err)
{
    char sql[512];
    *f = (found){.written_by = "unknown"};
    if (!pg_conn_ready(c)) return pg_conn_fail(c, "open", err);
    char *schema = PQescapeLiteral(c->pg, c->link->url.schema, strlen(c->link->url.schema));
    snprintf(
        sql, sizeof sql,
        "SELECT n.oid IS NOT NULL, has_schema_privilege(n.oid, 'USAGE'), EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid "
        "AND c.relname = 'pawl_meta') FROM (SELECT 1) x LEFT JOIN pg_namespace n ON n.nspname = %s",
        schema ? schema : "''");
    PQfreemem(schema);
    PGresult *r = pg_conn_query(c, sql, CALL_READS);
    if (!r) return pg_conn_fail(c, "look at", err);
    f->there = pg_get_truth(r, 0, 0);
    f->usable = pg_get_truth(r, 0, 1);
    bool store = pg_get_truth(r, 0, 2);
    PQclear(r);
    if (f->there && !f->usable)
        return err_set(err, PAWL_DENIED, "cannot use schema \"%s\" of \"%s\": grant the role USAGE on it (docs/postgresql.md)",
                       c->link->url.schema, c->link->url.name);
    return store ? read_meta(c, f, err) : PAWL_OK;
}

static pawl_status check(const conn *c, const found *f, pawl_error *err)
{
    if (f->min_reader <= postgres_migrations_count) return PAWL_OK;
    return err_set(
        err, PAWL_SCHEMA,
        "\"%s\" has schema %lld, written by pawl %s; this is pawl %s, which knows schema %d: update this program to at least "
        "that version",
        c->link->url.name, (long long)f->schema, f->written_by, PAWL_VERSION, postgres_migrations_count);
}

static pawl_status judge(const conn *c, const found *f, const pawl_store_options *o, pawl_error *err)
{
    const char *name = c->link->url.name;
    if (f->schema == 0 && o->read_only)
        return err_set(err, PAWL_NOT_FOUND,
                       "there is no store in schema \"%s\" of \"%s\": check the URL (pawl_schema names the schema)",
                       c->link->url.schema, name);
    if (f->schema >= postgres_migrations_count) return check(c, f, err);
    if (o->no_migrate || o->read_only)
        return err_set(
            err, PAWL_SCHEMA,
            "\"%s\" has schema %lld and this program needs %d: run `pawl migrate up`, or open it once without no_migrate "
            "and read_only",
            name, (long long)f->schema, postgres_migrations_count);
    if (!o->migrate_all && !all_expand(f->schema))
        return err_set(
            err, PAWL_SCHEMA,
            "\"%s\" has schema %lld and this program needs %d, which older programs cannot use: stop them, then run `pawl "
            "migrate up`",
            name, (long long)f->schema, postgres_migrations_count);
    return PAWL_OK;
}

/* ---- migrating ----------------------------------------------------------------------------------------------------------- */

static void add_identifier(buf *b, const char *name)
{
    buf_char(b, '"');
    for (; *name; name++) {
        if (*name == '"') buf_char(b, '"');
        buf_char(b, *name);
    }
    buf_char(b, '"');
}

static void add_preamble(buf *b, const char *schema, bool create)
{
    if (create) {
        buf_str(b, "CREATE SCHEMA IF NOT EXISTS ");
        add_identifier(b, schema);
        buf_str(b, ";\n");
    }
    buf_str(b, "SET LOCAL search_path = ");
    add_identifier(b, schema);
    buf_str(b, ", pg_catalog, pg_temp;\n");
}

/* The functions, in any order, and which schema this is. */
static void add_end(buf *b)
{
    buf_str(b, "SET LOCAL check_function_bodies = off;\n");
    buf_str(b, postgres_functions);
    buf_fmt(b,
            "INSERT INTO pawl_meta (key, value) VALUES ('schema', '%d'), ('min_reader', '%d'), ('written_by', '%s'), ('shape', "
            "pawl_shape())\nON CONFLICT (key) DO UPDATE SET value = excluded.value;\n"
            "INSERT INTO pawl_meta (key, value) VALUES ('store_id', gen_random_uuid()::text) ON CONFLICT DO NOTHING;\n"
            "SELECT pawl_days(NULL, 7);\n",
            postgres_migrations_count, postgres_min_reader(postgres_migrations_count), PAWL_VERSION);
}

static bool run(conn *c, buf *b)
{
    if (b->failed) {
        pg_conn_no_memory(c);
        return false;
    }
    PGresult *r = pg_conn_query(c, buf_text(b), CALL_WRITES);
    PQclear(r);
    return r != NULL;
}

/* One that another program was faster with does no harm: it is looked again under the lock. */
static pawl_status migrate(conn *c, const found *before, buf *b, pawl_error *err)
{
    found f;
    buf_clear(b);
    buf_fmt(b, "BEGIN; SET LOCAL lock_timeout = '%lldms'; SELECT pg_advisory_xact_lock(%lld)", (long long)c->link->call_us / 1000,
            (long long)(hash_bytes(c->link->url.schema, strlen(c->link->url.schema), 0x7061776c) >> 2));
    if (!run(c, b)) return pg_conn_fail(c, "migrate", err);
    pawl_status status = look(c, &f, err);
    if (status) return status;
    if (f.schema >= postgres_migrations_count) return PAWL_OK;
    buf_clear(b);
    add_preamble(b, c->link->url.schema, !before->there);
    for (int64_t i = f.schema; i < postgres_migrations_count; i++) {
        buf_str(b, postgres_migrations[i].text);
        buf_char(b, '\n');
    }
    add_end(b);
    buf_str(b, "COMMIT");
    return run(c, b) ? PAWL_OK : pg_conn_fail(c, "migrate", err);
}

static pawl_status migrate_with(conn *c, const found *f, const pawl_allocator *a, pawl_error *err)
{
    buf b;
    buf_init(&b, a, 4 << 20);
    pawl_status status = migrate(c, f, &b, err);
    if (c->pg && PQtransactionStatus(c->pg) != PQTRANS_IDLE) PQclear(pg_conn_query(c, "ROLLBACK", CALL_READS));
    buf_done(&b);
    return status;
}

static pawl_status read_clock(pg_store *s, conn *c, pawl_error *err)
{
    pg_params_begin(&c->params);
    PGresult *r = pg_conn_call(c, SQL_server_now, CALL_READS);
    if (!r) return pg_conn_fail(c, "read the clock of", err);
    pg_server_seen(s, pg_get_int(r, 0, 0));
    PQclear(r);
    return PAWL_OK;
}

pawl_status pg_migrate_open(pg_store *s, const pawl_store_options *o, pawl_error *err)
{
    conn *c = pg_store_take(s, s->read_only ? READER : WRITER);
    found f;
    pawl_status status = look(c, &f, err);
    if (!status) status = judge(c, &f, o, err);
    if (!status && f.schema < postgres_migrations_count) {
        status = migrate_with(c, &f, s->allocator, err);
        if (!status) status = look(c, &f, err);
    }
    if (!status) status = read_clock(s, c, err);
    snprintf(s->store_id, sizeof s->store_id, "%s", f.store_id);
    pg_store_give(s, c);
    return status;
}

/* ---- what there is, for people ------------------------------------------------------------------------------------------- */

/* A migration as a person would run it. */
static const char *printable(const conn *c, int number, bool last, const pawl_allocator *a, pawl_arena *arena)
{
    buf b;
    buf_init(&b, a, 4 << 20);
    buf_str(&b, "BEGIN;\n");
    add_preamble(&b, c->link->url.schema, number == 1);
    buf_str(&b, postgres_migrations[number - 1].text);
    if (last) add_end(&b);
    buf_str(&b, "COMMIT;\n");
    const char *text = b.failed ? NULL : pawl_arena_str(arena, buf_text(&b));
    buf_done(&b);
    return text;
}

static bool list_migrations(const conn *c, pawl_schema *out, const pawl_allocator *a, pawl_arena *arena)
{
    int count = postgres_migrations_count;
    pawl_migration *list = pawl_arena_alloc(arena, (size_t)count * sizeof *list);
    for (int i = 0; list && i < count; i++) {
        const postgres_migration *m = &postgres_migrations[i];
        list[i] = (pawl_migration){m->version, m->name, printable(c, i + 1, i + 1 == count, a, arena), expands(m->version),
                                   m->version > out->stored};
        if (!list[i].sql) return false;
        if (list[i].pending) out->pending++;
    }
    out->closing = !all_expand(out->stored);
    out->count = (size_t)count;
    out->migrations = list;
    return list != NULL;
}

static pawl_status describe(conn *c, pawl_schema *out, const pawl_allocator *a, pawl_arena *arena, pawl_error *err)
{
    found f;
    pawl_status status = look(c, &f, err);
    if (status) return status;
    out->stored = f.schema;
    out->min_reader = f.min_reader;
    out->known = postgres_migrations_count;
    out->fits = f.min_reader <= out->known;
    bool whole = list_migrations(c, out, a, arena);
    if (f.schema > 0) whole = whole && (out->written_by = pawl_arena_str(arena, f.written_by));
    return whole ? PAWL_OK
                 : err_set(err, PAWL_NO_MEMORY, "could not read the schema of \"%s\": out of memory", c->link->url.name);
}

pawl_status pg_schema(const pawl_store_options *o, pawl_schema *out, pawl_arena *arena, pawl_error *err)
{
    const pawl_allocator *a = o->allocator ? o->allocator : alloc_default();
    pg_link l;
    conn c;
    pawl_status status = pg_link_init(&l, a, o, err);
    if (!status) {
        pg_conn_init(&c, &l, a);
        status = describe(&c, out, a, arena, err);
        pg_conn_close(&c);
    }
    pg_link_done(&l);
    return status;
}
