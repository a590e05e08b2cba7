/* Batches, relatives and trees of tasks as JSON. */
#include "base/alloc.h"
#include "base/error.h"
#include "server/encode.h"

#define SHOWN_MOST 1000

const char *batch_word(pawl_state state)
{
    return state == PAWL_PENDING ? "open" : state == PAWL_WAITING ? "closed" : pawl_state_name(state);
}

void batch_json(json_writer *w, const pawl_batch_info *b)
{
    jsonw_object(w);
    json_id(w, "id", b->id);
    json_text(w, "name", b->name);
    json_text(w, "state", batch_word(b->state));
    json_id(w, "within", b->within);
    json_truth(w, "cancel_asked", b->cancel_asked);
    json_number(w, "total", b->total);
    json_number(w, "unfinished", b->unfinished);
    json_number(w, "succeeded", b->succeeded);
    json_number(w, "failed", b->failed);
    json_number(w, "cancelled", b->cancelled);
    json_instant(w, "created_at", b->created_us);
    json_instant(w, "closed_at", b->closed_us);
    json_instant(w, "ended_at", b->ended_us);
    jsonw_end_object(w);
}

void relative_json(json_writer *w, const pawl_relative *r)
{
    json_id(w, "id", r->id);
    json_truth(w, "batch", r->batch);
    json_text(w, r->batch ? "name" : "type", r->type);
    json_text(w, "state", !r->state ? "gone" : r->batch ? batch_word(r->state) : pawl_state_name(r->state));
    json_truth(w, "waits", r->waits);
    json_truth(w, "held", r->held);
}

/* ---- trees ---------------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    json_writer *w;
    pawl *p;
    const tree_options *o;
    pawl_error *err;
    pawl_id shown[SHOWN_MOST]; /* and followed */
    int count;
} walk;

static bool seen(const walk *t, pawl_id id)
{
    for (int i = 0; i < t->count; i++) {
        if (t->shown[i] == id) return true;
    }
    return false;
}

static bool follow(walk *t, const pawl_relative *of, int left);

static bool one(walk *t, const pawl_relative *r, int left)
{
    bool again = seen(t, r->id) || t->count == SHOWN_MOST;
    jsonw_object(t->w);
    relative_json(t->w, r);
    if (!again) t->shown[t->count++] = r->id;
    bool ok = again || left == 0 || follow(t, r, left);
    jsonw_end_object(t->w);
    return ok;
}

static bool page(walk *t, const pawl_relative *of, pawl_relation relation, const char *name, int left)
{
    pawl_relatives *r;
    bool ok = true;
    if (pawl_get_relatives(t->p, of->id, relation, 0, t->o->limit, &r, t->err)) return false;
    jsonw_key(t->w, name);
    jsonw_array(t->w);
    for (size_t i = 0; i < r->count && ok && t->count < SHOWN_MOST; i++) ok = one(t, &r->relatives[i], left - 1);
    jsonw_end_array(t->w);
    if (r->next) json_truth(t->w, "more", true);
    pawl_relatives_free(r);
    return ok;
}

static bool follow(walk *t, const pawl_relative *of, int left)
{
    if (t->o->parents) return page(t, of, PAWL_PARENTS, "parents", left);
    if (of->batch && !page(t, of, PAWL_MEMBERS, "members", left)) return false;
    return page(t, of, PAWL_CHILDREN, "children", left);
}

static bool show(walk *t, const pawl_relative *root)
{
    t->shown[t->count++] = root->id;
    jsonw_object(t->w);
    relative_json(t->w, root);
    bool ok = follow(t, root, t->o->depth);
    jsonw_end_object(t->w);
    return ok;
}

pawl_status tree_json(json_writer *w, pawl *p, const tree_options *options, pawl_error *err)
{
    pawl_info *task;
    pawl_batch_info *batch;
    bool ok = false;
    walk *t = alloc_new(alloc_default(), sizeof *t);
    if (!t) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    *t = (walk){.w = w, .p = p, .o = options, .err = err};
    pawl_status status = pawl_get(p, options->id, &task, err);
    if (!status) {
        ok = show(t, &(pawl_relative){.id = options->id, .type = task->type, .state = task->state});
        pawl_info_free(task);
    } else if (status == PAWL_NOT_FOUND && !pawl_get_batch(p, options->id, NULL, &batch, &(pawl_error){0})) {
        ok = show(t, &(pawl_relative){.id = options->id, .batch = true, .type = batch->name, .state = batch->state});
        pawl_batch_info_free(batch);
    }
    alloc_free(alloc_default(), t);
    return ok ? PAWL_OK : err->status;
}
