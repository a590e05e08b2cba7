/* A hand-driven engine for tests of the core: one core on a real memory store and a virtual clock. Calls can be held back, failed or
 * lost; runs wait until the test ends them. */
#ifndef TESTS_CORE_DRIVE_H
#define TESTS_CORE_DRIVE_H

#include "base/clock.h"
#include "core/core.h"
#include "store/store.h"

#define DRIVE_MAX 4096

typedef struct drive_answer {
    core_request *request;
    pawl_status status;
    pawl_id id;
    pawl_op_result result;
} drive_answer;

typedef struct drive_settled {
    pawl_id id;
    core_settled how;
    int64_t delay_us;
} drive_settled;

typedef struct drive {
    core *core;
    pawl_store *store;
    virtual_clock clock;
    bool own_clock; /* false: shares another drive's clock */
    virtual_clock *now;
    core_task *runs[DRIVE_MAX]; /* CORE_RUN, not yet ended */
    int runs_count;
    pawl_stop_reason stops[DRIVE_MAX]; /* of CORE_STOP_RUN, in order */
    pawl_id stopped_ids[DRIVE_MAX];
    int stops_count;
    drive_answer answers[DRIVE_MAX];
    int answers_count, drops_count;
    drive_settled settled[DRIVE_MAX];
    int settled_count;
    int drained, stopped, stuck;
    int recalls; /* CORE_RECALL: the test calls core_recalled, or not */
    int calls[CORE_CALL_KINDS];
    core_call *held[16]; /* calls held back, see hold */
    int held_count;
    unsigned hold;                                    /* bit per core_call_kind: do not carry out, keep in held[] */
    unsigned fail_before, lose_after, lose_before;    /* bits: UNAVAILABLE; done but UNKNOWN; not done and UNKNOWN */
    void (*meddle)(struct drive *d, core_call *call); /* changes what the store answered; NULL: nobody does */
    int events[PAWL_EVENT_COUNT];
    pawl_event last_event[PAWL_EVENT_COUNT]; /* of each kind */
    char log[256];                           /* the last line */
} drive;

/* A core with the queue "default" (workers) and a handler for "t"; store: "memory:NAME". */
void drive_open(drive *d, const char *url, int workers, virtual_clock *shared);
/* The same with settings of one's own; members that are 0 are as above. */
void drive_open_with(drive *d, const char *url, core_config config, core_queue_config queue, virtual_clock *shared);
void drive_close(drive *d);
/* The setup and the teardown of a test: a drive of its own, on a store of its own. */
drive *drive_begin(void **state, core_config config, core_queue_config queue);
int drive_finish(void **state);
core_time drive_now(const drive *d);
void drive_go(drive *d);                  /* carries out actions until there are none */
void drive_advance(drive *d, int64_t us); /* moves the clock, deadline by deadline */
void drive_start(drive *d);
core_request *drive_dispatch(drive *d, const char *type, const char *key, int64_t delay_us); /* submits, goes */
core_request *drive_submit(drive *d, pawl_op op);                                            /* any one operation */
void drive_end(drive *d, int run, pawl_outcome outcome);                                     /* ends runs[run], goes */
void drive_end_with(drive *d, int run, const core_outcome *outcome);
void drive_answer_held(drive *d, int which, bool execute, pawl_status otherwise);
pawl_state drive_state(drive *d, pawl_id id);

#endif
