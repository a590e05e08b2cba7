/* What PostgreSQL itself can do on this machine: the least a durable task costs, without an engine. `pawl bench` is compared with it.
 *
 *   raw_postgres life   CONNINFO TASKS BATCH CONNECTIONS   one table; each connection stores batches as leased, by COPY in one commit,
 *                                                          and marks each done in the next
 *   raw_postgres commit CONNINFO COMMITS                   one small row per commit; prints percentiles
 *
 * The server's own settings, 200-byte JSON payload, history kept. Prints one JSON object. The table "raw_task" is made anew.
 */
#include <endian.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAYLOAD 200
#define ROW_MAX 320
#define CONNECTIONS_MAX 64

static const char *conninfo;
static int64_t batch;

static void fail(PGconn *pg, const char *what)
{
    fprintf(stderr, "raw_postgres: %s: %s", what, pg ? PQerrorMessage(pg) : "out of memory\n");
    exit(1);
}

static void take(PGconn *pg, PGresult *r, ExecStatusType wanted, const char *what)
{
    if (PQresultStatus(r) != wanted) fail(pg, what);
    PQclear(r);
}

static PGconn *connect_one(void)
{
    PGconn *pg = PQconnectdb(conninfo);
    if (PQstatus(pg) != CONNECTION_OK) fail(pg, "connect");
    return pg;
}

static void run(PGconn *pg, const char *sql) { take(pg, PQexec(pg, sql), PGRES_COMMAND_OK, sql); }

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make_table(void)
{
    PGconn *pg = connect_one();
    run(pg, "SET client_min_messages = warning");
    run(pg, "DROP TABLE IF EXISTS raw_task");
    run(pg, "CREATE TABLE raw_task (id int8 PRIMARY KEY, type text NOT NULL, queue text NOT NULL, payload jsonb NOT NULL,"
            " state int2 NOT NULL DEFAULT 1, priority int2 NOT NULL, run_at int8 NOT NULL, attempts int4 NOT NULL DEFAULT 1,"
            " lease_until int8, lease_by int4, done_at int8)");
    run(pg, "CHECKPOINT");
    PQfinish(pg);
}

/* ---- the wire ------------------------------------------------------------------------------------------------------------ */

static char *put(char *to, const void *from, size_t n) { return (char *)memcpy(to, from, n) + n; }

static char *put16(char *to, int16_t value)
{
    uint16_t wire = htobe16((uint16_t)value);
    return put(to, &wire, sizeof wire);
}

static char *put32(char *to, int32_t value)
{
    uint32_t wire = htobe32((uint32_t)value);
    return put(to, &wire, sizeof wire);
}

static char *put64(char *to, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);
    return put(to, &wire, sizeof wire);
}

static char *put_field(char *to, const void *from, size_t n) { return put(put32(to, (int32_t)n), from, n); }

static char *put_int8(char *to, int64_t value) { return put64(put32(to, 8), value); }

/* JSON behind the one byte that says that it comes as text. */
static void make_payload(char out[PAYLOAD + 1], int64_t id)
{
    out[0] = 1;
    int n = snprintf(out + 1, PAYLOAD, "{\"user\":%012lld,\"email\":\"somebody@example.com\",\"note\":\"",
                     (long long)(id + 100000000000));
    memset(out + 1 + n, 'x', (size_t)(PAYLOAD - 2 - n));
    memcpy(out + PAYLOAD - 1, "\"}", 2);
}

static char *put_row(char *to, int64_t id)
{
    char payload[PAYLOAD + 1];
    make_payload(payload, id);
    to = put_int8(put16(to, 6), id);
    to = put_field(put_field(to, "email.send", 10), "default", 7);
    to = put_field(to, payload, sizeof payload);
    to = put16(put32(to, 2), 0);
    return put_int8(to, 1800000000000000 + id);
}

/* ---- a task's life ------------------------------------------------------------------------------------------------------- */

typedef struct producer {
    pthread_t thread;
    PGconn *pg;
    char *room;
    int64_t from, to;
} producer;

static void insert(producer *p, int64_t first)
{
    static const char head[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
    char *at = put(p->room, head, 19);
    take(p->pg, PQexec(p->pg, "COPY raw_task (id, type, queue, payload, priority, run_at) FROM STDIN (FORMAT binary)"),
         PGRES_COPY_IN, "copy");
    for (int64_t id = first; id < first + batch; id++) at = put_row(at, id);
    at = put16(at, -1);
    if (PQputCopyData(p->pg, p->room, (int)(at - p->room)) != 1 || PQputCopyEnd(p->pg, NULL) != 1) fail(p->pg, "copy");
    take(p->pg, PQgetResult(p->pg), PGRES_COMMAND_OK, "copy");
    while (PQgetResult(p->pg)) {}
}

static void finish(producer *p, int64_t first)
{
    char *at = put32(put32(put32(put32(put32(p->room, 1), 0), 20), (int32_t)batch), 1);
    for (int64_t id = first; id < first + batch; id++) at = put_int8(at, id);
    const char *values[] = {p->room};
    const int lengths[] = {(int)(at - p->room)}, formats[] = {1};
    take(p->pg, PQexecPrepared(p->pg, "finish", 1, values, lengths, formats, 1), PGRES_COMMAND_OK, "finish");
}

static void *produce(void *ctx)
{
    producer *p = ctx;
    for (int64_t at = p->from; at < p->to; at += batch) {
        insert(p, at);
        finish(p, at);
    }
    return NULL;
}

static void producer_open(producer *p, int64_t from, int64_t to)
{
    *p = (producer){.pg = connect_one(), .from = from, .to = to, .room = malloc((size_t)batch * ROW_MAX + 64)};
    if (!p->room) fail(NULL, "start");
    take(p->pg,
         PQprepare(p->pg, "finish",
                   "UPDATE raw_task SET state = 2, done_at = run_at, lease_until = NULL WHERE id = ANY ($1::int8[])", 0, NULL),
         PGRES_COMMAND_OK, "prepare");
}

static void count_done(int64_t tasks)
{
    PGconn *pg = connect_one();
    PGresult *r = PQexec(pg, "SELECT count(*) FROM raw_task WHERE state = 2");
    if (PQresultStatus(r) != PGRES_TUPLES_OK || atoll(PQgetvalue(r, 0, 0)) != tasks) fail(pg, "count");
    PQclear(r);
    PQfinish(pg);
}

static void life(int64_t tasks, int connections)
{
    static producer all[CONNECTIONS_MAX];
    int64_t each = (tasks + connections * batch - 1) / (connections * batch) * batch;
    for (int i = 0; i < connections; i++) producer_open(&all[i], 1 + i * each, 1 + (i + 1) * each);
    double start = seconds();
    for (int i = 0; i < connections; i++)
        if (pthread_create(&all[i].thread, NULL, produce, &all[i]) != 0) fail(NULL, "start");
    for (int i = 0; i < connections; i++) pthread_join(all[i].thread, NULL);
    double took = seconds() - start;
    for (int i = 0; i < connections; i++) {
        PQfinish(all[i].pg);
        free(all[i].room);
    }
    count_done(each * connections);
    printf("{\"raw\":\"life\",\"batch\":%lld,\"connections\":%d,\"tasks_per_s\":%.0f}\n", (long long)batch, connections,
           (double)(each * connections) / took);
}

/* ---- one row per commit -------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void commits(int64_t count)
{
    PGconn *pg = connect_one();
    double *took = calloc((size_t)count, sizeof *took);
    if (!took) fail(NULL, "start");
    take(
        pg,
        PQprepare(
            pg, "insert",
            "INSERT INTO raw_task (id, type, queue, payload, priority, run_at) VALUES ($1::int8, 'email.send', 'default', $2::jsonb, 0, $1)",
            0, NULL),
        PGRES_COMMAND_OK, "prepare");
    for (int64_t i = 0; i < count; i++) {
        char id[8], payload[PAYLOAD + 1];
        put64(id, i + 1);
        make_payload(payload, i);
        const char *values[] = {id, payload};
        const int lengths[] = {8, sizeof payload}, formats[] = {1, 1};
        double start = seconds();
        take(pg, PQexecPrepared(pg, "insert", 2, values, lengths, formats, 1), PGRES_COMMAND_OK, "insert");
        took[i] = (seconds() - start) * 1e6;
    }
    qsort(took, (size_t)count, sizeof *took, by_value);
    printf("{\"raw\":\"commit\",\"commit_us\":{\"p50\":%.0f,\"p99\":%.0f}}\n", took[count / 2], took[count * 99 / 100]);
    free(took);
    PQfinish(pg);
}

int main(int argc, char **argv)
{
    int connections = argc > 5 ? atoi(argv[5]) : 2;
    batch = argc > 4 ? atoll(argv[4]) : 1000;
    if (argc < 4 || atoll(argv[3]) < 1 || batch < 1 || batch > 100000 || connections < 1 || connections > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: raw_postgres life CONNINFO TASKS BATCH CONNECTIONS | raw_postgres commit CONNINFO COMMITS\n");
        return 2;
    }
    conninfo = argv[2];
    make_table();
    if (strcmp(argv[1], "commit") == 0) commits(atoll(argv[3]));
    else life(atoll(argv[3]), connections);
    return 0;
}
