/* Families in the engine: what has ended is told to those who wait for it, step by step, until nothing is left.
 *
 * The store tells some of it in the commit of the end itself. What is left it remembers, and says so with that commit, and with every
 * claim and renewal: so it goes on at once, and after a crash any node goes on with it. One step is under way at a time; each is a small
 * commit among others.
 */
#include "core/engine.h"

#define STEP_MOST 500
#define AGAIN_US PAWL_SECOND /* after a want of memory */

void family_settle(core *c) { c->settle_wanted = !CANARY(SETTLE_FORGOTTEN); }

void family_send(core *c)
{
    bool can = (c->node || c->config.one_shot) && !c->closed && c->mode < MODE_STOPPING;
    if (!c->settle_wanted || c->settling || !can) return;
    core_request *r = core_request_new(c, 1);
    if (r) {
        r->ops[0].kind = PAWL_OP_SETTLE;
        r->ops[0].u.settle.limit = STEP_MOST;
    }
    if (!r || !request_prepare(c, r)) {
        core_request_free(c, r);
        engine_timer(c, &c->settle_timer, c->now.mono_us + AGAIN_US);
        return;
    }
    r->own = true;
    r->answer.kind = CORE_ANSWER; /* nobody waits for it */
    c->settle_wanted = false;
    c->settling = true;
    request_gather(c, r);
}

void family_settled(core *c) { c->settling = false; }

/* What a commit says. */
void family_changed(core *c, const pawl_batch *batch)
{
    if (batch->freed) {
        claim_stir(c);
        request_unpark(c, -1); /* what was cancelled has left its queue */
    }
    if (batch->unsettled) family_settle(c);
}
