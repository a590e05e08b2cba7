/* Linked into the node of the next build, whose schema has one migration more (see CMakeLists.txt): that one only adds, unless
 * PAWL_TEST_CLOSES is set; then older programs cannot use what it leaves. */
#include "store/sqlite/sqlite.h"
#include <stdlib.h>

static int (*before)(int schema);

static int opens(int schema) { return before(schema < NEXT_SCHEMA ? schema : NEXT_SCHEMA - 1); }

__attribute__((constructor)) static void be_next(void)
{
    before = sqlite_min_reader;
    if (!getenv("PAWL_TEST_CLOSES")) sqlite_min_reader = opens;
}
