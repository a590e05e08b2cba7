/* pawl_import: lines of JSON into a store: tasks, limits, batches, schedules.
 *
 * Lines are read through a window that grows to the longest of them. Tasks gather until there are LOAD_TASKS of them or LOAD_BYTES; then
 * one commit. A second live task of one key begins another commit, so that the store sees the first. Limits and schedules gather too; whatever
 * comes after something of another kind comes in a later commit.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/idgen.h"
#include "runtime/record.h"
#include "runtime/upkeep.h"
#include <stdio.h>
#include <stdlib.h>

#define LOAD_TASKS 1000
#define LOAD_BYTES ((size_t)4 << 20)
#define LOAD_LIMITS 100
#define LOAD_SCHEDULES 250
#define LINE_MOST ((size_t)64 << 20)
#define READ_AT_ONCE ((size_t)256 << 10)
#define MEMORY ((size_t)1 << 30)
#define KEY_BITS 65536

typedef struct importer {
    const pawl_import_options *o;
    const pawl_allocator *allocator;
    pawl_store *store;
    pawl_arena *arena; /* of the tasks that are gathered */
    buf window;        /* read and not yet used: from `at` on */
    size_t at;
    bool ended;
    int64_t line;
    bool headed, end_seen;
    int64_t end_tasks, end_limits, end_others, limit_lines, other_lines;
    uint64_t end_sum, sum;
    pawl_import_report report;
    /* Gathered. */
    pawl_record tasks[LOAD_TASKS];
    int64_t lines[LOAD_TASKS];
    pawl_loaded results[LOAD_TASKS];
    int count;
    pawl_past_limit limits[LOAD_LIMITS];
    int limits_count;
    pawl_past_schedule schedules[LOAD_SCHEDULES];
    int schedules_count;
    size_t bytes;
    unsigned char keys[KEY_BITS / 8];
    /* new_ids */
    int64_t node;
    idgen ids;
} importer;

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not import: out of memory"); }

/* ---- lines ----------------------------------------------------------------------------------------------------------------- */

static pawl_status read_more(importer *x, pawl_error *err)
{
    char *room = x->window.data;
    if (x->at > 0) {
        memmove(room, room + x->at, x->window.len - x->at);
        x->window.len -= x->at;
        x->at = 0;
    }
    if (x->window.len >= LINE_MOST)
        return err_set(err, PAWL_TOO_LARGE, "line %lld is longer than %zu MiB", (long long)x->line + 1, LINE_MOST >> 20);
    char chunk[16384];
    for (size_t got = 0; got < READ_AT_ONCE && !x->ended;) {
        int64_t n = x->o->read(x->o->read_ctx, chunk, sizeof chunk);
        if (n < 0) return err_set(err, PAWL_UNAVAILABLE, "could not read line %lld", (long long)x->line + 1);
        x->ended = n == 0;
        if (n > 0 && !buf_add(&x->window, chunk, (size_t)n)) return no_memory(err);
        got += (size_t)n;
        if (n > 0 && (size_t)n < sizeof chunk) break; /* a pipe that is slow */
    }
    return PAWL_OK;
}

/* The next line that is not blank; *found false: there is none. A last line without its newline counts as one. */
static pawl_status next_line(importer *x, pawl_bytes *out, bool *found, pawl_error *err)
{
    for (size_t searched = 0;;) {
        size_t have = x->window.len - x->at;
        const char *from = buf_text(&x->window) + x->at,
                   *newline = have > searched ? memchr(from + searched, '\n', have - searched) : NULL;
        if (!newline && !x->ended) {
            searched = have;
            pawl_status status = read_more(x, err);
            if (status) return status;
            continue;
        }
        size_t n = newline ? (size_t)(newline - from) : have;
        *found = newline || n > 0;
        if (!*found) return PAWL_OK;
        x->line++;
        x->at += n + (newline != NULL);
        searched = 0;
        if (strspn(from, " \t\r") >= n) continue;
        *out = (pawl_bytes){from, n};
        return PAWL_OK;
    }
}

/* ---- storing --------------------------------------------------------------------------------------------------------------- */

static void bad(importer *x, int64_t line, const char *why)
{
    x->report.bad++;
    if (x->o->bad) x->o->bad(x->o->ctx, line, why);
}

static pawl_status show(const importer *x, pawl_error *err)
{
    pawl_move_progress p = {.phase = "importing", .done = x->report.created + x->report.present};
    if (!x->o->progress || x->o->progress(x->o->ctx, &p)) return PAWL_OK;
    return err_set(err, PAWL_CONFLICT, "the import was stopped; import the same again to go on");
}

static void tell(importer *x, int i)
{
    switch (x->results[i]) {
    case PAWL_LOADED_NEW: x->report.created++; break;
    case PAWL_LOADED_BEFORE: x->report.present++; break;
    case PAWL_LOADED_KEY: bad(x, x->lines[i], "its key is that of a live task"); break;
    case PAWL_LOADED_ORPHAN: bad(x, x->lines[i], "it waits for one that is not here"); break;
    default: bad(x, x->lines[i], "another task has its id: import it with new ids"); break;
    }
}

static pawl_status load_page(importer *x, pawl_part part, bool twice, pawl_error *err)
{
    pawl_dump *page = pawl_arena_alloc(x->arena, sizeof *page);
    if (!page) return no_memory(err);
    bool tasks = part == PAWL_PART_TASKS;
    *page = (pawl_dump){.part = part, .tasks = x->tasks, .limits = x->limits, .schedules = x->schedules};
    page->count = tasks ? x->count : part == PAWL_PART_LIMITS ? x->limits_count : x->schedules_count;
    pawl_load call = {.page = page, .results = tasks ? x->results : NULL};
    pawl_status status = store_load(x->store, &call, x->arena, err);
    return status == PAWL_UNKNOWN && twice ? store_load(x->store, &call, x->arena, err) : status;
}

static pawl_status load_tasks(importer *x, pawl_error *err)
{
    if (!x->count) return PAWL_OK;
    memset(x->results, 0, sizeof x->results);
    pawl_status status = load_page(x, PAWL_PART_TASKS, !x->o->new_ids, err); /* by id it does no harm */
    for (int i = 0; !status && i < x->count; i++) tell(x, i);
    return status;
}

static pawl_status load_limits(importer *x, pawl_error *err)
{
    if (!x->limits_count) return PAWL_OK;
    pawl_status status = load_page(x, PAWL_PART_LIMITS, true, err);
    if (!status) x->report.limits += x->limits_count;
    return status;
}

static pawl_status load(importer *x, pawl_error *err)
{
    pawl_status status = load_limits(x, err);
    if (!status) status = load_tasks(x, err);
    if (!status && x->schedules_count) status = load_page(x, PAWL_PART_SCHEDULES, true, err);
    if (status) return status;
    x->limits_count = 0;
    x->schedules_count = 0;
    x->count = 0;
    x->bytes = 0;
    memset(x->keys, 0, sizeof x->keys);
    arena_reset(x->arena);
    return show(x, err);
}

/* ---- new ids --------------------------------------------------------------------------------------------------------------- */

static pawl_status take_ids(importer *x, pawl_error *err)
{
    pawl_clock clock = clock_system();
    int64_t now_ms = clock.wall_us(clock.ctx) / 1000 - PAWL_EPOCH_MS;
    if (!x->node) {
        pawl_registration reg = {.name = "import", .queues = "", .types = "", .lease_us = 30 * PAWL_SECOND};
        pawl_status status = x->store->type->register_node(x->store, &reg, err);
        if (status) return status;
        x->node = reg.node;
    }
    pawl_ids call = {
        .node = x->node, .number = x->ids.number, .ahead_ms = 60000, .used_ms = x->ids.ms > now_ms ? x->ids.ms : now_ms};
    pawl_status status = x->store->type->take_ids(x->store, &call, err);
    if (!status) idgen_take(&x->ids, call.out_number, call.floor_ms, call.ceiling_ms);
    return status;
}

static pawl_status give_id(importer *x, pawl_record *r, pawl_error *err)
{
    pawl_clock clock = clock_system();
    pawl_id id = 0;
    for (int i = 0; i < 3 && !id; i++) {
        int64_t now_ms = clock.wall_us(clock.ctx) / 1000 - PAWL_EPOCH_MS;
        id = x->ids.number ? idgen_next(&x->ids, now_ms) : 0;
        pawl_status status = id ? PAWL_OK : take_ids(x, err);
        if (status) return status;
    }
    if (!id) return err_set(err, PAWL_UNAVAILABLE, "could not get ids from the store: try again");
    r->body.id = id;
    r->body.retry_of = r->retried_as = 0;
    r->parents_count = 0;
    r->batch = 0;
    return PAWL_OK;
}

static void give_back(importer *x)
{
    if (!x->node) return;
    pawl_ids call = {.node = x->node, .number = x->ids.number, .used_ms = x->ids.ms, .give_back = true};
    x->store->type->take_ids(x->store, &call, NULL);
    x->store->type->leave(x->store, x->node, NULL);
}

/* ---- what a line is -------------------------------------------------------------------------------------------------------- */

/* Whether a live task with this key may be among those gathered. */
static bool key_seen(importer *x, const pawl_record *r)
{
    if (!r->body.key || pawl_state_terminal(r->state)) return false;
    uint64_t hash = hash_bytes(r->body.key, strlen(r->body.key), 1) + hash_bytes(r->body.tenant, strlen(r->body.tenant), 2);
    unsigned bit = (unsigned)(hash % KEY_BITS);
    bool seen = x->keys[bit / 8] & 1u << bit % 8;
    x->keys[bit / 8] |= (unsigned char)(1u << bit % 8);
    return seen;
}

/* The texts of the record are in the arena that a commit empties, so it is committed before the line is read. */
static pawl_status take_task(importer *x, json object, size_t bytes, pawl_error *err)
{
    pawl_error why = {0};
    bool full = x->limits_count || x->schedules_count || x->count == LOAD_TASKS || x->bytes >= LOAD_BYTES;
    pawl_status status = full ? load(x, err) : PAWL_OK;
    if (status) return status;
    x->report.lines++;
    pawl_record *r = &x->tasks[x->count];
    bool good = record_read(object, r, x->arena, &why);
    if (good) x->sum += pawl_id_sum(r->body.id);
    if (good && key_seen(x, r)) {
        status = load(x, err);
        if (status) return status;
        r = &x->tasks[0];
        good = record_read(object, r, x->arena, &why);
        key_seen(x, r);
    }
    if (!good) {
        bad(x, x->line, why.message);
        return why.status == PAWL_NO_MEMORY ? no_memory(err) : PAWL_OK;
    }
    if (x->o->new_ids && r->state == PAWL_WAITING) {
        bad(x, x->line, "it waits for others, whose ids are not kept");
        return PAWL_OK;
    }
    if (x->o->new_ids) status = give_id(x, r, err);
    if (status) return status;
    x->lines[x->count++] = x->line;
    x->bytes += bytes;
    return PAWL_OK;
}

/* ---- rate limits ----------------------------------------------------------------------------------------------------------- */

static bool same_key(pawl_bytes a, pawl_bytes b) { return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0); }

static bool gathered(const importer *x, const pawl_past_limit *l)
{
    for (int i = 0; i < x->limits_count; i++)
        if (strcmp(x->limits[i].type, l->type) == 0 && same_key(x->limits[i].key, l->key)) return true;
    return false;
}

static bool same_limit(const pawl_limit_info *a, const pawl_past_limit *b)
{
    const pawl_rate *r = &a->rate, *s = &b->rate;
    return a->paused == b->paused && r->permits == s->permits && r->period_us == s->period_us && r->burst == s->burst &&
           r->horizon_us == s->horizon_us && r->start_empty == s->start_empty && r->retries_free == s->retries_free &&
           r->discard == s->discard;
}

/* The limit that the store has in this very place; NULL: none. */
static pawl_status find_limit(importer *x, const pawl_past_limit *l, const pawl_limit_info **found, pawl_error *err)
{
    pawl_limit_filter filter = {.type = l->type, .key = l->key, .limit = 1};
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &filter};
    pawl_status status = store_read(x->store, &query, x->arena, err);
    const pawl_limit_info *first = !status && query.limits->count ? &query.limits->limits[0] : NULL;
    *found = first && first->own && same_key(first->key, l->key) ? first : NULL;
    return status;
}

/* One that is here stays: it is what people chose here. */
static pawl_status take_limit(importer *x, json object, pawl_error *err)
{
    pawl_error why = {0};
    const pawl_limit_info *here;
    pawl_past_limit l;
    pawl_status status = x->count || x->schedules_count || x->limits_count == LOAD_LIMITS ? load(x, err) : PAWL_OK;
    if (status) return status;
    x->limit_lines++;
    bool good = record_read_limit(object, &l, x->arena, &why);
    if (why.status == PAWL_NO_MEMORY) return no_memory(err);
    if (good && !x->store->type->limits) good = err_set(&why, PAWL_UNSUPPORTED, "the store cannot keep rate limits") == PAWL_OK;
    if (good && gathered(x, &l)) good = err_set(&why, PAWL_INVALID, "the same limit stands in a line before") == PAWL_OK;
    if (!good) {
        bad(x, x->line, why.message);
        return PAWL_OK;
    }
    status = find_limit(x, &l, &here, err);
    if (status) return status;
    if (!here) {
        x->limits[x->limits_count++] = l;
        return PAWL_OK;
    }
    x->report.limits_kept++;
    if (same_limit(here, &l) || !x->o->bad) return PAWL_OK;
    err_set(&why, PAWL_CONFLICT, "the rate limit of \"%s\" is another one here, and stays as it is", l.type);
    x->o->bad(x->o->ctx, x->line, why.message);
    return PAWL_OK;
}

/* ---- concurrency limits, batches, schedules -------------------------------------------------------------------------------- */

static bool keeps(const pawl_store_type *t, pawl_part part)
{
    return part == PAWL_PART_BOUNDS ? t->places : part == PAWL_PART_SCHEDULES ? t->schedules : t->families;
}

/* One that is here stays: it is what people chose here. */
static pawl_status put_bound(importer *x, const pawl_past_bound *b, pawl_error *err)
{
    pawl_place_filter filter = {.scope = b->scope, .name = b->name, .key = b->key, .limit = 1};
    pawl_query query = {.kind = PAWL_QUERY_PLACES, .place_filter = &filter};
    pawl_status status = store_read(x->store, &query, x->arena, err);
    const pawl_place_info *first = !status && query.places->count ? &query.places->places[0] : NULL;
    if (status || (first && first->own && same_key(first->key, b->key))) return status;
    pawl_op op = {.kind = PAWL_OP_BOUND, .audit = PAWL_AUDIT_FULL}, *ops[] = {&op};
    pawl_batch batch = {.ops = ops, .count = 1};
    op.u.bound.scope = b->scope;
    op.u.bound.name = b->name;
    op.u.bound.key = b->key;
    op.u.bound.most = b->most;
    op.u.bound.ordered = b->ordered;
    op.u.bound.move = LOAD_TASKS;
    do status = x->store->type->apply(x->store, &batch, x->arena, err);
    while (!status && op.u.bound.more);
    if (!status && op.result == PAWL_OP_CLOSED)
        status = err_set(err, PAWL_MOVED, "cannot import: the store is closed for a move");
    return status;
}

static pawl_status put_other(importer *x, pawl_dump *page, pawl_error *err)
{
    bool of_ids = page->part == PAWL_PART_BATCHES || page->part == PAWL_PART_KEPT;
    if (x->o->new_ids && of_ids) return PAWL_OK;
    if (page->part == PAWL_PART_BOUNDS) return put_bound(x, page->bounds, err);
    pawl_load call = {.page = page};
    pawl_status status = store_load(x->store, &call, x->arena, err);
    return status == PAWL_UNKNOWN ? store_load(x->store, &call, x->arena, err) : status;
}

static bool schedule_gathered(const importer *x, const char *name)
{
    for (int i = 0; i < x->schedules_count; i++)
        if (strcmp(x->schedules[i].name, name) == 0) return true;
    return false;
}

static void gather_schedule(importer *x, pawl_past_schedule *s, size_t bytes)
{
    if (x->o->new_ids) {
        s->occurrences_count = 0;
        s->open = s->waiting = s->last_task = 0;
    }
    x->schedules[x->schedules_count++] = *s;
    x->bytes += bytes;
}

/* NULL: it cannot be read, or kept, and that was told; or *status says why. */
static pawl_dump *read_other(importer *x, json object, pawl_part part, pawl_status *status, pawl_error *err)
{
    pawl_error why = {0};
    pawl_dump *page = pawl_arena_alloc(x->arena, sizeof *page);
    bool good = page && record_read_other(object, part, page, x->arena, &why);
    if (!page || why.status == PAWL_NO_MEMORY) {
        *status = no_memory(err);
        return NULL;
    }
    if (good && !keeps(x->store->type, part)) good = err_set(&why, PAWL_UNSUPPORTED, "the store cannot keep it") == PAWL_OK;
    if (!good) bad(x, x->line, why.message);
    return good ? page : NULL;
}

/* A schedule whose name stands among those gathered comes after them: one that is there stays as it is. */
static pawl_status take_other(importer *x, json object, pawl_part part, size_t bytes, pawl_error *err)
{
    bool schedule = part == PAWL_PART_SCHEDULES;
    bool full = !schedule || x->count || x->limits_count || x->schedules_count == LOAD_SCHEDULES || x->bytes >= LOAD_BYTES;
    pawl_status status = full ? load(x, err) : PAWL_OK;
    if (status) return status;
    x->other_lines++;
    pawl_dump *page = read_other(x, object, part, &status, err);
    if (page && schedule && schedule_gathered(x, page->schedules->name)) {
        status = load(x, err);
        page = status ? NULL : read_other(x, object, part, &status, err);
    }
    if (!page) return status;
    if (!schedule) return put_other(x, page, err);
    gather_schedule(x, page->schedules, bytes);
    return PAWL_OK;
}

/* ---- what else a line is --------------------------------------------------------------------------------------------------- */

static pawl_status take_head(importer *x, json object, pawl_error *err)
{
    int64_t format = 0;
    bool there = object.kind == JSON_OBJECT && json_int(json_member(object, "pawl_export"), &format);
    x->headed = true;
    if (!there)
        return err_set(err, PAWL_INVALID, "line %lld: not an export of pawl: its first line must be the header",
                       (long long)x->line);
    if (format != RECORD_FORMAT)
        return err_set(err, PAWL_UNSUPPORTED,
                       "the export has format %lld, and this is pawl %s, which knows format %d: update this program",
                       (long long)format, PAWL_VERSION, RECORD_FORMAT);
    return PAWL_OK;
}

static void take_end(importer *x, json object)
{
    char text[32] = "";
    buf sum;
    buf_init(&sum, x->allocator, sizeof text);
    x->end_seen = json_int(json_member(object, "tasks"), &x->end_tasks) && json_string(json_member(object, "sum"), &sum);
    json_int(json_member(object, "limits"), &x->end_limits);
    json_int(json_member(object, "others"), &x->end_others);
    if (x->end_seen) snprintf(text, sizeof text, "%s", buf_text(&sum));
    buf_done(&sum);
    x->end_sum = strtoull(text, NULL, 10);
}

static pawl_status take_line(importer *x, pawl_bytes text, pawl_error *err)
{
    size_t where;
    const char *what;
    char why[160];
    if (!json_valid(text, &where, &what)) {
        snprintf(why, sizeof why, "not JSON: %s, at byte %zu", what, where + 1);
        if (!x->headed) return err_set(err, PAWL_INVALID, "line %lld: %s", (long long)x->line, why);
        bad(x, x->line, why);
        return PAWL_OK;
    }
    json object = json_parse(text);
    if (!x->headed) return take_head(x, object, err);
    if (x->end_seen) return err_set(err, PAWL_INVALID, "line %lld: there is something behind the end", (long long)x->line);
    if (object.kind == JSON_OBJECT && json_member(object, "pawl_end").kind != JSON_NONE) {
        take_end(x, object);
        return PAWL_OK;
    }
    if (object.kind == JSON_OBJECT && json_member(object, RECORD_LIMIT).kind != JSON_NONE) return take_limit(x, object, err);
    pawl_part part = record_part(object);
    return part ? take_other(x, object, part, text.len, err) : take_task(x, object, text.len, err);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------- */

static pawl_status judge(importer *x, pawl_error *err)
{
    bool limits = x->end_limits == x->limit_lines && x->end_others == x->other_lines;
    bool agrees = x->end_seen && x->end_tasks == x->report.lines && x->end_sum == x->sum && limits;
    x->report.whole = agrees;
    if (!x->headed) return err_set(err, PAWL_INVALID, "there is nothing to import: the input is empty");
    if (agrees || x->o->cut || (x->report.bad && x->end_seen)) return PAWL_OK;
    if (!x->end_seen)
        return err_set(
            err, PAWL_CONFLICT,
            "the input is cut: its last line is missing; %lld tasks that stood in it are stored. Import it whole, or say that it "
            "is all there is",
            (long long)(x->report.created + x->report.present));
    if (!limits)
        return err_set(
            err, PAWL_CONFLICT,
            "the input has %lld limits, batches and schedules, and its end says %lld: lines are missing, or were changed",
            (long long)(x->limit_lines + x->other_lines), (long long)(x->end_limits + x->end_others));
    return err_set(err, PAWL_CONFLICT, "the input has %lld tasks, and its end says %lld: lines are missing, or were changed",
                   (long long)x->report.lines, (long long)x->end_tasks);
}

static pawl_status run(importer *x, pawl_error *err)
{
    pawl_store_options store = upkeep_store(&(pawl_options){.store = x->o->store});
    store.allocator = x->allocator;
    store.lease_us = 30 * PAWL_SECOND;
    pawl_status status = store_open(&store, &x->store, err);
    if (!status && !x->store->type->load) status = store_set_gate(x->store, NULL, err); /* says that it cannot */
    for (bool found = true; !status && found;) {
        pawl_bytes line;
        status = next_line(x, &line, &found, err);
        if (!status && found) status = take_line(x, line, err);
    }
    if (!status) status = load(x, err);
    return status ? status : judge(x, err);
}

pawl_status pawl_import(const pawl_import_options *o, pawl_import_report *report, pawl_error *err)
{
    if (!o || !o->read) return err_set(err, PAWL_INVALID, "an import needs a function that reads");
    const pawl_allocator *a = o->allocator.alloc ? &o->allocator : alloc_default();
    importer *x = alloc_new(a, sizeof *x);
    if (!x) return no_memory(err);
    x->o = o;
    x->allocator = a;
    x->arena = arena_new(a, MEMORY);
    buf_init(&x->window, a, LINE_MOST + 2 * READ_AT_ONCE);
    pawl_status status = x->arena ? run(x, err) : no_memory(err);
    if (x->store) give_back(x);
    if (report) *report = x->report;
    store_close(x->store);
    buf_done(&x->window);
    if (x->arena) arena_free(x->arena);
    alloc_free(a, x);
    return status;
}
