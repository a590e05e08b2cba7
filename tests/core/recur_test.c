/* Schedules in the engine, driven by hand: what is stored and makes no sense, zones that cannot be read, looks that come at a bad time,
 * memory that runs out. */
#include "../unit/cmocka_all.h"
#include "../unit/test_allocator.h"
#include "base/alloc.h"
#include "base/zone.h"
#include "drive.h"
#include <stdio.h>
#include <string.h>

#define HOURLY "{\"every\":1,\"unit\":\"hour\",\"type\":\"t\",\"queue\":\"default\"}"
#define BIT(kind) (1u << (kind))

static const pawl_outcome ok = {PAWL_RUN_OK, 0};
static zone *utc;
static pawl_status zone_status;

static const zone *zone_of(void *ctx, const char *name, pawl_error *err)
{
    (void)ctx;
    if (!zone_status) return utc;
    err->status = zone_status;
    snprintf(err->message, sizeof err->message, "zone '%s' is not here", name ? name : "UTC");
    return NULL;
}

static drive *begin_with(void **state, core_config config)
{
    config.zone = zone_of;
    zone_status = PAWL_OK;
    drive *d = drive_begin(state, config, (core_queue_config){.workers = 100});
    drive_start(d);
    return d;
}

static drive *begin(void **state) { return begin_with(state, (core_config){0}); }

static void put(drive *d, const char *name, const char *spec, int64_t in_us)
{
    int64_t now_us = drive_now(d).wall_us;
    pawl_schedule_row row = {.name = name, .spec = spec, .anchor_us = now_us};
    row.next_us = row.occurrence_us = row.look_us = now_us + in_us;
    pawl_schedule_put what = {.row = &row};
    drive_submit(d, (pawl_op){.kind = PAWL_OP_SCHEDULE, .audit = PAWL_AUDIT_FULL, .u.schedule = &what});
}

static pawl_schedule_row row_of(drive *d, const char *name)
{
    static char reason[256];
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULE, .name = name};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    assert_int_equal(store_read(d->store, &query, arena, NULL), PAWL_OK);
    pawl_schedule_row row = *query.schedules;
    snprintf(reason, sizeof reason, "%s", row.reason ? row.reason : "");
    row.reason = reason;
    arena_free(arena);
    return row;
}

static void end_all(drive *d)
{
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

/* ---- what makes no sense ------------------------------------------------------------------------------------------------------ */

/* It is off, and says why; others are not kept from firing. */
static void what_makes_no_sense_is_off(void **state)
{
    drive *d = begin(state);
    put(d, "bad", "{\"every\":1,\"unit\":\"moon\",\"type\":\"t\"}", PAWL_SECOND);
    put(d, "good", HOURLY, PAWL_SECOND);
    drive_advance(d, 2 * PAWL_SECOND);
    pawl_schedule_row row = row_of(d, "bad");
    assert_int_equal(row.off, PAWL_OFF_INVALID);
    assert_non_null(strstr(row.reason, "its member 'unit'"));
    assert_non_null(strstr(d->log, "schedule 'bad' is off: "));
    assert_int_equal(row_of(d, "good").fired, 1);
    assert_int_equal(d->runs_count, 1);
    int looks = d->calls[CORE_DUE];
    drive_advance(d, 10 * PAWL_MINUTE);
    assert_int_equal(d->calls[CORE_DUE], looks); /* it is not looked at again */
    end_all(d);
}

static pawl_schedule_row damage;

static void damage_row(drive *d, core_call *call)
{
    (void)d;
    if (call->kind != CORE_DUE || call->status || call->u.due.count == 0) return;
    pawl_schedule_row *row = call->u.due.rows;
#define DAMAGE(member) \
    if (damage.member) row->member = damage.member
    DAMAGE(anchor_us);
    DAMAGE(next_us);
    DAMAGE(occurrence_us);
    DAMAGE(last_us);
    DAMAGE(runs);
    DAMAGE(open);
    DAMAGE(waiting);
#undef DAMAGE
}

static void numbers_that_make_no_sense(void **state)
{
    int64_t end = ZONE_LAST_S * PAWL_SECOND, much = INT64_MAX / 4;
    const pawl_schedule_row bad[] = {{.anchor_us = -1},     {.anchor_us = end}, {.next_us = -1}, {.next_us = end},
                                     {.occurrence_us = -1}, {.last_us = end},   {.runs = -1},    {.runs = much},
                                     {.open = -1},          {.open = much},     {.waiting = -1}, {.waiting = much}};
    drive *d = begin(state);
    char name[16];
    d->meddle = damage_row;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(name, sizeof name, "s%zu", i);
        damage = bad[i];
        put(d, name, HOURLY, PAWL_SECOND);
        drive_advance(d, 2 * PAWL_SECOND);
        pawl_schedule_row row = row_of(d, name);
        assert_int_equal(row.off, PAWL_OFF_INVALID);
        assert_string_equal(row.reason, "what is stored of its times and counts makes no sense");
        assert_int_equal(row.fired, 0);
    }
}

/* A zone that is not there is a mistake; one that cannot be read now may be there later. */
static void zones(void **state)
{
    drive *d = begin(state);
    zone_status = PAWL_UNAVAILABLE;
    put(d, "later", HOURLY, PAWL_SECOND);
    drive_advance(d, 2 * PAWL_SECOND);
    pawl_schedule_row row = row_of(d, "later");
    assert_int_equal(row.off, PAWL_OFF_NOT);
    assert_int_equal(row.fired, 0);
    assert_true(row.look_us > drive_now(d).wall_us + 50 * PAWL_SECOND);
    assert_non_null(strstr(d->log, "schedule 'later' is put off: zone 'UTC' is not here"));
    zone_status = PAWL_OK;
    drive_advance(d, 55 * PAWL_SECOND);
    assert_int_equal(row_of(d, "later").fired, 0);
    drive_advance(d, 10 * PAWL_SECOND);
    row = row_of(d, "later");
    assert_int_equal(row.skipped + row.fired, 1); /* a minute late: by its policy */
    assert_true(row.next_us > drive_now(d).wall_us);

    zone_status = PAWL_INVALID;
    put(d, "never", HOURLY, PAWL_SECOND);
    drive_advance(d, 2 * PAWL_SECOND);
    row = row_of(d, "never");
    assert_int_equal(row.off, PAWL_OFF_INVALID);
    assert_string_equal(row.reason, "zone 'UTC' is not here");
    end_all(d);
}

/* ---- bad times ---------------------------------------------------------------------------------------------------------------- */

/* Something changes while a look, or what it decided, is under way: one look at a time, and another one after it. */
static void one_look_at_a_time(void **state)
{
    drive *d = begin(state);
    d->hold = BIT(CORE_DUE);
    put(d, "a", HOURLY, PAWL_SECOND);
    put(d, "b", HOURLY, PAWL_SECOND);
    drive_advance(d, 2 * PAWL_SECOND);
    assert_int_equal(d->held_count, 1);
    d->hold = BIT(CORE_APPLY);
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->held_count, 1); /* the steps; no second look before they are answered */
    int looks = d->calls[CORE_DUE];
    core_wake(d->core, drive_now(d));
    drive_go(d);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->calls[CORE_DUE], looks);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(row_of(d, "a").fired, 1);
    assert_int_equal(row_of(d, "b").fired, 1);
    assert_int_equal(d->runs_count, 2);
    assert_true(d->calls[CORE_DUE] > looks);
    end_all(d);
}

/* What is due while nothing may start fires when it goes on. */
static void whoever_drains_fires_nothing(void **state)
{
    drive *d = begin(state);
    d->hold = BIT(CORE_DUE);
    put(d, "a", HOURLY, 0);
    put(d, "b", HOURLY, 0); /* another look is wanted */
    core_drain(d->core, drive_now(d));
    drive_go(d);
    assert_int_equal(d->held_count, 1);
    drive_answer_held(d, 0, true, PAWL_OK);
    drive_advance(d, 10 * PAWL_SECOND);
    assert_int_equal(row_of(d, "a").fired + row_of(d, "b").fired, 0);
    assert_int_equal(d->calls[CORE_DUE], 1);
    d->hold = 0;
    drive_start(d);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(row_of(d, "a").fired, 1);
    assert_int_equal(row_of(d, "b").fired, 1);
    end_all(d);
}

static bool node_dies;

static void kill_node(drive *d, core_call *call)
{
    (void)d;
    if (call->kind == CORE_CLAIM && !call->status && node_dies) call->u.claim.news.node_dead = true, node_dies = false;
}

/* A node that was taken for dead fires nothing before it is another one. */
static void whoever_has_no_node_fires_nothing(void **state)
{
    drive *d = begin(state);
    put(d, "a", HOURLY, 10 * PAWL_SECOND);
    d->meddle = kill_node;
    d->hold = BIT(CORE_REGISTER);
    node_dies = true;
    core_wake(d->core, drive_now(d));
    drive_go(d);
    assert_false(node_dies);
    int looks = d->calls[CORE_DUE];
    drive_advance(d, 20 * PAWL_SECOND);
    assert_int_equal(d->held_count, 1);
    assert_int_equal(d->calls[CORE_DUE], looks);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(row_of(d, "a").fired, 1);
    end_all(d);
}

static bool closed;
static pawl_id another_id;

static void close_store(drive *d, core_call *call)
{
    (void)d;
    pawl_news *news = call->kind == CORE_RENEW ? &call->u.renewal.news : call->kind == CORE_CLAIM ? &call->u.claim.news : NULL;
    if (news && !call->status) news->closed = closed;
    for (int i = 0; closed && call->kind == CORE_CLAIM && i < call->u.claim.wants_count; i++)
        call->u.claim.wants[i].paused = true;
    for (int i = 0; closed && call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        if (call->u.batch.ops[i]->kind == PAWL_OP_STEP) call->u.batch.ops[i]->result = PAWL_OP_CLOSED;
}

/* Of a store that closes between look and step: nobody tries again before it is open. */
static void a_closed_store_is_not_looked_at(void **state)
{
    drive *d = begin(state);
    put(d, "a", HOURLY, PAWL_SECOND);
    d->hold = BIT(CORE_APPLY);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->held_count, 1);
    assert_int_equal(d->held[0]->u.batch.ops[0]->kind, PAWL_OP_STEP);
    d->meddle = close_store;
    d->hold = 0;
    closed = true;
    d->held[0]->u.batch.ops[0]->u.step->version = 1; /* so that it changes nothing */
    int looks = d->calls[CORE_DUE];
    d->hold = BIT(CORE_CLAIM) | BIT(CORE_RENEW);
    drive_answer_held(d, 0, true, PAWL_OK);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->calls[CORE_DUE], looks); /* the news tell when to look again */
    d->hold = 0;
    while (d->held_count > 0) drive_answer_held(d, 0, true, PAWL_OK);
    core_wake(d->core, drive_now(d));
    drive_go(d);
    assert_int_equal(d->events[PAWL_EVENT_STORE_CLOSED], 1);
    drive_advance(d, 10 * PAWL_SECOND);
    assert_int_equal(d->calls[CORE_DUE], looks);
    closed = false;
    core_wake(d->core, drive_now(d));
    drive_go(d);
    drive_advance(d, PAWL_SECOND);
    assert_true(d->calls[CORE_DUE] > looks);
    assert_int_equal(row_of(d, "a").fired, 1);
    assert_int_equal(d->runs_count, 1);
    end_all(d);
}

static void change_id(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++) {
        pawl_op *op = call->u.batch.ops[i];
        if (op->kind == PAWL_OP_STEP && op->u.step->tasks_count > 0) op->u.step->tasks[0].out_id = another_id;
    }
}

/* The id that was drawn was taken: what is told is the task's own. */
static void the_task_has_the_id_that_the_store_gave(void **state)
{
    drive *d = begin(state);
    another_id = 4711;
    d->meddle = change_id;
    put(d, "a", HOURLY, PAWL_SECOND);
    drive_advance(d, 2 * PAWL_SECOND);
    assert_int_equal(d->events[PAWL_EVENT_DISPATCHED], 1);
    assert_int_equal(d->last_event[PAWL_EVENT_DISPATCHED].id, another_id);
    end_all(d);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------- */

/* Whichever allocation fails while schedules fire: no occurrence is lost, none fires twice, none is off for it. */
static void any_allocation_may_fail(void **state)
{
    bool failed = true;
    void *inner = NULL;
    drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1}); /* for the teardown */
    for (long n = 1; failed; n++) {
        test_allocator memory;
        test_allocator_init(&memory);
        drive *d = begin_with(&inner, (core_config){.allocator = &memory.allocator});
        put(d, "a", "{\"every\":1,\"unit\":\"hour\",\"type\":\"t\",\"queue\":\"default\",\"missed\":\"all\"}", PAWL_SECOND);
        put(d, "b", "{\"plan\":{},\"type\":\"t\",\"queue\":\"default\",\"missed\":\"once\",\"not_dates\":[\"2026-05-01\"]}",
            PAWL_SECOND);
        put(d, "c", "{\"type\":7}", PAWL_SECOND);
        memory.fail_at = memory.calls + n;
        drive_advance(d, 2 * PAWL_SECOND);
        failed = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        drive_advance(d, 10 * PAWL_SECOND);
        for (int i = 0; i < 2; i++) {
            pawl_schedule_row row = row_of(d, i ? "b" : "a");
            assert_int_equal(row.off, PAWL_OFF_NOT);
            assert_int_equal(row.fired, 1);
            assert_int_equal(row.skipped, 0);
        }
        assert_int_equal(row_of(d, "c").off, PAWL_OFF_INVALID);
        assert_int_equal(d->runs_count, 2);
        end_all(d);
        core_free(d->core);
        d->core = NULL;
        assert_int_equal(memory.outstanding, 0);
        drive_finish(&inner);
        assert_true(n < 200);
    }
}

static test_allocator scarce;
static bool no_chunks; /* what is left of an arena's chunk is all there is; small blocks of others are to be had */
static int stage;      /* 2: nothing is left; 1: at the second try, as much as is said; 0: whatever */
static size_t room, left;

static void *small_alloc(void *ctx, size_t size) { return no_chunks && size >= 4096 ? NULL : test_alloc(ctx, size); }

static void end_memory(drive *d, core_call *call)
{
    (void)d;
    if (call->kind != CORE_DUE || call->status || call->u.due.count == 0 || stage == 0) return;
    no_chunks = true;
    if (stage-- == 1) {
        assert_non_null(pawl_arena_alloc(call->arena, room - left));
        return;
    }
    for (room = 0; pawl_arena_alloc(call->arena, 16);) room += 16;
}

/* The memory of a look ends at any point of what is decided: nothing is, and a second later everything. */
static void a_look_may_lack_memory_at_any_point(void **state)
{
    char name[16], spec[2000];
    test_allocator_init(&scarce);
    scarce.allocator.alloc = small_alloc;
    drive *d = begin_with(state, (core_config){.allocator = &scarce.allocator});
    d->meddle = end_memory;
    put(d, "a", HOURLY, 0);
    snprintf(spec, sizeof spec,
             "{\"every\":1,\"unit\":\"hour\",\"type\":\"t\",\"queue\":\"default\",\"not_dates\":[\"2026-05-01\"],"
             "\"content_type\":\"%01500d\"}",
             0); /* with a text that takes more than a step */
    put(d, "b", spec, 0);
    drive_advance(d, 30 * PAWL_SECOND);
    int failed = 0, looks = 350;
    for (int i = 1; i <= looks; i++) {
        end_all(d);
        snprintf(name, sizeof name, "bad%03d", i);
        put(d, name, "{\"type\":7}", PAWL_HOUR - 30 * PAWL_SECOND);
        stage = 2;
        left = (size_t)i * 48;
        drive_advance(d, PAWL_HOUR - 28 * PAWL_SECOND - PAWL_SECOND / 2);
        assert_int_equal(stage, 0);
        failed += row_of(d, "a").fired == i;
        assert_int_equal(row_of(d, "b").fired, row_of(d, "a").fired); /* all or nothing */
        no_chunks = false;
        drive_advance(d, 28 * PAWL_SECOND + PAWL_SECOND / 2);
        assert_int_equal(row_of(d, "a").fired, i + 1);
        assert_int_equal(row_of(d, "b").fired, i + 1);
        assert_int_equal(row_of(d, name).off, PAWL_OFF_INVALID);
    }
    end_all(d);
    assert_in_range(failed, 20, looks - 20);
    core_free(d->core);
    d->core = NULL;
    assert_int_equal(scarce.outstanding, 0);
}

static int load_zone(void **state)
{
    (void)state;
    return zone_load(alloc_default(), NULL, NULL, &utc, NULL);
}

static int free_zone(void **state)
{
    (void)state;
    zone_free(utc);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)
    const struct CMUnitTest tests[] = {
        TEST(what_makes_no_sense_is_off),
        TEST(numbers_that_make_no_sense),
        TEST(zones),
        TEST(one_look_at_a_time),
        TEST(whoever_drains_fires_nothing),
        TEST(whoever_has_no_node_fires_nothing),
        TEST(a_closed_store_is_not_looked_at),
        TEST(the_task_has_the_id_that_the_store_gave),
        TEST(any_allocation_may_fail),
        TEST(a_look_may_lack_memory_at_any_point),
    };
    return cmocka_run_group_tests(tests, load_zone, free_zone);
}
