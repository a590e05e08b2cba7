/* The engine's own log: a level and a sink. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/redact.h"

typedef struct logger {
    pawl_log_fn sink;
    void *ctx;
    pawl_level level;
    const redaction *hidden; /* what lines do not show */
} logger;

void logger_init(logger *l, pawl_log_fn sink, void *ctx,
                 pawl_level level); /* NULL sink: standard error. Hides the usual secrets */
void log_line(const logger *l, pawl_level level, const char *fmt, ...) PAWL_PRINTF(3, 4);

#endif
