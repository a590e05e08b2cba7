/* postgres://user@host/db?pawl_schema=tasks, postgresql://..., and postgres:host=... dbname=... (libpq's keywords).
 *
 * Everything else in it (TLS, several hosts, service files, ...) is libpq's business and passed through.
 */
#include "store/postgres/url.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include <libpq-fe.h>
#include <string.h>

#define URL_MAX 8192
#define POLL_US (5 * PAWL_SECOND)
#define POLL_PROXY_US PAWL_SECOND

static pawl_status no_memory(pawl_error *err)
{
    return err_set(err, PAWL_NO_MEMORY, "could not read the store's URL: out of memory");
}

/* ---- pawl's own parameters ----------------------------------------------------------------------------------------------- */

static bool read_truth(const char *value, bool *out)
{
    *out = strcmp(value, "on") == 0 || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    return *out || strcmp(value, "off") == 0 || strcmp(value, "false") == 0 || strcmp(value, "0") == 0;
}

static pawl_status own_parameter(pg_url *u, const char *name, const char *value, pawl_error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    int64_t ms;
    if (strcmp(name, "pawl_schema") == 0) {
        size_t len = strlen(value);
        if (len == 0 || len > SCHEMA_MAX || strspn(value, letters) != len || strncmp(value, "pg_", 3) == 0)
            return err_set(err, PAWL_INVALID,
                           "pawl_schema=\"%.80s\" cannot name a schema: write 1 to %d letters, digits, _ or -, not "
                           "beginning with pg_",
                           value, SCHEMA_MAX);
        memcpy(u->schema, value, len + 1);
        return PAWL_OK;
    }
    if (strcmp(name, "pawl_proxy") == 0) {
        if (read_truth(value, &u->proxy)) return PAWL_OK;
        return err_set(err, PAWL_INVALID, "pawl_proxy=\"%.80s\" must be on or off", value);
    }
    if (strcmp(name, "pawl_poll_ms") == 0) {
        if (!int_parse(value, 100, 3600000, &ms))
            return err_set(err, PAWL_INVALID, "pawl_poll_ms=\"%.80s\" must be a number from 100 to 3600000", value);
        u->poll_us = ms * PAWL_MILLISECOND;
        return PAWL_OK;
    }
    return err_set(err, PAWL_INVALID,
                   "the store's URL has a parameter \"%.80s\" that pawl does not know: there are pawl_schema, "
                   "pawl_proxy and pawl_poll_ms",
                   name);
}

/* ---- URIs ---------------------------------------------------------------------------------------------------------------- */

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void decode(char *text)
{
    char *to = text;
    for (; *text; text++) {
        bool coded = *text == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0;
        *to++ = coded ? (char)(hex(text[1]) << 4 | hex(text[2])) : *text;
        if (coded) text += 2;
    }
    *to = '\0';
}

/* One name=value of the query; kept if it is libpq's. */
static pawl_status query_parameter(pg_url *u, buf *kept, char *part, bool *first, pawl_error *err)
{
    if (strncmp(part, "pawl_", 5) != 0) {
        buf_char(kept, *first ? '?' : '&');
        buf_str(kept, part);
        *first = false;
        return PAWL_OK;
    }
    char *value = strchr(part, '=');
    if (!value) return err_set(err, PAWL_INVALID, "the parameter \"%.80s\" of the store's URL has no value", part);
    *value++ = '\0';
    decode(value);
    return own_parameter(u, part, value, err);
}

static pawl_status read_uri(pg_url *u, buf *kept, char *uri, pawl_error *err)
{
    char *query = strchr(uri, '?');
    bool first = true;
    if (query) *query++ = '\0';
    buf_str(kept, uri);
    for (char *next; query && *query; query = next) {
        next = strchr(query, '&');
        if (next) *next++ = '\0';
        pawl_status status = query_parameter(u, kept, query, &first, err);
        if (status) return status;
    }
    return PAWL_OK;
}

/* ---- keywords ------------------------------------------------------------------------------------------------------------ */

#define SPACES " \f\n\r\t\v"

/* The end of one keyword = value; values in single quotes have backslashes. */
static char *end_of_setting(char *at)
{
    at += strcspn(at, "=");
    if (*at) at++;
    at += strspn(at, SPACES);
    if (*at != '\'') {
        for (; *at && !strchr(SPACES, *at); at++)
            if (*at == '\\' && at[1]) at++;
        return at;
    }
    for (at++; *at && *at != '\''; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

static void unquote(char *value)
{
    bool quoted = *value == '\'';
    char *to = value;
    for (const char *from = value + quoted; *from && !(quoted && *from == '\''); from++) {
        if (*from == '\\' && from[1]) from++;
        *to++ = *from;
    }
    *to = '\0';
}

static bool is_uri(const char *text) { return strncmp(text, "postgres://", 11) == 0 || strncmp(text, "postgresql://", 13) == 0; }

static pawl_status read_keywords(pg_url *u, buf *kept, char *at, pawl_error *err)
{
    if (is_uri(at + strspn(at, SPACES)))
        return err_set(err, PAWL_INVALID, "cannot read the store's URL: it begins with \"postgres:\" twice; write it once");
    for (char *end; *(at += strspn(at, SPACES)); at = end) {
        end = end_of_setting(at);
        char last = *end;
        *end = '\0';
        if (strncmp(at, "pawl_", 5) != 0) {
            buf_str(kept, at);
            buf_char(kept, ' ');
        } else {
            char *value = strchr(at, '=');
            if (!value) return err_set(err, PAWL_INVALID, "the parameter \"%.80s\" of the store's URL has no value", at);
            *value++ = '\0';
            at[strcspn(at, SPACES)] = '\0';
            value += strspn(value, SPACES);
            unquote(value);
            pawl_status status = own_parameter(u, at, value, err);
            if (status) return status;
        }
        if (last) end++;
    }
    return PAWL_OK;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------- */

static const char *setting(const PQconninfoOption *all, const char *keyword)
{
    for (; all->keyword; all++)
        if (strcmp(all->keyword, keyword) == 0) return all->val && all->val[0] ? all->val : NULL;
    return NULL;
}

static void describe(buf *name, const PQconninfoOption *all, const pg_url *u)
{
    const char *user = setting(all, "user"), *host = setting(all, "host"), *port = setting(all, "port");
    const char *db = setting(all, "dbname"), *addr = setting(all, "hostaddr");
    buf_str(name, "postgres://");
    if (user) buf_fmt(name, "%s@", user);
    buf_str(name, host ? host : addr ? addr : "");
    if (port) buf_fmt(name, ":%s", port);
    buf_fmt(name, "/%s", db ? db : "");
    if (strcmp(u->schema, "pawl") != 0) buf_fmt(name, "?pawl_schema=%s", u->schema);
}

/* libpq repeats what it cannot read, and that may be a password. */
static bool may_hold_secret(const char *conninfo)
{
    return strchr(conninfo, '@') || strchr(conninfo, '%') || strcasestr(conninfo, "pass");
}

static pawl_status unreadable(const pg_url *u, char *why, pawl_error *err)
{
    if (!why) return no_memory(err);
    pawl_status status =
        may_hold_secret(u->conninfo)
            ? err_set(err, PAWL_INVALID,
                      "cannot read the store's URL; what is wrong is not shown, because it may be a part of a password: "
                      "check brackets, quotes, percent signs and the names of parameters")
            : err_set(err, PAWL_INVALID, "cannot read the store's URL: %.*s", (int)strcspn(why, "\n"), why);
    PQfreemem(why);
    return status;
}

/* libpq's own opinion of what is left, and what is needed of it. */
static pawl_status check(pg_url *u, pawl_error *err)
{
    char *why = NULL;
    buf name;
    PQconninfoOption *all = PQconninfoParse(u->conninfo, &why);
    if (!all) return unreadable(u, why, err);
    buf_init(&name, u->allocator, URL_MAX);
    describe(&name, all, u);
    u->name = alloc_str(u->allocator, buf_text(&name));
    u->options = alloc_str(u->allocator, setting(all, "options") ? setting(all, "options") : "");
    bool failed = name.failed || !u->name || !u->options;
    buf_done(&name);
    PQconninfoFree(all);
    return failed ? no_memory(err) : PAWL_OK;
}

static pawl_status take_apart(pg_url *u, char *url, pawl_error *err)
{
    buf kept;
    buf_init(&kept, u->allocator, URL_MAX);
    char *rest = strchr(url, ':') + 1;
    bool uri = strncmp(rest, "//", 2) == 0;
    pawl_status status = uri ? read_uri(u, &kept, url, err) : read_keywords(u, &kept, rest, err);
    if (!status && !(u->conninfo = alloc_str(u->allocator, buf_text(&kept)))) status = no_memory(err);
    if (!status && kept.failed) status = no_memory(err);
    buf_done(&kept);
    return status ? status : check(u, err);
}

pawl_status pg_url_read(pg_url *u, const pawl_allocator *a, const char *url, pawl_error *err)
{
    *u = (pg_url){.allocator = a, .schema = "pawl"};
    if (strlen(url) > URL_MAX / 2) return err_set(err, PAWL_INVALID, "the store's URL is longer than %d bytes", URL_MAX / 2);
    char *copy = alloc_str(a, url);
    if (!copy) return no_memory(err);
    pawl_status status = take_apart(u, copy, err);
    alloc_free(a, copy);
    if (!u->poll_us) u->poll_us = u->proxy ? POLL_PROXY_US : POLL_US;
    if (status) pg_url_done(u);
    return status;
}

void pg_url_done(pg_url *u)
{
    if (!u->allocator) return;
    alloc_free(u->allocator, u->conninfo);
    alloc_free(u->allocator, u->options);
    alloc_free(u->allocator, u->name);
    *u = (pg_url){0};
}
