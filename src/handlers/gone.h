/* Targets that said they want nothing more (410), one a line in a file, so that a restart does not forget them. Whoever removes a line
 * enables that target again; without a file it is remembered until the end of the process. */
#ifndef HANDLERS_GONE_H
#define HANDLERS_GONE_H

#include "base/alloc.h"

typedef struct gone gone;

gone *gone_open(const pawl_allocator *a, const char *path); /* NULL: no memory. The path may be NULL */
bool gone_has(gone *g, const char *target);
pawl_status gone_add(gone *g, const char *target, pawl_error *err); /* on failure it is remembered all the same */
void gone_close(gone *g);                                           /* NULL is fine */

#endif
