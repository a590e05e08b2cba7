/* What may stand in a letter's headers, and how it is written there.
 *
 * Text that is not plain becomes encoded words (RFC 2047), a file's name parameters in pieces (RFC 2231). Both are ASCII without
 * spaces, quotes and line ends, whatever they stand for.
 */
#include "handlers/mail.h"

#include "base/text.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

#define LINE 76
#define WORD_FRAME 12 /* "=?UTF-8?B?" and "?=" */
#define PIECE 54      /* characters of one piece of a file's name */

/* ---- what may stand there -------------------------------------------------------------------------------------------------- */

static bool only(const char *text, size_t n, const char *others)
{
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr(others, text[i])) return false;
    }
    return true;
}

/* Parts between dots, none of them empty or longer than `most`. */
static bool dotted(const char *text, size_t n, const char *others, size_t most)
{
    for (size_t at = 0; at <= n;) {
        const char *dot = memchr(text + at, '.', n - at);
        size_t len = dot ? (size_t)(dot - text) - at : n - at;
        if (!len || len > most || !only(text + at, len, others)) return false;
        at += len + 1;
    }
    return true;
}

static bool ascii(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text > 126 || (unsigned char)*text < 32) return false;
    }
    return true;
}

bool mail_address_valid(const char *address, const char **why)
{
    const char *at = strrchr(address, '@');
    size_t n = strlen(address), local = at ? (size_t)(at - address) : 0, domain = at ? n - local - 1 : 0;
    *why = NULL;
    if (!n) *why = "is empty";
    else if (n > MAIL_ADDRESS_MAX) *why = "is longer than 254 bytes";
    else if (!ascii(address)) *why = "has bytes in it that are not plain ASCII: write a domain as xn--...";
    else if (!at || !local || !domain) *why = "is not written name@domain";
    else if (local > 64 || !dotted(address, local, "!#$%&'*+-/=?^_`{|}~", 64))
        *why = "has something before its @ that may not stand there";
    else if (!dotted(at + 1, domain, "-", 63) || at[1] == '-' || at[domain] == '-')
        *why = "has something behind its @ that is no domain";
    return !*why;
}

static bool clean(const char *text, size_t most, const char **why)
{
    const char *end = text + strlen(text);
    *why = NULL;
    if ((size_t)(end - text) > most) *why = "is too long";
    for (const char *at = text; !*why && at < end;) {
        size_t n = utf8_char(at, end);
        if (!n) *why = "is not UTF-8";
        else if ((unsigned char)*at < 32 || *at == 127 || (n == 2 && at[0] == '\xc2' && (unsigned char)at[1] < 0xa0))
            *why = "has a line end or another control byte in it";
        else if (n == 3 && (memcmp(at, "\xe2\x80\xa8", 3) == 0 || memcmp(at, "\xe2\x80\xa9", 3) == 0))
            *why = "has a line end in it";
        at += n;
    }
    return !*why;
}

bool mail_text_valid(const char *text, const char **why) { return clean(text, MAIL_TEXT_MAX, why); }

bool mail_name_valid(const char *name, const char **why) { return clean(name, 200, why); }

bool mail_file_name_valid(const char *name, const char **why)
{
    if (!clean(name, 200, why)) return false;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) *why = "is no name of a file";
    else if (strpbrk(name, "/\\")) *why = "has a path in it";
    return !*why;
}

bool mail_file_type_valid(const char *type, const char **why)
{
    const char *slash = strchr(type, '/');
    static const char others[] = "!#$&^_.+-";
    *why = NULL;
    if (strlen(type) > 127 || !slash || slash == type || !slash[1] || !only(type, (size_t)(slash - type), others) ||
        !only(slash + 1, strlen(slash + 1), others))
        *why = "is not written like application/pdf";
    else if (strncasecmp(type, "multipart/", 10) == 0 || strncasecmp(type, "message/", 8) == 0)
        *why = "is one that has parts of its own: send it as application/octet-stream";
    return !*why;
}

bool mail_header_valid(const char *name, const char **why)
{
    static const char *const made[] = {"from",           "to",          "cc",       "bcc",         "sender",
                                       "reply-to",       "subject",     "date",     "message-id",  "mime-version",
                                       "auto-submitted", "return-path", "received", "delivered-to"};
    size_t n = strlen(name);
    *why = NULL;
    if (!n || n > 60 || !isalpha((unsigned char)name[0]) || !only(name, n, "-_")) *why = "is no name of a header";
    else if (strncasecmp(name, "content-", 8) == 0 || strncasecmp(name, "resent-", 7) == 0 || strncasecmp(name, "dkim-", 5) == 0)
        *why = "is made elsewhere";
    for (size_t i = 0; !*why && i < sizeof made / sizeof *made; i++) {
        if (strcasecmp(name, made[i]) == 0) *why = "is made here";
    }
    return !*why;
}

/* ---- text ------------------------------------------------------------------------------------------------------------------ */

/* Encoded words, from this column on; in each, whole characters. */
static void encoded(buf *out, const char *text, size_t column)
{
    size_t left = strlen(text);
    while (left) {
        size_t room = column + WORD_FRAME + 8 < LINE ? (LINE - column - WORD_FRAME) / 4 * 3 : 0;
        size_t n = room < left ? utf8_cut(text, room) : left;
        if (n) {
            buf_str(out, "=?UTF-8?B?");
            buf_base64(out, text, n);
            buf_str(out, "?=");
        }
        text += n;
        left -= n;
        column = 1;
        if (left) buf_str(out, "\r\n ");
    }
}

/* As it stands, or does somebody take it for something else? */
static bool plain(const char *text)
{
    size_t n = strlen(text), word = 0;
    if (!ascii(text) || strstr(text, "=?") || strstr(text, "  ") || (n && (text[0] == ' ' || text[n - 1] == ' '))) return false;
    for (; *text; text++) {
        word = *text == ' ' ? 0 : word + 1;
        if (word > LINE - 10) return false;
    }
    return true;
}

static void folded(buf *out, const char *text, size_t column)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > 1 && column + n + 1 > LINE) buf_str(out, "\r\n"), column = 0;
        buf_char(out, ' ');
        buf_add(out, text, n);
        column += n + 1;
        text += n + (text[n] == ' ');
    }
}

void mail_word_header(buf *out, const char *name, const char *value)
{
    size_t column = strlen(name) + 1;
    buf_fmt(out, "%s:", name);
    if (plain(value)) {
        folded(out, value, column);
    } else {
        buf_char(out, ' ');
        encoded(out, value, column + 1);
    }
    buf_str(out, "\r\n");
}

/* ---- people ---------------------------------------------------------------------------------------------------------------- */

static void quoted(buf *out, const char *name)
{
    buf_char(out, '"');
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') buf_char(out, '\\');
        buf_char(out, *name);
    }
    buf_char(out, '"');
}

/* One a line. */
static void person(buf *out, const mail_person *p, size_t column)
{
    if (!p->name || !*p->name) {
        buf_str(out, p->address);
        return;
    }
    if (plain(p->name) && strlen(p->name) < 60) quoted(out, p->name);
    else encoded(out, p->name, column);
    buf_fmt(out, "\r\n <%s>", p->address);
}

void mail_word_people(buf *out, const char *name, const mail_people *people)
{
    if (!people->count) return;
    buf_fmt(out, "%s: ", name);
    for (size_t i = 0; i < people->count; i++) {
        if (i) buf_str(out, ",\r\n ");
        person(out, &people->people[i], i ? 1 : strlen(name) + 2);
    }
    buf_str(out, "\r\n");
}

/* ---- names of files -------------------------------------------------------------------------------------------------------- */

/* "name", or name*0*=UTF-8''...; name*1*=... */
void mail_word_file(buf *out, const char *name)
{
    size_t n = strlen(name), used = PIECE;
    buf_str(out, "Content-Disposition: attachment;");
    if (n < 60 && only(name, n, "-_.+ ") && plain(name)) {
        buf_fmt(out, "\r\n filename=\"%s\"\r\n", name);
        return;
    }
    for (size_t i = 0, piece = 0; i < n; i++) {
        bool safe = isalnum((unsigned char)name[i]) || strchr("-_.+", name[i]);
        if (used + 3 > PIECE) {
            buf_fmt(out, "%s\r\n filename*%zu*=%s", piece ? ";" : "", piece, piece ? "" : "UTF-8''");
            used = 0;
            piece++;
        }
        if (safe) buf_char(out, name[i]);
        else buf_fmt(out, "%%%02X", (unsigned char)name[i]);
        used += safe ? 1 : 3;
    }
    buf_str(out, "\r\n");
}
