/* Makes zone files for tests: the bytes of a TZif file from its parts. */
#ifndef CRON_TZIF_H
#define CRON_TZIF_H

#include <pawl.h>
#include <stdint.h>
#include <string.h>

#define TZIF_MAX 8192

typedef struct tzif_type {
    int32_t offset_s;
    uint8_t summer, abbreviation; /* where it begins in the letters */
} tzif_type;

typedef struct tzif {
    char version; /* '\0', '2', '3', '4' */
    int times;
    int64_t at_s[64];
    uint8_t type_at[64];
    int types;
    tzif_type type[8];
    const char *letters;
    uint32_t letters_count; /* 0: those of `letters` up to the second NUL, "CET\0CEST\0" */
    uint32_t leaps, standard_marks, utc_marks;
    const char *rule;
} tzif;

typedef struct tzif_bytes {
    unsigned char data[TZIF_MAX];
    size_t len;
} tzif_bytes;

static inline void tzif_put(tzif_bytes *b, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--) b->data[b->len++] = (unsigned char)(value >> (8 * i));
}

static inline void tzif_part(tzif_bytes *b, const tzif *t, int width)
{
    uint32_t letters = t->letters_count;
    if (!letters)
        for (letters = 1; t->letters[letters - 1] || t->letters[letters];) letters++;
    memcpy(b->data + b->len, "TZif", 4);
    b->data[b->len + 4] = (unsigned char)t->version;
    memset(b->data + b->len + 5, 0, 15);
    b->len += 20;
    const uint32_t counts[] = {t->utc_marks, t->standard_marks, t->leaps, (uint32_t)t->times, (uint32_t)t->types, letters};
    for (int i = 0; i < 6; i++) tzif_put(b, counts[i], 4);
    for (int i = 0; i < t->times; i++) tzif_put(b, (uint64_t)t->at_s[i], width);
    for (int i = 0; i < t->times; i++) tzif_put(b, t->type_at[i], 1);
    for (int i = 0; i < t->types; i++) {
        tzif_put(b, (uint32_t)t->type[i].offset_s, 4);
        tzif_put(b, t->type[i].summer, 1);
        tzif_put(b, t->type[i].abbreviation, 1);
    }
    memcpy(b->data + b->len, t->letters, letters);
    b->len += letters;
    size_t rest = t->leaps * (size_t)(width + 4) + t->standard_marks + t->utc_marks;
    memset(b->data + b->len, 0, rest);
    b->len += rest;
}

static inline pawl_bytes tzif_make(tzif_bytes *b, const tzif *t)
{
    b->len = 0;
    tzif_part(b, t, 4);
    if (t->version) {
        tzif_part(b, t, 8);
        tzif_put(b, '\n', 1);
        if (t->rule) memcpy(b->data + b->len, t->rule, strlen(t->rule));
        b->len += t->rule ? strlen(t->rule) : 0;
        tzif_put(b, '\n', 1);
    }
    return (pawl_bytes){(const char *)b->data, b->len};
}

#endif
