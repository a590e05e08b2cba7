/* The engine's own log: one line, one call of the sink.
 *
 * A line is cut at LINE_MAX_BYTES and holds no control bytes: what others sent (names, error texts) cannot forge a second line or
 * talk to a terminal, and secrets are masked (redact.h). The default sink makes one write(2) per line, so lines of several threads and processes do not mix.
 */
#include "base/log.h"
#include "base/clock.h"
#include "base/text.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2000

static void to_stderr(void *ctx, pawl_level level, const char *line)
{
    (void)ctx;
    char out[LINE_MAX_BYTES + 64], when[RFC3339_TEXT];
    pawl_clock clock = clock_system();
    rfc3339_format(clock.wall_us(clock.ctx), when);
    int n = snprintf(out, sizeof out, "%s %-5s pawl: %s\n", when, pawl_level_name(level), line);
    if (n > 0 && write(STDERR_FILENO, out, (size_t)n) < 0) return; /* nowhere left to say so */
}

void logger_init(logger *l, pawl_log_fn sink, void *ctx, pawl_level level)
{
    *l = (logger){.sink = sink ? sink : to_stderr,
                  .ctx = sink ? ctx : NULL,
                  .level = level ? level : PAWL_WARN,
                  .hidden = redaction_usual()};
}

static void clean(char *line)
{
    for (; *line; line++)
        if ((unsigned char)*line < ' ' || *line == 0x7f) *line = ' ';
}

void log_line(const logger *l, pawl_level level, const char *fmt, ...)
{
    if (level < l->level) return;
    int saved = errno;
    char line[LINE_MAX_BYTES + 1];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0) line[0] = '\0';
    else if ((size_t)n >= sizeof line) line[utf8_cut(line, LINE_MAX_BYTES)] = '\0';
    clean(line);
    redact_line(l->hidden, line, sizeof line);
    l->sink(l->ctx, level, line);
    errno = saved;
}
