/* The URL of a MariaDB store. What is read of it are whole texts within bounds; names for people, and the URL as it is shown, have no
 * password in them. */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "runtime/runtime.h"
#include "store/mysql/url.h"
#include <string.h>

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static bool is_ours(const char *url) { return begins(url, "mysql:") || begins(url, "mariadb:"); }

static void whole(const my_url *u)
{
    HOLDS(u->text && u->name && begins(u->name, "mysql://"));
    HOLDS(u->database[0] && strlen(u->database) <= DATABASE_MAX && !strpbrk(u->database, "`/\\."));
    HOLDS(u->port <= 65535);
    HOLDS(u->poll_us >= 10 * PAWL_MILLISECOND && u->poll_us <= PAWL_HOUR);
    HOLDS(u->connect_us >= 100 * PAWL_MILLISECOND && u->connect_us <= PAWL_HOUR);
    HOLDS((!u->host || u->host[0]) && (!u->user || u->user[0]) && (!u->socket || u->socket[0]));
}

/* The URL as it is shown; it may be one that cannot be read any more. */
static void shown(const char *url)
{
    my_url u;
    pawl_error err;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    char *public = arena ? runtime_public_url(arena, url) : NULL;
    if (public && my_url_read(&u, alloc_default(), public, &err) == PAWL_OK) {
        HOLDS(!u.password || !u.password[0] || u.password[0] == '*');
        my_url_done(&u);
    }
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *url = malloc(size + 1);
    my_url u;
    pawl_error err;
    if (!url) return 0;
    memcpy(url, data, size);
    url[size] = '\0';
    if (is_ours(url)) {
        pawl_status status = my_url_read(&u, alloc_default(), url, &err);
        if (status) {
            fuzz_failed(PAWL_INVALID, &err);
            HOLDS(status == PAWL_INVALID && !u.text);
        } else {
            whole(&u);
            my_url_done(&u);
            shown(url);
        }
    }
    free(url);
    return 0;
}
