/* Lists of tasks.
 *
 * A search finds words in payloads as they are stored. Who may not see a secret must not find out about it by asking for its beginning, so a task
 * counts as found only if it has the words as it is shown. Pages from which something was taken away are filled up from the next ones, so that
 * nobody sees that.
 */
#include "base/alloc.h"
#include "server/parts.h"
#include "store/search.h"
#include <string.h>
#include <strings.h>
#include <time.h>

#define PAGE 100                         /* as pawl_list has it */
#define FILL_US (100 * PAWL_MILLISECOND) /* a page is not filled up any longer, nor longer than it may take */

static bool id_begins(const pawl_info *task, const char *text)
{
    char id[PAWL_ID_TEXT];
    pawl_id_format(task->id, id);
    return strncasecmp(id, text, strlen(text)) == 0;
}

static void look_at_text(search *s, const char *text)
{
    buf masked;
    buf_init(&masked, alloc_default(), ANSWER_MAX);
    bool hides = text && redact(encode_hidden(), REDACT_TEXT, pawl_str(text), &masked);
    search_look_text(s, hides ? buf_text(&masked) : text);
    buf_done(&masked);
}

static void look_at_payload(call *c, search *s, pawl_id id)
{
    pawl_info *whole;
    pawl_error err;
    buf masked;
    if (pawl_get(c->s->options.p, id, &whole, &err)) return;
    buf_init(&masked, alloc_default(), ANSWER_MAX);
    bool hides = redact_bytes(encode_hidden(), whole->payload, &masked);
    search_look(s, hides ? (pawl_bytes){buf_text(&masked), masked.len} : whole->payload);
    buf_done(&masked);
    pawl_info_free(whole);
}

static bool has_words(call *c, const char *text, const pawl_info *task)
{
    search s;
    if (!text || encode_hidden()->count == 0 || id_begins(task, text)) return true;
    search_begin(&s, text);
    const char *const names[] = {task->type, task->queue, task->tenant, task->key, task->code};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) search_look_text(&s, names[i]);
    look_at_text(&s, task->error);
    if (!search_found(&s)) look_at_payload(c, &s, task->id);
    return search_found(&s);
}

typedef struct listing {
    call *c;
    pawl_filter filter;
    json_writer *w;
    const char *next;
    bool partial, full; /* full: there is no need for another page */
    int64_t looked_us;
    int left;
} listing;

static pawl_status one_page(listing *l, pawl_error *err)
{
    pawl_page *page;
    size_t taken = 0;
    l->filter.limit = l->left;
    pawl_status status = pawl_list(l->c->s->options.p, &l->filter, &page, err);
    if (status) return status;
    for (size_t i = 0; i < page->count; i++) {
        if (!has_words(l->c, l->filter.search, page->tasks[i])) continue;
        task_json(l->w, page->tasks[i], NULL, NULL);
        taken++;
    }
    l->left -= (int)taken;
    l->full = l->left == 0 || taken == page->count || !page->next;
    l->partial = page->partial;
    l->looked_us = page->looked_us;
    l->next = page->next ? pawl_arena_str(l->c->arena, page->next) : NULL;
    l->filter.cursor = l->next;
    pawl_page_free(page);
    return PAWL_OK;
}

static int64_t monotonic_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000;
}

static pawl_status pages(listing *l, pawl_error *err)
{
    int64_t within_us = l->filter.within_us, until_us = monotonic_us() + (within_us && within_us < FILL_US ? within_us : FILL_US);
    pawl_status status = one_page(l, err);
    while (!status && !l->full && !l->partial) {
        if (monotonic_us() > until_us) l->partial = true;
        else status = one_page(l, err);
    }
    return status;
}

static void list_tasks(call *c, bool dead)
{
    listing l = {.c = c, .filter = {.unresolved = dead}};
    pawl_error err;
    if (!call_query(c, list_query, &l.filter) || !call_tenant(c, &l.filter.tenant)) return;
    if (dead && !l.filter.state) l.filter.state = "failed";
    l.left = l.filter.limit ? l.filter.limit : PAGE;
    reply a;
    reply_begin(&a);
    l.w = &a.w;
    jsonw_object(&a.w);
    jsonw_key(&a.w, "tasks");
    jsonw_array(&a.w);
    if (pages(&l, &err)) {
        buf_done(&a.out);
        call_fail(c, &err);
        return;
    }
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", l.next);
    json_truth(&a.w, "partial", l.partial);
    json_instant(&a.w, "looked_to", l.looked_us);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

void route_task_list(call *c) { list_tasks(c, false); }
void route_dead_list(call *c) { list_tasks(c, true); }
