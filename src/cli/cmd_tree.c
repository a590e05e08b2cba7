/* pawl tasks tree: a task or batch and those that wait for it, or those it waits for. What people see is made of the JSON that programs
 * get, whether it comes from a store or from a server. */
#include "base/alloc.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <stdio.h>
#include <string.h>

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
    const cli *c;
    pawl_arena *arena;
    pawl_id shown[SHOWN_MOST]; /* and followed */
    int count;
    char line[DEPTH_MOST * 8]; /* what stands before a row of this depth */
} walk;

typedef struct relative {
    pawl_id id;
    const char *name, *state;
    bool batch, held;
} relative;

static const field relative_fields[] = {{"id", FIELD_ID, offsetof(relative, id), 0, 0, NULL},
                                        {"type", FIELD_TEXT, offsetof(relative, name), 0, 0, NULL},
                                        {"name", FIELD_TEXT, offsetof(relative, name), 0, 0, NULL},
                                        {"state", FIELD_TEXT, offsetof(relative, state), 0, 0, NULL},
                                        {"batch", FIELD_BOOL, offsetof(relative, batch), 0, 0, NULL},
                                        {"held", FIELD_BOOL, offsetof(relative, held), 0, 0, NULL},
                                        {0}};

/* Whether it was shown before; else it is now. */
static bool again(walk *t, pawl_id id)
{
    for (int i = 0; i < t->count; i++)
        if (t->shown[i] == id) return true;
    if (t->count < SHOWN_MOST) t->shown[t->count++] = id;
    return false;
}

static void row_text(const walk *t, const relative *r, const char *branch, bool seen)
{
    char id[PAWL_ID_TEXT];
    buf name;
    pawl_id_format(r->id, id);
    buf_init(&name, alloc_default(), 4 << 10);
    term_safe(&name, pawl_str(r->name ? r->name : "?"), false);
    const term *out = &t->c->term;
    printf("%s%s%s  %s%s  %s%s%s%s%s\n", t->line, branch, id, r->batch ? "batch " : "", buf_text(&name),
           term_on(out, term_state(r->state)), r->state, term_off(out), r->held ? "  holds what waits for it" : "",
           seen ? "  (see above)" : "");
    buf_done(&name);
}

static bool is(json key, const char *name)
{
    return key.raw.len == strlen(name) + 2 && !memcmp(key.raw.data + 1, name, strlen(name));
}

static pawl_status node(walk *t, json object, const char *branch, const char *below, pawl_error *err);

/* One list of relatives; what is left of the object says whether there are more than these. */
static pawl_status list(walk *t, json array, bool more, pawl_error *err)
{
    json key, item, after;
    pawl_status status = PAWL_OK;
    for (size_t at = 0; !status && json_each(array, &at, &key, &item);) {
        size_t peek = at;
        bool last = !more && !json_each(array, &peek, &key, &after);
        status = node(t, item, last ? "`- " : "|- ", last ? "   " : "|  ", err);
    }
    if (more) printf("%s`- ... and more: see --limit\n", t->line);
    return status;
}

static pawl_status node(walk *t, json object, const char *branch, const char *below, pawl_error *err)
{
    relative r = {.state = "gone"};
    json key, value, next;
    size_t indent = strlen(t->line);
    pawl_status status = fields_pick(relative_fields, object, t->arena, &r, err);
    if (status) return status;
    row_text(t, &r, branch, again(t, r.id));
    snprintf(t->line + indent, sizeof t->line - indent, "%s", below);
    for (size_t at = 0; !status && json_each(object, &at, &key, &value);) {
        size_t peek = at;
        if (value.kind == JSON_ARRAY) status = list(t, value, json_each(object, &peek, &key, &next) && is(key, "more"), err);
    }
    t->line[indent] = '\0';
    return status;
}

static int show(const cli *c, pawl_bytes text)
{
    pawl_error err;
    walk *t = alloc_new(alloc_default(), sizeof *t);
    if (!t) return cli_no_memory(c);
    *t = (walk){.c = c, .arena = arena_new(alloc_default(), 64u << 20)};
    int code = !t->arena ? cli_no_memory(c) : node(t, json_parse(text), "", "", &err) ? cli_fail(c, &err) : 0;
    arena_free(t->arena);
    alloc_free(alloc_default(), t);
    return code;
}

static int of_store(cli *c, pawl *p, pawl_id id)
{
    answer a;
    pawl_error err;
    int code = 0;
    cli_json_begin(c, &a);
    a.w.pretty = c->json && a.w.pretty;
    tree_options o = {.id = id, .parents = upwards, .depth = (int)depth, .limit = (int)width};
    pawl_status status = tree_json(&a.w, p, &o, &err);
    if (!status && c->json) return cli_json_end(c, &a);
    if (status) code = cli_fail(c, &err);
    else code = a.out.failed ? cli_no_memory(c) : show(c, (pawl_bytes){a.out.data, a.out.len});
    buf_done(&a.out);
    return code;
}

static int of_server(const cli *c)
{
    remote r;
    pawl_error err;
    int code = 0;
    remote_about(&r, "/v1/tasks/", c->args[0], "/tree");
    remote_flag(&r.path, "parents", upwards);
    remote_number(&r.path, "depth", depth);
    remote_number(&r.path, "limit", width);
    if (remote_send(c, &r, "GET", &err)) code = cli_fail(c, &err);
    else code = c->json ? remote_print(c, &r, NULL) : show(c, r.object.raw);
    remote_end(&r);
    return code;
}

int cmd_tasks_tree(cli *c)
{
    pawl_id *ids;
    int code;
    if (!cli_ids(c, &ids, &code)) return code;
    pawl *p = c->server ? NULL : cli_open_reading(c, &code);
    if (p) code = of_store(c, p, ids[0]);
    else if (c->server) code = of_server(c);
    if (p) pawl_close(p);
    alloc_free(alloc_default(), ids);
    return code;
}
