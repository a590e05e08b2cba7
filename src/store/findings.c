/* What an examination found: a list in an arena, so that it is handed out and freed as one. */
#include "base/text.h"
#include "store/store.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

bool pawl_type_known(const pawl_query *nodes, const char *queue, const char *type)
{
    bool served = false;
    for (size_t i = 0; i < nodes->nodes->count; i++) {
        const pawl_node_info *n = &nodes->nodes->nodes[i];
        if (!n->alive || !csv_has(n->queues, queue)) continue;
        served = true;
        if (csv_has(nodes->node_types[i], type) || csv_has(nodes->node_types[i], "*")) return true;
    }
    return !served;
}

void pawl_find_unknown_type(pawl_findings *f, const char *queue, const char *type, int64_t due, int64_t most)
{
    pawl_find(f, "unknown_types", PAWL_VERDICT_ACT,
              "%" PRId64
              "%s due task%s of type \"%s\" in queue \"%s\" wait%s: no living node that serves the queue knows the type.",
              due, due >= most ? " or more" : "", due == 1 ? "" : "s", type, queue, due == 1 ? "s" : "");
    pawl_advise(f, "Start a node with a handler for it, or cancel: pawl tasks cancel --type '%s'", type);
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
