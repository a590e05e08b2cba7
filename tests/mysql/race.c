/* Two calls that meet: see race.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "mysql/race.h"
#include "store/mysql/mysql.h"
#include "store/store.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the store ----------------------------------------------------------------------------------------------------------- */

/* As a user of its own, by which its sessions are known. */
static pawl_store *open_as(race *r, const char *name)
{
    char url[700], base[500];
    pawl_store *store;
    pawl_error err;
    my_bed_url(base, sizeof base, r->database);
    const char *host = strstr(base, "//") + 2, *at = strchr(host, '@');
    snprintf(url, sizeof url, "mysql://pawl_%s_%d:pw@%s", name, (int)getpid(), at ? at + 1 : host);
    pawl_store_options options = {.url = url,
                                  .lease_us = RACE_LEASE,
                                  .lock_wait_us = 10 * PAWL_SECOND,
                                  .clock = clock_virtual(&r->clock),
                                  .allocator = alloc_default()};
    if (store_mysql_type.open(&options, &store, &err)) fail_msg("%s", err.message);
    return store;
}

static void make_users(const race *r)
{
    static const char *const names[] = {"slow", "quick"};
    for (int i = 0; i < 2; i++)
        my_bed_exec(r->my, "CREATE OR REPLACE USER pawl_%s_%d IDENTIFIED BY 'pw'; GRANT ALL ON `%s`.* TO pawl_%s_%d", names[i],
                    (int)getpid(), r->database, names[i], (int)getpid());
}

void race_hold(const race *r, const char *when)
{
    static const char *const events[] = {"INSERT", "UPDATE"};
    for (int i = 0; i < 2; i++)
        my_bed_exec(
            r->my,
            "CREATE OR REPLACE TRIGGER hold_%s AFTER %s ON pawl_lane FOR EACH ROW BEGIN "
            "IF USER() LIKE 'pawl_slow_%d@%%' AND %s THEN DO GET_LOCK('pawl_race_%d', 60); DO RELEASE_LOCK('pawl_race_%d'); END IF; END",
            events[i], events[i], (int)getpid(), when, (int)getpid(), (int)getpid());
}

void race_open(race *r, const char *what)
{
    my_bed_use_clock_of_options();
    my_bed_database(r->database, sizeof r->database, what);
    r->clock = (virtual_clock){.now_us = INT64_C(1800000000000000), .boot_us = 1000 * PAWL_SECOND};
    r->my = my_bed_connect(r->database);
    make_users(r);
    r->quick = open_as(r, "quick");
    race_hold(r, "TRUE");
    r->slow = open_as(r, "slow");
}

void race_close(race *r)
{
    r->slow->type->close(r->slow);
    r->quick->type->close(r->quick);
    my_bed_exec(r->my, "DROP USER pawl_slow_%d, pawl_quick_%d", (int)getpid(), (int)getpid());
    mysql_close(r->my);
    my_bed_drop(r->database);
}

/* ---- what must fit together ---------------------------------------------------------------------------------------------- */

void race_check_nothing(const race *r, const char *what, const char *sql)
{
    int64_t n = my_bed_int(r->my, "SELECT count(*) FROM (%s) x", sql);
    if (n) fail_msg("%lld times: %s", (long long)n, what);
}

void race_check(const race *r)
{
    race_check_nothing(
        r, "a task that is not in exactly one table",
        "SELECT b.id FROM pawl_body b WHERE 1 <> (SELECT count(*) FROM pawl_live WHERE id = b.id) + (SELECT count(*) FROM pawl_leased "
        "WHERE id = b.id) + (SELECT count(*) FROM pawl_done WHERE id = b.id) + (SELECT count(*) FROM pawl_failed WHERE id = b.id)");
    race_check_nothing(r, "a lease of a dead node",
                       "SELECT l.id FROM pawl_leased l JOIN pawl_node n ON n.id = l.node WHERE n.alive <> 1");
    race_check_nothing(r, "leases counted wrong",
                       "SELECT n.id FROM pawl_node n WHERE (SELECT coalesce(sum(leases), 0) FROM pawl_lane WHERE node = n.id) "
                       "<> (SELECT count(*) FROM pawl_leased WHERE node = n.id)");
    race_check_nothing(
        r, "a queue counted wrong",
        "SELECT 1 FROM DUAL WHERE (SELECT coalesce(sum(pending + waiting), 0) FROM pawl_count) <> (SELECT count(*) FROM pawl_live) "
        "OR (SELECT coalesce(sum(leased), 0) FROM pawl_count) <> (SELECT count(*) FROM pawl_leased) "
        "OR (SELECT coalesce(sum(failed), 0) FROM pawl_count) <> (SELECT count(*) FROM pawl_failed WHERE resolved_us IS NULL)");
    race_check_nothing(
        r, "a key with two live tasks",
        "SELECT b.task_key FROM pawl_body b WHERE b.task_key IS NOT NULL AND (EXISTS (SELECT 1 FROM pawl_live WHERE "
        "id = b.id) OR EXISTS (SELECT 1 FROM pawl_leased WHERE id = b.id)) GROUP BY b.task_key HAVING count(*) > 1");
    race_check_nothing(
        r, "a live task that is not its key's holder",
        "SELECT b.id FROM pawl_body b JOIN pawl_key k ON k.task_key = b.task_key AND k.old = 0 WHERE k.task_id <> b.id AND "
        "(EXISTS (SELECT 1 FROM pawl_live WHERE id = b.id) OR EXISTS (SELECT 1 FROM pawl_leased WHERE id = b.id))");
    race_check_nothing(r, "a task that ended twice",
                       "SELECT id FROM (SELECT id FROM pawl_done UNION ALL SELECT id FROM pawl_failed) e GROUP BY id "
                       "HAVING count(*) > 1");
    race_check_nothing(r, "a slot of a task that is not pending",
                       "SELECT s.task_id FROM pawl_slotted s LEFT JOIN pawl_live l ON l.id = s.task_id WHERE l.id IS NULL");
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

typedef struct running {
    pthread_t thread;
    race_call call;
    pawl_store *store;
    void *answer;
    bool done;
} running;

static void *run_call(void *arg)
{
    running *r = arg;
    r->call(r->store, r->answer);
    __atomic_store_n(&r->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void begin(running *r, race_call call, pawl_store *store, void *answer)
{
    *r = (running){.call = call, .store = store, .answer = answer};
    assert_int_equal(pthread_create(&r->thread, NULL, run_call, r), 0);
}

static bool done(const running *r) { return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE); }

/* The session that waits in the trigger, where it goes by the name of whoever made that; 0: none. */
static int64_t held_session(const race *race)
{
    return my_bed_int(race->my,
                      "SELECT COALESCE(MAX(ID), 0) FROM information_schema.PROCESSLIST WHERE DB = '%s' AND STATE = 'User lock'",
                      race->database);
}

/* Until the first one is done, or stands in the trigger. */
static void await_first(const race *race, const running *r)
{
    while (!done(r) && !held_session(race)) {}
}

/* By what the server prints of its transactions as they are: information_schema.INNODB_TRX shows what it showed last, as long as anybody,
 * another test included, asks more often than ten times a second. */
static bool quick_waits(const race *race)
{
    char user[32];
    bool waits = false;
    snprintf(user, sizeof user, " pawl_quick_%d ", (int)getpid());
    if (mysql_query(race->my, "SHOW ENGINE INNODB STATUS") != 0) fail_msg("%s", mysql_error(race->my));
    MYSQL_RES *res = mysql_store_result(race->my);
    MYSQL_ROW row = res ? mysql_fetch_row(res) : NULL;
    char *at = row && row[2] ? strstr(row[2], "---TRANSACTION ") : NULL;
    while (at && !waits) { /* one by one */
        char *next = strstr(at + 1, "---TRANSACTION ");
        if (next) next[-1] = '\0';
        waits = strstr(at, "LOCK WAIT") && strstr(at, user);
        at = next;
    }
    mysql_free_result(res);
    return waits;
}

/* Until the second one is done, or waits for a lock. */
static void await_second(const race *race, const running *r)
{
    while (!done(r) && !quick_waits(race)) {}
}

void race_await_lock(const race *r)
{
    while (!quick_waits(r)) {}
}

static void kill_first(const race *race)
{
    int64_t session = held_session(race);
    if (session) my_bed_exec(race->my, "KILL %lld", (long long)session);
}

void race_meet(race *r, race_call first, void *first_answer, race_call second, void *second_answer, bool kill)
{
    running one, two;
    my_bed_exec(r->my, "DO GET_LOCK('pawl_race_%d', 60)", (int)getpid());
    begin(&one, first, r->slow, first_answer);
    await_first(r, &one);
    begin(&two, second, r->quick, second_answer);
    await_second(r, &two);
    if (kill && !done(&one)) kill_first(r);
    my_bed_exec(r->my, "DO RELEASE_LOCK('pawl_race_%d')", (int)getpid());
    pthread_join(one.thread, NULL);
    pthread_join(two.thread, NULL);
}
