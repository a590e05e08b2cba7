/* What the store knows, as JSON: the same names in the HTTP API and behind `--json`. Times are RFC 3339, ids are strings, durations end
 * in _us. schema.c describes all of it for the OpenAPI document. */
#ifndef SERVER_ENCODE_H
#define SERVER_ENCODE_H

#include "base/json.h"
#include "base/redact.h"
#include <pawl.h>

void json_text(json_writer *w, const char *key, const char *value); /* NULL: null */
void json_number(json_writer *w, const char *key, int64_t value);
void json_truth(json_writer *w, const char *key, bool value);
void json_instant(json_writer *w, const char *key, int64_t at_us); /* 0: null */
void json_id(json_writer *w, const char *key, pawl_id id);         /* 0: null */

/* What others have put into the store is shown with its secrets masked (base/redact.h): as text, and as NAME or NAME_base64 (empty: nothing).
 * `json_plain` is for those who are to work with it. */
void encode_hide(const redaction *hidden); /* lives on; before anything is shown. NULL: the usual ones */
const redaction *encode_hidden(void);
void json_shown(json_writer *w, const char *key, const char *text); /* NULL: null */
void json_blob(json_writer *w, const char *name, pawl_bytes data, const char *content_type);
void json_plain(json_writer *w, const char *name, pawl_bytes data, const char *content_type);
void json_rate_key(json_writer *w, pawl_bytes key); /* "key" or "key_base64" */

void task_json(json_writer *w, const pawl_info *task, const pawl_trail *log, const pawl_trail *audit);
void task_members(json_writer *w, const pawl_info *task, const pawl_trail *log, const pawl_trail *audit); /* without the braces */
void queue_json(json_writer *w, const pawl_queue_info *q);
void stats_json(json_writer *w, const pawl_stats *s);
void node_json(json_writer *w, const pawl_node_info *n);
void act_json(json_writer *w, const pawl_act *act);
void limit_json(json_writer *w, const pawl_limit_info *l);
void place_json(json_writer *w, const pawl_place_info *p);
void batch_json(json_writer *w, const pawl_batch_info *b);
const char *batch_word(pawl_state state);                   /* "open", "closed", or how it ended */
void relative_json(json_writer *w, const pawl_relative *r); /* its members, without the braces */
/* A task or batch and those that wait for it (or, `upwards`, that it waits for): so many generations, so many of each, at most a thousand. */
typedef struct tree_options {
    pawl_id id;
    bool parents;
    int depth, limit;
} tree_options;
pawl_status tree_json(json_writer *w, pawl *p, const tree_options *options, pawl_error *err);
void event_json(json_writer *w, const pawl_fact *fact);
void schedule_json(json_writer *w, const pawl_schedule_info *s, bool all); /* all: with payload, next times and occurrences */
void definition_json(json_writer *w, const pawl_schedule *s,
                     bool whole); /* whole: with payload and whether it is off, to be sent */
void instants_json(json_writer *w, const char *key, const int64_t *times_us, size_t count);
void limits_totals_json(json_writer *w, const pawl_limits *l); /* a member `totals` */

#endif
