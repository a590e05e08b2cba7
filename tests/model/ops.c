/* Steps that are operations: consecutive ones of a slot may share a batch. Of a batch there is at most one operation per
 * task and per key; a step that would break that rule is left out.
 */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct building {
    world *w;
    int slot;
    sent *batches[SIDES];
    bool keys[2][4]; /* tenant, key: used */
    int tasks[8 * BATCH_MAX];
    int tasks_count;
    int named[8 * BATCH_MAX]; /* batches that others of it join or wait for: whether before or after they close nobody can tell */
    int named_count;
} building;

/* ---- one per task and per key ------------------------------------------------------------------------------------ */

static bool use_key(building *b, int key, int tenant)
{
    if (key < 0) return true;
    if (b->keys[tenant][key]) return false;
    b->keys[tenant][key] = true;
    return true;
}

static bool use_task(building *b, int task)
{
    for (int i = 0; i < b->tasks_count; i++)
        if (b->tasks[i] == task) return false;
    if (!use_key(b, b->w->tasks[task].key, b->w->tasks[task].tenant)) return false;
    b->tasks[b->tasks_count++] = task;
    return true;
}

/* A new task; nothing else of this batch is about it. */
static int born(building *b, int key, int tenant, pawl_id id)
{
    int task = new_task(b->w, key, tenant, id);
    if (b->tasks_count == (int)(sizeof b->tasks / sizeof *b->tasks)) abort();
    b->tasks[b->tasks_count++] = task;
    return task;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static const pawl_audit levels[] = {PAWL_AUDIT_FULL, PAWL_AUDIT_FULL, PAWL_AUDIT_MINIMAL, PAWL_AUDIT_ERRORS, PAWL_AUDIT_NONE};

typedef struct insert_plan {
    int task, key, tenant, type, queue, priority, group;
    int64_t delay_us, at_us, depth_limit;
    bool ask, draw, may_exist;
    pawl_audit audit;
    char payload[24];
} insert_plan;

static insert_plan plan_insert(const world *w, const uint32_t r[NUMBERS])
{
    static const int64_t delays_us[] = {0, 0, 0, 0, 1, PAWL_SECOND, LEASE_US, PAWL_HOUR};
    insert_plan p = {
        .key = r[2] % 8 < 4 ? (int)(r[2] % 8) : -1, .tenant = r[2] % 5 == 0, .type = (int)(r[0] % 3), .queue = (int)(r[1] % 3)};
    p.priority = (int)(r[0] / 3 % 3) - 1;
    p.delay_us = delays_us[r[3] % 8];
    if (r[3] % 11 == 0) p.at_us = w->clock.now_us + (int64_t)(r[3] % 5) * PAWL_SECOND - 2 * PAWL_SECOND;
    p.ask = r[4] % 2;
    p.draw = r[4] % 7 == 0;
    p.audit = levels[r[4] / 7 % 5];
    p.depth_limit = r[5] % 6 == 0 ? 1 + r[5] % 7 : 0;
    p.group = r[5] % 4 == 0 ? 1 : 0;
    snprintf(p.payload, sizeof p.payload, "%u.%u", r[0], r[5]);
    return p;
}

static pawl_op make_insert(world *w, const insert_plan *p, int side)
{
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = p->draw ? 0 : w->tasks[p->task].id[side], .audit = p->audit};
    pawl_body *body = hold(w, sizeof *body);
    char *payload = hold(w, sizeof p->payload);
    memcpy(payload, p->payload, sizeof p->payload);
    *body = (pawl_body){.id = op.id,
                        .type = type_names[p->type],
                        .queue = queue_names[p->queue],
                        .tenant = tenant_names[p->tenant],
                        .key = p->key < 0 ? NULL : key_names[p->key],
                        .content_type = "application/json",
                        .priority = p->priority,
                        .payload = {payload, strlen(payload)}};
    op.u.insert.body = body;
    op.u.insert.delay_us = p->delay_us;
    op.u.insert.at_us = p->at_us;
    op.u.insert.ask_lease = p->ask;
    op.u.insert.may_exist = p->may_exist;
    op.u.insert.depth_limit = p->depth_limit;
    op.u.insert.group = p->group;
    return op;
}

static void add(building *b, int side, pawl_op op, int task)
{
    sent *batch = b->batches[side];
    batch->ops[batch->count] = op;
    batch->tasks[batch->count] = task;
    batch->count++;
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

static bool families(const world *w) { return w->stores[SUBJECT][0]->type->families && w->stores[REFERENCE][0]->type->families; }

/* What the batch that is being built does first about this task: only by that may others of the same batch name it. */
static const pawl_op *op_of(const building *b, int side, int task)
{
    const sent *batch = b->batches[side];
    for (int i = 0; i < batch->count; i++)
        if (batch->tasks[i] == task) return &batch->ops[i];
    return NULL;
}

static bool makes(const pawl_op *op)
{
    return op->kind == PAWL_OP_INSERT || (op->kind == PAWL_OP_BATCH && op->u.batch->act == PAWL_BATCH_OPEN);
}

/* One of the last tasks or batches, if there is one. */
static pawl_kin some_kin(building *b, uint32_t r, int side, bool batch)
{
    const world *w = b->w;
    for (int i = w->tasks_count - 1 - (int)(r % 12); i >= 0; i--) {
        if (w->tasks[i].batch != batch || !w->tasks[i].id[REFERENCE]) continue;
        const pawl_op *op = op_of(b, side, i);
        if (op && makes(op)) return (pawl_kin){.op = op};
        if (op) continue;
        if (batch && b->named_count < (int)(sizeof b->named / sizeof *b->named)) b->named[b->named_count++] = i;
        return (pawl_kin){.id = w->tasks[i].id[side]};
    }
    return (pawl_kin){0};
}

static void give_family(building *b, const uint32_t r[NUMBERS], int side, pawl_op *op)
{
    world *w = b->w;
    bool child = r[5] % 3 == 1, member = r[5] % 5 == 1;
    if (!families(w) || (!child && !member)) return;
    pawl_family *f = hold(w, sizeof *f);
    pawl_kin *kin = hold(w, 2 * sizeof *kin);
    f->parents = kin;
    f->if_failed = (pawl_if_failed)(r[4] % 3);
    if (member) f->batch = some_kin(b, r[3], side, true);
    for (int i = 0; child && i < 2; i++) {
        pawl_kin k = some_kin(b, r[3] / (i ? 7 : 1), side, r[2] % 6 == (uint32_t)i);
        bool twice = f->parents_count > 0 && kin[0].id == k.id && kin[0].op == k.op;
        if ((k.op || (k.id && k.id != op->id)) && !twice) kin[f->parents_count++] = k;
    }
    if (f->parents_count || f->batch.id || f->batch.op) op->u.insert.family = f;
}

static bool is_named(const building *b, int task)
{
    for (int i = 0; i < b->named_count; i++)
        if (b->named[i] == task) return true;
    return false;
}

static void add_batch(building *b, const step *s)
{
    world *w = b->w;
    int act = s->r[0] % 4 < 2 ? PAWL_BATCH_OPEN : s->r[0] % 4 == 2 ? PAWL_BATCH_CLOSE : PAWL_BATCH_CANCEL, task = -1;
    if (!families(w)) return;
    for (int i = w->tasks_count - 1; act != PAWL_BATCH_OPEN && i >= 0 && task < 0; i--)
        if (w->tasks[i].batch && w->tasks[i].id[REFERENCE] && (s->r[1] + (uint32_t)i) % 3) task = i;
    if (act != PAWL_BATCH_OPEN && (task < 0 || is_named(b, task) || !use_task(b, task))) return;
    if (act == PAWL_BATCH_OPEN) {
        task = born(b, -1, 0, s->r[2] % 7 ? ++w->next_id : 0);
        w->tasks[task].batch = true;
    }
    char *name = hold(w, 16);
    snprintf(name, 16, "b%u", s->r[3] % 50);
    for (int side = 0; side < SIDES; side++) {
        pawl_batch_put *put = hold(w, sizeof *put);
        *put = (pawl_batch_put){.act = (pawl_batch_act)act, .name = act == PAWL_BATCH_OPEN ? name : NULL};
        if (act == PAWL_BATCH_OPEN && s->r[4] % 3 == 0) put->within = some_kin(b, 1 + s->r[5], side, true).id;
        pawl_op op = {.kind = PAWL_OP_BATCH, .id = w->tasks[task].id[side], .audit = PAWL_AUDIT_FULL, .by = "ann"};
        op.u.batch = put;
        add(b, side, op, task);
    }
}

static void add_settle(building *b, const step *s)
{
    if (!families(b->w)) return;
    for (int side = 0; side < SIDES; side++) {
        pawl_op op = {.kind = PAWL_OP_SETTLE, .audit = PAWL_AUDIT_FULL};
        op.u.settle.limit = 1 + (int)(s->r[0] % 20);
        add(b, side, op, -1);
    }
}

static void add_insert(building *b, const step *s)
{
    world *w = b->w;
    insert_plan p = plan_insert(w, s->r);
    bool again = s->r[1] % 17 == 0 && w->tasks_count > 0;
    if (again) {
        p.task = (int)(s->r[3] % (uint32_t)w->tasks_count);
        p.draw = false;
        p.may_exist = s->r[4] % 4 != 0;
        p.depth_limit = 0;
        p.group = 0;
        if (!w->tasks[p.task].id[REFERENCE] || w->tasks[p.task].batch || !use_task(b, p.task)) return;
        if (w->tasks[p.task].key != p.key || w->tasks[p.task].tenant != p.tenant) p.key = -1;
    } else {
        if (!use_key(b, p.key, p.tenant)) return;
        p.task = born(b, p.key, p.tenant, p.draw ? 0 : ++w->next_id);
    }
    for (int side = 0; side < SIDES; side++) {
        pawl_op op = make_insert(w, &p, side);
        give_family(b, s->r, side, &op);
        add(b, side, op, p.task);
    }
}

/* One of the last leases, sometimes with a fence that is not its own. */
static const model_lease *some_lease(building *b, const step *s, int64_t *off)
{
    const world *w = b->w;
    if (w->leases_count == 0) return NULL;
    uint32_t back = s->r[0] % 12;
    if (back >= (uint32_t)w->leases_count) back = (uint32_t)w->leases_count - 1;
    const model_lease *l = &w->leases[w->leases_count - 1 - (int)back];
    *off = s->r[1] % 16 == 0 ? 1 : s->r[1] % 16 == 1 ? -1 : 0;
    return use_task(b, l->task) ? l : NULL;
}

static pawl_execution execution(const world *w, const step *s, pawl_attempt_outcome outcome)
{
    pawl_execution run = {.outcome = outcome, .number = 1, .progress = s->r[4] % 5 == 0 ? 50 : -1};
    if (!outcome) return (pawl_execution){.progress = -1};
    run.started_us = w->clock.now_us - 2000;
    run.finished_us = w->clock.now_us - 1000;
    if (s->r[4] % 3 == 0) run.error = "it broke", run.code = "code";
    if (s->r[4] % 4 == 0) run.log = pawl_str("1000 2 hello\n2000 4 a b\n"), run.log_lines = 2;
    if (run.progress >= 0) run.progress_text = "half";
    return run;
}

static pawl_op make_finish(world *w, const step *s, pawl_op op)
{
    static const pawl_attempt_outcome outcomes[] = {PAWL_ATTEMPT_SUCCEEDED, PAWL_ATTEMPT_FAILED, PAWL_ATTEMPT_CANCELLED};
    static const pawl_state ends[] = {PAWL_SUCCEEDED, PAWL_FAILED, PAWL_CANCELLED};
    uint32_t how = s->r[2] % 4 == 3 ? 0 : s->r[2] % 4;
    op.u.finish.to = ends[how];
    op.u.finish.run = execution(w, s, how == 2 && s->r[3] % 2 ? PAWL_ATTEMPT_NONE : outcomes[how]);
    if (how == 0 && s->r[3] % 3 == 0) op.u.finish.result = pawl_str("result"), op.u.finish.result_type = "text/plain";
    if (how == 1) op.u.finish.reason = "attempts_exhausted";
    return op;
}

static void add_spawns(building *b, const step *s)
{
    world *w = b->w;
    sent *first = b->batches[REFERENCE];
    int at = first->count - 1;
    if (s->r[5] % 4 != 0 || first->ops[at].u.finish.to != PAWL_SUCCEEDED) return;
    for (int i = 0; i < 2; i++) {
        uint32_t r[NUMBERS] = {s->r[0] + (uint32_t)i, s->r[1] * 7 + (uint32_t)i, s->r[2] * 3 + (uint32_t)i, s->r[3], s->r[4], 1};
        insert_plan p = plan_insert(w, r);
        p.draw = false;
        if (!use_key(b, p.key, p.tenant)) continue;
        p.task = born(b, p.key, p.tenant, ++w->next_id);
        for (int side = 0; side < SIDES; side++) {
            sent *batch = b->batches[side];
            pawl_op *op = &batch->ops[at];
            int n = op->u.finish.spawns_count++;
            batch->spawns[at][n] = make_insert(w, &p, side);
            give_family(b, (const uint32_t[NUMBERS]){r[0], r[1], r[2], r[3], r[4], s->r[1] % 60 == 0 ? 1 : 0}, side,
                        &batch->spawns[at][n]);
            batch->spawned[at][n] = p.task;
            op->u.finish.spawns = batch->spawns[at];
        }
    }
}

static pawl_op make_release(world *w, const step *s, pawl_op op)
{
    static const pawl_attempt_outcome outcomes[] = {PAWL_ATTEMPT_NONE,    PAWL_ATTEMPT_RETRY,       PAWL_ATTEMPT_RETRY,
                                                    PAWL_ATTEMPT_SNOOZED, PAWL_ATTEMPT_INTERRUPTED, PAWL_ATTEMPT_TIMEOUT};
    static const int64_t delays_us[] = {-1, 0, 0, PAWL_SECOND, PAWL_HOUR};
    pawl_attempt_outcome outcome = outcomes[s->r[2] % 6];
    op.u.release.delay_us = delays_us[s->r[3] % 5];
    op.u.release.failure = outcome == PAWL_ATTEMPT_RETRY || outcome == PAWL_ATTEMPT_TIMEOUT;
    op.u.release.interruption = outcome == PAWL_ATTEMPT_INTERRUPTED;
    op.u.release.run = execution(w, s, outcome);
    return op;
}

static void add_holder(building *b, const step *s)
{
    int64_t off;
    const model_lease *l = some_lease(b, s, &off);
    if (!l) return;
    for (int side = 0; side < SIDES; side++) {
        pawl_op op = {.id = b->w->tasks[l->task].id[side], .fence = l->fence[side] + off, .audit = levels[s->r[5] % 5]};
        switch (s->kind) {
        case STEP_START: op.kind = PAWL_OP_START, op.u.start.mark = s->r[2] % 4 != 0; break;
        case STEP_FINISH: op.kind = PAWL_OP_FINISH, op = make_finish(b->w, s, op); break;
        case STEP_RELEASE: op.kind = PAWL_OP_RELEASE, op = make_release(b->w, s, op); break;
        default:
            op.kind = PAWL_OP_PROGRESS, op.u.progress.percent = (int)(s->r[2] % 101),
            op.u.progress.text = s->r[3] % 2 ? "text" : NULL;
        }
        add(b, side, op, l->task);
    }
    if (s->kind == STEP_FINISH) add_spawns(b, s);
}

static void add_asked(building *b, const step *s)
{
    world *w = b->w;
    if (w->tasks_count == 0) return;
    int task = w->tasks_count - 1 - (int)(s->r[0] % 20);
    if (task < 0) task = (int)(s->r[0] % (uint32_t)w->tasks_count);
    if (!use_task(b, task)) return;
    int made = s->kind == STEP_RETRY ? born(b, w->tasks[task].key, w->tasks[task].tenant, s->r[1] % 5 ? ++w->next_id : 0) : task;
    for (int side = 0; side < SIDES; side++) {
        pawl_op op = {
            .id = w->tasks[task].id[side], .by = s->r[2] % 2 || s->kind == STEP_ACK ? "ann" : NULL, .audit = levels[s->r[5] % 5]};
        switch (s->kind) {
        case STEP_CANCEL: op.kind = PAWL_OP_CANCEL; break;
        case STEP_RETRY: op.kind = PAWL_OP_RETRY, op.u.retry.new_id = w->tasks[made].id[side]; break;
        default: op.kind = PAWL_OP_ACK, op.u.ack.note = s->r[3] % 2 ? "note" : NULL;
        }
        add(b, side, op, made);
    }
}

static void add_queue(building *b, const step *s)
{
    for (int side = 0; side < SIDES; side++) {
        pawl_op op = {.kind = PAWL_OP_QUEUE, .by = "ann", .audit = PAWL_AUDIT_FULL};
        op.u.queue.queue = queue_names[s->r[0] % 3];
        op.u.queue.pause = s->r[1] % 3 == 0;
        add(b, side, op, -1);
    }
}

static void add_step(building *b, const step *s)
{
    if (s->kind == STEP_INSERT) add_insert(b, s);
    else if (s->kind == STEP_QUEUE) add_queue(b, s);
    else if (s->kind == STEP_BATCH) add_batch(b, s);
    else if (s->kind == STEP_SETTLE) add_settle(b, s);
    else if (s->kind == STEP_CANCEL || s->kind == STEP_RETRY || s->kind == STEP_ACK) add_asked(b, s);
    else add_holder(b, s);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static bool created(const pawl_op *op) { return op->result == PAWL_OP_DONE || op->result == PAWL_OP_REPLACED; }

static void learn(world *w, int side, const pawl_op *op, int task)
{
    bool makes = op->kind == PAWL_OP_INSERT || op->kind == PAWL_OP_RETRY ||
                 (op->kind == PAWL_OP_BATCH && op->u.batch->act == PAWL_BATCH_OPEN);
    if (makes && created(op)) w->tasks[task].id[side] = op->out_id;
}

static void send(world *w, int side, int slot)
{
    sent *batch = &w->last[side][slot];
    pawl_store *store = w->stores[side][slot < SLOTS ? slot : 0];
    for (int i = 0; i < batch->count; i++) batch->pointers[i] = &batch->ops[i];
    pawl_batch call = {.node = batch->node, .number = batch->number, .ops = batch->pointers, .count = batch->count};
    pawl_status status = store->type->apply(store, &call, w->scratch, &w->err);
    say(w, side, "apply: %s%s", pawl_status_name(status), call.node_dead ? ", node dead" : "");
    render_time(w, side, "at", call.store_now_us);
    for (int i = 0; i < batch->count; i++) {
        pawl_op *op = &batch->ops[i];
        learn(w, side, op, batch->tasks[i]);
        int spawns = op->kind == PAWL_OP_FINISH ? op->u.finish.spawns_count : 0;
        for (int k = 0; k < spawns; k++) learn(w, side, &op->u.finish.spawns[k], batch->spawned[i][k]);
        render_op(w, side, op);
    }
    batch->valid = status == PAWL_OK && batch->node;
}

static void learn_leases(world *w, building *b)
{
    for (int i = 0; i < b->batches[REFERENCE]->count; i++) {
        const pawl_op *x = &b->batches[REFERENCE]->ops[i], *y = &b->batches[SUBJECT]->ops[i];
        if (x->kind == PAWL_OP_INSERT && x->out_fence > 0)
            add_lease(w, b->batches[REFERENCE]->tasks[i], x->out_fence, y->out_fence);
    }
}

int run_ops(world *w, const script *s, int at)
{
    const step *first = &s->steps[at];
    building b = {.w = w, .slot = first->slot};
    bool shot = first->slot == SLOTS || w->node_of[first->slot] < 0;
    int slot = shot ? SLOTS : first->slot, count = 0;
    for (int side = 0; side < SIDES; side++) {
        b.batches[side] = &w->last[side][slot];
        memset(b.batches[side], 0, sizeof *b.batches[side]);
        b.batches[side]->node = node_id(w, side, slot);
        b.batches[side]->number = shot ? 0 : w->numbers[slot] + 1;
    }
    do add_step(&b, &s->steps[at + count]);
    while (s->steps[at + count++].more && count < BATCH_MAX && at + count < s->count && step_is_op(&s->steps[at + count]) &&
           s->steps[at + count].slot == first->slot);
    if (b.batches[REFERENCE]->count == 0) return count;
    for (int side = 0; side < SIDES; side++) send(w, side, slot);
    if (!shot) w->numbers[slot]++;
    learn_leases(w, &b);
    return count;
}

void resend(world *w, int slot)
{
    if (!w->last[REFERENCE][slot].valid || !w->last[SUBJECT][slot].valid) return;
    for (int side = 0; side < SIDES; side++) send(w, side, slot);
}
