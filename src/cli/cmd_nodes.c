/* pawl nodes: processes that run tasks. */
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/remote.h"

const char help_nodes[] =
    "A node is one start of one process that runs tasks. Dead ones are left out unless --all asks for them.\n";

static bool all;
const opt nodes_opts[] = {OPTION(OPT_FLAG, "all", &all, NULL, "dead ones too"), OPTIONS_END};

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
        table_cell(&t, n->alive ? GREEN : DIM, "%s", n->alive ? "alive" : "dead");
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

int cmd_nodes(cli *c)
{
    pawl_error err;
    pawl_nodes *nodes;
    int code = 0;
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
