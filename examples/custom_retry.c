/* custom_retry: when to try again is decided by a function of the program's own, from the error code the run set. A quota that is used
 * up waits for its next window, a busy server gets a little longer each time, and a bad request is never repeated.
 *
 *     examples/custom_retry     keeps its tasks in memory
 */
#include <pawl.h>
#include <stdio.h>
#include <string.h>

/* Called on the engine's thread: quick, and without calls to pawl. */
static int64_t next_try(void *ctx, const pawl_failure *failure)
{
    const int64_t *window_us = ctx;
    const char *code = failure->code ? failure->code : "none";
    int64_t delay_us = PAWL_NO_RETRY;
    if (!strcmp(code, "quota")) delay_us = *window_us;
    if (!strcmp(code, "busy")) delay_us = failure->attempt * 10 * PAWL_MILLISECOND;
    if (failure->timed_out) delay_us = 0;
    printf("attempt %d of %s: %s (%s): ", failure->attempt, failure->type, code, failure->error);
    if (delay_us < 0) printf("never again\n");
    else printf("again in %d ms\n", (int)(delay_us / PAWL_MILLISECOND));
    return delay_us;
}

/* The payload lists what happens at each attempt, one letter each: q(uota), b(usy), x (bad request), o(k). */
static pawl_outcome call_api(pawl_run *run, void *ctx)
{
    (void)ctx;
    char what = pawl_run_payload(run).data[pawl_run_attempt(run)]; /* [0] is the quote of JSON */
    if (what == 'o') return pawl_ok();
    pawl_run_error_code(run, what == 'q' ? "quota" : what == 'b' ? "busy" : "bad_request");
    return pawl_retry(run, "the server answered %s", what == 'q' ? "429" : what == 'b' ? "503" : "400");
}

static int dispatch_and_wait(pawl *p, const char *story)
{
    pawl_error err;
    pawl_id id;
    pawl_info *info;
    if (pawl_dispatch(p, &(pawl_task){.type = "api.call", .payload = pawl_str(story)}, &id, &err) ||
        pawl_wait(p, id, 10 * PAWL_SECOND, NULL, &err) || pawl_get(p, id, &info, &err))
        return pawl_die(&err);
    printf("%s: %s after %d attempts\n", story, pawl_state_name(info->state), info->attempts_count);
    pawl_info_free(info);
    return 0;
}

int main(void)
{
    static int64_t window_us = 50 * PAWL_MILLISECOND;
    pawl *p = NULL;
    pawl_error err;
    pawl_handler handler = {
        .type = "api.call",
        .run = call_api,
        .max_attempts = 10,
        .retry = {.curve = PAWL_CURVE_CUSTOM, .custom = next_try, .custom_ctx = &window_us},
    };
    if (pawl_open(&(pawl_options){.store = "memory:"}, &p, &err) || pawl_handle(p, &handler, &err) || pawl_start(p, &err))
        return pawl_die(&err);
    int failed = dispatch_and_wait(p, "\"bbqo\"");
    if (!failed) failed = dispatch_and_wait(p, "\"bx\"");
    int code = pawl_close(p);
    return failed ? failed : code;
}
