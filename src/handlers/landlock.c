/* The numbers are the kernel's, spelled out here because headers are often older than the kernel. */
#include "handlers/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXECUTE (UINT64_C(1) << 0)
#define WRITE_FILE (UINT64_C(1) << 1)
#define READ_FILE (UINT64_C(1) << 2)
#define READ_DIR (UINT64_C(1) << 3)
#define TRUNCATE (UINT64_C(1) << 14)
#define IOCTL_DEV (UINT64_C(1) << 15)
#define READING (EXECUTE | READ_FILE | READ_DIR)
#define OF_FILES (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)
#define SCOPE_SIGNAL (UINT64_C(1) << 1)
#define ASK_VERSION 1u
#define RULE_PATH_BENEATH 1

/* Versions 1 to 5 took 13, 14, 15, 15 and 16 rights to files. */
static const int rights_of[] = {0, 13, 14, 15, 15, 16};

/* What a set of rules is about: files, the network (nothing), scopes. Kernels before version 6 know less than all three. */
enum { FILES, NET, SCOPES, PARTS };

struct beneath {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

int landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
    return version > 0 ? (int)version : 0;
}

static int allow(int rules, const char *path, uint64_t rights, bool must)
{
    struct stat st;
    struct beneath rule = {.allowed = rights, .parent = open(path, O_PATH | O_CLOEXEC)};
    if (rule.parent < 0) return must ? errno : 0;
    int rc = fstat(rule.parent, &st) ? errno : 0;
    if (!rc && !S_ISDIR(st.st_mode)) rule.allowed &= OF_FILES;
    if (!rc && syscall(SYS_landlock_add_rule, rules, RULE_PATH_BENEATH, &rule, 0)) rc = errno;
    close(rule.parent);
    return rc;
}

static int allow_all(int rules, const char *const *paths, size_t count, uint64_t rights, const char **path)
{
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        rc = allow(rules, paths[i], rights, true);
        if (rc) *path = paths[i];
    }
    return rc;
}

static int allow_devices(int rules, uint64_t all)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
    int rc = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices && !rc; i++)
        rc = allow(rules, devices[i], (READ_FILE | WRITE_FILE | TRUNCATE) & all, false);
    return rc;
}

int landlock_confine(const char *const *read, size_t reads, const char *const *write, size_t writes, const char **path)
{
    static const char *const everything[] = {"/"};
    int version = landlock_version(), newest = (int)(sizeof rights_of / sizeof *rights_of) - 1;
    *path = NULL;
    if (!version) return ENOSYS;
    uint64_t set[PARTS] = {[FILES] = (UINT64_C(1) << rights_of[version < newest ? version : newest]) - 1,
                           [SCOPES] = version >= 6 ? SCOPE_SIGNAL : 0};
    size_t size = version >= 6 ? sizeof set : sizeof set[FILES];
    int rules = (int)syscall(SYS_landlock_create_ruleset, set, size, 0);
    if (rules < 0) return errno;
    int rc = allow_devices(rules, set[FILES]);
    if (!rc) rc = reads ? allow_all(rules, read, reads, READING, path) : allow_all(rules, everything, 1, READING, path);
    if (!rc) rc = allow_all(rules, write, writes, set[FILES], path);
    if (!rc && syscall(SYS_landlock_restrict_self, rules, 0)) rc = errno;
    close(rules);
    return rc;
}
