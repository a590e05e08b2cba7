/* Names, durations, instants and numbers as text. What a function formats, its parser reads; instants come
 * back exactly. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <pawl.h>

#define NAME_MAX_BYTES 200

bool utf8_valid(const char *data, size_t n);
size_t utf8_char(const char *at, const char *end); /* bytes of the character at `at` (before end): 1..4; 0: not UTF-8 */
size_t utf8_cut(const char *text, size_t n);       /* the longest length <= n that cuts no character in two */
/* What somebody gave, for an error or a log: cut to `size` between characters; control characters and what is not UTF-8 become "?". */
void text_show(const char *text, size_t n, char *out, size_t size);
/* 1..200 bytes of UTF-8 without control bytes (C0, DEL, C1). On failure *what (a constant) says why; may be NULL. */
bool name_valid(const char *name, const char **what);

/* Durations: "90s", "1h30m", "250ms", "1d", "10us"; a bare number is refused. Not negative. Larger units first, each once; single
 * spaces between them and a fraction in the last ("1.5h") are allowed. */
bool duration_parse(const char *text, int64_t *us);
#define DURATION_TEXT 32
void duration_format(int64_t us, char *out, size_t size); /* for people, cut to two units: "1h 30m", "250ms", "4.2s" */

/* RFC 3339: "2026-11-15T04:49:03Z", fractions to microseconds (more digits are cut off), "+01:00" offsets. Years 1970..9999. */
#define RFC3339_TEXT 28 /* "2026-11-15T04:49:03.000000Z" and a NUL */
bool rfc3339_parse(const char *text, int64_t *us);
void rfc3339_format(int64_t us, char out[RFC3339_TEXT]); /* UTC, six digits; clamped to those years */

bool csv_has(const char *csv, const char *name); /* names with commas between them; NULL has none */

bool base64_decode(char *text, size_t *len); /* in place: `text` becomes the bytes. false: not base64 */

bool int_parse(const char *text, int64_t min, int64_t max, int64_t *out); /* decimal, the whole text */

#endif
