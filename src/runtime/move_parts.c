/* What of a store goes along in a move beside its tasks: parts that both stores keep. What does not is never left behind silently. */
#include "base/error.h"
#include "runtime/move.h"

typedef struct ability { /* what a store must keep, so that it has these parts */
    bool limits, places, schedules, families;
} ability;

static ability needed(pawl_part part)
{
    return (ability){.limits = part == PAWL_PART_LIMITS || part == PAWL_PART_BUDGETS,
                     .places = part == PAWL_PART_BOUNDS,
                     .schedules = part == PAWL_PART_SCHEDULES,
                     .families = part == PAWL_PART_BATCHES || part == PAWL_PART_KEPT};
}

static bool has(const pawl_store *s, const ability *a)
{
    const pawl_store_type *t = s->type;
    return (!a->limits || t->limits) && (!a->places || t->places) && (!a->schedules || t->schedules) &&
           (!a->families || t->families);
}

static bool left(const mover *m, const ability *a)
{
    return ((a->limits || a->places) && m->o->leave_limits) || (a->schedules && m->o->leave_schedules);
}

bool move_goes(const mover *m, pawl_part part)
{
    ability a = needed(part);
    return !left(m, &a) && has(m->from, &a) && has(m->to, &a);
}

/* ---- what does not go ------------------------------------------------------------------------------------------------------ */

static pawl_status first_page(mover *m, pawl_store *store, pawl_part part, pawl_error *err)
{
    m->counting = (pawl_dump){.part = part, .limit = 1};
    arena_reset(m->counted);
    return move_dump(m, store, &m->counting, m->counted, err);
}

static pawl_status cannot(const mover *m, const char *what, const char *name, const char *option, pawl_error *err)
{
    return err_set(err, PAWL_UNSUPPORTED,
                   "cannot move the %s of \"%.150s\" (the first is \"%.60s\"): \"%.150s\" keeps none; %s%s, or choose another "
                   "store",
                   what, m->from_url, name, m->to_url, option ? "leave them behind with " : "let them end, or cancel them",
                   option ? option : "");
}

/* Whether there is anything of this part that cannot go, though nobody said that it may be left. */
static pawl_status stays(mover *m, pawl_part part, bool *any, pawl_error *err)
{
    ability a = needed(part);
    *any = false;
    if (left(m, &a) || !has(m->from, &a) || has(m->to, &a)) return PAWL_OK;
    pawl_status status = first_page(m, m->from, part, err);
    *any = !status && m->counting.count > 0;
    return status;
}

/* Those who wait would do so for ever. */
static pawl_status check_waiting(mover *m, pawl_error *err)
{
    pawl_query stats = {.kind = PAWL_QUERY_STATS, .window_us = PAWL_MINUTE};
    if (!m->from->type->families || m->to->type->families) return PAWL_OK;
    arena_reset(m->counted);
    pawl_status status = store_read(m->from, &stats, m->counted, err);
    if (status || stats.stats->waiting == 0) return status;
    return err_set(
        err, PAWL_UNSUPPORTED,
        "\"%.150s\" has tasks that wait for others, which \"%.150s\" does not keep: let them end, or cancel them, first",
        m->from_url, m->to_url);
}

pawl_status move_check_left(mover *m, pawl_error *err)
{
    const pawl_dump *d = &m->counting;
    bool any;
    pawl_status status = stays(m, PAWL_PART_LIMITS, &any, err);
    if (!status && any) return cannot(m, "rate limits", d->limits[0].type, "--leave-limits", err);
    if (!status) status = stays(m, PAWL_PART_BOUNDS, &any, err);
    if (!status && any) return cannot(m, "concurrency limits", d->bounds[0].name, "--leave-limits", err);
    if (!status) status = stays(m, PAWL_PART_SCHEDULES, &any, err);
    if (!status && any) return cannot(m, "schedules", d->schedules[0].name, "--leave-schedules", err);
    if (!status) status = stays(m, PAWL_PART_BATCHES, &any, err);
    if (!status && any) return cannot(m, "batches", d->batches[0].name, NULL, err);
    return status ? status : check_waiting(m, err);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------- */

static pawl_status count_part(mover *m, pawl_store *store, pawl_part part, int64_t *count, pawl_error *err)
{
    pawl_dump *d = &m->counting;
    pawl_status status = PAWL_OK;
    *count = 0;
    *d = (pawl_dump){.part = part, .limit = PAGE_MOST};
    do {
        arena_reset(m->counted);
        status = move_dump(m, store, d, m->counted, err);
        *count += status ? 0 : d->count;
        for (int i = 0; !status && part == PAWL_PART_SCHEDULES && i < d->count; i++) *count += d->schedules[i].occurrences_count;
        d->after = d->next;
        if (!status) status = move_show(m, "checking", NULL, err);
    } while (!status && d->more);
    return status;
}

/* The second store may have limits and schedules of its own. */
pawl_status move_compare(mover *m, pawl_error *err)
{
    static const struct {
        pawl_part part;
        const char *what;
        bool own;
    } parts[] = {{PAWL_PART_LIMITS, "rate limits", true},
                 {PAWL_PART_BOUNDS, "concurrency limits", true},
                 {PAWL_PART_SCHEDULES, "schedules", true},
                 {PAWL_PART_BATCHES, "batches", false},
                 {PAWL_PART_KEPT, "results kept", false}};
    int64_t from = 0, to = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!move_goes(m, parts[i].part)) continue;
        pawl_status status = count_part(m, m->from, parts[i].part, &from, err);
        if (!status) status = count_part(m, m->to, parts[i].part, &to, err);
        if (status) return status;
        if (to == from || (to > from && parts[i].own)) continue;
        return err_set(
            err, PAWL_CORRUPT,
            "the two stores do not hold the same %s: \"%.100s\" has %lld, \"%.100s\" has %lld; nothing is lost, the first has "
            "everything: give the move up with --abort, and run `pawl doctor` on both",
            parts[i].what, m->from_url, (long long)from, m->to_url, (long long)to);
    }
    return PAWL_OK;
}

/* Batches would meet others of their names. */
pawl_status move_has_batches(mover *m, pawl_store *store, bool *any, pawl_error *err)
{
    *any = false;
    if (!store->type->families) return PAWL_OK;
    pawl_status status = first_page(m, store, PAWL_PART_BATCHES, err);
    *any = !status && m->counting.count > 0;
    return status;
}
