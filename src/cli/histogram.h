/* A histogram of durations with log-linear buckets: 32 to an octave, so a percentile is within 1.6 % of the truth, in fixed memory.
 * Adding is atomic and may happen in shared memory. */
#ifndef CLI_HISTOGRAM_H
#define CLI_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS 1920

typedef struct histogram {
    atomic_uint_least32_t counts[HISTOGRAM_BUCKETS];
} histogram;

void histogram_add(histogram *h, int64_t ns); /* negative counts as 0 */
void histogram_merge(histogram *into, const histogram *from);
double histogram_us(const histogram *h, double share); /* microseconds below which `share` (0.5, 0.99) of all lie; 0: empty */

#endif
