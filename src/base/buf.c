/* A growing byte buffer.
 *
 * Invariant: len <= limit, and once data is not NULL, len < room and data[len] is a NUL. What does not fit is left out whole: after
 * a failure the content is a prefix of what was meant, cut between two calls.
 */
#include "base/buf.h"
#include "base/alloc.h"
#include <stdio.h>
#include <string.h>

#define FIRST_ROOM 64

void buf_init(buf *b, const pawl_allocator *a, size_t limit)
{
    *b = (buf){.allocator = a, .limit = limit < SIZE_MAX ? limit : SIZE_MAX - 1};
}

void buf_done(buf *b)
{
    alloc_free(b->allocator, b->data);
    buf_init(b, b->allocator, b->limit);
}

void buf_clear(buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = '\0';
}

static bool fail(buf *b)
{
    b->failed = true;
    return false;
}

/* Room for n more bytes and the NUL. */
static bool make_room(buf *b, size_t n)
{
    if (b->failed || n > b->limit - b->len) return fail(b);
    size_t need = b->len + n + 1;
    if (need <= b->room) return true;
    size_t room = b->room <= SIZE_MAX / 2 ? 2 * b->room : need;
    if (room < FIRST_ROOM) room = FIRST_ROOM;
    if (room > b->limit + 1) room = b->limit + 1;
    if (room < need) room = need;
    char *data = alloc_resize(b->allocator, b->data, room);
    if (!data) return fail(b);
    b->data = data;
    b->room = room;
    return true;
}

bool buf_add(buf *b, const void *data, size_t n)
{
    if (!make_room(b, n)) return false;
    if (n) memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = '\0';
    return true;
}

bool buf_str(buf *b, const char *text) { return buf_add(b, text, strlen(text)); }

bool buf_char(buf *b, char c) { return buf_add(b, &c, 1); }

bool buf_fmt(buf *b, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    size_t left = b->data ? b->room - b->len : 0;
    int n = b->failed ? -1 : vsnprintf(left ? b->data + b->len : NULL, left, fmt, args);
    bool ok = n >= 0 && make_room(b, (size_t)n);
    if (ok && (size_t)n >= left) vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    if (ok) b->len += (size_t)n;
    else if (left) b->data[b->len] = '\0';
    va_end(again);
    va_end(args);
    return ok || fail(b);
}

/* Up to three bytes as four characters. */
static void base64_group(const unsigned char *in, size_t n, char out[4])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = (unsigned)in[0] << 16 | (n > 1 ? (unsigned)in[1] << 8 : 0) | (n > 2 ? in[2] : 0);
    for (int i = 3; i >= 0; i--, bits >>= 6) out[i] = alphabet[bits & 63];
    if (n < 3) out[3] = '=';
    if (n < 2) out[2] = '=';
}

bool buf_base64(buf *b, const void *data, size_t n)
{
    char out[256];
    size_t used = 0;
    for (size_t i = 0; i < n; i += 3) {
        base64_group((const unsigned char *)data + i, n - i, out + used);
        used += 4;
        if (used < sizeof out) continue;
        buf_add(b, out, used);
        used = 0;
    }
    return buf_add(b, out, used);
}

const char *buf_text(const buf *b) { return b->len ? b->data : ""; }
