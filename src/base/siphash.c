#include "base/siphash.h"
#include <string.h>

typedef struct state {
    uint64_t a, b, c, d;
} state;

static inline uint64_t turn(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void mix(state *s)
{
    s->a += s->b, s->c += s->d;
    s->b = turn(s->b, 13) ^ s->a, s->d = turn(s->d, 16) ^ s->c;
    s->a = turn(s->a, 32);
    s->c += s->b, s->a += s->d;
    s->b = turn(s->b, 17) ^ s->c, s->d = turn(s->d, 21) ^ s->a;
    s->c = turn(s->c, 32);
}

static inline void take_in(state *s, uint64_t word)
{
    s->d ^= word;
    mix(s);
    s->a ^= word;
}

uint64_t siphash(const void *data, size_t n, uint64_t seed0, uint64_t seed1)
{
    state s = {seed0 ^ UINT64_C(0x736f6d6570736575), seed1 ^ UINT64_C(0x646f72616e646f6d), seed0 ^ UINT64_C(0x6c7967656e657261),
               seed1 ^ UINT64_C(0x7465646279746573)};
    const unsigned char *bytes = data;
    uint64_t word, last = (uint64_t)n << 56;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, bytes + i, 8); /* in the machine's order: the number never leaves the process */
        take_in(&s, word);
    }
    for (size_t shift = 0; i < n; i++, shift += 8) last |= (uint64_t)bytes[i] << shift;
    take_in(&s, last);
    s.c ^= 0xff;
    for (int rounds = 0; rounds < 3; rounds++) mix(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}
