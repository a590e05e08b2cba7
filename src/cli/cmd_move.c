/* pawl move: all tasks of one store to another, while nodes work on the first. */
#include "cli/cli.h"

#include "base/text.h"
#include "cli/help.h"
#include "cli/meter.h"
#include <signal.h>
#include <string.h>

const char help_move[] =
    "Moves everything to another, empty store, of any kind: live tasks, history, rate limits, statistics. Nodes go on working while history is copied. "
    "Then the first store is closed: nodes let what runs come to its end and stop, dispatches are refused and told where the tasks went. "
    "The rest is copied, counts and sums of ids are compared, and the second store is opened. The first one stays closed.\n"
    "\n"
    "If it is stopped or killed on the way, start it again with the same two stores: it goes on from where it came to. --abort gives it up: "
    "the second store is emptied, the first opened again.\n"
    "\n"
    "Examples\n"
    "  pawl move --from sqlite:app.db --to postgres://db.example.org/shop\n"
    "  pawl move --from sqlite:app.db --to postgres://db.example.org/shop --abort\n";

static struct {
    const char *from, *to, *by;
    int64_t grace_us;
    bool abort, lost, leave_limits, leave_schedules;
} o;

const opt move_opts[] = {
    OPTION(OPT_TEXT, "from", &o.from, "URL", "the store whose tasks are moved"),
    OPTION(OPT_TEXT, "to", &o.to, "URL", "an empty store, made if need be"),
    OPTION(OPT_DURATION, "grace", &o.grace_us, "DURATION",
           "how long running tasks may take to end, once the first store is closed (default: no limit)", .min = 1),
    OPTION(OPT_FLAG, "abort", &o.abort, NULL, "give the move up: open the first store again, empty the second"),
    OPTION(OPT_FLAG, "lost", &o.lost, NULL, "with --abort: the second store is gone for good"),
    OPTION(OPT_FLAG, "leave-limits", &o.leave_limits, NULL, "do not take rate limits and concurrency limits along"),
    OPTION(OPT_FLAG, "leave-schedules", &o.leave_schedules, NULL, "do not take schedules along"),
    OPTION(OPT_NAME, "by", &o.by, "NAME", "who does it (default: the user)"),
    OPTIONS_END};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static const char *words(const char *phase)
{
    static const char *const all[][2] = {{"counting", "counting tasks"},           {"history", "copying what is finished"},
                                         {"waiting", "waiting for running tasks"}, {"rest", "copying the rest"},
                                         {"statistics", "copying statistics"},     {"checking", "comparing the two stores"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i][0], phase) == 0) return all[i][1];
    return phase;
}

static bool on_progress(void *ctx, const pawl_move_progress *p)
{
    meter *m = ctx;
    meter_show(m, words(p->phase), p->done, p->total, p->waiting);
    return !stopped;
}

static int print_report(const cli *c, const meter *m, const pawl_move_report *r)
{
    char tasks[32], took[32];
    int64_t us = cli_now_us() - m->began_us;
    if (c->json) {
        answer a;
        cli_json_begin(c, &a);
        jsonw_object(&a.w);
        json_number(&a.w, "tasks", r->tasks);
        json_number(&a.w, "pending", r->pending);
        json_number(&a.w, "succeeded", r->succeeded);
        json_number(&a.w, "failed", r->failed);
        json_number(&a.w, "cancelled", r->cancelled);
        json_number(&a.w, "copied", r->copied);
        json_truth(&a.w, "resumed", r->resumed);
        json_number(&a.w, "took_us", us);
        jsonw_end_object(&a.w);
        return cli_json_end(c, &a);
    }
    number_grouped(r->tasks, tasks);
    duration_format(us, took, sizeof took);
    printf("moved %s %s in %s%s: %lld to run, %lld succeeded, %lld failed, %lld cancelled\n", tasks,
           r->tasks == 1 ? "task" : "tasks", took, r->resumed ? " (this time)" : "", (long long)r->pending,
           (long long)r->succeeded, (long long)r->failed, (long long)r->cancelled);
    return 0;
}

static int print_aborted(const cli *c)
{
    if (!c->json) {
        printf("given up: \"%s\" is open again\n", o.from);
        return 0;
    }
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_truth(&a.w, "aborted", true);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

int cmd_move(cli *c)
{
    pawl_error err;
    pawl_move_report report;
    meter m;
    if (!o.from || !o.to) return cli_usage(c, "a move needs two stores: --from URL --to URL");
    if (o.lost && !o.abort) return cli_usage(c, "--lost means something with --abort only");
    meter_init(&m, "tasks");
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, NULL);
    pawl_move_options options = {.from = o.from,
                                 .to = o.to,
                                 .by = o.by ? o.by : cli_person(),
                                 .grace_us = o.grace_us,
                                 .abort = o.abort,
                                 .lost = o.lost,
                                 .leave_limits = o.leave_limits,
                                 .leave_schedules = o.leave_schedules,
                                 .progress = on_progress,
                                 .ctx = &m};
    pawl_status status = pawl_move(&options, &report, &err);
    meter_end(&m);
    if (status) return cli_fail(c, &err);
    return o.abort ? print_aborted(c) : print_report(c, &m, &report);
}
