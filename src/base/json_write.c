/* JSON, writing: straight into a buffer, no tree. The output is valid JSON if the calls nest properly; strings are made valid UTF-8
 * on the way (each bad byte becomes U+FFFD) and numbers do not depend on the program's locale. */
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jsonw_init(json_writer *w, buf *out, bool pretty) { *w = (json_writer){.out = out, .pretty = pretty}; }

static void new_line(json_writer *w)
{
    buf_char(w->out, '\n');
    for (int i = 0; i < w->depth; i++) buf_add(w->out, "  ", 2);
}

/* What stands before a value or a key. */
static void separate(json_writer *w)
{
    bool after_key = w->after_key, comma = w->comma;
    w->after_key = false;
    w->comma = true;
    if (after_key || w->depth == 0) return;
    if (comma) buf_char(w->out, ',');
    if (w->pretty) new_line(w);
}

static void open_container(json_writer *w, char c)
{
    separate(w);
    buf_char(w->out, c);
    w->depth++;
    w->comma = false;
}

static void close_container(json_writer *w, char c)
{
    CHECK(w->depth > 0 && !w->after_key);
    w->depth--;
    if (w->comma && w->pretty) new_line(w);
    buf_char(w->out, c);
    w->comma = true;
}

void jsonw_object(json_writer *w) { open_container(w, '{'); }

void jsonw_end_object(json_writer *w) { close_container(w, '}'); }

void jsonw_array(json_writer *w) { open_container(w, '['); }

void jsonw_end_array(json_writer *w) { close_container(w, ']'); }

static bool is_plain(unsigned char c) { return c >= ' ' && c < 0x80 && c != '"' && c != '\\'; }

/* The escape of a byte that cannot stand as it is. */
static void put_escape(buf *out, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        char pair[2] = {'\\', to[found - from]};
        buf_add(out, pair, 2);
    } else {
        char code[6] = {'\\', 'u', '0', '0', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};
        buf_add(out, code, 6);
    }
}

static void put_string(buf *out, const char *at, size_t len)
{
    buf_char(out, '"');
    for (const char *end = at + len; at < end;) {
        const char *run = at;
        size_t n = 1;
        while (at < end && (is_plain((unsigned char)*at) || ((unsigned char)*at >= 0x80 && (n = utf8_char(at, end)) > 0))) {
            at += n;
            n = 1;
        }
        buf_add(out, run, (size_t)(at - run));
        if (at == end) break;
        if ((unsigned char)*at < 0x80) put_escape(out, (unsigned char)*at);
        else buf_add(out, "\xef\xbf\xbd", 3);
        at++;
    }
    buf_char(out, '"');
}

void jsonw_key(json_writer *w, const char *name)
{
    separate(w);
    put_string(w->out, name, strlen(name));
    buf_str(w->out, w->pretty ? ": " : ":");
    w->after_key = true;
}

void jsonw_bytes(json_writer *w, pawl_bytes text)
{
    separate(w);
    put_string(w->out, text.data ? text.data : "", text.data ? text.len : 0);
}

void jsonw_string(json_writer *w, const char *text)
{
    if (text) jsonw_bytes(w, pawl_str(text));
    else jsonw_null(w);
}

void jsonw_int(json_writer *w, int64_t value)
{
    separate(w);
    buf_fmt(w->out, "%lld", (long long)value);
}

/* Some locales write the decimal point otherwise, even with more than one byte. */
static void unlocalise(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (strchr("0123456789+-eE", *at)) *to++ = *at;
        else if (to == text || to[-1] != '.') *to++ = '.';
    }
    *to = '\0';
}

void jsonw_double(json_writer *w, double value)
{
    char text[40];
    if (!isfinite(value)) {
        jsonw_null(w);
        return;
    }
    snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
    unlocalise(text);
    separate(w);
    buf_str(w->out, text);
}

void jsonw_bool(json_writer *w, bool value)
{
    separate(w);
    buf_str(w->out, value ? "true" : "false");
}

void jsonw_null(json_writer *w)
{
    separate(w);
    buf_str(w->out, "null");
}

void jsonw_raw(json_writer *w, pawl_bytes json_text)
{
    separate(w);
    buf_add(w->out, json_text.data, json_text.len);
}

void jsonw_base64(json_writer *w, pawl_bytes data)
{
    separate(w);
    buf_char(w->out, '"');
    buf_base64(w->out, data.data, data.len);
    buf_char(w->out, '"');
}
