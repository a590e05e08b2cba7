/* Signatures as Standard Webhooks has them: HMAC-SHA256 of "id.timestamp.body" under a secret that both sides know. While one secret replaces
 * another, both sign. */
#ifndef HTTP_SIGN_H
#define HTTP_SIGN_H

#include "base/buf.h"

#define SIGN_SECRET 128 /* room for "whsec_" and base64 of 24 to 64 bytes */

bool sign_secret_valid(const char *secret);
bool sign_secret_make(char out[SIGN_SECRET]); /* false: there is no randomness now */

/* Adds "v1,SIGNATURE", behind a space if another one is there already; false: the secret is none, or the buffer is full. */
bool sign_add(const char *secret, const char *id, int64_t at_seconds, pawl_bytes body, buf *out);

#endif
