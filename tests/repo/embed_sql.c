/* What cmake/embed_sql.cmake makes of the files in sql/: nothing lost, nothing added, comments gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fixture_sql.h"

static void plain_statements_lose_their_comments(void **state)
{
    (void)state;
    assert_string_equal(sql_plain, "SELECT a, b\nFROM t\nWHERE a = ?1;\n");
}

static void quoted_text_is_untouched(void **state)
{
    (void)state;
    assert_string_equal(
        sql_quoted, "SELECT 'it''s -- no comment; [not] /* one */', \"a;b--c\", `d/*e`, [f;g], 'back\\slash\\', '\"double\"'\n"
                    "FROM t WHERE x = 5 - -1 AND y = 6/2\n"
                    " AND z = 1;\n");
}

static void strings_may_span_lines(void **state)
{
    (void)state;
    assert_string_equal(sql_off, "INSERT INTO t VALUES('a string\n\n  of three lines; with \\n in it  \n', ?, ?"
                                 "?1, ?"
                                 "?"
                                 "?);\n");
}

static void a_name_may_hold_several_statements(void **state)
{
    (void)state;
    assert_string_equal(sql_two_statements, "DELETE FROM a; DELETE FROM b;\n\tSELECT x->>'$.list[0]';\n");
}

static void migrations_come_in_order(void **state)
{
    (void)state;
    assert_int_equal(fixture_migrations_count, 3);
    assert_int_equal(fixture_migrations[0].version, 1);
    assert_string_equal(fixture_migrations[0].name, "first");
    assert_string_equal(fixture_migrations[0].text, "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT DEFAULT ';') STRICT;\n"
                                                    "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END;\n");
    assert_int_equal(fixture_migrations[1].version, 2);
    assert_string_equal(fixture_migrations[1].name, "second_step");
    assert_string_equal(fixture_migrations[1].text, "ALTER TABLE t ADD COLUMN c TEXT DEFAULT '[]';\n");
    assert_string_equal(fixture_migrations[2].text, "");
}

static void functions_are_one_text(void **state)
{
    (void)state;
    assert_string_equal(fixture_functions, "CREATE OR REPLACE FUNCTION one() RETURNS int AS $$ SELECT 1 $$;\n"
                                           "CREATE OR REPLACE FUNCTION two() RETURNS int AS $$ SELECT 2 $$;\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_statements_lose_their_comments),
        cmocka_unit_test(quoted_text_is_untouched),
        cmocka_unit_test(strings_may_span_lines),
        cmocka_unit_test(a_name_may_hold_several_statements),
        cmocka_unit_test(migrations_come_in_order),
        cmocka_unit_test(functions_are_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
