/* Settings of a handler: one table per kind says name, type, range, default and help. Reading a section of the file, its errors, the
 * sample and the documentation's test all come from it. Values are put into a struct of the kind's own, at the offset that the table says.
 */
#ifndef HANDLERS_SETTINGS_H
#define HANDLERS_SETTINGS_H

#include "base/alloc.h"
#include <pawl.h>
#include <stddef.h>
#include <stdio.h>

typedef enum setting_type {
    SETTING_END = 0,  /* closes a table */
    SETTING_TEXT,     /* const char *: any text; NULL: was not given */
    SETTING_NAME,     /* const char *: a name as pawl.h allows them */
    SETTING_CHOICE,   /* const char *: one of choices */
    SETTING_LINES,    /* text_list: one item a line; the setting may be repeated, and order is kept */
    SETTING_LIST,     /* text_list: separated by commas; may be repeated, too */
    SETTING_INT,      /* int64_t within min..max */
    SETTING_BYTES,    /* int64_t within min..max; may end in K, M or G, of 1024 each */
    SETTING_DURATION, /* int64_t microseconds within min..max */
    SETTING_FLAG      /* bool: true or false, yes or no */
} setting_type;

typedef struct text_list {
    const char **items;
    size_t count;
} text_list;

typedef struct setting {
    const char *name;
    setting_type type;
    size_t offset;        /* of its member, whose type follows from `type` */
    const char *value;    /* what stands for it in the sample: "DIRECTORY" */
    const char *help;     /* a phrase, for the sample */
    int64_t min, max;     /* INT, BYTES, DURATION; both 0: no bounds but the type's */
    const char *fallback; /* default, read like a value; NULL: zero */
    const char *choices;  /* "log|result" */
    bool needed;          /* a section without it is refused */
} setting;

#define SETTING(kind, struct_type, member, called, shown, ...)                                                     \
    {                                                                                                              \
        .type = kind, .offset = offsetof(struct_type, member), .name = called, .value = shown, .help = __VA_ARGS__ \
    }
#define SETTINGS_END        \
    {                       \
        .type = SETTING_END \
    }

#define SETTINGS_ITEMS_MAX 256 /* of a list */

/* `settings` may be NULL. */
const setting *settings_find(const setting *settings, const char *name);
/* Puts a value in place; what must be kept is kept in the arena. INVALID: a sentence that names the setting. */
pawl_status settings_put(const setting *s, const char *text, void *to, pawl_arena *arena, pawl_error *err);
void settings_sample(const setting *settings, FILE *out);

#endif
