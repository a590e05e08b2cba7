/* Seeded bugs: each breaks one rule on purpose, to show that a test would notice. They exist only in a build with PAWL_CANARIES, where
 * the environment variable PAWL_CANARY names the one that is alive; in every other build CANARY(x) is the constant 0.
 *
 * One table: name, what is broken, the test that must fail. "sim" is the simulator: PAWL_CANARY=NAME sim_test --seed 1 --count 10000.
 */
#ifndef BASE_CANARY_H
#define BASE_CANARY_H

#define CANARY_TABLE(X)                                                                                       \
    X(ACK_EARLY, "a dispatch is acknowledged when its batch is sent, not when it is committed", "sim")        \
    X(RESEND_RENUMBERED, "a batch of unknown outcome is sent again under a new number", "sim")                \
    X(DOUBT_FORGOTTEN, "a resend that failed is taken for the first sending", "sim")                          \
    X(LANE_FORGOTTEN, "an idle lane keeps the lanes behind it from resending", "sim")                         \
    X(GRANT_OF_THE_DEAD, "a lease granted to a node that died meanwhile is run by its successor", "sim")      \
    X(COLLISION_REDRAWN, "an insert whose caller gave up is stored again under another id", "sim")            \
    X(ROOM_MISSED, "a dispatch that waits for room misses the room that came while it was on its way", "sim") \
    X(LOST_CLAIM, "a claim without an answer is not reconciled", "sim")                                       \
    X(ONE_LOOK, "after a claim without an answer the store is read only once", "sim")                         \
    X(LATE_CLAIM, "leases of a claim that is still unanswered are given back", "sim")                         \
    X(DEADLINE_IGNORED, "tasks start past the node's own deadline", "sim")                                    \
    X(UNTOLD, "a run that was told to stop is not told that its lease is lost", "sim")                        \
    X(NO_DUPLICATE_GUARD, "a task that still runs here is started a second time", "sim")                      \
    X(SOLO_MIXED, "a suspect that must run alone runs beside others", "sim")                                  \
    X(ROOM_TWICE, "a claim and born-leased inserts count on the same room", "sim")                            \
    X(STIR_IGNORED, "work that came up while a claim was under way is forgotten", "sim")                      \
    X(RESCUE_UNSTIRRED, "tasks freed by a rescue without an answer are not looked for", "sim")                \
    X(VICTIM_FORGOTTEN, "one failed renewal and a lapsed node is never rescued", "sim")

#ifdef PAWL_CANARIES

typedef enum canary {
    CANARY_NONE,
#define X(name, what, test) CANARY_##name,
    CANARY_TABLE(X)
#undef X
        CANARY_COUNT
} canary;

int canary_alive(canary c);
#define CANARY(name) canary_alive(CANARY_##name)

#else
#define CANARY(name) 0
#endif

#endif
