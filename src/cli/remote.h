/* A server in place of a store: --server URL. One request per connection, over plain sockets.
 *
 *     http://HOST[:PORT][/PREFIX]    port 7295 unless it says; https:// the same under TLS
 *     unix:/PATH
 *
 * The token comes from $PAWL_TOKEN or from the file that --token-file names, never from the command line. What the server answers has
 * the names of server/encode.h, and is read back into the structs of pawl.h, so that people see the same as with a store.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "cli/cli.h"
#include <pawl/store.h>

/* An answer with a status below 300; else the problem as an error. The answer's text is in *out. */
pawl_status remote_call(const cli *c, const char *method, const char *path, const char *body, buf *out, pawl_error *err);

/* An answer without end, line by line (CRs and newlines are taken off); until `take` says false, or the server ends it. */
typedef bool (*remote_line_fn)(void *ctx, const char *line);
pawl_status remote_stream(const cli *c, const char *path, remote_line_fn take, void *ctx, pawl_error *err);

void remote_escape(buf *out, const char *text);                        /* percent-encoded */
void remote_parameter(buf *path, const char *name, const char *value); /* ?name=value or &name=value; NULL: nothing */

/* The commands. Each prints and returns the exit code. */
int remote_enqueue(cli *c, const pawl_task *task);
int remote_list(cli *c, pawl_filter *filter, bool all, bool dead);
int remote_show(cli *c, bool log, bool audit, bool full);
int remote_why(cli *c);
int remote_act(cli *c, const char *action, const char *done); /* POST /v1/tasks/{id}/ACTION for each id */
int remote_batch(cli *c, const char *action, const char *done);
int remote_schedule(cli *c, const char *action, const char *done); /* action NULL: removes */
int remote_stats(cli *c, int64_t window_us, int (*show)(const cli *c, const pawl_stats *stats));
int remote_queues(cli *c);

/* What pawl top shows; everything lies in the arena. */
typedef struct top_view {
    pawl_arena *arena;
    pawl_stats stats; /* of the last minute */
    pawl_page running;
    int nodes; /* that live */
} top_view;
pawl_status remote_view(const cli *c, top_view *v, pawl_error *err); /* the arena is the caller's, also if it fails */
int remote_switch(cli *c, const char *action, const char *done);

#endif
