/* Nodes: birth and death, heartbeats, what they hold, numbers for ids, rescue.
 *
 * A handle remembers the nodes that were registered through it: it holds their session locks (watch.c), and says so when it closes. A
 * session lock that is free proves nothing here: connections break without anybody dying.
 */
#include "base/error.h"
#include "base/idgen.h"
#include "store/postgres/inner.h"

/* ---- birth and death ----------------------------------------------------------------------------------------------------- */

/* With more than there is room for the oldest is forgotten: it has been dead for long. */
static void remember(pg_store *s, int32_t node)
{
    pthread_mutex_lock(&s->lock);
    s->nodes[s->nodes_count++ % NODES_MAX] = node;
    pthread_mutex_unlock(&s->lock);
}

#define QUEUES_MAX 256

/* Begins the call: the numbers of the queues that a node serves, as one array. */
static bool put_queue_ids(pg_store *s, conn *c, const char *queues, char *room, size_t size)
{
    const char *texts[QUEUES_MAX];
    int count = 0;
    if (strlen(queues) >= size) queues = "";
    strcpy(room, queues);
    for (char *at = room, *next; at && *at && count < QUEUES_MAX; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        if (*at) texts[count++] = at;
    }
    if (!pg_names_fetch(&s->names, c, texts, count)) return false;
    params *p = &c->params;
    pg_params_begin(p);
    pg_params_call(s, p);
    interned_open(&s->names);
    pg_array_begin(p, OID_INT4);
    for (int i = 0; i < count; i++) array_int4(p, interned_id(&s->names, texts[i]));
    pg_array_end(p);
    interned_close(&s->names);
    return true;
}

static PGresult *send_registration(pg_store *s, conn *c, const pawl_registration *call)
{
    char room[32768];
    const char *queues = call->queues ? call->queues : "";
    if (!put_queue_ids(s, c, queues, room, sizeof room)) return NULL;
    params *p = &c->params;
    pg_param_text(p, call->name ? call->name : "");
    pg_param_int8(p, call->pid);
    pg_param_text(p, queues);
    pg_param_text(p, call->types ? call->types : "");
    pg_param_int8(p, call->lease_us);
    pg_param_bool(p, !s->link.url.proxy);
    return pg_conn_call(c, SQL_register_node, CALL_WRITES);
}

pawl_status pg_register_node(pawl_store *store, pawl_registration *call, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    PGresult *r = send_registration(s, c, call);
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "register a node in", err);
    if (r) call->node = pg_get_int(r, 0, 0);
    PQclear(r);
    pg_store_give(s, c);
    if (status) return status;
    remember(s, (int32_t)call->node);
    if (!s->link.url.proxy && !pg_watch_live(s, (int32_t)call->node))
        pg_store_log(s, PAWL_WARN, "the lock that shows that this node lives could not be taken yet");
    return PAWL_OK;
}

static PGresult *send_leave(pg_store *s, conn *c, const int32_t *nodes, int count, bool gone)
{
    params *p = &c->params;
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_array_begin(p, OID_INT4);
    for (int i = 0; i < count; i++) array_int4(p, nodes[i]);
    pg_array_end(p);
    pg_param_bool(p, gone);
    return pg_conn_call(c, SQL_leave, CALL_WRITES);
}

pawl_status pg_leave(pawl_store *store, int64_t node, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    PGresult *r = send_leave(s, c, &(int32_t){(int32_t)node}, 1, false);
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "take a node out of", err);
    PQclear(r);
    pg_store_give(s, c);
    return status;
}

void pg_nodes_gone(pg_store *s)
{
    int32_t nodes[NODES_MAX];
    int count = 0;
    for (int i = 0; i < NODES_MAX; i++)
        if (s->nodes[i]) nodes[count++] = s->nodes[i];
    if (count == 0) return;
    conn *c = pg_store_take(s, WRITER);
    PQclear(send_leave(s, c, nodes, count, true));
    pg_store_give(s, c);
}

/* ---- renewals and what a node holds -------------------------------------------------------------------------------------- */

/* Behind a proxy nothing else shows that an idle node lives. */
bool pg_node_seen_due(pg_store *s) { return s->link.url.proxy && pg_watch_polled(s); }

pawl_status pg_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, RENEWER);
    params *p = &c->params;
    PGresult *r;
    int tries = 0;
    do {
        pg_params_begin(p);
        pg_params_call(s, p);
        pg_param_int4(p, (int32_t)call->node);
        pg_param_int8(p, s->clock.wall_us(s->clock.ctx));
        if (call->told.data) pg_param_bytes(p, call->told.data, call->told.len);
        else pg_param_null(p);
        r = pg_conn_call(c, SQL_renew, CALL_WRITES);
    } while (!r && pg_call_again(s, c, &tries));
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "renew the node's lease in", err);
    if (r) {
        call->held = pg_get_int(r, 0, 1);
        pg_news_read(s, call->node, pg_get_text(r, 0, 2), pg_get_int(r, 0, 0), &call->news);
        if (!postgres_test_clock) pg_server_seen(s, pg_get_int(r, 0, 0));
    }
    PQclear(r);
    pg_store_give(s, c);
    return status;
}

pawl_status pg_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    pg_params_begin(&c->params);
    pg_param_int4(&c->params, (int32_t)node);
    PGresult *r = pg_conn_call(c, SQL_held, CALL_READS);
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "read the leases in", err);
    int rows = r ? PQntuples(r) : 0;
    pawl_lease *found = pawl_arena_alloc(arena, (size_t)(rows + 1) * sizeof *found);
    if (r && !found)
        status = err_set(err, PAWL_NO_MEMORY, "could not read the leases in \"%s\": out of memory", s->link.url.name);
    for (int i = 0; found && i < rows; i++) found[i] = (pawl_lease){pg_get_int(r, i, 0), pg_get_int(r, i, 1)};
    if (!status) {
        *leases = found;
        *count = rows;
    }
    PQclear(r);
    pg_store_give(s, c);
    return status;
}

/* ---- numbers for ids ----------------------------------------------------------------------------------------------------- */

static void put_ids(pg_store *s, params *p, const pawl_ids *call)
{
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_param_int4(p, (int32_t)call->node);
    pg_param_int4(p, call->number);
    pg_param_int8(p, call->ahead_ms);
    pg_param_int8(p, call->used_ms);
    pg_param_bool(p, call->give_back);
}

static pawl_status read_ids(const pg_store *s, const PGresult *r, pawl_ids *call, pawl_error *err)
{
    call->out_number = (int)pg_get_int(r, 0, 0);
    call->floor_ms = pg_get_int(r, 0, 1);
    call->ceiling_ms = pg_get_int(r, 0, 2);
    if (call->out_number || call->give_back) return PAWL_OK;
    return err_set(
        err, PAWL_UNAVAILABLE,
        "could not take ids from \"%s\": all %d node numbers are in use; one becomes free when a process stops, or ten "
        "minutes after it was last used",
        s->link.url.name, ID_NUMBER_MAX);
}

pawl_status pg_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    PGresult *r;
    int tries = 0;
    do {
        put_ids(s, &c->params, call);
        r = pg_conn_call(c, SQL_take_number, CALL_WRITES);
    } while (!r && pg_call_again(s, c, &tries));
    pawl_status status = r ? read_ids(s, r, call, err) : pg_conn_fail(c, "take ids from", err);
    PQclear(r);
    pg_store_give(s, c);
    return status;
}

/* ---- rescue -------------------------------------------------------------------------------------------------------------- */

static void put_rescue(pg_store *s, params *p, const pawl_rescue *call)
{
    int64_t now_us = postgres_test_clock ? 0 : pg_server_now(s);
    pg_params_begin(p);
    pg_params_call(s, p);
    if (now_us) pg_param_int8(p, now_us + s->lease_us / 4);
    else pg_param_null(p);
    pg_param_int4(p, (int32_t)call->node);
    pg_param_int4(p, (int32_t)call->victim);
    pg_param_int8(p, call->renewal);
    pg_param_bool(p, call->counts);
    pg_param_int4(p, call->limit);
}

static void read_rescue(const PGresult *r, pawl_rescue *call)
{
    call->refused = pg_get_truth(r, 0, 0);
    call->freed = (int)pg_get_int(r, 0, 1);
    call->failed = (int)pg_get_int(r, 0, 2);
    call->more = pg_get_truth(r, 0, 3);
    int count = 0;
    for (const char *at = pg_get_text(r, 0, 4); at && *at && count < call->limit; at += *at == ';') {
        pawl_lease *l = &call->tasks[count];
        if ((at = pg_number_read(at, &l->id)) && (at = pg_number_read(at, &l->fence))) count++;
        if (!at) break;
    }
}

pawl_status pg_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    PGresult *r;
    int tries = 0;
    call->refused = call->more = false;
    call->freed = call->failed = 0;
    do {
        put_rescue(s, &c->params, call);
        r = pg_conn_call(c, SQL_rescue, CALL_WRITES);
    } while (!r && pg_call_again(s, c, &tries));
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "rescue tasks in", err);
    if (r) {
        read_rescue(r, call);
        if (call->freed + call->failed > 0) pg_watch_tell(s, c, pg_get_text(r, 0, 5), true);
    }
    PQclear(r);
    pg_store_give(s, c);
    return status;
}
