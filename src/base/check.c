#include "base/check.h"
#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "pawl: internal error: %s does not hold (%s:%d)\n", what, file, line);
    abort();
}
