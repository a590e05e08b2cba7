/* A letter from a task's payload. What it does not know is refused by its name, and so is everything that could be more than it should be. */
#include "handlers/mail.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TEMPLATE_MAX (1u << 20)
#define BODY_MAX (64u << 20)
#define SHOWN 80 /* bytes of what is wrong, in an error */

typedef struct reader {
    pawl_arena *arena;
    const char *templates;
    mail *m;
    pawl_error *err;
    json fields; /* for the template */
    const char *template;
} reader;

static pawl_status no_memory(const reader *r) { return err_set(r->err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

/* Text without a NUL in it, in the arena. */
static pawl_status read_text(const reader *r, const char *what, json value, const char **out)
{
    buf text;
    if (value.kind != JSON_STRING) return err_set(r->err, PAWL_INVALID, "\"%s\" must be a string", what);
    buf_init(&text, alloc_default(), BODY_MAX);
    bool ok = json_string(value, &text);
    bool whole = ok && !memchr(buf_text(&text), '\0', text.len);
    *out = whole ? pawl_arena_bytes(r->arena, buf_text(&text), text.len) : NULL;
    buf_done(&text);
    if (!ok) return no_memory(r);
    if (!whole) return err_set(r->err, PAWL_INVALID, "\"%s\" has a NUL in it", what);
    return *out ? PAWL_OK : no_memory(r);
}

/* The same, if `valid` says so, too. */
static pawl_status read_valid(const reader *r, const char *what, json value, bool (*valid)(const char *, const char **),
                              const char **out)
{
    const char *why;
    char shown[SHOWN];
    pawl_status status = read_text(r, what, value, out);
    if (status || valid(*out, &why)) return status;
    text_show(*out, strlen(*out), shown, sizeof shown);
    return err_set(r->err, PAWL_INVALID, "\"%s\": \"%s\" %s", what, shown, why);
}

static bool is(json key, const char *name)
{
    size_t n = strlen(name);
    return key.raw.len == n + 2 && memcmp((const char *)key.raw.data + 1, name, n) == 0;
}

static pawl_status unknown(const reader *r, const char *of, json key)
{
    char shown[SHOWN];
    text_show(key.raw.data, key.raw.len, shown, sizeof shown);
    return err_set(r->err, PAWL_INVALID, "%s has a member %s, which means nothing here", of, shown);
}

/* ---- people ------------------------------------------------------------------------------------------------------------------ */

/* "ann@example.org", or {"name": "Ann", "address": "ann@example.org"}. */
static pawl_status read_person(const reader *r, const char *what, json value, mail_person *out)
{
    json key, member;
    pawl_status status = PAWL_OK;
    if (value.kind == JSON_STRING) return read_valid(r, what, value, mail_address_valid, &out->address);
    if (value.kind != JSON_OBJECT)
        return err_set(r->err, PAWL_INVALID, "\"%s\" must be an address, or {\"name\": ..., \"address\": ...}", what);
    for (size_t at = 0; !status && json_each(value, &at, &key, &member);) {
        if (is(key, "name")) status = read_valid(r, what, member, mail_name_valid, &out->name);
        else if (is(key, "address")) status = read_valid(r, what, member, mail_address_valid, &out->address);
        else status = unknown(r, what, key);
    }
    if (status || out->address) return status;
    return err_set(r->err, PAWL_INVALID, "\"%s\" has nobody's address in it", what);
}

static pawl_status read_people(const reader *r, const char *what, json value, mail_people *out)
{
    json key, one;
    pawl_status status = PAWL_OK;
    if (out->people) return err_set(r->err, PAWL_INVALID, "\"%s\" is there twice", what);
    out->people = pawl_arena_alloc(r->arena, MAIL_PEOPLE_MAX * sizeof *out->people);
    if (!out->people) return no_memory(r);
    if (value.kind != JSON_ARRAY) return out->count = 1, read_person(r, what, value, out->people);
    for (size_t at = 0; !status && json_each(value, &at, &key, &one);) {
        if (out->count == MAIL_PEOPLE_MAX)
            return err_set(r->err, PAWL_TOO_LARGE, "\"%s\" has more than %d addresses", what, MAIL_PEOPLE_MAX);
        status = read_person(r, what, one, &out->people[out->count++]);
    }
    return status;
}

/* ---- files and headers ------------------------------------------------------------------------------------------------------- */

static pawl_status read_content(const reader *r, json value, bool base64, pawl_bytes *out)
{
    const char *text;
    pawl_status status = read_text(r, base64 ? "content" : "text", value, &text);
    if (status) return status;
    size_t n = strlen(text);
    if (base64 && !base64_decode((char *)text, &n))
        return err_set(r->err, PAWL_INVALID, "the \"content\" of an attachment is not base64");
    *out = (pawl_bytes){text, n};
    return PAWL_OK;
}

/* {"name": ..., "type": ..., "content": base64 | "text": ...} */
static pawl_status read_file(const reader *r, json value, mail_file *out)
{
    json key, member;
    int contents = 0;
    pawl_status status = PAWL_OK;
    for (size_t at = 0; !status && json_each(value, &at, &key, &member);) {
        bool content = is(key, "content");
        if (is(key, "name")) status = read_valid(r, "name", member, mail_file_name_valid, &out->name);
        else if (is(key, "type")) status = read_valid(r, "type", member, mail_file_type_valid, &out->type);
        else if (content || is(key, "text")) status = read_content(r, member, content, &out->content), contents++;
        else status = unknown(r, "an attachment", key);
    }
    if (status) return status;
    if (!out->name || contents != 1)
        return err_set(r->err, PAWL_INVALID, "an attachment needs \"name\", and either \"content\" in base64 or \"text\"");
    if (!out->type) out->type = "application/octet-stream";
    return PAWL_OK;
}

static pawl_status read_files(const reader *r, json value)
{
    mail *m = r->m;
    json key, one;
    pawl_status status = PAWL_OK;
    if (value.kind != JSON_ARRAY || m->files) return err_set(r->err, PAWL_INVALID, "\"attachments\" must be one list");
    m->files = pawl_arena_alloc(r->arena, MAIL_FILES_MAX * sizeof *m->files);
    if (!m->files) return no_memory(r);
    for (size_t at = 0; !status && json_each(value, &at, &key, &one);) {
        if (m->files_count == MAIL_FILES_MAX)
            return err_set(r->err, PAWL_TOO_LARGE, "there are more than %d attachments", MAIL_FILES_MAX);
        if (one.kind != JSON_OBJECT) return err_set(r->err, PAWL_INVALID, "an attachment is an object");
        status = read_file(r, one, &m->files[m->files_count++]);
    }
    return status;
}

static pawl_status read_headers(const reader *r, json value)
{
    mail *m = r->m;
    json key, one;
    pawl_status status = PAWL_OK;
    if (value.kind != JSON_OBJECT || m->headers) return err_set(r->err, PAWL_INVALID, "\"headers\" must be one object");
    m->headers = pawl_arena_alloc(r->arena, MAIL_HEADERS_MAX * sizeof *m->headers);
    if (!m->headers) return no_memory(r);
    for (size_t at = 0; !status && json_each(value, &at, &key, &one);) {
        mail_header *h = &m->headers[m->headers_count];
        if (m->headers_count++ == MAIL_HEADERS_MAX)
            return err_set(r->err, PAWL_TOO_LARGE, "there are more than %d headers", MAIL_HEADERS_MAX);
        status = read_valid(r, "headers", key, mail_header_valid, &h->name);
        if (!status) status = read_valid(r, h->name, one, mail_text_valid, &h->value);
    }
    return status;
}

/* ---- templates --------------------------------------------------------------------------------------------------------------- */

static bool template_name_valid(const char *name, const char **why)
{
    size_t n = strlen(name);
    *why = "is no name of a template: letters, digits, \"-\" and \"_\", 64 at most";
    if (!n || n > 64) return false;
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && *name != '-' && *name != '_') return false;
    }
    return true;
}

/* The filled-in text of FOLDER/NAME.PART; *out stays NULL if there is no such file. */
static pawl_status fill_part(const reader *r, const char *part, const char **out)
{
    char path[4096], block[4096];
    buf text, filled;
    snprintf(path, sizeof path, "%s/%s.%s", r->templates, r->template, part);
    FILE *in = fopen(path, "re");
    if (!in && errno == ENOENT) return PAWL_OK;
    if (!in) return err_set(r->err, PAWL_UNAVAILABLE, "could not read \"%s\": %s", path, strerror(errno));
    buf_init(&text, alloc_default(), TEMPLATE_MAX);
    buf_init(&filled, alloc_default(), BODY_MAX);
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) buf_add(&text, block, n);
    bool whole = !ferror(in) && !text.failed && utf8_valid(buf_text(&text), text.len);
    fclose(in);
    pawl_status status =
        whole ? mail_template_fill((pawl_bytes){buf_text(&text), text.len}, r->fields, strcmp(part, "html") == 0, &filled, r->err)
              : err_set(r->err, PAWL_UNAVAILABLE, "could not read \"%s\": it must be UTF-8 of at most 1 MiB", path);
    if (!status && memchr(buf_text(&filled), '\0', filled.len)) status = err_set(r->err, PAWL_INVALID, "a field has a NUL in it");
    if (!status && !(*out = pawl_arena_bytes(r->arena, buf_text(&filled), filled.len))) status = no_memory(r);
    buf_done(&text);
    buf_done(&filled);
    return status;
}

static pawl_status fill_template(const reader *r)
{
    mail *m = r->m;
    const char *why, *subject = NULL;
    if (!r->templates)
        return err_set(r->err, PAWL_INVALID, "there are no templates here: the handler has no setting \"templates\"");
    if (m->text || m->html)
        return err_set(r->err, PAWL_INVALID, "a letter has either a template or \"text\" and \"html\" of its own");
    pawl_status status = fill_part(r, "txt", &m->text);
    if (!status) status = fill_part(r, "html", &m->html);
    if (!status) status = fill_part(r, "subject", &subject);
    if (status) return status;
    if (!m->text && !m->html)
        return err_set(r->err, PAWL_NOT_FOUND, "there is no template \"%s\": neither %s.txt nor %s.html is in \"%s\"",
                       r->template, r->template, r->template, r->templates);
    if (m->subject || !subject) return PAWL_OK;
    size_t n = strlen(subject); /* the line end behind it is the file's */
    while (n && (subject[n - 1] == '\n' || subject[n - 1] == '\r')) n--;
    m->subject = pawl_arena_bytes(r->arena, subject, n);
    if (!m->subject) return no_memory(r);
    return mail_text_valid(m->subject, &why) ? PAWL_OK
                                             : err_set(r->err, PAWL_INVALID, "the subject that the template makes %s", why);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------- */

static pawl_status read_member(reader *r, json key, json value)
{
    mail *m = r->m;
    if (is(key, "to")) return read_people(r, "to", value, &m->to);
    if (is(key, "cc")) return read_people(r, "cc", value, &m->cc);
    if (is(key, "bcc")) return read_people(r, "bcc", value, &m->bcc);
    if (is(key, "reply_to")) return read_people(r, "reply_to", value, &m->reply_to);
    if (is(key, "subject")) return read_valid(r, "subject", value, mail_text_valid, &m->subject);
    if (is(key, "text")) return read_text(r, "text", value, &m->text);
    if (is(key, "html")) return read_text(r, "html", value, &m->html);
    if (is(key, "attachments")) return read_files(r, value);
    if (is(key, "headers")) return read_headers(r, value);
    if (is(key, "template")) return read_valid(r, "template", value, template_name_valid, &r->template);
    if (!is(key, "fields")) return unknown(r, "the payload", key);
    if (value.kind != JSON_OBJECT) return err_set(r->err, PAWL_INVALID, "\"fields\" must be an object");
    r->fields = value;
    return PAWL_OK;
}

pawl_status mail_read(pawl_bytes payload, const char *templates, pawl_arena *arena, mail *m, pawl_error *err)
{
    reader r = {.arena = arena, .templates = templates, .m = m, .err = err};
    json key, value;
    pawl_status status = PAWL_OK;
    if (!json_valid(payload, NULL, NULL) || json_parse(payload).kind != JSON_OBJECT)
        return err_set(err, PAWL_INVALID,
                       "the payload must be a JSON object, like {\"to\": ..., \"subject\": ..., \"text\": ...}");
    for (size_t at = 0; !status && json_each(json_parse(payload), &at, &key, &value);) status = read_member(&r, key, value);
    if (!status && r.template) status = fill_template(&r);
    if (status) return status;
    size_t people = m->to.count + m->cc.count + m->bcc.count;
    if (!people) return err_set(err, PAWL_INVALID, "the letter is for nobody: \"to\", \"cc\" or \"bcc\" is needed");
    if (people > MAIL_PEOPLE_MAX) return err_set(err, PAWL_TOO_LARGE, "the letter is for more than %d people", MAIL_PEOPLE_MAX);
    if (!m->subject) return err_set(err, PAWL_INVALID, "\"subject\" is needed");
    if (!m->text && !m->html) return err_set(err, PAWL_INVALID, "\"text\", \"html\" or a template is needed");
    return PAWL_OK;
}
