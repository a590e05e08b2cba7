/* pawl log: what people did. */
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/remote.h"

const char help_log[] =
    "The operator log: who cancelled, retried, acknowledged, paused or changed what, newest first. It is kept as\n"
    "long as audit trails are.\n";

static int64_t limit, before;
const opt log_opts[] = {
    OPTION(OPT_INT, "limit", &limit, "N", "how many, 1 to 1000", .min = 1, .max = 1000, .fallback = "50", .letter = 'n'),
    OPTION(OPT_INT, "before", &before, "N", "the page behind the one that ended with this", .min = 1, .max = INT64_MAX),
    OPTIONS_END};

static int log_json(const cli *c, const pawl_acts *log)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "acts");
    jsonw_array(&a.w);
    for (size_t i = 0; i < log->count; i++) act_json(&a.w, &log->acts[i]);
    jsonw_end_array(&a.w);
    jsonw_key(&a.w, "next");
    if (log->next) jsonw_int(&a.w, log->next);
    else jsonw_null(&a.w);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static int log_text(const cli *c, const pawl_acts *log)
{
    table t;
    int64_t now_us = cli_now_us();
    table_init(&t, &c->term);
    table_column(&t, "WHEN", COLUMN_LEFT);
    table_column(&t, "WHO", COLUMN_FLEX);
    table_column(&t, "DID", COLUMN_LEFT);
    table_column(&t, "TASK", COLUMN_LEFT);
    table_column(&t, "DETAIL", COLUMN_FLEX);
    for (size_t i = 0; i < log->count; i++) {
        const pawl_act *act = &log->acts[i];
        char when[WHEN_TEXT], id[PAWL_ID_TEXT] = "";
        when_relative(act->at_us, now_us, when);
        if (act->id) pawl_id_format(act->id, id);
        table_cell(&t, PLAIN, "%s", when);
        table_cell(&t, PLAIN, "%s", act->who ? act->who : "");
        table_cell(&t, CYAN, "%s", act->action ? act->action : "");
        table_cell(&t, PLAIN, "%s", id);
        table_cell(&t, PLAIN, "%s", act->detail ? act->detail : "");
    }
    if (!table_print(&t, stdout)) return cli_no_memory(c);
    if (!log->count) printf("nobody did anything%s\n", before ? " before" : " yet");
    if (log->next) printf("older ones: --before %lld\n", (long long)log->next);
    return 0;
}

static int from_server(const cli *c)
{
    remote r;
    pawl_acts log = {0};
    remote_begin(&r, "/v1/acts");
    remote_number(&r.path, "before", before);
    remote_number(&r.path, "limit", limit);
    int code = remote_look(c, &r, &act_shape, &log);
    if (code == REMOTE_SHOW) code = log_text(c, &log);
    remote_end(&r);
    return code;
}

int cmd_log(cli *c)
{
    pawl_error err;
    pawl_acts *log;
    int code = 0;
    if (c->server) return from_server(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    if (pawl_get_acts(p, before, (int)limit, &log, &err)) code = cli_fail(c, &err);
    else {
        code = c->json ? log_json(c, log) : log_text(c, log);
        pawl_acts_free(log);
    }
    pawl_close(p);
    return code;
}
