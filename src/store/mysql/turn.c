/* Claims where tenants take turns.
 *
 * Tasks of such a queue stand in pawl_shared, by priority and tenant, and not in the ready index. A claim locks whose turn it is, asks for
 * the next tenants of a priority and for what each has due, and deals out by their weights. Those that it could not have, because others
 * have them or they find no place, let it ask again, if there was more than it asked for.
 *
 * The way from tenant to tenant passes over their backlogs: each step is the least tenant above the one before. Mostly there are few, and the
 * first and the last one of a range are all.
 */
#include "store/mysql/claim.h"

#define FIRST_STEPS 4 /* tenants asked for in one message, then twice as many with each */
#define LAST_STEPS 128

typedef struct tenant {
    int32_t id;
    int weight;
    candidate *due;
    int count, next;
} tenant;

typedef struct dealing {
    claiming *k;
    int want;
    int64_t priority;
    tenant *tenants;
    int count, most, limit; /* limit: rows asked of each */
    bool weighted;          /* some tenants of the queue have weights */
    bool cut;               /* there may be more due than was read */
    buf types;              /* those that the node knows, as a condition */
} dealing;

static int32_t queue_of(const dealing *d) { return d->k->wants[d->want].queue_id; }

static void write_types(dealing *d)
{
    const wanted *w = &d->k->wants[d->want];
    buf_init(&d->types, d->k->s->allocator, 1 << 20);
    if (d->k->call->wants[d->want].any_type) {
        buf_str(&d->types, "TRUE");
        return;
    }
    buf_str(&d->types, "lane & 4294967295 IN (-1");
    for (int i = 0; i < w->types_count; i++) buf_fmt(&d->types, ",%d", (int)w->types[i]);
    buf_char(&d->types, ')');
    if (d->types.failed) d->k->w.no_memory = true;
}

/* ---- what there is ------------------------------------------------------------------------------------------------------- */

typedef struct range { /* of tenants that have tasks of the priority */
    int64_t first, last;
} range;

static void ask_ends(dealing *d, int64_t after, int64_t up_to)
{
    conn *c = d->k->c;
    my_put_int(c, queue_of(d));
    my_put_int(c, d->priority);
    my_put_int(c, after);
    my_put_int(c, up_to);
    my_add(c, SQL_tenant_ends);
}

static void add_tenant(dealing *d, int64_t id)
{
    if (d->count < d->most) d->tenants[d->count++] = (tenant){.id = (int32_t)id, .weight = 1};
    else d->cut = true;
}

static bool ask_steps(dealing *d, int64_t from, int64_t up_to, int steps)
{
    conn *c = d->k->c;
    my_script(c);
    my_put_int(c, from);
    my_add(c, SQL_tenant_from);
    for (int i = 0; i < steps; i++) {
        my_put_int(c, queue_of(d));
        my_put_int(c, d->priority);
        my_put_int(c, up_to);
        my_add(c, SQL_tenant_step);
        my_add(c, SQL_tenant_at);
    }
    return my_send(c, CALL_READS);
}

static bool walk(dealing *d, range r)
{
    int64_t at = r.first;
    add_tenant(d, at);
    for (int steps = FIRST_STEPS; at < r.last && !d->cut; steps = steps < LAST_STEPS ? 2 * steps : steps) {
        if (!ask_steps(d, at, r.last, steps)) return false;
        EACH_ANSWER(a, d->k->c, SQL_tenant_at)
        {
            at = get_null(a, 0, 0) ? r.last : get_int(a, 0, 0); /* the last ones were taken meanwhile */
            if (get_null(a, 0, 0)) break;
            add_tenant(d, at);
        }
    }
    return true;
}

static bool read_weights(dealing *d)
{
    claiming *k = d->k;
    buf list;
    my_script(k->c);
    my_put_int(k->c, queue_of(d));
    buf_init(&list, k->s->allocator, 4 << 20);
    for (int i = 0; i < d->count; i++) buf_fmt(&list, "%s'%d'", i ? "," : "", (int)d->tenants[i].id);
    if (list.failed) k->c->script.failed = true;
    my_put_raw(k->c, buf_text(&list), list.len);
    my_add(k->c, SQL_tenant_weights);
    buf_done(&list);
    if (!my_send(k->c, CALL_READS)) return false;
    EACH_ANSWER(a, k->c, SQL_tenant_weights)
    for (int row = 0; row < a->rows; row++)
        for (int i = 0; i < d->count; i++)
            if (d->tenants[i].id == get_int(a, row, 0) && get_int(a, row, 1) > 0) d->tenants[i].weight = (int)get_int(a, row, 1);
    return true;
}

/* In the order of their turns, from the one whose turn it is. */
static bool read_tenants(dealing *d)
{
    claiming *k = d->k;
    const wanted *w = &k->wants[d->want];
    int64_t first = w->turn_rest > 0 ? (int64_t)w->turn_tenant - 1 : w->turn_tenant;
    range ranges[2];
    int count = 0;
    d->most = my_claim_room(k, d->want) + 1;
    d->count = 0;
    d->cut = false;
    d->tenants = my_work_alloc(&k->w, (size_t)d->most * sizeof *d->tenants);
    if (!d->tenants) {
        my_conn_no_memory(k->c);
        return false;
    }
    my_script(k->c);
    ask_ends(d, first, INT32_MAX);
    if (first >= 0) ask_ends(d, -1, first);
    if (!my_send(k->c, CALL_READS)) return false;
    EACH_ANSWER(a, k->c, SQL_tenant_ends)
    if (!get_null(a, 0, 0)) ranges[count++] = (range){get_int(a, 0, 0), get_int(a, 0, 1)};
    for (int i = 0; i < count && !d->cut; i++)
        if (!walk(d, ranges[i])) return false;
    return !d->weighted || d->count == 0 || read_weights(d);
}

static void ask_due(dealing *d, const tenant *t, int at)
{
    conn *c = d->k->c;
    my_put_int(c, queue_of(d));
    my_put_int(c, d->priority);
    my_put_int(c, t->id);
    my_put_int(c, d->k->at.now_us);
    my_put_raw(c, buf_text(&d->types), d->types.len);
    my_put_int(c, d->limit);
    my_put_int(c, at);
    my_add(c, SQL_shared_due);
}

static int by_tenant(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->tenant_id != y->tenant_id) return x->tenant_id < y->tenant_id ? -1 : 1;
    if (x->run_at_us != y->run_at_us) return x->run_at_us < y->run_at_us ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool read_due(dealing *d)
{
    claiming *k = d->k;
    candidate *all;
    int count, heaviest = 1;
    for (int i = 0; i < d->count; i++)
        if (d->tenants[i].weight > heaviest) heaviest = d->tenants[i].weight;
    int room = my_claim_room(k, d->want);
    d->limit = (room / d->count + 1) * (heaviest < room ? heaviest : room) + 1 + (int)k->seen.count;
    my_script(k->c);
    for (int i = 0; i < d->count; i++) ask_due(d, &d->tenants[i], i);
    if (!my_send(k->c, CALL_READS) || !my_admit_read(k, SQL_shared_due, true, &all, &count)) return false;
    EACH_ANSWER(a, k->c, SQL_shared_due) d->cut |= a->rows >= d->limit;
    if (count) qsort(all, (size_t)count, sizeof *all, by_tenant);
    for (int i = 0; i < d->count; i++) {
        tenant *t = &d->tenants[i];
        for (int n = 0; n < count; n++) {
            if (all[n].tenant_id != t->id) continue;
            if (!t->due) t->due = &all[n];
            t->count++;
        }
    }
    return true;
}

/* ---- dealing out --------------------------------------------------------------------------------------------------------- */

/* The next one of a tenant, within its turn. */
static bool deal(tenant *t, int rest, candidate *out)
{
    if (t->next >= t->count || rest <= 0) return false;
    *out = t->due[t->next++];
    out->rest = rest - 1;
    return true;
}

/* Round by round, one more than there is room for. */
static int deal_out(dealing *d, candidate *list, int most)
{
    const wanted *w = &d->k->wants[d->want];
    int count = 0, before = -1;
    for (int lap = 0; count < most && count > before; lap++) {
        before = count;
        for (int i = 0; i < d->count && count < most; i++) {
            tenant *t = &d->tenants[i];
            int rest = lap == 0 && w->turn_rest > 0 && t->id == w->turn_tenant ? w->turn_rest : t->weight;
            while (count < most && deal(t, rest, &list[count])) rest = list[count++].rest;
        }
    }
    return count;
}

/* Whose turn it is after the last one that was granted. */
static void pass_on(dealing *d, const candidate *list, int count)
{
    wanted *w = &d->k->wants[d->want];
    for (int i = count - 1; i >= 0; i--) {
        if (!list[i].granted) continue;
        w->turned = true;
        w->turn_tenant = list[i].tenant_id;
        w->turn_rest = my_claim_room(d->k, d->want) > 0 ? 0 : list[i].rest;
        return;
    }
}

/* *again: there may be more of this priority. */
static bool deal_once(dealing *d, bool *again)
{
    claiming *k = d->k;
    admitted got;
    *again = false;
    if (!read_tenants(d)) return false;
    if (d->count == 0) return true;
    if (!read_due(d)) return false;
    candidate *list = my_work_alloc(&k->w, (size_t)d->most * sizeof *list);
    if (!list) {
        my_conn_no_memory(k->c);
        return false;
    }
    int count = deal_out(d, list, d->most);
    d->cut |= count == d->most;
    if (!my_admit(k, d->want, list, count, &got)) return false;
    pass_on(d, list, count);
    *again = d->cut && got.granted + got.blocked + got.missed > 0 && my_claim_room(k, d->want) > 0 && k->blocked < BLOCKED_MOST;
    if (k->blocked >= BLOCKED_MOST) k->wants[d->want].more = true;
    return true;
}

static void ask_priority(dealing *d)
{
    my_put_int(d->k->c, queue_of(d));
    my_put_int(d->k->c, d->priority);
    my_add(d->k->c, SQL_shared_priority);
}

static void take_priority(dealing *d, bool *found)
{
    const answer *a = my_answer(d->k->c, SQL_shared_priority);
    *found = !get_null(a, 0, 0);
    if (*found) d->priority = get_int(a, 0, 0);
}

static bool next_priority(dealing *d, bool *found)
{
    my_script(d->k->c);
    ask_priority(d);
    if (!my_send(d->k->c, CALL_READS)) return false;
    take_priority(d, found);
    return true;
}

/* Whose turn it is, and the first priority. */
static bool lock_turn(dealing *d, bool *found)
{
    conn *c = d->k->c;
    wanted *w = &d->k->wants[d->want];
    my_script(c);
    my_put_int(c, w->queue_id);
    my_add(c, SQL_turn_lock);
    my_put_int(c, w->queue_id);
    my_add(c, SQL_turn_weighted);
    ask_priority(d);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_turn_lock);
    w->turn_tenant = a->rows ? (int32_t)get_int(a, 0, 0) : 0;
    w->turn_rest = a->rows ? (int)get_int(a, 0, 1) : 0;
    d->weighted = get_int(my_answer(c, SQL_turn_weighted), 0, 0) != 0;
    take_priority(d, found);
    return true;
}

bool my_admit_turns(claiming *k, int want)
{
    dealing d = {.k = k, .want = want, .priority = INT32_MIN};
    bool found = false, good = lock_turn(&d, &found);
    write_types(&d);
    while (good && found && my_claim_room(k, want) > 0) {
        for (bool again = true; good && again;) good = deal_once(&d, &again);
        if (good && (my_claim_room(k, want) > 0 || !k->wants[want].more)) good = next_priority(&d, &found);
    }
    if (good && found) k->wants[want].more = true;
    buf_done(&d.types);
    return good;
}
