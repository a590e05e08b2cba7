/* pawl export and pawl import: tasks as text. */
#include "cli/cli.h"

#include "base/error.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/meter.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char help_export[] =
    "Writes tasks to standard output or a file, one JSON object a line, with everything that is stored about them: \"pawl import\" brings "
    "them back, here or elsewhere. Rate limits stand before them, unless --states says which tasks. The store may be in use. "
    "docs/export-format.md describes the format.\n"
    "\n"
    "Examples\n"
    "  pawl export > tasks.ndjson\n"
    "  pawl export --states failed --output failed.ndjson\n"
    "  pawl export --store sqlite:app.db | pawl import - --store postgres://db.example.org/shop\n";

const char help_import[] =
    "Stores tasks that \"pawl export\" wrote, with their ids, times and history. Tasks that are there already are left alone, so importing "
    "a file again does no harm; so are limits, batches and schedules that the store has. Bad lines are named and left out. A file whose end is missing is "
    "refused.\n"
    "\n"
    "Examples\n"
    "  pawl import tasks.ndjson\n"
    "  pawl import tasks.ndjson --new-ids --store sqlite:copy.db\n";

#define BAD_SHOWN 20

static struct {
    opt_list states;
    const char *output;
    bool new_ids, cut;
} o;

const opt export_opts[] = {OPTION(OPT_LIST, "states", &o.states, "STATE",
                                  "only tasks in this state; several with commas, or repeated (default: all)",
                                  .choices = "waiting|pending|leased|succeeded|failed|cancelled"),
                           OPTION(OPT_TEXT, "output", &o.output, "FILE",
                                  "write to this file, which must not exist (default: standard output)", .letter = 'o'),
                           OPTIONS_END};

const opt import_opts[] = {
    OPTION(OPT_FLAG, "new-ids", &o.new_ids, NULL, "give the tasks ids of this store; what points to other tasks is left out"),
    OPTION(OPT_FLAG, "cut", &o.cut, NULL, "take what is there although the end of the file is missing"), OPTIONS_END};

static bool on_progress(void *ctx, const pawl_move_progress *p)
{
    meter_show(ctx, p->phase, p->done, p->total, NULL);
    return true;
}

/* ---- export -------------------------------------------------------------------------------------------------------------------- */

static bool write_to(void *ctx, const void *data, size_t n) { return fwrite(data, 1, n, ctx) == n; }

static int export_to(cli *c, FILE *out)
{
    pawl_error err;
    meter m;
    char states[400] = "";
    int64_t count = 0;
    for (int i = 0; i < o.states.count; i++) {
        size_t n = strlen(states);
        snprintf(states + n, sizeof states - n, "%s%s", n ? "," : "", o.states.items[i]);
    }
    meter_init(&m, "tasks");
    pawl_export_options options = {.store = c->store,
                                   .states = states,
                                   .write = write_to,
                                   .write_ctx = out,
                                   .progress = m.term.tty ? on_progress : NULL,
                                   .ctx = &m};
    pawl_status status = pawl_export(&options, &count, &err);
    meter_end(&m);
    if (!status && fflush(out) != 0) status = err_set(&err, PAWL_UNAVAILABLE, "could not write the tasks: %s", strerror(errno));
    if (status) return cli_fail(c, &err);
    if (o.output && !c->json) printf("exported %lld %s\n", (long long)count, count == 1 ? "task" : "tasks");
    return 0;
}

/* A file that is not whole is not left behind. */
int cmd_export(cli *c)
{
    pawl_error err;
    if (!o.output) return export_to(c, stdout);
    int fd = open(o.output, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        err_set(&err, errno == EEXIST ? PAWL_CONFLICT : PAWL_UNAVAILABLE, "could not make \"%s\": %s", o.output, strerror(errno));
        return cli_fail(c, &err);
    }
    int code = export_to(c, out);
    bool whole = code == 0 && fsync(fd) == 0;
    if (fclose(out) != 0 || !whole) unlink(o.output);
    if (code == 0 && !whole) {
        err_set(&err, PAWL_UNAVAILABLE, "could not write \"%s\": %s", o.output, strerror(errno));
        code = cli_fail(c, &err);
    }
    return code;
}

/* ---- import -------------------------------------------------------------------------------------------------------------------- */

typedef struct source {
    int fd;
    meter m;
    int64_t told;
} source;

static int64_t read_from(void *ctx, void *room, size_t most)
{
    ssize_t n;
    const source *s = ctx;
    do n = read(s->fd, room, most);
    while (n < 0 && errno == EINTR);
    return n;
}

static bool show_import(void *ctx, const pawl_move_progress *p)
{
    source *s = ctx;
    if (s->m.term.tty) meter_show(&s->m, p->phase, p->done, 0, NULL);
    return true;
}

static void tell_bad(void *ctx, int64_t line, const char *why)
{
    source *s = ctx;
    meter_end(&s->m);
    if (s->told++ < BAD_SHOWN) fprintf(stderr, "pawl: line %lld: %s\n", (long long)line, why);
    if (s->told == BAD_SHOWN + 1) fprintf(stderr, "pawl: there are more bad lines\n");
}

/* A file is looked at before anything is stored: its last line must be the end. */
static bool ends_well(int fd)
{
    struct stat st;
    char tail[256];
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return true;
    off_t from = st.st_size > (off_t)sizeof tail - 1 ? st.st_size - (off_t)sizeof tail + 1 : 0;
    ssize_t n = pread(fd, tail, sizeof tail - 1, from);
    if (n <= 0) return n == 0;
    tail[n] = '\0';
    while (n > 0 && strchr(" \t\r\n", tail[n - 1])) tail[--n] = '\0';
    const char *line = strrchr(tail, '\n');
    return strstr(line ? line : tail, "\"pawl_end\"") != NULL;
}

static int print_import(const cli *c, const pawl_import_report *r)
{
    if (!c->json) {
        printf("imported %lld %s; %lld were there already, %lld bad %s left out\n", (long long)r->created,
               r->created == 1 ? "task" : "tasks", (long long)r->present, (long long)r->bad,
               r->bad == 1 ? "line was" : "lines were");
        if (r->limits || r->limits_kept)
            printf("put %lld rate %s; %lld were there already\n", (long long)r->limits, r->limits == 1 ? "limit" : "limits",
                   (long long)r->limits_kept);
        return 0;
    }
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_number(&a.w, "lines", r->lines);
    json_number(&a.w, "created", r->created);
    json_number(&a.w, "present", r->present);
    json_number(&a.w, "bad", r->bad);
    json_truth(&a.w, "whole", r->whole);
    json_number(&a.w, "limits", r->limits);
    json_number(&a.w, "limits_kept", r->limits_kept);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static int import_from(cli *c, int fd)
{
    pawl_error err;
    pawl_import_report report = {0};
    source s = {.fd = fd};
    if (!o.cut && !ends_well(fd)) {
        err_set(&err, PAWL_CONFLICT,
                "\"%s\" is cut: its last line is missing; nothing was stored. Say --cut to take what is there", c->args[0]);
        return cli_fail(c, &err);
    }
    meter_init(&s.m, "tasks");
    pawl_import_options options = {.store = c->store,
                                   .read = read_from,
                                   .read_ctx = &s,
                                   .new_ids = o.new_ids,
                                   .cut = o.cut,
                                   .bad = tell_bad,
                                   .progress = show_import,
                                   .ctx = &s};
    pawl_status status = pawl_import(&options, &report, &err);
    meter_end(&s.m);
    if (status) return cli_fail(c, &err);
    int code = print_import(c, &report);
    return code ? code : report.bad ? EXIT_USAGE : 0;
}

int cmd_import(cli *c)
{
    pawl_error err;
    bool from_stdin = strcmp(c->args[0], "-") == 0;
    int fd = from_stdin ? STDIN_FILENO : open(c->args[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_set(&err, PAWL_NOT_FOUND, "could not open \"%s\": %s", c->args[0], strerror(errno));
        return cli_fail(c, &err);
    }
    int code = import_from(c, fd);
    if (!from_stdin) close(fd);
    return code;
}
