/* What became of a task, by how its command ended:
 *
 *     0    done; what it printed is the result
 *     65   failed for good (EX_DATAERR)
 *     75   not now: snoozed, at no cost (EX_TEMPFAIL)
 *     any other, or a signal: again later, by the retry policy
 *
 * If it was told to stop and did not end with 0, the reason counts and not its status.
 */
#ifndef HANDLERS_VERDICT_H
#define HANDLERS_VERDICT_H

#include "handlers/child.h"

#define VERDICT_RESULT_MAX (64u << 10)
#define VERDICT_FAIL 65
#define VERDICT_SNOOZE 75

typedef struct verdict {
    int status; /* as from waitpid */
    pawl_stop_reason stopped;
    const char *last; /* what it said last, for the error text; may be empty */
    int64_t snooze_us;
    const buf *output; /* becomes the result; NULL: there is none */
} verdict;

pawl_outcome verdict_of(pawl_run *run, const verdict *v);

/* What a command printed, without the newlines at the end, as a shell would take it; answers its content type, NULL: JSON. */
const char *verdict_trim(pawl_bytes *output);

#endif
