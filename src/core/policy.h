/* Policies and how they resolve: task > handler > queue > engine. */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include "base/rand.h"
#include <pawl.h>

/* Zero members are "not said". */
typedef struct policy {
    int max_attempts;
    int64_t timeout_us; /* negative: none */
    pawl_retry_policy retry;
    pawl_audit audit;
} policy;

policy policy_default(void); /* complete: 4 attempts, no timeout, 500 ms x 2 with jitter, full audit */
policy policy_over(const policy *narrow, const policy *wide); /* what narrow says, else what wide says */

/* Microseconds until the next attempt after `failure`, or PAWL_NO_RETRY. failure->attempt counts failed attempts, this one included. */
int64_t policy_retry_delay(const policy *p, const pawl_failure *failure, rng *random);

#endif
