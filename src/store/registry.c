/* Which stores there are: the built-in ones, and those the program registered. A registered table is used as it stands, so
 * it must live as long as the process; it cannot be taken back.
 */
#include "base/error.h"
#include "store/registry.h"
#include <pthread.h>
#include <string.h>

#define REGISTERED_MAX 16
#define SCHEME_MAX 32

static const pawl_store_type *const built_in[] = {&store_memory_type, &store_sqlite_type};
#define BUILT_IN ((int)(sizeof built_in / sizeof *built_in))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const pawl_store_type *registered[REGISTERED_MAX];
static int registered_count;

static bool scheme_is(const pawl_store_type *type, const char *scheme, size_t len)
{
    return strlen(type->scheme) == len && memcmp(type->scheme, scheme, len) == 0;
}

static const pawl_store_type *find(const char *scheme, size_t len)
{
    for (int i = 0; i < BUILT_IN; i++)
        if (scheme_is(built_in[i], scheme, len)) return built_in[i];
    for (int i = 0; i < registered_count; i++)
        if (scheme_is(registered[i], scheme, len)) return registered[i];
    return NULL;
}

/* The name that a store goes by also: postgresql: is postgres:, mariadb: is mysql:. */
static const char *proper(const char *scheme, size_t *len)
{
    static const char *const names[][2] = {{"postgresql", "postgres"}, {"mariadb", "mysql"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i][0]) != *len || memcmp(scheme, names[i][0], *len) != 0) continue;
        *len = strlen(names[i][1]);
        return names[i][1];
    }
    return scheme;
}

/* Loading happens under the lock, so a module is loaded once. */
pawl_status registry_find(const char *scheme, size_t len, const pawl_store_type **out, pawl_error *err)
{
    scheme = proper(scheme, &len);
    pthread_mutex_lock(&lock);
    *out = find(scheme, len);
    pawl_status status = *out ? PAWL_OK : module_find(scheme, len, out, err);
    if (!status && *out && !find(scheme, len) && registered_count < REGISTERED_MAX) registered[registered_count++] = *out;
    pthread_mutex_unlock(&lock);
    return status;
}

static bool scheme_valid(const char *scheme)
{
    size_t len = scheme ? strlen(scheme) : 0;
    return len > 0 && len <= SCHEME_MAX && strspn(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == len;
}

static const char *missing_callback(const pawl_store_type *t)
{
    return !t->open            ? "open"
           : !t->close         ? "close"
           : !t->register_node ? "register_node"
           : !t->leave         ? "leave"
           : !t->take_ids      ? "take_ids"
           : !t->apply         ? "apply"
           : !t->claim         ? "claim"
           : !t->renew         ? "renew"
           : !t->held          ? "held"
           : !t->rescue        ? "rescue"
           : !t->sweep         ? "sweep"
           : !t->read          ? "read"
           : !t->watch_fd      ? "watch_fd"
           : !t->watch_check   ? "watch_check"
                               : NULL;
}

static pawl_status check(const pawl_store_type *type, pawl_error *err)
{
    if (!type) return err_set(err, PAWL_INVALID, "cannot register a store: the table is NULL");
    if (type->version != PAWL_STORE_VERSION)
        return err_set(
            err, PAWL_UNSUPPORTED,
            "cannot register a store of version %d: this pawl knows version %d; build the store against its pawl/store.h",
            type->version, PAWL_STORE_VERSION);
    if (!scheme_valid(type->scheme))
        return err_set(err, PAWL_INVALID,
                       "cannot register a store: its scheme must be 1 to %d characters of a-z, 0-9, +, - and .", SCHEME_MAX);
    const char *missing = missing_callback(type);
    if (missing)
        return err_set(err, PAWL_INVALID, "cannot register store \"%s\": its callback `%s` is NULL", type->scheme, missing);
    if (type->lanes < 1)
        return err_set(err, PAWL_INVALID, "cannot register store \"%s\": it needs at least 1 lane", type->scheme);
    return PAWL_OK;
}

pawl_status pawl_register_store(const pawl_store_type *type, pawl_error *err)
{
    pawl_status status = check(type, err);
    if (status) return status;
    pthread_mutex_lock(&lock);
    if (find(type->scheme, strlen(type->scheme)))
        status = err_set(err, PAWL_CONFLICT, "cannot register store \"%s\": the scheme is taken", type->scheme);
    else if (registered_count == REGISTERED_MAX)
        status = err_set(err, PAWL_FULL, "cannot register store \"%s\": %d are registered already", type->scheme, REGISTERED_MAX);
    else registered[registered_count++] = type;
    pthread_mutex_unlock(&lock);
    return status;
}
