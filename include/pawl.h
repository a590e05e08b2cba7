/* pawl.h: durable background tasks for C and C++ programs.
 *
 * A program hands over a task; Pawl commits it to a database, runs it at the right time, retries it, recovers it after a
 * crash and tells you what happened. This header is the whole public API and its comments are the manual.
 *
 *     #include <pawl.h>
 *     #include <stdio.h>
 *
 *     static pawl_outcome greet(pawl_run *run, void *ctx)
 *     {
 *         (void)ctx;
 *         pawl_bytes who = pawl_run_payload(run);
 *         printf("hello %.*s\n", (int)who.len, who.data);
 *         return pawl_ok();
 *     }
 *
 *     int main(void)
 *     {
 *         pawl *p;
 *         pawl_id id;
 *         pawl_error err;
 *         if (pawl_open(&(pawl_options){.store = "sqlite:hello.db"}, &p, &err)) return pawl_die(&err);
 *         pawl_handle(p, &(pawl_handler){.type = "greet", .run = greet}, &err);
 *         pawl_start(p, &err);
 *         if (pawl_dispatch(p, &(pawl_task){.type = "greet", .payload = pawl_str("\"world\"")}, &id, &err)) return pawl_die(&err);
 *         pawl_wait(p, id, 5 * PAWL_SECOND, NULL, &err);
 *         return pawl_close(p);
 *     }
 *
 * RULES THAT HOLD EVERYWHERE
 *
 * Errors      Every function that can fail returns a pawl_status (0 is PAWL_OK) and takes a pawl_error last. The pawl_error is
 *             the caller's, may be NULL, and is written only on failure. Outputs are untouched on failure.
 * Options     Are structs; a member that is zero or NULL means its default. Everything in them is copied before the call returns,
 *             so they may live on the stack. Always use designated initialisers (or zero the struct): members are added over time.
 * Ownership   Getters lend: what they return belongs to the object asked. What comes back through a `**out` is yours; free it
 *             with the function named beside it. Freeing NULL is allowed.
 * Threads     A pawl handle may be used from any thread at once. A pawl_run belongs to the thread that runs the handler, or, once
 *             deferred, to the thread that will finish it.
 * Handlers    May call everything here except pawl_close, pawl_stop, pawl_drain and pawl_wait on their own engine, which answer
 *             PAWL_MISUSE.
 * After close A closed handle answers PAWL_CLOSED.
 * Time        Is int64_t microseconds. Instants count from 1970-01-01 UTC; names end in _us.
 * Text        Is UTF-8 and ends in a NUL. Names (type, queue, tenant, key) are 1 to 200 bytes without control bytes.
 */
#ifndef PAWL_H
#define PAWL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#define PAWL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PAWL_API
#define PAWL_PRINTF(fmt, args)
#endif

#define PAWL_VERSION "0.1.0"

#define PAWL_MILLISECOND INT64_C(1000)
#define PAWL_SECOND INT64_C(1000000)
#define PAWL_MINUTE (60 * PAWL_SECOND)
#define PAWL_HOUR (60 * PAWL_MINUTE)
#define PAWL_DAY (24 * PAWL_HOUR)

/* ---------------------------------------------------------------------------------------------------------------------------
 * Status and errors
 *
 * One table: name, text, HTTP status, exit code of the command line, and whether the same call may work later.
 */
/* clang-format off */
#define PAWL_STATUS_TABLE(X)                                                                                    \
    /* name          text                                                              http  exit  retryable */ \
    X(OK,            "ok",                                                              200,    0,  0)            \
    X(INVALID,       "invalid argument",                                                422,    2,  0)            \
    X(TOO_LARGE,     "too large",                                                       413,    2,  0)            \
    X(NOT_FOUND,     "not found",                                                       404,    3,  0)            \
    X(CONFLICT,      "conflicts with the current state",                                409,    4,  0)            \
    X(LEASE_LOST,    "the lease on the task was lost",                                  409,    4,  0)            \
    X(FULL,          "queue is full",                                                   503,    5,  1)            \
    X(UNAVAILABLE,   "the store is not available",                                      503,    5,  1)            \
    X(TIMEOUT,       "timed out",                                                       504,    5,  1)            \
    X(UNKNOWN,       "outcome unknown: repeat the call with the same id",               500,    7,  1)            \
    X(DENIED,        "permission denied",                                               403,    6,  0)            \
    X(MISUSE,        "not allowed here",                                                409,   70,  0)            \
    X(CLOSED,        "the handle is closed",                                            503,   70,  0)            \
    X(SCHEMA,        "the store's schema does not fit this version of pawl",            503,    1,  0)            \
    X(CORRUPT,       "the store is damaged",                                            500,    1,  0)            \
    X(UNSUPPORTED,   "not supported",                                                   501,    2,  0)            \
    X(NO_MEMORY,     "out of memory",                                                   503,   70,  1)            \
    X(INTERNAL,      "internal error",                                                  500,   70,  0)            \
    X(MOVED,         "the store is closed: its tasks are moving or have moved",         410,    8,  0)

typedef enum pawl_status {
#define X(name, text, http, exit, retryable) PAWL_##name,
    PAWL_STATUS_TABLE(X)
#undef X
    PAWL_STATUS_COUNT
} pawl_status;
/* clang-format on */

/* Room for a failure's details. `message` says what happened, to which object, and what to do. */
typedef struct pawl_error {
    pawl_status status;
    char message[508];
} pawl_error;

PAWL_API const char *pawl_status_name(pawl_status status); /* "unavailable" */
PAWL_API const char *pawl_status_text(pawl_status status); /* "the store is not available" */
PAWL_API int pawl_status_exit_code(pawl_status status);
PAWL_API int pawl_status_http(pawl_status status);
PAWL_API bool pawl_status_retryable(pawl_status status);

/* Prints the error to standard error and returns its exit code: `return pawl_die(&err);`. */
PAWL_API int pawl_die(const pawl_error *err);

PAWL_API const char *pawl_version(void);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Small values
 */
typedef struct pawl pawl;         /* an engine: one open store, with or without workers */
typedef struct pawl_run pawl_run; /* one execution of one task */

/* A task's id: positive, ordered by time. Shown as 13 characters. 0 is no id. */
typedef int64_t pawl_id;
#define PAWL_ID_TEXT 14 /* 13 characters and a NUL */

PAWL_API void pawl_id_format(pawl_id id, char text[PAWL_ID_TEXT]);
PAWL_API bool pawl_id_parse(const char *text, pawl_id *id); /* false: not an id; either case, no other forms */

/* Bytes with a length; `data` is not NUL-terminated unless said so. */
typedef struct pawl_bytes {
    const char *data;
    size_t len;
} pawl_bytes;

PAWL_API pawl_bytes pawl_str(const char *text); /* the bytes of a C string; NULL gives no bytes */

/* What is stored about a task's progress through life. One table spells the states for C, SQL, JSON and people. */
/* clang-format off */
#define PAWL_STATE_TABLE(X)                                                     \
    /* name       text          terminal */                                    \
    X(WAITING,   "waiting",    0) /* for its parents */                         \
    X(PENDING,   "pending",    0) /* may run when its time comes */             \
    X(LEASED,    "leased",     0) /* a node has the right to run it */          \
    X(SUCCEEDED, "succeeded",  1)                                               \
    X(FAILED,    "failed",     1)                                               \
    X(CANCELLED, "cancelled",  1)

typedef enum pawl_state {
    PAWL_STATE_NONE = 0,
#define X(name, text, terminal) PAWL_##name,
    PAWL_STATE_TABLE(X)
#undef X
    PAWL_STATE_COUNT
} pawl_state;
/* clang-format on */

PAWL_API const char *pawl_state_name(pawl_state state);
PAWL_API bool pawl_state_parse(const char *text, pawl_state *state);
PAWL_API bool pawl_state_terminal(pawl_state state);

/* How much of a task's trail is kept. Attempts are always kept; the level governs the audit rows beside them. */
typedef enum pawl_audit {
    PAWL_AUDIT_DEFAULT = 0, /* the next wider setting decides: task, handler, engine; in the end: full */
    PAWL_AUDIT_FULL,        /* every change of state */
    PAWL_AUDIT_MINIMAL,     /* errors, and the end of every run */
    PAWL_AUDIT_ERRORS,      /* errors only */
    PAWL_AUDIT_NONE
} pawl_audit;

PAWL_API const char *pawl_audit_name(pawl_audit audit);
PAWL_API bool pawl_audit_parse(const char *text, pawl_audit *audit);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Seams: memory, log, clock. All optional.
 */
typedef struct pawl_allocator {
    void *(*alloc)(void *ctx, size_t size);             /* NULL: no memory. Never called with 0 */
    void *(*resize)(void *ctx, void *ptr, size_t size); /* like realloc; ptr may be NULL */
    void (*release)(void *ctx, void *ptr);              /* ptr may be NULL */
    void *ctx;
} pawl_allocator;

typedef enum pawl_level { PAWL_DEBUG = 1, PAWL_INFO, PAWL_WARN, PAWL_ERROR } pawl_level;

PAWL_API const char *pawl_level_name(pawl_level level);

/* Receives the engine's own log, one line at a time, without a newline. Called from any thread; must not call pawl. */
typedef void (*pawl_log_fn)(void *ctx, pawl_level level, const char *line);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Retry policy
 */
typedef enum pawl_curve {
    PAWL_CURVE_DEFAULT = 0, /* the next wider setting; in the end: exponential, 500 ms x 2, cap 1 h, jitter */
    PAWL_CURVE_FIXED,       /* delay_us each time */
    PAWL_CURVE_LIST,        /* delays_us[0], [1], ...; the last one repeats */
    PAWL_CURVE_EXPONENTIAL, /* delay_us x factor^(failures - 1), at most cap_us */
    PAWL_CURVE_CUSTOM       /* whatever `custom` answers */
} pawl_curve;

#define PAWL_RETRY_LIST_MAX 16

/* What a custom retry function is told. */
typedef struct pawl_failure {
    pawl_id id;
    const char *type;
    int attempt; /* the attempt that failed; the first is 1 */
    int max_attempts;
    const char *code;  /* the error code the run set, or NULL */
    const char *error; /* the error text, or NULL */
    bool timed_out;
} pawl_failure;

#define PAWL_NO_RETRY INT64_C(-1)

typedef struct pawl_retry_policy {
    pawl_curve curve;
    int64_t delay_us;
    double factor;  /* 0 = 2 */
    int64_t cap_us; /* 0 = 1 h */
    double jitter;  /* share of the delay that is random: 0 = 0.2, negative = none, at most 1 */
    int64_t delays_us[PAWL_RETRY_LIST_MAX];
    int delays; /* how many of delays_us count */
    /* PAWL_CURVE_CUSTOM: microseconds until the next attempt, or PAWL_NO_RETRY. Called on the engine's thread: be quick, call
     * nothing of pawl. */
    int64_t (*custom)(void *ctx, const pawl_failure *failure);
    void *custom_ctx;
    const char *const *only_codes;  /* NULL-terminated: retry only failures with one of these codes */
    const char *const *never_codes; /* NULL-terminated: never retry failures with one of these codes */
    bool no_timeout_retry;          /* a timeout ends the task as failed */
} pawl_retry_policy;

/* ---------------------------------------------------------------------------------------------------------------------------
 * Rate limits
 *
 * A type may start so many tasks per period for each rate key: an account, an external service. A key without budget delays nobody
 * else and holds no worker: its tasks wait for their slots, T = period / permits apart, and run then. The budget is kept in the store,
 * so it is one for all nodes, exact, and survives restarts; while the store is away nothing limited starts.
 *
 * The limit of a handler is stored when the engine starts; the newest wins, whoever stores it, and everybody is told.
 */
typedef struct pawl_rate {
    int permits;        /* starts per period; 0 = no limit */
    int64_t period_us;  /* 15 per minute: one every 4 s, on average */
    int burst;          /* starts saved up while a key is idle, to be had at once; 0 = permits, 1 = evenly spaced */
    bool start_empty;   /* a key that is seen for the first time has saved nothing */
    bool retries_free;  /* further attempts of a task that failed take nothing */
    bool discard;       /* what cannot start at once fails (rate_limited) instead of waiting */
    int64_t horizon_us; /* a task whose slot is farther away fails (rate_limited); 0 = 1 h, negative = it waits however long */
} pawl_rate;

typedef enum pawl_rate_scope {
    PAWL_RATE_SHARED = 0, /* one budget for all nodes of the store */
    PAWL_RATE_LOCAL       /* one for each process, in memory: new and full after every start */
} pawl_rate_scope;

/* What a limiter is asked about a task that stands before a worker, and what it answers. */
typedef struct pawl_limit_question {
    pawl_id id;
    const char *type;
    pawl_bytes key;
    int64_t now_us; /* never goes back; slots are told by it */
    int attempt;    /* the first is 1 */
    bool again;     /* it was told to wait before: refuse it no more */
} pawl_limit_question;

typedef enum pawl_limit_verdict {
    PAWL_LIMIT_FAILED = 0, /* the limiter does not work: the task starts, which is counted and logged */
    PAWL_LIMIT_GO,         /* start it now */
    PAWL_LIMIT_WAIT,       /* ask again at *slot_us */
    PAWL_LIMIT_REJECTED    /* never: the task fails (rate_limited) */
} pawl_limit_verdict;

/* A limiter of the program's own, in place of the built-in ones. Its contract:
 *   - ask may be called again for a task that waits: the same id is told the same slot and costs nothing more (reservations are by id);
 *   - slots of a key never decrease;
 *   - it never blocks and calls nothing of pawl: it runs on the engine's thread;
 *   - a GO is used at once; release says that a task which waits will not come (cancelled, lost);
 *   - nothing it does loses a task: if it fails, the task runs. */
typedef struct pawl_limiter {
    pawl_limit_verdict (*ask)(void *ctx, const pawl_limit_question *question, int64_t *slot_us);
    void (*release)(void *ctx, pawl_id id); /* may be NULL */
    void *ctx;
} pawl_limiter;

/* ---------------------------------------------------------------------------------------------------------------------------
 * Concurrency limits, and tenants that take turns
 *
 * A limit lets so many tasks run at a time, on all nodes together: of a queue, of a type, or of each rate key of a type. A task that runs
 * has a place of every limit it is under; one that finds none free is blocked: it holds no worker and is not looked at again until
 * a place is free, and then starts at once. Whatever ends a run frees its places, the death of its node too.
 *
 * Like rate limits they are kept in the store: those of handlers and queues are stored when the engine starts, the newest wins.
 */
typedef enum pawl_scope {
    PAWL_SCOPE_QUEUE = 1, /* all tasks of a queue */
    PAWL_SCOPE_TYPE,      /* all tasks of a type */
    PAWL_SCOPE_KEYS,      /* tasks of a type that have the same rate key */
    PAWL_SCOPE_TENANTS    /* no limit: the tenants of a queue take turns, each so many tasks at a time as its weight says */
} pawl_scope;

/* ---------------------------------------------------------------------------------------------------------------------------
 * Open and close
 */
/* What a dispatch into a full queue does. */
typedef enum pawl_full {
    PAWL_FULL_DEFAULT = 0,
    PAWL_FULL_WAIT,     /* wait for room (default); inside a handler it acts as REJECT */
    PAWL_FULL_FALLBACK, /* go to the queue `default` */
    PAWL_FULL_REJECT    /* PAWL_FULL, nothing stored */
} pawl_full;

typedef struct pawl_options {
    /* Where tasks live: `memory:`, `sqlite:PATH` (also `sqlite:///abs/path`), `postgres://USER@HOST/DATABASE` (also `postgresql://`;
     * what libpq takes, and pawl_schema=NAME). NULL: $PAWL_STORE, then $DATABASE_URL, else `sqlite:pawl.db`. An empty store, or one that only needs an expanding migration, is migrated at open. */
    const char *store;
    bool no_migrate;    /* refuse to migrate at open: PAWL_SCHEMA instead */
    bool shared_file;   /* the SQLite file is also the program's own database; see pawl_sqlite_prepare */
    const char *name;   /* of this node, for people; default: the host's name */
    int workers;        /* of queue `default`; 0 = max(4, 2 x cores) */
    int capacity;       /* of each queue; 0 = max(1000, 200 x cores) */
    int64_t lease_us;   /* node lease; 0 = 30 s, at least 750 ms */
    int64_t grace_us;   /* how long pawl_stop lets runs finish; 0 = 30 s, negative = not at all */
    int max_attempts;   /* 0 = 4 */
    int64_t timeout_us; /* per attempt; 0 = none */
    pawl_retry_policy retry;
    pawl_audit audit;
    int64_t long_run_us;         /* a run older than this without timeout or progress is reported; 0 = 15 min */
    size_t payload_max;          /* bytes; 0 = 1 MiB */
    bool unserved_is_error;      /* dispatch to a queue that no living node serves answers PAWL_NOT_FOUND */
    int64_t dispatch_timeout_us; /* how long a blocking call waits for the store; 0 = 10 s */
    bool one_shot;               /* a command that comes and goes: no node, ids drawn by the store; cannot start workers */
    bool read_only;              /* open an existing store for looking only: nothing is migrated or written */
    int parked_max;              /* tasks that wait for rate slots in memory; 0 = 5000. Others wait in the store */
    int rate_keys_max;           /* keys that local rate limits count; 0 = 100,000. New ones beyond it are not limited */
    bool no_deferral_events;     /* no PAWL_EVENT_DEFERRED */
    bool leases_outlive; /* runs go on elsewhere when this process dies: nobody takes them over before the lease has run out */

    /* Retention; 0 = default, negative = keep for ever. */
    int64_t keep_succeeded_us; /* 24 h */
    int64_t keep_cancelled_us; /* 24 h */
    int64_t keep_resolved_us;  /* failed and resolved: 30 d after that */
    int64_t keep_failed_us;    /* failed and unresolved: 90 d */
    int64_t keep_audit_us;     /* 7 d */
    int64_t keep_logs_us;      /* 7 d */

    /* Inline mode: no threads at all. What is due runs inside pawl_run_due and pawl_advance, on the caller's thread, and the
     * clock stands still until pawl_advance moves it. For tests and simple programs; one thread only. */
    bool inline_mode;
    int64_t inline_start_us; /* the virtual clock's first instant; 0 = now */
    bool inline_eager;       /* a dispatch also runs what is due before it returns */

    pawl_allocator allocator; /* zero = malloc */
    pawl_log_fn log;          /* NULL = lines of level WARN and above to standard error */
    void *log_ctx;
    pawl_level log_level; /* 0 = PAWL_WARN */
    /* Log lines, and what `pawl` and its server show, have the values of names masked that look like secrets': password, token, authorization,
     * cookie and the like. Words with commas between them: such names, too; "-word": not those; "none": not the usual ones. NULL: the usual
     * ones. What is stored, and what handlers and this API get, is not touched. */
    const char *redact;
    uint64_t seed; /* of jitter; 0 = from the system */
} pawl_options;

/* Opens a store. Nothing runs before pawl_start; dispatch and every look work at once.
 * Errors: INVALID (bad URL or option), UNSUPPORTED (network file system, unknown store), SCHEMA, CORRUPT, DENIED,
 * UNAVAILABLE. `options` may be NULL. */
PAWL_API pawl_status pawl_open(const pawl_options *options, pawl **out, pawl_error *err);

/* Stops (see pawl_stop) if started, then frees everything. Returns 0, or the exit code of what went wrong while stopping. Calls
 * under way in other threads end with PAWL_CLOSED first. */
PAWL_API int pawl_close(pawl *p);

/* The store's URL as opened, with any password left out. Lives as long as the handle. */
PAWL_API const char *pawl_store_url(pawl *p);

/* What durability rests on, read back from the store, as "name=value name=value ...": e.g. "journal_mode=wal synchronous=2". Cut to
 * fit `size`. */
PAWL_API pawl_status pawl_store_settings(pawl *p, char *out, size_t size, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Queues
 */
typedef struct pawl_queue_options {
    const char *name;    /* without a comma */
    int workers;         /* 0 = max(4, 2 x cores); negative = this engine does not serve the queue */
    int capacity;        /* tasks this node holds ready beyond its workers, and on `memory:` the queue's depth; 0 = engine's */
    int64_t depth_limit; /* most tasks stored and unfinished in this queue, all nodes; 0 = no limit (memory: capacity) */
    pawl_full full;      /* what a dispatch beyond the limit does */
    int max_attempts;
    int64_t timeout_us;
    pawl_retry_policy retry;
    int concurrency; /* tasks of the queue that run at a time, on all nodes together; 0 = whatever is stored, or no limit */
    bool fair;       /* tenants take turns among tasks of one priority, so that none waits behind the backlog of another */
    const struct pawl_puller *puller; /* instead of workers; see Pulling */
} pawl_queue_options;

/* Defines a queue that this engine serves once started. `default` and `recurring` exist by themselves and can be redefined.
 * Before pawl_start only. */
PAWL_API pawl_status pawl_queue(pawl *p, const pawl_queue_options *options, pawl_error *err);

/* Durable, for all nodes: no task of the queue starts until resumed. `by` names the person for the operator log; may be NULL. */
PAWL_API pawl_status pawl_pause(pawl *p, const char *queue, const char *by, pawl_error *err);
PAWL_API pawl_status pawl_resume(pawl *p, const char *queue, const char *by, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Handlers
 */
typedef enum pawl_outcome_kind {
    PAWL_RUN_OK = 1,
    PAWL_RUN_RETRY,
    PAWL_RUN_SNOOZE,
    PAWL_RUN_FAIL,
    PAWL_RUN_CANCELLED,
    PAWL_RUN_DEFERRED,
    PAWL_RUN_COMPLETED, /* pawl_complete_sqlite, _pg or _mysql was called: the caller's transaction has the say */
    PAWL_RUN_INTERRUPTED,
    PAWL_RUN_LOST
} pawl_outcome_kind;

/* What a run returns; make it with the functions below. */
typedef struct pawl_outcome {
    pawl_outcome_kind kind;
    int64_t delay_us; /* retry: negative = by policy; snooze: how long */
} pawl_outcome;

PAWL_API pawl_outcome pawl_ok(void);
PAWL_API pawl_outcome pawl_retry(pawl_run *run, const char *fmt, ...) PAWL_PRINTF(2, 3); /* again, by policy */
PAWL_API pawl_outcome pawl_retry_in(pawl_run *run, int64_t delay_us, const char *fmt, ...) PAWL_PRINTF(3, 4);
PAWL_API pawl_outcome pawl_snooze(int64_t delay_us);                                    /* later; costs no attempt */
PAWL_API pawl_outcome pawl_fail(pawl_run *run, const char *fmt, ...) PAWL_PRINTF(2, 3); /* never again */
PAWL_API pawl_outcome pawl_cancelled(void);                                             /* as was asked */
PAWL_API pawl_outcome pawl_interrupted(pawl_run *run, const char *fmt, ...)
    PAWL_PRINTF(2, 3); /* again at once; costs no attempt */
/* Whoever ran it elsewhere is gone: as after the death of a node. Again at once, at no cost; but when a task was interrupted for the fifth
 * time it fails (rescued_too_often). */
PAWL_API pawl_outcome pawl_lost(pawl_run *run, const char *fmt, ...) PAWL_PRINTF(2, 3);
PAWL_API pawl_outcome pawl_deferred(void); /* another thread will call pawl_run_finish; the worker is free at once */

typedef struct pawl_handler {
    const char *type; /* e.g. "email.send"; "*" takes every type that has no handler of its own; without a comma */
    pawl_outcome (*run)(pawl_run *run, void *ctx);
    void *ctx;
    void (*destroy)(void *ctx); /* called once, when the engine closes */
    const char *queue;          /* where tasks of this type go unless they say; NULL = `default` */
    int max_attempts;           /* 0 = queue's, then engine's */
    pawl_retry_policy retry;
    int64_t timeout_us; /* per attempt, from its start; 0 = queue's, then engine's; negative = none */
    pawl_audit audit;
    pawl_rate rate; /* per rate key of its tasks; a task without a key is not limited */
    pawl_rate_scope rate_scope;
    const pawl_limiter *limiter; /* instead of `rate`; lives as long as the engine */
    /* The rate key of a task that was dispatched without one: bytes of the payload or the tenant, or memory of the program's that stays
     * as it is until the next call in the same thread. false: it has none to tell, which is logged, and the task is not limited. On any
     * thread: be quick, call nothing of pawl. */
    bool (*rate_key)(void *ctx, pawl_bytes payload, const char *tenant, pawl_bytes *key);
    int concurrency;     /* tasks of the type that run at a time, on all nodes together; 0 = whatever is stored, or no limit */
    int key_concurrency; /* the same for each rate key; of a task without one, nothing is asked */
    bool ordered; /* key_concurrency 1: tasks of a key run in the order of their ids, each after the one before has ended for
                            good; retries and delays hold up those behind */
    /* Hooks, on the worker's thread. They cannot change the outcome; what they return false for is logged. */
    bool (*on_started)(pawl_run *run, void *ctx);
    bool (*on_succeeded)(pawl_run *run, void *ctx);                 /* after the commit */
    bool (*on_failed)(pawl_run *run, void *ctx, const char *error); /* after the commit; no more attempts */
    bool (*on_retry)(pawl_run *run, void *ctx, int attempt, const char *error, int64_t delay_us); /* after the commit */
    bool (*on_cancelled)(pawl_run *run, void *ctx);                                               /* after the commit */
} pawl_handler;

/* Registers the handler of a type. Before pawl_start only; a type has one handler. Policies resolve task > handler > queue >
 * engine. A task whose type this node does not know is left for a node that does. */
PAWL_API pawl_status pawl_handle(pawl *p, const pawl_handler *handler, pawl_error *err);

/* Inside a run. Lent values live until the run has finished. */
PAWL_API pawl_id pawl_run_id(const pawl_run *run);
PAWL_API const char *pawl_run_type(const pawl_run *run);
PAWL_API const char *pawl_run_queue(const pawl_run *run);
PAWL_API const char *pawl_run_key(const pawl_run *run);    /* NULL: none */
PAWL_API const char *pawl_run_tenant(const pawl_run *run); /* NULL: none */
PAWL_API const char *pawl_run_content_type(const pawl_run *run);
PAWL_API const char *pawl_run_headers(const pawl_run *run);     /* as dispatched; NULL: none */
PAWL_API const char *pawl_run_traceparent(const pawl_run *run); /* NULL: none */
PAWL_API pawl_bytes pawl_run_payload(const pawl_run *run);      /* followed by a NUL that is not counted */
PAWL_API pawl_bytes pawl_run_rate_key(const pawl_run *run);     /* as dispatched, or told by its handler; empty: none */
PAWL_API int pawl_run_attempt(const pawl_run *run);             /* the first is 1 */
PAWL_API int pawl_run_max_attempts(const pawl_run *run);
PAWL_API int64_t pawl_run_fence(const pawl_run *run);       /* grows with every lease of the task */
PAWL_API int64_t pawl_run_deadline_us(const pawl_run *run); /* 0: no timeout */
PAWL_API int64_t pawl_run_slot_us(const pawl_run *run);     /* in on_failed, if it was refused (rate_limited): the next slot */
PAWL_API pawl_rate pawl_run_rate(const pawl_run *run);      /* and the limit that refused it; permits 0: not known */
PAWL_API pawl *pawl_run_engine(const pawl_run *run);

typedef enum pawl_stop_reason {
    PAWL_GO_ON = 0,
    PAWL_STOP_CANCELLED, /* a person or program asked */
    PAWL_STOP_TIMEOUT,
    PAWL_STOP_SHUTDOWN,
    PAWL_STOP_LEASE_LOST /* the store may have given the task to another node: make no more effects */
} pawl_stop_reason;

/* Whether the run should end, and why. Cheap; long runs ask now and then. */
PAWL_API pawl_stop_reason pawl_run_stopping(const pawl_run *run);

/* Waits up to timeout_us for a reason to stop: a sleep that a cancel cuts short. */
PAWL_API pawl_stop_reason pawl_run_sleep(pawl_run *run, int64_t timeout_us);

/* A line for the task's log, kept with the attempt whatever its outcome. 1000 lines per attempt, 4 KiB each; then a mark. */
PAWL_API void pawl_run_log(pawl_run *run, pawl_level level, const char *fmt, ...) PAWL_PRINTF(3, 4);

/* Shown by get and list while the task runs; kept with the attempt. percent 0..100; text may be NULL. */
PAWL_API void pawl_run_progress(pawl_run *run, int percent, const char *text);

/* The result bytes (at most 64 KiB, content type as given or NULL for JSON, which is validated) kept with a success. */
PAWL_API pawl_status pawl_run_result(pawl_run *run, pawl_bytes result, const char *content_type, pawl_error *err);

/* A reference such as "Invoice:42" kept with a success. */
PAWL_API pawl_status pawl_run_result_ref(pawl_run *run, const char *reference, pawl_error *err);

/* A short code ("smtp_4xx") for the failure about to be returned; retry policies and people select by it. */
PAWL_API void pawl_run_error_code(pawl_run *run, const char *code);

struct pawl_task;
/* A task that is committed together with this run's success, or not at all. *id may be NULL. */
PAWL_API pawl_status pawl_run_spawn(pawl_run *run, const struct pawl_task *task, pawl_id *id, pawl_error *err);

/* Ends a deferred run, from any thread, once. The run is gone afterwards. */
PAWL_API pawl_status pawl_run_finish(pawl_run *run, pawl_outcome outcome, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Dispatch
 */
/* What becomes of a task that waits for its parents when one of them fails or is cancelled. */
typedef enum pawl_if_failed {
    PAWL_IF_FAILED_CANCEL = 0, /* it is cancelled at once, and so are those that wait for it */
    PAWL_IF_FAILED_RUN,        /* it runs once all have ended, however they did */
    PAWL_IF_FAILED_HOLD        /* it waits on: until the parent is retried and succeeds, or the task is cancelled */
} pawl_if_failed;

PAWL_API const char *pawl_if_failed_name(pawl_if_failed policy); /* "cancel" */
PAWL_API bool pawl_if_failed_parse(const char *text, pawl_if_failed *policy);

#define PAWL_PARENTS_MAX 1000         /* of one task: more are a batch */
#define PAWL_NTH(i) (-(pawl_id)(i)-1) /* as a parent: task i of the same bulk call, which stands before this one */

typedef struct pawl_task {
    const char *type;
    pawl_bytes payload;       /* opaque, kept byte for byte; none = no payload */
    const char *content_type; /* NULL = "application/json": then the payload must be valid JSON */
    const char *queue;        /* NULL = the handler's, else `default` */
    const char *key;          /* identity: at most one live task per tenant and key */
    const char *tenant;
    int priority;        /* lower runs first; -32768..32767 */
    int64_t delay_us;    /* run after this long */
    int64_t at_us;       /* run at this instant (past = now); not together with delay_us */
    int max_attempts;    /* 0 = by policy */
    int64_t timeout_us;  /* 0 = by policy, negative = none */
    pawl_bytes rate_key; /* whose budget its start takes from (see pawl_rate): any bytes; none = not limited */
    const char *created_by;
    const char *traceparent; /* W3C trace context, carried to the run */
    const char *headers;     /* free text for the handler, at most 16 KiB */
    pawl_audit audit;
    pawl_id id;             /* 0, or the id that came with PAWL_UNKNOWN: if it was committed after all, `existing` */
    const pawl_id *parents; /* it waits until all of these have ended: tasks or batches, or PAWL_NTH. See Dependencies, below */
    int parents_count;      /* at most PAWL_PARENTS_MAX */
    pawl_if_failed if_failed;
    pawl_id batch; /* of which it is a member; 0 = none */
} pawl_task;

typedef enum pawl_dispatched {
    PAWL_CREATED = 1,
    PAWL_EXISTING, /* a live task with this key is running (or this id is stored): nothing changed */
    PAWL_UPDATED,  /* a live task with this key had not started: payload, time and options were replaced */
    PAWL_REPLACED  /* the last task with this key is finished: a new one took the key */
} pawl_dispatched;

PAWL_API const char *pawl_dispatched_name(pawl_dispatched outcome); /* "created" */

/* What became of one task of a dispatch. */
typedef struct pawl_receipt {
    pawl_status status; /* PAWL_OK, or why not; UNKNOWN carries the id */
    pawl_dispatched outcome;
    pawl_id id;
} pawl_receipt;

#define PAWL_BULK_MAX 10000         /* tasks in one bulk call */
#define PAWL_BULK_BYTES (16u << 20) /* and their bytes */

/* Returns when the task is committed. On PAWL_UNKNOWN (the commit was sent and its answer lost) *id is set all the same;
 * dispatching again with that id is safe. A one_shot engine draws ids inside the commit, so there *id is 0: give tasks that must
 * not be doubled a key. Errors: INVALID, TOO_LARGE, FULL, UNAVAILABLE, UNKNOWN, CLOSED, MOVED, MISUSE (inside a
 * write transaction of the caller's own on the same file: use pawl_dispatch_sqlite). id may be NULL. */
PAWL_API pawl_status pawl_dispatch(pawl *p, const pawl_task *task, pawl_id *id, pawl_error *err);

/* The same, and tells what became of it. */
PAWL_API pawl_status pawl_dispatch_full(pawl *p, const pawl_task *task, pawl_receipt *receipt, pawl_error *err);

/* Many tasks in one commit. receipts[n] gets an answer for each. Returns OK when the commit succeeded, even if single items were
 * refused (their receipts say so); an item that is invalid refuses the whole call before anything is stored. */
PAWL_API pawl_status pawl_dispatch_bulk(pawl *p, const pawl_task *tasks, size_t n, pawl_receipt *receipts, pawl_error *err);

/* For programs with an event loop: returns at once; `done` is called exactly once, on the engine's own thread, when the task is
 * committed or refused. It must not block and must not call pawl; write to a pipe or an eventfd. Immediate errors (INVALID,
 * TOO_LARGE, CLOSED, FULL) are returned and `done` is not called. */
typedef void (*pawl_dispatch_fn)(void *ctx, const pawl_receipt *receipt, const pawl_error *err);
PAWL_API pawl_status pawl_dispatch_async(pawl *p, const pawl_task *task, pawl_dispatch_fn done, void *ctx, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Inside the caller's own SQLite transaction
 *
 * Business data and task commit or vanish together. Needs .shared_file, and the program's own sqlite3 handle on the same file.
 * Automatic and passive checkpoints of any connection can lose committed rows on SQLite before 3.51.3, so every connection of
 * the program to that file must be prepared; pawl refuses one that is not.
 *
 *     pawl_sqlite_prepare(db, &err);              // once per connection
 *     sqlite3_exec(db, "BEGIN IMMEDIATE", 0, 0, 0);
 *     ... business writes ...
 *     pawl_dispatch_sqlite(p, db, &task, &id, &err);
 *     sqlite3_exec(db, "COMMIT", 0, 0, 0);
 *     pawl_committed(p);                          // optional: starts it at once instead of a moment later
 */
struct sqlite3;

/* Turns off the connection's automatic checkpoints. The connection is taken to belong to the thread that last passed it to
 * pawl. Use the macro: it also checks that program and pawl use one and the same copy of SQLite. */
PAWL_API pawl_status pawl_sqlite_prepare_with(struct sqlite3 *db, const char *sourceid, void (*function)(void), pawl_error *err);
#define pawl_sqlite_prepare(db, err) pawl_sqlite_prepare_with((db), sqlite3_sourceid(), (void (*)(void))sqlite3_step, (err))

/* Forget a prepared connection; call before sqlite3_close. */
PAWL_API void pawl_sqlite_forget(struct sqlite3 *db);

/* The id is drawn inside the transaction: after a rollback it means nothing. */
PAWL_API pawl_status pawl_dispatch_sqlite(pawl *p, struct sqlite3 *db, const pawl_task *task, pawl_receipt *receipt,
                                          pawl_error *err);

/* Inside a run: marks the task as succeeded in the caller's transaction. Return the outcome it gives. After the handler
 * returned, the engine looks: if the transaction was rolled back, the run counts as pawl_retry. */
PAWL_API pawl_status pawl_complete_sqlite(pawl_run *run, struct sqlite3 *db, pawl_outcome *outcome, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Inside the caller's own PostgreSQL transaction
 *
 * The same on `postgres:`, with the program's own PGconn, connected to the same database and inside a transaction:
 *
 *     PQexec(pg, "BEGIN");
 *     ... business writes ...
 *     pawl_dispatch_pg(p, pg, &task, &receipt, &err);
 *     PQexec(pg, "COMMIT");
 *     pawl_committed(p);                          // optional, as above
 *
 * A call that fails leaves the transaction as it was (it uses a savepoint). Programs in other languages call the SQL function
 * pawl_enqueue instead: see docs/postgresql.md.
 */
struct pg_conn;

PAWL_API pawl_status pawl_dispatch_pg(pawl *p, struct pg_conn *pg, const pawl_task *task, pawl_receipt *receipt, pawl_error *err);
PAWL_API pawl_status pawl_complete_pg(pawl_run *run, struct pg_conn *pg, pawl_outcome *outcome, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Inside the caller's own MariaDB transaction
 *
 * The same on `mysql:`, with the program's own MYSQL, connected to the same server and inside a transaction:
 *
 *     mysql_query(my, "START TRANSACTION");
 *     ... business writes ...
 *     pawl_dispatch_mysql(p, my, &task, &receipt, &err);
 *     mysql_query(my, "COMMIT");
 *     pawl_committed(p);                          // optional, as above
 *
 * A call that fails leaves the transaction as it was (it uses a savepoint), unless the server itself ended it, as it does after a
 * deadlock: then the call answers UNAVAILABLE and says so.
 */
struct st_mysql;

PAWL_API pawl_status pawl_dispatch_mysql(pawl *p, struct st_mysql *my, const pawl_task *task, pawl_receipt *receipt,
                                         pawl_error *err);
PAWL_API pawl_status pawl_complete_mysql(pawl_run *run, struct st_mysql *my, pawl_outcome *outcome, pawl_error *err);

/* Tells the engine that the program committed tasks of its own accord. Never needed for correctness. */
PAWL_API void pawl_committed(pawl *p);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Looking at tasks
 */
typedef struct pawl_attempt {
    int number;
    const char *outcome; /* running, succeeded, retry, snoozed, failed, cancelled, timeout, interrupted, rescued, lease_lost */
    int64_t started_us;
    int64_t finished_us; /* 0: still running, or its node died */
    int64_t fence;
    int64_t node;
    const char *node_name;
    const char *code;  /* NULL: none */
    const char *error; /* NULL: none */
    int log_lines;
} pawl_attempt;

typedef struct pawl_log_line {
    int attempt;
    int sequence;
    int64_t at_us;
    pawl_level level;
    const char *text;
} pawl_log_line;

typedef struct pawl_audit_row {
    int64_t at_us;
    const char *from; /* state names; "" for a new task */
    const char *to;
    int64_t fence;
    const char *node_name; /* NULL: none */
    const char *detail;    /* NULL: none */
} pawl_audit_row;

/* Everything stored about a task. Members that do not apply are zero or NULL. */
typedef struct pawl_info {
    pawl_id id;
    const char *type, *queue, *tenant, *key, *created_by, *traceparent, *headers, *content_type;
    const char *schedule; /* that made it; NULL: none did */
    pawl_bytes payload;   /* empty in lists */
    pawl_bytes rate_key;
    pawl_state state;
    const char *display; /* state for people: scheduled, retrying, throttled, blocked, stale, running, or the state's name */
    int priority;
    int64_t created_us, run_at_us, started_us, finished_us;
    int attempt;      /* attempts so far, the running one included */
    int max_attempts; /* 0: by policy of whoever runs it */
    int64_t timeout_us;
    int failures, rescues, interruptions;
    int64_t fence, node;
    const char *node_name;
    bool cancel_asked;
    int progress; /* percent, -1: never reported */
    const char *progress_text;
    const char *code, *error, *reason; /* of a failure; reason: typed, e.g. "rescued_too_often" */
    pawl_bytes result;
    const char *result_type, *result_ref;
    pawl_id retry_of, retried_as;
    int64_t resolved_us; /* dead letter: when it was retried or acknowledged */
    const char *resolved_by, *note;
    pawl_audit audit;
    int attempts_count;
    const pawl_attempt *attempts; /* oldest first; only from pawl_get */
} pawl_info;

PAWL_API pawl_status pawl_get(pawl *p, pawl_id id, pawl_info **out, pawl_error *err);
PAWL_API void pawl_info_free(pawl_info *info);

typedef struct pawl_filter {
    const char *state; /* a state or a display name: pending, scheduled, retrying, running, failed, ...; NULL = any */
    const char *type, *queue, *tenant, *key;
    int64_t since_us, until_us; /* created in [since, until) */
    bool unresolved;            /* dead letters: failed and neither retried nor acknowledged */
    bool oldest_first;          /* default: newest first */
    int limit;                  /* 0 = 100, at most 1000 */
    const char *cursor;         /* from the page before */
    /* Words, divided by spaces, that a task must have, each somewhere in its type, queue, tenant, key, payload, code or error; ASCII
     * letters in either case. Or what its id begins with. Tasks whose id, key, type, queue or tenant the text is come first, then the rest. Looking
     * into payloads takes time: a page comes after about 100 ms at most, with `next` and `looked_us` if there is more to look at. */
    const char *search; /* at most 200 bytes; NULL = none */
    /* The page comes after about this long, `partial` if there was more to look at; 0 = 5 s, or 100 ms with `search`, and at most that. */
    int64_t within_us;
} pawl_filter;

typedef struct pawl_page {
    size_t count;
    const pawl_info *const *tasks;
    const char *next; /* NULL: that was all */
    bool partial;     /* the time for one look was used up: there may be more behind `next` though the page is short */
    int64_t
        looked_us; /* of a search that is not over: it has looked at what was created before then (newest first: since then); 0: none yet */
} pawl_page;

/* One page of tasks, by id. Reads what is committed; never blocks writers. */
PAWL_API pawl_status pawl_list(pawl *p, const pawl_filter *filter, pawl_page **out, pawl_error *err);
PAWL_API void pawl_page_free(pawl_page *page);

typedef struct pawl_trail {
    size_t lines_count, audit_count;
    const pawl_log_line *lines;
    const pawl_audit_row *audit;
} pawl_trail;

/* The run logs and the audit trail of a task, oldest first. */
PAWL_API pawl_status pawl_get_trail(pawl *p, pawl_id id, pawl_trail **out, pawl_error *err);
PAWL_API void pawl_trail_free(pawl_trail *trail);

/* Why is this task not running? One sentence in `text`, and a word a program can test in `code`: finished, running, long_running,
 * cancelling, stale, moved, paused, scheduled, retrying, waiting, held, unserved_queue, unknown_type, draining, capacity, starting,
 * blocked, throttled, key_held. */
typedef struct pawl_why_answer {
    char code[32];
    char text[480];
    int64_t until_us; /* 0: unknown */
} pawl_why_answer;

PAWL_API pawl_status pawl_why(pawl *p, pawl_id id, pawl_why_answer *answer, pawl_error *err);

/* Waits until the task is succeeded, failed or cancelled; *state may be NULL. TIMEOUT when it is not in time; timeout_us < 0 waits
 * without limit. MISUSE on a read_only engine, which does not hear of commits. */
PAWL_API pawl_status pawl_wait(pawl *p, pawl_id id, int64_t timeout_us, pawl_state *state, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Acting on tasks. `by` names the person for the operator log; NULL: no entry.
 */

/* Pending: cancelled at once. Running: its run is asked to stop, also on another node. CONFLICT: already finished. */
PAWL_API pawl_status pawl_cancel(pawl *p, pawl_id id, const char *by, pawl_error *err);

/* Cancels everything that matches and is not finished; *count gets how many (may be NULL). */
PAWL_API pawl_status pawl_cancel_where(pawl *p, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err);

/* Failed or cancelled: a new task with the same body that points at the old one. A second call answers EXISTING with the first's
 * id; so does a task whose key is live again, with that task's id. CONFLICT: not finished, or succeeded. */
PAWL_API pawl_status pawl_retry_task(pawl *p, pawl_id id, const char *by, pawl_receipt *receipt, pawl_error *err);

/* Retries every dead letter that matches. */
PAWL_API pawl_status pawl_dead_retry(pawl *p, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err);

/* Acknowledges dead letters: one (id), or all that match (filter); exactly one of the two. */
PAWL_API pawl_status pawl_dead_ack(pawl *p, pawl_id id, const pawl_filter *filter, const char *by, const char *note,
                                   int64_t *count, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Start and stop
 */

/* Starts workers for every queue, then recovery beside them. MISUSE: already started, no handler, or one_shot. */
PAWL_API pawl_status pawl_start(pawl *p, pawl_error *err);

/* Starts no more tasks and waits until the running ones ended; TIMEOUT if they did not within timeout_us (negative: no limit).
 * pawl_start goes on afterwards. Dispatch still works. */
PAWL_API pawl_status pawl_drain(pawl *p, int64_t timeout_us, pawl_error *err);

/* Drains for the grace, then asks runs to stop, and gives back what has returned or never started. A handler that does not return
 * keeps its lease until its process ends; TIMEOUT then. Interrupted runs cost no attempt. */
PAWL_API pawl_status pawl_stop(pawl *p, pawl_error *err);

/* Inline mode: runs everything due now, also what that makes due; *count gets the number of runs (may be NULL). */
PAWL_API pawl_status pawl_run_due(pawl *p, int64_t *count, pawl_error *err);
/* Inline mode: moves the virtual clock forward, stopping at each instant at which something falls due to run it. */
PAWL_API pawl_status pawl_advance(pawl *p, int64_t by_us, int64_t *count, pawl_error *err);
/* The engine's idea of now: the virtual clock in inline mode. */
PAWL_API int64_t pawl_now(pawl *p);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Numbers
 */
typedef struct pawl_queue_info {
    const char *name;
    bool paused, served;                      /* served: by a living node */
    int64_t waiting, pending, leased, failed; /* stored; failed: unresolved */
    int64_t due;                              /* pending and due now; counted up to 10,000 in all queues, and 100 of each */
    bool due_more;                            /* and not further: there may be more */
    int64_t oldest_due_us;                    /* run_at of the oldest due task; 0: none */
    int64_t throttled;           /* pending that have a rate slot to wait for; of all queues the first 20,000 are counted */
    int workers, running, ready; /* of this engine; 0 if it does not serve the queue */
} pawl_queue_info;

typedef struct pawl_stats_step {
    int64_t at_us; /* its begin */
    int64_t dispatched, succeeded, failed, cancelled, retried, rescued;
    int64_t wait_p50_us, wait_p99_us, run_p50_us, run_p99_us;
} pawl_stats_step;

typedef struct pawl_stats {
    size_t queues_count;
    const pawl_queue_info *queues;
    int64_t waiting, pending, leased, dead;                             /* stored now */
    int64_t dispatched, succeeded, failed, cancelled, retried, rescued; /* in the window, from rollups */
    int64_t wait_p50_us, wait_p99_us, run_p50_us, run_p99_us;           /* in the window, within a factor of 1.5 */
    int64_t window_us, step_us;
    size_t steps_count;
    const pawl_stats_step
        *steps; /* the window in about sixty parts of whole minutes, oldest first; the first may have begun before it */
    int64_t now_us;
    int64_t
        throttled; /* tasks that wait for rate slots, in the store (counted up to 100,000) and at nodes; among the pending and the leased */
    const char *closed; /* why the store takes no tasks: they move to another one, or have moved (see pawl_move); NULL: it does */
} pawl_stats;

/* window_us: how far to look back, in whole minutes; 0 = one hour. */
PAWL_API pawl_status pawl_get_stats(pawl *p, int64_t window_us, pawl_stats **out, pawl_error *err);
PAWL_API void pawl_stats_free(pawl_stats *stats);

typedef struct pawl_node_info {
    int64_t id;
    const char *name;
    int64_t pid;
    bool alive;                  /* its process is known to live, or its lease is valid */
    int64_t born_us, expires_us; /* expires_us 0: holds no lease */
    int64_t leases;
    const char *queues; /* comma-separated */
    bool draining;      /* it was asked to start nothing more: see pawl_drain_node */
} pawl_node_info;

typedef struct pawl_nodes {
    size_t count;
    const pawl_node_info *nodes;
} pawl_nodes;

PAWL_API pawl_status pawl_get_nodes(pawl *p, pawl_nodes **out, pawl_error *err);
PAWL_API void pawl_nodes_free(pawl_nodes *nodes);

/* Asks a living node, of whatever process, to start nothing more, and to start again (on false); what runs there comes to its end. It hears of it
 * within about a second, as far as it has a thread to hear (not in inline mode); a node that its own program drains stays so.
 * NOT_FOUND: no node of this number lives. */
PAWL_API pawl_status pawl_drain_node(pawl *p, int64_t node, bool on, const char *by, pawl_error *err);

/* The operator log: what people did, newest first. Kept as long as audit trails. */
typedef struct pawl_act {
    int64_t at_us;
    const char *who, *action; /* cancel, retry, acknowledge, pause, resume, limit, ... */
    const char *detail;       /* a note, or the name of the queue or type that it was done to; NULL: none */
    pawl_id id;               /* the task; 0: none */
} pawl_act;

typedef struct pawl_acts {
    size_t count;
    const pawl_act *acts;
    int64_t next; /* `before` for the next page; 0: that was all */
} pawl_acts;

/* At most `limit` (0 = 100, at most 1000); `before` 0: from the newest on. */
PAWL_API pawl_status pawl_get_acts(pawl *p, int64_t before, int limit, pawl_acts **out, pawl_error *err);
PAWL_API void pawl_acts_free(pawl_acts *acts);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Rate limits while running (those in the store; see pawl_rate)
 */
typedef struct pawl_limit_info {
    const char *type;
    pawl_bytes key; /* none: the limit of the type, for every key that has none of its own */
    pawl_rate rate; /* in force; permits 0: only paused */
    bool own;       /* the key has a limit of its own, or is paused by itself */
    bool paused;
    int left;             /* starts that could be made now */
    int64_t next_slot_us; /* when the next task that asks may start; 0 for a type */
    int64_t waiting;      /* tasks stored with a slot ahead */
    /* What nodes hold, as they told last: every two seconds while tasks are parked, and the keys of which they hold most. */
    int64_t parked, running; /* tasks that wait at a node for slots that are near; and others that nodes have taken */
    int64_t parked_slot_us;  /* the first of the parked ones' slots; 0: none is known */
    const char *node;        /* of a key that a node counts for itself (PAWL_RATE_LOCAL, pawl_limiter): which; else NULL */
} pawl_limit_info;

typedef struct pawl_limit_filter {
    const char *type;   /* NULL: every type */
    pawl_bytes key;     /* none: every key */
    bool waiting;       /* only keys that tasks wait for */
    int limit;          /* rows at most; 0 = 100, at most 1000 */
    const char *cursor; /* pawl_limits.next of the page before; NULL: the first */
} pawl_limit_filter;

typedef struct pawl_limits {
    size_t count;
    const pawl_limit_info *limits; /* by type; its own limit first, then keys; behind the last what only nodes know */
    const char *next;              /* NULL: there are no more */
    int64_t now_us;                /* the store's */
    int64_t parked, deferrals, rejected, opened; /* in this process: waiting now; and so far: had to wait, refused, not limited */
    struct {
        int64_t parked, running, deferrals, rejected, opened;
    } all; /* of all nodes that live, as they told last */
} pawl_limits;

PAWL_API pawl_status pawl_get_limits(pawl *p, const pawl_limit_filter *filter, pawl_limits **out, pawl_error *err);
PAWL_API void pawl_limits_free(pawl_limits *limits);

/* Changes the limit of a type (key: none), or gives one key of it a limit of its own; permits 0 takes it away. In force for all nodes
 * with the next start; tasks that wait for slots of the old one ask anew. What is paused stays so. NOT_FOUND: there is none to be taken
 * away. */
PAWL_API pawl_status pawl_set_limit(pawl *p, const char *type, pawl_bytes key, const pawl_rate *rate, const char *by,
                                    pawl_error *err);

/* Nothing of the key (key: none, of the type's keys without a limit of their own) starts until it is resumed. Its limit, if it has one,
 * stays. Resuming one that has neither a limit nor a pause: NOT_FOUND. */
PAWL_API pawl_status pawl_pause_limit(pawl *p, const char *type, pawl_bytes key, const char *by, pawl_error *err);
PAWL_API pawl_status pawl_resume_limit(pawl *p, const char *type, pawl_bytes key, const char *by, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Concurrency limits while running (see pawl_scope)
 */
typedef struct pawl_place_info {
    pawl_scope scope;
    const char *name; /* of the queue, or the type */
    pawl_bytes key;   /* KEYS: the rate key; none: what holds for every key that has no limit of its own. TENANTS: the tenant */
    int most;         /* tasks at a time; 0: no limit any more, but tasks hold places of it. TENANTS: its weight */
    bool own;         /* stored for exactly this; else it is the limit of all keys of the type */
    bool ordered;
    int64_t taken;   /* places */
    int64_t blocked; /* tasks that wait for one */
    pawl_id holder;  /* who has had a place the longest; 0: nobody has one */
} pawl_place_info;

typedef struct pawl_place_filter {
    pawl_scope scope; /* 0: any */
    const char *name; /* NULL: any */
    pawl_bytes key;   /* none: any */
    pawl_id task;     /* not 0: only where this task is blocked */
    bool blocked;     /* only where tasks are blocked */
    int limit;        /* rows at most; 0 = 100, at most 1000 */
    const char *cursor;
} pawl_place_filter;

typedef struct pawl_places {
    size_t count;
    const pawl_place_info *places; /* by scope, name and key */
    const char *next;              /* NULL: there are no more */
} pawl_places;

PAWL_API pawl_status pawl_get_places(pawl *p, const pawl_place_filter *filter, pawl_places **out, pawl_error *err);
PAWL_API void pawl_places_free(pawl_places *places);

/* Lets `most` tasks of the scope run at a time; 0 takes the limit away. `key`: KEYS, the limit of that key alone; else none. `ordered`:
 * KEYS with most 1. In force for all nodes at once: what runs goes on and is counted, whoever fits in now starts.
 * TENANTS: `name` is a queue; with a tenant as key, `most` is its weight (0 = 1 again), without one 1 lets its tenants take turns
 * and 0 no longer. NOT_FOUND: there is nothing to be taken away. */
PAWL_API pawl_status pawl_set_concurrency(pawl *p, pawl_scope scope, const char *name, pawl_bytes key, int most, bool ordered,
                                          const char *by, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Schedules
 *
 * A schedule has a name and makes a task whenever it falls due. It is stored: any engine that is started on the store fires it, each
 * occurrence once, however many there are and whichever of them die. See docs/schedules.md.
 *
 *     pawl_put_schedule(p, &(pawl_schedule){.name = "report", .cron = "0 9 * * MON-FRI", .zone = "Europe/Berlin", .type = "report"},
 *                       PAWL_PUT_UPDATE, NULL, &err);
 *
 * Nothing drifts: the next occurrence follows from the one before, never from when that ran. What is stored goes only forward: a clock
 * that is set back fires nothing twice.
 */
typedef enum pawl_unit { /* days and longer are steps of the local calendar: the time of day stays */
                         PAWL_UNIT_NONE = 0,
                         PAWL_SECONDS,
                         PAWL_MINUTES,
                         PAWL_HOURS,
                         PAWL_DAYS,
                         PAWL_WEEKS,
                         PAWL_MONTHS, /* a day that a month does not have is its last one */
                         PAWL_YEARS
} pawl_unit;

#define PAWL_PLAN_TIMES 16

/* Days and times without a cron expression. Zero is "not said"; what is said must all hold. */
typedef struct pawl_plan {
    int times;                    /* how many of times_s count; 0: midnight */
    int times_s[PAWL_PLAN_TIMES]; /* seconds of the day */
    uint8_t weekdays;             /* bits: 1 << 0 is Sunday */
    uint32_t month_days;          /* bits: 1 << 1 is the first; 31 is the last day of a shorter month */
    uint16_t months;              /* bits: 1 << 1 is January */
    int nth;                      /* of the days that are left only the n-th of each month; negative: counted from its end */
} pawl_plan;

typedef enum pawl_gap { PAWL_GAP_DEFAULT = 0, PAWL_GAP_RUN, PAWL_GAP_SKIP } pawl_gap;
typedef enum pawl_twice { PAWL_TWICE_DEFAULT = 0, PAWL_TWICE_FIRST, PAWL_TWICE_BOTH } pawl_twice;

/* Occurrences that nobody fired in time: more than a minute late, or not the latest one any more. */
typedef enum pawl_missed {
    PAWL_MISSED_SKIP = 0, /* they are skipped, and counted */
    PAWL_MISSED_ONCE,     /* one task for all of them */
    PAWL_MISSED_ALL       /* a task for each of the last `catch_up`; those before are skipped */
} pawl_missed;

/* An occurrence that falls due while a task of the schedule is unfinished. */
typedef enum pawl_overlap {
    PAWL_OVERLAP_DEFAULT = 0, /* forbid; with PAWL_MISSED_ALL: allow */
    PAWL_OVERLAP_FORBID,      /* it is skipped, and counted */
    PAWL_OVERLAP_QUEUE,       /* it waits until that has ended; one at most, others are skipped */
    PAWL_OVERLAP_ALLOW
} pawl_overlap;

#define PAWL_SCHEDULE_DATES 64
#define PAWL_SCHEDULE_WINDOWS 16

typedef struct pawl_schedule {
    const char *name;
    /* When: one of these four. None of them: once, at its start. */
    const char *cron; /* see docs/cron.md */
    int64_t every;    /* so many `unit`s */
    pawl_unit unit;
    const pawl_plan *plan;
    const char *after; /* another schedule: after each success of a task of that one */
    const char *zone;  /* IANA name; NULL = "UTC" */
    pawl_gap gap;      /* local times that clocks jump over, and those they show twice: see docs/cron.md */
    pawl_twice twice;
    /* The first occurrence; at most one of these. Without: the first that falls due after the registration. */
    bool start_now;
    int64_t start_in_us; /* so long after the registration */
    int64_t start_us;    /* at this time. Of an interval also what it is counted from */
    int64_t until_us;    /* no occurrence from then on; 0 = no end */
    int64_t max_runs;    /* tasks it makes at most (one that ends without having started is not counted); 0 = no limit */
    pawl_missed missed;
    int catch_up; /* PAWL_MISSED_ALL: 0 = 100, which is also the most */
    pawl_overlap overlap;
    uint8_t not_weekdays;         /* bits: 1 << 0 is Sunday */
    const char *const *not_dates; /* NULL-terminated: "2026-12-25", "2026-12-24/2027-01-01" (both included) */
    const char *const *not_times; /* NULL-terminated: "12:00-13:00", "22:00-06:00" (the end is not included) */
    int64_t variance_us;          /* fires up to so much later, by chance; less than from one occurrence to the next */
    /* The task. queue NULL = `recurring`. */
    const char *type, *queue, *tenant, *content_type;
    pawl_bytes payload, rate_key;
    int priority, max_attempts;
    int64_t timeout_us;
    pawl_audit audit;
    bool disabled;  /* stored, but fires nothing until it is enabled */
    const char *by; /* who puts it, for the operator log; NULL: no entry. Not stored with it */
} pawl_schedule;

typedef enum pawl_put {
    PAWL_PUT_KEEP = 0, /* what is stored under the name stays as it is */
    PAWL_PUT_UPDATE,   /* replaces it, if it differs. One that a person disabled stays disabled */
    PAWL_PUT_ADD,      /* CONFLICT if there is one */
    PAWL_PUT_EDIT      /* NOT_FOUND if there is none */
} pawl_put;

/* Stores a schedule. INVALID: it cannot be kept: what is wrong, and where; also if it would never fire, or waits for itself. *outcome
 * (may be NULL): CREATED, EXISTING (nothing changed) or UPDATED. */
PAWL_API pawl_status pawl_put_schedule(pawl *p, const pawl_schedule *schedule, pawl_put how, pawl_dispatched *outcome,
                                       pawl_error *err);

typedef enum pawl_gone { PAWL_GONE_DISABLE = 0, PAWL_GONE_IGNORE, PAWL_GONE_DELETE } pawl_gone;

typedef struct pawl_put_options {
    pawl_put how; /* KEEP or UPDATE */
    const char
        *prefix; /* schedules whose names begin so and that are not among those put: see `gone`; NULL = leave others alone */
    pawl_gone gone;
    const char *by;
} pawl_put_options;

/* All the schedules of a program, in one commit. One that is invalid refuses the whole call. */
PAWL_API pawl_status pawl_put_schedules(pawl *p, const pawl_schedule *schedules, size_t n, const pawl_put_options *options,
                                        pawl_error *err);

/* Enabled again, it goes on with the first occurrence from now on. `by` names the person for the operator log; may be NULL. */
PAWL_API pawl_status pawl_enable_schedule(pawl *p, const char *name, const char *by, pawl_error *err);
PAWL_API pawl_status pawl_disable_schedule(pawl *p, const char *name, const char *by, pawl_error *err);
PAWL_API pawl_status pawl_remove_schedule(pawl *p, const char *name, const char *by, pawl_error *err); /* its tasks stay */

/* Makes a task now; the schedule is unchanged. `payload` NULL: its own. CONFLICT: a task of it is unfinished, and it does not allow
 * two. *id may be NULL. */
PAWL_API pawl_status pawl_run_schedule(pawl *p, const char *name, const pawl_bytes *payload, const char *by, pawl_id *id,
                                       pawl_error *err);

/* Why it fires nothing. */
/* clang-format off */
#define PAWL_OFF_TABLE(X)                                                                       \
    X(PERSON,  "disabled")  /* somebody disabled it */                                          \
    X(ENDED,   "ended")     /* it has had all its runs, or its end has come */                  \
    X(GONE,    "gone")      /* the program that registered it has it no more */                 \
    X(INVALID, "invalid")   /* what is stored makes no sense here; `reason` says why */

typedef enum pawl_off {
    PAWL_OFF_NOT = 0, /* it is enabled */
#define X(name, text) PAWL_OFF_##name,
    PAWL_OFF_TABLE(X)
#undef X
    PAWL_OFF_COUNT
} pawl_off;

#define PAWL_OCCURRENCE_TABLE(X)                                                                \
    X(WAITING,   "waiting")   /* due; its task is made when the one before has ended */         \
    X(OPEN,      "open")      /* its task is unfinished */                                      \
    X(SUCCEEDED, "succeeded")                                                                   \
    X(FAILED,    "failed")                                                                      \
    X(CANCELLED, "cancelled") /* after it had started */                                        \
    X(UNSTARTED, "unstarted") /* its task ended without having started */                       \
    X(SKIPPED,   "skipped")   /* `why`: missed, merged, overlap */

typedef enum pawl_occurrence_state {
    PAWL_OCCURRENCE_NONE = 0,
#define X(name, text) PAWL_OCCURRENCE_##name,
    PAWL_OCCURRENCE_TABLE(X)
#undef X
    PAWL_OCCURRENCE_COUNT
} pawl_occurrence_state;
/* clang-format on */

PAWL_API const char *pawl_off_name(pawl_off off); /* "enabled", "disabled" */
PAWL_API const char *pawl_occurrence_name(pawl_occurrence_state state);

/* What became of an occurrence. The last hundred of a schedule are kept. */
typedef struct pawl_occurrence {
    int64_t occurrence; /* when it was due; of an `after` schedule: the id of the task that succeeded; run by hand: when */
    pawl_occurrence_state state;
    int64_t at_us;   /* when that was decided */
    pawl_id task;    /* 0: none */
    int64_t count;   /* SKIPPED: so many, from this one on */
    const char *why; /* SKIPPED: "missed", "merged" (one run for all), "overlap", "ended"; run by hand: "by hand"; else NULL */
} pawl_occurrence;

typedef struct pawl_schedule_info {
    pawl_schedule definition; /* INVALID ones: only the name */
    const char *spec;         /* as it is stored */
    const char *words;        /* when, in English; "" if it makes no sense */
    pawl_off off;
    const char *reason;    /* why, if it is off; NULL: nothing was said */
    int64_t next_us;       /* when it fires next; 0: not known, or never */
    int64_t occurrence_us; /* which occurrence that is: earlier by its variance */
    int64_t last_us;       /* the last occurrence that was fired or skipped; 0: none */
    int64_t created_us, changed_us;
    int64_t runs, fired, skipped, succeeded, failed;
    int64_t open, waiting; /* unfinished tasks; occurrences that wait */
    pawl_id last_task;
    int64_t version; /* grows with whatever changes it */
    size_t occurrences_count;
    const pawl_occurrence *occurrences; /* newest first; only from pawl_get_schedule */
    size_t upcoming_count;
    const int64_t *upcoming_us; /* the next occurrences; only from pawl_get_schedule */
} pawl_schedule_info;

/* One schedule, with the last occurrences and the next `upcoming` ones (at most 1000). */
PAWL_API pawl_status pawl_get_schedule(pawl *p, const char *name, int upcoming, pawl_schedule_info **out, pawl_error *err);
PAWL_API void pawl_schedule_info_free(pawl_schedule_info *info);

typedef struct pawl_schedule_filter {
    const char *prefix; /* of the name; NULL: all */
    bool enabled, off;  /* only those that are, or that are not */
    int limit;          /* 0 = 100, at most 1000 */
    const char *cursor; /* pawl_schedules.next of the page before */
} pawl_schedule_filter;

typedef struct pawl_schedules {
    size_t count;
    const pawl_schedule_info *schedules; /* by name */
    const char *next;                    /* NULL: there are no more */
    int64_t now_us;                      /* the store's */
} pawl_schedules;

PAWL_API pawl_status pawl_list_schedules(pawl *p, const pawl_schedule_filter *filter, pawl_schedules **out, pawl_error *err);
PAWL_API void pawl_schedules_free(pawl_schedules *schedules);

/* When a schedule that is not stored would fire, from `from_us` (0 = now) on: up to n times, *count of them (0: it waits for another). */
PAWL_API pawl_status pawl_preview_schedule(pawl *p, const pawl_schedule *schedule, int64_t from_us, int64_t *times_us, size_t n,
                                           size_t *count, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Dependencies and batches
 *
 * A task with parents waits until all of them have ended, and is due then (or at its own time, if that is later). Parents must be
 * stored when it is dispatched: those that ended long ago and are gone answer NOT_FOUND; so there are no cycles. A batch is a parent,
 * too: it ends when it is closed and all of its members have ended, and has failed or was cancelled if one of them has.
 *
 *     pawl_open_batch(p, &(pawl_batch_options){.name = "import 42", .on_finished = &(pawl_task){.type = "import.report"}}, &batch, &err);
 *     for (...) pawl_dispatch(p, &(pawl_task){.type = "import.row", .payload = row, .batch = batch}, NULL, &err);
 *     pawl_close_batch(p, batch, NULL, &err);
 *
 * Members may be added until it is closed; what a member spawns may join it even then. See docs/dependencies.md.
 */
typedef struct pawl_batch_options {
    const char *name;              /* one at a time has it; NULL = the id's 13 characters */
    pawl_id within;                /* the batch that it is a member of; 0 = none */
    const pawl_task *on_finished;  /* dispatched when it ends, however; NULL = nothing. Neither parents nor a batch of its own */
    const pawl_task *on_succeeded; /* dispatched when it ends and all have succeeded; cancelled otherwise */
} pawl_batch_options;

/* CONFLICT: a batch has that name, or the one it should be within is closed. options may be NULL. */
PAWL_API pawl_status pawl_open_batch(pawl *p, const pawl_batch_options *options, pawl_id *id, pawl_error *err);

/* No more members. CONFLICT: it was closed before. `by` names the person for the operator log; may be NULL. */
PAWL_API pawl_status pawl_close_batch(pawl *p, pawl_id id, const char *by, pawl_error *err);

/* Closes it and cancels all that have not ended, a batch within it, too. CONFLICT: it has ended. */
PAWL_API pawl_status pawl_cancel_batch(pawl *p, pawl_id id, const char *by, pawl_error *err);

typedef struct pawl_batch_info {
    pawl_id id;
    const char *name;
    pawl_id within;   /* 0: none */
    pawl_state state; /* PENDING: open; WAITING: closed, for its members; SUCCEEDED, FAILED or CANCELLED: ended */
    bool cancel_asked;
    int64_t total, unfinished, succeeded, failed, cancelled; /* members; a batch within it is one */
    int64_t created_us, closed_us, ended_us;                 /* 0: not yet */
} pawl_batch_info;

/* By id, or by name if id is 0. */
PAWL_API pawl_status pawl_get_batch(pawl *p, pawl_id id, const char *name, pawl_batch_info **out, pawl_error *err);
PAWL_API void pawl_batch_info_free(pawl_batch_info *info);

typedef struct pawl_batch_filter {
    bool unfinished;    /* only those that have not ended */
    int limit;          /* 0 = 100, at most 1000 */
    const char *cursor; /* pawl_batches.next of the page before */
} pawl_batch_filter;

typedef struct pawl_batches {
    size_t count;
    const pawl_batch_info *batches; /* newest first */
    const char *next;               /* NULL: there are no more */
} pawl_batches;

PAWL_API pawl_status pawl_list_batches(pawl *p, const pawl_batch_filter *filter, pawl_batches **out, pawl_error *err);
PAWL_API void pawl_batches_free(pawl_batches *batches);

typedef enum pawl_relation {
    PAWL_PARENTS = 1, /* of a task */
    PAWL_CHILDREN,    /* of a task or a batch: who has it as a parent */
    PAWL_MEMBERS,     /* of a batch */
    PAWL_BATCH_OF     /* the batch of a task, or that a batch is within: one or none */
} pawl_relation;

typedef struct pawl_relative {
    pawl_id id;
    bool batch;               /* a batch; else a task */
    const char *type;         /* of a batch: its name. NULL: it is swept */
    pawl_state state;         /* of a batch as in pawl_batch_info */
    bool waits;               /* the child of the two still waits for the parent */
    bool held;                /* and does so because the parent failed or was cancelled (PAWL_IF_FAILED_HOLD) */
    pawl_if_failed if_failed; /* of a child that waits; else CANCEL */
    /* Of parents that have ended: */
    pawl_bytes result;
    const char *result_type, *result_ref, *error; /* NULL: none */
} pawl_relative;

typedef struct pawl_relatives {
    size_t count;
    const pawl_relative *relatives; /* by id */
    pawl_id next;                   /* 0: there are no more */
} pawl_relatives;

/* Whom a task or batch has to do with; of parents with their results, which are kept as long as the child is stored. `after`: 0, or
 * `next` of the page before; limit: 0 = 100, at most 1000. A task without relatives has none; whether it exists is not asked. */
PAWL_API pawl_status pawl_get_relatives(pawl *p, pawl_id id, pawl_relation relation, pawl_id after, int limit,
                                        pawl_relatives **out, pawl_error *err);
PAWL_API void pawl_relatives_free(pawl_relatives *relatives);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Events
 */
/* clang-format off */
#define PAWL_EVENT_TABLE(X)                                                     \
    X(DISPATCHED, "dispatched") X(STARTED, "started") X(SUCCEEDED, "succeeded") \
    X(FAILED, "failed") X(RETRYING, "retrying") X(SNOOZED, "snoozed")           \
    X(CANCELLED, "cancelled") X(RELEASED, "released") X(RESCUED, "rescued")     \
    X(PROGRESS, "progress") X(TIMEOUT, "timeout") X(STUCK, "stuck")             \
    X(LEASE_LOST, "lease_lost") X(PAUSED, "paused") X(RESUMED, "resumed")       \
    X(STORE_DOWN, "store_down") X(STORE_UP, "store_up") X(NODE_STARTED, "node_started") \
    X(NODE_STOPPED, "node_stopped") X(UNKNOWN_TYPE, "unknown_type") X(LONG_RUNNING, "long_running") \
    X(STORE_CLOSED, "store_closed") X(DEFERRED, "deferred") X(RATE_OPEN, "rate_open") X(LIMITS_CHANGED, "limits_changed") \
    X(NODE_LOST, "node_lost")

typedef enum pawl_event_kind {
    PAWL_EVENT_NONE = 0,
#define X(name, text) PAWL_EVENT_##name,
    PAWL_EVENT_TABLE(X)
#undef X
    PAWL_EVENT_COUNT
} pawl_event_kind;
/* clang-format on */

/* NODE_LOST: a node is gone, and what it had not told others with it; or its tasks were rescued. RESCUED: pawl_follow says type and queue, whoever
 * hears it of this engine alone knows the id. STARTED: handed to a worker. A cancel
 * that arrives before the worker calls the handler ends the task without calling it or a hook. */
PAWL_API const char *pawl_event_name(pawl_event_kind kind);

typedef struct pawl_event {
    pawl_event_kind kind;
    int64_t at_us;
    pawl_id id; /* 0: not about a task */
    int attempt;
    int64_t fence;
    /* retrying, snoozed: delay_us; progress: percent; deferred: the slot; rate_open: how many so far */
    int64_t value;
    uint64_t lost;            /* events this subscriber lost just before this one, because it was slow */
    char type[64], queue[64]; /* cut if longer */
    char text[128]; /* error or progress text, cut if longer; deferred: "key=KEY count=N", N tasks since the event before */
} pawl_event;

typedef struct pawl_subscription pawl_subscription;

/* Facts about tasks as this engine sees them (what other nodes do is not among them). A subscriber that does not keep up with
 * `capacity` events (0 = 1024) loses the oldest; the engine never waits for it. */
PAWL_API pawl_status pawl_subscribe(pawl *p, size_t capacity, pawl_subscription **out, pawl_error *err);
/* The next event; waits up to timeout_us (negative: no limit). false: none in time, or the engine closed. */
PAWL_API bool pawl_next_event(pawl_subscription *s, int64_t timeout_us, pawl_event *event);
/* A descriptor that is readable while events wait, for poll and epoll. Do not read from it. */
PAWL_API int pawl_subscription_fd(pawl_subscription *s);
PAWL_API void pawl_unsubscribe(pawl_subscription *s);

typedef struct pawl_fact {
    int64_t number; /* grows from one to the next */
    char node[64];  /* the name of the node that tells it, cut if longer */
    pawl_event event;
} pawl_fact;

typedef struct pawl_facts {
    size_t count;
    const pawl_fact *facts; /* by number */
    int64_t next;           /* `after` of the next call */
    int64_t broken; /* before this number nobody listened for a while: who has seen none since then has missed some; 0: never */
} pawl_facts;

/* What all nodes of the store tell: events of every engine that has it open. They are told only while somebody listens: whoever calls this
 * does for a minute. The last 20,000 are kept. `after`: the number of the last one seen, 0: whatever is kept, negative: only what comes
 * from now on. Waits up to timeout_us (negative: no limit) for the first; none in time: count 0. A node that is killed takes what it
 * had not told along: NODE_LOST says so some seconds later. At most `most` (0 = 1000). UNSUPPORTED: `memory:`, where pawl_subscribe hears everything. */
PAWL_API pawl_status pawl_follow(pawl *p, int64_t after, int64_t timeout_us, int most, pawl_facts **out, pawl_error *err);
PAWL_API void pawl_facts_free(pawl_facts *facts);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Pulling: a program that has tasks run elsewhere
 *
 * A queue with a puller has no threads. What can start is handed over, at most as many at a time as pawl_add_workers allows, and runs
 * until pawl_run_finish, wherever that may be. Handlers say types and policies; their `run` and hooks are not called.
 */
typedef struct pawl_puller {
    /* These may start at once. A run belongs to the program until it finishes or returns it. On any thread, as `ended` below: be quick;
     * of pawl call only what begins with pawl_run_, and pawl_add_workers. */
    void (*take)(void *ctx, pawl_run *const *runs, size_t count);
    /* The outcome is committed as SUCCEEDED, FAILED, RETRYING, SNOOZED, CANCELLED or RELEASED; LEASE_LOST: it came too late and counts for
     * nothing. Called once for each run that was finished; it is gone afterwards. */
    void (*ended)(void *ctx, pawl_run *run, pawl_event_kind how);
    void *ctx;
} pawl_puller;

/* So many more runs may be out at a time (negative: fewer, which ends none). There are 0 at first. `nobody`: and nobody will ask
 * until the next call, so what this node holds ready, or gets back, returns to the store. */
PAWL_API pawl_status pawl_add_workers(pawl *p, const char *queue, int count, bool nobody, pawl_error *err);

/* Gives a run back that nobody was told of: it is offered again, under the same fence. */
PAWL_API pawl_status pawl_run_return(pawl_run *run, pawl_error *err);

/* Many at once, in one commit if possible. Those that were finished before are left out. */
PAWL_API void pawl_run_finish_all(pawl_run *const *runs, const pawl_outcome *outcomes, size_t count);

/* Something of the program's own at a run. */
PAWL_API void pawl_run_set_user(pawl_run *run, void *user);
PAWL_API void *pawl_run_user(const pawl_run *run);

/* How long this node's lease is good for yet: what others may be promised. It says
 * nothing while the node holds no task. */
PAWL_API int64_t pawl_lease_left(pawl *p);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Health
 */
typedef struct pawl_health {
    bool started, store_ok, healthy;
    bool store_closed;        /* its tasks are moving to another store, or have moved: see pawl_move */
    int64_t store_latency_us; /* of the last commit */
    int64_t loop_lag_us;      /* how late the engine's thread is; large = stuck */
    int64_t lease_left_us;    /* 0: holds no lease */
    int64_t running, ready, unanswered, stuck, long_running, outcomes_waiting;
    int64_t parked, deferrals, rejected, opened; /* rate limits: as in pawl_limits, of this process */
    int64_t commits;                             /* transactions that changed the store, since the handle was opened */
    int64_t events[PAWL_EVENT_COUNT]; /* how often each happened at this node since then, whether anybody subscribed or not */
    char text[256];                   /* what a person should know; empty when healthy */
} pawl_health;

PAWL_API pawl_status pawl_get_health(pawl *p, pawl_health *out, pawl_error *err);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Upkeep
 */

/* A consistent copy of the store while it is in use. SQLite: `path` is a new file. Must not exist. `progress` may be NULL; it
 * returns false to stop (CONFLICT, no file left). */
typedef bool (*pawl_backup_fn)(void *ctx, int64_t done, int64_t total);
PAWL_API pawl_status pawl_backup(pawl *p, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err);

/* One numbered step of a store's schema. */
typedef struct pawl_migration {
    int number;
    const char *name;
    const char *sql;
    bool expanding; /* it only adds: programs that know the schema before it go on working */
    bool pending;   /* the store does not have it yet */
} pawl_migration;

typedef struct pawl_schema {
    int64_t stored;         /* the number of the store's schema; 0: it is empty */
    int64_t min_reader;     /* programs must know this schema, or a later one, to use the store; 0: it is empty */
    int64_t known;          /* the schema this program has; 0: stores of this kind have none */
    const char *written_by; /* the version of pawl that brought the schema there; NULL: it is empty */
    bool fits;              /* what is stored is nothing that this program would trip over */
    size_t pending;         /* migrations that the store does not have yet */
    bool closing;           /* one of those is not expanding: opening the store does not apply it, pawl_migrate does */
    size_t count;
    const pawl_migration *migrations; /* all that this program has, in their order */
} pawl_schema;

/* What the schema of a store is, and what this program would make of it. `store` (as in pawl_options) and allocator count.
 * Changes nothing, and answers also where pawl_open says SCHEMA. NOT_FOUND: there is no such store. */
PAWL_API pawl_status pawl_get_schema(const pawl_options *options, pawl_schema **out, pawl_error *err);
PAWL_API void pawl_schema_free(pawl_schema *schema);

/* Applies every pending migration in one transaction, also one that is not expanding: programs that know too little refuse from then
 * on, at their next write. Nothing pending: does nothing. NOT_FOUND: there is no such store, and none is made. */
PAWL_API pawl_status pawl_migrate(const pawl_options *options, pawl_error *err);

typedef enum pawl_verdict {
    PAWL_VERDICT_OK = 1,
    PAWL_VERDICT_WARN, /* worth a look */
    PAWL_VERDICT_ACT   /* it will not get better by itself: a person must act */
} pawl_verdict;

PAWL_API const char *pawl_verdict_name(pawl_verdict verdict); /* "ok", "warn", "act" */

typedef struct pawl_finding {
    const char *check; /* a word that a program can test: "wal", "unserved_queues" */
    pawl_verdict verdict;
    const char *text;   /* what was found, a sentence */
    const char *advice; /* what to do; NULL: nothing */
} pawl_finding;

typedef struct pawl_checkup {
    pawl_verdict worst;
    size_t count;
    const pawl_finding *findings;
} pawl_checkup;

/* Looks at a store as a person would who is called because something is wrong: the disk, the database, nodes, queues and tasks. `store`
 * and allocator count. Takes a second or so, changes nothing in the store; the disk is measured with a file of its own beside it, which
 * is gone afterwards. A store that exists but cannot be used is a finding; NOT_FOUND: there is none. */
PAWL_API pawl_status pawl_examine(const pawl_options *options, pawl_checkup **out, pawl_error *err);
PAWL_API void pawl_checkup_free(pawl_checkup *checkup);

/* ---------------------------------------------------------------------------------------------------------------------------
 * Moving to another store
 *
 * All tasks of one store go to another, empty one, of any kind: live ones, schedules, history, statistics. Nodes go on working on the
 * first while history is copied; then it is closed, what runs there comes to its end, and the rest follows. Counts and sums of ids
 * are compared before the second store is opened. A closed store refuses dispatches with MOVED and says where the tasks went.
 *
 * Whoever is killed on the way is started again with the same two stores and goes on from where it came to. See docs/moving.md.
 */
typedef struct pawl_move_progress {
    const char *phase;   /* "counting", "history", "waiting", "rest", "statistics", "checking" */
    int64_t done, total; /* tasks copied; tasks that were there when it began */
    const char *waiting; /* "waiting": for whom, a sentence; else NULL */
} pawl_move_progress;

/* Called now and then; false stops the move (CONFLICT): it can be taken up again. */
typedef bool (*pawl_move_fn)(void *ctx, const pawl_move_progress *progress);

typedef struct pawl_move_options {
    const char *from, *to; /* URLs; `to` is made if need be, and must hold no tasks */
    const char *by;        /* names the person; may be NULL */
    int64_t grace_us;      /* how long what runs may take to end; then TIMEOUT, and the first store stays closed; 0 = no limit */
    bool abort;            /* give a move up instead: the first store is opened again, the second emptied */
    bool lost;             /* with abort: the second store is gone for good */
    bool
        leave_limits; /* rate limits and concurrency limits do not go along. Without this a store that has any is moved only to one
                            * that keeps them; */
    bool leave_schedules;  /* likewise schedules */
    pawl_move_fn progress; /* may be NULL */
    void *ctx;
    pawl_allocator allocator; /* zero = malloc */
} pawl_move_options;

typedef struct pawl_move_report {
    int64_t tasks;                                 /* at the second store */
    int64_t pending, succeeded, failed, cancelled; /* of them; pending: whatever is not finished */
    int64_t copied;                                /* by this call */
    bool resumed;                                  /* it had been begun before */
} pawl_move_report;

/* Moves, or goes on with a move. Errors: CONFLICT (the second store holds tasks, another move is under way, ...), TIMEOUT, UNSUPPORTED,
 * CORRUPT (the counts differ in the end: nothing is lost, the first store has everything), and those of both stores. `report` may be
 * NULL. */
PAWL_API pawl_status pawl_move(const pawl_move_options *options, pawl_move_report *report, pawl_error *err);

/* Tasks as text: one JSON object a line, between a header and an end that has count and sum; limits and batches stand before the tasks,
 * schedules behind them.
 * docs/export-format.md describes it. */
typedef bool (*pawl_write_fn)(void *ctx, const void *data, size_t n); /* false: it cannot be written; the export stops */
typedef int64_t (*pawl_read_fn)(void *ctx, void *room,
                                size_t most); /* bytes that were read; 0: the end; -1: they cannot be read */

typedef struct pawl_export_options {
    const char *store;  /* as in pawl_options */
    const char *states; /* comma-separated names of states; NULL = all, and limits, batches and schedules */
    pawl_write_fn write;
    void *write_ctx;
    pawl_move_fn progress; /* may be NULL */
    void *ctx;
    pawl_allocator allocator; /* zero = malloc */
} pawl_export_options;

/* Writes tasks, oldest ids first. The store may be in use: each page of them shows one moment. *count may be NULL. */
PAWL_API pawl_status pawl_export(const pawl_export_options *options, int64_t *count, pawl_error *err);

typedef struct pawl_import_options {
    const char *store; /* as in pawl_options; made if need be */
    pawl_read_fn read;
    void *read_ctx;
    bool new_ids; /* store them under ids of this store's own; what points to other tasks is left out */
    bool cut;     /* take what is there although the end is missing */
    void (*bad)(void *ctx, int64_t line, const char *why); /* a line that was left out, also of a limit; may be NULL */
    pawl_move_fn progress;                                 /* may be NULL */
    void *ctx;                                             /* of bad and progress */
    pawl_allocator allocator;
} pawl_import_options;

typedef struct pawl_import_report {
    int64_t lines;       /* that hold tasks */
    int64_t created;     /* stored now */
    int64_t present;     /* were there already: importing again does no harm */
    int64_t bad;         /* left out */
    bool whole;          /* the end was there, and agreed */
    int64_t limits;      /* rate limits that were put; */
    int64_t limits_kept; /* that were here already, the same or others, and stay */
} pawl_import_report;

/* Stores tasks as they were exported, with ids, times, fences and history, and limits, batches and schedules where there are none. Bad lines are left out
 * and told; what stood before an error is stored, and can be imported again. CONFLICT: the input is cut (unless `cut`), or not what its
 * end says. `report` may be NULL; it is filled in any case. */
PAWL_API pawl_status pawl_import(const pawl_import_options *options, pawl_import_report *report, pawl_error *err);

/* Custom stores: see pawl/store.h. `postgres:` is a module that is loaded when a URL asks for it; a program that would rather link it
 * (libpawl-postgres.a and -lpq) declares and registers what is in there:
 *
 *     const struct pawl_store_type *pawl_postgres_store(const char *version);
 *     pawl_register_store(pawl_postgres_store(PAWL_VERSION), &err);
 */
struct pawl_store_type;
PAWL_API pawl_status pawl_register_store(const struct pawl_store_type *type, pawl_error *err);

#ifdef __cplusplus
}
#endif
#endif
