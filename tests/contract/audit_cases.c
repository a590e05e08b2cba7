/* The audit trail by level: full, minimal (errors, and the end of every run), errors, none. */
#include "contract.h"

/* A life with everything in it: dispatched, leased, retried, leased, snoozed, leased, rescued, leased, finished. */
static pawl_id a_life(world *w, pawl_audit level)
{
    int64_t n = join(w, w->a), victim = join(w, w->b);
    pawl_id id = insert(w, w->a, n, (spec){.audit = level});
    pawl_op *op = op_release(w, id, claim_one(w, w->a, n).fence, 0, PAWL_ATTEMPT_RETRY);
    op->audit = level;
    apply(w, w->a, n, op);
    op = op_release(w, id, claim_one(w, w->a, n).fence, 0, PAWL_ATTEMPT_SNOOZED);
    op->audit = level;
    apply(w, w->a, n, op);
    claim_one(w, w->b, victim);
    rescue_lapsed(w, w->a, n, victim, true);
    op = op_finish(w, id, claim_one(w, w->a, n).fence, PAWL_SUCCEEDED);
    op->audit = level;
    apply(w, w->a, n, op);
    assert_state(w, id, PAWL_SUCCEEDED);
    return id;
}

static void expect(world *w, pawl_id id, const char *const (*rows)[2], size_t count)
{
    pawl_trail *trail = trail_of(w, id);
    if (trail->audit_count != count) {
        for (size_t i = 0; i < trail->audit_count; i++) print_message("%s -> %s\n", trail->audit[i].from, trail->audit[i].to);
        fail_msg("%zu rows instead of %zu", trail->audit_count, count);
    }
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(trail->audit[i].from, rows[i][0]);
        assert_string_equal(trail->audit[i].to, rows[i][1]);
        if (i > 0) assert_true(trail->audit[i].at_us >= trail->audit[i - 1].at_us);
    }
}

static void full(world *w)
{
    static const char *const rows[][2] = {{"", "pending"},       {"pending", "leased"}, {"leased", "pending"},
                                          {"pending", "leased"}, {"leased", "pending"}, {"pending", "leased"},
                                          {"leased", "pending"}, {"pending", "leased"}, {"leased", "succeeded"}};
    pawl_id id = a_life(w, PAWL_AUDIT_FULL);
    expect(w, id, rows, 9);
    const pawl_audit_row *r = trail_of(w, id)->audit;
    assert_true(r[0].fence == 0 && r[1].fence == 1 && r[3].fence > r[1].fence && r[8].fence == fence_of(w, id));
    assert_null(r[0].node_name);
    assert_string_equal(r[8].node_name, "node");
    assert_true(r[8].at_us == w->clock.now_us);
}

static void minimal(world *w)
{
    static const char *const rows[][2] = {
        {"leased", "pending"}, {"leased", "pending"}, {"leased", "pending"}, {"leased", "succeeded"}};
    expect(w, a_life(w, PAWL_AUDIT_MINIMAL), rows, 4);
}

static void errors(world *w)
{
    static const char *const rows[][2] = {{"leased", "pending"}, {"leased", "pending"}};
    expect(w, a_life(w, PAWL_AUDIT_ERRORS), rows, 2);
}

static void none(world *w) { expect(w, a_life(w, PAWL_AUDIT_NONE), NULL, 0); }

static void attempts_are_kept_at_every_level(world *w)
{
    pawl_id id = a_life(w, PAWL_AUDIT_NONE);
    assert_int_equal(get(w, id)->attempts_count, 4);
}

static void failures_at_every_level_but_none(world *w)
{
    static const char *const rows[][2] = {{"leased", "failed"}};
    static const pawl_audit levels[] = {PAWL_AUDIT_MINIMAL, PAWL_AUDIT_ERRORS, PAWL_AUDIT_NONE};
    int64_t n = join(w, w->a);
    for (int i = 0; i < 3; i++) {
        pawl_op *in = op_insert(w, (spec){.ask_lease = true, .audit = levels[i]});
        apply(w, w->a, n, in);
        pawl_op *op = op_finish(w, in->id, in->out_fence, PAWL_FAILED);
        op->audit = levels[i];
        apply(w, w->a, n, op);
        expect(w, in->id, rows, levels[i] != PAWL_AUDIT_NONE);
    }
}

static void born_leased_and_cancelled(world *w)
{
    static const char *const born[][2] = {{"", "leased"}, {"leased", "succeeded"}};
    static const char *const gone[][2] = {{"", "pending"}, {"pending", "cancelled"}};
    int64_t n = join(w, w->a);
    pawl_op *in = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, in);
    apply(w, w->a, n, op_finish(w, in->id, in->out_fence, PAWL_SUCCEEDED));
    expect(w, in->id, born, 2);
    pawl_id id = insert(w, w->a, n, (spec){0});
    apply(w, w->a, n, op_cancel(w, id, "ann"));
    expect(w, id, gone, 2);
}

CASES(audit_cases){
    {"audit: full", full},
    {"audit: minimal", minimal},
    {"audit: errors", errors},
    {"audit: none", none},
    {"audit: attempts are kept at every level", attempts_are_kept_at_every_level},
    {"audit: failures at every level but none", failures_at_every_level_but_none},
    {"audit: born leased; cancelled", born_leased_and_cancelled},
    {NULL, NULL},
};
