/* Pages of tasks, as a table or as JSON. */
#include "cli/cli.h"
#include <string.h>

static void when_text(const pawl_info *task, int64_t now_us, char out[WHEN_TEXT])
{
    char age[WHEN_TEXT];
    if (task->finished_us) {
        when_relative(task->finished_us, now_us, out);
    } else if (task->state == PAWL_LEASED && task->started_us) {
        when_age(now_us > task->started_us ? now_us - task->started_us : 0, age);
        snprintf(out, WHEN_TEXT, "for %.20s", age);
    } else if (task->run_at_us - now_us > 50 * 365 * PAWL_DAY) { /* its rate key is paused */
        snprintf(out, WHEN_TEXT, "when resumed");
    } else {
        when_relative(task->run_at_us > now_us ? task->run_at_us : task->created_us, now_us, out);
    }
}

static void detail_cell(table *t, const pawl_info *task)
{
    bool over = pawl_state_terminal(task->state);
    if (task->error && task->state != PAWL_SUCCEEDED) table_cell(t, DIM, "%s", task->error);
    else if (task->progress >= 0 && !over) {
        table_cell(t, PLAIN, "%d%% %s", task->progress, task->progress_text ? task->progress_text : "");
    } else table_cell(t, DIM, "%s", task->result_ref ? task->result_ref : task->key ? task->key : "");
}

static void row(table *t, const pawl_info *task, int64_t now_us)
{
    char id[PAWL_ID_TEXT], when[WHEN_TEXT];
    pawl_id_format(task->id, id);
    when_text(task, now_us, when);
    table_cell(t, PLAIN, "%s", id);
    table_cell(t, term_state(task->display), "%s", task->display);
    table_cell(t, PLAIN, "%s", task->type);
    table_cell(t, PLAIN, "%s", task->queue);
    if (task->max_attempts) table_cell(t, PLAIN, "%d/%d", task->attempt, task->max_attempts);
    else table_cell(t, PLAIN, "%d", task->attempt);
    table_cell(t, PLAIN, "%s", when);
    detail_cell(t, task);
}

static void begin(table *t, const cli *c)
{
    table_init(t, &c->term);
    table_column(t, "ID", COLUMN_LEFT);
    table_column(t, "STATE", COLUMN_LEFT);
    table_column(t, "TYPE", COLUMN_FLEX);
    table_column(t, "QUEUE", COLUMN_FLEX);
    table_column(t, "TRIES", COLUMN_RIGHT);
    table_column(t, "WHEN", COLUMN_LEFT);
    table_column(t, "DETAIL", COLUMN_FLEX);
}

/* What a person should know beyond the rows. */
static void footer(const cli *c, const pawl_page *page, size_t shown, bool dead)
{
    if (!shown && !page->next) {
        printf("%s\n", dead ? "no dead letters" : "no tasks match");
        return;
    }
    if (!page->next || !c->term.tty) return;
    printf("%sthere are more%s: --cursor %s goes on, --all shows everything%s\n", term_on(&c->term, DIM),
           page->partial ? " (the time for one look was used up)" : "", page->next, term_off(&c->term));
}

static int print_text(const cli *c, const pawl_page *page, size_t *shown, bool more_follows, bool dead)
{
    table t;
    int64_t now_us = cli_now_us();
    *shown += page->count;
    if (page->count) {
        begin(&t, c);
        for (size_t i = 0; i < page->count; i++) row(&t, page->tasks[i], now_us);
        if (!table_print(&t, stdout)) return cli_no_memory(c);
    }
    if (!more_follows) footer(c, page, *shown, dead);
    return 0;
}

static int print_json(const cli *c, const pawl_page *page)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "tasks");
    jsonw_array(&a.w);
    for (size_t i = 0; i < page->count; i++) task_json(&a.w, page->tasks[i], NULL, NULL);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", page->next);
    json_truth(&a.w, "partial", page->partial);
    json_instant(&a.w, "looked_to", page->looked_us);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

/* --all --json: one task per line, so that any number fits. */
static int print_lines(const cli *c, const pawl_page *page)
{
    int code = 0;
    for (size_t i = 0; i < page->count && !code; i++) {
        answer a;
        cli_json_begin(c, &a);
        a.w.pretty = false;
        task_json(&a.w, page->tasks[i], NULL, NULL);
        code = cli_json_end(c, &a);
    }
    return code;
}

int task_pages(const cli *c, page_fn fetch, void *ctx, pawl_filter *filter, bool all, bool dead)
{
    pawl_error err;
    char cursor[256];
    size_t shown = 0;
    if (all) filter->limit = 1000;
    for (;;) {
        pawl_page page;
        if (fetch(c, ctx, filter, &page, &err)) return cli_fail(c, &err);
        bool go_on = page.next && (all || (page.count == 0 && page.partial));
        int code = c->json ? all ? print_lines(c, &page) : print_json(c, &page) : print_text(c, &page, &shown, go_on, dead);
        if (page.next) snprintf(cursor, sizeof cursor, "%s", page.next);
        filter->cursor = cursor;
        if (code || !go_on || (c->json && !all)) return code;
    }
}

typedef struct local {
    pawl *p;
    pawl_page *page;
} local;

static pawl_status fetch_local(const cli *c, void *ctx, const pawl_filter *filter, pawl_page *page, pawl_error *err)
{
    local *l = ctx;
    pawl_page *next;
    (void)c;
    pawl_status status = pawl_list(l->p, filter, &next, err);
    if (status) return status;
    pawl_page_free(l->page);
    l->page = next;
    *page = *next;
    return PAWL_OK;
}

int task_page(const cli *c, pawl *p, pawl_filter *filter, bool all, bool dead)
{
    local l = {.p = p};
    int code = task_pages(c, fetch_local, &l, filter, all, dead);
    pawl_page_free(l.page);
    return code;
}
