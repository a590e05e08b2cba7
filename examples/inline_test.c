/* inline_test: how a program tests its own handlers. In inline mode there are no threads, tasks run inside pawl_run_due and
 * pawl_advance, and the clock stands still until the test moves it: a day of retries takes no time and every run is the same.
 *
 *     examples/inline_test      keeps its tasks in memory; exits with 1 if an expectation does not hold
 */
#include <pawl.h>
#include <stdio.h>
#include <stdlib.h>

#define START_US (INT64_C(1767225600) * PAWL_SECOND) /* 2026-01-01 00:00 UTC */

#define EXPECT(condition)                                                             \
    do {                                                                              \
        if (condition) break;                                                         \
        fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
        exit(1);                                                                      \
    } while (0)

/* ---- what is tested: a reminder that is sent a day later, by a service that is often away ------------------------------------------ */

static int sent, down_for; /* how often it worked; how many calls fail first */
static int64_t sent_at_us;

static pawl_outcome remind(pawl_run *run, void *ctx)
{
    (void)ctx;
    if (down_for-- > 0) return pawl_retry(run, "the service is away");
    sent++;
    sent_at_us = pawl_now(pawl_run_engine(run));
    return pawl_ok();
}

static const pawl_handler reminder = {
    .type = "remind",
    .run = remind,
    .max_attempts = 4,
    .retry = {.curve = PAWL_CURVE_LIST, .delays_us = {PAWL_MINUTE, PAWL_HOUR, 6 * PAWL_HOUR}, .delays = 3, .jitter = -1},
};

/* ---- the tests ---------------------------------------------------------------------------------------------------------------------- */

static pawl *fresh(int failures)
{
    pawl *p = NULL;
    pawl_options options = {.store = "memory:", .inline_mode = true, .inline_start_us = START_US};
    EXPECT(pawl_open(&options, &p, NULL) == PAWL_OK);
    EXPECT(pawl_handle(p, &reminder, NULL) == PAWL_OK);
    EXPECT(pawl_start(p, NULL) == PAWL_OK);
    sent = 0;
    down_for = failures;
    return p;
}

static void a_delayed_task_waits_for_its_time(void)
{
    int64_t runs;
    pawl *p = fresh(0);
    EXPECT(pawl_dispatch(p, &(pawl_task){.type = "remind", .delay_us = PAWL_DAY}, NULL, NULL) == PAWL_OK);
    EXPECT(pawl_run_due(p, &runs, NULL) == PAWL_OK && runs == 0);
    EXPECT(pawl_advance(p, PAWL_DAY - 1, &runs, NULL) == PAWL_OK && runs == 0 && sent == 0);
    EXPECT(pawl_advance(p, 1, &runs, NULL) == PAWL_OK && runs == 1 && sent == 1);
    EXPECT(sent_at_us == START_US + PAWL_DAY);
    EXPECT(pawl_close(p) == 0);
}

static void retries_follow_the_list(void)
{
    int64_t runs;
    pawl *p = fresh(3);
    EXPECT(pawl_dispatch(p, &(pawl_task){.type = "remind"}, NULL, NULL) == PAWL_OK);
    EXPECT(pawl_advance(p, PAWL_DAY, &runs, NULL) == PAWL_OK && runs == 4 && sent == 1);
    EXPECT(sent_at_us == START_US + PAWL_MINUTE + PAWL_HOUR + 6 * PAWL_HOUR);
    EXPECT(pawl_now(p) == START_US + PAWL_DAY);
    EXPECT(pawl_close(p) == 0);
}

static void it_gives_up_after_four_attempts(void)
{
    pawl_id id;
    pawl_info *info;
    pawl *p = fresh(100);
    EXPECT(pawl_dispatch(p, &(pawl_task){.type = "remind"}, &id, NULL) == PAWL_OK);
    EXPECT(pawl_advance(p, PAWL_DAY, NULL, NULL) == PAWL_OK && sent == 0);
    EXPECT(pawl_get(p, id, &info, NULL) == PAWL_OK && info->state == PAWL_FAILED && info->attempts_count == 4);
    pawl_info_free(info);
    EXPECT(pawl_close(p) == 0);
}

int main(void)
{
    a_delayed_task_waits_for_its_time();
    retries_follow_the_list();
    it_gives_up_after_four_attempts();
    printf("3 tests passed\n");
    return 0;
}
