/* Filling the caller's pawl_error.
 *
 * The text is made beside the error and copied, because an argument may be the very message that is being wrapped:
 * err_set(err, status, "could not open \"%s\": %s", path, err->message).
 */
#include "base/error.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

pawl_status err_setv(pawl_error *err, pawl_status status, const char *fmt, va_list args)
{
    if (!err) return status;
    char text[sizeof err->message];
    int n = vsnprintf(text, sizeof text, fmt, args);
    size_t len = n < 0 ? 0 : (size_t)n;
    if (len >= sizeof text) len = utf8_cut(text, sizeof text - 1);
    memcpy(err->message, text, len);
    err->message[len] = '\0';
    err->status = status;
    return status;
}

pawl_status err_set(pawl_error *err, pawl_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err_setv(err, status, fmt, args);
    va_end(args);
    return status;
}
