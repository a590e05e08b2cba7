/* A command line, an argument per line: every argument is taken once, by the table or with an error that can be shown, and what was
 * taken is within the bounds of the table. */
#include "base/text.h"
#include "cli/opts.h"
#include "fuzz/fuzz.h"
#include <string.h>

#define ARGS 16

static struct {
    bool flag;
    const char *text, *name, *choice;
    opt_list list;
    int64_t number, count, duration, instant, past;
    pawl_id id;
} got;

static const opt options[] = {
    OPTION(OPT_FLAG, "flag", &got.flag, NULL, "a flag"),
    OPTION(OPT_TEXT, "text", &got.text, "TEXT", "any text"),
    OPTION(OPT_NAME, "name", &got.name, "NAME", "a name"),
    OPTION(OPT_LIST, "list", &got.list, "NAME", "names"),
    OPTION(OPT_INT, "number", &got.number, "N", "any number"),
    OPTION(OPT_INT, "count", &got.count, "N", "a number", .min = 1, .max = 9, .fallback = "3"),
    OPTION(OPT_DURATION, "duration", &got.duration, "TIME", "a duration", .min = 1, .max = PAWL_DAY, .fallback = "90s"),
    OPTION(OPT_INSTANT, "instant", &got.instant, "TIME", "a time"),
    OPTION(OPT_PAST, "past", &got.past, "TIME", "a time, or how long ago"),
    OPTION(OPT_ID, "id", &got.id, "ID", "a task"),
    OPTION(OPT_CHOICE, "choice", &got.choice, "WORD", "one of these", .choices = "full|enqueue|drain"),
    OPTIONS_END,
};

static void within_bounds(void)
{
    HOLDS(got.count >= 1 && got.count <= 9 && got.duration >= 1 && got.duration <= PAWL_DAY && got.instant >= 0 && got.id >= 0);
    HOLDS(!got.name || name_valid(got.name, NULL));
    HOLDS(!got.choice || strcmp(got.choice, "full") == 0 || strcmp(got.choice, "enqueue") == 0 ||
          strcmp(got.choice, "drain") == 0);
    HOLDS(got.list.count >= 0 && got.list.count <= OPT_LIST_MAX);
    for (int i = 0; i < got.list.count; i++) HOLDS(name_valid(got.list.items[i], NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const opt *const tables[] = {options, NULL};
    char *argv[ARGS + 1] = {NULL};
    int argc = 0;
    fuzz in;
    pawl_error err;
    memset(&got, 0, sizeof got);
    fuzz_begin(&in, data, size);
    for (const char *text; argc < ARGS && (text = fuzz_text(&in)); argc++) argv[argc] = (char *)text;
    HOLDS(opts_defaults(options, &err));
    for (int at = 0; at < argc;) {
        int before = at;
        if (argv[at][0] != '-') break;
        pawl_status status = opts_take(tables, argc, argv, &at, &err);
        if (status) {
            fuzz_failed(status, &err);
            break;
        }
        HOLDS(at == before + 1 || at == before + 2);
    }
    within_bounds();
    fuzz_end(&in);
    return 0;
}
