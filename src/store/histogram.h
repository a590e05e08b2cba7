/* How long things took: counts in buckets of half an octave, so a percentile is right within a factor of 1.5.
 *
 * Bucket 2k holds [2^k, 1.5 x 2^k), bucket 2k + 1 holds [1.5 x 2^k, 2^(k+1)), in microseconds; bucket 0 also holds 0. Stored as
 * pairs of varints: the distance from the bucket before, and the count.
 */
#ifndef STORE_HISTOGRAM_H
#define STORE_HISTOGRAM_H

#include <pawl.h>

#define HISTOGRAM_BUCKETS 96 /* up to nine years */
#define HISTOGRAM_BYTES (HISTOGRAM_BUCKETS * 11)

typedef struct histogram {
    uint64_t total;
    uint32_t counts[HISTOGRAM_BUCKETS];
} histogram;

void histogram_add(histogram *h, int64_t us);
size_t histogram_write(const histogram *h, char out[HISTOGRAM_BYTES]);
void histogram_merge(histogram *h, pawl_bytes stored); /* adds what was stored; stops at bytes that make no sense */
void histogram_sum(histogram *h, const histogram *other);
int64_t histogram_percentile(const histogram *h, int percent); /* 0: nothing counted */

/* Numbers of seven bits a byte, lowest first. */
size_t varint_write(char *out, uint64_t value); /* at most 10 bytes */
bool varint_read(pawl_bytes *in, uint64_t *value);

#endif
