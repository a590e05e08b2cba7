/* Letters: what they are made of, and their text as it is sent (RFC 5322, MIME).
 *
 *   mail.c            a letter as text
 *   mail_words.c      words in headers, addresses, names of files: what may stand there, and how
 *   mail_read.c       a letter from a task's payload
 *   mail_template.c   texts with fields to fill in
 *
 * Nothing that a field holds changes what a letter is made of: control bytes are refused in all that stands in headers or is said to a
 * mail server, and texts and files are encoded so that no line of theirs is a line of the letter's own. The text is ASCII, its lines are
 * at most 998 bytes and end in CR LF. */
#ifndef HANDLERS_MAIL_H
#define HANDLERS_MAIL_H

#include "base/buf.h"
#include "base/json.h"
#include <pawl/store.h>

#define MAIL_PEOPLE_MAX 100 /* recipients of a letter */
#define MAIL_FILES_MAX 50
#define MAIL_HEADERS_MAX 20
#define MAIL_TEXT_MAX 1000 /* bytes of a subject, or another header */
#define MAIL_ADDRESS_MAX 254

typedef struct mail_person {
    const char *name; /* NULL: none */
    const char *address;
} mail_person;

typedef struct mail_file {
    const char *name;
    const char *type; /* "application/pdf" */
    pawl_bytes content;
} mail_file;

typedef struct mail_header {
    const char *name, *value;
} mail_header;

typedef struct mail_people {
    mail_person *people;
    size_t count;
} mail_people;

typedef struct mail {
    mail_person from;
    mail_people to, cc, bcc, reply_to;
    const char *subject;
    const char *text, *html; /* NULL: none; at least one of them */
    mail_file *files;
    size_t files_count;
    mail_header *headers;
    size_t headers_count;
    const char *id; /* "pawl.ID@domain" */
    int64_t at_us;  /* its date */
} mail;

/* Of what others gave; *why is a constant that goes on from "the address ...". */
bool mail_address_valid(const char *address, const char **why); /* local@domain, ASCII, without quotes, comments and literals */
bool mail_name_valid(const char *name, const char **why);       /* of a person */
bool mail_file_name_valid(const char *name, const char **why);
bool mail_file_type_valid(const char *type, const char **why);
bool mail_text_valid(const char *text, const char **why);   /* of a header: UTF-8 without control bytes */
bool mail_header_valid(const char *name, const char **why); /* one that a letter may bring: none of those that are made here */

/* Adds a header line, folded, and encoded where it must be. */
void mail_word_header(buf *out, const char *name, const char *value);
void mail_word_people(buf *out, const char *name, const mail_people *people);
void mail_word_file(buf *out, const char *name); /* Content-Disposition */

/* The letter's text; all that it is made of was found valid. */
void mail_write(const mail *m, buf *out);

/* A letter from a payload: {"to":...,"subject":...,"text":...}, see docs/handlers/email.md. `templates`: the folder of templates, NULL: there
 * are none. Sender, id and date are the caller's. INVALID, or NOT_FOUND for a template. */
pawl_status mail_read(pawl_bytes payload, const char *templates, pawl_arena *arena, mail *m, pawl_error *err);

/* Adds the text with {{name}} replaced by the field of that name; html: with what has a meaning in HTML escaped. INVALID: names what is wrong. */
pawl_status mail_template_fill(pawl_bytes text, json fields, bool html, buf *out, pawl_error *err);

#endif
