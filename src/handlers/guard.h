/* A second process that outlives this one if it is killed, and then kills the commands it was running.
 *
 * Nothing a process does about its own children happens when it gets SIGKILL. So the guard is told of every process group that begins
 * and ends, through a pipe that only this process holds the other end of: when the pipe ends, so does every group that is left. It kills
 * at once: the tasks are given to other nodes just then, and must not run twice for longer than need be.
 */
#ifndef HANDLERS_GUARD_H
#define HANDLERS_GUARD_H

#include <pawl.h>
#include <sys/types.h>

typedef struct guard {
    pid_t pid;
    int fd; /* what it is told */
} guard;

/* Before there are threads, and before anything is open that the guard should not keep open. */
pawl_status guard_start(guard *g, pawl_error *err);
void guard_add(const guard *g, pid_t group); /* from any thread; also with g NULL */
void guard_remove(const guard *g,
                  pid_t group); /* before the group's number can be given to another: its leader is not reaped yet */
void guard_stop(guard *g);      /* when no command runs any more */

#endif
