/* pawl/store.h: the contract between the engine and a store, for people who write one.
 *
 * A store keeps tasks. It decides nothing about policy: it applies operations atomically, grants leases under the rules below and
 * answers questions. The engine is the only caller. Everything the engine knows about time that matters between nodes (due,
 * expired) comes from the store's clock.
 *
 * WORDS
 *   node      one start of one process that runs tasks. Has a life row (alive or dead) and a heartbeat (expires, renewal number).
 *   lease     task X belongs to node N under fence F. Valid while N is alive.
 *   fence     grows with every lease of a task, and whenever a lease is taken back. A write with another fence is refused.
 *   lane      one stream of batches of one node; at most one batch of a lane is unanswered.
 *   receipt   (node, lane) -> number and results of the last batch applied.
 *   family    what a task has to do with others: parents it waits for, and the batch of tasks that it belongs to.
 *   budget    that of one (type, rate key) under a rate limit. A slot of it is the right to start within [slot, slot + L).
 *   spot      what a concurrency limit counts; a place of it is the right to be leased.
 *
 * ANSWERS. Every callback returns
 *   PAWL_OK           it happened, and is durable;
 *   PAWL_UNAVAILABLE  it did not happen and may work later;
 *   PAWL_UNKNOWN      it may have happened (a commit was sent and its answer lost). The engine sends the same batch again under
 *                     the same number; other calls are safe to repeat by their nature. A claim or a rescue so answered may
 *                     still take effect, but not later than a quarter of the node's lease after the answer;
 *   anything else     it did not happen and will not work by repetition (CORRUPT, SCHEMA, DENIED, NO_MEMORY, ...).
 * Results inside a call (op results, claimed tasks, ...) mean something only after PAWL_OK.
 *
 * MEMORY. What a callback answers beyond plain numbers it allocates from the arena it was given, except claimed tasks, whose bodies
 * are blocks of their own (pawl_body_copy) that the engine owns from then on.
 *
 * THREADS. apply, claim, renew, rescue, take_ids, register_node, leave, held, sweep, set_gate and load come from one thread at a time if `lanes` is
 * 1, else from up to lanes + 2 threads: renew has its own, and so have the batches of lane number `lanes`, RESERVEs that may take long. read,
 * tx_apply, backup and watch_check may come from any thread at any time and must not wait for a write under way longer than the store's own
 * lock wait.
 *
 * RATE LIMITS. Limits are stored (LIMIT): of a type, or of one key of it, which counts more. Slots are taken by the rules of core/rate,
 * bit for bit (src/store/budget.h has them for stores in C); the clock is read once the budget is locked. Whoever takes slots in one call
 * takes all of a budget with one write of its row. A slot is taken
 *   - by an INSERT of a task that is due and whose type and rate key have a limit. With budget: only if it is leased, for who stores it
 *     pending does not know when it will start. Without: it is stored pending with run_at = slot, and is not looked at before. Beyond
 *     the horizon, or to be discarded, or of an `ordered` key: stored without a slot;
 *   - by RESERVE, of the holder of a lease that came without a slot, or too late for it.
 * Where RESERVE finds a slot far away, the store may give others of the lane that are due and would fare no better theirs in the same
 * commit, and says how many (`along`): each is counted once, by one RESERVE. Until they have them they are a flood: a claim that has less room than is due, and whose first task would wait more than a second for its budget, leaves
 * all but two of its room, or half of it if that is less than four, to others of the priority, of such lanes to the last ones; and says if
 * they took less (`flooded`). So nobody waits for another key's slots.
 * A pending task that has a slot has it at run_at. It is given back, if it is the budget's last, by whatever ends or replaces the task
 * before its time. A limit that changes, and a clock that steps back, begin a new epoch of the budget: slots of an older one are void.
 *
 * CONCURRENCY LIMITS. A bound (BOUND) says how many leases a queue, a type, or a rate key of a type may have at a time. What it counts
 * is a spot: (scope, name, key); a bound of scope KEYS has a spot for each key, and one key may have a bound of its own, which counts more.
 * A task is under up to three bounds, asked in the order QUEUE, TYPE, KEYS (that only if it has a rate key). Each lease of it has
 * a place of each spot: a row (spot, number), unique, with the lowest number that is free. Never a count of leases.
 *   - Places are taken in the transaction that grants the lease, all or none. An INSERT under any bound is never leased at birth, and a
 *     claim grants such tasks only within `free`.
 *   - They are freed in the transaction that ends the lease, however it ends: FINISH, RELEASE, RESERVE with MOVED, taken back, rescue.
 *   - A due task that finds a spot full is blocked there: still PENDING, but outside what claims look at. An INSERT may see that, too.
 *     Claims block what they meet, and go on to others.
 *   - Whoever frees a place, or takes a task away that wanted one (CANCEL, an INSERT that is UPDATED, a claim that blocks it at its KEYS
 *     spot), offers the free places of those spots in the same transaction: of each lane (queue, type, suspicion) as many of the blocked tasks,
 *     by priority, run_at and id, are unblocked. A place so offered is free for anybody until a claim takes it. So no task is blocked
 *     beside a free place unless others of its lane stand ready for it; and since all tasks of a lane are under the same bounds but
 *     for KEYS, one that is blocked at a QUEUE or TYPE spot may stand for those behind it at its KEYS spot.
 *   - `ordered` (KEYS, most 1): the place belongs to the task until it has ended for good. An INSERT takes it, if it is free, or is
 *     blocked, due or not; when it is freed, the blocked one with the lowest id gets it and is unblocked, in the same transaction.
 *     One that waited for parents joins the line when a claim first meets it.
 *   - A bound that is put takes places for the leases that are held by then, also more than it has. Lowered, it takes nothing
 *     away: nobody gets a place until fewer are taken. Raised, or dropped, it offers what is free now, in pages (`move`).
 *   - batch.unblocked and news.unblocked tell the node itself; others are woken as by any commit that concerns them.
 * Whoever looks at a spot in order to write holds it locked: a task is blocked, unblocked, granted or ended under the locks of its spots.
 *
 * TENANTS. In a queue whose tenants take turns (BOUND, scope TENANTS) a claim goes, within one priority, from tenant to tenant, in a
 * fixed order and from where the last claim ended, and takes from each as many tasks as its weight says, by run_at and id. What a tenant
 * could not use is not saved up; what a claim had no room for is left to the next one. INSERTs are not leased at birth there.
 *
 * LOCK ORDER inside a batch, on every store: own life row, receipt, limits and budgets, spots by number, schedules by name, keys,
 * tasks by id, batches of tasks by id (descending: a batch before the one it is within), rollups, heartbeat.
 */
#ifndef PAWL_STORE_H
#define PAWL_STORE_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_STORE_VERSION 1

/* ---- helpers for stores -------------------------------------------------------------------------------------------------- */

typedef struct pawl_arena pawl_arena; /* memory that is freed all at once */

PAWL_API void *pawl_arena_alloc(pawl_arena *arena, size_t size);    /* zeroed, aligned; NULL: no memory */
PAWL_API char *pawl_arena_str(pawl_arena *arena, const char *text); /* a copy; NULL stays NULL (and NULL: no memory) */
PAWL_API char *pawl_arena_bytes(pawl_arena *arena, const void *data, size_t n); /* a copy with a NUL behind it */
PAWL_API const pawl_allocator *pawl_arena_allocator(pawl_arena *arena); /* takes from the arena; its release does nothing */

/* What an examination has found so far. Text is cut to fit; beyond PAWL_FINDINGS_MAX nothing is added. */
typedef struct pawl_findings pawl_findings;
#define PAWL_FINDINGS_MAX 64
PAWL_API void pawl_find(pawl_findings *f, const char *check, pawl_verdict verdict, const char *fmt, ...) PAWL_PRINTF(4, 5);
PAWL_API void pawl_advise(pawl_findings *f, const char *fmt, ...) PAWL_PRINTF(2, 3); /* what to do about the last finding */

/* Types that nobody knows. `nodes` has nodes and node_types; of a queue that no living node serves every type counts as known, for then the
 * queue is the news. Of `most` due tasks and more only so many were counted. */
struct pawl_query;
PAWL_API bool pawl_type_known(const struct pawl_query *nodes, const char *queue, const char *type);
PAWL_API void pawl_find_unknown_type(pawl_findings *f, const char *queue, const char *type, int64_t due, int64_t most);

/* The clock a store on this machine uses. A store with a clock of its own (a database server) ignores it. */
typedef struct pawl_clock {
    int64_t (*wall_us)(void *ctx); /* microseconds since 1970; may jump */
    int64_t (*boot_us)(void *ctx); /* microseconds since boot, suspend included; never jumps */
    const char *boot_id;           /* another boot id: every boot_us stored before means nothing any more */
    void *ctx;
} pawl_clock;

/* The part of a task that is written once. Strings that are not set are NULL, but tenant: "" is no tenant. */
typedef struct pawl_body {
    pawl_id id;
    const char *type, *queue, *tenant, *key, *content_type, *created_by, *traceparent, *headers;
    pawl_bytes payload, rate_key; /* data NULL: none */
    int priority;
    int max_attempts;   /* 0: by policy of whoever runs it */
    int64_t timeout_us; /* 0: by policy, negative: none */
    pawl_audit audit;   /* as the task says; DEFAULT: by policy */
    pawl_id retry_of;
    int64_t created_us;            /* set by the store at insert */
    struct pawl_body_block *block; /* the memory it lies in, which counts who holds it; NULL: none of pawl_body_copy */
} pawl_body;

/* One block that holds the body and all it points to (payload followed by a NUL). A body that nobody changes any more may be shared
 * instead: a copy that costs nothing, if `from` is in a block of the same allocator, and a real one otherwise. Either is given back with
 * pawl_body_free. */
PAWL_API pawl_body *pawl_body_copy(const pawl_allocator *allocator, const pawl_body *from);
PAWL_API pawl_body *pawl_body_share(const pawl_allocator *allocator, pawl_body *from);
PAWL_API void pawl_body_free(const pawl_allocator *allocator, pawl_body *body);

/* ---- operations ----------------------------------------------------------------------------------------------------------- */

typedef enum pawl_op_kind {
    PAWL_OP_INSERT = 1, /* a new task, perhaps leased at birth */
    PAWL_OP_START,      /* the lease's holder is about to run it: clears "not started", may set the start mark */
    PAWL_OP_FINISH,     /* the run ended for good */
    PAWL_OP_RELEASE,    /* back to pending: retry, snooze, interrupted, never started */
    PAWL_OP_PROGRESS,   /* what a run reports on the way */
    PAWL_OP_CANCEL,     /* somebody wants it cancelled */
    PAWL_OP_RETRY,      /* somebody wants a finished task again */
    PAWL_OP_ACK,        /* a dead letter is acknowledged */
    PAWL_OP_QUEUE,      /* pause or resume a queue */
    PAWL_OP_RESERVE,    /* the lease's holder asks for a slot */
    PAWL_OP_LIMIT,      /* put or drop the rate limit of a type, or of one key of it */
    PAWL_OP_BOUND,      /* put or drop a concurrency limit, or say whether tenants take turns */
    PAWL_OP_SCHEDULE,   /* put or drop a schedule: see pawl_schedule_put */
    PAWL_OP_STEP,       /* a schedule goes on: occurrences become tasks or are skipped. See pawl_step */
    PAWL_OP_BATCH,      /* open, close or cancel a batch of tasks: see pawl_batch_put */
    PAWL_OP_SETTLE      /* those who wait for what has ended are told, up to `limit` of them: see FAMILIES */
} pawl_op_kind;

typedef enum pawl_op_result {
    PAWL_OP_NONE = 0, /* not applied yet */
    PAWL_OP_DONE,     /* as asked. INSERT: created */
    PAWL_OP_EXISTING, /* INSERT, RETRY: out_id is the task that was there; nothing changed */
    PAWL_OP_UPDATED,  /* INSERT: a live task of the key had not started; out_id's body, time, priority and queue were replaced */
    PAWL_OP_REPLACED, /* INSERT: the key's last task is finished; the new task took the key */
    PAWL_OP_ASKED,    /* CANCEL: leased and started; its holder will be told */
    PAWL_OP_STALE, /* START, FINISH, RELEASE, PROGRESS, RESERVE: not leased under this fence any more. SCHEDULE, STEP: another version */
    PAWL_OP_CANCELLING, /* START, RESERVE: the lease is good, but a cancel was asked; not started */
    PAWL_OP_NOT_FOUND, /* INSERT, BATCH: out_id is the parent or batch that there is not. LIMIT, BOUND: there is none to be dropped or
                           resumed; nothing changed */
    PAWL_OP_CONFLICT,  /* the task's state does not allow it. INSERT: out_id is the batch that is closed */
    PAWL_OP_COLLISION, /* INSERT: the id is taken, and the caller did not say that it might be */
    PAWL_OP_FULL,      /* INSERT: the queue's depth limit; nothing of the group was stored */
    PAWL_OP_REFUSED,   /* the store cannot hold it (a row too large, bytes it cannot keep) */
    PAWL_OP_CLOSED, /* INSERT, CANCEL, RETRY, ACK, QUEUE, LIMIT, BOUND, SCHEDULE, STEP, BATCH: the gate is shut (pawl_gate); nothing
                       changed */
    PAWL_OP_MOVED, /* RESERVE: the slot is far; the task is pending with it, and the lease has ended. A task of a STEP: it waits */
    PAWL_OP_BEYOND /* RESERVE: the slot is beyond the horizon, or it is not to wait; nothing was taken, the lease is kept */
} pawl_op_result;

/* How an execution ended, for its attempt row. */
/* clang-format off */
#define PAWL_ATTEMPT_TABLE(X)                                                                                              \
    X(RUNNING, "running") X(SUCCEEDED, "succeeded") X(RETRY, "retry") X(SNOOZED, "snoozed") X(FAILED, "failed")             \
    X(CANCELLED, "cancelled") X(TIMEOUT, "timeout") X(INTERRUPTED, "interrupted") X(RESCUED, "rescued") X(LEASE_LOST, "lease_lost")

typedef enum pawl_attempt_outcome {
    PAWL_ATTEMPT_NONE = 0, /* it never started: no attempt row */
#define X(name, text) PAWL_ATTEMPT_##name,
    PAWL_ATTEMPT_TABLE(X)
#undef X
    PAWL_ATTEMPT_COUNT
} pawl_attempt_outcome;
/* clang-format on */

PAWL_API const char *pawl_attempt_outcome_name(pawl_attempt_outcome outcome);

/* What FINISH and RELEASE say about the execution. */
typedef struct pawl_execution {
    pawl_attempt_outcome outcome;
    int number;                      /* ordinal of this execution: `runs` of the lease + 1 */
    int64_t started_us, finished_us; /* by the node's wall clock */
    const char *code, *error;        /* NULL: none */
    pawl_bytes log;                  /* lines: "<us> <level digit> <text>\n", text without newlines; empty: none */
    int log_lines;
    int progress; /* -1: never reported */
    const char *progress_text;
} pawl_execution;

typedef struct pawl_op {
    pawl_op_kind kind;
    pawl_op_result result;
    pawl_id id;       /* the task; INSERT: 0 = the store draws one (out_id). QUEUE: 0 */
    int64_t fence;    /* START, FINISH, RELEASE, PROGRESS */
    const char *by;   /* CANCEL, RETRY, ACK, QUEUE: for the operator log; NULL: no row */
    pawl_audit audit; /* the resolved level, never DEFAULT: which audit rows to write */

    union {
        struct {
            pawl_body *body;
            int64_t delay_us;    /* run_at = the store's now + delay */
            int64_t at_us;       /* or this, if not 0; a past instant means now */
            bool ask_lease;      /* lease it to the batch's node if due, the queue is not paused and nothing forbids */
            bool may_exist;      /* the caller handed the id back after an unknown outcome: EXISTING instead of COLLISION */
            int64_t depth_limit; /* refuse (FULL) if the queue then holds more unfinished tasks than this; 0: none */
            int64_t missing;     /* answer, if known, to FULL: how many tasks must leave the queue first */
            int group;           /* operations of one batch with the same group > 0 are stored all or none, as far as FULL goes */
            const struct pawl_family *family; /* NULL: it has none */
        } insert;
        struct {
            bool mark; /* set the start mark: this task was rescued before */
        } start;
        struct {
            pawl_state to;      /* SUCCEEDED, FAILED or CANCELLED */
            const char *reason; /* FAILED: typed reason, e.g. "attempts_exhausted"; NULL: none */
            pawl_bytes result;
            const char *result_type, *result_ref;
            pawl_execution run;
            /* INSERTs committed if and only if this FINISH is DONE; never ask for a lease, never FULL; for an id that is taken the
             * store draws another. */
            struct pawl_op *spawns;
            int spawns_count;
        } finish;
        struct {
            int64_t delay_us; /* run_at = the store's now + delay; negative: run_at stays (it never started) */
            int64_t slot_us;  /* not 0: it never started and has this slot (of `epoch`): run_at */
            int64_t epoch;
            pawl_bytes key;    /* with slot_us: the rate key, if the body has none */
            bool failure;      /* counts as a failed attempt */
            bool interruption; /* counts as an interruption */
            pawl_execution run;
        } release;
        struct {
            int percent;
            const char *text;
        } progress;
        struct {
            pawl_id new_id; /* for the new task; 0: the store draws one */
        } retry;
        struct {
            const char *note;
        } ack;
        struct {
            const char *type, *queue; /* if they are known: not for the store, but for what is told of it */
        } cancel;
        struct {
            const char *queue;
            bool pause;
        } queue;
        struct {
            pawl_bytes key;  /* the rate key, if the body has none */
            int64_t near_us; /* a slot farther away than this ends the lease: MOVED */
            bool again;      /* it had a slot before: neither horizon nor `discard` is asked */
            int along;       /* answer: others that were moved to slots of theirs with it, 0 unless MOVED; */
            int along_own;   /* and how many of them have its key. Both also if the answer comes from a receipt */
            pawl_rate rate;  /* answer to BEYOND: the limit that says so; stays as it is if that is not known (a receipt) */
        } reserve;
        struct {
            const char *type;
            pawl_bytes key; /* none: the type's own */
            pawl_rate rate; /* permits 0: no limit any more. Never one that cannot be kept */
            bool paused;    /* nothing of the key starts until it is put again without */
            bool keep_rate,
                keep_paused; /* the one or the other stays as it is stored, whatever is said here; without a limit: as said */
            bool
                initial; /* a node that starts tells its own, which pauses and resumes nothing: EXISTING if it is the one in force */
            int move;    /* and lets up to so many tasks with slots of the old limit ask anew at once; `more`: there are others */
            bool more;
            bool only_move; /* nothing is put, whatever is said here: only the moving goes on. EXISTING */
        } limit;
        struct {
            pawl_scope scope;
            const char *name; /* queue or type */
            pawl_bytes key;   /* KEYS: none = every key of the type that has no bound of its own. TENANTS: none = the queue */
            int most;         /* 0: no limit any more. TENANTS: the weight, or, of the queue, 1 = they take turns */
            bool ordered;     /* KEYS, most 1 */
            bool initial;     /* a node that starts tells its own: EXISTING if it is the one in force */
            int move;         /* offers up to so many blocked tasks what is free now; `more`: there are others */
            bool more;
            bool only_move; /* as that of LIMIT. TENANTS: if they take turns, a page more of the tasks that were there before */
        } bound;
        struct pawl_schedule_put *schedule;
        struct pawl_step *step;
        const struct pawl_batch_put *batch;
        struct {
            int limit;
            int settled; /* answer; 0 if it comes from a receipt */
        } settle;
    } u;

    /* Answers. */
    pawl_id out_id;    /* INSERT, RETRY: the task meant by the result */
    int64_t out_fence; /* INSERT: the lease's fence; 0: it was stored pending */
    int64_t
        out_run_at_us; /* INSERT, RELEASE: the store's time at which it falls due. RESERVE, and INSERT that was leased: the slot */
    int64_t
        out_until_us;  /* RESERVE, INSERT that was leased: where the right to start ends; 0: not known any more (the answer comes
                              from a receipt), so the slot is late; INT64_MAX: no limit */
    int64_t out_epoch; /* of that slot */
    pawl_state out_state; /* CANCEL, RETRY, EXISTING, STALE: the state found; NONE: no such task */
} pawl_op;

/* One atomic commit. Nothing in it depends on the order of its operations: a batch has at most one operation per task and per
 * (tenant, key). */
typedef struct pawl_batch {
    int64_t node; /* 0: a one-shot command: no receipt, no lease */
    int lane;
    int64_t number; /* 1, 2, 3, ... per (node, lane) */
    pawl_op **ops;
    int count;
    /* Answers. */
    int64_t store_now_us;
    bool node_dead; /* the node was declared dead: nothing was leased to it; the rest of the batch was applied */
    bool
        unblocked; /* tasks were unblocked: there may be something to claim. Also said if it is not known (the answer is a receipt) */
    bool schedules; /* something of a schedule changed (always so, if the answer comes from a receipt): see pawl_news */
    bool freed;     /* tasks that no operation names changed: they wait no more, or have ended, */
    bool unsettled; /* or not all were told who wait for what has ended: SETTLE. Both as `schedules` */
} pawl_batch;

/* ---- families -------------------------------------------------------------------------------------------------------------- */

/* A task may have parents, which are tasks or batches of tasks. It is WAITING until each of them is met, and PENDING then. A parent is
 * met when it has SUCCEEDED, and with PAWL_IF_FAILED_RUN when it has ended at all. One that FAILED or was CANCELLED otherwise
 *   PAWL_IF_FAILED_CANCEL  ends the child as CANCELLED, reason "parent_failed" or "parent_cancelled", whatever its other parents do;
 *   PAWL_IF_FAILED_HOLD    holds it: it waits on, until that parent is RETRYed (the new task takes its place) or the child is cancelled.
 *
 * INSERT looks at each parent in turn: NOT_FOUND if there is none of that id (and no result of it is kept, see below), and nothing is
 * stored. One that has ended already is met, holds or ends the child in the same commit. Of a task that does not have to wait everything
 * is as without a family; else it is stored as WAITING, never leased and without a slot, and becomes due at run_at, or when it is freed,
 * whichever is later. As parents are there before their children there are no cycles.
 *
 * A batch of tasks has members: tasks, and batches that were opened `within` it. Members come while it is open; a spawn of a member
 * may join it even when it is closed. It ends when it is closed and all of its members have ended: FAILED if one of them did, else
 * CANCELLED if one was, else SUCCEEDED. It counts as one member of the batch it is within. Ids of batches and tasks are of one kind.
 *
 * A keyed INSERT that has a family and meets a live task of its key is EXISTING: a family is never replaced. One without that meets a
 * WAITING task is UPDATED, and the task waits on.
 *
 * The end of a task or batch (whatever ends it: FINISH, also in a transaction of the caller's; CANCEL; RELEASE of a task whose cancel
 * was asked; a rescue; a body that cannot be read; another parent's policy) is told to those who wait for it. Who that is may be a
 * hundred thousand, so it is done in steps: the commit of the end leaves a row that says what is to be told (unsettled), and settles
 * as much as it can, at most about PAWL_SETTLE_AT_ONCE tasks, if it is an apply. What is left, and what ends by it, is settled by SETTLE
 * operations, of any node; batch.unsettled and news.unsettled say that there is something. The same goes for the members of a batch that
 * is cancelled. Between, a child is WAITING though its parent has ended.
 *
 * An INSERT that names a parent locks its row and looks whether it has ended; an end reads who waits for it after that row is
 * gone. So whichever comes second sees the other, and no child waits for ever.
 *
 * What of a parent its children may ask for (PAWL_QUERY_RELATIVES: state, result, result_type, result_ref, error) is kept as long as one
 * of the children is stored, even when the parent itself is swept; it takes no others then (NOT_FOUND). A batch goes when it has ended and is as old as a task of its
 * state may be. */
#define PAWL_SETTLE_AT_ONCE 500

typedef struct pawl_kin {     /* a parent, or the batch */
    pawl_id id;               /* 0 with op NULL: none */
    const struct pawl_op *op; /* not NULL: instead, what this INSERT or BATCH stored: one that stands before in the same batch of
                                 operations, or was answered before. If it was FULL or a COLLISION so is this one; if it stored and found
                                 nothing else: CONFLICT. In spawns an id may be that of an earlier spawn, too */
} pawl_kin;

typedef struct pawl_family {
    const pawl_kin *parents; /* none twice */
    int parents_count;
    pawl_if_failed if_failed;
    pawl_kin batch;
} pawl_family;

typedef enum pawl_batch_act { PAWL_BATCH_OPEN = 1, PAWL_BATCH_CLOSE, PAWL_BATCH_CANCEL } pawl_batch_act;

/* BATCH; op.id is its id (OPEN: 0 = the store draws one).
 *   OPEN    DONE; EXISTING: there is one of this name (out_id); COLLISION: the id is taken; NOT_FOUND, CONFLICT: `within`
 *   CLOSE   DONE; NOT_FOUND; CONFLICT: it is closed already
 *   CANCEL  DONE: it takes no members any more, and all that have not ended are cancelled, as by CANCEL; EXISTING: that was asked before;
 *           NOT_FOUND; CONFLICT: it has ended */
typedef struct pawl_batch_put {
    pawl_batch_act act;
    const char *name; /* OPEN; never NULL */
    pawl_id within;   /* OPEN; 0: none */
} pawl_batch_put;

/* Relatives of a task or batch, by id. */
typedef struct pawl_relatives_query {
    pawl_id of;
    pawl_relation relation;
    pawl_id after; /* 0, or the last one seen */
    int limit;
    bool waited_for; /* PARENTS: only those that are not met */
    /* Answers. */
    pawl_relative *relatives;
    int count;
    bool more;
} pawl_relatives_query;

/* ---- schedules ------------------------------------------------------------------------------------------------------------- */

/* A schedule is a row under its name. What it means (spec) and what comes next is the engine's business, which computes it and writes it
 * back with the version it has read: of those who do so at once, one succeeds. The store's own part:
 *
 *   - a version (the store's time when it was created, at first) that grows by 1 with whatever changes the row, but for counters: no
 *     version comes again, not even that of a schedule that was dropped;
 *   - occurrences, unique by (schedule, occurrence), with the state of each (pawl_occurrence_state). Those that are settled (neither
 *     WAITING nor OPEN) are kept as far as they are among the last PAWL_OCCURRENCES_KEPT of their schedule, in the order they were
 *     decided in;
 *   - when the task of an OPEN occurrence ends, whatever ends it (FINISH, also in a transaction of the caller's; CANCEL; RELEASE of a
 *     task whose cancel was asked; a rescue; a body that cannot be read), in the same commit:
 *       the occurrence is SUCCEEDED, FAILED, CANCELLED, or UNSTARTED if no execution of it ever started;
 *       the schedule's counters follow: succeeded, failed; UNSTARTED takes 1 from runs (never below 0);
 *       if the schedule is enabled, and `watch` is set or one of its occurrences is WAITING: look_us = now, and a new version;
 *       if it SUCCEEDED: every enabled schedule whose `after` is this one's name gets a WAITING occurrence, that task's id (unless it is
 *       there), look_us = now, and a new version;
 *   - the earliest look_us of all enabled schedules is told in pawl_news. A schedule that is off is never due.
 *
 * Whether a row is due (look_us <= now) is decided by the store's clock. */
#define PAWL_OCCURRENCES_KEPT 100
#define PAWL_STEP_MOST 202 /* occurrences in one STEP */

typedef struct pawl_schedule_row {
    const char *name, *spec, *after; /* after NULL: none */
    pawl_bytes payload;
    int64_t version;
    pawl_off off;
    const char *reason;                      /* NULL: none */
    int64_t anchor_us;                       /* what the engine counts from */
    int64_t next_us, occurrence_us, last_us; /* the engine's; 0: none */
    int64_t look_us;                         /* 0: only when something happens */
    bool watch;
    int64_t runs, fired, skipped, succeeded, failed; /* counters */
    int64_t open, waiting;                           /* occurrences in these states; in lists they need not be told */
    pawl_id last_task;
    int64_t created_us, changed_us; /* changed: by SCHEDULE */
    pawl_occurrence *occurrences;   /* GET: newest first. DUE: WAITING ones, oldest first, up to 100 */
    int occurrences_count;
} pawl_schedule_row;

/* SCHEDULE: stores the row with a new version. Counters, occurrences and last_us of a row that is there stay; look_us is ignored (none)
 * if it is off. DONE: created; UPDATED: replaced; EXISTING: version was 0 and there is one; STALE: there is one with another version;
 * NOT_FOUND: version was not 0 and there is none. Dropped (DONE): with all its occurrences; its tasks stay. */
typedef struct pawl_schedule_put {
    const pawl_schedule_row
        *row;  /* name, spec, after, payload, off, reason, anchor, next, occurrence, look, watch count; version: of the
                                     row that is replaced, 0: there must be none */
    bool drop; /* only name and version count; version 0: any */
} pawl_schedule_put;

typedef struct pawl_fate { /* of an occurrence, or of several */
    int64_t occurrence;
    bool fires;      /* the next of `tasks` is for it; else it is skipped, and those after it up to `count` */
    int64_t count;   /* of one that fires: 1 */
    const char *why; /* as in pawl_occurrence; of one that fires may be NULL */
} pawl_fate;

/* STEP: nothing happens but with the right version (else STALE; NOT_FOUND: there is no such schedule). In the order of `fates`:
 *   skipped: a SKIPPED occurrence, also of one that is WAITING (of any other that is there: nothing), `skipped` grows by count;
 *   fires: its task's result is
 *     EXISTING  the occurrence is there and not WAITING; nothing changes;
 *     CONFLICT  overlap is FORBID and one of its occurrences is OPEN: SKIPPED, why "overlap" (with `keep`: nothing is recorded);
 *     MOVED     overlap is QUEUE and one is OPEN: WAITING; but if another one waits: CONFLICT, as above;
 *     DONE      the task is stored as by a FINISH's spawn (no lease, never FULL, another id if it is taken), the occurrence is OPEN,
 *               runs and fired grow by 1, last_task is set.
 * Then the row's off, reason, next_us, occurrence_us, last_us, look_us and watch are set, unless `keep`, and it has a new version. */
typedef struct pawl_step {
    const char *name;
    int64_t version; /* 0: any */
    bool keep;
    pawl_off off;
    const char *reason;
    int64_t next_us, occurrence_us, last_us, look_us;
    bool watch;
    pawl_overlap overlap; /* never DEFAULT */
    const pawl_fate *fates;
    int fates_count;
    struct pawl_op *tasks; /* INSERTs, one for each fate that fires */
    int tasks_count;
} pawl_step;

/* What of the schedules is due, earliest look_us first, then by name. */
typedef struct pawl_due {
    int limit;
    size_t bytes; /* about so much of payloads, at most; but one row at least */
    /* Answers. */
    pawl_schedule_row *rows;
    int count;
    bool more;
    int64_t now_us;
    int64_t next_us; /* the earliest look_us of those that are not due; 0: none */
} pawl_due;

/* ---- claims ---------------------------------------------------------------------------------------------------------------- */

typedef struct pawl_want {
    const char *queue;
    int free;                 /* workers waiting: these tasks will start at once */
    int prefetch;             /* more that may wait a little */
    const char *const *types; /* the types this node knows */
    int types_count;
    bool any_type; /* it has a wildcard handler: types means nothing */
    bool solo;     /* a task that must run alone may be among them (one at most) */
    /* Answers. */
    int got;
    bool paused;
    bool more;    /* more are due than were asked for */
    bool flooded; /* with more: as far as was looked, all of it must wait for rate budgets, and for long. INSERTs may be leased
                            at birth beside it */
    bool fair;    /* its tenants take turns: what is claimed ahead would make them wait */
    int64_t next_due_us; /* the store's time at which the next one of these types falls due; 0: none is stored */
} pawl_want;

typedef struct pawl_claimed {
    pawl_body *body;
    int64_t fence;
    int64_t run_at_us;
    int runs, failures, rescues, interruptions;
    int want;         /* index of the want it answers */
    bool not_started; /* others may still take it back: START before running it */
    bool suspect;     /* was rescued: START with the mark before running it */
    bool solo;        /* no other suspect may run beside it in this process */
    bool limited;     /* its type and rate key have a limit: it starts only with a slot */
    int64_t until_us; /* limited: where the right to start that it has from run_at on ends; 0: it has none, RESERVE first */
    int64_t epoch;    /* of that slot */
} pawl_claimed;

typedef struct pawl_lease {
    pawl_id id;
    int64_t fence;
} pawl_lease;

/* A node whose heartbeat has lapsed while it holds leases. */
typedef struct pawl_lapsed {
    int64_t node;
    int64_t renewal;  /* its renewal number */
    bool proven_dead; /* its process is known to be gone: no need to wait */
} pawl_lapsed;

#define PAWL_LAPSED_MAX 16
#define PAWL_CANCELS_MAX 256

/* What claim and renew tell besides. */
typedef struct pawl_news {
    bool node_dead;
    bool closed; /* the gate is shut: nothing is granted, and every want was answered as if its queue were paused */
    int64_t store_now_us;
    int64_t foreign_expiry_us; /* until the earliest lease expiry of another node that holds leases; -1: no such node */
    pawl_lapsed lapsed[PAWL_LAPSED_MAX];
    int lapsed_count;
    pawl_lease cancels[PAWL_CANCELS_MAX]; /* leases of this node whose cancel was asked */
    int cancels_count;
    int64_t limits_version;  /* grows with every change of a limit; 0: there never was one */
    bool unblocked;          /* claim: tasks were unblocked, in any queue */
    int64_t schedule_due_us; /* the earliest look_us of all enabled schedules; 0: none */
    bool unsettled;          /* see FAMILIES: SETTLE */
} pawl_news;

typedef struct pawl_claim {
    int64_t node;
    pawl_want *wants;
    int wants_count;                 /* 0: only the news */
    const pawl_allocator *allocator; /* of bodies */
    /* Answers. */
    pawl_claimed *tasks; /* room for all that was wanted; the caller's */
    int tasks_count;
    pawl_news news;
} pawl_claim;

typedef struct pawl_renewal {
    int64_t node;
    pawl_bytes
        told; /* what the node tells about itself, for NODES: kept with the heartbeat, and gone with the node's life. data NULL: as
                      * before; len 0: nothing any more. At most 48 KiB */
    /* Answers. */
    int64_t held; /* leases the store says this node has */
    pawl_news news;
} pawl_renewal;

typedef struct pawl_rescue {
    int64_t node; /* the rescuer */
    int64_t victim;
    int64_t renewal; /* the renewal number seen twice */
    bool counts;     /* false: after an outage of the store, nobody is blamed */
    int limit;       /* tasks freed in this call at most */
    /* Answers. */
    bool refused;      /* the victim lives after all */
    int freed, failed; /* failed: ended as rescued_too_often */
    bool more;         /* call again for the rest */
    pawl_lease *tasks; /* the freed and the failed, for events; the caller's, room for `limit` */
} pawl_rescue;

typedef struct pawl_registration {
    const char *name;
    int64_t pid;
    const char *queues; /* comma-separated, for people and `why`; "" = dispatches only */
    const char *types;  /* comma-separated; "*" = any */
    int64_t lease_us;
    bool outlives; /* its leases may be in use when its process has ended: nothing but their end proves that it is dead */
    /* Answer. */
    int64_t node;
} pawl_registration;

/* Node numbers: 1..1023; an id is (milliseconds since 2025-01-01) << 22 | number << 12 | sequence. */
typedef struct pawl_ids {
    int64_t node;
    int number;       /* 0: take one; else raise the ceiling of this one */
    int64_t ahead_ms; /* how far beyond now (and beyond `used_ms`) the ceiling should be */
    int64_t used_ms;  /* the highest millisecond used so far */
    bool give_back;   /* leaving: lower the ceiling to used_ms and free the number */
    /* Answers. */
    int out_number;     /* differs from `number` if that one was lost to another owner */
    int64_t floor_ms;   /* use ids of milliseconds > floor (unless the number is the one it already had) */
    int64_t ceiling_ms; /* and < ceiling */
} pawl_ids;

#define PAWL_EPOCH_MS INT64_C(1735689600000) /* 2025-01-01T00:00:00Z */

typedef struct pawl_sweep {
    int64_t keep_succeeded_us, keep_cancelled_us, keep_resolved_us, keep_failed_us, keep_audit_us,
        keep_logs_us; /* < 0: for ever */
    int limit;        /* rows in this step at most */
    /* Answers. */
    int64_t removed;
    int64_t expiring; /* unresolved dead letters that will go within a week */
    bool more;
    int64_t next_us; /* microseconds until something falls due for removal; -1: nothing stored will */
} pawl_sweep;

/* ---- moving to another store ----------------------------------------------------------------------------------------------- */

/* Whether tasks may come and go; kept in the store.
 *
 * While it is shut (CLOSED, ARRIVING): INSERTs (spawns excepted), CANCEL, RETRY, ACK, QUEUE, LIMIT, BOUND, SCHEDULE, STEP and BATCH are
 * answered with PAWL_OP_CLOSED, also in transactions of the caller's own; claims grant nothing and say so in the news. Everything else works as
 * ever (START, FINISH, RELEASE, PROGRESS, SETTLE, renew, rescue, ...), so what runs comes to its end; and when no lease is held any more and
 * nothing is unsettled, nothing changes. Sweeps remove nothing unless the gate is OPEN.
 *
 * Each transaction looks at the gate itself. One that began before the gate was shut and commits later counts among `writers` until
 * it has ended. */
typedef enum pawl_gate_mode {
    PAWL_GATE_OPEN = 0,
    PAWL_GATE_LEAVING, /* a move copies what is finished; everything works */
    PAWL_GATE_CLOSED,  /* the tasks are about to be elsewhere, or are */
    PAWL_GATE_ARRIVING /* a move into this store is not complete */
} pawl_gate_mode;

typedef struct pawl_gate {
    pawl_gate_mode mode;
    const char *move;     /* the name of the move, the same at both stores; NULL: there was none */
    const char *peer;     /* the other store, for people: its URL without a password */
    const char *by;       /* who */
    const char *position; /* how far the move has come, in words of the mover's */
    const char *before;   /* set_gate: the position that must be there, else CONFLICT; "": none, NULL: any */
    bool discard;         /* set_gate, ARRIVING to OPEN: everything that was loaded goes, in the same commit */
    /* Answers. */
    int64_t at_us;     /* since when it has this mode, by the store's clock */
    const char *store; /* names this store among all */
    int64_t leases;    /* held by anybody */
    int64_t writers;   /* transactions under way that may not know that the gate is shut */
} pawl_gate;

/* A task with all that hangs on it, as another store can take it up. Nodes go by their names, for history; members that do not apply
 * are zero or NULL. */
typedef struct pawl_past_attempt { /* before the last one */
    int number;
    pawl_attempt_outcome outcome;
    int64_t started_us, finished_us, fence; /* finished_us 0: its node died */
    int log_lines;
    const char *node, *code, *error;
} pawl_past_attempt;

typedef struct pawl_past_log { /* of one attempt: see pawl_execution */
    int number;
    int64_t at_us;
    const char *text;
} pawl_past_log;

typedef struct pawl_past_change { /* a stored row of the audit trail */
    int number;
    int64_t at_us;
    pawl_state from, to;
    int64_t fence;
    const char *node, *detail;
} pawl_past_change;

typedef enum pawl_edge_state { PAWL_EDGE_UNTOLD, PAWL_EDGE_TOLD, PAWL_EDGE_HELD } pawl_edge_state;

typedef struct pawl_past_parent {
    pawl_id id; /* a task or a batch */
    pawl_edge_state
        state; /* UNTOLD: the child was not told of its end yet; TOLD: it was, or need not be; HELD: it failed, and holds it */
} pawl_past_parent;

typedef enum pawl_line { PAWL_LINE_NONE, PAWL_LINE_WAITS, PAWL_LINE_HOLDS } pawl_line;

typedef struct pawl_record {
    pawl_body body;
    pawl_state state; /* LEASED is loaded as PENDING, with a fence that the holder does not know */
    pawl_state born;  /* as it was inserted; NONE: the trail says so */
    pawl_audit level; /* resolved */
    bool holds_key;   /* it is the last task of its key */
    int suspicion;    /* 0 none, 1 suspect, 2 to run alone */
    int runs, failures, interruptions, rescues, strikes;
    int64_t fence;
    int64_t run_at_us,
        leased_us; /* 0: born leased, so as created. Where a pending task has a slot, run_at_us is 0: it is due, and asks anew */
    int64_t started_us, finished_us, run_us;
    const char *node;
    pawl_attempt_outcome outcome; /* of the last attempt; NONE: it ended without one */
    pawl_audit end_level;
    bool derived;      /* the trail of its last lease has no rows: it follows from this record */
    bool cancel_asked; /* while it ran */
    int log_lines;
    int progress; /* -1: never reported */
    const char *progress_text, *code, *error, *reason, *result_type, *result_ref;
    pawl_bytes result;
    pawl_id retried_as;
    int64_t resolved_us;
    const char *resolved_by, *note;
    const pawl_past_attempt *attempts;
    int attempts_count;
    const pawl_past_log *logs;
    int logs_count;
    const pawl_past_change *changes;
    int changes_count;
    /* Only of stores that keep families: */
    const pawl_past_parent *parents;
    int parents_count;
    pawl_if_failed if_failed; /* while it waits; it waits for those that are UNTOLD or HELD */
    pawl_id batch;            /* that it is a member of; the batch has counted it */
    pawl_line line; /* PENDING, of a rate key whose tasks are ordered: it waits in the line, or its turn is now. Only in a move */
} pawl_record;

#define PAWL_BUCKETS 96

typedef struct pawl_past_minute { /* of the rollups */
    int64_t minute;               /* since 1970 */
    const char *queue, *type;
    int outcome;                /* 1 dispatched, 2 succeeded, 3 failed, 4 cancelled, 5 retried, 6 rescued, 7 other runs */
    int64_t count, *wait, *run; /* PAWL_BUCKETS each, half octaves of microseconds; NULL: none */
} pawl_past_minute;

typedef pawl_act pawl_past_act;

typedef struct pawl_past_queue {
    const char *name;
    bool paused;
} pawl_past_queue;

typedef struct pawl_past_limit { /* one in force: of a type, or of one key of it */
    const char *type;
    pawl_bytes key; /* as stored */
    pawl_rate rate;
    bool paused;
} pawl_past_limit;

typedef struct pawl_past_budget { /* what is left of it: a row of store/budget.h */
    const char *type;
    pawl_bytes key; /* as stored */
    int64_t tat_us, period_us, seen_us, epoch;
    int tat_part, permits, burst;
} pawl_past_budget;

typedef struct pawl_past_bound { /* one in force; see BOUND */
    pawl_scope scope;
    const char *name;
    pawl_bytes key; /* of TENANTS the tenant, else as stored */
    int most;
    bool ordered;
} pawl_past_bound;

typedef pawl_schedule_row pawl_past_schedule; /* with all of its occurrences, that decided last first */
typedef pawl_batch_info pawl_past_batch;      /* its members say that they are */

typedef struct pawl_past_kept { /* what is kept of a parent that was swept */
    pawl_id id;
    pawl_state state;
    const char *error, *result_type, *result_ref;
    pawl_bytes result;
} pawl_past_kept;

typedef enum pawl_part {
    PAWL_PART_TASKS = 1, /* pages by id; each shows one moment, in which every task has one state */
    PAWL_PART_MINUTES,   /* pages by minute */
    PAWL_PART_ACTS,      /* pages by number */
    PAWL_PART_SETTINGS,  /* one page: queues, ids, audit_cut_us */
    /* Only of stores that keep rate limits: */
    PAWL_PART_LIMITS,  /* one page */
    PAWL_PART_BUDGETS, /* pages by number */
    /* Of those that keep concurrency limits: */
    PAWL_PART_BOUNDS, /* one page */
    /* Of those that keep schedules: */
    PAWL_PART_SCHEDULES, /* pages by number */
    /* Of those that keep families: */
    PAWL_PART_BATCHES, /* pages by id */
    PAWL_PART_KEPT     /* pages by id */
} pawl_part;

#define PAWL_STATE_BIT(state) (1u << (state))

/* One page of what a store holds. */
typedef struct pawl_dump {
    pawl_part part;
    int64_t after;    /* 0, then `next` of the page before */
    unsigned states;  /* TASKS: which to tell, as bits; 0: only counts and sums */
    int64_t since_us; /* TASKS: of the finished ones only what ended or was resolved since then; 0: all */
    int limit;        /* rows looked at, at most */
    size_t bytes;     /* TASKS, SCHEDULES, KEPT: about so much of them, at most; 0: whatever the rows have */
    bool no_counts;   /* TASKS: counts and sums need not be told */
    /* Answers. */
    int64_t next;
    bool more;
    pawl_record *tasks;
    pawl_past_minute *minutes;
    pawl_past_act *acts;
    pawl_past_queue *queues;
    pawl_past_limit *limits;
    pawl_past_budget *budgets;
    pawl_past_bound *bounds;
    pawl_past_schedule *schedules;
    pawl_past_batch *batches;
    pawl_past_kept *kept;
    int count;                          /* of whatever it is */
    int64_t counts[PAWL_STATE_COUNT];   /* tasks looked at, by state, told or not; */
    uint64_t sums[PAWL_STATE_COUNT];    /* and pawl_id_sum of their ids, added up */
    int64_t ceilings_ms[1024], last_id; /* SETTINGS: of the node numbers; drawn by the store itself */
    int64_t audit_cut_us;               /* SETTINGS: what would be older than this in a trail is not told; INT64_MIN: nothing */
} pawl_dump;

/* A number for each id, such that sums of many show whether they are the same ids: (low 31 bits) * 1812433253 + (the rest) * 69069. */
PAWL_API uint64_t pawl_id_sum(pawl_id id);

typedef enum pawl_loaded {
    PAWL_LOADED_NEW = 1,
    PAWL_LOADED_BEFORE, /* it was there: at most resolution and retried_as were brought up to date */
    PAWL_LOADED_TAKEN,  /* another task has its id: nothing was stored */
    PAWL_LOADED_KEY,    /* an import: its key is that of a live task; nothing was stored */
    PAWL_LOADED_ORPHAN  /* an import: it waits for one that is not here; nothing was stored */
} pawl_loaded;

typedef struct pawl_load {
    const pawl_dump *page; /* as dump answered it, of this store or another; tasks may be made by the caller */
    const char *
        move; /* NULL: an import, while the gate is not shut (else PAWL_MOVED). Else the gate must be ARRIVING under this name: */
    const char *before;   /* and at this position; at any other nothing is loaded, and `stale` says so */
    const char *position; /* where it is afterwards */
    pawl_loaded *results; /* of each task; the caller's; may be NULL */
    /* Answers. */
    bool stale;
} pawl_load;

/* ---- what nodes tell each other ------------------------------------------------------------------------------------------- */

/* A feed of facts, kept only while somebody listens, and the last PAWL_FEED_KEPT or so of them. They have numbers, each one more than the one before; whoever
 * reads sees them in that order, and none later that has a lower number than one seen. Facts are text of the engine's.
 *
 * One transaction of `feed`, by the store's clock: if listen_us is not 0, somebody listens from now for at least so long; if nobody did
 * until now, the next number stands for all that was not told meanwhile (`broken`: the last such number), and whoever else has the store open hears of it as of
 * any commit. Then, if anybody listens, the facts are added, of which nobody need hear: who listens looks now and then. */
#define PAWL_FEED_KEPT 20000

typedef struct pawl_feed {
    int64_t listen_us;
    const char *facts; /* NULL: none */
    int count;         /* of them */
    /* Answers. */
    int64_t last, broken;
    int64_t left_us; /* somebody listens for so long; 0: nobody does */
} pawl_feed;

typedef struct pawl_feed_row { /* facts as they were told together */
    int64_t last;              /* the number of the last of them */
    int count;
    const char *facts;
} pawl_feed_row;

/* ---- questions ------------------------------------------------------------------------------------------------------------- */

typedef enum pawl_query_kind {
    PAWL_QUERY_GET = 1, /* id -> info with attempts, or PAWL_NOT_FOUND */
    PAWL_QUERY_LIST,    /* filter -> page */
    PAWL_QUERY_TRAIL,   /* id -> trail */
    PAWL_QUERY_STATS, /* window_us -> stats (queues, live counts, rollups, steps); `workers, running, ready` stay 0. With name: of that queue
                           alone, without `throttled` and the past */
    PAWL_QUERY_NODES, /* -> nodes, and node_types[i], node_told[i] beside them (told: data NULL for none, or of one that is dead) */
    PAWL_QUERY_STATE,    /* id -> state and fence only, or PAWL_NOT_FOUND: cheap */
    PAWL_QUERY_SETTINGS, /* -> text: "name=value ..." of what durability rests on */
    PAWL_QUERY_LIMITS,   /* limit_filter -> limits and their budgets, by type and key */
    PAWL_QUERY_ACTS,     /* before (0: none), limit -> acts, newest first */
    PAWL_QUERY_PLACES,   /* place_filter -> bounds, and spots that have holders or blocked tasks, by scope, name and key */
    /* Only of stores that have schedules: */
    PAWL_QUERY_DUE,       /* due -> its answers */
    PAWL_QUERY_SCHEDULE,  /* name -> schedules[0] with all that is known of it, or PAWL_NOT_FOUND */
    PAWL_QUERY_SCHEDULES, /* schedule_filter -> schedules, by the bytes of their names; cursor is the name of the last one seen */
    /* Only of stores that have families: */
    PAWL_QUERY_RELATIVES, /* relatives -> its answers */
    PAWL_QUERY_BATCH,     /* id, or name if id is 0 -> batches[0], or PAWL_NOT_FOUND */
    PAWL_QUERY_BATCHES,   /* batch_filter -> batches, the greatest id first; `id` is the last one seen, 0: none */
    /* Only of stores that have feed: */
    PAWL_QUERY_FEED, /* before, limit (0: none) -> feed (its answers) and the rows that end behind number `before`; draining. Stores that have
                        drain, but no feed, answer draining alone */
    /* Only of stores that have set_gate and load: */
    PAWL_QUERY_GATE, /* -> gate */
    PAWL_QUERY_DUMP  /* dump -> its answers. Bounded by its limits, not in time */
} pawl_query_kind;

typedef struct pawl_query {
    pawl_query_kind kind;
    pawl_id id;
    const pawl_filter
        *filter; /* LIST: limit is set; cursor is what the store itself gave. Of search: its words (src/store/search.h) */
    int64_t window_us;
    int64_t before; /* ACTS: `next` of the page before */
    int limit;
    int64_t deadline_us; /* LIST: stop after about this long and say `partial` */
    /* Answers, from the arena. */
    pawl_info *info;
    pawl_page *page;
    pawl_trail *trail;
    pawl_stats *stats;
    pawl_nodes *nodes;
    const char **node_types;
    pawl_bytes *node_told;
    pawl_state state;
    int64_t fence;
    const char *text;
    const pawl_limit_filter *limit_filter;
    pawl_limits *limits;
    pawl_acts *acts;
    const pawl_place_filter *place_filter;
    pawl_places *places;
    pawl_gate *gate;
    pawl_dump *dump; /* the caller's; its answers are empty, and are made in the arena */
    pawl_due *due;   /* likewise */
    const char *name;
    const pawl_schedule_filter *schedule_filter; /* limit is set */
    pawl_schedule_row *schedules;
    int schedules_count;
    bool schedules_more;
    int64_t now_us;                        /* SCHEDULE, SCHEDULES: the store's */
    pawl_relatives_query *relatives;       /* the caller's; its answers are from the arena */
    const pawl_batch_filter *batch_filter; /* limit is set */
    pawl_batch_info *batches;
    int batches_count;
    bool batches_more;
    int draining; /* FEED: node number `id` is to be drained, 1, or not, 0; -1: it is not known that this changed. id 0: nobody asks */
    pawl_feed feed;
    pawl_feed_row *feed_rows;
    int feed_rows_count;
} pawl_query;

/* ---- the store ------------------------------------------------------------------------------------------------------------- */

typedef struct pawl_store_options {
    const char *url; /* whole, e.g. "sqlite:app.db" */
    bool no_migrate, shared_file, read_only;
    bool migrate_all; /* also migrations that are not expanding; see pawl_migrate */
    int64_t lease_us;
    int64_t lock_wait_us; /* how long a write may wait for the store's lock before it is UNAVAILABLE */
    pawl_clock clock;
    const pawl_allocator *allocator;
    pawl_log_fn log;
    void *log_ctx;
} pawl_store_options;

struct pawl_store_type;
typedef struct pawl_store { /* first member of every store's own struct */
    const struct pawl_store_type *type;
} pawl_store;

typedef struct pawl_store_type {
    int version;        /* PAWL_STORE_VERSION */
    const char *scheme; /* of its URLs: "sqlite" */
    bool blocking;      /* calls wait for a disk or a network: the engine makes them on threads of their own */
    bool durable;       /* what was answered OK survives the process */
    bool limits;        /* it keeps rate limits; else LIMIT and RESERVE are REFUSED and nothing is ever limited by it */
    bool places;        /* it keeps concurrency limits and lets tenants take turns; else BOUND is REFUSED */
    bool schedules;     /* it keeps schedules; else SCHEDULE and STEP are REFUSED and none is ever due */
    bool families; /* it keeps families; else INSERTs that have one, BATCH and SETTLE are REFUSED and nothing is ever unsettled */
    int lanes;     /* batches that may be under way at once, of more than 1 one more; at least 1 */

    /* Opens, creates or migrates. Before: nothing. After OK: every other callback may be called. */
    pawl_status (*open)(const pawl_store_options *options, pawl_store **out, pawl_error *err);

    /* Before: no call under way. After: all memory and descriptors are given back. Never fails. */
    void (*close)(pawl_store *store);

    /* A new node: life row alive, heartbeat lapsed, no lease. Its id was never used before. While this store handle is open the
     * process is visibly alive (a lock others can test), as far as the store can do that. */
    pawl_status (*register_node)(pawl_store *store, pawl_registration *call, pawl_error *err);

    /* The node goes. If it holds no lease it is marked dead and leaves no heartbeat; otherwise nothing changes and others will
     * rescue it. Receipts stay for a day. */
    pawl_status (*leave)(pawl_store *store, int64_t node, pawl_error *err);

    /* Node numbers for ids; see pawl_ids. After OK: no other owner has this number below the ceiling. Taken: unused, owner dead
     * or gone, or ceiling passed; lowest ceiling first. */
    pawl_status (*take_ids)(pawl_store *store, pawl_ids *call, pawl_error *err);

    /* One atomic, durable commit of all operations, each with its own result. If the receipt of (node, lane) already has this
     * number, nothing is applied and the stored results are answered. Grants leases only if the node's life row says alive, in the
     * same transaction, and then writes its heartbeat too. Rollups, audit rows and the operator log are part of the commit. */
    pawl_status (*apply)(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err);

    /* Leases due tasks in the order priority, run_at, id, for each want, to a node that is alive (else news.node_dead and none), and
     * writes its heartbeat if any was granted. Suspects only within `free`; of those to run alone one at most, and only if `solo`.
     * Of a keyed task beyond `free`, and of a keyed task with a limit, the lease says not_started. */
    pawl_status (*claim)(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err);

    /* Writes the heartbeat (renewal number + 1) if the node is alive. */
    pawl_status (*renew)(pawl_store *store, pawl_renewal *call, pawl_error *err);

    /* What the store says the node holds: *leases from the arena. */
    pawl_status (*held)(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err);

    /* If the victim is proven dead, or lapsed with the given renewal number: marks it dead and frees its tasks in the same commit,
     * in pages of `limit` (the rest stays leased to a dead node and is freed by further calls). A freed task is pending, suspect, due
     * at once; its lease has ended, so its old fence is refused; cancel_asked ones are cancelled instead. If exactly one task of the
     * victim bore the start mark, that rescue counts when `counts`; the third counted one ends the task as failed, reason
     * "rescued_too_often". If several did, none counts and they are to run alone from now on. */
    pawl_status (*rescue)(pawl_store *store, pawl_rescue *call, pawl_error *err);

    /* One small step of retention: finished tasks with all that hangs on them, old audit rows and logs, dead nodes that no task names,
     * receipts older than a day after their node's death. */
    pawl_status (*sweep)(pawl_store *store, pawl_sweep *call, pawl_error *err);

    /* Answers a question from committed data. Bounded in time; holds no lock that a writer waits for. */
    pawl_status (*read)(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err);

    /* INSERT and FINISH inside the caller's open transaction on its own connection. No receipt, no lease. May be NULL. */
    pawl_status (*tx_apply)(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err);

    /* A descriptor that becomes readable when another process may have committed; -1: nobody else can. */
    int (*watch_fd)(pawl_store *store);

    /* Empties the descriptor. *changed: somebody else committed since the last look. *again_us >= 0: look again after that long, the
     * commit may not be visible yet. */
    void (*watch_check)(pawl_store *store, bool *changed, int64_t *again_us);

    /* A consistent copy; see pawl_backup. May be NULL. */
    pawl_status (*backup)(pawl_store *store, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err);

    /* What the schema is; see pawl_get_schema. Before: nothing; the store may be in use, or be one that open refuses. After OK: *out is
     * filled, from the arena; nothing was created or changed. NOT_FOUND: there is no store. NULL: stores of this kind have no schema. */
    pawl_status (*schema)(const pawl_store_options *options, pawl_schema *out, pawl_arena *arena, pawl_error *err);

    /* What a person should know about the place and the database; see pawl_examine. `store`: opened read_only, or NULL where open
     * refused; then only what can be told without. After: `findings` has one or more for each check; nothing was changed in the store.
     * May be NULL. */
    void (*examine)(const pawl_store_options *options, pawl_store *store, pawl_findings *findings);

    /* Sets mode, move, peer, by and position, durably and for everybody, if the gate is OPEN or has the same move, and is
     * where `before` says; else CONFLICT.
     * Setting again what is set changes nothing. NULL, together with load and the queries GATE and DUMP: tasks cannot be moved
     * from or to stores of this kind, and their gate is always open. */
    pawl_status (*set_gate)(pawl_store *store, const pawl_gate *gate, pawl_error *err);

    /* One atomic commit of a page, and of the gate's position. Ids, times, fences and counters are kept; queues, keys, statistics and
     * whatever else the store derives from tasks follow. Tasks: one whose id is stored is left alone, but for resolution and retried_as.
     * Of ids and node numbers, what was used at the other store is never drawn here. A limit takes the place of one that is here; of a
     * budget only what was started counts as spent (budget_settle), for tasks that had a slot ask anew.
     * BOUNDS take the place of those that are here, and what is free now is offered to those in a line; they come before the tasks, and once
     * more after them. A schedule takes the place of one of the same name, with its version, counters and occurrences; in an import one
     * that is here stays as it is. BATCHES: one whose id is stored is left alone. Who joins one so does not change its counts.
     * INVALID: the store cannot hold one of them; nothing was stored. */
    pawl_status (*load)(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err);

    /* See pawl_feed. From any thread, at any time. NULL, together with the query FEED: nobody else can have this store open. */
    pawl_status (*feed)(pawl_store *store, pawl_feed *call, pawl_error *err);

    /* Says of a living node that it is to be drained, or is not any more; for FEED and NODES, while it lives. With a row of the operator log
     * ("drain", "undrain", the node's name) if `by` is not NULL. Whoever else has the store open hears of it as of any commit. NOT_FOUND: no
     * such node lives. From any thread, at any time. May be NULL. */
    pawl_status (*drain)(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err);
} pawl_store_type;

#ifdef __cplusplus
}
#endif
#endif
