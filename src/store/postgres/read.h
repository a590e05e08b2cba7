/* The reading side's inside: one question being answered. */
#ifndef STORE_POSTGRES_READ_H
#define STORE_POSTGRES_READ_H

#include "store/history.h"
#include "store/postgres/inner.h"

typedef struct reading {
    pg_store *s;
    conn *c;
    pawl_arena *arena;
    int64_t until_us; /* monotonic: when it is cut */
    bool no_memory;   /* the arena is full */
    bool failed;      /* the connection says why */
} reading;

const char *pg_read_text(reading *r, const PGresult *from, int row, int column); /* NULL stays NULL */
pawl_bytes pg_read_bytes(reading *r, const PGresult *from, int row, int column);
void *pg_read_alloc(reading *r, size_t size);    /* zeroed; NULL: no_memory */
PGresult *pg_ask(reading *r, sql_name which);    /* with the parameters that were put; NULL: failed */
void pg_put_clock(const pg_store *s, params *p); /* the clock of a test, or NULL */

/* info.c */
#define INFO_COLUMNS 51

pawl_info *pg_info_read(reading *r, const PGresult *from, int row, int first,
                        info_more *more); /* from column `first` on; NULL: no memory */
pawl_info *pg_info_get(reading *r, pawl_id id, info_more *more,
                       bool all); /* NULL: not stored, or failed. all: payload, result, attempts */

pawl_status pg_list_read(reading *r, pawl_query *query, pawl_error *err);
pawl_trail *pg_trail_read(reading *r, pawl_id id);
pawl_stats *pg_stats_read(reading *r, int64_t window_us, const char *only);
void pg_nodes_read(reading *r, pawl_query *query);
bool pg_limits_read(reading *r, pawl_query *query);          /* limits.c; false: the cursor is none */
bool pg_places_read(reading *r, pawl_query *query);          /* places.c; the same */
bool pg_schedules_read(reading *r, pawl_query *query);       /* schedule.c; false: there is no such schedule */
void pg_relatives_read(reading *r, pawl_relatives_query *f); /* family.c */
bool pg_batches_read(reading *r, pawl_query *query);         /* the same; false: there is no such batch */
void pg_feed_read(reading *r, pawl_query *query);            /* feed.c */
void pg_gate_read(reading *r, pawl_query *query);            /* gate.c */
void pg_dump_read(reading *r, pawl_dump *dump);              /* dump.c */

void pg_schedules_dump(reading *r, pawl_dump *d); /* schedule.c */
void pg_batches_dump(reading *r, pawl_dump *d);   /* family.c */

#endif
