/* A task as one line of JSON, and back. docs/export-format.md describes the members; the table in record.c is where they are. */
#ifndef RUNTIME_RECORD_H
#define RUNTIME_RECORD_H

#include "base/json.h"
#include "runtime/runtime.h"

#define RECORD_FORMAT 1

void record_write(json_writer *w, const pawl_record *r);

/* Reads and checks; texts are in the arena. false: *why says what is wrong, of which member. */
bool record_read(json object, pawl_record *r, pawl_arena *arena, pawl_error *why);

#endif
