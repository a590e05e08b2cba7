#include "support.h"
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_US INT64_C(1800000000000000)

int place_new(void **state)
{
    const char *tmp = getenv("TMPDIR");
    place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    snprintf(p->dir, sizeof p->dir, "%s/pawl-sqlite-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof p->path, "%s/tasks.db", p->dir);
    snprintf(p->url, sizeof p->url, "sqlite:%s", p->path);
    p->clock = (virtual_clock){.now_us = START_US, .boot_us = 1000 * PAWL_SECOND};
    p->arena = arena_new(alloc_default(), 0);
    p->last_id = (START_US / 1000 - PAWL_EPOCH_MS) << 22 | 7 << 12;
    *state = p;
    return 0;
}

int place_free(void **state)
{
    place *p = *state;
    char command[400];
    snprintf(command, sizeof command, "chmod -R u+w '%s'; rm -rf '%s'", p->dir, p->dir);
    int failed = system(command);
    arena_free(p->arena);
    free(p);
    return failed;
}

static void ignore(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

pawl_store_options options_of(place *p)
{
    return (pawl_store_options){.url = p->url,
                                .lease_us = LEASE,
                                .lock_wait_us = 2 * PAWL_SECOND,
                                .clock = clock_virtual(&p->clock),
                                .allocator = alloc_default(),
                                .log = ignore};
}

static pawl_store *open_with(place *p, bool shared)
{
    pawl_store_options o = options_of(p);
    pawl_store *store = NULL;
    o.shared_file = shared;
    assert_ok(p, store_open(&o, &store, &p->err));
    return store;
}

pawl_store *open_store(place *p) { return open_with(p, false); }
pawl_store *open_shared(place *p) { return open_with(p, true); }

pawl_status try_open(place *p, const pawl_store_options *o)
{
    pawl_store *store = NULL;
    p->err = (pawl_error){0};
    pawl_status status = store_open(o, &store, &p->err);
    store_close(store);
    return status;
}

/* ---- calls --------------------------------------------------------------------------------------------------------------- */

int64_t join(place *p, pawl_store *store)
{
    pawl_registration call = {.name = "node", .pid = 1, .queues = "q", .types = "*", .lease_us = LEASE};
    assert_ok(p, store->type->register_node(store, &call, &p->err));
    return call.node;
}

pawl_id new_id(place *p) { return ++p->last_id; }

static pawl_op *op_new(place *p, pawl_op_kind kind, pawl_id id)
{
    pawl_op *op = pawl_arena_alloc(p->arena, sizeof *op);
    assert_non_null(op);
    op->kind = kind;
    op->id = id;
    op->audit = PAWL_AUDIT_FULL;
    return op;
}

pawl_op *insert_op(place *p, const char *key)
{
    pawl_op *op = op_new(p, PAWL_OP_INSERT, new_id(p));
    pawl_body *body = pawl_arena_alloc(p->arena, sizeof *body);
    assert_non_null(body);
    *body = (pawl_body){.id = op->id, .type = "t", .queue = "q", .tenant = "", .key = key, .payload = {"{}", 2}};
    op->u.insert.body = body;
    return op;
}

pawl_op *finish_op(place *p, pawl_id id, int64_t fence)
{
    pawl_op *op = op_new(p, PAWL_OP_FINISH, id);
    op->fence = fence;
    op->u.finish.to = PAWL_SUCCEEDED;
    op->u.finish.run = (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED,
                                        .number = 1,
                                        .started_us = p->clock.now_us,
                                        .finished_us = p->clock.now_us + 1000,
                                        .progress = -1};
    return op;
}

pawl_status apply_one(place *p, pawl_store *store, int64_t node, int64_t number, pawl_op *op)
{
    pawl_batch batch = {.node = node, .number = number, .ops = &op, .count = 1};
    p->err = (pawl_error){0};
    return store->type->apply(store, &batch, p->arena, &p->err);
}

pawl_id insert_one(place *p, pawl_store *store)
{
    pawl_op *op = insert_op(p, NULL);
    assert_ok(p, apply_one(p, store, 0, 0, op));
    assert_int_equal(op->result, PAWL_OP_DONE);
    return op->out_id;
}

int claim_some(place *p, pawl_store *store, int64_t node, int count, pawl_claimed *tasks, pawl_news *news)
{
    pawl_want want = {.queue = "q", .free = count, .any_type = true, .solo = true};
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    assert_ok(p, store->type->claim(store, &call, p->arena, &p->err));
    if (news) *news = call.news;
    return call.tasks_count;
}

void free_bodies(pawl_claimed *tasks, int count)
{
    for (int i = 0; i < count; i++) pawl_body_free(alloc_default(), tasks[i].body);
}

pawl_state state_of(place *p, pawl_store *store, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_STATE, .id = id};
    pawl_status status = store_read(store, &query, p->arena, &p->err);
    if (status == PAWL_NOT_FOUND) return PAWL_STATE_NONE;
    assert_ok(p, status);
    return query.state;
}

/* ---- the host program ---------------------------------------------------------------------------------------------------- */

sqlite3 *host_open(place *p)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    sqlite3_wal_autocheckpoint(db, 0);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return db;
}

void host_exec(sqlite3 *db, const char *sql)
{
    char *said = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &said) != SQLITE_OK) fail_msg("%s: %s", sql, said ? said : sqlite3_errmsg(db));
}

int64_t host_int(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return value;
}

/* ---- another process ----------------------------------------------------------------------------------------------------- */

static void be_child(place *p, void (*act)(place *p, int said), int go, int said)
{
    char byte;
    if (read(go, &byte, 1) != 1) _exit(0); /* never told to */
    act(p, said);
    _exit(0);
}

child child_new(place *p, void (*act)(place *p, int said))
{
    int go[2], said[2];
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(said), 0);
    child c = {.pid = fork(), .go = go[1], .said = said[0]};
    if (c.pid == 0) {
        close(go[1]);
        close(said[0]);
        be_child(p, act, go[0], said[1]);
    }
    close(go[0]);
    close(said[1]);
    return c;
}

void child_go(child *c) { assert_int_equal(write(c->go, "", 1), 1); }

void child_say(int said, int64_t what)
{
    if (write(said, &what, sizeof what) != sizeof what) _exit(1);
}

int64_t child_hear(child *c)
{
    int64_t what = 0;
    assert_int_equal(read(c->said, &what, sizeof what), sizeof what);
    return what;
}

static int end(child *c)
{
    int code;
    assert_int_equal(waitpid(c->pid, &code, 0), c->pid);
    close(c->go);
    close(c->said);
    return code;
}

void child_wait(child *c) { assert_int_equal(end(c), 0); }

void child_kill(child *c)
{
    kill(c->pid, SIGKILL);
    end(c);
}
