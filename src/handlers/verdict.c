#include "handlers/verdict.h"

#include "base/json.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

const char *verdict_trim(pawl_bytes *output)
{
    while (output->len && (output->data[output->len - 1] == '\n' || output->data[output->len - 1] == '\r')) output->len--;
    if (json_valid(*output, NULL, NULL)) return NULL;
    return utf8_valid(output->data, output->len) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

static void keep_result(pawl_run *run, const buf *output)
{
    pawl_error err;
    pawl_bytes result = {output->data, output->len};
    if (output->failed) {
        pawl_run_log(run, PAWL_WARN, "the output is larger than %u KiB and was not kept as the result", VERDICT_RESULT_MAX >> 10);
        return;
    }
    const char *type = verdict_trim(&result);
    if (!result.len) return;
    if (pawl_run_result(run, result, type, &err))
        pawl_run_log(run, PAWL_WARN, "the output was not kept as the result: %s", err.message);
}

static pawl_outcome of_signal(pawl_run *run, const verdict *v, int number)
{
    char code[32];
    const char *name = sigabbrev_np(number);
    snprintf(code, sizeof code, "signal_%s", name ? name : "unknown");
    pawl_run_error_code(run, code);
    return pawl_retry(run, "killed by SIG%s%s%s", name ? name : "?", *v->last ? ": " : "", v->last);
}

static pawl_outcome of_status(pawl_run *run, const verdict *v, int status)
{
    char code[32];
    snprintf(code, sizeof code, "exit_%d", status);
    pawl_run_error_code(run, code);
    if (status == VERDICT_SNOOZE) return pawl_snooze(v->snooze_us);
    if (status == VERDICT_FAIL) return pawl_fail(run, "exit status %d%s%s", status, *v->last ? ": " : "", v->last);
    return pawl_retry(run, "exit status %d%s%s", status, *v->last ? ": " : "", v->last);
}

pawl_outcome verdict_of(pawl_run *run, const verdict *v)
{
    if (WIFEXITED(v->status) && WEXITSTATUS(v->status) == 0) {
        if (v->output) keep_result(run, v->output);
        return pawl_ok();
    }
    switch (v->stopped) {
    case PAWL_STOP_CANCELLED: return pawl_cancelled();
    case PAWL_STOP_TIMEOUT: return pawl_retry(run, "timed out%s%s", *v->last ? ": " : "", v->last);
    case PAWL_STOP_SHUTDOWN: return pawl_retry(run, "interrupted: the worker was stopped");
    case PAWL_STOP_LEASE_LOST: return pawl_retry(run, "stopped: the lease was lost");
    case PAWL_GO_ON: break;
    }
    if (WIFEXITED(v->status)) return of_status(run, v, WEXITSTATUS(v->status));
    return of_signal(run, v, WTERMSIG(v->status));
}
