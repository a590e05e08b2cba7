/* pawl demo: what `make demo` shows; its handlers and its trickle are also those of `make run` (pawl serve --demo).
 *
 *   cmd_demo.c       the engine, the trickle of tasks, the main loop
 *   demo_handlers.c  a few handlers that behave like real ones, failures included
 *   demo_screen.c    live counters, redrawn in place; one line per second where there is no terminal
 */
#ifndef CLI_DEMO_H
#define CLI_DEMO_H

#include "cli/cli.h"
#include "cli/stop.h"

#define DEMO_EVENTS 8

typedef struct demo {
    cli *c;
    pawl *p;
    pawl_subscription *events;
    stopper stop;
    int64_t started_us;
    int64_t counts[PAWL_EVENT_COUNT];
    pawl_event last[DEMO_EVENTS]; /* a ring: the newest is at (last_at - 1) % DEMO_EVENTS */
    size_t last_at;
    pawl_id sample; /* a task worth asking `why` about */
    int lines;      /* drawn last time */
    int64_t drawn_us;
} demo;

pawl_status demo_handlers(pawl *p, pawl_error *err);
pawl_status demo_feed(demo *d, pawl_error *err);    /* the next task of the trickle */
pawl_status demo_prepare(demo *d, pawl_error *err); /* what is there from the start */

void demo_note(demo *d, const pawl_event *event);
void demo_draw(demo *d, bool last);

#endif
