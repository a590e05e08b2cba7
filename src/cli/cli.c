#include "cli/cli.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX (1u << 30)

/* ---- failing ------------------------------------------------------------------------------------------------------------------ */

static void print_error(const cli *c, const pawl_error *err, int code)
{
    buf out;
    buf_init(&out, alloc_default(), 64 << 10);
    if (c->json) {
        json_writer w;
        jsonw_init(&w, &out, false);
        jsonw_object(&w);
        jsonw_key(&w, "error");
        jsonw_object(&w);
        json_text(&w, "status", pawl_status_name(err->status));
        json_text(&w, "message", err->message);
        json_truth(&w, "retryable", pawl_status_retryable(err->status));
        json_number(&w, "exit_code", code);
        jsonw_end_object(&w);
        jsonw_end_object(&w);
    } else {
        buf_str(&out, "pawl: ");
        term_safe(&out, pawl_str(err->message), false);
    }
    fflush(stdout);
    fprintf(stderr, "%s\n", buf_text(&out));
    buf_done(&out);
}

int cli_fail(const cli *c, const pawl_error *err)
{
    int code = pawl_status_exit_code(err->status);
    print_error(c, err, code);
    return code;
}

int cli_usage(const cli *c, const char *fmt, ...)
{
    pawl_error err;
    va_list args;
    va_start(args, fmt);
    err_setv(&err, PAWL_INVALID, fmt, args);
    va_end(args);
    print_error(c, &err, EXIT_USAGE);
    if (c->json) return EXIT_USAGE;
    if (c->command) fprintf(stderr, "usage: pawl %s %s\n", c->command->name, c->command->usage);
    fprintf(stderr, "Try \"pawl %s%s--help\".\n", c->command ? c->command->name : "", c->command ? " " : "");
    return EXIT_USAGE;
}

int cli_no_memory(const cli *c)
{
    pawl_error err;
    err_set(&err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    return cli_fail(c, &err);
}

pawl_status cli_hide(const char *words, pawl_error *err)
{
    static redaction hidden;
    if (redaction_read(&hidden, words, err)) return err->status;
    encode_hide(&hidden);
    term_hide(&hidden);
    return PAWL_OK;
}

/* ---- the store ---------------------------------------------------------------------------------------------------------------- */

pawl *cli_open(cli *c, const pawl_options *options, int *code)
{
    pawl_options with = *options;
    pawl_error err;
    pawl *p = NULL;
    with.store = c->store;
    if (!with.redact) with.redact = getenv("PAWL_REDACT");
    if (pawl_open(&with, &p, &err)) {
        *code = cli_fail(c, &err);
        return NULL;
    }
    return p;
}

pawl *cli_open_reading(cli *c, int *code) { return cli_open(c, &(pawl_options){.one_shot = true, .read_only = true}, code); }

pawl *cli_open_writing(cli *c, int *code) { return cli_open(c, &(pawl_options){.one_shot = true}, code); }

/* A read-only store is not told of other processes' commits. So look whether it exists, then open it like somebody who writes. */
pawl *cli_open_waiting(cli *c, int *code)
{
    pawl *p = cli_open_reading(c, code);
    if (!p) return NULL;
    pawl_close(p);
    return cli_open_writing(c, code);
}

/* ---- small things ------------------------------------------------------------------------------------------------------------- */

const char *cli_person(void)
{
    const char *name = getenv("USER");
    if (name && name_valid(name, NULL)) return name;
    const struct passwd *entry = getpwuid(getuid());
    return entry && name_valid(entry->pw_name, NULL) ? entry->pw_name : "cli";
}

int64_t cli_now_us(void)
{
    pawl_clock clock = clock_system();
    return clock.wall_us(clock.ctx);
}

bool cli_ids(cli *c, pawl_id **ids, int *code)
{
    *ids = alloc_new(alloc_default(), (size_t)(c->args_count + 1) * sizeof **ids);
    if (!*ids) {
        *code = cli_no_memory(c);
        return false;
    }
    for (int i = 0; i < c->args_count; i++) {
        if (pawl_id_parse(c->args[i], &(*ids)[i])) continue;
        *code = cli_usage(c, "\"%s\" is not a task id: an id has 13 letters and digits, like those of \"pawl tasks list\"",
                          c->args[i]);
        alloc_free(alloc_default(), *ids);
        *ids = NULL;
        return false;
    }
    return true;
}

/* ---- JSON --------------------------------------------------------------------------------------------------------------------- */

void cli_json_begin(const cli *c, answer *a)
{
    buf_init(&a->out, alloc_default(), ANSWER_MAX);
    jsonw_init(&a->w, &a->out, c->term.tty);
}

int cli_json_end(const cli *c, answer *a)
{
    bool failed = a->out.failed;
    if (!failed) {
        fwrite(a->out.data, 1, a->out.len, stdout);
        putchar('\n');
    }
    buf_done(&a->out);
    return failed ? cli_no_memory(c) : 0;
}
