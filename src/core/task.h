/* The states of a task and the one table of legal moves. */
#ifndef CORE_TASK_H
#define CORE_TASK_H

#include <pawl.h>

/* Why a task changes its state; a move is (from, why) -> to. */
typedef enum task_why {
    TASK_DISPATCHED = 1, /* (new) -> pending */
    TASK_HAS_PARENTS,    /* (new) -> waiting */
    TASK_BORN_LEASED,    /* (new) -> leased */
    TASK_PARENTS_DONE,   /* waiting -> pending */
    TASK_PARENT_POLICY,  /* waiting -> cancelled */
    TASK_GRANTED,        /* pending -> leased */
    TASK_CANCEL,    /* waiting, pending -> cancelled; leased -> cancelled (seen by its holder, not started, or its node died) */
    TASK_REFUSED,   /* pending -> failed: its own policy, or unreadable */
    TASK_OK,        /* leased -> succeeded */
    TASK_EXHAUSTED, /* leased -> failed: no attempts left, or failed for good */
    TASK_AGAIN,     /* leased -> pending: retry, snooze, release, rescue */
    TASK_POISON,    /* leased -> failed: rescued too often */
    TASK_WHY_COUNT
} task_why;

/* The state the move leads to, or PAWL_STATE_NONE if it is not legal. */
pawl_state task_move(pawl_state from, task_why why);

#endif
