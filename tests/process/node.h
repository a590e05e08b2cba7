/* One process of the tests with real processes: an engine on a shared store that tells everything it does in a history.
 *
 * A history is JSON, one object per line, each written by one write(2) to a file opened for appending, so what was said before a
 * SIGKILL stays said. Every line has "t", microseconds of CLOCK_MONOTONIC (one clock for all processes of a machine), and "e":
 *
 *     begin    token                       a dispatch is about to be called; the token is the task's payload, never used twice
 *     bulk     tokens [rate]               the same for a bulk call; the rate key of all
 *     ack      token id outcome            it returned OK
 *     unknown  token id                    it returned UNKNOWN; the same id is then tried again
 *     refused  token status                it returned an error: nothing may be stored
 *     spawn    token id parent             a child was added to a run's success
 *     start    token id fence attempt type the handler was entered
 *     return   id fence outcome            the handler is about to return
 *     end      id fence outcome            told by a hook: this outcome is committed
 *     told     id fence reason             the run saw that it should stop
 *     lease_lost, released, rescued        told by events: id fence
 *     started (with its wall clock), drained, undrained, dumped           answers to commands
 *     put, made, schedule, told_schedules           of schedules: see recur.c
 *     task     id token state ...          what the store says of a task, by the command `dump`
 */
#ifndef PROCESS_NODE_H
#define PROCESS_NODE_H

#include <pawl.h>
#include <stdatomic.h>
#include <stdio.h>

enum { TOKEN_MAX = 64 };

typedef struct node {
    pawl *engine;
    const char *name; /* the first part of its tokens */
    const char *path; /* of the SQLite file; or a URL */
    int lease_ms, workers;
    bool serve, shared, migrate;
    bool hold;     /* runs of the types `hold` and `nap` take their time */
    bool paced;    /* it knows the type `paced`, which has a rate limit */
    bool few;      /* it knows the types `few` and `row`, which have concurrency limits */
    unsigned load; /* a seed: dispatches by itself; 0: only by command */
    atomic_uint tokens;
} node;

/* history.c */
bool history_open(const char *path);                                                              /* "-": standard output */
void history_line(const char *event, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* fmt: ",\"name\":value..." */
void history_write(const char *line, size_t n);
int64_t history_now_us(void);
int64_t history_wall_us(void);

/* handlers.c */
pawl_status handlers_add(node *n, pawl_error *err);

/* send.c: dispatch, and say so */
void send_one(node *n, const char *type, int64_t delay_us, const char *key);
void send_async(node *n, const char *type);
void send_bulk(node *n, const char *type, int count);
void send_keyed(node *n, const char *type, const char *rate_key, int count); /* in bulks */
void send_foreign(node *n, const char *type, int64_t delay_us);              /* inside a transaction of our own */

/* load.c */
bool load_start(node *n);
void load_stop(void);

/* recur.c */
void recur_put(node *n, int count);  /* schedules of one second each */
void recur_tell(node *n, int count); /* what became of them: `made`, `schedule`, `told_schedules` */

/* look.c */
void look_drain(node *n, int limit_s); /* waits until nothing is live: `drained`, or `undrained` */
void look_dump(node *n);

#endif
