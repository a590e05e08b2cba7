/* Secrets, by the names they stand under: whatever is shown of other people's data (answers, events, log lines, terminals) goes through
 * here first, and the values of names like "password" are masked. What is stored, and what handlers get, does not.
 *
 * A name is a secret's if one of the words is in it, in any case and whatever divides it: "apikey" is in "X-Api-Key" and in "apiKeys".
 *
 *     in JSON     the value of such a member, whatever it is, but true, false and null; the bytes of all others stay as they are.
 *                 Its other strings are text:
 *     in text     name=value, name: value, "name":"value" (also where quotes are escaped), and a URL's user:password@. A bare value goes to the
 *                 next blank or mark; after Bearer and the like one word farther; of Authorization and Cookie to the end of the line
 *
 * It is linear in the length of the text, and without memory unless there is something to mask.
 */
#ifndef BASE_REDACT_H
#define BASE_REDACT_H

#include "base/buf.h"

#define REDACT_MASK "[redacted]"
#define REDACT_WORDS_MAX 64
#define REDACT_WORD_MAX 31

typedef struct redaction {
    struct {
        char text[REDACT_WORD_MAX + 1]; /* small letters and digits */
        unsigned char len;
        bool shown; /* names that have it are no secrets */
    } words[REDACT_WORDS_MAX];
    int count;
    uint64_t first; /* a bit for each letter or digit that a word begins with */
} redaction;

/* The usual words and those of a list: "iban, ssn" beside the usual ones; "-max_tokens": such names are shown; "none": without those before it.
 * NULL: the usual ones. INVALID: the list says something else; `r` is spoilt. */
pawl_status redaction_read(redaction *r, const char *list, pawl_error *err);
const redaction *redaction_usual(void);

bool redact_name(const redaction *r, pawl_bytes name); /* a secret's; escapes of JSON are read */

typedef enum redact_form { REDACT_JSON = 1, REDACT_TEXT } redact_form; /* JSON: json_valid accepts it */

/* Walks the secrets of a text. */
typedef struct redact_walk {
    const redaction *r;
    redact_form form;
    const char *begin, *at, *end;
    const char *string, *string_end; /* JSON: the string that `at` is in; NULL: none */
} redact_walk;

redact_walk redact_begin(const redaction *r, redact_form form, pawl_bytes text);
bool redact_next(redact_walk *w, pawl_bytes *secret,
                 bool *whole); /* whole: a value of JSON as it stands: its mask needs quotes */

/* false: there is nothing to mask, and nothing was added. true: the text as it may be shown was added to `out`, or `out` failed. */
bool redact(const redaction *r, redact_form form, pawl_bytes text, buf *out);
/* The same for bytes of any kind: JSON, lines of JSON or text. What is not UTF-8 has no names. */
bool redact_bytes(const redaction *r, pawl_bytes data, buf *out);
void redact_line(const redaction *r, char *line, size_t size); /* in place; cut to `size` */

#endif
