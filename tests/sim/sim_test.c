/* sim_test: histories from seeds.
 *
 *   sim_test [--seed N] [--count N] [--mode a|b|both|c|d] [--seconds N] [--replay FILE] [--trace]
 *
 * Runs seeds N, N+1, ... in mode a (whole batches on the memory store), b (single operations on rows with locks) or both, or in mode c (as
 * a, with rate limits and concurrency limits on the same tasks) or d (as b, with concurrency limits), and stops at the first that breaks a
 * promise: it prints the promise, the last lines of the history and how to run it again.
 * --seconds ends after that time instead of after --count seeds. --replay runs the "seed mode" lines of a file. */
#include "sim.h"
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct options {
    uint64_t seed, count;
    int64_t seconds;
    const char *modes;
    bool trace;
    const char *replay;
} options;

static int usage(void)
{
    fputs("usage: sim_test [--seed N] [--count N] [--mode a|b|both|c|d] [--seconds N] [--replay FILE] [--trace]\n", stderr);
    return 2;
}

/* A failed assertion inside core, or a crash: which history was it? */
static void report(int signal_number)
{
    const sim *s = world_current();
    if (s) {
        trace_dump(s);
        fprintf(stderr, "\nBROKEN seed %llu mode %s at %.6f s: %s\nrun it again: sim_test --seed %llu --mode %s --trace\n",
                (unsigned long long)s->seed, sim_mode(s), (double)s->now / 1e6,
                signal_number == SIGABRT ? "an assertion failed" : "the process crashed", (unsigned long long)s->seed,
                sim_mode(s));
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static bool parse(int argc, char **argv, options *o)
{
    static const struct option longs[] = {{"seed", 1, NULL, 's'},    {"count", 1, NULL, 'c'},  {"mode", 1, NULL, 'm'},
                                          {"seconds", 1, NULL, 't'}, {"replay", 1, NULL, 'r'}, {"trace", 0, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    bool counted = false;
    *o = (options){.seed = 1, .count = 100, .modes = "ab"};
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (c) {
        case 's':
            o->seed = strtoull(optarg, NULL, 10);
            if (!counted) o->count = 1;
            break;
        case 'c':
            o->count = strtoull(optarg, NULL, 10);
            counted = true;
            break;
        case 't':
            o->seconds = strtoll(optarg, NULL, 10);
            o->count = UINT64_MAX;
            counted = true;
            break;
        case 'm': o->modes = strcmp(optarg, "both") == 0 ? "ab" : optarg; break;
        case 'r': o->replay = optarg; break;
        case 'v': o->trace = true; break;
        default: return false;
        }
    }
    return optind == argc && strspn(o->modes, "abcd") == strlen(o->modes);
}

static int64_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static uint64_t replay(const options *o, int64_t *stats)
{
    unsigned long long seed;
    char mode[8], line[256];
    uint64_t done = 0;
    FILE *f = fopen(o->replay, "r");
    if (!f) {
        fprintf(stderr, "sim_test: could not open \"%s\"\n", o->replay);
        exit(2);
    }
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#' || sscanf(line, "%llu %7s", &seed, mode) != 2) continue;
        world_run(seed, mode[0], o->trace, stats);
        done++;
    }
    fclose(f);
    return done;
}

static uint64_t explore(const options *o, int64_t *stats)
{
    int64_t until = o->seconds ? seconds_now() + o->seconds : INT64_MAX;
    uint64_t done = 0;
    for (uint64_t i = 0; i < o->count && seconds_now() < until; i++) {
        for (const char *mode = o->modes; *mode; mode++, done++) world_run(o->seed + i, *mode, o->trace, stats);
    }
    return done;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
#define X(name, text) text,
        STATS_TABLE(X)
#undef X
    };
    options o;
    int64_t stats[STATS_COUNT] = {0};
    if (!parse(argc, argv, &o)) return usage();
    signal(SIGABRT, report);
    signal(SIGSEGV, report);
    uint64_t done = o.replay ? replay(&o, stats) : explore(&o, stats);
    printf("%llu histories, no promise broken\n", (unsigned long long)done);
    for (int i = 0; i < STATS_COUNT; i++) printf("%12lld %s\n", (long long)stats[i], names[i]);
    return 0;
}
