/* Many tasks from NDJSON: one JSON object per line, committed in groups. */
#ifndef CLI_BULK_H
#define CLI_BULK_H

#include "cli/cli.h"

/* path "-" is standard input; `defaults` says what lines leave out. Prints the outcome and returns the exit code. */
int enqueue_bulk(cli *c, const pawl_task *defaults, const char *path);

#endif
