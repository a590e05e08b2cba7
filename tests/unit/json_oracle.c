#include "unit/json_oracle.h"
#include <jansson.h>
#include <string.h>

verdict oracle_verdict(const char *text, size_t n)
{
    if (n && memchr(text, 0, n)) return VERDICT_INVALID; /* jansson takes a NUL for the end of the text */
    json_error_t error;
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    json_decref(value);
    if (value) return VERDICT_VALID;
    if (json_error_code(&error) == json_error_numeric_overflow) return VERDICT_HUGE_NUMBER;
    if (json_error_code(&error) == json_error_null_byte_in_key) return VERDICT_NUL_IN_KEY;
    return strstr(error.text, "invalid Unicode '\\u") ? VERDICT_LONE_SURROGATE : VERDICT_INVALID;
}
