/* Spawns: INSERTs that are committed if and only if their FINISH is. */
#include "contract.h"

typedef struct parent {
    int64_t node;
    pawl_op *insert, *finish;
} parent;

static parent parent_with(world *w, int count)
{
    parent p = {.node = join(w, w->a), .insert = op_insert(w, (spec){.ask_lease = true})};
    assert_int_equal(apply(w, w->a, p.node, p.insert), PAWL_OP_DONE);
    p.finish = op_finish(w, p.insert->id, p.insert->out_fence, PAWL_SUCCEEDED);
    p.finish->u.finish.spawns = keep(w, (size_t)count * sizeof(pawl_op));
    p.finish->u.finish.spawns_count = count;
    for (int i = 0; i < count; i++) p.finish->u.finish.spawns[i] = *op_insert(w, (spec){.queue = "p", .ask_lease = true});
    return p;
}

static void stored_with_the_finish(world *w)
{
    parent p = parent_with(w, 3);
    assert_int_equal(apply(w, w->a, p.node, p.finish), PAWL_OP_DONE);
    for (int i = 0; i < 3; i++) {
        const pawl_op *spawn = &p.finish->u.finish.spawns[i];
        assert_int_equal(spawn->result, PAWL_OP_DONE);
        assert_true(spawn->out_id == spawn->id && spawn->out_fence == 0);
        assert_state(w, spawn->id, PAWL_PENDING);
    }
    assert_int_equal(queue_of(w, "p")->pending, 3);
}

static void not_stored_with_a_stale_finish(world *w)
{
    parent p = parent_with(w, 2);
    p.finish->fence++;
    assert_int_equal(apply(w, w->a, p.node, p.finish), PAWL_OP_STALE);
    for (int i = 0; i < 2; i++) assert_false(exists(w, p.finish->u.finish.spawns[i].id));
    assert_state(w, p.insert->id, PAWL_LEASED);
}

static void keys_have_their_say(world *w)
{
    parent p = parent_with(w, 2);
    pawl_id old = insert(w, w->a, p.node, (spec){.key = "k", .payload = "1"});
    p.finish->u.finish.spawns[0] = *op_insert(w, (spec){.key = "k", .payload = "2"});
    p.finish->u.finish.spawns[1] = *op_insert(w, (spec){.key = "new"});
    assert_int_equal(apply(w, w->a, p.node, p.finish), PAWL_OP_DONE);
    assert_int_equal(p.finish->u.finish.spawns[0].result, PAWL_OP_UPDATED);
    assert_true(p.finish->u.finish.spawns[0].out_id == old);
    assert_int_equal(p.finish->u.finish.spawns[1].result, PAWL_OP_DONE);
    assert_memory_equal(get(w, old)->payload.data, "2", 1);
}

/* Born leased, and claimed. */
static void the_key_of_the_one_that_ends_is_free(world *w)
{
    for (int claimed = 0; claimed < 2; claimed++) {
        int64_t node = join(w, w->a), fence = 1;
        pawl_op *first = op_insert(w, (spec){.key = "k", .ask_lease = !claimed});
        apply(w, w->a, node, first);
        if (claimed) fence = claim_one(w, w->a, node).fence;
        pawl_op *finish = op_finish(w, first->out_id, fence, PAWL_SUCCEEDED);
        finish->u.finish.spawns = op_insert(w, (spec){.key = "k"});
        finish->u.finish.spawns_count = 1;
        assert_int_equal(apply(w, w->a, node, finish), PAWL_OP_DONE);
        assert_int_equal(finish->u.finish.spawns->result, PAWL_OP_REPLACED);
        assert_state(w, first->out_id, PAWL_SUCCEEDED);
        assert_state(w, finish->u.finish.spawns->out_id, PAWL_PENDING);
        pawl_op *cancel = op_cancel(w, finish->u.finish.spawns->out_id, NULL);
        assert_int_equal(apply(w, w->a, node, cancel), PAWL_OP_DONE);
    }
}

static void drawn_and_taken_ids(world *w)
{
    parent p = parent_with(w, 2);
    pawl_id taken = insert(w, w->a, p.node, (spec){.payload = "1"});
    p.finish->u.finish.spawns[0] = *op_insert(w, (spec){.draw = true});
    p.finish->u.finish.spawns[1] = *op_insert(w, (spec){.id = taken, .payload = "2"});
    assert_int_equal(apply(w, w->a, p.node, p.finish), PAWL_OP_DONE);
    for (int i = 0; i < 2; i++) {
        const pawl_op *spawn = &p.finish->u.finish.spawns[i];
        assert_int_equal(spawn->result, PAWL_OP_DONE);
        assert_true(spawn->out_id > 0 && spawn->out_id != taken);
        assert_state(w, spawn->out_id, PAWL_PENDING);
    }
    assert_memory_equal(get(w, taken)->payload.data, "1", 1);
}

static void sent_again_they_exist_once(world *w)
{
    parent p = parent_with(w, 2);
    assert_int_equal(apply(w, w->a, p.node, p.finish), PAWL_OP_DONE);
    pawl_id first = p.finish->u.finish.spawns[0].out_id;
    p.finish->result = p.finish->u.finish.spawns[0].result = p.finish->u.finish.spawns[1].result = PAWL_OP_NONE;
    p.finish->u.finish.spawns[0].out_id = 0;
    pawl_batch batch = {.node = p.node, .number = number_of(w, p.node), .ops = &p.finish, .count = 1};
    assert_int_equal(try_apply(w, w->a, &batch), PAWL_OK);
    assert_int_equal(p.finish->result, PAWL_OP_DONE);
    assert_int_equal(p.finish->u.finish.spawns[1].result, PAWL_OP_DONE);
    assert_true(p.finish->u.finish.spawns[0].out_id == first);
    assert_int_equal(count_tasks(w, (pawl_filter){.queue = "p"}), 2);
}

static void one_that_cannot_be_stored_stops_the_finish(world *w)
{
    parent p = parent_with(w, 2);
    p.finish->u.finish.spawns[1].u.insert.body->queue = NULL;
    apply_all(w, w->a, p.node, &p.finish, 1);
    assert_int_equal(p.finish->result, PAWL_OP_REFUSED);
    assert_state(w, p.insert->id, PAWL_LEASED);
    assert_false(exists(w, p.finish->u.finish.spawns[0].id));
}

CASES(spawn_cases){
    {"spawn: stored with the finish, never leased", stored_with_the_finish},
    {"spawn: not stored with a stale finish", not_stored_with_a_stale_finish},
    {"spawn: keys have their say", keys_have_their_say},
    {"spawn: the key of the one that ends is free", the_key_of_the_one_that_ends_is_free},
    {"spawn: an id that is drawn, one that is taken", drawn_and_taken_ids},
    {"spawn: sent again they exist once", sent_again_they_exist_once},
    {"spawn: one that cannot be stored stops the finish", one_that_cannot_be_stored_stops_the_finish},
    {NULL, NULL},
};
