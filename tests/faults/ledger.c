/* The ledger, and the comparison of a store with it. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>

entry *ledger_new(ledger *l, const char *kind)
{
    if (l->count == ENTRIES_MAX) {
        fprintf(stderr, "the ledger is full\n");
        abort();
    }
    entry *e = &l->entries[l->count++];
    *e = (entry){.answer = ANSWER_UNKNOWN};
    snprintf(e->tag, sizeof e->tag, "%.8s-%d", kind, l->count);
    return e;
}

entry *ledger_find(ledger *l, const char *tag)
{
    for (int i = 0; tag && i < l->count; i++)
        if (strcmp(l->entries[i].tag, tag) == 0) return &l->entries[i];
    return NULL;
}

entry *ledger_by_id(ledger *l, pawl_id id)
{
    for (int i = 0; id && i < l->count; i++)
        if (l->entries[i].id == id) return &l->entries[i];
    return NULL;
}

/* ---- one task ------------------------------------------------------------------------------------------------------------------- */

static void check_info(world *w, const entry *e, const pawl_info *i)
{
    if (e->must && i->state != e->must)
        problem(w, "%s was said to have %s and is %s", e->tag, pawl_state_name(e->must), pawl_state_name(i->state));
    if (e->resolved && i->state == PAWL_FAILED && !i->resolved_us) problem(w, "%s was acknowledged and is not resolved", e->tag);
    if (e->retried_as && i->retried_as != e->retried_as) problem(w, "%s does not point at its retry", e->tag);
    if (!e->shared && strcmp(i->created_by ? i->created_by : "", e->tag) != 0)
        problem(w, "%s is stored as %s", e->tag, i->created_by ? i->created_by : "nothing");
    if (!e->shared && (i->payload.len != strlen("{\"n\":1}") || memcmp(i->payload.data, "{\"n\":1}", i->payload.len) != 0))
        problem(w, "the payload of %s is not what was sent", e->tag);
    for (int k = 0; k < i->attempts_count; k++)
        if (i->attempts[k].number != k + 1) problem(w, "%s: attempt %d is numbered %d", e->tag, k + 1, i->attempts[k].number);
}

static void check_entry(world *w, const entry *e)
{
    pawl_info *i = NULL;
    if (e->answer != ANSWER_OK || !e->id) return;
    pawl_status status = pawl_get(w->p, e->id, &i, &w->err);
    if (status == PAWL_NOT_FOUND && w->book->swept) return;
    if (status == PAWL_NOT_FOUND) problem(w, "%s was acknowledged and is lost", e->tag);
    else if (status) problem(w, "could not look at %s: %s: %s", e->tag, pawl_status_name(status), w->err.message);
    else check_info(w, e, i);
    pawl_info_free(i);
}

/* ---- all that is stored --------------------------------------------------------------------------------------------------------- */

typedef struct census {
    int found[ENTRIES_MAX];
    pawl_state state[ENTRIES_MAX];
    int strangers, live;
    pawl_id first_live;
} census;

static void count_task(world *w, census *c, const pawl_info *i)
{
    entry *e = ledger_find(w->book, i->created_by);
    if (!pawl_state_terminal(i->state)) {
        if (!c->live++) c->first_live = i->id;
    }
    if (!e) {
        c->strangers++;
        return;
    }
    if (i->retry_of) return;
    c->found[e - w->book->entries]++;
    c->state[e - w->book->entries] = i->state;
}

static bool take_census(world *w, census *c)
{
    char cursor[200] = "";
    *c = (census){0};
    for (;;) {
        pawl_page *page = NULL;
        pawl_status status = pawl_list(w->p, &(pawl_filter){.limit = 50, .cursor = cursor[0] ? cursor : NULL}, &page, &w->err);
        if (status) {
            problem(w, "could not list: %s: %s", pawl_status_name(status), w->err.message);
            return false;
        }
        for (size_t i = 0; i < page->count; i++) count_task(w, c, page->tasks[i]);
        snprintf(cursor, sizeof cursor, "%s", page->next ? page->next : "");
        pawl_page_free(page);
        if (!cursor[0]) return true;
    }
}

static void check_spawned(world *w, const entry *e, int found, const census *c)
{
    const entry *parent = &w->book->entries[e->parent - 1];
    bool swept = w->book->swept && !c->found[e->parent - 1];
    bool succeeded = c->state[e->parent - 1] == PAWL_SUCCEEDED || swept;
    if (found && !succeeded) problem(w, "%s was spawned by %s, which did not succeed", e->tag, parent->tag);
    if (found > 1) problem(w, "%s was spawned %d times", e->tag, found);
}

static void check_found(world *w, const entry *e, int found, const census *c)
{
    if (e->shared) return;
    if (e->parent) check_spawned(w, e, found, c);
    else if (e->answer == ANSWER_OK && found == 0 && !w->book->swept) problem(w, "%s was acknowledged and is not listed", e->tag);
    else if (e->answer == ANSWER_NO && found > 0) problem(w, "%s was refused and is stored", e->tag);
    else if (found > 1) problem(w, "%s is stored %d times", e->tag, found);
}

static void check_pause(world *w)
{
    pawl_stats *stats = NULL;
    if (w->book->paused < 0 || pawl_get_stats(w->p, 0, &stats, &w->err)) return;
    for (size_t i = 0; i < stats->queues_count; i++)
        if (strcmp(stats->queues[i].name, "side") == 0 && stats->queues[i].paused != (w->book->paused == 1))
            problem(w, "queue side was said to be %s and is not", w->book->paused ? "paused" : "resumed");
    pawl_stats_free(stats);
}

void judge_ledger(world *w)
{
    census c;
    for (int i = 0; i < w->book->count; i++) check_entry(w, &w->book->entries[i]);
    if (!take_census(w, &c)) return;
    for (int i = 0; i < w->book->count; i++) check_found(w, &w->book->entries[i], c.found[i], &c);
    if (c.strangers) problem(w, "%d tasks are stored that nobody sent", c.strangers);
    check_pause(w);
}

void judge_settled(world *w)
{
    census c;
    char id[PAWL_ID_TEXT];
    pawl_why_answer why = {.text = ""};
    judge_ledger(w);
    if (!take_census(w, &c) || c.live == 0) return;
    pawl_id_format(c.first_live, id);
    pawl_why(w->p, c.first_live, &why, &w->err);
    problem(w, "%d tasks have not ended, among them %s: %s", c.live, id, why.text);
}

/* ---- rows ----------------------------------------------------------------------------------------------------------------------- */

typedef struct rule {
    const char *what, *sql; /* 1: as it should be */
    bool not_swept;         /* says nothing once retention has been there */
} rule;

#define COUNT(table) "(SELECT count(*) FROM " table ")"
#define ROLLED(outcome) "(SELECT coalesce(sum(count), 0) FROM pawl_rollup WHERE outcome = " outcome ")"

static const rule rules[] = {
    {"a body has one place",
     "SELECT " COUNT("pawl_body") " = " COUNT("pawl_live") " + " COUNT("pawl_leased") " + " COUNT("pawl_done") " + " COUNT(
         "pawl_failed"),
     false},
    {"no place without a body",
     "SELECT NOT EXISTS (SELECT id FROM pawl_live UNION ALL SELECT id FROM pawl_leased UNION ALL "
     "SELECT id FROM pawl_done UNION ALL SELECT id FROM pawl_failed EXCEPT SELECT id FROM pawl_body)",
     false},
    {"pending is counted", "SELECT coalesce(sum(pending), 0) = (SELECT count(*) FROM pawl_live WHERE state = 2) FROM pawl_queue",
     false},
    {"leased is counted", "SELECT coalesce(sum(leased), 0) = " COUNT("pawl_leased") " FROM pawl_queue", false},
    {"dead letters are counted",
     "SELECT coalesce(sum(failed), 0) = (SELECT count(*) FROM pawl_failed WHERE resolved_us IS NULL) FROM pawl_queue", false},
    {"leases are counted", "SELECT coalesce(sum(leases), 0) = " COUNT("pawl_leased") " FROM pawl_heartbeat", false},
    {"a lease has a node",
     "SELECT NOT EXISTS (SELECT 1 FROM pawl_leased WHERE node NOT IN (SELECT id FROM pawl_node WHERE alive = 1))", false},
    {"a cancel has a lease", "SELECT NOT EXISTS (SELECT 1 FROM pawl_cancel WHERE task_id NOT IN (SELECT id FROM pawl_leased))",
     false},
    {"a key has its task", "SELECT NOT EXISTS (SELECT 1 FROM pawl_key WHERE task_id NOT IN (SELECT id FROM pawl_body))", false},
    {"a keyed task has its key",
     "SELECT NOT EXISTS (SELECT 1 FROM pawl_body b WHERE key IS NOT NULL AND NOT EXISTS "
     "(SELECT 1 FROM pawl_key k WHERE k.key = b.key AND k.task_id = b.id))",
     false},
    {"attempts belong to tasks", "SELECT NOT EXISTS (SELECT 1 FROM pawl_attempt WHERE task_id NOT IN (SELECT id FROM pawl_body))",
     false},
    {"audit belongs to tasks", "SELECT NOT EXISTS (SELECT 1 FROM pawl_audit WHERE task_id NOT IN (SELECT id FROM pawl_body))",
     false},
    {"retention finds what is done",
     "SELECT NOT EXISTS (SELECT 1 FROM pawl_done d WHERE NOT EXISTS (SELECT 1 FROM pawl_done_slot s "
     "WHERE s.state = d.state AND s.slot = d.finished_us / 600000000 AND d.id BETWEEN s.min_id AND s.max_id))",
     false},
    {"lists find every task",
     "SELECT NOT EXISTS (SELECT 1 FROM pawl_body WHERE (1, id >> 30) NOT IN (SELECT level, block FROM pawl_seen) OR "
     "(2, id >> 38) NOT IN (SELECT level, block FROM pawl_seen))",
     false},
    {"what was seen has tasks",
     "SELECT NOT EXISTS (SELECT 1 FROM pawl_seen s WHERE NOT EXISTS "
     "(SELECT 1 FROM pawl_body WHERE s.block = CASE s.level WHEN 1 THEN id >> 30 ELSE id >> 38 END))",
     false},
    {"dispatches are counted once", "SELECT " ROLLED("1") " = " COUNT("pawl_body"), true},
    {"successes are counted once", "SELECT " ROLLED("2") " = (SELECT count(*) FROM pawl_done WHERE state = 4)", true},
    {"failures are counted once", "SELECT " ROLLED("3") " = " COUNT("pawl_failed"), true},
    {"cancels are counted once", "SELECT " ROLLED("4") " = (SELECT count(*) FROM pawl_done WHERE state = 6)", true},
    {"a retry points back",
     "SELECT NOT EXISTS (SELECT 1 FROM (SELECT id, retried_as FROM pawl_done UNION ALL SELECT id, retried_as FROM "
     "pawl_failed) r WHERE retried_as IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pawl_body b WHERE b.id = r.retried_as "
     "AND b.retry_of = r.id))",
     true},
};

static void check_rule(world *w, sqlite3 *db, const rule *r)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db, r->sql, -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
        problem(w, "%s: %s", r->what, sqlite3_errmsg(db));
    else if (sqlite3_column_int(st, 0) != 1) problem(w, "the rows do not agree: %s", r->what);
    sqlite3_finalize(st);
}

static void check_integrity(world *w, sqlite3 *db)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL) != SQLITE_OK || sqlite3_step(st) != SQLITE_ROW)
        problem(w, "integrity_check: %s", sqlite3_errmsg(db));
    else if (strcmp((const char *)sqlite3_column_text(st, 0), "ok") != 0)
        problem(w, "integrity_check: %s", sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
}

static sqlite3 *open_file(world *w)
{
    sqlite3 *db = NULL;
    if (sqlite3_open(w->path, &db) != SQLITE_OK) problem(w, "could not open the file: %s", sqlite3_errmsg(db));
    sqlite3_wal_autocheckpoint(db, 0);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_busy_timeout(db, 5000);
    return db;
}

void judge_integrity(world *w)
{
    sqlite3 *db = open_file(w);
    check_integrity(w, db);
    sqlite3_close(db);
}

void judge_rows(world *w)
{
    sqlite3 *db = open_file(w);
    check_integrity(w, db);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!(rules[i].not_swept && w->book->swept)) check_rule(w, db, &rules[i]);
    sqlite3_close(db);
}
