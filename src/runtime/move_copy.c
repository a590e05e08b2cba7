/* What a move is made of: calls that are made again for a while, the position at the target, pages that are read and loaded, counting, and
 * the wait until nobody uses the source any more. move.c has the order of things. */
#include "base/error.h"
#include "runtime/gate.h"
#include "runtime/move.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PAGE_MEMORY ((size_t)1 << 30)
#define COUNT_ROWS 100000
#define PATIENCE_US (30 * PAWL_SECOND) /* with a store that does not answer */
#define LOOK_US (200 * PAWL_MILLISECOND)
#define WATCH_US (10 * PAWL_SECOND) /* a node that has lapsed is watched for so long before it is rescued */

static const char *const phases[STEPS] = {
    "counting",
    [HISTORY] = "history",
    [CLOSE] = "waiting",
    [BOUNDS] = "rest",
    [REST] = "rest",
    [SETTINGS] = "statistics",
    [LIMITS] = "statistics",
    [BUDGETS] = "statistics",
    [OFFERS] = "statistics",
    [BATCHES] = "statistics",
    [KEPT] = "statistics",
    [SCHEDULES] = "statistics",
    [MINUTES] = "statistics",
    [ACTS] = "statistics",
    [CHECK_SUMS] = "checking",
    [REPAIR] = "rest",
    [CHECK_AGAIN] = "checking",
};

bool move_same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* ---- time, progress, patience --------------------------------------------------------------------------------------------- */

static int64_t mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * PAWL_SECOND + t.tv_nsec / 1000;
}

static void nap(int64_t us) { nanosleep(&(struct timespec){us / PAWL_SECOND, us % PAWL_SECOND * 1000}, NULL); }

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not move the tasks: out of memory"); }

pawl_status move_show(mover *m, const char *phase, const char *waiting, pawl_error *err)
{
    if (m->total && m->done > m->total) m->total = m->done;
    pawl_move_progress now = {.phase = phase, .done = m->done, .total = m->total, .waiting = waiting};
    if (!m->o->progress || m->o->progress(m->o->ctx, &now)) return PAWL_OK;
    return err_set(err, PAWL_CONFLICT, "the move was stopped; start it again to go on, or give it up with --abort");
}

/* Whether a call that failed is to be made again, after a moment. */
static bool again(int64_t *since_us, pawl_status status)
{
    if (status != PAWL_UNAVAILABLE && status != PAWL_UNKNOWN) return false;
    if (!*since_us) *since_us = mono_us();
    if (mono_us() - *since_us > PATIENCE_US) return false;
    nap(LOOK_US);
    return true;
}

#define PERSIST(status, call)              \
    do {                                   \
        int64_t since_us_ = 0;             \
        do (status) = (call);              \
        while (again(&since_us_, status)); \
    } while (0)

/* ---- calls ----------------------------------------------------------------------------------------------------------------- */

pawl_status move_look(mover *m, pawl_store *store, pawl_gate *gate, pawl_error *err)
{
    pawl_status status;
    PERSIST(status, gate_look(store, m->arena, gate, err));
    return status;
}

pawl_status move_set(mover *m, pawl_store *store, const pawl_gate *gate, pawl_error *err)
{
    (void)m;
    pawl_status status;
    PERSIST(status, store_set_gate(store, gate, err));
    return status;
}

pawl_status move_dump(mover *m, pawl_store *store, pawl_dump *d, pawl_arena *arena, pawl_error *err)
{
    (void)m;
    pawl_query query = {.kind = PAWL_QUERY_DUMP, .dump = d};
    pawl_status status;
    PERSIST(status, store_read(store, &query, arena, err));
    return status;
}

/* ---- the position ---------------------------------------------------------------------------------------------------------- */

static void position_write(char out[POSITION_TEXT], const position *p)
{
    snprintf(out, POSITION_TEXT, "%d %lld %lld %lld %lld", p->step, (long long)p->after, (long long)p->since_us,
             (long long)p->copied, (long long)p->total);
}

bool move_position_read(const char *text, position *p)
{
    char *end;
    *p = (position){0};
    if (!text) return false;
    p->step = (int)strtol(text, &end, 10);
    p->after = strtoll(end, &end, 10);
    p->since_us = strtoll(end, &end, 10);
    p->copied = strtoll(end, &end, 10);
    p->total = strtoll(end, &end, 10);
    return p->step >= HISTORY && p->step < STEPS && *end == '\0';
}

pawl_status move_not_ours(mover *m, pawl_error *err)
{
    return err_set(err, PAWL_CONFLICT, "another process is moving tasks to \"%s\" at the same time: leave it to that one",
                   m->to_url);
}

/* Nobody else may have done anything there since; a call that was repeated finds what it did itself. */
pawl_status move_set_target(mover *m, pawl_gate *gate, pawl_error *err)
{
    pawl_gate now;
    char then[POSITION_TEXT];
    snprintf(then, sizeof then, "%s", gate->position ? gate->position : "");
    gate->before = m->stored;
    pawl_status status = move_set(m, m->to, gate, err);
    if (status == PAWL_CONFLICT && move_look(m, m->to, &now, err) == PAWL_OK && now.mode == gate->mode &&
        move_same(now.move, m->move) && move_same(now.position ? now.position : "", then))
        status = PAWL_OK;
    if (!status) snprintf(m->stored, sizeof m->stored, "%s", then);
    return status;
}

/* Stores the position without a page. */
pawl_status move_put_position(mover *m, const position *p, pawl_error *err)
{
    char text[POSITION_TEXT];
    position_write(text, p);
    pawl_gate gate = {.mode = PAWL_GATE_ARRIVING, .move = m->move, .peer = m->from_url, .by = m->o->by, .position = text};
    return move_set_target(m, &gate, err);
}

static pawl_status load_once(mover *m, const pawl_dump *d, const char *after, pawl_arena *arena, pawl_error *err)
{
    pawl_load call = {.page = d, .move = m->move, .before = m->stored, .position = after, .results = m->results};
    pawl_status status;
    PERSIST(status, store_load(m->to, &call, arena, err));
    if (status || !call.stale) return status;
    pawl_gate gate;
    status = move_look(m, m->to, &gate, err); /* it was loaded and the answer lost, or somebody else is at it */
    if (status) return status;
    return gate.position && strcmp(gate.position, after) == 0 ? PAWL_OK : move_not_ours(m, err);
}

static int64_t count_new(const mover *m, const pawl_dump *d)
{
    int64_t count = 0;
    for (int i = 0; d->part == PAWL_PART_TASKS && i < d->count; i++) count += m->results[i] == PAWL_LOADED_NEW;
    return count;
}

static pawl_status taken(const mover *m, const pawl_dump *d, pawl_error *err)
{
    char id[PAWL_ID_TEXT];
    for (int i = 0; d->part == PAWL_PART_TASKS && i < d->count; i++) {
        if (m->results[i] != PAWL_LOADED_TAKEN) continue;
        pawl_id_format(d->tasks[i].body.id, id);
        return err_set(err, PAWL_CONFLICT, "\"%s\" holds another task under the id %s: move to an empty store", m->to_url, id);
    }
    return PAWL_OK;
}

/* ---- pages ----------------------------------------------------------------------------------------------------------------- */

/* One page on its way: read by whoever reads, loaded by the mover. */
typedef struct page {
    pawl_dump d;
    pawl_arena *arena;
    pawl_status status;
    pawl_error err;
} page;

static void page_read(mover *m, page *p, const pawl_dump *how)
{
    arena_reset(p->arena);
    p->d = *how;
    p->status = move_dump(m, m->from, &p->d, p->arena, &p->err);
}

static pawl_status load_page(mover *m, position *p, const page *g, int next_step, pawl_error *err)
{
    char text[POSITION_TEXT];
    position then = *p;
    then.after = g->d.next;
    if (!g->d.more) then = (position){.step = next_step, .since_us = p->since_us, .copied = p->copied, .total = p->total};
    if (g->d.count == 0 && g->d.more) {
        *p = then;
        return PAWL_OK;
    }
    memset(m->results, 0, sizeof m->results);
    then.copied = m->done; /* a page behind */
    position_write(text, &then);
    pawl_status status = load_once(m, &g->d, text, g->arena, err);
    if (!status) status = taken(m, &g->d, err);
    if (status) return status;
    snprintf(m->stored, sizeof m->stored, "%s", text);
    int64_t created = count_new(m, &g->d);
    m->copied += created;
    m->done += created;
    *p = then;
    return PAWL_OK;
}

typedef struct reader { /* reads the next page while one is loaded */
    mover *m;
    page *p;
    pawl_dump how;
    pthread_t thread;
} reader;

static void *read_next(void *ctx)
{
    reader *r = ctx;
    page_read(r->m, r->p, &r->how);
    return NULL;
}

static void add_counts(mover *m, const pawl_dump *d)
{
    for (int i = 0; i < PAWL_STATE_COUNT; i++) {
        m->seen.counts[i] += d->counts[i];
        m->seen.sums[i] += d->sums[i];
    }
}

pawl_status move_copy(mover *m, position *p, pawl_dump how, int next_step, pawl_error *err)
{
    page pages[2] = {{.arena = arena_new(m->allocator, PAGE_MEMORY)}, {.arena = arena_new(m->allocator, PAGE_MEMORY)}};
    pawl_status status = pages[0].arena && pages[1].arena ? move_show(m, phases[p->step], NULL, err) : no_memory(err);
    how.after = p->after;
    m->seen = (census){.whole = p->after == 0};
    if (!status) page_read(m, &pages[0], &how);
    for (int at = 0, more = 1; more && !status; at = !at) {
        page *g = &pages[at];
        status = g->status;
        if (status) {
            if (err) *err = g->err;
            break;
        }
        add_counts(m, &g->d);
        more = g->d.more;
        reader next = {.m = m, .p = &pages[!at], .how = how};
        next.how.after = g->d.next;
        bool ahead = more && pthread_create(&next.thread, NULL, read_next, &next) == 0;
        status = load_page(m, p, g, next_step, err);
        if (ahead) pthread_join(next.thread, NULL);
        else if (more && !status) read_next(&next);
        if (!status) status = move_show(m, phases[p->step], NULL, err);
    }
    arena_free(pages[0].arena);
    arena_free(pages[1].arena);
    return status;
}

/* ---- counting -------------------------------------------------------------------------------------------------------------- */

pawl_status move_count(mover *m, pawl_store *store, const char *phase, census *out, pawl_error *err)
{
    pawl_dump *d = &m->counting;
    pawl_status status = PAWL_OK;
    *out = (census){.whole = true};
    *d = (pawl_dump){.part = PAWL_PART_TASKS, .limit = COUNT_ROWS};
    do {
        arena_reset(m->counted);
        status = move_dump(m, store, d, m->counted, err);
        for (int i = 0; !status && i < PAWL_STATE_COUNT; i++) {
            out->counts[i] += d->counts[i];
            out->sums[i] += d->sums[i];
        }
        d->after = d->next;
        if (!status) status = move_show(m, phase, NULL, err);
    } while (!status && d->more);
    return status;
}

int64_t move_total(const census *c)
{
    int64_t sum = 0;
    for (int i = 0; i < PAWL_STATE_COUNT; i++) sum += c->counts[i];
    return sum;
}

/* ---- closing --------------------------------------------------------------------------------------------------------------- */

static void say_nodes(mover *m, const pawl_gate *gate, char *out, size_t size)
{
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    size_t n = (size_t)snprintf(out, size, "%lld task%s still run%s", (long long)gate->leases, gate->leases == 1 ? "" : "s",
                                gate->leases == 1 ? "s" : "");
    if (gate->leases == 0)
        n = (size_t)snprintf(out, size, "%lld transaction%s of other programs began before the store was closed",
                             (long long)gate->writers, gate->writers == 1 ? "" : "s");
    if (gate->leases == 0 || store_read(m->from, &query, m->arena, NULL)) return;
    const char *before = ": ";
    for (size_t i = 0; i < query.nodes->count && n < size; i++) {
        const pawl_node_info *node = &query.nodes->nodes[i];
        if (node->leases <= 0) continue;
        n += (size_t)snprintf(out + n, size - n, "%s%lld on \"%.60s\" (process %lld%s)", before, (long long)node->leases,
                              node->name, (long long)node->pid, node->alive ? "" : ", gone");
        before = ", ";
    }
}

/* As nodes do: one that is proven dead at once, one that has lapsed after it was seen so for a while. */
static void free_dead(mover *m)
{
    pawl_claim call = {.allocator = m->allocator};
    if (m->from->type->claim(m->from, &call, m->arena, NULL)) {
        m->lapsed_count = 0; /* it must be seen without a gap */
        return;
    }
    watched now[PAWL_LAPSED_MAX] = {0};
    int count = 0;
    for (int i = 0; i < call.news.lapsed_count; i++) {
        const pawl_lapsed *l = &call.news.lapsed[i];
        int64_t since_us = mono_us();
        for (int k = 0; k < m->lapsed_count; k++)
            if (m->lapsed[k].node == l->node && m->lapsed[k].renewal == l->renewal) since_us = m->lapsed[k].since_us;
        now[count++] = (watched){l->node, l->renewal, since_us};
        if (!l->proven_dead && mono_us() - since_us < WATCH_US) continue;
        pawl_lease freed[100];
        pawl_rescue rescue = {.victim = l->node, .renewal = l->renewal, .counts = true, .limit = 100, .tasks = freed};
        while (m->from->type->rescue(m->from, &rescue, NULL) == PAWL_OK && rescue.more && !rescue.refused) {}
    }
    memcpy(m->lapsed, now, sizeof now);
    m->lapsed_count = count;
}

/* Until nobody holds a lease, and nobody who saw the gate open can still commit. */
pawl_status move_drain(mover *m, pawl_store *store, pawl_error *err)
{
    int64_t began_us = mono_us();
    char text[400];
    for (;;) {
        pawl_gate gate;
        arena_reset(m->arena);
        pawl_status status = move_look(m, store, &gate, err);
        if (store == m->to) gate.leases = 0; /* of tasks that are found in a moment */
        if (status || (gate.leases == 0 && gate.writers == 0)) return status;
        say_nodes(m, &gate, text, sizeof text);
        if (store == m->from && gate.leases > 0) free_dead(m);
        status = move_show(m, "waiting", text, err);
        if (status) return status;
        if (m->o->grace_us > 0 && mono_us() - began_us > m->o->grace_us)
            return err_set(
                err, PAWL_TIMEOUT,
                "could not empty \"%.100s\" in time: %s; it stays closed: start the move again to go on waiting, or give it up "
                "with --abort",
                m->from_url, text);
        nap(LOOK_US);
    }
}

/* Others may be at it, too. Nothing ends but what is told of, so this comes to an end. */
pawl_status move_settle(mover *m, pawl_error *err)
{
    const pawl_store_type *type = m->from->type;
    int calm = 0; /* looks that found nothing: what is locked by somebody is shown again after a moment */
    while (type->families && calm < (type->lanes > 1 ? 3 : 1)) {
        pawl_op op = {.kind = PAWL_OP_SETTLE, .audit = PAWL_AUDIT_FULL, .u.settle.limit = PAGE_MOST}, *ops[] = {&op};
        pawl_batch batch = {.ops = ops, .count = 1};
        pawl_claim news = {.allocator = m->allocator};
        pawl_status status;
        arena_reset(m->arena);
        PERSIST(status, type->apply(m->from, &batch, m->arena, err));
        if (!status) PERSIST(status, type->claim(m->from, &news, m->arena, err));
        if (!status) status = move_show(m, "waiting", "tasks learn that others have ended", err);
        if (status) return status;
        calm = news.news.unsettled ? 0 : calm + 1;
        if (calm ? type->lanes > 1 : !op.u.settle.settled) nap(LOOK_US);
    }
    return PAWL_OK;
}
