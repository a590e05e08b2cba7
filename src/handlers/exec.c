/* Commands: a section says which program, and its arguments as templates (template.h); the payload fills these in and stands on standard
 * input. No shell sees any of it. The command runs in a cage (cage.h), with an environment that the section makes.
 *
 * What it prints goes to the run's log, up to a number of bytes; what comes behind that is read, so that the command does not hang, and
 * forgotten.
 */
#include "base/error.h"
#include "base/text.h"
#include "handlers/cage.h"
#include "handlers/handlers.h"
#include "handlers/landlock.h"
#include "handlers/template.h"
#include "handlers/verdict.h"
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS_MAX 256
#define TEXTS_MAX (4u << 20)

typedef struct exec_settings {
    const char *command, *directory, *user, *group, *output, *confine;
    text_list arguments, environment, pass, read, write;
    int64_t output_max, kill_after_us, snooze_us, cpu_us, memory, file_size, open_files, processes;
    bool new_privileges;
} exec_settings;

/* clang-format off */
#define AT(kind, member, ...) SETTING(kind, exec_settings, member, __VA_ARGS__)
static const setting settings[] = {
    AT(SETTING_TEXT, command, "command", "/PATH", "the program; its whole path", .needed = true),
    AT(SETTING_LINES, arguments, "argument", "TEXT", "an argument of it, in order; {name} or {name:int} stands for a field of the payload"),
    AT(SETTING_TEXT, directory, "directory", "/PATH", "where it runs", .fallback = "/"),
    AT(SETTING_LINES, environment, "env", "NAME=VALUE", "a variable of its environment, which holds nothing else but PATH, LANG and PAWL_TASK_..."),
    AT(SETTING_LIST, pass, "pass-env", "NAME", "variables that it gets from the server's own environment"),
    AT(SETTING_CHOICE, output, "output", "log|result", "what becomes of its standard output: lines of the run's log, or the task's result", .choices = "log|result", .fallback = "log"),
    AT(SETTING_BYTES, output_max, "output-max", "BYTES", "of its output in the run's log", .min = 1, .max = 64 << 20, .fallback = "1M"),
    AT(SETTING_DURATION, snooze_us, "snooze", "DURATION", "how long exit status 75 puts a task off", .min = 1, .max = PAWL_DAY, .fallback = "30s"),
    AT(SETTING_DURATION, kill_after_us, "kill-after", "DURATION", "from SIGTERM to SIGKILL, when it is to stop", .min = 1, .max = PAWL_HOUR, .fallback = "5s"),
    AT(SETTING_TEXT, user, "user", "USER", "who it runs as; the server must be root"),
    AT(SETTING_TEXT, group, "group", "GROUP", "and in which group; default: that of the user"),
    AT(SETTING_DURATION, cpu_us, "limit-cpu", "DURATION", "processor time it may use", .min = PAWL_SECOND, .max = 365 * PAWL_DAY),
    AT(SETTING_BYTES, memory, "limit-memory", "BYTES", "address space of each of its processes", .min = 1 << 20, .max = INT64_C(1) << 50),
    AT(SETTING_BYTES, file_size, "limit-file-size", "BYTES", "the largest file it may write", .min = 1, .max = INT64_C(1) << 50),
    AT(SETTING_INT, open_files, "limit-open-files", "N", "files it may have open", .min = 4, .max = 1 << 20),
    AT(SETTING_INT, processes, "limit-processes", "N", "processes its user may have", .min = 1, .max = 1 << 20),
    AT(SETTING_FLAG, new_privileges, "new-privileges", NULL, "setuid programs keep their power"),
    AT(SETTING_LIST, read, "read", "PATH", "files and folders it may read and execute (Landlock); default, with write alone: all"),
    AT(SETTING_LIST, write, "write", "PATH", "files and folders it may also change (Landlock)"),
    AT(SETTING_CHOICE, confine, "confine", "try|need", "a kernel without Landlock: a warning, or the server does not start", .choices = "try|need", .fallback = "try"),
    SETTINGS_END};
/* clang-format on */

typedef struct exec {
    const handler_open *o;
    const exec_settings *set;
    pawl_arena *arena;
    template **templates;
    bool fields; /* one of them has some */
    const char **cage, **env;
    size_t cage_count, env_count;
} exec;

/* ---- opening -------------------------------------------------------------------------------------------------------------------- */

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

static pawl_status check_command(const exec_settings *set, pawl_error *err)
{
    struct stat st;
    if (*set->command != '/')
        return err_set(err, PAWL_INVALID, "command \"%.200s\" is not a whole path: it must begin with \"/\"", set->command);
    if (stat(set->command, &st) || !S_ISREG(st.st_mode) || access(set->command, X_OK))
        return err_set(err, PAWL_INVALID, "cannot find the command \"%.200s\", or it is not executable", set->command);
    if (stat(set->directory, &st) || !S_ISDIR(st.st_mode))
        return err_set(err, PAWL_INVALID, "there is no directory \"%.200s\"", set->directory);
    for (size_t i = 0; i < set->read.count + set->write.count; i++) {
        const char *path = i < set->read.count ? set->read.items[i] : set->write.items[i - set->read.count];
        if (*path != '/' || stat(path, &st))
            return err_set(err, PAWL_INVALID, "there is no \"%.200s\": read and write need whole paths of what is there", path);
    }
    return PAWL_OK;
}

static pawl_status check_confine(const handler_open *o, const exec_settings *set, pawl_error *err)
{
    if ((!set->read.count && !set->write.count) || landlock_version()) return PAWL_OK;
    if (strcmp(set->confine, "need") == 0)
        return err_set(err, PAWL_UNSUPPORTED,
                       "this kernel has no Landlock, which read and write need: set confine = try to go without");
    if (o->p)
        log_line(o->log, PAWL_WARN,
                 "handler \"%s\": this kernel has no Landlock: its commands read and write what their user may", o->name);
    return PAWL_OK;
}

/* An argument in quotes may have white space at its ends, or be empty. */
static const char *unquote(pawl_arena *arena, const char *text)
{
    size_t n = strlen(text);
    if (n < 2 || text[0] != '"' || text[n - 1] != '"') return text;
    return pawl_arena_bytes(arena, text + 1, n - 2);
}

static pawl_status read_templates(exec *x, pawl_error *err)
{
    const text_list *list = &x->set->arguments;
    pawl_error why;
    x->templates = pawl_arena_alloc(x->arena, (list->count + 1) * sizeof *x->templates);
    if (!x->templates) return no_memory(err);
    for (size_t i = 0; i < list->count; i++) {
        const char *text = unquote(x->arena, list->items[i]);
        if (!text) return no_memory(err);
        if (template_parse(text, x->arena, &x->templates[i], &why))
            return err_set(err, why.status, "argument \"%.100s\": %s", list->items[i], why.message);
        x->fields = x->fields || template_has_fields(x->templates[i]);
    }
    return PAWL_OK;
}

/* A variable of ours, unless the section has it. */
static bool add_default(exec *x, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < x->env_count; i++) {
        if (strncmp(x->env[i], variable, n) == 0) return true;
    }
    x->env[x->env_count++] = variable;
    return true;
}

static pawl_status read_environment(exec *x, pawl_error *err)
{
    const text_list *own = &x->set->environment, *pass = &x->set->pass;
    x->env = pawl_arena_alloc(x->arena, (own->count + pass->count + 2) * sizeof *x->env);
    if (!x->env) return no_memory(err);
    for (size_t i = 0; i < own->count; i++) {
        if (*own->items[i] == '=' || !strchr(own->items[i], '='))
            return err_set(err, PAWL_INVALID, "env \"%.100s\" is not NAME=VALUE", own->items[i]);
        x->env[x->env_count++] = own->items[i];
    }
    for (size_t i = 0; i < pass->count; i++) {
        const char *value = getenv(pass->items[i]);
        size_t size = strlen(pass->items[i]) + (value ? strlen(value) : 0) + 2;
        char *both = value ? pawl_arena_alloc(x->arena, size) : NULL;
        if (value && !both) return no_memory(err);
        if (both) snprintf(both, size, "%s=%s", pass->items[i], value), add_default(x, both);
    }
    add_default(x, "PATH=/usr/local/bin:/usr/bin:/bin");
    add_default(x, "LANG=C.UTF-8");
    return PAWL_OK;
}

static pawl_status find_group(const char *name, gid_t *gid, pawl_error *err)
{
    int64_t number;
    struct group found, *group = NULL;
    char room[16 << 10];
    if (int_parse(name, 0, UINT32_MAX - 1, &number)) return *gid = (gid_t)number, PAWL_OK;
    if (getgrnam_r(name, &found, room, sizeof room, &group) || !group)
        return err_set(err, PAWL_INVALID, "there is no group \"%.60s\"", name);
    *gid = group->gr_gid;
    return PAWL_OK;
}

static pawl_status find_user(exec *x, cage_spec *spec, pawl_error *err)
{
    const char *name = x->set->user;
    struct passwd found, *user = NULL;
    char room[16 << 10];
    int64_t number;
    bool by_number = int_parse(name, 0, UINT32_MAX - 1, &number);
    int rc = by_number ? getpwuid_r((uid_t)number, &found, room, sizeof room, &user)
                       : getpwnam_r(name, &found, room, sizeof room, &user);
    if (rc || !user) return err_set(err, PAWL_INVALID, "there is no user \"%.60s\"", name);
    if (geteuid() != 0 && geteuid() != user->pw_uid)
        return err_set(err, PAWL_DENIED, "cannot run commands as \"%.60s\": the server is not root", name);
    spec->as_user = geteuid() == 0;
    spec->uid = user->pw_uid;
    spec->gid = user->pw_gid;
    gid_t *groups = pawl_arena_alloc(x->arena, GROUPS_MAX * sizeof *groups);
    spec->groups_count = GROUPS_MAX;
    if (!groups) return no_memory(err);
    if (getgrouplist(user->pw_name, user->pw_gid, groups, &spec->groups_count) < 0) spec->groups_count = GROUPS_MAX;
    spec->groups = groups;
    if (!x->set->group) return PAWL_OK;
    spec->groups_count = 0;
    return find_group(x->set->group, &spec->gid, err);
}

static pawl_status build_cage(exec *x, pawl_error *err)
{
    const exec_settings *set = x->set;
    cage_spec spec = {.grace_us = set->kill_after_us,
                      .directory = set->directory,
                      .cpu_s = (set->cpu_us + PAWL_SECOND - 1) / PAWL_SECOND,
                      .memory = set->memory,
                      .file_size = set->file_size,
                      .open_files = set->open_files,
                      .processes = set->processes,
                      .new_privileges = set->new_privileges};
    if (landlock_version()) spec.read = set->read, spec.write = set->write;
    if (set->group && !set->user) return err_set(err, PAWL_INVALID, "group needs user: say whose group it is");
    if (set->new_privileges && (set->read.count || set->write.count))
        return err_set(err, PAWL_INVALID, "new-privileges and read or write cannot be had together");
    pawl_status status = set->user ? find_user(x, &spec, err) : PAWL_OK;
    if (status) return status;
    x->cage = cage_arguments(&spec, x->arena, &x->cage_count);
    return x->cage ? PAWL_OK : no_memory(err);
}

static void exec_close(void *ctx)
{
    exec *x = ctx;
    if (!x) return;
    arena_free(x->arena);
    alloc_free(x->o->allocator, x);
}

static pawl_status exec_open(const handler_open *o, void **ctx, pawl_error *err)
{
    exec *x = alloc_new(o->allocator, sizeof *x);
    if (!x) return no_memory(err);
    *x = (exec){.o = o, .set = o->settings, .arena = arena_new(o->allocator, TEXTS_MAX)};
    pawl_status status = x->arena ? check_command(x->set, err) : no_memory(err);
    if (!status) status = check_confine(o, x->set, err);
    if (!status) status = read_templates(x, err);
    if (!status) status = read_environment(x, err);
    if (!status) status = build_cage(x, err);
    if (status) exec_close(x);
    else *ctx = x;
    return status;
}

/* ---- one run -------------------------------------------------------------------------------------------------------------------- */

typedef struct job {
    const exec *x;
    pawl_run *run;
    pawl_stop_reason stopped;
    int64_t logged; /* bytes */
    char last[200];
} job;

static void say(job *j, pawl_level level, const char *line)
{
    size_t n = strlen(line);
    int64_t before = j->logged, most = j->x->set->output_max;
    if (before > most) return;
    j->logged += (int64_t)n;
    if (j->logged <= most) pawl_run_log(j->run, level, "%s", line);
    else pawl_run_log(j->run, PAWL_WARN, "more output than %lld bytes: the rest was left out", (long long)most);
}

static void take_out(void *ctx, const char *line) { say(ctx, PAWL_INFO, line); }

static void take_error(void *ctx, const char *line)
{
    job *j = ctx;
    snprintf(j->last, sizeof j->last, "%s", line);
    say(j, PAWL_WARN, line);
}

static child_stop stop_of(void *ctx)
{
    job *j = ctx;
    if (!j->stopped) j->stopped = pawl_run_stopping(j->run);
    return j->stopped ? CHILD_TERM : CHILD_GO_ON;
}

static pawl_status build_arguments(const exec *x, const pawl_run *run, arguments *a, pawl_error *err)
{
    json payload = {.kind = JSON_NONE};
    pawl_bytes text = pawl_run_payload(run);
    pawl_status status = PAWL_OK;
    if (x->fields && !json_valid(text, NULL, NULL))
        return err_set(err, PAWL_INVALID, "the payload is not JSON, and the command's arguments are fields of it");
    if (x->fields) payload = json_parse(text);
    for (size_t i = 0; i < x->cage_count && !status; i++) status = arguments_add(a, x->cage[i], err);
    if (!status) status = arguments_add(a, x->set->command, err);
    for (size_t i = 0; i < x->set->arguments.count && !status; i++) status = arguments_fill(a, x->templates[i], payload, err);
    return status ? status : arguments_end(a, err);
}

static pawl_status add_variable(arguments *env, const char *name, const char *value, pawl_error *err)
{
    char text[NAME_MAX_BYTES + 32];
    snprintf(text, sizeof text, "%s=%s", name, value ? value : "");
    return arguments_add(env, text, err);
}

static pawl_status build_environment(const exec *x, const pawl_run *run, arguments *env, pawl_error *err)
{
    char id[PAWL_ID_TEXT], attempt[16], fence[24];
    pawl_id_format(pawl_run_id(run), id);
    snprintf(attempt, sizeof attempt, "%d", pawl_run_attempt(run));
    snprintf(fence, sizeof fence, "%lld", (long long)pawl_run_fence(run));
    const char *const ours[][2] = {{"PAWL_TASK_ID", id},
                                   {"PAWL_TASK_TYPE", pawl_run_type(run)},
                                   {"PAWL_TASK_QUEUE", pawl_run_queue(run)},
                                   {"PAWL_TASK_KEY", pawl_run_key(run)},
                                   {"PAWL_TASK_ATTEMPT", attempt},
                                   {"PAWL_TASK_FENCE", fence}};
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < x->env_count && !status; i++) status = arguments_add(env, x->env[i], err);
    for (size_t i = 0; i < sizeof ours / sizeof *ours && !status; i++) status = add_variable(env, ours[i][0], ours[i][1], err);
    return status ? status : arguments_end(env, err);
}

static pawl_outcome run_command(job *j, const arguments *argv, const arguments *env)
{
    pawl_error err;
    buf output;
    const exec_settings *set = j->x->set;
    bool result = strcmp(set->output, "result") == 0;
    child_end end = {.output = &output};
    child_spec spec = {.argv = argv->vector,
                       .env = env->vector,
                       .input = pawl_run_payload(j->run),
                       .line = take_error,
                       .out_line = result ? NULL : take_out,
                       .stop = stop_of,
                       .ctx = j,
                       .grace_us = set->kill_after_us,
                       .caged = true};
    buf_init(&output, j->x->o->allocator, VERDICT_RESULT_MAX);
    pawl_outcome outcome =
        child_run(&spec, &end, &err)
            ? pawl_retry(j->run, "%s", err.message)
            : verdict_of(j->run, &(verdict){end.status, j->stopped, j->last, set->snooze_us, result ? &output : NULL});
    buf_done(&output);
    return outcome;
}

static pawl_outcome refuse(pawl_run *run, const pawl_error *err)
{
    if (err->status != PAWL_INVALID) return pawl_retry(run, "%s", err->message);
    pawl_run_error_code(run, "bad_payload");
    return pawl_fail(run, "%s", err->message);
}

static pawl_outcome exec_run(pawl_run *run, void *ctx)
{
    job j = {.x = ctx, .run = run};
    arguments argv, env;
    pawl_error err;
    arguments_init(&argv, j.x->o->allocator);
    arguments_init(&env, j.x->o->allocator);
    pawl_status status = build_arguments(j.x, run, &argv, &err);
    if (!status) status = build_environment(j.x, run, &env, &err);
    pawl_outcome outcome = status ? refuse(run, &err) : run_command(&j, &argv, &env);
    arguments_done(&argv);
    arguments_done(&env);
    return outcome;
}

const handler_kind handler_exec = {.name = "exec",
                                   .summary = "a command, with its arguments from the payload, and the payload on standard input",
                                   .settings = settings,
                                   .size = sizeof(exec_settings),
                                   .max_attempts = 3,
                                   .workers = 4,
                                   .open = exec_open,
                                   .run = exec_run,
                                   .close = exec_close};
