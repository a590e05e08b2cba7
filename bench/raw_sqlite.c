/* What SQLite itself can do on this machine: the least a durable task costs, without an engine. `pawl bench` is compared with it.
 *
 *   raw_sqlite life   DIR TASKS BATCH   one table; a batch is inserted as leased in one commit and marked done in the next
 *   raw_sqlite commit DIR COMMITS RATE  one small row per commit, so many a second (0: one after the other); prints percentiles
 *
 * WAL, synchronous=FULL, 200-byte JSON payload. Prints one JSON object.
 */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sqlite3 *db;

static void check(int rc, const char *what)
{
    if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW) return;
    fprintf(stderr, "raw_sqlite: %s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static void run(const char *sql) { check(sqlite3_exec(db, sql, NULL, NULL, NULL), sql); }

static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *stmt;
    check(sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL), sql);
    return stmt;
}

static void step(sqlite3_stmt *stmt)
{
    check(sqlite3_step(stmt), sqlite3_sql(stmt));
    sqlite3_reset(stmt);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void open_file(const char *dir)
{
    char path[512];
    const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(path, sizeof path, "%s/raw.db%s", dir, ends[i]);
        remove(path);
    }
    snprintf(path, sizeof path, "%s/raw.db", dir);
    check(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL), path);
    run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA secure_delete=OFF; PRAGMA cache_size=-65536");
    run("CREATE TABLE task (id INTEGER PRIMARY KEY, type TEXT, queue TEXT, payload TEXT, state INT, priority INT, run_at INT,"
        " attempts INT, lease_until INT, lease_by INT, done_at INT)");
}

static char payload[256];

static void make_payload(void)
{
    int n = snprintf(payload, sizeof payload,
                     "{\"user\":12345,\"email\":\"somebody@example.com\",\"template\":\"welcome\",\"note\":\"");
    memset(payload + n, 'x', 198 - (size_t)n);
    strcpy(payload + 198, "\"}");
}

static void insert(sqlite3_stmt *stmt, int64_t id)
{
    sqlite3_bind_int64(stmt, 1, id);
    sqlite3_bind_text(stmt, 2, "email.send", -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, "default", -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 4, payload, 200, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 5, 1800000000 + id);
    step(stmt);
}

static void life(int64_t tasks, int64_t batch)
{
    sqlite3_stmt *begin = prepare("BEGIN IMMEDIATE"), *commit = prepare("COMMIT");
    sqlite3_stmt *in = prepare("INSERT INTO task VALUES (?1, ?2, ?3, ?4, 1, 0, ?5, 1, ?5 + 30, 7, NULL)");
    sqlite3_stmt *done = prepare("UPDATE task SET state = 2, done_at = ?2, lease_until = NULL WHERE id = ?1");
    double start = seconds();
    for (int64_t at = 1; at <= tasks; at += batch) {
        step(begin);
        for (int64_t i = at; i < at + batch; i++) insert(in, i);
        step(commit);
        step(begin);
        for (int64_t i = at; i < at + batch; i++) {
            sqlite3_bind_int64(done, 1, i);
            sqlite3_bind_int64(done, 2, 1800000000 + i);
            step(done);
        }
        step(commit);
    }
    printf("{\"raw\":\"life\",\"batch\":%lld,\"tasks_per_s\":%.0f}\n", (long long)batch, (double)tasks / (seconds() - start));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sleeps until the i-th of so many a second is due: what a machine at rest needs to get going is part of a commit then. */
static void await_turn(double from, int64_t i, int64_t rate)
{
    double due = from + (double)i / (double)(rate ? rate : 1);
    struct timespec at = {(time_t)due, (long)((due - (double)(time_t)due) * 1e9)};
    if (rate) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void commits(int64_t count, int64_t rate)
{
    sqlite3_stmt *in = prepare("INSERT INTO task VALUES (?1, ?2, ?3, ?4, 1, 0, ?5, 1, ?5 + 30, 7, NULL)");
    double *took = calloc((size_t)count, sizeof *took);
    if (!took) exit(1);
    double from = seconds();
    for (int64_t i = 0; i < count; i++) {
        await_turn(from, i, rate);
        double start = seconds();
        insert(in, i + 1);
        took[i] = (seconds() - start) * 1e6;
    }
    qsort(took, (size_t)count, sizeof *took, by_value);
    printf("{\"raw\":\"commit\",\"commit_us\":{\"p50\":%.0f,\"p99\":%.0f}}\n", took[count / 2], took[count * 99 / 100]);
    free(took);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: raw_sqlite life DIR TASKS BATCH | raw_sqlite commit DIR COMMITS RATE\n");
        return 2;
    }
    make_payload();
    open_file(argv[2]);
    if (strcmp(argv[1], "commit") == 0) commits(atoll(argv[3]), argc > 4 ? atoll(argv[4]) : 0);
    else life(atoll(argv[3]), argc > 4 ? atoll(argv[4]) : 1000);
    return 0;
}
