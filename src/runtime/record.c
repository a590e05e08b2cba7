/* Tables say where each member of a line is in what it describes (pawl_record, pawl_past_limit, ...), and both directions follow them. A
 * member that has its default (0, false, none; progress: -1) is left out when written, and is the default when it is missing.
 */
#include "runtime/record.h"
#include "core/limit.h"
#include <limits.h>
#include <stdio.h>

typedef enum kind {
    KIND_TEXT,
    KIND_NAME,
    KIND_BYTES, /* NAME, or NAME_base64 if it is not UTF-8 */
    KIND_INT,
    KIND_INT64,
    KIND_BOOL,
    KIND_ID,
    KIND_STATE,
    KIND_AUDIT,
    KIND_OUTCOME,
    KIND_POLICY
} kind;

typedef struct member {
    const char *name;
    kind kind;
    size_t at;
    int64_t min, max, none;
} member;

#define AT(where) offsetof(pawl_record, where)
#define BODY(where) offsetof(pawl_record, body.where)

static const member members[] = {
    {"id", KIND_ID, BODY(id), 0, 0, 0},
    {"type", KIND_NAME, BODY(type), 0, 0, 0},
    {"queue", KIND_NAME, BODY(queue), 0, 0, 0},
    {"tenant", KIND_NAME, BODY(tenant), 0, 0, 0},
    {"key", KIND_NAME, BODY(key), 0, 0, 0},
    {"holds_key", KIND_BOOL, AT(holds_key), 0, 0, 0},
    {"state", KIND_STATE, AT(state), 0, 0, 0},
    {"created_us", KIND_INT64, BODY(created_us), 1, INT64_MAX, 0},
    {"priority", KIND_INT, BODY(priority), -32768, 32767, 0},
    {"max_attempts", KIND_INT, BODY(max_attempts), 0, INT_MAX, 0},
    {"timeout_us", KIND_INT64, BODY(timeout_us), INT64_MIN, INT64_MAX, 0},
    {"audit", KIND_AUDIT, BODY(audit), 0, 0, 0},
    {"level", KIND_AUDIT, AT(level), 0, 0, 0},
    {"born", KIND_STATE, AT(born), 0, 0, 0},
    {"retry_of", KIND_ID, BODY(retry_of), 0, 0, 0},
    {"created_by", KIND_TEXT, BODY(created_by), 0, 0, 0},
    {"traceparent", KIND_TEXT, BODY(traceparent), 0, 0, 0},
    {"headers", KIND_TEXT, BODY(headers), 0, 0, 0},
    {"rate_key", KIND_BYTES, BODY(rate_key), 0, 0, 0},
    {"content_type", KIND_TEXT, BODY(content_type), 0, 0, 0},
    {"payload", KIND_BYTES, BODY(payload), 0, 0, 0},
    {"suspicion", KIND_INT, AT(suspicion), 0, 2, 0},
    {"strikes", KIND_INT, AT(strikes), 0, SHRT_MAX, 0},
    {"fence", KIND_INT64, AT(fence), 0, INT_MAX - 1, 0},
    {"runs", KIND_INT, AT(runs), 0, INT_MAX, 0},
    {"failures", KIND_INT, AT(failures), 0, INT_MAX, 0},
    {"interruptions", KIND_INT, AT(interruptions), 0, INT_MAX, 0},
    {"rescues", KIND_INT, AT(rescues), 0, INT_MAX, 0},
    {"run_at_us", KIND_INT64, AT(run_at_us), 0, INT64_MAX, 0},
    {"leased_us", KIND_INT64, AT(leased_us), 0, INT64_MAX, 0},
    {"started_us", KIND_INT64, AT(started_us), 0, INT64_MAX, 0},
    {"finished_us", KIND_INT64, AT(finished_us), 0, INT64_MAX, 0},
    {"run_us", KIND_INT64, AT(run_us), INT64_MIN, INT64_MAX, 0},
    {"node", KIND_TEXT, AT(node), 0, 0, 0},
    {"outcome", KIND_OUTCOME, AT(outcome), 0, 0, 0},
    {"end_level", KIND_AUDIT, AT(end_level), 0, 0, 0},
    {"derived", KIND_BOOL, AT(derived), 0, 0, 0},
    {"cancel_asked", KIND_BOOL, AT(cancel_asked), 0, 0, 0},
    {"log_lines", KIND_INT, AT(log_lines), 0, INT_MAX, 0},
    {"progress", KIND_INT, AT(progress), 0, 100, -1},
    {"progress_text", KIND_TEXT, AT(progress_text), 0, 0, 0},
    {"code", KIND_TEXT, AT(code), 0, 0, 0},
    {"error", KIND_TEXT, AT(error), 0, 0, 0},
    {"reason", KIND_TEXT, AT(reason), 0, 0, 0},
    {"result_type", KIND_TEXT, AT(result_type), 0, 0, 0},
    {"result_ref", KIND_TEXT, AT(result_ref), 0, 0, 0},
    {"result", KIND_BYTES, AT(result), 0, 0, 0},
    {"retried_as", KIND_ID, AT(retried_as), 0, 0, 0},
    {"resolved_us", KIND_INT64, AT(resolved_us), 0, INT64_MAX, 0},
    {"resolved_by", KIND_TEXT, AT(resolved_by), 0, 0, 0},
    {"note", KIND_TEXT, AT(note), 0, 0, 0},
    {"if_failed", KIND_POLICY, AT(if_failed), 0, 0, 0},
    {"batch", KIND_ID, AT(batch), 0, 0, 0},
};

#define IN(type, where) offsetof(type, where)

static const member attempt_members[] = {
    {"number", KIND_INT, IN(pawl_past_attempt, number), 1, INT_MAX, 0},
    {"outcome", KIND_OUTCOME, IN(pawl_past_attempt, outcome), 0, 0, 0},
    {"started_us", KIND_INT64, IN(pawl_past_attempt, started_us), 0, INT64_MAX, 0},
    {"finished_us", KIND_INT64, IN(pawl_past_attempt, finished_us), 0, INT64_MAX, 0},
    {"fence", KIND_INT64, IN(pawl_past_attempt, fence), 0, INT_MAX, 0},
    {"node", KIND_TEXT, IN(pawl_past_attempt, node), 0, 0, 0},
    {"log_lines", KIND_INT, IN(pawl_past_attempt, log_lines), 0, INT_MAX, 0},
    {"code", KIND_TEXT, IN(pawl_past_attempt, code), 0, 0, 0},
    {"error", KIND_TEXT, IN(pawl_past_attempt, error), 0, 0, 0},
};

static const member log_members[] = {
    {"number", KIND_INT, IN(pawl_past_log, number), 1, INT_MAX, 0},
    {"at_us", KIND_INT64, IN(pawl_past_log, at_us), 0, INT64_MAX, 0},
    {"text", KIND_TEXT, IN(pawl_past_log, text), 0, 0, 0},
};

static const member change_members[] = {
    {"number", KIND_INT, IN(pawl_past_change, number), 0, INT_MAX, -1},
    {"at_us", KIND_INT64, IN(pawl_past_change, at_us), 0, INT64_MAX, 0},
    {"from", KIND_STATE, IN(pawl_past_change, from), 0, 0, 0},
    {"to", KIND_STATE, IN(pawl_past_change, to), 0, 0, 0},
    {"fence", KIND_INT64, IN(pawl_past_change, fence), 0, INT_MAX, 0},
    {"node", KIND_TEXT, IN(pawl_past_change, node), 0, 0, 0},
    {"detail", KIND_TEXT, IN(pawl_past_change, detail), 0, 0, 0},
};

static const member limit_members[] = {
    {RECORD_LIMIT, KIND_NAME, IN(pawl_past_limit, type), 0, 0, 0},
    {"key", KIND_BYTES, IN(pawl_past_limit, key), 0, 0, 0},
    {"permits", KIND_INT, IN(pawl_past_limit, rate.permits), 0, INT_MAX, 0},
    {"period_us", KIND_INT64, IN(pawl_past_limit, rate.period_us), 0, INT64_MAX, 0},
    {"burst", KIND_INT, IN(pawl_past_limit, rate.burst), 0, INT_MAX, 0},
    {"horizon_us", KIND_INT64, IN(pawl_past_limit, rate.horizon_us), INT64_MIN, INT64_MAX, 0},
    {"start_empty", KIND_BOOL, IN(pawl_past_limit, rate.start_empty), 0, 0, 0},
    {"retries_free", KIND_BOOL, IN(pawl_past_limit, rate.retries_free), 0, 0, 0},
    {"discard", KIND_BOOL, IN(pawl_past_limit, rate.discard), 0, 0, 0},
    {"paused", KIND_BOOL, IN(pawl_past_limit, paused), 0, 0, 0},
};

static const member parent_members[] = {
    {"id", KIND_ID, IN(pawl_past_parent, id), 0, 0, 0},
    {"state", KIND_INT, IN(pawl_past_parent, state), 0, PAWL_EDGE_HELD, 0},
};

static const member bound_members[] = {
    {"pawl_bound", KIND_NAME, IN(pawl_past_bound, name), 0, 0, 0},
    {"scope", KIND_INT, IN(pawl_past_bound, scope), PAWL_SCOPE_QUEUE, PAWL_SCOPE_TENANTS, 0},
    {"key", KIND_BYTES, IN(pawl_past_bound, key), 0, 0, 0},
    {"most", KIND_INT, IN(pawl_past_bound, most), 1, INT_MAX, 0},
    {"ordered", KIND_BOOL, IN(pawl_past_bound, ordered), 0, 0, 0},
};

static const member batch_members[] = {
    {"pawl_batch", KIND_TEXT, IN(pawl_past_batch, name), 0, 0, 0},
    {"id", KIND_ID, IN(pawl_past_batch, id), 0, 0, 0},
    {"within", KIND_ID, IN(pawl_past_batch, within), 0, 0, 0},
    {"state", KIND_STATE, IN(pawl_past_batch, state), 0, 0, 0},
    {"cancel_asked", KIND_BOOL, IN(pawl_past_batch, cancel_asked), 0, 0, 0},
    {"unfinished", KIND_INT64, IN(pawl_past_batch, unfinished), 0, INT64_C(1) << 50, 0},
    {"succeeded", KIND_INT64, IN(pawl_past_batch, succeeded), 0, INT64_C(1) << 50, 0},
    {"failed", KIND_INT64, IN(pawl_past_batch, failed), 0, INT64_C(1) << 50, 0},
    {"cancelled", KIND_INT64, IN(pawl_past_batch, cancelled), 0, INT64_C(1) << 50, 0},
    {"created_us", KIND_INT64, IN(pawl_past_batch, created_us), 1, INT64_MAX, 0},
    {"closed_us", KIND_INT64, IN(pawl_past_batch, closed_us), 0, INT64_MAX, 0},
    {"ended_us", KIND_INT64, IN(pawl_past_batch, ended_us), 0, INT64_MAX, 0},
};

static const member kept_members[] = {
    {"pawl_kept", KIND_ID, IN(pawl_past_kept, id), 0, 0, 0},
    {"state", KIND_STATE, IN(pawl_past_kept, state), 0, 0, 0},
    {"error", KIND_TEXT, IN(pawl_past_kept, error), 0, 0, 0},
    {"result_type", KIND_TEXT, IN(pawl_past_kept, result_type), 0, 0, 0},
    {"result_ref", KIND_TEXT, IN(pawl_past_kept, result_ref), 0, 0, 0},
    {"result", KIND_BYTES, IN(pawl_past_kept, result), 0, 0, 0},
};

#define SCHEDULE(name, where)                                            \
    {                                                                    \
        name, KIND_INT64, IN(pawl_past_schedule, where), 0, INT64_MAX, 0 \
    }

static const member schedule_members[] = {
    {"pawl_schedule", KIND_TEXT, IN(pawl_past_schedule, name), 0, 0, 0},
    {"spec", KIND_TEXT, IN(pawl_past_schedule, spec), 0, 0, 0},
    {"after", KIND_TEXT, IN(pawl_past_schedule, after), 0, 0, 0},
    {"payload", KIND_BYTES, IN(pawl_past_schedule, payload), 0, 0, 0},
    {"off", KIND_INT, IN(pawl_past_schedule, off), 0, PAWL_OFF_COUNT - 1, 0},
    {"reason", KIND_TEXT, IN(pawl_past_schedule, reason), 0, 0, 0},
    {"watch", KIND_BOOL, IN(pawl_past_schedule, watch), 0, 0, 0},
    {"last_task", KIND_ID, IN(pawl_past_schedule, last_task), 0, 0, 0},
    SCHEDULE("version", version),
    SCHEDULE("anchor_us", anchor_us),
    SCHEDULE("next_us", next_us),
    SCHEDULE("occurrence_us", occurrence_us),
    SCHEDULE("last_us", last_us),
    SCHEDULE("look_us", look_us),
    SCHEDULE("runs", runs),
    SCHEDULE("fired", fired),
    SCHEDULE("skipped", skipped),
    SCHEDULE("succeeded", succeeded),
    SCHEDULE("failed", failed),
    SCHEDULE("created_us", created_us),
    SCHEDULE("changed_us", changed_us),
};

static const member occurrence_members[] = {
    {"occurrence", KIND_INT64, IN(pawl_occurrence, occurrence), INT64_MIN, INT64_MAX, 0},
    {"state", KIND_INT, IN(pawl_occurrence, state), 1, PAWL_OCCURRENCE_COUNT - 1, 0},
    {"at_us", KIND_INT64, IN(pawl_occurrence, at_us), 0, INT64_MAX, 0},
    {"task", KIND_ID, IN(pawl_occurrence, task), 0, 0, 0},
    {"count", KIND_INT64, IN(pawl_occurrence, count), 0, INT64_MAX, 0},
    {"why", KIND_TEXT, IN(pawl_occurrence, why), 0, 0, 0},
};

typedef struct table {
    const member *members;
    size_t count;
} table;

#define TABLE(list)                           \
    {                                         \
        (list), sizeof(list) / sizeof *(list) \
    }
#define AS_TABLE(list) ((table)TABLE(list))

typedef struct rows_of { /* of rows, in a member of its own */
    const char *name;
    table t;
    size_t size, at, count_at;
} rows_of;

#define LIST(type, where, rows)                                                                               \
    {                                                                                                         \
#where, TABLE(rows), sizeof *((type *)0)->where, offsetof(type, where), offsetof(type, where##_count) \
    }

static const rows_of record_lists[] = {LIST(pawl_record, attempts, attempt_members), LIST(pawl_record, logs, log_members),
                                       LIST(pawl_record, changes, change_members), LIST(pawl_record, parents, parent_members)};
static const rows_of schedule_lists[] = {LIST(pawl_past_schedule, occurrences, occurrence_members)};

typedef struct lists {
    const rows_of *all;
    size_t count;
} lists;

#define LISTS(these) ((lists){(these), sizeof(these) / sizeof *(these)})

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

static void write_text(json_writer *w, const member *m, const char *text)
{
    if (!text || (m->kind == KIND_NAME && !text[0])) return;
    jsonw_key(w, m->name);
    jsonw_string(w, text);
}

static void write_bytes(json_writer *w, const member *m, pawl_bytes data)
{
    char name[40];
    if (!data.data) return;
    bool text = utf8_valid(data.data, data.len);
    snprintf(name, sizeof name, "%s%s", m->name, text ? "" : "_base64");
    jsonw_key(w, name);
    if (text) jsonw_bytes(w, data);
    else jsonw_base64(w, data);
}

static void write_number(json_writer *w, const member *m, int64_t value)
{
    if (value == m->none) return;
    jsonw_key(w, m->name);
    jsonw_int(w, value);
}

static void write_id(json_writer *w, const member *m, pawl_id id)
{
    char text[PAWL_ID_TEXT];
    if (!id) return;
    pawl_id_format(id, text);
    jsonw_key(w, m->name);
    jsonw_string(w, text);
}

static void write_member(json_writer *w, const member *m, const char *base)
{
    const void *at = base + m->at;
    switch (m->kind) {
    case KIND_TEXT:
    case KIND_NAME: write_text(w, m, *(const char *const *)at); break;
    case KIND_BYTES: write_bytes(w, m, *(const pawl_bytes *)at); break;
    case KIND_INT: write_number(w, m, *(const int *)at); break;
    case KIND_INT64: write_number(w, m, *(const int64_t *)at); break;
    case KIND_ID: write_id(w, m, *(const pawl_id *)at); break;
    case KIND_BOOL:
        if (!*(const bool *)at) break;
        jsonw_key(w, m->name);
        jsonw_bool(w, true);
        break;
    case KIND_STATE:
        if (*(const pawl_state *)at) write_text(w, m, pawl_state_name(*(const pawl_state *)at));
        break;
    case KIND_AUDIT:
        if (*(const pawl_audit *)at) write_text(w, m, pawl_audit_name(*(const pawl_audit *)at));
        break;
    case KIND_POLICY:
        if (*(const pawl_if_failed *)at) write_text(w, m, pawl_if_failed_name(*(const pawl_if_failed *)at));
        break;
    case KIND_OUTCOME:
        if (*(const pawl_attempt_outcome *)at) write_text(w, m, pawl_attempt_outcome_name(*(const pawl_attempt_outcome *)at));
        break;
    }
}

static void write_members(json_writer *w, table t, const void *base)
{
    for (size_t i = 0; i < t.count; i++) write_member(w, &t.members[i], base);
}

static void write_list(json_writer *w, const rows_of *l, const char *base)
{
    const char *rows;
    int count;
    memcpy(&rows, base + l->at, sizeof rows);
    memcpy(&count, base + l->count_at, sizeof count);
    if (!count) return;
    jsonw_key(w, l->name);
    jsonw_array(w);
    for (int i = 0; i < count; i++) {
        jsonw_object(w);
        write_members(w, l->t, rows + (size_t)i * l->size);
        jsonw_end_object(w);
    }
    jsonw_end_array(w);
}

static void write_object(json_writer *w, table t, lists more, const void *base)
{
    jsonw_object(w);
    write_members(w, t, base);
    for (size_t i = 0; i < more.count; i++) write_list(w, &more.all[i], base);
    jsonw_end_object(w);
}

void record_write(json_writer *w, const pawl_record *r) { write_object(w, AS_TABLE(members), LISTS(record_lists), r); }

static const lists none;

/* The limit of a whole type has no key. */
void record_write_limit(json_writer *w, const pawl_past_limit *l)
{
    pawl_past_limit copy = *l;
    if (!copy.key.len) copy.key = (pawl_bytes){0};
    write_object(w, AS_TABLE(limit_members), none, &copy);
}

void record_write_other(json_writer *w, const pawl_dump *page, int i)
{
    if (page->part == PAWL_PART_BOUNDS) {
        pawl_past_bound copy = page->bounds[i];
        if (!copy.key.len) copy.key = (pawl_bytes){0};
        write_object(w, AS_TABLE(bound_members), none, &copy);
    } else if (page->part == PAWL_PART_BATCHES) {
        pawl_past_batch copy = page->batches[i];
        if (!copy.ended_us) copy.state = PAWL_STATE_NONE;
        write_object(w, AS_TABLE(batch_members), none, &copy);
    } else if (page->part == PAWL_PART_KEPT) {
        write_object(w, AS_TABLE(kept_members), none, &page->kept[i]);
    } else {
        write_object(w, AS_TABLE(schedule_members), LISTS(schedule_lists), &page->schedules[i]);
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    pawl_arena *arena;
    pawl_error *why;
} reading;

static bool wrong(const reading *g, const char *name, const char *what)
{
    err_set(g->why, PAWL_INVALID, "\"%s\" %s", name, what);
    return false;
}

static bool read_string(const reading *g, const char *name, json value, pawl_bytes *out)
{
    buf text;
    if (value.kind != JSON_STRING) return wrong(g, name, "must be a string");
    buf_init(&text, pawl_arena_allocator(g->arena), SIZE_MAX / 2);
    bool ok = json_string(value, &text);
    char *copy = ok ? pawl_arena_bytes(g->arena, buf_text(&text), text.len) : NULL;
    *out = (pawl_bytes){copy, text.len};
    buf_done(&text);
    if (copy) return true;
    err_set(g->why, PAWL_NO_MEMORY, "out of memory");
    return false;
}

static bool read_text(const reading *g, const member *m, json value, const char **out)
{
    pawl_bytes text;
    const char *what;
    if (!read_string(g, m->name, value, &text)) return false;
    if (strlen(text.data) != text.len) return wrong(g, m->name, "must not contain a NUL");
    if (m->kind == KIND_NAME && !name_valid(text.data, &what)) return wrong(g, m->name, what);
    *out = text.data;
    return true;
}

static bool read_number(const reading *g, const member *m, json value, int64_t *out)
{
    char what[96];
    if (json_int(value, out) && *out >= m->min && *out <= m->max) return true;
    snprintf(what, sizeof what, "must be a whole number between %lld and %lld", (long long)m->min, (long long)m->max);
    return wrong(g, m->name, what);
}

static bool outcome_parse(const char *text, pawl_attempt_outcome *out)
{
    for (int i = 1; i < PAWL_ATTEMPT_COUNT; i++) {
        if (strcmp(pawl_attempt_outcome_name((pawl_attempt_outcome)i), text) != 0) continue;
        *out = (pawl_attempt_outcome)i;
        return true;
    }
    return false;
}

static bool read_word(const reading *g, const member *m, json value, void *to)
{
    const char *text;
    if (!read_text(g, m, value, &text)) return false;
    bool known = m->kind == KIND_ID       ? pawl_id_parse(text, to) && *(pawl_id *)to > 0
                 : m->kind == KIND_STATE  ? pawl_state_parse(text, to)
                 : m->kind == KIND_AUDIT  ? pawl_audit_parse(text, to)
                 : m->kind == KIND_POLICY ? pawl_if_failed_parse(text, to)
                                          : outcome_parse(text, to);
    return known || wrong(g, m->name, m->kind == KIND_ID ? "is not a task id" : "is not a word that is known here");
}

static bool read_bytes(const reading *g, const member *m, json value, bool base64, pawl_bytes *out)
{
    if (!read_string(g, m->name, value, out)) return false;
    return !base64 || base64_decode((char *)out->data, &out->len) || wrong(g, m->name, "is not base64");
}

static bool read_member(const reading *g, const member *m, json value, bool base64, char *base)
{
    void *to = base + m->at;
    int64_t number;
    switch (m->kind) {
    case KIND_TEXT:
    case KIND_NAME: return read_text(g, m, value, to);
    case KIND_BYTES: return read_bytes(g, m, value, base64, to);
    case KIND_BOOL: return json_bool(value, to) || wrong(g, m->name, "must be true or false");
    case KIND_INT:
        if (!read_number(g, m, value, &number)) return false;
        *(int *)to = (int)number;
        return true;
    case KIND_INT64: return read_number(g, m, value, to);
    default: return read_word(g, m, value, to);
    }
}

/* A name with "_base64" behind it is that of bytes in another form. */
static const member *find(table t, const char *name, bool *base64)
{
    size_t n = strlen(name), tail = strlen("_base64");
    *base64 = n > tail && strcmp(name + n - tail, "_base64") == 0;
    for (size_t i = 0; i < t.count; i++) {
        const member *m = &t.members[i];
        bool fits = *base64 ? m->kind == KIND_BYTES && strlen(m->name) == n - tail && strncmp(m->name, name, n - tail) == 0
                            : strcmp(m->name, name) == 0;
        if (fits) return m; /* cppcheck-suppress returnDanglingLifetime ; the tables are there for ever */
    }
    return NULL;
}

static bool read_list(const reading *g, const rows_of *l, json value, char *base);

static bool read_lists(const reading *g, lists more, const char *name, json value, char *base, bool *known)
{
    for (size_t i = 0; i < more.count; i++) {
        *known = strcmp(more.all[i].name, name) == 0;
        if (*known) return read_list(g, &more.all[i], value, base);
    }
    return true;
}

static bool read_object(const reading *g, json object, table t, lists more, void *base)
{
    json key, value;
    for (size_t at = 0; json_each(object, &at, &key, &value);) {
        pawl_bytes name;
        bool base64, known = false;
        if (!read_string(g, "a name", key, &name)) return false;
        if (value.kind == JSON_NULL) continue;
        if (!read_lists(g, more, name.data, value, base, &known)) return false;
        if (known) continue;
        const member *m = find(t, name.data, &base64);
        if (!m || strlen(name.data) != name.len) return wrong(g, name.data, "is not a member of this format");
        if (!read_member(g, m, value, base64, base)) return false;
    }
    return true;
}

static bool read_list(const reading *g, const rows_of *l, json value, char *base)
{
    json key, item;
    size_t n = 0;
    if (value.kind != JSON_ARRAY) return wrong(g, l->name, "must be an array");
    for (size_t at = 0; json_each(value, &at, &key, &item);) n++;
    char *rows = pawl_arena_alloc(g->arena, (n + 1) * l->size);
    int count = 0;
    if (!rows) return wrong(g, l->name, "does not fit into memory");
    for (size_t at = 0; json_each(value, &at, &key, &item); count++) {
        if (item.kind != JSON_OBJECT) return wrong(g, l->name, "must hold objects");
        if (!read_object(g, item, l->t, none, rows + (size_t)count * l->size)) return false;
    }
    memcpy(base + l->at, &rows, sizeof rows);
    memcpy(base + l->count_at, &count, sizeof count);
    return true;
}

/* ---- what makes sense ---------------------------------------------------------------------------------------------------- */

static bool sane_hanging(const reading *g, const pawl_record *r)
{
    int last = 0;
    for (int i = 0; i < r->attempts_count; last = r->attempts[i++].number)
        if (r->attempts[i].number <= last || !r->attempts[i].outcome)
            return wrong(g, "attempts", "must have outcomes and growing numbers");
    last = 0;
    for (int i = 0; i < r->logs_count; last = r->logs[i++].number)
        if (r->logs[i].number <= last || !r->logs[i].text) return wrong(g, "logs", "must have texts and growing numbers");
    last = -1;
    for (int i = 0; i < r->changes_count; last = r->changes[i++].number)
        if (r->changes[i].number <= last || !r->changes[i].to) return wrong(g, "changes", "must have states and growing numbers");
    return true;
}

static bool still_waits(const pawl_record *r)
{
    for (int i = 0; i < r->parents_count; i++)
        if (r->parents[i].state != PAWL_EDGE_TOLD) return true;
    return false;
}

static bool sane(const reading *g, pawl_record *r)
{
    const pawl_body *b = &r->body;
    if (!b->id) return wrong(g, "id", "is missing");
    if (!b->type) return wrong(g, "type", "is missing");
    if (!b->queue) return wrong(g, "queue", "is missing");
    if (!r->state) return wrong(g, "state", "is missing");
    if (r->state == PAWL_WAITING && !still_waits(r)) return wrong(g, "parents", "are missing: it is waiting");
    for (int i = 0; i < r->parents_count; i++)
        if (!r->parents[i].id) return wrong(g, "parents", "must have ids");
    if (!b->created_us) return wrong(g, "created_us", "is missing");
    if (pawl_state_terminal(r->state) != (r->finished_us != 0))
        return wrong(g, "finished_us", "must be there if the task is finished, and only then");
    if (r->resolved_us && r->state != PAWL_FAILED) return wrong(g, "resolved_us", "belongs to failed tasks only");
    if (b->headers && strlen(b->headers) > HEADERS_MAX) return wrong(g, "headers", "are too long");
    return sane_hanging(g, r);
}

bool record_read(json object, pawl_record *r, pawl_arena *arena, pawl_error *why)
{
    reading g = {arena, why};
    *r = (pawl_record){.body.tenant = "", .progress = -1};
    if (object.kind != JSON_OBJECT) return err_set(why, PAWL_INVALID, "a task is a JSON object"), false;
    if (!read_object(&g, object, AS_TABLE(members), LISTS(record_lists), r) || !sane(&g, r)) return false;
    if (!r->level) r->level = PAWL_AUDIT_FULL;
    if (!r->end_level && pawl_state_terminal(r->state)) r->end_level = r->level;
    return true;
}

bool record_read_limit(json object, pawl_past_limit *l, pawl_arena *arena, pawl_error *why)
{
    reading g = {arena, why};
    *l = (pawl_past_limit){0};
    if (!read_object(&g, object, AS_TABLE(limit_members), none, l)) return false;
    if (!l->type) return wrong(&g, RECORD_LIMIT, "must be a type");
    if (strcmp(l->type, "*") == 0) return wrong(&g, RECORD_LIMIT, "must be one type");
    if (l->key.len > LIMIT_KEY_MAX) return wrong(&g, "key", "is too long: longer keys are known by their SHA-256");
    bool only_paused = l->paused && l->rate.permits == 0;
    return only_paused || limits_check(&l->rate, l->type, why) == PAWL_OK;
}

/* ---- the others ---------------------------------------------------------------------------------------------------------- */

pawl_part record_part(json object)
{
    static const struct {
        const char *member;
        pawl_part part;
    } known[] = {{"pawl_bound", PAWL_PART_BOUNDS},
                 {"pawl_batch", PAWL_PART_BATCHES},
                 {"pawl_kept", PAWL_PART_KEPT},
                 {"pawl_schedule", PAWL_PART_SCHEDULES}};
    for (size_t i = 0; object.kind == JSON_OBJECT && i < sizeof known / sizeof *known; i++)
        if (json_member(object, known[i].member).kind != JSON_NONE) return known[i].part;
    return (pawl_part)0;
}

static bool sane_bound(const reading *g, const pawl_past_bound *b)
{
    if (!b->name) return wrong(g, "pawl_bound", "must be a queue or a type");
    if (!b->scope) return wrong(g, "scope", "is missing");
    if (!b->most) return wrong(g, "most", "is missing");
    if (b->key.len && b->scope < PAWL_SCOPE_KEYS) return wrong(g, "key", "belongs to scopes 3 and 4");
    if (b->key.len > LIMIT_KEY_MAX) return wrong(g, "key", "is too long: longer keys are known by their SHA-256");
    return !b->ordered || (b->scope == PAWL_SCOPE_KEYS && b->most == 1) || wrong(g, "ordered", "belongs to scope 3, and most 1");
}

static bool named(const char *name) { return name && name[0] && strlen(name) <= NAME_MAX_BYTES; }

static bool sane_batch(const reading *g, pawl_past_batch *b)
{
    if (!named(b->name)) return wrong(g, "pawl_batch", "must be a name");
    if (!b->id) return wrong(g, "id", "is missing");
    if (!b->created_us) return wrong(g, "created_us", "is missing");
    if ((b->ended_us != 0) != (bool)pawl_state_terminal(b->state))
        return wrong(g, "state", "must be there if it has ended, and only then");
    b->total = b->unfinished + b->succeeded + b->failed + b->cancelled;
    return true;
}

static bool sane_schedule(const reading *g, pawl_past_schedule *s)
{
    if (!named(s->name)) return wrong(g, "pawl_schedule", "must be a name");
    if (s->after && !named(s->after)) return wrong(g, "after", "must be a name");
    if (!s->spec) return wrong(g, "spec", "is missing");
    if (!s->version) return wrong(g, "version", "is missing");
    for (int i = 0; i < s->occurrences_count; i++) {
        if (!s->occurrences[i].state) return wrong(g, "occurrences", "must have states");
        s->open += s->occurrences[i].state == PAWL_OCCURRENCE_OPEN;
        s->waiting += s->occurrences[i].state == PAWL_OCCURRENCE_WAITING;
    }
    return true;
}

bool record_read_other(json object, pawl_part part, pawl_dump *page, pawl_arena *arena, pawl_error *why)
{
    reading g = {arena, why};
    union any {
        pawl_past_bound bound;
        pawl_past_batch batch;
        pawl_past_kept kept;
        pawl_past_schedule schedule;
    } *one = pawl_arena_alloc(arena, sizeof *one);
    *page = (pawl_dump){.part = part, .count = 1};
    if (!one) return err_set(why, PAWL_NO_MEMORY, "out of memory"), false;
    switch (part) {
    case PAWL_PART_BOUNDS:
        page->bounds = &one->bound;
        return read_object(&g, object, AS_TABLE(bound_members), none, one) && sane_bound(&g, &one->bound);
    case PAWL_PART_BATCHES:
        page->batches = &one->batch;
        return read_object(&g, object, AS_TABLE(batch_members), none, one) && sane_batch(&g, &one->batch);
    case PAWL_PART_KEPT:
        page->kept = &one->kept;
        if (!read_object(&g, object, AS_TABLE(kept_members), none, one)) return false;
        return pawl_state_terminal(one->kept.state) || wrong(&g, "state", "must be that of one that has ended");
    default:
        page->schedules = &one->schedule;
        return read_object(&g, object, AS_TABLE(schedule_members), LISTS(schedule_lists), one) &&
               sane_schedule(&g, &one->schedule);
    }
}
