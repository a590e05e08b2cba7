/* Every way to dispatch, with its lines in the history: `begin` before the call, the answer after it. */
#include "node.h"
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 100, BULK_MAX = 16 };

/* A payload nobody else has: a JSON string. */
static void new_token(node *n, char token[TOKEN_MAX])
{
    snprintf(token, TOKEN_MAX, "\"%s-%u\"", n->name, atomic_fetch_add(&n->tokens, 1));
}

static void say_answer(const char *token, pawl_status status, const pawl_receipt *receipt, const pawl_error *err)
{
    char id[PAWL_ID_TEXT];
    pawl_id_format(receipt->id, id);
    if (status == PAWL_OK)
        history_line("ack", ",\"token\":%s,\"id\":\"%s\",\"outcome\":\"%s\"", token, id, pawl_dispatched_name(receipt->outcome));
    else if (status == PAWL_UNKNOWN) history_line("unknown", ",\"token\":%s,\"id\":\"%s\"", token, id);
    else history_line("refused", ",\"token\":%s,\"status\":\"%s\"", token, pawl_status_name(status));
    if (status) fprintf(stderr, "%s: %s: %s\n", token, pawl_status_name(status), err->message);
}

/* An unknown outcome is asked again under the id that came with it, until it is known. */
void send_one(node *n, const char *type, int64_t delay_us, const char *key)
{
    char token[TOKEN_MAX];
    new_token(n, token);
    history_line("begin", ",\"token\":%s,\"key\":\"%s\"", token, key ? key : "");
    pawl_task task = {.type = type, .payload = pawl_str(token), .delay_us = delay_us, .key = key};
    pawl_receipt receipt = {0};
    pawl_error err = {0};
    pawl_status status = PAWL_UNKNOWN;
    for (int i = 0; status == PAWL_UNKNOWN && i < TRIES; i++) {
        status = pawl_dispatch_full(n->engine, &task, &receipt, &err);
        say_answer(token, status, &receipt, &err);
        task.id = receipt.id;
    }
}

static void answered(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    say_answer(ctx, receipt->status, receipt, err);
    free(ctx);
}

void send_async(node *n, const char *type)
{
    char *token = malloc(TOKEN_MAX);
    pawl_error err;
    new_token(n, token);
    history_line("begin", ",\"token\":%s", token);
    pawl_status status =
        pawl_dispatch_async(n->engine, &(pawl_task){.type = type, .payload = pawl_str(token)}, answered, token, &err);
    if (!status) return;
    say_answer(token, status, &(pawl_receipt){0}, &err);
    free(token);
}

static void say_bulk(char tokens[][TOKEN_MAX], int count, const char *rate_key)
{
    char list[BULK_MAX * TOKEN_MAX] = "";
    for (int i = 0; i < count; i++) {
        if (i) strcat(list, ",");
        strcat(list, tokens[i]);
    }
    history_line("bulk", ",\"tokens\":[%s],\"rate\":\"%s\"", list, rate_key ? rate_key : "");
}

static void send_some(node *n, const char *type, int count, const char *rate_key)
{
    char tokens[BULK_MAX][TOKEN_MAX];
    pawl_task tasks[BULK_MAX];
    pawl_receipt receipts[BULK_MAX];
    pawl_error err = {0};
    if (count > BULK_MAX) count = BULK_MAX;
    memset(receipts, 0, sizeof receipts);
    for (int i = 0; i < count; i++) {
        new_token(n, tokens[i]);
        tasks[i] = (pawl_task){.type = type, .payload = pawl_str(tokens[i]), .rate_key = pawl_str(rate_key)};
    }
    say_bulk(tokens, count, rate_key);
    pawl_status status = PAWL_UNKNOWN;
    for (int tries = 0; status == PAWL_UNKNOWN && tries < TRIES; tries++) {
        status = pawl_dispatch_bulk(n->engine, tasks, (size_t)count, receipts, &err);
        for (int i = 0; i < count; i++) {
            say_answer(tokens[i], status ? status : receipts[i].status, &receipts[i], &err);
            tasks[i].id = receipts[i].id;
        }
    }
}

void send_bulk(node *n, const char *type, int count) { send_some(n, type, count, NULL); }

void send_keyed(node *n, const char *type, const char *rate_key, int count)
{
    for (; count > 0; count -= BULK_MAX) send_some(n, type, count, rate_key);
}

/* ---- in a transaction of our own ----------------------------------------------------------------------------------------------- */

static void sql(sqlite3 *db, const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK) return;
    fprintf(stderr, "%s: %s\n", text, sqlite3_errmsg(db));
    abort();
}

/* pawl_committed is not called: whoever should run it must find out by itself. */
void send_foreign(node *n, const char *type, int64_t delay_us)
{
    static sqlite3 *db; /* stays open: closing would be one more event on the file */
    char token[TOKEN_MAX];
    pawl_receipt receipt = {0};
    pawl_error err = {0};
    if (!db) {
        if (sqlite3_open(n->path, &db) || sqlite3_busy_timeout(db, 10000)) abort();
        pawl_status status = pawl_sqlite_prepare(db, &err);
        if (status) fprintf(stderr, "pawl_sqlite_prepare: %s\n", err.message);
        sql(db, "CREATE TABLE IF NOT EXISTS business(token TEXT)");
    }
    new_token(n, token);
    history_line("begin", ",\"token\":%s", token);
    sql(db, "BEGIN IMMEDIATE");
    char *insert = sqlite3_mprintf("INSERT INTO business VALUES(%Q)", token);
    sql(db, insert);
    sqlite3_free(insert);
    pawl_task task = {.type = type, .payload = pawl_str(token), .delay_us = delay_us};
    pawl_status status = pawl_dispatch_sqlite(n->engine, db, &task, &receipt, &err);
    sql(db, status ? "ROLLBACK" : "COMMIT");
    say_answer(token, status, &receipt, &err);
}
