/* pawl tasks list, show, why, wait, cancel, retry. */
#include "base/alloc.h"
#include "base/error.h"
#include "cli/filter.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ASK_FIRST_US (20 * PAWL_MILLISECOND)
#define ASK_LAST_US (500 * PAWL_MILLISECOND)

const char help_list[] =
    "States are those stored (waiting, pending, leased, succeeded, failed, cancelled) and those people see (scheduled, retrying, "
    "throttled, blocked, running, stale).\n"
    "\n"
    "Examples\n"
    "  pawl tasks list --state failed --since 2h\n"
    "  pawl tasks list --queue mail --type email.send --limit 10\n"
    "  pawl tasks list --all --json | jq -r .id\n";
const char help_show[] = "Examples\n"
                         "  pawl tasks show 0KBX3QZT8H00C --log\n"
                         "  pawl tasks show 0KBX3QZT8H00C --json | jq .result\n";
const char help_why[] =
    "One sentence for people; with --json also a word a program can test (\"code\") and, where it is known, until when.\n"
    "\n"
    "Examples\n"
    "  pawl tasks why 0KBX3QZT8H00C\n";
const char help_wait[] =
    "Prints a line for each task as it finishes. Exit status 0: all succeeded; 1: one failed or was cancelled; 5: not in time.\n"
    "\n"
    "Examples\n"
    "  pawl tasks wait $(pawl enqueue --type report) --timeout 5m\n";
const char help_cancel[] = "A task that waits is cancelled at once; one that runs is asked to stop, on whatever node it runs.\n"
                           "\n"
                           "Examples\n"
                           "  pawl tasks cancel 0KBX3QZT8H00C\n"
                           "  pawl tasks cancel --queue mail --state scheduled\n";
const char help_retry[] =
    "A failed or cancelled task is never changed: retrying makes a new task that points at the old one, at most one. A second retry "
    "answers with the id of the first.\n"
    "\n"
    "Examples\n"
    "  pawl tasks retry 0KBX3QZT8H00C\n";

static struct {
    pawl_filter filter;
    int64_t limit, timeout_us;
    bool all, log, audit, full;
    const char *by;
} o = {.timeout_us = -1};

const opt list_opts[] = {
    FILTER_OPTIONS(o.filter),
    OPTION(OPT_TEXT, "search", &o.filter.search, "TEXT",
           "words in type, queue, tenant, key, payload or error; or an id's beginning"),
    OPTION(OPT_PAST, "since", &o.filter.since_us, "TIME", "created at or after: 2h (ago), or 2026-11-15T04:49:03Z"),
    OPTION(OPT_PAST, "until", &o.filter.until_us, "TIME", "created before"),
    OPTION(OPT_FLAG, "oldest-first", &o.filter.oldest_first, NULL, "oldest first"),
    OPTION(OPT_INT, "limit", &o.limit, "N", "how many, 1 to 1000", .min = 1, .max = 1000, .fallback = "50"),
    OPTION(OPT_TEXT, "cursor", &o.filter.cursor, "TEXT", "go on where the page before ended"),
    OPTION(OPT_FLAG, "all", &o.all, NULL, "all pages; with --json one task per line"),
    OPTIONS_END};

const opt show_opts[] = {OPTION(OPT_FLAG, "log", &o.log, NULL, "with the log lines of its runs"),
                         OPTION(OPT_FLAG, "audit", &o.audit, NULL, "with its changes of state"),
                         OPTION(OPT_FLAG, "full", &o.full, NULL, "long payloads and results are not cut"), OPTIONS_END};

const opt wait_opts[] = {
    OPTION(OPT_DURATION, "timeout", &o.timeout_us, "DURATION", "give up after this long, for all of them together"), OPTIONS_END};

const opt cancel_opts[] = {FILTER_OPTIONS(o.filter), OPTION(OPT_FLAG, "all", &o.all, NULL, "everything that is not finished"),
                           OPTION(OPT_NAME, "by", &o.by, "NAME", "who does it, for the operator log (default: you)"),
                           OPTIONS_END};

static const char *by_name; /* of by_opts, which other commands share */
const opt by_opts[] = {OPTION(OPT_NAME, "by", &by_name, "NAME", "who does it, for the operator log (default: you)"), OPTIONS_END};

const char *cli_by(void) { return by_name ? by_name : cli_person(); }

/* ---- looking -------------------------------------------------------------------------------------------------------------------- */

int cmd_tasks_list(cli *c)
{
    int code;
    o.filter.limit = (int)o.limit;
    if (c->server) return remote_list(c, &o.filter, o.all, false);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    code = task_page(c, p, &o.filter, o.all, false);
    pawl_close(p);
    return code;
}

static int show(cli *c, pawl *p, pawl_id id)
{
    pawl_error err;
    pawl_info *task;
    pawl_trail *trail = NULL;
    int code = 0;
    if (pawl_get(p, id, &task, &err)) return cli_fail(c, &err);
    if ((o.log || o.audit) && pawl_get_trail(p, id, &trail, &err)) {
        pawl_info_free(task);
        return cli_fail(c, &err);
    }
    if (c->json) {
        answer a;
        cli_json_begin(c, &a);
        task_json(&a.w, task, o.log ? trail : NULL, o.audit ? trail : NULL);
        code = cli_json_end(c, &a);
    } else {
        task_text(c, task, o.log ? trail : NULL, o.audit ? trail : NULL, o.full);
    }
    pawl_trail_free(trail);
    pawl_info_free(task);
    return code;
}

/* Opens, calls `act` for the first (or only) id, closes; on a server there is nothing to open. */
static int with_id(cli *c, int (*act)(cli *c, pawl *p, pawl_id id))
{
    pawl_id *ids;
    int code;
    if (!cli_ids(c, &ids, &code)) return code;
    pawl *p = c->server ? NULL : cli_open_reading(c, &code);
    if (p || c->server) code = act(c, p, ids[0]);
    if (p) pawl_close(p);
    alloc_free(alloc_default(), ids);
    return code;
}

int cmd_tasks_show(cli *c) { return c->server ? remote_show(c, o.log, o.audit, o.full) : with_id(c, show); }

static int why(cli *c, pawl *p, pawl_id id)
{
    pawl_error err;
    pawl_why_answer reason;
    if (p ? pawl_why(p, id, &reason, &err) : remote_why(c, c->args[0], &reason, &err)) return cli_fail(c, &err);
    if (c->json) {
        answer a;
        cli_json_begin(c, &a);
        jsonw_object(&a.w);
        json_id(&a.w, "id", id);
        json_text(&a.w, "code", reason.code);
        json_shown(&a.w, "text", reason.text);
        json_instant(&a.w, "until", reason.until_us);
        jsonw_end_object(&a.w);
        return cli_json_end(c, &a);
    }
    buf out;
    buf_init(&out, alloc_default(), 8 << 10);
    term_safe(&out, pawl_str(reason.text), false);
    printf("%s\n", buf_text(&out));
    buf_done(&out);
    return 0;
}

int cmd_tasks_why(cli *c) { return with_id(c, why); }

/* ---- waiting -------------------------------------------------------------------------------------------------------------------- */

/* Asks a server again and again, less and less often. */
static pawl_status wait_remote(cli *c, pawl_id id, int64_t left_us, pawl_state *state, pawl_error *err)
{
    int64_t until_us = cli_now_us() + left_us, rest_us = ASK_FIRST_US;
    char text[PAWL_ID_TEXT];
    for (;;) {
        pawl_status status = remote_state(c, id, state, err);
        if (status || pawl_state_terminal(*state)) return status;
        pawl_id_format(id, text);
        if (left_us >= 0 && cli_now_us() >= until_us)
            return err_set(err, PAWL_TIMEOUT, "task %s is still %s", text, pawl_state_name(*state));
        if (left_us >= 0 && rest_us > until_us - cli_now_us()) rest_us = until_us - cli_now_us();
        struct timespec rest = {.tv_sec = rest_us / PAWL_SECOND, .tv_nsec = rest_us % PAWL_SECOND * 1000};
        if (rest_us > 0) nanosleep(&rest, NULL);
        rest_us = rest_us < ASK_LAST_US / 2 ? rest_us * 2 : ASK_LAST_US;
    }
}

static int wait_one(cli *c, pawl *p, pawl_id id, int64_t left_us)
{
    pawl_error err;
    pawl_state state;
    char text[PAWL_ID_TEXT];
    if (p ? pawl_wait(p, id, left_us, &state, &err) : wait_remote(c, id, left_us, &state, &err)) return cli_fail(c, &err);
    pawl_id_format(id, text);
    const char *name = pawl_state_name(state);
    if (c->json) printf("{\"id\":\"%s\",\"state\":\"%s\"}\n", text, name);
    else printf("%s  %s%s%s\n", text, term_on(&c->term, term_state(name)), name, term_off(&c->term));
    fflush(stdout);
    return state == PAWL_SUCCEEDED ? 0 : EXIT_ACT;
}

static int wait_all(cli *c, pawl *p, const pawl_id *ids)
{
    int worst = 0;
    bool limited = o.timeout_us >= 0;
    int64_t end_us = cli_now_us() + o.timeout_us;
    for (int i = 0; i < c->args_count; i++) {
        int64_t left_us = end_us - cli_now_us();
        int code = wait_one(c, p, ids[i], !limited ? -1 : left_us > 0 ? left_us : 0);
        if (code > EXIT_ACT) return code;
        if (code) worst = code;
    }
    return worst;
}

int cmd_tasks_wait(cli *c)
{
    pawl_id *ids;
    int code;
    if (!cli_ids(c, &ids, &code)) return code;
    pawl *p = c->server ? NULL : cli_open_waiting(c, &code);
    if (p || c->server) code = wait_all(c, p, ids);
    if (p) pawl_close(p);
    alloc_free(alloc_default(), ids);
    return code;
}

/* ---- acting --------------------------------------------------------------------------------------------------------------------- */

static pawl_status cancel_one(pawl *p, pawl_id id, const char *by, pawl_receipt *receipt, pawl_error *err)
{
    (void)receipt;
    return pawl_cancel(p, id, by, err);
}

int cmd_tasks_cancel(cli *c)
{
    static const deed cancel = {"cancelled", "/v1/tasks/cancel", NULL, cancel_one, pawl_cancel_where};
    const char *by = o.by ? o.by : cli_person();
    if (c->args_count && (o.all || filter_given(&o.filter))) return cli_usage(c, "give either ids or a filter, not both");
    return c->args_count ? for_each_id(c, &cancel, by) : for_filter(c, &o.filter, o.all, &cancel, by);
}

int cmd_tasks_retry(cli *c)
{
    return for_each_id(c, &(deed){"retried", "/v1/dead/retry", NULL, pawl_retry_task, NULL}, cli_by());
}
