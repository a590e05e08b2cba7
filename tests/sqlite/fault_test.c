/* A disk that fails at every step: an error is never an acknowledgement, and nothing is half written.
 *
 * The n-th write or sync fails, once or for good, with an I/O error or a full disk, for n = 1, 2, 3 ... up to more than a call
 * needs. After each failure the call is made again as an engine would make it.
 */
#include "faults/disk.h"
#include "support.h"
#include <stdio.h>

static const struct {
    int rc;
    bool for_good;
} kinds[] = {{SQLITE_IOERR_WRITE, false}, {SQLITE_IOERR_WRITE, true}, {SQLITE_FULL, false}, {SQLITE_FULL, true}};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))
#define STEPS 30

/* The n-th write, truncation or sync from now on; 0: none. */
static void disk_fails(int at, int rc, bool for_good)
{
    disk_kinds = DISK_WRITE | DISK_TRUNCATE | DISK_SYNC;
    disk_rc = rc;
    fault_arm(&disk_fault, at, for_good);
}

static bool may_be_answered(pawl_status status) { return status == PAWL_UNAVAILABLE || status == PAWL_UNKNOWN; }

static void check_integrity(place *p)
{
    sqlite3 *db = host_open(p);
    sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
    sqlite3_close(db);
}

/* The counters must say what the tables hold. */
static void check_counters(place *p)
{
    sqlite3 *db = host_open(p);
    assert_int_equal(host_int(db, "SELECT coalesce(sum(pending), 0) FROM pawl_queue"),
                     host_int(db, "SELECT count(*) FROM pawl_live"));
    assert_int_equal(host_int(db, "SELECT coalesce(sum(leased), 0) FROM pawl_queue"),
                     host_int(db, "SELECT count(*) FROM pawl_leased"));
    assert_int_equal(host_int(db, "SELECT coalesce(sum(leases), 0) FROM pawl_heartbeat"),
                     host_int(db, "SELECT count(*) FROM pawl_leased"));
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_body"),
                     host_int(db, "SELECT (SELECT count(*) FROM pawl_live) + (SELECT count(*) FROM pawl_leased) +"
                                  "(SELECT count(*) FROM pawl_done) + (SELECT count(*) FROM pawl_failed)"));
    sqlite3_close(db);
}

typedef struct outcomes {
    int unavailable, unknown;
} outcomes;

/* One batch: a new leased task and the end of the one before. Sent again until it is answered. */
static pawl_id send(place *p, pawl_store *s, int64_t node, int64_t number, pawl_id before, outcomes *seen)
{
    pawl_op *ops[2] = {insert_op(p, NULL), before ? finish_op(p, before, 1) : NULL};
    ops[0]->u.insert.ask_lease = true;
    pawl_batch batch = {.node = node, .number = number, .ops = ops, .count = before ? 2 : 1};
    pawl_status status = s->type->apply(s, &batch, p->arena, &p->err);
    if (status && !may_be_answered(status)) fail_msg("%s: %s", pawl_status_name(status), p->err.message);
    seen->unavailable += status == PAWL_UNAVAILABLE;
    seen->unknown += status == PAWL_UNKNOWN;
    fault_disarm(&disk_fault);
    if (status) assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
    assert_int_equal(ops[0]->result, PAWL_OP_DONE);
    assert_int_equal(ops[0]->out_fence, 1);
    if (before) assert_int_equal(ops[1]->result, PAWL_OP_DONE); /* and not STALE: it was not applied twice */
    assert_int_equal(state_of(p, s, ops[0]->id), PAWL_LEASED);
    if (before) assert_int_equal(state_of(p, s, before), PAWL_SUCCEEDED);
    return ops[0]->id;
}

/* How many batches were sent. */
static int64_t send_batches(place *p, outcomes *seen)
{
    pawl_store *s = open_store(p);
    int64_t node = join(p, s), number = 0;
    pawl_id last = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int at = 1; at <= STEPS; at++) {
            inside(s)->ckpt.limit = at % 2 ? 3 : 1000; /* with and without a checkpoint behind the commit */
            disk_fails(at, kinds[kind].rc, kinds[kind].for_good);
            last = send(p, s, node, ++number, last, seen);
        }
    }
    store_close(s);
    return number;
}

/* A batch is written in a few calls, or on a disk that may tear sectors in many. */
static void batches_on_a_failing_disk(void **state)
{
    place *p = *state;
    int64_t sent = 0;
    outcomes seen = {0};
    for (int tears = 0; tears < 2; tears++) {
        disk_tears = tears;
        sent += send_batches(p, &seen);
        assert_true(seen.unavailable + seen.unknown >= (tears ? 40 : 4));
        assert_true(seen.unknown > 0); /* a failed commit is not taken for a failure */
    }
    disk_tears = false;
    check_integrity(p);
    check_counters(p);
    sqlite3 *db = host_open(p);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_body"), sent);
    sqlite3_close(db);
}

static int held(place *p, pawl_store *s, int64_t node)
{
    pawl_lease *leases;
    int count;
    assert_ok(p, s->type->held(s, node, &leases, &count, p->arena, &p->err));
    return count;
}

/* A claim that failed granted nothing; one whose outcome is unknown granted all or nothing. */
static void claims_on_a_failing_disk(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    for (int i = 0; i < 60; i++) insert_one(p, s);
    int before = 0;
    for (int at = 1; at <= 12; at++) {
        pawl_claimed tasks[3];
        pawl_want want = {.queue = "q", .free = 3, .any_type = true};
        pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
        disk_fails(at, SQLITE_IOERR_WRITE, false);
        pawl_status status = s->type->claim(s, &call, p->arena, &p->err);
        fault_disarm(&disk_fault);
        int now = held(p, s, node);
        if (status == PAWL_OK) assert_int_equal(now, before + 3);
        else if (status == PAWL_UNKNOWN) assert_true(now == before || now == before + 3);
        else {
            assert_int_equal(status, PAWL_UNAVAILABLE);
            assert_int_equal(now, before);
        }
        if (status) assert_int_equal(call.tasks_count, 0);
        free_bodies(tasks, call.tasks_count);
        before = now;
    }
    store_close(s);
    check_integrity(p);
    check_counters(p);
}

/* What one row cannot hold is refused; the rest of the batch is stored, and a batch that comes again gets the same answers. */
static void a_row_too_large_is_refused_alone(void **state)
{
    place *p = *state;
    static char payload[50000];
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    pawl_op *ops[4];
    for (int i = 0; i < 4; i++) ops[i] = insert_op(p, NULL);
    ops[1]->u.insert.body->payload = ops[3]->u.insert.body->payload = (pawl_bytes){payload, sizeof payload};
    sqlite3_limit(inside(s)->writer.db, SQLITE_LIMIT_LENGTH, 20000);
    pawl_batch batch = {.node = node, .number = 1, .ops = ops, .count = 4};
    for (int again = 0; again < 2; again++) {
        assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
        for (int i = 0; i < 4; i++) assert_int_equal(ops[i]->result, i % 2 ? PAWL_OP_REFUSED : PAWL_OP_DONE);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(state_of(p, s, ops[i]->id), i % 2 ? PAWL_STATE_NONE : PAWL_PENDING);
    store_close(s);
    check_counters(p);
}

/* A task whose body is gone is claimed in vain five times and then ends as failed, where people see it. */
static void a_task_that_cannot_be_read(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    pawl_claimed tasks[2];
    pawl_id broken = insert_one(p, s), whole = insert_one(p, s);
    sqlite3 *db = host_open(p);
    char sql[100];
    snprintf(sql, sizeof sql, "DELETE FROM pawl_body WHERE id = %lld", (long long)broken);
    host_exec(db, sql);
    sqlite3_close(db);
    assert_int_equal(claim_some(p, s, node, 2, tasks, NULL), 1);
    assert_int_equal(tasks[0].body->id, whole); /* it is in nobody's way */
    free_bodies(tasks, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(claim_some(p, s, node, 2, tasks, NULL), 0);
        assert_int_equal(state_of(p, s, broken), PAWL_PENDING);
    }
    assert_int_equal(claim_some(p, s, node, 2, tasks, NULL), 0);
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = broken};
    assert_ok(p, store_read(s, &query, p->arena, &p->err));
    assert_int_equal(query.info->state, PAWL_FAILED);
    assert_string_equal(query.info->reason, "unreadable");
    assert_string_equal(query.info->type, "t");
    pawl_op retry = {.kind = PAWL_OP_RETRY, .id = broken, .audit = PAWL_AUDIT_FULL};
    assert_ok(p, apply_one(p, s, 0, 0, &retry));
    assert_int_equal(retry.result, PAWL_OP_CONFLICT); /* there is nothing to run again */
    pawl_op ack = {.kind = PAWL_OP_ACK, .id = broken, .audit = PAWL_AUDIT_FULL};
    assert_ok(p, apply_one(p, s, 0, 0, &ack));
    assert_int_equal(ack.result, PAWL_OP_DONE);
    store_close(s);
    check_counters(p);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    if (!disk_install()) return 1;
    const struct CMUnitTest tests[] = {
        TEST(batches_on_a_failing_disk),
        TEST(claims_on_a_failing_disk),
        TEST(a_row_too_large_is_refused_alone),
        TEST(a_task_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
