/* Batches as a person names them. */
#ifndef CLI_BATCHES_H
#define CLI_BATCHES_H

#include "cli/cli.h"

pawl_status batch_find(pawl *p, const char *text, pawl_batch_info **out, pawl_error *err); /* by its id or its name */

#endif
