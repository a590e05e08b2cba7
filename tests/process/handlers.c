/* The types of task a node knows. Each handler says when it starts and, last of all, what it is about to return; the hooks say what was
 * committed of it.
 *
 *     ok      returns at once              slow    takes up to 30 ms            fail    fails for good
 *     flaky   fails at its first attempt   spawn   brings a child with it       crash   takes its process with it
 *     hold    waits until it is told to stop; nap takes a lease's time and listens to nobody (both only with hold=1)
 *     paced   as ok, twice a second for each rate key and two at once (only with paced=1; server_limits.py knows these numbers)
 *     few     as slow, two of a rate key and five in all at a time; row as slow, one after the other of a rate key (both only with few=1;
 *             server_places.py knows these numbers)
 */
#include "node.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct told {
    char id[PAWL_ID_TEXT];
    long long fence;
} told;

static told who(const pawl_run *run)
{
    told t = {.fence = pawl_run_fence(run)};
    pawl_id_format(pawl_run_id(run), t.id);
    return t;
}

static void say_start(const pawl_run *run)
{
    told t = who(run);
    pawl_bytes token = pawl_run_payload(run); /* a JSON string */
    const char *key = pawl_run_key(run);
    history_line("start", ",\"token\":%.*s,\"id\":\"%s\",\"fence\":%lld,\"attempt\":%d,\"type\":\"%s\",\"key\":\"%s\"",
                 (int)token.len, token.data, t.id, t.fence, pawl_run_attempt(run), pawl_run_type(run), key ? key : "");
}

static void say(const char *event, const pawl_run *run, const char *name, const char *value)
{
    told t = who(run);
    history_line(event, ",\"id\":\"%s\",\"fence\":%lld,\"%s\":\"%s\"", t.id, t.fence, name, value);
}

static pawl_outcome returns(const pawl_run *run, const char *name, pawl_outcome outcome)
{
    say("return", run, "outcome", name);
    return outcome;
}

/* ---- runs ---------------------------------------------------------------------------------------------------------------------- */

static pawl_outcome run_ok(pawl_run *run, void *ctx)
{
    (void)ctx;
    say_start(run);
    return returns(run, "succeeded", pawl_ok());
}

static pawl_outcome run_slow(pawl_run *run, void *ctx)
{
    (void)ctx;
    say_start(run);
    pawl_run_sleep(run, pawl_run_id(run) % 7 * 5 * PAWL_MILLISECOND);
    return returns(run, "succeeded", pawl_ok());
}

static pawl_outcome run_flaky(pawl_run *run, void *ctx)
{
    (void)ctx;
    say_start(run);
    if (pawl_run_attempt(run) == 1) return returns(run, "retry", pawl_retry(run, "the first attempt fails"));
    return returns(run, "succeeded", pawl_ok());
}

static pawl_outcome run_fail(pawl_run *run, void *ctx)
{
    (void)ctx;
    say_start(run);
    return returns(run, "failed", pawl_fail(run, "as it should"));
}

static pawl_outcome run_crash(pawl_run *run, void *ctx)
{
    (void)ctx;
    say_start(run);
    abort();
}

static pawl_outcome run_spawn(pawl_run *run, void *ctx)
{
    (void)ctx;
    say_start(run);
    char child[TOKEN_MAX + 8], id_text[PAWL_ID_TEXT];
    pawl_bytes token = pawl_run_payload(run);
    pawl_id id;
    pawl_error err;
    snprintf(child, sizeof child, "%.*s.child\"", (int)token.len - 1, token.data);
    if (pawl_run_spawn(run, &(pawl_task){.type = "ok", .payload = pawl_str(child)}, &id, &err))
        return returns(run, "retry", pawl_retry(run, "%s", err.message));
    pawl_id_format(id, id_text);
    history_line("spawn", ",\"token\":%s,\"id\":\"%s\",\"parent\":%.*s", child, id_text, (int)token.len, token.data);
    return returns(run, "succeeded", pawl_ok());
}

static const char *reason_name(pawl_stop_reason reason)
{
    switch (reason) {
    case PAWL_STOP_CANCELLED: return "cancelled";
    case PAWL_STOP_TIMEOUT: return "timeout";
    case PAWL_STOP_SHUTDOWN: return "shutdown";
    case PAWL_STOP_LEASE_LOST: return "lease_lost";
    default: return "none";
    }
}

static pawl_outcome run_hold(pawl_run *run, void *ctx)
{
    const node *n = ctx;
    say_start(run);
    if (n->hold) {
        pawl_stop_reason reason;
        while (!(reason = pawl_run_sleep(run, PAWL_HOUR))) continue;
        say("told", run, "reason", reason_name(reason));
    }
    return returns(run, "succeeded", pawl_ok());
}

static pawl_outcome run_nap(pawl_run *run, void *ctx)
{
    const node *n = ctx;
    say_start(run);
    if (n->hold) usleep((useconds_t)n->lease_ms * 1000);
    return returns(run, "succeeded", pawl_ok());
}

/* ---- hooks ---------------------------------------------------------------------------------------------------------------------- */

static bool on_succeeded(pawl_run *run, void *ctx) { return (void)ctx, say("end", run, "outcome", "succeeded"), true; }
static bool on_cancelled(pawl_run *run, void *ctx) { return (void)ctx, say("end", run, "outcome", "cancelled"), true; }

static bool on_failed(pawl_run *run, void *ctx, const char *error)
{
    (void)ctx, (void)error;
    say("end", run, "outcome", "failed");
    return true;
}

static bool on_retry(pawl_run *run, void *ctx, int attempt, const char *error, int64_t delay_us)
{
    (void)ctx, (void)attempt, (void)error, (void)delay_us;
    say("end", run, "outcome", "retry");
    return true;
}

static pawl_status add_few(node *n, pawl_handler h, pawl_error *err)
{
    h.rate = (pawl_rate){0};
    h.run = run_slow;
    h.type = "few";
    h.concurrency = 5;
    h.key_concurrency = 2;
    pawl_status status = pawl_handle(n->engine, &h, err);
    h.type = "row";
    h.concurrency = 0;
    h.key_concurrency = 1;
    h.ordered = true;
    return status ? status : pawl_handle(n->engine, &h, err);
}

pawl_status handlers_add(node *n, pawl_error *err)
{
    static const struct {
        const char *type;
        pawl_outcome (*run)(pawl_run *, void *);
    } types[] = {{"ok", run_ok},       {"slow", run_slow}, {"flaky", run_flaky}, {"fail", run_fail},
                 {"spawn", run_spawn}, {"hold", run_hold}, {"nap", run_nap},     {"crash", run_crash}};
    pawl_handler h = {
        .ctx = n,
        .max_attempts = 50,
        .retry = {.curve = PAWL_CURVE_FIXED, .delay_us = 30 * PAWL_MILLISECOND},
        .on_succeeded = on_succeeded,
        .on_failed = on_failed,
        .on_retry = on_retry,
        .on_cancelled = on_cancelled,
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        h.type = types[i].type;
        h.run = types[i].run;
        pawl_status status = pawl_handle(n->engine, &h, err);
        if (status) return status;
    }
    h.type = "paced";
    h.run = run_ok;
    h.rate = (pawl_rate){.permits = 2, .period_us = PAWL_SECOND, .burst = 2, .horizon_us = -1};
    pawl_status status = n->paced ? pawl_handle(n->engine, &h, err) : PAWL_OK;
    return status || !n->few ? status : add_few(n, h, err);
}
