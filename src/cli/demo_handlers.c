#include "cli/demo.h"

#include "base/rand.h"
#include <pthread.h>

static rng dice; /* guarded by dice_lock: handlers run on many threads */
static pthread_mutex_t dice_lock = PTHREAD_MUTEX_INITIALIZER;

static int roll(int sides)
{
    pthread_mutex_lock(&dice_lock);
    int n = (int)rng_below(&dice, (uint64_t)sides);
    pthread_mutex_unlock(&dice_lock);
    return n;
}

/* ---- handlers ------------------------------------------------------------------------------------------------------------------- */

/* Mostly quick; the server is busy now and then, and one mailbox in thirty does not exist. */
static pawl_outcome send_email(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_run_log(run, PAWL_INFO, "connected to mail.example.org");
    if (pawl_run_sleep(run, (50 + roll(200)) * PAWL_MILLISECOND))
        return pawl_retry(run, "stopped before the message was accepted");
    int luck = roll(30);
    if (luck == 0) {
        pawl_run_error_code(run, "smtp_550");
        return pawl_fail(run, "550 no such mailbox");
    }
    if (luck < 5) {
        pawl_run_log(run, PAWL_WARN, "the server asks to come back later");
        pawl_run_error_code(run, "smtp_451");
        return pawl_retry(run, "451 try again later");
    }
    pawl_run_result(run, pawl_str("{\"accepted\":true}"), NULL, NULL);
    return pawl_ok();
}

/* Ten pages, with progress; the result is a reference to the finished report. */
static pawl_outcome build_report(pawl_run *run, void *ctx)
{
    char text[64];
    (void)ctx;
    for (int page = 1; page <= 10; page++) {
        if (pawl_run_sleep(run, 300 * PAWL_MILLISECOND)) return pawl_retry(run, "stopped at page %d", page);
        snprintf(text, sizeof text, "page %d of 10", page);
        pawl_run_progress(run, page * 10, text);
    }
    snprintf(text, sizeof text, "Report:%d", 1000 + roll(9000));
    pawl_run_result_ref(run, text, NULL);
    return pawl_ok();
}

/* Slow, and says how far it is. */
static pawl_outcome import_rows(pawl_run *run, void *ctx)
{
    char text[64];
    (void)ctx;
    for (int done = 0; done < 5000; done += 250) {
        if (pawl_run_sleep(run, 350 * PAWL_MILLISECOND)) return pawl_retry(run, "stopped after %d rows", done);
        snprintf(text, sizeof text, "%d rows", done + 250);
        pawl_run_progress(run, (done + 250) / 50, text);
        if (done % 1000 == 0) pawl_run_log(run, PAWL_INFO, "%s imported", text);
    }
    pawl_run_result(run, pawl_str("{\"rows\":5000,\"rejected\":3}"), NULL, NULL);
    return pawl_ok();
}

/* The other side is down half of the time: some of these end as dead letters. */
static pawl_outcome call_webhook(pawl_run *run, void *ctx)
{
    (void)ctx;
    if (pawl_run_sleep(run, (100 + roll(300)) * PAWL_MILLISECOND)) return pawl_retry(run, "stopped before the answer");
    if (roll(2)) return pawl_ok();
    pawl_run_error_code(run, "http_503");
    return pawl_retry(run, "POST https://hooks.example.org/orders answered 503");
}

pawl_status demo_handlers(pawl *p, pawl_error *err)
{
    static const pawl_handler handlers[] = {
        {.type = "email.send", .run = send_email, .queue = "mail"},
        {.type = "report.build", .run = build_report, .queue = "reports"},
        {.type = "import.rows", .run = import_rows, .queue = "reports", .timeout_us = PAWL_MINUTE},
        {.type = "webhook.call",
         .run = call_webhook,
         .rate = {.permits = 40, .period_us = PAWL_MINUTE, .burst = 5, .horizon_us = -1},
         .max_attempts = 3,
         .retry = {.curve = PAWL_CURVE_FIXED, .delay_us = 2 * PAWL_SECOND}},
    };
    static const pawl_queue_options queues[] = {{.name = "mail", .workers = 4}, {.name = "reports", .workers = 2}};
    pawl_status status = PAWL_OK;
    rng_init(&dice, seed_from_system());
    for (size_t i = 0; i < sizeof queues / sizeof *queues && !status; i++) status = pawl_queue(p, &queues[i], err);
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers && !status; i++) status = pawl_handle(p, &handlers[i], err);
    return status;
}

/* ---- the trickle ---------------------------------------------------------------------------------------------------------------- */

static const char *const people[] = {"ann", "bela", "chidi", "dana", "emre", "fatou", "goran", "hanna"};

static pawl_status dispatch(demo *d, pawl_task *task, const char *payload, pawl_id *id, pawl_error *err)
{
    task->payload = pawl_str(payload);
    task->created_by = "demo";
    return pawl_dispatch(d->p, task, id, err);
}

pawl_status demo_feed(demo *d, pawl_error *err)
{
    char payload[160], key[32];
    int kind = roll(20);
    const char *who = people[roll(sizeof people / sizeof *people)];
    if (kind < 11) {
        snprintf(payload, sizeof payload, "{\"to\":\"%s@example.org\",\"subject\":\"Your order has shipped\"}", who);
        return dispatch(d, &(pawl_task){.type = "email.send"}, payload, NULL, err);
    }
    if (kind < 16) {
        snprintf(payload, sizeof payload, "{\"event\":\"order.paid\",\"order\":%d}", 10000 + roll(90000));
        return dispatch(d, &(pawl_task){.type = "webhook.call", .rate_key = pawl_str("hooks.example.org")}, payload, NULL, err);
    }
    if (kind < 18) {
        int customer = roll(5);
        snprintf(payload, sizeof payload, "{\"customer\":%d,\"month\":\"2026-11\"}", customer);
        snprintf(key, sizeof key, "report:%d", customer);
        return dispatch(d, &(pawl_task){.type = "report.build", .key = key}, payload, NULL, err);
    }
    if (kind == 18)
        return dispatch(d, &(pawl_task){.type = "import.rows", .key = "import"}, "{\"file\":\"orders.csv\"}", NULL, err);
    snprintf(payload, sizeof payload, "{\"to\":\"%s@example.org\",\"subject\":\"How was it?\"}", who);
    return dispatch(d, &(pawl_task){.type = "email.send", .delay_us = (20 + roll(100)) * PAWL_SECOND}, payload, NULL, err);
}

pawl_status demo_prepare(demo *d, pawl_error *err)
{
    pawl_schedule digest = {.name = "digest",
                            .every = 20,
                            .unit = PAWL_SECONDS,
                            .type = "email.send",
                            .queue = "mail",
                            .payload = pawl_str("{\"to\":\"team@example.org\",\"subject\":\"What happened\"}")};
    pawl_task newsletter = {.type = "email.send", .key = "newsletter", .delay_us = 4 * PAWL_HOUR};
    pawl_status status = dispatch(d, &newsletter, "{\"to\":\"everybody@example.org\",\"subject\":\"News\"}", &d->sample, err);
    for (int i = 0; i < 6 && !status; i++) status = demo_feed(d, err);
    if (!status) status = pawl_put_schedule(d->p, &digest, PAWL_PUT_UPDATE, NULL, err);
    if (status == PAWL_UNSUPPORTED) status = PAWL_OK; /* not every store keeps schedules */
    if (!status) status = dispatch(d, &(pawl_task){.type = "report.build", .key = "report:0"}, "{\"customer\":0}", NULL, err);
    return status;
}
