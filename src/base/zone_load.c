/* Zone files: finding and reading them.
 *
 * A name is a path below the folder and cannot lead out of it: it is made of letters, digits, "_", "+", "-" and single slashes, so that
 * no part of it can be ".." or begin with a dot. "localtime" and "posixrules" are left out although they are files there: they are
 * another zone on each machine.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/zone_parts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)64 << 10) /* the largest in use has 4 KiB */
#define DEPTH_MAX 4

static const char *const folders[] = {"/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"};

const char *zone_folder(void)
{
    const char *told = getenv("TZDIR");
    if (told && *told) return told;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (access(folders[i], X_OK) == 0) return folders[i];
    return folders[0];
}

/* ---- names --------------------------------------------------------------------------------------------------------------------- */

static bool is_utc(const char *name) { return strcmp(name, "UTC") == 0 || strcmp(name, "Etc/UTC") == 0; }

static bool is_local(const char *name) { return strcmp(name, "localtime") == 0 || strcmp(name, "posixrules") == 0; }

static bool name_safe(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
    size_t n = strnlen(name, NAME_MAX_BYTES + 1);
    if (n == 0 || n > NAME_MAX_BYTES || strspn(name, allowed) != n) return false;
    return name[0] != '/' && name[n - 1] != '/' && !strstr(name, "//");
}

static pawl_status check_name(const char *name, pawl_error *err)
{
    const char *what;
    if (!name_valid(name, &what))
        return err_set(err, PAWL_INVALID, "the name of a time zone %s: write one like Europe/Berlin", what);
    if (is_local(name))
        return err_set(err, PAWL_INVALID, "time zone \"%s\" is another one on each machine: name a place, like Europe/Berlin",
                       name);
    if (!name_safe(name))
        return err_set(err, PAWL_INVALID, "\"%s\" is no time zone: write a name like Europe/Berlin or UTC", name);
    return PAWL_OK;
}

/* ---- files --------------------------------------------------------------------------------------------------------------------- */

static pawl_status not_opened(const char *folder, const char *name, int error, pawl_error *err)
{
    if (error != ENOENT && error != ENOTDIR && error != ELOOP && error != ENAMETOOLONG)
        return err_set(err, PAWL_UNAVAILABLE, "could not read time zone \"%s\" in %s: %s", name, folder, strerror(error));
    if (access(folder, X_OK) != 0)
        return err_set(err, PAWL_INVALID, "there are no time zones in %s but UTC: install the package tzdata", folder);
    return err_set(err, PAWL_INVALID, "there is no time zone \"%s\" in %s: write a name like Europe/Berlin or UTC", name, folder);
}

/* The whole file, at most `room` bytes; -1: errno says why. */
static ssize_t read_all(int fd, char *to, size_t room)
{
    size_t n = 0;
    while (n < room) {
        ssize_t got = read(fd, to + n, room - n);
        if (got == 0) break;
        if (got > 0) n += (size_t)got;
        else if (errno != EINTR) return -1;
    }
    return (ssize_t)n;
}

/* O_NONBLOCK: a pipe in the place of a file must not hold us up. */
static int open_file(const char *folder, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || n >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static pawl_status read_open(const pawl_allocator *a, const char *folder, const char *name, int fd, zone **out, pawl_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return not_opened(folder, name, errno, err);
    if (!S_ISREG(st.st_mode)) return not_opened(folder, name, ENOENT, err);
    char *bytes = alloc_new(a, FILE_MAX + 1);
    if (!bytes) return err_set(err, PAWL_NO_MEMORY, "could not read time zone \"%s\": out of memory", name);
    ssize_t n = read_all(fd, bytes, FILE_MAX + 1);
    pawl_status status;
    if (n < 0) status = not_opened(folder, name, errno, err);
    else if ((size_t)n > FILE_MAX)
        status = err_set(err, PAWL_INVALID, "the file of time zone \"%s\" cannot be used: it is too large", name);
    else status = zone_read(a, name, (pawl_bytes){bytes, (size_t)n}, out, err);
    alloc_free(a, bytes);
    return status;
}

/* UTC is also there where nobody installed zones. */
static pawl_status load_utc(const pawl_allocator *a, const char *name, zone **out, pawl_error *err)
{
    static const char utc[] = "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                              "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\4"
                              "\0\0\0\0\0\0UTC\0"
                              "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                              "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\4"
                              "\0\0\0\0\0\0UTC\0"
                              "\nUTC0\n";
    return zone_read(a, name, (pawl_bytes){utc, sizeof utc - 1}, out, err);
}

pawl_status zone_load(const pawl_allocator *a, const char *folder, const char *name, zone **out, pawl_error *err)
{
    if (!folder) folder = zone_folder();
    if (!name) name = "UTC";
    if (is_utc(name)) return load_utc(a, name, out, err);
    pawl_status status = check_name(name, err);
    if (status) return status;
    int fd = open_file(folder, name);
    if (fd < 0) return not_opened(folder, name, errno, err);
    status = read_open(a, folder, name, fd, out, err);
    close(fd);
    return status;
}

/* ---- all of them --------------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    const char *folder;
    zone_tell tell;
    void *ctx;
    bool stopped;
    char name[NAME_MAX_BYTES + 1]; /* of what is looked at, below the folder */
} walk;

static bool is_zone_file(const char *folder, const char *name)
{
    char magic[4];
    int fd = open_file(folder, name);
    if (fd < 0) return false;
    bool is = read_all(fd, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, "TZif", 4) == 0;
    close(fd);
    return is;
}

static void walk_folder(walk *w, size_t length, int depth);

/* "posix" and "right" hold all zones once more. */
static void walk_entry(walk *w, size_t length, const char *entry, int depth)
{
    int n = snprintf(w->name + length, sizeof w->name - length, "%s%s", length ? "/" : "", entry);
    if (n < 0 || (size_t)n >= sizeof w->name - length || !name_safe(w->name) || is_local(w->name)) return;
    if (length == 0 && (strcmp(entry, "posix") == 0 || strcmp(entry, "right") == 0)) return;
    if (is_zone_file(w->folder, w->name)) w->stopped = !w->tell(w->ctx, w->name);
    else if (depth < DEPTH_MAX) walk_folder(w, length + (size_t)n, depth + 1);
}

static void walk_folder(walk *w, size_t length, int depth)
{
    int fd = open_file(w->folder, length ? w->name : ".");
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) close(fd);
        return;
    }
    for (const struct dirent *entry; !w->stopped && (entry = readdir(dir));) {
        walk_entry(w, length, entry->d_name, depth);
        w->name[length] = '\0';
    }
    closedir(dir);
}

pawl_status zone_list(const char *folder, zone_tell tell, void *ctx, pawl_error *err)
{
    walk w = {.folder = folder ? folder : zone_folder(), .tell = tell, .ctx = ctx};
    if (access(w.folder, X_OK) != 0)
        return err_set(err, PAWL_UNAVAILABLE, "there are no time zones in %s: install the package tzdata", w.folder);
    walk_folder(&w, 0, 0);
    return PAWL_OK;
}
