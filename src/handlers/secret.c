#include "handlers/secret.h"

#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pawl_status take(int fd, const char *path, buf *out, pawl_error *err)
{
    char block[1024];
    ssize_t n = 0;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return err_set(err, PAWL_INVALID, "\"%s\" is not a file", path);
    if (st.st_mode & 077) return err_set(err, PAWL_DENIED, "others can read the secret in \"%s\": chmod 600 it", path);
    while ((n = read(fd, block, sizeof block)) > 0) buf_add(out, block, (size_t)n);
    explicit_bzero(block, sizeof block);
    if (n < 0) return err_set(err, PAWL_UNAVAILABLE, "could not read \"%s\": %s", path, strerror(errno));
    if (out->failed) return err_set(err, PAWL_TOO_LARGE, "\"%s\" is too large for a secret", path);
    while (out->len && (out->data[out->len - 1] == '\n' || out->data[out->len - 1] == '\r')) out->data[--out->len] = '\0';
    return PAWL_OK;
}

pawl_status secret_read(const char *path, buf *out, pawl_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(err, PAWL_UNAVAILABLE, "could not read \"%s\": %s", path, strerror(errno));
    pawl_status status = take(fd, path, out, err);
    close(fd);
    return status;
}

void secret_forget(buf *b)
{
    if (b->data) explicit_bzero(b->data, b->room);
    buf_done(b);
}
