/* What a person should know about the server and the database: settings that break promises, old transactions, what purge has not removed
 * yet, deadlocks, clocks.
 */
#include "base/alloc.h"
#include "store/mysql/read.h"
#include <inttypes.h>
#include <stdio.h>

#define DUE_MAX 100000 /* of all types so many due tasks are looked at */
#define OLD_ACT_S 3600
#define SKEW_WARN_US PAWL_SECOND
#define SKEW_ACT_US (10 * PAWL_SECOND)
#define HISTORY_WARN 200000
#define HISTORY_ACT 5000000
#define DEADLOCKS_PER_HOUR 60
#define PACKET_LEAST (4 << 20)

typedef struct examining {
    conn *c;
    pawl_findings *f;
} examining;

static const answer *look(examining *e, sql_name which)
{
    my_script(e->c);
    my_add(e->c, which);
    return my_send(e->c, CALL_READS) ? my_answer(e->c, which) : NULL;
}

/* What a user without the right to look at something leaves out. */
static void unseen(examining *e, const char *check)
{
    pawl_find(e->f, check, PAWL_VERDICT_WARN, "This could not be looked at: %s.", e->c->why);
    pawl_advise(e->f, "Grant the user PROCESS to let the doctor see it.");
}

/* ---- the server ---------------------------------------------------------------------------------------------------------- */

enum { /* columns of ex_server */
       VERSION,
       FLUSH,
       BINLOG,
       SYNC_BINLOG,
       READ_ONLY,
       DOUBLEWRITE,
       MOST_CONNECTIONS,
       CONNECTIONS,
       ISOLATION,
       SQL_MODE,
       BINLOG_FORMAT,
       ROLLBACK_ON_TIMEOUT,
       WSREP,
       DEADLOCKS,
       UPTIME,
       HISTORY,
       PACKET,
       LOCK_WAIT,
       FLUSH_METHOD
};

static bool is_on(const answer *a, int column)
{
    const char *text = get_text(a, 0, column);
    return text && (strcmp(text, "1") == 0 || strcasecmp(text, "ON") == 0);
}

static void examine_promises(examining *e, const answer *a)
{
    bool bad = false;
    if (get_int(a, 0, FLUSH) != 1) {
        bad = true;
        pawl_find(e->f, "durability", PAWL_VERDICT_ACT,
                  "innodb_flush_log_at_trx_commit is %s: a crash loses tasks that were acknowledged in the last second.",
                  get_text(a, 0, FLUSH));
        pawl_advise(e->f, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration.");
    }
    if (is_on(a, BINLOG) && get_int(a, 0, SYNC_BINLOG) != 1) {
        bad = true;
        pawl_find(e->f, "durability", PAWL_VERDICT_WARN,
                  "The binary log is on and sync_binlog is %s: after a crash replicas, and restores from it, may lack tasks.",
                  get_text(a, 0, SYNC_BINLOG));
        pawl_advise(e->f, "SET GLOBAL sync_binlog = 1, and in the server's configuration.");
    }
    if (!is_on(a, DOUBLEWRITE)) {
        bad = true;
        pawl_find(e->f, "durability", PAWL_VERDICT_WARN, "innodb_doublewrite is off: a crash may leave torn pages behind.");
        pawl_advise(e->f, "Turn it on, unless the file system writes whole pages or none.");
    }
    if (!bad) pawl_find(e->f, "durability", PAWL_VERDICT_OK, "What was acknowledged is on disk: every commit is flushed.");
}

static void examine_sessions(examining *e, const answer *a)
{
    pawl_find(e->f, "isolation", PAWL_VERDICT_OK,
              "The server's default is %s; pawl's own sessions are READ COMMITTED. SQL mode: %s.", get_text(a, 0, ISOLATION),
              get_text(a, 0, SQL_MODE)[0] ? get_text(a, 0, SQL_MODE) : "none");
    if (is_on(a, BINLOG) && strcasecmp(get_text(a, 0, BINLOG_FORMAT), "STATEMENT") == 0) {
        pawl_find(
            e->f, "isolation", PAWL_VERDICT_ACT,
            "The binary log is on with binlog_format=STATEMENT, which READ COMMITTED cannot write to: nothing can be stored.");
        pawl_advise(e->f, "SET GLOBAL binlog_format = 'MIXED', or ROW, and in the server's configuration.");
    }
}

static void examine_galera(examining *e, const answer *a)
{
    if (!is_on(a, WSREP)) return;
    pawl_find(
        e->f, "galera", PAWL_VERDICT_WARN,
        "The server is a node of a Galera cluster. Row locks are its own alone: commits on another node may end transactions here, "
        "which pawl tries again, and session locks are not seen there.");
    pawl_advise(e->f, "Let all of pawl's URLs name one and the same node of the cluster.");
}

static void examine_deadlocks(examining *e, const answer *a)
{
    int64_t deadlocks = get_int(a, 0, DEADLOCKS), hours = get_int(a, 0, UPTIME) / 3600 + 1;
    bool many = deadlocks > DEADLOCKS_PER_HOUR * hours;
    pawl_find(e->f, "deadlocks", many ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK,
              "%" PRId64 " deadlocks on the whole server in %" PRId64 " hours; pawl's own transactions are tried again.",
              deadlocks, hours);
    if (many) pawl_advise(e->f, "SHOW ENGINE INNODB STATUS shows the last one, and whose transactions met.");
}

static void examine_history(examining *e, const answer *a)
{
    int64_t length = get_int(a, 0, HISTORY);
    pawl_verdict verdict = length >= HISTORY_ACT    ? PAWL_VERDICT_ACT
                           : length >= HISTORY_WARN ? PAWL_VERDICT_WARN
                                                    : PAWL_VERDICT_OK;
    pawl_find(e->f, "history_list", verdict, "%" PRId64 " old versions of rows wait for being purged.", length);
    if (verdict != PAWL_VERDICT_OK)
        pawl_advise(
            e->f,
            "End old transactions (see transactions); then purge removes them. Raise innodb_purge_threads if it cannot keep up.");
}

static void examine_limits(examining *e, const answer *a)
{
    int64_t most = get_int(a, 0, MOST_CONNECTIONS), used = get_int(a, 0, CONNECTIONS), packet = get_int(a, 0, PACKET);
    bool close = used * 10 >= most * 9;
    pawl_find(e->f, "connections", close ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK,
              "%" PRId64 " of %" PRId64 " connections are in use.", used, most);
    if (close) pawl_advise(e->f, "Raise max_connections.");
    pawl_find(e->f, "packets", packet < PACKET_LEAST ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK,
              "The server takes messages of %" PRId64 " MiB; a task may have a little less than half of that.", packet >> 20);
    if (packet < PACKET_LEAST) pawl_advise(e->f, "Set max_allowed_packet to 16M or more.");
}

static void examine_server(examining *e)
{
    const answer *a = look(e, SQL_ex_server);
    if (!a) {
        unseen(e, "server");
        return;
    }
    bool replica = is_on(a, READ_ONLY);
    pawl_find(e->f, "server", replica ? PAWL_VERDICT_ACT : PAWL_VERDICT_OK, "MariaDB %s%s.", get_text(a, 0, VERSION),
              replica ? ", read-only: nothing can be dispatched or run here" : "");
    if (replica) pawl_advise(e->f, "Name the primary in the URL.");
    examine_promises(e, a);
    examine_sessions(e, a);
    examine_galera(e, a);
    examine_deadlocks(e, a);
    examine_history(e, a);
    examine_limits(e, a);
}

static void examine_shape(examining *e)
{
    char found[64] = "";
    my_script(e->c);
    my_add(e->c, SQL_ex_concat);
    my_add(e->c, SQL_shape);
    my_add(e->c, SQL_look);
    if (!my_send(e->c, CALL_READS)) {
        unseen(e, "shape");
        return;
    }
    const answer *a = my_answer(e->c, SQL_shape), *meta = my_answer(e->c, SQL_look);
    if (a->rows && get_text(a, 0, 1)) snprintf(found, sizeof found, "%s", get_text(a, 0, 1));
    bool same = false;
    for (int i = 0; i < meta->rows; i++)
        same |= strcmp(get_text(meta, i, 0), "shape") == 0 && strcmp(get_text(meta, i, 1), found) == 0;
    pawl_find(e->f, "shape", same ? PAWL_VERDICT_OK : PAWL_VERDICT_ACT,
              same ? "Tables and indexes are as the migrations left them."
                   : "Tables or indexes are not as the migrations left them: somebody changed the schema by hand.");
    if (!same) pawl_advise(e->f, "Compare it with: pawl migrate sql --all");
}

/* ---- transactions, clocks ------------------------------------------------------------------------------------------------ */

static void examine_old(examining *e)
{
    const answer *a = look(e, SQL_ex_old);
    if (!a) {
        unseen(e, "transactions");
        return;
    }
    for (int i = 0; i < a->rows; i++) {
        int64_t seconds = get_int(a, i, 2);
        pawl_find(e->f, "transactions", seconds >= OLD_ACT_S ? PAWL_VERDICT_ACT : PAWL_VERDICT_WARN,
                  "Connection %s of %s at %s is in a transaction since %" PRId64
                  " s, which keeps old versions of rows from being purged.",
                  get_text(a, i, 0), get_text(a, i, 3), get_text(a, i, 4), seconds);
        pawl_advise(e->f, "End it in that program, or: KILL %s", get_text(a, i, 0));
    }
    if (a->rows == 0) pawl_find(e->f, "transactions", PAWL_VERDICT_OK, "No transaction has lasted for more than a minute.");
}

static void examine_skew(examining *e)
{
    const answer *a = look(e, SQL_ex_skew);
    if (!a) {
        unseen(e, "clocks");
        return;
    }
    int64_t skew_us = a->rows ? get_int(a, 0, 1) : 0, size = skew_us < 0 ? -skew_us : skew_us;
    pawl_verdict verdict = size >= SKEW_ACT_US ? PAWL_VERDICT_ACT : size >= SKEW_WARN_US ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK;
    if (a->rows == 0) {
        pawl_find(e->f, "clocks", PAWL_VERDICT_OK,
                  "No node has renewed lately, so no clock could be compared with the server's.");
        return;
    }
    pawl_find(e->f, "clocks", verdict, "The clock of node \"%s\" is %" PRId64 " ms %s the server's, more than any other's.",
              get_text(a, 0, 0), size / 1000, skew_us < 0 ? "behind" : "ahead of");
    if (verdict != PAWL_VERDICT_OK)
        pawl_advise(e->f, "Let NTP set the clocks. Leases and due times follow the server's alone; times of runs "
                          "follow the node's.");
}

/* ---- types ---------------------------------------------------------------------------------------------------------------- */

static void examine_types(examining *e, my_store *s, pawl_arena *arena)
{
    reading reader = {.s = s, .c = e->c, .arena = arena};
    pawl_query nodes = {0};
    my_nodes_read(&reader, &nodes);
    const answer *a = nodes.nodes ? look(e, SQL_ex_types) : NULL;
    int found = 0;
    for (int i = 0; a && i < a->rows; i++) {
        const char *queue = get_text(a, i, 0), *type = get_text(a, i, 1);
        if (pawl_type_known(&nodes, queue, type)) continue;
        found++;
        pawl_find_unknown_type(e->f, queue, type, get_int(a, i, 2), DUE_MAX);
    }
    if (a && !found) pawl_find(e->f, "unknown_types", PAWL_VERDICT_OK, "No due task is of a type that nobody knows.");
}

void my_examine(const pawl_store_options *o, pawl_store *store, pawl_findings *f)
{
    (void)o;
    if (!store) return; /* why it cannot be opened is a finding of the caller's */
    my_store *s = store_of(store);
    pawl_arena *arena = arena_new(s->allocator, 0);
    if (!arena) return;
    examining e = {.c = my_store_take(s, READER), .f = f};
    examine_server(&e);
    examine_shape(&e);
    examine_old(&e);
    examine_skew(&e);
    examine_types(&e, s, arena);
    my_store_give(s, e.c);
    arena_free(arena);
}
