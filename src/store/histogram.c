#include "store/histogram.h"

size_t varint_write(char *out, uint64_t value)
{
    size_t n = 0;
    while (value >= 128) {
        out[n++] = (char)(value | 128);
        value >>= 7;
    }
    out[n++] = (char)value;
    return n;
}

bool varint_read(pawl_bytes *in, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; in->len > 0 && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)*in->data++;
        in->len--;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

static int bucket_of(int64_t us)
{
    if (us < 2) return 0;
    int octave = 63 - __builtin_clzll((uint64_t)us);
    int bucket = 2 * octave + (int)(us >> (octave - 1) & 1);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

void histogram_add(histogram *h, int64_t us)
{
    h->counts[bucket_of(us)]++;
    h->total++;
}

size_t histogram_write(const histogram *h, char out[HISTOGRAM_BYTES])
{
    size_t n = 0;
    int before = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (h->counts[i] == 0) continue;
        n += varint_write(out + n, (uint64_t)(i - before));
        n += varint_write(out + n, h->counts[i]);
        before = i;
    }
    return n;
}

void histogram_merge(histogram *h, pawl_bytes stored)
{
    uint64_t distance, count, bucket = 0;
    while (varint_read(&stored, &distance) && varint_read(&stored, &count)) {
        bucket += distance;
        if (distance >= HISTOGRAM_BUCKETS || bucket >= HISTOGRAM_BUCKETS || count > UINT32_MAX) return;
        h->counts[bucket] += (uint32_t)count;
        h->total += count;
    }
}

void histogram_sum(histogram *h, const histogram *other)
{
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) h->counts[i] += other->counts[i];
    h->total += other->total;
}

/* The middle of the bucket, so that no value in it is off by more than a factor of 1.25. */
static int64_t middle(int bucket)
{
    if (bucket == 0) return 1;
    int64_t octave = INT64_C(1) << (bucket / 2);
    return bucket % 2 ? octave + octave * 3 / 4 : octave + octave / 4;
}

int64_t histogram_percentile(const histogram *h, int percent)
{
    if (h->total == 0) return 0;
    uint64_t rank = (h->total * (uint64_t)percent + 99) / 100, seen = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen >= rank) return middle(i);
    }
    return middle(HISTOGRAM_BUCKETS - 1);
}
