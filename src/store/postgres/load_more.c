/* What comes from another store beside tasks and numbers: families and schedules, as arrays. See functions/move.sql. */
#include "store/postgres/inner.h"

static void clean(params *p, const char *text) { pg_array_clean(p, text, text ? strlen(text) : 0); }

static void bytes(params *p, pawl_bytes data)
{
    if (data.data) pg_array_bytes(p, data.data, data.len);
    else array_null(p);
}

#define EACH(list, oid, write)                             \
    do {                                                   \
        pg_array_begin(p, oid);                            \
        for (int i = 0; i < d->count; i++) {               \
            const __typeof__(*d->list) *row = &d->list[i]; \
            write;                                         \
        }                                                  \
        pg_array_end(p);                                   \
    } while (0)

/* ---- families of tasks --------------------------------------------------------------------------------------------------- */

#define PARENTS(oid, write)                                          \
    do {                                                             \
        pg_array_begin(p, oid);                                      \
        for (int i = 0; i < d->count; i++)                           \
            for (int k = 0; k < d->tasks[i].parents_count; k++) {    \
                const pawl_past_parent *x = &d->tasks[i].parents[k]; \
                (void)x;                                             \
                write;                                               \
            }                                                        \
        pg_array_end(p);                                             \
    } while (0)

#define THOSE(condition, oid, write)             \
    do {                                         \
        pg_array_begin(p, oid);                  \
        for (int i = 0; i < d->count; i++) {     \
            const pawl_record *t = &d->tasks[i]; \
            if (condition) write;                \
        }                                        \
        pg_array_end(p);                         \
    } while (0)

/* Columns of pawl_load_families. */
void pg_put_families(params *p, const pawl_dump *d)
{
    bool parents = false, members = false;
    for (int i = 0; i < d->count; i++) {
        parents = parents || d->tasks[i].parents_count > 0;
        members = members || d->tasks[i].batch;
    }
    if (parents) {
        PARENTS(OID_INT8, array_int8(p, d->tasks[i].body.id));
        PARENTS(OID_INT8, array_int8(p, x->id));
        PARENTS(OID_INT2, array_int2(p, x->state));
        THOSE(t->state == PAWL_WAITING, OID_INT8, array_int8(p, t->body.id));
        THOSE(t->state == PAWL_WAITING, OID_INT2, array_int2(p, t->if_failed));
    }
    for (int i = 0; !parents && i < 5; i++) pg_param_null(p);
    if (members) {
        THOSE(t->batch, OID_INT8, array_int8(p, t->body.id));
        THOSE(t->batch, OID_INT8, array_int8(p, t->batch));
        THOSE(t->batch, OID_INT2, array_int2(p, pawl_state_terminal(t->state) ? t->state : 0));
    }
    for (int i = 0; !members && i < 3; i++) pg_param_null(p);
}

void pg_put_batches(params *p, const pawl_dump *d)
{
    EACH(batches, OID_INT8, array_int8(p, row->id));
    EACH(batches, OID_TEXT, pg_array_text(p, row->name));
    EACH(batches, OID_INT8, array_int8(p, row->within));
    EACH(batches, OID_INT8, array_int8(p, row->created_us));
    EACH(batches, OID_INT8, array_int8_or_null(p, row->closed_us, 0));
    EACH(batches, OID_INT8, array_int8_or_null(p, row->ended_us, 0));
    EACH(batches, OID_INT2, array_int2(p, row->ended_us ? row->state : 0));
    EACH(batches, OID_BOOL, array_bool(p, row->cancel_asked));
    EACH(batches, OID_INT8, array_int8(p, row->unfinished));
    EACH(batches, OID_INT8, array_int8(p, row->succeeded));
    EACH(batches, OID_INT8, array_int8(p, row->failed));
    EACH(batches, OID_INT8, array_int8(p, row->cancelled));
}

void pg_put_kept(params *p, const pawl_dump *d)
{
    EACH(kept, OID_INT8, array_int8(p, row->id));
    EACH(kept, OID_INT2, array_int2(p, row->state));
    EACH(kept, OID_TEXT, clean(p, row->error));
    EACH(kept, OID_TEXT, clean(p, row->result_type));
    EACH(kept, OID_TEXT, clean(p, row->result_ref));
    EACH(kept, OID_BYTEA, bytes(p, row->result));
}

/* ---- schedules ----------------------------------------------------------------------------------------------------------- */

#define OCCURRENCES(oid, write)                                             \
    do {                                                                    \
        pg_array_begin(p, oid);                                             \
        for (int i = 0; i < d->count; i++)                                  \
            for (int k = 0; k < d->schedules[i].occurrences_count; k++) {   \
                const pawl_occurrence *o = &d->schedules[i].occurrences[k]; \
                (void)o;                                                    \
                write;                                                      \
            }                                                               \
        pg_array_end(p);                                                    \
    } while (0)

static void numbers(params *p, const pawl_past_schedule *s)
{
    const int64_t all[] = {
        s->version, (int)s->off, s->watch,   s->anchor_us, s->next_us, s->occurrence_us, s->last_us,    s->off ? 0 : s->look_us,
        s->runs,    s->fired,    s->skipped, s->succeeded, s->failed,  s->last_task,     s->created_us, s->changed_us};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) array_int8(p, all[i]);
}

void pg_put_schedules(params *p, const pawl_dump *d)
{
    EACH(schedules, OID_TEXT, pg_array_text(p, row->name));
    EACH(schedules, OID_TEXT, pg_array_text(p, row->after));
    EACH(schedules, OID_TEXT, clean(p, row->reason));
    EACH(schedules, OID_TEXT, pg_array_text(p, row->spec));
    EACH(schedules, OID_BYTEA, bytes(p, row->payload));
    EACH(schedules, OID_INT8, numbers(p, row));
    OCCURRENCES(OID_INT4, array_int4(p, i + 1));
    OCCURRENCES(OID_INT8, array_int8(p, o->occurrence));
    OCCURRENCES(OID_INT2, array_int2(p, o->state));
    OCCURRENCES(OID_INT8, array_int8(p, d->schedules[i].occurrences_count - k));
    OCCURRENCES(OID_INT8, array_int8(p, o->at_us));
    OCCURRENCES(OID_INT8, array_int8(p, o->task));
    OCCURRENCES(OID_INT8, array_int8(p, o->count));
    OCCURRENCES(OID_TEXT, clean(p, o->why));
}
