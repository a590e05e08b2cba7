/* SipHash-1-3: hashes of bytes that come from outside. Who does not know the seed cannot make many keys fall on one number, which
 * hash_bytes (map.h), though faster, does not promise. */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(const void *data, size_t n, uint64_t seed0, uint64_t seed1);

#endif
