/* A list that looks for words.
 *
 * Whoever pastes the id, the key or the type of a task wants that task, not whatever mentions it; and indexes find it at once, while words
 * within payloads are found only by looking into all of them. So a search is a row of lists: the tasks whose id begins so, those that have
 * the text as their key, as their type, as their queue, as their tenant, and at last all that hold the words. A task that an earlier list has is
 * left out of the later ones. The cursor is the letter of a list and the store's own cursor within it.
 *
 * A page takes as many lists as fit into it, and into the time that the filter gives: SEARCH_US at most.
 */
#include "base/idgen.h"
#include "runtime/runtime.h"
#include <stdio.h>

#define SEARCH_US (100 * PAWL_MILLISECOND) /* a page, and what the last look takes */
#define LOOK_US (20 * PAWL_MILLISECOND)    /* what a list gets at least, so that each page comes forward */
#define PREFIX_MIN 4                       /* digits of an id that say enough */

static const char stages[] = "iktqns"; /* id, key, type, queue, tenant, words */

typedef struct finder {
    runtime *rt;
    const pawl_filter *filter;
    answer *a;
    pawl_id low, high; /* the ids that begin so; high 0: the text is no beginning of an id */
    const char *stage;
    char cursor[PAWL_ID_TEXT]; /* within it; "": from its beginning */
    const pawl_info **found;
    size_t count;
    int64_t until_us;
} finder;

/* ---- ids by how they begin -------------------------------------------------------------------------------------------------- */

static pawl_id filled(const char *text, size_t n, char digit)
{
    char whole[PAWL_ID_TEXT];
    pawl_id id = 0;
    memset(whole, digit, sizeof whole - 1);
    memcpy(whole, text, n);
    whole[sizeof whole - 1] = '\0';
    return pawl_id_parse(whole, &id) ? id : 0;
}

static void read_ids(finder *s)
{
    size_t n = strlen(s->filter->search);
    if (n < PREFIX_MIN || n >= PAWL_ID_TEXT) return;
    s->low = filled(s->filter->search, n, '0');
    s->high = filled(s->filter->search, n, 'Z');
}

static bool in_range(const finder *s, pawl_id id) { return id >= s->low && id <= s->high; }

/* From where a list by id comes to the range at once. */
static void enter_range(const finder *s, char cursor[PAWL_ID_TEXT])
{
    pawl_id before = s->filter->oldest_first ? s->low - 1 : s->high < INT64_MAX ? s->high + 1 : 0;
    if (before > 0) pawl_id_format(before, cursor);
}

/* ---- stages ------------------------------------------------------------------------------------------------------------------ */

static bool same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* The filter of a stage; false: it has nothing to look for. */
static bool stage_filter(const finder *s, char stage, pawl_filter *f)
{
    const char *text = s->filter->search;
    *f = *s->filter;
    f->search = stage == 's' ? text : NULL;
    const char **member = stage == 'k'   ? &f->key
                          : stage == 't' ? &f->type
                          : stage == 'q' ? &f->queue
                          : stage == 'n' ? &f->tenant
                                         : NULL;
    if (!member) return stage == 's' || s->high > 0;
    if (*member || !name_valid(text, NULL)) return false;
    *member = text;
    return true;
}

static bool stage_has(const finder *s, char stage, const pawl_info *task)
{
    const pawl_filter *f = s->filter;
    switch (stage) {
    case 'i': return in_range(s, task->id);
    case 'k': return !f->key && same(task->key, f->search);
    case 't': return !f->type && same(task->type, f->search);
    case 'q': return !f->queue && same(task->queue, f->search);
    case 'n': return !f->tenant && same(task->tenant, f->search);
    default: return false;
    }
}

static bool known(const finder *s, const pawl_info *task)
{
    for (const char *earlier = stages; earlier < s->stage; earlier++)
        if (stage_has(s, *earlier, task)) return true;
    return false;
}

static void take(finder *s, const pawl_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        pawl_info *task = (pawl_info *)page->tasks[i];
        if ((*s->stage == 'i' && !in_range(s, task->id)) || known(s, task)) continue;
        look_complete(task);
        s->found[s->count++] = task;
    }
}

/* Where the stage goes on; "" and the next stage if it does not. */
static void go_on(finder *s, const char *next)
{
    pawl_id at = 0;
    bool over = !next || !pawl_id_parse(next, &at);
    if (*s->stage == 'i') over = over || (s->filter->oldest_first ? at >= s->high : at <= s->low);
    snprintf(s->cursor, sizeof s->cursor, "%s", over ? "" : next);
    if (over) s->stage++;
}

static pawl_status look(finder *s, pawl_error *err)
{
    pawl_filter f;
    char cursor[PAWL_ID_TEXT] = "";
    if (!stage_filter(s, *s->stage, &f)) {
        s->stage++;
        return PAWL_OK;
    }
    memcpy(cursor, s->cursor, sizeof cursor);
    if (*s->stage == 'i' && !cursor[0]) enter_range(s, cursor);
    f.cursor = cursor[0] ? cursor : NULL;
    f.limit = s->filter->limit - (int)s->count;
    int64_t left_us = s->until_us - runtime_until(0);
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &f, .deadline_us = left_us > LOOK_US ? left_us : LOOK_US};
    pawl_status status = look_read(s->rt, &query, s->a->arena, err);
    if (status) return status;
    take(s, query.page);
    go_on(s, query.page->next);
    return PAWL_OK;
}

/* ---- the page ---------------------------------------------------------------------------------------------------------------- */

static pawl_status begin(finder *s, pawl_error *err)
{
    const char *cursor = s->filter->cursor;
    pawl_id at;
    s->stage = stages;
    read_ids(s);
    if (!cursor) return PAWL_OK;
    s->stage = cursor[0] ? strchr(stages, cursor[0]) : NULL;
    if (!s->stage || (cursor[1] && !pawl_id_parse(cursor + 1, &at)))
        return err_set(err, PAWL_INVALID, "\"%s\" is not a cursor of a search: pass `next` of the page before", cursor);
    snprintf(s->cursor, sizeof s->cursor, "%s", cursor + 1);
    return PAWL_OK;
}

static pawl_status give(finder *s, pawl_page **out, pawl_error *err)
{
    pawl_page page = {.count = s->count, .tasks = s->found};
    char next[PAWL_ID_TEXT + 1];
    pawl_id at;
    snprintf(next, sizeof next, "%c%s", *s->stage, s->cursor);
    if (*s->stage && !(page.next = pawl_arena_str(s->a->arena, next))) {
        look_drop(s->a);
        return err_set(err, PAWL_NO_MEMORY, "could not look: out of memory");
    }
    page.partial = page.next && s->count < (size_t)s->filter->limit;
    if (*s->stage == 's' && pawl_id_parse(s->cursor, &at)) page.looked_us = id_created_us(at);
    return look_give(s->a, &page, sizeof page, out, err);
}

pawl_status search_list(runtime *rt, const pawl_filter *filter, pawl_page **out, pawl_error *err)
{
    int64_t within_us = filter->within_us && filter->within_us < SEARCH_US ? filter->within_us : SEARCH_US;
    finder s = {.rt = rt, .filter = filter, .until_us = runtime_until(within_us)};
    pawl_status status = begin(&s, err);
    if (status) return status;
    s.a = look_answer(rt);
    s.found = s.a ? pawl_arena_alloc(s.a->arena, (size_t)filter->limit * sizeof(const pawl_info *)) : NULL;
    if (!s.found) status = err_set(err, PAWL_NO_MEMORY, "could not look: out of memory");
    while (!status && *s.stage && s.count < (size_t)filter->limit && runtime_until(0) < s.until_us) status = look(&s, err);
    if (!status) return give(&s, out, err);
    look_drop(s.a);
    return status;
}
