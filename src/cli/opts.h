/* Options of the command line: one table says name, type, range, default and help, and the parser, the error messages and `--help`
 * all come from it. */
#ifndef CLI_OPTS_H
#define CLI_OPTS_H

#include "base/buf.h"
#include "base/closest.h"
#include <pawl.h>
#include <stdio.h>

typedef enum opt_type {
    OPT_END = 0,  /* closes a table */
    OPT_FLAG,     /* bool: no value */
    OPT_TEXT,     /* const char *: any bytes */
    OPT_NAME,     /* const char *: a name as pawl.h allows them */
    OPT_LIST,     /* opt_list: a name, may be repeated */
    OPT_INT,      /* int64_t within min..max */
    OPT_DURATION, /* int64_t microseconds within min..max */
    OPT_INSTANT,  /* int64_t: RFC 3339 */
    OPT_PAST,     /* int64_t: RFC 3339, or how long ago ("2h") */
    OPT_ID,       /* pawl_id */
    OPT_CHOICE    /* const char *: one of choices */
} opt_type;

#define OPT_LIST_MAX 64

typedef struct opt_list {
    const char *items[OPT_LIST_MAX];
    int count;
} opt_list;

typedef struct opt {
    const char *name; /* without the dashes */
    opt_type type;
    void *to;          /* where the value goes; its type follows from `type` */
    const char *value; /* what stands for it in the help: "N" */
    const char *help;
    int64_t min, max;     /* INT, DURATION; both 0: no bounds but the type's */
    const char *fallback; /* default, read like a value; NULL: whatever is in *to */
    const char *choices;  /* "full|enqueue|drain"; of any other type than CHOICE: what a shell offers */
    char letter;          /* "-n" is the same; 0: none */
} opt;

#define OPTION(kind, flag, target, shown, ...)                                        \
    {                                                                                 \
        .type = kind, .name = flag, .to = target, .value = shown, .help = __VA_ARGS__ \
    }
#define OPTIONS_END     \
    {                   \
        .type = OPT_END \
    }

/* Puts the defaults in place. */
bool opts_defaults(const opt *table, pawl_error *err);

/* Finds `--name` or `--name=value` in one of the tables (NULL-terminated list of tables); NULL: not there. */
const opt *opts_find(const opt *const *tables, const char *argument);

/* Takes argv[*at], which begins with '-', and its value, and moves *at behind them. INVALID: an error that names the flag. */
pawl_status opts_take(const opt *const *tables, int argc, char **argv, int *at, pawl_error *err);

/* A value that comes from elsewhere than the command line; a flag's is true or false. The text must live as long as the option. */
pawl_status opts_set(const opt *o, const char *text, pawl_error *err);

void opts_help(const opt *table, FILE *out, int width);

#endif
