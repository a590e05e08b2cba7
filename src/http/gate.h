/* The gate: which request heads are let in. The library behind the listener is generous; whatever two programs could read differently
 * is refused here before anything else looks at it, and the connection ends. */
#ifndef HTTP_GATE_H
#define HTTP_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gate_field {
    const char *name, *value;
    size_t name_len, value_len;
} gate_field;

typedef struct gate_head {
    const char *method, *target, *version; /* as they stand in the library's buffer */
    const gate_field *fields;
    size_t count;
    size_t size; /* bytes of the head, as they came */
} gate_head;

typedef struct gate_body {
    bool chunked;
    bool given;     /* there is a body: chunked, or a length above 0 */
    int64_t length; /* -1: chunked */
} gate_body;

/* 0: let in, and *body says what comes. Else the status to refuse it with, and *why (a constant) in words. */
int http_gate_check(const gate_head *head, gate_body *body, const char **why);

#endif
