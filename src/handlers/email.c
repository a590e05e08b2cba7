/* email: a letter by SMTP. What a task may say is in mail_read.c; the sender, the server and the login are the section's word. */
#include "handlers/handlers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "handlers/mail.h"
#include "handlers/secret.h"
#include "handlers/smtp.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define MESSAGE_MAX (128u << 20)
#define ARENA_MAX (256u << 20)

typedef struct settings {
    const char *host, *tls, *ca_file, *user, *password, *from, *from_name, *bounces, *hello, *templates;
    text_list domains;
    int64_t port, connect_us, send_us;
} settings;

typedef struct email {
    const pawl_allocator *allocator;
    settings set;
    smtp_tls tls;
    int port;
    char hello[256];
} email;

/* clang-format off */
static const setting email_settings[] = {
    SETTING(SETTING_TEXT, settings, host, "host", "NAME", "the mail server", .needed = true),
    SETTING(SETTING_CHOICE, settings, tls, "tls", "HOW", "starttls, implicit (from the first byte on) or none", .choices = "starttls|implicit|none", .fallback = "starttls"),
    SETTING(SETTING_INT, settings, port, "port", "N", "the server's port; default: 587 with starttls, 465 with implicit, 25 with none", .min = 1, .max = 65535),
    SETTING(SETTING_TEXT, settings, ca_file, "ca-file", "FILE", "authorities whose certificates count in place of the system's (PEM)"),
    SETTING(SETTING_TEXT, settings, user, "user", "NAME", "log in under this name; needs password, and TLS"),
    SETTING(SETTING_TEXT, settings, password, "password", "FILE", "the password is in this file, mode 0600"),
    SETTING(SETTING_TEXT, settings, from, "from", "ADDRESS", "whom letters are from", .needed = true),
    SETTING(SETTING_TEXT, settings, from_name, "from-name", "NAME", "that person's name"),
    SETTING(SETTING_TEXT, settings, bounces, "bounces", "ADDRESS", "who is told that a letter could not be delivered; default: from"),
    SETTING(SETTING_LIST, settings, domains, "domains", "DOMAIN", "letters go to addresses of these domains alone; default: to any"),
    SETTING(SETTING_TEXT, settings, templates, "templates", "FOLDER", "templates that tasks may name: NAME.subject, NAME.txt, NAME.html"),
    SETTING(SETTING_TEXT, settings, hello, "hello", "NAME", "what this machine calls itself; default: its name"),
    SETTING(SETTING_DURATION, settings, connect_us, "connect-timeout", "DURATION", "for the connection", .min = PAWL_MILLISECOND, .max = PAWL_HOUR, .fallback = "10s"),
    SETTING(SETTING_DURATION, settings, send_us, "send-timeout", "DURATION", "for all of it", .min = PAWL_MILLISECOND, .max = PAWL_HOUR, .fallback = "2m"),
    SETTINGS_END};
/* clang-format on */

/* ---- settings ---------------------------------------------------------------------------------------------------------------- */

static pawl_status check_address(const char *setting, const char *address, pawl_error *err)
{
    const char *why;
    if (!address || mail_address_valid(address, &why)) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "%s \"%s\" %s", setting, address, why);
}

/* The domain of an address that would have it is looked at, so the grammar is the same. */
static pawl_status check_domain(const char *setting, const char *domain, pawl_error *err)
{
    char address[300];
    const char *why;
    int n = domain ? snprintf(address, sizeof address, "x@%s", domain) : 0;
    if (!domain || (n < (int)sizeof address && !strchr(domain, '@') && mail_address_valid(address, &why))) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "%s \"%.80s\" is no name of a machine", setting, domain);
}

static pawl_status check_login(const settings *s, pawl_error *err)
{
    buf password;
    if (!s->user && !s->password) return PAWL_OK;
    if (!s->user || !s->password) return err_set(err, PAWL_INVALID, "a login needs both user and password");
    if (strcmp(s->tls, "none") == 0) return err_set(err, PAWL_INVALID, "a password is not sent in the clear: set tls");
    buf_init(&password, alloc_default(), SECRET_FILE_MAX);
    pawl_status status = secret_read(s->password, &password, err);
    if (!status && !password.len) status = err_set(err, PAWL_INVALID, "\"%s\" has no password in it", s->password);
    secret_forget(&password);
    return status;
}

static pawl_status check(const settings *s, pawl_error *err)
{
    struct stat st;
    const char *why;
    if (!*s->host || strlen(s->host) > 253 || strpbrk(s->host, " /@"))
        return err_set(err, PAWL_INVALID, "host \"%.80s\" is no name of a machine", s->host);
    pawl_status status = check_address("from", s->from, err);
    if (!status) status = check_address("bounces", s->bounces, err);
    if (!status && s->from_name && !mail_name_valid(s->from_name, &why)) status = err_set(err, PAWL_INVALID, "from-name %s", why);
    if (!status) status = check_domain("hello", s->hello, err);
    for (size_t i = 0; !status && i < s->domains.count; i++) status = check_domain("domains", s->domains.items[i], err);
    if (!status && s->ca_file && stat(s->ca_file, &st))
        status = err_set(err, PAWL_NOT_FOUND, "ca-file \"%s\" is not there", s->ca_file);
    if (!status && s->templates && (stat(s->templates, &st) || !S_ISDIR(st.st_mode)))
        status = err_set(err, PAWL_NOT_FOUND, "templates \"%s\" is no folder", s->templates);
    return status ? status : check_login(s, err);
}

static void name_machine(email *e)
{
    pawl_error err;
    char name[256] = "";
    if (e->set.hello) snprintf(name, sizeof name, "%s", e->set.hello);
    else if (gethostname(name, sizeof name - 1) || !*name || check_domain("hello", name, &err))
        snprintf(name, sizeof name, "localhost");
    memcpy(e->hello, name, sizeof e->hello);
}

static void email_close(void *ctx)
{
    email *e = ctx;
    if (e) alloc_free(e->allocator, e);
}

static pawl_status email_open(const handler_open *o, void **ctx, pawl_error *err)
{
    const settings *s = o->settings;
    pawl_status status = check(s, err);
    if (status) return status;
    email *e = alloc_new(o->allocator, sizeof *e);
    if (!e) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    e->allocator = o->allocator;
    e->set = *s;
    e->tls = strcmp(s->tls, "starttls") == 0 ? SMTP_STARTTLS : strcmp(s->tls, "implicit") == 0 ? SMTP_IMPLICIT : SMTP_PLAIN;
    e->port = s->port ? (int)s->port : e->tls == SMTP_STARTTLS ? 587 : e->tls == SMTP_IMPLICIT ? 465 : 25;
    name_machine(e);
    *ctx = e;
    return PAWL_OK;
}

/* ---- one letter -------------------------------------------------------------------------------------------------------------- */

typedef struct sending {
    const email *e;
    pawl_run *run;
    pawl_arena *arena;
    mail m;
    const char *to[MAIL_PEOPLE_MAX];
    size_t to_count;
    char id[400];
    buf message, password;
    smtp_answer answer;
} sending;

static bool may_get(const email *e, const char *address)
{
    const char *domain = strrchr(address, '@') + 1;
    for (size_t i = 0; i < e->set.domains.count; i++) {
        if (strcasecmp(domain, e->set.domains.items[i]) == 0) return true;
    }
    return !e->set.domains.count;
}

/* Everybody once. */
static pawl_status gather(sending *s, pawl_error *err)
{
    const mail_people *lists[] = {&s->m.to, &s->m.cc, &s->m.bcc};
    for (size_t l = 0; l < 3; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const char *address = lists[l]->people[i].address;
            bool known = false;
            for (size_t k = 0; k < s->to_count; k++) known = known || strcmp(s->to[k], address) == 0;
            if (!may_get(s->e, address))
                return err_set(err, PAWL_DENIED, "<%s> is of no domain that the handler sends letters to", address);
            if (!known) s->to[s->to_count++] = address;
        }
    }
    return PAWL_OK;
}

/* The same in every attempt, and another one for another task, of another store too. */
static void name_letter(sending *s)
{
    char id[PAWL_ID_TEXT];
    char hash[SHA256_HEX];
    pawl_bytes payload = pawl_run_payload(s->run);
    sha256_hex(payload.data, payload.len, hash);
    pawl_id_format(pawl_run_id(s->run), id);
    snprintf(s->id, sizeof s->id, "pawl.%s.%.12s%s", id, hash, strrchr(s->e->set.from, '@'));
}

static bool should_stop(void *ctx) { return pawl_run_stopping(ctx) != PAWL_GO_ON; }

static pawl_status compose(sending *s, pawl_error *err)
{
    const settings *set = &s->e->set;
    pawl_clock clock = clock_system();
    pawl_status status = mail_read(pawl_run_payload(s->run), set->templates, s->arena, &s->m, err);
    if (!status) status = gather(s, err);
    if (status) return status;
    name_letter(s);
    s->m.from = (mail_person){.name = set->from_name, .address = set->from};
    s->m.id = s->id;
    s->m.at_us = clock.wall_us(clock.ctx);
    mail_write(&s->m, &s->message);
    return s->message.failed ? err_set(err, PAWL_TOO_LARGE, "the letter is too long, or there is no memory for it") : PAWL_OK;
}

static void report(sending *s)
{
    buf text;
    json_writer w;
    buf_init(&text, s->e->allocator, 4096);
    jsonw_init(&w, &text, false);
    jsonw_object(&w);
    jsonw_key(&w, "message_id");
    jsonw_string(&w, s->id);
    jsonw_key(&w, "recipients");
    jsonw_int(&w, (int64_t)s->to_count);
    jsonw_key(&w, "answer");
    jsonw_string(&w, s->answer.text);
    jsonw_end_object(&w);
    if (!text.failed) pawl_run_result(s->run, (pawl_bytes){text.data, text.len}, NULL, NULL);
    buf_done(&text);
}

static pawl_outcome judge(sending *s)
{
    const smtp_answer *a = &s->answer;
    char code[24];
    snprintf(code, sizeof code, a->code ? "smtp_%d" : "smtp_no_answer", a->code);
    pawl_run_error_code(s->run, a->end == SMTP_UNKNOWN ? "smtp_unknown" : code);
    switch (a->end) {
    case SMTP_SENT: report(s); return pawl_ok();
    case SMTP_NEVER: return pawl_fail(s->run, "%s", a->text);
    case SMTP_STOPPED:
        return pawl_run_stopping(s->run) == PAWL_STOP_CANCELLED ? pawl_cancelled() : pawl_retry(s->run, "interrupted");
    case SMTP_LATER:
    case SMTP_UNKNOWN: break;
    }
    return pawl_retry(s->run, "%s", a->text);
}

static pawl_outcome dispatch(sending *s)
{
    const settings *set = &s->e->set;
    pawl_error err;
    pawl_status status = compose(s, &err);
    if (status) {
        pawl_run_error_code(s->run, status == PAWL_DENIED      ? "not_allowed"
                                    : status == PAWL_NOT_FOUND ? "no_template"
                                                               : "bad_payload");
        return status == PAWL_UNAVAILABLE || status == PAWL_NO_MEMORY ? pawl_retry(s->run, "%s", err.message)
                                                                      : pawl_fail(s->run, "%s", err.message);
    }
    if (set->user && secret_read(set->password, &s->password, &err)) {
        pawl_run_error_code(s->run, "no_secret");
        return pawl_retry(s->run, "%s", err.message);
    }
    smtp_server server = {.host = set->host,
                          .port = s->e->port,
                          .tls = s->e->tls,
                          .ca_file = set->ca_file,
                          .hello = s->e->hello,
                          .user = set->user,
                          .password = set->user ? buf_text(&s->password) : NULL,
                          .connect_us = set->connect_us,
                          .timeout_us = set->send_us,
                          .stop = should_stop,
                          .stop_ctx = s->run};
    smtp_letter letter = {.from = set->bounces ? set->bounces : set->from,
                          .to = s->to,
                          .to_count = s->to_count,
                          .message = {s->message.data, s->message.len}};
    smtp_send(&server, &letter, &s->answer);
    return judge(s);
}

static pawl_outcome email_run(pawl_run *run, void *ctx)
{
    const email *e = ctx;
    sending *s = alloc_new(e->allocator, sizeof *s);
    if (!s) return pawl_retry(run, "%s", pawl_status_text(PAWL_NO_MEMORY));
    s->e = e;
    s->run = run;
    s->arena = arena_new(e->allocator, ARENA_MAX);
    buf_init(&s->message, e->allocator, MESSAGE_MAX);
    buf_init(&s->password, e->allocator, SECRET_FILE_MAX);
    pawl_outcome outcome = s->arena ? dispatch(s) : pawl_retry(run, "%s", pawl_status_text(PAWL_NO_MEMORY));
    secret_forget(&s->password);
    buf_done(&s->message);
    arena_free(s->arena);
    alloc_free(e->allocator, s);
    return outcome;
}

const handler_kind handler_email = {.name = "email",
                                    .summary = "letters by SMTP",
                                    .settings = email_settings,
                                    .size = sizeof(settings),
                                    .max_attempts = 1,
                                    .workers = 4,
                                    .open = email_open,
                                    .run = email_run,
                                    .close = email_close};
