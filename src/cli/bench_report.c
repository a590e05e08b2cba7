#include "cli/bench.h"

#include "base/alloc.h"
#include "base/error.h"
#include <stdlib.h>
#include <string.h>

/* ---- reading back ----------------------------------------------------------------------------------------------------------------- */

static int by_id(const void *left, const void *right)
{
    pawl_id a = *(const pawl_id *)left, b = *(const pawl_id *)right;
    return (a > b) - (a < b);
}

/* A found task is struck off by making its id negative; the order of absolute values stays. */
static void strike(bench *b, const pawl_info *task)
{
    bool good = b->runs ? task->state == PAWL_SUCCEEDED : task->state == PAWL_PENDING;
    int64_t low = 0, high = b->tasks;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (llabs(b->ids[middle]) < task->id) low = middle + 1;
        else high = middle;
    }
    if (good && low < b->tasks && b->ids[low] == task->id) b->ids[low] = -task->id;
}

/* A store that has forgotten most of history cannot be asked; the engine has counted. */
static pawl_status count_unseen(bench *b)
{
    int64_t finished, fillers, last_ns;
    bench_totals(b, &finished, &fillers, &last_ns);
    b->lost = b->tasks - finished;
    return PAWL_OK;
}

pawl_status bench_read_back(bench *b, pawl_error *err)
{
    if (b->forgetful && b->runs) return count_unseen(b);
    char cursor[256];
    int64_t seen = 0;
    pawl_filter filter = {.type = BENCH_TYPE, .since_us = b->wall_us - PAWL_MINUTE, .oldest_first = true, .limit = 1000};
    qsort(b->ids, (size_t)b->tasks, sizeof *b->ids, by_id);
    for (bool more = true; more;) {
        pawl_page *page;
        pawl_status status = pawl_list(b->p, &filter, &page, err);
        if (status) return status;
        for (size_t i = 0; i < page->count; i++) strike(b, page->tasks[i]);
        seen += (int64_t)page->count;
        more = page->next != NULL;
        if (more) snprintf(cursor, sizeof cursor, "%s", page->next);
        filter.cursor = cursor;
        pawl_page_free(page);
        if (seen % 20000 < 1000) bench_progress(b, "read back", seen, b->tasks);
    }
    bench_progress(b, "read back", 1, 1);
    for (int64_t i = 0; i < b->tasks; i++) b->lost += b->ids[i] >= 0;
    return PAWL_OK;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------------------------- */

typedef struct numbers {
    double seconds, tasks_per_s, commits, bytes, cpu_s;
    int64_t rss_bytes, runs;
    latency dispatch, start, done;
    char settings[1024];
} numbers;

static void sum_slots(bench *b, numbers *n)
{
    bench_slot *slots = (bench_slot *)((char *)b->shared + b->shared->slots_at);
    for (int i = 0; i < b->shared->slots; i++) {
        latency_merge(&n->dispatch, &slots[i].dispatch);
        latency_merge(&n->start, &slots[i].start);
        latency_merge(&n->done, &slots[i].done);
        n->runs += atomic_load(&slots[i].runs);
    }
}

static void sum_usage(const bench *b, numbers *n)
{
    double commits = 0, bytes = 0;
    for (int i = 0; i < b->nodes; i++) {
        const bench_usage *u = &b->shared->usage[i];
        commits += (double)u->commits;
        bytes += (double)u->bytes;
        n->cpu_s += u->cpu_s;
        if (u->rss_bytes > n->rss_bytes) n->rss_bytes = u->rss_bytes;
    }
    n->commits = commits / (double)b->finished;
    n->bytes = bytes / (double)b->finished;
    n->cpu_s = n->cpu_s * 1000 / (double)b->finished;
}

static void collect(bench *b, numbers *n)
{
    n->seconds = (double)(b->end_ns - b->begin_ns) / 1e9;
    n->tasks_per_s = n->seconds > 0 ? (double)b->finished / n->seconds : 0;
    sum_slots(b, n);
    sum_usage(b, n);
    if (pawl_store_settings(b->p, n->settings, sizeof n->settings, NULL)) n->settings[0] = 0;
}

/* ---- output ----------------------------------------------------------------------------------------------------------------------- */

static void number_json(json_writer *w, const char *key, double value)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%.*f", value < 1 ? 6 : 3, value);
    jsonw_key(w, key);
    jsonw_raw(w, (pawl_bytes){text, (size_t)n});
}

static void percentiles_json(json_writer *w, const char *key, const latency *h)
{
    jsonw_key(w, key);
    jsonw_object(w);
    number_json(w, "p50", latency_us(h, 0.5));
    number_json(w, "p99", latency_us(h, 0.99));
    number_json(w, "p999", latency_us(h, 0.999));
    jsonw_end_object(w);
}

/* "name=value name=value" as an object. */
static void settings_json(json_writer *w, char *text)
{
    char *rest;
    jsonw_key(w, "settings");
    jsonw_object(w);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (value) *value++ = 0;
        json_text(w, word, value);
    }
    jsonw_end_object(w);
}

static void setup_json(json_writer *w, const bench *b)
{
    json_text(w, "mode", b->mode);
    json_text(w, "store", pawl_store_url(b->p));
    json_number(w, "tasks", b->tasks);
    json_number(w, "producers", b->producers);
    json_number(w, "batch", b->batch);
    json_number(w, "workers", b->workers);
    json_number(w, "nodes", b->nodes);
    json_number(w, "payload", (int64_t)b->payload);
    json_number(w, "rate", b->rate);
    json_text(w, "audit", pawl_audit_name(b->options.audit));
    json_number(w, "preload_history", b->history);
    json_number(w, "preload_scheduled", b->scheduled);
    json_number(w, "backlog", b->backlog);
    json_number(w, "rate_keys", b->rate_keys);
    json_number(w, "throttled", b->throttled);
    json_number(w, "settle_ms", b->settle_ns / 1000000);
}

static void speed_json(json_writer *w, const numbers *n)
{
    number_json(w, "seconds", n->seconds);
    number_json(w, "tasks_per_s", n->tasks_per_s);
    percentiles_json(w, "dispatch_us", &n->dispatch);
    percentiles_json(w, "start_us", &n->start);
    percentiles_json(w, "done_us", &n->done);
    number_json(w, "commits_per_task", n->commits);
    number_json(w, "bytes_per_task", n->bytes);
    number_json(w, "cpu_s_per_1000", n->cpu_s);
    json_number(w, "runs", n->runs);
}

static void looks_json(json_writer *w, const bench_looks *looks)
{
    percentiles_json(w, "get_us", &looks->get);
    jsonw_key(w, "list_us");
    jsonw_object(w);
    for (int i = 0; i < BENCH_LISTS; i++) percentiles_json(w, bench_list_name(i), &looks->list[i]);
    jsonw_end_object(w);
    percentiles_json(w, "cancel_us", &looks->cancel);
}

static int report_json(bench *b, numbers *n)
{
    answer a;
    cli_json_begin(b->c, &a);
    jsonw_object(&a.w);
    setup_json(&a.w, b);
    if (b->looks) looks_json(&a.w, b->looks);
    else speed_json(&a.w, n);
    json_number(&a.w, "rss_peak_bytes", n->rss_bytes);
    json_number(&a.w, "lost", b->lost);
    settings_json(&a.w, n->settings);
    jsonw_end_object(&a.w);
    return cli_json_end(b->c, &a);
}

static void micro_cell(table *t, double us)
{
    if (us >= 1e6) table_cell(t, PLAIN, "%.2f s", us / 1e6);
    else if (us >= 1000) table_cell(t, PLAIN, "%.2f ms", us / 1000);
    else table_cell(t, PLAIN, "%.1f us", us);
}

static void percentiles_row(table *t, const char *name, const latency *h)
{
    table_cell(t, PLAIN, "%s", name);
    micro_cell(t, latency_us(h, 0.5));
    micro_cell(t, latency_us(h, 0.99));
    micro_cell(t, latency_us(h, 0.999));
}

static void latency_columns(table *t, const term *term)
{
    table_init(t, term);
    table_column(t, "LATENCY", COLUMN_LEFT);
    table_column(t, "P50", COLUMN_RIGHT);
    table_column(t, "P99", COLUMN_RIGHT);
    table_column(t, "P99.9", COLUMN_RIGHT);
}

static bool looks_text(const bench *b)
{
    char history[32], scheduled[32], name[64];
    table t;
    number_grouped(b->history, history);
    number_grouped(b->scheduled, scheduled);
    printf("%s finished and %s scheduled tasks put into %s\n\n", history, scheduled, pawl_store_url(b->p));
    latency_columns(&t, &b->c->term);
    percentiles_row(&t, "get", &b->looks->get);
    for (int i = 0; i < BENCH_LISTS; i++) {
        snprintf(name, sizeof name, "list, %s", bench_list_name(i));
        percentiles_row(&t, name, &b->looks->list[i]);
    }
    percentiles_row(&t, "cancel", &b->looks->cancel);
    return table_print(&t, stdout);
}

static bool speed_text(const bench *b, const numbers *n)
{
    const term *term = &b->c->term;
    char tasks[32], rate[32];
    table t;
    number_grouped(b->tasks, tasks);
    number_grouped((int64_t)(n->tasks_per_s + 0.5), rate);
    printf("%s%s tasks/s%s  %s: %s tasks in %.2f s on %s\n", term_on(term, BOLD), rate, term_off(term), b->mode, tasks,
           n->seconds, pawl_store_url(b->p));
    printf("%d producer%s x batch %d, %d node%s x %d workers, payload %zu bytes, audit %s\n\n", b->producers,
           b->producers == 1 ? "" : "s", b->batch, b->nodes, b->nodes == 1 ? "" : "s", b->workers, b->payload,
           pawl_audit_name(b->options.audit));
    latency_columns(&t, term);
    percentiles_row(&t, "dispatch call", &n->dispatch);
    if (b->runs) percentiles_row(&t, "until started", &n->start);
    if (b->runs) percentiles_row(&t, "until committed as done", &n->done);
    bool ok = table_print(&t, stdout);
    printf("\nper task: %.4f commits, %.0f bytes written, %.1f us of CPU\n", n->commits, n->bytes, n->cpu_s * 1000);
    return ok;
}

static int report_text(const bench *b, const numbers *n)
{
    const term *term = &b->c->term;
    if (!(b->looks ? looks_text(b) : speed_text(b, n))) return cli_no_memory(b->c);
    printf("%speak memory: %.1f MiB\n", b->looks ? "\n" : "", (double)n->rss_bytes / (1 << 20));
    printf("store: %s\n", *n->settings ? n->settings : "(says nothing about itself)");
    printf("lost: %s%lld%s\n", term_on(term, b->lost ? RED : GREEN), (long long)b->lost, term_off(term));
    return 0;
}

int bench_report(bench *b)
{
    pawl_error err;
    numbers *n = alloc_new(alloc_default(), sizeof *n);
    if (!n) return cli_no_memory(b->c);
    collect(b, n);
    int code = b->c->json ? report_json(b, n) : report_text(b, n);
    alloc_free(alloc_default(), n);
    if (code || !b->lost) return code;
    err_set(&err, PAWL_CORRUPT, "%lld of %lld acknowledged tasks are not in the store as they should be", (long long)b->lost,
            (long long)b->tasks);
    return cli_fail(b->c, &err);
}
