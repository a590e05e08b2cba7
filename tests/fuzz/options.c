/* Options of the engine, of a queue and of a handler, with any number in any place: refused with a reason, or an engine that runs a
 * task and closes. The clock is virtual, so no delay is too long. */
#include "fuzz/fuzz.h"
#include <string.h>

static pawl_retry_policy take_retry(fuzz *in)
{
    pawl_retry_policy r = {
        .curve = (pawl_curve)fuzz_int(in), .delay_us = fuzz_int(in), .factor = fuzz_real(in), .cap_us = fuzz_int(in)};
    r.jitter = fuzz_real(in);
    r.delays = (int)fuzz_int(in);
    r.delays_us[0] = fuzz_int(in);
    r.delays_us[1] = fuzz_int(in);
    r.no_timeout_retry = fuzz_int(in);
    return r;
}

static pawl_options take_options(fuzz *in)
{
    pawl_options o = {.store = "memory:", .inline_mode = true, .inline_start_us = INT64_C(1800000000) * PAWL_SECOND, .seed = 1};
    o.name = fuzz_text(in);
    o.workers = (int)fuzz_int(in);
    o.capacity = (int)fuzz_int(in);
    o.lease_us = fuzz_int(in);
    o.grace_us = fuzz_int(in);
    o.max_attempts = (int)fuzz_int(in);
    o.timeout_us = fuzz_int(in);
    o.retry = take_retry(in);
    o.audit = (pawl_audit)fuzz_int(in);
    o.long_run_us = fuzz_int(in);
    o.payload_max = (size_t)fuzz_int(in);
    o.dispatch_timeout_us = fuzz_int(in);
    o.keep_succeeded_us = fuzz_int(in);
    o.keep_audit_us = fuzz_int(in);
    o.log_level = (pawl_level)fuzz_int(in);
    o.inline_eager = fuzz_int(in);
    return o;
}

static pawl_queue_options take_queue(fuzz *in)
{
    pawl_queue_options q = {.name = fuzz_text(in), .workers = (int)fuzz_int(in), .capacity = (int)fuzz_int(in)};
    q.depth_limit = fuzz_int(in);
    q.full = (pawl_full)fuzz_int(in);
    q.max_attempts = (int)fuzz_int(in);
    q.timeout_us = fuzz_int(in);
    q.retry = take_retry(in);
    return q;
}

static pawl_outcome again(pawl_run *run, void *ctx)
{
    (void)ctx;
    HOLDS(pawl_run_attempt(run) <= pawl_run_max_attempts(run));
    return pawl_run_attempt(run) < 3 ? pawl_retry(run, "again") : pawl_ok();
}

static pawl_handler take_handler(fuzz *in)
{
    pawl_handler h = {.type = fuzz_text(in), .run = again, .queue = fuzz_text(in), .max_attempts = (int)fuzz_int(in)};
    h.timeout_us = fuzz_int(in);
    h.audit = (pawl_audit)fuzz_int(in);
    h.retry = take_retry(in);
    return h;
}

/* Three attempts at most, each after less than a century: then it is at its end, whatever the policies say. */
static void run(pawl *p, const char *type)
{
    pawl_error err;
    pawl_id id;
    pawl_info *info;
    pawl_status status = pawl_start(p, &err);
    if (status) return fuzz_failed(status, &err);
    status = pawl_dispatch(p, &(pawl_task){.type = type}, &id, &err);
    if (status) return fuzz_failed(status, &err);
    for (int i = 0; i < 3; i++) HOLDS(pawl_run_due(p, NULL, &err) == PAWL_OK);
    status = pawl_get(p, id, &info, &err);
    if (status) return fuzz_failed(status, &err); /* kept for a microsecond only */
    HOLDS(info->id == id && strcmp(info->type, type) == 0);
    pawl_info_free(info);
}

static void quiet(void *ctx, pawl_level level, const char *line) { (void)ctx, (void)level, (void)line; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz in;
    pawl *p;
    pawl_error err;
    fuzz_begin(&in, data, size);
    pawl_options o = take_options(&in);
    pawl_queue_options q = take_queue(&in);
    pawl_handler h = take_handler(&in);
    o.log = quiet;
    pawl_status status = pawl_open(&o, &p, &err);
    if (status) {
        fuzz_failed(status, &err);
    } else {
        if ((status = pawl_queue(p, &q, &err))) fuzz_failed(status, &err);
        if ((status = pawl_handle(p, &h, &err))) fuzz_failed(status, &err);
        else run(p, h.type);
        pawl_close(p);
    }
    fuzz_end(&in);
    return 0;
}
