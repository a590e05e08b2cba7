#include "handlers/guard.h"

#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX 4096 /* more than there can be workers */

/* ---- the guard ------------------------------------------------------------------------------------------------------------------ */

/* A group's number when it begins, the same negated when it has ended. Written and read whole: it is shorter than PIPE_BUF. */
typedef int32_t message;

static bool hear(int fd, message *m)
{
    ssize_t n;
    do n = read(fd, m, sizeof *m);
    while (n < 0 && errno == EINTR);
    return n == sizeof *m;
}

static int watch(int fd, message groups[GROUPS_MAX])
{
    int count = 0;
    message m;
    while (hear(fd, &m)) {
        if (m > 0 && count < GROUPS_MAX) groups[count++] = m;
        for (int i = 0; m < 0 && i < count; i++)
            if (groups[i] == -m) groups[i--] = groups[--count];
    }
    return count;
}

/* Nothing of the terminal's or the program's concerns it any more. Answers its pipe's number. */
static int withdraw(int pipe)
{
    int fd = fcntl(pipe, F_DUPFD, 4), null = open("/dev/null", O_RDWR);
    setsid();
    for (int i = 0; i < 3; i++) dup2(null, i);
    dup2(fd, 3);
    close_range(4, ~0u, 0);
    for (int i = 1; i < NSIG; i++) signal(i, SIG_IGN);
    prctl(PR_SET_NAME, "pawl-guard");
    return 3;
}

static _Noreturn void be_guard(int pipe)
{
    static message groups[GROUPS_MAX];
    int left = watch(withdraw(pipe), groups);
    for (int i = 0; i < left; i++) kill(-groups[i], SIGKILL);
    _exit(0);
}

/* ---- who is guarded ------------------------------------------------------------------------------------------------------------- */

pawl_status guard_start(guard *g, pawl_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return err_set(err, PAWL_UNAVAILABLE, "could not make a pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        be_guard(ends[0]);
    }
    int why = errno;
    close(ends[0]);
    *g = (guard){pid, ends[1]};
    if (pid > 0) return PAWL_OK;
    close(ends[1]);
    return err_set(err, PAWL_UNAVAILABLE, "could not start a process to look after the commands: %s", strerror(why));
}

/* If the guard was killed there is nobody to tell. */
static void tell(const guard *g, message m)
{
    while (g && write(g->fd, &m, sizeof m) < 0 && errno == EINTR) {}
}

void guard_add(const guard *g, pid_t group) { tell(g, (message)group); }
void guard_remove(const guard *g, pid_t group) { tell(g, -(message)group); }

void guard_stop(guard *g)
{
    close(g->fd);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) {}
}
