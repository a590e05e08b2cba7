/* JSON objects into structs, by a table of their members. What the table does not name is refused by its name. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include "base/json.h"
#include <pawl.h>
#include <pawl/store.h>

typedef enum field_kind {
    FIELD_TEXT = 1, /* const char * */
    FIELD_INT,      /* int within min..max */
    FIELD_BOOL,     /* bool */
    FIELD_DURATION, /* int64_t: "5m" */
    FIELD_MICROS,   /* int64_t: a number of microseconds */
    FIELD_INSTANT,  /* int64_t: RFC 3339 */
    FIELD_PAYLOAD,  /* pawl_bytes: any value, as it stands there */
    FIELD_BASE64,   /* pawl_bytes */
    FIELD_BYTES,    /* pawl_bytes: of a string */
    FIELD_AUDIT,    /* pawl_audit */
    FIELD_ID,       /* pawl_id */
    FIELD_IDS,      /* field_ids */
    FIELD_FILTER    /* field_filter: the object's members are those of filter_fields */
} field_kind;

#define FIELD_IDS_MAX 1000

typedef struct field_ids {
    pawl_id *ids;
    size_t count;
    bool given;
} field_ids;

typedef struct field_filter {
    pawl_filter filter;
    bool given;
} field_filter;

typedef struct field {
    const char *name; /* NULL: ends a table */
    field_kind kind;
    size_t offset;
    int64_t min, max; /* INT, MICROS; both 0: no bounds but the type's */
    const char *help; /* for the document */
} field;

extern const field task_fields[];   /* of pawl_task */
extern const field filter_fields[]; /* of pawl_filter: what tasks an action is for */

/* Strings live in the arena, or in the object's own text. null leaves a member as it is, but is a payload. */
pawl_status fields_read(const field *table, json object, pawl_arena *arena, void *to, pawl_error *err);

/* The same of what another program wrote: members that the table does not name are left alone. */
pawl_status fields_pick(const field *table, json object, pawl_arena *arena, void *to, pawl_error *err);

/* A whole text: one JSON object. */
pawl_status fields_parse(const field *table, pawl_bytes text, pawl_arena *arena, void *to, pawl_error *err);

/* A task; what the object leaves out is as in `defaults`. */
pawl_status task_read(json object, const pawl_task *defaults, pawl_arena *arena, pawl_task *task, pawl_error *err);

#endif
