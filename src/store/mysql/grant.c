/* The transaction of a claim: locks what is due, leases it, brings the bodies along.
 *
 * For each want the lanes with something due come in groups of one priority. A group that is one lane of ordinary tasks is locked as it
 * is read. In any other (several types, suspects, tasks to run alone) the order is that of time over all its lanes, so it is first chosen
 * without locks; what somebody else has meanwhile is left out, and the choice made again.
 */
#include "store/mysql/claim.h"

int my_claim_room(const claiming *k, int want)
{
    const pawl_want *w = &k->call->wants[want];
    return w->free + w->prefetch - k->wants[want].got;
}

static void begin(claiming *k)
{
    my_script(k->c);
    my_add(k->c, SQL_begin);
    my_add(k->c, SQL_server_now);
    my_put_int(k->c, k->call->node);
    my_add(k->c, SQL_life_shared);
    my_add_gate(k->c);
    my_add(k->c, SQL_version_shared);
}

/* With the first answers of the transaction: whether the node still lives, and the gate is open. */
static bool may_grant(claiming *k)
{
    const answer *life = my_answer(k->c, SQL_life_shared);
    k->alive = life->rows > 0 && get_int(life, 0, 0) == 1;
    k->lease_us = k->alive ? get_int(life, 0, 1) : 0;
    k->at = my_instant(k->s, k->c);
    k->call->news.node_dead = !k->alive;
    k->call->news.closed = my_gate_closed(k->c);
    k->outdated = get_int(my_answer(k->c, SQL_version_shared), 0, 0) != k->limits.version;
    return k->alive && !k->call->news.closed && !k->outdated;
}

bool my_claim_begin(claiming *k)
{
    if (k->begun) return true;
    begin(k);
    if (!my_send(k->c, CALL_READS)) return false;
    k->begun = may_grant(k);
    return true;
}

/* ---- one lane of ordinary tasks ------------------------------------------------------------------------------------------ */

void my_claim_grant_row(claiming *k, const answer *a, int row, int want)
{
    granted *g = &k->tasks[k->count];
    *g = (granted){.want = want, .row = {.progress = -1}};
    my_read_live(&g->row, a, row);
    g->limited = my_limited(&k->limits, g->row.type_id);
    if (my_ever_bounded(&k->limits, g->row.queue_id, g->row.type_id)) my_holder_note(k->s, g->row.id);
    g->not_started = g->row.keyed && (k->wants[want].got >= k->call->wants[want].free || g->limited);
    k->wants[want].got++;
    k->count++;
}

static void ask_one(claiming *k, int want, const lane_state *l)
{
    conn *c = k->c;
    my_put_int(c, k->wants[want].queue_id);
    my_put_int(c, l->at.lane);
    my_put_int(c, l->due_us);
    my_put_int(c, k->at.now_us);
    my_put_int(c, my_claim_room(k, want) + 1);
    my_add(c, SQL_choose_one);
}

static void take_one(claiming *k, int want, lane_state *l)
{
    const answer *a = my_answer(k->c, SQL_choose_one);
    int room = my_claim_room(k, want), rows = a->rows < room ? a->rows : room;
    int64_t last_us = a->rows > room && room > 0 ? get_int(a, room - 1, 1) : INT64_MAX, latest_us = k->at.now_us - CLAIM_SLACK_US;
    for (int i = 0; i < rows; i++) my_claim_grant_row(k, a, i, want);
    if (a->rows > room) k->wants[want].more = true;
    l->at.from_us = last_us < latest_us ? last_us : latest_us;
}

/* ---- several lanes ------------------------------------------------------------------------------------------------------- */

typedef struct choosable {
    pawl_id id;
    int64_t run_at_us;
    int lane; /* of the want */
} choosable;

typedef struct choice {
    int want, first, end; /* lanes of the group: first..end-1 */
    choosable *all;
    int count;
    pawl_id *skipped;
    int skipped_count;
    int64_t *lasts; /* by lane of the group */
} choice;

static bool is_skipped(const choice *c, pawl_id id)
{
    for (int i = 0; i < c->skipped_count; i++)
        if (c->skipped[i] == id) return true;
    return false;
}

static int by_time(const void *a, const void *b)
{
    const choosable *x = a, *y = b;
    if (x->run_at_us != y->run_at_us) return x->run_at_us < y->run_at_us ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void ask_candidates(claiming *k, const choice *ch, int limit)
{
    for (int i = ch->first; i < ch->end; i++) {
        const lane_state *l = &k->wants[ch->want].lanes[i];
        if (l->due_us < 0) continue;
        my_put_int(k->c, k->wants[ch->want].queue_id);
        my_put_int(k->c, l->at.lane);
        my_put_int(k->c, l->due_us);
        my_put_int(k->c, k->at.now_us);
        my_put_int(k->c, limit);
        my_put_int(k->c, i);
        my_add(k->c, SQL_choose_look);
    }
}

static bool take_candidates(claiming *k, choice *ch)
{
    int rows = 0;
    EACH_ANSWER(a, k->c, SQL_choose_look) rows += a->rows;
    ch->count = 0;
    ch->all = pawl_arena_alloc(k->arena, (size_t)(rows + 1) * sizeof *ch->all);
    if (!ch->all) return false;
    EACH_ANSWER(a, k->c, SQL_choose_look)
    for (int i = 0; i < a->rows; i++)
        if (!is_skipped(ch, get_int(a, i, 0)))
            ch->all[ch->count++] = (choosable){get_int(a, i, 0), get_int(a, i, 1), (int)get_int(a, i, 2)};
    qsort(ch->all, (size_t)ch->count, sizeof *ch->all, by_time);
    return true;
}

/* Suspects only within `free`, of those to run alone one at most. *alone: which. */
static int choose(const claiming *k, choice *ch, pawl_id *ids, bool *more, pawl_id *alone)
{
    const pawl_want *w = &k->call->wants[ch->want];
    int count = 0, have = k->wants[ch->want].got, most = w->free + w->prefetch;
    *more = false;
    *alone = 0;
    for (int i = ch->first; i < ch->end; i++) ch->lasts[i - ch->first] = k->wants[ch->want].lanes[i].due_us;
    for (int i = 0; i < ch->count; i++) {
        const choosable *c = &ch->all[i];
        int class = class_of(k->wants[ch->want].lanes[c->lane].at.lane);
        if (have >= most) {
            *more = true;
            break;
        }
        bool fits = class == CLASS_ORDINARY || (have < w->free && (class == CLASS_SUSPECT || (w->solo && !k->solo && !*alone)));
        *more |= !fits;
        if (!fits) continue;
        ids[count++] = c->id;
        have++;
        if (class == CLASS_SOLO) *alone = c->id;
        if (!*more) ch->lasts[c->lane - ch->first] = c->run_at_us;
    }
    return count;
}

static const answer *find_row(const conn *c, pawl_id id, int *row)
{
    EACH_ANSWER(a, c, SQL_choose_lock)
    for (*row = 0; *row < a->rows; ++*row)
        if (get_int(a, *row, 0) == id) return a;
    return NULL;
}

/* Locks what was chosen, and keeps what nobody else has; in the order of the choice. */
static bool lock_chosen(claiming *k, choice *ch, const pawl_id *ids, int count, pawl_id alone)
{
    pawl_id *sorted = pawl_arena_alloc(k->arena, (size_t)(count + 1) * sizeof *sorted);
    buf list;
    if (!sorted) {
        my_conn_no_memory(k->c);
        return false;
    }
    memcpy(sorted, ids, (size_t)count * sizeof *ids);
    my_sort_ids(sorted, count);
    buf_init(&list, k->s->allocator, 4 << 20);
    for (int i = 0; i < count; i++) buf_fmt(&list, "%s%lld", i ? "," : "", (long long)sorted[i]);
    if (list.failed) k->c->script.failed = true;
    my_script(k->c);
    my_put_raw(k->c, buf_text(&list), list.len);
    my_put_int(k->c, k->wants[ch->want].queue_id);
    my_add(k->c, SQL_choose_lock);
    buf_done(&list);
    if (!my_send(k->c, CALL_READS)) return false;
    for (int i = 0; i < count; i++) {
        int row;
        const answer *a = find_row(k->c, ids[i], &row);
        ch->skipped[ch->skipped_count++] = ids[i]; /* taken, by us or by somebody else */
        if (!a) continue;
        my_claim_grant_row(k, a, row, ch->want);
        k->solo |= ids[i] == alone;
    }
    return true;
}

#define ROUNDS 5

static bool choose_group(claiming *k, choice *ch)
{
    int room = my_claim_room(k, ch->want);
    pawl_id *ids = pawl_arena_alloc(k->arena, (size_t)(room + 1) * sizeof *ids), alone;
    ch->skipped = pawl_arena_alloc(k->arena, (size_t)(ROUNDS * room + 1) * sizeof *ch->skipped);
    ch->lasts = pawl_arena_alloc(k->arena, (size_t)(ch->end - ch->first + 1) * sizeof *ch->lasts);
    bool more = false, whole = ids && ch->skipped && ch->lasts;
    for (int round = 0; whole && round < ROUNDS; round++) {
        my_script(k->c);
        ask_candidates(k, ch, room + 1 + ch->skipped_count);
        if (!my_send(k->c, CALL_READS)) return false;
        whole = take_candidates(k, ch);
        if (!whole) break;
        int before = k->count, count = choose(k, ch, ids, &more, &alone);
        if (count == 0) break;
        if (!lock_chosen(k, ch, ids, count, alone)) return false;
        if (k->count - before == count) break;
    }
    if (!whole) {
        my_conn_no_memory(k->c);
        return false;
    }
    k->wants[ch->want].more |= more;
    for (int i = ch->first; i < ch->end; i++) {
        int64_t last_us = ch->lasts[i - ch->first], latest_us = k->at.now_us - CLAIM_SLACK_US;
        if (last_us >= 0) k->wants[ch->want].lanes[i].at.from_us = last_us < latest_us ? last_us : latest_us;
    }
    return true;
}

/* ---- all groups ---------------------------------------------------------------------------------------------------------- */

/* The next lane with something due at or after `from`; -1: none. */
static int next_due(const wanted *w, int from)
{
    for (int i = from; i < w->lanes_count; i++)
        if (w->lanes[i].due_us >= 0) return i;
    return -1;
}

/* Behind the last lane of the same priority; *alone: no other of them has anything due. */
static int end_of_group(const wanted *w, int first, bool *alone)
{
    int end = first + 1;
    *alone = true;
    for (; end < w->lanes_count && priority_part(w->lanes[end].at.lane) == priority_part(w->lanes[first].at.lane); end++)
        if (w->lanes[end].due_us >= 0) *alone = false;
    return end;
}

/* Some of its tasks may need places. */
static bool bounded_group(const claiming *k, int want, int first, int end)
{
    const wanted *w = &k->wants[want];
    for (int i = first; i < end; i++)
        if (w->lanes[i].due_us >= 0 && my_bounded(&k->limits, w->queue_id, type_of(w->lanes[i].at.lane))) return true;
    return false;
}

/* false: failed. */
static bool grant_group(claiming *k, int want, int first, int end, bool simple)
{
    lane_state *l = &k->wants[want].lanes[first];
    if (!k->begun) begin(k);
    else my_script(k->c);
    if (simple) ask_one(k, want, l);
    if (!my_send(k->c, CALL_READS)) return false;
    if (!k->begun && !may_grant(k)) return true;
    k->begun = true;
    if (simple) {
        take_one(k, want, l);
        return true;
    }
    choice ch = {.want = want, .first = first, .end = end};
    return choose_group(k, &ch);
}

/* false: failed, or nothing more can be granted. */
static bool choose_turns(claiming *k, int want)
{
    const wanted *w = &k->wants[want];
    if (!w->turns || w->paused || w->shared_due < 0) return true;
    if (my_claim_room(k, want) <= 0) {
        k->wants[want].more = true;
        return true;
    }
    return my_claim_begin(k) && (!k->begun || my_admit_turns(k, want));
}

static bool choose_all(claiming *k)
{
    for (int want = 0; want < k->call->wants_count; want++) {
        const wanted *w = &k->wants[want];
        if (!choose_turns(k, want)) return false;
        for (int first = 0; !w->paused && (first = next_due(w, first)) >= 0;) {
            bool alone;
            int end = end_of_group(w, first, &alone);
            if (my_claim_room(k, want) <= 0) {
                k->wants[want].more = true;
                break;
            }
            bool simple = alone && class_of(w->lanes[first].at.lane) == CLASS_ORDINARY;
            bool bounded = bounded_group(k, want, first, end);
            if (bounded && (!my_claim_begin(k) || (k->begun && !my_admit_group(k, want, first, end)))) return false;
            int from = k->count;
            if (!bounded && !grant_group(k, want, first, end, simple)) return false;
            if (!bounded && k->limits.count && k->begun && !my_claim_pass_flood(k, want, first, end, from)) return false;
            if (!k->begun) return true; /* it died this moment, or the gate was shut, or the limits have changed */
            first = end;
        }
    }
    return true;
}

/* ---- leases -------------------------------------------------------------------------------------------------------------- */

static void lease_one(work *w, const granted *g)
{
    task_row row = g->row;
    my_live_drop(w, &row);
    row.state = PAWL_LEASED;
    row.fence++;
    row.node = w->node;
    row.leased_us = w->now_us;
    row.not_started = g->not_started;
    my_leased_put(w, &row);
}

static void add_bodies(claiming *k)
{
    pawl_id *ids = pawl_arena_alloc(k->arena, (size_t)(k->count + 1) * sizeof *ids);
    for (int i = 0; ids && i < k->count; i++) ids[i] = k->tasks[i].row.id;
    if (ids) my_add_ids(k->c, SQL_bodies, ids, my_sort_ids(ids, k->count));
    else k->c->script.failed = true;
}

/* The slots that tasks have, if they have any: they are told, and leave with the tasks. */
static void add_slots(claiming *k)
{
    int count = 0;
    pawl_id *ids = k->limits.count ? pawl_arena_alloc(k->arena, (size_t)(k->count + 1) * sizeof *ids) : NULL;
    if (!k->limits.count) return;
    for (int i = 0; ids && i < k->count; i++)
        if (my_limit_known(&k->limits, k->tasks[i].row.type_id)) ids[count++] = k->tasks[i].row.id;
    if (!ids) k->c->script.failed = true;
    if (count == 0) return;
    count = my_sort_ids(ids, count);
    my_add_ids(k->c, SQL_slots, ids, count);
    my_add_ids(k->c, SQL_slotted_drop, ids, count);
}

/* A program's own transaction may have given a task with a key another type or queue, and left it places of the old one. */
static void add_holders(claiming *k)
{
    int count = 0;
    if (!k->limits.bounds_count) return;
    pawl_id *ids = pawl_arena_alloc(k->arena, (size_t)(k->count + 1) * sizeof *ids);
    for (int i = 0; ids && i < k->count; i++) {
        const task_row *row = &k->tasks[i].row;
        if (row->keyed && !my_ever_bounded(&k->limits, row->queue_id, row->type_id)) ids[count++] = row->id;
    }
    if (!ids) k->c->script.failed = true;
    my_add_ids(k->c, SQL_holders, ids, my_sort_ids(ids, count));
}

static void note_holders(const claiming *k)
{
    EACH_ANSWER(a, k->c, SQL_holders)
    for (int i = 0; i < a->rows; i++) my_holder_note(k->s, get_int(a, i, 0));
}

static void add_turns(claiming *k)
{
    for (int i = 0; i < k->call->wants_count; i++) {
        const wanted *w = &k->wants[i];
        if (!w->turned) continue;
        my_put_int(k->c, w->queue_id);
        my_put_int(k->c, w->turn_tenant);
        my_put_int(k->c, w->turn_rest);
        my_add(k->c, SQL_turn_put);
    }
}

/* The heartbeat, if anything was granted; and others are told what was unblocked. */
static void add_beat(claiming *k)
{
    conn *c = k->c;
    my_put_int(c, k->call->node);
    my_put_int(c, -1);
    if (k->count == 0) {
        my_add(c, SQL_backs);
        return;
    }
    my_put_int(c, k->count);
    my_put_int(c, k->at.boot_us + k->lease_us);
    my_put_int_or_null(c, 0, 0);
    my_put_int(c, k->w.unblocked.count > 0);
    my_add(c, SQL_beat);
}

static bool commit(claiming *k, int64_t until_us)
{
    work *w = &k->w;
    conn *c = k->c;
    my_script(c);
    w->now_us = k->at.now_us;
    if (w->spots.count && !my_places_settle(w)) return false;
    add_bodies(k);
    add_slots(k);
    add_holders(k);
    add_turns(k);
    for (int i = 0; i < k->count; i++) lease_one(w, &k->tasks[i]);
    my_work_flush(w);
    if (w->no_memory) {
        my_conn_no_memory(c);
        return false;
    }
    if (k->count || w->unblocked.count) add_beat(k);
    my_add_guard(c, until_us);
    my_add(c, SQL_commit);
    if (!my_send(c, CALL_WRITES)) return false;
    note_holders(k);
    k->call->news.unblocked = w->unblocked.count > 0;
    if (w->unblocked.count) my_ready_chill(&k->s->ready);
    return true;
}

static bool grant(claiming *k, int64_t until_us)
{
    if (!choose_all(k)) return false;
    bool found_stale = k->w.tables[TABLE_PLACES_GONE].text.len > 0;
    if (k->count || k->blocked || found_stale) return commit(k, until_us);
    my_rollback(k->c);
    return true;
}

bool my_claim_grant(claiming *k)
{
    size_t room = 1;
    int64_t until_us = my_until(k->s);
    for (int i = 0; i < k->call->wants_count; i++) {
        const pawl_want *w = &k->call->wants[i];
        room += (size_t)(w->free > 0 ? w->free : 0) + (size_t)(w->prefetch > 0 ? w->prefetch : 0);
        k->wants[i].more = k->wants[i].flooded = false;
        k->wants[i].got = 0;
        k->wants[i].turned = false;
    }
    k->count = 0;
    k->solo = false;
    k->tasks = pawl_arena_alloc(k->arena, room * sizeof *k->tasks);
    if (!k->tasks) {
        my_conn_no_memory(k->c);
        return false;
    }
    k->begun = k->outdated = false;
    k->blocked = 0;
    my_work_begin(&k->w, k->s, k->c, k->arena);
    map_init(&k->seen, k->s->allocator);
    k->w.node = k->call->node;
    k->w.lane = -1;
    k->w.limits = k->limits;
    bool good = grant(k, until_us);
    map_done(&k->seen);
    my_work_done(&k->w);
    return good;
}
