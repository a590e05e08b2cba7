/* pawl work: what running commands for a store (cmd_work.c) and for a server (work_remote.c) share. */
#ifndef CLI_WORK_H
#define CLI_WORK_H

#include "handlers/verdict.h"
#include "cli/cli.h"

typedef struct work_settings {
    const char *queue, *name;
    opt_list types;
    int64_t concurrency, max_attempts, timeout_us, snooze_us, grace_us, retry_delay_us, lease_us;
    bool once, quiet;
} work_settings;

typedef struct work_task {
    char id[PAWL_ID_TEXT];
    const char *type, *queue, *key;
    int attempt;
    int64_t fence;
} work_task;

char **work_environment(buf *text, const work_task *task, const char *store);
void work_show(const cli *c, const pawl_event *e);

int work_remote(cli *c, const work_settings *o, guard *guard); /* stops the guard, too */

#endif
