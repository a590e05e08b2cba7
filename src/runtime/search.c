/* Text in tasks. Nothing indexes it, so a search looks at one page of tasks that match otherwise, each as a whole, until it has found enough,
 * SEARCH_US are over or the page is; it says how far it came, and the next call goes on there. */
#include "runtime/runtime.h"

#define SEARCH_US PAWL_SECOND

static bool same_letter(char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == (b >= 'A' && b <= 'Z' ? b + 32 : b); }

static bool within(pawl_bytes in, const char *text)
{
    size_t n = strlen(text);
    for (size_t at = 0; at + n <= in.len; at++) {
        size_t i = 0;
        while (i < n && same_letter(in.data[at + i], text[i])) i++;
        if (i == n) return true;
    }
    return false;
}

/* What a list has of a task. */
static bool in_row(const pawl_info *t, const char *text)
{
    char id[PAWL_ID_TEXT];
    pawl_id_format(t->id, id);
    const char *const parts[] = {id,         t->type,       t->queue, t->tenant,    t->key,           t->error,  t->code,
                                 t->headers, t->created_by, t->note,  t->node_name, t->progress_text, t->reason, t->result_ref};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i] && within(pawl_str(parts[i]), text)) return true;
    }
    return within(t->rate_key, text);
}

/* One that is gone meanwhile, or cannot be read, has nothing. */
static bool in_body(runtime *rt, pawl_id id, const char *text)
{
    pawl_info *whole;
    if (look_get(rt, id, &whole, NULL)) return false;
    bool found = within(whole->payload, text) || within(whole->result, text);
    pawl_info_free(whole);
    return found;
}

bool search_page(runtime *rt, const char *text, int limit, pawl_arena *arena, pawl_page *page)
{
    size_t count = 0, at = 0;
    int64_t until = runtime_until(SEARCH_US);
    const pawl_info **found = pawl_arena_alloc(arena, ((size_t)limit + 1) * sizeof *found);
    char *next = pawl_arena_alloc(arena, PAWL_ID_TEXT);
    if (!found || !next) return false;
    for (bool late = false; at < page->count && count < (size_t)limit && !late; at++, late = runtime_until(0) >= until) {
        const pawl_info *t = page->tasks[at];
        if (in_row(t, text) || in_body(rt, t->id, text)) found[count++] = t;
        page->looked_us = t->created_us;
    }
    page->looked = (int64_t)at;
    if (at < page->count) {
        pawl_id_format(page->tasks[at - 1]->id, next);
        page->next = next;
        page->partial = count < (size_t)limit;
    }
    page->tasks = found;
    page->count = count;
    return true;
}
