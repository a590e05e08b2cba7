/* Literals, and the parameters of statements. Our own sessions know backslashes and utf8mb4; on a connection of the caller's everything is
 * written such that it means the same under any character set and SQL mode.
 */
#include "base/text.h"
#include "store/mysql/conn.h"

void lit_int(buf *b, int64_t v)
{
    char text[24], *at = text + sizeof text;
    uint64_t n = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do *--at = (char)('0' + n % 10);
    while (n /= 10);
    if (v < 0) *--at = '-';
    buf_add(b, at, (size_t)(text + sizeof text - at));
}

void lit_int_or_null(buf *b, int64_t v, int64_t nothing)
{
    if (v == nothing) buf_add(b, "NULL", 4);
    else lit_int(b, v);
}

static void add_hex(buf *b, const char *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    char some[512];
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        for (; n < sizeof some && i < len; i++) {
            some[n++] = digits[(unsigned char)data[i] >> 4];
            some[n++] = digits[(unsigned char)data[i] & 15];
        }
        buf_add(b, some, n);
    }
}

/* Our sessions know backslashes, and utf8mb4 has none inside a character. */
static void add_quoted(buf *b, const char *data, size_t len)
{
    size_t from = 0;
    buf_char(b, '\'');
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (c != '\'' && c != '\\' && c != '\0') continue;
        buf_add(b, data + from, i - from);
        buf_add(b, c == '\'' ? "\\'" : c == '\\' ? "\\\\" : "\\0", 2);
        from = i + 1;
    }
    buf_add(b, data + from, len - from);
    buf_char(b, '\'');
}

static void add_literal(const conn *c, buf *b, const char *data, size_t len, bool text)
{
    if (!c->borrowed) {
        if (!text) buf_add(b, "_binary", 7);
        add_quoted(b, data, len);
        return;
    }
    buf_str(b, text ? "_utf8mb4 x'" : "x'");
    add_hex(b, data, len);
    buf_char(b, '\'');
}

void lit_text(const conn *c, buf *b, const char *text)
{
    if (text) add_literal(c, b, text, strlen(text), true);
    else buf_add(b, "NULL", 4);
}

void lit_bytes(const conn *c, buf *b, pawl_bytes bytes)
{
    if (bytes.data) add_literal(c, b, bytes.data, bytes.len, false);
    else buf_add(b, "NULL", 4);
}

/* What a run left behind is not refused but cleaned: a byte that belongs to no character, or is NUL, becomes U+FFFD. */
void lit_clean(const conn *c, buf *b, const char *text, size_t len)
{
    bool good = text && utf8_valid(text, len) && !memchr(text, '\0', len);
    if (!text) {
        buf_add(b, "NULL", 4);
        return;
    }
    if (good) {
        add_literal(c, b, text, len, true);
        return;
    }
    buf clean;
    buf_init(&clean, c->allocator, SCRIPT_MAX);
    for (const char *at = text, *end = text + len; at < end;) {
        size_t n = *at ? utf8_char(at, end) : 0;
        if (n) buf_add(&clean, at, n);
        else buf_str(&clean, "\xef\xbf\xbd");
        at += n ? n : 1;
    }
    if (clean.failed) b->failed = true;
    else add_literal(c, b, buf_text(&clean), clean.len, true);
    buf_done(&clean);
}

/* ---- parameters ---------------------------------------------------------------------------------------------------------- */

static void note_param(conn *c, size_t at)
{
    if (c->params_count == PARAMS_MAX) {
        c->script.failed = true;
        return;
    }
    c->params[c->params_count].text = NULL;
    c->params[c->params_count].at = at;
    c->params[c->params_count++].len = c->literals.len - at;
}

void my_put_int(conn *c, int64_t v)
{
    size_t at = c->literals.len;
    lit_int(&c->literals, v);
    note_param(c, at);
}

void my_put_int_or_null(conn *c, int64_t v, int64_t nothing)
{
    size_t at = c->literals.len;
    lit_int_or_null(&c->literals, v, nothing);
    note_param(c, at);
}

void my_put_text(conn *c, const char *text)
{
    size_t at = c->literals.len;
    lit_text(c, &c->literals, text);
    note_param(c, at);
}

void my_put_bytes(conn *c, pawl_bytes bytes)
{
    size_t at = c->literals.len;
    lit_bytes(c, &c->literals, bytes);
    note_param(c, at);
}

void my_put_raw(conn *c, const char *text, size_t len)
{
    note_param(c, c->literals.len);
    c->params[c->params_count - 1].text = text;
    c->params[c->params_count - 1].len = len;
}
