/* mysql://user:password@host:port/database?ssl=on&ssl_ca=FILE, mariadb://... the same.
 *
 * A host that is empty means the server's unix socket: the one that `socket=` names, or the library's default. Everything may be
 * percent-encoded. A parameter that is not known is an error, because a TLS option that was silently left out would be worse than none.
 */
#include "store/mysql/url.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/text.h"
#include <string.h>

#define URL_MAX 8192
#define POLL_US PAWL_SECOND
#define CONNECT_US (10 * PAWL_SECOND)

static pawl_status no_memory(pawl_error *err)
{
    return err_set(err, PAWL_NO_MEMORY, "could not read the store's URL: out of memory");
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* In place. A %00 would cut the text short, so it is kept as it is written. */
static char *decode(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        int high = *at == '%' ? hex(at[1]) : -1, low = high >= 0 ? hex(at[2]) : -1;
        bool coded = high >= 0 && low >= 0 && high + low > 0;
        *to++ = coded ? (char)(high * 16 + low) : *at;
        if (coded) at += 2;
    }
    *to = '\0';
    return text;
}

/* ---- parameters ---------------------------------------------------------------------------------------------------------- */

static bool read_truth(const char *value, bool *out)
{
    *out = strcmp(value, "on") == 0 || strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
    return *out || strcmp(value, "off") == 0 || strcmp(value, "false") == 0 || strcmp(value, "0") == 0;
}

static pawl_status read_ms(const char *name, const char *value, int64_t least, int64_t *us, pawl_error *err)
{
    int64_t ms;
    if (!int_parse(value, least, 3600000, &ms))
        return err_set(err, PAWL_INVALID, "%s=\"%.80s\" must be a number from %lld to 3600000", name, value, (long long)least);
    *us = ms * PAWL_MILLISECOND;
    return PAWL_OK;
}

static pawl_status set_text(my_url *u, const char *name, const char *value, bool *known)
{
    const struct {
        const char *name, **to;
    } texts[] = {{"socket", &u->socket},          {"ssl_ca", &u->ssl_ca},   {"ssl_capath", &u->ssl_capath},
                 {"ssl_cert", &u->ssl_cert},      {"ssl_key", &u->ssl_key}, {"ssl_cipher", &u->ssl_cipher},
                 {"tls_version", &u->tls_version}};
    *known = false;
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !*known; i++) {
        if (strcmp(name, texts[i].name) != 0) continue;
        *texts[i].to = value[0] ? value : NULL;
        *known = true;
    }
    return PAWL_OK;
}

static pawl_status set_parameter(my_url *u, const char *name, const char *value, pawl_error *err)
{
    bool known, truth;
    set_text(u, name, value, &known);
    if (known) return PAWL_OK;
    if (strcmp(name, "pawl_poll_ms") == 0) return read_ms(name, value, 10, &u->poll_us, err);
    if (strcmp(name, "connect_timeout_ms") == 0) return read_ms(name, value, 100, &u->connect_us, err);
    if (strcmp(name, "ssl") == 0 || strcmp(name, "ssl_verify") == 0) {
        if (!read_truth(value, &truth)) return err_set(err, PAWL_INVALID, "%s=\"%.80s\" must be on or off", name, value);
        if (strcmp(name, "ssl") == 0) u->ssl = truth;
        else u->ssl_verify = truth;
        return PAWL_OK;
    }
    return err_set(
        err, PAWL_INVALID,
        "the store's URL has a parameter \"%.80s\" that pawl does not know: there are socket, ssl, ssl_verify, ssl_ca, "
        "ssl_capath, ssl_cert, ssl_key, ssl_cipher, tls_version, connect_timeout_ms and pawl_poll_ms",
        name);
}

static pawl_status read_query(my_url *u, char *query, pawl_error *err)
{
    for (char *next; query && *query; query = next) {
        next = strchr(query, '&');
        if (next) *next++ = '\0';
        char *value = strchr(query, '=');
        if (!value) return err_set(err, PAWL_INVALID, "the parameter \"%.80s\" of the store's URL has no value", query);
        *value++ = '\0';
        pawl_status status = set_parameter(u, decode(query), decode(value), err);
        if (status) return status;
    }
    return PAWL_OK;
}

/* ---- host and database --------------------------------------------------------------------------------------------------- */

static void read_user(my_url *u, char *part)
{
    char *password = strchr(part, ':');
    if (password) {
        *password++ = '\0';
        u->password = decode(password);
    }
    if (*part) u->user = decode(part);
}

/* host, host:port, [::1]:port */
static pawl_status read_host(my_url *u, char *part, pawl_error *err)
{
    int64_t port = 0;
    char *host = part, *colon;
    if (*part == '[') {
        char *end = strchr(part, ']');
        if (!end) return err_set(err, PAWL_INVALID, "the host in the store's URL begins with [ and has no ]");
        *end = '\0';
        host = part + 1;
        colon = end[1] == ':' ? end + 1 : NULL;
    } else {
        colon = strrchr(part, ':');
    }
    if (colon) {
        *colon++ = '\0';
        if (!int_parse(colon, 1, 65535, &port))
            return err_set(
                err, PAWL_INVALID,
                "the store's URL has no port where one should be: write HOST:NUMBER, from 1 to 65535; a password with : / "
                "? or @ in it is percent-encoded");
    }
    u->port = (unsigned)port;
    if (*host) u->host = decode(host);
    return PAWL_OK;
}

static pawl_status read_database(my_url *u, char *part, pawl_error *err)
{
    decode(part);
    size_t len = strlen(part);
    if (len == 0 || len > DATABASE_MAX || strpbrk(part, "`/\\.") || !utf8_valid(part, len))
        return err_set(
            err, PAWL_INVALID,
            "the store's URL names no database: write mysql://USER@HOST/DATABASE, with 1 to %d bytes, none of them `, /, \\ "
            "or a dot",
            DATABASE_MAX);
    memcpy(u->database, part, len + 1);
    return PAWL_OK;
}

static pawl_status take_apart(my_url *u, pawl_error *err)
{
    char *at = strchr(u->text, ':');
    if (!at || strncmp(at + 1, "//", 2) != 0)
        return err_set(err, PAWL_INVALID, "the store's URL must look like mysql://USER@HOST/DATABASE");
    at += 3;
    char *query = strchr(at, '?');
    if (query) *query++ = '\0';
    char *slash = strchr(at, '/');
    if (slash) *slash++ = '\0';
    char *sign = strrchr(at, '@');
    if (sign) {
        *sign = '\0';
        read_user(u, at);
        at = sign + 1;
    }
    pawl_status status = read_host(u, at, err);
    if (!status) status = read_database(u, slash ? slash : at + strlen(at), err);
    return status ? status : read_query(u, query, err);
}

static pawl_status describe(my_url *u, pawl_error *err)
{
    buf name;
    buf_init(&name, u->allocator, URL_MAX);
    buf_str(&name, "mysql://");
    if (u->user) buf_fmt(&name, "%s@", u->user);
    buf_str(&name, u->host ? u->host : "");
    if (u->port) buf_fmt(&name, ":%u", u->port);
    buf_fmt(&name, "/%s", u->database);
    bool whole = !name.failed && (u->name = alloc_str(u->allocator, buf_text(&name)));
    buf_done(&name);
    return whole ? PAWL_OK : no_memory(err);
}

pawl_status my_url_read(my_url *u, const pawl_allocator *a, const char *url, pawl_error *err)
{
    *u = (my_url){.allocator = a, .poll_us = POLL_US, .connect_us = CONNECT_US, .ssl_verify = true};
    if (strlen(url) > URL_MAX / 2) return err_set(err, PAWL_INVALID, "the store's URL is longer than %d bytes", URL_MAX / 2);
    if (!(u->text = alloc_str(a, url))) return no_memory(err);
    pawl_status status = take_apart(u, err);
    if (!status) status = describe(u, err);
    if (status) my_url_done(u);
    return status;
}

void my_url_done(my_url *u)
{
    if (!u->allocator) return;
    if (u->text) explicit_bzero(u->text, strlen(u->text));
    alloc_free(u->allocator, u->text);
    alloc_free(u->allocator, u->name);
    *u = (my_url){0};
}
