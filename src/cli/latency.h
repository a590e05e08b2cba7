/* Latencies: a histogram of durations with log-linear buckets, 32 to an octave, so a percentile is within 1.6 % of the truth, in fixed
 * memory. Adding is atomic and may happen in shared memory. */
#ifndef CLI_LATENCY_H
#define CLI_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#define LATENCY_BUCKETS 1920

typedef struct latency {
    atomic_uint_least32_t counts[LATENCY_BUCKETS];
} latency;

void latency_add(latency *h, int64_t ns); /* negative counts as 0 */
void latency_merge(latency *into, const latency *from);
double latency_us(const latency *h, double share); /* microseconds below which `share` (0.5, 0.99) of all lie; 0: empty */

#endif
