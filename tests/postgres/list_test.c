/* Lists of one type, queue or tenant: they find everything, both ways and page by page, and what is rare without reading what lies around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bed.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "store/postgres/postgres.h"
#include "store/store.h"
#include <stdio.h>

#define TASKS 20000 /* some five stretches of the index, an hour of tasks */

static char schema[64], url[500];
static pawl_store *store;
static pawl_arena *arena;
static pawl_error err;

/* All of type t, every third with a tenant, in bodies of half a kilobyte; at both ends and in the middle one of a kind of its own, and a crowd. */
static void fill(PGconn *pg)
{
    bed_exec(pg, "INSERT INTO pawl_name (text) VALUES ('t'), ('q'), ('rare'), ('side'), ('small'), ('big'), ('crowd')");
    bed_exec(
        pg,
        "INSERT INTO pawl_body (id, created_us, type_id, queue_id, tenant_id, priority, born, level, audit, payload)"
        "SELECT (1000000 + i::int8 * 120) << 22, 1000, (SELECT id FROM pawl_name WHERE text = CASE WHEN i IN (5, %d, %d) THEN 'rare'"
        "       WHEN i BETWEEN 14000 AND 15000 THEN 'crowd' ELSE 't' END),"
        "   (SELECT id FROM pawl_name WHERE text = CASE WHEN i IN (5, %d, %d) THEN 'side' ELSE 'q' END),"
        "   (SELECT id FROM pawl_name WHERE text = CASE WHEN i = 5 THEN 'small' WHEN i %% 3 = 0 THEN 'big' END), 0, 2, 1, 1,"
        "   convert_to(repeat('x', 500), 'UTF8') FROM generate_series(1, %d) i",
        TASKS / 2, TASKS - 5, TASKS / 2, TASKS - 5, TASKS);
    bed_exec(pg,
             "INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures,"
             "interruptions, rescues, strikes, blocked) SELECT id, 1000, queue_id, type_id, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, false"
             " FROM pawl_body");
    bed_exec(pg, "SELECT brin_summarize_new_values('pawl_body_names')");
}

static int count_pages(pawl_filter filter)
{
    int found = 0;
    pawl_id last = 0;
    do {
        pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter};
        if (store_read(store, &query, arena, &err)) fail_msg("%s", err.message);
        for (size_t i = 0; i < query.page->count; i++) {
            pawl_id id = query.page->tasks[i]->id;
            assert_true(!last || (filter.oldest_first ? id > last : id < last));
            last = id;
        }
        found += (int)query.page->count;
        filter.cursor = query.page->next;
    } while (filter.cursor);
    return found;
}

static void found_both_ways(pawl_filter filter, int wanted)
{
    assert_int_equal(count_pages(filter), wanted);
    filter.oldest_first = true;
    assert_int_equal(count_pages(filter), wanted);
}

static void everything_is_found(void **state)
{
    (void)state;
    found_both_ways((pawl_filter){.type = "rare"}, 3);
    found_both_ways((pawl_filter){.type = "rare", .limit = 1}, 3);
    found_both_ways((pawl_filter){.queue = "side", .state = "pending"}, 3);
    found_both_ways((pawl_filter){.queue = "side", .type = "rare", .tenant = "small"}, 1);
    found_both_ways((pawl_filter){.type = "rare", .tenant = ""}, 1);
    found_both_ways((pawl_filter){.type = "rare", .state = "succeeded"}, 0);
    found_both_ways((pawl_filter){.type = "crowd", .queue = "side"}, 0);
    found_both_ways((pawl_filter){.type = "crowd", .limit = 300}, 1001);
    found_both_ways((pawl_filter){.tenant = "big", .limit = 1000}, TASKS / 3);
    found_both_ways((pawl_filter){.limit = 1000}, TASKS);
}

static int64_t pages_fetched(PGconn *pg) { return bed_int(pg, "SELECT pg_stat_get_xact_blocks_fetched('pawl_body'::regclass)"); }

/* Pages of the table that are read for it. */
static int64_t pages_of_leap(PGconn *pg, const char *leap, int wanted)
{
    bed_exec(pg, "BEGIN");
    int64_t before = pages_fetched(pg);
    assert_int_equal(bed_int(pg, "SELECT cardinality(o_ids) FROM pawl_leap(%s)", leap), wanted);
    int64_t pages = pages_fetched(pg) - before;
    bed_exec(pg, "ROLLBACK");
    return pages;
}

static void the_rare_are_found_without_the_rest(void **state)
{
    (void)state;
    PGconn *pg = bed_connect(schema);
    int64_t all = bed_int(pg, "SELECT pg_relation_size('pawl_body') / current_setting('block_size')::int8");
    assert_true(all > 1200);
    const char *const ends = "(SELECT min(id) FROM pawl_body), (SELECT max(id) FROM pawl_body)";
    char leap[300];
    snprintf(leap, sizeof leap, "9223372036854775807, false, 100000000, %s, 'rare', NULL, NULL", ends);
    assert_in_range(pages_of_leap(pg, leap, 3), 1, 3 * 256 + 10);
    snprintf(leap, sizeof leap, "0, true, 100000000, %s, NULL, 'side', 'small'", ends);
    assert_in_range(pages_of_leap(pg, leap, 1), 1, 256 + 10);
    PQfinish(pg);
}

static int set_up(void **state)
{
    (void)state;
    pawl_store_options options = {
        .url = url, .lease_us = 30 * PAWL_SECOND, .clock = clock_system(), .allocator = alloc_default()};
    arena = arena_new(alloc_default(), 0);
    if (store_open(&options, &store, &err)) return 1;
    PGconn *pg = bed_connect(schema);
    fill(pg);
    PQfinish(pg);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_close(store);
    arena_free(arena);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_found),
        cmocka_unit_test(the_rare_are_found_without_the_rest),
    };
    if (!bed_there(false)) return BED_SKIP;
    if (pawl_register_store(&store_postgres_type, &err)) return pawl_die(&err);
    bed_schema(schema, sizeof schema, "list");
    bed_url(url, sizeof url, schema, false);
    int failed = cmocka_run_group_tests_name("list", tests, set_up, tear_down);
    bed_drop(schema);
    return failed;
}
