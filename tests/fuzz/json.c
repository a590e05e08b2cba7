/* Whatever json_valid accepts can be walked to the last value, every value is valid JSON by itself, and what the writer makes of it is
 * valid again. Where jansson is installed the two agree on what JSON is, but for the differences that the unit test names. */
#include "base/json.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#ifdef FUZZ_ORACLE
#include "unit/json_oracle.h"
#endif
#include <string.h>

static pawl_bytes bytes_of(const buf *b) { return (pawl_bytes){buf_text(b), b->len}; }

static void walk(json value, json_writer *w);

static void walk_container(json value, json_writer *w)
{
    size_t at = 0;
    json key, member;
    buf name;
    buf_init(&name, alloc_default(), 1 << 20);
    value.kind == JSON_OBJECT ? jsonw_object(w) : jsonw_array(w);
    while (json_each(value, &at, &key, &member)) {
        HOLDS(at <= value.raw.len);
        if (value.kind == JSON_OBJECT) {
            buf_clear(&name);
            HOLDS(json_string(key, &name));
            jsonw_key(w, buf_text(&name));
            HOLDS(json_member(value, buf_text(&name)).kind != JSON_NONE || memchr(buf_text(&name), 0, name.len));
        }
        walk(member, w);
    }
    value.kind == JSON_OBJECT ? jsonw_end_object(w) : jsonw_end_array(w);
    buf_done(&name);
}

static void walk_string(json value, json_writer *w)
{
    buf text;
    buf_init(&text, alloc_default(), 1 << 20);
    HOLDS(json_string(value, &text));
    jsonw_bytes(w, bytes_of(&text));
    buf_done(&text);
}

static void walk(json value, json_writer *w)
{
    int64_t number;
    bool truth;
    HOLDS(json_valid(value.raw, NULL, NULL));
    switch (value.kind) {
    case JSON_OBJECT:
    case JSON_ARRAY: walk_container(value, w); return;
    case JSON_STRING: walk_string(value, w); return;
    case JSON_NUMBER:
        if (json_int(value, &number)) {
            jsonw_int(w, number);
            return;
        }
        break;
    case JSON_BOOL: HOLDS(json_bool(value, &truth)); break;
    case JSON_NULL: break;
    case JSON_NONE: abort();
    }
    jsonw_raw(w, value.raw);
}

#ifdef FUZZ_ORACLE
static void ask_oracle(pawl_bytes text, bool valid, const char *what)
{
    verdict theirs = oracle_verdict(text.data, text.len);
    if (valid) HOLDS(theirs != VERDICT_INVALID);
    else HOLDS(theirs != VERDICT_VALID || strncmp(what, "nested too deep", 15) == 0);
}
#else
static void ask_oracle(pawl_bytes text, bool valid, const char *what) { (void)text, (void)valid, (void)what; }
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t where = 0;
    const char *what = NULL;
    pawl_bytes text = {(const char *)data, size};
    bool valid = json_valid(text, &where, &what);
    ask_oracle(text, valid, what);
    if (!valid) {
        HOLDS(where <= size && what);
        return 0;
    }
    buf out;
    json_writer w;
    buf_init(&out, alloc_default(), 16 << 20);
    jsonw_init(&w, &out, size % 2);
    walk(json_parse(text), &w);
    HOLDS(out.failed || json_valid(bytes_of(&out), NULL, NULL));
    buf_done(&out);
    return 0;
}
