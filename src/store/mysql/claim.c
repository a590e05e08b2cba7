/* claim: first one message that asks what there is: news, lanes of the ready index, what is due in them. If nothing is due that was all,
 * and nothing was written. Otherwise a transaction locks what is due (what others have locked is skipped), leases it and commits.
 *
 * The transaction carries a time of the server's past which it fails, so that a claim that was given up takes no effect later. The
 * leases are granted once the server has committed; if there is no memory for the bodies then, they are given back at once.
 */
#include "store/mysql/claim.h"
#include "base/alloc.h"
#include "base/error.h"

#define CHANGES 5 /* of the limits, while it claims */

static const char what[] = "claim tasks in";

/* ---- what is wanted ------------------------------------------------------------------------------------------------------ */

static bool fetch_names(claiming *k)
{
    size_t room = 1;
    const pawl_claim *call = k->call;
    for (int i = 0; i < call->wants_count; i++) room += 1 + (size_t)call->wants[i].types_count;
    const char **texts = pawl_arena_alloc(k->arena, room * sizeof *texts);
    int32_t *types = pawl_arena_alloc(k->arena, room * sizeof *types);
    int count = 0;
    if (!texts || !types) {
        my_conn_no_memory(k->c);
        return false;
    }
    for (int i = 0; i < call->wants_count; i++) {
        texts[count++] = call->wants[i].queue;
        for (int t = 0; t < call->wants[i].types_count && !call->wants[i].any_type; t++) texts[count++] = call->wants[i].types[t];
    }
    if (!my_names_fetch(&k->s->names, k->c, texts, count)) return false;
    interned_open(&k->s->names);
    for (int i = 0; i < call->wants_count; i++) {
        wanted *w = &k->wants[i];
        w->queue_id = interned_id(&k->s->names, call->wants[i].queue);
        w->types = types;
        w->types_count = call->wants[i].any_type ? 0 : call->wants[i].types_count;
        for (int t = 0; t < w->types_count; t++) *types++ = interned_id(&k->s->names, call->wants[i].types[t]);
    }
    interned_close(&k->s->names);
    return true;
}

static bool knows_type(const claiming *k, int want, int64_t lane)
{
    const wanted *w = &k->wants[want];
    if (k->call->wants[want].any_type) return true;
    for (int t = 0; t < w->types_count; t++)
        if (w->types[t] == (int32_t)(lane & 4294967295)) return true;
    return false;
}

/* ---- what there is ------------------------------------------------------------------------------------------------------- */

/* Between two known lanes, or before the first, or behind the last. */
static void add_gaps(claiming *k, int want)
{
    const wanted *w = &k->wants[want];
    for (int i = 0; i <= w->lanes_count; i++) {
        int64_t after = i ? w->lanes[i - 1].at.lane : -1, before = i < w->lanes_count ? w->lanes[i].at.lane : INT64_MAX;
        if (before == after + 1) continue;
        my_put_int(k->c, w->queue_id);
        my_put_int(k->c, after);
        my_put_int(k->c, before);
        my_put_int(k->c, want);
        my_add(k->c, SQL_lane_after);
    }
}

static void add_probes(claiming *k, int want)
{
    wanted *w = &k->wants[want];
    for (int i = 0; i < w->lanes_count; i++) {
        lane_state *l = &w->lanes[i];
        l->wanted = knows_type(k, want, l->at.lane);
        l->due_us = l->next_us = -1;
        if (!l->wanted) continue;
        my_put_int(k->c, w->queue_id);
        my_put_int(k->c, l->at.lane);
        my_put_int(k->c, l->at.from_us);
        my_put_int(k->c, (int64_t)want << 32 | i);
        my_add(k->c, SQL_lane_due);
        my_put_int(k->c, w->queue_id);
        my_put_int(k->c, l->at.lane);
        my_put_int(k->c, (int64_t)want << 32 | i);
        my_add(k->c, SQL_lane_next);
    }
}

static void add_shared(claiming *k, int want)
{
    wanted *w = &k->wants[want];
    w->turns = my_bound_known(&k->limits, PAWL_SCOPE_TENANTS, w->queue_id);
    w->shared_due = w->shared_next = -1;
    if (!w->turns) return;
    my_put_int(k->c, w->queue_id);
    my_put_int(k->c, want);
    my_add(k->c, SQL_shared_look);
}

static void take_shared(claiming *k)
{
    EACH_ANSWER(a, k->c, SQL_shared_look)
    if (a->rows > 0) {
        wanted *w = &k->wants[get_int(a, 0, 0)];
        if (!get_null(a, 0, 1)) w->shared_due = get_int(a, 0, 1);
        if (!get_null(a, 0, 2)) w->shared_next = get_int(a, 0, 2);
    }
}

static void add_look(claiming *k)
{
    const pawl_clock *test = my_test_clock(k->s);
    conn *c = k->c;
    my_script(c);
    my_add(c, SQL_server_now);
    my_put_int_or_null(c, test ? test->wall_us(test->ctx) : 0, 0);
    my_add(c, SQL_claim_now);
    my_put_int(c, k->call->node);
    my_add(c, SQL_life);
    my_add_news(c, k->call->node, k->limits.schedules, k->limits.families);
    if (k->call->wants_count) my_add(c, SQL_paused);
    for (int i = 0; i < k->call->wants_count; i++) {
        add_gaps(k, i);
        add_probes(k, i);
        add_shared(k, i);
    }
}

static int compare_lanes(const void *a, const void *b)
{
    const lane_state *x = a, *y = b;
    return x->at.lane < y->at.lane ? -1 : x->at.lane > y->at.lane;
}

/* Lanes that nobody knew of; *found: there are any. */
static bool take_new_lanes(claiming *k, int want, bool *found)
{
    wanted *w = &k->wants[want];
    int more = 0;
    EACH_ANSWER(a, k->c, SQL_lane_after) more += a->rows > 0 && get_int(a, 0, 0) == want;
    if (more == 0) return true;
    lane_state *lanes = pawl_arena_alloc(k->arena, (size_t)(w->lanes_count + more) * sizeof *lanes);
    if (!lanes) return false;
    memcpy(lanes, w->lanes, (size_t)w->lanes_count * sizeof *lanes);
    EACH_ANSWER(a, k->c, SQL_lane_after)
    if (a->rows > 0 && get_int(a, 0, 0) == want) lanes[w->lanes_count++] = (lane_state){.at = {get_int(a, 0, 1), 0}};
    qsort(lanes, (size_t)w->lanes_count, sizeof *lanes, compare_lanes);
    w->lanes = lanes;
    return *found = true;
}

static void take_times(claiming *k)
{
    for (int i = 0; i < k->c->answers_count; i++) {
        const answer *a = &k->c->answers[i];
        if ((a->which != SQL_lane_due && a->which != SQL_lane_next) || a->rows == 0) continue;
        int64_t tag = get_int(a, 0, 0);
        lane_state *l = &k->wants[tag >> 32].lanes[tag & 4294967295];
        if (a->which == SQL_lane_due) l->due_us = get_int(a, 0, 1);
        else l->next_us = get_int(a, 0, 1);
    }
}

static void take_paused(claiming *k)
{
    const answer *a = my_answer(k->c, SQL_paused);
    for (int i = 0; i < k->call->wants_count; i++) {
        k->wants[i].paused = false;
        for (int row = 0; row < a->rows; row++) k->wants[i].paused |= get_int(a, row, 0) == k->wants[i].queue_id;
    }
}

/* Asks until no lane comes up that was not asked for. */
static bool look(claiming *k)
{
    bool found = true, whole = true;
    while (found && whole) {
        found = false;
        add_look(k);
        if (!my_send(k->c, CALL_READS)) return false;
        for (int i = 0; i < k->call->wants_count && whole; i++) whole = take_new_lanes(k, i, &found);
    }
    if (!whole) {
        my_conn_no_memory(k->c);
        return false;
    }
    take_times(k);
    take_shared(k);
    take_paused(k);
    const answer *life = my_answer(k->c, SQL_life);
    k->alive = life->rows > 0 && get_int(life, 0, 0) == 1;
    k->at = my_instant(k->s, k->c);
    my_news_read(k->c, k->at, k->alive, &k->call->news);
    k->call->news.limits_version = get_int(my_answer(k->c, SQL_claim_now), 0, 1);
    return true;
}

static bool know_limits(claiming *k)
{
    if (my_limits_copy(k->s, k->arena, &k->limits)) return true;
    my_conn_no_memory(k->c);
    return false;
}

/* Looks by the limits that are in force. */
static bool look_by_limits(claiming *k)
{
    if (!know_limits(k) || !look(k)) return false;
    if (k->limits.version == k->call->news.limits_version) return true;
    return my_limits_fetch(k->s, k->c) && know_limits(k) && look(k);
}

static bool start(claiming *k)
{
    for (int i = 0; i < k->call->wants_count; i++) {
        wanted *w = &k->wants[i];
        ready_lane *known;
        int count = my_ready_lanes(&k->s->ready, w->queue_id, k->arena, &known, &w->chills);
        w->lanes = pawl_arena_alloc(k->arena, (size_t)(count + 1) * sizeof *w->lanes);
        if (!w->lanes) {
            my_conn_no_memory(k->c);
            return false;
        }
        /* A time that is not past any more: the clock went back. */
        int64_t latest_us = my_server_now(k->s) - CLAIM_SLACK_US;
        for (int n = 0; n < count; n++) {
            w->lanes[n] = (lane_state){.at = known[n]};
            if (known[n].from_us > latest_us) w->lanes[n].at.from_us = 0;
        }
        w->lanes_count = count;
    }
    return true;
}

/* ---- answers ------------------------------------------------------------------------------------------------------------- */

static void learn_lanes(claiming *k)
{
    for (int i = 0; i < k->call->wants_count; i++) {
        wanted *w = &k->wants[i];
        int count = 0;
        ready_lane *lanes = pawl_arena_alloc(k->arena, (size_t)(w->lanes_count + 1) * sizeof *lanes);
        for (int n = 0; lanes && n < w->lanes_count; n++) {
            const lane_state *l = &w->lanes[n];
            int64_t from_us = l->wanted && l->due_us < 0 ? k->at.now_us - CLAIM_SLACK_US : l->at.from_us;
            bool empty = l->wanted && l->due_us < 0 && l->next_us < 0;
            if (!empty || w->lanes_count <= LANES_KEPT) lanes[count++] = (ready_lane){l->at.lane, from_us};
        }
        if (lanes) my_ready_learn(&k->s->ready, w->queue_id, lanes, count, w->chills);
    }
}

static void answer_wants(claiming *k)
{
    for (int i = 0; i < k->call->wants_count; i++) {
        pawl_want *want = &k->call->wants[i];
        const wanted *w = &k->wants[i];
        bool paused = w->paused || k->call->news.closed, looked = k->alive && !paused;
        want->paused = k->alive && paused;
        want->more = looked && w->more;
        want->flooded = want->more && w->flooded;
        want->fair = looked && my_bound_on(&k->limits, PAWL_SCOPE_TENANTS, w->queue_id);
        want->next_due_us = looked && w->shared_next >= 0 ? w->shared_next : 0;
        for (int n = 0; looked && n < w->lanes_count; n++) {
            int64_t next_us = w->lanes[n].next_us;
            if (next_us >= 0 && (!want->next_due_us || next_us < want->next_due_us)) want->next_due_us = next_us;
        }
    }
}

void my_claim_clear(pawl_claim *call)
{
    for (int i = 0; i < call->tasks_count; i++) pawl_body_free(call->allocator, call->tasks[i].body);
    call->tasks_count = 0;
    for (int i = 0; i < call->wants_count; i++) {
        pawl_want *w = &call->wants[i];
        w->got = 0;
        w->next_due_us = 0;
        w->paused = w->more = w->flooded = w->fair = false;
    }
}

static bool anything_due(const claiming *k)
{
    for (int i = 0; i < k->call->wants_count && k->alive && !k->call->news.closed; i++) {
        if (k->wants[i].shared_due >= 0 && !k->wants[i].paused) return true;
        for (int n = 0; n < k->wants[i].lanes_count && !k->wants[i].paused; n++)
            if (k->wants[i].lanes[n].due_us >= 0) return true;
    }
    return false;
}

/* ---- the call ------------------------------------------------------------------------------------------------------------ */

static pawl_status claim(claiming *k, pawl_error *err)
{
    int tries = 0, changes = 0;
    if (!fetch_names(k) || !start(k)) return my_conn_fail(k->c, what, err);
    for (;;) {
        my_claim_clear(k->call);
        k->call->news.unblocked = false;
        bool good = look_by_limits(k), grants = good && anything_due(k);
        if (good && grants) good = my_claim_grant(k);
        if (good && grants && k->outdated && ++changes <= CHANGES) {
            if (my_limits_fetch(k->s, k->c)) continue;
            good = false;
        }
        if (!good && grants && k->c->code == ANSWER_NO_MEMORY) return my_claim_give_back(k, err);
        if (!good && my_call_again(k->c, &tries)) continue;
        if (!good) {
            my_ready_chill(&k->s->ready);
            return my_conn_fail(k->c, what, err);
        }
        answer_wants(k);
        learn_lanes(k);
        return grants ? my_claim_take(k, err) : PAWL_OK;
    }
}

pawl_status my_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    my_store *s = store_of(store);
    claiming k = {.s = s, .call = call, .arena = arena};
    call->tasks_count = 0;
    k.wants = pawl_arena_alloc(arena, (size_t)(call->wants_count + 1) * sizeof *k.wants);
    if (!k.wants) return err_set(err, PAWL_NO_MEMORY, "could not %s \"%s\": out of memory", what, s->link.url.name);
    k.c = my_store_take(s, WRITER);
    pawl_status status = claim(&k, err);
    my_store_give(s, k.c);
    return status;
}
