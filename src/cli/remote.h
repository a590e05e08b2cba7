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
#include "server/fields.h"
#include <pawl/store.h>

/* An answer with a status below 300; else the problem as an error. The answer's text is in *out. */
pawl_status remote_call(const cli *c, const char *method, const char *path, const char *body, buf *out, pawl_error *err);

/* An answer without end, line by line (CRs and newlines are taken off); until `take` says false, or the server ends it. */
typedef bool (*remote_line_fn)(void *ctx, const char *line);
pawl_status remote_stream(const cli *c, const char *path, remote_line_fn take, void *ctx, pawl_error *err);

void remote_escape(buf *out, const char *text);                        /* percent-encoded */
void remote_parameter(buf *path, const char *name, const char *value); /* ?name=value or &name=value; NULL: nothing */
void remote_number(buf *path, const char *name, int64_t value);        /* 0: nothing */
void remote_flag(buf *path, const char *name, bool value);             /* false: nothing */

/* ---- one question (remote_read.c) ----------------------------------------------------------------------------------------------- */

/* Begun with a path, asked, read, ended. What is read lives until its end. */
typedef struct remote {
    buf path, body, answer;
    json_writer w; /* into the body */
    pawl_arena *arena;
    json object; /* the answer */
} remote;

void remote_begin(remote *r, const char *path);
void remote_about(remote *r, const char *before, const char *name, const char *behind); /* BEFORE, the name escaped, BEHIND */
pawl_status remote_send(const cli *c, remote *r, const char *method, pawl_error *err);
void remote_end(remote *r);

/* A call that says only whether it was done. */
pawl_status remote_do(const cli *c, const char *method, const char *before, const char *name, const char *behind,
                      pawl_error *err);

/* How rows of JSON become structs of pawl.h: one table for each kind of list. */
typedef struct shape {
    const char *member;                                                      /* the array */
    const field *fields;                                                     /* of a row */
    size_t size;                                                             /* of a row */
    pawl_status (*rest)(remote *r, json object, void *row, pawl_error *err); /* what fields cannot say; NULL: nothing */
    size_t rows, count;                                                      /* where they are in the struct of the list */
    const field *more;                                                       /* of the list itself; NULL: nothing */
} shape;

extern const shape task_shape, attempt_shape, line_shape, audit_shape, queue_shape, node_shape, act_shape, limit_shape,
    place_shape, schedule_shape, occurrence_shape, batch_shape;

/* Where a list has no struct of its own. */
typedef struct row_list {
    const void *rows;
    size_t count;
} row_list;

pawl_status remote_row(remote *r, const shape *s, json object, void *row, pawl_error *err);
pawl_status remote_rows(remote *r, const shape *s, json object, void *list, pawl_error *err);

/* GET. Failed, or printed for programs: its exit code. REMOTE_SHOW: `list` is read, to be shown to people. */
#define REMOTE_SHOW (-1)
int remote_look(const cli *c, remote *r, const shape *s, void *list);
int remote_look_one(const cli *c, remote *r, const shape *s, void *row);

/* The answer for programs, as it came; on a terminal indented. Members that `without` names (ended by NULL) are left out. */
int remote_print(const cli *c, const remote *r, const char *const *without);
void remote_value(json_writer *w, json value);
void remote_members(json_writer *w, json object, const char *const *without);

/* ---- commands ------------------------------------------------------------------------------------------------------------------- */

pawl_status remote_enqueue(const cli *c, const pawl_task *task, pawl_receipt *receipt, pawl_error *err);
pawl_status remote_bulk(const cli *c, const pawl_task *tasks, size_t n, pawl_receipt *receipts, pawl_error *refused,
                        pawl_error *err);
void remote_task(json_writer *w, const pawl_task *task);                                /* the body of such a call */
pawl_status remote_batch(const cli *c, const char *name, pawl_id *id, pawl_error *err); /* by its name or id */
pawl_status remote_state(const cli *c, pawl_id id, pawl_state *state, pawl_error *err);
int remote_list(cli *c, pawl_filter *filter, bool all, bool dead);
int remote_show(cli *c, bool log, bool audit, bool full);
pawl_status remote_why(const cli *c, const char *id, pawl_why_answer *why, pawl_error *err);
int remote_stats(cli *c, int64_t window_us, int (*show)(const cli *c, const pawl_stats *stats));
int remote_queues(cli *c);

/* What becomes of ids, or of all that match: POST `path`. */
typedef void (*remote_done_fn)(const cli *c, pawl_id id, const char *done, const pawl_receipt *receipt);
int remote_act_ids(cli *c, const char *path, const pawl_id *ids, const char *note, const char *done, remote_done_fn say);
pawl_status remote_act_where(const cli *c, const char *path, const pawl_filter *filter, const char *note, int64_t *count,
                             pawl_error *err);

/* What pawl top shows; everything lies in the arena. */
typedef struct top_view {
    pawl_arena *arena;
    pawl_stats stats; /* of the last minute */
    pawl_page running;
    int nodes; /* that live */
} top_view;
pawl_status remote_view(const cli *c, top_view *v, pawl_error *err); /* the arena is the caller's, also if it fails */

#endif
