/* What an examination found: a list in an arena, so that it is handed out and freed as one. */
#include "store/store.h"
#include <stdarg.h>
#include <stdio.h>

#define TEXT_MAX 600

struct pawl_findings {
    pawl_arena *arena;
    pawl_finding list[PAWL_FINDINGS_MAX];
    size_t count;
    bool failed;
};

pawl_findings *findings_new(pawl_arena *arena)
{
    pawl_findings *f = pawl_arena_alloc(arena, sizeof *f);
    if (f) f->arena = arena;
    return f;
}

static const char *keep(pawl_findings *f, const char *fmt, va_list args)
{
    char text[TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    const char *kept = pawl_arena_str(f->arena, text);
    if (!kept) f->failed = true;
    return kept;
}

void pawl_find(pawl_findings *f, const char *check, pawl_verdict verdict, const char *fmt, ...)
{
    if (f->count == PAWL_FINDINGS_MAX) return;
    va_list args;
    va_start(args, fmt);
    const char *text = keep(f, fmt, args);
    va_end(args);
    if (text) f->list[f->count++] = (pawl_finding){.check = check, .verdict = verdict, .text = text};
}

void pawl_advise(pawl_findings *f, const char *fmt, ...)
{
    if (f->count == 0) return;
    va_list args;
    va_start(args, fmt);
    f->list[f->count - 1].advice = keep(f, fmt, args);
    va_end(args);
}

pawl_checkup findings_checkup(const pawl_findings *f)
{
    pawl_checkup c = {.worst = PAWL_VERDICT_OK, .count = f->count, .findings = f->list};
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].verdict > c.worst) c.worst = f->list[i].verdict;
    return c;
}

bool findings_failed(const pawl_findings *f) { return f->failed; }

const char *pawl_verdict_name(pawl_verdict verdict)
{
    static const char *const names[] = {[PAWL_VERDICT_OK] = "ok", [PAWL_VERDICT_WARN] = "warn", [PAWL_VERDICT_ACT] = "act"};
    return verdict >= PAWL_VERDICT_OK && verdict <= PAWL_VERDICT_ACT ? names[verdict] : "unknown";
}
