/* Parts that can be looked at alone: histograms, receipts, the names cache; lists that are cut; rows that are damaged. */
#include "support.h"
#include <stdio.h>

/* ---- histograms ---------------------------------------------------------------------------------------------------------- */

static bool within(int64_t value, int64_t wanted) { return value * 3 >= wanted * 2 && value * 2 <= wanted * 3; }

static void percentiles_are_right_within_a_factor(void **state)
{
    (void)state;
    for (int64_t us = 1; us < PAWL_DAY; us = us * 9 / 7 + 1) {
        histogram h = {0};
        histogram_add(&h, us);
        assert_true(within(histogram_percentile(&h, 50), us));
        assert_true(within(histogram_percentile(&h, 99), us));
    }
    histogram h = {0};
    assert_int_equal(histogram_percentile(&h, 50), 0);
    for (int i = 0; i < 98; i++) histogram_add(&h, 1000);
    histogram_add(&h, 0);
    histogram_add(&h, -5); /* a clock went back */
    histogram_add(&h, INT64_MAX);
    assert_true(within(histogram_percentile(&h, 50), 1000));
    assert_true(histogram_percentile(&h, 100) > PAWL_DAY);
}

static void histograms_survive_storage(void **state)
{
    (void)state;
    histogram a = {0}, b = {0};
    char bytes[HISTOGRAM_BYTES];
    for (int64_t us = 1; us > 0 && us < INT64_MAX / 3; us *= 3) histogram_add(&a, us);
    for (int i = 0; i < 300; i++) histogram_add(&a, 5000);
    size_t n = histogram_write(&a, bytes);
    histogram_merge(&b, (pawl_bytes){bytes, n});
    assert_memory_equal(&a, &b, sizeof a);
    histogram_merge(&b, (pawl_bytes){bytes, n});
    assert_int_equal(b.total, 2 * a.total);
    for (size_t cut = 0; cut < n; cut++) { /* bytes that make no sense do no harm */
        histogram c = {0};
        histogram_merge(&c, (pawl_bytes){bytes, cut});
        assert_true(c.total <= a.total);
    }
    static const char wild[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x05\x7f\x7f";
    histogram d = {0};
    histogram_merge(&d, (pawl_bytes){wild, sizeof wild - 1});
}

/* ---- receipts ------------------------------------------------------------------------------------------------------------ */

static void receipts_survive_storage(void **state)
{
    place *p = *state;
    buf out;
    buf_init(&out, alloc_default(), 0);
    out.limit = 1 << 20;
    pawl_op *spawns = pawl_arena_alloc(p->arena, 2 * sizeof *spawns);
    spawns[0] = *insert_op(p, NULL);
    spawns[1] = *insert_op(p, NULL);
    pawl_op moved = {.kind = PAWL_OP_RESERVE, .id = 6, .u.reserve = {.along = 300, .along_own = 2}};
    pawl_op *ops[] = {insert_op(p, NULL), insert_op(p, "k"), finish_op(p, 5, 1), insert_op(p, NULL), insert_op(p, NULL), &moved};
    enum { COUNT = sizeof ops / sizeof *ops };
    ops[0]->result = PAWL_OP_DONE, ops[0]->out_id = ops[0]->id, ops[0]->out_fence = 1, ops[0]->out_run_at_us = p->clock.now_us;
    ops[0]->out_state = PAWL_LEASED;
    ops[1]->result = PAWL_OP_UPDATED, ops[1]->out_id = 77, ops[1]->out_run_at_us = p->clock.now_us - PAWL_DAY;
    ops[2]->result = PAWL_OP_DONE, ops[2]->u.finish.spawns = spawns, ops[2]->u.finish.spawns_count = 2;
    spawns[0].result = PAWL_OP_DONE, spawns[0].out_id = spawns[0].id, spawns[0].out_run_at_us = INT64_MAX;
    spawns[1].result = PAWL_OP_EXISTING, spawns[1].out_id = 99, spawns[1].out_state = PAWL_LEASED;
    ops[3]->result = PAWL_OP_COLLISION;
    ops[4]->result = PAWL_OP_REFUSED;
    moved.result = PAWL_OP_MOVED, moved.out_run_at_us = p->clock.now_us + PAWL_HOUR, moved.out_state = PAWL_PENDING;
    pawl_op before[COUNT], spawns_before[2] = {spawns[0], spawns[1]};
    for (int i = 0; i < COUNT; i++) before[i] = *ops[i];
    pawl_batch batch = {.ops = ops, .count = COUNT, .store_now_us = p->clock.now_us};
    assert_true(receipt_write(&out, &batch));
    for (int i = 0; i < COUNT; i++)
        ops[i]->result = 0, ops[i]->out_id = ops[i]->out_fence = ops[i]->out_run_at_us = 0, ops[i]->out_state = 0;
    spawns[0].result = spawns[1].result = PAWL_OP_NONE;
    moved.u.reserve.along = moved.u.reserve.along_own = 0;
    batch.store_now_us = 0;
    assert_true(receipt_read((pawl_bytes){out.data, out.len}, &batch));
    assert_int_equal(batch.store_now_us, p->clock.now_us);
    for (int i = 0; i < COUNT; i++) assert_memory_equal(ops[i], &before[i], sizeof before[i]);
    assert_memory_equal(spawns, spawns_before, sizeof spawns_before);
    for (size_t cut = 0; cut < out.len; cut++) assert_false(receipt_read((pawl_bytes){out.data, cut}, &batch));
    batch.count = COUNT - 1;
    assert_false(receipt_read((pawl_bytes){out.data, out.len}, &batch)); /* another batch's */
    buf_done(&out);
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

static void more_names_than_the_cache_holds(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    for (int round = 0; round < 10; round++) {
        pawl_op *ops[1000];
        for (int i = 0; i < 1000; i++) {
            char *type = pawl_arena_alloc(p->arena, 40);
            snprintf(type, 40, "type-%d-%d", round, i);
            ops[i] = insert_op(p, NULL);
            ops[i]->u.insert.body->type = type;
        }
        pawl_batch batch = {.ops = ops, .count = 1000};
        assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
        assert_true(inside(s)->writer.names.count <= 9300);
    }
    pawl_filter filter = {.type = "type-0-999", .limit = 10};
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter};
    assert_ok(p, store_read(s, &query, p->arena, &p->err));
    assert_int_equal(query.page->count, 1);
    assert_string_equal(query.page->tasks[0]->type, "type-0-999");
    store_close(s);
}

/* ---- lists --------------------------------------------------------------------------------------------------------------- */

/* A list that has no time is cut, says so, and goes on from where it was. */
static void a_list_that_is_cut_goes_on(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    for (int round = 0; round < 3; round++) {
        pawl_op *ops[1000];
        for (int i = 0; i < 1000; i++) ops[i] = insert_op(p, NULL);
        ops[round]->u.insert.body->type = "rare";
        pawl_batch batch = {.ops = ops, .count = 1000};
        assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
    }
    const char *cursor = NULL;
    int found = 0, pages = 0, cut = 0;
    do {
        pawl_filter filter = {.type = "rare", .limit = 2, .cursor = cursor};
        pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter, .deadline_us = 1};
        assert_ok(p, store_read(s, &query, p->arena, &p->err));
        found += (int)query.page->count;
        cut += query.page->partial;
        cursor = query.page->next;
        assert_true(++pages < 5000);
    } while (cursor);
    assert_int_equal(found, 3);
    assert_true(cut > 0);
    store_close(s);
}

static void lists_by_key_find_all_of_its_tasks(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s), number = 0;
    pawl_id ids[5];
    for (int i = 0; i < 5; i++) {
        pawl_op *op = insert_op(p, "k");
        op->u.insert.ask_lease = true;
        assert_ok(p, apply_one(p, s, node, ++number, op));
        assert_int_equal(op->result, i ? PAWL_OP_REPLACED : PAWL_OP_DONE);
        ids[i] = op->out_id;
        assert_ok(p, apply_one(p, s, node, ++number, finish_op(p, op->out_id, 1)));
        insert_one(p, s);
    }
    const char *cursor = NULL;
    int at = 0;
    do {
        pawl_filter filter = {.key = "k", .state = "succeeded", .limit = 2, .cursor = cursor, .oldest_first = true};
        pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter};
        assert_ok(p, store_read(s, &query, p->arena, &p->err));
        for (size_t i = 0; i < query.page->count; i++) assert_int_equal(query.page->tasks[i]->id, ids[at++]);
        cursor = query.page->next;
    } while (cursor);
    assert_int_equal(at, 5);
    store_close(s);
}

/* ---- settings ------------------------------------------------------------------------------------------------------------ */

static void settings_say_what_durability_rests_on(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_query query = {.kind = PAWL_QUERY_SETTINGS};
    assert_ok(p, store_read(s, &query, p->arena, &p->err));
    assert_non_null(strstr(query.text, "journal_mode=wal"));
    assert_non_null(strstr(query.text, "synchronous=full"));
    int64_t value = -1;
    conn *c = &inside(s)->writer;
    assert_true(conn_pragma_int(c, "PRAGMA synchronous", &value));
    assert_int_equal(value, 2);
    assert_true(conn_pragma_int(c, "PRAGMA secure_delete", &value));
    assert_int_equal(value, 0);
    assert_true(conn_pragma_int(c, "PRAGMA wal_autocheckpoint", &value));
    assert_int_equal(value, 0);
    int kept = 0;
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1, &kept);
    assert_int_equal(kept, 1);
    store_close(s);
}

/* ---- damage -------------------------------------------------------------------------------------------------------------- */

/* Text where a number belongs sorts behind all numbers: a walk over the ready index would never get past it. */
static void a_damaged_index_is_told_and_not_walked_for_ever(void **state)
{
    static const char *const damages[] = {"UPDATE pawl_live SET type_id = 'x'", "UPDATE pawl_live SET run_at_us = 'x'",
                                          "UPDATE pawl_live SET priority = 'x'"};
    place *p = *state;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        pawl_store *store = open_store(p);
        int64_t node = join(p, store);
        insert_one(p, store);
        sqlite3 *db = host_open(p);
        host_exec(db, damages[i]);
        pawl_want want = {.queue = "q", .free = 1, .any_type = true};
        pawl_claimed task;
        pawl_claim claim = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &task};
        pawl_query stats = {.kind = PAWL_QUERY_STATS, .window_us = PAWL_HOUR};
        assert_int_equal(store->type->claim(store, &claim, p->arena, &p->err), PAWL_CORRUPT);
        assert_int_equal(store->type->read(store, &stats, p->arena, &p->err), PAWL_CORRUPT);
        host_exec(db, "DELETE FROM pawl_live");
        sqlite3_close(db);
        store_close(store);
    }
}

/* A task whose names are lost, and a line of a log that nobody wrote, can still be shown. */
static void what_is_damaged_can_be_shown(void **state)
{
    place *p = *state;
    pawl_store *store = open_store(p);
    pawl_id id = insert_one(p, store);
    sqlite3 *db = host_open(p);
    host_exec(db, "UPDATE pawl_body SET type_id = 999, queue_id = 999");
    char log[320];
    snprintf(log, sizeof log,
             "INSERT INTO pawl_attempt VALUES (%lld, 1, 99, 1, 2, 1, 0, 1, 2, NULL, NULL);"
             "INSERT INTO pawl_runlog VALUES (1, %lld, 1, 1, '5 9 odd' || char(10) || '7' || char(10))",
             (long long)id, (long long)id);
    host_exec(db, log);
    pawl_query get = {.kind = PAWL_QUERY_GET, .id = id}, trail = {.kind = PAWL_QUERY_TRAIL, .id = id};
    assert_ok(p, store->type->read(store, &get, p->arena, &p->err));
    assert_string_equal(get.info->type, "?");
    assert_string_equal(get.info->queue, "?");
    assert_ok(p, store->type->read(store, &trail, p->arena, &p->err));
    assert_int_equal(trail.trail->lines_count, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(trail.trail->lines[i].level, PAWL_INFO);
    assert_string_equal(trail.trail->lines[0].text, "odd");
    assert_string_equal(get.info->attempts[0].outcome, "");
    sqlite3_close(db);
    store_close(store);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_right_within_a_factor),
        cmocka_unit_test(histograms_survive_storage),
        TEST(receipts_survive_storage),
        TEST(more_names_than_the_cache_holds),
        TEST(a_list_that_is_cut_goes_on),
        TEST(lists_by_key_find_all_of_its_tasks),
        TEST(settings_say_what_durability_rests_on),
        TEST(a_damaged_index_is_told_and_not_walked_for_ever),
        TEST(what_is_damaged_can_be_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
