/* A command run as a child process: bytes in, bytes out, lines of its standard error, and an end that always comes.
 *
 * The child leads a process group of its own. When `stop` says so the group gets SIGTERM, and SIGKILL CHILD_GRACE_US later. The run
 * ends when the command itself ends; whatever is left of its group is killed then. (What has left the group is not: that takes a cage.) No descriptor of ours is inherited, no zombie is
 * left. If this process is killed its guard ends the group. May be used from many threads at once.
 */
#ifndef HANDLERS_CHILD_H
#define HANDLERS_CHILD_H

#include "base/buf.h"
#include "handlers/guard.h"

#define CHILD_GRACE_US (5 * PAWL_SECOND)
#define CHILD_LINE_MAX 4000 /* longer lines are split */

typedef enum child_stop { CHILD_GO_ON, CHILD_TERM, CHILD_KILL } child_stop;

typedef struct child_spec {
    char *const *argv;
    char *const *env;
    pawl_bytes input;
    void (*line)(void *ctx, const char *line);     /* of standard error, without its newline */
    void (*out_line)(void *ctx, const char *line); /* of standard output; NULL: it is kept as `output` */
    child_stop (*stop)(void *ctx);                 /* asked several times a second */
    void *ctx;
    const guard *guard; /* may be NULL */
    int64_t grace_us;   /* between SIGTERM and SIGKILL; 0 = CHILD_GRACE_US */
    bool caged;         /* the command is a cage (cage.h), which has the grace to itself and is told by signals of its own */
} child_spec;

typedef struct child_end {
    int status;  /* as from waitpid */
    buf *output; /* its standard output, up to the buffer's limit; `failed` tells that there was more */
} child_end;

/* Returns when the command has ended. UNAVAILABLE: it could not be started. */
pawl_status child_run(const child_spec *spec, child_end *end, pawl_error *err);

/* Whether a command can be found as execvp would. */
bool child_exists(const char *command);

#endif
