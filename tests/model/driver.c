/* The world of a run: two sides, one clock, and the calls that are not operations. */
#include "model.h"
#ifdef PAWL_POSTGRES
#include "postgres/bed.h"
#include "store/postgres/postgres.h"
#endif
#ifdef PAWL_MYSQL
#include "mysql/bed.h"
#include "store/mysql/mysql.h"
#endif
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_US INT64_C(1800000000000000)

const char *const type_names[3] = {"t0", "t1", "t2"};
const char *const queue_names[3] = {"q0", "q1", "q2"};
const char *const key_names[4] = {"k0", "k1", "k2", "k3"};
const char *const tenant_names[2] = {"", "acme"};

/* ---- the stores: a new one is one line in `makers` --------------------------------------------------------------- */

static void fresh_memory(char *url, size_t size, char *dir, size_t dir_size)
{
    static int count;
    (void)dir_size;
    dir[0] = '\0';
    snprintf(url, size, "memory:model %d", ++count);
}

static void fresh_sqlite(char *url, size_t size, char *dir, size_t dir_size)
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp) tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* nothing here rests on a disk */
    snprintf(dir, dir_size, "%s/pawl-model-XXXXXX", tmp);
    if (!mkdtemp(dir)) abort();
    snprintf(url, size, "sqlite:%s/pawl.db", dir);
}

static void remove_nothing(const char *dir) { (void)dir; }

static void remove_dir(const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0) abort();
}

#ifdef PAWL_POSTGRES
/* One schema for all runs, emptied before each. */
static char schema[64];

static void drop_schema(void) { bed_drop(schema); }

static void fresh_postgres(char *url, size_t size, char *dir, size_t dir_size)
{
    pawl_error err;
    if (!schema[0]) {
        bed_use_clock_of_options();
        bed_schema(schema, sizeof schema, "model");
        atexit(drop_schema);
        if (pawl_register_store(&store_postgres_type, &err)) abort();
    }
    bed_empty(schema);
    snprintf(dir, dir_size, "%s", schema);
    bed_url(url, size, schema, false);
}

#endif

#ifdef PAWL_MYSQL
/* The same with a database. */
static char database[64];

static void drop_database(void) { my_bed_drop(database); }

static void fresh_mysql(char *url, size_t size, char *dir, size_t dir_size)
{
    pawl_error err;
    if (!database[0]) {
        my_bed_use_clock_of_options();
        my_bed_database(database, sizeof database, "model");
        atexit(drop_database);
        if (pawl_register_store(&store_mysql_type, &err)) abort();
    }
    my_bed_empty(database);
    snprintf(dir, dir_size, "%s", database);
    my_bed_url(url, size, database);
}

#endif

static const store_maker makers[] = {
    {.name = "memory", .fresh = fresh_memory, .remove = remove_nothing},
    {.name = "sqlite", .fresh = fresh_sqlite, .remove = remove_dir},
#ifdef PAWL_POSTGRES
    {.name = "postgres", .fresh = fresh_postgres, .remove = remove_nothing},
#endif
#ifdef PAWL_MYSQL
    {.name = "mysql", .fresh = fresh_mysql, .remove = remove_nothing},
#endif
};

const store_maker *maker_find(const char *name)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].name, name) == 0) return &makers[i];
    return NULL;
}

/* ---- birth and death --------------------------------------------------------------------------------------------- */

static void ignore_log(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static pawl_store *open_store(world *w, int side)
{
    pawl_store *store = NULL;
    pawl_store_options options = {.url = w->urls[side],
                                  .lease_us = LEASE_US,
                                  .lock_wait_us = 5 * PAWL_SECOND,
                                  .clock = clock_virtual(&w->clock),
                                  .allocator = alloc_default(),
                                  .log = ignore_log};
    if (store_open(&options, &store, &w->err)) {
        pawl_die(&w->err);
        abort();
    }
    const store_maker *m = w->makers[side];
    return m->wrap ? m->wrap(store, m->defect) : store;
}

static void world_init(world *w, const store_maker *subject)
{
    memset(w, 0, sizeof *w);
    w->makers[REFERENCE] = maker_find("memory");
    w->makers[SUBJECT] = subject;
    w->clock = (virtual_clock){.now_us = START_US, .boot_us = 1000 * PAWL_SECOND};
    w->arena = arena_new(alloc_default(), (size_t)256 << 20);
    w->scratch = arena_new(alloc_default(), 0);
    /* Below all that stores draw, whatever the clock does: how many a store has drawn for what it then refused is its own affair. */
    w->next_id = ((START_US - 365 * PAWL_DAY) / 1000 - PAWL_EPOCH_MS) << 22 | 5 << 12;
    for (int side = 0; side < SIDES; side++) {
        buf_init(&w->text[side], alloc_default(), (size_t)16 << 20);
        w->makers[side]->fresh(w->urls[side], sizeof w->urls[side], w->dirs[side], sizeof w->dirs[side]);
        for (int slot = 0; slot < SLOTS; slot++) w->stores[side][slot] = open_store(w, side);
    }
    for (int slot = 0; slot < SLOTS; slot++) w->node_of[slot] = -1;
}

void world_done(world *w)
{
    for (int side = 0; side < SIDES; side++) {
        for (int slot = 0; slot < SLOTS; slot++) store_close(w->stores[side][slot]);
        w->makers[side]->remove(w->dirs[side]);
        buf_done(&w->text[side]);
    }
    arena_free(w->arena);
    arena_free(w->scratch);
}

void *hold(world *w, size_t size)
{
    void *ptr = pawl_arena_alloc(w->arena, size);
    assert(ptr);
    return ptr;
}

int new_task(world *w, int key, int tenant, pawl_id id)
{
    if (w->tasks_count == TASKS_MAX) abort();
    w->tasks[w->tasks_count] = (model_task){.id = {id, id}, .key = key, .tenant = tenant};
    return w->tasks_count++;
}

void add_lease(world *w, int task, int64_t reference_fence, int64_t subject_fence)
{
    if (w->leases_count == LEASES_MAX) abort();
    w->leases[w->leases_count++] = (model_lease){.task = task, .fence = {reference_fence, subject_fence}};
}

int64_t node_id(const world *w, int side, int slot)
{
    return slot < SLOTS && w->node_of[slot] >= 0 ? w->nodes[w->node_of[slot]].id[side] : 0;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void do_register(world *w, const step *s)
{
    if (w->nodes_count == NODES_MAX) return;
    int node = w->nodes_count++;
    for (int side = 0; side < SIDES; side++) {
        pawl_store *store = w->stores[side][s->slot];
        pawl_registration call = {
            .name = "n", .pid = 1, .queues = s->r[0] % 3 ? "q0,q1" : "q1", .types = "*", .lease_us = LEASE_US};
        pawl_status status = store->type->register_node(store, &call, &w->err);
        say(w, side, "register: %s\n", pawl_status_name(status));
        w->nodes[node].id[side] = call.node;
        w->last[side][s->slot].valid = false;
    }
    w->node_of[s->slot] = node;
    w->numbers[s->slot] = 0;
    w->ids_number[s->slot] = 0;
}

static void do_leave(world *w, const step *s)
{
    for (int side = 0; side < SIDES; side++) {
        pawl_store *store = w->stores[side][s->slot];
        say(w, side, "leave: %s\n", pawl_status_name(store->type->leave(store, node_id(w, side, s->slot), &w->err)));
    }
}

static void do_crash(world *w, const step *s)
{
    for (int side = 0; side < SIDES; side++) {
        store_close(w->stores[side][s->slot]);
        w->stores[side][s->slot] = open_store(w, side);
        w->last[side][s->slot].valid = false;
        say(w, side, "crash\n");
    }
    w->node_of[s->slot] = -1;
}

static int task_by_id(const world *w, int side, pawl_id id)
{
    for (int i = 0; i < w->tasks_count; i++)
        if (w->tasks[i].id[side] == id) return i;
    return -1;
}

static void keep_news(world *w, int side, const pawl_news *news)
{
    memcpy(w->lapsed[side], news->lapsed, sizeof news->lapsed);
    w->lapsed_count = news->lapsed_count;
    render_news(w, side, news);
}

#define CLAIM_MAX 16

static int claim_side(world *w, const step *s, int side, pawl_lease got[CLAIM_MAX])
{
    static const char *const some[3][3] = {{"t0", "t1"}, {"t2"}, {"t1", "t2", "nobody"}};
    pawl_claimed tasks[CLAIM_MAX];
    pawl_want want = {.queue = queue_names[s->r[0] % 3],
                      .free = (int)(s->r[1] % 5),
                      .prefetch = (int)(s->r[2] % 4),
                      .solo = s->r[3] % 2,
                      .any_type = s->r[4] % 2,
                      .types = some[s->r[5] % 3],
                      .types_count = (int)(s->r[5] % 3 == 0   ? 2
                                           : s->r[5] % 3 == 1 ? 1
                                                              : 3)};
    pawl_claim call = {
        .node = node_id(w, side, s->slot), .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    pawl_store *store = w->stores[side][s->slot];
    pawl_status status = store->type->claim(store, &call, w->scratch, &w->err);
    say(w, side, "claim: %s, got %d%s%s", pawl_status_name(status), want.got, want.more ? ", more" : "",
        want.paused ? ", paused" : "");
    render_time(w, side, "next due", want.next_due_us);
    for (int i = 0; i < call.tasks_count; i++) {
        render_claimed(w, side, &tasks[i]);
        got[i] = (pawl_lease){tasks[i].body->id, tasks[i].fence};
        pawl_body_free(alloc_default(), tasks[i].body);
    }
    keep_news(w, side, &call.news);
    return call.tasks_count;
}

static void do_claim(world *w, const step *s)
{
    pawl_lease got[SIDES][CLAIM_MAX];
    int counts[SIDES];
    if (w->node_of[s->slot] < 0) return;
    for (int side = 0; side < SIDES; side++) counts[side] = claim_side(w, s, side, got[side]);
    for (int i = 0; i < counts[REFERENCE] && i < counts[SUBJECT]; i++) {
        int task = task_by_id(w, REFERENCE, got[REFERENCE][i].id);
        if (task >= 0) add_lease(w, task, got[REFERENCE][i].fence, got[SUBJECT][i].fence);
    }
}

static void do_renew(world *w, const step *s)
{
    if (w->node_of[s->slot] < 0) return;
    for (int side = 0; side < SIDES; side++) {
        pawl_renewal call = {.node = node_id(w, side, s->slot)};
        pawl_store *store = w->stores[side][s->slot];
        pawl_status status = store->type->renew(store, &call, &w->err);
        say(w, side, "renew: %s, holds %lld\n", pawl_status_name(status), (long long)call.held);
        keep_news(w, side, &call.news);
    }
}

static int by_task(const void *a, const void *b)
{
    pawl_id x = ((const pawl_lease *)a)->id, y = ((const pawl_lease *)b)->id;
    return x < y ? -1 : x > y;
}

static void do_held(world *w, const step *s)
{
    for (int side = 0; side < SIDES; side++) {
        pawl_lease *leases = NULL;
        int count = 0;
        pawl_store *store = w->stores[side][s->slot];
        int64_t node = w->nodes_count ? w->nodes[s->r[0] % (uint32_t)w->nodes_count].id[side] : 0;
        pawl_status status = store->type->held(store, node, &leases, &count, w->scratch, &w->err);
        say(w, side, "held: %s, %d\n", pawl_status_name(status), count);
        if (count > 1) qsort(leases, (size_t)count, sizeof *leases, by_task);
        for (int i = 0; i < count; i++)
            say(w, side, "  %s fence %lld\n", task_name(w, side, leases[i].id), (long long)leases[i].fence);
    }
}

/* Somebody among the lapsed of the last news, or just anybody. */
static int64_t victim_of(const world *w, const step *s, int side, int64_t *renewal)
{
    *renewal = s->r[1] % 4;
    if (w->lapsed_count > 0 && s->r[2] % 8 != 0) {
        const pawl_lapsed *l = &w->lapsed[side][0];
        for (int i = 1; i < w->lapsed_count; i++)
            if ((s->r[0] % 2) != (w->lapsed[side][i].node > l->node)) l = &w->lapsed[side][i];
        *renewal = l->renewal;
        return l->node;
    }
    return w->nodes_count ? w->nodes[s->r[0] % (uint32_t)w->nodes_count].id[side] : 0;
}

/* A rescue leaves it to others to tell who waits for what ended by it. Some stores do that with the next apply, others with the next that
 * has something to tell. */
static void settle_all(world *w, int side)
{
    pawl_op op = {.kind = PAWL_OP_SETTLE, .audit = PAWL_AUDIT_FULL, .u.settle.limit = 1000}, *ops = &op;
    pawl_batch call = {.ops = &ops, .count = 1};
    do {
        if (w->stores[side][0]->type->apply(w->stores[side][0], &call, w->scratch, &w->err)) return;
    } while (call.unsettled);
}

static void do_rescue(world *w, const step *s)
{
    pawl_lease tasks[256];
    if (w->node_of[s->slot] < 0) return;
    for (int side = 0; side < SIDES; side++) {
        pawl_rescue call = {.node = node_id(w, side, s->slot), .counts = s->r[3] % 8 != 0, .limit = 256, .tasks = tasks};
        call.victim = victim_of(w, s, side, &call.renewal);
        pawl_store *store = w->stores[side][s->slot];
        pawl_status status = store->type->rescue(store, &call, &w->err);
        say(w, side, "rescue %s: %s%s, freed %d, failed %d%s\n", node_name_of(w, side, call.victim), pawl_status_name(status),
            call.refused ? ", refused" : "", call.freed, call.failed, call.more ? ", more" : "");
        int count = call.freed + call.failed;
        if (count > 1) qsort(tasks, (size_t)count, sizeof *tasks, by_task);
        for (int i = 0; i < count; i++)
            say(w, side, "  %s fence %lld\n", task_name(w, side, tasks[i].id), (long long)tasks[i].fence);
        if (w->stores[REFERENCE][0]->type->families && w->stores[SUBJECT][0]->type->families) settle_all(w, side);
    }
}

static void do_ids(world *w, const step *s)
{
    int numbers[SIDES] = {0};
    if (w->node_of[s->slot] < 0) return;
    int64_t now_ms = w->clock.now_us / 1000 - PAWL_EPOCH_MS;
    bool give_back = w->ids_number[s->slot] && s->r[0] % 4 == 0;
    for (int side = 0; side < SIDES; side++) {
        pawl_ids call = {.node = node_id(w, side, s->slot),
                         .number = w->ids_number[s->slot],
                         .ahead_ms = 60000,
                         .used_ms = s->r[1] % 2 ? now_ms - s->r[2] : 0,
                         .give_back = give_back};
        pawl_store *store = w->stores[side][s->slot];
        pawl_status status = store->type->take_ids(store, &call, &w->err);
        say(w, side, "ids: %s", pawl_status_name(status));
        if (!give_back && status == PAWL_OK)
            say(w, side, ", number %d, above %lld, below %lld", call.out_number, (long long)call.floor_ms,
                (long long)call.ceiling_ms);
        say(w, side, "\n");
        numbers[side] = give_back ? 0 : call.out_number;
    }
    w->ids_number[s->slot] = numbers[REFERENCE];
}

static void do_advance(world *w, const step *s)
{
    static const int64_t spans_us[] = {1,        PAWL_MILLISECOND, PAWL_SECOND, 10 * PAWL_SECOND,
                                       LEASE_US, LEASE_US,         PAWL_MINUTE, PAWL_HOUR};
    int64_t us = spans_us[s->r[0] % 8] * (1 + s->r[1] % 2);
    if (s->kind == STEP_STEP_WALL) {
        w->clock.now_us += s->r[1] % 2 ? us : -us;
        return;
    }
    w->clock.now_us += us;
    w->clock.boot_us += us;
}

/* Everything that may go is far beyond its time: stores may sweep by the hour. */
static void do_sweep(world *w, const step *s)
{
    int64_t keep[6];
    for (int i = 0; i < 6; i++) keep[i] = s->r[0] >> i & 1 ? -1 : 30 * PAWL_DAY;
    w->clock.now_us += 60 * PAWL_DAY;
    w->clock.boot_us += 60 * PAWL_DAY;
    for (int side = 0; side < SIDES; side++) {
        pawl_sweep call = {keep[0], keep[1], keep[2], keep[3], keep[4], keep[5], .limit = 50};
        pawl_store *store = w->stores[side][s->slot];
        int steps = 0;
        pawl_status status;
        do status = store->type->sweep(store, &call, &w->err);
        while (status == PAWL_OK && call.more && ++steps < 10000);
        say(w, side, "sweep: %s%s\n", pawl_status_name(status), call.more ? ", more" : "");
        for (int slot = 0; slot < SLOTS; slot++) w->last[side][slot].valid = false;
    }
}

static void do_list(world *w, const step *s)
{
    static const char *const states[] = {NULL,        "pending",   "leased",   "succeeded", "failed",
                                         "cancelled", "scheduled", "retrying", "running",   "stale"};
    pawl_filter filter = {.limit = 1 + (int)(s->r[0] % 5), .oldest_first = s->r[1] % 2, .state = states[s->r[2] % 10]};
    if (s->r[3] % 4 == 0) filter.queue = queue_names[s->r[3] % 3];
    if (s->r[4] % 4 == 0) filter.type = type_names[s->r[4] % 3];
    if (s->r[5] % 4 == 0) filter.key = key_names[s->r[5] % 4];
    if (s->r[5] % 5 == 0) filter.tenant = tenant_names[1];
    filter.unresolved = s->r[0] % 7 == 0;
    for (int side = 0; side < SIDES; side++) render_page(w, side, &filter);
}

static void do_look(world *w)
{
    for (int side = 0; side < SIDES; side++) render_everything(w, side);
}

static void run_step(world *w, const step *s)
{
    switch (s->kind) {
    case STEP_RESEND: resend(w, s->slot); break;
    case STEP_CLAIM: do_claim(w, s); break;
    case STEP_RENEW: do_renew(w, s); break;
    case STEP_HELD: do_held(w, s); break;
    case STEP_RESCUE: do_rescue(w, s); break;
    case STEP_REGISTER: do_register(w, s); break;
    case STEP_LEAVE: do_leave(w, s); break;
    case STEP_CRASH: do_crash(w, s); break;
    case STEP_IDS: do_ids(w, s); break;
    case STEP_ADVANCE:
    case STEP_STEP_WALL: do_advance(w, s); break;
    case STEP_SWEEP: do_sweep(w, s); break;
    case STEP_LIST: do_list(w, s); break;
    case STEP_LOOK: do_look(w); break;
    default: break;
    }
}

static bool same(world *w)
{
    bool equal = strcmp(buf_text(&w->text[REFERENCE]), buf_text(&w->text[SUBJECT])) == 0;
    if (equal)
        for (int side = 0; side < SIDES; side++) buf_clear(&w->text[side]);
    arena_reset(w->scratch);
    return equal;
}

int world_run(world *w, const script *s, const store_maker *subject)
{
    world_init(w, subject);
    for (int i = 0; i < s->count;) {
        int at = i;
        if (step_is_op(&s->steps[i])) i += run_ops(w, s, i);
        else run_step(w, &s->steps[i++]);
        if (!same(w)) return at;
        if (at % FULL_LOOK_EVERY == FULL_LOOK_EVERY - 1 || i >= s->count) {
            do_look(w);
            if (!same(w)) return at;
        }
    }
    return -1;
}
