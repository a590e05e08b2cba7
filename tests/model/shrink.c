/* The fewest steps that still differ: leave out ever smaller stretches as long as a difference remains (delta debugging). */
#include "model.h"
#include <stdlib.h>
#include <string.h>

static bool differs(const script *s, const store_maker *subject)
{
    world *w = malloc(sizeof *w);
    if (!w) abort();
    int at = world_run(w, s, subject);
    world_done(w);
    free(w);
    return at >= 0;
}

static void leave_out(const script *s, int from, int count, script *out)
{
    out->count = 0;
    for (int i = 0; i < s->count; i++)
        if (i < from || i >= from + count) out->steps[out->count++] = s->steps[i];
}

void shrink(script *s, const store_maker *subject, int tries)
{
    script *smaller = malloc(sizeof *smaller);
    if (!smaller) abort();
    for (int size = s->count / 2; size >= 1 && tries > 0;) {
        bool found = false;
        for (int from = s->count - size; from >= 0 && tries > 0; from -= size) {
            leave_out(s, from, size, smaller);
            tries--;
            if (!differs(smaller, subject)) continue;
            *s = *smaller;
            found = true;
        }
        if (!found || size > 1) size = found && size > s->count ? s->count : size / 2;
    }
    free(smaller);
}
