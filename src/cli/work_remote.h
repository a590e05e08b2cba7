/* pawl work --server: what its two files share.
 *
 *     work_remote.c   registering, claiming, renewing, the end
 *     work_job.c      one task: its command, and its report
 */
#ifndef CLI_WORK_REMOTE_H
#define CLI_WORK_REMOTE_H

#include "base/list.h"
#include "cli/work.h"
#include "server/fields.h"
#include <pthread.h>
#include <stdatomic.h>

#define AGAIN_US (500 * PAWL_MILLISECOND) /* after the server did not answer */
#define TEXT_MAX (32u << 20)

typedef enum mood { WORKING, DRAINING, KILLING } mood;

typedef struct crew {
    cli *c;
    const work_settings *o;
    const guard *guard;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job ended, or the mood changed */
    int bell;               /* an eventfd: the main thread is to look */
    char id[64];            /* what the server calls this worker; "": it does not */
    int64_t until_us;       /* the lease; monotonic */
    int64_t renew_us;
    int64_t claims, seen; /* how many were sent; how many are answered */
    list jobs;
    int running;
    mood mood;
    bool server_stops, done; /* done: the claimer has ended */
    pawl_error failure;      /* why it ended */
} crew;

typedef struct job { /* a task that this worker has */
    list link;
    crew *crew;
    pawl_arena *arena;
    work_task task;
    pawl_id id;
    pawl_bytes payload;
    char worker[64];
    atomic_int stop; /* pawl_stop_reason */
    buf log;         /* a JSON array that is not closed yet */
    char last[200];
} job;

typedef struct answer_of {
    const char *worker;
    int64_t lease_us, renew_us;
    bool drain, stopping;
    pawl_bytes tasks, stop, lost, results; /* arrays */
} answer_of;

typedef struct claimed {
    pawl_id id;
    int64_t fence;
    const char *type, *queue, *key;
    int attempt;
    pawl_bytes payload;
} claimed;

extern const field remote_task_fields[]; /* of claimed */

int64_t remote_now(void);             /* monotonic */
void remote_nap(crew *w, int64_t us); /* under the lock: waits until something changes, for so long at most */
/* The answer lies in `text` and in the arena. */
pawl_status remote_ask(const crew *w, const char *worker, const char *what, const buf *body, pawl_arena *arena, buf *text,
                       answer_of *out, pawl_error *err);
void remote_ring(const crew *w);                                   /* wakes the main thread */
void remote_believe(crew *w, const answer_of *a, int64_t sent_us); /* under the lock */
void remote_lose(crew *w, const char *worker);                     /* under the lock: the server does not know it any more */
bool remote_job(crew *w, json object, const char *worker);         /* begins one; false: it could not be begun */

#endif
