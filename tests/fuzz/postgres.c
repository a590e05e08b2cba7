/* The URL of a PostgreSQL store. What libpq gets of it is what libpq understands, without what is ours; names for people, and the URL as
 * it is shown, have no password in them. */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "runtime/runtime.h"
#include "store/postgres/url.h"
#include <libpq-fe.h>
#include <string.h>

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static bool is_ours(const char *url) { return begins(url, "postgres:") || begins(url, "postgresql:"); }

/* What libpq takes for a password; NULL: nothing. The caller frees `all`. */
static const char *secret(const pg_url *u, PQconninfoOption **all)
{
    *all = PQconninfoParse(u->conninfo, NULL);
    HOLDS(*all != NULL);
    for (const PQconninfoOption *o = *all; o->keyword; o++)
        if (strstr(o->keyword, "password") && o->val && o->val[0]) return o->val;
    return NULL;
}

static void whole(const pg_url *u)
{
    HOLDS(u->conninfo && u->name && u->options);
    HOLDS(u->schema[0] && strlen(u->schema) <= SCHEMA_MAX && !begins(u->schema, "pg_") && !strpbrk(u->schema, "\"'\\; "));
    HOLDS(u->poll_us >= 100 * PAWL_MILLISECOND && u->poll_us <= PAWL_HOUR);
    HOLDS(begins(u->name, "postgres://"));
}

/* The URL as it is shown; it may be one that cannot be read any more. */
static void shown(const char *url)
{
    pg_url u;
    pawl_error err;
    PQconninfoOption *all;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    char *public = arena ? runtime_public_url(arena, url) : NULL;
    if (public && pg_url_read(&u, alloc_default(), public, &err) == PAWL_OK) {
        const char *left = secret(&u, &all);
        HOLDS(!left || left[0] == '*');
        PQconninfoFree(all);
        pg_url_done(&u);
    }
    arena_free(arena);
}

static void reading(const char *url)
{
    pg_url u;
    pawl_error err;
    PQconninfoOption *all;
    pawl_status status = pg_url_read(&u, alloc_default(), url, &err);
    if (status) {
        fuzz_failed(PAWL_INVALID, &err);
        HOLDS(status == PAWL_INVALID && !u.conninfo);
        return;
    }
    whole(&u);
    secret(&u, &all);
    PQconninfoFree(all);
    pg_url_done(&u);
    shown(url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *url = malloc(size + 1);
    if (!url) return 0;
    memcpy(url, data, size);
    url[size] = '\0';
    if (is_ours(url)) reading(url);
    free(url);
    return 0;
}
