#include "cli/stop.h"

#include "base/error.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

pawl_status stopper_init(stopper *s, int64_t grace_us, pawl_error *err)
{
    sigset_t set;
    *s = (stopper){.grace_us = grace_us};
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->drained = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->signals >= 0 && s->drained >= 0) return PAWL_OK;
    return err_set(err, PAWL_UNAVAILABLE, "could not set up signals: %s", strerror(errno));
}

bool stopper_signalled(stopper *s)
{
    struct signalfd_siginfo info;
    return read(s->signals, &info, sizeof info) == sizeof info;
}

static void *drain(void *ctx)
{
    stopper *s = ctx;
    uint64_t one = 1;
    pawl_drain(s->p, s->grace_us, NULL);
    while (write(s->drained, &one, sizeof one) < 0 && errno == EINTR) {}
    return NULL;
}

bool stopper_drain(stopper *s)
{
    s->draining = pthread_create(&s->thread, NULL, drain, s) == 0;
    return s->draining;
}

pawl_status stopper_stop(stopper *s, pawl_error *err)
{
    pawl_status status = pawl_stop(s->p, err);
    if (s->draining) pthread_join(s->thread, NULL);
    s->draining = false;
    return status;
}
