/* Nodes: birth and death, heartbeats, news of the others.
 *
 * A heartbeat counts microseconds since boot, so a stepped wall clock lets nobody die; one of another boot has lapsed. The
 * number of leases a node holds stands in its heartbeat row and moves with every transaction that grants or ends one, so
 * neither renewals nor claims count leases.
 *
 * A node lives as long as the handle it was registered with is open: the handle holds a lock in the sidecar, and the lock falls
 * when the process ends. A free lock proves death, but only in the sidecar file that the node was born with. Of a node whose leases
 * outlive its process the file's id is stored negative: the lock shows that it lives, and proves nothing about its leases.
 */
#include "base/error.h"
#include "base/text.h"
#include "store/sqlite/quota.h"
#include <stdio.h>
#include <string.h>

/* ---- who lives ----------------------------------------------------------------------------------------------------------- */

bool node_lapsed(const sqlite_store *s, const char *boot_id, int64_t expires_us, int64_t boot_us)
{
    return expires_us <= boot_us || !boot_id || strcmp(boot_id, s->clock.boot_id) != 0;
}

bool node_proven_dead(const sqlite_store *s, int64_t node, int64_t sidecar)
{
    return sidecar && (sidecar == sidecar_id(&s->side) || CANARY(SIDECAR_TRUSTED)) && sidecar_dead(&s->side, node);
}

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

static void node_store(tx *t, const pawl_registration *call, int64_t node)
{
    query q = query_on(t->c, SQL_node_add);
    put_int(&q, node);
    put_int(&q, name_id(t->c, call->name ? call->name : ""));
    put_int(&q, call->pid);
    put_text(&q, call->queues ? call->queues : "");
    put_text(&q, call->types ? call->types : "");
    put_int(&q, call->lease_us);
    put_int(&q, call->outlives ? -sidecar_id(&t->s->side) : sidecar_id(&t->s->side));
    put_int(&q, t->now_us);
    query_run(&q);
    q = query_on(t->c, SQL_heartbeat_add);
    put_int(&q, node);
    query_run(&q);
}

/* A served queue exists, so that people see it. */
static void queues_add(tx *t, const char *queues)
{
    char name[NAME_MAX_BYTES + 1];
    for (size_t len; queues && *queues; queues += len + (queues[len] == ',')) {
        len = strcspn(queues, ",");
        if (len == 0 || len >= sizeof name) continue;
        memcpy(name, queues, len);
        name[len] = '\0';
        query q = query_on(t->c, SQL_queue_exists);
        put_int(&q, name_id(t->c, name));
        query_run(&q);
    }
}

/* The life lock is taken before the commit: whoever can read the life row can see the lock. */
pawl_status sqlite_register_node(pawl_store *store, pawl_registration *call, pawl_error *err)
{
    static const char what[] = "register a node in";
    sqlite_store *s = (sqlite_store *)store;
    tx t;
    pawl_status status = tx_begin(s, &t, what, err);
    if (status) return status;
    int64_t node = meta_int(t.c, "last_node", 0) + 1;
    meta_put(t.c, "last_node", node);
    node_store(&t, call, node);
    queues_add(&t, call->queues);
    if (!t.c->rc && !sidecar_live(&s->side, node)) conn_note(t.c, SQLITE_IOERR_LOCK);
    status = t.c->rc ? tx_abort(&t, what, err) : tx_commit(&t, what, false, err);
    if (status == PAWL_OK) call->node = node;
    else sidecar_unlive(&s->side, node);
    return status;
}

void node_kill(tx *t, int64_t node, int blame)
{
    query q = query_on(t->c, SQL_node_kill);
    put_int(&q, t->now_us);
    put_int(&q, blame);
    put_int(&q, node);
    query_run(&q);
    q = query_on(t->c, SQL_node_number_free);
    put_int(&q, node);
    query_run(&q);
    q = query_on(t->c, SQL_untell);
    put_int(&q, node);
    query_run(&q);
}

void heartbeat_drop(tx *t, int64_t node)
{
    query q = query_on(t->c, SQL_heartbeat_drop);
    put_int(&q, node);
    query_run(&q);
}

static int64_t leases_of(conn *c, int64_t node)
{
    query q = query_on(c, SQL_heartbeat_get);
    put_int(&q, node);
    int64_t leases = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return leases;
}

pawl_status sqlite_leave(pawl_store *store, int64_t node, pawl_error *err)
{
    static const char what[] = "take a node out of";
    sqlite_store *s = (sqlite_store *)store;
    tx t;
    pawl_status status = tx_begin(s, &t, what, err);
    if (status) return status;
    bool gone = leases_of(t.c, node) == 0;
    tx_node(&t, node);
    if (gone && t.alive) {
        node_kill(&t, node, 0);
        heartbeat_drop(&t, node);
    }
    status = tx_commit(&t, what, false, err);
    if (status == PAWL_OK && gone) sidecar_unlive(&s->side, node);
    return status;
}

/* ---- draining ------------------------------------------------------------------------------------------------------------ */

pawl_status sqlite_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err)
{
    static const char what[] = "drain a node of";
    tx t;
    pawl_status status = tx_begin((sqlite_store *)store, &t, what, err);
    if (status) return status;
    tx_node(&t, node);
    bool lives = t.alive;
    query q = query_on(t.c, SQL_drain_tidy);
    query_run(&q);
    if (lives) {
        q = query_on(t.c, SQL_node_name);
        put_int(&q, node);
        char name[NAME_MAX_BYTES + 1] = "";
        if (query_row(&q)) snprintf(name, sizeof name, "%s", get_text(&q));
        query_end(&q);
        q = query_on(t.c, on ? SQL_drain_put : SQL_drain_drop);
        put_int(&q, node);
        query_run(&q);
        oplog_put(&t, by, on ? "drain" : "undrain", 0, name);
    }
    status = t.c->rc ? tx_abort(&t, what, err) : tx_commit(&t, what, lives, err);
    if (status || lives) return status;
    return err_set(err, PAWL_NOT_FOUND, "no node %lld lives", (long long)node);
}

/* ---- news ---------------------------------------------------------------------------------------------------------------- */

static void news_of_others(tx *t, pawl_news *news)
{
    query q = query_on(t->c, SQL_heartbeat_others);
    put_int(&q, t->node);
    while (query_row(&q)) {
        pawl_lapsed other = {.node = get_int(&q)};
        const char *boot_id = get_text(&q);
        int64_t expires_us = get_int(&q);
        bool lapsed = node_lapsed(t->s, boot_id, expires_us, t->boot_us);
        other.renewal = get_int(&q);
        bool alive = get_int(&q) == 1;
        int64_t sidecar = get_int(&q), left_us = lapsed ? 0 : expires_us - t->boot_us;
        if (alive && (news->foreign_expiry_us < 0 || left_us < news->foreign_expiry_us)) news->foreign_expiry_us = left_us;
        if (news->lapsed_count == PAWL_LAPSED_MAX) continue;
        other.proven_dead = !alive || node_proven_dead(t->s, other.node, sidecar);
        if (lapsed || other.proven_dead) news->lapsed[news->lapsed_count++] = other;
    }
}

static void news_of_cancels(tx *t, pawl_news *news)
{
    query q = query_on(t->c, SQL_cancel_list);
    put_int(&q, t->node);
    put_int(&q, PAWL_CANCELS_MAX);
    while (news->cancels_count < PAWL_CANCELS_MAX && query_row(&q)) {
        pawl_lease *lease = &news->cancels[news->cancels_count++];
        lease->id = get_int(&q);
        lease->fence = get_int(&q);
    }
    query_end(&q);
}

void node_news(tx *t, pawl_news *news)
{
    news->node_dead = t->node != 0 && !t->alive;
    news->closed = gate_shut(t);
    news->store_now_us = t->now_us;
    news->limits_version = quota_version(t);
    news->schedule_due_us = schedule_due(t);
    news->unsettled = family_unsettled(t);
    news->foreign_expiry_us = -1;
    news->lapsed_count = news->cancels_count = 0;
    news_of_others(t, news);
    if (t->node) news_of_cancels(t, news);
}

static void tell(tx *t, const pawl_renewal *call)
{
    query q = query_on(t->c, call->told.len ? SQL_tell : SQL_untell);
    put_int(&q, call->node);
    if (call->told.len) put_bytes(&q, call->told);
    query_run(&q);
}

pawl_status sqlite_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    static const char what[] = "renew the node's lease in";
    tx t;
    pawl_status status = tx_begin((sqlite_store *)store, &t, what, err);
    if (status) return status;
    tx_node(&t, call->node);
    call->held = leases_of(t.c, call->node);
    node_news(&t, &call->news);
    if (t.alive) {
        query q = query_on(t.c, SQL_heartbeat_beat);
        put_text(&q, t.s->clock.boot_id);
        put_int(&q, t.boot_us + t.lease_us);
        put_int(&q, 0);
        put_int(&q, call->node);
        query_run(&q);
        if (call->told.data) tell(&t, call);
    }
    return tx_commit(&t, what, false, err);
}

/* ---- what a node holds --------------------------------------------------------------------------------------------------- */

static void collect_held(tx *t, int64_t node, pawl_lease *leases, int *count, int room)
{
    query q = query_on(t->c, SQL_leased_by);
    put_int(&q, node);
    while (*count < room && query_row(&q)) {
        leases[*count].id = get_int(&q);
        leases[(*count)++].fence = get_int(&q);
    }
    query_end(&q);
}

pawl_status sqlite_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err)
{
    static const char what[] = "read the leases in";
    tx t;
    pawl_status status = tx_begin((sqlite_store *)store, &t, what, err);
    if (status) return status;
    int room = (int)leases_of(t.c, node), got = 0;
    pawl_lease *found = pawl_arena_alloc(arena, (size_t)(room + 1) * sizeof *found);
    if (!found) conn_note(t.c, SQLITE_NOMEM);
    else collect_held(&t, node, found, &got, room);
    status = tx_abort(&t, what, err);
    if (status == PAWL_OK) {
        *leases = found;
        *count = got;
    }
    return status;
}
