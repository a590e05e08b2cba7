/* JSON, reading.
 *
 * json_valid makes one pass without recursion or memory of its own: a bit per level says whether it is an object. UTF-8 is checked
 * on the way, eight bytes at a time where they are plain ASCII.
 *
 * Everything else works on texts that json_valid accepted. A value is a view: its kind and its bytes. Finding a member walks the
 * object again, which is right for the small texts it is used on. The walkers stop at the end of the view whatever it holds, so a
 * text that was never checked gives nonsense, not a read beyond it.
 */
#include "base/json.h"
#include "base/text.h"
#include <string.h>

/* ---- checking ------------------------------------------------------------------------------------------------------------- */

typedef struct scan {
    const char *at, *end;
    const char *what;
    int depth;
    uint64_t objects[JSON_DEPTH_MAX / 64]; /* bit n: level n is an object, else an array */
} scan;

static bool bad(scan *s, const char *what)
{
    s->what = s->at < s->end ? what : "the text ends in the middle";
    return false;
}

static int peek(const scan *s) { return s->at < s->end ? (unsigned char)*s->at : -1; }

static inline void space(scan *s)
{
    while (s->at < s->end && (unsigned char)*s->at <= ' ' &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

/* The number of plain bytes (no quote, no backslash, no control byte, ASCII) at the front of eight. Each term sets the high bit of
 * a byte that is not plain; a borrow can only spoil bytes behind the first of those. */
static inline int plain_bytes(const char *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = 0x80 * ones;
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    uint64_t quote = (word ^ '"' * ones) - ones, backslash = (word ^ '\\' * ones) - ones;
    uint64_t odd = (word | quote | backslash | (word - ' ' * ones)) & high;
    return odd ? __builtin_ctzll(odd) / 8 : 8;
}

/* Whether all of 16 bytes are plain: as signed numbers, those above ASCII are below ' ', too. */
static inline bool plain_row(const char *at)
{
    typedef signed char row __attribute__((vector_size(16)));
    row bytes;
    uint64_t odd[2];
    memcpy(&bytes, at, sizeof bytes);
    row found = (bytes == '"') | (bytes == '\\') | (bytes < ' ');
    memcpy(odd, &found, sizeof odd);
    return !(odd[0] | odd[1]);
}

static bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

static bool escape(scan *s)
{
    s->at++;
    int c = peek(s);
    if (c != 'u') {
        if (c <= 0 || !strchr("\"\\/bfnrt", c)) return bad(s, "unknown escape");
        s->at++;
        return true;
    }
    s->at++;
    for (int i = 0; i < 4; i++, s->at++)
        if (s->at == s->end || !is_hex(*s->at)) return bad(s, "\\u needs four hexadecimal digits");
    return true;
}

/* One byte or character that is not plain: not the closing quote. */
static bool odd_char(scan *s)
{
    unsigned char c = (unsigned char)*s->at;
    if (c == '\\') return escape(s);
    if (c < ' ') return bad(s, "control byte in a string: it must be escaped");
    size_t n = utf8_char(s->at, s->end);
    if (n == 0) return bad(s, "not valid UTF-8");
    s->at += n;
    return true;
}

static bool string(scan *s)
{
    for (s->at++; s->at < s->end;) {
        while (s->end - s->at >= 16 && plain_row(s->at)) s->at += 16;
        if (s->at == s->end) break;
        if (s->end - s->at >= 8) {
            int n = plain_bytes(s->at);
            s->at += n;
            if (n == 8) continue;
        }
        if (*s->at == '"') {
            s->at++;
            return true;
        }
        if (!odd_char(s)) return false;
    }
    return bad(s, NULL);
}

static bool is_digit(int c) { return c >= '0' && c <= '9'; }

static bool digits(scan *s)
{
    if (!is_digit(peek(s))) return bad(s, "a digit is missing");
    while (is_digit(peek(s))) s->at++;
    return true;
}

static bool number(scan *s)
{
    if (peek(s) == '-') s->at++;
    else if (!is_digit(peek(s))) return bad(s, "a value is missing");
    if (peek(s) == '0') s->at++;
    else if (!digits(s)) return false;
    if (peek(s) == '.') {
        s->at++;
        if (!digits(s)) return false;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-') s->at++;
        if (!digits(s)) return false;
    }
    return true;
}

static bool literal(scan *s, const char *word)
{
    for (; *word; word++, s->at++)
        if (peek(s) != *word) return bad(s, "unknown word: only true, false and null are known");
    return true;
}

static bool in_object(const scan *s)
{
    int level = s->depth - 1;
    return s->objects[level / 64] >> level % 64 & 1;
}

/* Steps into a container; *empty if it closes at once. */
static bool enter(scan *s, char close, bool *empty)
{
    if (s->depth == JSON_DEPTH_MAX) return bad(s, "nested too deep: at most 128 levels");
    uint64_t bit = UINT64_C(1) << s->depth % 64, *word = &s->objects[s->depth / 64];
    *word = close == '}' ? *word | bit : *word & ~bit;
    s->at++;
    space(s);
    *empty = peek(s) == close;
    if (*empty) s->at++;
    else s->depth++;
    return true;
}

static bool key(scan *s)
{
    space(s);
    if (peek(s) != '"') return bad(s, "a member name in quotes is missing");
    if (!string(s)) return false;
    space(s);
    if (peek(s) != ':') return bad(s, "':' is missing");
    s->at++;
    return true;
}

/* Reads down to the end of a scalar or of an empty container. */
static bool descend(scan *s)
{
    for (bool empty;;) {
        space(s);
        switch (peek(s)) {
        case '"': return string(s);
        case 't': return literal(s, "true");
        case 'f': return literal(s, "false");
        case 'n': return literal(s, "null");
        case '{':
            if (!enter(s, '}', &empty)) return false;
            if (empty) return true;
            if (!key(s)) return false;
            break;
        case '[':
            if (!enter(s, ']', &empty)) return false;
            if (empty) return true;
            break;
        default: return number(s);
        }
    }
}

/* Behind a value: closes what closes, up to the place of the next value (*more) or the end of the text. */
static bool ascend(scan *s, bool *more)
{
    for (;; s->at++, s->depth--) {
        space(s);
        *more = s->depth > 0;
        if (!*more) return s->at == s->end || bad(s, "there is more text behind the value");
        bool object = in_object(s);
        if (peek(s) == ',') {
            s->at++;
            return !object || key(s);
        }
        if (peek(s) != (object ? '}' : ']')) return bad(s, object ? "',' or '}' is missing" : "',' or ']' is missing");
    }
}

bool json_valid(pawl_bytes text, size_t *where, const char **what)
{
    if (!text.data) text = (pawl_bytes){"", 0};
    scan s = {.at = text.data, .end = text.data + text.len};
    bool more = true;
    while (more)
        if (!descend(&s) || !ascend(&s, &more)) break;
    if (!s.what) return true;
    if (where) *where = (size_t)(s.at - text.data);
    if (what) *what = s.what;
    return false;
}

/* ---- walking -------------------------------------------------------------------------------------------------------------- */

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

static const char *skip_container(const char *at, const char *end)
{
    for (int depth = 0; at < end;) {
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (*at == '[' || *at == '{') depth++;
        if (*at == ']' || *at == '}') depth--;
        at++;
        if (depth == 0) break;
    }
    return at;
}

static const char *skip_scalar(const char *at, const char *end)
{
    while (at < end && !strchr(",:]} \n\r\t", *at)) at++;
    return at;
}

/* The value at `at`, which is not white space. */
static json value_at(const char *at, const char *end)
{
    json_kind kind = JSON_NONE;
    const char *behind = at;
    switch (at < end ? *at : '\0') {
    case '"': kind = JSON_STRING, behind = skip_string(at, end); break;
    case '[': kind = JSON_ARRAY, behind = skip_container(at, end); break;
    case '{': kind = JSON_OBJECT, behind = skip_container(at, end); break;
    case 't':
    case 'f': kind = JSON_BOOL, behind = skip_scalar(at, end); break;
    case 'n': kind = JSON_NULL, behind = skip_scalar(at, end); break;
    default:
        behind = skip_scalar(at, end);
        if (behind > at) kind = JSON_NUMBER;
    }
    return (json){kind, {at, (size_t)(behind - at)}};
}

json json_parse(pawl_bytes valid_text)
{
    if (!valid_text.data) return (json){JSON_NONE, {NULL, 0}};
    const char *end = valid_text.data + valid_text.len;
    return value_at(skip_space(valid_text.data, end), end);
}

bool json_each(json container, size_t *at, json *key, json *value)
{
    if (container.kind != JSON_ARRAY && container.kind != JSON_OBJECT) return false;
    const char *start = container.raw.data, *end = start + container.raw.len;
    const char *p = skip_space(start + (*at ? *at : 1), end);
    if (p < end && *p == ',') p = skip_space(p + 1, end);
    if (p == end || *p == ']' || *p == '}') return false;
    *key = (json){JSON_NONE, {NULL, 0}};
    if (container.kind == JSON_OBJECT) {
        *key = value_at(p, end);
        p = skip_space(key->raw.data + key->raw.len, end);
        if (p < end) p = skip_space(p + 1, end);
    }
    *value = value_at(p, end);
    *at = (size_t)(value->raw.data + value->raw.len - start);
    return value->kind != JSON_NONE;
}

/* ---- scalars --------------------------------------------------------------------------------------------------------------- */

static unsigned hex4(const char *at)
{
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        code = code << 4 | (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return code;
}

static size_t utf8_put(unsigned code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xf0) | code);
    return n;
}

/* A \uXXXX, or two that are a pair of surrogates; one alone becomes U+FFFD. */
static const char *decode_unicode(const char *at, const char *end, char out[4], size_t *n)
{
    unsigned code = end - at >= 6 ? hex4(at + 2) : 0xfffd;
    const char *behind = end - at >= 6 ? at + 6 : end;
    if (code >= 0xd800 && code < 0xdc00 && end - behind >= 6 && behind[0] == '\\' && behind[1] == 'u') {
        unsigned low = hex4(behind + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
            behind += 6;
        }
    }
    *n = utf8_put(code >= 0xd800 && code < 0xe000 ? 0xfffd : code, out);
    return behind;
}

/* The escape at `at`, decoded; returns what is behind it. */
static const char *decode_escape(const char *at, const char *end, char out[4], size_t *n)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    char c = end - at >= 2 ? at[1] : '\\';
    if (c == 'u') return decode_unicode(at, end, out, n);
    const char *found = strchr(from, c);
    out[0] = found && c ? to[found - from] : c;
    *n = 1;
    return end - at >= 2 ? at + 2 : end;
}

/* The bytes between the quotes. */
static pawl_bytes inside(json string)
{
    return string.raw.len >= 2 ? (pawl_bytes){string.raw.data + 1, string.raw.len - 2} : (pawl_bytes){"", 0};
}

bool json_string(json value, buf *out)
{
    if (value.kind != JSON_STRING) return false;
    pawl_bytes text = inside(value);
    const char *at = text.data, *end = at + text.len;
    while (at < end) {
        const char *plain = memchr(at, '\\', (size_t)(end - at));
        if (!plain) plain = end;
        buf_add(out, at, (size_t)(plain - at));
        if (plain == end) break;
        char decoded[4];
        size_t n;
        at = decode_escape(plain, end, decoded, &n);
        buf_add(out, decoded, n);
    }
    return buf_add(out, "", 0);
}

static bool string_is(json string, const char *name)
{
    pawl_bytes text = inside(string);
    size_t left = strlen(name);
    for (const char *at = text.data, *end = at + text.len; at < end;) {
        char decoded[4] = {*at};
        size_t n = 1;
        at = *at == '\\' ? decode_escape(at, end, decoded, &n) : at + 1;
        if (n > left || memcmp(decoded, name, n) != 0) return false;
        name += n;
        left -= n;
    }
    return left == 0;
}

json json_member(json object, const char *name)
{
    json found = {JSON_NONE, {NULL, 0}}, key, value;
    if (object.kind != JSON_OBJECT) return found;
    for (size_t at = 0; json_each(object, &at, &key, &value);)
        if (string_is(key, name)) found = value;
    return found;
}

bool json_int(json value, int64_t *out)
{
    char text[24];
    if (value.kind != JSON_NUMBER || value.raw.len >= sizeof text) return false;
    memcpy(text, value.raw.data, value.raw.len);
    text[value.raw.len] = '\0';
    return int_parse(text, INT64_MIN, INT64_MAX, out);
}

bool json_bool(json value, bool *out)
{
    if (value.kind != JSON_BOOL) return false;
    *out = value.raw.data[0] == 't';
    return true;
}
