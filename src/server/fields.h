/* JSON objects into structs, by a table of their members. What the table does not name is refused by its name. */
#ifndef SERVER_FIELDS_H
#define SERVER_FIELDS_H

#include "base/json.h"
#include <pawl.h>
#include <pawl/store.h>

typedef enum field_kind {
    FIELD_TEXT = 1,  /* const char * */
    FIELD_INT,       /* int within min..max */
    FIELD_BOOL,      /* bool */
    FIELD_DURATION,  /* int64_t: "5m" */
    FIELD_MICROS,    /* int64_t: a number of microseconds */
    FIELD_INSTANT,   /* int64_t: RFC 3339 */
    FIELD_PAYLOAD,   /* pawl_bytes: any value, as it stands there */
    FIELD_BASE64,    /* pawl_bytes */
    FIELD_BYTES,     /* pawl_bytes: of a string */
    FIELD_AUDIT,     /* pawl_audit */
    FIELD_ID,        /* pawl_id */
    FIELD_IDS,       /* field_ids */
    FIELD_FILTER,    /* field_filter: the object's members are those of filter_fields */
    FIELD_COUNT,     /* int64_t: a number, not negative */
    FIELD_TEXTS,     /* const char *const *: strings, NULL behind the last */
    FIELD_GAP,       /* words, see field_words: pawl_gap */
    FIELD_TWICE,     /* pawl_twice */
    FIELD_MISSED,    /* pawl_missed */
    FIELD_OVERLAP,   /* pawl_overlap */
    FIELD_SCOPE,     /* pawl_scope */
    FIELD_PUT,       /* pawl_put */
    FIELD_EVERY,     /* of a pawl_schedule: "15m", "1mo" */
    FIELD_PLAN,      /* const pawl_plan *: the object's members are those of plan_fields */
    FIELD_TIMES,     /* of a pawl_plan: "09:30", "17:00:15" */
    FIELD_WEEKDAYS,  /* uint8_t, bits: "MON" */
    FIELD_DAYS,      /* uint32_t, bits: 1 to 31 */
    FIELD_MONTHS,    /* uint16_t, bits: 1 to 12 */
    FIELD_PARENTS,   /* of a pawl_task: ids */
    FIELD_IF_FAILED, /* pawl_if_failed */
    FIELD_TASK,      /* const pawl_task *: an object of task_fields */
    FIELD_RELATION   /* pawl_relation */
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

extern const field task_fields[];     /* of pawl_task */
extern const field filter_fields[];   /* of pawl_filter: what tasks an action is for */
extern const field schedule_fields[]; /* of pawl_schedule, without its name */
extern const field plan_fields[];     /* of pawl_plan */

/* The words of a kind whose values are words, at the number that each stands for ("": none does); NULL: it is no such kind. */
const char *const *field_words(field_kind kind);
bool field_word(field_kind kind, const char *text, int *out);

/* "15m", "1mo": so many units of the calendar. */
#define EVERY_TEXT 32
bool every_parse(const char *text, int64_t *every, pawl_unit *unit);
void every_format(int64_t every, pawl_unit unit, char out[EVERY_TEXT]);
extern const char *const weekday_names[8]; /* "SUN" first, NULL behind the last */

/* Strings live in the arena, or in the object's own text. null leaves a member as it is, but is a payload. */
pawl_status fields_read(const field *table, json object, pawl_arena *arena, void *to, pawl_error *err);

/* The same of what another program wrote: members that the table does not name are left alone. */
pawl_status fields_pick(const field *table, json object, pawl_arena *arena, void *to, pawl_error *err);

/* A whole text: one JSON object. */
pawl_status fields_parse(const field *table, pawl_bytes text, pawl_arena *arena, void *to, pawl_error *err);

/* For fields.c and schedule_fields.c: one member of the kinds from FIELD_COUNT on; text of a member; what is wrong with it. */
pawl_status field_set(const field *f, json value, pawl_arena *arena, void *to, pawl_error *err);
bool field_text(const field *f, json value, pawl_arena *arena, const char **out, pawl_error *err);
pawl_status field_set_ids(const field *f, json value, pawl_arena *arena, field_ids *to, pawl_error *err);
pawl_status field_set_parents(const field *f, json value, pawl_arena *arena, pawl_task *to, pawl_error *err);
pawl_status field_set_task(const field *f, json value, pawl_arena *arena, const pawl_task **to, pawl_error *err);
pawl_status field_wrong(const field *f, const char *what, pawl_error *err);

/* A task; what the object leaves out is as in `defaults`. */
pawl_status task_read(json object, const pawl_task *defaults, pawl_arena *arena, pawl_task *task, pawl_error *err);

#endif
