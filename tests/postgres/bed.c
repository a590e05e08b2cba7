/* The server that tests run on. */
#include "bed.h"
#include "store/postgres/postgres.h"
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
static const char *base_url(bool proxy)
{
    static char urls[2][URL_SIZE];
    char path[1000];
    const char *given = getenv(proxy ? "PAWL_TEST_PROXY" : "PAWL_TEST_POSTGRES"), *folder = getenv("PAWL_TEST_SERVER");
    if (given && given[0]) return given;
    if (urls[proxy][0]) return urls[proxy];
    if (!folder) return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, proxy ? "proxy_url" : "url");
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    if (!fgets(urls[proxy], URL_SIZE, file)) urls[proxy][0] = '\0';
    fclose(file);
    urls[proxy][strcspn(urls[proxy], "\n")] = '\0';
    return urls[proxy][0] ? urls[proxy] : NULL;
}

bool bed_there(bool proxy) { return base_url(proxy) != NULL; }

void bed_url(char *out, size_t size, const char *schema, bool proxy)
{
    const char *base = base_url(proxy);
    if (!base) die("no server", "set PAWL_TEST_POSTGRES, or run the tests with ctest");
    int n = snprintf(out, size, "%s%cpawl_schema=%s", base, strchr(base, '?') ? '&' : '?', schema);
    if (n < 0 || (size_t)n >= size) die("the URL is too long", base);
}

void bed_schema(char *out, size_t size, const char *what)
{
    static int count;
    snprintf(out, size, "test_%s_%d_%d", what, (int)getpid(), ++count);
}

PGconn *bed_connect(const char *schema)
{
    const char *base = base_url(false);
    PGconn *pg = PQconnectdb(base ? base : "");
    if (PQstatus(pg) != CONNECTION_OK) die("cannot connect", PQerrorMessage(pg));
    PQclear(PQexec(pg, "SET client_min_messages = warning"));
    if (schema) bed_exec(pg, "SET search_path = \"%s\", pg_catalog, pg_temp", schema);
    return pg;
}

PGconn *bed_connect_database(const char *name)
{
    static const char *const keys[] = {"dbname", "dbname", NULL};
    const char *const values[] = {base_url(false), name, NULL};
    PGconn *pg = PQconnectdbParams(keys, values, 1);
    if (PQstatus(pg) != CONNECTION_OK) die("cannot connect", PQerrorMessage(pg));
    return pg;
}

static PGresult *run(PGconn *pg, const char *fmt, va_list args)
{
    char sql[8000];
    vsnprintf(sql, sizeof sql, fmt, args);
    PGresult *r = PQexec(pg, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK) die(sql, PQerrorMessage(pg));
    return r;
}

void bed_exec(PGconn *pg, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    PQclear(run(pg, fmt, args));
    va_end(args);
}

int64_t bed_int(PGconn *pg, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    PGresult *r = run(pg, fmt, args);
    va_end(args);
    int64_t n = PQntuples(r) ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : 0;
    PQclear(r);
    return n;
}

/* On a connection that stays, by a function of its own, so that nothing is planned twice. */
void bed_empty(const char *schema)
{
    static PGconn *pg;
    static char known[64];
    if (!pg) pg = bed_connect(NULL);
    if (strcmp(known, schema) != 0) {
        if (!bed_int(pg, "SELECT count(*) FROM pg_class WHERE oid = to_regclass('\"%s\".pawl_oplog')", schema)) return;
        snprintf(known, sizeof known, "%s", schema);
        bed_exec(pg, "SET search_path = \"%s\"", schema);
        bed_exec(
            pg,
            "CREATE OR REPLACE FUNCTION pg_temp.pawl_empty() RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
            "DELETE FROM pawl_body; DELETE FROM pawl_live; DELETE FROM pawl_leased; DELETE FROM pawl_done; DELETE FROM pawl_failed;"
            "DELETE FROM pawl_attempt; DELETE FROM pawl_runlog; DELETE FROM pawl_audit; DELETE FROM pawl_key; DELETE FROM pawl_queue;"
            "DELETE FROM pawl_count; DELETE FROM pawl_born; DELETE FROM pawl_rollup; DELETE FROM pawl_node; DELETE FROM pawl_lane;"
            "DELETE FROM pawl_oplog; DELETE FROM pawl_meta WHERE key = 'audit_cut_us'; PERFORM setval('pawl_drawn', 1);"
            "UPDATE pawl_number SET node = 0, floor_ms = 0, ceiling_ms = 0 WHERE ceiling_ms > 0 OR node > 0;"
            "DELETE FROM pawl_limit; DELETE FROM pawl_budget; DELETE FROM pawl_slotted; DELETE FROM pawl_feed;"
            "UPDATE pawl_feed_head SET last = 0, broken = 0, until_us = 0;"
            "DELETE FROM pawl_bound; DELETE FROM pawl_spot; DELETE FROM pawl_place; DELETE FROM pawl_blocked; DELETE FROM pawl_shared;"
            "DELETE FROM pawl_round; DELETE FROM pawl_freed; UPDATE pawl_gate SET bounds = 0;"
            "DELETE FROM pawl_schedule; DELETE FROM pawl_schedule_state; DELETE FROM pawl_occurrence; DELETE FROM pawl_ended;"
            "DELETE FROM pawl_edge; DELETE FROM pawl_wait; DELETE FROM pawl_batch; DELETE FROM pawl_batch_part; DELETE FROM pawl_member;"
            "DELETE FROM pawl_unsettled; DELETE FROM pawl_kept; UPDATE pawl_gate SET schedules = 0, families = 0;"
            "UPDATE pawl_gate SET mode = 0, move = NULL, peer = NULL, who = NULL, position = NULL, limits = 0; END $$");
    }
    bed_exec(pg, "SELECT pg_temp.pawl_empty()");
}

void bed_drop(const char *schema)
{
    PGconn *pg = bed_connect(NULL);
    bed_exec(pg, "DROP SCHEMA IF EXISTS \"%s\" CASCADE", schema);
    PQfinish(pg);
}

static const pawl_clock *of_options(const pawl_clock *clock) { return clock; }

void bed_use_clock_of_options(void) { postgres_test_clock = of_options; }
