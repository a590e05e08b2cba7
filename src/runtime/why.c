/* Why is this task not running? The first reason that holds, in the order in which a person would look: has it ended; does
 * somebody hold it; may it run yet; would anybody take it. Sentences say how long from now, and when. */
#include "base/text.h"
#include "runtime/told.h"
#include <stdio.h>

typedef struct facts {
    runtime *rt;
    const pawl_info *info;
    const pawl_queue_info *queue; /* NULL: nothing is known of it */
    const pawl_nodes *nodes;
    const char **types;            /* of each node */
    const pawl_limit_info *limit;  /* of its rate key; NULL: none */
    const pawl_place_info *place;  /* where it is blocked; NULL: nowhere */
    const pawl_info *place_holder; /* who has had a place there the longest; NULL: nobody */
    const pawl_relatives *parents; /* that a waiting task waits for; NULL: it does not wait */
    core_task_state held;          /* by this engine; 0: not */
    int64_t slot_us;               /* of a task that is parked here, or that a local limit of this engine has put off */
    told_of_task told;             /* by the node that has it */
    int64_t now_us;
    const char *closed; /* the store's gate is shut; NULL: it is not */
    pawl_why_answer *answer;
} facts;

/* "in 4m (2026-11-15T04:49:03Z)" */
static const char *when(int64_t now_us, int64_t at_us, char out[96])
{
    char span[DURATION_TEXT], text[RFC3339_TEXT];
    bool future = at_us > now_us;
    duration_format(future ? at_us - now_us : now_us - at_us, span, sizeof span);
    rfc3339_format(at_us, text);
    snprintf(out, 96, "%s%s%s (%.19sZ)", future ? "in " : "", span, future ? "" : " ago", text);
    return out;
}

static bool is(facts *f, const char *code, int64_t until_us)
{
    snprintf(f->answer->code, sizeof f->answer->code, "%s", code);
    f->answer->until_us = until_us;
    return true;
}

#define SAY(f, ...) snprintf((f)->answer->text, sizeof(f)->answer->text, __VA_ARGS__)

static bool finished(facts *f)
{
    const pawl_info *i = f->info;
    char at[96];
    if (!pawl_state_terminal(i->state)) return false;
    if (i->state == PAWL_FAILED)
        SAY(f, "It failed %s after %d attempt%s%s%.200s", when(f->now_us, i->finished_us, at), i->attempt,
            i->attempt == 1 ? "" : "s", i->error ? ": " : "", i->error ? i->error : "");
    else SAY(f, "It %s %s.", i->state == PAWL_SUCCEEDED ? "succeeded" : "was cancelled", when(f->now_us, i->finished_us, at));
    return is(f, "finished", 0);
}

static const pawl_node_info *holder(const facts *f)
{
    for (size_t i = 0; i < f->nodes->count; i++)
        if (f->nodes->nodes[i].id == f->info->node) return &f->nodes->nodes[i];
    return NULL;
}

static const char *key_text(const pawl_info *i, char out[64])
{
    size_t at = 0;
    for (; at < i->rate_key.len && at < 50; at++)
        out[at] = i->rate_key.data[at] >= ' ' && i->rate_key.data[at] < 127 ? i->rate_key.data[at] : '?';
    snprintf(out + at, 64 - at, "%s", i->rate_key.len > at ? "..." : "");
    return out;
}

static bool parked(facts *f, const char *node)
{
    char at[96] = "at its slot", key[64];
    if (f->told.slot_us) when(f->now_us, f->told.slot_us, at);
    SAY(f, "Node %s has it; its rate key \"%s\" has no budget left, and it will start %s.", node, key_text(f->info, key), at);
    return is(f, "throttled", f->told.slot_us);
}

static bool leased(facts *f)
{
    const pawl_info *i = f->info;
    const pawl_node_info *node = holder(f);
    const char *name = i->node_name ? i->node_name : node ? node->name : "?";
    char at[96];
    if (i->state != PAWL_LEASED) return false;
    when(f->now_us, i->started_us ? i->started_us : i->run_at_us, at);
    if (!node || !node->alive) {
        SAY(f, "Node %s has it but does not seem to live: another node will take it over when the lease is over.", name);
        return is(f, "stale", node ? node->expires_us : 0);
    }
    if (i->cancel_asked) {
        SAY(f, "It was asked to stop; node %s has run it since %s and has not ended yet.", name, at);
        return is(f, "cancelling", 0);
    }
    if (f->held == CORE_PARKED) f->told.slot_us = f->slot_us;
    if (f->held == CORE_PARKED || (!f->held && f->told.parked && f->told.slot_us > f->now_us)) return parked(f, name);
    if (!i->started_us && f->told.others > 0 && !f->held) {
        SAY(f, "Node %s has it; %lld tasks of its rate key wait there for slots, and it may be one of them.", name,
            (long long)f->told.others);
        return is(f, "throttled", 0);
    }
    if (!i->started_us || f->held == CORE_READY || f->held == CORE_STARTING) {
        SAY(f, "Node %s has taken it and will start it when one of its workers is free.", name);
        return is(f, f->held == CORE_READY ? "capacity" : "starting", 0);
    }
    bool is_long = i->timeout_us <= 0 && i->progress < 0 && f->now_us - i->started_us > f->rt->options.long_run_us;
    SAY(f, "It is running: attempt %d, on node %s, since %s%s.", i->attempt, name, at,
        is_long ? ", without a timeout or progress" : "");
    return is(f, is_long ? "long_running" : "running", 0);
}

static const char *parent_state(const pawl_relative *parent)
{
    if (!parent->batch) return pawl_state_name(parent->state);
    return parent->state == PAWL_PENDING ? "not closed yet" : parent->state == PAWL_WAITING ? "not finished" : "finished";
}

static bool waiting(facts *f)
{
    if (f->info->state != PAWL_WAITING) return false;
    const pawl_relatives *r = f->parents;
    char first[PAWL_ID_TEXT] = "";
    size_t held = 0;
    for (size_t i = 0; r && i < r->count; i++) held += r->relatives[i].held;
    if (!r || r->count == 0) {
        SAY(f, "Its parents have ended: it will be due at any moment.");
        return is(f, "waiting", 0);
    }
    const pawl_relative *one = r->relatives;
    for (size_t i = 0; i < r->count && held > 0 && !one->held; i++) one = &r->relatives[i];
    pawl_id_format(one->id, first);
    if (held > 0)
        SAY(f, "It is held: its parent %s %s (%.100s) %s. Retry that, or cancel this.", one->batch ? "batch" : "task", first,
            one->type ? one->type : "?", pawl_state_name(one->state));
    else if (r->count == 1)
        SAY(f, "It waits for its parent %s %s (%.100s), which is %s.", one->batch ? "batch" : "task", first,
            one->type ? one->type : "?", parent_state(one));
    else
        SAY(f, "It waits for %zu%s parents, the first of them %s %s (%.100s), which is %s.", r->count, r->next ? " or more" : "",
            one->batch ? "batch" : "task", first, one->type ? one->type : "?", parent_state(one));
    return is(f, held > 0 ? "held" : "waiting", 0);
}

static bool moved(facts *f)
{
    if (!f->closed) return false;
    SAY(f, "%.400s.", f->closed);
    return is(f, "moved", 0);
}

static bool paused(facts *f)
{
    if (!f->queue || !f->queue->paused) return false;
    SAY(f, "Queue \"%.100s\" is paused: resume it.", f->info->queue);
    return is(f, "paused", 0);
}

static bool paused_limit(facts *f)
{
    const pawl_limit_info *l = f->limit;
    char key[64];
    key_text(f->info, key);
    if (l->own) SAY(f, "Its rate key \"%s\" is paused: resume it (pawl limits resume %.100s --key \"%s\").", key, l->type, key);
    else SAY(f, "All rate keys of type \"%.100s\" are paused: resume them (pawl limits resume %.100s).", l->type, l->type);
    return is(f, "throttled", 0);
}

static bool throttled(facts *f)
{
    const pawl_limit_info *l = f->limit;
    char at[96], period[DURATION_TEXT], key[64], rate[64] = "";
    bool local = !f->held && f->info->run_at_us > f->now_us && f->slot_us > f->now_us; /* which the store knows nothing of */
    bool waits = local || strcmp(f->info->display, "throttled") == 0;
    if (l && l->paused && (waits || f->info->run_at_us <= f->now_us)) return paused_limit(f);
    if (!waits) return false;
    when(f->now_us, f->info->run_at_us, at);
    if (l && l->rate.permits > 0) duration_format(l->rate.period_us, period, sizeof period);
    if (l && l->rate.permits > 0) snprintf(rate, sizeof rate, " (%d per %s)", l->rate.permits, period);
    if (f->info->rate_key.len > 0)
        SAY(f, "Its rate key \"%s\" has no budget left%s: it may start %s.", key_text(f->info, key), rate, at);
    else SAY(f, "The rate key that its handler told has no budget left: it may start %s.", at);
    return is(f, "throttled", f->info->run_at_us);
}

static const char *limited_what(const facts *f, const pawl_place_info *p, char out[160])
{
    char key[64];
    static const char *const words[] = {"", "queue", "type"};
    if (p->scope == PAWL_SCOPE_KEYS) snprintf(out, 160, "rate key \"%s\" of type \"%.80s\"", key_text(f->info, key), p->name);
    else snprintf(out, 160, "%s \"%.80s\"", words[p->scope], p->name);
    return out;
}

static bool blocked(facts *f)
{
    const pawl_place_info *p = f->place;
    char what[160], id[PAWL_ID_TEXT] = "";
    if (!p) return false;
    limited_what(f, p, what);
    if (p->holder) pawl_id_format(p->holder, id);
    const char *node = f->place_holder && f->place_holder->node_name ? f->place_holder->node_name : NULL;
    if (!p->holder) SAY(f, "It is blocked: a place of its %s is free, and another task will be offered it first.", what);
    else if (f->place_holder && f->place_holder->state != PAWL_LEASED)
        SAY(f, "It is blocked: tasks of its %s run in order, and task %s, which is %s, comes first.", what, id,
            f->place_holder->display);
    else
        SAY(f, "It is blocked: %lld of %d tasks of its %s are running%s; task %s%s%.100s has its place the longest.",
            (long long)p->taken, p->most, what, p->ordered ? ", and they run in order" : "", id, node ? " on node " : "",
            node ? node : "");
    return is(f, p->scope == PAWL_SCOPE_KEYS ? "key_held" : "blocked", 0);
}

static bool not_yet(facts *f)
{
    const pawl_info *i = f->info;
    char at[96];
    if (i->run_at_us <= f->now_us) return false;
    when(f->now_us, i->run_at_us, at);
    if (i->failures > 0)
        SAY(f, "Attempt %d failed; it is tried again %s%s%.200s", i->failures, at, i->error ? ". " : ".",
            i->error ? i->error : "");
    else SAY(f, "It is scheduled to run %s.", at);
    return is(f, i->failures > 0 ? "retrying" : "scheduled", i->run_at_us);
}

static bool nobody(facts *f)
{
    bool queue = false, type = false;
    const pawl_node_info *draining = NULL; /* one that would run it */
    for (size_t i = 0; i < f->nodes->count; i++) {
        const pawl_node_info *n = &f->nodes->nodes[i];
        if (!n->alive || !csv_has(n->queues, f->info->queue)) continue;
        bool knows = csv_has(f->types[i], f->info->type) || csv_has(f->types[i], "*");
        queue = true;
        type = type || (knows && !n->draining);
        if (knows && n->draining) draining = n;
    }
    if (queue && type) return false;
    if (draining) {
        SAY(f,
            "Every living node that would run it is draining: let one start tasks again (pawl nodes drain %lld --undo), or start another.",
            (long long)draining->id);
        return is(f, "draining", 0);
    }
    if (!queue) SAY(f, "No living node serves queue \"%.100s\": start one that does.", f->info->queue);
    else
        SAY(f, "No living node that serves queue \"%.100s\" knows type \"%.100s\": start one with a handler for it.",
            f->info->queue, f->info->type);
    return is(f, queue ? "unknown_type" : "unserved_queue", 0);
}

static bool full(facts *f)
{
    const pawl_queue_info *q = f->queue;
    if (!q || q->leased == 0 || (q->workers > 0 && q->running < q->workers)) return false;
    SAY(f, "It is due, and all workers of queue \"%.100s\" are busy: %lld tasks run, %lld are due.", q->name,
        (long long)q->leased, (long long)q->due);
    return is(f, "capacity", 0);
}

static void explain_state(facts *f)
{
    if (finished(f) || leased(f) || moved(f) || waiting(f) || paused(f) || blocked(f) || throttled(f) || not_yet(f) ||
        nobody(f) || full(f))
        return;
    SAY(f, "It is due and a node will start it at any moment.");
    is(f, "starting", 0);
}

/* A task of a schedule says so: that is where it can be changed. */
static void explain(facts *f)
{
    explain_state(f);
    size_t n = strlen(f->answer->text);
    if (!f->info->schedule || pawl_state_terminal(f->info->state)) return;
    snprintf(f->answer->text + n, sizeof f->answer->text - n, " It is a task of the schedule \"%.100s\".", f->info->schedule);
}

static const pawl_queue_info *find_queue(const pawl_stats *stats, const char *name)
{
    for (size_t i = 0; i < stats->queues_count; i++)
        if (strcmp(stats->queues[i].name, name) == 0) return &stats->queues[i];
    return NULL;
}

static core_task_state held_here(runtime *rt, pawl_id id, int64_t *slot_us)
{
    core_task_state state = 0;
    loop_enter(rt, -1);
    bool held = core_holds(rt->core, id, &state);
    *slot_us = core_slot(rt->core, id);
    loop_leave(rt);
    return held ? state : 0;
}

pawl_status why_explain(runtime *rt, pawl_id id, pawl_why_answer *answer, pawl_error *err)
{
    pawl_info *info = NULL;
    pawl_stats *stats = NULL;
    pawl_limits *limits = NULL;
    pawl_places *places = NULL;
    pawl_info *place_holder = NULL;
    pawl_relatives *parents = NULL;
    pawl_query nodes = {.kind = PAWL_QUERY_NODES};
    pawl_arena *arena = arena_new(&rt->allocator, 0);
    pawl_why_answer text = {0};
    pawl_status status = arena ? look_get(rt, id, &info, err) : err_set(err, PAWL_NO_MEMORY, "could not look: out of memory");
    if (!status) status = look_stats(rt, 0, info->queue, &stats, err);
    if (!status) status = look_read(rt, &nodes, arena, err);
    if (!status && info->rate_key.len > 0 && rt->store->type->limits)
        status = limits_get(rt, &(pawl_limit_filter){.type = info->type, .key = info->rate_key, .limit = 1}, &limits, err);
    if (!status && info->state == PAWL_PENDING && rt->store->type->places)
        status = places_get(rt, &(pawl_place_filter){.task = id, .limit = 1}, &places, err);
    if (!status && places && places->count > 0 && places->places[0].holder)
        look_get(rt, places->places[0].holder, &place_holder, NULL); /* it may have ended by now */
    if (!status && info->state == PAWL_WAITING && rt->store->type->families)
        status = family_relatives(
            rt, &(pawl_relatives_query){.of = id, .relation = PAWL_PARENTS, .limit = 100, .waited_for = true}, &parents, err);
    if (!status) {
        int64_t slot_us = 0;
        core_task_state held = held_here(rt, id, &slot_us);
        told_of_task told = {0};
        if (info->state == PAWL_LEASED && info->rate_key.len > 0) told_find(&nodes, info->node, info, &told);
        explain(&(facts){.rt = rt,
                         .info = info,
                         .queue = find_queue(stats, info->queue),
                         .nodes = nodes.nodes,
                         .types = nodes.node_types,
                         .limit = limits && limits->count > 0 ? limits->limits : NULL,
                         .place = places && places->count > 0 ? places->places : NULL,
                         .place_holder = place_holder,
                         .parents = parents,
                         .held = held,
                         .slot_us = slot_us,
                         .told = told,
                         .now_us = stats->now_us,
                         .closed = stats->closed,
                         .answer = &text});
        *answer = text;
    }
    pawl_info_free(info);
    pawl_stats_free(stats);
    pawl_limits_free(limits);
    pawl_places_free(places);
    pawl_info_free(place_holder);
    pawl_relatives_free(parents);
    arena_free(arena);
    return status;
}
