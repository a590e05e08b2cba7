/* Reports: what workers say of the tasks they hold, many in one request, and an answer for each.
 *
 * An item without an outcome is a sign of life: lines for the log, progress. One with an outcome ends its run. The answer comes when the
 * last end is committed, or refused by the store; whoever is told "done" can forget the task. An item about a task that the worker does not
 * hold under that fence is "lost": somebody else has it, or had it, and what was reported counts for nothing.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "server/crew.h"
#include <stdio.h>
#include <string.h>

typedef enum item_status { ITEM_LOST, ITEM_NOTED, ITEM_DONE, ITEM_INVALID, ITEM_BUSY } item_status;

typedef struct report_item {
    pawl_id id;
    int64_t fence;
    const char *outcome;
    pawl_bytes log, result, spawn; /* log and spawn: JSON arrays */
    int progress;
    const char *progress_text, *result_type, *result_ref, *error, *code;
    int64_t delay_us;
    /* what becomes of it */
    held *h;
    pawl_outcome ends;
    item_status status;
    pawl_event_kind as;
    const char *detail;
} report_item;

typedef struct report {
    call *c;
    report_item *items;
    size_t count;
    int pending; /* ends that are not committed, and one for the request itself */
    int64_t arrived_us, lease_us;
    bool drain, stopping;
} report;

#define ITEM(member) offsetof(report_item, member)

/* clang-format off */
const field report_body[] = {
    {"items", FIELD_PAYLOAD, 0, 0, 0, "an array of at most 1000 objects: see docs/workers.md"},
    {0},
};

static const field item_fields[] = {
    {"id", FIELD_ID, ITEM(id), 0, 0, "the task"},
    {"fence", FIELD_MICROS, ITEM(fence), 1, 0, "as the claim told"},
    {"outcome", FIELD_TEXT, ITEM(outcome), 0, 0, "succeeded, retry, failed, snooze, cancelled or released; none: it goes on"},
    {"log", FIELD_PAYLOAD, ITEM(log), 0, 0, "lines for its log: strings, or objects with level and text"},
    {"progress", FIELD_INT, ITEM(progress), 0, 100, "percent"},
    {"progress_text", FIELD_TEXT, ITEM(progress_text), 0, 0, "what it does just now"},
    {"result", FIELD_PAYLOAD, ITEM(result), 0, 0, "of a success: any JSON value"},
    {"result_base64", FIELD_BASE64, ITEM(result), 0, 0, "in place of result: any bytes; say result_type too"},
    {"result_type", FIELD_TEXT, ITEM(result_type), 0, 0, "content type of the result; application/json by default"},
    {"result_ref", FIELD_TEXT, ITEM(result_ref), 0, 0, "of a success: where the result is"},
    {"spawn", FIELD_PAYLOAD, ITEM(spawn), 0, 0, "of a success: tasks that are stored in the same commit"},
    {"error", FIELD_TEXT, ITEM(error), 0, 0, "of a failure: what happened"},
    {"code", FIELD_TEXT, ITEM(code), 0, 0, "of a failure: a word for it"},
    {"delay", FIELD_DURATION, ITEM(delay_us), 0, 0, "of retry and snooze: how long from now; a retry's is by policy if it is left out"},
    {"delay_us", FIELD_MICROS, ITEM(delay_us), 0, 0, "the same in microseconds"},
    {0},
};
/* clang-format on */

/* ---- reading -------------------------------------------------------------------------------------------------------------------- */

static bool find_outcome(report_item *it)
{
    static const struct {
        const char *name;
        pawl_outcome_kind kind;
    } names[] = {{"succeeded", PAWL_RUN_OK},  {"retry", PAWL_RUN_RETRY},         {"failed", PAWL_RUN_FAIL},
                 {"snooze", PAWL_RUN_SNOOZE}, {"cancelled", PAWL_RUN_CANCELLED}, {"released", PAWL_RUN_INTERRUPTED}};
    for (size_t i = 0; it->outcome && i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, it->outcome) != 0) continue;
        it->ends = (pawl_outcome){.kind = names[i].kind, .delay_us = it->delay_us};
        return true;
    }
    return !it->outcome;
}

static bool is_array(pawl_bytes raw) { return !raw.len || raw.data[0] == '[' || strncmp(raw.data, "null", 4) == 0; }

static pawl_status read_item(json object, pawl_arena *arena, report_item *it, pawl_error *err)
{
    *it = (report_item){.progress = -1, .delay_us = -1};
    if (object.kind != JSON_OBJECT) return err_set(err, PAWL_INVALID, "an item is a JSON object");
    pawl_status status = fields_read(item_fields, object, arena, it, err);
    if (status) return status;
    if (!it->id || !it->fence) return err_set(err, PAWL_INVALID, "\"id\" and \"fence\" must be given");
    if (!find_outcome(it))
        return err_set(err, PAWL_INVALID, "\"outcome\" must be succeeded, retry, failed, snooze, cancelled or released");
    if (it->ends.kind == PAWL_RUN_SNOOZE && it->delay_us < 0) return err_set(err, PAWL_INVALID, "a snooze needs a delay");
    if (!is_array(it->log) || !is_array(it->spawn)) return err_set(err, PAWL_INVALID, "\"log\" and \"spawn\" must be arrays");
    return PAWL_OK;
}

static pawl_status read_items(report *r, pawl_bytes text, pawl_error *err)
{
    json array = text.len ? json_parse(text) : (json){0}, key, value;
    pawl_error why;
    if (array.kind != JSON_ARRAY) return err_set(err, PAWL_INVALID, "\"items\" must be an array");
    for (size_t at = 0; json_each(array, &at, &key, &value);) r->count++;
    if (r->count > REPORT_MAX) return err_set(err, PAWL_TOO_LARGE, "a report has at most %d items: send several", REPORT_MAX);
    if (!(r->items = pawl_arena_alloc(r->c->arena, (r->count + 1) * sizeof *r->items)))
        return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    size_t i = 0;
    for (size_t at = 0; json_each(array, &at, &key, &value); i++) {
        pawl_status status = read_item(value, r->c->arena, &r->items[i], &why);
        if (status) return err_set(err, status, "item %zu: %s", i + 1, why.message);
    }
    return PAWL_OK;
}

/* ---- the answer ----------------------------------------------------------------------------------------------------------------- */

static void item_json(json_writer *w, const report_item *it)
{
    static const char *const names[] = {"lost", "noted", "done", "invalid", "busy"};
    jsonw_object(w);
    json_id(w, "id", it->id);
    json_number(w, "fence", it->fence);
    json_text(w, "status", names[it->status]);
    if (it->status == ITEM_DONE) json_text(w, "as", pawl_event_name(it->as));
    if (it->detail) json_shown(w, "detail", it->detail);
    jsonw_end_object(w);
}

static void answer(report *r)
{
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "results");
    jsonw_array(&a.w);
    for (size_t i = 0; i < r->count; i++) item_json(&a.w, &r->items[i]);
    jsonw_end_array(&a.w);
    json_number(&a.w, "lease_us", r->lease_us);
    json_truth(&a.w, "drain", r->drain);
    json_truth(&a.w, "stopping", r->stopping);
    jsonw_end_object(&a.w);
    reply_end(r->c, &a, 200); /* the report lies in the call's arena */
}

void report_ended(void *ctx, pawl_run *run, pawl_event_kind how)
{
    group *g = ctx;
    crew *w = g->crew;
    held *h = pawl_run_user(run);
    report *done = NULL;
    pthread_mutex_lock(&w->lock);
    map_remove(&w->tasks, &h->by_id);
    held_detach(h);
    w->held_count--;
    g->held--;
    if (h->report) {
        report_item *it = &h->report->items[h->item];
        it->as = how;
        it->status = how == PAWL_EVENT_LEASE_LOST ? ITEM_LOST : ITEM_DONE;
        if (--h->report->pending == 0) done = h->report;
    }
    alloc_free(alloc_default(), h);
    pthread_mutex_unlock(&w->lock);
    if (done) answer(done);
}

/* ---- saying it to the runs -------------------------------------------------------------------------------------------------------- */

static held *find_held(const crew *w, const worker *who, pawl_id id, int64_t fence)
{
    for (map_node *node = map_get(&w->tasks, (uint64_t)id); node; node = map_next(node)) {
        held *h = container_of(node, held, by_id);
        if (h->w == who && h->fence == fence) return h;
    }
    return NULL;
}

/* Under the lock: whose items these are. */
static void take_items(report *r, const crew *w, const worker *who)
{
    for (size_t i = 0; i < r->count; i++) {
        report_item *it = &r->items[i];
        held *h = find_held(w, who, it->id, it->fence);
        it->status = !h ? ITEM_LOST : h->busy ? ITEM_BUSY : ITEM_NOTED;
        if (it->status != ITEM_NOTED) continue;
        it->h = h;
        h->busy = true;
    }
}

static pawl_level level_of(json line)
{
    buf text;
    pawl_level level = PAWL_INFO;
    buf_init(&text, alloc_default(), 16);
    if (json_string(json_member(line, "level"), &text)) {
        for (int i = PAWL_DEBUG; i <= PAWL_ERROR; i++) {
            if (strcmp(pawl_level_name((pawl_level)i), buf_text(&text)) == 0) level = (pawl_level)i;
        }
    }
    buf_done(&text);
    return level;
}

static void say_log(pawl_run *run, pawl_bytes lines)
{
    json key, line;
    if (!lines.len) return;
    for (size_t at = 0; json_each(json_parse(lines), &at, &key, &line);) {
        buf text;
        buf_init(&text, alloc_default(), 64 << 10);
        bool object = line.kind == JSON_OBJECT;
        if (json_string(object ? json_member(line, "text") : line, &text))
            pawl_run_log(run, object ? level_of(line) : PAWL_INFO, "%s", buf_text(&text));
        buf_done(&text);
    }
}

static pawl_status say_spawn(call *c, pawl_run *run, pawl_bytes tasks, pawl_error *err)
{
    json key, object;
    pawl_task task;
    pawl_status status = PAWL_OK;
    for (size_t at = 0; !status && tasks.len && json_each(json_parse(tasks), &at, &key, &object);) {
        status = task_read(object, &(pawl_task){0}, c->arena, &task, err);
        if (!status) status = pawl_run_spawn(run, &task, NULL, err);
    }
    return status;
}

/* The run is this thread's while its held is busy. */
static pawl_status say(call *c, report_item *it, pawl_error *err)
{
    pawl_run *run = it->h->run;
    pawl_status status = PAWL_OK;
    say_log(run, it->log);
    if (it->progress >= 0) pawl_run_progress(run, it->progress, it->progress_text);
    if (!it->outcome) return PAWL_OK;
    if (it->result.len) status = pawl_run_result(run, it->result, it->result_type, err);
    if (!status && it->result_ref) status = pawl_run_result_ref(run, it->result_ref, err);
    if (!status && it->ends.kind == PAWL_RUN_OK) status = say_spawn(c, run, it->spawn, err);
    if (status) return status;
    pawl_run_error_code(run, it->code);
    if (it->error) pawl_fail(run, "%s", it->error);
    return PAWL_OK;
}

static void say_all(report *r)
{
    pawl_error err;
    for (size_t i = 0; i < r->count; i++) {
        report_item *it = &r->items[i];
        if (!it->h || !say(r->c, it, &err)) continue;
        it->status = ITEM_INVALID;
        it->detail = pawl_arena_bytes(r->c->arena, err.message, strlen(err.message));
    }
}

/* ---- ending ----------------------------------------------------------------------------------------------------------------------- */

typedef struct ending {
    pawl_run *runs[REPORT_MAX];
    pawl_outcome outcomes[REPORT_MAX];
    group *groups[REPORT_MAX];
    size_t count;
} ending;

/* Under the lock: nobody else ends what this report does. */
static void choose(report *r, ending *e, crew_after *a)
{
    for (size_t i = 0; i < r->count; i++) {
        report_item *it = &r->items[i];
        held *h = it->h;
        if (!h) continue;
        h->busy = false;
        if (it->outcome && it->status == ITEM_NOTED) {
            held_detach(h);
            h->report = r;
            h->item = i;
            r->pending++;
            e->runs[e->count] = h->run;
            e->outcomes[e->count] = it->ends;
            e->groups[e->count++] = h->g;
            after_adjust(a, h->g, -1, false);
        } else if (h->orphan) {
            after_end(a, h, h->orphan, "its worker is gone");
        }
    }
}

/* Those of one engine go together. */
static void finish_groups(const ending *e)
{
    pawl_run *runs[REPORT_MAX];
    pawl_outcome outcomes[REPORT_MAX];
    for (size_t first = 0; first < e->count; first++) {
        size_t count = 0;
        bool before = false;
        for (size_t i = 0; i < first && !before; i++) before = e->groups[i] == e->groups[first];
        if (before) continue;
        for (size_t i = first; i < e->count; i++) {
            if (e->groups[i] != e->groups[first]) continue;
            runs[count] = e->runs[i];
            outcomes[count++] = e->outcomes[i];
        }
        pawl_run_finish_all(runs, outcomes, count);
        if (count == e->count) return;
    }
}

static void end_items(crew *w, report *r)
{
    ending e;
    crew_after a;
    e.count = 0;
    after_init(&a);
    pthread_mutex_lock(&w->lock);
    choose(r, &e, &a);
    pthread_mutex_unlock(&w->lock);
    after_do(w, &a);
    finish_groups(&e);
    pthread_mutex_lock(&w->lock);
    bool done = --r->pending == 0;
    pthread_mutex_unlock(&w->lock);
    if (done) answer(r);
}

void route_worker_report(call *c)
{
    pawl_bytes items = {0};
    pawl_error err;
    crew *w = c->s->crew;
    report *r = pawl_arena_alloc(c->arena, sizeof *r);
    if (!call_query(c, no_fields, NULL) || !call_body(c, report_body, &items)) return;
    if (!r) {
        call_problem(c, 503, "no_memory", "%s", pawl_status_text(PAWL_NO_MEMORY));
        return;
    }
    *r = (report){.c = c, .pending = 1, .arrived_us = crew_now()};
    if (read_items(r, items, &err)) {
        call_fail(c, &err);
        return;
    }
    pthread_mutex_lock(&w->lock);
    worker *who = crew_find(w, c->segment);
    if (who) {
        crew_seen(who);
        take_items(r, w, who);
        r->lease_us = crew_lease(who, r->arrived_us);
        r->drain = who->drain;
        r->stopping = w->draining;
    }
    pthread_mutex_unlock(&w->lock);
    if (!who) {
        crew_unknown(c);
        return;
    }
    http_hold(c->r);
    say_all(r);
    end_items(w, r);
}
