/* The parameters of a call, in PostgreSQL's binary form, in one buffer that is used again and again.
 *
 *     pg_params_begin(p);
 *     pg_param_int8(p, node);
 *     pg_array_begin(p, OID_INT8);
 *     for (...) array_int8(p, ids[i]);
 *     pg_array_end(p);
 *
 * Running out of memory is kept (p->bytes.failed) and seen by whoever makes the call.
 */
#ifndef STORE_POSTGRES_PARAMS_H
#define STORE_POSTGRES_PARAMS_H

#include "base/buf.h"
#include <endian.h>
#include <string.h>

#define PARAMS_MAX 100

enum { OID_BOOL = 16, OID_BYTEA = 17, OID_INT8 = 20, OID_INT2 = 21, OID_INT4 = 23, OID_TEXT = 25 };

typedef struct params {
    buf bytes;
    int count;
    size_t at[PARAMS_MAX];
    int lengths[PARAMS_MAX]; /* -1: NULL */
    size_t array_at;         /* of the array that is being written */
    uint32_t array_count;
    uint32_t array_oid;
    bool array_nulls;
    const char *values[PARAMS_MAX]; /* for libpq, made by params_end */
    int sizes[PARAMS_MAX], formats[PARAMS_MAX];
} params;

void pg_params_init(params *p, const pawl_allocator *a);
void pg_params_done(params *p);
void pg_params_begin(params *p);
bool pg_params_end(params *p); /* false: no memory */

void pg_param_null(params *p);
void pg_param_bool(params *p, bool value);
void pg_param_int2(params *p, int value);
void pg_param_int4(params *p, int32_t value);
void pg_param_int8(params *p, int64_t value);
void pg_param_text(params *p, const char *text); /* NULL is NULL */
void pg_param_bytes(params *p, const void *data, size_t n);

void pg_array_begin(params *p, uint32_t oid);
void pg_array_end(params *p);

static inline char *put16(char *at, int16_t v)
{
    uint16_t wire = htobe16((uint16_t)v);
    return (char *)memcpy(at, &wire, 2) + 2;
}

static inline char *put32(char *at, int32_t v)
{
    uint32_t wire = htobe32((uint32_t)v);
    return (char *)memcpy(at, &wire, 4) + 4;
}

static inline char *put64(char *at, int64_t v)
{
    uint64_t wire = htobe64((uint64_t)v);
    return (char *)memcpy(at, &wire, 8) + 8;
}

static inline void array_element(params *p, const void *data, size_t n)
{
    buf_add(&p->bytes, data, n);
    p->array_count++;
}

static inline void array_null(params *p)
{
    char room[4];
    put32(room, -1);
    p->array_nulls = true;
    array_element(p, room, 4);
}

static inline void array_int2(params *p, int v)
{
    char room[6];
    put16(put32(room, 2), (int16_t)v);
    array_element(p, room, 6);
}

static inline void array_int4(params *p, int32_t v)
{
    char room[8];
    put32(put32(room, 4), v);
    array_element(p, room, 8);
}

static inline void array_int8(params *p, int64_t v)
{
    char room[12];
    put64(put32(room, 8), v);
    array_element(p, room, 12);
}

static inline void array_bool(params *p, bool v)
{
    char room[5];
    put32(room, 1)[0] = (char)v;
    array_element(p, room, 5);
}

static inline void array_int4_or_null(params *p, int32_t v, int32_t nothing)
{
    if (v == nothing) array_null(p);
    else array_int4(p, v);
}

static inline void array_int8_or_null(params *p, int64_t v, int64_t nothing)
{
    if (v == nothing) array_null(p);
    else array_int8(p, v);
}

void pg_array_bytes(params *p, const void *data, size_t n);
void pg_array_text(params *p, const char *text);            /* NULL is NULL */
void pg_array_clean(params *p, const char *text, size_t n); /* bytes that are no text become U+FFFD; NULL is NULL */

#endif
