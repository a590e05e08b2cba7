/* pawl tasks tree: a task or batch and those that wait for it, or those it waits for. */
#include "base/alloc.h"
#include "cli/help.h"
#include <stdio.h>

#define SHOWN_MOST 1000 /* tasks in one answer */
#define DEPTH_MOST 100

const char help_tree[] =
    "Children are the tasks that wait for it; of a batch, its members come first. A task that was shown before is not followed "
    "again, and at most a thousand are shown.\n"
    "\n"
    "Examples\n"
    "  pawl tasks tree 0KBX3QZT8H00C\n"
    "  pawl tasks tree 0KBX3QZT8H00C --parents --depth 10\n"
    "  pawl tasks tree 0KBX3QZT8H00C --json | jq '.children[].id'\n";

static int64_t depth = 5, width = 20;
static bool upwards;

const opt tree_opts[] = {
    OPTION(OPT_FLAG, "parents", &upwards, NULL, "what it waits for, instead of what waits for it"),
    OPTION(OPT_INT, "depth", &depth, "N", "how many generations", .min = 1, .max = DEPTH_MOST, .fallback = "5"),
    OPTION(OPT_INT, "limit", &width, "N", "relatives shown of each", .min = 1, .max = 1000, .fallback = "20"), OPTIONS_END};

typedef struct walk {
    cli *c;
    pawl *p;
    pawl_error err;
    pawl_id shown[SHOWN_MOST]; /* and followed */
    int count;
    char line[DEPTH_MOST * 8]; /* what stands before a row of this depth */
} walk;

static bool seen(const walk *t, pawl_id id)
{
    for (int i = 0; i < t->count; i++)
        if (t->shown[i] == id) return true;
    return false;
}

static const char *word(const pawl_relative *r)
{
    return !r->state ? "gone" : r->batch ? batch_word(r->state) : pawl_state_name(r->state);
}

static void row_text(const walk *t, const pawl_relative *r, const char *branch, bool again)
{
    char id[PAWL_ID_TEXT];
    buf name;
    pawl_id_format(r->id, id);
    buf_init(&name, alloc_default(), 4 << 10);
    term_safe(&name, pawl_str(r->type ? r->type : "?"), false);
    const term *out = &t->c->term;
    printf("%s%s%s  %s%s  %s%s%s%s%s\n", t->line, branch, id, r->batch ? "batch " : "", buf_text(&name),
           term_on(out, term_state(word(r))), word(r), term_off(out), r->held ? "  holds what waits for it" : "",
           again ? "  (see above)" : "");
    buf_done(&name);
}

static bool follow(walk *t, const pawl_relative *of, int left, size_t at);

static bool one(walk *t, const pawl_relative *r, int left, size_t at, bool last)
{
    bool again = seen(t, r->id), full = t->count == SHOWN_MOST;
    row_text(t, r, last ? "`- " : "|- ", again);
    if (!again && !full) t->shown[t->count++] = r->id;
    size_t next = at + (size_t)snprintf(t->line + at, sizeof t->line - at, "%s", last ? "   " : "|  ");
    bool ok = again || full || left == 0 || follow(t, r, left, next);
    t->line[at] = '\0';
    return ok;
}

static bool page(walk *t, const pawl_relative *of, pawl_relation relation, int left, size_t at)
{
    pawl_relatives *r;
    bool ok = true;
    if (pawl_get_relatives(t->p, of->id, relation, 0, (int)width, &r, &t->err)) return false;
    for (size_t i = 0; i < r->count && ok && t->count < SHOWN_MOST; i++)
        ok = one(t, &r->relatives[i], left - 1, at, i + 1 == r->count && !r->next);
    if (r->next) printf("%s`- ... and more: see --limit\n", t->line);
    pawl_relatives_free(r);
    return ok;
}

static bool follow(walk *t, const pawl_relative *of, int left, size_t at)
{
    if (upwards) return page(t, of, PAWL_PARENTS, left, at);
    if (of->batch && !page(t, of, PAWL_MEMBERS, left, at)) return false;
    return page(t, of, PAWL_CHILDREN, left, at);
}

/* What it is; false: err says why it is nothing. */
static bool root_of(walk *t, pawl_id id, pawl_relative *root, void **lent)
{
    pawl_info *task;
    pawl_batch_info *batch;
    *root = (pawl_relative){.id = id};
    if (!pawl_get(t->p, id, &task, &t->err)) {
        root->type = task->type;
        root->state = task->state;
        *lent = task;
        return true;
    }
    if (t->err.status != PAWL_NOT_FOUND || pawl_get_batch(t->p, id, NULL, &batch, &(pawl_error){0})) return false;
    root->batch = true;
    root->type = batch->name;
    root->state = batch->state;
    *lent = batch;
    return true;
}

static void give_back(const pawl_relative *root, void *lent)
{
    if (root->batch) pawl_batch_info_free(lent);
    else pawl_info_free(lent);
}

static int show_json(walk *t, pawl_id id)
{
    answer a;
    cli_json_begin(t->c, &a);
    tree_options o = {.id = id, .parents = upwards, .depth = (int)depth, .limit = (int)width};
    if (!tree_json(&a.w, t->p, &o, &t->err)) return cli_json_end(t->c, &a);
    buf_done(&a.out);
    return cli_fail(t->c, &t->err);
}

static int show(walk *t, pawl_id id)
{
    pawl_relative root;
    void *lent = NULL;
    if (!root_of(t, id, &root, &lent)) return cli_fail(t->c, &t->err);
    t->shown[t->count++] = id;
    row_text(t, &root, "", false);
    bool ok = follow(t, &root, (int)depth, 0);
    give_back(&root, lent);
    return ok ? 0 : cli_fail(t->c, &t->err);
}

int cmd_tasks_tree(cli *c)
{
    pawl_id *ids;
    int code;
    walk *t = alloc_new(alloc_default(), sizeof *t);
    if (!t) return cli_no_memory(c);
    if (cli_ids(c, &ids, &code)) {
        t->c = c;
        t->p = cli_open_reading(c, &code);
        if (t->p) {
            code = c->json ? show_json(t, ids[0]) : show(t, ids[0]);
            pawl_close(t->p);
        }
        alloc_free(alloc_default(), ids);
    }
    alloc_free(alloc_default(), t);
    return code;
}
