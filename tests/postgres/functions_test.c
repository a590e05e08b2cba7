/* The functions of the schema: changed ones reach stores that have been there before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bed.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/siphash.h"
#include "postgres_sql.h"
#include "store/postgres/postgres.h"
#include "store/store.h"
#include <inttypes.h>

/* The newest schema, and the functions it has. A store gets functions only with a schema newer than its own: so whoever changes one adds a
 * migration (which may hold nothing but a comment), and writes here what this test says. */
static const struct {
    int schema;
    uint64_t hash;
} newest = {32, 0xa7e0f1cd08f0b3a1};

static char schema[64], url[500];

static void functions_change_with_the_schema(void **state)
{
    (void)state;
    uint64_t hash = siphash(postgres_functions, sizeof postgres_functions - 1, 0, 0);
    if (newest.schema == postgres_migrations_count && newest.hash == hash) return;
    print_error("schema %d has functions %#" PRIx64 ", known is schema %d with %#" PRIx64 "\n", postgres_migrations_count, hash,
                newest.schema, newest.hash);
    fail();
}

static int64_t fingerprint(PGconn *pg)
{
    return bed_int(pg, "SELECT ('x' || left(md5(string_agg(p.proname || p.prosrc || coalesce(p.proconfig::text, '') || "
                       "coalesce(p.proacl::text, ''), '|' ORDER BY p.oid::regprocedure::text)), 15))::bit(60)::int8 "
                       "FROM pg_proc p WHERE p.pronamespace = current_schema::regnamespace");
}

static void they_come_over_older_ones(void **state)
{
    (void)state;
    pawl_store *store;
    pawl_error err;
    pawl_store_options options = {
        .url = url, .lease_us = 30 * PAWL_SECOND, .clock = clock_system(), .allocator = alloc_default()};
    assert_int_equal(store_open(&options, &store, &err), PAWL_OK);
    store_close(store);
    PGconn *pg = bed_connect(schema);
    int64_t before = fingerprint(pg);
    bed_exec(pg, "CREATE OR REPLACE FUNCTION pawl_later(a int8, b int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS 'SELECT 0::int8'");
    assert_int_not_equal(fingerprint(pg), before);
    PQclear(PQexec(pg, "SET check_function_bodies = off"));
    PGresult *r = PQexec(pg, postgres_functions);
    if (PQresultStatus(r) != PGRES_COMMAND_OK) fail_msg("%s", PQresultErrorMessage(r));
    PQclear(r);
    assert_int_equal(fingerprint(pg), before);
    PQfinish(pg);
}

int main(void)
{
    pawl_error err;
    if (!bed_there(false)) return BED_SKIP;
    if (pawl_register_store(&store_postgres_type, &err)) return pawl_die(&err);
    bed_schema(schema, sizeof schema, "functions");
    bed_url(url, sizeof url, schema, false);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_change_with_the_schema),
        cmocka_unit_test(they_come_over_older_ones),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bed_drop(schema);
    return failed;
}
