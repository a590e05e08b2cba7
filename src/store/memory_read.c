/* Questions to the memory store. Answers are copies in the caller's arena.
 *
 * A list walks the tasks by id and lets go of the store's lock every LOOK_MAX tasks; it goes on from the id it had
 * reached, so it needs nothing to stand still meanwhile. Its cursor is the text of that id.
 */
#include "store/memory_family.h"
#include "store/search.h"
#include <stdlib.h>

#define LOOK_MAX 1000

/* ---- one task ---------------------------------------------------------------------------------------------------- */

typedef struct copying { /* remembers a failed copy */
    pawl_arena *arena;
    bool failed;
} copying;

static const char *text(copying *c, const char *from)
{
    const char *copy = pawl_arena_str(c->arena, from);
    c->failed |= from && !copy;
    return copy;
}

static pawl_bytes bytes(copying *c, pawl_bytes from)
{
    if (!from.data) return (pawl_bytes){0};
    const char *copy = pawl_arena_bytes(c->arena, from.data, from.len);
    c->failed |= !copy;
    return (pawl_bytes){copy, copy ? from.len : 0};
}

static void copy_body(copying *c, pawl_info *info, const pawl_body *b)
{
    info->id = b->id;
    info->type = text(c, b->type);
    info->queue = text(c, b->queue);
    info->tenant = b->tenant[0] ? text(c, b->tenant) : NULL;
    info->key = text(c, b->key);
    info->created_by = text(c, b->created_by);
    info->traceparent = text(c, b->traceparent);
    info->headers = text(c, b->headers);
    info->content_type = text(c, b->content_type);
    info->rate_key = bytes(c, b->rate_key);
    info->priority = b->priority;
    info->created_us = b->created_us;
    info->max_attempts = b->max_attempts;
    info->timeout_us = b->timeout_us;
    info->retry_of = b->retry_of;
    info->audit = b->audit;
}

static bool running(const mem_task *t) { return t->state == PAWL_LEASED && !t->not_started; }

/* What the last run left: of a finished task its own, else of the attempt before. */
static const mem_ending *last_ending(const mem_task *t)
{
    if (!mem_live(t)) return t->ending;
    return t->attempts ? t->attempts->ending : NULL;
}

static void copy_ending(copying *c, pawl_info *info, const mem_ending *e)
{
    if (!e) return;
    info->code = text(c, e->code);
    info->error = text(c, e->error);
    info->reason = text(c, e->reason);
    info->result_type = text(c, e->result_type);
    info->result_ref = text(c, e->result_ref);
}

static void copy_resolution(copying *c, pawl_info *info, const mem_resolution *r)
{
    if (!r) return;
    info->retried_as = r->retried_as;
    if (!r->resolved_us) return;
    info->resolved_us = r->resolved_us;
    info->resolved_by = text(c, r->by);
    info->note = text(c, r->note);
}

static pawl_info *copy_task(copying *c, const mem_task *t, int64_t now_us, int64_t boot_us)
{
    pawl_info *info = pawl_arena_alloc(c->arena, sizeof *info);
    if (!info) {
        c->failed = true;
        return NULL;
    }
    copy_body(c, info, t->body);
    info->state = (pawl_state)t->state;
    info->display = mem_display(t, now_us, boot_us);
    info->run_at_us = t->run_at_us;
    info->started_us = t->started_us;
    info->finished_us = t->finished_us;
    info->attempt = t->runs + running(t);
    info->failures = t->failures;
    info->rescues = t->rescues;
    info->interruptions = t->interruptions;
    info->fence = t->fence;
    info->node = t->node ? t->node->id : 0;
    info->node_name = t->node ? text(c, t->node->name) : NULL;
    info->cancel_asked = t->cancel_asked;
    info->progress = (int)t->progress;
    info->progress_text = text(c, t->progress_text);
    copy_ending(c, info, last_ending(t));
    copy_resolution(c, info, t->resolution);
    return info;
}

/* ---- attempts ---------------------------------------------------------------------------------------------------- */

static void copy_attempt(copying *c, pawl_attempt *to, const mem_attempt *a)
{
    CHECK(a && a->node);
    *to = (pawl_attempt){.number = a->number,
                         .outcome = pawl_attempt_outcome_name(a->outcome),
                         .started_us = a->started_us,
                         .finished_us = a->finished_us,
                         .fence = a->fence,
                         .node = a->node->id,
                         .node_name = text(c, a->node->name),
                         .code = a->ending ? text(c, a->ending->code) : NULL,
                         .error = a->ending ? text(c, a->ending->error) : NULL,
                         .log_lines = a->log_lines};
}

/* The run under way, or the one that finished the task, in the form of the others. */
static bool last_attempt(const mem_task *t, mem_attempt *a)
{
    *a = (mem_attempt){.node = t->node, .started_us = t->started_us, .fence = t->fence};
    if (running(t)) {
        a->number = t->runs + 1;
        a->outcome = PAWL_ATTEMPT_RUNNING;
    } else if (t->outcome != PAWL_ATTEMPT_NONE) {
        a->number = t->runs;
        a->outcome = (pawl_attempt_outcome)t->outcome;
        a->finished_us = t->run_finished_us;
        a->ending = t->ending;
        a->log_lines = t->log_lines;
    }
    return a->number > 0;
}

static void copy_attempts(copying *c, pawl_info *info, const mem_task *t)
{
    mem_attempt last;
    int count = 0;
    for (const mem_attempt *a = t->attempts; a; a = a->next == t->attempts ? NULL : a->next) count++;
    pawl_attempt *to = pawl_arena_alloc(c->arena, (size_t)(count + 1) * sizeof *to);
    if (!to) {
        c->failed = true;
        return;
    }
    const mem_attempt *a = t->attempts ? t->attempts->next : NULL;
    for (int i = 0; i < count; i++, a = a->next) copy_attempt(c, &to[i], a);
    if (last_attempt(t, &last)) copy_attempt(c, &to[count++], &last);
    info->attempts = to;
    info->attempts_count = count;
}

static pawl_status get(pawl_store *store, const mem_task *t, pawl_query *query, pawl_arena *arena)
{
    copying c = {.arena = arena};
    pawl_info *info = copy_task(&c, t, mem_now(store), mem_boot(store));
    if (info) {
        info->payload = bytes(&c, t->body->payload);
        if (!mem_live(t) && t->ending) info->result = bytes(&c, t->ending->result);
        copy_attempts(&c, info, t);
    }
    query->info = info;
    return c.failed ? PAWL_NO_MEMORY : PAWL_OK;
}

/* ---- trail ------------------------------------------------------------------------------------------------------- */

static size_t count_lines(const mem_log *log)
{
    size_t count = 0;
    for (size_t i = 0; i < log->len; i++) count += log->bytes[i] == '\n';
    return count;
}

/* "<us> <level digit> <text>\n" */
static void read_line(copying *c, const char *from, const char *end, pawl_log_line *line)
{
    char *after;
    line->at_us = strtoll(from, &after, 10);
    line->level = after + 1 < end ? (pawl_level)(after[1] - '0') : PAWL_INFO;
    const char *start = after + 3 < end ? after + 3 : end;
    line->text = pawl_arena_bytes(c->arena, start, (size_t)(end - start));
    c->failed |= !line->text;
}

static size_t read_log(copying *c, const mem_log *log, pawl_log_line *lines)
{
    size_t count = 0;
    const char *at = log->bytes, *end = log->bytes + log->len, *newline;
    for (; (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
        lines[count] = (pawl_log_line){.attempt = log->attempt, .sequence = (int)count + 1};
        read_line(c, at, newline, &lines[count++]);
    }
    return count;
}

static void copy_lines(copying *c, const mem_task *t, pawl_trail *trail)
{
    size_t count = 0;
    if (!t->logs) return;
    const mem_log *log = t->logs;
    do count += count_lines(log = log->next);
    while (log != t->logs);
    pawl_log_line *lines = pawl_arena_alloc(c->arena, count * sizeof *lines);
    if (!(trail->lines = lines)) {
        c->failed = true;
        return;
    }
    do trail->lines_count += read_log(c, log = log->next, lines + trail->lines_count);
    while (log != t->logs);
}

static void copy_rows(copying *c, const mem_task *t, pawl_trail *trail)
{
    size_t count = 0;
    if (!t->rows) return;
    const mem_row *row = t->rows;
    do count++, row = row->next;
    while (row != t->rows);
    pawl_audit_row *rows = pawl_arena_alloc(c->arena, count * sizeof *rows);
    if (!(trail->audit = rows)) {
        c->failed = true;
        return;
    }
    do {
        row = row->next;
        rows[trail->audit_count++] = (pawl_audit_row){.at_us = row->at_us,
                                                      .from = pawl_state_name(row->from),
                                                      .to = pawl_state_name(row->to),
                                                      .fence = row->fence,
                                                      .node_name = row->node ? text(c, row->node->name) : NULL,
                                                      .detail = text(c, row->detail)};
    } while (row != t->rows);
}

static pawl_status get_trail(const mem_task *t, pawl_query *query, pawl_arena *arena)
{
    copying c = {.arena = arena};
    pawl_trail *trail = pawl_arena_alloc(arena, sizeof *trail);
    if (!trail) return PAWL_NO_MEMORY;
    copy_lines(&c, t, trail);
    copy_rows(&c, t, trail);
    query->trail = trail;
    return c.failed ? PAWL_NO_MEMORY : PAWL_OK;
}

/* ---- list -------------------------------------------------------------------------------------------------------- */

typedef struct listing {
    pawl_store *store;
    const pawl_filter *filter;
    pawl_state state; /* NONE: any, or by display */
    int64_t now_us, boot_us, until_boot_us;
    pawl_info **found;
    int count, limit;
    pawl_id at; /* the last task looked at */
    bool more, partial;
    search search;
    copying copying;
} listing;

static bool holds_words(listing *l, const mem_task *t)
{
    search *s = &l->search;
    const pawl_body *b = t->body;
    const mem_ending *last = last_ending(t);
    search_next(s);
    search_look_text(s, t->kind->type);
    search_look_text(s, t->kind->queue->name);
    search_look_text(s, b->tenant);
    search_look_text(s, b->key);
    search_look(s, b->payload);
    if (last) search_look_text(s, last->code);
    if (last) search_look_text(s, last->error);
    return search_found(s);
}

static bool matches(listing *l, const mem_task *t)
{
    const pawl_filter *f = l->filter;
    if (l->state && t->state != l->state) return false;
    if (f->unresolved && (t->state != PAWL_FAILED || t->resolution)) return false;
    if (f->queue && strcmp(t->kind->queue->name, f->queue) != 0) return false;
    if (f->type && strcmp(t->kind->type, f->type) != 0) return false;
    if (f->tenant && strcmp(t->body->tenant, f->tenant) != 0) return false;
    if (f->key && (!t->body->key || strcmp(t->body->key, f->key) != 0)) return false;
    if (f->since_us && t->body->created_us < f->since_us) return false;
    if (f->until_us && t->body->created_us >= f->until_us) return false;
    if (!l->state && f->state && strcmp(mem_display(t, l->now_us, l->boot_us), f->state) != 0) return false;
    return !f->search || holds_words(l, t);
}

/* Looks at some tasks behind l->at. false: that was all, the page is full, time is up, or memory. */
static bool look(listing *l, mem *m)
{
    bool up = l->filter->oldest_first;
    const mem_task *t = mem_after(m, l->at, up);
    for (int i = 0; t && i < LOOK_MAX; i++) {
        bool hit = matches(l, t);
        if (hit && l->count == l->limit) {
            l->more = true;
            return false;
        }
        if (hit && !(l->found[l->count++] = copy_task(&l->copying, t, l->now_us, l->boot_us))) return false;
        l->at = t->id;
        tree_node *node = up ? tree_next(&t->by_id) : tree_prev(&t->by_id);
        t = node ? task_of_id(node) : NULL;
    }
    if (t && l->until_boot_us && mem_boot(l->store) >= l->until_boot_us) l->more = l->partial = true;
    return t && !l->more && !l->copying.failed;
}

static pawl_status begin_list(listing *l, pawl_error *err)
{
    static const char *const displays[] = {"scheduled", "retrying", "throttled", "blocked", "stale", "running"};
    const pawl_filter *f = l->filter;
    bool known = !f->state || pawl_state_parse(f->state, &l->state);
    for (size_t i = 0; !known && i < sizeof displays / sizeof *displays; i++) known = strcmp(f->state, displays[i]) == 0;
    if (!known) return err_set(err, PAWL_INVALID, "no task can be in state \"%s\"", f->state);
    l->at = f->oldest_first ? 0 : INT64_MAX;
    if (f->cursor && !pawl_id_parse(f->cursor, &l->at))
        return err_set(err, PAWL_INVALID, "\"%s\" is not a cursor of this store: pass `next` of the page before", f->cursor);
    l->limit = f->limit > 0 ? f->limit : 100;
    search_begin(&l->search, f->search);
    l->found = pawl_arena_alloc(l->copying.arena, (size_t)l->limit * sizeof *l->found);
    return l->found ? PAWL_OK : mem_no_memory(err);
}

static pawl_status end_list(listing *l, pawl_query *query, pawl_error *err)
{
    char next[PAWL_ID_TEXT];
    pawl_page *page = pawl_arena_alloc(l->copying.arena, sizeof *page);
    if (!page || l->copying.failed) return mem_no_memory(err);
    page->count = (size_t)l->count;
    page->tasks = (const pawl_info *const *)l->found;
    page->partial = l->partial;
    pawl_id_format(l->at, next);
    if (l->more && !(page->next = pawl_arena_str(l->copying.arena, next))) return mem_no_memory(err);
    query->page = page;
    return PAWL_OK;
}

static pawl_status list_tasks(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    listing l = {
        .store = store, .filter = query->filter, .copying.arena = arena, .now_us = mem_now(store), .boot_us = mem_boot(store)};
    pawl_status status = begin_list(&l, err);
    if (status) return status;
    if (query->deadline_us > 0) l.until_boot_us = mem_add(l.boot_us, query->deadline_us);
    for (bool on = true; on;) {
        mem *m = mem_enter(store);
        on = look(&l, m);
        mem_exit(m);
    }
    return end_list(&l, query, err);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void copy_node(copying *c, pawl_store *store, const mem_node *n, pawl_node_info *to)
{
    int64_t boot_us = mem_boot(store);
    *to = (pawl_node_info){.id = n->id,
                           .name = text(c, n->name),
                           .pid = n->pid,
                           .queues = text(c, n->queues),
                           .leases = n->leases,
                           .born_us = n->born_us,
                           .draining = n->alive && n->draining};
    to->alive = n->alive && (n->handle || !mem_node_lapsed(n, boot_us));
    if (n->leases > 0) to->expires_us = mem_now(store) + n->expires_boot_us - boot_us;
}

static pawl_status get_nodes(pawl_store *store, const mem *m, pawl_query *query, pawl_arena *arena)
{
    copying c = {.arena = arena};
    pawl_nodes *nodes = pawl_arena_alloc(arena, sizeof *nodes);
    pawl_node_info *infos = pawl_arena_alloc(arena, m->nodes.count * sizeof *infos);
    const char **types = pawl_arena_alloc(arena, m->nodes.count * sizeof *types);
    pawl_bytes *told = pawl_arena_alloc(arena, (m->nodes.count + 1) * sizeof *told);
    if (!nodes || !infos || !types || !told) return PAWL_NO_MEMORY;
    list_each(link, &m->node_list) {
        const mem_node *n = container_of(link, mem_node, link);
        if (n->swept) continue;
        told[nodes->count] = bytes(&c, n->told);
        types[nodes->count] = text(&c, n->types);
        copy_node(&c, store, n, &infos[nodes->count++]);
    }
    nodes->nodes = infos;
    query->nodes = nodes;
    query->node_types = types;
    query->node_told = told;
    return c.failed ? PAWL_NO_MEMORY : PAWL_OK;
}

/* ---- the operator log -------------------------------------------------------------------------------------------- */

static const char *action_name(const mem_operator *o)
{
    if (o->action) return o->action;
    switch (o->kind) {
    case PAWL_OP_CANCEL: return "cancel";
    case PAWL_OP_RETRY: return "retry";
    case PAWL_OP_ACK: return "acknowledge";
    case PAWL_OP_QUEUE: return o->pause ? "pause" : "resume";
    default: return "limit";
    }
}

static pawl_status get_acts(const mem *m, pawl_query *query, pawl_arena *arena)
{
    copying c = {.arena = arena};
    pawl_acts *page = pawl_arena_alloc(arena, sizeof *page);
    pawl_act *acts = pawl_arena_alloc(arena, (size_t)query->limit * sizeof *acts);
    if (!page || !acts) return PAWL_NO_MEMORY;
    const list *at = m->operators.prev;
    for (; at != &m->operators && page->count < (size_t)query->limit; at = at->prev) {
        const mem_operator *o = container_of(at, mem_operator, age);
        if (query->before && o->number >= query->before) continue;
        acts[page->count++] = (pawl_act){o->at_us, text(&c, o->by), action_name(o), text(&c, o->what), o->id};
        page->next = o->number;
    }
    if (at == &m->operators) page->next = 0;
    page->acts = acts;
    query->acts = page;
    return c.failed ? PAWL_NO_MEMORY : PAWL_OK;
}

/* ---- the callback ------------------------------------------------------------------------------------------------ */

static pawl_status ask(pawl_store *store, mem *m, pawl_query *query, pawl_arena *arena)
{
    const mem_task *t;
    switch (query->kind) {
    case PAWL_QUERY_STATS:
        return mem_stats(m, query->window_us, query->name, mem_now(store), mem_boot(store), arena, &query->stats);
    case PAWL_QUERY_NODES: return get_nodes(store, m, query, arena);
    case PAWL_QUERY_LIMITS: return mem_limits(m, query, mem_now(store), arena, &query->limits);
    case PAWL_QUERY_ACTS: return get_acts(m, query, arena);
    case PAWL_QUERY_PLACES: return mem_places(m, query, arena, &query->places);
    case PAWL_QUERY_DUE:
    case PAWL_QUERY_SCHEDULE:
    case PAWL_QUERY_SCHEDULES: return mem_schedules_read(m, query, mem_now(store), arena);
    case PAWL_QUERY_FEED: query->draining = mem_draining(m, query->id); return PAWL_OK;
    case PAWL_QUERY_SETTINGS: query->text = "store=memory durable=no"; return PAWL_OK;
    default: break;
    }
    if (!(t = mem_find(m, query->id))) return PAWL_NOT_FOUND;
    if (query->kind == PAWL_QUERY_GET) return get(store, t, query, arena);
    if (query->kind == PAWL_QUERY_TRAIL) return get_trail(t, query, arena);
    query->state = (pawl_state)t->state;
    query->fence = t->fence;
    return PAWL_OK;
}

pawl_status memory_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    if (query->kind == PAWL_QUERY_LIST) return list_tasks(store, query, arena, err);
    mem *m = mem_enter(store);
    pawl_status status;
    switch (query->kind) {
    case PAWL_QUERY_BATCH:
    case PAWL_QUERY_BATCHES: status = mem_batches_read(m, query, arena, err); break;
    case PAWL_QUERY_RELATIVES: status = mem_relatives(m, query->relatives, arena, err); break;
    default: status = ask(store, m, query, arena); break;
    }
    mem_exit(m);
    if (status == PAWL_NO_MEMORY) return mem_no_memory(err);
    if (status == PAWL_INVALID) return err_set(err, status, "the cursor is none that a page of limits ended with");
    if (status == PAWL_NOT_FOUND && query->kind == PAWL_QUERY_SCHEDULE)
        return err_set(err, PAWL_NOT_FOUND, "there is no schedule '%s'", query->name);
    if (status == PAWL_NOT_FOUND && query->kind != PAWL_QUERY_BATCH) {
        char id[PAWL_ID_TEXT];
        pawl_id_format(query->id, id);
        return err_set(err, PAWL_NOT_FOUND, "no task \"%s\" is stored: it never was, or its time of retention is over", id);
    }
    return status;
}
