/* Parameters in binary form: numbers in network order, arrays with the length of each element before it. */
#include "store/postgres/params.h"
#include "base/text.h"

#define BYTES_MAX ((size_t)768 << 20) /* a message has less than 1 GiB */
#define KEEP_MAX ((size_t)8 << 20)    /* a buffer that grew beyond it is given back */

void pg_params_init(params *p, const pawl_allocator *a)
{
    p->count = 0;
    buf_init(&p->bytes, a, BYTES_MAX);
}

void pg_params_done(params *p) { buf_done(&p->bytes); }

void pg_params_begin(params *p)
{
    const pawl_allocator *a = p->bytes.allocator;
    if (p->bytes.room > KEEP_MAX) {
        buf_done(&p->bytes);
        buf_init(&p->bytes, a, BYTES_MAX);
    }
    buf_clear(&p->bytes);
    p->count = 0;
}

bool pg_params_end(params *p)
{
    for (int i = 0; i < p->count; i++) {
        p->values[i] = p->lengths[i] < 0 ? NULL : p->bytes.data + p->at[i];
        p->sizes[i] = p->lengths[i] < 0 ? 0 : p->lengths[i];
        p->formats[i] = 1;
    }
    return !p->bytes.failed;
}

static void add(params *p, const void *data, size_t n)
{
    p->at[p->count] = p->bytes.len;
    p->lengths[p->count++] = (int)n;
    buf_add(&p->bytes, data, n);
}

void pg_param_null(params *p) { p->lengths[p->count++] = -1; }

void pg_param_bool(params *p, bool value) { add(p, value ? "\1" : "\0", 1); }

void pg_param_int4(params *p, int32_t value)
{
    char room[4];
    put32(room, value);
    add(p, room, 4);
}

void pg_param_int2(params *p, int value)
{
    char room[2];
    put16(room, (int16_t)value);
    add(p, room, 2);
}

void pg_param_int8(params *p, int64_t value)
{
    char room[8];
    put64(room, value);
    add(p, room, 8);
}

void pg_param_text(params *p, const char *text)
{
    if (text) pg_param_bytes(p, text, strlen(text));
    else pg_param_null(p);
}

/* libpq takes a NULL pointer for NULL, so an empty value needs a byte to point at. */
void pg_param_bytes(params *p, const void *data, size_t n)
{
    add(p, data, n);
    if (n == 0) buf_char(&p->bytes, '\0');
}

/* ---- arrays -------------------------------------------------------------------------------------------------------------- */

#define HEADER 20 /* dimensions, has nulls, type of elements, how many, the first index */

void pg_array_begin(params *p, uint32_t oid)
{
    static const char room[HEADER];
    p->array_at = p->bytes.len;
    p->array_count = 0;
    p->array_oid = oid;
    p->array_nulls = false;
    buf_add(&p->bytes, room, HEADER);
}

void pg_array_end(params *p)
{
    p->at[p->count] = p->array_at;
    p->lengths[p->count++] = (int)(p->bytes.len - p->array_at);
    if (p->bytes.failed) return;
    char *at = p->bytes.data + p->array_at;
    at = put32(at, 1);
    at = put32(at, p->array_nulls);
    at = put32(at, (int32_t)p->array_oid);
    at = put32(at, (int32_t)p->array_count);
    put32(at, 1);
}

void pg_array_bytes(params *p, const void *data, size_t n)
{
    char room[4];
    put32(room, (int32_t)n);
    buf_add(&p->bytes, room, 4);
    array_element(p, data, n);
}

void pg_array_text(params *p, const char *text)
{
    if (text) pg_array_bytes(p, text, strlen(text));
    else array_null(p);
}

/* A run may leave any bytes behind. Its outcome counts, so what is not text is replaced and not refused. */
static void add_clean(params *p, const char *text, size_t n)
{
    for (const char *at = text, *end = text + n; at < end;) {
        size_t len = *at ? utf8_char(at, end) : 0;
        if (len) buf_add(&p->bytes, at, len);
        else buf_add(&p->bytes, "\xef\xbf\xbd", 3);
        at += len ? len : 1;
    }
}

void pg_array_clean(params *p, const char *text, size_t n)
{
    if (!text) {
        array_null(p);
        return;
    }
    if (utf8_valid(text, n) && !memchr(text, '\0', n)) {
        pg_array_bytes(p, text, n);
        return;
    }
    size_t at = p->bytes.len;
    buf_add(&p->bytes, "\0\0\0\0", 4);
    add_clean(p, text, n);
    p->array_count++;
    if (!p->bytes.failed) put32(p->bytes.data + at, (int32_t)(p->bytes.len - at - 4));
}
