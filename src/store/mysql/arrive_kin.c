/* Families and schedules that come from another store. Counts of who waits follow from the edges; members do not change the counts of their
 * batch, which come with it. Occurrences keep their order; an open one is tied to its task, which has come before it. */
#include "store/mysql/arrive.h"
#include <stdio.h>

static void mark(arriving *l, bool *known, sql_name which)
{
    if (*known) return;
    my_add(l->c, which);
    my_add(l->c, SQL_limits_changed); /* with the version everybody learns of it */
    *known = true;
}

static void said(const arriving *l, buf *b, const char *text)
{
    lit_clean(l->c, b, text, text ? strlen(text) : 0);
    buf_char(b, ',');
}

static void begin_row(buf *b) { buf_str(b, b->len ? ",(" : "("); }

/* ---- an import: whom a task waits for ------------------------------------------------------------------------------------ */

typedef struct kin {
    pawl_id id;
    pawl_state state; /* NONE: it is not here */
} kin;

static kin *find(const arriving *l, pawl_id id)
{
    for (int i = 0; i < l->kin_count; i++)
        if (l->kin[i].id == id) return &l->kin[i];
    return NULL;
}

static bool waits_for(const arriving *l, int i, int k)
{
    const pawl_record *t = &l->d->tasks[i];
    return t->state == PAWL_WAITING && t->parents[k].state != PAWL_EDGE_TOLD;
}

static bool in_page(const arriving *l, pawl_id id)
{
    for (int i = 0; i < l->d->count; i++)
        if (l->d->tasks[i].body.id == id) return l->results[i] == PAWL_LOADED_NEW;
    return false;
}

static bool gather(arriving *l)
{
    int room = 0;
    for (int i = 0; i < l->d->count; i++) room += l->d->tasks[i].parents_count;
    l->kin_count = 0;
    l->kin = room ? my_work_alloc(&l->w, (size_t)room * sizeof *l->kin) : NULL;
    pawl_id *ids = room ? my_work_alloc(&l->w, (size_t)room * sizeof *ids) : NULL;
    if (!l->kin || !ids) return room == 0;
    for (int i = 0; i < l->d->count; i++)
        for (int k = 0; k < l->d->tasks[i].parents_count; k++) {
            pawl_id id = l->d->tasks[i].parents[k].id;
            if (!waits_for(l, i, k) || find(l, id)) continue;
            ids[l->kin_count] = id;
            l->kin[l->kin_count++].id = id;
        }
    if (!l->kin_count) return true;
    my_script(l->c);
    my_add_ids(l->c, SQL_load_kin, ids, my_sort_ids(ids, l->kin_count));
    return my_send(l->c, CALL_READS);
}

bool my_arrive_judge_kin(arriving *l)
{
    if (l->call->move) return true;
    if (!gather(l)) return false;
    EACH_ANSWER(a, l->c, SQL_load_kin)
    for (int row = 0; row < a->rows; row++) {
        kin *k = find(l, get_int(a, row, 0));
        pawl_state state = (pawl_state)get_int(a, row, 1);
        if (k) k->state = state ? state : PAWL_PENDING; /* a batch that has not ended */
    }
    for (int i = 0; i < l->d->count && l->kin_count; i++)
        for (int k = 0; k < l->d->tasks[i].parents_count && l->results[i] == PAWL_LOADED_NEW; k++) {
            pawl_id id = l->d->tasks[i].parents[k].id;
            if (waits_for(l, i, k) && !find(l, id)->state && !in_page(l, id)) l->results[i] = PAWL_LOADED_ORPHAN;
        }
    return true;
}

/* ---- families ------------------------------------------------------------------------------------------------------------ */

typedef struct family_rows {
    buf edges, waits, members, untold;
} family_rows;

static void put_parent(arriving *l, family_rows *f, const pawl_record *t, const pawl_past_parent *p)
{
    const kin *k = p->state == PAWL_EDGE_UNTOLD && !l->call->move ? find(l, p->id) : NULL;
    begin_row(&f->edges);
    buf_fmt(&f->edges, "%lld,%lld,%d)", (long long)p->id, (long long)t->body.id, (int)p->state);
    if (!k || !pawl_state_terminal(k->state)) return;
    begin_row(&f->untold); /* it has ended here: the end is told from this child on */
    buf_fmt(&f->untold, "%lld,1,%lld,%d)", (long long)p->id, (long long)t->body.id - 1, (int)k->state);
}

static void put_family(arriving *l, family_rows *f, const pawl_record *t)
{
    int unmet = 0, held = 0;
    for (int k = 0; k < t->parents_count; k++) {
        put_parent(l, f, t, &t->parents[k]);
        unmet += t->parents[k].state == PAWL_EDGE_UNTOLD;
        held += t->parents[k].state == PAWL_EDGE_HELD;
    }
    if (t->state == PAWL_WAITING) {
        begin_row(&f->waits);
        buf_fmt(&f->waits, "%lld,%d,%d,%d)", (long long)t->body.id, unmet, held, (int)t->if_failed);
    }
    if (!t->batch) return;
    begin_row(&f->members);
    buf_fmt(&f->members, "%lld,%lld)", (long long)t->body.id, (long long)t->batch);
}

void my_arrive_families(arriving *l)
{
    family_rows f;
    buf *all[] = {&f.edges, &f.waits, &f.members, &f.untold};
    for (int i = 0; i < 4; i++) buf_init(all[i], l->s->allocator, 64 << 20);
    bool any = false;
    for (int i = 0; i < l->d->count; i++) {
        const pawl_record *t = &l->d->tasks[i];
        if (l->results[i] != PAWL_LOADED_NEW || (!t->parents_count && !t->batch)) continue;
        put_family(l, &f, t);
        any = true;
    }
    if (any) mark(l, &l->w.limits.families, SQL_families_mark);
    my_arrive_add(l, &f.edges, SQL_edges_put);
    my_arrive_add(l, &f.waits, SQL_waits_put);
    my_arrive_add(l, &f.members, SQL_members_put);
    my_arrive_add(l, &f.untold, SQL_unsettled_put);
    for (int i = 0; i < 4; i++) buf_done(all[i]);
}

static void when(buf *b, int64_t us)
{
    lit_int_or_null(b, us, 0);
    buf_char(b, ',');
}

void my_arrive_batches(arriving *l, buf *b)
{
    buf members;
    buf_init(&members, l->s->allocator, 64 << 20);
    for (int i = 0; i < l->d->count; i++) {
        const pawl_past_batch *p = &l->d->batches[i];
        begin_row(b);
        buf_fmt(b, "%lld,", (long long)p->id);
        lit_bytes(l->c, b, (pawl_bytes){p->name, strlen(p->name)});
        buf_fmt(b, ",%lld,%lld,", (long long)p->within, (long long)p->created_us);
        when(b, p->closed_us);
        when(b, p->ended_us);
        buf_fmt(b, "%d,%d,%lld,%lld,%lld,%lld)", p->ended_us ? (int)p->state : 0, p->cancel_asked, (long long)p->unfinished,
                (long long)p->succeeded, (long long)p->failed, (long long)p->cancelled);
        if (!p->within) continue;
        begin_row(&members);
        buf_fmt(&members, "%lld,%lld)", (long long)p->id, (long long)p->within);
    }
    if (l->d->count) mark(l, &l->w.limits.families, SQL_families_mark);
    my_arrive_add(l, b, SQL_load_batches);
    my_arrive_add(l, &members, SQL_members_put);
    buf_done(&members);
}

void my_arrive_kept(arriving *l, buf *b)
{
    for (int i = 0; i < l->d->count; i++) {
        const pawl_past_kept *k = &l->d->kept[i];
        begin_row(b);
        buf_fmt(b, "%lld,%d,", (long long)k->id, (int)k->state);
        said(l, b, k->error);
        said(l, b, k->result_type);
        said(l, b, k->result_ref);
        lit_bytes(l->c, b, k->result);
        buf_char(b, ')');
    }
    my_arrive_add(l, b, SQL_load_kept);
}

/* ---- schedules ----------------------------------------------------------------------------------------------------------- */

/* In an import those that are here stay as they are. */
bool my_arrive_ask_schedules(arriving *l)
{
    pawl_id *ids = my_work_alloc(&l->w, (size_t)(l->d->count + 1) * sizeof *ids);
    l->taken = my_work_alloc(&l->w, (size_t)(l->d->count + 1) * sizeof *l->taken);
    if (!ids || !l->taken) return false;
    if (l->call->move || l->d->count == 0) return true;
    for (int i = 0; i < l->d->count; i++) ids[i] = l->names[i][0];
    my_script(l->c);
    my_add_ids(l->c, SQL_load_schedules_found, ids, my_sort_ids(ids, l->d->count));
    if (!my_send(l->c, CALL_READS)) return false;
    EACH_ANSWER(a, l->c, SQL_load_schedules_found)
    for (int row = 0; row < a->rows; row++)
        for (int i = 0; i < l->d->count; i++) l->taken[i] |= l->names[i][0] == get_int(a, row, 0);
    return true;
}

static void put_schedule(arriving *l, buf *b, const pawl_past_schedule *s, const int32_t ids[3])
{
    const int64_t times[] = {s->anchor_us, s->next_us, s->occurrence_us, s->last_us};
    const int64_t counts[] = {s->runs,
                              s->fired,
                              s->skipped,
                              s->succeeded,
                              s->failed,
                              s->open,
                              s->waiting,
                              s->occurrences_count - s->open - s->waiting,
                              s->occurrences_count,
                              s->last_task,
                              s->created_us};
    begin_row(b);
    buf_fmt(b, "%d,", (int)ids[0]);
    lit_bytes(l->c, b, (pawl_bytes){s->name, strlen(s->name)});
    buf_char(b, ',');
    if (s->after) buf_fmt(b, "%d,", (int)ids[1]);
    else buf_str(b, "NULL,");
    buf_fmt(b, "%lld,%d,%d,", (long long)s->version, (int)s->off, s->watch);
    said(l, b, s->reason);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) buf_fmt(b, "%lld,", (long long)times[i]);
    when(b, s->off ? 0 : s->look_us);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) buf_fmt(b, "%lld,", (long long)counts[i]);
    buf_fmt(b, "%lld)", (long long)s->changed_us);
}

static void put_body(const arriving *l, buf *b, const pawl_past_schedule *s, int32_t id)
{
    begin_row(b);
    buf_fmt(b, "%d,", (int)id);
    said(l, b, s->spec);
    lit_bytes(l->c, b, s->payload);
    buf_char(b, ')');
}

static void put_occurrences(const arriving *l, buf *b, const pawl_past_schedule *s, int32_t id)
{
    for (int i = 0; i < s->occurrences_count; i++) {
        const pawl_occurrence *o = &s->occurrences[i];
        begin_row(b);
        buf_fmt(b, "%d,%lld,%d,%d,%lld,%lld,%lld,", (int)id, (long long)o->occurrence, (int)o->state, s->occurrences_count - i,
                (long long)o->at_us, (long long)o->task, (long long)o->count);
        said(l, b, o->why);
        lit_int_or_null(b, o->state == PAWL_OCCURRENCE_OPEN ? o->task : 0, 0);
        buf_char(b, ')');
    }
}

static void end_occurrences(arriving *l, const pawl_id *ids, int count)
{
    buf list;
    buf_init(&list, l->s->allocator, 1 << 20);
    for (int i = 0; i < count; i++) buf_fmt(&list, "%s%lld", i ? "," : "", (long long)ids[i]);
    if (list.failed) l->w.no_memory = true;
    my_put_raw(l->c, buf_text(&list), list.len);
    my_put_int(l->c, PAWL_OCCURRENCE_SUCCEEDED);
    my_put_int(l->c, PAWL_OCCURRENCE_FAILED);
    my_put_int(l->c, PAWL_OCCURRENCE_CANCELLED);
    my_add(l->c, SQL_load_occurrences_end);
    my_put_raw(l->c, buf_text(&list), list.len);
    my_add(l->c, SQL_load_schedules_count);
    buf_done(&list);
}

void my_arrive_schedules(arriving *l, buf *b)
{
    buf bodies, occurrences;
    pawl_id *ids = my_work_alloc(&l->w, (size_t)(l->d->count + 1) * sizeof *ids);
    int count = 0;
    buf_init(&bodies, l->s->allocator, 64 << 20);
    buf_init(&occurrences, l->s->allocator, 64 << 20);
    for (int i = 0; ids && i < l->d->count; i++) {
        const pawl_past_schedule *s = &l->d->schedules[i];
        if (l->taken[i]) continue;
        ids[count++] = l->names[i][0];
        put_schedule(l, b, s, l->names[i]);
        put_body(l, &bodies, s, l->names[i][0]);
        put_occurrences(l, &occurrences, s, l->names[i][0]);
    }
    if (count) {
        mark(l, &l->w.limits.schedules, SQL_schedules_mark);
        my_add_ids(l->c, SQL_schedules_drop, ids, count);
        my_add_ids(l->c, SQL_occurrences_drop, ids, count);
        my_arrive_add(l, b, SQL_schedules_add);
        my_arrive_add(l, &bodies, SQL_schedule_bodies_put);
        my_arrive_add(l, &occurrences, SQL_occurrences_add);
        end_occurrences(l, ids, count);
    }
    buf_done(&bodies);
    buf_done(&occurrences);
}
