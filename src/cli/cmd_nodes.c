/* pawl nodes: processes that run tasks. */
#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <stdio.h>
#include <string.h>

const char help_nodes[] =
    "A node is one start of one process that runs tasks. Dead ones are left out unless --all asks for them.\n"
    "\n"
    "pawl nodes drain NODE asks one, by its number or name, to start nothing more: what runs there comes to its end, and the process stays. With "
    "--undo it starts tasks again.\n"
    "\n"
    "Examples\n"
    "  pawl nodes drain web-3\n"
    "  pawl nodes drain web-3 --undo\n";

static bool all, undo;
const opt nodes_opts[] = {OPTION(OPT_FLAG, "all", &all, NULL, "dead ones too"),
                          OPTION(OPT_FLAG, "undo", &undo, NULL, "drain: let it start tasks again"), OPTIONS_END};

static int nodes_json(const cli *c, const pawl_nodes *nodes)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "nodes");
    jsonw_array(&a.w);
    for (size_t i = 0; i < nodes->count; i++) {
        const pawl_node_info *n = &nodes->nodes[i];
        if (!n->alive && !all) continue;
        node_json(&a.w, n);
    }
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static int nodes_text(const cli *c, const pawl_nodes *nodes)
{
    table t;
    size_t shown = 0;
    int64_t now_us = cli_now_us();
    table_init(&t, &c->term);
    table_column(&t, "NODE", COLUMN_RIGHT);
    table_column(&t, "NAME", COLUMN_FLEX);
    table_column(&t, "PID", COLUMN_RIGHT);
    table_column(&t, "STATE", COLUMN_LEFT);
    table_column(&t, "RUNNING", COLUMN_RIGHT);
    table_column(&t, "STARTED", COLUMN_LEFT);
    table_column(&t, "QUEUES", COLUMN_FLEX);
    for (size_t i = 0; i < nodes->count; i++) {
        const pawl_node_info *n = &nodes->nodes[i];
        char born[WHEN_TEXT];
        if (!n->alive && !all) continue;
        when_relative(n->born_us, now_us, born);
        table_cell(&t, PLAIN, "%lld", (long long)n->id);
        table_cell(&t, PLAIN, "%s", n->name ? n->name : "");
        table_cell(&t, PLAIN, "%lld", (long long)n->pid);
        if (n->draining) table_cell(&t, YELLOW, "draining");
        else table_cell(&t, n->alive ? GREEN : DIM, "%s", n->alive ? "alive" : "dead");
        table_cell(&t, n->leases ? CYAN : DIM, "%lld", (long long)n->leases);
        table_cell(&t, PLAIN, "%s", born);
        table_cell(&t, PLAIN, "%s", n->queues && *n->queues ? n->queues : "(dispatches only)");
        shown++;
    }
    if (!table_print(&t, stdout)) return cli_no_memory(c);
    if (!shown) printf("no living nodes%s\n", nodes->count ? "; --all shows dead ones" : "");
    return 0;
}

static int from_server(const cli *c)
{
    remote r;
    pawl_nodes nodes = {0};
    remote_begin(&r, "/v1/nodes");
    remote_flag(&r.path, "all", all || !c->json); /* people are told that there are dead ones */
    int code = remote_look(c, &r, &node_shape, &nodes);
    if (code == REMOTE_SHOW) code = nodes_text(c, &nodes);
    remote_end(&r);
    return code;
}

/* The living node of that number or name; 0: there is none, or there are several. */
static int64_t find_node(const pawl_nodes *nodes, const char *which, pawl_error *err)
{
    int64_t number = 0, found = 0;
    int count = 0;
    bool numbered = int_parse(which, 1, INT64_MAX, &number);
    for (size_t i = 0; i < nodes->count; i++) {
        const pawl_node_info *n = &nodes->nodes[i];
        bool same = numbered ? n->id == number : n->name && strcmp(n->name, which) == 0;
        if (!n->alive || !same) continue;
        found = n->id;
        count++;
    }
    if (count == 0) err_set(err, PAWL_NOT_FOUND, "no living node is called \"%s\": pawl nodes shows them", which);
    if (count > 1)
        err_set(err, PAWL_INVALID, "%d living nodes are called \"%s\": say which by its number, which pawl nodes shows", count,
                which);
    return count == 1 ? found : 0;
}

static pawl_status drain_there(const cli *c, const char *which, int64_t *node, pawl_error *err)
{
    remote r;
    pawl_nodes nodes = {0};
    char number[32];
    *node = 0;
    remote_begin(&r, "/v1/nodes");
    pawl_status status = remote_send(c, &r, "GET", err);
    if (!status) status = remote_rows(&r, &node_shape, r.object, &nodes, err);
    if (!status) *node = find_node(&nodes, which, err);
    snprintf(number, sizeof number, "%lld", (long long)*node);
    if (*node) status = remote_do(c, "POST", "/v1/nodes/", number, undo ? "/undrain" : "/drain", err);
    else if (!status) status = err->status;
    remote_end(&r);
    return status;
}

static pawl_status drain_here(pawl *p, const char *which, int64_t *node, pawl_error *err)
{
    pawl_nodes *nodes;
    pawl_status status = pawl_get_nodes(p, &nodes, err);
    if (status) return status;
    *node = find_node(nodes, which, err);
    status = *node ? pawl_drain_node(p, *node, !undo, cli_person(), err) : err->status;
    pawl_nodes_free(nodes);
    return status;
}

static int drain_node(cli *c, const char *which)
{
    pawl_error err;
    int64_t node = 0;
    int code = 0;
    const char *done = undo ? "no longer draining" : "draining";
    pawl *p = c->server ? NULL : cli_open_writing(c, &code);
    if (!p && !c->server) return code;
    if (p ? drain_here(p, which, &node, &err) : drain_there(c, which, &node, &err)) code = cli_fail(c, &err);
    else if (c->json) printf("{\"node\":%lld,\"done\":\"%s\"}\n", (long long)node, done);
    else printf("%s  %s\n", which, done);
    if (p) pawl_close(p);
    return code;
}

int cmd_nodes(cli *c)
{
    pawl_error err;
    pawl_nodes *nodes;
    int code = 0;
    if (c->args_count == 2 && strcmp(c->args[0], "drain") == 0) return drain_node(c, c->args[1]);
    if (c->args_count > 0)
        return cli_usage(c, "\"pawl nodes\" does not know what to do with \"%s\": \"drain NODE\" is known", c->args[0]);
    if (undo) return cli_usage(c, "--undo belongs to pawl nodes drain NODE");
    if (c->server) return from_server(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    if (pawl_get_nodes(p, &nodes, &err)) code = cli_fail(c, &err);
    else {
        code = c->json ? nodes_json(c, nodes) : nodes_text(c, nodes);
        pawl_nodes_free(nodes);
    }
    pawl_close(p);
    return code;
}
