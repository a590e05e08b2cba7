/* Which canary is alive. The first time the code of that one is reached, the file named by PAWL_CANARY_MARK is made: a test that
 * fails without it has failed for another reason. */
#include "base/canary.h"

#ifdef PAWL_CANARIES

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *alive, *mark;
static atomic_flag marked = ATOMIC_FLAG_INIT;

/* Before there are threads. */
__attribute__((constructor)) static void hatch(void)
{
    alive = getenv("PAWL_CANARY");
    mark = getenv("PAWL_CANARY_MARK");
}

int canary_alive(const char *name)
{
    if (!alive || strcmp(alive, name) != 0) return 0;
    if (mark && !atomic_flag_test_and_set(&marked)) {
        int fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0) close(fd);
    }
    return 1;
}

#else
typedef int canary_unused; /* C wants a declaration */
#endif
