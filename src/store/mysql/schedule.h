/* Schedules inside a transaction: those that it has locked, and their occurrences. Only where there are schedules, or were. */
#ifndef STORE_MYSQL_SCHEDULE_H
#define STORE_MYSQL_SCHEDULE_H

#include "store/mysql/inner.h"

#define OCCURRENCES_TRIM (PAWL_OCCURRENCES_KEPT + 50) /* settled ones of a schedule: then those too many go */

void my_schedules_ask(work *w);                                      /* for the operations of a batch, into the script */
void my_schedules_ask_tasks(work *w, const pawl_id *ids, int count); /* for tasks that may end */
void my_schedules_take_in(work *w);

void my_apply_schedule(work *w, flat_op *o);
void my_apply_step(work *w, int at);                                        /* with its tasks */
void my_schedule_ended(work *w, pawl_id task, pawl_state to, bool started); /* part of my_end_put */
void my_schedules_flush(work *w);                                           /* part of my_work_flush */

#endif
