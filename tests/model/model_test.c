/* model_test STORE [seeds] [first seed]   random scripts, STORE against memory; a difference is shrunk and printed
 * model_test STORE replay FILE            one printed script
 * model_test self                         every defect of broken.c must be found, and shrunk to a few steps
 */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 120
#define SHRINK_TRIES 1000
#define SELF_SEEDS 60
#define SELF_STEPS 16

static script *new_script(void)
{
    script *s = calloc(1, sizeof *s);
    if (!s) abort();
    return s;
}

static size_t line_length(const char *text) { return strcspn(text, "\n"); }

/* The lines that differ, each with the one before that did not. */
static void print_difference(const char *memory, const char *subject, const char *name)
{
    const char *before = "";
    for (int shown = 0; (*memory || *subject) && shown < 10;) {
        size_t m = line_length(memory), s = line_length(subject);
        if (m == s && memcmp(memory, subject, m) == 0) {
            before = memory;
        } else {
            printf("  %.*s\n%s: %.*s\n%s: %.*s\n", (int)line_length(before), before, "memory", (int)m, memory, name, (int)s,
                   subject);
            shown++;
        }
        memory += m + (memory[m] == '\n');
        subject += s + (subject[s] == '\n');
    }
}

/* Runs it; on a difference prints where, and what the sides said. */
static bool run(const script *s, const store_maker *subject, bool loud)
{
    world *w = calloc(1, sizeof *w);
    if (!w) abort();
    int at = world_run(w, s, subject);
    if (at >= 0 && loud) {
        printf("after step %d:\n", at + 1);
        print_difference(buf_text(&w->text[REFERENCE]), buf_text(&w->text[SUBJECT]), subject->name);
    }
    world_done(w);
    free(w);
    return at < 0;
}

static void print_script(const script *s)
{
    buf out;
    buf_init(&out, alloc_default(), 1 << 20);
    script_print(s, &out);
    printf("%s", buf_text(&out));
    buf_done(&out);
}

static int run_seeds(const store_maker *subject, uint64_t seeds, uint64_t first)
{
    script *s = new_script();
    int failed = 0;
    for (uint64_t seed = first; seed < first + seeds && !failed; seed++) {
        script_draw(s, seed, LENGTH);
        if (run(s, subject, false)) continue;
        shrink(s, subject, SHRINK_TRIES);
        printf("seed %llu: %s differs from memory. The script, for `model_test %s replay FILE`:\n\n", (unsigned long long)seed,
               subject->name, subject->name);
        print_script(s);
        printf("\n");
        run(s, subject, true);
        failed = 1;
    }
    if (!failed)
        printf("%llu seeds from %llu: %s and memory agree\n", (unsigned long long)seeds, (unsigned long long)first,
               subject->name);
    free(s);
    return failed;
}

static int replay(const store_maker *subject, const char *path)
{
    static char text[64 * 1024];
    script *s = new_script();
    FILE *file = fopen(path, "r");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[got] = '\0';
    bool read = file && script_read(s, text);
    if (!read) fprintf(stderr, "cannot read a script from \"%s\"\n", path);
    bool same = read && run(s, subject, true);
    if (same) printf("%s and memory agree\n", subject->name);
    free(s);
    return !read ? 2 : !same;
}

/* ---- the test of the test ---------------------------------------------------------------------------------------- */

static bool reads_back(const script *s)
{
    buf first, second;
    script *copy = new_script();
    buf_init(&first, alloc_default(), 1 << 20);
    buf_init(&second, alloc_default(), 1 << 20);
    script_print(s, &first);
    bool same = script_read(copy, buf_text(&first));
    script_print(copy, &second);
    same = same && strcmp(buf_text(&first), buf_text(&second)) == 0;
    buf_done(&first);
    buf_done(&second);
    free(copy);
    return same;
}

static bool finds(int defect)
{
    store_maker subject = *maker_find("memory");
    subject.name = broken_name(defect);
    subject.wrap = broken_wrap;
    subject.defect = defect;
    script *s = new_script();
    bool found = false;
    for (uint64_t seed = 1; seed <= SELF_SEEDS && !found; seed++) {
        script_draw(s, seed, LENGTH);
        found = !run(s, &subject, false);
    }
    if (found) shrink(s, &subject, SHRINK_TRIES);
    bool good =
        found && s->count <= SELF_STEPS && !run(s, &subject, false) && run(s, maker_find("memory"), false) && reads_back(s);
    printf("%-24s %s, %d steps\n", subject.name, !found ? "NOT FOUND" : good ? "found" : "FOUND, BUT NOT SHRUNK WELL", s->count);
    if (found && !good) print_script(s);
    free(s);
    return good;
}

static int self_test(void)
{
    int failed = 0;
    for (int defect = 1; defect <= DEFECTS; defect++) failed += !finds(defect);
    return failed > 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: model_test memory|sqlite|postgres|mysql [seeds] [first seed] | STORE replay FILE | self\n");
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "self") == 0) return self_test();
    const store_maker *subject = argc > 1 && argc < 5 ? maker_find(argv[1]) : NULL;
    if (!subject) return usage();
    if (argc == 4 && strcmp(argv[2], "replay") == 0) return replay(subject, argv[3]);
    uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 100, first = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    return seeds ? run_seeds(subject, seeds, first) : usage();
}
