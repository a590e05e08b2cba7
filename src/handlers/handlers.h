/* Handlers that "pawl serve" has built in, configured by name in its file:
 *
 *     [handler thumbnail]          ; the name, and the type of its tasks unless `type` says others
 *     kind = exec                  ; one of handler_kinds
 *     timeout = 2m                 ; settings that all kinds have (handlers.c)
 *     command = /usr/bin/convert   ; settings of the kind
 *
 * What a task may do is decided there and never by the task: its payload only fills in what the section leaves open.
 *
 * A kind is a handler_kind: a table of settings, and open, run and close. A new one is a file of its own and a line in handlers.c.
 *
 *     handler_list_new -> section, set, set, ... section, ... -> check -> register -> (engine closes: each kind's close) -> free
 */
#ifndef HANDLERS_HANDLERS_H
#define HANDLERS_HANDLERS_H

#include "base/log.h"
#include "handlers/settings.h"

/* What a kind is opened with. All of it lives as long as the handler does. */
typedef struct handler_open {
    const char *name;     /* of the section */
    const void *settings; /* the kind's struct, filled in */
    const pawl_allocator *allocator;
    const logger *log; /* the server's own, for what concerns no task */
    pawl *p;           /* NULL: only to see whether it would work ("pawl config check") */
} handler_open;

typedef struct handler_kind {
    const char *name;    /* what `kind` says */
    const char *summary; /* for the sample */
    const setting *settings;
    size_t size;      /* of the struct that they fill */
    int max_attempts; /* unless the section says */
    int workers;      /* likewise; at least 1 */
    /* Checks what the settings mean together and makes *ctx. Reads files if it must, connects to nobody. */
    pawl_status (*open)(const handler_open *o, void **ctx, pawl_error *err);
    /* On any worker thread, many at once. */
    pawl_outcome (*run)(pawl_run *run, void *ctx);
    void (*close)(void *ctx); /* when nothing runs any more; NULL is allowed as ctx */
} handler_kind;

extern const handler_kind *const handler_kinds[]; /* NULL-terminated */

typedef struct handler_list handler_list;

handler_list *handler_list_new(const pawl_allocator *a); /* NULL: no memory */
void handler_list_free(handler_list *list);              /* after the engine was closed; NULL is fine */
size_t handler_list_count(const handler_list *list);     /* NULL: 0 */

/* A new section; and a setting of it, which stands in this line of the file. Both copy. */
pawl_status handler_list_section(handler_list *list, const char *name, int line, pawl_error *err);
pawl_status handler_list_set(handler_list *list, const char *setting, const char *value, int line, pawl_error *err);

/* Whether all sections are right. *line: where not; 0: no line in particular. */
pawl_status handler_list_check(handler_list *list, const logger *log, int *line, pawl_error *err);

/* Gives the engine its queues and handlers, before it starts. `demo`: `default` and `recurring` are defined already. */
pawl_status handler_list_register(handler_list *list, pawl *p, const logger *log, bool demo, pawl_error *err);

void handlers_sample(FILE *out);

#endif
