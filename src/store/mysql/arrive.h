/* One page on its way in: arrive.c has the transaction, arrive_rows.c the rows. */
#ifndef STORE_MYSQL_ARRIVE_H
#define STORE_MYSQL_ARRIVE_H

#include "store/mysql/inner.h"
#include <mysqld_error.h>

#define NODES_MOST 4096 /* names of nodes in one page */

typedef struct past_node {
    const char *name;
    int64_t id;
} past_node;

typedef struct arriving {
    my_store *s;
    conn *c;
    pawl_load *call;
    const pawl_dump *d;
    pawl_arena *arena;
    work w;
    int32_t (*names)[3]; /* of each row: type, queue, tenant of a task; queue, type of a minute; the queue */
    past_node *nodes;
    int nodes_count;
    pawl_loaded *results;
    struct kin *kin; /* an import: whom tasks wait for; see arrive_kin.c */
    int kin_count;
    bool *taken; /* of each schedule: it is here, and stays as it is */
    int32_t *
        open_queue; /* of each task: where it is an unresolved dead letter, while the page knows that it was resolved; 0: nowhere */
} arriving;

int64_t my_past_node(arriving *l, const char *name); /* 0: none */
void my_arrive_rows(arriving *l);                    /* into the script, and the tables of the work */

/* arrive_more.c */
void my_arrive_add(arriving *l, buf *b, sql_name which); /* one statement with these rows, if there are any; they are forgotten */
void my_arrive_bounds(arriving *l, buf *b);
bool my_arrive_blocked(arriving *l, const pawl_record *t, const task_row *row, int32_t tenant_id);
void my_arrive_lines(arriving *l);

/* arrive_kin.c. Whatever asks sends a script of its own. */
bool my_arrive_judge_kin(arriving *l); /* marks as ORPHAN who waits for one that is not here */
void my_arrive_families(arriving *l);
void my_arrive_batches(arriving *l, buf *b);
void my_arrive_kept(arriving *l, buf *b);
bool my_arrive_ask_schedules(arriving *l);
void my_arrive_schedules(arriving *l, buf *b);

#endif
