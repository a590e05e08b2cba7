/* pawl: the command line.
 *
 * One table lists the commands, one mechanism (opts.h) reads their options. A command gets a `cli` with its arguments and options in
 * place and returns the exit code; it talks to the store only through pawl.h. Exit codes follow pawl_status_exit_code: 0 ok, 1 a
 * person must act, 2 usage, 3 not found, 4 conflict, 5 unavailable, 6 denied, 7 outcome unknown, 8 moved to another store, 70 internal
 * error.
 */
#include "cli/cli.h"

#include "base/error.h"
#include "cli/help.h"
#include "handlers/cage.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const command commands[] = {
    {"enqueue", "Tasks", "hand over a task, or many from a file", "--type TYPE [OPTIONS] [-]", help_enqueue, enqueue_opts, 0, 1,
     false, cmd_enqueue},
    {"tasks list", "Tasks", "list tasks, newest first", "[OPTIONS]", help_list, list_opts, 0, 0, false, cmd_tasks_list},
    {"tasks show", "Tasks", "everything stored about a task", "ID [OPTIONS]", help_show, show_opts, 1, 1, false, cmd_tasks_show},
    {"tasks why", "Tasks", "why a task is not running", "ID", help_why, NULL, 1, 1, false, cmd_tasks_why},
    {"tasks wait", "Tasks", "wait until tasks have finished", "ID... [OPTIONS]", help_wait, wait_opts, 1, -1, false,
     cmd_tasks_wait},
    {"tasks cancel", "Tasks", "cancel tasks, by id or by filter", "ID... | FILTER | --all", help_cancel, cancel_opts, 0, -1,
     false, cmd_tasks_cancel},
    {"tasks retry", "Tasks", "run finished tasks again, as new tasks", "ID...", help_retry, by_opts, 1, -1, false,
     cmd_tasks_retry},
    {"tasks tree", "Tasks", "who waits for a task, or what it waits for", "ID [OPTIONS]", help_tree, tree_opts, 1, 1, false,
     cmd_tasks_tree},
    {"batches list", "Batches", "batches of tasks, newest first", "[OPTIONS]", help_batches_list, batches_list_opts, 0, 0, false,
     cmd_batches_list},
    {"batches show", "Batches", "a batch and its counts", "BATCH", help_batches_show, NULL, 1, 1, false, cmd_batches_show},
    {"batches open", "Batches", "begin a batch, with tasks for its end", "[NAME] [OPTIONS]", help_batches_open, batches_open_opts,
     0, 1, false, cmd_batches_open},
    {"batches close", "Batches", "let a batch have no more members", "BATCH", help_batches_close, batches_by_opts, 1, 1, false,
     cmd_batches_close},
    {"batches cancel", "Batches", "cancel all of a batch", "BATCH", help_batches_cancel, batches_by_opts, 1, 1, false,
     cmd_batches_cancel},
    {"queues list", "Queues", "queues and what is in them", "", help_queues, NULL, 0, 0, false, cmd_queues_list},
    {"queues pause", "Queues", "start no more tasks of a queue, on any node", "QUEUE...", help_pause, by_opts, 1, -1, false,
     cmd_queues_pause},
    {"queues resume", "Queues", "let a paused queue go on", "QUEUE...", help_resume, by_opts, 1, -1, false, cmd_queues_resume},
    {"queues set", "Queues", "limit how many tasks of a queue run at a time", "QUEUE [OPTIONS]", help_queues_set, queues_set_opts,
     1, 1, false, cmd_queues_set},
    {"limits list", "Limits", "limits, and what is left of them", "[OPTIONS]", help_limits_list, limits_list_opts, 0, 0, false,
     cmd_limits_list},
    {"limits set", "Limits", "limit the starts of a type, for each rate key", "TYPE RATE [OPTIONS]", help_limits_set,
     limits_set_opts, 2, 2, false, cmd_limits_set},
    {"limits drop", "Limits", "take a limit away", "TYPE [--key KEY]", help_limits_drop, limits_key_opts, 1, 1, false,
     cmd_limits_drop},
    {"limits pause", "Limits", "start no more tasks of a rate key", "TYPE [--key KEY]", help_limits_pause, limits_key_opts, 1, 1,
     false, cmd_limits_pause},
    {"limits resume", "Limits", "let a paused rate key go on", "TYPE [--key KEY]", help_limits_resume, limits_key_opts, 1, 1,
     false, cmd_limits_resume},
    {"limits running", "Limits", "limit how many tasks run at a time", "TYPE N [OPTIONS]", help_limits_concurrency,
     limits_concurrency_opts, 2, 2, false, cmd_limits_concurrency},
    {"limits turns", "Limits", "let the tenants of a queue take turns", "QUEUE [OPTIONS]", help_limits_turns, limits_turns_opts,
     1, 1, false, cmd_limits_turns},
    {"schedules list", "Schedules", "schedules, and when they fire next", "[OPTIONS]", help_schedules_list, schedules_list_opts,
     0, 0, false, cmd_schedules_list},
    {"schedules show", "Schedules", "a schedule, its next times and its last occurrences", "NAME [OPTIONS]", help_schedules_show,
     schedules_show_opts, 1, 1, false, cmd_schedules_show},
    {"schedules add", "Schedules", "make tasks whenever they fall due", "NAME --type TYPE [OPTIONS]", help_schedules_add,
     schedules_add_opts, 1, 1, false, cmd_schedules_add},
    {"schedules edit", "Schedules", "change a schedule", "NAME [OPTIONS]", help_schedules_edit, schedules_edit_opts, 1, 1, false,
     cmd_schedules_edit},
    {"schedules enable", "Schedules", "let schedules that are off go on", "NAME...", help_schedules_enable, schedules_by_opts, 1,
     -1, false, cmd_schedules_enable},
    {"schedules disable", "Schedules", "let schedules fire nothing, on any node", "NAME...", help_schedules_disable,
     schedules_by_opts, 1, -1, false, cmd_schedules_disable},
    {"schedules run", "Schedules", "make a task of a schedule now", "NAME [OPTIONS]", help_schedules_run, schedules_run_opts, 1,
     1, false, cmd_schedules_run},
    {"schedules rm", "Schedules", "remove schedules", "NAME...", help_schedules_rm, schedules_by_opts, 1, -1, false,
     cmd_schedules_rm},
    {"dead list", "Dead letters", "failed tasks that nobody has dealt with", "[OPTIONS]", help_dead_list, dead_list_opts, 0, 0,
     false, cmd_dead_list},
    {"dead retry", "Dead letters", "run dead letters again", "ID... | FILTER | --all", help_dead_retry, dead_retry_opts, 0, -1,
     false, cmd_dead_retry},
    {"dead ack", "Dead letters", "acknowledge dead letters, with a note", "ID... | FILTER | --all", help_dead_ack, dead_ack_opts,
     0, -1, false, cmd_dead_ack},
    {"work", "Running", "run tasks through a command", "[--queue Q] [OPTIONS] -- COMMAND ARG...", help_work, work_opts, 0, 0,
     true, cmd_work},
    {"serve", "Running", "serve the HTTP API", "[OPTIONS]", help_serve, serve_opts, 0, 0, false, cmd_serve},
    {"tokens add", "Running", "make a token for the HTTP API", "NAME [OPTIONS]", help_tokens_add, tokens_add_opts, 1, 1, false,
     cmd_tokens_add},
    {"tokens list", "Running", "tokens that are known", "[OPTIONS]", help_tokens_list, tokens_opts, 0, 0, false, cmd_tokens_list},
    {"tokens rm", "Running", "take a token back", "NAME [OPTIONS]", help_tokens_rm, tokens_opts, 1, 1, false, cmd_tokens_rm},
    {"config check", "Running", "say whether a config file is right", "[FILE]", help_config_check, NULL, 0, 1, false,
     cmd_config_check},
    {"config sample", "Running", "print a config file with every setting explained", "", help_config_sample, NULL, 0, 0, false,
     cmd_config_sample},
    {"openapi", NULL, "print the OpenAPI document of the HTTP API", "", NULL, NULL, 0, 0, false, cmd_openapi},
    {"stats", "Looking", "counts, rates and times", "[OPTIONS]", help_stats, stats_opts, 0, 0, false, cmd_stats},
    {"nodes", "Looking", "processes that run tasks; drain one", "[drain NODE] [OPTIONS]", help_nodes, nodes_opts, 0, 2, false,
     cmd_nodes},
    {"log", "Looking", "what people did: the operator log", "[OPTIONS]", help_log, log_opts, 0, 0, false, cmd_log},
    {"events", "Looking", "what happens to tasks, as it happens", "[-f] [OPTIONS]", help_events, events_opts, 0, 0, false,
     cmd_events},
    {"top", "Looking", "a live view of queues, nodes and tasks", "[OPTIONS]", help_top, top_opts, 0, 0, false, cmd_top},
    {"doctor", "Looking", "what a person should know or do about a store", "", help_doctor, NULL, 0, 0, false, cmd_doctor},
    {"cron next", "Looking", "when a cron expression fires, and what it means", "EXPRESSION [OPTIONS]", help_cron_next,
     cron_next_opts, 1, 1, false, cmd_cron_next},
    {"cron zones", "Looking", "the time zones of this system", "[TEXT]", help_cron_zones, NULL, 0, 1, false, cmd_cron_zones},
    {"backup", "Upkeep", "copy the store to a new file while it is in use", "FILE", help_backup, NULL, 1, 1, false, cmd_backup},
    {"move", "Upkeep", "move all tasks to another store while nodes work", "--from URL --to URL [OPTIONS]", help_move, move_opts,
     0, 0, false, cmd_move},
    {"export", "Upkeep", "write tasks to a file, one JSON object a line", "[OPTIONS] > FILE", help_export, export_opts, 0, 0,
     false, cmd_export},
    {"import", "Upkeep", "store tasks from such a file", "FILE | - [OPTIONS]", help_import, import_opts, 1, 1, false, cmd_import},
    {"migrate status", "Upkeep", "a store's schema, and what is missing for this build", "", help_migrate_status, NULL, 0, 0,
     false, cmd_migrate_status},
    {"migrate up", "Upkeep", "bring a store to the schema of this build", "[OPTIONS]", help_migrate_up, migrate_up_opts, 0, 0,
     false, cmd_migrate_up},
    {"migrate sql", "Upkeep", "print the SQL of what is missing", "[OPTIONS]", help_migrate_sql, migrate_sql_opts, 0, 0, false,
     cmd_migrate_sql},
    {"bench", "Upkeep", "measure how fast tasks go through a store", "[OPTIONS]", help_bench, bench_opts, 0, 0, false, cmd_bench},
    {"demo", NULL, "an engine with a few handlers and live counters", "[OPTIONS]", help_demo, demo_opts, 0, 0, false, cmd_demo},
    {"completion", "Upkeep", "print what a shell needs to complete commands", "bash | zsh | fish", help_completion, NULL, 1, 1,
     false, cmd_completion},
    {"version", "Upkeep", "print the version", "", NULL, NULL, 0, 0, false, cmd_version},
    {"help", "Upkeep", "explain a command", "[COMMAND]", NULL, NULL, 0, 2, false, cmd_help},
    {.name = NULL}};

static cli context;

const opt global_opts[] = {
    OPTION(
        OPT_TEXT, "store", &context.store, "URL",
        "where tasks live: sqlite:PATH, postgres://HOST/DATABASE, mysql://HOST/DATABASE or memory: (else $PAWL_STORE, $DATABASE_URL, "
        "sqlite:pawl.db)"),
    OPTION(OPT_TEXT, "server", &context.server, "URL",
           "ask a server in place of a store: http://HOST:PORT, https://HOST:PORT or unix:/PATH (commands that look at "
           "tasks or change them, and work)"),
    OPTION(OPT_TEXT, "token-file", &context.token_file, "FILE", "a token for the server (else $PAWL_TOKEN)"),
    OPTION(OPT_FLAG, "json", &context.json, NULL, "answer in JSON"),
    OPTION(OPT_FLAG, "no-color", &context.no_color, NULL, "no colours (also: NO_COLOR in the environment)"),
    OPTION(OPT_FLAG, "help", &context.help, NULL, "explain the command"),
    OPTION(OPT_FLAG, "version", &context.version, NULL, NULL),
    OPTIONS_END};

/* ---- which command ------------------------------------------------------------------------------------------------------------ */

static const command *find_command(const char *name)
{
    for (const command *it = commands; it->name; it++) {
        if (strcmp(it->name, name) == 0) return it;
    }
    return NULL;
}

/* "tasks" of "tasks list". */
bool is_group(const char *word)
{
    size_t n = strlen(word);
    for (const command *it = commands; it->name; it++) {
        if (strncmp(it->name, word, n) == 0 && it->name[n] == ' ') return true;
    }
    return false;
}

/* One word or two, as on the command line; *words gets how many. A group alone is no command. */
const command *command_of(const char *first, const char *second, int *words)
{
    char both[64];
    *words = 1;
    const command *found = find_command(first);
    if (found || !second || !is_group(first)) return found;
    *words = 2;
    int n = snprintf(both, sizeof both, "%s %s", first, second);
    return n < (int)sizeof both ? find_command(both) : NULL;
}

static const char *meant(const char *typed)
{
    closest best = {0};
    for (const command *it = commands; it->name; it++) {
        char group[32];
        if (!it->section) continue;
        closest_try(&best, typed, it->name);
        size_t n = strcspn(it->name, " ");
        if (it->name[n] == 0 || n >= sizeof group) continue;
        memcpy(group, it->name, n);
        group[n] = 0;
        closest probe = {0};
        closest_try(&probe, typed, group);
        if (probe.word && (!best.word || probe.distance < best.distance)) best = (closest){it->name, probe.distance};
    }
    return best.word;
}

int unknown_command(const cli *c, const char *first, const char *second)
{
    char typed[128];
    bool group = is_group(first);
    snprintf(typed, sizeof typed, "%.60s%s%.60s", first, group && second ? " " : "", group && second ? second : "");
    if (group && !second) {
        int code = cli_usage(c, "\"%s\" needs one more word", first);
        if (!c->json) help_group(c, first, stderr);
        return code;
    }
    const char *suggestion = meant(typed);
    if (suggestion) return cli_usage(c, "unknown command \"%s\": did you mean \"%s\"?", typed, suggestion);
    return cli_usage(c, "unknown command \"%s\": \"pawl help\" lists them all", typed);
}

/* ---- reading the command line --------------------------------------------------------------------------------------------------- */

/* Global options may stand before the command: takes them and finds the first word. */
static bool take_leading(int argc, char **argv, int *at, pawl_error *err)
{
    const opt *tables[] = {global_opts, NULL};
    while (*at < argc && argv[*at][0] == '-') {
        if (opts_take(tables, argc, argv, at, err)) return false;
    }
    return true;
}

static bool take_arguments(cli *c, int argc, char **argv, int at, pawl_error *err)
{
    const opt *tables[] = {global_opts, c->command->opts, NULL}; /* opts NULL ends it sooner */
    bool ended = false;
    c->args = argv; /* arguments move to the front of argv */
    for (char *word; at < argc && (word = argv[at]);) {
        if (!ended && strcmp(word, "--") == 0) {
            at++;
            if (c->command->passes_rest) break;
            ended = true;
        } else if (!ended && word[0] == '-' && word[1]) {
            if (opts_take(tables, argc, argv, &at, err)) return false;
        } else {
            c->args[c->args_count++] = word;
            at++;
        }
    }
    c->rest = argv + at;
    c->rest_count = argc - at;
    return true;
}

/* Commands that ask a server as well (remote.h). */
static bool knows_server(const command *command)
{
    /* clang-format off */
    static int (*const known[])(cli *c) = {
        cmd_enqueue, cmd_tasks_list, cmd_tasks_show, cmd_tasks_why, cmd_tasks_wait, cmd_tasks_cancel, cmd_tasks_retry,
        cmd_tasks_tree, cmd_batches_list, cmd_batches_show, cmd_batches_open, cmd_batches_close, cmd_batches_cancel,
        cmd_queues_list, cmd_queues_pause, cmd_queues_resume, cmd_queues_set, cmd_limits_list, cmd_limits_set, cmd_limits_drop,
        cmd_limits_pause, cmd_limits_resume, cmd_limits_concurrency, cmd_limits_turns, cmd_schedules_list, cmd_schedules_show,
        cmd_schedules_add, cmd_schedules_edit, cmd_schedules_enable, cmd_schedules_disable, cmd_schedules_run, cmd_schedules_rm,
        cmd_dead_list, cmd_dead_retry, cmd_dead_ack, cmd_work, cmd_stats, cmd_nodes, cmd_log, cmd_events, cmd_top};
    /* clang-format on */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (command->run == known[i]) return true;
    }
    return false;
}

/* A server knows who asks by the token: nobody acts for another one there. */
static bool says_by(const command *command)
{
    for (const opt *o = command->opts; o && o->name; o++) {
        if (strcmp(o->name, "by") == 0 && *(const char *const *)o->to) return true;
    }
    return false;
}

static int check_count(const cli *c)
{
    const command *command = c->command;
    if (c->args_count < command->least) return cli_usage(c, "\"pawl %s\" needs %s", command->name, command->usage);
    if (command->most < 0 || c->args_count <= command->most) return 0;
    return cli_usage(c, "\"pawl %s\" does not know what to do with \"%s\"", command->name, c->args[command->most]);
}

static int run_command(cli *c, int argc, char **argv, int at)
{
    pawl_error err;
    if (c->command->opts && !opts_defaults(c->command->opts, &err)) return cli_fail(c, &err);
    if (!take_arguments(c, argc, argv, at, &err)) return cli_usage(c, "%s", err.message);
    term_init(&c->term, stdout, c->no_color);
    if (c->help) return help_command(c, c->command, stdout);
    if (c->server && !knows_server(c->command))
        return cli_usage(c, "\"pawl %s\" works on a store, not on a server", c->command->name);
    if (c->server && says_by(c->command))
        return cli_usage(c, "--by is for a store: a server puts the name of the token into the operator log");
    int code = check_count(c);
    return code ? code : c->command->run(c);
}

static int start(cli *c, int argc, char **argv)
{
    pawl_error err;
    int at = 1, words;
    if (cli_hide(getenv("PAWL_REDACT"), &err)) return cli_usage(c, "PAWL_REDACT: %s", err.message);
    if (!take_leading(argc, argv, &at, &err)) return cli_usage(c, "%s", err.message);
    term_init(&c->term, stdout, c->no_color);
    if (c->version) return cmd_version(c);
    if (at == argc) return c->help ? help_overview(c, stdout) : (help_overview(c, stderr), EXIT_USAGE);
    const char *first = argv[at], *second = at + 1 < argc ? argv[at + 1] : NULL;
    if (is_group(first) && (c->help || (second && (strcmp(second, "--help") == 0 || strcmp(second, "-h") == 0)))) {
        return help_group(c, first, stdout);
    }
    if (second && second[0] == '-') second = NULL;
    c->command = command_of(first, second, &words);
    if (!c->command && !second) { /* "pawl limits --json": a group alone lists what it has */
        c->command = command_of(first, "list", &words);
        words = 1;
    }
    if (!c->command) return unknown_command(c, first, second);
    return run_command(c, argc, argv, at + words);
}

/* A program started without standard descriptors would give their numbers to the store's files. */
static void hold_standard_descriptors(void)
{
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv)
{
    if (argc && strcmp(argv[0], CAGE_NAME) == 0) return cage_main(argc, argv);
    hold_standard_descriptors();
    context.program = argc ? argv[0] : "pawl";
    int code = start(&context, argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    pawl_error err;
    err_set(&err, PAWL_UNAVAILABLE, "could not write to standard output: %s", strerror(errno));
    return code ? code : cli_fail(&context, &err);
}
