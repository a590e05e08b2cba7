#include "core/told.h"
#include <string.h>

#define VERSION 1

/* ---- numbers: seven bits a byte, the lowest first ---------------------------------------------------------------------- */

static void put(buf *to, int64_t value)
{
    uint64_t n = (uint64_t)value;
    for (; n >= 128; n >>= 7) buf_char(to, (char)(n | 128));
    buf_char(to, (char)n);
}

static void put_bytes(buf *to, pawl_bytes bytes)
{
    put(to, (int64_t)bytes.len);
    buf_add(to, bytes.data, bytes.len);
}

typedef struct reader {
    const char *at, *end;
    bool bad;
} reader;

static int64_t get(reader *r)
{
    uint64_t n = 0;
    for (int shift = 0; shift < 63; shift += 7) {
        if (r->at == r->end) break;
        unsigned char byte = (unsigned char)*r->at++;
        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return (int64_t)(n & INT64_MAX);
    }
    r->bad = true;
    return 0;
}

static int get_count(reader *r, int most)
{
    int64_t n = get(r);
    if (n > most) r->bad = true;
    return r->bad ? 0 : (int)n;
}

static pawl_bytes get_bytes(reader *r)
{
    int64_t n = get(r);
    if (n > r->end - r->at) r->bad = true;
    if (r->bad) return (pawl_bytes){0};
    pawl_bytes bytes = {r->at, (size_t)n};
    r->at += n;
    return bytes;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------- */

void told_write(buf *to, const told *t)
{
    const int64_t totals[] = {VERSION, t->parked, t->running, t->deferrals, t->rejected, t->opened, t->keys_count};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) put(to, totals[i]);
    for (const told_key *k = t->keys; k < t->keys + t->keys_count; k++) {
        put_bytes(to, k->type);
        put_bytes(to, k->key);
        put(to, k->local);
        put(to, k->parked);
        put(to, k->running);
        put(to, k->slot_us);
        put(to, k->left);
    }
    put(to, t->tasks_count);
    for (int i = 0; i < t->tasks_count; i++) {
        put(to, t->tasks[i].id);
        put(to, t->tasks[i].slot_us);
    }
}

bool told_read(pawl_bytes from, told *out)
{
    reader r = {from.data, from.data + from.len, false};
    memset(out, 0, sizeof *out);
    if (from.len == 0 || get(&r) != VERSION) return false;
    out->parked = get(&r);
    out->running = get(&r);
    out->deferrals = get(&r);
    out->rejected = get(&r);
    out->opened = get(&r);
    out->keys_count = get_count(&r, TOLD_KEYS);
    for (told_key *k = out->keys; k < out->keys + out->keys_count && !r.bad; k++) {
        k->type = get_bytes(&r);
        k->key = get_bytes(&r);
        k->local = get(&r) != 0;
        k->parked = get(&r);
        k->running = get(&r);
        k->slot_us = get(&r);
        k->left = get(&r);
    }
    out->tasks_count = get_count(&r, TOLD_TASKS);
    for (int i = 0; i < out->tasks_count && !r.bad; i++) out->tasks[i] = (told_task){.id = get(&r), .slot_us = get(&r)};
    if (r.bad) memset(out, 0, sizeof *out);
    return !r.bad;
}
