/* Schedules: what changes them. Each change is computed from the row as it was read and stored under its version; whoever comes second
 * reads again. What they mean is core's (core/schedule.h). */
#include "base/rand.h"
#include "base/zone.h"
#include "core/schedule.h"
#include "runtime/runtime.h"
#include <stdio.h>

#define PACE_MOST 64  /* of so many that come together it is told that they are due too often for their rate keys */
#define TRIES 20      /* changes of the same schedule that meet */
#define CHAIN_MAX 100 /* schedules after each other */

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not take the call: out of memory"); }

static pawl_status met(const char *name, pawl_error *err)
{
    return err_set(err, PAWL_CONFLICT, "schedule '%s' was changed by others again and again: try again", name);
}

pawl_status schedules_kept(const runtime *rt, pawl_error *err)
{
    if (rt->store->type->schedules) return PAWL_OK;
    return err_set(err, PAWL_UNSUPPORTED, "the store %s cannot keep schedules yet: use another store", rt->url);
}

/* ---- checking ------------------------------------------------------------------------------------------------------------ */

static pawl_status valid_definition(runtime *rt, const pawl_schedule *s, pawl_error *err)
{
    pawl_task task = {.type = s->type,
                      .payload = s->payload,
                      .content_type = s->content_type,
                      .queue = s->queue,
                      .tenant = s->tenant,
                      .priority = s->priority,
                      .max_attempts = s->max_attempts,
                      .timeout_us = s->timeout_us,
                      .rate_key = s->rate_key,
                      .audit = s->audit};
    pawl_status status = valid_name(s->name, "name of the schedule", err);
    if (!status) status = valid_optional(s->after, "name of the schedule to run after", err);
    if (!status) status = valid_optional(s->by, "name of the person", err);
    if (!status) status = valid_task(rt, &task, NULL, err);
    if (!status && (s->every < 0 || (s->every != 0) != (s->unit != PAWL_UNIT_NONE) || s->unit < 0 || s->unit > PAWL_YEARS))
        status = err_set(err, PAWL_INVALID, "schedule '%s': every needs a number above 0 and a unit", s->name);
    return status;
}

static pawl_status compile(runtime *rt, const pawl_schedule *s, int64_t anchor_us, schedule_rule *rule, pawl_error *err)
{
    pawl_error why = {.status = PAWL_INVALID};
    const zone *z = zones_get(rt, s->zone, &why);
    if (z) return schedule_compile(s, z, anchor_us, rule, err);
    if (err) *err = why;
    return why.status ? why.status : PAWL_INVALID;
}

/* Only what says when. */
static void write_cadence(const pawl_schedule *s, buf *out)
{
    pawl_schedule when = {.cron = s->cron,
                          .every = s->every,
                          .unit = s->unit,
                          .plan = s->plan,
                          .start_now = s->start_now,
                          .start_in_us = s->start_in_us,
                          .start_us = s->start_us};
    schedule_write(&when, out);
}

static bool same_cadence(const pawl_schedule *a, const pawl_schedule *b, const pawl_allocator *allocator)
{
    buf x, y;
    buf_init(&x, allocator, SCHEDULE_SPEC_MAX);
    buf_init(&y, allocator, SCHEDULE_SPEC_MAX);
    write_cadence(a, &x);
    write_cadence(b, &y);
    bool same = !x.failed && !y.failed && strcmp(buf_text(&x), buf_text(&y)) == 0;
    buf_done(&x);
    buf_done(&y);
    return same;
}

/* ---- one schedule about to be stored --------------------------------------------------------------------------------------- */

typedef struct change {
    pawl_schedule_row row; /* as it will be */
    pawl_dispatched outcome;
    bool needed;
} change;

typedef struct call {
    runtime *rt;
    answer *a; /* memory of this call */
    const pawl_schedule *all;
    size_t count;
} call;

static pawl_status find(call *c, const char *name, pawl_schedule_row **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULE, .name = name};
    pawl_status status = store_read(c->rt->store, &query, c->a->arena, err);
    *out = status ? NULL : query.schedules;
    return status == PAWL_NOT_FOUND ? PAWL_OK : status;
}

/* Whom it runs after must be there, and must not run after it. */
static pawl_status check_chain(call *c, const pawl_schedule *s, pawl_error *err)
{
    const char *at = s->after;
    for (int i = 0; at; i++) {
        if (strcmp(at, s->name) == 0 || i == CHAIN_MAX)
            return err_set(err, PAWL_INVALID,
                           "schedule '%s' cannot run after '%s': that one runs after it, or after too many others", s->name,
                           s->after);
        const pawl_schedule *said = NULL;
        for (size_t k = 0; k < c->count && !said; k++)
            if (strcmp(c->all[k].name, at) == 0) said = &c->all[k];
        if (said) {
            at = said->after;
            continue;
        }
        pawl_schedule_row *row;
        pawl_status status = find(c, at, &row, err);
        if (status) return status;
        if (!row)
            return err_set(err, PAWL_INVALID, "schedule '%s' cannot run after '%s': there is no such schedule, put it first",
                           s->name, at);
        at = row->after;
    }
    return PAWL_OK;
}

static bool same_bytes(pawl_bytes a, pawl_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static pawl_status begin(call *c, const pawl_schedule *s, const pawl_schedule_row *old, pawl_schedule_row *row, pawl_error *err)
{
    int64_t now_us = runtime_now(c->rt).wall_us, last_us = old ? old->last_us : 0;
    pawl_schedule before = {.name = s->name};
    schedule_rule rule;
    rng random;
    rng_init(&random, seed_from_system());
    bool same = old && schedule_read(c->a->arena, old->spec, &before, NULL) == PAWL_OK && same_text(old->after, s->after) &&
                same_cadence(&before, s, &c->rt->allocator);
    row->anchor_us = same ? old->anchor_us : schedule_anchor(s, now_us);
    pawl_status status = compile(c->rt, s, row->anchor_us, &rule, err);
    if (status || schedule_begin(&rule, last_us, now_us, &random, row)) return status;
    if (same) { /* it has had its time: as if it were new */
        row->anchor_us = schedule_anchor(s, now_us);
        status = compile(c->rt, s, row->anchor_us, &rule, err);
        if (status || schedule_begin(&rule, last_us, now_us, &random, row)) return status;
    }
    return err_set(err, PAWL_INVALID, "schedule '%s' would never fire: no time fits what it says", s->name);
}

static pawl_off off_of(const pawl_schedule *s, const pawl_schedule_row *old)
{
    return s->disabled || (old && old->off == PAWL_OFF_PERSON) ? PAWL_OFF_PERSON : PAWL_OFF_NOT;
}

static bool unchanged(const pawl_schedule_row *old, const pawl_schedule_row *row, pawl_put how)
{
    if (old->off == PAWL_OFF_GONE) return false;
    if (how == PAWL_PUT_KEEP) return true;
    return old->off != PAWL_OFF_INVALID && strcmp(old->spec, row->spec) == 0 && same_text(old->after, row->after) &&
           same_bytes(old->payload, row->payload);
}

static pawl_status plan(call *c, const pawl_schedule *s, pawl_put how, change *out, pawl_error *err)
{
    pawl_schedule_row *old;
    buf spec;
    *out = (change){.outcome = PAWL_CREATED, .needed = true};
    pawl_status status = find(c, s->name, &old, err);
    if (status) return status;
    if (old && how == PAWL_PUT_ADD)
        return err_set(err, PAWL_CONFLICT, "there is a schedule '%s' already: edit it, or remove it first", s->name);
    if (!old && how == PAWL_PUT_EDIT) return err_set(err, PAWL_NOT_FOUND, "there is no schedule '%s'", s->name);
    buf_init(&spec, pawl_arena_allocator(c->a->arena), SCHEDULE_SPEC_MAX);
    schedule_write(s, &spec);
    if (spec.failed) return err_set(err, PAWL_TOO_LARGE, "schedule '%s' is too large", s->name);
    out->row = (pawl_schedule_row){.name = s->name,
                                   .spec = spec.data,
                                   .after = s->after,
                                   .payload = s->payload,
                                   .version = old ? old->version : 0,
                                   .off = off_of(s, old),
                                   .reason = old && old->off == PAWL_OFF_PERSON ? old->reason : NULL};
    status = check_chain(c, s, err);
    if (!status) status = begin(c, s, old, &out->row, err);
    if (status || !old) return status;
    out->outcome = PAWL_UPDATED;
    if (unchanged(old, &out->row, how)) {
        out->needed = false;
        out->outcome = PAWL_EXISTING;
    }
    return PAWL_OK;
}

/* ---- sending ------------------------------------------------------------------------------------------------------------- */

static bool keep_struct(ticket *t, const void *from, size_t size, void *out)
{
    const char *kept;
    if (!ticket_keep_bytes(t, (pawl_bytes){from, size}, &kept)) return false;
    *(const char **)out = kept;
    return true;
}

static bool fill_put(ticket *t, pawl_op *op, const pawl_schedule_row *from, bool drop, const char *by)
{
    pawl_schedule_row row = *from;
    pawl_schedule_put put = {.drop = drop};
    const char *payload = NULL;
    op->kind = PAWL_OP_SCHEDULE;
    if (!ticket_keep(t, from->name, &row.name) || !ticket_keep(t, from->spec, &row.spec) ||
        !ticket_keep(t, from->after, &row.after) || !ticket_keep(t, from->reason, &row.reason) || !ticket_keep(t, by, &op->by))
        return false;
    if (from->payload.len && !ticket_keep_bytes(t, from->payload, &payload)) return false;
    row.payload = (pawl_bytes){payload, from->payload.len};
    return keep_struct(t, &row, sizeof row, &put.row) && keep_struct(t, &put, sizeof put, &op->u.schedule);
}

static bool fill_step(ticket *t, pawl_op *op, const pawl_step *from, const char *by)
{
    pawl_step step = *from;
    op->kind = PAWL_OP_STEP;
    return ticket_keep(t, from->name, &step.name) && ticket_keep(t, from->reason, &step.reason) && ticket_keep(t, by, &op->by) &&
           keep_struct(t, from->fates ? from->fates : (const pawl_fate[1]){{0}}, sizeof *from->fates, &step.fates) &&
           keep_struct(t, &(pawl_op){.kind = PAWL_OP_INSERT}, sizeof(pawl_op), &step.tasks) &&
           keep_struct(t, &step, sizeof step, &op->u.step);
}

/* The worst of all: STALE where another try may help. */
static void read_results(ticket *t, const core_request *r)
{
    t->result = PAWL_OP_DONE;
    for (int i = 0; i < r->count && r->status == PAWL_OK; i++) {
        pawl_op_result result = r->ops[i].result;
        if (result == PAWL_OP_CLOSED) t->status = PAWL_MOVED;
        if (result != PAWL_OP_DONE && result != PAWL_OP_UPDATED) t->result = result;
    }
    if (r->count > 0 && r->status == PAWL_OK && r->ops[0].kind == PAWL_OP_STEP && r->ops[0].u.step->tasks_count > 0) {
        t->receipt.id = r->ops[0].u.step->tasks[0].out_id;
        if (t->result == PAWL_OP_DONE) t->result = r->ops[0].u.step->tasks[0].result;
    }
}

/* `made`: it was filled. *result: see read_results. */
static pawl_status run(ticket *t, bool made, pawl_op_result *result, pawl_id *id, pawl_error *err)
{
    t->read = read_results;
    pawl_status status = made ? ticket_run(t, err) : no_memory(err);
    *result = t->result;
    if (id) *id = t->receipt.id;
    ticket_free(t);
    if (!status && *result == PAWL_OP_REFUSED) status = err_set(err, PAWL_TOO_LARGE, "the store cannot hold the schedule");
    return status;
}

static bool try_again(pawl_op_result result)
{
    return result == PAWL_OP_STALE || result == PAWL_OP_EXISTING || result == PAWL_OP_NOT_FOUND;
}

static pawl_status call_begin(runtime *rt, call *c, pawl_error *err)
{
    *c = (call){.rt = rt};
    pawl_status status = schedules_kept(rt, err);
    return status ? status : (c->a = look_answer(rt)) ? PAWL_OK : no_memory(err);
}

/* ---- putting ------------------------------------------------------------------------------------------------------------- */

static pawl_status put_once(call *c, const pawl_schedule *s, pawl_put how, pawl_dispatched *outcome, pawl_op_result *result,
                            pawl_error *err)
{
    change made;
    *result = PAWL_OP_DONE;
    pawl_status status = plan(c, s, how, &made, err);
    if (status) return status;
    *outcome = made.outcome;
    if (!made.needed) return PAWL_OK;
    ticket *t = ticket_new(c->rt, 1, err);
    return t ? run(t, fill_put(t, &t->request->ops[0], &made.row, false, s->by), result, NULL, err) : PAWL_NO_MEMORY;
}

pawl_status schedules_valid(runtime *rt, const pawl_schedule *s, pawl_error *err)
{
    schedule_rule rule;
    if (!s) return err_set(err, PAWL_INVALID, "the schedule is NULL");
    pawl_status status = valid_definition(rt, s, err);
    return status ? status : compile(rt, s, schedule_anchor(s, runtime_now(rt).wall_us), &rule, err);
}

pawl_status schedules_put(runtime *rt, const pawl_schedule *s, pawl_put how, pawl_dispatched *outcome, pawl_error *err)
{
    call c;
    pawl_dispatched became = PAWL_CREATED;
    pawl_op_result result = PAWL_OP_STALE;
    pawl_error why = {.status = PAWL_OK};
    pawl_status status = schedules_valid(rt, s, &why);
    if (!status) status = call_begin(rt, &c, &why);
    if (status) {
        if (err) *err = why;
        return status;
    }
    for (int i = 0; i < TRIES && !status && try_again(result); i++) status = put_once(&c, s, how, &became, &result, &why);
    if (!status && try_again(result)) status = met(s->name, &why);
    if (!status && outcome) *outcome = became;
    if (!status && became != PAWL_EXISTING) limits_check_pace(rt, s);
    if (status && err) *err = why;
    look_drop(c.a);
    return status;
}

/* ---- all of a program's -------------------------------------------------------------------------------------------------- */

static bool is_among(const call *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->all[i].name, name) == 0) return true;
    return false;
}

typedef struct plans {
    change *changes; /* one for each of the program's */
    pawl_schedule_row **gone;
    size_t gone_count;
} plans;

/* Those under the prefix that are not among them. */
static pawl_status find_gone(call *c, const pawl_put_options *o, plans *p, pawl_error *err)
{
    pawl_schedule_filter filter = {.prefix = o->prefix, .limit = 1000};
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULES, .schedule_filter = &filter, .schedules_more = true};
    p->gone = pawl_arena_alloc(c->a->arena, PAWL_BULK_MAX * sizeof *p->gone);
    if (!p->gone) return no_memory(err);
    while (query.schedules_more) {
        pawl_status status = store_read(c->rt->store, &query, c->a->arena, err);
        if (status) return status;
        for (int i = 0; i < query.schedules_count; i++) {
            pawl_schedule_row *row = &query.schedules[i];
            filter.cursor = row->name;
            if (is_among(c, row->name) || (o->gone == PAWL_GONE_DISABLE && row->off)) continue;
            if (p->gone_count + c->count == PAWL_BULK_MAX)
                return err_set(err, PAWL_TOO_LARGE, "more than %d schedules cannot be changed in one commit", PAWL_BULK_MAX);
            p->gone[p->gone_count++] = row;
        }
    }
    return PAWL_OK;
}

static bool fill_gone(ticket *t, pawl_op *op, const pawl_schedule_row *row, const pawl_put_options *o)
{
    if (o->gone == PAWL_GONE_DELETE) return fill_put(t, op, row, true, o->by);
    pawl_step step = {.name = row->name,
                      .version = row->version,
                      .off = PAWL_OFF_GONE,
                      .reason = "the program that registered it has it no more",
                      .last_us = row->last_us,
                      .overlap = PAWL_OVERLAP_FORBID};
    return fill_step(t, op, &step, o->by);
}

static pawl_status put_all_once(call *c, const pawl_put_options *o, pawl_op_result *result, pawl_error *err)
{
    plans p = {.changes = pawl_arena_alloc(c->a->arena, (c->count + 1) * sizeof *p.changes)};
    int count = 0, at = 0;
    *result = PAWL_OP_DONE;
    if (!p.changes) return no_memory(err);
    pawl_status status = o->prefix && o->gone != PAWL_GONE_IGNORE ? find_gone(c, o, &p, err) : PAWL_OK;
    for (size_t i = 0; i < c->count && !status; i++) {
        status = plan(c, &c->all[i], o->how, &p.changes[i], err);
        count += p.changes[i].needed;
    }
    count += (int)p.gone_count;
    if (status || count == 0) return status;
    ticket *t = ticket_new(c->rt, count, err);
    if (!t) return PAWL_NO_MEMORY;
    bool ok = true;
    for (size_t i = 0; i < c->count && ok; i++)
        if (p.changes[i].needed) ok = fill_put(t, &t->request->ops[at++], &p.changes[i].row, false, o->by);
    for (size_t i = 0; i < p.gone_count && ok; i++) ok = fill_gone(t, &t->request->ops[at++], p.gone[i], o);
    return run(t, ok, result, NULL, err);
}

static pawl_status check_all(runtime *rt, const pawl_schedule *s, size_t n, const pawl_put_options *o, pawl_error *err)
{
    if (n > PAWL_BULK_MAX)
        return err_set(err, PAWL_TOO_LARGE, "%zu schedules are too many for one call: at most %d", n, PAWL_BULK_MAX);
    if (o->how != PAWL_PUT_KEEP && o->how != PAWL_PUT_UPDATE)
        return err_set(err, PAWL_INVALID, "many schedules are put with PAWL_PUT_KEEP or PAWL_PUT_UPDATE");
    pawl_status status = valid_optional(o->prefix && *o->prefix ? o->prefix : NULL, "prefix", err);
    if (!status) status = valid_optional(o->by, "name of the person", err);
    for (size_t i = 0; i < n && !status; i++) status = schedules_valid(rt, &s[i], err);
    for (size_t i = 0; i < n && !status; i++)
        for (size_t k = 0; k < i && !status; k++)
            if (strcmp(s[i].name, s[k].name) == 0)
                status = err_set(err, PAWL_INVALID, "two schedules have the name '%s'", s[i].name);
    return status;
}

pawl_status schedules_put_all(runtime *rt, const pawl_schedule *s, size_t n, const pawl_put_options *options, pawl_error *err)
{
    pawl_put_options o = options ? *options : (pawl_put_options){0};
    pawl_op_result result = PAWL_OP_STALE;
    pawl_error why = {.status = PAWL_OK};
    call c = {0};
    pawl_status status = check_all(rt, s, n, &o, &why);
    if (!status) status = call_begin(rt, &c, &why);
    c.all = s;
    c.count = n;
    for (int i = 0; i < TRIES && !status && try_again(result); i++) status = put_all_once(&c, &o, &result, &why);
    if (!status && try_again(result)) status = met("", &why);
    for (size_t i = 0; i < n && i < PACE_MOST && !status; i++) limits_check_pace(rt, &s[i]);
    if (status && err) *err = why;
    look_drop(c.a);
    return status;
}

/* ---- enable, disable, remove, run ------------------------------------------------------------------------------------------ */

static pawl_status not_there(const char *name, pawl_error *err)
{
    return err_set(err, PAWL_NOT_FOUND, "there is no schedule '%s'", name);
}

/* The step that enables it from now on, or disables it. *needed: it is not so already. */
static pawl_status plan_set(call *c, pawl_schedule_row *row, bool enabled, const char *by, pawl_step *step, bool *needed,
                            pawl_error *err)
{
    pawl_schedule s = {.name = row->name, .after = row->after, .payload = row->payload};
    *needed = enabled ? row->off != PAWL_OFF_NOT : row->off != PAWL_OFF_PERSON;
    *step = (pawl_step){.name = row->name, .version = row->version, .last_us = row->last_us, .overlap = PAWL_OVERLAP_FORBID};
    if (!*needed) return PAWL_OK;
    if (!enabled) {
        step->off = PAWL_OFF_PERSON;
        if (!by) return PAWL_OK;
        char *reason = pawl_arena_alloc(c->a->arena, strlen(by) + 4);
        if (!reason) return no_memory(err);
        sprintf(reason, "by %s", by);
        step->reason = reason;
        return PAWL_OK;
    }
    schedule_rule rule;
    rng random;
    rng_init(&random, seed_from_system());
    pawl_status status = schedule_read(c->a->arena, row->spec, &s, err);
    if (!status) status = compile(c->rt, &s, row->anchor_us, &rule, err);
    if (!status && rule.max_runs > 0 && row->runs >= rule.max_runs)
        return err_set(err, PAWL_CONFLICT, "schedule '%s' has had its %lld runs: edit it to allow more", row->name,
                       (long long)rule.max_runs);
    if (!status && !schedule_begin(&rule, row->last_us, runtime_now(c->rt).wall_us, &random, row))
        return err_set(err, PAWL_CONFLICT, "schedule '%s' would never fire again: edit it first", row->name);
    step->next_us = row->next_us;
    step->occurrence_us = row->occurrence_us;
    step->look_us = row->look_us;
    step->watch = row->watch;
    return status;
}

static pawl_status set_once(call *c, const char *name, bool enabled, const char *by, pawl_op_result *result, pawl_error *err)
{
    pawl_schedule_row *row;
    pawl_step step;
    bool needed;
    *result = PAWL_OP_DONE;
    pawl_status status = find(c, name, &row, err);
    if (status || !row) return status ? status : not_there(name, err);
    status = plan_set(c, row, enabled, by, &step, &needed, err);
    if (status || !needed) return status;
    ticket *t = ticket_new(c->rt, 1, err);
    return t ? run(t, fill_step(t, &t->request->ops[0], &step, by), result, NULL, err) : PAWL_NO_MEMORY;
}

static pawl_status check_names(const char *name, const char *by, pawl_error *err)
{
    pawl_status status = valid_name(name, "name of the schedule", err);
    return status ? status : valid_optional(by, "name of the person", err);
}

pawl_status schedules_set(runtime *rt, const char *name, bool enabled, const char *by, pawl_error *err)
{
    call c = {0};
    pawl_op_result result = PAWL_OP_STALE;
    pawl_status status = check_names(name, by, err);
    if (!status) status = call_begin(rt, &c, err);
    for (int i = 0; i < TRIES && !status && try_again(result); i++) status = set_once(&c, name, enabled, by, &result, err);
    if (!status && try_again(result)) status = met(name, err);
    look_drop(c.a);
    return status;
}

pawl_status schedules_remove(runtime *rt, const char *name, const char *by, pawl_error *err)
{
    pawl_op_result result;
    pawl_schedule_row row = {.name = name, .spec = ""};
    pawl_status status = check_names(name, by, err);
    if (!status) status = schedules_kept(rt, err);
    ticket *t = status ? NULL : ticket_new(rt, 1, err);
    if (!t) return status ? status : PAWL_NO_MEMORY;
    status = run(t, fill_put(t, &t->request->ops[0], &row, true, by), &result, NULL, err);
    return !status && result == PAWL_OP_NOT_FOUND ? not_there(name, err) : status;
}

static pawl_status run_now(call *c, const pawl_schedule_row *row, const pawl_bytes *payload, const char *by, int64_t at_us,
                           pawl_id *id, pawl_op_result *result, pawl_error *err)
{
    pawl_schedule s = {.name = row->name, .after = row->after, .payload = payload ? *payload : row->payload};
    schedule_rule rule;
    pawl_status status = schedule_read(c->a->arena, row->spec, &s, err);
    if (!status) status = valid_definition(c->rt, &s, err);
    if (!status) status = compile(c->rt, &s, row->anchor_us, &rule, err);
    s.until_us = 0; /* whoever asks for it wants it */
    ticket *t = status ? NULL : ticket_new(c->rt, 1, err);
    if (!t) return status ? status : PAWL_NO_MEMORY;
    pawl_fate fate = {.occurrence = at_us, .fires = true, .count = 1, .why = "by hand"};
    pawl_step step = {.name = row->name,
                      .keep = true,
                      .overlap = rule.overlap == PAWL_OVERLAP_QUEUE ? PAWL_OVERLAP_FORBID : rule.overlap,
                      .fates = &fate,
                      .fates_count = 1};
    pawl_op *op = &t->request->ops[0];
    bool made = fill_step(t, op, &step, by);
    if (made && (op->u.step->tasks[0].u.insert.body = schedule_body(&s, &c->rt->allocator))) op->u.step->tasks_count = 1;
    else made = false;
    return run(t, made, result, id, err);
}

pawl_status schedules_run(runtime *rt, const char *name, const pawl_bytes *payload, const char *by, pawl_id *id, pawl_error *err)
{
    call c = {0};
    pawl_schedule_row *row = NULL;
    pawl_op_result result = PAWL_OP_EXISTING; /* of the same microsecond */
    pawl_id made = 0;
    pawl_status status = check_names(name, by, err);
    if (!status) status = call_begin(rt, &c, err);
    if (!status) status = find(&c, name, &row, err);
    if (!status && !row) status = not_there(name, err);
    for (int i = 0; i < TRIES && !status && result == PAWL_OP_EXISTING; i++)
        status = run_now(&c, row, payload, by, runtime_now(rt).wall_us + i, &made, &result, err);
    if (!status && result == PAWL_OP_NOT_FOUND) status = not_there(name, err);
    else if (!status && result == PAWL_OP_CONFLICT)
        status = err_set(err, PAWL_CONFLICT, "a task of schedule '%s' is unfinished, and it does not allow two", name);
    else if (!status && result != PAWL_OP_DONE) status = met(name, err);
    if (!status && id) *id = made;
    look_drop(c.a);
    return status;
}
