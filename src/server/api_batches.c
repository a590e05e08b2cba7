/* /v1/batches, and whom tasks have to do with. */
#include "base/error.h"
#include "server/parts.h"
#include <string.h>

typedef struct relatives_options {
    pawl_relation relation;
    pawl_id after;
    int limit;
} relatives_options;

#define LIST(member) offsetof(pawl_batch_filter, member)
#define BATCH(member) offsetof(pawl_batch_options, member)
#define TREE(member) offsetof(tree_options, member)
#define RELATIVES(member) offsetof(relatives_options, member)

/* clang-format off */
const field batches_query[] = {
    {"unfinished", FIELD_BOOL, LIST(unfinished), 0, 0, "only those that have not ended"},
    {"limit", FIELD_INT, LIST(limit), 1, 1000, "rows of a page; 100 by default"},
    {"cursor", FIELD_TEXT, LIST(cursor), 0, 0, "`next` of the page before"},
    {0},
};
const field batch_body[] = {
    {"name", FIELD_TEXT, BATCH(name), 0, 0, "one at a time has it; its id by default"},
    {"within", FIELD_ID, BATCH(within), 0, 0, "the batch that it is a member of"},
    {"on_finished", FIELD_TASK, BATCH(on_finished), 0, 0, "runs when it ends, however"},
    {"on_succeeded", FIELD_TASK, BATCH(on_succeeded), 0, 0, "runs when it ends and all have succeeded"},
    {0},
};
const field tree_query[] = {
    {"parents", FIELD_BOOL, TREE(parents), 0, 0, "what it waits for, in place of what waits for it"},
    {"depth", FIELD_INT, TREE(depth), 1, 100, "generations; 5 by default"},
    {"limit", FIELD_INT, TREE(limit), 1, 1000, "relatives of each; 20 by default"},
    {0},
};
const field relatives_query[] = {
    {"relation", FIELD_RELATION, RELATIVES(relation), 0, 0, "parents by default; members are those of a batch"},
    {"after", FIELD_ID, RELATIVES(after), 0, 0, "`next` of the page before"},
    {"limit", FIELD_INT, RELATIVES(limit), 1, 1000, "rows of a page; 100 by default"},
    {0},
};
/* clang-format on */

void route_batch_list(call *c)
{
    pawl_batch_filter filter = {0};
    pawl_batches *batches;
    pawl_error err;
    if (!call_query(c, batches_query, &filter)) return;
    if (pawl_list_batches(c->s->options.p, &filter, &batches, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "batches");
    jsonw_array(&a.w);
    for (size_t i = 0; i < batches->count; i++) batch_json(&a.w, &batches->batches[i]);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", batches->next);
    jsonw_end_object(&a.w);
    pawl_batches_free(batches);
    reply_end(c, &a, 200);
}

/* By its id, or else by its name. */
static pawl_status find(const call *c, pawl_batch_info **out, pawl_error *err)
{
    pawl_id id;
    if (pawl_id_parse(c->segment, &id) && !pawl_get_batch(c->s->options.p, id, NULL, out, err)) return PAWL_OK;
    return pawl_get_batch(c->s->options.p, 0, c->segment, out, err);
}

static void reply_batch(call *c, pawl_batch_info *batch, int status)
{
    reply a;
    reply_begin(&a);
    batch_json(&a.w, batch);
    pawl_batch_info_free(batch);
    reply_end(c, &a, status);
}

void route_batch_get(call *c)
{
    pawl_batch_info *batch;
    pawl_error err;
    if (!call_query(c, no_fields, NULL)) return;
    if (find(c, &batch, &err)) call_fail(c, &err);
    else reply_batch(c, batch, 200);
}

void route_batch_open(call *c)
{
    pawl_batch_options o = {0};
    pawl_batch_info *batch;
    pawl_error err;
    pawl_id id;
    if (!call_query(c, no_fields, NULL) || !call_body(c, batch_body, &o)) return;
    pawl_status status = pawl_open_batch(c->s->options.p, &o, &id, &err);
    if (!status) status = pawl_get_batch(c->s->options.p, id, NULL, &batch, &err);
    if (status) call_fail(c, &err);
    else reply_batch(c, batch, 201);
}

typedef pawl_status (*batch_fn)(pawl *p, pawl_id id, const char *by, pawl_error *err);

static void change(call *c, batch_fn act, const char *done)
{
    pawl_batch_info *batch;
    pawl_error err;
    if (!call_query(c, no_fields, NULL)) return;
    pawl_status status = find(c, &batch, &err);
    if (!status) {
        status = act(c->s->options.p, batch->id, call_by(c), &err);
        pawl_batch_info_free(batch);
    }
    if (status) call_fail(c, &err);
    else reply_done(c, done);
}

void route_batch_close(call *c) { change(c, pawl_close_batch, "closed"); }
void route_batch_cancel(call *c) { change(c, pawl_cancel_batch, "cancelled"); }

/* ---- relatives ---------------------------------------------------------------------------------------------------------------- */

void route_task_tree(call *c)
{
    tree_options o = {.depth = 5, .limit = 20};
    pawl_error err;
    reply a;
    if (!call_id(c, &o.id) || !call_query(c, tree_query, &o)) return;
    reply_begin(&a);
    if (!tree_json(&a.w, c->s->options.p, &o, &err)) {
        reply_end(c, &a, 200);
        return;
    }
    buf_done(&a.out);
    call_fail(c, &err);
}

void route_relatives(call *c)
{
    relatives_options o = {.relation = PAWL_PARENTS};
    pawl_relatives *relatives;
    pawl_error err;
    pawl_id id;
    if (!call_id(c, &id) || !call_query(c, relatives_query, &o)) return;
    if (pawl_get_relatives(c->s->options.p, id, o.relation, o.after, o.limit, &relatives, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "relatives");
    jsonw_array(&a.w);
    for (size_t i = 0; i < relatives->count; i++) {
        const pawl_relative *r = &relatives->relatives[i];
        jsonw_object(&a.w);
        relative_json(&a.w, r);
        json_text(&a.w, "if_failed", pawl_if_failed_name(r->if_failed));
        json_text(&a.w, "result_type", r->result_type);
        json_blob(&a.w, "result", r->result, r->result_type);
        json_shown(&a.w, "result_ref", r->result_ref);
        json_shown(&a.w, "error", r->error);
        jsonw_end_object(&a.w);
    }
    jsonw_end_array(&a.w);
    json_id(&a.w, "next", relatives->next);
    jsonw_end_object(&a.w);
    pawl_relatives_free(relatives);
    reply_end(c, &a, 200);
}
