/* Lines gather until there are BULK_TASKS of them or BULK_BYTES; then one commit. The raw lines and what is decoded from them live in
 * one arena that is emptied after each commit, so memory does not grow with the file. An invalid line stops the run before its group
 * is stored; the groups before it stay, and the message says where to go on.
 */
#include "cli/bulk.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/remote.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BULK_TASKS 1000
#define BULK_BYTES (8u << 20)
#define LINE_MAX_BYTES (2u << 20) /* a payload of 1 MiB as base64, and its options */

typedef struct bulk {
    cli *c;
    const pawl_task *defaults;
    pawl *p; /* NULL: a server is asked */
    pawl_arena *arena;
    pawl_task tasks[BULK_TASKS];
    int64_t lines[BULK_TASKS]; /* where each came from */
    pawl_receipt receipts[BULK_TASKS];
    size_t count, bytes;
    int64_t line;      /* being read */
    int64_t committed; /* all lines up to this one are stored */
    int64_t outcomes[PAWL_REPLACED + 1];
    int64_t refused;
    pawl_error refusal; /* of a server: why the first was */
    int64_t started_us, shown_us;
} bulk;

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

/* ---- lines --------------------------------------------------------------------------------------------------------------------- */

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
    pawl_error why;
    pawl_status status = task_read(object, b->defaults, b->arena, &b->tasks[b->count], &why);
    if (status) return err_set(err, status, "line %lld: %s", (long long)b->line, why.message);
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
    pawl_status status = b->p ? pawl_dispatch_bulk(b->p, b->tasks, b->count, b->receipts, err)
                              : remote_bulk(b->c, b->tasks, b->count, b->receipts, &b->refusal, err);
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
    err_set(err, b->p ? PAWL_FULL : b->refusal.status, "%lld of the tasks were refused: %.300s (--json says which)",
            (long long)b->refused, b->p ? "their queue is full" : b->refusal.message);
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
    else if (!c->server) b->p = cli_open_writing(c, &code);
    if (b && !code) {
        pawl_status status = read_lines(b, in, &err);
        code = finish(b, status, &err);
        if (b->p) pawl_close(b->p);
    }
    if (b) arena_free(b->arena);
    alloc_free(alloc_default(), b);
    if (!from_stdin) fclose(in);
    return code;
}
