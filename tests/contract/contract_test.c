/* contract_test <store> [plain|trace|faults] [pattern | /n]: every case, or every n-th, on a fresh store. */
#include "contract.h"
#include <stdio.h>
#include <stdlib.h>

#define CASES_MAX 512

static const contract_case *const lists[] = {
    insert_cases, key_cases,     holder_cases, spawn_cases, people_cases, receipt_cases, claim_cases, news_cases,
    rescue_cases, suspect_cases, id_cases,     node_cases,  sweep_cases,  list_cases,    read_cases,  stats_cases,
    audit_cases,  watch_cases,   memory_cases, fault_cases, move_cases,   rate_cases,    place_cases, schedule_cases,
    family_cases, past_cases,    gate_cases,   feed_cases,  beside_cases,
};

static const store_kind *kind;
static struct CMUnitTest tests[CASES_MAX];
static size_t tests_count;
static const char *pattern = "*";
static int every = 1;

static bool begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

static bool kept(const pawl_store_type *type, const char *name)
{
    if (begins(name, "rate:")) return type->limits;
    if (begins(name, "feed:")) return type->feed != NULL;
    if (begins(name, "schedule:")) return type->schedules;
    if (begins(name, "parent:") || begins(name, "batch:")) return type->families;
    bool place = begins(name, "place:") || begins(name, "order:") || begins(name, "turns:") || begins(name, "beside:");
    return !place || type->places;
}

static void run_case(void **state)
{
    const contract_case *c = *state;
    world *w = malloc(sizeof *w);
    assert_non_null(w);
    world_open(w, kind);
    if (kept(w->a->type, c->name)) c->run(w);
    else print_message("this store keeps nothing of the kind: not run\n");
    world_close(w);
    free(w);
}

static void add(const contract_case *c)
{
    static int number;
    if (number++ % every != 0) return;
    if (tests_count == CASES_MAX) abort();
    tests[tests_count++] = (struct CMUnitTest){.name = c->name, .test_func = run_case, .initial_state = (void *)c};
}

static int usage(void)
{
    fprintf(stderr, "usage: contract_test memory|sqlite|postgres|pgbouncer|mysql [plain|trace|faults] [pattern of names | /n]\n");
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 4 || !(kind = store_kind_find(argv[1]))) return usage();
    if (argc > 2 && !store_wrapper_set(argv[2])) return usage();
    if (argc > 3 && argv[3][0] == '/') every = atoi(argv[3] + 1);
    else if (argc > 3) pattern = argv[3];
    if (every < 1) return usage();
    if (kind->begin && !kind->begin()) return 77; /* its server is not there: skipped */
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const contract_case *c = lists[i]; c->name; c++) add(c);
    cmocka_set_test_filter(pattern);
    int failed = _cmocka_run_group_tests(kind->name, tests, tests_count, NULL, NULL);
    if (kind->end) kind->end();
    return failed ? 1 : 0;
}
