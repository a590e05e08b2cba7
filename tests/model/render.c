/* Answers as text. Tasks are #0, #1, ..., nodes n0, n1, ...; instants are given relative to the start of time here. What
 * the contract leaves open is left out: the order of leases, details and names in audit rows, numbers of rows swept.
 */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_US INT64_C(1800000000000000)

void say(world *w, int side, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    buf_str(&w->text[side], line);
}

static const char *text_of(const char *text) { return text ? text : "-"; }

const char *task_name(const world *w, int side, pawl_id id)
{
    static char names[8][32];
    static int next;
    char *name = names[next++ % 8];
    if (!id) return "none";
    for (int i = w->tasks_count - 1; i >= 0; i--) {
        if (w->tasks[i].id[side] != id) continue;
        snprintf(name, 32, "#%d", i);
        return name;
    }
    snprintf(name, 32, "unknown %lld", (long long)id);
    return name;
}

const char *node_name_of(const world *w, int side, int64_t node)
{
    static char names[8][32];
    static int next;
    char *name = names[next++ % 8];
    if (!node) return "none";
    for (int i = 0; i < w->nodes_count; i++) {
        if (w->nodes[i].id[side] != node) continue;
        snprintf(name, 32, "n%d", i);
        return name;
    }
    snprintf(name, 32, "unknown node %lld", (long long)node);
    return name;
}

void render_time(world *w, int side, const char *what, int64_t at_us)
{
    if (at_us) say(w, side, " %s %lld\n", what, (long long)(at_us - START_US));
    else say(w, side, " %s never\n", what);
}

static const char *result_name(pawl_op_result result)
{
    static const char *const names[] = {"none",       "done",      "existing", "updated",   "replaced", "asked",  "stale",
                                        "cancelling", "not found", "conflict", "collision", "full",     "refused"};
    return (size_t)result < sizeof names / sizeof *names ? names[result] : "?";
}

static void render_insert(world *w, int side, const pawl_op *op)
{
    bool stored = op->result == PAWL_OP_DONE || op->result == PAWL_OP_REPLACED || op->result == PAWL_OP_UPDATED;
    if (stored || op->result == PAWL_OP_EXISTING) say(w, side, " %s", task_name(w, side, op->out_id));
    if (op->result == PAWL_OP_EXISTING) say(w, side, " %s", pawl_state_name(op->out_state));
    if (stored) say(w, side, " fence %lld run at %lld", (long long)op->out_fence, (long long)(op->out_run_at_us - START_US));
}

void render_op(world *w, int side, const pawl_op *op)
{
    static const char *const kinds[] = {"?",        "insert", "start", "finish", "release",
                                        "progress", "cancel", "retry", "ack",    "queue"};
    say(w, side, "  %s: %s", kinds[op->kind], result_name(op->result));
    if (op->kind == PAWL_OP_INSERT) render_insert(w, side, op);
    if (op->kind == PAWL_OP_RETRY && (op->result == PAWL_OP_DONE || op->result == PAWL_OP_EXISTING))
        say(w, side, " %s", task_name(w, side, op->out_id));
    if (op->kind == PAWL_OP_RELEASE && op->result == PAWL_OP_DONE)
        say(w, side, " %s run at %lld", pawl_state_name(op->out_state), (long long)(op->out_run_at_us - START_US));
    bool found = op->result == PAWL_OP_STALE || op->result == PAWL_OP_CONFLICT || op->kind == PAWL_OP_CANCEL;
    if (found) say(w, side, " found %s", pawl_state_name(op->out_state));
    if (op->result == PAWL_OP_STALE && pawl_state_terminal(op->out_state)) say(w, side, " fence %lld", (long long)op->out_fence);
    say(w, side, "\n");
    for (int i = 0; op->kind == PAWL_OP_FINISH && op->result == PAWL_OP_DONE && i < op->u.finish.spawns_count; i++)
        render_op(w, side, &op->u.finish.spawns[i]);
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Lines whose order is open, sorted. */
static void say_sorted(world *w, int side, char lines[][64], int count)
{
    char *pointers[PAWL_CANCELS_MAX];
    for (int i = 0; i < count; i++) pointers[i] = lines[i];
    if (count > 1) qsort(pointers, (size_t)count, sizeof *pointers, by_text);
    for (int i = 0; i < count; i++) say(w, side, "  %s\n", pointers[i]);
}

void render_news(world *w, int side, const pawl_news *news)
{
    char lines[PAWL_CANCELS_MAX][64];
    say(w, side, "news:%s foreign expiry %lld", news->node_dead ? " node dead" : "", (long long)news->foreign_expiry_us);
    render_time(w, side, "now", news->store_now_us);
    for (int i = 0; i < news->lapsed_count; i++)
        snprintf(lines[i], sizeof lines[i], "lapsed %s renewal %lld%s", node_name_of(w, side, news->lapsed[i].node),
                 (long long)news->lapsed[i].renewal, news->lapsed[i].proven_dead ? " dead" : "");
    say_sorted(w, side, lines, news->lapsed_count);
    for (int i = 0; i < news->cancels_count; i++)
        snprintf(lines[i], sizeof lines[i], "cancel %s fence %lld", task_name(w, side, news->cancels[i].id),
                 (long long)news->cancels[i].fence);
    say_sorted(w, side, lines, news->cancels_count);
}

void render_claimed(world *w, int side, const pawl_claimed *c)
{
    const pawl_body *b = c->body;
    say(w, side, "  %s fence %lld runs %d failures %d rescues %d interruptions %d want %d%s%s%s", task_name(w, side, b->id),
        (long long)c->fence, c->runs, c->failures, c->rescues, c->interruptions, c->want, c->not_started ? " not started" : "",
        c->suspect ? " suspect" : "", c->solo ? " solo" : "");
    say(w, side, " %s %s %s %s %d %.*s retry of %s", b->type, b->queue, b->tenant, text_of(b->key), b->priority,
        (int)b->payload.len, b->payload.data ? b->payload.data : "", task_name(w, side, b->retry_of));
    render_time(w, side, "run at", c->run_at_us);
    render_time(w, side, "created", b->created_us);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static bool ask(world *w, int side, pawl_query *query)
{
    pawl_status status = store_read(w->stores[side][0], query, w->scratch, &w->err);
    if (status) say(w, side, "read %d: %s\n", (int)query->kind, pawl_status_name(status));
    return status == PAWL_OK;
}

static void render_info(world *w, int side, const pawl_info *i)
{
    say(w, side, "%s %s (%s) %s %s %s %s prio %d fence %lld node %s", task_name(w, side, i->id), pawl_state_name(i->state),
        i->display, i->type, i->queue, text_of(i->tenant), text_of(i->key), i->priority, (long long)i->fence,
        node_name_of(w, side, i->node));
    say(w, side, " attempt %d failures %d rescues %d interruptions %d%s progress %d %s", i->attempt, i->failures, i->rescues,
        i->interruptions, i->cancel_asked ? " cancel asked" : "", i->progress, text_of(i->progress_text));
    say(w, side, " code %s error %s reason %s result %s %s", text_of(i->code), text_of(i->error), text_of(i->reason),
        text_of(i->result_type), text_of(i->result_ref));
    say(w, side, " retry of %s retried as %s by %s note %s audit %d\n", task_name(w, side, i->retry_of),
        task_name(w, side, i->retried_as), text_of(i->resolved_by), text_of(i->note), (int)i->audit);
    render_time(w, side, "created", i->created_us);
    render_time(w, side, "run at", i->run_at_us);
    render_time(w, side, "started", i->started_us);
    render_time(w, side, "finished", i->finished_us);
    render_time(w, side, "resolved", i->resolved_us);
}

static void render_attempts(world *w, int side, const pawl_info *i)
{
    say(w, side, " payload %.*s result %.*s\n", (int)i->payload.len, i->payload.data ? i->payload.data : "", (int)i->result.len,
        i->result.data ? i->result.data : "");
    for (int k = 0; k < i->attempts_count; k++) {
        const pawl_attempt *a = &i->attempts[k];
        say(w, side, "  attempt %d %s fence %lld node %s code %s error %s lines %d\n", a->number, a->outcome, (long long)a->fence,
            node_name_of(w, side, a->node), text_of(a->code), text_of(a->error), a->log_lines);
        render_time(w, side, "started", a->started_us);
        render_time(w, side, "finished", a->finished_us);
    }
}

static void render_trail(world *w, int side, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_TRAIL, .id = id};
    if (!ask(w, side, &query)) return;
    for (size_t i = 0; i < query.trail->lines_count; i++) {
        const pawl_log_line *l = &query.trail->lines[i];
        say(w, side, "  log %d %lld %d %s\n", l->attempt, (long long)l->at_us, (int)l->level, l->text);
    }
    for (size_t i = 0; i < query.trail->audit_count; i++) {
        const pawl_audit_row *r = &query.trail->audit[i];
        say(w, side, "  audit %s -> %s fence %lld", r->from, r->to, (long long)r->fence);
        render_time(w, side, "at", r->at_us);
    }
}

static void render_task(world *w, int side, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = id}, state = {.kind = PAWL_QUERY_STATE, .id = id};
    if (!ask(w, side, &query) || !ask(w, side, &state)) return;
    render_info(w, side, query.info);
    render_attempts(w, side, query.info);
    say(w, side, "  state %s fence %lld\n", pawl_state_name(state.state), (long long)state.fence);
    render_trail(w, side, id);
}

void render_page(world *w, int side, const pawl_filter *filter)
{
    pawl_filter f = *filter;
    for (int page = 0; page < 500; page++) {
        pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &f};
        if (!ask(w, side, &query)) return;
        say(w, side, "page of %zu%s%s\n", query.page->count, query.page->next ? ", more" : "",
            query.page->partial ? ", partial" : "");
        for (size_t i = 0; i < query.page->count; i++) render_info(w, side, query.page->tasks[i]);
        if (!query.page->next) return;
        f.cursor = query.page->next;
    }
}

static void render_stats(world *w, int side)
{
    pawl_query query = {.kind = PAWL_QUERY_STATS, .window_us = PAWL_HOUR};
    if (!ask(w, side, &query)) return;
    const pawl_stats *s = query.stats;
    say(w, side, "stats: waiting %lld pending %lld leased %lld dead %lld", (long long)s->waiting, (long long)s->pending,
        (long long)s->leased, (long long)s->dead);
    say(w, side, " dispatched %lld succeeded %lld failed %lld cancelled %lld retried %lld rescued %lld\n",
        (long long)s->dispatched, (long long)s->succeeded, (long long)s->failed, (long long)s->cancelled, (long long)s->retried,
        (long long)s->rescued);
    for (int name = 0; name < 3; name++) {
        for (size_t i = 0; i < s->queues_count; i++) {
            const pawl_queue_info *q = &s->queues[i];
            if (strcmp(q->name, queue_names[name]) != 0) continue;
            if (!q->paused && !q->waiting && !q->pending && !q->leased && !q->failed) continue;
            say(w, side, " queue %s%s%s waiting %lld pending %lld leased %lld failed %lld due %lld", q->name,
                q->paused ? " paused" : "", q->served ? " served" : "", (long long)q->waiting, (long long)q->pending,
                (long long)q->leased, (long long)q->failed, (long long)q->due);
            render_time(w, side, "oldest", q->oldest_due_us);
        }
    }
}

static void render_nodes(world *w, int side)
{
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    if (!ask(w, side, &query)) return;
    for (int node = 0; node < w->nodes_count; node++) {
        for (size_t i = 0; i < query.nodes->count; i++) {
            const pawl_node_info *n = &query.nodes->nodes[i];
            if (n->id != w->nodes[node].id[side]) continue;
            say(w, side, "n%d%s leases %lld queues %s", node, n->alive ? " alive" : "", (long long)n->leases, n->queues);
            render_time(w, side, "born", n->born_us);
            if (n->alive) render_time(w, side, "expires", n->expires_us);
        }
    }
}

static void render_relatives(world *w, int side, pawl_id of, pawl_relation relation)
{
    pawl_relatives_query f = {.of = of, .relation = relation, .limit = 50};
    pawl_query query = {.kind = PAWL_QUERY_RELATIVES, .relatives = &f};
    if (!ask(w, side, &query) || f.count == 0) return;
    say(w, side, "relatives %d of %s:", (int)relation, task_name(w, side, of));
    for (int i = 0; i < f.count; i++) {
        const pawl_relative *r = &f.relatives[i];
        say(w, side, " %s%s %s%s%s %.*s", r->batch ? "batch " : "", task_name(w, side, r->id), pawl_state_name(r->state),
            r->waits ? " waits" : "", r->held ? " held" : "", (int)r->result.len, r->result.len ? r->result.data : "");
    }
    say(w, side, "\n");
}

static void render_families(world *w, int side)
{
    pawl_batch_filter f = {.limit = 100};
    pawl_query query = {.kind = PAWL_QUERY_BATCHES, .batch_filter = &f};
    if (!w->stores[SUBJECT][0]->type->families || !ask(w, side, &query)) return;
    for (int i = 0; i < query.batches_count; i++) {
        const pawl_batch_info *b = &query.batches[i];
        say(w, side, "batch %s %s %s within %s%s: %lld %lld %lld %lld", b->name, task_name(w, side, b->id),
            pawl_state_name(b->state), task_name(w, side, b->within), b->cancel_asked ? " cancel asked" : "",
            (long long)b->unfinished, (long long)b->succeeded, (long long)b->failed, (long long)b->cancelled);
        render_time(w, side, "ended", b->ended_us);
    }
    for (int i = 0; i < w->tasks_count; i++)
        for (int relation = PAWL_PARENTS; relation <= PAWL_BATCH_OF && w->tasks[i].id[side]; relation++)
            render_relatives(w, side, w->tasks[i].id[side], (pawl_relation)relation);
}

void render_everything(world *w, int side)
{
    for (int i = 0; i < w->tasks_count; i++)
        if (w->tasks[i].id[side] && !w->tasks[i].batch) render_task(w, side, w->tasks[i].id[side]);
    render_families(w, side);
    render_page(w, side, &(pawl_filter){.limit = 7});
    render_stats(w, side);
    render_nodes(w, side);
}
