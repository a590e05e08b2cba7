/* email: a handler as it looks in practice. Its server is busy at first, so a message is tried again; one address is refused for
 * good; one message is cancelled while it is being sent. Every hook prints a line, so the output shows what is called in which order:
 *
 *     on_started, run, on_retry, ... , on_started, run, then exactly one of on_succeeded, on_failed, on_cancelled
 *
 * on_succeeded, on_failed, on_retry and on_cancelled come after the outcome is committed.
 *
 *     examples/email            uses email.db
 */
#include <pawl.h>
#include <stdio.h>
#include <string.h>

/* The address, without the quotes of JSON. */
static const char *address(pawl_run *run)
{
    static _Thread_local char text[64];
    pawl_bytes payload = pawl_run_payload(run);
    snprintf(text, sizeof text, "%.*s", (int)payload.len - 2, payload.data + 1);
    return text;
}

static pawl_outcome send_mail(pawl_run *run, void *ctx)
{
    (void)ctx;
    const char *to = address(run);
    pawl_run_log(run, PAWL_INFO, "connecting for %s", to);
    if (!strcmp(to, "nobody@example.org")) {
        pawl_run_error_code(run, "smtp_550");
        return pawl_fail(run, "550 no such mailbox: %s", to);
    }
    if (!strcmp(to, "slow@example.org")) {
        pawl_run_progress(run, 10, "greeted");                            /* what main waits for */
        while (!pawl_run_stopping(run)) pawl_run_sleep(run, PAWL_MINUTE); /* a cancel cuts it short */
        return pawl_run_stopping(run) == PAWL_STOP_CANCELLED ? pawl_cancelled() : pawl_retry(run, "interrupted");
    }
    if (pawl_run_attempt(run) < 3) {
        pawl_run_error_code(run, "smtp_421");
        return pawl_retry(run, "421 try again later");
    }
    return pawl_run_result(run, pawl_str("\"250 queued\""), NULL, NULL) ? pawl_retry(run, "result not kept") : pawl_ok();
}

static bool started(pawl_run *run, void *ctx)
{
    (void)ctx;
    return printf("%s: started, attempt %d\n", address(run), pawl_run_attempt(run)) > 0;
}

static bool succeeded(pawl_run *run, void *ctx) { return (void)ctx, printf("%s: succeeded\n", address(run)) > 0; }
static bool cancelled(pawl_run *run, void *ctx) { return (void)ctx, printf("%s: cancelled\n", address(run)) > 0; }

static bool failed(pawl_run *run, void *ctx, const char *error)
{
    (void)ctx;
    return printf("%s: failed: %s\n", address(run), error) > 0;
}

static bool retry(pawl_run *run, void *ctx, int attempt, const char *error, int64_t delay_us)
{
    (void)ctx;
    return printf("%s: attempt %d: %s; again in %d ms\n", address(run), attempt, error, (int)(delay_us / PAWL_MILLISECOND)) > 0;
}

static const pawl_handler handler = {
    .type = "email.send",
    .run = send_mail,
    .max_attempts = 5,
    .retry = {.curve = PAWL_CURVE_EXPONENTIAL, .delay_us = 20 * PAWL_MILLISECOND, .factor = 2, .jitter = -1},
    .timeout_us = 5 * PAWL_MINUTE,
    .on_started = started,
    .on_succeeded = succeeded,
    .on_failed = failed,
    .on_retry = retry,
    .on_cancelled = cancelled,
};

int main(void)
{
    pawl *p = NULL;
    pawl_error err;
    pawl_subscription *events;
    pawl_event event;
    pawl_receipt sent[3];
    if (pawl_open(&(pawl_options){.store = "sqlite:email.db"}, &p, &err) || pawl_handle(p, &handler, &err) ||
        pawl_subscribe(p, 0, &events, &err) || pawl_start(p, &err))
        return pawl_die(&err);

    const pawl_task messages[] = {{.type = "email.send", .payload = pawl_str("\"ann@example.org\"")},
                                  {.type = "email.send", .payload = pawl_str("\"nobody@example.org\"")},
                                  {.type = "email.send", .payload = pawl_str("\"slow@example.org\"")}};
    if (pawl_dispatch_bulk(p, messages, 3, sent, &err)) return pawl_die(&err); /* one commit for all three */
    while (pawl_next_event(events, 10 * PAWL_SECOND, &event))
        if (event.kind == PAWL_EVENT_PROGRESS && event.id == sent[2].id) break;
    if (pawl_cancel(p, sent[2].id, "the author of this example", &err)) return pawl_die(&err);
    for (int i = 0; i < 3; i++)
        if (pawl_wait(p, sent[i].id, 10 * PAWL_SECOND, NULL, &err)) return pawl_die(&err);
    pawl_unsubscribe(events);
    return pawl_close(p); /* waits for the last hooks */
}
