/* One line of an export. What is taken for a task, a limit, a batch or a schedule can be written, read again and is the same then. */
#include "runtime/record.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include <string.h>

static void write_record(const pawl_record *r, buf *out)
{
    json_writer w;
    jsonw_init(&w, out, false);
    record_write(&w, r);
    HOLDS(!out->failed);
}

static bool read_record(pawl_bytes text, pawl_record *r, pawl_arena *arena)
{
    pawl_error why = {0};
    if (!json_valid(text, NULL, NULL)) return false;
    bool good = record_read(json_parse(text), r, arena, &why);
    if (!good) HOLDS(why.message[0] && why.status);
    return good;
}

static bool read_limit(pawl_bytes text, pawl_past_limit *l, buf *out, pawl_arena *arena)
{
    pawl_error why = {0};
    json_writer w;
    if (!json_valid(text, NULL, NULL) || json_parse(text).kind != JSON_OBJECT) return false;
    if (!record_read_limit(json_parse(text), l, arena, &why)) {
        HOLDS(why.message[0] && why.status);
        return false;
    }
    jsonw_init(&w, out, false);
    record_write_limit(&w, l);
    HOLDS(!out->failed);
    return true;
}

static void same_limit(pawl_bytes text, buf *once, buf *twice, pawl_arena *arena)
{
    pawl_past_limit l, same;
    buf_clear(once);
    buf_clear(twice);
    if (!read_limit(text, &l, once, arena)) return;
    HOLDS(l.type && (l.paused || l.rate.permits > 0));
    HOLDS(read_limit((pawl_bytes){once->data, once->len}, &same, twice, arena));
    HOLDS(once->len == twice->len && memcmp(once->data, twice->data, once->len) == 0);
}

static bool read_other(pawl_bytes text, pawl_dump *page, buf *out, pawl_arena *arena)
{
    pawl_error why = {0};
    json_writer w;
    pawl_part part = json_valid(text, NULL, NULL) ? record_part(json_parse(text)) : 0;
    if (!part) return false;
    if (!record_read_other(json_parse(text), part, page, arena, &why)) {
        HOLDS(why.message[0] && why.status);
        return false;
    }
    jsonw_init(&w, out, false);
    record_write_other(&w, page, 0);
    HOLDS(!out->failed);
    return true;
}

static void same_other(pawl_bytes text, buf *once, buf *twice, pawl_arena *arena)
{
    static pawl_dump page, same;
    buf_clear(once);
    buf_clear(twice);
    if (!read_other(text, &page, once, arena)) return;
    HOLDS(read_other((pawl_bytes){once->data, once->len}, &same, twice, arena));
    HOLDS(once->len == twice->len && memcmp(once->data, twice->data, once->len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pawl_arena *arena = arena_new(alloc_default(), 64 << 20);
    pawl_record r, same;
    buf once, twice;
    buf_init(&once, alloc_default(), 64 << 20);
    buf_init(&twice, alloc_default(), 64 << 20);
    if (arena && read_record((pawl_bytes){(const char *)data, size}, &r, arena)) {
        HOLDS(r.body.id > 0 && r.body.type && r.body.queue && r.state && r.body.created_us > 0);
        write_record(&r, &once);
        HOLDS(read_record((pawl_bytes){once.data, once.len}, &same, arena));
        write_record(&same, &twice);
        HOLDS(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
        HOLDS(!memchr(once.data, '\n', once.len));
    }
    if (arena) same_limit((pawl_bytes){(const char *)data, size}, &once, &twice, arena);
    if (arena) same_other((pawl_bytes){(const char *)data, size}, &once, &twice, arena);
    buf_done(&once);
    buf_done(&twice);
    arena_free(arena);
    return 0;
}
