/* jansson's verdict on a text, behind a wall: its names and those of base/json.h are not for one file. */
#ifndef JSON_ORACLE_H
#define JSON_ORACLE_H

#include <stddef.h>

typedef enum verdict {
    VERDICT_VALID,
    VERDICT_INVALID,
    VERDICT_HUGE_NUMBER,   /* JSON, but it holds a number that jansson cannot keep */
    VERDICT_NUL_IN_KEY,    /* JSON, but jansson keeps member names as C strings */
    VERDICT_LONE_SURROGATE /* JSON by its grammar, but no character */
} verdict;

verdict oracle_verdict(const char *text, size_t n);

#endif
