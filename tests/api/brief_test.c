/* Runs of microseconds, of which workers take several at once: one that takes long holds up none of the others. */
#include "harness.h"

#define BRIEF 3000

typedef struct crowd {
    world *w;
    atomic_int runs, hooks;
    gate blocked, free, all;
    int wanted; /* runs that open `all` */
} crowd;

static pawl_outcome brief(pawl_run *run, void *ctx)
{
    crowd *c = ctx;
    (void)run;
    if (atomic_fetch_add(&c->runs, 1) + 1 == c->wanted) gate_open(&c->all);
    return pawl_ok();
}

static pawl_outcome blocker(pawl_run *run, void *ctx)
{
    crowd *c = ctx;
    (void)run;
    gate_open(&c->blocked);
    gate_pass(&c->free);
    return pawl_ok();
}

static void start(world *w, crowd *c, int workers, int wanted)
{
    *c = (crowd){.w = w, .wanted = wanted, .blocked = GATE, .free = GATE, .all = GATE};
    const pawl_handler handlers[] = {{.type = "brief", .run = brief, .ctx = c}, {.type = "blocker", .run = blocker, .ctx = c}};
    world_start(w, handlers, 2, (pawl_options){.workers = workers});
}

static void send_brief(world *w, int count)
{
    pawl_task tasks[100];
    for (int i = 0; i < 100; i++) tasks[i] = (pawl_task){.type = "brief"};
    for (; count > 0; count -= 100) ok(pawl_dispatch_bulk(w->p, tasks, 100, NULL, &w->err));
}

/* It waits for all the others, so if one of them waited for it nothing would ever end. */
static void a_long_run_among_short_ones(void **state)
{
    world *w = *state;
    crowd c;
    start(w, &c, 2, BRIEF);
    send_brief(w, BRIEF / 2);
    pawl_id id = send(w, (pawl_task){.type = "blocker"});
    send_brief(w, BRIEF / 2);
    gate_pass(&c.blocked);
    gate_pass(&c.all);
    gate_open(&c.free);
    await(w, id, PAWL_SUCCEEDED);
    world_close(w);
    assert_int_equal(atomic_load(&c.runs), BRIEF);
}

/* All workers are taken: what was handed out ahead waits in the engine, where it can be cancelled. */
static void what_waits_for_a_worker_can_be_cancelled(void **state)
{
    world *w = *state;
    crowd c;
    pawl_id ids[200];
    pawl_receipt receipts[200];
    pawl_task tasks[200];
    start(w, &c, 1, BRIEF);
    send_brief(w, BRIEF);
    gate_pass(&c.all);
    for (int i = 0; i < 200; i++) tasks[i] = (pawl_task){.type = i ? "brief" : "blocker"};
    ok(pawl_dispatch_bulk(w->p, tasks, 200, receipts, &w->err));
    for (int i = 0; i < 200; i++) ids[i] = receipts[i].id;
    gate_pass(&c.blocked);
    for (int i = 1; i < 200; i++) {
        ok(pawl_cancel(w->p, ids[i], "test", &w->err));
        await(w, ids[i], PAWL_CANCELLED);
    }
    gate_open(&c.free);
    await(w, ids[0], PAWL_SUCCEEDED);
    world_close(w);
    assert_int_equal(atomic_load(&c.runs), BRIEF);
}

/* A slow hook holds up nothing either. */
static bool slow_hook(pawl_run *run, void *ctx)
{
    crowd *c = ctx;
    (void)run;
    int number = atomic_fetch_add(&c->hooks, 1) + 1;
    if (number == BRIEF) gate_open(&c->all);
    if (number == BRIEF / 2) gate_pass(&c->free);
    return true;
}

static void a_slow_hook_among_quick_ones(void **state)
{
    world *w = *state;
    crowd c = {.w = w, .wanted = BRIEF, .blocked = GATE, .free = GATE, .all = GATE};
    const pawl_handler handler = {.type = "brief", .run = brief, .on_succeeded = slow_hook, .ctx = &c};
    world_start(w, &handler, 1, (pawl_options){.workers = 2});
    send_brief(w, BRIEF);
    gate_pass(&c.all); /* of the runs */
    gate_pass(&c.all); /* of the hooks: all have begun, the slow one is still at it */
    gate_open(&c.free);
    world_close(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_long_run_among_short_ones),
        TEST(what_waits_for_a_worker_can_be_cancelled),
        TEST(a_slow_hook_among_quick_ones),
    };
    return RUN_TESTS("brief", tests);
}
