/* Where a store is, as options or the environment say it. What is no URL is refused with a reason, by every way in alike; a store that
 * is opened says where it is. */
#include "fuzz/fuzz.h"
#include "runtime/runtime.h"
#include "store/sqlite/inner.h"
#include "store/store.h"
#include <string.h>
#include <unistd.h>

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static void paths(const char *url)
{
    pawl_error err;
    char folder[PATH_MAX];
    if (!begins(url, "sqlite:")) return;
    const char *path = sqlite_path(url, &err);
    if (!path) {
        fuzz_failed(PAWL_INVALID, &err);
        return;
    }
    size_t n = strlen(path), whole = strlen(url);
    HOLDS(n > 0 && n < PATH_MAX - 8 && path == url + whole - n);
    sqlite_folder(path, folder);
    HOLDS(strcmp(folder, ".") == 0 || begins(path, folder));
}

/* Only what cannot lead out of an empty folder or this machine is opened, and nothing is created. */
static bool may_open(const char *url)
{
    return !begins(url, "postgres") && !begins(url, "mysql") && !begins(url, "mariadb") &&
           (!begins(url, "sqlite:") || !strchr(url, '/'));
}

static pawl_status open_it(const char *url, pawl_error *err)
{
    pawl *p;
    pawl_status status = pawl_open(&(pawl_options){.store = url, .inline_mode = true, .read_only = true}, &p, err);
    if (status) return status;
    HOLDS(!url || strcmp(pawl_store_url(p), url) == 0 ||
          (begins(url, "memory://") && strchr(url, '@'))); /* as if by a password */
    HOLDS(pawl_close(p) == 0);
    return PAWL_OK;
}

static void opening(const char *url)
{
    pawl_error err, by_environment;
    pawl_status status = open_it(url, &err);
    if (status) fuzz_failed(status, &err);
    if (store_check_url(url, NULL) != PAWL_OK) HOLDS(status == PAWL_INVALID || status == PAWL_UNSUPPORTED);
    if (!*url) return;
    setenv("PAWL_STORE", url, 1);
    HOLDS(strcmp(config_default_store(), url) == 0);
    HOLDS(open_it(NULL, &by_environment) == status);
    if (status) HOLDS(strcmp(err.message, by_environment.message) == 0);
    unsetenv("PAWL_STORE");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool there;
    if (!there && chdir(fuzz_folder()) != 0) return 0;
    there = true;
    char *url = malloc(size + 1);
    if (!url) return 0;
    memcpy(url, data, size);
    url[size] = '\0';
    paths(url);
    if (may_open(url)) opening(url);
    free(url);
    return 0;
}
