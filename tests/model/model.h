/* Model-based testing: random calls from a seed, made to the memory store and to the store under test, with every answer
 * compared.
 *
 *   script.c      steps: drawn from a seed, printed, read back
 *   driver.c      a world with two sides, reference and subject: makes the calls of a step on both
 *   ops.c         the steps that are operations of a batch
 *   render.c      answers as text in which ids, nodes and times have names of their own, so that sides can be compared
 *   shrink.c      the fewest steps that still differ
 *   broken.c      stores with a defect, to show that differences are found
 *   model_test.c  the command
 *
 * A step is a kind, a slot (one of three processes) and a few numbers. It means something in every situation ("finish one
 * of the last leases", "cancel some task"), so any steps can be left out and the rest is still a script.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/rand.h"
#include "store/store.h"

#define SLOTS 3   /* processes; slot 3 is a one-shot command */
#define NUMBERS 6 /* of a step */
#define STEPS_MAX 160
#define NODES_MAX 64
#define TASKS_MAX 1024
#define LEASES_MAX 1024
#define BATCH_MAX 8
#define LEASE_US (30 * PAWL_SECOND)
#define FULL_LOOK_EVERY 10

/* clang-format off */
#define STEP_TABLE(X)                                                                                                     \
    /* operations of a batch */                                                                                           \
    X(INSERT, "insert", 26) X(START, "start", 6) X(FINISH, "finish", 10) X(RELEASE, "release", 9)                           \
    X(PROGRESS, "progress", 2) X(CANCEL, "cancel", 6) X(RETRY, "retry", 4) X(ACK, "ack", 2) \
    X(BATCH, "batch", 4) X(SETTLE, "settle", 2) X(QUEUE, "queue", 3)            \
    /* other calls */                                                                                                     \
    X(RESEND, "resend", 3) X(CLAIM, "claim", 18) X(RENEW, "renew", 3) X(HELD, "held", 2) X(RESCUE, "rescue", 9)             \
    X(REGISTER, "register", 4) X(LEAVE, "leave", 1) X(CRASH, "crash", 2) X(IDS, "ids", 3)                                   \
    /* time, and looking */                                                                                               \
    X(ADVANCE, "advance", 9) X(STEP_WALL, "step_wall", 2) X(SWEEP, "sweep", 1) X(LOOK, "look", 3) X(LIST, "list", 3)
/* clang-format on */

typedef enum step_kind {
    STEP_NONE,
#define X(name, text, weight) STEP_##name,
    STEP_TABLE(X)
#undef X
        STEP_KINDS
} step_kind;

typedef struct step {
    step_kind kind;
    int slot;
    bool more; /* an operation: the next step is of the same batch, if it is one of this slot */
    uint32_t r[NUMBERS];
} step;

typedef struct script {
    step steps[STEPS_MAX];
    int count;
} script;

void script_draw(script *s, uint64_t seed, int count);
void script_print(const script *s, buf *out);
bool script_read(script *s, const char *text);
static inline bool step_is_op(const step *s) { return s->kind >= STEP_INSERT && s->kind <= STEP_QUEUE; }

/* ---- the world --------------------------------------------------------------------------------------------------- */

enum { REFERENCE, SUBJECT, SIDES };

/* How a side's stores are opened: the URL of a fresh store, and perhaps a wrapper around each handle. */
typedef struct store_maker {
    const char *name;
    void (*fresh)(char *url, size_t size, char *dir, size_t dir_size);
    void (*remove)(const char *dir);
    pawl_store *(*wrap)(pawl_store *store, int defect); /* NULL: as it is */
    int defect;
} store_maker;

const store_maker *maker_find(const char *name);
#define DEFECTS 8
pawl_store *broken_wrap(pawl_store *store, int defect); /* 1..DEFECTS */
const char *broken_name(int defect);

typedef struct model_task {
    pawl_id id[SIDES];
    int key, tenant; /* key -1: none */
    bool batch;      /* it is a batch of tasks */
} model_task;

typedef struct model_lease {
    int task;
    int64_t fence[SIDES];
} model_lease;

typedef struct sent { /* the last batch of a slot, to send again */
    pawl_op ops[BATCH_MAX], *pointers[BATCH_MAX], spawns[BATCH_MAX][2];
    int tasks[BATCH_MAX], spawned[BATCH_MAX][2]; /* of INSERT, RETRY: the task it makes */
    int count;
    int64_t node, number;
    bool valid;
} sent;

typedef struct world {
    const store_maker *makers[SIDES];
    char urls[SIDES][400], dirs[SIDES][200];
    virtual_clock clock;
    pawl_store *stores[SIDES][SLOTS];
    int node_of[SLOTS]; /* index of the slot's node; -1: none */
    int64_t numbers[SLOTS];
    struct {
        int64_t id[SIDES];
    } nodes[NODES_MAX];
    int nodes_count;
    model_task tasks[TASKS_MAX];
    int tasks_count;
    model_lease leases[LEASES_MAX];
    int leases_count;
    int ids_number[SLOTS];
    sent last[SIDES][SLOTS + 1]; /* the last one: of one-shot commands */
    pawl_lapsed lapsed[SIDES][PAWL_LAPSED_MAX];
    int lapsed_count;
    pawl_id next_id;
    pawl_arena *arena, *scratch; /* for the world's life; for one call */
    buf text[SIDES];             /* what the sides answered to the step */
    pawl_error err;
} world;

/* Runs the script; the index of the first step after which the sides differ, or -1. What they said stands in w->text. */
int world_run(world *w, const script *s, const store_maker *subject);
void world_done(world *w);
int run_ops(world *w, const script *s, int at); /* a batch that begins at this step; answers how many steps it took */
void resend(world *w, int slot);
int new_task(world *w, int key, int tenant, pawl_id id);
void add_lease(world *w, int task, int64_t reference_fence, int64_t subject_fence);
int64_t node_id(const world *w, int side, int slot);
void *hold(world *w, size_t size);
extern const char *const type_names[3], *const queue_names[3], *const key_names[4], *const tenant_names[2];

/* ---- render.c ---------------------------------------------------------------------------------------------------- */

void say(world *w, int side, const char *fmt, ...) PAWL_PRINTF(3, 4);
const char *task_name(const world *w, int side, pawl_id id);
const char *node_name_of(const world *w, int side, int64_t node);
void render_time(world *w, int side, const char *what, int64_t at_us);
void render_op(world *w, int side, const pawl_op *op);
void render_news(world *w, int side, const pawl_news *news);
void render_claimed(world *w, int side, const pawl_claimed *c);
void render_page(world *w, int side, const pawl_filter *filter);
void render_everything(world *w, int side);

/* ---- shrink.c ---------------------------------------------------------------------------------------------------- */

void shrink(script *s, const store_maker *subject, int tries);

#endif
