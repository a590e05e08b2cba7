/* Single-threaded, in a process of its own: what is said in cage.h. Nothing here is freed: it ends soon. */
#include "handlers/cage.h"

#include "base/buf.h"
#include "base/text.h"
#include "handlers/landlock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIST_MAX 256
#define KILLING_US (10 * PAWL_SECOND) /* what is not gone by then hangs in the kernel */
#define KILL_AGAIN_US (20 * PAWL_MILLISECOND)
#define NEVER INT64_MAX

/* ---- its arguments -------------------------------------------------------------------------------------------------------------- */

static bool add(const char **out, size_t *n, pawl_arena *arena, const char *fmt, ...) PAWL_PRINTF(4, 5);
static bool add(const char **out, size_t *n, pawl_arena *arena, const char *fmt, ...)
{
    char text[4200];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *kept = length >= 0 && length < (int)sizeof text ? pawl_arena_str(arena, text) : NULL;
    if (kept) out[(*n)++] = kept;
    return kept != NULL;
}

static bool add_limit(const char **out, size_t *n, pawl_arena *arena, const char *name, int64_t value)
{
    return !value || add(out, n, arena, "%s=%lld", name, (long long)value);
}

const char **cage_arguments(const cage_spec *spec, pawl_arena *arena, size_t *count)
{
    size_t n = 0, most = 16 + (size_t)spec->groups_count + spec->read.count + spec->write.count;
    const char **out = pawl_arena_alloc(arena, most * sizeof *out);
    bool ok = out && add(out, &n, arena, CAGE_NAME) && add(out, &n, arena, "parent=%ld", (long)getpid()) &&
              add_limit(out, &n, arena, "grace", spec->grace_us) && add(out, &n, arena, "directory=%s", spec->directory) &&
              add_limit(out, &n, arena, "cpu", spec->cpu_s) && add_limit(out, &n, arena, "memory", spec->memory) &&
              add_limit(out, &n, arena, "file-size", spec->file_size) &&
              add_limit(out, &n, arena, "open-files", spec->open_files) &&
              add_limit(out, &n, arena, "processes", spec->processes);
    if (ok && spec->as_user) ok = add(out, &n, arena, "uid=%u", spec->uid) && add(out, &n, arena, "gid=%u", spec->gid);
    for (int i = 0; ok && spec->as_user && i < spec->groups_count; i++) ok = add(out, &n, arena, "group=%u", spec->groups[i]);
    if (ok && spec->new_privileges) ok = add(out, &n, arena, "new-privileges=1");
    for (size_t i = 0; ok && i < spec->read.count; i++) ok = add(out, &n, arena, "read=%s", spec->read.items[i]);
    for (size_t i = 0; ok && i < spec->write.count; i++) ok = add(out, &n, arena, "write=%s", spec->write.items[i]);
    if (ok) ok = add(out, &n, arena, "--");
    *count = n;
    return ok ? out : NULL;
}

typedef struct cage {
    cage_spec spec;
    pid_t parent, self, command;
    const char *read[LIST_MAX], *write[LIST_MAX];
    gid_t groups[LIST_MAX];
    char **argv; /* of the command */
    int status;  /* of the command, once `ended` */
    bool ended;
    int64_t kill_at_us; /* NEVER: nobody asked it to stop */
} cage;

static const struct number {
    const char *name;
    size_t offset;
} numbers[] = {{"grace", offsetof(cage_spec, grace_us)},        {"cpu", offsetof(cage_spec, cpu_s)},
               {"memory", offsetof(cage_spec, memory)},         {"file-size", offsetof(cage_spec, file_size)},
               {"open-files", offsetof(cage_spec, open_files)}, {"processes", offsetof(cage_spec, processes)}};

static bool is(const char *argument, const char *name, const char **value)
{
    size_t n = strlen(name);
    if (strncmp(argument, name, n) != 0 || argument[n] != '=') return false;
    *value = argument + n + 1;
    return true;
}

static void take(cage *c, const char *argument)
{
    const char *value;
    cage_spec *s = &c->spec;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (is(argument, numbers[i].name, &value)) *(int64_t *)((char *)s + numbers[i].offset) = strtoll(value, NULL, 10);
    if (is(argument, "parent", &value)) c->parent = (pid_t)strtol(value, NULL, 10);
    if (is(argument, "directory", &value)) s->directory = value;
    if (is(argument, "uid", &value)) s->uid = (uid_t)strtoul(value, NULL, 10), s->as_user = true;
    if (is(argument, "gid", &value)) s->gid = (gid_t)strtoul(value, NULL, 10);
    if (is(argument, "group", &value) && s->groups_count < LIST_MAX)
        c->groups[s->groups_count++] = (gid_t)strtoul(value, NULL, 10);
    if (is(argument, "new-privileges", &value)) s->new_privileges = true;
    if (is(argument, "read", &value) && s->read.count < LIST_MAX) c->read[s->read.count++] = value;
    if (is(argument, "write", &value) && s->write.count < LIST_MAX) c->write[s->write.count++] = value;
}

/* ---- the command ---------------------------------------------------------------------------------------------------------------- */

static _Noreturn void give_up(int status, const char *fmt, ...) PAWL_PRINTF(2, 3);
static _Noreturn void give_up(int status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vdprintf(STDERR_FILENO, fmt, args);
    va_end(args);
    _exit(status);
}

static void limit(int what, int64_t value, const char *name)
{
    struct rlimit now, want = {(rlim_t)value, (rlim_t)value};
    if (!value || getrlimit(what, &now)) return;
    if (what == RLIMIT_CPU) want.rlim_max++;  /* SIGXCPU comes before SIGKILL */
    if (now.rlim_max < want.rlim_max) return; /* it is tighter already */
    if (setrlimit(what, &want)) give_up(CAGE_CANNOT, "could not limit %s: %s\n", name, strerror(errno));
}

static void set_limits(const cage_spec *s)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    limit(RLIMIT_CPU, s->cpu_s, "processor time");
    limit(RLIMIT_AS, s->memory, "memory");
    limit(RLIMIT_FSIZE, s->file_size, "the size of files");
    limit(RLIMIT_NOFILE, s->open_files, "open files");
    limit(RLIMIT_NPROC, s->processes, "processes");
}

static void become(const cage_spec *s)
{
    if (!s->as_user) return;
    if (setgroups((size_t)s->groups_count, s->groups) || setresgid(s->gid, s->gid, s->gid) || setresuid(s->uid, s->uid, s->uid))
        give_up(CAGE_CANNOT, "could not become user %u: %s\n", s->uid, strerror(errno));
}

static void confine(const cage_spec *s)
{
    const char *path;
    if (!s->new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        give_up(CAGE_CANNOT, "could not give up privileges: %s\n", strerror(errno));
    if (!s->read.count && !s->write.count) return;
    int rc = landlock_confine(s->read.items, s->read.count, s->write.items, s->write.count, &path);
    if (rc)
        give_up(CAGE_CANNOT, "could not confine the command%s%s%s: %s\n", path ? " to \"" : "", path ? path : "",
                path ? "\"" : "", strerror(rc));
}

/* What is set last would otherwise stand in the way of the rest. */
static _Noreturn void be_command(const cage *c)
{
    extern char **environ;
    sigset_t none;
    const cage_spec *s = &c->spec;
    setpgid(0, 0);
    become(s);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != c->self) _exit(CAGE_CANNOT);
    if (chdir(s->directory)) give_up(CAGE_CANNOT, "could not enter \"%s\": %s\n", s->directory, strerror(errno));
    set_limits(s);
    confine(s);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(c->argv[0], c->argv, environ);
    give_up(errno == ENOENT ? CAGE_NOT_FOUND : CAGE_CANNOT, "could not start \"%s\": %s\n", c->argv[0], strerror(errno));
}

/* ---- who is left ---------------------------------------------------------------------------------------------------------------- */

typedef struct process {
    pid_t pid, parent;
    bool ours;
} process;

static bool read_process(const char *pid, process *out)
{
    char path[300], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return false;
    text[n] = '\0';
    const char *name_end = strrchr(text, ')'); /* the name may hold anything */
    long parent;
    char state;
    if (!name_end || sscanf(name_end + 1, " %c %ld", &state, &parent) != 2) return false;
    *out = (process){.pid = (pid_t)strtol(pid, NULL, 10), .parent = (pid_t)parent};
    return true;
}

static size_t list_processes(process **list)
{
    size_t count = 0, room = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9') continue;
        if (count == room) {
            process *more = realloc(*list, (room = room * 2 + 256) * sizeof *more);
            if (!more) break;
            *list = more;
        }
        if (read_process(e->d_name, &(*list)[count])) count++;
    }
    if (dir) closedir(dir);
    return count;
}

static bool mark(process *list, size_t count, pid_t self)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        if (list[i].ours || list[i].pid == self) continue;
        bool ours = list[i].parent == self;
        for (size_t k = 0; k < count && !ours; k++) ours = list[k].ours && list[k].pid == list[i].parent;
        list[i].ours = ours;
        found = found || ours;
    }
    return found;
}

static void signal_all(const cage *c, int signo)
{
    process *list = NULL;
    size_t count = list_processes(&list);
    while (mark(list, count, c->self)) {}
    if (!c->ended) kill(-c->command, signo);
    for (size_t i = 0; i < count; i++)
        if (list[i].ours) kill(list[i].pid, signo);
    free(list);
}

/* ---- while it runs -------------------------------------------------------------------------------------------------------------- */

static int64_t mono_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000;
}

/* false: there are no children left */
static bool reap(cage *c)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid < 0 && errno == EINTR) continue;
        if (pid <= 0) return pid == 0;
        if (pid == c->command) c->ended = true, c->status = status;
    }
}

/* The next signal, or 0 when it is time. */
static int next_signal(const sigset_t *set, int64_t until_us)
{
    if (until_us == NEVER) return sigwaitinfo(set, NULL);
    int64_t left_us = until_us - mono_us();
    if (left_us < 0) left_us = 0;
    struct timespec left = {.tv_sec = left_us / PAWL_SECOND, .tv_nsec = left_us % PAWL_SECOND * 1000};
    return sigtimedwait(set, NULL, &left);
}

static void attend(cage *c, const sigset_t *set)
{
    while (!c->ended) {
        int signo = next_signal(set, c->kill_at_us);
        reap(c);
        if (c->ended) return;
        if (signo == SIGTERM && c->kill_at_us == NEVER) {
            c->kill_at_us = mono_us() + c->spec.grace_us;
            signal_all(c, SIGTERM);
        }
        if (signo == CAGE_KILL) c->kill_at_us = mono_us();
        if (mono_us() < c->kill_at_us) continue;
        signal_all(c, SIGKILL);
        c->kill_at_us = mono_us() + KILL_AGAIN_US;
    }
}

static void end_rest(cage *c, const sigset_t *set)
{
    int64_t until_us = mono_us() + KILLING_US;
    while (reap(c) && mono_us() < until_us) {
        signal_all(c, SIGKILL);
        next_signal(set, mono_us() + KILL_AGAIN_US);
    }
}

static _Noreturn void end_as(int status)
{
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    struct rlimit none = {0, 0};
    sigset_t all;
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    kill(getpid(), WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

static void leave_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        if (null >= 0) dup2(null, i);
        else close(i);
    }
}

int cage_main(int argc, char **argv)
{
    static cage c;
    sigset_t all;
    int at = 1;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    c.self = getpid();
    c.kill_at_us = NEVER;
    c.spec.directory = "/";
    c.spec.groups = c.groups;
    c.spec.read.items = c.read;
    c.spec.write.items = c.write;
    while (at < argc && strcmp(argv[at], "--") != 0) take(&c, argv[at++]);
    if (at + 1 >= argc) give_up(CAGE_CANNOT, "there is no command\n");
    c.argv = argv + at + 1;
    prctl(PR_SET_NAME, CAGE_NAME);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, CAGE_KILL);
    if (getppid() != c.parent) _exit(CAGE_CANNOT);
    c.command = fork();
    if (c.command < 0) give_up(CAGE_CANNOT, "could not start a process: %s\n", strerror(errno));
    if (c.command == 0) be_command(&c);
    setpgid(c.command, c.command);
    leave_streams();
    attend(&c, &all);
    end_rest(&c, &all);
    end_as(c.status);
}
