/* transactional: business data and tasks in one SQLite transaction of the program's own.
 *
 *  - An order and the task that ships it commit together, or, rolled back, both vanish.
 *  - The run that ships marks the order and finishes its task in one transaction too, so shipping is recorded exactly once: its first
 *    transaction is rolled back here (nothing is shipped, the run counts as a retry), the second one commits.
 *
 *     examples/transactional    uses shop.db, for the orders and for the tasks
 */
#include <pawl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static void run_sql(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK) return;
    fprintf(stderr, "%s: %s\n", sql, message);
    exit(1);
}

/* Every connection of the program to the file is prepared, so that it makes no checkpoints of its own. */
static sqlite3 *connect(void)
{
    sqlite3 *db;
    pawl_error err;
    if (sqlite3_open("shop.db", &db) != SQLITE_OK || sqlite3_busy_timeout(db, 10000) != SQLITE_OK) exit(1);
    if (pawl_sqlite_prepare(db, &err)) exit(pawl_die(&err));
    return db;
}

static void disconnect(sqlite3 *db)
{
    pawl_sqlite_forget(db);
    sqlite3_close(db);
}

static int count(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) exit(1);
    int n = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return n;
}

static pawl_outcome ship(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_error err;
    pawl_outcome outcome;
    sqlite3 *db = connect();
    run_sql(db, "BEGIN IMMEDIATE");
    run_sql(db, "UPDATE orders SET shipped = shipped + 1");
    bool done = !pawl_complete_sqlite(run, db, &outcome, &err);
    if (!done) outcome = pawl_retry(run, "%s", err.message);
    bool change_of_mind = pawl_run_attempt(run) == 1;
    run_sql(db, done && !change_of_mind ? "COMMIT" : "ROLLBACK");
    printf("attempt %d: %s\n", pawl_run_attempt(run), done && !change_of_mind ? "shipped" : "rolled back");
    disconnect(db);
    return outcome;
}

static pawl_id place_order(pawl *p, sqlite3 *db, const char *item, bool commit)
{
    pawl_error err;
    pawl_receipt receipt;
    run_sql(db, "BEGIN IMMEDIATE");
    char *sql = sqlite3_mprintf("INSERT INTO orders(item, shipped) VALUES(%Q, 0)", item);
    run_sql(db, sql);
    sqlite3_free(sql);
    if (pawl_dispatch_sqlite(p, db, &(pawl_task){.type = "order.ship"}, &receipt, &err)) exit(pawl_die(&err));
    run_sql(db, commit ? "COMMIT" : "ROLLBACK");
    if (commit) pawl_committed(p); /* starts it at once */
    printf("%s: %s\n", item, commit ? "ordered" : "never mind");
    return receipt.id;
}

int main(void)
{
    pawl *p = NULL;
    pawl_error err;
    pawl_info *info;
    pawl_handler handler = {.type = "order.ship", .run = ship, .retry = {.curve = PAWL_CURVE_FIXED, .delay_us = 10000}};
    if (pawl_open(&(pawl_options){.store = "sqlite:shop.db", .shared_file = true}, &p, &err) || pawl_handle(p, &handler, &err))
        return pawl_die(&err);
    sqlite3 *db = connect();
    run_sql(db, "CREATE TABLE IF NOT EXISTS orders(item TEXT, shipped INTEGER)");

    pawl_id gone = place_order(p, db, "a bell", false);
    if (pawl_get(p, gone, &info, &err) != PAWL_NOT_FOUND) return 1;
    pawl_id id = place_order(p, db, "a book", true);
    printf("orders: %d\n", count(db, "SELECT count(*) FROM orders"));

    if (pawl_start(p, &err) || pawl_wait(p, id, 10 * PAWL_SECOND, NULL, &err)) return pawl_die(&err);
    printf("shipped: %d\n", count(db, "SELECT shipped FROM orders"));
    disconnect(db);
    return pawl_close(p);
}
