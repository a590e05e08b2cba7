/* /v1/session: who the caller is; for browsers, a token that becomes a cookie.
 *
 * The cookie holds the token itself: no script can read it (HttpOnly), no other site's page makes the browser send it (SameSite=Strict, and
 * auth.c asks where the request comes from), and it works on after a restart of the server.
 */
#include "base/clock.h"
#include "server/parts.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define COOKIE_DAYS 30

typedef struct login {
    const char *token;
} login;

const field session_body[] = {{"token", FIELD_TEXT, offsetof(login, token), 0, 0, "as \"pawl tokens add\" printed it"}, {0}};

static void answer(call *c, const caller *who)
{
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    json_text(&a.w, "name", who->name);
    json_text(&a.w, "tenant", *who->tenant ? who->tenant : NULL);
    jsonw_key(&a.w, "scopes");
    jsonw_array(&a.w);
    for (int i = SCOPE_NONE + 1; i < SCOPE_COUNT; i++) {
        if (scopes_allow(who->scopes, (scope)i)) jsonw_string(&a.w, scope_name((scope)i));
    }
    jsonw_end_array(&a.w);
    json_truth(&a.w, "login", auth_has_tokens(c->s->auth));
    json_text(&a.w, "version", pawl_version());
    json_text(&a.w, "store", *who->tenant || !scopes_allow(who->scopes, SCOPE_READ) ? NULL : pawl_store_url(c->s->options.p));
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

void route_session_get(call *c)
{
    caller who;
    const char *type, *why;
    if (!call_query(c, no_fields, NULL)) return;
    int status = auth_who(c->s->auth, c->r, &who, &type, &why);
    if (status) call_problem(c, status, type, "%s", why);
    else answer(c, &who);
}

/* What a cookie may be made of (RFC 6265). */
static bool fits_cookie(const char *text)
{
    for (const char *at = text; *at; at++) {
        if (*at <= ' ' || *at > '~' || strchr("\",;\\", *at)) return false;
    }
    return true;
}

static void set_cookie(call *c, const char *text, int64_t seconds)
{
    char cookie[TOKEN_BYTES_MAX + 512];
    const char *origin = http_header(c->r, "origin");
    snprintf(cookie, sizeof cookie, TOKEN_COOKIE "=%s; Path=%.255s/; Max-Age=%lld; HttpOnly; SameSite=Strict%s", text,
             c->s->prefix, (long long)seconds, origin && strncasecmp(origin, "https:", 6) == 0 ? "; Secure" : "");
    http_add_header(c->r, "Set-Cookie", cookie);
}

static int64_t seconds_left(int64_t expires_us)
{
    pawl_clock clock = clock_system();
    int64_t most = COOKIE_DAYS * PAWL_DAY, left = expires_us ? expires_us - clock.wall_us(clock.ctx) : most;
    return (left < most ? left : most) / PAWL_SECOND;
}

void route_session_new(call *c)
{
    login l = {0};
    caller who;
    const char *type, *why;
    int64_t expires_us = 0;
    if (!call_query(c, no_fields, NULL) || !call_body(c, session_body, &l)) return;
    if (!l.token || !fits_cookie(l.token)) {
        call_problem(c, 422, "invalid", "\"token\" is needed: the text that \"pawl tokens add\" printed");
        return;
    }
    int status = auth_token(c->s->auth, l.token, &who, &expires_us, &type, &why);
    if (status) {
        call_problem(c, status, type, "%s", why);
        return;
    }
    set_cookie(c, l.token, seconds_left(expires_us));
    answer(c, &who);
}

void route_session_end(call *c)
{
    if (!call_query(c, no_fields, NULL)) return;
    set_cookie(c, "", 0);
    reply_done(c, "logged out");
}
