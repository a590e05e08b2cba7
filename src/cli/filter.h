/* What commands that act on tasks share: filters as options, and doing something to each id or to all that match. */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include "cli/cli.h"

#define FILTER_NAMES(f)                                                               \
    OPTION(OPT_NAME, "type", &(f).type, "TYPE", "only tasks of this type"),           \
        OPTION(OPT_NAME, "queue", &(f).queue, "NAME", "only tasks of this queue"),    \
        OPTION(OPT_NAME, "tenant", &(f).tenant, "NAME", "only tasks of this tenant"), \
        OPTION(OPT_NAME, "key", &(f).key, "KEY", "only tasks with this key")

#define FILTER_OPTIONS(f)                                                                                                      \
    OPTION(OPT_NAME, "state", &(f).state, "STATE", "only tasks in this state: pending, scheduled, running, failed, ...",       \
           .choices = "waiting|pending|scheduled|retrying|throttled|blocked|leased|running|stale|succeeded|failed|cancelled"), \
        FILTER_NAMES(f)

bool filter_given(const pawl_filter *filter);
const char *cli_by(void); /* who acts: --by of by_opts, else the person at the keyboard */

/* What is done to tasks: on a store by functions, on a server by POST `path`. A receipt that was filled is printed (the new task's id). */
typedef struct deed {
    const char *done; /* the word for it, "cancelled" */
    const char *path, *note;
    pawl_status (*one)(pawl *p, pawl_id id, const char *by, pawl_receipt *receipt, pawl_error *err);
    pawl_status (*where)(pawl *p, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err);
} deed;

/* Acts on every id of the arguments; goes on after a failure and returns the first failure's exit code. */
int for_each_id(cli *c, const deed *d, const char *by);

/* Acts on all that match. Without a filter --all must say so. */
int for_filter(cli *c, const pawl_filter *filter, bool all, const deed *d, const char *by);

#endif
