/* pawl_move: all tasks of one store to another.
 *
 *   step       source     what is copied
 *   HISTORY    leaving    what is finished, while nodes work
 *   CLOSE      closed     nothing: waits until no lease is held, and frees those of the dead
 *   REST       closed     what is not finished, and what ended or was resolved since HISTORY began
 *   SETTINGS, LIMITS, BUDGETS, MINUTES, ACTS    queues and ids; rate limits, and what is left of them; statistics; the operator log
 *   CHECK                 counts and sums of ids by state, at both stores; if they differ, REPAIR copies what is missing
 *
 * The target's gate is ARRIVING from first to last, so nothing starts there before CHECK was passed; then it is opened. The source stays
 * closed. How far the move has come is part of every commit at the target (the gate's position: step, last id, since when, how many), so a
 * mover that dies is followed by another that goes on from there, and a commit whose answer was lost is not made twice.
 *
 * At no time may both stores run a task: the source is closed before the target gets the first live task, and abort empties the
 * target before it opens the source.
 */
#include "runtime/move.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rand.h"
#include "runtime/gate.h"
#include <stdio.h>

#define PAGE_BYTES ((size_t)4 << 20)
#define SKEW_US \
    (15 * PAWL_SECOND) /* commits under way as HISTORY begins have their times from before; CHECK finds what is older */
#define ABORTED "aborted"

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not move the tasks: out of memory"); }

static bool agree(const census *a, const census *b)
{
    return memcmp(a->counts, b->counts, sizeof a->counts) == 0 && memcmp(a->sums, b->sums, sizeof a->sums) == 0;
}

/* ---- closing --------------------------------------------------------------------------------------------------------------- */

static pawl_gate gate_from(const mover *m, pawl_gate_mode mode, const char *at)
{
    return (pawl_gate){.mode = mode, .move = m->move, .peer = m->to_url, .by = m->o->by, .position = at};
}

/* Who waits for whom is not moved: those who wait would do so for ever. */
static pawl_status nobody_waits(mover *m, pawl_error *err)
{
    pawl_batch_filter f = {.limit = 1, .unfinished = true};
    pawl_query stats = {.kind = PAWL_QUERY_STATS, .window_us = PAWL_MINUTE},
               batches = {.kind = PAWL_QUERY_BATCHES, .batch_filter = &f};
    if (!m->from->type->families) return PAWL_OK;
    pawl_status status = store_read(m->from, &stats, m->counted, err);
    if (!status) status = store_read(m->from, &batches, m->counted, err);
    bool waits = !status && (stats.stats->waiting > 0 || batches.batches_count > 0);
    arena_reset(m->counted);
    if (!waits) return status;
    return err_set(
        err, PAWL_UNSUPPORTED,
        "\"%s\" has tasks that wait for others, or batches that have not ended, which cannot be moved yet: let them end, or "
        "cancel them, first",
        m->from_url);
}

static pawl_status close_source(mover *m, position *p, pawl_error *err)
{
    pawl_gate gate = gate_from(m, PAWL_GATE_CLOSED, "closing"), now;
    pawl_status status = move_look(m, m->from, &now, err);
    if (!status && move_same(now.position, GATE_COMPLETE)) status = move_not_ours(m, err);
    if (!status) status = move_set(m, m->from, &gate, err);
    if (!status) status = move_drain(m, m->from, err);
    if (!status) status = nobody_waits(m, err); /* of those that came meanwhile; --abort opens it again */
    if (status) return status;
    p->step = REST;
    p->after = 0;
    return move_put_position(m, p, err);
}

/* ---- the end --------------------------------------------------------------------------------------------------------------- */

static pawl_status open_target(mover *m, pawl_error *err)
{
    pawl_gate to = {.mode = PAWL_GATE_OPEN, .move = m->move, .peer = m->from_url, .by = m->o->by, .position = GATE_COMPLETE};
    pawl_gate from = gate_from(m, PAWL_GATE_CLOSED, GATE_COMPLETE);
    pawl_status status = move_set_target(m, &to, err);
    return status ? status : move_set(m, m->from, &from, err);
}

static pawl_status differ(const mover *m, const census *a, const census *b, pawl_error *err)
{
    return err_set(
        err, PAWL_CORRUPT,
        "the two stores do not hold the same tasks: \"%.100s\" has %lld, \"%.100s\" has %lld; nothing is lost, the first has "
        "everything: give the move up with --abort, and run `pawl doctor` on both",
        m->from_url, (long long)move_total(a), m->to_url, (long long)move_total(b));
}

static pawl_status check_sums(mover *m, position *p, pawl_error *err)
{
    census from = m->seen, to;
    pawl_status status = from.whole && m->seen_rest ? PAWL_OK : move_count(m, m->from, "checking", &from, err);
    if (!status) status = move_count(m, m->to, "checking", &to, err);
    if (status) return status;
    if (agree(&from, &to) && from.counts[PAWL_LEASED] == 0) {
        m->at_target = to;
        m->over = true;
        return open_target(m, err);
    }
    if (p->step == CHECK_AGAIN) return differ(m, &from, &to, err);
    *p = (position){.step = REPAIR, .copied = p->copied, .total = p->total};
    return move_put_position(m, p, err);
}

/* ---- step by step ---------------------------------------------------------------------------------------------------------- */

#define FINISHED (PAWL_STATE_BIT(PAWL_SUCCEEDED) | PAWL_STATE_BIT(PAWL_FAILED) | PAWL_STATE_BIT(PAWL_CANCELLED))
#define UNFINISHED (PAWL_STATE_BIT(PAWL_WAITING) | PAWL_STATE_BIT(PAWL_PENDING))

static pawl_dump tasks(unsigned states, int64_t since_us)
{
    return (pawl_dump){.part = PAWL_PART_TASKS, .states = states, .since_us = since_us, .limit = PAGE_MOST, .bytes = PAGE_BYTES};
}

static pawl_dump rest(pawl_part part) { return (pawl_dump){.part = part, .limit = PAGE_MOST}; }

static bool limits_go(const mover *m) { return m->from->type->limits && m->to->type->limits && !m->o->leave_limits; }

/* Limits that people set are not left behind silently. They may come while history is copied. */
static pawl_status check_limits(mover *m, pawl_error *err)
{
    pawl_dump *d = &m->counting;
    if (limits_go(m) || m->o->leave_limits || !m->from->type->limits) return PAWL_OK;
    *d = rest(PAWL_PART_LIMITS);
    arena_reset(m->counted);
    pawl_status status = move_dump(m, m->from, d, m->counted, err);
    if (status || d->count == 0) return status;
    return err_set(
        err, PAWL_UNSUPPORTED,
        "cannot move the rate limits of \"%.150s\" (%d, the first for type \"%.60s\"): \"%.150s\" keeps none; leave them behind "
        "with --leave-limits, or choose another store",
        m->from_url, d->count, d->limits[0].type, m->to_url);
}

/* What does not go along is not left behind silently either. */
static pawl_status check_left(mover *m, pawl_error *err)
{
    pawl_query places = {.kind = PAWL_QUERY_PLACES, .place_filter = &(pawl_place_filter){.limit = 1}};
    pawl_query schedules = {.kind = PAWL_QUERY_SCHEDULES, .schedule_filter = &(pawl_schedule_filter){.limit = 1}};
    pawl_status status = PAWL_OK;
    arena_reset(m->counted);
    if (m->from->type->places && !m->o->leave_limits) status = store_read(m->from, &places, m->counted, err);
    if (!status && places.places && places.places->count > 0)
        return err_set(err, PAWL_UNSUPPORTED,
                       "cannot move the concurrency limits of \"%.150s\" (the first for \"%.60s\"): leave them behind with "
                       "--leave-limits, and set them again at the new store",
                       m->from_url, places.places->places[0].name);
    if (!status && m->from->type->schedules && !m->o->leave_schedules) status = store_read(m->from, &schedules, m->counted, err);
    if (!status && schedules.schedules_count > 0)
        return err_set(
            err, PAWL_UNSUPPORTED,
            "cannot move the schedules of \"%.150s\" (the first is \"%.60s\"): leave them behind with --leave-schedules, "
            "and register them again at the new store",
            m->from_url, schedules.schedules[0].name);
    return status;
}

static pawl_status copy_limits(mover *m, position *p, pawl_error *err)
{
    if (limits_go(m)) return move_copy(m, p, rest(PAWL_PART_LIMITS), BUDGETS, err);
    pawl_status status = check_limits(m, err);
    p->step = MINUTES;
    p->after = 0;
    return status ? status : move_put_position(m, p, err);
}

static pawl_status one_step(mover *m, position *p, pawl_error *err)
{
    pawl_status status;
    switch ((move_step)p->step) {
    case HISTORY: {
        pawl_dump how = tasks(FINISHED, 0);
        how.no_counts = true;
        return move_copy(m, p, how, CLOSE, err);
    }
    case CLOSE: return close_source(m, p, err);
    case REST:
        status = move_copy(m, p, tasks(FINISHED | UNFINISHED, p->since_us), SETTINGS, err);
        m->rest = m->seen;
        m->seen_rest = true;
        return status;
    case SETTINGS: return move_copy(m, p, rest(PAWL_PART_SETTINGS), LIMITS, err);
    case LIMITS: return copy_limits(m, p, err);
    case BUDGETS: return move_copy(m, p, rest(PAWL_PART_BUDGETS), MINUTES, err);
    case MINUTES: return move_copy(m, p, rest(PAWL_PART_MINUTES), ACTS, err);
    case ACTS: return move_copy(m, p, rest(PAWL_PART_ACTS), CHECK_SUMS, err);
    case REPAIR: m->seen_rest = false; return move_copy(m, p, tasks(FINISHED | UNFINISHED, 0), CHECK_AGAIN, err);
    default: m->seen = m->rest; return check_sums(m, p, err);
    }
}

static pawl_status go(mover *m, position *p, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    census there;
    m->done = p->copied;
    if (!p->total) status = move_count(m, m->from, "counting", &there, err);
    if (!status && !p->total) p->total = move_total(&there);
    m->total = p->total;
    while (!status && !m->over) status = one_step(m, p, err);
    return status;
}

/* ---- beginning, or going on ------------------------------------------------------------------------------------------------ */

/* The name of a move begins with the store whose tasks it moves. */
static bool moves_from(const char *move, const char *store)
{
    size_t n = store ? strlen(store) : 0;
    return move && n && strncmp(move, store, n) == 0 && move[n] == ':';
}

static pawl_status occupied(const mover *m, pawl_error *err)
{
    return err_set(err, PAWL_CONFLICT, "\"%s\" holds tasks already: move to an empty store", m->to_url);
}

/* Looks before it shuts the gate of what may be in use, and again when nobody can come any more. */
static pawl_status take_target(mover *m, position *p, pawl_error *err)
{
    census there;
    *p = (position){.step = HISTORY};
    pawl_status status = move_count(m, m->to, "counting", &there, err);
    if (!status && move_total(&there) > 0) return occupied(m, err);
    if (!status) status = move_put_position(m, p, err);
    if (!status) status = move_drain(m, m->to, err);
    if (!status) status = move_count(m, m->to, "counting", &there, err);
    if (status || move_total(&there) == 0) return status;
    pawl_gate open = {.mode = PAWL_GATE_OPEN, .move = m->move, .by = m->o->by};
    status = move_set_target(m, &open, err);
    return status ? status : occupied(m, err);
}

/* Nothing is swept from now on; what ends from now on is copied later. */
static pawl_status take_source(mover *m, position *p, const pawl_gate *from, pawl_error *err)
{
    pawl_gate gate = gate_from(m, PAWL_GATE_LEAVING, "leaving"), now = *from;
    pawl_status status = from->mode == PAWL_GATE_OPEN ? move_set(m, m->from, &gate, err) : PAWL_OK;
    if (!status && from->mode == PAWL_GATE_OPEN) status = move_look(m, m->from, &now, err);
    if (status || p->since_us) return status;
    p->since_us = now.at_us > SKEW_US ? now.at_us - SKEW_US : 1;
    return move_put_position(m, p, err);
}

static pawl_status elsewhere(const mover *m, const pawl_gate *from, pawl_error *err)
{
    if (move_same(from->position, GATE_COMPLETE))
        return err_set(err, PAWL_CONFLICT, "the tasks of \"%.150s\" have moved to \"%.200s\" already", m->from_url, from->peer);
    return err_set(err, PAWL_CONFLICT, "\"%.150s\" is being moved to \"%.200s\": go on with that, or give it up with --abort",
                   m->from_url, from->peer);
}

static pawl_status busy(const mover *m, const pawl_gate *to, pawl_error *err)
{
    return err_set(err, PAWL_CONFLICT,
                   "\"%.150s\" takes part in another move, with \"%.200s\": end that one first, or choose another store",
                   m->to_url, to->peer ? to->peer : "?");
}

static void name_move(mover *m, const char *store)
{
    snprintf(m->move, sizeof m->move, "%.100s:%016llx", store, (unsigned long long)seed_from_system());
}

/* Whether this is a move that was begun before; its name, and where it is. An open gate says at most what was before. */
static pawl_status find_move(mover *m, pawl_gate *from, pawl_gate *to, position *p, pawl_error *err)
{
    bool over = from->mode == PAWL_GATE_CLOSED && move_same(to->move, from->move) && move_same(to->position, GATE_COMPLETE);
    if (move_same(from->store, to->store))
        return err_set(err, PAWL_INVALID, "\"%s\" and \"%s\" are the same store", m->from_url, m->to_url);
    if (from->mode == PAWL_GATE_ARRIVING) return gate_say(from, m->from_url, err);
    if (from->mode == PAWL_GATE_OPEN) from->move = NULL;
    if (to->mode == PAWL_GATE_OPEN && !over) to->move = NULL;
    if (from->mode == PAWL_GATE_CLOSED && !move_same(from->move, to->move)) return elsewhere(m, from, err);
    bool adopted = to->mode == PAWL_GATE_ARRIVING && !from->move && moves_from(to->move, from->store);
    if (to->move && !move_same(from->move, to->move) && !adopted) return busy(m, to, err);
    m->resumed = to->move || from->move;
    if (m->resumed) snprintf(m->move, sizeof m->move, "%s", to->move ? to->move : from->move);
    else name_move(m, from->store);
    snprintf(m->stored, sizeof m->stored, "%s", to->position ? to->position : "");
    if (to->mode != PAWL_GATE_ARRIVING) return PAWL_OK;
    return move_position_read(to->position, p) ? PAWL_OK : busy(m, to, err);
}

static pawl_status report_of(mover *m, pawl_error *err)
{
    return m->at_target.whole ? PAWL_OK : move_count(m, m->to, "checking", &m->at_target, err);
}

static pawl_status move(mover *m, pawl_error *err)
{
    pawl_gate from, to;
    position p = {0};
    pawl_status status = move_look(m, m->from, &from, err);
    if (!status) status = move_look(m, m->to, &to, err);
    if (!status) status = find_move(m, &from, &to, &p, err);
    if (status) return status;
    if (to.mode == PAWL_GATE_OPEN && to.move) { /* all but the last word was said */
        status = open_target(m, err);
        return status ? status : report_of(m, err);
    }
    if (p.step < LIMITS) status = check_limits(m, err);
    if (!status && !p.step) status = check_left(m, err);
    if (!status && !p.step) status = nobody_waits(m, err);
    if (!status && !p.step) status = take_target(m, &p, err);
    if (!status) status = take_source(m, &p, &from, err);
    return status ? status : go(m, &p, err);
}

/* ---- giving up ------------------------------------------------------------------------------------------------------------- */

static pawl_status cannot_abort(const mover *m, const pawl_gate *from, const pawl_gate *to, const char *name, pawl_error *err)
{
    if (!name) return err_set(err, PAWL_CONFLICT, "\"%s\" is not being moved", m->from_url);
    if (move_same(from->position, GATE_COMPLETE) || move_same(to->position, GATE_COMPLETE))
        return err_set(err, PAWL_CONFLICT, "the move to \"%.200s\" is complete and cannot be given up: the tasks run there",
                       m->to_url);
    return err_set(
        err, PAWL_CONFLICT,
        "\"%.150s\" is not the store that \"%.150s\" is being moved to (\"%.150s\"); if that one is gone for good, say --lost",
        m->to_url, m->from_url, from->peer ? from->peer : "?");
}

/* The target is empty before the source opens. */
static pawl_status give_up(mover *m, pawl_error *err)
{
    pawl_gate from, to;
    pawl_status status = move_look(m, m->from, &from, err);
    if (!status) status = move_look(m, m->to, &to, err);
    if (status) return status;
    if (from.mode == PAWL_GATE_OPEN) from.move = NULL;
    const char *name = from.move;
    if (!name && to.mode == PAWL_GATE_ARRIVING && moves_from(to.move, from.store)) name = to.move;
    bool ours = move_same(to.move, name), leaving = from.mode == PAWL_GATE_LEAVING;
    bool complete = move_same(from.position, GATE_COMPLETE) || (ours && move_same(to.position, GATE_COMPLETE));
    if (!name || complete || (!ours && !leaving && !m->o->lost)) return cannot_abort(m, &from, &to, name, err);
    snprintf(m->move, sizeof m->move, "%s", name);
    pawl_gate empty = {.mode = PAWL_GATE_OPEN, .move = m->move, .by = m->o->by, .position = ABORTED, .discard = true};
    pawl_gate open = {.mode = PAWL_GATE_OPEN, .move = m->move, .by = m->o->by}, first = open;
    char at[POSITION_TEXT];
    snprintf(at, sizeof at, "%s", from.position ? from.position : "");
    snprintf(m->stored, sizeof m->stored, "%s", to.position ? to.position : "");
    first.before = at;
    if (ours) status = move_set_target(m, &empty, err);
    if (!status && from.move) status = move_set(m, m->from, &first, err);
    if (!status && ours) status = move_set_target(m, &open, err);
    return status;
}

/* ---- the call -------------------------------------------------------------------------------------------------------------- */

static pawl_store_options options_of(const mover *m, const char *url)
{
    return (pawl_store_options){.url = url,
                                .lease_us = 30 * PAWL_SECOND,
                                .lock_wait_us = 10 * PAWL_SECOND,
                                .clock = clock_system(),
                                .allocator = m->allocator};
}

/* A source that does not exist is not made. */
static pawl_status open_stores(mover *m, pawl_error *err)
{
    pawl_schema schema;
    pawl_store_options from = options_of(m, m->o->from), to = options_of(m, m->o->to);
    pawl_status status = store_schema(&from, &schema, m->arena, err);
    if (!status) status = store_open(&from, &m->from, err);
    if (!status) status = store_open(&to, &m->to, err);
    if (status) return status;
    pawl_store *both[] = {m->from, m->to};
    for (int i = 0; i < 2 && !status; i++)
        if (!both[i]->type->set_gate) status = store_set_gate(both[i], NULL, err);
    return status;
}

static void fill_report(const mover *m, pawl_move_report *out)
{
    const int64_t *n = m->at_target.counts;
    *out = (pawl_move_report){.tasks = move_total(&m->at_target),
                              .pending = n[PAWL_WAITING] + n[PAWL_PENDING] + n[PAWL_LEASED],
                              .succeeded = n[PAWL_SUCCEEDED],
                              .failed = n[PAWL_FAILED],
                              .cancelled = n[PAWL_CANCELLED],
                              .copied = m->copied,
                              .resumed = m->resumed};
}

static pawl_status run(mover *m, pawl_error *err)
{
    m->arena = arena_new(m->allocator, 0);
    m->counted = arena_new(m->allocator, 0);
    m->kept = arena_new(m->allocator, 0);
    if (!m->arena || !m->counted || !m->kept) return no_memory(err);
    m->from_url = runtime_public_url(m->kept, m->o->from);
    m->to_url = runtime_public_url(m->kept, m->o->to);
    if (!m->from_url || !m->to_url) return no_memory(err);
    pawl_status status = open_stores(m, err);
    if (status) return status;
    return m->o->abort ? give_up(m, err) : move(m, err);
}

pawl_status pawl_move(const pawl_move_options *o, pawl_move_report *report, pawl_error *err)
{
    if (!o || !o->from || !o->to) return err_set(err, PAWL_INVALID, "a move needs two stores: from and to");
    const pawl_allocator *a = o->allocator.alloc ? &o->allocator : alloc_default();
    mover *m = alloc_new(a, sizeof *m);
    if (!m) return no_memory(err);
    m->o = o;
    m->allocator = a;
    pawl_status status = run(m, err);
    if (!status && report) fill_report(m, report);
    store_close(m->from);
    store_close(m->to);
    if (m->arena) arena_free(m->arena);
    if (m->counted) arena_free(m->counted);
    if (m->kept) arena_free(m->kept);
    alloc_free(a, m);
    return status;
}
