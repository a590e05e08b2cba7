/* pawl stats: counts, rates and times of a whole store. */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/remote.h"

const char help_stats[] = "What is stored now, and what happened in the window. Percentiles are within a factor of 1.5.\n"
                          "\n"
                          "Examples\n"
                          "  pawl stats --window 10m\n";

static int64_t window_us;

const opt stats_opts[] = {OPTION(OPT_DURATION, "window", &window_us, "DURATION", "how far to look back, in whole minutes",
                                 .min = PAWL_MINUTE, .max = 366 * PAWL_DAY, .fallback = "1h"),
                          OPTIONS_END};

static int print_json(const cli *c, const pawl_stats *s)
{
    answer a;
    cli_json_begin(c, &a);
    stats_json(&a.w, s);
    return cli_json_end(c, &a);
}

static void count(const cli *c, const char *name, int64_t value, paint color)
{
    char text[32];
    number_grouped(value, text);
    printf("  %-12s %s%14s%s\n", name, term_on(&c->term, value ? color : DIM), text, term_off(&c->term));
}

static void percentiles(const char *name, int64_t p50_us, int64_t p99_us)
{
    char half[32], most[32];
    duration_format(p50_us, half, sizeof half);
    duration_format(p99_us, most, sizeof most);
    printf("  %-12s half within %s, 99 in 100 within %s\n", name, half, most);
}

static int stats_text(const cli *c, const pawl_stats *s)
{
    char window[32];
    const term *t = &c->term;
    duration_format(s->window_us, window, sizeof window);
    if (s->closed) printf("%s%s%s\n\n", term_on(t, YELLOW), s->closed, term_off(t));
    printf("%sNow%s\n", term_on(t, BOLD), term_off(t));
    count(c, "pending", s->pending, PLAIN);
    count(c, "running", s->leased, CYAN);
    if (s->waiting) count(c, "waiting", s->waiting, PLAIN);
    count(c, "dead letters", s->dead, RED);
    printf("\n%sLast %s%s\n", term_on(t, BOLD), window, term_off(t));
    count(c, "dispatched", s->dispatched, PLAIN);
    count(c, "succeeded", s->succeeded, GREEN);
    count(c, "failed", s->failed, RED);
    count(c, "cancelled", s->cancelled, PLAIN);
    count(c, "retried", s->retried, YELLOW);
    count(c, "rescued", s->rescued, MAGENTA);
    if (s->succeeded + s->failed) {
        percentiles("wait", s->wait_p50_us, s->wait_p99_us);
        percentiles("run", s->run_p50_us, s->run_p99_us);
    }
    return 0;
}

int cmd_stats(cli *c)
{
    pawl_error err;
    pawl_stats *stats;
    int code = 0;
    if (c->server) return remote_stats(c, window_us, stats_text);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    if (pawl_get_stats(p, window_us, &stats, &err)) code = cli_fail(c, &err);
    else {
        code = c->json ? print_json(c, stats) : stats_text(c, stats);
        pawl_stats_free(stats);
    }
    pawl_close(p);
    return code;
}
