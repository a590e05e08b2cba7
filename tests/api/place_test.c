/* Concurrency limits, order per key and tenants that take turns, as a program sees them. */
#include "harness.h"

typedef struct crowd { /* how many run at a time */
    world *w;
    atomic_int running, most, ended;
    gate hold; /* if `held`: each run waits for it */
    gate began;
    bool held;
} crowd;

static pawl_outcome join_in(pawl_run *run, void *ctx)
{
    crowd *c = ctx;
    (void)run;
    int now = atomic_fetch_add(&c->running, 1) + 1, most = atomic_load(&c->most);
    while (now > most && !atomic_compare_exchange_weak(&c->most, &most, now)) continue;
    gate_open(&c->began);
    if (c->held) gate_pass(&c->hold);
    atomic_fetch_sub(&c->running, 1);
    atomic_fetch_add(&c->ended, 1);
    return pawl_ok();
}

static pawl *open_second(world *w, const pawl_handler *h)
{
    pawl *p = world_open(w, (pawl_options){.name = "second", .workers = 8});
    ok(pawl_handle(p, h, &w->err));
    ok(pawl_start(p, &w->err));
    return p;
}

static void never_more_at_a_time(void **state)
{
    world *w = *state;
    crowd c = {.w = w, .hold = GATE, .began = GATE};
    pawl_id ids[120];
    pawl_handler h = {.type = "t", .run = join_in, .ctx = &c, .concurrency = 3};
    world_start(w, &h, 1, (pawl_options){.workers = 8});
    pawl *second = open_second(w, &h);
    for (int i = 0; i < 120; i++) ids[i] = send(w, (pawl_task){.type = "t"});
    for (int i = 0; i < 120; i++) await(w, ids[i], PAWL_SUCCEEDED);
    assert_in_range(atomic_load(&c.most), 1, 3);
    assert_int_equal(pawl_close(second), 0);
}

static void a_freed_place_starts_the_next(void **state)
{
    world *w = *state;
    crowd c = {.w = w, .hold = GATE, .began = GATE, .held = true};
    pawl_handler h = {.type = "t", .run = join_in, .ctx = &c, .key_concurrency = 1};
    pawl_why_answer why;
    pawl_places *places;
    pawl_id ids[3];
    world_start(w, &h, 1, (pawl_options){.workers = 4});
    for (int i = 0; i < 3; i++) ids[i] = send(w, (pawl_task){.type = "t", .rate_key = pawl_str("k")});
    gate_pass(&c.began);
    do {
        ok(pawl_get_places(w->p, &(pawl_place_filter){.blocked = true}, &places, &w->err));
        bool both = places->count == 1 && places->places[0].blocked == 2;
        if (both) assert_true(places->places[0].taken == 1 && places->places[0].holder == ids[0]);
        pawl_places_free(places);
        if (both) break;
    } while (true);
    ok(pawl_why(w->p, ids[1], &why, &w->err));
    char holder[PAWL_ID_TEXT];
    pawl_id_format(ids[0], holder);
    assert_string_equal(why.code, "key_held");
    assert_non_null(strstr(why.text, holder));
    for (int i = 0; i < 3; i++) gate_open(&c.hold);
    for (int i = 0; i < 3; i++) await(w, ids[i], PAWL_SUCCEEDED);
    assert_int_equal(atomic_load(&c.most), 1);
}

static void raised_while_it_runs(void **state)
{
    world *w = *state;
    crowd c = {.w = w, .hold = GATE, .began = GATE, .held = true};
    pawl_handler h = {.type = "t", .run = join_in, .ctx = &c, .concurrency = 1};
    pawl_id ids[4];
    world_start(w, &h, 1, (pawl_options){.workers = 8});
    for (int i = 0; i < 4; i++) ids[i] = send(w, (pawl_task){.type = "t"});
    gate_pass(&c.began);
    ok(pawl_set_concurrency(w->p, PAWL_SCOPE_TYPE, "t", (pawl_bytes){0}, 3, false, "me", &w->err));
    gate_pass(&c.began);
    gate_pass(&c.began);
    assert_int_equal(atomic_load(&c.running), 3);
    for (int i = 0; i < 4; i++) gate_open(&c.hold);
    for (int i = 0; i < 4; i++) await(w, ids[i], PAWL_SUCCEEDED);
    assert_int_equal(atomic_load(&c.most), 3);
}

/* ---- order --------------------------------------------------------------------------------------------------------------- */

typedef struct line {
    pthread_mutex_t lock;
    int next[3]; /* of each key */
    bool broken;
} line;

/* Every third fails once: those behind it wait for it. */
static pawl_outcome in_order(pawl_run *run, void *ctx)
{
    line *l = ctx;
    int key, number;
    assert_int_equal(sscanf(pawl_run_payload(run).data, "[%d,%d]", &key, &number), 2);
    bool again = number % 3 == 0 && pawl_run_attempt(run) == 1;
    pthread_mutex_lock(&l->lock);
    if (l->next[key] != number) l->broken = true;
    if (!again) l->next[key] = number + 1;
    pthread_mutex_unlock(&l->lock);
    return again ? pawl_retry_in(run, PAWL_MILLISECOND, "once more") : pawl_ok();
}

static void keys_keep_their_order(void **state)
{
    world *w = *state;
    line l = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pawl_handler h = {.type = "t", .run = in_order, .ctx = &l, .key_concurrency = 1, .ordered = true};
    pawl_id ids[60];
    world_start(w, &h, 1, (pawl_options){.workers = 8});
    pawl *second = open_second(w, &h);
    for (int i = 0; i < 60; i++) {
        char payload[32], key[2] = {(char)('a' + i % 3), 0};
        snprintf(payload, sizeof payload, "[%d,%d]", i % 3, i / 3);
        ids[i] = send(w, (pawl_task){.type = "t", .rate_key = pawl_str(key), .payload = pawl_str(payload), .priority = -i});
    }
    for (int i = 0; i < 60; i++) await(w, ids[i], PAWL_SUCCEEDED);
    assert_false(l.broken);
    assert_true(l.next[0] == 20 && l.next[1] == 20 && l.next[2] == 20);
    assert_int_equal(pawl_close(second), 0);
}

/* ---- tenants ------------------------------------------------------------------------------------------------------------- */

typedef struct flood {
    atomic_int loud; /* runs of the loud tenant that began */
    atomic_int loud_before[8], quiet;
    gate first, go;
} flood;

static pawl_outcome take_turn(pawl_run *run, void *ctx)
{
    flood *f = ctx;
    if (strcmp(pawl_run_tenant(run), "loud") == 0) {
        if (atomic_fetch_add(&f->loud, 1) == 0) {
            gate_open(&f->first);
            gate_pass(&f->go);
        }
    } else {
        f->loud_before[atomic_fetch_add(&f->quiet, 1)] = atomic_load(&f->loud);
    }
    return pawl_ok();
}

/* With one worker, and 300 tasks of another tenant before it, a task waits for that worker and for one other task, not for 300. */
static void a_flood_delays_nobody_else(void **state)
{
    world *w = *state;
    flood f = {.first = GATE, .go = GATE};
    pawl_handler h = {.type = "t", .run = take_turn, .ctx = &f};
    pawl_id ids[300], quiet[4];
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "default", .workers = 1, .fair = true}, &w->err));
    ok(pawl_handle(w->p, &h, &w->err));
    ok(pawl_start(w->p, &w->err));
    for (int i = 0; i < 300; i++) ids[i] = send(w, (pawl_task){.type = "t", .tenant = "loud"});
    gate_pass(&f.first);
    for (int i = 0; i < 4; i++) quiet[i] = send(w, (pawl_task){.type = "t", .tenant = "quiet"});
    gate_open(&f.go);
    for (int i = 0; i < 4; i++) await(w, quiet[i], PAWL_SUCCEEDED);
    for (int i = 0; i < 4; i++)
        assert_in_range(atomic_load(&f.loud_before[i]), 1, 2 + i); /* one of the others between two of its own */
    for (int i = 0; i < 300; i++) await(w, ids[i], PAWL_SUCCEEDED);
}

/* ---- bad input ----------------------------------------------------------------------------------------------------------- */

static void refused_input(void **state)
{
    world *w = *state;
    pawl_bytes none = {0};
    w->p = world_open(w, (pawl_options){0});
    refused(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = succeed, .concurrency = -1}, &w->err), PAWL_INVALID,
            "concurrency");
    refused(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = succeed, .ordered = true}, &w->err), PAWL_INVALID,
            "key_concurrency");
    refused(pawl_handle(w->p, &(pawl_handler){.type = "*", .run = succeed, .concurrency = 1}, &w->err), PAWL_INVALID, "per type");
    refused(pawl_queue(w->p, &(pawl_queue_options){.name = "q", .concurrency = 70000}, &w->err), PAWL_INVALID, "70000");
    refused(pawl_set_concurrency(w->p, 0, "t", none, 1, false, NULL, &w->err), PAWL_INVALID, "pawl_scope");
    refused(pawl_set_concurrency(w->p, PAWL_SCOPE_TYPE, "*", none, 1, false, NULL, &w->err), PAWL_INVALID, "no type");
    refused(pawl_set_concurrency(w->p, PAWL_SCOPE_TYPE, "t", pawl_str("k"), 1, false, NULL, &w->err), PAWL_INVALID, "no key");
    refused(pawl_set_concurrency(w->p, PAWL_SCOPE_KEYS, "t", none, 2, true, NULL, &w->err), PAWL_INVALID, "ordered");
    refused(pawl_set_concurrency(w->p, PAWL_SCOPE_TENANTS, "q", pawl_str("a\nb"), 2, false, NULL, &w->err), PAWL_INVALID,
            "tenant");
    ok(pawl_set_concurrency(w->p, PAWL_SCOPE_TENANTS, "q", pawl_str("a"), 2, false, NULL, &w->err));
    ok(pawl_set_concurrency(w->p, PAWL_SCOPE_KEYS, "t", pawl_str("k"), 1, true, NULL, &w->err));
    ok(pawl_set_concurrency(w->p, PAWL_SCOPE_KEYS, "t", pawl_str("k"), 0, false, NULL, &w->err));
    static const struct {
        pawl_scope scope;
        const char *name, *key, *text;
    } all[] = {{PAWL_SCOPE_QUEUE, "q", NULL, "queue 'q' has no concurrency limit: there is nothing to take away"},
               {PAWL_SCOPE_TYPE, "t", NULL, "type 't' has no concurrency limit:"},
               {PAWL_SCOPE_KEYS, "t", NULL, "type 't' has no concurrency limit of each rate key"},
               {PAWL_SCOPE_KEYS, "t", "k", "this rate key of type 't'"},
               {PAWL_SCOPE_TENANTS, "q", NULL, "queue 'q' has no tenants that take turns"},
               {PAWL_SCOPE_TENANTS, "q", "b", "this tenant of queue 'q' has no weight"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        refused(pawl_set_concurrency(w->p, all[i].scope, all[i].name, pawl_str(all[i].key), 0, false, NULL, &w->err),
                PAWL_NOT_FOUND, all[i].text);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {TEST(never_more_at_a_time),       TEST(a_freed_place_starts_the_next),
                                              TEST(raised_while_it_runs),       TEST(keys_keep_their_order),
                                              TEST(a_flood_delays_nobody_else), TEST(refused_input)};
    return RUN_TESTS("place", tests);
}
