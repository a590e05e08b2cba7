/* SHA-256 (FIPS 180-4) of bytes that are all there. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>

#define SHA256_HEX 64

void sha256_hex(const void *data, size_t n, char out[SHA256_HEX]); /* lower case, no NUL */

#endif
