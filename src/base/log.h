/* The engine's own log: a level and a sink. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <pawl.h>

typedef struct logger {
    pawl_log_fn sink;
    void *ctx;
    pawl_level level;
} logger;

void logger_init(logger *l, pawl_log_fn sink, void *ctx, pawl_level level); /* NULL sink: standard error */
void log_line(const logger *l, pawl_level level, const char *fmt, ...) PAWL_PRINTF(3, 4);

#endif
