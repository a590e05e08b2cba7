/* The memory store's inside. Nobody but memory*.c includes this.
 *
 *   memory.c          opening, sharing by name, nodes, numbers for ids, watching
 *   memory_task.c     one task: creation, every change of state, its trail, its end
 *   memory_queue.c    queues and what stands ready in them
 *   memory_apply.c    batches: the operations
 *   memory_receipt.c  what a batch sent again is answered
 *   memory_prepare.c  what a batch needs, allocated before anything changes
 *   memory_claim.c    claims, renewals, news, rescue
 *   memory_budget.c   rate limits and their budgets
 *   memory_place.c    concurrency limits: who holds places, who is blocked
 *   memory_share.c    queues whose tenants take turns; looking at both
 *   memory_schedule.c schedules and their occurrences
 *   memory_family.c   parents, children and batches of tasks
 *   memory_sweep.c    retention
 *   memory_read.c     get, list, trail, nodes
 *   memory_stats.c    rollups and the numbers made of them
 *   memory_pool.c     blocks of one size
 *   memory_tree.c     an ordered tree
 *
 * WHERE A TASK IS. Every task stored is in `all`, by id, or waits in `fresh` to be put there: a task that comes and goes while nobody
 * asks for what has finished is spared that. Besides, by its state (mem_place, mem_unplace):
 *
 *   waiting, pending, leased   `live`, a hash by id; counted in its queue; names its level
 *   pending                    level->ready[class], by (run_at, id); blocked: its spot's tree
 *   leased                     its node's list `leased`, or `asked` once somebody wants it cancelled
 *   finished                   aged[...], the one that finished (or was resolved) first comes first
 *
 * A level is what of one (queue, type) has one priority; levels of a kind stand in order of priority. So a claim looks at
 * the first task of each level from the most urgent on, and neither a million tasks of the future nor those of types it
 * does not know nor suspects it may not have stand in its way.
 *
 * A CHANGE IS WHOLE. Whatever may fail (memory) comes first; from the first change on nothing can fail. Trees and lists
 * live inside what they order, hash maps never fail, rows come from pools that were filled before.
 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include "base/alloc.h"
#include "base/canary.h"
#include "base/check.h"
#include "base/error.h"
#include "base/idgen.h"
#include "base/list.h"
#include "base/map.h"
#include "core/body.h"
#include "core/limit.h"
#include "core/task.h"
#include "store/budget.h"
#include "store/memory_tree.h"
#include "store/store.h"
#include <pthread.h>
#include <string.h>

#define SUSPICIONS 3  /* ready trees of a level: innocent, suspect, suspect that runs alone */
#define STRIKES_OUT 3 /* counted rescues that end a task */
#define MINUTES 2880  /* of rollups: two days */
#define BUCKETS 80    /* of a histogram: two to the octave */
#define RECEIPT_US PAWL_DAY
#define FRESH 16384   /* tasks that are sorted by id only when somebody asks */
#define HISTORY 10000 /* finished tasks kept of each age; older ones go even before retention says so */

typedef struct mem mem;
typedef struct mem_task mem_task;
typedef struct mem_schedule mem_schedule;
typedef struct mem_definition mem_definition;
typedef struct mem_batch mem_batch;

typedef struct mem_pool {
    size_t size; /* of a block */
    struct mem_spare *free;
    size_t free_count;
    char *next; /* never used yet, in the newest slab */
    size_t next_count;
    struct mem_slab *slabs;
    size_t total;
} mem_pool;

typedef struct mem_queue {
    map_node by_name;
    list link, kinds;
    int64_t waiting, pending, leased, failed; /* failed: unresolved */
    int64_t coming;                           /* while a group is judged: what it would add */
    int64_t throttled;                        /* as mem_throttled counted last */
    bool paused;
    bool fair;     /* its tenants take turns: tasks that come have kinds of their tenant's own */
    list shares;   /* tenants seen since, or that have a weight */
    int turn;      /* number of the share whose turn it is, */
    int turn_left; /* and how many tasks more it may have */
    char name[];
} mem_queue;

typedef struct mem_share { /* a tenant in a queue */
    list link;
    int number;
    int weight; /* 0: none was put, so 1 */
    char tenant[];
} mem_share;

typedef struct mem_kind { /* one type in one queue */
    map_node by_name;
    list link;
    mem_queue *queue;
    mem_share *share; /* NULL: of all tenants */
    tree levels;
    uint64_t claim; /* that looked at it last */
    int number;
    char type[];
} mem_kind;

typedef struct mem_level {
    tree_node by_priority;
    mem_kind *kind;
    int64_t users; /* unfinished tasks, and batches being prepared */
    int priority;
    tree ready[SUSPICIONS];
} mem_level;

typedef struct mem_node {
    map_node by_id;
    list link, holding;        /* holding: linked while it has leases */
    struct mem_handle *handle; /* NULL: closed, so its process is as good as gone */
    int64_t id, pid, lease_us, born_us, died_us;
    bool alive, swept, draining;
    int64_t renewal, expires_boot_us; /* the heartbeat; 0: lapsed */
    pawl_bytes told;                  /* about itself; data NULL: nothing */
    list leased, asked;               /* its tasks; asked: whose cancel was asked */
    int64_t leases, marked;           /* marked: of its leases, those with the start mark; once dead, those it died with */
    int64_t names;                    /* who points here: rows, attempts, tasks */
    char *name, *queues, *types;
} mem_node;

/* What a run left behind beyond numbers; one block with its texts. */
typedef struct mem_ending {
    const char *code, *error, *reason, *result_type, *result_ref;
    pawl_bytes result;
} mem_ending;

typedef struct mem_attempt { /* an execution that was not the last */
    struct mem_attempt *next;
    mem_node *node;
    mem_ending *ending;
    int64_t started_us, finished_us, fence;
    int number, log_lines;
    pawl_attempt_outcome outcome;
} mem_attempt;

typedef struct mem_row { /* of the audit trail */
    list age;
    struct mem_row *next;
    mem_task *task;
    mem_node *node;
    int64_t at_us, fence;
    const char *detail; /* a constant, or a text of the task's endings */
    pawl_state from, to;
} mem_row;

typedef struct mem_log {
    list age;
    struct mem_log *next;
    mem_task *task;
    int64_t at_us;
    int attempt;
    size_t len;
    char bytes[];
} mem_log;

typedef struct mem_resolution { /* a dead letter's; retried_as also of a cancelled task */
    pawl_id retried_as;
    int64_t resolved_us;
    char *by, *note; /* in the same block */
} mem_resolution;

typedef struct mem_key { /* (tenant, key) -> the last task that had it */
    map_node by_hash;
    mem_task *task;
} mem_key;

typedef struct mem_scope { /* (type, rate key), of a limit or a budget */
    map_node by_hash;
    list link;
    const char *type;
    pawl_bytes key; /* none: of a limit, the type's own */
} mem_scope;

typedef struct mem_limit {
    mem_scope scope;
    pawl_rate rate;
    budget_limit limit;
    bool stored, paused, in_force;
    int overrides; /* of a type: keys that have limits of their own */
    int64_t changed_us;
} mem_limit;

typedef struct mem_budget {
    mem_scope scope; /* in the list by last use */
    budget_row row;
    list slotted; /* pending tasks that have slots */
} mem_budget;

typedef struct mem_named { /* what a bound or a spot is of */
    map_node by_hash;
    list link;
    int scope; /* pawl_scope */
    const char *name;
    pawl_bytes key;
} mem_named;

typedef struct mem_bound { /* a concurrency limit */
    mem_named id;
    int most; /* 0: none (any more) */
    bool ordered;
    int overrides; /* of all keys of a type: keys that have bounds of their own */
} mem_bound;

typedef struct mem_spot {
    mem_named id;
    list holds; /* oldest first */
    int taken;
    int64_t blocked_count;
    tree blocked;
    bool touched;
    list touch; /* in touched_spots, if touched */
} mem_spot;

typedef struct mem_hold { /* a place */
    map_node by_task;
    list link;
    mem_spot *spot;
} mem_hold;

/* attempts, rows and logs are rings: they point at the newest, whose next is the oldest. */
struct mem_task {
    union {
        tree_node by_id; /* once it is `sorted` */
        list fresh;
    };
    union {
        tree_node order;
        list lease;
        list age;
    } place;
    map_node live;
    pawl_id id;
    pawl_body *body;
    mem_kind *kind;
    mem_level *level; /* NULL: finished */
    mem_node *node;   /* that has it, or had it at the end */
    mem_key *key;     /* NULL: none, or another task has it now */
    int64_t run_at_us, started_us, finished_us, run_finished_us, fence;
    mem_budget *budget; /* pending, with a slot of this gate at run_at */
    list slot;
    union {
        int64_t slot_epoch;
        mem_spot *spot; /* where it is blocked */
    };
    mem_attempt *attempts;
    mem_row *rows;
    mem_log *logs;
    mem_ending *ending; /* of the last run, once finished */
    mem_resolution *resolution;
    char *progress_text;
    int runs, failures, interruptions, rescues;
    int log_lines; /* of the last run, once finished */
    signed char progress, strikes;
    unsigned char state, audit, outcome; /* outcome: of the last run, once finished */
    bool not_started, suspect, solo, marked, cancel_asked;
    bool blocked; /* pending, for want of a place */
    bool placed;  /* it holds places */
    bool sorted;
};

typedef struct mem_result {
    pawl_op_result result;
    pawl_state state;
    pawl_id id;
    int64_t fence, run_at_us;
} mem_result;

typedef struct mem_receipt {
    map_node by_lane;
    int64_t node, number, used_us;
    int64_t store_now_us;
    int lane, count, room;
    mem_result *results;
} mem_receipt;

typedef struct mem_operator { /* of the operator log */
    list age;
    int64_t number;
    int64_t at_us;
    pawl_op_kind kind;
    pawl_id id;
    bool pause;
    const char *action; /* of no operation; NULL: by its kind */
    char *by, *what;    /* in the same block */
} mem_operator;

typedef struct mem_minute {
    int64_t minute; /* since 1970 */
    int64_t dispatched, succeeded, failed, cancelled, retried, rescued;
    uint32_t wait[BUCKETS], run[BUCKETS];
} mem_minute;

typedef struct mem_number { /* a node number for ids */
    int64_t owner, ceiling_ms, floor_ms;
} mem_number;

typedef enum mem_age { AGE_SUCCEEDED, AGE_CANCELLED, AGE_FAILED, AGE_RESOLVED, AGES } mem_age;

struct mem {
    list link;  /* all that have a name */
    char *name; /* "": one handle's own */
    int handles_count;
    list handles;
    pthread_mutex_t lock;
    pawl_allocator allocator;
    mem_pool tasks, attempts, rows, keys, levels, holds;
    map live, queues, kinds, by_key, nodes, receipts, limits, budgets, bounds, spots, held_places;
    tree all;
    list fresh; /* up to FRESH tasks that are not in `all` yet */
    int fresh_count;
    pawl_id greatest; /* id stored so far */
    list aged[AGES];
    int64_t aged_count[AGES];
    list queue_list, node_list, holding;
    list rows_by_age, logs_by_age, operators, limit_list, budget_list;
    int64_t operators_count; /* ever */
    list bound_list, spot_list, touched_spots;
    int bounds_in_force;
    int bounding; /* BOUNDs in the batch under way: no lease is granted at birth */
    int last_kind;
    int64_t limits_version;
    mem_pool occurrences;
    tree schedules, looks;
    map followers, by_occurrence, open; /* of schedules; see memory_schedule.c */
    bool schedules_changed;             /* by the call under way */
    mem_pool kin_pool, edges;
    map kins;
    list unsettled, batches;      /* of families; see memory_family.c */
    bool freed;                   /* by the call under way: a task changed that no operation names */
    bool stirred;                 /* likewise: somebody is to be told */
    mem_level *latest;            /* the level asked for last */
    body_moves moves;             /* of one call: none between calls */
    const pawl_body *latest_body; /* while a batch is prepared: the body it was asked for */
    uint64_t claims;              /* wants looked at so far */
    int64_t last_node;
    pawl_id last_id; /* drawn by the store */
    mem_number numbers[ID_NUMBER_MAX + 1];
    mem_minute *minutes[MINUTES];
    mem_minute *minute; /* made ready last */
};

typedef struct mem_handle {
    pawl_store base;
    mem *m;
    list link;
    pawl_clock clock;
    int fd;                          /* -1: nobody else can commit */
    bool signalled;                  /* readable, and not looked at yet */
    const pawl_allocator *allocator; /* of the handle itself */
} mem_handle;

static inline mem_handle *handle_of(pawl_store *store) { return (mem_handle *)store; }
static inline mem *mem_enter(pawl_store *store)
{
    mem *m = handle_of(store)->m;
    pthread_mutex_lock(&m->lock);
    return m;
}
static inline void mem_exit(mem *m) { pthread_mutex_unlock(&m->lock); }
static inline int64_t mem_now(pawl_store *store) { return handle_of(store)->clock.wall_us(handle_of(store)->clock.ctx); }
static inline int64_t mem_boot(pawl_store *store)
{
    return CANARY(EXPIRY_BY_WALL) ? mem_now(store) : handle_of(store)->clock.boot_us(handle_of(store)->clock.ctx);
}
static inline int64_t mem_add(int64_t a, int64_t b) /* b >= 0; stays at the end of time */
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}
static inline bool mem_live(const mem_task *t)
{
    return t->state == PAWL_STATE_NONE || t->state == PAWL_WAITING || t->state == PAWL_PENDING || t->state == PAWL_LEASED;
}
static inline int mem_spawns(const pawl_op *op) /* inserts that come along with it */
{
    return op->kind == PAWL_OP_FINISH ? op->u.finish.spawns_count : op->kind == PAWL_OP_STEP ? op->u.step->tasks_count : 0;
}
static inline pawl_op *mem_spawn(const pawl_op *op, int i)
{
    return op->kind == PAWL_OP_FINISH ? &op->u.finish.spawns[i] : &op->u.step->tasks[i];
}
static inline int64_t queue_depth(const mem_queue *q) { return q->waiting + q->pending + q->leased; }

/* memory.c */
pawl_status mem_no_memory(pawl_error *err);
void mem_wake_others(mem_handle *h);
mem_node *mem_find_node(const mem *m, int64_t id);
bool mem_draining(const mem *m, int64_t node);
static inline void mem_node_named(mem_node *n) { n->names++; }
void mem_node_unnamed(mem *m, mem_node *n);
void mem_node_beat(mem_node *n, int64_t boot_us);
void mem_node_die(mem *m, mem_node *n, int64_t now_us);
bool mem_node_lapsed(const mem_node *n, int64_t boot_us);
bool mem_node_gone(const mem_node *n); /* alive by its row, but its handle is closed */

/* memory_pool.c */
void pool_init(mem_pool *p, size_t size);
void pool_done(mem_pool *p, const pawl_allocator *a);
bool pool_reserve(mem_pool *p, const pawl_allocator *a, size_t count); /* so many pool_get will succeed */
void pool_put(mem_pool *p, void *block);

typedef struct mem_spare {
    struct mem_spare *next;
} mem_spare;

static inline void *pool_get(mem_pool *p) /* zeroed; reserved before */
{
    char *block = (char *)p->free;
    if (block) {
        p->free = p->free->next;
        p->free_count--;
    } else {
        CHECK(p->next_count > 0);
        block = p->next;
        p->next += p->size;
        p->next_count--;
    }
    return memset(block, 0, p->size);
}

/* memory_task.c */
typedef enum mem_rank {
    ROW_CHANGE,
    ROW_END,
    ROW_ERROR
} mem_rank; /* of an audit row: kept by level full; minimal too; errors too */

typedef struct mem_note { /* about a change of state */
    int64_t now_us;
    pawl_audit audit; /* DEFAULT: the task's own level */
    mem_rank rank;
    const char *detail; /* see mem_row */
} mem_note;

extern mem_ending mem_poisoned;   /* reason "rescued_too_often"; lent, so not freed */
extern mem_ending mem_orphans[2]; /* "parent_failed", "parent_cancelled"; likewise */
static inline bool mem_ending_lent(const mem_ending *e)
{
    return e == &mem_poisoned || e == &mem_orphans[0] || e == &mem_orphans[1];
}

void mem_init_orders(mem *m);
mem_task *mem_find(mem *m, pawl_id id);
mem_task *mem_find_live(const mem *m, pawl_id id);
void mem_sort(mem *m);                                 /* all of them are in `all` now */
mem_task *mem_after(mem *m, pawl_id id, bool upwards); /* the nearest with a greater (smaller) id */
mem_task *mem_by_key(const mem *m, const char *tenant, const char *key);
pawl_id mem_draw_id(mem *m, int64_t now_us);
mem_task *mem_create(mem *m, pawl_id id, pawl_body *body, mem_level *level, pawl_audit audit, int64_t now_us);
void mem_take_key(mem *m, mem_task *t);
void mem_move(mem *m, mem_task *t, task_why why, const mem_note *note);
void mem_arrive(mem *m, mem_task *t, task_why why, const mem_note *note); /* the same, of a task that stands nowhere */
void mem_lease(mem *m, mem_task *t, mem_node *n, task_why why, const mem_note *note); /* of a task that stands nowhere */
void mem_place(mem *m, mem_task *t);
void mem_unplace(mem *m, mem_task *t);
void mem_set_node(mem *m, mem_task *t, mem_node *n);
void mem_take_back(mem *m, mem_task *t, const mem_note *note);
void mem_record_run(mem *m, mem_task *t, const pawl_execution *run, mem_ending *ending, mem_log *log, bool last, int64_t now_us);
void mem_ask_cancel(mem_task *t);
bool mem_cancel(mem *m, mem_task *t, const mem_note *note); /* of a task that is not finished; true: its holder is asked */
void mem_forget(mem *m, mem_task *t); /* frees a finished task and all that hangs on it; body_moves_done follows */
void mem_forget_row(mem *m, mem_row *row);
void mem_forget_log(mem *m, mem_log *log);
const char *mem_display(const mem_task *t, int64_t now_us, int64_t boot_us);
static inline mem_task *task_of_order(const tree_node *node) { return container_of(node, mem_task, place.order); }
static inline mem_task *task_of_age(const list *node) { return container_of(node, mem_task, place.age); }
static inline mem_task *task_of_id(const tree_node *node) { return container_of(node, mem_task, by_id); }
static inline mem_level *level_of(const tree_node *node) { return container_of(node, mem_level, by_priority); }

/* memory_queue.c */
mem_queue *mem_queue_get(mem *m, const char *name); /* makes it; NULL: no memory */
mem_queue *mem_queue_find(const mem *m, const char *name);
mem_kind *mem_kind_find(const mem *m, const mem_queue *q, const char *type); /* of all tenants */
mem_level *mem_level_get(mem *m, const pawl_body *body);                     /* used once more; NULL: no memory */
void mem_level_drop(mem *m, mem_level *level);
tree_node *mem_first_after(const tree *ready, int64_t at_us); /* the first task of a ready tree due later than that */

/* memory_receipt.c */
mem_receipt *mem_receipt_get(mem *m, const pawl_batch *batch, int count); /* made, with room; NULL: no memory */
void mem_receipt_write(mem_receipt *r, const pawl_batch *batch);
/* *done: it was applied before, and its results are answered. */
pawl_status mem_receipt_check(const mem *m, pawl_batch *batch, bool *done, pawl_error *err);

/* memory_prepare.c */
typedef struct mem_prep { /* what one operation brings along; what is not used is freed */
    pawl_body *body;
    mem_level *level;
    mem_ending *ending;
    mem_log *log;
    mem_resolution *resolution;
    mem_operator *operator;
    mem_queue *queue;
    mem_budget *budget;
    mem_limit *limit;
    mem_bound *bound;
    mem_share *share;
    char *text;
    mem_schedule *schedule;
    mem_definition *definition;
    mem_batch *batch;
    bool more; /* than body, level and what is lent */
} mem_prep;

typedef struct mem_needs { /* of a batch */
    int count;             /* operations, spawns included */
    size_t kins, told;     /* kins and edges; those who are told */
    size_t occurrences;
} mem_needs;

mem_needs mem_survey(const mem *m, const pawl_batch *batch);
bool mem_prepare(mem *m, const pawl_batch *batch, const mem_needs *needs, mem_prep *preps, int64_t now_us);
void mem_unprepare(mem *m, mem_prep *preps, int count);

/* memory_stats.c */
bool mem_minute_ready(mem *m, int64_t now_us); /* m->minute is the one of now_us; false: no memory */
void mem_count_run(mem *m, const mem_task *t, const pawl_execution *run);
pawl_status mem_stats(mem *m, int64_t window_us, const char *only, int64_t now_us, int64_t boot_us, pawl_arena *arena,
                      pawl_stats **out);

/* memory_budget.c */
mem_limit *mem_limit_get(mem *m, const char *type, pawl_bytes key);            /* makes it; NULL: no memory */
bool mem_limited(const mem *m, const char *type);                              /* the type, or some keys of it */
const mem_limit *mem_limit_of(const mem *m, const char *type, pawl_bytes key); /* in force for this key; NULL: none */
pawl_op_result mem_limit_put(mem *m, mem_limit *l, const pawl_op *op, int64_t now_us);
bool mem_limit_move(mem *m, const mem_limit *l, int most, int64_t now_us);
mem_budget *mem_budget_get(mem *m, const char *type, pawl_bytes key); /* makes it; NULL: no memory */
budget_answer mem_budget_take(mem *m, mem_budget *g, const mem_limit *l, int64_t now_us, const budget_ask *ask, budget_slot *out);
void mem_slot_set(mem_budget *g, mem_task *t, const budget_slot *slot); /* of a task that stands nowhere; sets run_at */
void mem_slot_clear(mem_task *t);
bool mem_slot_good(const mem_task *t);
int64_t mem_slot_until(const mem *m, const mem_task *t);         /* 0: it has no slot */
int64_t mem_throttled(mem *m);                                   /* tasks that have slots; counted up to 100,000 */
bool mem_spent(const mem *m, const mem_task *t, int64_t now_us); /* a due task that would wait for its budget, and for long */
void mem_slot_give_back(mem *m, mem_task *t, int64_t now_us);
int mem_budget_sweep(mem *m, int most, int64_t now_us);
void mem_budgets_done(mem *m);
pawl_status mem_limits(mem *m, const pawl_query *query, int64_t now_us, pawl_arena *arena, pawl_limits **out);

/* memory_place.c */
typedef enum mem_admission { MEM_ADMITTED = 1, MEM_BLOCKED, MEM_NO_MEMORY } mem_admission;
mem_bound *mem_bound_get(mem *m, int scope, const char *name, pawl_bytes key); /* makes it; NULL: no memory */
bool mem_bounded(const mem *m, const mem_kind *k);
bool mem_spots_make(mem *m, const pawl_body *body);                            /* those its task needs; false: no memory */
const mem_bound *mem_bound_of(const mem *m, const mem_named *spot, bool *own); /* in force; NULL: none */
const mem_spot *mem_spot_at(const mem *m, const mem_named *of);
mem_admission mem_admit(mem *m, mem_task *t,
                        int64_t now_us);               /* of a task that stands nowhere; BLOCKED: it is to be placed again */
bool mem_ordered(const mem *m, const pawl_body *body); /* tasks of its key run one after the other */
void mem_line_up(mem *m, mem_task *t, int64_t now_us);
void mem_places_leave(mem *m, mem_task *t, bool ends);
void mem_places_withdraw(mem *m, mem_task *t);
bool mem_places_offer(mem *m); /* last of all in a call; true: tasks were unblocked */
bool mem_bound_prepare(mem *m, const mem_bound *b, size_t *count);
pawl_op_result mem_bound_put(mem *m, mem_bound *b, pawl_op *op);
void mem_places_done(mem *m);

/* memory_share.c */
mem_share *mem_share_get(mem *m, mem_queue *q, const char *tenant); /* makes it; NULL: no memory */
pawl_op_result mem_share_put(mem *m, mem_queue *q, mem_share *s, const pawl_op *op);
void mem_shares_done(mem *m, mem_queue *q);
pawl_status mem_places(mem *m, const pawl_query *query, pawl_arena *arena, pawl_places **out);

/* memory_schedule.c */
void mem_schedules_init(mem *m);
void mem_schedules_done(mem *m);
mem_schedule *mem_schedule_new(mem *m, const char *name);                 /* NULL: no memory */
mem_definition *mem_definition_new(mem *m, const pawl_schedule_row *row); /* NULL: no memory */
pawl_op_result mem_schedule_put(mem *m, const pawl_schedule_put *put, mem_prep *p, int64_t now_us);
mem_schedule *mem_schedule_find(const mem *m, const char *name);
bool mem_schedule_is(const mem_schedule *s, int64_t version);
int64_t mem_schedule_due(const mem *m);                 /* 0: none */
int mem_schedule_followers(const mem *m, pawl_id task); /* whom its success would be told */
void mem_schedule_ended(mem *m, const mem_task *t, int64_t now_us);
void mem_skip(mem *m, mem_schedule *s, const pawl_fate *fate, int64_t now_us);
pawl_op_result mem_schedule_admit(mem *m, mem_schedule *s, const pawl_step *step, const pawl_fate *fate, int64_t now_us);
void mem_opened(mem *m, mem_schedule *s, const pawl_fate *fate, pawl_id task, int64_t now_us);
void mem_stepped(mem *m, mem_schedule *s, const pawl_step *step, char *reason);
pawl_status mem_schedules_read(const mem *m, pawl_query *query, int64_t now_us, pawl_arena *arena);

/* memory_family.c; the rest is in memory_family.h */
void mem_families_init(mem *m);
void mem_families_done(mem *m);
void mem_family_born(const mem *m, mem_task *t);
void mem_family_ended(mem *m, const mem_task *t);
void mem_family_forget(mem *m, mem_task *t);
mem_batch *mem_batch_new(mem *m, const char *name); /* NULL: no memory */

/* memory_sweep.c */
void mem_trim(mem *m); /* history that is too long */

/* The callbacks. */
pawl_status memory_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err);
pawl_status memory_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err);
pawl_status memory_renew(pawl_store *store, pawl_renewal *call, pawl_error *err);
pawl_status memory_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err);
pawl_status memory_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err);
pawl_status memory_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err);
pawl_status memory_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err);

#endif
