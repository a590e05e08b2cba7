/* A process between the server and a command that is not trusted to behave.
 *
 * It is this program once more, started as "pawl-cage" with everything it needs in its arguments: there it is alone, without the threads and
 * files of the server. It starts the command with limits, as another user, with fewer rights; passes on what the server says; and when the
 * command ends, or the server does, it ends whatever the command has left behind. Processes that left the group and the session are
 * found, too: orphans become children of the cage, not of init.
 *
 *     SIGTERM          the command and its descendants get SIGTERM, and SIGKILL after `grace`
 *     SIGUSR1          SIGKILL at once; also when the server dies
 *
 * Its exit status, or the signal that kills it, is the command's; CAGE_CANNOT and CAGE_NOT_FOUND, after a line on standard error, say that
 * there was none.
 */
#ifndef HANDLERS_CAGE_H
#define HANDLERS_CAGE_H

#include "base/alloc.h"
#include "handlers/settings.h"
#include <sys/types.h>

#define CAGE_NAME "pawl-cage" /* argv[0] */
#define CAGE_CANNOT 126
#define CAGE_NOT_FOUND 127
#define CAGE_KILL SIGUSR1

typedef struct cage_spec {
    int64_t grace_us;
    const char *directory;
    bool as_user; /* uid, gid and groups count */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    int groups_count;
    int64_t cpu_s, memory, file_size, open_files, processes; /* 0: as the server has it */
    bool new_privileges;                                     /* setuid programs keep their power */
    text_list read, write;                                   /* Landlock, if there is one of either */
} cage_spec;

/* The arguments of a cage, up to the "--" behind which the command stands; NULL-terminated, in the arena. NULL: no memory. */
const char **cage_arguments(const cage_spec *spec, pawl_arena *arena, size_t *count);

/* main, if argv[0] is CAGE_NAME. */
int cage_main(int argc, char **argv);

#endif
