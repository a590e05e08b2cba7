#include "handlers/child.h"

#include "base/error.h"
#include "handlers/cage.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CAGE_LATE_US (15 * PAWL_SECOND)
#define TICK_MS 100 /* how often `stop` is asked while nothing else happens */

enum { IN, OUT, ERR, STREAMS };

typedef struct child {
    const child_spec *spec;
    child_end *end;
    pid_t pid;
    int pidfd;         /* -1: the kernel has none; the tick notices the end */
    int ours[STREAMS]; /* our ends of the pipes; -1: closed */
    int theirs[STREAMS];
    size_t written; /* of the input */
    struct line {
        char text[CHILD_LINE_MAX + 1];
        size_t len;
    } lines[STREAMS];
    child_stop told;
    int64_t term_at_us, grace_us;
} child;

static int64_t mono_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000;
}

static void shut(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void shut_all(int fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) shut(&fds[i]);
}

/* ---- starting ------------------------------------------------------------------------------------------------------------------- */

static bool open_pipes(child *c)
{
    for (int i = 0; i < STREAMS; i++) c->ours[i] = c->theirs[i] = -1;
    for (int i = 0; i < STREAMS; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC)) return false;
        c->ours[i] = ends[i == IN ? 1 : 0];
        c->theirs[i] = ends[i == IN ? 0 : 1];
        if (fcntl(c->ours[i], F_SETFL, O_NONBLOCK)) return false;
    }
    return true;
}

/* Signals as a fresh program expects them, a group of its own, our pipes as its standard descriptors. */
static int spawn(child *c)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t all, none;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc) return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc) {
        posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    sigfillset(&all);
    sigemptyset(&none);
    for (int i = 0; i < STREAMS && !rc; i++) rc = posix_spawn_file_actions_adddup2(&actions, c->theirs[i], i);
    if (!rc) rc = posix_spawn_file_actions_addclosefrom_np(&actions, STREAMS);
    if (!rc) rc = posix_spawnattr_setsigdefault(&attr, &all);
    if (!rc) rc = posix_spawnattr_setsigmask(&attr, &none);
    if (!rc) rc = posix_spawnattr_setpgroup(&attr, 0);
    if (!rc) rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    if (!rc && c->spec->caged) rc = posix_spawn(&c->pid, "/proc/self/exe", &actions, &attr, c->spec->argv, c->spec->env);
    else if (!rc) rc = posix_spawnp(&c->pid, c->spec->argv[0], &actions, &attr, c->spec->argv, c->spec->env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* ---- streams -------------------------------------------------------------------------------------------------------------------- */

static void feed(child *c)
{
    const pawl_bytes *in = &c->spec->input;
    while (c->written < in->len) {
        ssize_t n = write(c->ours[IN], in->data + c->written, in->len - c->written);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) break; /* it closed its standard input: its own business */
        c->written += (size_t)n;
    }
    shut(&c->ours[IN]);
}

static void end_line(child *c, int stream)
{
    struct line *l = &c->lines[stream];
    if (l->len && l->text[l->len - 1] == '\r') l->len--;
    l->text[l->len] = 0;
    if (l->len && stream == OUT) c->spec->out_line(c->spec->ctx, l->text);
    else if (l->len) c->spec->line(c->spec->ctx, l->text);
    l->len = 0;
}

static void take_lines(child *c, int stream, const char *data, size_t n)
{
    struct line *l = &c->lines[stream];
    for (size_t i = 0; i < n; i++) {
        if (data[i] != '\n') l->text[l->len++] = data[i] ? data[i] : ' ';
        if (data[i] == '\n' || l->len == CHILD_LINE_MAX) end_line(c, stream);
    }
}

/* Reads what is there; false: nothing more for now, or ever. */
static bool take(child *c, int stream)
{
    char block[16 << 10];
    if (c->ours[stream] < 0) return false;
    ssize_t n = read(c->ours[stream], block, sizeof block);
    if (n < 0 && errno == EINTR) return true;
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) {
        shut(&c->ours[stream]);
        return false;
    }
    if (stream == OUT && !c->spec->out_line) buf_add(c->end->output, block, (size_t)n);
    else take_lines(c, stream, block, (size_t)n);
    return true;
}

/* What it wrote before it ended. A grandchild may go on writing for ever, so this is bounded. */
static void take_rest(child *c)
{
    for (int i = 0; i < 1024 && take(c, OUT); i++) {}
    for (int i = 0; i < 1024 && take(c, ERR); i++) {}
    end_line(c, OUT);
    end_line(c, ERR);
}

/* ---- the end -------------------------------------------------------------------------------------------------------------------- */

/* A cage is left alone with its commands for a while longer: if it is killed, they are orphans. */
static void send(const child *c, child_stop what)
{
    int64_t late_us = c->told ? mono_us() - c->term_at_us : 0;
    if (!c->spec->caged) kill(-c->pid, what == CHILD_TERM ? SIGTERM : SIGKILL);
    else if (what == CHILD_TERM) kill(c->pid, SIGTERM);
    else kill(c->pid, late_us > c->grace_us + CAGE_LATE_US ? SIGKILL : CAGE_KILL);
}

static void tell(child *c)
{
    child_stop want = c->told == CHILD_KILL ? CHILD_KILL : c->spec->stop(c->spec->ctx);
    int64_t now = mono_us();
    if (want && !c->told) c->term_at_us = now;
    if (c->told == CHILD_TERM && now - c->term_at_us >= c->grace_us) want = CHILD_KILL;
    if (want == CHILD_KILL || (want == CHILD_TERM && !c->told)) {
        send(c, want);
        c->told = want;
    }
}

/* Ended, but not reaped yet: its group's number cannot be given to anybody else meanwhile. */
static bool ended(const child *c)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == c->pid;
}

static void attend(child *c)
{
    while (!ended(c)) {
        struct pollfd fds[STREAMS + 1] = {{.fd = c->ours[IN], .events = POLLOUT},
                                          {.fd = c->ours[OUT], .events = POLLIN},
                                          {.fd = c->ours[ERR], .events = POLLIN},
                                          {.fd = c->pidfd, .events = POLLIN}};
        poll(fds, STREAMS + 1, TICK_MS);
        if (fds[IN].revents) feed(c);
        if (fds[OUT].revents) take(c, OUT);
        if (fds[ERR].revents) take(c, ERR);
        tell(c);
    }
}

static void reap(child *c)
{
    kill(-c->pid, SIGKILL);
    guard_remove(c->spec->guard, c->pid);
    while (waitpid(c->pid, &c->end->status, 0) < 0 && errno == EINTR) {}
}

pawl_status child_run(const child_spec *spec, child_end *end, pawl_error *err)
{
    child c = {.spec = spec, .end = end, .pidfd = -1, .grace_us = spec->grace_us ? spec->grace_us : CHILD_GRACE_US};
    int rc = open_pipes(&c) ? spawn(&c) : errno;
    shut_all(c.theirs);
    if (rc) {
        shut_all(c.ours);
        return err_set(err, PAWL_UNAVAILABLE, "could not start \"%s\": %s", spec->argv[0], strerror(rc));
    }
    guard_add(spec->guard, c.pid);
    c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0); /* close-on-exec by itself */
    if (!spec->input.len) shut(&c.ours[IN]);
    attend(&c);
    take_rest(&c);
    reap(&c);
    shut_all(c.ours);
    shut(&c.pidfd);
    return PAWL_OK;
}

/* ---- finding -------------------------------------------------------------------------------------------------------------------- */

bool child_exists(const char *command)
{
    if (strchr(command, '/')) return access(command, X_OK) == 0;
    const char *path = getenv("PATH");
    for (const char *dir = path ? path : "/usr/local/bin:/usr/bin:/bin"; dir;) {
        char file[4096];
        int n = (int)strcspn(dir, ":");
        if (snprintf(file, sizeof file, "%.*s/%s", n ? n : 1, n ? dir : ".", command) < (int)sizeof file &&
            access(file, X_OK) == 0) {
            return true;
        }
        dir = dir[n] ? dir + n + 1 : NULL;
    }
    return false;
}
