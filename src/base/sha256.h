/* SHA-256 (FIPS 180-4) of bytes that are all there. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>

#define SHA256_HEX 64

void sha256_hex(const void *data, size_t n, char out[SHA256_HEX]); /* lower case, no NUL */

/* Whether two are the same, in a time that does not depend on what they are: every byte is looked at, and nothing branches on one. */
bool sha256_same(const char a[SHA256_HEX], const char b[SHA256_HEX]);

#endif
