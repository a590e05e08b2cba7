/* A database with a damaged column. Whoever looks at it gets an answer or an error, in text and JSON that can be shown: no value in any
 * row may lead out of a table of names, nor may a text be missing where it is always there.
 *
 * The input: the number of a table, the number of a column, what kind of value (1 integer, 2 text, 3 bytes, 0 NULL), the value. All rows
 * of that column get the value; afterwards they are put back from a copy. */
#include "base/alloc.h"
#include "base/text.h"
#include "cli/cli.h"
#include "fuzz/fuzz.h"
#include <sqlite3.h>
#include <string.h>

#define TABLES 32
#define IDS 8
#define LARGEST (INT64_C(1) << 60) /* sums and differences of two of them are numbers still */

int LLVMFuzzerInitialize(int *argc, char ***argv);

static sqlite3 *db;
static pawl *p;
static char tables[TABLES][64];
static int tables_count;
static pawl_id ids[IDS];
static int ids_count;
static FILE *nowhere;

/* ---- a store with some of everything ------------------------------------------------------------------------------------------- */

static pawl_outcome work(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_error err;
    pawl_run_log(run, PAWL_INFO, "attempt %d", pawl_run_attempt(run));
    pawl_run_log(run, PAWL_WARN, "almost there");
    pawl_run_progress(run, 50, "half");
    if (strcmp(pawl_run_type(run), "bad") == 0) {
        pawl_run_error_code(run, "broken");
        return pawl_run_attempt(run) < 2 ? pawl_retry_in(run, 0, "once more") : pawl_fail(run, "never again");
    }
    pawl_run_result(run, pawl_str("{\"done\":true}"), NULL, &err);
    return pawl_ok();
}

static void send(pawl *engine, pawl_task task)
{
    pawl_error err;
    task.payload = pawl_str("{\"n\":1}");
    task.headers = "some";
    task.created_by = "fuzz";
    HOLDS(pawl_dispatch(engine, &task, &ids[ids_count++], &err) == PAWL_OK);
}

static void quiet(void *ctx, pawl_level level, const char *line) { (void)ctx, (void)level, (void)line; }

static void fill(const char *url)
{
    pawl *engine;
    pawl_error err;
    pawl_options options = {
        .store = url, .inline_mode = true, .inline_start_us = INT64_C(1800000000) * PAWL_SECOND, .log = quiet};
    HOLDS(pawl_open(&options, &engine, &err) == PAWL_OK);
    HOLDS(pawl_handle(engine, &(pawl_handler){.type = "good", .run = work}, &err) == PAWL_OK);
    HOLDS(pawl_handle(engine, &(pawl_handler){.type = "bad", .run = work}, &err) == PAWL_OK);
    HOLDS(pawl_start(engine, &err) == PAWL_OK);
    send(engine, (pawl_task){.type = "good", .key = "k", .tenant = "t"});
    send(engine, (pawl_task){.type = "bad", .max_attempts = 5, .timeout_us = PAWL_MINUTE});
    send(engine, (pawl_task){.type = "bad"});
    HOLDS(pawl_run_due(engine, NULL, &err) == PAWL_OK);
    send(engine, (pawl_task){.type = "good", .delay_us = PAWL_HOUR, .rate_key = pawl_str("r")});
    send(engine, (pawl_task){.type = "unknown", .queue = "elsewhere", .content_type = "text/plain"});
    send(engine, (pawl_task){.type = "good", .delay_us = PAWL_HOUR});
    HOLDS(pawl_cancel(engine, ids[ids_count - 1], "me", &err) == PAWL_OK);
    HOLDS(pawl_dead_ack(engine, ids[2], NULL, "me", "seen", NULL, &err) == PAWL_OK);
    HOLDS(pawl_close(engine) == 0);
}

static void run_sql(const char *fmt, const char *name)
{
    char *sql = sqlite3_mprintf(fmt, name, name);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        abort();
    }
    sqlite3_free(sql);
}

static void copy_tables(void)
{
    sqlite3_stmt *list;
    HOLDS(sqlite3_prepare_v2(db, "SELECT name FROM main.sqlite_schema WHERE type = 'table' ORDER BY name", -1, &list, NULL) ==
          SQLITE_OK);
    while (sqlite3_step(list) == SQLITE_ROW && tables_count < TABLES)
        snprintf(tables[tables_count++], sizeof *tables, "%s", (const char *)sqlite3_column_text(list, 0));
    sqlite3_finalize(list);
    for (int i = 0; i < tables_count; i++) run_sql("CREATE TEMP TABLE \"old_%w\" AS SELECT * FROM main.\"%w\"", tables[i]);
}

static void close_all(void)
{
    pawl_close(p);
    sqlite3_close(db);
    fclose(nowhere);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    char path[128], url[160];
    pawl_error err;
    snprintf(path, sizeof path, "%s/damage.db", fuzz_folder());
    snprintf(url, sizeof url, "sqlite:%s", path);
    nowhere = fopen("/dev/null", "w");
    HOLDS(nowhere);
    fill(url);
    HOLDS(sqlite3_open(path, &db) == SQLITE_OK);
    run_sql("PRAGMA temp_store = MEMORY; PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON", "");
    copy_tables();
    HOLDS(pawl_open(&(pawl_options){.store = url, .one_shot = true, .read_only = true, .log = quiet}, &p, &err) == PAWL_OK);
    atexit(close_all);
    return 0;
}

/* ---- damage ---------------------------------------------------------------------------------------------------------------------- */

static void bind(sqlite3_stmt *update, fuzz *in)
{
    int64_t kind = fuzz_int(in), number;
    pawl_bytes bytes;
    switch (kind) {
    case 1:
        number = fuzz_int(in);
        sqlite3_bind_int64(update, 1, number > LARGEST ? LARGEST : number < -LARGEST ? -LARGEST : number);
        break;
    case 2:
        bytes = fuzz_bytes(in);
        sqlite3_bind_text(update, 1, bytes.data ? bytes.data : "", (int)bytes.len, SQLITE_TRANSIENT);
        break;
    case 3: bytes = fuzz_bytes(in); sqlite3_bind_blob(update, 1, bytes.data, (int)bytes.len, SQLITE_TRANSIENT);
    }
}

/* The name of a column; false: there are not so many. */
static bool column_of(const char *table, int64_t number, char name[64])
{
    sqlite3_stmt *row;
    char *sql = sqlite3_mprintf("SELECT * FROM main.\"%w\"", table);
    HOLDS(sqlite3_prepare_v2(db, sql, -1, &row, NULL) == SQLITE_OK);
    bool there = number >= 0 && number < sqlite3_column_count(row);
    if (there) snprintf(name, 64, "%s", sqlite3_column_name(row, (int)number));
    sqlite3_finalize(row);
    sqlite3_free(sql);
    return there;
}

static const char *damage(fuzz *in)
{
    int64_t table = fuzz_int(in), column = fuzz_int(in);
    char name[64];
    if (table < 0 || table >= tables_count || !column_of(tables[table], column, name)) return NULL;
    sqlite3_stmt *update;
    char *sql = sqlite3_mprintf("UPDATE OR IGNORE main.\"%w\" SET \"%w\" = ?1", tables[table], name);
    HOLDS(sqlite3_prepare_v2(db, sql, -1, &update, NULL) == SQLITE_OK);
    bind(update, in);
    sqlite3_step(update); /* what a constraint forbids cannot be there */
    sqlite3_finalize(update);
    sqlite3_free(sql);
    return tables[table];
}

static void repair(const char *table)
{
    run_sql("BEGIN; DELETE FROM main.\"%w\"", table);
    run_sql("INSERT INTO main.\"%w\" SELECT * FROM temp.\"old_%w\"; COMMIT", table);
}

/* ---- looking --------------------------------------------------------------------------------------------------------------------- */

static void answered(pawl_status status, const pawl_error *err)
{
    if (status) fuzz_failed(status, err);
}

static void show(const pawl_info *info, const pawl_trail *trail)
{
    buf out;
    json_writer w;
    cli c = {0};
    HOLDS(info->type && info->queue && info->display && info->content_type);
    for (int i = 0; i < info->attempts_count && info->attempts; i++) HOLDS(info->attempts[i].outcome);
    buf_init(&out, alloc_default(), 1 << 20);
    jsonw_init(&w, &out, false);
    task_json(&w, info, trail, trail);
    HOLDS(!out.failed && json_valid((pawl_bytes){buf_text(&out), out.len}, NULL, NULL));
    buf_done(&out);
    FILE *terminal = stdout;
    stdout = nowhere;
    task_text(&c, info, trail, trail, true);
    stdout = terminal;
}

static void look_at(pawl_id id)
{
    pawl_error err;
    pawl_info *info = NULL;
    pawl_trail *trail = NULL;
    pawl_why_answer why;
    pawl_status status = pawl_get(p, id, &info, &err);
    answered(status, &err);
    pawl_status other = pawl_get_trail(p, id, &trail, &err);
    answered(other, &err);
    for (size_t i = 0; !other && i < trail->lines_count; i++)
        HOLDS(trail->lines[i].text && trail->lines[i].level >= PAWL_DEBUG && trail->lines[i].level <= PAWL_ERROR);
    for (size_t i = 0; !other && i < trail->audit_count; i++) HOLDS(trail->audit[i].from && trail->audit[i].to);
    if (!status && !other) show(info, trail);
    answered(pawl_why(p, id, &why, &err), &err);
    pawl_info_free(info);
    pawl_trail_free(trail);
}

static void look_at_list(pawl_filter filter)
{
    pawl_error err;
    pawl_page *page;
    pawl_status status = pawl_list(p, &filter, &page, &err);
    answered(status, &err);
    if (status) return;
    for (size_t i = 0; i < page->count; i++) show(page->tasks[i], NULL);
    pawl_page_free(page);
}

static void look_at_all(void)
{
    pawl_error err;
    pawl_stats *stats = NULL;
    pawl_nodes *nodes = NULL;
    for (int i = 0; i < ids_count; i++) look_at(ids[i]);
    look_at_list((pawl_filter){0});
    look_at_list((pawl_filter){.state = "failed", .unresolved = true, .oldest_first = true});
    look_at_list((pawl_filter){.queue = "default", .since_us = 1});
    pawl_status status = pawl_get_stats(p, PAWL_DAY, &stats, &err);
    answered(status, &err);
    for (size_t i = 0; !status && i < stats->queues_count; i++) HOLDS(stats->queues[i].name);
    status = pawl_get_nodes(p, &nodes, &err);
    answered(status, &err);
    for (size_t i = 0; !status && i < nodes->count; i++) HOLDS(nodes->nodes[i].name && nodes->nodes[i].queues);
    pawl_stats_free(stats);
    pawl_nodes_free(nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz in;
    fuzz_begin(&in, data, size);
    const char *table = damage(&in);
    if (table) {
        look_at_all();
        repair(table);
    }
    fuzz_end(&in);
    return 0;
}
