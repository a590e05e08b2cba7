/* What is refused, and why it could be dangerous:
 *
 *     two lengths, a length beside chunks, a length that is not plain digits, encodings other than one "chunked"
 *                                      a proxy before us may see the body end elsewhere, and take what follows for a request
 *     no Host or several               whose rules would count?
 *     a space before the colon, a name or value with odd bytes
 *                                      some drop the header, some read it
 *     lines that were folded, or ended by less than CR LF, or hold a NUL
 *                                      the library hides these: it joins folded lines, takes a bare LF or CR for the end of a line, and
 *                                      cuts at a NUL. But it cuts the head up in place. So the pieces must lie one behind another as they
 *                                      came, two bytes apart, from the version to the end; after any of these they do not.
 */
#include "http/gate.h"

#include <string.h>
#include <strings.h>

#define HEAD_MAX (16u << 10)
#define TARGET_MAX (8u << 10)
#define FIELDS_MAX 64
#define LENGTH_DIGITS 15 /* beyond any body that is taken */

static bool token_byte(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool token(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!token_byte((unsigned char)text[i])) return false;
    }
    return n > 0;
}

static bool value_valid(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 32 && c != '\t') || c == 127) return false;
    }
    return true;
}

static bool is(const gate_field *f, const char *name) { return f->name_len == strlen(name) && strcasecmp(f->name, name) == 0; }

/* A name, an address, [an address of version 6], each with or without a port. */
static bool host_valid(const gate_field *f)
{
    for (size_t i = 0; i < f->value_len; i++) {
        unsigned char c = (unsigned char)f->value[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (!plain && !strchr("-._~:[]%", c)) return false;
    }
    return f->value_len > 0 && f->value_len < 256;
}

static bool length_parse(const gate_field *f, int64_t *length)
{
    *length = 0;
    if (f->value_len == 0 || f->value_len > LENGTH_DIGITS) return false;
    for (size_t i = 0; i < f->value_len; i++) {
        if (f->value[i] < '0' || f->value[i] > '9') return false;
        *length = *length * 10 + (f->value[i] - '0');
    }
    return true;
}

/* The pieces lie in the library's buffer as they came. */
static bool untouched(const gate_head *h)
{
    const char *at = h->version + strlen(h->version) + 2;
    for (size_t i = 0; i < h->count; i++) {
        const gate_field *f = &h->fields[i];
        if (f->name != at || f->value <= f->name + f->name_len) return false;
        for (const char *gap = f->name + f->name_len + 1; gap < f->value; gap++) {
            if (*gap != ' ' && *gap != '\t' && *gap != '\0') return false;
        }
        at = f->value + f->value_len + 2;
    }
    return (size_t)(at + 2 - h->method) == h->size;
}

static int check_field(const gate_field *f, const char **why)
{
    *why = "a header's name has bytes that it may not have: white space before the colon, or worse";
    if (!token(f->name, f->name_len)) return 400;
    *why = "a header's value has control bytes";
    return value_valid(f->value, f->value_len) ? 0 : 400;
}

static int check_body(const gate_head *h, int lengths, int encodings, const gate_field *encoding, gate_body *body,
                      const char **why)
{
    *why = "Content-Length is given more than once: send it once";
    if (lengths > 1) return 400;
    *why = "Content-Length and Transfer-Encoding are both given: send one of them";
    if (lengths && encodings) return 400;
    *why = "Transfer-Encoding must be \"chunked\", once";
    if (encodings > 1 || (encodings && (encoding->value_len != 7 || strcasecmp(encoding->value, "chunked") != 0))) return 400;
    *why = "HTTP/1.0 has no chunked bodies";
    if (encodings && strcmp(h->version, "HTTP/1.0") == 0) return 400;
    body->chunked = encodings > 0;
    if (encodings) body->length = -1;
    body->given = encodings || body->length > 0;
    return 0;
}

int http_gate_check(const gate_head *h, gate_body *body, const char **why)
{
    int hosts = 0, lengths = 0, encodings = 0, status;
    const gate_field *encoding = NULL;
    *body = (gate_body){0};
    *why = "the request's line or headers are too large";
    if (h->size > HEAD_MAX || h->count > FIELDS_MAX) return 431;
    if (strlen(h->target) > TARGET_MAX) return 414;
    *why = "only HTTP/1.1 and HTTP/1.0 are spoken here";
    if (strcmp(h->version, "HTTP/1.1") != 0 && strcmp(h->version, "HTTP/1.0") != 0) return 505;
    for (size_t i = 0; i < h->count; i++) {
        const gate_field *f = &h->fields[i];
        if ((status = check_field(f, why))) return status;
        *why = "Host is not a host's name";
        if (is(f, "host") && (hosts++, !host_valid(f))) return 400;
        *why = "Content-Length must be a plain number";
        if (is(f, "content-length") && (lengths++, !length_parse(f, &body->length))) return 400;
        if (is(f, "transfer-encoding")) encodings++, encoding = f;
    }
    *why = "a request needs exactly one Host";
    if (hosts != 1) return 400;
    if ((status = check_body(h, lengths, encodings, encoding, body, why))) return status;
    *why = "a header line is folded, does not end in CR LF, or holds a NUL";
    return untouched(h) ? 0 : 400;
}
