/* What is masked of JSON and text: JSON stays JSON, with as many values as before; nothing is left to be masked; what does not change is told to have
 * nothing to hide; lines fit where they were. */
#include "base/alloc.h"
#include "base/json.h"
#include "base/redact.h"
#include "fuzz/fuzz.h"
#include <string.h>

static void forms(pawl_bytes text, redact_form form)
{
    buf once, twice;
    buf_init(&once, alloc_default(), 64u << 20);
    buf_init(&twice, alloc_default(), 64u << 20);
    if (redact(redaction_usual(), form, text, &once)) {
        pawl_bytes shown = {buf_text(&once), once.len};
        HOLDS(!once.failed);
        HOLDS(form != REDACT_JSON || json_valid(shown, NULL, NULL));
        if (redact(redaction_usual(), form, shown, &twice))
            HOLDS(form != REDACT_JSON || (twice.len == once.len && memcmp(buf_text(&twice), buf_text(&once), once.len) == 0));
    } else {
        HOLDS(once.len == 0);
    }
    buf_done(&once);
    buf_done(&twice);
}

static void line(const char *text, size_t n)
{
    char room[256];
    if (n >= sizeof room) n = sizeof room - 1;
    memcpy(room, text, n);
    room[n] = '\0';
    redact_line(redaction_usual(), room, sizeof room);
    HOLDS(strlen(room) < sizeof room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redaction r;
    pawl_error err;
    buf out;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    pawl_bytes all = {text, size};
    if (json_valid(all, NULL, NULL)) forms(all, REDACT_JSON);
    forms(all, REDACT_TEXT);
    line(text, size);
    if (!redaction_read(&r, text, &err)) HOLDS(r.count >= 0 && r.count <= REDACT_WORDS_MAX);
    buf_init(&out, alloc_default(), 64u << 20);
    redact_bytes(redaction_usual(), all, &out);
    buf_done(&out);
    free(text);
    return 0;
}
