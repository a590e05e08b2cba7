/* A task for people: the long view of `tasks show`, and the rows of lists. */
#include "base/alloc.h"
#include "base/text.h"
#include "cli/cli.h"
#include <string.h>

#define LABEL 13
#define BODY_SHOWN 4096 /* bytes of a payload or result; more with --full */

/* ---- one task -------------------------------------------------------------------------------------------------------------------- */

static void label(const cli *c, const char *name) { printf("%s%-*s%s", term_on(&c->term, DIM), LABEL, name, term_off(&c->term)); }

static void print_safe(pawl_bytes text, bool lines)
{
    buf out;
    buf_init(&out, alloc_default(), 64u << 20);
    term_safe(&out, text, lines);
    fputs(buf_text(&out), stdout);
    buf_done(&out);
}

static void line(const cli *c, const char *name, const char *value)
{
    if (!value || !*value) return;
    label(c, name);
    print_safe(pawl_str(value), false);
    putchar('\n');
}

static void instant(const cli *c, const char *name, int64_t at_us, int64_t now_us)
{
    char text[WHEN_TEXT];
    if (!at_us) return;
    when_full(at_us, now_us, text);
    line(c, name, text);
}

static void id_line(const cli *c, const char *name, pawl_id id)
{
    char text[PAWL_ID_TEXT];
    if (!id) return;
    pawl_id_format(id, text);
    line(c, name, text);
}

static void heading(const cli *c, const char *name) { printf("\n%s%s%s\n", term_on(&c->term, BOLD), name, term_off(&c->term)); }

/* Text indented by two, each line of it. */
static void block(pawl_bytes text)
{
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t n = end ? (size_t)(end - text.data) - at : text.len - at;
        fputs("  ", stdout);
        print_safe((pawl_bytes){text.data + at, n}, true);
        putchar('\n');
        at += n + 1;
    }
}

static void body(const cli *c, const char *name, pawl_bytes data, const char *content_type, bool full)
{
    if (!data.len) return;
    char title[280], size[32];
    number_grouped((int64_t)data.len, size);
    snprintf(title, sizeof title, "%s (%.200s, %s bytes)", name, content_type ? content_type : "application/json", size);
    heading(c, title);
    if (!utf8_valid(data.data, data.len)) {
        printf("  binary; --json shows it as base64\n");
        return;
    }
    buf masked; /* as a whole, before it is cut or told in lines */
    buf_init(&masked, alloc_default(), 128u << 20);
    if (redact_bytes(encode_hidden(), data, &masked)) data = (pawl_bytes){buf_text(&masked), masked.failed ? 0 : masked.len};
    bool cut = !full && data.len > BODY_SHOWN;
    size_t n = cut ? utf8_cut(data.data, BODY_SHOWN) : data.len;
    block((pawl_bytes){data.data, n});
    buf_done(&masked);
    if (cut) printf("  %s(cut; --full shows all)%s\n", term_on(&c->term, DIM), term_off(&c->term));
}

static void progress_line(const cli *c, const pawl_info *task)
{
    if (task->progress < 0) return;
    label(c, "progress");
    printf("%d%%%s", task->progress, task->progress_text ? "  " : "");
    if (task->progress_text) print_safe(pawl_str(task->progress_text), false);
    putchar('\n');
}

static void rate_key_line(const cli *c, const pawl_info *task)
{
    if (task->rate_key.len == 0) return;
    label(c, "rate key");
    print_safe(task->rate_key, false);
    putchar('\n');
}

static void counts_line(const cli *c, const pawl_info *task)
{
    label(c, "attempts");
    printf("%d", task->attempt);
    if (task->max_attempts) printf(" of %d", task->max_attempts);
    if (task->failures) printf(", %d failed", task->failures);
    if (task->rescues) printf(", %d rescued", task->rescues);
    if (task->interruptions) printf(", %d interrupted", task->interruptions);
    putchar('\n');
}

static void state_line(const cli *c, const pawl_info *task)
{
    label(c, "state");
    printf("%s%s%s", term_on(&c->term, term_state(task->display)), task->display, term_off(&c->term));
    if (task->cancel_asked && !pawl_state_terminal(task->state)) printf(" (cancel asked)");
    if (task->reason) printf(" (%s)", task->reason);
    putchar('\n');
}

static void identity(const cli *c, const pawl_info *task)
{
    char id[PAWL_ID_TEXT], number[32];
    pawl_id_format(task->id, id);
    label(c, "task");
    printf("%s%s%s\n", term_on(&c->term, BOLD), id, term_off(&c->term));
    line(c, "type", task->type);
    state_line(c, task);
    line(c, "queue", task->queue);
    line(c, "key", task->key);
    rate_key_line(c, task);
    line(c, "tenant", task->tenant);
    snprintf(number, sizeof number, "%d", task->priority);
    if (task->priority) line(c, "priority", number);
    if (task->timeout_us > 0) {
        duration_format(task->timeout_us, number, sizeof number);
        line(c, "timeout", number);
    }
}

static void times(const cli *c, const pawl_info *task, int64_t now_us)
{
    char took[32];
    instant(c, "created", task->created_us, now_us);
    if (task->run_at_us - now_us > 50 * 365 * PAWL_DAY) line(c, "run at", "when its rate key is resumed");
    else if (task->run_at_us != task->created_us) instant(c, "run at", task->run_at_us, now_us);
    bool ran = task->started_us && (task->attempt > 0 || !task->finished_us); /* one that was refused did not */
    if (ran) instant(c, "started", task->started_us, now_us);
    instant(c, "finished", task->finished_us, now_us);
    if (ran && task->finished_us) {
        duration_format(task->finished_us - task->started_us, took, sizeof took);
        line(c, "took", took);
    }
}

static void ending(const cli *c, const pawl_info *task, int64_t now_us)
{
    line(c, "code", task->code);
    if (task->error && *task->error) {
        label(c, "error");
        printf("%s", term_on(&c->term, RED));
        print_safe(pawl_str(task->error), false);
        printf("%s\n", term_off(&c->term));
    }
    line(c, "result ref", task->result_ref);
    id_line(c, "retry of", task->retry_of);
    id_line(c, "retried as", task->retried_as);
    instant(c, "resolved", task->resolved_us, now_us);
    line(c, "resolved by", task->resolved_by);
    line(c, "note", task->note);
    line(c, "created by", task->schedule ? NULL : task->created_by);
    line(c, "schedule", task->schedule);
    line(c, "traceparent", task->traceparent);
    line(c, "headers", task->headers);
}

static void attempts(const cli *c, const pawl_info *task, int64_t now_us)
{
    table t;
    if (!task->attempts_count || !task->attempts) return;
    heading(c, "Attempts");
    table_init(&t, &c->term);
    table_column(&t, " ", COLUMN_LEFT);
    table_column(&t, "#", COLUMN_RIGHT);
    table_column(&t, "OUTCOME", COLUMN_LEFT);
    table_column(&t, "STARTED", COLUMN_LEFT);
    table_column(&t, "TOOK", COLUMN_RIGHT);
    table_column(&t, "NODE", COLUMN_FLEX);
    table_column(&t, "FENCE", COLUMN_RIGHT);
    table_column(&t, "ERROR", COLUMN_FLEX);
    for (int i = 0; i < task->attempts_count; i++) {
        const pawl_attempt *a = &task->attempts[i];
        char started[WHEN_TEXT], took[32] = "";
        when_full(a->started_us, now_us, started);
        if (a->finished_us) duration_format(a->finished_us - a->started_us, took, sizeof took);
        table_cell(&t, PLAIN, "%s", "");
        table_cell(&t, PLAIN, "%d", a->number);
        table_cell(&t, term_state(a->outcome), "%s", a->outcome);
        table_cell(&t, PLAIN, "%s", started);
        table_cell(&t, PLAIN, "%s", took);
        table_cell(&t, PLAIN, "%s", a->node_name ? a->node_name : "");
        table_cell(&t, PLAIN, "%lld", (long long)a->fence);
        table_cell(&t, PLAIN, "%s%s%s", a->code ? a->code : "", a->code && a->error ? ": " : "", a->error ? a->error : "");
    }
    table_print(&t, stdout);
}

static void clock_text(int64_t at_us, char out[32])
{
    char full[RFC3339_TEXT];
    rfc3339_format(at_us, full);
    snprintf(out, 32, "%.12s", full + 11); /* 04:49:03.123 */
}

static void log_lines(const cli *c, const pawl_trail *trail)
{
    static const paint colors[] = {PLAIN, DIM, PLAIN, YELLOW, RED};
    heading(c, "Log (UTC)");
    if (!trail->lines_count) printf("  empty\n");
    for (size_t i = 0; i < trail->lines_count; i++) {
        const pawl_log_line *it = &trail->lines[i];
        char at[32];
        clock_text(it->at_us, at);
        printf("  %s#%d %s%s  %s%-5s%s  ", term_on(&c->term, DIM), it->attempt, at, term_off(&c->term),
               term_on(&c->term, colors[it->level]), pawl_level_name(it->level), term_off(&c->term));
        print_safe(pawl_str(it->text), false);
        putchar('\n');
    }
}

static void audit_lines(const cli *c, const pawl_trail *trail)
{
    heading(c, "Audit (UTC)");
    if (!trail->audit_count) printf("  empty\n");
    for (size_t i = 0; i < trail->audit_count; i++) {
        const pawl_audit_row *it = &trail->audit[i];
        char at[32];
        clock_text(it->at_us, at);
        printf("  %s%s%s  %-9s > %s%-9s%s  fence %lld", term_on(&c->term, DIM), at, term_off(&c->term),
               *it->from ? it->from : "(new)", term_on(&c->term, term_state(it->to)), it->to, term_off(&c->term),
               (long long)it->fence);
        if (it->node_name) printf("  on %s", it->node_name);
        if (it->detail) {
            fputs("  ", stdout);
            print_safe(pawl_str(it->detail), false);
        }
        putchar('\n');
    }
}

void task_text(const cli *c, const pawl_info *task, const pawl_trail *log, const pawl_trail *audit, bool full)
{
    int64_t now_us = cli_now_us();
    identity(c, task);
    times(c, task, now_us);
    counts_line(c, task);
    if (task->state == PAWL_LEASED) line(c, "node", task->node_name);
    progress_line(c, task);
    ending(c, task, now_us);
    body(c, "Payload", task->payload, task->content_type, full);
    body(c, "Result", task->result, task->result_type, full);
    attempts(c, task, now_us);
    if (log) log_lines(c, log);
    if (audit) audit_lines(c, audit);
}
