/* Hooks: what happens to tasks, told to others' servers by POST, signed (Standard Webhooks).
 *
 * Hooks are kept in a file, mode 0600, for it has their secrets; beside it, in FILE.at, the number of the last event that was looked at. Each
 * event that a hook wants becomes a task of the queue "pawl.hooks", which is durable and retried like any other. Its id is the same
 * however often it is sent. */
#ifndef SERVER_HOOKS_H
#define SERVER_HOOKS_H

#include "base/log.h"
#include "http/sign.h"
#include <pawl.h>

#define HOOKS_MAX 100
#define HOOK_TYPE "pawl.hook"
#define HOOK_QUEUE "pawl.hooks"
#define HOOK_SECRET SIGN_SECRET

typedef struct hook {
    char name[201], type[201], queue[201]; /* type, queue: "" is any */
    char url[2001];
    char secret[HOOK_SECRET], old_secret[HOOK_SECRET]; /* old: "" is none */
    int64_t old_until_us;                              /* it signs beside the new one until then */
    uint64_t events;                                   /* bits: 1 << kind */
    bool disabled;
    char why[200]; /* it is */
    int64_t created_us;
} hook;

typedef struct hooks hooks;

typedef struct hooks_options {
    const char *path;
    const char *const *allowed; /* networks, see http/address.h; outlive it */
    size_t allowed_count;
    logger log;
} hooks_options;

/* Reads the file and registers the handler: before pawl_start. */
pawl_status hooks_open(pawl *p, const hooks_options *options, hooks **out, pawl_error *err);
pawl_status hooks_start(hooks *h, pawl_error *err); /* follows events, while there are hooks */
void hooks_close(hooks *h); /* no event is looked at any more; NULL is fine. Before the engine is closed */
void hooks_free(hooks *h);  /* after that */

bool hook_events(const char *const *names, uint64_t *events); /* false: one of them is none */
size_t hooks_list(hooks *h, hook out[HOOKS_MAX]);
/* A secret that is "" stays as it is, or is made. The one before goes on to sign for a day. *made: it is new. */
pawl_status hooks_put(hooks *h, hook *put, bool *made, pawl_error *err);
pawl_status hooks_drop(hooks *h, const char *name, pawl_error *err);
pawl_status hooks_test(hooks *h, const char *name, pawl_id *id, pawl_error *err); /* sends an event of its own */

#endif
