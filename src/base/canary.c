#include "base/canary.h"

#ifdef PAWL_CANARIES

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static canary named(const char *name)
{
    static const char *const names[CANARY_COUNT] = {"",
#define X(name, what, test) #name,
                                                    CANARY_TABLE(X)
#undef X
    };
    for (int i = 1; i < CANARY_COUNT; i++)
        if (strcmp(names[i], name) == 0) return (canary)i;
    fprintf(stderr, "PAWL_CANARY: there is no canary \"%s\"\n", name);
    exit(2);
}

int canary_alive(canary c)
{
    static int alive = -1;
    if (alive < 0) {
        const char *name = getenv("PAWL_CANARY");
        alive = name && *name ? (int)named(name) : CANARY_NONE;
    }
    return alive == (int)c;
}

#else
typedef int canary_unused; /* C wants a declaration */
#endif
