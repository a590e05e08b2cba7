/* Lines gather until there are BULK_TASKS of them or BULK_BYTES; then one commit. The raw lines and what is decoded from them live in
 * one arena that is emptied after each commit, so memory does not grow with the file. An invalid line stops the run before its group
 * is stored; the groups before it stay, and the message says where to go on.
 */
#include "cli/bulk.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BULK_TASKS 1000
#define BULK_BYTES (8u << 20)
#define LINE_MAX_BYTES (2u << 20) /* a payload of 1 MiB as base64, and its options */

typedef struct bulk {
    cli *c;
    const pawl_task *defaults;
    pawl *p;
    pawl_arena *arena;
    pawl_task tasks[BULK_TASKS];
    int64_t lines[BULK_TASKS]; /* where each came from */
    pawl_receipt receipts[BULK_TASKS];
    size_t count, bytes;
    int64_t line;      /* being read */
    int64_t committed; /* all lines up to this one are stored */
    int64_t outcomes[PAWL_REPLACED + 1];
    int64_t refused;
    int64_t started_us, shown_us;
} bulk;

/* ---- fields -------------------------------------------------------------------------------------------------------------------- */

typedef enum field_kind {
    FIELD_NAME,
    FIELD_INT,
    FIELD_DURATION,
    FIELD_INSTANT,
    FIELD_PAYLOAD,
    FIELD_BASE64,
    FIELD_RATE_KEY,
    FIELD_AUDIT,
    FIELD_ID
} field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset; /* of the member in pawl_task */
    int64_t min, max;
} field;

#define TASK(member) offsetof(pawl_task, member)

static const field fields[] = {
    {"type", FIELD_NAME, TASK(type), 0, 0},
    {"payload", FIELD_PAYLOAD, TASK(payload), 0, 0},
    {"payload_base64", FIELD_BASE64, TASK(payload), 0, 0},
    {"content_type", FIELD_NAME, TASK(content_type), 0, 0},
    {"queue", FIELD_NAME, TASK(queue), 0, 0},
    {"key", FIELD_NAME, TASK(key), 0, 0},
    {"tenant", FIELD_NAME, TASK(tenant), 0, 0},
    {"priority", FIELD_INT, TASK(priority), -32768, 32767},
    {"delay", FIELD_DURATION, TASK(delay_us), 0, 0},
    {"delay_us", FIELD_DURATION, TASK(delay_us), 0, 0},
    {"at", FIELD_INSTANT, TASK(at_us), 0, 0},
    {"run_at", FIELD_INSTANT, TASK(at_us), 0, 0},
    {"max_attempts", FIELD_INT, TASK(max_attempts), 0, 1000000},
    {"timeout", FIELD_DURATION, TASK(timeout_us), 0, 0},
    {"timeout_us", FIELD_DURATION, TASK(timeout_us), 0, 0},
    {"rate_key", FIELD_RATE_KEY, TASK(rate_key), 0, 0},
    {"created_by", FIELD_NAME, TASK(created_by), 0, 0},
    {"traceparent", FIELD_NAME, TASK(traceparent), 0, 0},
    {"headers", FIELD_NAME, TASK(headers), 0, 0},
    {"audit", FIELD_AUDIT, TASK(audit), 0, 0},
    {"id", FIELD_ID, TASK(id), 0, 0},
};

static const field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    }
    return NULL;
}

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

static pawl_status wrong(const bulk *b, const field *f, const char *what, pawl_error *err)
{
    return err_set(err, PAWL_INVALID, "line %lld: \"%s\" %s", (long long)b->line, f->name, what);
}

/* A decoded string in the arena; false: err is set. */
static bool decode(const bulk *b, const field *f, json value, pawl_bytes *out, pawl_error *err)
{
    buf text;
    buf_init(&text, alloc_default(), LINE_MAX_BYTES);
    bool ok = json_string(value, &text);
    char *copy = ok ? pawl_arena_bytes(b->arena, buf_text(&text), text.len) : NULL;
    *out = (pawl_bytes){copy, text.len};
    if (!ok && value.kind != JSON_STRING) wrong(b, f, "must be a string", err);
    else if (!copy) no_memory(err);
    buf_done(&text);
    return copy != NULL;
}

/* The same, of text that ends where it ends. */
static bool decode_text(const bulk *b, const field *f, json value, const char **out, pawl_error *err)
{
    pawl_bytes text;
    if (!decode(b, f, value, &text, err)) return false;
    *out = text.data;
    return strlen(text.data) == text.len || (wrong(b, f, "must not contain a NUL", err), false);
}

static pawl_status set_text(const bulk *b, const field *f, json value, void *to, pawl_error *err)
{
    const char *text;
    if (!decode_text(b, f, value, &text, err)) return err->status;
    *(const char **)to = text;
    return PAWL_OK;
}

static pawl_status set_bytes(const bulk *b, const field *f, json value, void *to, pawl_error *err)
{
    pawl_bytes bytes;
    if (!decode(b, f, value, &bytes, err)) return err->status;
    if (f->kind == FIELD_BASE64 && !base64_decode((char *)bytes.data, &bytes.len)) return wrong(b, f, "is not base64", err);
    *(pawl_bytes *)to = bytes;
    return PAWL_OK;
}

static pawl_status set_int(const bulk *b, const field *f, json value, void *to, pawl_error *err)
{
    int64_t number;
    if (!json_int(value, &number) || number < f->min || number > f->max) {
        char what[96];
        snprintf(what, sizeof what, "must be a whole number between %lld and %lld", (long long)f->min, (long long)f->max);
        return wrong(b, f, what, err);
    }
    *(int *)to = (int)number;
    return PAWL_OK;
}

static pawl_status set_duration(const bulk *b, const field *f, json value, void *to, pawl_error *err)
{
    bool micro = strstr(f->name, "_us") != NULL;
    int64_t us = -1;
    const char *text;
    if (micro && (!json_int(value, &us) || us < 0)) return wrong(b, f, "must be a number of microseconds", err);
    if (!micro && !decode_text(b, f, value, &text, err)) return err->status;
    if (!micro && !duration_parse(text, &us)) return wrong(b, f, "must be a duration like 90s, 5m, 1h30m or 250ms", err);
    *(int64_t *)to = us;
    return PAWL_OK;
}

static pawl_status set_word(const bulk *b, const field *f, json value, void *to, pawl_error *err)
{
    const char *text;
    if (!decode_text(b, f, value, &text, err)) return err->status;
    if (f->kind == FIELD_INSTANT && !rfc3339_parse(text, to)) return wrong(b, f, "must be a time like 2026-11-15T04:49:03Z", err);
    if (f->kind == FIELD_AUDIT && !pawl_audit_parse(text, to)) return wrong(b, f, "must be full, minimal, errors or none", err);
    if (f->kind == FIELD_ID && !pawl_id_parse(text, to)) return wrong(b, f, "must be a task id", err);
    return PAWL_OK;
}

static pawl_status set_field(const bulk *b, const field *f, json value, pawl_task *task, pawl_error *err)
{
    void *to = (char *)task + f->offset;
    if (f->kind == FIELD_PAYLOAD) {
        *(pawl_bytes *)to = value.raw;
        return PAWL_OK;
    }
    if (value.kind == JSON_NULL) return PAWL_OK;
    switch (f->kind) {
    case FIELD_NAME: return set_text(b, f, value, to, err);
    case FIELD_INT: return set_int(b, f, value, to, err);
    case FIELD_DURATION: return set_duration(b, f, value, to, err);
    case FIELD_BASE64:
    case FIELD_RATE_KEY: return set_bytes(b, f, value, to, err);
    default: return set_word(b, f, value, to, err);
    }
}

/* ---- lines --------------------------------------------------------------------------------------------------------------------- */

static pawl_status unknown_field(const bulk *b, const char *name, pawl_error *err)
{
    closest best = {0};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) closest_try(&best, name, fields[i].name);
    if (best.word) {
        return err_set(err, PAWL_INVALID, "line %lld: unknown field \"%s\": did you mean \"%s\"?", (long long)b->line, name,
                       best.word);
    }
    return err_set(err, PAWL_INVALID, "line %lld: unknown field \"%s\"", (long long)b->line, name);
}

static pawl_status take_fields(const bulk *b, json object, pawl_task *task, pawl_error *err)
{
    json key, value;
    for (size_t at = 0; json_each(object, &at, &key, &value);) {
        pawl_bytes name;
        if (!decode(b, &fields[0], key, &name, err)) return err->status;
        const field *f = strlen(name.data) == name.len ? find_field(name.data) : NULL;
        if (!f) return unknown_field(b, name.data, err);
        pawl_status status = set_field(b, f, value, task, err);
        if (status) return status;
    }
    return PAWL_OK;
}

/* One line, whose bytes are in the arena. */
static pawl_status take_line(bulk *b, pawl_bytes text, pawl_error *err)
{
    size_t where;
    const char *what;
    if (!json_valid(text, &where, &what)) {
        return err_set(err, PAWL_INVALID, "line %lld, column %zu: not JSON: %s", (long long)b->line, where + 1, what);
    }
    json object = json_parse(text);
    if (object.kind != JSON_OBJECT) return err_set(err, PAWL_INVALID, "line %lld: a task is a JSON object", (long long)b->line);
    pawl_task *task = &b->tasks[b->count];
    *task = *b->defaults;
    pawl_status status = take_fields(b, object, task, err);
    if (status) return status;
    if (!task->type) return err_set(err, PAWL_INVALID, "line %lld: \"type\" is missing", (long long)b->line);
    if (task->delay_us && task->at_us) {
        return err_set(err, PAWL_INVALID, "line %lld: only one of a delay and a time can be given", (long long)b->line);
    }
    b->lines[b->count++] = b->line;
    b->bytes += text.len;
    return PAWL_OK;
}

/* ---- commits ------------------------------------------------------------------------------------------------------------------- */

static void print_receipts(const bulk *b)
{
    char id[PAWL_ID_TEXT];
    for (size_t i = 0; i < b->count; i++) {
        const pawl_receipt *r = &b->receipts[i];
        pawl_id_format(r->id, id);
        printf("{\"line\":%lld,\"id\":", (long long)b->lines[i]);
        if (r->id) printf("\"%s\"", id);
        else printf("null");
        printf(",\"outcome\":\"%s\"}\n", r->status ? pawl_status_name(r->status) : pawl_dispatched_name(r->outcome));
    }
}

static void show_progress(bulk *b, bool last)
{
    term err_term;
    term_init(&err_term, stderr, true);
    int64_t now = cli_now_us();
    if (!err_term.tty || (!last && now - b->shown_us < PAWL_SECOND / 10)) return;
    char lines[32];
    number_grouped(b->committed, lines);
    b->shown_us = now;
    if (last) fprintf(stderr, "\r\033[K");
    else fprintf(stderr, "\r%s lines committed", lines);
}

static pawl_status commit(bulk *b, pawl_error *err)
{
    if (!b->count) return PAWL_OK;
    memset(b->receipts, 0, sizeof b->receipts);
    pawl_status status = pawl_dispatch_bulk(b->p, b->tasks, b->count, b->receipts, err);
    if (status && status != PAWL_UNKNOWN) return status;
    if (b->c->json) print_receipts(b);
    if (status) return status;
    for (size_t i = 0; i < b->count; i++) {
        if (b->receipts[i].status) b->refused++;
        else b->outcomes[b->receipts[i].outcome]++;
    }
    b->committed = b->lines[b->count - 1];
    b->count = b->bytes = 0;
    arena_reset(b->arena);
    show_progress(b, false);
    return PAWL_OK;
}

static bool blank(const char *text, size_t n) { return strspn(text, " \t\r") >= n; }

static pawl_status read_lines(bulk *b, FILE *in, pawl_error *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    pawl_status status = PAWL_OK;
    while (!status && (n = getline(&line, &room, in)) >= 0) {
        b->line++;
        if (n && line[n - 1] == '\n') line[--n] = 0;
        if (blank(line, (size_t)n)) continue;
        char *copy = n <= (ssize_t)LINE_MAX_BYTES ? pawl_arena_bytes(b->arena, line, (size_t)n) : NULL;
        if (copy) status = take_line(b, (pawl_bytes){copy, (size_t)n}, err);
        else if (n <= (ssize_t)LINE_MAX_BYTES) status = no_memory(err);
        else status = err_set(err, PAWL_TOO_LARGE, "line %lld is longer than %u MiB", (long long)b->line, LINE_MAX_BYTES >> 20);
        if (!status && (b->count == BULK_TASKS || b->bytes >= BULK_BYTES)) status = commit(b, err);
    }
    if (!status && ferror(in))
        status = err_set(err, PAWL_UNAVAILABLE, "could not read line %lld: %s", (long long)b->line + 1, strerror(errno));
    free(line);
    return status ? status : commit(b, err);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------- */

static void print_summary(const bulk *b)
{
    char text[32], took[32];
    int64_t sum = 0;
    for (int i = PAWL_CREATED; i <= PAWL_REPLACED; i++) sum += b->outcomes[i];
    number_grouped(sum, text);
    duration_format(cli_now_us() - b->started_us, took, sizeof took);
    printf("%s %s in %s", text, sum == 1 ? "task" : "tasks", took);
    const char *before = ": ";
    for (int i = PAWL_CREATED; i <= PAWL_REPLACED; i++) {
        if (!b->outcomes[i]) continue;
        number_grouped(b->outcomes[i], text);
        printf("%s%s %s", before, text, pawl_dispatched_name((pawl_dispatched)i));
        before = ", ";
    }
    printf("\n");
}

/* Says how far it came, so that a person can go on from there. */
static int fail(const bulk *b, pawl_error *err)
{
    pawl_error whole;
    char hint[160] = "nothing was stored";
    if (b->committed) {
        snprintf(hint, sizeof hint, "lines up to %lld are stored, go on with line %lld", (long long)b->committed,
                 (long long)b->committed + 1);
    }
    if (err->status == PAWL_UNKNOWN && b->count) {
        snprintf(
            hint, sizeof hint,
            "lines up to %lld are stored; whether lines %lld to %lld are is not known: look, then repeat them (safe with keys)",
            (long long)b->committed, (long long)b->lines[0], (long long)b->lines[b->count - 1]);
    }
    err_set(&whole, err->status, "%.330s (%s)", err->message, hint);
    return cli_fail(b->c, &whole);
}

static int finish(bulk *b, pawl_status status, pawl_error *err)
{
    show_progress(b, true);
    if (status) return fail(b, err);
    if (!b->c->json) print_summary(b);
    if (!b->refused) return 0;
    err_set(err, PAWL_FULL, "%lld of the tasks were refused: their queue is full (--json says which)", (long long)b->refused);
    return cli_fail(b->c, err);
}

int enqueue_bulk(cli *c, const pawl_task *defaults, const char *path)
{
    pawl_error err;
    int code = 0;
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *in = from_stdin ? stdin : fopen(path, "re");
    if (!in) {
        err_set(&err, PAWL_NOT_FOUND, "could not open \"%s\": %s", path, strerror(errno));
        return cli_fail(c, &err);
    }
    bulk *b = alloc_new(alloc_default(), sizeof *b);
    if (b)
        *b =
            (bulk){.c = c, .defaults = defaults, .started_us = cli_now_us(), .arena = arena_new(alloc_default(), 4 * BULK_BYTES)};
    if (!b || !b->arena) code = cli_no_memory(c);
    else b->p = cli_open_writing(c, &code);
    if (b && b->p) {
        pawl_status status = read_lines(b, in, &err);
        code = finish(b, status, &err);
        pawl_close(b->p);
    }
    if (b) arena_free(b->arena);
    alloc_free(alloc_default(), b);
    if (!from_stdin) fclose(in);
    return code;
}
