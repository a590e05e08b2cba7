/* Random numbers from a seed: xoshiro256**, its state filled from the seed by splitmix64 (which cannot give the forbidden all-zero
 * state). */
#include "base/rand.h"
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

void rng_init(rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) r->s[i] = splitmix(&seed);
}

uint64_t rng_next(rng *r)
{
    uint64_t *s = r->s, result = rotate(s[1] * 5, 7) * 9, shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

/* Numbers below 2^64 mod n are refused, so that every remainder is equally likely. */
uint64_t rng_below(rng *r, uint64_t n)
{
    uint64_t refused = (0 - n) % n, x;
    do x = rng_next(r);
    while (x < refused);
    return x % n;
}

double rng_unit(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

uint64_t seed_from_system(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed) return seed;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec + ((uint64_t)getpid() << 40);
    return splitmix(&seed);
}
