/* How many decisions a second the local rate limiter makes on one core, and what its keys cost.
 *
 *   limit_bench [DECISIONS]   so many of each kind (default: ten million)
 *
 * Keys are 36 bytes long, like a UUID, and asked about in an order without a pattern, in groups: as the engine does it with the tasks of a
 * claim, whose keys it has just read, the limiter is told of each of them (limit_near), then each is asked about. `alone`: the same
 * without that. Prints one JSON object: decisions per second by the number of keys while there is budget; deferrals (a slot is reserved,
 * and redeemed when it has come); the memory of a million tracked keys, as malloc counts it; and what the machine can do: how often a
 * second it can go from one line of the cache to another that the first one names, over as many as there are keys. Time is the
 * processor's: who else uses the machine does not matter much.
 */
#include "base/rand.h"
#include "core/limit.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY_BYTES 36
#define MANY 1000000
#define GROUP 32
#define PAGE (128 * GROUP) /* decisions between two looks at the clock */

static char (*names)[KEY_BYTES + 1];
static size_t memory;

static void *count_alloc(void *ctx, size_t size)
{
    void *block = malloc(size);
    (void)ctx;
    memory += malloc_usable_size(block) + sizeof(size_t);
    return block;
}

static void count_release(void *ctx, void *block)
{
    (void)ctx;
    if (block) memory -= malloc_usable_size(block) + sizeof(size_t);
    free(block);
}

static void *count_resize(void *ctx, void *block, size_t size)
{
    if (!block) return count_alloc(ctx, size);
    memory -= malloc_usable_size(block);
    block = realloc(block, size);
    memory += malloc_usable_size(block);
    return block;
}

static const pawl_allocator counting = {count_alloc, count_resize, count_release, NULL};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int fine, const char *what)
{
    if (fine) return;
    fprintf(stderr, "limit_bench: %s\n", what);
    exit(1);
}

static limiter *fresh(pawl_rate policy)
{
    rate r;
    limiter *l = limit_new(&(limit_config){.allocator = &counting, .seed = 42, .keys_max = MANY});
    must(l && rate_make(&policy, "bench", &r, NULL) == PAWL_OK && limit_add_rule(l, &r) == 0, "no memory");
    return l;
}

static int any(rng *random, int count) { return (int)((rng_next(random) >> 32) * (uint64_t)count >> 32); }

/* The group's questions, about keys that have budget. */
static void ask(limiter *l, char (*group)[KEY_BYTES], bool near, int64_t *now_us)
{
    limit_question q = {0};
    limit_answer a;
    uint64_t hashes[GROUP] = {0};
    for (int i = 0; i < GROUP && near; i++) hashes[i] = limit_near(l, 0, (pawl_bytes){group[i], KEY_BYTES});
    for (int i = 0; i < GROUP; i++) {
        q.key = (pawl_bytes){group[i], KEY_BYTES};
        q.hash = hashes[i];
        q.id = *now_us;
        q.now_us = *now_us += 2;
        limit_ask(l, &q, &a);
        must(a.verdict == LIMIT_GO, "a start was refused");
    }
}

static double go(int keys, long decisions, bool near)
{
    static char page[PAGE][KEY_BYTES];
    limiter *l = fresh((pawl_rate){.permits = 1000, .period_us = 1000});
    int64_t now_us = 1;
    double best = 0;
    rng random;
    rng_init(&random, 7);
    for (int i = 0; i < keys; i++)
        limit_ask(l, &(limit_question){.key = {names[i], KEY_BYTES}, .id = i, .now_us = now_us}, &(limit_answer){0});
    for (int round = 0; round < 3; round++) {
        double spent = 0;
        long made = 0;
        for (; made < decisions; made += PAGE) {
            for (int i = 0; i < PAGE; i++) memcpy(page[i], names[any(&random, keys)], KEY_BYTES);
            double from = seconds();
            for (int i = 0; i < PAGE; i += GROUP) ask(l, page + i, near, &now_us);
            spent += seconds() - from;
        }
        double rate = (double)made / spent;
        if (rate > best) best = rate;
    }
    limit_free(l);
    return best;
}

/* From line to line, each of which says which one is next: all of them in one circle. */
static double walk(int count, long steps)
{
    typedef struct line {
        _Alignas(64) int next;
    } line;
    line *lines = aligned_alloc(64, (size_t)count * sizeof *lines);
    must(lines != NULL, "no memory");
    rng random;
    rng_init(&random, 9);
    for (int i = 0; i < count; i++) lines[i].next = i;
    for (int i = count - 1; i > 0; i--) {
        int other = any(&random, i), was = lines[i].next;
        lines[i].next = lines[other].next;
        lines[other].next = was;
    }
    volatile int at = 0;
    int here = 0;
    double from = seconds();
    for (long i = 0; i < steps; i++) here = lines[here].next;
    double rate = (double)steps / (seconds() - from);
    at = here;
    (void)at;
    free(lines);
    return rate;
}

/* A thousand keys without budget: each question reserves a slot, and when that has come redeems it. */
static double wait_for_slot(long decisions)
{
    limiter *l = fresh((pawl_rate){.permits = 1000, .period_us = 1000, .burst = 1});
    limit_answer a;
    long made = 0;
    int64_t now_us = 1;
    double from = seconds();
    for (long id = 1; made < decisions; now_us += 11, id += 10) {
        limit_question q = {.key = {names[id / 10 % 1000], KEY_BYTES}};
        for (int i = 0; i < 20; i++, made++) {
            q.id = id + i % 10;
            q.now_us = now_us + (i < 10 ? 0 : i - 10);
            limit_ask(l, &q, &a);
            must(a.verdict == (i > 0 && i < 10 ? LIMIT_WAIT : LIMIT_GO) || i == 10, "the answer is not the one expected");
        }
    }
    double rate = (double)made / (seconds() - from);
    limit_free(l);
    return rate;
}

static double mebibytes_of_keys(void)
{
    limiter *l = fresh((pawl_rate){.permits = 1, .period_us = PAWL_DAY});
    limit_answer a;
    limit_numbers n;
    size_t before = memory;
    for (int i = 0; i < MANY; i++) limit_ask(l, &(limit_question){.key = {names[i], KEY_BYTES}, .id = i, .now_us = 1}, &a);
    limit_numbers_get(l, &n);
    must(n.keys == MANY, "not all keys are tracked");
    double mebibytes = (double)(memory - before) / (1 << 20);
    limit_free(l);
    return mebibytes;
}

int main(int argc, char **argv)
{
    long decisions = argc > 1 ? atol(argv[1]) : 10 * 1000 * 1000;
    must(decisions > 0, "usage: limit_bench [DECISIONS]");
    names = malloc(MANY * sizeof *names);
    must(names != NULL, "no memory");
    for (int i = 0; i < MANY; i++) snprintf(names[i], sizeof *names, "%08x-7f3a-4c1e-9b60-%012x", (unsigned)i * 2654435761u, i);
    printf("{\"one_key_per_s\":%.0f,\"thousand_keys_per_s\":%.0f,", go(1, decisions, true), go(1000, decisions, true));
    printf("\"hundred_thousand_keys_per_s\":%.0f,\"alone_per_s\":%.0f,", go(100000, decisions, true),
           go(100000, decisions, false));
    printf("\"million_keys_per_s\":%.0f,\"million_alone_per_s\":%.0f,", go(MANY, decisions, true), go(MANY, decisions, false));
    printf("\"deferrals_per_s\":%.0f,\"million_keys_mib\":%.1f,", wait_for_slot(decisions), mebibytes_of_keys());
    printf("\"memory_hundred_thousand_per_s\":%.0f,\"memory_million_per_s\":%.0f}\n", walk(100000, decisions),
           walk(MANY, decisions));
    free(names);
    return 0;
}
