/* The order of checks, for every request:
 *
 *     Host             an address, localhost, or a name that was configured: a page of a stranger's, whose name was made to point here,
 *                      says another one
 *     Sec-Fetch-Site   a browser that asks for another site's page is refused, unless somebody followed a link to what is open to all
 *     Origin           the same for older browsers: it must be this very server
 *     token            Authorization: Bearer, or the cookie of the dashboard. Where tokens are configured everybody needs one. Where there
 *                      are none, whoever is on this machine (by the socket's word) may do everything, and nobody else anything
 *     cookie           a browser sends it by itself, so what changes something must come from a page of this very server, by the
 *                      browser's word (Sec-Fetch-Site, else Origin), whatever SameSite=Strict does already
 *     scope, tenant    what the token allows
 *
 * A token is hashed, and its hash is compared with every one there is, to the last byte: how long it takes tells nothing
 * (tests/server/constant.sh).
 */
#include "server/auth.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOSTS_MAX 64

struct auth {
    char *path;
    token_list list;
    pthread_rwlock_t lock; /* of list */
    char *hosts[HOSTS_MAX];
    size_t hosts_count;
};

/* ---- where it was sent -------------------------------------------------------------------------------------------------------- */

/* Host without its port; false: it has no such form. */
static bool host_name(const char *host, char name[256])
{
    const char *end;
    if (*host == '[') {
        end = strchr(host, ']');
        if (!end || (end[1] && end[1] != ':')) return false;
        host++;
    } else {
        end = strchrnul(host, ':');
    }
    size_t n = (size_t)(end - host);
    if (n == 0 || n >= 256) return false;
    memcpy(name, host, n);
    name[n] = '\0';
    const char *port = *end == ']' ? end + 1 : end;
    return !*port || (port[1] && strspn(port + 1, "0123456789") == strlen(port + 1));
}

static bool is_address(const char *name)
{
    struct in6_addr room;
    return inet_pton(AF_INET, name, &room) == 1 || inet_pton(AF_INET6, name, &room) == 1;
}

static bool host_allowed(const auth *a, const char *host)
{
    char name[256];
    if (!host_name(host, name)) return false;
    if (is_address(name) || strcasecmp(name, "localhost") == 0) return true;
    for (size_t i = 0; i < a->hosts_count; i++) {
        if (strcasecmp(name, a->hosts[i]) == 0) return true;
    }
    return false;
}

static bool same_origin(const char *origin, const char *host)
{
    const char *at = strncasecmp(origin, "https://", 8) == 0  ? origin + 8
                     : strncasecmp(origin, "http://", 7) == 0 ? origin + 7
                                                              : NULL;
    return at && strcasecmp(at, host) == 0;
}

static bool link_followed(const http_request *r)
{
    const char *mode = http_header(r, "sec-fetch-mode"), *to = http_header(r, "sec-fetch-dest");
    return http_request_method(r) == HTTP_GET && mode && strcmp(mode, "navigate") == 0 && to && strcmp(to, "document") == 0;
}

static int check_origin(auth *a, const http_request *r, scope wanted, const char **type, const char **why)
{
    const char *host = http_header(r, "host"), *site = http_header(r, "sec-fetch-site"), *origin = http_header(r, "origin");
    *type = "wrong_host";
    *why = "the Host header names a host that this server does not answer for: configure it with \"hosts\"";
    if (!host || !host_allowed(a, host)) return 421;
    *type = "cross_site";
    *why = "the request comes from a page of another site";
    if (wanted == SCOPE_NONE && link_followed(r)) return 0;
    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) return 403;
    return origin && !same_origin(origin, host) ? 403 : 0;
}

/* ---- who sent it -------------------------------------------------------------------------------------------------------------- */

static bool find_token(auth *a, const char *text, token *out)
{
    char hash[SHA256_HEX];
    bool found = false;
    sha256_hex(text, strlen(text), hash);
    pthread_rwlock_rdlock(&a->lock);
    for (size_t i = 0; i < a->list.count; i++) {
        if (!sha256_same(hash, a->list.tokens[i].hash)) continue;
        *out = a->list.tokens[i];
        found = true;
    }
    pthread_rwlock_unlock(&a->lock);
    return found;
}

static int take_token(const token *t, caller *who, const char **type, const char **why)
{
    pawl_clock clock = clock_system();
    *type = "expired_token";
    *why = "the token has expired: ask for a new one (\"pawl tokens add\")";
    if (t->expires_us && t->expires_us <= clock.wall_us(clock.ctx)) return 401;
    memcpy(who->name, t->name, sizeof who->name);
    memcpy(who->tenant, t->tenant, sizeof who->tenant);
    who->scopes = t->scopes;
    return 0;
}

int auth_token(auth *a, const char *text, caller *who, int64_t *expires_us, const char **type, const char **why)
{
    token t;
    *who = (caller){0};
    *type = "unknown_token";
    *why = "the token is not known here";
    if (strlen(text) > TOKEN_BYTES_MAX || !find_token(a, text, &t)) return 401;
    *expires_us = t.expires_us;
    return take_token(&t, who, type, why);
}

static bool from_cookie(const http_request *r, char text[TOKEN_BYTES_MAX + 2])
{
    const char *at = http_header(r, "cookie"), *name = TOKEN_COOKIE "=";
    for (; at && *at; at += strcspn(at, ";"), at += strspn(at, "; ")) {
        if (strncmp(at, name, strlen(name)) != 0) continue;
        at += strlen(name);
        snprintf(text, TOKEN_BYTES_MAX + 2, "%.*s", (int)strcspn(at, ";"), at);
        return true;
    }
    return false;
}

/* An Origin that is there was found to be ours. */
static bool own_page(const http_request *r)
{
    const char *site = http_header(r, "sec-fetch-site");
    if (http_request_method(r) == HTTP_GET) return true;
    return site ? strcmp(site, "same-origin") == 0 : http_header(r, "origin") != NULL;
}

static int check_token(auth *a, const http_request *r, scope wanted, caller *who, const char **type, const char **why)
{
    const char *header = http_header(r, "authorization");
    char cookie[TOKEN_BYTES_MAX + 2];
    int64_t expires_us;
    if (wanted == SCOPE_NONE) return 0;
    if (!auth_has_tokens(a) && !header) {
        snprintf(who->name, sizeof who->name, "local");
        who->scopes = 1u << SCOPE_ADMIN;
        *type = "no_token";
        *why = "only clients on the server's own machine may do this without a token";
        return http_peer_kind(r) == HTTP_PEER_OTHER ? 401 : 0;
    }
    if (!header && from_cookie(r, cookie)) {
        *type = "cross_site";
        *why = "the browser does not say that the request comes from this server's own page";
        return own_page(r) ? auth_token(a, cookie, who, &expires_us, type, why) : 403;
    }
    *type = "no_token";
    *why = "a token is needed: send \"Authorization: Bearer TOKEN\" (\"pawl tokens add\" makes one)";
    if (!header || strncasecmp(header, "bearer ", 7) != 0) return 401;
    return auth_token(a, header + 7 + strspn(header + 7, " "), who, &expires_us, type, why);
}

int auth_who(auth *a, http_request *r, caller *who, const char **type, const char **why)
{
    *who = (caller){0};
    return check_token(a, r, SCOPE_READ, who, type, why);
}

int auth_check(auth *a, http_request *r, scope wanted, bool whole_store, caller *who, const char **type, const char **why)
{
    *who = (caller){0};
    int status = check_origin(a, r, wanted, type, why);
    if (!status) status = check_token(a, r, wanted, who, type, why);
    if (status || wanted == SCOPE_NONE) return status;
    *type = "scope";
    *why = "the token does not allow this: it lacks the scope";
    if (!scopes_allow(who->scopes, wanted)) return 403;
    *type = "tenant";
    *why = "the token is bound to a tenant, and this concerns all of them";
    return whole_store && *who->tenant ? 403 : 0;
}

/* ---- birth and change --------------------------------------------------------------------------------------------------------- */

auth *auth_new(const char *tokens, const char *const *hosts, size_t hosts_count, pawl_error *err)
{
    auth *a = alloc_new(alloc_default(), sizeof *a);
    if (!a) return err_set(err, PAWL_NO_MEMORY, "out of memory"), NULL;
    pthread_rwlock_init(&a->lock, NULL);
    a->path = alloc_str(alloc_default(), tokens);
    for (size_t i = 0; i < hosts_count && i < HOSTS_MAX; i++) {
        if ((a->hosts[a->hosts_count] = alloc_str(alloc_default(), hosts[i]))) a->hosts_count++;
    }
    if (!auth_reload(a, err)) return a;
    auth_free(a);
    return NULL;
}

pawl_status auth_reload(auth *a, pawl_error *err)
{
    token_list fresh = {0};
    pawl_status status = a->path ? tokens_load(a->path, &fresh, err) : PAWL_OK;
    if (status) return status;
    if (auth_has_tokens(a) && !fresh.count)
        return tokens_free(&fresh),
               err_set(err, PAWL_DENIED, "\"%s\" has no tokens any more: the server would be open; the old ones stay", a->path);
    pthread_rwlock_wrlock(&a->lock);
    token_list old = a->list;
    a->list = fresh;
    pthread_rwlock_unlock(&a->lock);
    tokens_free(&old);
    return PAWL_OK;
}

bool auth_has_tokens(auth *a)
{
    pthread_rwlock_rdlock(&a->lock);
    bool any = a->list.count > 0;
    pthread_rwlock_unlock(&a->lock);
    return any;
}

void auth_free(auth *a)
{
    if (!a) return;
    for (size_t i = 0; i < a->hosts_count; i++) alloc_free(alloc_default(), a->hosts[i]);
    tokens_free(&a->list);
    pthread_rwlock_destroy(&a->lock);
    alloc_free(alloc_default(), a->path);
    alloc_free(alloc_default(), a);
}
