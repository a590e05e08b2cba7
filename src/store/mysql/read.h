/* The reading side's inside: one question being answered. */
#ifndef STORE_MYSQL_READ_H
#define STORE_MYSQL_READ_H

#include "store/mysql/inner.h"

typedef struct reading {
    my_store *s;
    conn *c;
    pawl_arena *arena;
    int64_t until_us; /* monotonic: when it is cut */
    bool no_memory;   /* the arena is full */
    bool failed;      /* the connection says why */
} reading;

const char *my_read_text(reading *r, const answer *from, int row, int column); /* NULL stays NULL */
pawl_bytes my_read_bytes(reading *r, const answer *from, int row, int column);
void *my_read_alloc(reading *r, size_t size); /* zeroed; NULL: no_memory */
bool my_ask(reading *r, sql_name which);      /* that was added alone, with what was put; false: failed */
void my_put_clock(reading *r);                /* the clocks of a test, or NULL, as $4 and $5 of `tasks` */

/* info.c */
#define INFO_COLUMNS 51
pawl_info *my_info_read(reading *r, const answer *from, int row, int first,
                        info_more *more); /* from column `first` on; NULL: no memory */
pawl_info *my_info_get(reading *r, pawl_id id, info_more *more,
                       bool all); /* NULL: not stored, or failed. all: payload, result, attempts */

pawl_status my_list_read(reading *r, pawl_query *query, pawl_error *err);
pawl_trail *my_trail_read(reading *r, pawl_id id);
pawl_stats *my_stats_read(reading *r, int64_t window_us, const char *only);
void my_nodes_read(reading *r, pawl_query *query);
void my_feed_read(reading *r, pawl_query *query);
void my_gate_read(reading *r, pawl_query *query);
void my_dump_read(reading *r, pawl_dump *d);
bool my_limits_read(reading *r, pawl_query *query);  /* false: the cursor is none */
bool my_places_read(reading *r, pawl_query *query);  /* the same */
bool my_batches_read(reading *r, pawl_query *query); /* false: there is no such batch */
void my_relatives_read(reading *r, pawl_relatives_query *f);
bool my_schedules_read(reading *r, pawl_query *query); /* false: there is no such schedule */

void my_schedules_dump(reading *r, pawl_dump *d); /* schedule_read.c */
void my_batches_dump(reading *r, pawl_dump *d);   /* family_read.c */

#endif
