/* What a person should know about the server and the database: settings that break promises, old transactions, dead rows, days that are
 * missing, clocks.
 */
#include "base/alloc.h"
#include "store/postgres/read.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DUE_MAX 100000 /* of all types so many due tasks are looked at */
#define DEAD_WARN 200000
#define DEAD_ACT 2000000
#define OLD_WARN_S 300
#define OLD_ACT_S 3600
#define SKEW_WARN_US PAWL_SECOND
#define SKEW_ACT_US (10 * PAWL_SECOND)
#define FREEZE_WARN 1000000000
#define INDEX_ROW 64 /* bytes of one entry of the ready index, generously */

typedef struct examining {
    conn *c;
    pawl_findings *f;
} examining;

static PGresult *look(examining *e, sql_name which)
{
    pg_params_begin(&e->c->params);
    return pg_conn_call(e->c, which, CALL_READS);
}

/* What a role without the right to look at something leaves out. */
static void unseen(examining *e, const char *check)
{
    pawl_find(e->f, check, PAWL_VERDICT_WARN, "This could not be looked at: %s.", e->c->why);
    pawl_advise(e->f, "Grant the role pg_monitor to let the doctor see it.");
}

/* ---- the server ---------------------------------------------------------------------------------------------------------- */

static void examine_promises(examining *e, const PGresult *r)
{
    const char *fsync = pg_get_text(r, 0, 1), *commit = pg_get_text(r, 0, 2), *pages = pg_get_text(r, 0, 3),
               *roles = pg_get_text(r, 0, 8);
    bool bad = false;
    if (strcmp(fsync, "on") != 0) {
        bad = true;
        pawl_find(e->f, "durability", PAWL_VERDICT_ACT,
                  "fsync is off: a crash of the machine loses tasks that were acknowledged, and may "
                  "destroy the whole database.");
        pawl_advise(e->f, "Set fsync = on in postgresql.conf and reload.");
    }
    if (strcmp(pages, "on") != 0) {
        bad = true;
        pawl_find(e->f, "durability", PAWL_VERDICT_ACT, "full_page_writes is off: a crash may leave torn pages behind.");
        pawl_advise(e->f, "Set full_page_writes = on, unless the file system makes that impossible.");
    }
    if (strcmp(commit, "off") == 0 || roles) {
        bad = true;
        pawl_find(
            e->f, "durability", PAWL_VERDICT_WARN,
            "synchronous_commit is off%s%s. Pawl turns it on for its own commits; transactions of other programs that enqueue or "
            "complete tasks are lost when the server crashes right after them.",
            roles ? " for " : "", roles ? roles : "");
        pawl_advise(e->f, "Set synchronous_commit = on for those who enqueue tasks.");
    }
    if (!bad)
        pawl_find(e->f, "durability", PAWL_VERDICT_OK, "What was acknowledged is on disk: fsync and synchronous_commit are on.");
}

static void examine_connections(examining *e, const PGresult *r)
{
    int64_t most = pg_get_int(r, 0, 6), used = pg_get_int(r, 0, 7);
    bool close = used * 10 >= most * 9;
    pawl_find(e->f, "connections", close ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK,
              "%" PRId64 " of %" PRId64 " connections are in use.", used, most);
    if (close) pawl_advise(e->f, "Raise max_connections, or put a pooling proxy in between (pawl_proxy=on).");
}

static void examine_server(examining *e)
{
    PGresult *r = look(e, SQL_ex_server);
    if (!r) {
        unseen(e, "server");
        return;
    }
    bool replica = pg_get_truth(r, 0, 4), vacuum = strcmp(pg_get_text(r, 0, 5), "on") == 0;
    pawl_find(e->f, "server", replica || !vacuum ? PAWL_VERDICT_ACT : PAWL_VERDICT_OK, "PostgreSQL %s%s%s.", pg_get_text(r, 0, 0),
              replica ? ", a replica: nothing can be dispatched or run here" : "",
              vacuum ? "" : ", with autovacuum off: dead rows pile up until claims crawl");
    if (replica) pawl_advise(e->f, "Name the primary in the URL, or several hosts with target_session_attrs=read-write.");
    else if (!vacuum) pawl_advise(e->f, "Set autovacuum = on.");
    examine_promises(e, r);
    examine_connections(e, r);
    PQclear(r);
}

static void examine_shape(examining *e)
{
    PGresult *r = look(e, SQL_ex_shape);
    if (!r) {
        unseen(e, "shape");
        return;
    }
    bool same = pg_get_truth(r, 0, 0);
    pawl_find(e->f, "shape", same ? PAWL_VERDICT_OK : PAWL_VERDICT_ACT,
              same ? "Tables, indexes and functions are as the migrations left them."
                   : "Tables, indexes or functions are not as the migrations left them: somebody changed the schema by hand.");
    if (!same) pawl_advise(e->f, "Compare it with: pawl migrate sql --all");
    PQclear(r);
}

/* ---- what keeps dead rows ------------------------------------------------------------------------------------------------ */

static void examine_old(examining *e)
{
    PGresult *r = look(e, SQL_ex_old);
    if (!r) {
        unseen(e, "transactions");
        return;
    }
    int64_t seconds = pg_get_int(r, 0, 0), frozen = pg_get_int(r, 0, 1), xmin = pg_get_int(r, 0, 2), slots = pg_get_int(r, 0, 3);
    int64_t prepared = pg_get_int(r, 0, 4), prepared_s = pg_get_int(r, 0, 5);
    pawl_verdict verdict = seconds >= OLD_ACT_S ? PAWL_VERDICT_ACT : seconds >= OLD_WARN_S ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK;
    pawl_find(e->f, "transactions", verdict,
              "The oldest transaction has lasted for %" PRId64 " s; the oldest snapshot is %" PRId64
              " transactions back, that of replication "
              "slots %" PRId64 ".",
              seconds, xmin, slots);
    if (verdict != PAWL_VERDICT_OK)
        pawl_advise(e->f, "While it lasts no dead row can be removed anywhere: end it (see readers).");
    if (prepared > 0 && prepared_s >= OLD_WARN_S) {
        pawl_find(e->f, "transactions", PAWL_VERDICT_ACT,
                  "%" PRId64 " prepared transactions wait for their end, the oldest for %" PRId64 " s.", prepared, prepared_s);
        pawl_advise(e->f, "Look at pg_prepared_xacts, and commit or roll them back.");
    }
    if (frozen >= FREEZE_WARN) {
        pawl_find(e->f, "wraparound", PAWL_VERDICT_ACT,
                  "The database is %" PRId64 " transactions old; at 2,147,000,000 the server stops.", frozen);
        pawl_advise(e->f, "Run VACUUM FREEZE, and find out what kept autovacuum from it.");
    }
    PQclear(r);
}

static void examine_readers(examining *e)
{
    PGresult *r = look(e, SQL_ex_readers);
    if (!r) {
        unseen(e, "readers");
        return;
    }
    for (int i = 0; i < PQntuples(r); i++) {
        int64_t seconds = pg_get_int(r, i, 4);
        pawl_find(e->f, "readers", seconds >= OLD_ACT_S ? PAWL_VERDICT_ACT : PAWL_VERDICT_WARN,
                  "Process %s of %s (%s) is in a transaction since %" PRId64
                  " s (%s) and keeps dead rows of the last %s transactions.",
                  pg_get_text(r, i, 0), pg_get_text(r, i, 1), pg_get_text(r, i, 2), seconds,
                  pg_get_text(r, i, 3) ? pg_get_text(r, i, 3) : "?", pg_get_text(r, i, 5));
        pawl_advise(e->f, "End it in that program, or: SELECT pg_terminate_backend(%s)", pg_get_text(r, i, 0));
    }
    if (PQntuples(r) == 0) pawl_find(e->f, "readers", PAWL_VERDICT_OK, "No long transaction keeps dead rows.");
    PQclear(r);
    if (!(r = look(e, SQL_ex_slots))) return;
    for (int i = 0; i < PQntuples(r); i++) {
        pawl_find(e->f, "readers", PAWL_VERDICT_ACT, "Replication slot \"%s\" keeps dead rows of the last %s transactions.",
                  pg_get_text(r, i, 0), pg_get_text(r, i, 1));
        pawl_advise(e->f, "Bring its consumer back, or drop the slot.");
    }
    PQclear(r);
}

static void examine_dead_rows(examining *e)
{
    PGresult *r = look(e, SQL_ex_tables);
    if (!r) {
        unseen(e, "dead_rows");
        return;
    }
    for (int i = 0; i < PQntuples(r); i++) {
        int64_t live = pg_get_int(r, i, 1), dead = pg_get_int(r, i, 2);
        pawl_verdict verdict = dead >= DEAD_ACT                   ? PAWL_VERDICT_ACT
                               : dead >= DEAD_WARN && dead > live ? PAWL_VERDICT_WARN
                                                                  : PAWL_VERDICT_OK;
        pawl_find(e->f, "dead_rows", verdict, "%s has about %" PRId64 " rows and %" PRId64 " dead ones, in %" PRId64 " MiB.",
                  pg_get_text(r, i, 0), live, dead, pg_get_int(r, i, 4) >> 20);
        if (verdict != PAWL_VERDICT_OK)
            pawl_advise(e->f, "End old transactions first; then autovacuum removes them, or: VACUUM %s", pg_get_text(r, i, 0));
    }
    PQclear(r);
}

static void examine_index(examining *e)
{
    PGresult *r = look(e, SQL_ex_index);
    if (!r) {
        unseen(e, "claim_index");
        return;
    }
    int64_t bytes = pg_get_int(r, 0, 0), pending = pg_get_int(r, 0, 1);
    bool large = bytes > (INT64_C(64) << 20) && bytes > 8 * INDEX_ROW * (pending + 1000);
    pawl_find(e->f, "claim_index", large ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK,
              "The index that claims search has %" PRId64 " MiB for %" PRId64 " pending tasks.", bytes >> 20, pending);
    if (large) pawl_advise(e->f, "Once dead rows are gone: REINDEX INDEX CONCURRENTLY pawl_ready");
    PQclear(r);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

static void examine_notify(examining *e)
{
    PGresult *r = look(e, SQL_ex_notify);
    if (!r) {
        unseen(e, "notify_queue");
        return;
    }
    int64_t percent = pg_get_int(r, 0, 0);
    pawl_verdict verdict = percent >= 50 ? PAWL_VERDICT_ACT : percent >= 10 ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK;
    pawl_find(e->f, "notify_queue", verdict, "The server's queue of notifications is %" PRId64 " %% full.", percent);
    if (verdict != PAWL_VERDICT_OK)
        pawl_advise(e->f,
                    "A session listens inside a long transaction: end it. A full queue makes every commit that notifies fail.");
    PQclear(r);
}

static void examine_days(examining *e)
{
    PGresult *r = look(e, SQL_ex_days);
    if (!r) {
        unseen(e, "days");
        return;
    }
    int64_t missing = pg_get_int(r, 0, 0);
    pawl_find(e->f, "days", missing > 3 ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK,
              missing ? "Tables for %" PRId64 " of the next 7 days of history are missing."
                      : "Tables for the next days of history are there.",
              missing);
    if (missing > 3)
        pawl_advise(
            e->f, "A running node makes them, or the first finish that needs one, if the role may create tables in the schema.");
    PQclear(r);
}

static void examine_skew(examining *e)
{
    PGresult *r = look(e, SQL_ex_skew);
    if (!r) {
        unseen(e, "clocks");
        return;
    }
    int64_t skew_us = PQntuples(r) ? pg_get_int(r, 0, 1) : 0, size = skew_us < 0 ? -skew_us : skew_us;
    pawl_verdict verdict = size >= SKEW_ACT_US ? PAWL_VERDICT_ACT : size >= SKEW_WARN_US ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK;
    if (PQntuples(r) == 0) {
        pawl_find(e->f, "clocks", PAWL_VERDICT_OK,
                  "No node has renewed lately, so no clock could be compared with the server's.");
    } else {
        pawl_find(e->f, "clocks", verdict, "The clock of node \"%s\" is %" PRId64 " ms %s the server's, more than any other's.",
                  pg_get_text(r, 0, 0), size / 1000, skew_us < 0 ? "behind" : "ahead of");
        if (verdict != PAWL_VERDICT_OK)
            pawl_advise(e->f, "Let NTP set the clocks. Leases and due times follow the server's alone; times of runs "
                              "follow the node's.");
    }
    PQclear(r);
}

static void examine_types(examining *e, pg_store *s, pawl_arena *arena)
{
    reading reader = {.s = s, .c = e->c, .arena = arena};
    pawl_query nodes = {0};
    pg_nodes_read(&reader, &nodes);
    PGresult *r = nodes.nodes ? look(e, SQL_ex_types) : NULL;
    int found = 0;
    for (int i = 0; r && i < PQntuples(r); i++) {
        const char *queue = pg_get_text(r, i, 0), *type = pg_get_text(r, i, 1);
        if (pawl_type_known(&nodes, queue, type)) continue;
        found++;
        pawl_find_unknown_type(e->f, queue, type, pg_get_int(r, i, 2), DUE_MAX);
    }
    if (r && !found) pawl_find(e->f, "unknown_types", PAWL_VERDICT_OK, "No due task is of a type that nobody knows.");
    PQclear(r);
}

static void examine_database(pg_store *s, conn *c, pawl_arena *arena, pawl_findings *f)
{
    examining e = {.c = c, .f = f};
    examine_server(&e);
    examine_shape(&e);
    examine_old(&e);
    examine_readers(&e);
    examine_dead_rows(&e);
    examine_index(&e);
    examine_notify(&e);
    examine_days(&e);
    examine_skew(&e);
    examine_types(&e, s, arena);
}

void pg_examine(const pawl_store_options *o, pawl_store *store, pawl_findings *f)
{
    (void)o;
    if (!store) return; /* why it cannot be opened is a finding of the caller's */
    pg_store *s = store_of(store);
    pawl_arena *arena = arena_new(s->allocator, 0);
    if (!arena) return;
    conn *c = pg_store_take(s, READER);
    examine_database(s, c, arena, f);
    pg_store_give(s, c);
    arena_free(arena);
}
