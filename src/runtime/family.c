/* Families of tasks: parents and batches as callers name them, batches opened, closed and cancelled, and looking at them. */
#include "base/rand.h"
#include "runtime/runtime.h"
#include <stdio.h>

#define PAGE 100
#define PAGE_MOST 1000

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not take the call: out of memory"); }

pawl_status family_kept(const runtime *rt, pawl_error *err)
{
    if (rt->store->type->families) return PAWL_OK;
    return err_set(err, PAWL_UNSUPPORTED, "stores of the kind \"%s:\" keep no parents and batches of tasks yet",
                   rt->store->type->scheme);
}

/* ---- of a task ----------------------------------------------------------------------------------------------------------- */

bool family_has(const pawl_task *task) { return task->parents_count != 0 || task->batch != 0; }

pawl_status family_valid(const runtime *rt, const pawl_task *task, pawl_error *err)
{
    if ((int)task->if_failed < 0 || task->if_failed > PAWL_IF_FAILED_HOLD)
        return err_set(err, PAWL_INVALID, "if_failed %d is none of pawl_if_failed", (int)task->if_failed);
    if (task->batch < 0) return err_set(err, PAWL_INVALID, "%lld is not the id of a batch", (long long)task->batch);
    if (task->parents_count < 0 || task->parents_count > PAWL_PARENTS_MAX)
        return err_set(err, PAWL_INVALID, "%d parents are too many: at most %d; make them members of a batch and wait for that",
                       task->parents_count, PAWL_PARENTS_MAX);
    if (task->parents_count > 0 && !task->parents) return err_set(err, PAWL_INVALID, "the parents are NULL");
    for (int i = 0; i < task->parents_count; i++)
        if (task->parents[i] == 0) return err_set(err, PAWL_INVALID, "parent %d is 0, which is no id", i + 1);
    return family_kept(rt, err);
}

size_t family_size(const pawl_task *task)
{
    return family_has(task) ? sizeof(pawl_family) + (size_t)task->parents_count * sizeof(pawl_kin) : 0;
}

static bool among(const pawl_kin *kin, int count, const pawl_kin *one)
{
    for (int i = 0; i < count; i++)
        if (kin[i].id == one->id && kin[i].op == one->op) return true;
    return false;
}

/* ops: of the same call, for PAWL_NTH, before number `own` of them; op_of: which one is a task's, NULL: that of its number. */
pawl_status family_make(void *room, const pawl_task *task, const pawl_op *ops, const int *op_of, int own, pawl_error *err)
{
    pawl_family *f = room;
    pawl_kin *kin = (pawl_kin *)(f + 1);
    *f = (pawl_family){.parents = kin, .if_failed = task->if_failed, .batch.id = task->batch};
    for (int i = 0; i < task->parents_count; i++) {
        pawl_kin one = {.id = task->parents[i]};
        if (one.id < 0) {
            int64_t nth = -one.id - 1;
            int op = ops && nth < PAWL_BULK_MAX && nth < own ? (op_of ? op_of[nth] : (int)nth) : own;
            if (op >= own)
                return err_set(err, PAWL_INVALID, "parent %d is PAWL_NTH(%lld), which does not stand before the task in its call",
                               i + 1, (long long)nth);
            one = (pawl_kin){.op = &ops[op]};
        }
        if (!among(kin, f->parents_count, &one)) kin[f->parents_count++] = one;
    }
    return PAWL_OK;
}

/* Why a task was not stored. */
pawl_status family_refused(const pawl_op *op, pawl_error *err)
{
    char id[PAWL_ID_TEXT];
    pawl_id_format(op->out_id, id);
    if (op->result == PAWL_OP_NOT_FOUND)
        return err_set(
            err, PAWL_NOT_FOUND,
            "there is no task or batch %s, which the task names as its parent or batch: it never was, or its retention is over",
            id);
    return err_set(err, PAWL_CONFLICT, "batch %s is closed: it takes no more tasks", id);
}

/* ---- batches ------------------------------------------------------------------------------------------------------------- */

static pawl_status batch_of_id(pawl_id id, const char *what, pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(id, text);
    return err_set(err, PAWL_NOT_FOUND, "there is no batch %s%s", text, what);
}

static void read_open(ticket *t, const core_request *r)
{
    if (r->status == PAWL_UNKNOWN) {
        t->receipt.id = r->ops[0].id;
        return;
    }
    t->result = r->ops[0].result;
    t->receipt.id = r->ops[0].out_id;
    if (!r->status && t->result == PAWL_OP_CLOSED) t->status = PAWL_MOVED;
}

static pawl_status opened(const ticket *t, const pawl_batch_options *o, const char *name, pawl_error *err)
{
    switch (t->result) {
    case PAWL_OP_DONE: return PAWL_OK;
    case PAWL_OP_EXISTING: return err_set(err, PAWL_CONFLICT, "there is a batch '%s' already: choose another name", name);
    case PAWL_OP_NOT_FOUND: return batch_of_id(o->within, " to be within", err);
    case PAWL_OP_CONFLICT: return err_set(err, PAWL_CONFLICT, "the batch that '%s' should be within is closed", name);
    default: return err_set(err, PAWL_TOO_LARGE, "the store cannot hold the batch '%s'", name);
    }
}

/* A task that is freed by the end of the batch, which operation 0 opens. */
static pawl_status add_callback(ticket *t, pawl_op *op, const pawl_task *task, pawl_if_failed if_failed, pawl_error *err)
{
    struct {
        pawl_family family;
        pawl_kin batch;
    } *room = ticket_keep_room(t, sizeof *room);
    pawl_body *body;
    if (!room) return no_memory(err);
    if (family_has(task))
        return err_set(err, PAWL_INVALID,
                       "the task \"%s\" waits for its batch alone: it has neither parents nor a batch of its own", task->type);
    pawl_status status = dispatch_body(t->rt, task, &body, err);
    if (status) return status;
    dispatch_insert(op, body, task->delay_us, task->at_us);
    room->batch.op = &t->request->ops[0];
    room->family = (pawl_family){.parents = &room->batch, .parents_count = 1, .if_failed = if_failed};
    op->u.insert.family = &room->family;
    return PAWL_OK;
}

/* A name of its own for a batch that has none. */
static pawl_status name_batch(runtime *rt, pawl_id *id, char out[PAWL_ID_TEXT], pawl_error *err)
{
    *id = 0;
    pawl_status status = rt->options.one_shot ? PAWL_OK : dispatch_draw_id(rt, id, err);
    pawl_id_format(*id ? *id : (pawl_id)(seed_from_system() >> 1), out);
    return status;
}

static pawl_status fill_open(ticket *t, const pawl_batch_options *o, pawl_id id, const char *name, pawl_error *err)
{
    pawl_op *op = t->request->ops;
    pawl_batch_put *put = ticket_keep_room(t, sizeof *put);
    op->kind = PAWL_OP_BATCH;
    op->id = id;
    op->u.batch = put;
    if (!put || !ticket_keep(t, name, &put->name)) return no_memory(err);
    put->act = PAWL_BATCH_OPEN;
    put->within = o->within;
    pawl_status status = PAWL_OK;
    if (o->on_finished) status = add_callback(t, ++op, o->on_finished, PAWL_IF_FAILED_RUN, err);
    if (!status && o->on_succeeded) status = add_callback(t, ++op, o->on_succeeded, PAWL_IF_FAILED_CANCEL, err);
    return status;
}

pawl_status family_open_batch(runtime *rt, const pawl_batch_options *options, pawl_id *id, pawl_error *err)
{
    pawl_batch_options o = options ? *options : (pawl_batch_options){0};
    char own[PAWL_ID_TEXT];
    pawl_id drawn = 0;
    pawl_status status = family_kept(rt, err);
    if (!status) status = o.name ? valid_name(o.name, "name of the batch", err) : name_batch(rt, &drawn, own, err);
    if (!status && o.within < 0) status = err_set(err, PAWL_INVALID, "%lld is not the id of a batch", (long long)o.within);
    if (status) return status;
    const char *name = o.name ? o.name : own;
    ticket *t = ticket_new(rt, 1 + (o.on_finished != NULL) + (o.on_succeeded != NULL), err);
    if (!t) return PAWL_NO_MEMORY;
    t->read = read_open;
    status = fill_open(t, &o, drawn, name, err);
    if (!status) status = ticket_run(t, err);
    if (!status) status = opened(t, &o, name, err);
    if (id && (!status || status == PAWL_UNKNOWN)) *id = t->receipt.id;
    ticket_free(t);
    return status;
}

pawl_status family_end_batch(runtime *rt, pawl_id id, bool cancel, const char *by, pawl_error *err)
{
    ticket *t;
    char text[PAWL_ID_TEXT];
    pawl_id_format(id, text);
    pawl_status status = family_kept(rt, err);
    if (!status) status = ops_single(rt, PAWL_OP_BATCH, id, by, &t, err);
    if (status) return status;
    pawl_batch_put *put = ticket_keep_room(t, sizeof *put);
    if (put) put->act = cancel ? PAWL_BATCH_CANCEL : PAWL_BATCH_CLOSE;
    t->request->ops[0].u.batch = put;
    status = put ? ticket_run(t, err) : no_memory(err);
    if (!status && t->result == PAWL_OP_NOT_FOUND) status = batch_of_id(id, "", err);
    if (!status && t->result == PAWL_OP_CONFLICT)
        status = err_set(err, PAWL_CONFLICT,
                         cancel ? "batch %s has ended: nothing is left to cancel" : "batch %s was closed before", text);
    ticket_free(t);
    return status;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

static pawl_status page_size(int *limit, const char *what, pawl_error *err)
{
    if (*limit < 0 || *limit > PAGE_MOST)
        return err_set(err, PAWL_INVALID, "%d %s are too many for a page: 1 to %d, or 0 for %d", *limit, what, PAGE_MOST, PAGE);
    if (*limit == 0) *limit = PAGE;
    return PAWL_OK;
}

pawl_status family_get_batch(runtime *rt, pawl_id id, const char *name, pawl_batch_info **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_BATCH, .id = id, .name = name ? name : ""};
    answer *a;
    pawl_status status = id ? valid_id(id, err) : valid_name(name, "name of the batch", err);
    if (!status) status = family_kept(rt, err);
    if (!status) status = look_ask(rt, &query, &a, err);
    return status ? status : look_give(a, query.batches, sizeof *query.batches, out, err);
}

pawl_status family_list_batches(runtime *rt, const pawl_batch_filter *filter, pawl_batches **out, pawl_error *err)
{
    pawl_batch_filter f = filter ? *filter : (pawl_batch_filter){0};
    pawl_query query = {.kind = PAWL_QUERY_BATCHES, .batch_filter = &f, .name = ""};
    answer *a;
    char next[PAWL_ID_TEXT];
    pawl_status status = family_kept(rt, err);
    if (!status) status = page_size(&f.limit, "batches", err);
    if (!status && f.cursor && !pawl_id_parse(f.cursor, &query.id))
        status = err_set(err, PAWL_INVALID, "the cursor is none that a page gave as its next");
    if (!status) status = look_ask(rt, &query, &a, err);
    if (status) return status;
    pawl_batches page = {.count = (size_t)query.batches_count, .batches = query.batches};
    if (query.batches_more) {
        pawl_id_format(query.batches[query.batches_count - 1].id, next);
        if (!(page.next = pawl_arena_str(a->arena, next))) {
            look_drop(a);
            return no_memory(err);
        }
    }
    return look_give(a, &page, sizeof page, out, err);
}

pawl_status family_relatives(runtime *rt, const pawl_relatives_query *wanted, pawl_relatives **out, pawl_error *err)
{
    pawl_relatives_query f = *wanted;
    pawl_query query = {.kind = PAWL_QUERY_RELATIVES, .relatives = &f};
    answer *a;
    pawl_status status = valid_id(f.of, err);
    if (!status && (f.relation < PAWL_PARENTS || f.relation > PAWL_BATCH_OF))
        status = err_set(err, PAWL_INVALID, "%d is none of pawl_relation", (int)f.relation);
    if (!status) status = family_kept(rt, err);
    if (!status) status = page_size(&f.limit, "relatives", err);
    if (!status) status = look_ask(rt, &query, &a, err);
    if (status) return status;
    pawl_relatives page = {.count = (size_t)f.count, .relatives = f.relatives};
    if (f.more) page.next = f.relatives[f.count - 1].id;
    return look_give(a, &page, sizeof page, out, err);
}
