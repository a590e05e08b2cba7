/* Queues that are pulled: what is handed over when, how it ends, and how it comes back. */
#include "harness.h"

#define ROOM 64

typedef struct hands {
    pthread_mutex_t lock;
    pawl_run *runs[ROOM];
    int count, over; /* over: more than were asked for at the time */
    int asked;
    gate taken, ended;
    pawl_event_kind how;
    int64_t fence;
    void *user;
} hands;

static void take(void *ctx, pawl_run *const *runs, size_t count)
{
    hands *h = ctx;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < count; i++) {
        if (h->count < ROOM) h->runs[h->count++] = runs[i];
        h->over += h->count > h->asked;
    }
    pthread_mutex_unlock(&h->lock);
    for (size_t i = 0; i < count; i++) gate_open(&h->taken);
}

static void ended(void *ctx, pawl_run *run, pawl_event_kind how)
{
    hands *h = ctx;
    h->how = how;
    h->fence = pawl_run_fence(run);
    h->user = pawl_run_user(run);
    gate_open(&h->ended);
}

static pawl_outcome never(pawl_run *run, void *ctx)
{
    (void)run, (void)ctx;
    abort();
}

static void start(world *w, hands *h)
{
    *h = (hands){.lock = PTHREAD_MUTEX_INITIALIZER, .taken = GATE, .ended = GATE};
    pawl_puller puller = {.take = take, .ended = ended, .ctx = h};
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "default", .puller = &puller}, &w->err));
    ok(pawl_handle(w->p, &(pawl_handler){.type = "*", .run = never}, &w->err));
    ok(pawl_start(w->p, &w->err));
}

static void add(world *w, hands *h, int count)
{
    pthread_mutex_lock(&h->lock);
    h->asked += count;
    pthread_mutex_unlock(&h->lock);
    ok(pawl_add_workers(w->p, "default", count, false, &w->err));
}

/* So many may come; answers how many have come and were not looked at. */
static int ask(hands *h, int count)
{
    pthread_mutex_lock(&h->lock);
    h->asked = count;
    int waiting = h->count;
    pthread_mutex_unlock(&h->lock);
    return waiting;
}

static pawl_run *pop(hands *h)
{
    gate_pass(&h->taken);
    pthread_mutex_lock(&h->lock);
    pawl_run *run = h->runs[0];
    memmove(h->runs, h->runs + 1, (size_t)--h->count * sizeof *h->runs);
    h->asked--;
    pthread_mutex_unlock(&h->lock);
    return run;
}

/* As many as there are workers, no more; and each end makes room for another. */
static void as_many_as_are_asked_for(void **state)
{
    world *w = *state;
    hands h;
    start(w, &h);
    for (int i = 0; i < 20; i++) send(w, (pawl_task){.type = "t"});
    add(w, &h, 3);
    pawl_run *runs[3];
    for (int i = 0; i < 3; i++) runs[i] = pop(&h);
    pawl_outcome outcomes[3] = {pawl_ok(), pawl_ok(), pawl_ok()};
    assert_int_equal(ask(&h, 3), 0);
    pawl_run_finish_all(runs, outcomes, 3);
    for (int i = 0; i < 3; i++) gate_pass(&h.ended);
    assert_int_equal(h.how, PAWL_EVENT_SUCCEEDED);
    for (int i = 0; i < 3; i++) runs[i] = pop(&h);
    assert_int_equal(h.over, 0);
    ok(pawl_add_workers(w->p, "default", -3, false, &w->err));
    pawl_run_finish_all(runs, outcomes, 3);
    for (int i = 0; i < 3; i++) gate_pass(&h.ended);
    world_close(w);
    assert_int_equal(h.count, 0);
}

/* What nobody was told of comes again under the same fence; what was, under a new one, and at no cost. */
static void back_and_again(void **state)
{
    world *w = *state;
    hands h;
    start(w, &h);
    pawl_id id = send(w, (pawl_task){.type = "t", .max_attempts = 1});
    add(w, &h, 1);
    pawl_run *run = pop(&h);
    int64_t fence = pawl_run_fence(run);
    ask(&h, 1);
    ok(pawl_run_return(run, &w->err));
    run = pop(&h);
    assert_int_equal(pawl_run_fence(run), fence);
    pawl_run_set_user(run, &h);
    ask(&h, 1);
    ok(pawl_run_finish(run, pawl_interrupted(run, "on the way"), &w->err));
    gate_pass(&h.ended);
    assert_int_equal(h.how, PAWL_EVENT_RELEASED);
    assert_ptr_equal(h.user, &h);
    run = pop(&h);
    assert_true(pawl_run_fence(run) > fence);
    refused(pawl_run_return(NULL, &w->err), PAWL_INVALID, "NULL");
    ok(pawl_run_finish(run, pawl_ok(), &w->err));
    await(w, id, PAWL_SUCCEEDED);
    world_close(w);
}

/* Whoever runs a task five times and is never heard of again: then it has failed. */
static void lost_five_times(void **state)
{
    world *w = *state;
    hands h;
    start(w, &h);
    pawl_id id = send(w, (pawl_task){.type = "t"});
    ask(&h, 1);
    ok(pawl_add_workers(w->p, "default", 1, false, &w->err));
    for (int i = 0; i < 5; i++) {
        pawl_run *run = pop(&h);
        ask(&h, 1);
        ok(pawl_run_finish(run, pawl_lost(run, "worker %d is gone", i), &w->err));
        gate_pass(&h.ended);
        assert_int_equal(h.how, i < 4 ? PAWL_EVENT_RELEASED : PAWL_EVENT_FAILED);
    }
    pawl_info *info = get(w, id);
    assert_string_equal(info->reason, "rescued_too_often");
    assert_string_equal(info->attempts[0].outcome, "rescued");
    pawl_info_free(info);
    world_close(w);
}

/* Nobody asks any more: what the engine holds ready is for others again. */
static void nobody_asks(void **state)
{
    world *w = *state;
    hands h;
    start(w, &h);
    ok(pawl_add_workers(w->p, "default", 1, false, &w->err));
    ask(&h, 1);
    pawl_id id = send(w, (pawl_task){.type = "t"});
    pawl_run *run = pop(&h);
    ok(pawl_add_workers(w->p, "default", -1, true, &w->err));
    ok(pawl_run_return(run, &w->err));
    ok(pawl_add_workers(w->p, "default", 0, true, &w->err));
    for (pawl_state seen = PAWL_LEASED; seen != PAWL_PENDING;) {
        pawl_info *info = get(w, id);
        seen = info->state;
        pawl_info_free(info);
    }
    refused(pawl_add_workers(w->p, "other", 1, false, &w->err), PAWL_NOT_FOUND, "other");
    world_close(w);
}

static void a_puller_is_whole(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_puller half = {.take = take};
    refused(pawl_queue(w->p, &(pawl_queue_options){.name = "q", .puller = &half}, &w->err), PAWL_INVALID, "take and ended");
    world_close(w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(as_many_as_are_asked_for), TEST(back_and_again), TEST(lost_five_times),
                                       TEST(nobody_asks), TEST(a_puller_is_whole)};
    return RUN_TESTS("pull", tests);
}
