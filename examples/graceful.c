/* graceful: a service that stops without losing or interrupting anything. On SIGTERM (or Ctrl-C) it starts no more tasks, lets the
 * running ones finish, gives back the rest and exits. What is left runs at the next start.
 *
 *     examples/graceful STORE [N]         dispatches N tasks first
 *
 *     examples/graceful sqlite:jobs.db 20 &
 *     kill %1
 *     examples/graceful sqlite:jobs.db    goes on where the other stopped
 */
#include <pawl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static pawl_outcome job(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_bytes number = pawl_run_payload(run);
    if (pawl_run_sleep(run, 100 * PAWL_MILLISECOND)) return pawl_retry(run, "interrupted"); /* only if the grace was too short */
    printf("job %.*s done\n", (int)number.len, number.data);
    fflush(stdout);
    return pawl_ok();
}

static void dispatch(pawl *p, int n)
{
    pawl_error err;
    char number[16];
    for (int i = 1; i <= n; i++) {
        snprintf(number, sizeof number, "%d", i);
        if (pawl_dispatch(p, &(pawl_task){.type = "job", .payload = pawl_str(number)}, NULL, &err)) exit(pawl_die(&err));
    }
}

/* Stops in three steps; the first two may take as long as the jobs do. */
static int shut_down(pawl *p)
{
    pawl_error err;
    pawl_stats *stats;
    if (pawl_drain(p, 20 * PAWL_SECOND, &err)) pawl_die(&err); /* runs took too long: pawl_stop asks them to end */
    if (pawl_stop(p, &err)) return pawl_die(&err);
    if (pawl_get_stats(p, 0, &stats, &err)) return pawl_die(&err);
    printf("stopped; %d left for the next start\n", (int)(stats->pending + stats->leased));
    pawl_stats_free(stats);
    return pawl_close(p);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: graceful STORE [N]\n");
        return 2;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before any thread starts; sigwait takes them below */

    pawl *p = NULL;
    pawl_error err;
    pawl_options options = {.store = argv[1], .workers = 2, .grace_us = 5 * PAWL_SECOND};
    if (pawl_open(&options, &p, &err) || pawl_handle(p, &(pawl_handler){.type = "job", .run = job}, &err) || pawl_start(p, &err))
        return pawl_die(&err);
    if (argc > 2) dispatch(p, atoi(argv[2]));

    int got;
    sigwait(&signals, &got);
    return shut_down(p);
}
