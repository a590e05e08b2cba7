/* A growing byte buffer that knows its limit. After a failure (`failed`) it keeps what it has and takes no more. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <pawl.h>
#include <stdarg.h>

typedef struct buf {
    const pawl_allocator *allocator;
    char *data; /* NUL behind the last byte once anything was added */
    size_t len, room, limit;
    bool failed; /* out of memory, or beyond the limit */
} buf;

void buf_init(buf *b, const pawl_allocator *a, size_t limit);
void buf_done(buf *b);
void buf_clear(buf *b); /* empties, keeps the memory, forgets a failure */
bool buf_add(buf *b, const void *data, size_t n);
bool buf_str(buf *b, const char *text);
bool buf_char(buf *b, char c);
bool buf_fmt(buf *b, const char *fmt, ...) PAWL_PRINTF(2, 3);
bool buf_base64(buf *b, const void *data, size_t n); /* as text, padded */
const char *buf_text(const buf *b);                  /* "" when empty */

#endif
