/* What the tests of the SQLite store share: a folder of their own, handles on a store in it, short forms of calls. */
#ifndef TESTS_SQLITE_SUPPORT_H
#define TESTS_SQLITE_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "store/sqlite/inner.h"
#include "store/sqlite/sqlite.h"
#include "store/store.h"
#include <string.h>
#include <sys/types.h>

#define LEASE (30 * PAWL_SECOND)

typedef struct place {
    char dir[160], path[200], url[220];
    virtual_clock clock;
    pawl_arena *arena;
    pawl_error err;
    pawl_id last_id;
} place;

/* For cmocka: *state is a place with an empty folder; the folder goes with it. */
int place_new(void **state);
int place_free(void **state);

pawl_store_options options_of(place *p);
pawl_store *open_store(place *p);                            /* must work */
pawl_store *open_shared(place *p);                           /* with shared_file */
pawl_status try_open(place *p, const pawl_store_options *o); /* closes it again if it worked */
static inline sqlite_store *inside(pawl_store *store) { return (sqlite_store *)store; }

int64_t join(place *p, pawl_store *store);
pawl_id new_id(place *p);
pawl_op *insert_op(place *p, const char *key);           /* of type "t" in queue "q", payload "{}" */
pawl_op *finish_op(place *p, pawl_id id, int64_t fence); /* succeeded */
pawl_status apply_one(place *p, pawl_store *store, int64_t node, int64_t number, pawl_op *op);
pawl_id insert_one(place *p, pawl_store *store); /* as a one-shot command; must be created */
int claim_some(place *p, pawl_store *store, int64_t node, int count, pawl_claimed *tasks,
               pawl_news *news); /* bodies: the caller's */
void free_bodies(pawl_claimed *tasks, int count);
pawl_state state_of(place *p, pawl_store *store, pawl_id id); /* NONE: not stored */

/* A connection of the host program's own to the same file, and SQL on it. */
sqlite3 *host_open(place *p);
void host_exec(sqlite3 *db, const char *sql); /* must work */
int64_t host_int(sqlite3 *db, const char *sql);

/* Another process. It is made before this one opens anything (SQLite's handles do not survive a fork) and acts when told to. */
typedef struct child {
    pid_t pid;
    int go, said;
} child;

child child_new(place *p, void (*act)(place *p, int said)); /* exits with 0 after act */
void child_go(child *c);
void child_say(int said, int64_t what);
int64_t child_hear(child *c);
void child_wait(child *c); /* must have exited with 0 */
void child_kill(child *c);

#define assert_ok(p, status)                                                          \
    do {                                                                              \
        pawl_status status_ = (status);                                               \
        if (status_) fail_msg("%s: %s", pawl_status_name(status_), (p)->err.message); \
    } while (0)

/* The call failed as it should, and its message says so. */
#define assert_refused(p, status, wanted, text)                                                                  \
    do {                                                                                                         \
        pawl_status status_ = (status);                                                                          \
        assert_string_equal(pawl_status_name(status_), pawl_status_name(wanted));                                \
        if (!strstr((p)->err.message, (text))) fail_msg("\"%s\" does not say \"%s\"", (p)->err.message, (text)); \
    } while (0)

#endif
