/* pawl limits running, turns; and the second table of pawl limits list. */
#include "base/error.h"
#include "base/text.h"
#include "cli/filter.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <stdlib.h>
#include <string.h>

const char help_limits_concurrency[] =
    "Lets N tasks of TYPE run at a time, on all nodes together; 0 takes the limit away. With --queue it\n"
    "is a queue that is limited, with --per-key each rate key of the type, with --key one of them alone.\n"
    "In force at once: what runs goes on and is counted, and whatever fits in now starts. A program\n"
    "that starts with another limit replaces it.\n"
    "\n"
    "Examples\n"
    "  pawl limits running report.build 4\n"
    "  pawl limits running imports 10 --queue\n"
    "  pawl limits running account.sync 1 --per-key --ordered\n";
const char help_limits_turns[] =
    "Lets the tenants of QUEUE take turns among tasks of one priority, so that none waits behind the\n"
    "backlog of another. With --tenant: how many tasks it may have at each turn (default: 1).\n"
    "\n"
    "Examples\n"
    "  pawl limits turns imports\n"
    "  pawl limits turns imports --tenant acme --weight 3\n"
    "  pawl limits turns imports --off\n";

const char help_queues_set[] =
    "How many tasks of QUEUE run at a time, on all nodes together, and whether its tenants take turns. The same as pawl limits running\n"
    "QUEUE N --queue, and pawl limits turns.\n"
    "\n"
    "Examples\n"
    "  pawl queues set imports --running 10 --turns on\n"
    "  pawl queues set imports --running 0\n";

static const char *key_text, *tenant_name, *by_name, *take_turns;
static int64_t weight = 1, running = -1;
static bool of_queue, per_key, ordered, off;

#define BY OPTION(OPT_NAME, "by", &by_name, "NAME", "who does it, for the operator log (default: you)")

const opt limits_concurrency_opts[] = {
    OPTION(OPT_FLAG, "queue", &of_queue, NULL, "the name is that of a queue"),
    OPTION(OPT_FLAG, "per-key", &per_key, NULL, "so many of each rate key of the type"),
    OPTION(OPT_TEXT, "key", &key_text, "KEY", "of this rate key alone"),
    OPTION(OPT_FLAG, "ordered", &ordered, NULL, "per key, with N = 1: in the order of dispatch, retries included"),
    BY,
    OPTIONS_END};
const opt limits_turns_opts[] = {OPTION(OPT_NAME, "tenant", &tenant_name, "TENANT", "whose weight is set"),
                                 OPTION(OPT_INT, "weight", &weight, "N", "tasks at each of its turns", 1, 65536, "1"),
                                 OPTION(OPT_FLAG, "off", &off, NULL, "tenants no longer take turns"), BY, OPTIONS_END};

const opt queues_set_opts[] = {
    OPTION(OPT_INT, "running", &running, "N", "so many tasks at a time; 0: no limit", .min = 0, .max = 65536),
    OPTION(OPT_CHOICE, "turns", &take_turns, "on|off", "tenants take turns, or no longer", .choices = "on|off"), BY, OPTIONS_END};

/* ---- showing ------------------------------------------------------------------------------------------------------------- */

static const char *scope_name(pawl_scope scope) { return field_words(FIELD_SCOPE)[scope]; }

void places_json(json_writer *w, const pawl_places *places)
{
    jsonw_key(w, "concurrency");
    jsonw_array(w);
    for (size_t i = 0; places && i < places->count; i++) place_json(w, &places->places[i]);
    jsonw_end_array(w);
}

bool places_table(const cli *c, const pawl_places *places)
{
    table t;
    table_init(&t, &c->term);
    table_column(&t, "CONCURRENCY OF", COLUMN_LEFT);
    table_column(&t, "NAME", COLUMN_FLEX);
    table_column(&t, "KEY", COLUMN_FLEX);
    table_column(&t, "MOST", COLUMN_RIGHT);
    table_column(&t, "RUNNING", COLUMN_RIGHT);
    table_column(&t, "BLOCKED", COLUMN_RIGHT);
    table_column(&t, "HOLDER", COLUMN_LEFT);
    for (size_t i = 0; i < places->count; i++) {
        const pawl_place_info *p = &places->places[i];
        char holder[PAWL_ID_TEXT] = "", blocked[32];
        bool turns = p->scope == PAWL_SCOPE_TENANTS;
        if (p->holder) pawl_id_format(p->holder, holder);
        number_grouped(p->blocked, blocked);
        table_cell(&t, PLAIN, "%s", scope_name(p->scope));
        table_cell(&t, BOLD, "%s", p->name);
        table_cell(&t, p->own ? PLAIN : DIM, "%.*s", (int)p->key.len, p->key.len ? p->key.data : "");
        if (turns && p->key.len == 0) table_cell(&t, PLAIN, "turns");
        else table_cell(&t, p->own ? PLAIN : DIM, "%d%s", p->most, p->ordered ? " in order" : "");
        if (turns) table_cell(&t, PLAIN, "%s", "");
        else table_cell(&t, PLAIN, "%lld", (long long)p->taken);
        table_cell(&t, p->blocked ? CYAN : DIM, "%s", turns ? "" : blocked);
        table_cell(&t, PLAIN, "%s", holder);
    }
    return table_print(&t, stdout);
}

/* ---- changing ------------------------------------------------------------------------------------------------------------ */

static int done(cli *c, pawl *p, pawl_status status, const pawl_error *err, const char *what)
{
    int code = status ? cli_fail(c, err) : 0;
    if (p) pawl_close(p);
    if (status) return code;
    if (c->json) {
        answer a;
        cli_json_begin(c, &a);
        jsonw_object(&a.w);
        json_text(&a.w, "name", c->args[0]);
        json_text(&a.w, "done", what);
        jsonw_end_object(&a.w);
        return cli_json_end(c, &a);
    }
    printf("%s  %s\n", c->args[0], what);
    return 0;
}

static pawl_status ask(const cli *c, pawl_scope scope, const char *key, int most, pawl_error *err)
{
    remote r;
    remote_about(&r, "/v1/concurrency/", c->args[0], "");
    remote_parameter(&r.path, "scope", scope_name(scope));
    remote_parameter(&r.path, "key", key);
    jsonw_object(&r.w);
    json_number(&r.w, "most", most);
    json_truth(&r.w, "ordered", ordered);
    jsonw_end_object(&r.w);
    pawl_status status = remote_send(c, &r, "PUT", err);
    remote_end(&r);
    return status;
}

static int set(cli *c, pawl_scope scope, const char *key, int most, const char *what)
{
    pawl_error err;
    int code = 0;
    if (c->server) return done(c, NULL, ask(c, scope, key, most, &err), &err, what);
    pawl *p = cli_open_writing(c, &code);
    if (!p) return code;
    const char *by = by_name ? by_name : cli_person();
    return done(c, p, pawl_set_concurrency(p, scope, c->args[0], pawl_str(key), most, ordered, by, &err), &err, what);
}

int cmd_limits_concurrency(cli *c)
{
    char *end;
    long most = strtol(c->args[1], &end, 10);
    if (end == c->args[1] || *end || most < 0 || most > 65536)
        return cli_usage(c, "\"%s\" is no number of tasks: use 1 to 65536, or 0 for no limit", c->args[1]);
    if (key_text && !*key_text) return cli_usage(c, "--key is empty: name a rate key, or use --per-key for each of them");
    if (of_queue && (per_key || key_text || ordered))
        return cli_usage(c, "--queue has no keys: leave --per-key, --key and --ordered out");
    if (ordered && (most != 1 || !(per_key || key_text)))
        return cli_usage(c, "--ordered needs one task at a time per key: use 1 --per-key, or 1 --key KEY");
    pawl_scope scope = of_queue ? PAWL_SCOPE_QUEUE : per_key || key_text ? PAWL_SCOPE_KEYS : PAWL_SCOPE_TYPE;
    return set(c, scope, key_text, (int)most, most ? "limited" : "no longer limited");
}

int cmd_limits_turns(cli *c)
{
    if (off && tenant_name) return cli_usage(c, "--off is for the whole queue: use --weight 1 for a tenant");
    if (tenant_name) return set(c, PAWL_SCOPE_TENANTS, tenant_name, (int)weight, "weighted");
    return set(c, PAWL_SCOPE_TENANTS, NULL, !off, off ? "tenants no longer take turns" : "tenants take turns");
}

int cmd_queues_set(cli *c)
{
    bool on = take_turns && strcmp(take_turns, "on") == 0;
    int code = 0;
    if (running < 0 && !take_turns) return cli_usage(c, "say what: --running N, --turns on or --turns off");
    if (running >= 0) code = set(c, PAWL_SCOPE_QUEUE, NULL, (int)running, running ? "limited" : "no longer limited");
    if (!code && take_turns)
        code = set(c, PAWL_SCOPE_TENANTS, NULL, on, on ? "tenants take turns" : "tenants no longer take turns");
    return code;
}
