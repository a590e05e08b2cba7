/* Stores that are not part of libpawl: modules, loaded when a URL asks for one.
 *
 * A module is a shared object that shows one function, pawl_<scheme>_store, which hands over its table. It brings along all it needs of
 * pawl, so it must be of the same version. Once loaded it stays. It is looked for in $PAWL_MODULES, beside the program, beside libpawl.so
 * and where `make install` puts it.
 */
#include "base/error.h"
#include "store/registry.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct module {
    const char *scheme, *file, *function;
    const char *library, *package, *sources; /* what it needs, and what brings that on Debian, to run and to build it */
} module;

static const module modules[] = {
    {"postgres", "pawl-postgres.so", "pawl_postgres_store", "libpq.so", "libpq5", "libpq-dev"},
    {"mysql", "pawl-mysql.so", "pawl_mysql_store", "libmariadb.so", "libmariadb3", "libmariadb-dev"},
};

#define PLACES 4

/* The folder of a path, in place. */
static const char *folder_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash) return NULL;
    *slash = '\0';
    return path;
}

static const char *beside_program(char room[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", room, PATH_MAX - 1);
    if (n <= 0) return NULL;
    room[n] = '\0';
    return folder_of(room);
}

static const char *beside_library(char room[PATH_MAX])
{
    Dl_info info;
    if (!dladdr(&modules, &info) || !info.dli_fname || !realpath(info.dli_fname, room)) return NULL;
    return folder_of(room);
}

static const char *place(int i, char room[PATH_MAX])
{
    switch (i) {
    case 0: return secure_getenv("PAWL_MODULES");
    case 1: return beside_program(room);
    case 2: return beside_library(room);
    default: return PAWL_MODULE_DIR;
    }
}

static bool find_file(const module *m, char path[PATH_MAX])
{
    char room[PATH_MAX];
    for (int i = 0; i < PLACES; i++) {
        const char *folder = place(i, room);
        if (!folder || snprintf(path, PATH_MAX, "%s/%s", folder, m->file) >= PATH_MAX) continue;
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

static pawl_status not_loaded(const module *m, const char *path, pawl_error *err)
{
    const char *why = dlerror();
    if (why && strstr(why, m->library))
        return err_set(err, PAWL_UNSUPPORTED, "cannot open a store of kind %s: %s is missing; install Debian's package %s",
                       m->scheme, m->library, m->package);
    return err_set(err, PAWL_UNSUPPORTED, "cannot load \"%s\": %s", path, why ? why : "no reason given");
}

static pawl_status load(const module *m, const pawl_store_type **out, pawl_error *err)
{
    char path[PATH_MAX];
    if (!find_file(m, path))
        return err_set(
            err, PAWL_UNSUPPORTED,
            "cannot open a store of kind %s: its module %s is not in %s, nor beside the program; install it (building it needs "
            "Debian's package %s), or name its folder in PAWL_MODULES",
            m->scheme, m->file, PAWL_MODULE_DIR, m->sources);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return not_loaded(m, path, err);
    const pawl_store_type *(*hand_over)(const char *version);
    *(void **)&hand_over = dlsym(handle, m->function);
    *out = hand_over ? hand_over(PAWL_VERSION) : NULL;
    if (*out && (*out)->version == PAWL_STORE_VERSION) return PAWL_OK;
    dlclose(handle);
    return err_set(err, PAWL_UNSUPPORTED, "cannot use \"%s\": it is of another version of pawl than this program (%s)", path,
                   PAWL_VERSION);
}

pawl_status module_find(const char *scheme, size_t len, const pawl_store_type **out, pawl_error *err)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strlen(modules[i].scheme) == len && memcmp(modules[i].scheme, scheme, len) == 0) return load(&modules[i], out, err);
    return PAWL_NOT_FOUND;
}
