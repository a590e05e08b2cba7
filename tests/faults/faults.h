/* What the fault tests share: sources of failures, a ledger of what was acknowledged, a world with an engine in it, scenes.
 *
 * A scene is a short piece of a program's life with an engine. It is played again and again, each time with another call to memory or to
 * the disk failing. Meanwhile the ledger writes down what the engine said; afterwards the store must agree with the ledger.
 */
#ifndef TESTS_FAULTS_FAULTS_H
#define TESTS_FAULTS_FAULTS_H

#include "faults/disk.h"
#include <pawl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sqlite3.h>

/* ---- sources of failures -------------------------------------------------------------------------------------------------------- */

extern countdown no_fault; /* that of a world in which nothing fails */

/* The engine's memory: an allocator that counts its blocks. */
extern countdown memory_fault;
extern atomic_long memory_blocks;
extern const pawl_allocator memory_allocator;

/* SQLite's own memory. Before anything else of SQLite is used. */
extern countdown sqlite_memory_fault;
bool sqlite_memory_install(void);

/* ---- the ledger ----------------------------------------------------------------------------------------------------------------- */

typedef enum answer { ANSWER_OK = 1, ANSWER_UNKNOWN, ANSWER_NO } answer;

typedef struct entry { /* one task somebody wanted to have */
    char tag[24];      /* unique; stored with the task as created_by and headers */
    answer answer;     /* UNKNOWN: also while the call is under way */
    pawl_id id;        /* 0: never told */
    pawl_state must;   /* told by a hook or by a call that it ended so; 0: not told */
    bool shared;       /* keyed or retried: its tag says nothing */
    bool resolved;     /* acknowledged or retried */
    bool transaction;  /* dispatched inside a transaction of the program's own */
    pawl_id retried_as;
    int parent; /* spawned by entry parent - 1: there exactly if that one succeeded */
    int runs, ends;
} entry;

#define ENTRIES_MAX 200

typedef struct ledger {
    entry entries[ENTRIES_MAX];
    int count;
    int paused;      /* queue "side": 1 known to be paused, 0 known not to be, -1 unknown */
    int64_t now_us;  /* the engine's time at the last call */
    int64_t gone_us; /* how far the clock was moved in all */
    bool swept;      /* so far that retention may have taken what is finished */
} ledger;

entry *ledger_new(ledger *l, const char *kind);
entry *ledger_find(ledger *l, const char *tag);
entry *ledger_by_id(ledger *l, pawl_id id);

/* ---- the world ------------------------------------------------------------------------------------------------------------------ */

#define DEFERRED_MAX 8

typedef struct world {
    char dir[128], path[160], url[180];
    bool sqlite, shared_file;
    countdown *source;
    bool memory_source; /* then NO_MEMORY is what a failure should be called */
    ledger *book;
    pawl *p;
    sqlite3 *host;      /* the program's own connection, */
    sqlite3_stmt *undo; /* and its ROLLBACK, which must work without memory */
    pawl_run *deferred[DEFERRED_MAX];
    int deferred_count;
    bool handlers_known;
    bool one_shot;     /* its ids are drawn inside the transaction: an unknown outcome has none */
    bool settling;     /* handlers take the short way */
    int calls;         /* of pawl that were tried */
    char problem[800]; /* the first thing that is wrong; empty: nothing */
    pawl_error err;
} world;

bool world_new(world *w, const char *store, ledger *book);
void world_free(world *w);
void problem(world *w, const char *fmt, ...) PAWL_PRINTF(2, 3);

/* The call's answer must be OK, or, after a failure, an error that fits. True: OK. */
bool tried(world *w, pawl_status status, const char *call);
#define TRY(call) tried(w, (call), #call)

bool world_open(world *w, pawl_options options); /* inline, with the world's clock, allocator and store */
void world_start(world *w);                      /* queues and handlers too */
void world_close(world *w, bool must);           /* w->p; must: it has to say that all is well */
void world_advance(world *w, int64_t us);
entry *world_send(world *w, const char *type, pawl_task task); /* NULL: not stored, or not known */
void world_finish_deferred(world *w);
void world_cancelled(world *w, entry *e); /* a cancel was acknowledged */

void world_recover(world *w);   /* nothing fails any more: the same engine must work as if nothing had */
void world_judge(world *w);     /* a new engine finds what the ledger says, runs it all, and the rows are sound */
void judge_ledger(world *w);    /* the open engine agrees with the ledger */
void judge_settled(world *w);   /* and everything has ended */
void judge_integrity(world *w); /* SQLite's own check */
void judge_rows(world *w);      /* that, and tables that agree with each other */

/* ---- scenes --------------------------------------------------------------------------------------------------------------------- */

typedef struct scene {
    const char *name;
    bool sqlite_only;
    bool shared_file;
    void (*prepare)(world *w); /* nothing fails yet; NULL: opened and started */
    void (*act)(world *w);
} scene;

extern const scene scenes[];
extern const int scenes_count;

void story_act(world *w);          /* all of a task's life in one piece, for the loss of power */
extern void (*story_moment)(void); /* called where everything said so far is in the ledger */

bool handlers_register(world *w);
void host_roll_back(world *w); /* if a transaction of the program's is open */

#endif
