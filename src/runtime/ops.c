/* Calls that act on tasks and queues which are there: cancel, retry, acknowledge, pause. One, or all that match a filter: these
 * are listed newest first and acted on page by page, so that what an action creates is never met again. */
#include "runtime/runtime.h"

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not take the call: out of memory"); }

/* ---- one ----------------------------------------------------------------------------------------------------------------- */

static void read_single(ticket *t, const core_request *r)
{
    if (r->status == PAWL_UNKNOWN) return; /* the store may be writing them now */
    t->result = r->ops[0].result;
    t->state = r->ops[0].out_state;
    t->receipt.id = r->ops[0].out_id;
    if (!r->status && t->result == PAWL_OP_CLOSED) t->status = PAWL_MOVED;
}

/* A ticket for one operation; `by` is checked and kept. */
pawl_status ops_single(runtime *rt, pawl_op_kind kind, pawl_id id, const char *by, ticket **out, pawl_error *err)
{
    pawl_status status = kind == PAWL_OP_QUEUE || kind == PAWL_OP_LIMIT || kind == PAWL_OP_BOUND ? PAWL_OK : valid_id(id, err);
    if (!status) status = valid_optional(by, "name of the person", err);
    if (status) return status;
    ticket *t = ticket_new(rt, 1, err);
    if (!t) return PAWL_NO_MEMORY;
    pawl_op *op = &t->request->ops[0];
    op->kind = kind;
    op->id = id;
    t->read = read_single;
    if (!ticket_keep(t, by, &op->by)) {
        ticket_free(t);
        return no_memory(err);
    }
    *out = t;
    return PAWL_OK;
}

static pawl_status refused(pawl_id id, pawl_op_result result, pawl_state state, const char *wanted, pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(id, text);
    if (result == PAWL_OP_NOT_FOUND)
        return err_set(err, PAWL_NOT_FOUND, "there is no task %s: it never was, or its retention is over", text);
    return err_set(err, PAWL_CONFLICT, "task %s is %s: only %s", text, state ? pawl_state_name(state) : "not in a state for that",
                   wanted);
}

/* Listeners are told what it was that was cancelled. */
static bool keep_names(ticket *t, pawl_op *op, const pawl_info *info)
{
    return ticket_keep(t, info->type, &op->u.cancel.type) && ticket_keep(t, info->queue, &op->u.cancel.queue);
}

static bool find_names(runtime *rt, ticket *t, pawl_op *op)
{
    pawl_info *info;
    if (!events_wanted(rt) || look_get(rt, op->id, &info, NULL)) return true;
    bool kept = keep_names(t, op, info);
    pawl_info_free(info);
    return kept;
}

pawl_status ops_cancel(runtime *rt, pawl_id id, const char *by, pawl_error *err)
{
    ticket *t;
    pawl_status status = ops_single(rt, PAWL_OP_CANCEL, id, by, &t, err);
    if (status) return status;
    status = find_names(rt, t, &t->request->ops[0]) ? ticket_run(t, err) : no_memory(err);
    if (!status && t->result != PAWL_OP_DONE && t->result != PAWL_OP_ASKED)
        status = refused(id, t->result, t->state, "unfinished tasks can be cancelled", err);
    ticket_free(t);
    return status;
}

static pawl_receipt retry_receipt(const ticket *t)
{
    pawl_dispatched outcome = t->result == PAWL_OP_EXISTING   ? PAWL_EXISTING
                              : t->result == PAWL_OP_REPLACED ? PAWL_REPLACED
                                                              : PAWL_CREATED;
    return (pawl_receipt){PAWL_OK, outcome, t->receipt.id};
}

pawl_status ops_retry(runtime *rt, pawl_id id, const char *by, pawl_receipt *receipt, pawl_error *err)
{
    ticket *t;
    pawl_status status = ops_single(rt, PAWL_OP_RETRY, id, by, &t, err);
    if (status) return status;
    status = ticket_run(t, err);
    bool ok = t->result == PAWL_OP_DONE || t->result == PAWL_OP_EXISTING || t->result == PAWL_OP_REPLACED;
    if (!status && !ok) status = refused(id, t->result, t->state, "failed and cancelled tasks can be retried", err);
    if (!status && receipt) *receipt = retry_receipt(t);
    ticket_free(t);
    return status;
}

static pawl_status ack_one(runtime *rt, pawl_id id, const char *by, const char *note, int64_t *count, pawl_error *err)
{
    ticket *t;
    pawl_status status = ops_single(rt, PAWL_OP_ACK, id, by, &t, err);
    if (status) return status;
    status = ticket_keep(t, note, &t->request->ops[0].u.ack.note) ? ticket_run(t, err) : no_memory(err);
    if (!status && t->result != PAWL_OP_DONE)
        status = refused(id, t->result, t->state, "failed tasks that are not resolved can be acknowledged", err);
    if (!status && count) *count = 1;
    ticket_free(t);
    return status;
}

pawl_status ops_pause(runtime *rt, const char *queue, bool pause, const char *by, pawl_error *err)
{
    ticket *t;
    pawl_status status = valid_name(queue, "queue", err);
    if (!status) status = ops_single(rt, PAWL_OP_QUEUE, 0, by, &t, err);
    if (status) return status;
    pawl_op *op = &t->request->ops[0];
    op->u.queue.pause = pause;
    status = ticket_keep(t, queue, &op->u.queue.queue) ? ticket_run(t, err) : no_memory(err);
    ticket_free(t);
    return status;
}

/* ---- all that match ------------------------------------------------------------------------------------------------------ */

typedef struct sweep {
    pawl_op_kind kind;
    const char *by, *note;
    int64_t done;
} sweep;

static void read_count(ticket *t, const core_request *r)
{
    for (int i = 0; i < r->count && r->status != PAWL_UNKNOWN; i++) {
        pawl_op_result result = r->ops[i].result;
        t->done_count += result == PAWL_OP_DONE || result == PAWL_OP_ASKED || result == PAWL_OP_REPLACED;
        if (!r->status && result == PAWL_OP_CLOSED) t->status = PAWL_MOVED;
    }
}

static bool fill(ticket *t, const sweep *s, const pawl_page *page)
{
    const char *by, *note;
    bool wanted = events_wanted(t->rt);
    if (!ticket_keep(t, s->by, &by) || !ticket_keep(t, s->note, &note)) return false;
    for (size_t i = 0; i < page->count; i++) {
        pawl_op *op = &t->request->ops[i];
        op->kind = s->kind;
        op->id = page->tasks[i]->id;
        op->by = by;
        if (s->kind == PAWL_OP_ACK) op->u.ack.note = note;
        if (s->kind == PAWL_OP_CANCEL && wanted && !keep_names(t, op, page->tasks[i])) return false;
    }
    t->read = read_count;
    return true;
}

static pawl_status act_on_page(runtime *rt, sweep *s, const pawl_page *page, pawl_error *err)
{
    if (page->count == 0) return PAWL_OK;
    ticket *t = ticket_new(rt, (int)page->count, err);
    if (!t) return PAWL_NO_MEMORY;
    pawl_status status = fill(t, s, page) ? ticket_run(t, err) : no_memory(err);
    s->done += t->done_count;
    ticket_free(t);
    return status;
}

static pawl_status act_on_all(runtime *rt, sweep *s, const pawl_filter *filter, pawl_error *err)
{
    pawl_filter f = *filter;
    f.limit = OPS_AT_ONCE;
    f.oldest_first = false;
    pawl_page *page = NULL;
    pawl_status status = PAWL_OK;
    bool more = true;
    while (!status && more) {
        pawl_page *next;
        status = look_list(rt, &f, &next, err);
        if (status) break;
        pawl_page_free(page);
        page = next;
        status = act_on_page(rt, s, page, err);
        f.cursor = page->next;
        more = page->next;
    }
    pawl_page_free(page);
    return status;
}

static pawl_status begin(const pawl_filter *filter, const char *by, pawl_filter *f, pawl_error *err)
{
    static const pawl_filter any = {0};
    pawl_status status = valid_filter(filter, err);
    if (!status) status = valid_optional(by, "name of the person", err);
    *f = filter ? *filter : any;
    f->cursor = NULL;
    return status;
}

/* What is leased while we look may be pending a moment later, so pending tasks are looked at twice. */
pawl_status ops_cancel_where(runtime *rt, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err)
{
    static const char *const unfinished[] = {"waiting", "pending", "leased", "pending", NULL};
    pawl_filter f;
    sweep s = {.kind = PAWL_OP_CANCEL, .by = by};
    pawl_status status = begin(filter, by, &f, err);
    const char *const said[] = {f.state, NULL};
    pawl_state state = PAWL_STATE_NONE;
    bool terminal = f.state && pawl_state_parse(f.state, &state) && pawl_state_terminal(state);
    for (const char *const *each = f.state ? said : unfinished; !status && !terminal && *each; each++) {
        f.state = *each;
        status = act_on_all(rt, &s, &f, err);
    }
    if (!status && count) *count = s.done;
    return status;
}

static pawl_status act_on_dead(runtime *rt, sweep *s, const pawl_filter *filter, int64_t *count, pawl_error *err)
{
    pawl_filter f;
    pawl_status status = begin(filter, s->by, &f, err);
    if (!status && f.state && strcmp(f.state, "failed") != 0)
        status = err_set(err, PAWL_INVALID, "dead letters are failed tasks: the filter's state is \"%s\"", f.state);
    if (status) return status;
    f.state = "failed";
    f.unresolved = true;
    status = act_on_all(rt, s, &f, err);
    if (!status && count) *count = s->done;
    return status;
}

pawl_status ops_dead_retry(runtime *rt, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err)
{
    return act_on_dead(rt, &(sweep){.kind = PAWL_OP_RETRY, .by = by}, filter, count, err);
}

static pawl_status valid_note(const char *note, pawl_error *err)
{
    size_t n = note ? strlen(note) : 0;
    if (n > ERROR_MAX) return err_set(err, PAWL_TOO_LARGE, "the note has %zu bytes, at most %zu are kept", n, ERROR_MAX);
    return utf8_valid(note ? note : "", n) ? PAWL_OK : err_set(err, PAWL_INVALID, "the note is not UTF-8");
}

pawl_status ops_dead_ack(runtime *rt, pawl_id id, const pawl_filter *filter, const char *by, const char *note, int64_t *count,
                         pawl_error *err)
{
    if (!id == !filter) return err_set(err, PAWL_INVALID, "pass either the id of a dead letter or a filter");
    pawl_status status = valid_note(note, err);
    if (status) return status;
    if (id) return ack_one(rt, id, by, note, count, err);
    return act_on_dead(rt, &(sweep){.kind = PAWL_OP_ACK, .by = by, .note = note}, filter, count, err);
}
