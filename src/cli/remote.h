/* A server in place of a store: --server URL. One request per connection, over plain sockets.
 *
 *     http://HOST[:PORT][/PREFIX]    port 7295 unless it says
 *     unix:/PATH
 *
 * The token comes from $PAWL_TOKEN or from the file that --token-file names, never from the command line. What the server answers has
 * the names of server/encode.h, and is read back into the structs of pawl.h, so that people see the same as with a store.
 */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include "cli/cli.h"

/* An answer with a status below 300; else the problem as an error. The answer's text is in *out. */
pawl_status remote_call(const cli *c, const char *method, const char *path, const char *body, buf *out, pawl_error *err);

void remote_escape(buf *out, const char *text);                        /* percent-encoded */
void remote_parameter(buf *path, const char *name, const char *value); /* ?name=value or &name=value; NULL: nothing */

/* The commands. Each prints and returns the exit code. */
int remote_enqueue(cli *c, const pawl_task *task);
int remote_list(cli *c, pawl_filter *filter, bool all, bool dead);
int remote_show(cli *c, bool log, bool audit, bool full);
int remote_why(cli *c);
int remote_act(cli *c, const char *action, const char *done); /* POST /v1/tasks/{id}/ACTION for each id */
int remote_queues(cli *c);
int remote_switch(cli *c, const char *action, const char *done);

#endif
