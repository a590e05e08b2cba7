/* pawl_examine: a store as a person would look at it who is called because something is wrong.
 *
 * What only the store can tell (its disk, its files) it finds itself; what is the same on every store is found here, from the answers
 * that everybody gets: schema, nodes, queues, tasks, clock. A check that found nothing says so, so that a person sees what was looked at.
 * The verdict ACT is for what will not get better by itself.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "runtime/runtime.h"
#include "runtime/gate.h"
#include "runtime/upkeep.h"
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 300
#define LONG_RUN_US (15 * PAWL_MINUTE) /* as engines report it by default */
#define SKEW_WARN_US (2 * PAWL_SECOND)
#define SKEW_ACT_US PAWL_MINUTE
#define TASKS_AT_ONCE 200

typedef struct exam {
    const pawl_store_options *options;
    pawl_store *store;
    pawl_arena *arena;
    pawl_findings *f;
    const pawl_stats *stats;
    const pawl_nodes *nodes;
    int64_t now_us;
} exam;

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* ---- schema ---------------------------------------------------------------------------------------------------------------- */

static void find_schema(exam *e, const pawl_schema *s)
{
    static const char check[] = "schema";
    long long stored = s->stored, known = s->known;
    if (!s->known) {
        pawl_find(e->f, check, PAWL_VERDICT_OK, "Stores of this kind have no schema.");
    } else if (!s->fits) {
        pawl_find(e->f, check, PAWL_VERDICT_ACT,
                  "The store has schema %lld, written by pawl %s; this is pawl %s, which knows schema %lld.", stored,
                  s->written_by, PAWL_VERSION, known);
        pawl_advise(e->f, "Update this program to at least that version.");
    } else if (s->closing) {
        pawl_find(e->f, check, PAWL_VERDICT_ACT,
                  "The store has schema %lld; this program needs %lld, which older programs cannot use.", stored, known);
        pawl_advise(e->f, "Stop the older programs, then run: pawl migrate up");
    } else if (s->pending > 0) {
        pawl_find(e->f, check, PAWL_VERDICT_WARN, "The store has schema %lld; this program has %lld.", stored, known);
        pawl_advise(e->f, "The next program that opens the store to write brings it there, and so does: pawl migrate up");
    } else if (s->stored > s->known) {
        pawl_find(e->f, check, PAWL_VERDICT_OK,
                  "Schema %lld, newer than the %lld of this program, which can use it all the same.", stored, known);
    } else {
        pawl_find(e->f, check, PAWL_VERDICT_OK, "Schema %lld, the one this program has.", stored);
    }
}

/* ---- nodes ----------------------------------------------------------------------------------------------------------------- */

static bool is_stale(const exam *e, const pawl_node_info *n)
{
    return n->leases > 0 && (!n->alive || (n->expires_us && n->expires_us <= e->now_us));
}

static int64_t living(const exam *e)
{
    int64_t count = 0;
    for (size_t i = 0; i < e->nodes->count; i++)
        if (e->nodes->nodes[i].alive && e->nodes->nodes[i].queues[0] && !is_stale(e, &e->nodes->nodes[i])) count++;
    return count;
}

static void find_stale_leases(exam *e)
{
    static const char check[] = "stale_leases";
    bool found = false, others = living(e) > 0;
    for (size_t i = 0; i < e->nodes->count; i++) {
        const pawl_node_info *n = &e->nodes->nodes[i];
        if (!is_stale(e, n)) continue;
        found = true;
        pawl_find(e->f, check, others ? PAWL_VERDICT_WARN : PAWL_VERDICT_ACT,
                  "Node %lld (%s, process %lld) %s and holds %lld task%s.", (long long)n->id, n->name, (long long)n->pid,
                  n->alive ? "stands still" : "is gone", (long long)n->leases, plural(n->leases));
        if (others) pawl_advise(e->f, "The living nodes take them over, each when its lease is over.");
        else pawl_advise(e->f, "Start a node: there is none that could take them over.");
    }
    if (!found)
        pawl_find(e->f, check, PAWL_VERDICT_OK, "No node holds tasks beyond its lease; %lld node%s alive.", (long long)living(e),
                  living(e) == 1 ? " is" : "s are");
}

/* ---- queues ---------------------------------------------------------------------------------------------------------------- */

static bool unserved(const pawl_queue_info *q) { return !q->paused && !q->served && q->due > 0; }
static bool unserved_later(const pawl_queue_info *q) { return !q->paused && !q->served && q->due == 0 && q->pending > 0; }
static bool paused(const pawl_queue_info *q) { return q->paused && q->pending > 0; }

typedef struct picked {
    char names[NAMES_MAX];
    int64_t queues, tasks, oldest_us;
} picked;

/* The queues for which `is` holds: their names, quoted, as many as there is room for. */
static picked pick(const exam *e, bool (*is)(const pawl_queue_info *q))
{
    picked p = {0};
    for (size_t i = 0; i < e->stats->queues_count; i++) {
        const pawl_queue_info *q = &e->stats->queues[i];
        size_t len = strlen(p.names);
        if (!is(q)) continue;
        p.tasks += q->due ? q->due : q->pending;
        if (q->oldest_due_us && (!p.oldest_us || q->oldest_due_us < p.oldest_us)) p.oldest_us = q->oldest_due_us;
        if (len + strlen(q->name) + 8 < sizeof p.names)
            snprintf(p.names + len, sizeof p.names - len, "%s\"%s\"", p.queues ? ", " : "", q->name);
        else if (len + 5 < sizeof p.names) strcpy(p.names + len, ", ...");
        p.queues++;
    }
    return p;
}

static void find_unserved(exam *e)
{
    static const char check[] = "unserved_queues";
    picked now = pick(e, unserved), later = pick(e, unserved_later);
    char age[DURATION_TEXT];
    if (now.queues) {
        duration_format(e->now_us > now.oldest_us ? e->now_us - now.oldest_us : 0, age, sizeof age);
        pawl_find(e->f, check, PAWL_VERDICT_ACT, "No living node serves queue%s %s: %lld task%s %s due, for up to %s.",
                  plural(now.queues), now.names, (long long)now.tasks, plural(now.tasks), now.tasks == 1 ? "is" : "are", age);
        pawl_advise(e->f, "Start a program that serves %s, for example: pawl work --queue NAME -- COMMAND",
                    now.queues == 1 ? "it" : "them");
    }
    if (later.queues) {
        pawl_find(e->f, check, PAWL_VERDICT_WARN, "No living node serves queue%s %s; %lld task%s will fall due there.",
                  plural(later.queues), later.names, (long long)later.tasks, plural(later.tasks));
        pawl_advise(e->f, "Start a program that serves %s before then.", later.queues == 1 ? "it" : "them");
    }
    if (!now.queues && !later.queues) pawl_find(e->f, check, PAWL_VERDICT_OK, "Every queue with tasks is served.");
}

static void find_paused(exam *e)
{
    picked p = pick(e, paused);
    if (!p.queues) {
        pawl_find(e->f, "paused_queues", PAWL_VERDICT_OK, "No tasks wait in a paused queue.");
        return;
    }
    pawl_find(e->f, "paused_queues", PAWL_VERDICT_WARN, "Queue%s %s %s paused; %lld task%s wait%s.", plural(p.queues), p.names,
              p.queues == 1 ? "is" : "are", (long long)p.tasks, plural(p.tasks), p.tasks == 1 ? "s" : "");
    pawl_advise(e->f, "If that is not meant any more: pawl queues resume NAME");
}

/* ---- tasks ----------------------------------------------------------------------------------------------------------------- */

static bool is_long(const exam *e, const pawl_info *t)
{
    return t->started_us && t->timeout_us <= 0 && t->progress < 0 && e->now_us - t->started_us > LONG_RUN_US;
}

/* Running tasks are few; all are looked at, a page at a time. */
static pawl_status find_long_runs(exam *e, pawl_error *err)
{
    pawl_filter filter = {.state = "running", .oldest_first = true, .limit = TASKS_AT_ONCE};
    int64_t count = 0;
    pawl_id longest = 0;
    int64_t since_us = INT64_MAX;
    do {
        pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter, .deadline_us = PAWL_SECOND};
        pawl_status status = store_read(e->store, &query, e->arena, err);
        if (status) return status;
        for (size_t i = 0; i < query.page->count; i++) {
            const pawl_info *t = query.page->tasks[i];
            if (!is_long(e, t)) continue;
            count++;
            if (t->started_us < since_us) longest = t->id, since_us = t->started_us;
        }
        filter.cursor = query.page->next;
    } while (filter.cursor);
    if (!count) {
        pawl_find(e->f, "long_runs", PAWL_VERDICT_OK, "No task has run for more than 15 minutes without a timeout or progress.");
        return PAWL_OK;
    }
    char id[PAWL_ID_TEXT], age[DURATION_TEXT];
    pawl_id_format(longest, id);
    duration_format(e->now_us - since_us, age, sizeof age);
    pawl_find(e->f, "long_runs", PAWL_VERDICT_WARN,
              "%lld task%s %s run for more than 15 minutes without a timeout or progress; %s for %s.", (long long)count,
              plural(count), count == 1 ? "has" : "have", id, age);
    pawl_advise(
        e->f,
        "See what it does: pawl tasks show %s. A timeout, or a report of progress now and then, tells a long run from a hung one.",
        id);
    return PAWL_OK;
}

static void find_dead_letters(exam *e)
{
    static const char check[] = "dead_letters",
                      look[] = "Look at them: pawl dead list. Then run them again, or acknowledge them.";
    const pawl_stats *s = e->stats;
    long long dead = s->dead, fresh = s->failed, fine = s->succeeded;
    if (dead > 0 && fresh > 10 && fresh > fine) {
        pawl_find(e->f, check, PAWL_VERDICT_ACT,
                  "More tasks fail than succeed: %lld to %lld in the last hour; %lld dead letter%s in all.", fresh, fine, dead,
                  plural(dead));
        pawl_advise(e->f, "%s", look);
    } else if (dead > 0 && fresh > 0) {
        pawl_find(e->f, check, PAWL_VERDICT_WARN, "%lld dead letter%s, and growing: %lld task%s failed in the last hour.", dead,
                  plural(dead), fresh, plural(fresh));
        pawl_advise(e->f, "%s", look);
    } else if (dead > 0) {
        pawl_find(e->f, check, PAWL_VERDICT_WARN, "%lld dead letter%s, none of the last hour.", dead, plural(dead));
        pawl_advise(e->f, "%s", look);
    } else {
        pawl_find(e->f, check, PAWL_VERDICT_OK, "No dead letters.");
    }
}

/* ---- clock ----------------------------------------------------------------------------------------------------------------- */

/* The latest instant that somebody stored as their now. */
static pawl_status latest_past(exam *e, int64_t *out_us, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &(pawl_filter){.limit = 1}, .deadline_us = PAWL_SECOND};
    pawl_status status = store_read(e->store, &query, e->arena, err);
    if (status) return status;
    *out_us = query.page->count ? query.page->tasks[0]->created_us : 0;
    for (size_t i = 0; i < e->nodes->count; i++)
        if (e->nodes->nodes[i].born_us > *out_us) *out_us = e->nodes->nodes[i].born_us;
    return PAWL_OK;
}

static pawl_status find_clock(exam *e, pawl_error *err)
{
    int64_t latest_us = 0;
    pawl_status status = latest_past(e, &latest_us, err);
    if (status) return status;
    char now[RFC3339_TEXT], ahead[DURATION_TEXT];
    rfc3339_format(e->now_us, now);
    int64_t skew_us = latest_us - e->now_us;
    if (e->now_us < PAWL_EPOCH_MS * PAWL_MILLISECOND) {
        pawl_find(e->f, "clock", PAWL_VERDICT_ACT, "This machine's clock says %.19sZ, which cannot be.", now);
        pawl_advise(e->f, "Set the clock, and let something like chrony keep it right.");
    } else if (skew_us > SKEW_WARN_US) {
        duration_format(skew_us, ahead, sizeof ahead);
        pawl_find(e->f, "clock", skew_us > SKEW_ACT_US ? PAWL_VERDICT_ACT : PAWL_VERDICT_WARN,
                  "This machine's clock says %.19sZ, but the store has something that was written %s later.", now, ahead);
        pawl_advise(e->f, "One of the two was wrong: set the clock. Tasks fall due by it.");
    } else {
        pawl_find(e->f, "clock", PAWL_VERDICT_OK, "The clock says %.19sZ and agrees with what is stored.", now);
    }
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------- */

static void find_gate(exam *e, const pawl_gate *g)
{
    static const char check[] = "gate";
    const char *peer = g->peer ? g->peer : "another store";
    char since[RFC3339_TEXT];
    rfc3339_format(g->at_us, since);
    bool over = g->position && strcmp(g->position, GATE_COMPLETE) == 0;
    if (g->mode == PAWL_GATE_OPEN) {
        pawl_find(e->f, check, PAWL_VERDICT_OK, "The store takes tasks.");
    } else if (g->mode == PAWL_GATE_CLOSED && over) {
        pawl_find(e->f, check, PAWL_VERDICT_WARN, "The store is closed: its tasks have moved to \"%s\", on %.19sZ.", peer, since);
        pawl_advise(e->f, "Point programs at that store. This one can be removed when nobody asks it any more.");
    } else {
        pawl_find(e->f, check, g->mode == PAWL_GATE_LEAVING ? PAWL_VERDICT_WARN : PAWL_VERDICT_ACT,
                  g->mode == PAWL_GATE_ARRIVING ? "A move from \"%s\" is not complete, since %.19sZ: nothing runs here before."
                  : g->mode == PAWL_GATE_CLOSED
                      ? "The store is closed: its tasks are moving to \"%s\", since %.19sZ."
                      : "The store is being moved to \"%s\", since %.19sZ: old tasks are not removed meanwhile.",
                  peer, since);
        pawl_advise(
            e->f,
            "If no `pawl move` is under way, start it again: it goes on from where it came to. Or give it up with --abort.");
    }
}

static pawl_status find_inside(exam *e, pawl_error *err)
{
    pawl_gate gate;
    pawl_query stats = {.kind = PAWL_QUERY_STATS, .window_us = PAWL_HOUR}, nodes = {.kind = PAWL_QUERY_NODES};
    pawl_status status = store_read(e->store, &nodes, e->arena, err);
    if (!status) status = store_read(e->store, &stats, e->arena, err);
    if (status) return status;
    e->stats = stats.stats;
    e->nodes = nodes.nodes;
    e->now_us = stats.stats->now_us;
    status = gate_look(e->store, e->arena, &gate, err);
    if (status) return status;
    find_gate(e, &gate);
    find_stale_leases(e);
    find_unserved(e);
    find_paused(e);
    status = find_long_runs(e, err);
    find_dead_letters(e);
    return status ? status : find_clock(e, err);
}

static void find_unusable(exam *e, const pawl_error *err)
{
    bool later = pawl_status_retryable(err->status);
    pawl_find(e->f, "store", PAWL_VERDICT_ACT, "The store cannot be used%s: %s.", later ? " at the moment" : "", err->message);
}

/* A store that this program cannot use is news, not a failure. */
static pawl_status examine(exam *e, pawl_error *err)
{
    pawl_schema schema;
    pawl_store_options options = *e->options;
    pawl_error why = {0};
    options.read_only = true;
    pawl_status status = store_check_url(options.url, err);
    if (status) return status;
    status = store_schema(&options, &schema, e->arena, &why);
    if (status == PAWL_NOT_FOUND || status == PAWL_INVALID || status == PAWL_NO_MEMORY) return err ? (*err = why).status : status;
    if (!status) find_schema(e, &schema);
    bool usable = !status && store_open(&options, &e->store, &why) == PAWL_OK;
    if (!usable && (status || why.status != PAWL_SCHEMA)) find_unusable(e, &why);
    store_examine(&options, e->store, e->f);
    if (usable && find_inside(e, &why)) find_unusable(e, &why);
    store_close(e->store);
    return findings_failed(e->f) ? upkeep_no_memory(err) : PAWL_OK;
}

pawl_status pawl_examine(const pawl_options *options, pawl_checkup **out, pawl_error *err)
{
    pawl_store_options store = upkeep_store(options);
    if (!out) return err_set(err, PAWL_INVALID, "out is NULL");
    exam e = {.options = &store, .arena = arena_new(store.allocator, 0)};
    if (e.arena) e.f = findings_new(e.arena);
    pawl_status status = e.f ? PAWL_OK : upkeep_no_memory(err);
    if (!status) status = examine(&e, err);
    if (!status) {
        pawl_checkup checkup = findings_checkup(e.f);
        pawl_checkup *given = upkeep_give(e.arena, &checkup, sizeof checkup);
        if (given) *out = given;
        else status = upkeep_no_memory(err);
    }
    if (status && e.arena) arena_free(e.arena);
    return status;
}

void pawl_checkup_free(pawl_checkup *checkup) { upkeep_take_back(checkup); }
