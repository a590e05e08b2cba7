/* A write transaction: mutex, turn, BEGIN IMMEDIATE ... COMMIT, bell.
 *
 * Lock order: write_lock of the handle, the turn in the sidecar, SQLite's writer lock. An error before COMMIT rolls back:
 * nothing happened. An error of COMMIT itself is an unknown outcome, because frames may be in the WAL; the receipt tells when
 * the batch comes again.
 */
#include "base/error.h"
#include "base/idgen.h"
#include "store/sqlite/place.h"

static pawl_status no_turn(sqlite_store *s, const char *what, pawl_error *err)
{
    pthread_mutex_unlock(&s->write_lock);
    return err_set(err, PAWL_UNAVAILABLE, "could not %s \"%s\": other processes were writing to it for %lld ms; try again", what,
                   s->path, (long long)(s->lock_wait_us / 1000));
}

static void leave(sqlite_store *s)
{
    sidecar_end_turn(&s->side);
    pthread_mutex_unlock(&s->write_lock);
}

static void roll_back(conn *c)
{
    conn_roll_back(c);
    names_clear(&c->names);
    known_clear(c);
}

/* Another process may have migrated the store since the last look. */
static pawl_status check_schema(sqlite_store *s, pawl_error *err)
{
    conn *c = &s->writer;
    if (!conn_version_moved(c) || CANARY(SCHEMA_UNSEEN)) return PAWL_OK;
    atomic_store(&s->seen_version, c->version);
    s->gate = s->bounded = -1;
    pawl_status status = migrate_check(c, s->path, err);
    if (status) c->version = -1; /* look again next time */
    return status;
}

pawl_status tx_begin(sqlite_store *s, tx *t, const char *what, pawl_error *err)
{
    if (s->read_only) return err_set(err, PAWL_DENIED, "cannot %s \"%s\": the store was opened read-only", what, s->path);
    pthread_mutex_lock(&s->write_lock);
    conn *c = &s->writer;
    conn_clear(c);
    c->busy_until_us = mono_us() + s->lock_wait_us;
    if (!sidecar_take_turn(&s->side, c->busy_until_us)) return no_turn(s, what, err);
    names_trim(&c->names);
    conn_roll_back(c); /* what could not be rolled back when it should have been */
    query_on(c, SQL_rollback);
    query q = query_on(c, SQL_begin);
    pawl_status status = query_run(&q) ? check_schema(s, err) : conn_fail(c, what, s->path, err);
    if (status == PAWL_OK && c->rc) status = conn_fail(c, what, s->path, err);
    if (status) {
        roll_back(c);
        leave(s);
        return status;
    }
    tally_reset(&s->tally);
    *t = (tx){.s = s, .c = c, .t = &s->tally};
    if (s->gate < 0) s->gate = gate_mode(c);
    t->gate = s->gate;
    if (s->bounded < 0) s->bounded = places_any(c);
    t->bounded = s->bounded > 0;
    t->now_us = s->clock.wall_us(s->clock.ctx);
    t->boot_us = CANARY(EXPIRY_BY_WALL) ? t->now_us : s->clock.boot_us(s->clock.ctx);
    return PAWL_OK;
}

pawl_status tx_abort(tx *t, const char *what, pawl_error *err)
{
    sqlite_store *s = t->s;
    pawl_status status = t->c->rc ? conn_fail(t->c, what, s->path, err) : PAWL_OK;
    quota_forget(t);
    places_forget(t);
    s->bounded = -1;
    roll_back(t->c);
    leave(s);
    return status;
}

bool tx_flush(tx *t)
{
    if (t->bounded) places_flush(t);
    if (t->id_drawn) meta_put(t->c, "last_id", t->last_id);
    tally_flush(t);
    quota_flush(t);
    return t->c->rc == SQLITE_OK;
}

static pawl_status commit_failed(tx *t, const char *what, pawl_error *err)
{
    if ((t->c->rc & 0xff) == SQLITE_BUSY || CANARY(COMMIT_DENIED)) return tx_abort(t, what, err);
    err_set(err, PAWL_UNKNOWN,
            "could not %s \"%s\": the commit failed (%s), and whether it took effect shows when it is repeated", what, t->s->path,
            t->c->why);
    t->s->bounded = -1;
    roll_back(t->c);
    leave(t->s);
    return PAWL_UNKNOWN;
}

pawl_status tx_commit(tx *t, const char *what, bool wake, pawl_error *err)
{
    sqlite_store *s = t->s;
    if (!tx_flush(t)) return tx_abort(t, what, err);
    query q = query_on(t->c, SQL_commit);
    if (!q.st) return tx_abort(t, what, err);
    if (!query_run(&q)) return commit_failed(t, what, err);
    if ((wake || t->unblocked) && !sidecar_alone(&s->side) && !CANARY(WAL_ONLY)) sidecar_touch(&s->side);
    ckpt_after_commit(s);
    leave(s);
    return PAWL_OK;
}

void tx_node(tx *t, int64_t node)
{
    t->node = node;
    if (node == 0) return;
    query q = query_on(t->c, SQL_node_life);
    put_int(&q, node);
    if (query_row(&q)) {
        int64_t alive = get_int(&q);
        t->alive = alive == 1;
        t->known = alive >= 0;
        t->lease_us = get_int(&q);
    }
    query_end(&q);
}

/* ---- facts about the store ----------------------------------------------------------------------------------------------- */

int64_t meta_int(conn *c, const char *key, int64_t nothing)
{
    query q = query_on(c, SQL_meta_get);
    put_text(&q, key);
    int64_t value = query_row(&q) ? get_int(&q) : nothing;
    query_end(&q);
    return value;
}

void meta_put(conn *c, const char *key, int64_t value)
{
    query q = query_on(c, SQL_meta_put);
    put_text(&q, key);
    put_int(&q, value);
    query_run(&q);
}

/* Ids of number 0 are drawn inside the transaction, so they need no owner and no ceiling. They never go back either. */
pawl_id tx_draw_id(tx *t)
{
    if (!t->last_id) t->last_id = meta_int(t->c, "last_id", 0);
    int64_t now_ms = t->now_us / 1000 - PAWL_EPOCH_MS, last_ms = id_ms(t->last_id);
    int sequence = (int)(t->last_id & ID_SEQUENCE_MAX) + 1;
    if (now_ms > last_ms) t->last_id = id_make(now_ms, 0, 1);
    else if (sequence > ID_SEQUENCE_MAX) t->last_id = id_make(last_ms + 1, 0, 0);
    else t->last_id = id_make(last_ms, 0, sequence);
    t->id_drawn = true;
    return t->last_id;
}
