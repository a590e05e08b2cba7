/* The MariaDB server that tests run on. */
#include "mysql/bed.h"
#include "store/mysql/mysql.h"
#include "store/mysql/url.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define URL_SIZE 1000

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

/* From the environment, or from the file that server.sh wrote. */
static const char *base_url(void)
{
    static char url[URL_SIZE];
    char path[1000];
    const char *given = getenv("PAWL_TEST_MYSQL"), *folder = getenv("PAWL_TEST_MYSQL_SERVER");
    if (given && given[0]) return given;
    if (url[0]) return url;
    if (!folder) return NULL;
    snprintf(path, sizeof path, "%s/url", folder);
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    if (!fgets(url, URL_SIZE, file)) url[0] = '\0';
    fclose(file);
    url[strcspn(url, "\n")] = '\0';
    return url[0] ? url : NULL;
}

bool my_bed_there(void) { return base_url() != NULL; }

/* The database takes the place of whatever stands between the host and the parameters. */
void my_bed_url(char *out, size_t size, const char *database)
{
    const char *base = base_url();
    if (!base) die("no server", "set PAWL_TEST_MYSQL, or run the tests with ctest");
    const char *host = strstr(base, "//") + 2, *query = strchr(base, '?');
    int len = (int)(host - base) + (int)strcspn(host, "/?");
    int n = snprintf(out, size, "%.*s/%s%s", len, base, database, query ? query : "");
    if (n < 0 || (size_t)n >= size) die("the URL is too long", base);
}

void my_bed_database(char *out, size_t size, const char *what)
{
    static int count;
    snprintf(out, size, "test_%s_%d_%d", what, (int)getpid(), ++count);
    MYSQL *my = my_bed_connect(NULL);
    my_bed_exec(my, "CREATE OR REPLACE DATABASE `%s`", out);
    mysql_close(my);
}

static void *bed_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *bed_resize(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    return realloc(ptr, size);
}

static void bed_release(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

MYSQL *my_bed_connect(const char *database)
{
    static const pawl_allocator allocator = {bed_alloc, bed_resize, bed_release, NULL};
    char url[URL_SIZE];
    my_url u;
    pawl_error err;
    my_bed_url(url, sizeof url, database ? database : "none");
    if (my_url_read(&u, &allocator, url, &err)) die("cannot read the URL", err.message);
    MYSQL *my = mysql_init(NULL);
    mysql_options(my, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(my, u.host, u.user, u.password, database, u.port, u.host ? NULL : u.socket, CLIENT_MULTI_STATEMENTS))
        die("cannot connect", mysql_error(my));
    my_url_done(&u);
    return my;
}

static void run(MYSQL *my, const char *fmt, va_list args)
{
    char sql[8000];
    vsnprintf(sql, sizeof sql, fmt, args);
    if (mysql_query(my, sql) != 0) die(sql, mysql_error(my));
}

void my_bed_exec(MYSQL *my, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    run(my, fmt, args);
    va_end(args);
    int more;
    do {
        mysql_free_result(mysql_store_result(my));
        more = mysql_next_result(my);
    } while (more == 0);
    if (more > 0) die(fmt, mysql_error(my));
}

int64_t my_bed_int(MYSQL *my, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    run(my, fmt, args);
    va_end(args);
    MYSQL_RES *res = mysql_store_result(my);
    MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
    int64_t n = row && row[0] ? strtoll(row[0], NULL, 10) : 0;
    mysql_free_result(res);
    return n;
}

void my_bed_empty(const char *database)
{
    MYSQL *my = my_bed_connect(database);
    if (my_bed_int(my, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '%s' AND TABLE_NAME = 'pawl_oplog'",
                   database))
        my_bed_exec(
            my,
            "DELETE FROM pawl_body; DELETE FROM pawl_live; DELETE FROM pawl_leased; DELETE FROM pawl_done; DELETE FROM pawl_failed;"
            "DELETE FROM pawl_attempt; DELETE FROM pawl_runlog; DELETE FROM pawl_audit; DELETE FROM pawl_key; DELETE FROM pawl_queue;"
            "DELETE FROM pawl_count; DELETE FROM pawl_born; DELETE FROM pawl_rollup; DELETE FROM pawl_node; DELETE FROM pawl_lane;"
            "DELETE FROM pawl_cancel; DELETE FROM pawl_oplog; DELETE FROM pawl_limit; DELETE FROM pawl_budget; DELETE FROM pawl_slotted;"
            "DELETE FROM pawl_bound; DELETE FROM pawl_spot; DELETE FROM pawl_place; DELETE FROM pawl_blocked; DELETE FROM pawl_shared;"
            "DELETE FROM pawl_turn; DELETE FROM pawl_schedule; DELETE FROM pawl_schedule_body; DELETE FROM pawl_occurrence;"
            "DELETE FROM pawl_edge; DELETE FROM pawl_wait; DELETE FROM pawl_batch; DELETE FROM pawl_member; DELETE FROM pawl_unsettled;"
            "DELETE FROM pawl_kept; DELETE FROM pawl_feed; UPDATE pawl_feed_head SET last = 0, broken = 0, until_us = 0;"
            "UPDATE pawl_meta SET value = 0 WHERE name = 'limits_version'; DELETE FROM pawl_meta WHERE name IN ('audit_cut_us', 'schedules', 'families');"
            "UPDATE pawl_gate SET mode = 0, at_us = 0, move = NULL, peer = NULL, who = NULL, position = NULL;"
            "UPDATE pawl_drawn SET last = 0; UPDATE pawl_number SET node = 0, floor_ms = 0, ceiling_ms = 0 WHERE ceiling_ms > 0 OR node > 0");
    mysql_close(my);
}

void my_bed_clear(const char *database)
{
    MYSQL *my = my_bed_connect(NULL);
    my_bed_exec(my, "CREATE OR REPLACE DATABASE `%s`", database);
    mysql_close(my);
}

void my_bed_drop(const char *database)
{
    MYSQL *my = my_bed_connect(NULL);
    my_bed_exec(my, "DROP DATABASE IF EXISTS `%s`", database);
    mysql_close(my);
}

static const pawl_clock *of_options(const pawl_clock *clock) { return clock; }

void my_bed_use_clock_of_options(void) { mysql_test_clock = of_options; }
