/* schedules: a report on every working day at nine in Berlin, and a mail after each report. The clock of this program is moved by hand
 * (see inline_test.c), so a weekend takes no time; without inline_mode and pawl_advance the same lines work for years.
 *
 *     examples/schedules
 */
#include <pawl.h>
#include <stdio.h>

#define START_US (INT64_C(1767225600) * PAWL_SECOND) /* Thursday, 2026-01-01 00:00 UTC */

static pawl_outcome say(pawl_run *run, void *ctx)
{
    (void)ctx;
    int64_t minute = (pawl_now(pawl_run_engine(run)) - START_US) / PAWL_MINUTE;
    printf("day %d, %02d:%02d UTC: %s\n", (int)(minute / 1440), (int)(minute / 60 % 24), (int)(minute % 60), pawl_run_type(run));
    return pawl_ok();
}

int main(void)
{
    pawl *p = NULL;
    pawl_error err;
    pawl_schedule_info *info;
    const pawl_schedule mine[] = {
        {.name = "app.report", .cron = "0 9 * * MON-FRI", .zone = "Europe/Berlin", .type = "report", .missed = PAWL_MISSED_ONCE},
        {.name = "app.mail", .after = "app.report", .type = "mail"},
    };

    if (pawl_open(&(pawl_options){.store = "memory:", .inline_mode = true, .inline_start_us = START_US}, &p, &err))
        return pawl_die(&err);
    if (pawl_handle(p, &(pawl_handler){.type = "*", .run = say}, &err)) return pawl_die(&err);
    if (pawl_start(p, &err)) return pawl_die(&err);

    /* All of them in one commit; what this program no longer has under its prefix is disabled. Starting again changes nothing. */
    if (pawl_put_schedules(p, mine, 2, &(pawl_put_options){.how = PAWL_PUT_UPDATE, .prefix = "app."}, &err))
        return pawl_die(&err);
    if (pawl_advance(p, 5 * PAWL_DAY, NULL, &err)) return pawl_die(&err);

    if (pawl_get_schedule(p, "app.report", 1, &info, &err)) return pawl_die(&err);
    printf("%s: %s; fired %lld times\n", info->definition.name, info->words, (long long)info->fired);
    pawl_schedule_info_free(info);
    return pawl_close(p);
}
