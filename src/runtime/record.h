/* A task, a limit, a batch or a schedule as one line of JSON, and back. docs/export-format.md describes the members; the table in record.c is where they are. */
#ifndef RUNTIME_RECORD_H
#define RUNTIME_RECORD_H

#include "base/json.h"
#include "runtime/runtime.h"

#define RECORD_FORMAT 1

void record_write(json_writer *w, const pawl_record *r);

/* Reads and checks; texts are in the arena. false: *why says what is wrong, of which member. */
bool record_read(json object, pawl_record *r, pawl_arena *arena, pawl_error *why);

/* The line of a limit is told by this member. */
#define RECORD_LIMIT "pawl_limit"

void record_write_limit(json_writer *w, const pawl_past_limit *l);
bool record_read_limit(json object, pawl_past_limit *l, pawl_arena *arena, pawl_error *why);

/* What else has lines of its own: concurrency limits, batches, results kept, schedules. */
pawl_part record_part(json object); /* by the member that tells it; 0: it is none of these */
void record_write_other(json_writer *w, const pawl_dump *page, int i);
bool record_read_other(json object, pawl_part part, pawl_dump *page, pawl_arena *arena,
                       pawl_error *why); /* a page with this one */

#endif
