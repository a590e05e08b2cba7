/* JSON: a strict reader (RFC 8259) that never copies or changes what it reads, and a small writer. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

#define JSON_DEPTH_MAX 128

/* Whether the bytes are one JSON value, nothing before or after it but white space, valid UTF-8, at most JSON_DEPTH_MAX deep.
 * Escapes of lone surrogates ("\ud800") are JSON by its grammar and accepted; json_string makes U+FFFD of them.
 * On false *where is the offset of the first bad byte and *what (a constant) says what is wrong; both may be NULL. */
bool json_valid(pawl_bytes text, size_t *where, const char **what);

typedef enum json_kind { JSON_NONE, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

/* A value inside a text that json_valid accepted. `raw` are its bytes exactly as they stand there. */
typedef struct json {
    json_kind kind;
    pawl_bytes raw;
} json;

json json_parse(pawl_bytes valid_text);
/* Walks an array's elements or an object's members: start with *at = 0; false at the end. key is the raw string with its quotes. */
bool json_each(json container, size_t *at, json *key, json *value);
json json_member(json object, const char *name); /* kind NONE: not there. The last of duplicates */
bool json_string(json value, buf *out);          /* decoded text is added; false: not a string, or the buffer failed. It may
                                                          * hold a NUL: text that must not be cut there is compared by its length */
bool json_int(json value, int64_t *out);         /* an integer that fits, written without fraction or exponent */
bool json_bool(json value, bool *out);

/* Writer: values after each other; commas and colons put themselves (between whole texts, at depth 0, nothing is put). Whether there
 * was room for all of it is known to the buffer. */
typedef struct json_writer {
    buf *out;
    int depth;
    bool comma, after_key; /* the next value needs a comma; stands behind its key */
    bool pretty;           /* two spaces a level, for people */
} json_writer;

void jsonw_init(json_writer *w, buf *out, bool pretty);
void jsonw_object(json_writer *w);
void jsonw_end_object(json_writer *w);
void jsonw_array(json_writer *w);
void jsonw_end_array(json_writer *w);
void jsonw_key(json_writer *w, const char *name);
void jsonw_string(json_writer *w, const char *text); /* NULL: null. Bad UTF-8 becomes U+FFFD */
void jsonw_bytes(json_writer *w, pawl_bytes text);   /* as a string */
void jsonw_int(json_writer *w, int64_t value);
void jsonw_double(json_writer *w, double value);
void jsonw_bool(json_writer *w, bool value);
void jsonw_null(json_writer *w);
void jsonw_raw(json_writer *w, pawl_bytes json_text); /* valid JSON, byte for byte */
void jsonw_base64(json_writer *w, pawl_bytes data);

#endif
