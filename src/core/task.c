#include "core/task.h"

/* What is not in the table is illegal. */
static const unsigned char moves[PAWL_STATE_COUNT][TASK_WHY_COUNT] = {
    [PAWL_STATE_NONE] = {[TASK_DISPATCHED] = PAWL_PENDING, [TASK_HAS_PARENTS] = PAWL_WAITING, [TASK_BORN_LEASED] = PAWL_LEASED},
    [PAWL_WAITING] = {[TASK_PARENTS_DONE] = PAWL_PENDING, [TASK_PARENT_POLICY] = PAWL_CANCELLED, [TASK_CANCEL] = PAWL_CANCELLED},
    [PAWL_PENDING] = {[TASK_GRANTED] = PAWL_LEASED, [TASK_CANCEL] = PAWL_CANCELLED, [TASK_REFUSED] = PAWL_FAILED},
    [PAWL_LEASED] = {[TASK_OK] = PAWL_SUCCEEDED,
                     [TASK_EXHAUSTED] = PAWL_FAILED,
                     [TASK_CANCEL] = PAWL_CANCELLED,
                     [TASK_AGAIN] = PAWL_PENDING,
                     [TASK_POISON] = PAWL_FAILED},
};

pawl_state task_move(pawl_state from, task_why why)
{
    if (from >= PAWL_STATE_COUNT || why >= TASK_WHY_COUNT) return PAWL_STATE_NONE;
    return (pawl_state)moves[from][why];
}
