#include "cli/latency.h"

#define SUB_BITS 5 /* 2^5 buckets to an octave */

/* Values below 64 have a bucket of their own; above, the six highest bits choose it. */
static int bucket_of(uint64_t ns)
{
    int shift = 63 - __builtin_clzll(ns | 1 << SUB_BITS) - SUB_BITS;
    return shift * (1 << SUB_BITS) + (int)(ns >> shift);
}

static double middle_of(int bucket)
{
    if (bucket < 2 << SUB_BITS) return bucket;
    int shift = bucket / (1 << SUB_BITS) - 1;
    uint64_t low = (uint64_t)(bucket - shift * (1 << SUB_BITS)) << shift;
    return (double)low + (double)(UINT64_C(1) << shift) / 2;
}

void latency_add(latency *h, int64_t ns)
{
    int bucket = bucket_of(ns > 0 ? (uint64_t)ns : 0);
    atomic_fetch_add_explicit(&h->counts[bucket], 1, memory_order_relaxed);
}

void latency_merge(latency *into, const latency *from)
{
    for (int i = 0; i < LATENCY_BUCKETS; i++) {
        uint32_t n = atomic_load_explicit(&from->counts[i], memory_order_relaxed);
        if (n) atomic_fetch_add_explicit(&into->counts[i], n, memory_order_relaxed);
    }
}

double latency_us(const latency *h, double share)
{
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < LATENCY_BUCKETS; i++) all += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
    for (int i = 0; i < LATENCY_BUCKETS; i++) {
        seen += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
        if (all && (double)seen >= share * (double)all) return middle_of(i) / 1000;
    }
    return 0;
}
