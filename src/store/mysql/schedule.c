/* Schedules: SCHEDULE, STEP, and what the end of a task means for the schedule that made it. See pawl/store.h.
 *
 * Schedules are locked after spots and before keys and tasks, all of them by one statement and in the order of their ids: those that the
 * operations name, those whose tasks may end, which the server finds out, and those that follow these. Whoever holds a schedule's row may
 * read and change its occurrences: nobody else does. What changes gathers in memory and goes out as a few statements, however many there are.
 *
 * An occurrence that nobody has decided about is inserted, and (schedule, occurrence) is the key of the table: that alone keeps it from
 * becoming two tasks. A task belongs to an occurrence from the commit on that stored it, so one that may end is never looked for in vain.
 */
#include "store/mysql/schedule.h"

typedef struct schedule {
    map_node node; /* by id */
    int32_t id, after_id;
    bool there, fresh, dropped, changed, trims;
    const char *name, *reason;
    int off;
    bool watch;
    int64_t version, anchor_us, next_us, occurrence_us, last_us, look_us, runs, fired, skipped, succeeded, failed, open, waiting,
        settled, number, created_us, changed_us;
    pawl_id last_task;
} schedule;

typedef struct occurrence { /* that an operation decides about */
    map_node node;
    int32_t schedule_id;
    int64_t occurrence;
    pawl_occurrence_state state;
} occurrence;

typedef struct opened { /* a task that may end */
    map_node node;      /* by its id */
    int32_t schedule_id;
    int64_t occurrence;
} opened;

/* ---- locking ------------------------------------------------------------------------------------------------------------- */

typedef struct source {
    buf ids, tasks, occurrences;
} source;

static void source_init(source *s, work *w)
{
    buf_init(&s->ids, w->s->allocator, 16 << 20);
    buf_init(&s->tasks, w->s->allocator, 16 << 20);
    buf_init(&s->occurrences, w->s->allocator, 64 << 20);
}

static void put_buf(work *w, const buf *b)
{
    if (b->failed) w->no_memory = true;
    my_put_raw(w->c, buf_text(b), b->len);
}

static void put_how(work *w)
{
    static const char locked[] = "LOCK IN SHARE MODE";
    my_put_raw(w->c, w->borrowed ? locked : "", w->borrowed ? sizeof locked - 1 : 0);
}

static void source_ask(source *s, work *w)
{
    if (s->ids.len || s->tasks.len) {
        put_buf(w, &s->ids);
        put_buf(w, &s->tasks);
        put_how(w);
        my_add(w->c, SQL_schedules_lock);
    }
    if (s->tasks.len) {
        put_buf(w, &s->tasks);
        put_how(w);
        my_add(w->c, SQL_occurrences_open);
    }
    if (s->occurrences.len) {
        put_buf(w, &s->occurrences);
        my_add(w->c, SQL_occurrences_of);
    }
    buf_done(&s->ids);
    buf_done(&s->tasks);
    buf_done(&s->occurrences);
}

static bool in_use(const work *w) { return w->limits.schedules || w->borrowed; }

void my_schedules_ask(work *w)
{
    source s;
    if (!in_use(w) && !w->f->schedules) return;
    source_init(&s, w);
    for (int i = 0; i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        pawl_op_kind kind = o->op->kind;
        if (o->refused) continue;
        if (kind == PAWL_OP_SCHEDULE || kind == PAWL_OP_STEP) buf_fmt(&s.ids, ",(%d)", (int)o->queue_id);
        if (in_use(w) && (kind == PAWL_OP_FINISH || kind == PAWL_OP_RELEASE || kind == PAWL_OP_CANCEL))
            buf_fmt(&s.tasks, ",(%lld)", (long long)o->op->id);
        for (int k = 0; kind == PAWL_OP_STEP && k < o->op->u.step->fates_count; k++)
            buf_fmt(&s.occurrences, ",(%d,%lld)", (int)o->queue_id, (long long)o->op->u.step->fates[k].occurrence);
    }
    source_ask(&s, w);
}

void my_schedules_ask_tasks(work *w, const pawl_id *ids, int count)
{
    source s;
    if (!in_use(w)) return;
    source_init(&s, w);
    for (int i = 0; i < count; i++) buf_fmt(&s.tasks, ",(%lld)", (long long)ids[i]);
    source_ask(&s, w);
}

/* ---- what is locked ------------------------------------------------------------------------------------------------------ */

static const char *copy_text(work *w, const char *text)
{
    const char *copy = pawl_arena_str(w->arena, text);
    if (text && !copy) w->no_memory = true;
    return copy;
}

static schedule *schedule_of(const work *w, int32_t id) { return (schedule *)map_get(&w->schedules, (uint64_t)id); }

static schedule *schedule_new(work *w, int32_t id)
{
    schedule *s = my_work_alloc(w, sizeof *s);
    if (!s) return NULL;
    s->id = id;
    map_put(&w->schedules, &s->node, (uint64_t)id);
    return s;
}

static void read_schedule(work *w, const answer *a, int row)
{
    int32_t id = (int32_t)get_int(a, row, 0);
    schedule *s = schedule_of(w, id) ? NULL : schedule_new(w, id);
    if (!s) return;
    int64_t *const numbers[] = {&s->anchor_us, &s->next_us, &s->occurrence_us, &s->last_us,    &s->look_us,   &s->runs,
                                &s->fired,     &s->skipped, &s->succeeded,     &s->failed,     &s->open,      &s->waiting,
                                &s->settled,   &s->number,  &s->last_task,     &s->created_us, &s->changed_us};
    s->there = true;
    s->name = copy_text(w, get_text(a, row, 1));
    s->after_id = (int32_t)get_int(a, row, 2);
    s->version = get_int(a, row, 3);
    s->off = (int)get_int(a, row, 4);
    s->watch = get_int(a, row, 5) != 0;
    s->reason = copy_text(w, get_text(a, row, 6));
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++) *numbers[i] = get_int(a, row, 7 + i);
}

static uint64_t hash_of(int32_t schedule_id, int64_t at) { return hash_bytes(&at, sizeof at, (uint64_t)schedule_id); }

static occurrence *occurrence_of(work *w, int32_t schedule_id, int64_t at)
{
    uint64_t hash = hash_of(schedule_id, at);
    for (map_node *node = map_get(&w->occurrences, hash); node; node = map_next(node)) {
        occurrence *o = (occurrence *)node;
        if (o->schedule_id == schedule_id && o->occurrence == at) return o;
    }
    occurrence *o = my_work_alloc(w, sizeof *o);
    if (!o) return NULL;
    *o = (occurrence){.schedule_id = schedule_id, .occurrence = at};
    map_put(&w->occurrences, &o->node, hash);
    return o;
}

void my_schedules_take_in(work *w)
{
    EACH_ANSWER(a, w->c, SQL_schedules_lock)
    for (int i = 0; i < a->rows && !w->no_memory; i++) read_schedule(w, a, i);
    EACH_ANSWER(a, w->c, SQL_occurrences_open)
    for (int i = 0; i < a->rows; i++) {
        opened *o = my_work_alloc(w, sizeof *o);
        if (!o) return;
        o->schedule_id = (int32_t)get_int(a, i, 1);
        o->occurrence = get_int(a, i, 2);
        map_put(&w->opened, &o->node, (uint64_t)get_int(a, i, 0));
    }
    EACH_ANSWER(a, w->c, SQL_occurrences_of)
    for (int i = 0; i < a->rows; i++) {
        occurrence *o = occurrence_of(w, (int32_t)get_int(a, i, 0), get_int(a, i, 1));
        if (o) o->state = (pawl_occurrence_state)get_int(a, i, 2);
    }
}

/* ---- occurrences --------------------------------------------------------------------------------------------------------- */

static void counted(schedule *s, pawl_occurrence_state state, int by)
{
    if (state == PAWL_OCCURRENCE_WAITING) s->waiting += by;
    else if (state == PAWL_OCCURRENCE_OPEN) s->open += by;
    else if (state != PAWL_OCCURRENCE_NONE) s->settled += by;
}

/* A row, into one of the tables of them. */
static void occurrence_row(work *w, table which, schedule *s, const pawl_fate *fate, pawl_occurrence_state state, pawl_id task)
{
    buf *b = &w->tables[which].text;
    my_rows_begin(w, which);
    buf_fmt(b, "%d,%lld,%d,%lld,%lld,%lld,%lld,", (int)s->id, (long long)fate->occurrence, (int)state, (long long)++s->number,
            (long long)w->now_us, (long long)task, (long long)fate->count);
    lit_text(w->c, b, fate->why);
    buf_char(b, ',');
    lit_int_or_null(b, state == PAWL_OCCURRENCE_OPEN ? task : 0, 0);
    my_rows_end(w, which);
    s->changed = true;
}

static void decide(work *w, schedule *s, occurrence *o, const pawl_fate *fate, pawl_occurrence_state state, pawl_id task)
{
    occurrence_row(w, o->state ? TABLE_OCCURRENCES : TABLE_OCCURRENCES_NEW, s, fate, state, task);
    counted(s, o->state, -1);
    counted(s, state, 1);
    o->state = state;
}

static void skip(work *w, schedule *s, occurrence *o, const pawl_fate *fate)
{
    if (o->state > PAWL_OCCURRENCE_WAITING) return;
    s->skipped += fate->count;
    decide(w, s, o, fate, PAWL_OCCURRENCE_SKIPPED, 0);
}

static void fire(work *w, schedule *s, occurrence *o, const pawl_step *step, const pawl_fate *fate, flat_op *task)
{
    pawl_op *op = task->op;
    bool waits = o->state == PAWL_OCCURRENCE_WAITING;
    if (o->state > PAWL_OCCURRENCE_WAITING) {
        op->result = PAWL_OP_EXISTING;
    } else if (step->overlap == PAWL_OVERLAP_ALLOW || s->open == 0) {
        my_apply_insert(w, task);
        s->runs++;
        s->fired++;
        s->last_task = op->out_id;
        decide(w, s, o, fate, PAWL_OCCURRENCE_OPEN, op->out_id);
    } else if (step->overlap == PAWL_OVERLAP_QUEUE && s->waiting - waits == 0) {
        op->result = PAWL_OP_MOVED;
        if (!waits) decide(w, s, o, fate, PAWL_OCCURRENCE_WAITING, 0);
    } else {
        op->result = PAWL_OP_CONFLICT;
        if (!step->keep) skip(w, s, o, &(pawl_fate){.occurrence = fate->occurrence, .count = 1, .why = "overlap"});
    }
}

/* ---- STEP ---------------------------------------------------------------------------------------------------------------- */

static void go_on(schedule *s, const pawl_step *step)
{
    s->version++;
    s->changed = true;
    if (step->keep) return;
    s->off = (int)step->off;
    s->reason = step->reason;
    s->next_us = step->next_us;
    s->occurrence_us = step->occurrence_us;
    s->last_us = step->last_us;
    s->look_us = step->off ? 0 : step->look_us;
    s->watch = step->watch;
}

void my_apply_step(work *w, int at)
{
    flat_op *ops = w->f->ops;
    pawl_op *op = ops[at].op;
    const pawl_step *step = op->u.step;
    schedule *s = schedule_of(w, ops[at].queue_id);
    bool found = s && s->there, current = found && (step->version == 0 || step->version == s->version);
    op->result = !found                        ? PAWL_OP_NOT_FOUND
                 : !current                    ? PAWL_OP_STALE
                 : my_spawns_refused(w->f, at) ? PAWL_OP_REFUSED
                                               : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    for (int i = 0, task = at + 1; i < step->fates_count && !w->no_memory && !w->failed; i++) {
        const pawl_fate *fate = &step->fates[i];
        occurrence *o = occurrence_of(w, s->id, fate->occurrence);
        if (!o) return;
        if (fate->fires) fire(w, s, o, step, fate, &ops[task++]);
        else skip(w, s, o, fate);
    }
    go_on(s, step);
    my_oplog_put(w, op->by, step->keep ? "run schedule" : step->off ? "disable schedule" : "enable schedule", 0, step->name);
}

/* ---- SCHEDULE ------------------------------------------------------------------------------------------------------------ */

static void define(work *w, schedule *s, const pawl_schedule_row *from, int32_t after_id)
{
    buf *b = &w->tables[TABLE_SCHEDULE_BODIES].text;
    if (!s->there) {
        s->there = s->fresh = true;
        s->name = from->name;
        s->version = s->created_us = w->now_us; /* no version of one that was dropped comes again */
    } else {
        s->version++;
    }
    s->after_id = after_id;
    s->off = (int)from->off;
    s->reason = from->reason;
    s->anchor_us = from->anchor_us;
    s->next_us = from->next_us;
    s->occurrence_us = from->occurrence_us;
    s->look_us = from->off ? 0 : from->look_us;
    s->watch = from->watch;
    s->changed_us = w->now_us;
    my_rows_begin(w, TABLE_SCHEDULE_BODIES);
    buf_fmt(b, "%d,", (int)s->id);
    lit_text(w->c, b, from->spec);
    buf_char(b, ',');
    lit_bytes(w->c, b, from->payload);
    my_rows_end(w, TABLE_SCHEDULE_BODIES);
}

static pawl_op_result judge(const pawl_schedule_put *put, const schedule *s)
{
    bool found = s && s->there;
    int64_t version = put->row->version;
    if (put->drop) return !found ? PAWL_OP_NOT_FOUND : version && version != s->version ? PAWL_OP_STALE : PAWL_OP_DONE;
    if (!found) return version ? PAWL_OP_NOT_FOUND : PAWL_OP_DONE;
    return !version ? PAWL_OP_EXISTING : version == s->version ? PAWL_OP_UPDATED : PAWL_OP_STALE;
}

/* Everybody learns that there are schedules, with the version of the limits. */
static void mark(work *w)
{
    if (w->limits.schedules) return;
    my_add(w->c, SQL_schedules_mark);
    my_add(w->c, SQL_limits_changed);
    w->limits.schedules = true;
}

void my_apply_schedule(work *w, flat_op *o)
{
    pawl_op *op = o->op;
    const pawl_schedule_put *put = op->u.schedule;
    schedule *s = schedule_of(w, o->queue_id);
    op->result = judge(put, s);
    if (op->result != PAWL_OP_DONE && op->result != PAWL_OP_UPDATED) return;
    if (!s && !(s = schedule_new(w, o->queue_id))) return;
    s->changed = true;
    if (put->drop) {
        s->there = false;
        s->dropped = true;
    } else {
        mark(w);
        define(w, s, put->row, o->type_id);
    }
    my_oplog_put(w, op->by, put->drop ? "remove schedule" : "put schedule", 0, put->row->name);
}

/* ---- the end of a task ----------------------------------------------------------------------------------------------------- */

static void stir(const work *w, schedule *s)
{
    s->look_us = w->now_us;
    s->version++;
    s->changed = true;
}

static void tell_followers(work *w, int32_t id, pawl_id task)
{
    map_each(node, &w->schedules) {
        schedule *s = (schedule *)node;
        if (!s->there || s->off || s->after_id != id) continue;
        occurrence_row(w, TABLE_OCCURRENCES_TOLD, s, &(pawl_fate){.occurrence = task, .count = 1}, PAWL_OCCURRENCE_WAITING, 0);
        s->waiting++;
        stir(w, s);
    }
}

void my_schedule_ended(work *w, pawl_id task, pawl_state to, bool started)
{
    const opened *o = w->opened.count ? (const opened *)map_get(&w->opened, (uint64_t)task) : NULL;
    schedule *s = o ? schedule_of(w, o->schedule_id) : NULL;
    if (!s || !s->there) return;
    pawl_occurrence_state state = !started               ? PAWL_OCCURRENCE_UNSTARTED
                                  : to == PAWL_SUCCEEDED ? PAWL_OCCURRENCE_SUCCEEDED
                                  : to == PAWL_FAILED    ? PAWL_OCCURRENCE_FAILED
                                                         : PAWL_OCCURRENCE_CANCELLED;
    occurrence_row(w, TABLE_OCCURRENCES, s, &(pawl_fate){.occurrence = o->occurrence, .count = 1}, state, task);
    s->open--;
    s->settled++;
    s->runs -= !started && s->runs > 0;
    s->succeeded += to == PAWL_SUCCEEDED;
    s->failed += to == PAWL_FAILED;
    if (!s->off && (s->watch || s->waiting > 0)) stir(w, s);
    if (to == PAWL_SUCCEEDED) tell_followers(w, s->id, task);
}

/* ---- what changed -------------------------------------------------------------------------------------------------------- */

static void schedule_row(work *w, const schedule *s)
{
    const int64_t numbers[] = {s->runs,    s->fired,   s->skipped, s->succeeded, s->failed,     s->open,
                               s->waiting, s->settled, s->number,  s->last_task, s->created_us, s->changed_us};
    table which = s->fresh ? TABLE_SCHEDULES_NEW : TABLE_SCHEDULES;
    buf *b = &w->tables[which].text;
    my_rows_begin(w, which);
    buf_fmt(b, "%d,", (int)s->id);
    lit_bytes(w->c, b, (pawl_bytes){s->name, strlen(s->name)});
    buf_char(b, ',');
    lit_int_or_null(b, s->after_id, 0);
    buf_fmt(b, ",%lld,%d,%d,", (long long)s->version, s->off, s->watch);
    lit_text(w->c, b, s->reason);
    buf_fmt(b, ",%lld,%lld,%lld,%lld,", (long long)s->anchor_us, (long long)s->next_us, (long long)s->occurrence_us,
            (long long)s->last_us);
    lit_int_or_null(b, s->look_us, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) buf_fmt(b, ",%lld", (long long)numbers[i]);
    my_rows_end(w, which);
}

static void drop(work *w, id_list *gone)
{
    if (gone->count == 0) return;
    my_add_ids(w->c, SQL_occurrences_drop, gone->ids, gone->count);
    my_add_ids(w->c, SQL_schedule_bodies_drop, gone->ids, gone->count);
    my_add_ids(w->c, SQL_schedules_drop, gone->ids, gone->count);
}

void my_schedules_flush(work *w)
{
    static const table order[] = {TABLE_SCHEDULES_NEW,   TABLE_SCHEDULES,        TABLE_SCHEDULE_BODIES,
                                  TABLE_OCCURRENCES_NEW, TABLE_OCCURRENCES_TOLD, TABLE_OCCURRENCES};
    map_each(node, &w->schedules) {
        schedule *s = (schedule *)node;
        w->recurs |= s->changed;
        s->trims = s->changed && s->there && s->settled >= OCCURRENCES_TRIM;
        if (s->trims) s->settled = PAWL_OCCURRENCES_KEPT;
        if (s->dropped) my_note_id(w, &w->schedules_gone, s->id);
        else if (s->changed && s->there && s->name) schedule_row(w, s);
    }
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) my_flush_table(w, order[i]);
    map_each(node, &w->schedules) {
        const schedule *s = (const schedule *)node;
        if (!s->trims) continue;
        my_put_int(w->c, s->id);
        my_put_int(w->c, PAWL_OCCURRENCES_KEPT);
        my_add(w->c, SQL_occurrences_trim);
    }
    drop(w, &w->schedules_gone);
}
