/* pawl queues list, pause, resume. */
#include "base/error.h"
#include "base/text.h"
#include "cli/filter.h"
#include "cli/help.h"
#include "cli/remote.h"

const char help_queues[] = "Shows every queue that has tasks, a node that serves it, or a pause. DUE counts up to 10,000.\n";
const char help_pause[] =
    "Durable, and for all nodes of the store: no task of the queue starts until it is resumed. Running tasks go on.\n"
    "\n"
    "Examples\n"
    "  pawl queues pause mail\n";
const char help_resume[] = "Examples\n"
                           "  pawl queues resume mail\n";

static int print_json(const cli *c, const pawl_stats *stats)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "queues");
    jsonw_array(&a.w);
    for (size_t i = 0; i < stats->queues_count; i++) queue_json(&a.w, &stats->queues[i]);
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static void state_cell(table *t, const pawl_queue_info *q)
{
    if (q->paused) table_cell(t, YELLOW, "paused");
    else if (!q->served) table_cell(t, q->due ? RED : DIM, "no workers");
    else table_cell(t, GREEN, "active");
}

static void number_cell(table *t, int64_t value, bool more, paint color)
{
    char text[32];
    number_grouped(value, text);
    table_cell(t, value ? color : DIM, "%s%s", text, more ? "+" : "");
}

bool queues_table(const cli *c, const pawl_stats *stats)
{
    static const char *const titles[] = {"PENDING", "DUE", "RUNNING", "DEAD"};
    table t;
    table_init(&t, &c->term);
    table_column(&t, "QUEUE", COLUMN_FLEX);
    table_column(&t, "STATE", COLUMN_LEFT);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) table_column(&t, titles[i], COLUMN_RIGHT);
    table_column(&t, "OLDEST DUE", COLUMN_LEFT);
    for (size_t i = 0; i < stats->queues_count; i++) {
        const pawl_queue_info *q = &stats->queues[i];
        char oldest[WHEN_TEXT] = "";
        if (q->oldest_due_us) when_relative(q->oldest_due_us, stats->now_us, oldest);
        table_cell(&t, BOLD, "%s", q->name);
        state_cell(&t, q);
        number_cell(&t, q->pending, false, PLAIN);
        number_cell(&t, q->due, q->due_more, PLAIN);
        number_cell(&t, q->leased, false, CYAN);
        number_cell(&t, q->failed, false, RED);
        table_cell(&t, PLAIN, "%s", oldest);
    }
    return table_print(&t, stdout);
}

int cmd_queues_list(cli *c)
{
    pawl_error err;
    pawl_stats *stats;
    int code = 0;
    if (c->server) return remote_queues(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    if (pawl_get_stats(p, 0, &stats, &err)) code = cli_fail(c, &err);
    else {
        if (c->json) code = print_json(c, stats);
        else if (!queues_table(c, stats)) code = cli_no_memory(c);
        pawl_stats_free(stats);
    }
    pawl_close(p);
    return code;
}

typedef pawl_status (*switch_fn)(pawl *p, const char *queue, const char *by, pawl_error *err);

static int switch_queues(cli *c, switch_fn act, const char *path, const char *done)
{
    int first = 0;
    const char *what;
    for (int i = 0; i < c->args_count; i++) {
        if (!name_valid(c->args[i], &what)) return cli_usage(c, "\"%s\" cannot be the name of a queue: %s", c->args[i], what);
    }
    pawl *p = c->server ? NULL : cli_open_writing(c, &first);
    for (int i = 0; (p || c->server) && i < c->args_count; i++) {
        pawl_error err;
        if (p ? act(p, c->args[i], cli_by(), &err) : remote_do(c, "POST", "/v1/queues/", c->args[i], path, &err)) {
            int code = cli_fail(c, &err);
            if (!first) first = code;
        } else if (c->json) {
            answer a;
            cli_json_begin(c, &a);
            a.w.pretty = false;
            jsonw_object(&a.w);
            json_text(&a.w, "queue", c->args[i]);
            json_text(&a.w, "done", done);
            jsonw_end_object(&a.w);
            cli_json_end(c, &a);
        } else {
            printf("%s  %s\n", c->args[i], done);
        }
    }
    if (p) pawl_close(p);
    return first;
}

int cmd_queues_pause(cli *c) { return switch_queues(c, pawl_pause, "/pause", "paused"); }

int cmd_queues_resume(cli *c) { return switch_queues(c, pawl_resume, "/resume", "resumed"); }
