/* How commands that run an engine come to their end: the first signal drains in the background, the second stops at once. */
#ifndef CLI_STOP_H
#define CLI_STOP_H

#include <pawl.h>
#include <pthread.h>

typedef struct stopper {
    int signals; /* readable: SIGINT, SIGTERM or SIGHUP came */
    int drained; /* readable: nothing runs any more, or the grace is over */
    pawl *p;
    int64_t grace_us;
    pthread_t thread;
    bool draining;
} stopper;

/* Blocks the signals for all threads made from now on, so call it before pawl_open. */
pawl_status stopper_init(stopper *s, int64_t grace_us, pawl_error *err);

bool stopper_signalled(stopper *s); /* takes one signal, if there is one */
bool stopper_drain(stopper *s);     /* begins; false: no thread could be made, stop right away */

/* Stops the engine: at once if it drains no more, whatever still runs is told to end. */
pawl_status stopper_stop(stopper *s, pawl_error *err);

#endif
