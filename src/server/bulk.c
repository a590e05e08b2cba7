/* POST /v1/tasks/bulk: many tasks in one request, and an answer for each.
 *
 *     application/json       an array: one commit
 *     application/x-ndjson   a task a line: read as it comes, committed GROUP_TASKS at a time. While a group is on its way the connection
 *                            is not read from, so memory holds one group however long the stream is
 *
 * Items that are wrong are told so, and the others are stored. The engine refuses a group with a wrong item as a whole: then it is
 * halved until the culprit stands alone. When the store fails in between, the answer still tells of each item what became of it.
 */
#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "server/parts.h"
#include <string.h>

#define GROUP_TASKS 1000
#define GROUP_BYTES (1u << 20)
#define LINE_MAX_BYTES (2u << 20)
#define ITEMS_MAX 100000 /* answers to one stream */
#define ARENA_MAX (64u << 20)
#define ALONE "task 1 of 1: " /* what the engine says of a task that stands alone */

typedef struct item {
    pawl_status status;
    const char *detail; /* in the arena */
    size_t task;        /* its place among the tasks, if status is OK */
} item;

typedef struct bulk {
    call *c;
    pawl_arena *arena;
    pawl_task *tasks;
    pawl_receipt *receipts;
    item *items;
    size_t room, items_count, tasks_count;
    int64_t number; /* of items before this group */
    int64_t stored, refused;
    pawl_error failure; /* of the store: nothing more is tried */
    reply out;
    buf pending; /* of a stream: lines that were not looked at */
    bool ended;  /* the stream's end is there */
} bulk;

static bool bulk_room(bulk *b, size_t items)
{
    if (items <= b->room) return true;
    pawl_task *tasks = alloc_new(alloc_default(), items * sizeof *tasks);
    pawl_receipt *receipts = alloc_new(alloc_default(), items * sizeof *receipts);
    item *list = alloc_new(alloc_default(), items * sizeof *list);
    if (tasks && receipts && list) {
        alloc_free(alloc_default(), b->tasks);
        alloc_free(alloc_default(), b->receipts);
        alloc_free(alloc_default(), b->items);
        b->tasks = tasks, b->receipts = receipts, b->items = list, b->room = items;
        return true;
    }
    alloc_free(alloc_default(), tasks);
    alloc_free(alloc_default(), receipts);
    alloc_free(alloc_default(), list);
    return false;
}

static bulk *bulk_new(call *c)
{
    bulk *b = alloc_new(alloc_default(), sizeof *b);
    if (!b) return NULL;
    b->c = c;
    b->arena = arena_new(alloc_default(), ARENA_MAX);
    buf_init(&b->pending, alloc_default(), GROUP_BYTES + LINE_MAX_BYTES + (64u << 10));
    reply_begin(&b->out);
    jsonw_object(&b->out.w);
    jsonw_key(&b->out.w, "results");
    jsonw_array(&b->out.w);
    c->bulk = b;
    if (b->arena && bulk_room(b, GROUP_TASKS)) return b;
    bulk_free(c);
    return NULL;
}

void bulk_free(call *c)
{
    bulk *b = c->bulk;
    if (!b) return;
    alloc_free(alloc_default(), b->tasks);
    alloc_free(alloc_default(), b->receipts);
    alloc_free(alloc_default(), b->items);
    arena_free(b->arena);
    buf_done(&b->pending);
    buf_done(&b->out.out);
    alloc_free(alloc_default(), b);
    c->bulk = NULL;
}

/* ---- items in ----------------------------------------------------------------------------------------------------------------- */

static void refuse_item(bulk *b, item *it, const pawl_error *err)
{
    it->status = err->status;
    it->detail = pawl_arena_bytes(b->arena, err->message, strlen(err->message));
}

static pawl_status own_tenant(const call *c, pawl_task *task, pawl_error *err)
{
    if (!*c->who.tenant) return PAWL_OK;
    if (task->tenant && strcmp(task->tenant, c->who.tenant) != 0)
        return err_set(err, PAWL_DENIED, "the token is bound to tenant \"%s\"", c->who.tenant);
    task->tenant = c->who.tenant;
    return PAWL_OK;
}

static void add_item(bulk *b, json value)
{
    CHECK(b->items_count < b->room);
    pawl_error err;
    item *it = &b->items[b->items_count++];
    pawl_task *task = &b->tasks[b->tasks_count];
    *it = (item){.task = b->tasks_count};
    pawl_status status = task_read(value, &(pawl_task){.created_by = call_by(b->c)}, b->arena, task, &err);
    if (!status) status = own_tenant(b->c, task, &err);
    if (!status) status = call_kin(b->c, task, &err);
    if (status) refuse_item(b, it, &err);
    else b->tasks_count++;
}

static void add_line(bulk *b, pawl_bytes line)
{
    size_t where;
    const char *what;
    pawl_error err;
    if (json_valid(line, &where, &what)) {
        add_item(b, json_parse(line));
        return;
    }
    item *it = &b->items[b->items_count++];
    *it = (item){0};
    err_set(&err, PAWL_INVALID, "not JSON: %s at byte %zu", what, where + 1);
    refuse_item(b, it, &err);
}

/* ---- commits ------------------------------------------------------------------------------------------------------------------ */

/* All of [from, from + n), and what became of each. */
static void dispatch_range(bulk *b, size_t from, size_t n)
{
    pawl_error err;
    pawl_status status = b->failure.status;
    if (!status) {
        memset(b->receipts + from, 0, n * sizeof *b->receipts);
        status = pawl_dispatch_bulk(b->c->s->options.p, b->tasks + from, n, b->receipts + from, &err);
    } else {
        err = b->failure;
    }
    if (!status) return;
    bool culprit = status == PAWL_INVALID || status == PAWL_TOO_LARGE;
    if (culprit && n > 1) {
        dispatch_range(b, from, n / 2);
        dispatch_range(b, from + n / 2, n - n / 2);
        return;
    }
    if (!culprit) b->failure = err;
    const char *said = strncmp(err.message, ALONE, sizeof ALONE - 1) == 0 ? err.message + sizeof ALONE - 1 : err.message;
    for (size_t i = 0; i < n; i++) {
        pawl_receipt *r = &b->receipts[from + i];
        if (status != PAWL_UNKNOWN || !r->status) *r = (pawl_receipt){.status = status};
    }
    for (size_t i = 0; culprit && i < b->items_count; i++) {
        if (b->items[i].status == PAWL_OK && b->items[i].task == from)
            b->items[i].detail = pawl_arena_bytes(b->arena, said, strlen(said));
    }
}

static void write_item(bulk *b, const item *it)
{
    json_writer *w = &b->out.w;
    const pawl_receipt *r = it->status ? NULL : &b->receipts[it->task];
    pawl_status status = r ? r->status : it->status;
    jsonw_object(w);
    json_number(w, "index", b->number++);
    if (r && status == PAWL_OK) {
        b->stored++;
        json_id(w, "id", r->id);
        json_text(w, "outcome", pawl_dispatched_name(r->outcome));
    } else {
        b->refused++;
        if (r && r->id) json_id(w, "id", r->id);
        json_text(w, "status", pawl_status_name(status));
        json_shown(w, "detail", it->detail ? it->detail : *b->failure.message ? b->failure.message : pawl_status_text(status));
    }
    jsonw_end_object(w);
}

static void commit_group(bulk *b)
{
    if (b->tasks_count) dispatch_range(b, 0, b->tasks_count);
    int64_t before = b->stored;
    for (size_t i = 0; i < b->items_count; i++) write_item(b, &b->items[i]);
    atomic_fetch_add_explicit(&b->c->s->counters.enqueued, b->stored - before, memory_order_relaxed);
    b->items_count = b->tasks_count = 0;
    arena_reset(b->arena);
}

/* ---- the stream --------------------------------------------------------------------------------------------------------------- */

static bool blank(pawl_bytes line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (!strchr(" \t\r", line.data[i])) return false;
    }
    return true;
}

/* One line that cannot be taken stands for the rest of the stream: nothing behind it is read. */
static void stop_stream(bulk *b, pawl_status status, const char *why)
{
    pawl_error err;
    if (b->failure.status) return;
    err_set(&err, status, "%s", why);
    commit_group(b);
    item *it = &b->items[b->items_count++];
    *it = (item){0};
    refuse_item(b, it, &err);
    commit_group(b);
    b->failure = err;
}

static void take_lines(bulk *b)
{
    size_t at = 0;
    while (!b->failure.status && at < b->pending.len) {
        const char *begin = b->pending.data + at, *end = memchr(begin, '\n', b->pending.len - at);
        if (!end && !b->ended) break;
        pawl_bytes line = {begin, end ? (size_t)(end - begin) : b->pending.len - at};
        at += line.len + 1;
        if (blank(line)) continue;
        if (b->number + (int64_t)b->items_count >= ITEMS_MAX) {
            stop_stream(b, PAWL_TOO_LARGE,
                        "one stream takes 100000 tasks: this line and those behind it were not read; use another request");
            break;
        }
        if (line.len > LINE_MAX_BYTES) {
            stop_stream(b, PAWL_TOO_LARGE, "the line is longer than 2 MiB: it and those behind it were not read");
            break;
        }
        add_line(b, line);
        if (b->items_count == GROUP_TASKS) commit_group(b);
    }
    commit_group(b);
    size_t left = at < b->pending.len && !b->failure.status ? b->pending.len - at : 0;
    if (left) memmove(b->pending.data, b->pending.data + at, left);
    if (left > LINE_MAX_BYTES)
        stop_stream(b, PAWL_TOO_LARGE, "the line is longer than 2 MiB: it and those behind it were not read");
    b->pending.len = b->failure.status ? 0 : left;
}

size_t bulk_data(call *c, const char *data, size_t n)
{
    bulk *b = c->bulk ? c->bulk : bulk_new(c);
    if (!b || b->failure.status) return n; /* thrown away; the answer says why */
    if (!buf_add(&b->pending, data, n)) return err_set(&b->failure, PAWL_NO_MEMORY, "out of memory"), n;
    if (b->pending.len < GROUP_BYTES) return n;
    http_hold(c->r);
    if (!desk_take(&c->s->desk, c)) {
        err_set(&b->failure, PAWL_UNAVAILABLE, "the server has too much to do: try again");
        http_go_on(c->r);
    }
    return n;
}

/* ---- the end ------------------------------------------------------------------------------------------------------------------ */

static void answer(bulk *b)
{
    call *c = b->c;
    json_writer *w = &b->out.w;
    if (b->failure.status && !b->stored && b->failure.status != PAWL_TOO_LARGE && b->failure.status != PAWL_UNKNOWN) {
        pawl_error err = b->failure;
        bulk_free(c);
        call_fail(c, &err);
        return;
    }
    jsonw_end_array(w);
    json_number(w, "stored", b->stored);
    json_number(w, "refused", b->refused);
    jsonw_end_object(w);
    reply out = b->out;
    reply_begin(&b->out); /* what bulk_free may free */
    bulk_free(c);
    reply_end(c, &out, 200);
}

static bool take_array(bulk *b, pawl_bytes body)
{
    size_t where, count = 0, at = 0;
    const char *what;
    json key, value;
    call *c = b->c;
    if (!json_valid(body, &where, &what))
        return call_problem(c, 422, "invalid", "the body is not JSON: %s at byte %zu", what, where + 1), false;
    json array = json_parse(body);
    if (array.kind != JSON_ARRAY)
        return call_problem(c, 422, "invalid", "the body must be a JSON array of tasks, or NDJSON (application/x-ndjson)"), false;
    while (json_each(array, &at, &key, &value)) count++;
    if (count > PAWL_BULK_MAX)
        return call_problem(c, 413, "too_large", "%zu tasks in one array, at most %d: use several requests, or NDJSON", count,
                            PAWL_BULK_MAX),
               false;
    if (!bulk_room(b, count)) return call_problem(c, 503, "no_memory", "%s", pawl_status_text(PAWL_NO_MEMORY)), false;
    for (at = 0; json_each(array, &at, &key, &value);) add_item(b, value);
    commit_group(b);
    return true;
}

/* On a thread of the desk: a group of a stream is there, or the end of the body. */
void bulk_end(call *c)
{
    bulk *b = c->bulk;
    if (b && !b->ended) {
        take_lines(b);
        http_go_on(c->r);
    } else if (b) {
        take_lines(b);
        answer(b);
    } else if (!(b = bulk_new(c))) {
        call_problem(c, 503, "no_memory", "%s", pawl_status_text(PAWL_NO_MEMORY));
    } else if (take_array(b, http_body(c->r))) {
        answer(b);
    }
}

/* On the listener's thread: the body is there. */
void route_task_bulk(call *c)
{
    if (!call_query(c, no_fields, NULL)) return;
    if (c->bulk) c->bulk->ended = true;
    http_hold(c->r);
    if (!desk_take(&c->s->desk, c)) call_problem(c, 503, "unavailable", "the server has too much to do: try again");
}
