/* The OpenAPI 3.1 document: made of the route table, of the tables of members, and of the answers described here.
 *
 * An answer is a list of "name:type". Types: text, int, bool, time, id, any, or the name of another answer; [type] is an array of them.
 * A `?` behind it: it may be null. A `*`: it may be left out.
 */
#include "base/alloc.h"
#include "server/parts.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct {
    const char *name, *members;
} answers[] = {
    {"receipt", "id:id outcome:text"},
    {"done", "done:text"},
    {"why", "code:text text:text until:time?"},
    {"attempt", "number:int outcome:text started_at:time? finished_at:time? duration_us:int* fence:int node:int node_name:text? code:text? error:text? log_lines:int"},
    {"log_line", "attempt:int sequence:int at:time? level:text text:text?"},
    {"change", "at:time? from:text to:text fence:int node_name:text? detail:text?"},
    {"task", "id:id type:text queue:text tenant:text? key:text? state:text display:text? priority:int created_at:time? run_at:time? started_at:time? "
             "finished_at:time? attempt:int max_attempts:int timeout_us:int failures:int rescues:int interruptions:int fence:int node:int node_name:text? "
             "cancel_asked:bool progress:int? progress_text:text? code:text? error:text? reason:text? schedule:text? retry_of:id? retried_as:id? resolved_at:time? "
             "resolved_by:text? note:text? audit:text created_by:text? traceparent:text? headers:text? rate_key:text* rate_key_base64:text* content_type:text? "
             "payload:any* payload_base64:text* result_type:text? result:any* result_base64:text* result_ref:text? attempts:[attempt]* log:[log_line]* "
             "audit_trail:[change]* why:why*"},
    {"batch", "id:id name:text state:text within:id? cancel_asked:bool total:int unfinished:int succeeded:int failed:int cancelled:int created_at:time? "
              "closed_at:time? ended_at:time?"},
    {"batches", "batches:[batch] next:text?"},
    {"tree", "id:id batch:bool name:text?* type:text?* state:text waits:bool held:bool parents:[tree]* members:[tree]* children:[tree]* more:bool*"},
    {"relative", "id:id batch:bool name:text?* type:text?* state:text waits:bool held:bool if_failed:text result_type:text? result:any* result_base64:text* "
                 "result_ref:text? error:text?"},
    {"relatives", "relatives:[relative] next:id?"},
    {"page", "tasks:[task] next:text? partial:bool looked_to:time?"},
    {"item", "index:int id:id* outcome:text* status:text* detail:text*"},
    {"bulk", "results:[item] stored:int refused:int"},
    {"result", "id:id status:text detail:text* as:id* outcome:text*"},
    {"results", "results:[result]* count:int"},
    {"queue", "name:text paused:bool served:bool waiting:int pending:int leased:int failed:int due:int due_more:bool throttled:int oldest_due_at:time?"},
    {"queues", "queues:[queue]"},
    {"limit", "type:text key:text?* key_base64:text* own:bool paused:bool permits:int period_us:int burst:int start_empty:bool retries_free:bool discard:bool "
              "horizon_us:int left:int next_slot_at:time? waiting:int parked:int running:int parked_slot_at:time? node:text?"},
    {"limit_totals", "parked:int running:int deferrals:int rejected:int opened:int"},
    {"limits", "limits:[limit] next:text? totals:limit_totals"},
    {"place", "scope:text name:text key:text?* key_base64:text* own:bool most:int* weight:int* ordered:bool running:int blocked:int holder:id?"},
    {"places", "concurrency:[place] next:text?"},
    {"occurrence", "due_at:time* after:id* state:text at:time? task:id? count:int why:text?"},
    {"schedule", "name:text status:text reason:text? words:text after:text? definition:schedule_spec stored:text* payload:any* payload_base64:text* next_at:time? "
                 "occurrence_at:time? last_at:time? created_at:time? changed_at:time? runs:int fired:int skipped:int succeeded:int failed:int open:int waiting:int "
                 "last_task:id? version:int upcoming:[time]* occurrences:[occurrence]*"},
    {"schedules", "schedules:[schedule] next:text?"},
    {"put", "name:text outcome:text words:text next_at:time?"},
    {"times", "times:[time]"},
    {"node", "id:int name:text? pid:int alive:bool draining:bool born_at:time? expires_at:time? leases:int queues:text?"},
    {"nodes", "nodes:[node]"},
    {"stats", "now:time? closed:text? waiting:int pending:int leased:int dead:int throttled:int window_us:int dispatched:int succeeded:int failed:int cancelled:int "
              "retried:int rescued:int wait_p50_us:int wait_p99_us:int run_p50_us:int run_p99_us:int step_us:int steps:[step]"},
    {"step", "at:time? dispatched:int succeeded:int failed:int cancelled:int retried:int rescued:int wait_p50_us:int wait_p99_us:int "
             "run_p50_us:int run_p99_us:int"},
    {"worker", "worker:text name:text token:text? queues:text types:text held:int waits:bool drain:bool registered_at:time? seen_at:time? lease_left_us:int"},
    {"workers", "workers:[worker]"},
    {"registered", "worker:text lease_us:int renew_us:int"},
    {"claimed_task", "id:id fence:int type:text queue:text key:text? tenant:text? attempt:int max_attempts:int deadline:time? headers:text? traceparent:text? "
                     "content_type:text payload:any* payload_base64:text*"},
    {"claimed", "tasks:[claimed_task] lease_us:int drain:bool stopping:bool"},
    {"lease", "id:id fence:int reason:text*"},
    {"renewed", "lost:[lease] stop:[lease] lease_us:int renew_us:int drain:bool stopping:bool"},
    {"reported_item", "id:id fence:int status:text as:text* detail:text*"},
    {"reported", "results:[reported_item] lease_us:int drain:bool stopping:bool"},
    {"act", "at:time? who:text? action:text? detail:text? id:id?"},
    {"acts", "acts:[act] next:int?"},
    {"event", "at:time? event:text id:id? type:text? queue:text? attempt:int fence:int delay_us:int* percent:int* lost_node:int* text:text* node:text?"},
    {"hook", "name:text url:text events:[text] type:text? queue:text? disabled:bool why:text? created_at:time?"},
    {"hooks", "hooks:[hook]"},
    {"hook_made", "name:text secret:text*"},
    {"gap", "lost:int?"},
    {"alive", "status:text version:text"},
    {"ready", "status:text text:text?* store_latency_us:int* loop_lag_us:int* lease_left_us:int* running:int* ready:int* stuck:int* long_running:int* "
              "stale:int* due:int* pending:int* leased:int* dead:int* oldest_due_at:time?*"},
    {"session", "name:text tenant:text? scopes:[text] login:bool version:text store:text?"},
    {"problem", "type:text title:text status:int detail:text"},
};
/* clang-format on */

static void ref(json_writer *w, const char *name, int n)
{
    char text[96];
    snprintf(text, sizeof text, "#/components/schemas/%.*s", n, name);
    json_text(w, "$ref", text);
}

/* ---- types -------------------------------------------------------------------------------------------------------------------- */

static bool is(const char *type, int n, const char *word)
{
    return strlen(word) == (size_t)n && memcmp(type, word, (size_t)n) == 0;
}

static void json_type(json_writer *w, const char *type, bool nullable)
{
    jsonw_key(w, "type");
    if (!nullable) {
        jsonw_string(w, type);
        return;
    }
    jsonw_array(w);
    jsonw_string(w, type);
    jsonw_string(w, "null");
    jsonw_end_array(w);
}

/* The members of a schema object, without its braces. */
static void type_members(json_writer *w, const char *type, int n, bool nullable)
{
    if (is(type, n, "any")) return;
    if (is(type, n, "int")) json_type(w, "integer", nullable);
    else if (is(type, n, "bool")) json_type(w, "boolean", nullable);
    else if (is(type, n, "text") || is(type, n, "time") || is(type, n, "id")) json_type(w, "string", nullable);
    else if (*type == '[') {
        json_type(w, "array", nullable);
        jsonw_key(w, "items");
        jsonw_object(w);
        type_members(w, type + 1, n - 2, false);
        jsonw_end_object(w);
    } else ref(w, type, n);
    if (is(type, n, "time")) json_text(w, "format", "date-time");
    if (is(type, n, "id")) json_text(w, "pattern", "^[0-9A-Za-z]{13}$");
}

typedef struct member {
    const char *name, *type;
    int name_len, type_len;
    bool nullable, optional;
} member;

static bool next_member(const char **at, member *m)
{
    while (**at == ' ') ++*at;
    if (!**at) return false;
    *m = (member){.name = *at, .name_len = (int)strcspn(*at, ":")};
    m->type = m->name + m->name_len + 1;
    m->type_len = (int)strcspn(m->type, " ?*");
    const char *end = m->type + m->type_len;
    for (; *end && *end != ' '; end++) {
        m->nullable = m->nullable || *end == '?';
        m->optional = m->optional || *end == '*';
    }
    *at = end;
    return true;
}

static void key_of(json_writer *w, const member *m)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", m->name_len, m->name);
    jsonw_key(w, name);
}

static void answer_schema(json_writer *w, const char *members)
{
    member m;
    jsonw_object(w);
    json_text(w, "type", "object");
    jsonw_key(w, "properties");
    jsonw_object(w);
    for (const char *at = members; next_member(&at, &m);) {
        key_of(w, &m);
        jsonw_object(w);
        type_members(w, m.type, m.type_len, m.nullable);
        jsonw_end_object(w);
    }
    jsonw_end_object(w);
    jsonw_key(w, "required");
    jsonw_array(w);
    for (const char *at = members; next_member(&at, &m);) {
        if (!m.optional) jsonw_bytes(w, (pawl_bytes){m.name, (size_t)m.name_len});
    }
    jsonw_end_array(w);
    json_truth(w, "additionalProperties", false);
    jsonw_end_object(w);
}

/* ---- what is sent ------------------------------------------------------------------------------------------------------------- */

static void object_of(json_writer *w, const field *table, const char *required);

static void enumeration(json_writer *w, const char *const *words)
{
    jsonw_key(w, "enum");
    jsonw_array(w);
    for (; *words; words++) {
        if (**words) jsonw_string(w, *words);
    }
    jsonw_end_array(w);
}

/* An array of strings, or of numbers within the field's bounds. */
static void list_schema(json_writer *w, const field *f, bool text)
{
    json_text(w, "type", "array");
    if (text && f->max) json_number(w, "maxItems", f->max);
    jsonw_key(w, "items");
    jsonw_object(w);
    json_text(w, "type", text ? "string" : "integer");
    if (!text) json_number(w, "minimum", f->min), json_number(w, "maximum", f->max);
    if (f->kind == FIELD_WEEKDAYS) enumeration(w, weekday_names);
    jsonw_end_object(w);
}

static void field_schema(json_writer *w, const field *f, bool described)
{
    jsonw_object(w);
    switch (f->kind) {
    case FIELD_COUNT:
    case FIELD_INT:
    case FIELD_MICROS:
        json_text(w, "type", "integer");
        json_number(w, "minimum", f->min);
        if (f->max) json_number(w, "maximum", f->max);
        break;
    case FIELD_BOOL: json_text(w, "type", "boolean"); break;
    case FIELD_PAYLOAD: break;
    case FIELD_PARENTS:
    case FIELD_IDS:
        json_text(w, "type", "array");
        json_number(w, "maxItems", FIELD_IDS_MAX);
        jsonw_key(w, "items");
        jsonw_object(w);
        type_members(w, "id", 2, false);
        jsonw_end_object(w);
        break;
    case FIELD_FILTER: ref(w, "filter", 6); break;
    case FIELD_PLAN: ref(w, "plan", 4); break;
    case FIELD_TASK: ref(w, "new_task", 8); break;
    case FIELD_TEXTS:
    case FIELD_TIMES:
    case FIELD_WEEKDAYS: list_schema(w, f, true); break;
    case FIELD_DAYS:
    case FIELD_MONTHS: list_schema(w, f, false); break;
    case FIELD_ID: type_members(w, "id", 2, false); break;
    case FIELD_INSTANT: type_members(w, "time", 4, false); break;
    default:
        json_text(w, "type", "string");
        if (field_words(f->kind)) enumeration(w, field_words(f->kind));
        break;
    }
    if (described && f->kind != FIELD_FILTER && f->kind != FIELD_PLAN && f->kind != FIELD_TASK)
        json_text(w, "description", f->help);
    jsonw_end_object(w);
}

static void object_of(json_writer *w, const field *table, const char *required)
{
    jsonw_object(w);
    json_text(w, "type", "object");
    jsonw_key(w, "properties");
    jsonw_object(w);
    for (const field *f = table; f->name; f++) {
        jsonw_key(w, f->name);
        field_schema(w, f, true);
    }
    jsonw_end_object(w);
    if (required) {
        jsonw_key(w, "required");
        jsonw_array(w);
        jsonw_string(w, required);
        jsonw_end_array(w);
    }
    json_truth(w, "additionalProperties", false);
    jsonw_end_object(w);
}

static void parameter(json_writer *w, const char *name, const char *in, const char *help, const field *f)
{
    jsonw_object(w);
    json_text(w, "name", name);
    json_text(w, "in", in);
    json_truth(w, "required", strcmp(in, "path") == 0);
    if (help) json_text(w, "description", help);
    jsonw_key(w, "schema");
    if (f) field_schema(w, f, false);
    else {
        jsonw_object(w);
        if (strcmp(name, "id") == 0) type_members(w, "id", 2, false);
        else json_text(w, "type", "string");
        jsonw_end_object(w);
    }
    jsonw_end_object(w);
}

static void parameters(json_writer *w, const route *r)
{
    const char *open = strchr(r->path, '{');
    bool posts = r->method == HTTP_POST;
    if (!open && !r->query->name && !posts) return;
    jsonw_key(w, "parameters");
    jsonw_array(w);
    if (open) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(open + 1, "}"), open + 1);
        parameter(w, name, "path", NULL, NULL);
    }
    for (const field *f = r->query; f->name; f++) parameter(w, f->name, "query", f->help, f);
    if (posts)
        parameter(w, "Idempotency-Key", "header", "a request that is sent again with the same key gets the first one's answer",
                  NULL);
    jsonw_end_array(w);
}

static void content(json_writer *w, const char *type, const char *schema)
{
    jsonw_key(w, "content");
    jsonw_object(w);
    jsonw_key(w, type);
    jsonw_object(w);
    jsonw_key(w, "schema");
    jsonw_object(w);
    if (schema) ref(w, schema, (int)strlen(schema));
    else json_text(w, "type", "string");
    jsonw_end_object(w);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static void bulk_content(json_writer *w)
{
    jsonw_key(w, "content");
    jsonw_object(w);
    jsonw_key(w, "application/json");
    jsonw_object(w);
    jsonw_key(w, "schema");
    jsonw_object(w);
    json_text(w, "type", "array");
    json_number(w, "maxItems", PAWL_BULK_MAX);
    jsonw_key(w, "items");
    jsonw_object(w);
    ref(w, "new_task", 8);
    jsonw_end_object(w);
    jsonw_end_object(w);
    jsonw_end_object(w);
    jsonw_key(w, "application/x-ndjson");
    jsonw_object(w);
    jsonw_key(w, "schema");
    jsonw_object(w);
    json_text(w, "type", "string");
    jsonw_end_object(w);
    jsonw_end_object(w);
    jsonw_end_object(w);
}

static const struct {
    const char *name;
    const field *fields;
    const char *required;
} bodies[] = {{"new_task", task_fields, "type"}, {"filter", filter_fields, NULL}, {"action", action_body, NULL},
              {"rate", rate_body, "permits"},    {"most", most_body, "most"},     {"schedule_spec", schedule_fields, NULL},
              {"plan", plan_fields, NULL},       {"run", run_body, NULL},         {"new_batch", batch_body, NULL},
              {"new_worker", worker_body, NULL}, {"claim", claim_body, NULL},     {"renewal", renew_body, NULL},
              {"report", report_body, NULL},     {"hook_spec", hook_body, "url"}, {"login", session_body, "token"}};

static const char *body_name(const field *fields)
{
    size_t i = 0;
    while (bodies[i].fields != fields) i++;
    return bodies[i].name;
}

static void request_body(json_writer *w, const route *r)
{
    if (r->body == no_fields && r->place != PLACE_STREAM) return;
    jsonw_key(w, "requestBody");
    jsonw_object(w);
    json_truth(w, "required", r->body != run_body && r->body != batch_body);
    if (r->place == PLACE_STREAM) bulk_content(w);
    else content(w, "application/json", body_name(r->body));
    jsonw_end_object(w);
}

/* ---- routes ------------------------------------------------------------------------------------------------------------------- */

static void response(json_writer *w, const char *status, const char *description, const char *type, const char *schema)
{
    jsonw_key(w, status);
    jsonw_object(w);
    json_text(w, "description", description);
    content(w, type, schema);
    jsonw_end_object(w);
}

static void responses(json_writer *w, const route *r)
{
    bool typed = strchr(r->answer, '/') != NULL, any = strcmp(r->answer, "any") == 0;
    const char *type = typed ? r->answer : "application/json", *schema = typed || any ? NULL : r->answer;
    jsonw_key(w, "responses");
    jsonw_object(w);
    response(w, "200", "done", type, schema);
    if (strcmp(r->answer, "receipt") == 0 || strcmp(r->answer, "registered") == 0 ||
        (strcmp(r->answer, "batch") == 0 && r->method == HTTP_POST))
        response(w, "201", "stored", type, schema);
    if (strcmp(r->answer, "ready") == 0) response(w, "503", "not now", type, schema);
    response(w, "default", "what is wrong, and what to do", "application/problem+json", "problem");
    jsonw_end_object(w);
}

static void operation(json_writer *w, const route *r)
{
    char method[8] = "";
    const char *name = http_method_name(r->method);
    for (size_t i = 0; i < sizeof method - 1 && name[i]; i++) method[i] = (char)tolower(name[i]);
    jsonw_key(w, method);
    jsonw_object(w);
    json_text(w, "operationId", r->name);
    json_text(w, "summary", r->summary);
    json_text(w, "x-scope", scope_name(r->scope));
    json_truth(w, "x-whole-store", r->tenant == TENANT_ALL);
    if (*r->command) json_text(w, "x-command", r->command);
    parameters(w, r);
    request_body(w, r);
    responses(w, r);
    if (r->scope == SCOPE_NONE) {
        jsonw_key(w, "security");
        jsonw_array(w);
        jsonw_end_array(w);
    }
    jsonw_end_object(w);
}

static bool told_before(const route *r)
{
    for (const route *it = routes; it < r; it++) {
        if (strcmp(it->path, r->path) == 0) return true;
    }
    return false;
}

static void paths(json_writer *w)
{
    jsonw_key(w, "paths");
    jsonw_object(w);
    for (const route *r = routes; r->name; r++) {
        if (told_before(r)) continue;
        jsonw_key(w, r->path);
        jsonw_object(w);
        for (const route *same = r; same->name; same++) {
            if (strcmp(same->path, r->path) == 0) operation(w, same);
        }
        jsonw_end_object(w);
    }
    jsonw_end_object(w);
}

static void components(json_writer *w)
{
    jsonw_key(w, "components");
    jsonw_object(w);
    jsonw_key(w, "securitySchemes");
    jsonw_object(w);
    jsonw_key(w, "token");
    jsonw_object(w);
    json_text(w, "type", "http");
    json_text(w, "scheme", "bearer");
    jsonw_end_object(w);
    jsonw_end_object(w);
    jsonw_key(w, "schemas");
    jsonw_object(w);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        jsonw_key(w, bodies[i].name);
        object_of(w, bodies[i].fields, bodies[i].required);
    }
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        jsonw_key(w, answers[i].name);
        answer_schema(w, answers[i].members);
    }
    jsonw_end_object(w);
    jsonw_end_object(w);
}

void server_openapi(buf *out, bool pretty)
{
    json_writer w;
    jsonw_init(&w, out, pretty);
    jsonw_object(&w);
    json_text(&w, "openapi", "3.1.0");
    jsonw_key(&w, "info");
    jsonw_object(&w);
    json_text(&w, "title", "Pawl");
    json_text(&w, "version", pawl_version());
    json_text(&w, "summary", "Durable background tasks");
    jsonw_end_object(&w);
    jsonw_key(&w, "security");
    jsonw_array(&w);
    jsonw_object(&w);
    jsonw_key(&w, "token");
    jsonw_array(&w);
    jsonw_end_array(&w);
    jsonw_end_object(&w);
    jsonw_end_array(&w);
    paths(&w);
    components(&w);
    jsonw_end_object(&w);
    buf_char(out, '\n');
}

void route_openapi(call *c)
{
    buf out;
    if (!call_query(c, no_fields, NULL)) return;
    buf_init(&out, alloc_default(), ANSWER_MAX);
    server_openapi(&out, false);
    call_answer(c, 200, "application/json", &out);
}
