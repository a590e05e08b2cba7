/* Filling the caller's pawl_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <pawl.h>
#include <stdarg.h>

/* Writes status and message (cut to fit, at a character boundary) and returns the status; err may be NULL. */
pawl_status err_set(pawl_error *err, pawl_status status, const char *fmt, ...) PAWL_PRINTF(3, 4);
pawl_status err_setv(pawl_error *err, pawl_status status, const char *fmt, va_list args);

#ifdef __clang_analyzer__ /* it does not look into other files, and must know that a failure is no PAWL_OK */
#define err_set(err, status, ...) ((err_set)(err, status, __VA_ARGS__), (status))
#endif

#endif
