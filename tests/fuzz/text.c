/* Text that people type: ids, instants, durations, names. What is accepted comes back the same when written and read again. */
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(what) \
    if (!(what)) abort()

static void ids(const char *text)
{
    pawl_id id, again;
    char written[PAWL_ID_TEXT];
    if (!pawl_id_parse(text, &id)) return;
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
    if (name_valid(text, &what)) HOLDS(utf8_valid(text, strlen(text)) && strlen(text) <= NAME_MAX_BYTES);
    HOLDS(utf8_cut(text, size / 2) <= size / 2);
    free(text);
    return 0;
}
