/* Filling the caller's pawl_error.
 *
 * A message is text that can be shown: what callers passed in may be quoted in it, and bytes of that which are not UTF-8, or control
 * characters, become question marks.
 *
 * The text is made beside the error and copied, because an argument may be the very message that is being wrapped:
 * err_set(err, status, "could not open \"%s\": %s", path, err->message).
 */
#include "base/error.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

static bool is_control(const char *at, size_t n)
{
    unsigned char first = (unsigned char)at[0];
    return first < ' ' || first == 0x7f || (n == 2 && first == 0xc2 && (unsigned char)at[1] < 0xa0);
}

static void make_text(char *at, const char *end)
{
    for (size_t n; at < end; at += n) {
        n = utf8_char(at, end);
        bool shown = n > 0 && !is_control(at, n);
        if (n == 0) n = 1;
        if (!shown) memset(at, '?', n);
    }
}

pawl_status err_setv(pawl_error *err, pawl_status status, const char *fmt, va_list args)
{
    if (!err) return status;
    char text[sizeof err->message];
    int n = vsnprintf(text, sizeof text, fmt, args);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= sizeof text) len = utf8_cut(text, sizeof text - 1);
    make_text(text, text + len);
    memcpy(err->message, text, len);
    err->message[len] = '\0';
    err->status = status;
    return status;
}

pawl_status(err_set)(pawl_error *err, pawl_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err_setv(err, status, fmt, args);
    va_end(args);
    return status;
}
