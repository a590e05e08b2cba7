/* Files whose rows become tasks.
 *
 * An import is a chain of tasks. Each link reads some rows from where the one before came to, and ends: its success, the tasks of its rows, and
 * the next link are one commit, fenced like any outcome (pawl_run_spawn). So a row is one task whatever is killed, paused or cut off: what a link
 * has not committed did not happen, and nobody but the holder of the link can commit. Links are short, so that no kill costs
 * much, and a kill counts against one link only, not against the import.
 *
 *     {"file":"orders.csv"}  ─►  {"file":"orders.csv","resume":{"import":ID,"offset":181234,"line":2001,...}}  ─►  ...  ─►  the result
 *
 * The first link notes size, time and inode of the file; one that has changed since is not read on.
 */
#include "handlers/import.h"

#include "base/error.h"
#include "base/text.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES (4u << 20) /* of rows, in one link */
#define ERROR_TEXT 200
#define ERRORS_BYTES (32u << 10) /* of the result */
#define TEXTS_MAX (8u << 20)

/* clang-format off */
#define AT(kind, member, ...) SETTING(kind, import_settings, member, __VA_ARGS__)
static const setting settings[] = {
    AT(SETTING_TEXT, directory, "directory", "/PATH", "where files are; the payload's \"file\" is a path beneath it", .needed = true),
    AT(SETTING_NAME, task_type, "task-type", "TYPE", "type of the tasks that rows become", .needed = true),
    AT(SETTING_NAME, task_queue, "task-queue", "QUEUE", "their queue; default: that of their handler"),
    AT(SETTING_TEXT, task_key, "task-key", "TEXT", "their key, with fields of the row: order-{id}; default: none"),
    AT(SETTING_CHOICE, format, "format", "auto|csv|ndjson", "of the files; auto: by their names' ends", .choices = "auto|csv|ndjson", .fallback = "auto"),
    AT(SETTING_TEXT, separator, "separator", "CHARACTER", "between fields of CSV; \"tab\" for a tab", .fallback = ","),
    AT(SETTING_FLAG, no_header, "no-header", NULL, "CSV begins with data: columns has the names, in their order"),
    AT(SETTING_LIST, columns, "columns", "NAME:TYPE", "types of columns of CSV: text, int, number or bool; others are text"),
    AT(SETTING_LIST, needed, "needed", "NAME", "columns, or members of NDJSON objects, that may not be empty"),
    AT(SETTING_INT, chunk, "chunk", "N", "rows of one commit", .min = 1, .max = PAWL_BULK_MAX - 1, .fallback = "2000"),
    AT(SETTING_BYTES, row_max, "row-max", "BYTES", "of a row; longer ones are left out", .min = 100, .max = 16 << 20, .fallback = "1M"),
    AT(SETTING_INT, errors_max, "errors-max", "N", "rows that may be left out; with more the import fails", .min = 0, .max = INT64_C(1) << 50, .fallback = "10000"),
    SETTINGS_END};
/* clang-format on */

typedef struct import {
    const handler_open *o;
    const import_settings *set;
    pawl_arena *arena;
    char separator;
    column *columns;
    size_t columns_count;
    template *key; /* NULL: none */
} import;

/* ---- opening -------------------------------------------------------------------------------------------------------------------- */

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

static pawl_status check_settings(import *m, pawl_error *err)
{
    struct stat st;
    const import_settings *set = m->set;
    m->separator = strcmp(set->separator, "tab") == 0 ? '\t' : *set->separator;
    if (*set->directory != '/' || stat(set->directory, &st) || !S_ISDIR(st.st_mode))
        return err_set(err, PAWL_INVALID, "there is no directory \"%.200s\": write its whole path", set->directory);
    if (m->separator != '\t' && (strlen(set->separator) != 1 || strchr("\"\r\n", m->separator)))
        return err_set(err, PAWL_INVALID, "separator \"%.20s\" is not one character, or cannot be one", set->separator);
    if (set->no_header && !set->columns.count)
        return err_set(err, PAWL_INVALID, "no-header needs columns: their names, in their order");
    if (set->columns.count && strcmp(set->format, "ndjson") == 0)
        return err_set(err, PAWL_INVALID, "columns are for CSV: objects have their own names and types");
    return PAWL_OK;
}

static void import_close(void *ctx)
{
    import *m = ctx;
    if (!m) return;
    arena_free(m->arena);
    alloc_free(m->o->allocator, m);
}

static pawl_status read_key(import *m, pawl_error *err)
{
    pawl_error why;
    if (!m->set->task_key) return PAWL_OK;
    if (!template_parse(m->set->task_key, m->arena, &m->key, &why)) return PAWL_OK;
    return err_set(err, why.status, "task-key \"%.100s\": %s", m->set->task_key, why.message);
}

static pawl_status import_open(const handler_open *o, void **ctx, pawl_error *err)
{
    import *m = alloc_new(o->allocator, sizeof *m);
    if (!m) return no_memory(err);
    *m = (import){.o = o, .set = o->settings, .arena = arena_new(o->allocator, TEXTS_MAX)};
    pawl_status status = m->arena ? check_settings(m, err) : no_memory(err);
    if (!status) m->columns = pawl_arena_alloc(m->arena, (m->set->columns.count + 1) * sizeof *m->columns);
    if (!status && !m->columns) status = no_memory(err);
    if (!status) status = columns_read(&m->set->columns, m->arena, m->columns, &m->columns_count, err);
    if (!status) status = read_key(m, err);
    if (status) import_close(m);
    else *ctx = m;
    return status;
}

/* ---- one link of the chain ------------------------------------------------------------------------------------------------------------------- */

typedef struct hop {
    const import *m;
    pawl_run *run;
    pawl_arena *arena;
    int fd;
    bool ndjson, reading; /* reading: `rows` is in use */
    import_place place;
    column columns[ROWS_FIELDS_MAX];
    size_t columns_count;
    rows rows;
    buf object, errors; /* a row; the first bad ones */
    int errors_count;
    int64_t taken, bytes;
    char by[PAWL_ID_TEXT + 8];
} hop;

static void note_bad(hop *l, const char *why)
{
    json_writer w;
    const rows *r = &l->rows;
    char text[ERROR_TEXT * 2];
    snprintf(text, sizeof text, "%.*s", (int)utf8_cut(why, strlen(why) < ERROR_TEXT ? strlen(why) : ERROR_TEXT), why);
    l->place.bad++;
    pawl_run_log(l->run, PAWL_WARN, "line %lld: %s", (long long)r->row_line, text);
    if (l->errors_count >= IMPORT_ERRORS_MAX || l->errors.len > ERRORS_BYTES) return;
    l->errors_count++;
    if (l->errors.len > 1) buf_char(&l->errors, ',');
    jsonw_init(&w, &l->errors, false);
    jsonw_object(&w);
    jsonw_key(&w, "line");
    jsonw_int(&w, r->row_line);
    jsonw_key(&w, "error");
    jsonw_string(&w, text);
    jsonw_end_object(&w);
}

/* What the links before have noted, without the bracket that closes it. */
static void begin_errors(hop *l)
{
    json key, value;
    pawl_bytes before = l->place.errors;
    if (before.len < 2) before = pawl_str("[]");
    buf_add(&l->errors, before.data, before.len - 1);
    for (size_t at = 0; json_each(json_parse(before), &at, &key, &value);) l->errors_count++;
}

static pawl_status find_format(hop *l, pawl_error *err)
{
    const char *format = l->m->set->format, *dot = strrchr(l->place.file, '.');
    if (strcmp(format, "auto") != 0) return l->ndjson = strcmp(format, "ndjson") == 0, PAWL_OK;
    if (dot && (strcasecmp(dot, ".ndjson") == 0 || strcasecmp(dot, ".jsonl") == 0)) return l->ndjson = true, PAWL_OK;
    if (dot && (strcasecmp(dot, ".csv") == 0 || strcasecmp(dot, ".tsv") == 0)) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "cannot tell the format of \"%.200s\" by its name: .csv, .ndjson or .jsonl, or set format",
                   l->place.file);
}

static pawl_status check_file(hop *l, pawl_error *err)
{
    struct stat st;
    import_place *p = &l->place;
    if (fstat(l->fd, &st)) return err_set(err, PAWL_UNAVAILABLE, "could not look at \"%.200s\": %s", p->file, strerror(errno));
    int64_t mtime_us = (int64_t)st.st_mtim.tv_sec * PAWL_SECOND + st.st_mtim.tv_nsec / 1000, inode = (int64_t)st.st_ino;
    bool first = !p->line;
    if (first) p->size = st.st_size, p->mtime_us = mtime_us, p->inode = inode, p->line = 1;
    if (p->size == st.st_size && p->mtime_us == mtime_us && p->inode == inode) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "\"%.200s\" has changed since its import began: rows up to line %lld are tasks", p->file,
                   (long long)p->line - 1);
}

/* Columns come from the first row, which every link reads. */
static pawl_status read_header(hop *l, pawl_error *err)
{
    const import *m = l->m;
    if (l->ndjson) return PAWL_OK;
    if (m->set->no_header)
        return columns_match(NULL, m->columns, m->columns_count, &m->set->needed, l->arena, l->columns, &l->columns_count, err);
    rows_init(&l->rows, m->o->allocator, l->fd, m->separator, (size_t)m->set->row_max, 0, 1);
    bool there = rows_next(&l->rows);
    pawl_status status =
        there
            ? columns_match(&l->rows, m->columns, m->columns_count, &m->set->needed, l->arena, l->columns, &l->columns_count, err)
        : l->rows.failed ? err_set(err, PAWL_UNAVAILABLE, "could not read the file: %s", strerror(l->rows.failed))
                         : err_set(err, PAWL_INVALID, "the file is empty: there is no header");
    if (!status && !l->place.offset) l->place.offset = l->rows.offset, l->place.line = l->rows.line;
    rows_done(&l->rows);
    return status;
}

static pawl_status begin(hop *l, pawl_error *err)
{
    pawl_status status = import_place_read(pawl_run_payload(l->run), l->arena, &l->place, err);
    if (!status) status = find_format(l, err);
    if (!status) status = import_open_file(l->m->set->directory, l->place.file, &l->fd, err);
    if (!status) status = check_file(l, err);
    if (!status) status = read_header(l, err);
    if (status) return status;
    if (!*l->place.import) pawl_id_format(pawl_run_id(l->run), l->place.import);
    snprintf(l->by, sizeof l->by, "import:%s", l->place.import);
    begin_errors(l);
    rows_init(&l->rows, l->m->o->allocator, l->fd, l->ndjson ? '\0' : l->m->separator, (size_t)l->m->set->row_max,
              l->place.offset, l->place.line);
    l->reading = true;
    return PAWL_OK;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------------------- */

static pawl_status check_needed(const hop *l, json object, pawl_error *err)
{
    const text_list *needed = &l->m->set->needed;
    for (size_t i = 0; i < needed->count; i++) {
        json value = object.kind == JSON_OBJECT ? json_member(object, needed->items[i]) : (json){.kind = JSON_NONE};
        bool empty = value.kind == JSON_NONE || value.kind == JSON_NULL || (value.kind == JSON_STRING && value.raw.len == 2);
        if (empty) return err_set(err, PAWL_INVALID, "%s is missing or empty", needed->items[i]);
    }
    return PAWL_OK;
}

static pawl_status read_row(hop *l, pawl_bytes *payload, pawl_error *err)
{
    size_t where;
    const char *what;
    const rows *r = &l->rows;
    if (r->broken) return err_set(err, PAWL_INVALID, "the row %s", r->broken);
    if (!l->ndjson) {
        buf_clear(&l->object);
        pawl_status status = columns_object(r, l->columns, l->columns_count, &l->object, err);
        *payload = (pawl_bytes){l->object.data, l->object.len};
        return status;
    }
    *payload = (pawl_bytes){r->text.data, r->text.len};
    if (!json_valid(*payload, &where, &what)) return err_set(err, PAWL_INVALID, "column %zu: not JSON: %s", where + 1, what);
    return check_needed(l, json_parse(*payload), err);
}

static pawl_status spawn(hop *l, pawl_bytes payload, pawl_error *err)
{
    arguments key;
    pawl_status status = PAWL_OK;
    pawl_task task = {.type = l->m->set->task_type,
                      .queue = l->m->set->task_queue,
                      .tenant = pawl_run_tenant(l->run),
                      .payload = payload,
                      .created_by = l->by};
    arguments_init(&key, l->m->o->allocator);
    key.plain = true;
    if (l->m->key) {
        status = arguments_fill(&key, l->m->key, json_parse(payload), err);
        task.key = key.count ? buf_text(&key.text) : NULL;
    }
    if (!status) status = pawl_run_spawn(l->run, &task, NULL, err);
    arguments_done(&key);
    return status;
}

/* What is wrong with a row is noted, and it is left out; what is wrong with the world stops the link. */
static pawl_status take_row(hop *l, pawl_error *err)
{
    pawl_bytes payload;
    pawl_status status = read_row(l, &payload, err);
    if (!status) status = spawn(l, payload, err);
    if (status == PAWL_INVALID || status == PAWL_TOO_LARGE) {
        note_bad(l, err->message);
        return PAWL_OK;
    }
    if (!status) l->place.rows++, l->bytes += (int64_t)payload.len;
    return status;
}

/* true: there may be more */
static bool take_rows(hop *l, pawl_error *err, pawl_status *status)
{
    const import_settings *set = l->m->set;
    *status = PAWL_OK;
    while (l->taken < set->chunk && l->bytes < CHUNK_BYTES && l->place.bad <= set->errors_max) {
        if (l->taken % 256 == 0 && pawl_run_stopping(l->run)) return true;
        if (!rows_next(&l->rows)) return false;
        l->taken++;
        if ((*status = take_row(l, err))) return true;
    }
    return true;
}

/* ---- its end -------------------------------------------------------------------------------------------------------------------- */

static pawl_outcome refuse(pawl_run *run, const pawl_error *err)
{
    if (err->status != PAWL_INVALID) return pawl_retry(run, "%s", err->message);
    pawl_run_error_code(run, "bad_import");
    return pawl_fail(run, "%s", err->message);
}

static void close_errors(hop *l)
{
    buf_char(&l->errors, ']');
    l->place.errors = (pawl_bytes){l->errors.data, l->errors.failed ? 0 : l->errors.len};
}

/* What the import has come to; `next`: the link that goes on, 0: there is none. */
static void give_result(const hop *l, pawl_id next)
{
    buf result;
    json_writer w;
    char id[PAWL_ID_TEXT];
    const import_place *p = &l->place;
    buf_init(&result, l->m->o->allocator, 64 << 10);
    jsonw_init(&w, &result, false);
    jsonw_object(&w);
    jsonw_key(&w, "import");
    jsonw_string(&w, p->import);
    jsonw_key(&w, "file");
    jsonw_string(&w, p->file);
    jsonw_key(&w, "rows");
    jsonw_int(&w, p->rows);
    jsonw_key(&w, "bad");
    jsonw_int(&w, p->bad);
    if (next) {
        pawl_id_format(next, id);
        jsonw_key(&w, "next");
        jsonw_string(&w, id);
    } else {
        jsonw_key(&w, "errors");
        jsonw_raw(&w, p->errors.len ? p->errors : pawl_str("[]"));
    }
    jsonw_end_object(&w);
    if (!result.failed) pawl_run_result(l->run, (pawl_bytes){result.data, result.len}, NULL, NULL);
    buf_done(&result);
}

static pawl_outcome go_on(hop *l)
{
    buf payload;
    pawl_error err;
    pawl_id id;
    buf_init(&payload, l->m->o->allocator, 1 << 20);
    import_place_write(&l->place, &payload);
    pawl_task next = {.type = pawl_run_type(l->run),
                      .queue = pawl_run_queue(l->run),
                      .tenant = pawl_run_tenant(l->run),
                      .payload = {payload.data, payload.len},
                      .created_by = l->by};
    pawl_status status = payload.failed ? no_memory(&err) : pawl_run_spawn(l->run, &next, &id, &err);
    buf_done(&payload);
    if (status) return refuse(l->run, &err);
    give_result(l, id);
    return pawl_ok();
}

static pawl_outcome end(const hop *l)
{
    const import_place *p = &l->place;
    give_result(l, 0);
    pawl_run_log(l->run, PAWL_INFO, "%lld rows became tasks, %lld were left out", (long long)p->rows, (long long)p->bad);
    return pawl_ok();
}

static void show_progress(hop *l)
{
    char text[96];
    const import_place *p = &l->place;
    snprintf(text, sizeof text, "%lld rows, %lld left out", (long long)p->rows, (long long)p->bad);
    pawl_run_progress(l->run, p->size ? (int)((double)p->offset / (double)p->size * 100) : 100, text);
}

static pawl_outcome work(hop *l)
{
    pawl_error err;
    pawl_status status;
    show_progress(l);
    bool more = take_rows(l, &err, &status);
    pawl_stop_reason stop = pawl_run_stopping(l->run);
    if (status) return refuse(l->run, &err);
    if (l->rows.failed) return pawl_retry(l->run, "could not read \"%s\": %s", l->place.file, strerror(l->rows.failed));
    if (stop == PAWL_STOP_CANCELLED) return pawl_cancelled();
    if (stop == PAWL_STOP_LEASE_LOST) return pawl_retry(l->run, "stopped: the lease was lost");
    close_errors(l);
    if (l->place.bad > l->m->set->errors_max) {
        pawl_run_error_code(l->run, "bad_import");
        return pawl_fail(l->run, "more than %lld bad rows: rows up to line %lld are tasks, the first errors are in the log",
                         (long long)l->m->set->errors_max, (long long)l->place.line - 1);
    }
    l->place.offset = l->rows.offset;
    l->place.line = l->rows.line;
    show_progress(l);
    return more ? go_on(l) : end(l);
}

static pawl_outcome import_run(pawl_run *run, void *ctx)
{
    const import *m = ctx;
    pawl_error err;
    hop *l = alloc_new(m->o->allocator, sizeof *l);
    if (!l) return pawl_retry(run, "%s", pawl_status_text(PAWL_NO_MEMORY));
    l->m = m;
    l->run = run;
    l->fd = -1;
    l->arena = arena_new(m->o->allocator, TEXTS_MAX);
    buf_init(&l->object, m->o->allocator, (size_t)m->set->row_max * 2 + (64 << 10));
    buf_init(&l->errors, m->o->allocator, 64 << 10);
    pawl_status status = l->arena ? begin(l, &err) : no_memory(&err);
    pawl_outcome outcome = status ? refuse(run, &err) : work(l);
    if (l->reading) rows_done(&l->rows);
    if (l->fd >= 0) close(l->fd);
    buf_done(&l->object);
    buf_done(&l->errors);
    arena_free(l->arena);
    alloc_free(m->o->allocator, l);
    return outcome;
}

const handler_kind handler_import = {.name = "import",
                                     .summary = "a CSV or NDJSON file, named by the payload, whose rows become tasks",
                                     .settings = settings,
                                     .size = sizeof(import_settings),
                                     .max_attempts = 3,
                                     .workers = 1,
                                     .open = import_open,
                                     .run = import_run,
                                     .close = import_close};
