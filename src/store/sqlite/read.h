/* The reading side's inside: one question being answered. */
#ifndef STORE_SQLITE_READ_H
#define STORE_SQLITE_READ_H

#include "store/sqlite/inner.h"

typedef struct reading {
    sqlite_store *s;
    conn *c;
    pawl_arena *arena;
    int64_t now_us, boot_us;
    bool no_memory; /* the arena is full */
} reading;

const char *read_text(reading *r, const char *text); /* NULL stays NULL */
pawl_bytes read_bytes(reading *r, pawl_bytes bytes);
void *read_alloc(reading *r, size_t size); /* zeroed; NULL: no_memory */
void *read_grow(reading *r, void *array, int count,
                size_t size); /* with room for one more element behind those that were added so */

/* info.c */
pawl_info *info_read(reading *r, pawl_id id, info_more *more);          /* NULL: not stored, or failed */
void info_add_rest(reading *r, pawl_info *info, const info_more *more); /* payload and attempts */
bool node_pulse(reading *r, int64_t node);                              /* alive, and its heartbeat has not lapsed */
const char *node_name(reading *r, int64_t node);                        /* NULL: none */

pawl_status list_read(reading *r, pawl_query *query, pawl_error *err);
pawl_trail *trail_read(reading *r, pawl_id id); /* NULL: not stored, or failed */
pawl_stats *stats_read(reading *r, int64_t window_us, const char *only);
bool node_visible(reading *r, int64_t node, int64_t sidecar, bool alive, const char *boot_id, int64_t expires_us);
void nodes_read(reading *r, pawl_query *query);
bool schedules_read(reading *r, pawl_query *query); /* schedule.c; false: there is no such schedule */
bool batches_read(reading *r, pawl_query *query);   /* batch.c; false: there is no such batch */
void relatives_read(reading *r, pawl_relatives_query *query);
void feed_read(reading *r, pawl_query *asked);
void gate_read(reading *r, pawl_query *query);    /* gate.c */
void dump_read(reading *r, pawl_dump *dump);      /* dump.c */
void quota_dump_limits(reading *r, pawl_dump *d); /* quota_past.c */
void quota_dump_budgets(reading *r, pawl_dump *d);
void schedules_dump(reading *r, pawl_dump *d); /* schedule_past.c */
int64_t schedule_row_read(reading *r, query *q,
                          pawl_schedule_row *out); /* schedule.c: a row, but for its occurrences; its number */
bool family_related(conn *c);                      /* family_past.c: there are, or were, families */
void family_dump(reading *r, pawl_record *t);
void family_dump_batches(reading *r, pawl_dump *d);
void family_dump_kept(reading *r, pawl_dump *d);

#endif
