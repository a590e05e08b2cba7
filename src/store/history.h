/* What a task's own rows say about its past. The last attempt, and the changes of state around it, have no rows of their own as long as
 * they can be told from the task; stores that keep it so put them together here. */
#ifndef STORE_HISTORY_H
#define STORE_HISTORY_H

#include <pawl/store.h>

/* What is written of changes, by the level of the trail. */
typedef enum audit_kind { AUDIT_CHANGE, AUDIT_RUN_END, AUDIT_TROUBLE } audit_kind;
bool audit_wanted(int level, audit_kind kind);

/* Beyond pawl_info. */
typedef struct info_more {
    pawl_state born;
    int level, end_level, flags; /* of the body; of the end */
    int64_t leased_us, run_us;
    pawl_attempt_outcome outcome;
    int log_lines;
    bool not_started;
} info_more;

enum { END_DERIVED = 1, END_CANCEL_ASKED = 2 }; /* flags of pawl_done and pawl_failed */

/* The run under way, or the one that ended the task; false: there is none. */
bool history_last_attempt(const pawl_info *info, const info_more *more, pawl_attempt *out);

/* The changes of state: `rows` has room for those that are stored and for HISTORY_MORE. What is older than cut_us is left out, as a
 * stored row would be gone. */
#define HISTORY_MORE 3

typedef struct history {
    pawl_audit_row *rows;
    size_t count;
    int64_t cut_us;
} history;

void history_begin(history *h, const pawl_info *info,
                   const info_more *more); /* the dispatch; then those that are stored, one by one: */
void history_add(history *h, const pawl_audit_row *row);
void history_end(history *h, const pawl_info *info, const info_more *more); /* grant and end of the last lease */

/* The log of an attempt: lines of "<us> <level digit> <text>\n". */
size_t history_count_lines(const char *log);
bool history_read_lines(pawl_arena *arena, int attempt, const char *log, pawl_log_line *out); /* false: no memory */

#endif
