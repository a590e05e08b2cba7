/* Random numbers from a seed (xoshiro256**): the same seed gives the same numbers. Not for secrets. */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stdint.h>

typedef struct rng {
    uint64_t s[4];
} rng;

void rng_init(rng *r, uint64_t seed);
uint64_t rng_next(rng *r);
uint64_t rng_below(rng *r, uint64_t n); /* 0..n-1, n > 0 */
double rng_unit(rng *r);                /* [0, 1) */
uint64_t seed_from_system(void);

#endif
