/* What every command of `pawl` shares: the context it runs in, how it opens the store, how it answers and how it fails. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/opts.h"
#include "cli/term.h"
#include "server/encode.h"
#include <pawl.h>

#define EXIT_ACT 1 /* a person must act */
#define EXIT_USAGE 2

typedef struct cli cli;

typedef struct command {
    const char *name;    /* one word or two: "tasks list" */
    const char *section; /* heading in the overview; NULL: hidden */
    const char *summary; /* one line, lower case, no full stop */
    const char *usage;   /* what comes behind "pawl NAME" */
    const char *text;    /* more about it, examples; NULL: none */
    const opt *opts;     /* NULL: only the global ones */
    int least, most;     /* how many arguments it takes; most < 0: any number */
    bool passes_rest;    /* what follows `--` is a command line of its own */
    int (*run)(cli *c);  /* returns the exit code */
} command;

struct cli {
    const char *program; /* as it was called, for hints */
    const command *command;
    const char *store;               /* as --store says; NULL: environment, then sqlite:pawl.db */
    const char *server, *token_file; /* --server, in place of a store; see remote.h */
    bool json, help, version, no_color;
    char **args; /* what is not an option */
    int args_count;
    char **rest; /* behind `--`, NULL-terminated */
    int rest_count;
    term term; /* standard output */
};

/* Failing: prints to standard error and returns the exit code. With --json the message is one JSON object on one line. */
int cli_fail(const cli *c, const pawl_error *err);
int cli_usage(const cli *c, const char *fmt, ...) PAWL_PRINTF(2, 3);
int cli_no_memory(const cli *c);

/* Opens the store with these options (store, and no node unless asked for, are filled in); NULL: *code is the exit code. */
/* Secrets of these names are not shown; NULL: the usual ones (base/redact.h). */
pawl_status cli_hide(const char *words, pawl_error *err);

pawl *cli_open(cli *c, const pawl_options *options, int *code);
pawl *cli_open_reading(cli *c, int *code); /* an existing store, for looking only */
pawl *cli_open_writing(cli *c, int *code); /* a one-shot command */
pawl *cli_open_waiting(cli *c, int *code); /* an existing store, to wait for what others do */

const char *cli_person(void); /* who is at the keyboard, for the operator log */
int64_t cli_now_us(void);

/* Reads all arguments as task ids; false: said why and *code is set. The ids live until the process ends. */
bool cli_ids(cli *c, pawl_id **ids, int *code);

/* JSON answers: begin, write, end. cli_json_end prints and returns the exit code (0, or no memory). */
typedef struct answer {
    buf out;
    json_writer w;
} answer;

void cli_json_begin(const cli *c, answer *a);
int cli_json_end(const cli *c, answer *a);

/* A task for people (task_text.c); for programs: server/encode.h. */
void task_text(const cli *c, const pawl_info *task, const pawl_trail *log, const pawl_trail *audit, bool full);
int task_page(const cli *c, pawl *p, pawl_filter *filter, bool all, bool dead);

/* The same from anywhere: what `fetch` gives lives until it is called again. */
typedef pawl_status (*page_fn)(const cli *c, void *ctx, const pawl_filter *filter, pawl_page *page, pawl_error *err);
int task_pages(const cli *c, page_fn fetch, void *ctx, pawl_filter *filter, bool all, bool dead);

bool queues_table(const cli *c, const pawl_stats *stats);

int cmd_enqueue(cli *c);
int cmd_events(cli *c);
int cmd_top(cli *c);
int cmd_tasks_list(cli *c);
int cmd_tasks_show(cli *c);
int cmd_tasks_why(cli *c);
int cmd_tasks_wait(cli *c);
int cmd_tasks_cancel(cli *c);
int cmd_tasks_retry(cli *c);
int cmd_tasks_tree(cli *c);
int cmd_batches_list(cli *c);
int cmd_batches_show(cli *c);
int cmd_batches_open(cli *c);
int cmd_batches_close(cli *c);
int cmd_batches_cancel(cli *c);
int cmd_queues_list(cli *c);
int cmd_queues_pause(cli *c);
int cmd_queues_resume(cli *c);
int cmd_queues_set(cli *c);
int cmd_limits_list(cli *c);
int cmd_limits_set(cli *c);
int cmd_limits_drop(cli *c);
int cmd_limits_pause(cli *c);
int cmd_limits_resume(cli *c);
int cmd_limits_concurrency(cli *c);
int cmd_limits_turns(cli *c);
void places_json(json_writer *w, const pawl_places *places); /* cmd_places.c: for pawl limits list */
bool places_table(const cli *c, const pawl_places *places);
int cmd_schedules_list(cli *c);
int cmd_schedules_show(cli *c);
int cmd_schedules_add(cli *c);
int cmd_schedules_edit(cli *c);
int cmd_schedules_enable(cli *c);
int cmd_schedules_disable(cli *c);
int cmd_schedules_run(cli *c);
int cmd_schedules_rm(cli *c);
int cmd_dead_list(cli *c);
int cmd_dead_retry(cli *c);
int cmd_dead_ack(cli *c);
int cmd_stats(cli *c);
int cmd_nodes(cli *c);
int cmd_log(cli *c);
int cmd_work(cli *c);
int cmd_bench(cli *c);
int cmd_backup(cli *c);
int cmd_migrate_status(cli *c);
int cmd_migrate_up(cli *c);
int cmd_migrate_sql(cli *c);
int cmd_move(cli *c);
int cmd_export(cli *c);
int cmd_import(cli *c);
int cmd_doctor(cli *c);
int cmd_cron_next(cli *c);
int cmd_cron_zones(cli *c);
int cmd_completion(cli *c);
int cmd_demo(cli *c);
int cmd_serve(cli *c);
int cmd_tokens_add(cli *c);
int cmd_tokens_list(cli *c);
int cmd_tokens_rm(cli *c);
int cmd_config_check(cli *c);
int cmd_config_sample(cli *c);
int cmd_openapi(cli *c);
int cmd_version(cli *c);
int cmd_help(cli *c);

extern const opt enqueue_opts[], list_opts[], show_opts[], wait_opts[], cancel_opts[], by_opts[], dead_list_opts[],
    dead_retry_opts[], dead_ack_opts[], stats_opts[], nodes_opts[], events_opts[], top_opts[], log_opts[], work_opts[],
    bench_opts[], demo_opts[], migrate_up_opts[], migrate_sql_opts[], cron_next_opts[], move_opts[], export_opts[], import_opts[],
    limits_list_opts[], limits_set_opts[], limits_key_opts[], queues_set_opts[], limits_concurrency_opts[], limits_turns_opts[],
    schedules_list_opts[], schedules_show_opts[], schedules_add_opts[], schedules_edit_opts[], schedules_by_opts[],
    schedules_run_opts[], serve_opts[], tokens_opts[], tokens_add_opts[], tree_opts[], batches_list_opts[], batches_open_opts[],
    batches_by_opts[];

#endif
