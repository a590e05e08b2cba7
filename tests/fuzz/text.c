/* Text that people type: ids, instants, durations, numbers, names, lists of names. What is accepted comes back the same when it is
 * written and read again, or is what the C library makes of it. */
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "runtime/runtime.h"
#include <errno.h>
#include <string.h>

static void ids(const char *text)
{
    pawl_id id, again;
    char written[PAWL_ID_TEXT];
    if (!pawl_id_parse(text, &id)) return;
    HOLDS(id > 0);
    pawl_id_format(id, written);
    HOLDS(pawl_id_parse(written, &again) && again == id);
}

static void instants(const char *text)
{
    int64_t us, again;
    char written[RFC3339_TEXT];
    if (!rfc3339_parse(text, &us)) return;
    rfc3339_format(us, written);
    HOLDS(rfc3339_parse(written, &again) && again == us);
}

static void durations(const char *text)
{
    int64_t us, again;
    char written[DURATION_TEXT];
    if (!duration_parse(text, &us)) return;
    HOLDS(us >= 0);
    duration_format(us, written, sizeof written); /* two units only: never more than it was */
    HOLDS(duration_parse(written, &again) && again <= us);
}

/* strtoll takes all that int_parse takes, and besides that only blanks, a plus and, for what does not fit, an excuse. */
static void numbers(const char *text)
{
    int64_t value;
    char *end;
    errno = 0;
    long long theirs = strtoll(text, &end, 10);
    bool whole = errno == 0 && end != text && !*end && (*text == '-' || (*text >= '0' && *text <= '9'));
    bool ours = int_parse(text, INT64_MIN, INT64_MAX, &value);
    HOLDS(ours == whole && (!ours || value == theirs));
    HOLDS(int_parse(text, -5, 5, &value) == (whole && theirs >= -5 && theirs <= 5));
}

/* The text holds each name that it is made of, and no other. */
static void lists(const char *text)
{
    char name[64];
    for (const char *at = text; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        if (n > 0 && n < sizeof name) {
            memcpy(name, at, n);
            name[n] = '\0';
            HOLDS(csv_has(text, name));
        }
        at += n;
    }
    HOLDS(!csv_has(text, ",") && !csv_has(text, "a name, and another"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *what = NULL;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    ids(text);
    instants(text);
    durations(text);
    numbers(text);
    lists(text);
    if (name_valid(text, &what)) HOLDS(utf8_valid(text, strlen(text)) && strlen(text) <= NAME_MAX_BYTES);
    else HOLDS(what);
    HOLDS(utf8_cut(text, size / 2) <= size / 2);
    free(text);
    return 0;
}
