/* The dialogue. Bytes come and go through smtp_link (smtp_link.c), which knows of TLS and of time.
 *
 *     greeting, EHLO, [STARTTLS, EHLO,] [AUTH,] MAIL, RCPT for each, DATA, the message, QUIT
 *
 * If any recipient is refused, nobody gets the letter: a task that has succeeded is a letter that was taken for all, and one that is tried
 * again reaches nobody twice. All recipients are asked for first, so that the error can name all who are refused.
 */
#include "handlers/smtp.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "handlers/smtp_link.h"
#include <gnutls/gnutls.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REPLY_LINES_MAX 100

typedef struct dialogue {
    const smtp_server *server;
    const smtp_letter *letter;
    smtp_answer *answer;
    smtp_link *link;
    bool starttls, auth_plain, auth_login, sizes; /* what the server offers */
    int64_t size_max;                             /* 0: it does not say */
    bool over;                                    /* there is nobody to talk to any more */
    char said[400];                               /* its last reply, one line after another */
} dialogue;

/* Ends the dialogue, with a sentence. */
static bool end(dialogue *d, smtp_end how, const char *fmt, ...) PAWL_PRINTF(3, 4);
static bool end(dialogue *d, smtp_end how, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    d->answer->end = how;
    vsnprintf(d->answer->text, sizeof d->answer->text, fmt, args);
    va_end(args);
    return false;
}

static bool broken(dialogue *d)
{
    bool stopped = link_stopped(d->link);
    d->over = true;
    return end(d, stopped ? SMTP_STOPPED : SMTP_LATER, "%s", stopped ? "interrupted" : link_why(d->link));
}

/* ---- replies ----------------------------------------------------------------------------------------------------------------- */

static void note_offer(dialogue *d, const char *offer)
{
    if (strcasecmp(offer, "STARTTLS") == 0) d->starttls = true;
    if (strncasecmp(offer, "SIZE", 4) == 0 && (offer[4] == ' ' || !offer[4])) {
        d->sizes = true;
        d->size_max = strtoll(offer + 4, NULL, 10);
    }
    if (strncasecmp(offer, "AUTH", 4) != 0 || (offer[4] != ' ' && offer[4] != '=')) return;
    for (const char *at = offer + 5; *at;) {
        size_t n = strcspn(at, " ");
        d->auth_plain = d->auth_plain || (n == 5 && strncasecmp(at, "PLAIN", 5) == 0);
        d->auth_login = d->auth_login || (n == 5 && strncasecmp(at, "LOGIN", 5) == 0);
        at += n + (at[n] == ' ');
    }
}

/* What the server said, for people: it may have said anything. */
static void note_said(dialogue *d, const char *line)
{
    size_t n = strlen(d->said), room = sizeof d->said - n;
    snprintf(d->said + n, room, "%s%s", n ? " / " : "", line);
    for (char *at = d->said + n; *at; at++) {
        if ((unsigned char)*at < 32 || (unsigned char)*at > 126) *at = '?';
    }
}

static int nonsense(dialogue *d)
{
    d->over = true;
    end(d, SMTP_LATER, "%s answered with something that is not SMTP", d->server->host);
    return 0;
}

/* A reply of one or more lines; 0: there is none that makes sense, and the dialogue has ended. */
static int reply(dialogue *d, bool offers)
{
    char line[LINK_LINE];
    int code = 0;
    d->said[0] = '\0';
    for (int lines = 0; lines < REPLY_LINES_MAX; lines++) {
        if (!link_line(d->link, line)) return broken(d), 0;
        bool digits = strspn(line, "0123456789") == 3 && (!line[3] || line[3] == ' ' || line[3] == '-');
        int now = digits ? atoi(line) : 0;
        if (now < 200 || now > 599 || (code && code != now)) return nonsense(d);
        code = now;
        note_said(d, line[3] ? line + 4 : "");
        if (offers && lines && line[3]) note_offer(d, line + 4);
        if (line[3] != '-') return d->answer->code = code;
    }
    return nonsense(d);
}

static bool refused(dialogue *d, const char *what)
{
    int code = d->answer->code;
    return end(d, code >= 500 ? SMTP_NEVER : SMTP_LATER, "%s refused %s: %d %.300s", d->server->host, what, code, d->said);
}

/* Says a line and wants a reply that begins with this digit. `what` is for the error: lines may hold secrets. */
static bool say(dialogue *d, int wanted, const char *what, const char *line)
{
    if (!link_write(d->link, line, strlen(line)) || !link_write(d->link, "\r\n", 2)) return broken(d);
    int code = reply(d, false);
    if (!code) return false;
    return code / 100 == wanted || refused(d, what);
}

/* ---- before the letter ------------------------------------------------------------------------------------------------------- */

static bool hello(dialogue *d)
{
    char line[300];
    d->starttls = d->auth_plain = d->auth_login = d->sizes = false;
    snprintf(line, sizeof line, "EHLO %s\r\n", d->server->hello);
    if (!link_write(d->link, line, strlen(line))) return broken(d);
    int code = reply(d, true);
    if (!code) return false;
    return code / 100 == 2 || refused(d, "EHLO");
}

static bool encrypt(dialogue *d) { return link_encrypt(d->link, d->server->host, d->server->ca_file) || broken(d); }

static bool begin(dialogue *d)
{
    const smtp_server *s = d->server;
    if (!link_connect(d->link, s->host, s->port, s->connect_us)) return broken(d);
    if (s->tls == SMTP_IMPLICIT && !encrypt(d)) return false;
    int code = reply(d, false);
    if (!code) return false;
    if (code / 100 != 2) return refused(d, "the connection");
    if (!hello(d)) return false;
    if (s->tls != SMTP_STARTTLS) return true;
    if (!d->starttls) return end(d, SMTP_LATER, "%s offers no STARTTLS: nothing is sent in the clear", s->host);
    return say(d, 2, "STARTTLS", "STARTTLS") && encrypt(d) && hello(d);
}

/* A word of a login, in base64, behind what comes before it. */
static bool say_secret(dialogue *d, int wanted, const char *before, const char *data, size_t n)
{
    buf line;
    buf_init(&line, alloc_default(), 8192);
    buf_str(&line, before);
    buf_base64(&line, data, n);
    bool ok =
        line.failed ? end(d, SMTP_LATER, "%s", pawl_status_text(PAWL_NO_MEMORY)) : say(d, wanted, "the login", buf_text(&line));
    if (line.data) gnutls_memset(line.data, 0, line.len);
    buf_done(&line);
    return ok;
}

static bool log_in(dialogue *d)
{
    const smtp_server *s = d->server;
    char plain[2048];
    if (!s->user) return true;
    if (s->tls == SMTP_PLAIN) return end(d, SMTP_NEVER, "a password is not sent in the clear");
    size_t user = strlen(s->user), password = strlen(s->password);
    if (user + password + 2 > sizeof plain) return end(d, SMTP_NEVER, "user and password are too long");
    if (!d->auth_plain && !d->auth_login)
        return end(d, SMTP_LATER, "%s offers no login that is known here (PLAIN, LOGIN)", s->host);
    if (!d->auth_plain)
        return say(d, 3, "the login", "AUTH LOGIN") && say_secret(d, 3, "", s->user, user) &&
               say_secret(d, 2, "", s->password, password);
    plain[0] = '\0';
    memcpy(plain + 1, s->user, user + 1);
    memcpy(plain + user + 2, s->password, password);
    bool ok = say_secret(d, 2, "AUTH PLAIN ", plain, user + password + 2);
    gnutls_memset(plain, 0, sizeof plain);
    return ok;
}

/* ---- the letter -------------------------------------------------------------------------------------------------------------- */

/* Nothing that could end a line or an address. */
static bool sayable(const char *address)
{
    size_t n = strlen(address);
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)address[i] <= 32 || (unsigned char)address[i] > 126 || strchr("<>()[]\\,;:\"", address[i]))
            return false;
    }
    return n > 0 && n <= 254;
}

static bool whole_lines(pawl_bytes message)
{
    const char *data = message.data;
    for (size_t i = 0; i < message.len; i++) {
        if (data[i] == '\r' ? i + 1 == message.len || data[i + 1] != '\n' : data[i] == '\n' && (!i || data[i - 1] != '\r'))
            return false;
        if (!data[i]) return false;
    }
    return message.len >= 2 && data[message.len - 1] == '\n';
}

static bool look(dialogue *d)
{
    const smtp_letter *l = d->letter;
    bool good = sayable(l->from) && l->to_count > 0;
    for (size_t i = 0; good && i < l->to_count; i++) good = sayable(l->to[i]);
    if (!good) return end(d, SMTP_NEVER, "an address has something in it that cannot be sent");
    return whole_lines(l->message) || end(d, SMTP_NEVER, "the letter has lines that do not end in CR LF");
}

static bool mail_from(dialogue *d)
{
    char line[400];
    size_t size = d->letter->message.len;
    if (d->size_max > 0 && (int64_t)size > d->size_max)
        return end(d, SMTP_NEVER, "the letter has %zu bytes, and %s takes %lld at most", size, d->server->host,
                   (long long)d->size_max);
    if (d->sizes) snprintf(line, sizeof line, "MAIL FROM:<%s> SIZE=%zu", d->letter->from, size);
    else snprintf(line, sizeof line, "MAIL FROM:<%s>", d->letter->from);
    return say(d, 2, "the sender", line);
}

static bool recipients(dialogue *d)
{
    char line[400], names[300] = "";
    size_t count = 0, never = 0;
    int code = 0;
    for (size_t i = 0; i < d->letter->to_count; i++) {
        snprintf(line, sizeof line, "RCPT TO:<%s>", d->letter->to[i]);
        if (say(d, 2, "a recipient", line)) continue;
        if (d->over) return false;
        if (d->answer->end == SMTP_NEVER) never++;
        if (!count || (d->answer->code >= 500 && code < 500)) code = d->answer->code;
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s<%s> (%d %.80s)", count++ ? ", " : "", d->letter->to[i], d->answer->code,
                 d->said);
    }
    if (!count) return true;
    d->answer->code = code;
    return end(d, never ? SMTP_NEVER : SMTP_LATER, "%s refused %zu of %zu recipients, so nobody got it: %s", d->server->host,
               count, d->letter->to_count, names);
}

/* Lines that begin with a dot get another one. */
static bool body(dialogue *d)
{
    const char *at = d->letter->message.data, *last = at + d->letter->message.len;
    while (at < last) {
        const char *next = memmem(at, (size_t)(last - at), "\r\n.", 3);
        if (at == d->letter->message.data && *at == '.' && !link_write(d->link, ".", 1)) return broken(d);
        size_t n = next ? (size_t)(next + 2 - at) : (size_t)(last - at);
        if (!link_write(d->link, at, n) || (next && !link_write(d->link, ".", 1))) return broken(d);
        at += n;
    }
    return true;
}

/* From the last dot on nobody knows whether the letter was sent, until the server says so. */
static bool data(dialogue *d)
{
    if (!say(d, 3, "the letter", "DATA") || !body(d) || !link_flush(d->link)) return d->answer->end ? false : broken(d);
    if (!link_commit(d->link)) return broken(d);
    bool written = link_write(d->link, ".\r\n", 3) && link_flush(d->link);
    int code = written ? reply(d, false) : 0;
    if (!code)
        return end(d, SMTP_UNKNOWN, "%s did not say whether it took the letter (%s): it may have been sent", d->server->host,
                   link_why(d->link));
    if (code / 100 != 2) return refused(d, "the letter");
    d->answer->end = SMTP_SENT;
    snprintf(d->answer->text, sizeof d->answer->text, "%d %s", code, d->said);
    return true;
}

void smtp_send(const smtp_server *server, const smtp_letter *letter, smtp_answer *answer)
{
    dialogue d = {.server = server, .letter = letter, .answer = answer};
    *answer = (smtp_answer){0};
    if (!look(&d)) return;
    d.link = link_new(server->timeout_us, server->stop, server->stop_ctx);
    if (!d.link) {
        end(&d, SMTP_LATER, "%s", pawl_status_text(PAWL_NO_MEMORY));
        return;
    }
    if (begin(&d) && log_in(&d) && mail_from(&d) && recipients(&d)) data(&d);
    link_end(d.link, "QUIT\r\n");
}
