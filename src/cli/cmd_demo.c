#include "base/error.h"
#include "cli/demo.h"
#include "cli/help.h"
#include <errno.h>
#include <poll.h>
#include <string.h>

#define FEED_EVERY_US (280 * PAWL_MILLISECOND)
#define DRAIN_US (30 * PAWL_SECOND)

const char help_demo[] =
    "Starts an engine with handlers that behave like real ones (e-mail, reports, imports, webhooks; some fail), feeds it a trickle of "
    "tasks and shows what happens. Look at the same store from another terminal meanwhile.\n";

static int64_t seconds;

const opt demo_opts[] = {OPTION(OPT_INT, "seconds", &seconds, "N", "end by itself after so long", .min = 1, .max = 86400),
                         OPTIONS_END};

static void take_events(demo *d)
{
    pawl_event event;
    while (pawl_next_event(d->events, 0, &event)) demo_note(d, &event);
}

/* The first signal, or the time, begins the end; true: stop now. */
static bool over(demo *d, const struct pollfd *fds)
{
    bool signalled = (fds[0].revents & POLLIN) && stopper_signalled(&d->stop);
    bool time_is_up = seconds && cli_now_us() - d->started_us >= seconds * PAWL_SECOND;
    if (fds[1].revents & POLLIN) return true;
    if (d->stop.draining) return signalled;
    if (!signalled && !time_is_up) return false;
    if (!d->c->term.tty) printf("stopping: running tasks finish first\n");
    return !stopper_drain(&d->stop);
}

static pawl_status attend(demo *d, pawl_error *err)
{
    struct pollfd fds[] = {{.fd = d->stop.signals, .events = POLLIN},
                           {.fd = d->stop.drained, .events = POLLIN},
                           {.fd = pawl_subscription_fd(d->events), .events = POLLIN}};
    int64_t fed_us = cli_now_us();
    for (;;) {
        if (poll(fds, sizeof fds / sizeof *fds, 100) < 0 && errno != EINTR)
            return err_set(err, PAWL_INTERNAL, "%s", strerror(errno));
        take_events(d);
        if (over(d, fds)) return PAWL_OK;
        if (!d->stop.draining && cli_now_us() - fed_us >= FEED_EVERY_US) {
            pawl_status status = demo_feed(d, err);
            if (status && !pawl_status_retryable(status)) return status;
            fed_us = cli_now_us();
        }
        demo_draw(d, false);
    }
}

static pawl_status play(demo *d, pawl_error *err)
{
    pawl_status status = demo_handlers(d->p, err);
    if (!status) status = pawl_subscribe(d->p, 4096, &d->events, err);
    if (!status) status = pawl_start(d->p, err);
    if (!status) status = demo_prepare(d, err);
    if (!status) status = attend(d, err);
    pawl_status stopped = stopper_stop(&d->stop, status ? NULL : err);
    if (!d->events) return status ? status : stopped;
    take_events(d);
    demo_draw(d, true);
    return status ? status : stopped;
}

int cmd_demo(cli *c)
{
    static demo d;
    pawl_error err;
    int code = 0;
    d.c = c;
    if (stopper_init(&d.stop, DRAIN_US, &err)) return cli_fail(c, &err);
    d.p = d.stop.p = cli_open(c, &(pawl_options){.workers = 4, .grace_us = -1, .name = "demo"}, &code);
    if (!d.p) return code;
    d.started_us = cli_now_us();
    if (play(&d, &err)) code = cli_fail(c, &err);
    else printf("stopped; the tasks are still there:\n  %s tasks list --store %s\n", c->program, pawl_store_url(d.p));
    pawl_unsubscribe(d.events);
    int closed = pawl_close(d.p);
    return code ? code : closed;
}
