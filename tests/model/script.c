/* Steps: drawn from a seed, printed one to a line, read back. */
#include "model.h"
#include <stdio.h>
#include <string.h>

static const char *const names[STEP_KINDS] = {[STEP_NONE] = "none",
#define X(name, text, weight) [STEP_##name] = text,
                                              STEP_TABLE(X)
#undef X
};

static const int weights[STEP_KINDS] = {
#define X(name, text, weight) [STEP_##name] = weight,
    STEP_TABLE(X)
#undef X
};

static step_kind draw_kind(rng *r)
{
    int total = 0;
    for (int i = 0; i < STEP_KINDS; i++) total += weights[i];
    int at = (int)rng_below(r, (uint64_t)total);
    for (int i = 1; i < STEP_KINDS; i++)
        if ((at -= weights[i]) < 0) return (step_kind)i;
    return STEP_LOOK;
}

static step draw_step(rng *r)
{
    step s = {.kind = draw_kind(r)};
    s.slot = (int)rng_below(r, SLOTS);
    if (step_is_op(&s) && rng_below(r, 8) == 0) s.slot = SLOTS;
    s.more = step_is_op(&s) && rng_below(r, 3) == 0;
    for (int i = 0; i < NUMBERS; i++) s.r[i] = (uint32_t)rng_below(r, 1000);
    return s;
}

/* Every script begins with a node for each slot. */
void script_draw(script *s, uint64_t seed, int count)
{
    rng r;
    rng_init(&r, seed);
    s->count = 0;
    for (int i = 0; i < SLOTS; i++) s->steps[s->count++] = (step){.kind = STEP_REGISTER, .slot = i};
    while (s->count < count && s->count < STEPS_MAX) s->steps[s->count++] = draw_step(&r);
}

void script_print(const script *s, buf *out)
{
    for (int i = 0; i < s->count; i++) {
        const step *t = &s->steps[i];
        buf_fmt(out, "%s %d%s", names[t->kind], t->slot, t->more ? "+" : "");
        for (int k = 0; k < NUMBERS; k++) buf_fmt(out, " %u", t->r[k]);
        buf_char(out, '\n');
    }
}

static bool read_step(step *t, const char *line)
{
    char name[16], slot[4];
    *t = (step){0};
    int got = sscanf(line, "%15s %3s %u %u %u %u %u %u", name, slot, &t->r[0], &t->r[1], &t->r[2], &t->r[3], &t->r[4], &t->r[5]);
    if (got != 2 + NUMBERS || slot[0] < '0' || slot[0] > '0' + SLOTS) return false;
    for (int i = 1; i < STEP_KINDS; i++)
        if (strcmp(name, names[i]) == 0) t->kind = (step_kind)i;
    t->slot = slot[0] - '0';
    t->more = slot[1] == '+';
    return t->kind != STEP_NONE;
}

bool script_read(script *s, const char *text)
{
    s->count = 0;
    while (*text) {
        size_t len = strcspn(text, "\n");
        char line[200] = "";
        if (len > 0 && len < sizeof line) {
            memcpy(line, text, len);
            if (s->count == STEPS_MAX || !read_step(&s->steps[s->count++], line)) return false;
        }
        text += len + (text[len] == '\n');
    }
    return true;
}
