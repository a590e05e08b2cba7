/* Letters from payloads, and templates. The text of a letter is ASCII, its lines are short and end in CR LF, and of the headers that are made here
 * there is one each, whatever the payload holds. A template's fields bring no markup into HTML. */
#include "fuzz/fuzz.h"
#include "base/alloc.h"
#include "base/json.h"
#include "handlers/mail.h"
#include <string.h>
#include <strings.h>

static void check_line(const char *line, size_t n, int seen[3])
{
    static const char *const names[] = {"From:", "Message-ID:", "Bcc:"};
    HOLDS(n <= 998);
    for (size_t i = 0; i < n; i++) HOLDS(line[i] == '\t' || (line[i] >= 32 && line[i] < 127));
    for (int i = 0; i < 3; i++) seen[i] += n >= strlen(names[i]) && strncasecmp(line, names[i], strlen(names[i])) == 0;
}

/* The headers are all there is before the first empty line. */
static void check_letter(const buf *out)
{
    int seen[3] = {0}, ignored[3] = {0};
    bool body = false;
    HOLDS(!out->failed && out->len > 2 && memcmp(out->data + out->len - 2, "\r\n", 2) == 0);
    for (const char *at = out->data, *end = at + out->len; at < end;) {
        const char *stop = memmem(at, (size_t)(end - at), "\r\n", 2);
        check_line(at, (size_t)(stop - at), body ? ignored : seen);
        body = body || stop == at;
        at = stop + 2;
    }
    HOLDS(body && seen[0] == 1 && seen[1] == 1 && seen[2] == 0);
}

static void letter(pawl_bytes payload)
{
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_error err;
    mail m = {.from = {.name = "A \"B\"", .address = "a@example.org"}, .id = "pawl.1@example.org", .at_us = PAWL_DAY};
    buf out;
    HOLDS(arena);
    buf_init(&out, alloc_default(), 64u << 20);
    pawl_status status = mail_read(payload, NULL, arena, &m, &err);
    if (status) {
        fuzz_failed(status, &err);
    } else {
        mail_write(&m, &out);
        check_letter(&out);
    }
    buf_done(&out);
    arena_free(arena);
}

static size_t count(const char *data, size_t n, const char *chars)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++) found += data[i] && strchr(chars, data[i]);
    return found;
}

static void template(pawl_bytes text)
{
    static const char fields[] = "{\"a\":\"<b title='\\\"'>&</b>`\",\"b\":{\"c\":12,\"d\":null,\"e\":true},\"f\":[1]}";
    pawl_error err;
    buf out;
    buf_init(&out, alloc_default(), 1u << 20);
    pawl_status status = mail_template_fill(text, json_parse(pawl_str(fields)), true, &out, &err);
    if (status) fuzz_failed(status, &err);
    else HOLDS(count(buf_text(&out), out.len, "<>\"'`") <= count(text.data, text.len, "<>\"'`"));
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz in;
    fuzz_begin(&in, data, size);
    pawl_bytes text = fuzz_bytes(&in);
    if (size && data[0] == '{' && (size < 2 || data[1] != '{')) letter(text);
    else if (size) template(text);
    fuzz_end(&in);
    return 0;
}
