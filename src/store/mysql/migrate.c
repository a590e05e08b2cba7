/* The schema: creating it, moving it forward, and refusing what does not fit.
 *
 * A store records the number of its schema and the oldest program that may still use it (min_reader, in schema numbers). Migrations are
 * numbered and never edited. One that only adds leaves min_reader alone, so older programs go on working beside newer ones. One that
 * they would trip over raises min_reader; they refuse at open. That kind is not applied at open, but by `pawl migrate up` (migrate_all):
 * it takes a person to see that the older programs are gone.
 *
 * MariaDB commits every statement that changes the schema by itself. So each migration is written such that it may be repeated from its
 * beginning, and its number is recorded as soon as it is through: what was interrupted goes on from there. A session lock (GET_LOCK) keeps
 * two programs from doing it at once.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "mysql_sql.h"
#include "store/mysql/inner.h"
#include <stdio.h>
#include <stdlib.h>

/* Programs must know this schema number, or a later one, to use a store with that schema. */
static int min_reader(int schema)
{
    static const int numbers[] = {0, 8, 8, 8, 8, 8, 8, 8, 8}; /* nothing less than 8 was ever released */
    return schema < (int)(sizeof numbers / sizeof *numbers) ? numbers[schema] : schema;
}

int (*mysql_min_reader)(int schema) = min_reader;

static bool expands(int schema) { return schema <= 1 || mysql_min_reader(schema) <= mysql_min_reader(schema - 1); }

static bool all_expand(int64_t schema)
{
    for (int i = (int)schema + 1; schema > 0 && i <= mysql_migrations_count; i++)
        if (!expands(i)) return false;
    return true;
}

typedef struct found {
    int64_t schema, min_reader;
    char written_by[64], store_id[64];
} found;

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

static pawl_status read_meta(conn *c, found *f, pawl_error *err)
{
    my_script(c);
    my_add(c, SQL_look);
    if (!my_send(c, CALL_READS)) return my_conn_fail(c, "read the schema of", err);
    const answer *a = my_answer(c, SQL_look);
    for (int i = 0; i < a->rows; i++) {
        const char *key = get_text(a, i, 0), *value = get_text(a, i, 1);
        if (strcmp(key, "schema") == 0) f->schema = strtoll(value, NULL, 10);
        else if (strcmp(key, "min_reader") == 0) f->min_reader = strtoll(value, NULL, 10);
        else if (strcmp(key, "written_by") == 0) snprintf(f->written_by, sizeof f->written_by, "%s", value);
        else if (strcmp(key, "store_id") == 0) snprintf(f->store_id, sizeof f->store_id, "%s", value);
    }
    return PAWL_OK;
}

/* What there is: nothing of ours, or a store. */
static pawl_status look(conn *c, found *f, pawl_error *err)
{
    *f = (found){.written_by = "unknown"};
    my_script(c);
    my_put_text(c, c->link->url.database);
    my_add(c, SQL_is_there);
    if (!my_send(c, CALL_READS)) return my_conn_fail(c, "open", err);
    bool store = get_int(my_answer(c, SQL_is_there), 0, 0) > 0;
    return store ? read_meta(c, f, err) : PAWL_OK;
}

static pawl_status check(const conn *c, const found *f, pawl_error *err)
{
    if (f->min_reader <= mysql_migrations_count) return PAWL_OK;
    return err_set(
        err, PAWL_SCHEMA,
        "\"%s\" has schema %lld, written by pawl %s; this is pawl %s, which knows schema %d: update this program to at least "
        "that version",
        c->link->url.name, (long long)f->schema, f->written_by, PAWL_VERSION, mysql_migrations_count);
}

static pawl_status judge(const conn *c, const found *f, const pawl_store_options *o, pawl_error *err)
{
    const char *name = c->link->url.name;
    if (f->schema == 0 && o->read_only) return err_set(err, PAWL_NOT_FOUND, "there is no store in \"%s\": check the URL", name);
    if (f->schema >= mysql_migrations_count) return check(c, f, err);
    if (o->no_migrate || o->read_only)
        return err_set(
            err, PAWL_SCHEMA,
            "\"%s\" has schema %lld and this program needs %d: run `pawl migrate up`, or open it once without no_migrate "
            "and read_only",
            name, (long long)f->schema, mysql_migrations_count);
    if (!o->migrate_all && !all_expand(f->schema))
        return err_set(
            err, PAWL_SCHEMA,
            "\"%s\" has schema %lld and this program needs %d, which older programs cannot use: stop them, then run `pawl "
            "migrate up`",
            name, (long long)f->schema, mysql_migrations_count);
    return PAWL_OK;
}

/* ---- migrating ----------------------------------------------------------------------------------------------------------- */

/* What is recorded once a migration is through; once all are, also what they look like. */
static void add_record(buf *b, int number)
{
    bool last = number == mysql_migrations_count;
    buf_fmt(b,
            "INSERT INTO pawl_meta (name, value) VALUES ('schema', '%d'), ('min_reader', '%d'), ('written_by', '%s')\n"
            "ON DUPLICATE KEY UPDATE value = VALUES(value);\n"
            "INSERT IGNORE INTO pawl_meta (name, value) VALUES ('store_id', UUID());\n",
            number, mysql_min_reader(number), PAWL_VERSION);
    if (last)
        buf_fmt(b, "INSERT INTO pawl_meta (name, value) %.*s\nON DUPLICATE KEY UPDATE value = VALUES(value);\n",
                (int)strcspn(sql_shape, ";"), sql_shape);
}

static pawl_status run(conn *c, const buf *b, pawl_error *err)
{
    my_script(c);
    my_add_text(c, buf_text(b));
    if (b->failed) my_conn_no_memory(c);
    return !b->failed && my_send(c, CALL_WRITES) ? PAWL_OK : my_conn_fail(c, "migrate", err);
}

static pawl_status run_all(conn *c, int64_t from, buf *b, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    for (int64_t i = from; i < mysql_migrations_count && !status; i++) {
        buf_clear(b);
        buf_str(b, "SET SESSION max_statement_time = 0, group_concat_max_len = 1048576;\n");
        buf_str(b, mysql_migrations[i].text);
        buf_char(b, '\n');
        add_record(b, (int)i + 1);
        status = run(c, b, err);
    }
    return status;
}

static void lock_name(const conn *c, char out[64])
{
    const char *database = c->link->url.database;
    snprintf(out, 64, "pawl.migrate.%016llx", (unsigned long long)hash_bytes(database, strlen(database), 0));
}

/* One that another program was faster with does no harm: it is looked again under the lock. */
static pawl_status migrate(conn *c, buf *b, pawl_error *err)
{
    found f;
    char name[64];
    lock_name(c, name);
    my_script(c);
    my_put_text(c, name);
    my_put_int(c, c->link->call_us / PAWL_SECOND);
    my_add(c, SQL_lock_try);
    if (!my_send(c, CALL_READS)) return my_conn_fail(c, "migrate", err);
    if (get_int(my_answer(c, SQL_lock_try), 0, 0) != 1)
        return err_set(err, PAWL_UNAVAILABLE, "could not migrate \"%s\": somebody else is at it, and it takes long",
                       c->link->url.name);
    pawl_status status = look(c, &f, err);
    return status ? status : run_all(c, f.schema, b, err);
}

/* The connection goes with the lock and the settings that it had for this. */
static pawl_status migrate_with(conn *c, const pawl_allocator *a, pawl_error *err)
{
    buf b;
    buf_init(&b, a, 4 << 20);
    pawl_status status = migrate(c, &b, err);
    buf_done(&b);
    my_conn_drop(c);
    return status;
}

static pawl_status read_clock(my_store *s, conn *c, pawl_error *err)
{
    my_script(c);
    my_add(c, SQL_server_now);
    if (!my_send(c, CALL_READS)) return my_conn_fail(c, "read the clock of", err);
    my_server_seen(s, get_int(my_answer(c, SQL_server_now), 0, 0));
    return PAWL_OK;
}

pawl_status my_migrate_open(my_store *s, const pawl_store_options *o, pawl_error *err)
{
    conn *c = my_store_take(s, s->read_only ? READER : WRITER);
    found f;
    pawl_status status = look(c, &f, err);
    if (!status) status = judge(c, &f, o, err);
    if (!status && f.schema < mysql_migrations_count) {
        status = migrate_with(c, s->allocator, err);
        if (!status) status = look(c, &f, err);
    }
    if (!status) status = read_clock(s, c, err);
    snprintf(s->store_id, sizeof s->store_id, "%s", f.store_id);
    my_store_give(s, c);
    return status;
}

/* ---- what there is, for people ------------------------------------------------------------------------------------------- */

/* A migration as a person would run it. */
static const char *printable(const conn *c, int number, const pawl_allocator *a, pawl_arena *arena)
{
    buf b;
    buf_init(&b, a, 4 << 20);
    buf_fmt(&b, "USE `%s`;\nSET SESSION group_concat_max_len = 1048576;\n", c->link->url.database);
    buf_str(&b, mysql_migrations[number - 1].text);
    buf_char(&b, '\n');
    add_record(&b, number);
    const char *text = b.failed ? NULL : pawl_arena_str(arena, buf_text(&b));
    buf_done(&b);
    return text;
}

static bool list_migrations(const conn *c, pawl_schema *out, const pawl_allocator *a, pawl_arena *arena)
{
    int count = mysql_migrations_count;
    pawl_migration *list = pawl_arena_alloc(arena, (size_t)count * sizeof *list);
    for (int i = 0; list && i < count; i++) {
        const mysql_migration *m = &mysql_migrations[i];
        list[i] =
            (pawl_migration){m->version, m->name, printable(c, i + 1, a, arena), expands(m->version), m->version > out->stored};
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
    out->known = mysql_migrations_count;
    out->fits = f.min_reader <= out->known;
    bool whole = list_migrations(c, out, a, arena);
    if (f.schema > 0) whole = whole && (out->written_by = pawl_arena_str(arena, f.written_by));
    return whole ? PAWL_OK
                 : err_set(err, PAWL_NO_MEMORY, "could not read the schema of \"%s\": out of memory", c->link->url.name);
}

pawl_status my_schema(const pawl_store_options *o, pawl_schema *out, pawl_arena *arena, pawl_error *err)
{
    const pawl_allocator *a = o->allocator ? o->allocator : alloc_default();
    my_link l;
    conn c;
    pawl_status status = my_link_init(&l, a, o, err);
    if (!status) {
        my_conn_init(&c, &l, a);
        status = describe(&c, out, a, arena, err);
        my_conn_close(&c);
    }
    my_link_done(&l);
    return status;
}
