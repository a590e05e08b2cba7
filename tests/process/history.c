/* The history: see node.h. */
#include "node.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int file = -1;

bool history_open(const char *path)
{
    file = strcmp(path, "-") ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : STDOUT_FILENO;
    return file >= 0;
}

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

int64_t history_now_us(void) { return read_clock(CLOCK_MONOTONIC); }
int64_t history_wall_us(void) { return read_clock(CLOCK_REALTIME); }

void history_write(const char *line, size_t n)
{
    if (write(file, line, n) != (ssize_t)n) abort(); /* a history with holes proves nothing */
}

void history_line(const char *event, const char *fmt, ...)
{
    char line[4096];
    size_t n = (size_t)snprintf(line, sizeof line, "{\"t\":%lld,\"e\":\"%s\"", (long long)history_now_us(), event);
    va_list args;
    va_start(args, fmt);
    n += (size_t)vsnprintf(line + n, sizeof line - n, fmt, args);
    va_end(args);
    if (n + 3 > sizeof line) abort();
    memcpy(line + n, "}\n", 2);
    history_write(line, n + 2);
}
