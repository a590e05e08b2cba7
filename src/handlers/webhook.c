/* webhook: a task's payload goes to somebody's server by POST, signed as Standard Webhooks has it.
 *
 * Where to is the section's word: one URL, or with `allow` URLs that the payload may name, {"url": ..., "body": ...}. The sender
 * (http/client.h) judges the address that it connects to. The id is the task's, so that all attempts have the same; the time and with it the
 * signature are the attempt's own.
 */
#include "handlers/handlers.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "handlers/gone.h"
#include "handlers/secret.h"
#include "http/address.h"
#include "http/client.h"
#include "http/sign.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define SECRETS_MAX 8
#define HEADERS_MAX 32
#define URL_MAX 2000
#define RESULT_MAX (64u << 10)
#define SHOWN 300 /* bytes of an answer that is no success, in the task's log */

typedef struct settings {
    const char *url, *secrets, *ca_file, *gone;
    text_list allow, networks, headers;
    int64_t connect_us, request_us;
    bool result;
} settings;

typedef struct webhook {
    const pawl_allocator *allocator;
    const logger *log;
    const char *name;
    settings set;
    const char **networks; /* NULL behind the last */
    gone *gone;
} webhook;

/* clang-format off */
static const setting webhook_settings[] = {
    SETTING(SETTING_TEXT, settings, url, "url", "URL", "where payloads are sent: http or https"),
    SETTING(SETTING_LIST, settings, allow, "allow", "URL", "in place of url: payloads are {\"url\":...,\"body\":...}, and these URLs may be named there; one that ends in / allows all below it"),
    SETTING(SETTING_TEXT, settings, secrets, "secrets", "FILE", "what to sign with, mode 0600: a line \"whsec_...\" each; all of them sign; default: nothing is signed"),
    SETTING(SETTING_LINES, settings, headers, "header", "HEADER", "a header more, like Authorization: Bearer x"),
    SETTING(SETTING_LIST, settings, networks, "networks", "NETWORK", "private addresses that may be connected to, like 10.1.0.0/16"),
    SETTING(SETTING_TEXT, settings, ca_file, "ca-file", "FILE", "authorities whose certificates count in place of the system's (PEM)"),
    SETTING(SETTING_DURATION, settings, connect_us, "connect-timeout", "DURATION", "for the connection", .min = PAWL_MILLISECOND, .max = PAWL_HOUR, .fallback = "10s"),
    SETTING(SETTING_DURATION, settings, request_us, "request-timeout", "DURATION", "for connection, request and answer together", .min = PAWL_MILLISECOND, .max = PAWL_HOUR, .fallback = "30s"),
    SETTING(SETTING_FLAG, settings, result, "result", "FLAG", "the body of the answer is the task's result, up to 64 KiB"),
    SETTING(SETTING_TEXT, settings, gone, "gone", "FILE", "where it is noted that a target answered 410; default: pawl.NAME.gone"),
    SETTINGS_END};
/* clang-format on */

/* ---- settings ---------------------------------------------------------------------------------------------------------------- */

static pawl_status check_urls(const settings *s, pawl_error *err)
{
    const char *why;
    if (!s->url == !s->allow.count) return err_set(err, PAWL_INVALID, "a webhook needs either url or allow");
    if (s->url && strlen(s->url) > URL_MAX) return err_set(err, PAWL_INVALID, "url is longer than %d bytes", URL_MAX);
    if (s->url && !client_url_valid(s->url, &why)) return err_set(err, PAWL_INVALID, "url \"%s\" %s", s->url, why);
    for (size_t i = 0; i < s->allow.count; i++) {
        const char *url = s->allow.items[i];
        if (!client_url_valid(url, &why)) return err_set(err, PAWL_INVALID, "allow: \"%s\" %s", url, why);
        if (strpbrk(url, "?#")) return err_set(err, PAWL_INVALID, "allow: \"%s\" must end with its path", url);
    }
    for (size_t i = 0; i < s->networks.count; i++) {
        if (!network_valid(s->networks.items[i]))
            return err_set(err, PAWL_INVALID, "networks: \"%s\" is not written like 10.1.0.0/16", s->networks.items[i]);
    }
    return PAWL_OK;
}

/* A name, a colon and a value, none of which is ours to make or could be a second line. */
static pawl_status check_header(const char *header, pawl_error *err)
{
    static const char *const ours[] = {"content-length", "content-type", "transfer-encoding", "host",        "connection",
                                       "expect",         "upgrade",      "trailer",           "traceparent", "te"};
    size_t n = strcspn(header, ":");
    for (const char *at = header; *at; at++) {
        bool in_name = (size_t)(at - header) < n;
        if ((unsigned char)*at < 32 || (unsigned char)*at > 126 ||
            (in_name && !isalnum((unsigned char)*at) && !strchr("-_", *at)))
            return err_set(err, PAWL_INVALID, "header \"%.60s\" has something in it that may not stand there", header);
    }
    if (!n || header[n] != ':' || !header[n + 1])
        return err_set(err, PAWL_INVALID, "header \"%.60s\" is not written Name: value", header);
    bool taken = strncasecmp(header, "webhook-", 8) == 0 || strncasecmp(header, "pawl-", 5) == 0;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        taken = taken || (strlen(ours[i]) == n && strncasecmp(header, ours[i], n) == 0);
    return taken ? err_set(err, PAWL_INVALID, "header \"%.60s\" is made here", header) : PAWL_OK;
}

/* Calls for each line of the file that is a secret; *count may be NULL. */
static pawl_status each_secret(const char *path, size_t *count, void (*take)(void *ctx, const char *secret), void *ctx,
                               pawl_error *err)
{
    buf text;
    size_t found = 0;
    int number = 1;
    buf_init(&text, alloc_default(), SECRET_FILE_MAX);
    pawl_status status = secret_read(path, &text, err);
    char *rest = text.len ? text.data : NULL;
    for (char *line; !status && (line = strsep(&rest, "\n")); number++) {
        line[strcspn(line, " \t\r")] = '\0';
        if (!*line || *line == '#') continue;
        if (!sign_secret_valid(line))
            status =
                err_set(err, PAWL_INVALID, "\"%s\", line %d: a secret is \"whsec_\" and base64 of 24 to 64 bytes", path, number);
        else if (++found > SECRETS_MAX) status = err_set(err, PAWL_INVALID, "\"%s\" has more than %d secrets", path, SECRETS_MAX);
        else if (take) take(ctx, line);
    }
    secret_forget(&text);
    if (!status && !found) status = err_set(err, PAWL_INVALID, "\"%s\" has no secret in it", path);
    if (count) *count = found;
    return status;
}

static pawl_status check(const settings *s, pawl_error *err)
{
    struct stat st;
    pawl_status status = check_urls(s, err);
    for (size_t i = 0; !status && i < s->headers.count; i++) status = check_header(s->headers.items[i], err);
    if (!status && s->headers.count > HEADERS_MAX / 2)
        status = err_set(err, PAWL_INVALID, "there are more than %d headers", HEADERS_MAX / 2);
    if (!status && s->ca_file && stat(s->ca_file, &st))
        status = err_set(err, PAWL_NOT_FOUND, "ca-file \"%s\" is not there", s->ca_file);
    if (!status && s->secrets) status = each_secret(s->secrets, NULL, NULL, NULL, err);
    return status;
}

static void webhook_close(void *ctx)
{
    webhook *w = ctx;
    if (!w) return;
    gone_close(w->gone);
    alloc_free(w->allocator, w->networks);
    alloc_free(w->allocator, w);
}

/* The default name of the file has the handler's in it, as far as that is fit for one. */
static gone *open_gone(const handler_open *o, const char *path)
{
    char made[300];
    if (path) return gone_open(o->allocator, path);
    int n = snprintf(made, sizeof made, "pawl.%s.gone", o->name);
    for (char *at = made; at < made + n; at++) *at = isalnum((unsigned char)*at) || strchr("-_.", *at) ? *at : '_';
    return gone_open(o->allocator, made);
}

static pawl_status webhook_open(const handler_open *o, void **ctx, pawl_error *err)
{
    const settings *s = o->settings;
    pawl_status status = check(s, err);
    if (status) return status;
    webhook *w = alloc_new(o->allocator, sizeof *w);
    if (!w) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    *w = (webhook){.allocator = o->allocator, .log = o->log, .name = o->name, .set = *s};
    w->networks = alloc_new(o->allocator, (s->networks.count + 1) * sizeof *w->networks);
    w->gone = open_gone(o, s->gone);
    if (!w->networks || !w->gone) {
        webhook_close(w);
        return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    }
    for (size_t i = 0; i < s->networks.count; i++) w->networks[i] = s->networks.items[i];
    *ctx = w;
    return PAWL_OK;
}

/* ---- one delivery ------------------------------------------------------------------------------------------------------------ */

typedef struct delivery {
    webhook *w;
    pawl_run *run;
    char url[URL_MAX + 1];
    pawl_bytes body;
    char id[32];
    int64_t at_s;
    buf signatures, answer;
    client_answer got;
} delivery;

static void add_signature(void *ctx, const char *secret)
{
    delivery *d = ctx;
    sign_add(secret, d->id, d->at_s, d->body, &d->signatures);
}

/* The URL that the payload names, if the section allows it. */
static pawl_status read_target(delivery *d, pawl_error *err)
{
    const settings *s = &d->w->set;
    buf url;
    char shown[200];
    json key, value, where = {0}, body = {0};
    pawl_bytes payload = pawl_run_payload(d->run);
    if (!json_valid(payload, NULL, NULL) || json_parse(payload).kind != JSON_OBJECT)
        return err_set(err, PAWL_INVALID, "the payload must be {\"url\": ..., \"body\": ...}");
    for (size_t at = 0; json_each(json_parse(payload), &at, &key, &value);) {
        pawl_bytes name = key.raw;
        if (name.len == 5 && memcmp(name.data, "\"url\"", 5) == 0) where = value;
        else if (name.len == 6 && memcmp(name.data, "\"body\"", 6) == 0) body = value;
        else {
            text_show(name.data, name.len, shown, sizeof shown);
            return err_set(err, PAWL_INVALID, "the payload has a member %s, which means nothing here", shown);
        }
    }
    if (where.kind != JSON_STRING || body.kind == JSON_NONE)
        return err_set(err, PAWL_INVALID, "the payload needs \"url\", a string, and \"body\"");
    buf_init(&url, d->w->allocator, URL_MAX);
    bool fits = json_string(where, &url) && strlen(buf_text(&url)) == url.len;
    if (fits) snprintf(d->url, sizeof d->url, "%s", buf_text(&url));
    buf_done(&url);
    if (!fits) return err_set(err, PAWL_INVALID, "the payload's \"url\" is none, or longer than %d bytes", URL_MAX);
    d->body = body.raw;
    for (size_t i = 0; i < s->allow.count; i++) {
        if (client_url_below(d->url, s->allow.items[i])) return PAWL_OK;
    }
    text_show(d->url, strlen(d->url), shown, sizeof shown);
    return err_set(err, PAWL_DENIED, "\"%s\" is not among the URLs that the handler \"%s\" allows", shown, d->w->name);
}

static bool should_stop(void *ctx) { return pawl_run_stopping(ctx) != PAWL_GO_ON; }

static void post(delivery *d)
{
    const settings *s = &d->w->set;
    const char *headers[HEADERS_MAX + 1] = {"User-Agent: pawl", "Accept: */*", "Expect:"};
    const char *type = s->url ? pawl_run_content_type(d->run) : NULL, *trace = pawl_run_traceparent(d->run);
    char lines[7][320];
    size_t n = 3, k = 0;
    snprintf(lines[k++], sizeof *lines, "Content-Type: %s", type && *type ? type : "application/json");
    snprintf(lines[k++], sizeof *lines, "webhook-id: %s", d->id);
    snprintf(lines[k++], sizeof *lines, "webhook-timestamp: %lld", (long long)d->at_s);
    snprintf(lines[k++], sizeof *lines, "pawl-attempt: %d", pawl_run_attempt(d->run));
    snprintf(lines[k++], sizeof *lines, "pawl-fence: %lld", (long long)pawl_run_fence(d->run));
    if (trace && *trace) snprintf(lines[k++], sizeof *lines, "traceparent: %s", trace);
    for (size_t i = 0; i < k; i++) headers[n++] = lines[i];
    if (s->secrets) headers[n++] = buf_text(&d->signatures);
    for (size_t i = 0; i < s->headers.count; i++) headers[n++] = s->headers.items[i];
    client_post p = {.url = d->url,
                     .body = d->body,
                     .headers = headers,
                     .timeout_us = s->request_us,
                     .connect_us = s->connect_us,
                     .allowed = d->w->networks,
                     .ca_file = s->ca_file,
                     .keep = &d->answer,
                     .stop = should_stop,
                     .stop_ctx = d->run};
    client_send(&p, &d->got);
}

/* ---- what became of it ------------------------------------------------------------------------------------------------------- */

/* The beginning of an answer, for people: others wrote it. */
static void log_answer(const delivery *d)
{
    char shown[SHOWN];
    if (!d->answer.len) return;
    text_show(d->answer.data, d->answer.len, shown, sizeof shown);
    pawl_run_log(d->run, PAWL_WARN, "answered %d: %s", d->got.status, shown);
}

static pawl_outcome succeed(delivery *d)
{
    pawl_error err;
    pawl_run_log(d->run, PAWL_INFO, "answered %d", d->got.status);
    if (!d->w->set.result || !d->answer.len) return pawl_ok();
    const char *type = d->got.type, *why;
    if (!*type || !name_valid(type, &why)) type = "application/octet-stream";
    if (d->got.cut || pawl_run_result(d->run, (pawl_bytes){d->answer.data, d->answer.len}, type, &err))
        pawl_run_log(d->run, PAWL_WARN, "the answer is no result: %s", d->got.cut ? "it is too long, or broke off" : err.message);
    return pawl_ok();
}

static pawl_outcome retire(delivery *d)
{
    pawl_error err;
    if (gone_add(d->w->gone, d->url, &err)) log_line(d->w->log, PAWL_ERROR, "handler \"%s\": %s", d->w->name, err.message);
    log_line(d->w->log, PAWL_WARN, "handler \"%s\": %s answered 410 and gets nothing more", d->w->name, d->url);
    return pawl_fail(d->run, "%s answered 410: it gets nothing more", d->url);
}

static pawl_outcome judge(delivery *d)
{
    const client_answer *a = &d->got;
    char code[24];
    if (a->status >= 200 && a->status < 300) return succeed(d);
    if (a->stopped)
        return pawl_run_stopping(d->run) == PAWL_STOP_CANCELLED ? pawl_cancelled() : pawl_retry(d->run, "interrupted");
    snprintf(code, sizeof code, a->status ? "http_%d" : a->refused ? "address_refused" : "no_answer", a->status);
    pawl_run_error_code(d->run, code);
    if (a->refused) return pawl_fail(d->run, "%s: %s", d->url, a->why);
    if (!a->status) return pawl_retry(d->run, "%s: %s", d->url, a->why);
    log_answer(d);
    if (a->status == 410) return retire(d);
    if (a->retry_after_us) return pawl_retry_in(d->run, a->retry_after_us, "%s answered %d", d->url, a->status);
    return pawl_retry(d->run, "%s answered %d%s", d->url, a->status, a->status / 100 == 3 ? ": redirects are not followed" : "");
}

static pawl_outcome refuse(delivery *d, const pawl_error *err)
{
    pawl_run_error_code(d->run, err->status == PAWL_DENIED ? "not_allowed" : "bad_payload");
    return pawl_fail(d->run, "%s", err->message);
}

static pawl_outcome deliver(delivery *d)
{
    const settings *s = &d->w->set;
    pawl_error err;
    d->body = pawl_run_payload(d->run);
    if (s->url) snprintf(d->url, sizeof d->url, "%s", s->url);
    else if (read_target(d, &err)) return refuse(d, &err);
    if (gone_has(d->w->gone, d->url)) {
        pawl_run_error_code(d->run, "target_gone");
        return pawl_fail(d->run, "%s answered 410 before and gets nothing more: see \"gone\" of the handler \"%s\"", d->url,
                         d->w->name);
    }
    buf_str(&d->signatures, "webhook-signature: ");
    if (s->secrets && each_secret(s->secrets, NULL, add_signature, d, &err)) {
        pawl_run_error_code(d->run, "no_secret");
        return pawl_retry(d->run, "%s", err.message);
    }
    if (d->signatures.failed) return pawl_retry(d->run, "%s", pawl_status_text(PAWL_NO_MEMORY));
    post(d);
    return judge(d);
}

static pawl_outcome webhook_run(pawl_run *run, void *ctx)
{
    webhook *w = ctx;
    pawl_clock clock = clock_system();
    char id[PAWL_ID_TEXT];
    delivery d = {.w = w, .run = run, .at_s = clock.wall_us(clock.ctx) / PAWL_SECOND};
    pawl_id_format(pawl_run_id(run), id);
    snprintf(d.id, sizeof d.id, "task_%s", id);
    buf_init(&d.signatures, w->allocator, 4096);
    buf_init(&d.answer, w->allocator, RESULT_MAX);
    pawl_outcome outcome = deliver(&d);
    buf_done(&d.signatures);
    buf_done(&d.answer);
    return outcome;
}

const handler_kind handler_webhook = {.name = "webhook",
                                      .summary = "payloads by POST to somebody's server, signed",
                                      .settings = webhook_settings,
                                      .size = sizeof(settings),
                                      .max_attempts = 5,
                                      .workers = 4,
                                      .open = webhook_open,
                                      .run = webhook_run,
                                      .close = webhook_close};
