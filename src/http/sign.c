#include "http/sign.h"

#include "base/alloc.h"
#include "base/text.h"
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PREFIX "whsec_"
#define MADE_BYTES 24
#define LEAST_BYTES 24
#define MOST_BYTES 64

/* The bytes of a secret; 0: it is none. */
static size_t secret_bytes(const char *secret, char out[SIGN_SECRET])
{
    size_t n = strlen(secret);
    if (n >= SIGN_SECRET || strncmp(secret, PREFIX, sizeof PREFIX - 1) != 0) return 0;
    n -= sizeof PREFIX - 1;
    memcpy(out, secret + sizeof PREFIX - 1, n + 1);
    return base64_decode(out, &n) && n >= LEAST_BYTES && n <= MOST_BYTES ? n : 0;
}

bool sign_secret_valid(const char *secret)
{
    char bytes[SIGN_SECRET];
    return secret_bytes(secret, bytes) > 0;
}

bool sign_secret_make(char out[SIGN_SECRET])
{
    char bytes[MADE_BYTES];
    buf text;
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return false;
    buf_init(&text, alloc_default(), SIGN_SECRET - 1);
    buf_str(&text, PREFIX);
    buf_base64(&text, bytes, sizeof bytes);
    bool ok = !text.failed;
    if (ok) snprintf(out, SIGN_SECRET, "%s", text.data);
    buf_done(&text);
    return ok;
}

bool sign_add(const char *secret, const char *id, int64_t at_seconds, pawl_bytes body, buf *out)
{
    char key[SIGN_SECRET], mac[32], at[32];
    gnutls_hmac_hd_t hmac;
    size_t n = secret_bytes(secret, key);
    int at_len = snprintf(at, sizeof at, ".%lld.", (long long)at_seconds);
    if (!n || gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, key, n)) return false;
    bool ok = gnutls_hmac(hmac, id, strlen(id)) == 0 && gnutls_hmac(hmac, at, (size_t)at_len) == 0 &&
              (!body.len || gnutls_hmac(hmac, body.data, body.len) == 0);
    gnutls_hmac_deinit(hmac, mac);
    gnutls_memset(key, 0, sizeof key);
    if (!ok) return false;
    if (out->len && out->data[out->len - 1] != ' ') buf_char(out, ' ');
    buf_str(out, "v1,");
    return buf_base64(out, mac, sizeof mac);
}
