/* The history: every seed keeps its last lines unformatted, so remembering costs next to nothing; they are written out when a
 * promise broke, or at once with --trace. */
#include "sim.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY (sizeof(((sim *)0)->history) / sizeof(((sim *)0)->history[0]))
#define SHOWN 80

const char *trace_id(const sim *s, pawl_id id)
{
    static char texts[4][32];
    static int next;
    char *text = texts[next++ % 4];
    int alias = judge_alias(s, id);
    if (alias) snprintf(text, sizeof texts[0], "#%d", alias);
    else snprintf(text, sizeof texts[0], "id %lld", (long long)id);
    return text;
}

static void put_arg(const sim *s, char kind, int64_t value)
{
    switch (kind) {
    case 'd': fprintf(stderr, "%lld", (long long)value); break;
    case 's': fputs(value ? (const char *)(intptr_t)value : "-", stderr); break;
    case 't': fputs(trace_id(s, value), stderr); break;
    case 'u': fprintf(stderr, "%.3fms", (double)value / 1000); break;
    default: fputc(kind, stderr);
    }
}

static void put_line(const sim *s, uint64_t i)
{
    const int64_t *args = s->history[i % HISTORY].args;
    fprintf(stderr, "%12.6f ", (double)s->history[i % HISTORY].at / 1e6);
    if (s->history[i % HISTORY].node < 0) fputs("  -    ", stderr);
    else fprintf(stderr, "n%d.%-3d ", s->history[i % HISTORY].node, s->history[i % HISTORY].life);
    for (const char *p = s->history[i % HISTORY].fmt; *p; p++) {
        if (*p == '%' && p[1]) put_arg(s, *++p, *args++);
        else fputc(*p, stderr);
    }
    fputc('\n', stderr);
}

void trace_put(sim *s, const sim_node *n, const char *fmt, const int64_t args[8])
{
    uint64_t i = s->history_count++;
    s->history[i % HISTORY].at = s->now;
    s->history[i % HISTORY].node = n ? n->index : -1;
    s->history[i % HISTORY].life = n ? n->life : 0;
    s->history[i % HISTORY].fmt = fmt;
    memcpy(s->history[i % HISTORY].args, args, sizeof s->history[0].args);
    if (s->trace) put_line(s, i);
}

void trace_dump(const sim *s)
{
    if (s->trace) return; /* it was all printed */
    uint64_t from = s->history_count > SHOWN ? s->history_count - SHOWN : 0;
    fprintf(stderr, "the last %d lines of its history:\n", (int)(s->history_count - from));
    for (uint64_t i = from; i < s->history_count; i++) put_line(s, i);
}

void broken(sim *s, const char *promise, const char *fmt, ...)
{
    char what[512];
    const char *mode = sim_mode(s);
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    fflush(stdout);
    trace_dump(s);
    fprintf(stderr, "\nBROKEN seed %llu mode %s at %.6f s: %s\n  %s\nrun it again: sim_test --seed %llu --mode %s --trace\n",
            (unsigned long long)s->seed, mode, (double)s->now / 1e6, promise, what, (unsigned long long)s->seed, mode);
    exit(1);
}
