#include "handlers/gone.h"

#include "base/buf.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20)

struct gone {
    const pawl_allocator *allocator;
    char *path;           /* NULL: none */
    pthread_mutex_t lock; /* of what follows */
    buf text;             /* lines, as in the file */
    struct stat seen;     /* the file when it was read */
};

gone *gone_open(const pawl_allocator *a, const char *path)
{
    gone *g = alloc_new(a, sizeof *g);
    if (!g) return NULL;
    g->allocator = a;
    g->path = alloc_str(a, path);
    pthread_mutex_init(&g->lock, NULL);
    buf_init(&g->text, a, TEXT_MAX);
    if (!path || g->path) return g;
    gone_close(g);
    return NULL;
}

void gone_close(gone *g)
{
    if (!g) return;
    buf_done(&g->text);
    pthread_mutex_destroy(&g->lock);
    alloc_free(g->allocator, g->path);
    alloc_free(g->allocator, g);
}

static bool unchanged(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* With the lock held: reads the file again if it is another one than before. */
static void look(gone *g)
{
    char block[4096];
    struct stat now = {0};
    if (!g->path) return;
    FILE *in = fopen(g->path, "re");
    if (in && fstat(fileno(in), &now)) now = (struct stat){0};
    if (in ? !unchanged(&now, &g->seen) : errno == ENOENT) {
        buf_clear(&g->text);
        for (size_t n; in && (n = fread(block, 1, sizeof block, in)) > 0;) buf_add(&g->text, block, n);
        g->seen = now;
    }
    if (in) fclose(in);
}

static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, "\r\n");
        if (len == n && memcmp(at, line, n) == 0) return true;
        at += len + (at[len] != '\0');
    }
    return false;
}

bool gone_has(gone *g, const char *target)
{
    pthread_mutex_lock(&g->lock);
    look(g);
    bool yes = has_line(buf_text(&g->text), target);
    pthread_mutex_unlock(&g->lock);
    return yes;
}

static bool append(const char *path, const char *target)
{
    char line[4096];
    int n = snprintf(line, sizeof line, "%s\n", target);
    int fd = n > 0 && (size_t)n < sizeof line ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0) return false;
    bool ok = write(fd, line, (size_t)n) == n && fsync(fd) == 0;
    return close(fd) == 0 && ok;
}

pawl_status gone_add(gone *g, const char *target, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    pthread_mutex_lock(&g->lock);
    look(g);
    if (!has_line(buf_text(&g->text), target)) {
        if (g->path && !append(g->path, target))
            status = err_set(err, PAWL_UNAVAILABLE, "could not write \"%s\": %s", g->path, strerror(errno));
        buf_fmt(&g->text, "%s\n", target);
    }
    pthread_mutex_unlock(&g->lock);
    return status;
}
