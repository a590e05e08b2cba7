/* Nodes: birth, leaving, what is shown of them. */
#include "contract.h"

static void leave(world *w, pawl_store *store, int64_t node)
{
    assert_int_equal(store->type->leave(store, node, &w->err), PAWL_OK);
}

static void shown_as_registered(world *w)
{
    int64_t n = join_as(w, w->a, "worker-1", "mail,default", "mail.send,mail.open", 5 * PAWL_SECOND);
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    assert_int_equal(query.nodes->count, 1);
    const pawl_node_info *info = &query.nodes->nodes[0];
    assert_true(info->id == n && info->pid == 4711 && info->alive && info->leases == 0 && info->expires_us == 0);
    assert_true(info->born_us == w->clock.now_us);
    assert_string_equal(info->name, "worker-1");
    assert_string_equal(info->queues, "mail,default");
    assert_string_equal(query.node_types[0], "mail.send,mail.open");
}

static void every_start_is_a_new_node(world *w)
{
    int64_t a = join(w, w->a), b = join(w, w->b), c = join(w, w->a);
    leave(w, w->a, c);
    int64_t d = join(w, w->a);
    assert_true(a != b && b != c && c != d && a != d && b != d);
}

static void leaves_without_leases(world *w)
{
    int64_t n = join(w, w->a);
    insert(w, w->a, n, (spec){0});
    leave(w, w->a, n);
    leave(w, w->a, n);
    assert_false(node_of(w, n)->alive);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1}).got, 0);
    assert_true(w->news.node_dead);
}

static void cannot_leave_its_leases(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, op);
    leave(w, w->a, n);
    assert_true(node_of(w, n)->alive);
    assert_state(w, op->id, PAWL_LEASED);
    assert_false(renew(w, w->a, n).news.node_dead);
    assert_int_equal(rescue_lapsed(w, w->b, other, n, true).freed, 1);
}

static void alive_while_its_handle_is_open(world *w)
{
    if (w->kind->no_session) return;
    pawl_store *third = open_handle(w);
    int64_t n = join(w, third);
    advance(w, PAWL_DAY);
    assert_true(node_of(w, n)->alive);
    close_handle(w, &third);
    assert_false(node_of(w, n)->alive);
}

static void leases_are_counted(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 3; i++) insert(w, w->a, n, (spec){.ask_lease = true});
    const pawl_node_info *info = node_of(w, n);
    assert_true(info->leases == 3 && info->expires_us == w->clock.now_us + LEASE);
    advance(w, PAWL_SECOND);
    renew(w, w->a, n);
    assert_true(node_of(w, n)->expires_us == w->clock.now_us + LEASE);
}

/* As a node asks for itself, through the handle it has. */
static int draining_of(world *w, pawl_store *store, int64_t node)
{
    pawl_query query = {.kind = PAWL_QUERY_FEED, .id = node, .draining = -1};
    assert_int_equal(store_read(store, &query, w->arena, &w->err), PAWL_OK);
    return query.draining;
}

static void is_drained_and_goes_on(world *w)
{
    int64_t n = join_as(w, w->a, "one", "q", "*", LEASE), other = join(w, w->a);
    assert_false(node_of(w, n)->draining);
    assert_int_equal(store_drain(w->b, n, true, "ann", &w->err), PAWL_OK);
    assert_true(node_of(w, n)->draining && !node_of(w, other)->draining);
    assert_int_equal(draining_of(w, w->b, n), 1);
    assert_int_equal(draining_of(w, w->b, other) == 1, 0);
    assert_int_equal(store_drain(w->b, n, true, NULL, &w->err), PAWL_OK);
    assert_true(node_of(w, n)->draining);
    assert_int_equal(store_drain(w->b, n, false, "bob", &w->err), PAWL_OK);
    assert_false(node_of(w, n)->draining);
    assert_int_equal(draining_of(w, w->b, n), 0);
    pawl_acts *acts = acts_of(w, 0, 10);
    assert_int_equal(acts->count, 2);
    assert_string_equal(acts->acts[0].action, "undrain");
    assert_string_equal(acts->acts[0].who, "bob");
    assert_string_equal(acts->acts[1].action, "drain");
    assert_string_equal(acts->acts[1].detail, "one");
}

static void only_the_living_are_drained(world *w)
{
    int64_t n = join(w, w->a);
    assert_int_equal(store_drain(w->a, n + 100, true, "ann", &w->err), PAWL_NOT_FOUND);
    assert_int_equal(store_drain(w->a, n, true, NULL, &w->err), PAWL_OK);
    leave(w, w->a, n);
    assert_int_equal(store_drain(w->a, n, false, "ann", &w->err), PAWL_NOT_FOUND);
    const pawl_node_info *left = node_of(w, n);
    assert_true(!left || !left->draining);
    assert_int_equal(acts_of(w, 0, 10)->count, 0);
}

CASES(node_cases){
    {"node: shown as registered", shown_as_registered},
    {"node: every start is a new one", every_start_is_a_new_node},
    {"node: leaves without leases", leaves_without_leases},
    {"node: cannot leave its leases", cannot_leave_its_leases},
    {"node: alive while its handle is open", alive_while_its_handle_is_open},
    {"node: leases are counted, renewals shown", leases_are_counted},
    {"node: is drained, and goes on", is_drained_and_goes_on},
    {"node: only the living are drained", only_the_living_are_drained},
    {NULL, NULL},
};
