/* Sections of the file become handlers of an engine.
 *
 * `kind` may stand anywhere in its section, so settings are kept with their lines until the section is whole, and read then.
 *
 * Tasks that say no queue wait in `default`, those of schedules in `recurring`, whoever dispatches them. So a section without `queue` has
 * both of them served. Each queue gets the workers of its handlers together.
 */
#include "handlers/handlers.h"

#include "base/closest.h"
#include "base/error.h"
#include "base/text.h"
#include <string.h>

#define SECTIONS_MAX 256
#define LINES_MAX 512 /* of a section */
#define TEXTS_MAX (16u << 20)

extern const handler_kind handler_email, handler_exec, handler_import, handler_webhook;

const handler_kind *const handler_kinds[] = {&handler_email, &handler_exec, &handler_import, &handler_webhook, NULL};

typedef struct common {
    const char *kind, *queue;
    text_list types;
    int64_t workers, concurrency, max_attempts, timeout_us, retry_delay_us;
} common;

/* clang-format off */
static const setting common_settings[] = {
    SETTING(SETTING_NAME, common, kind, "kind", "KIND", "what runs the tasks", .needed = true),
    SETTING(SETTING_LIST, common, types, "type", "TYPE", "types of the tasks it runs, separated by commas; default: the section's name"),
    SETTING(SETTING_NAME, common, queue, "queue", "QUEUE", "the queue it works on; default: default and recurring"),
    SETTING(SETTING_INT, common, workers, "workers", "N", "how many of its tasks run at a time in this server; default: by kind", .min = 1, .max = 1024),
    SETTING(SETTING_INT, common, concurrency, "concurrency", "N", "how many of its tasks run at a time on all nodes together; default: no limit", .min = 1, .max = 1000000),
    SETTING(SETTING_INT, common, max_attempts, "max-attempts", "N", "for tasks that do not say; default: by kind", .min = 1, .max = 1000000),
    SETTING(SETTING_DURATION, common, timeout_us, "timeout", "DURATION", "of each attempt, for tasks that do not say; default: none", .min = PAWL_MILLISECOND, .max = 365 * PAWL_DAY),
    SETTING(SETTING_DURATION, common, retry_delay_us, "retry-delay", "DURATION", "before the first retry; doubles each time; default: 500ms", .min = PAWL_MILLISECOND, .max = PAWL_DAY),
    SETTINGS_END};
/* clang-format on */

typedef struct line {
    const char *setting, *value;
    int number;
} line;

typedef struct section {
    const char *name;
    int number; /* of its first line */
    line *lines;
    size_t count;
    const handler_kind *kind;
    common common;
    handler_open open;
} section;

struct handler_list {
    const pawl_allocator *allocator;
    pawl_arena *arena;
    section sections[SECTIONS_MAX];
    size_t count;
    logger log;
};

/* What an engine has of a section: one for each type, since each is destroyed once. */
typedef struct opened {
    const pawl_allocator *allocator;
    const handler_kind *kind;
    void *ctx;
    int users;
} opened;

/* ---- gathering ------------------------------------------------------------------------------------------------------------------ */

handler_list *handler_list_new(const pawl_allocator *a)
{
    handler_list *list = alloc_new(a, sizeof *list);
    if (!list) return NULL;
    list->allocator = a;
    list->arena = arena_new(a, TEXTS_MAX);
    if (list->arena) return list;
    alloc_free(a, list);
    return NULL;
}

void handler_list_free(handler_list *list)
{
    if (!list) return;
    arena_free(list->arena);
    alloc_free(list->allocator, list);
}

size_t handler_list_count(const handler_list *list) { return list ? list->count : 0; }

pawl_status handler_list_section(handler_list *list, const char *name, int number, pawl_error *err)
{
    const char *what;
    if (!name_valid(name, &what))
        return err_set(err, PAWL_INVALID, "the handler's name is not right: %s; write [handler NAME]", what);
    if (list->count == SECTIONS_MAX) return err_set(err, PAWL_INVALID, "there are more than %d handlers", SECTIONS_MAX);
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->sections[i].name, name) == 0)
            return err_set(err, PAWL_INVALID, "the handler \"%s\" is there already, in line %d", name, list->sections[i].number);
    }
    section *s = &list->sections[list->count];
    *s = (section){.name = pawl_arena_str(list->arena, name), .number = number};
    if (!s->name) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    list->count++;
    return PAWL_OK;
}

pawl_status handler_list_set(handler_list *list, const char *setting, const char *value, int number, pawl_error *err)
{
    section *s = &list->sections[list->count - 1];
    if (s->count == LINES_MAX)
        return err_set(err, PAWL_INVALID, "the handler \"%s\" has more than %d settings", s->name, LINES_MAX);
    if (!s->lines) s->lines = pawl_arena_alloc(list->arena, LINES_MAX * sizeof *s->lines);
    line l = {pawl_arena_str(list->arena, setting), pawl_arena_str(list->arena, value), number};
    if (!s->lines || !l.setting || !l.value) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    s->lines[s->count++] = l;
    return PAWL_OK;
}

/* ---- reading a section ---------------------------------------------------------------------------------------------------------- */

static pawl_status find_kind(section *s, int *at, pawl_error *err)
{
    closest best = {0};
    const char *wanted = NULL;
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->lines[i].setting, "kind") == 0) wanted = s->lines[i].value, *at = s->lines[i].number;
    }
    if (!wanted)
        return err_set(err, PAWL_INVALID, "the handler \"%s\" does not say its kind: add kind = exec, or another", s->name);
    for (const handler_kind *const *kind = handler_kinds; *kind; kind++) {
        if (strcmp((*kind)->name, wanted) == 0) return s->kind = *kind, PAWL_OK;
        closest_try(&best, wanted, (*kind)->name);
    }
    return err_set(err, PAWL_INVALID, "there is no kind of handler \"%.60s\"%s%s%s", wanted, best.word ? ": did you mean \"" : "",
                   best.word ? best.word : "", best.word ? "\"?" : ": \"pawl config sample\" shows them all");
}

static pawl_status unknown(const section *s, const char *name, pawl_error *err)
{
    closest best = {0};
    const setting *tables[] = {common_settings, s->kind->settings};
    for (size_t t = 0; t < 2; t++)
        for (const setting *it = tables[t]; it->type != SETTING_END; it++) closest_try(&best, name, it->name);
    return err_set(err, PAWL_INVALID, "a handler of kind \"%s\" has no setting \"%.60s\"%s%s%s", s->kind->name, name,
                   best.word ? ": did you mean \"" : "", best.word ? best.word : "",
                   best.word ? "\"?" : ": \"pawl config sample\" shows them all");
}

static bool repeated(const section *s, size_t at, const setting *it)
{
    if (it->type == SETTING_LINES || it->type == SETTING_LIST) return false;
    for (size_t i = 0; i < at; i++) {
        if (strcmp(s->lines[i].setting, it->name) == 0) return true;
    }
    return false;
}

static pawl_status read_lines(handler_list *list, section *s, void *own, int *at, pawl_error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        const line *l = &s->lines[i];
        const setting *common = settings_find(common_settings, l->setting);
        const setting *it = common ? common : settings_find(s->kind->settings, l->setting);
        *at = l->number;
        if (!it) return unknown(s, l->setting, err);
        if (repeated(s, i, it)) return err_set(err, PAWL_INVALID, "%s stands here for the second time", it->name);
        pawl_status status = settings_put(it, l->value, common ? (void *)&s->common : own, list->arena, err);
        if (status) return status;
    }
    return PAWL_OK;
}

static bool given(const section *s, const char *setting)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->lines[i].setting, setting) == 0) return true;
    }
    return false;
}

static pawl_status fill_rest(handler_list *list, const section *s, void *own, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    for (const setting *it = s->kind->settings; it->type != SETTING_END && !status; it++) {
        if (given(s, it->name)) continue;
        if (it->needed)
            return err_set(err, PAWL_INVALID, "the handler \"%s\" needs the setting \"%s\": %s", s->name, it->name, it->help);
        if (it->fallback) status = settings_put(it, it->fallback, own, list->arena, err);
    }
    return status;
}

static pawl_status check_types(handler_list *list, section *s, pawl_error *err)
{
    const char *what;
    const setting *types = settings_find(common_settings, "type");
    if (!s->common.types.count && settings_put(types, s->name, &s->common, list->arena, err)) return err->status;
    for (size_t i = 0; i < s->common.types.count; i++) {
        const char *type = s->common.types.items[i];
        if (!name_valid(type, &what)) return err_set(err, PAWL_INVALID, "type \"%.60s\" is not a name: %s", type, what);
        for (const section *other = list->sections; other <= s; other++) {
            for (size_t k = 0; k < (other == s ? i : other->common.types.count); k++) {
                if (strcmp(other->common.types.items[k], type) != 0) continue;
                return err_set(err, PAWL_INVALID, "tasks of type \"%s\" are run by the handler \"%s\" already", type,
                               other->name);
            }
        }
    }
    return PAWL_OK;
}

static pawl_status read_section(handler_list *list, section *s, int *at, pawl_error *err)
{
    *at = s->number;
    s->common = (common){0};
    pawl_status status = find_kind(s, at, err);
    if (status) return status;
    void *own = pawl_arena_alloc(list->arena, s->kind->size + 1);
    if (!own) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    status = read_lines(list, s, own, at, err);
    if (status) return status;
    *at = s->number;
    status = fill_rest(list, s, own, err);
    if (!status) status = check_types(list, s, err);
    s->open = (handler_open){.name = s->name, .settings = own, .allocator = list->allocator, .log = &list->log};
    return status;
}

pawl_status handler_list_check(handler_list *list, const logger *log, int *at, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    *at = 0;
    list->log = *log;
    for (size_t i = 0; i < list->count && !status; i++) {
        section *s = &list->sections[i];
        void *ctx = NULL;
        status = read_section(list, s, at, err);
        if (!status) status = s->kind->open(&s->open, &ctx, err);
        if (!status) s->kind->close(ctx);
    }
    return status;
}

/* ---- giving them to an engine --------------------------------------------------------------------------------------------------- */

static pawl_outcome run_one(pawl_run *run, void *ctx)
{
    opened *o = ctx;
    return o->kind->run(run, o->ctx);
}

static void close_one(void *ctx)
{
    opened *o = ctx;
    if (--o->users) return;
    o->kind->close(o->ctx);
    alloc_free(o->allocator, o);
}

static int workers_of(const section *s) { return s->common.workers ? (int)s->common.workers : s->kind->workers; }

static pawl_status register_types(const section *s, opened *o, pawl *p, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    pawl_handler handler = {.run = run_one,
                            .ctx = o,
                            .destroy = close_one,
                            .queue = s->common.queue,
                            .max_attempts = s->common.max_attempts ? (int)s->common.max_attempts : s->kind->max_attempts,
                            .timeout_us = s->common.timeout_us,
                            .concurrency = (int)s->common.concurrency};
    if (s->common.retry_delay_us)
        handler.retry = (pawl_retry_policy){.curve = PAWL_CURVE_EXPONENTIAL, .delay_us = s->common.retry_delay_us};
    for (size_t i = 0; i < s->common.types.count && !status; i++) {
        handler.type = s->common.types.items[i];
        o->users++;
        status = pawl_handle(p, &handler, err);
        if (status) o->users--;
    }
    return status;
}

static pawl_status register_section(handler_list *list, section *s, pawl *p, pawl_error *err)
{
    opened *o = alloc_new(list->allocator, sizeof *o);
    if (!o) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    *o = (opened){.allocator = list->allocator, .kind = s->kind, .users = 1};
    s->open.p = p;
    pawl_status status = s->kind->open(&s->open, &o->ctx, err);
    if (status) {
        alloc_free(list->allocator, o);
        return status;
    }
    status = register_types(s, o, p, err);
    close_one(o); /* what is left of it are the engine's */
    return status;
}

static bool works_on(const section *s, const char *queue)
{
    if (s->common.queue) return strcmp(s->common.queue, queue) == 0;
    return strcmp(queue, "default") == 0 || strcmp(queue, "recurring") == 0;
}

static pawl_status register_queue(const handler_list *list, const char *queue, pawl *p, pawl_error *err)
{
    int workers = 0;
    for (size_t i = 0; i < list->count; i++) workers += works_on(&list->sections[i], queue) ? workers_of(&list->sections[i]) : 0;
    if (!workers) return PAWL_OK;
    return pawl_queue(p, &(pawl_queue_options){.name = queue, .workers = workers > 1024 ? 1024 : workers}, err);
}

static bool named_before(const handler_list *list, size_t at)
{
    const char *queue = list->sections[at].common.queue;
    if (!queue || strcmp(queue, "default") == 0 || strcmp(queue, "recurring") == 0) return true;
    for (size_t i = 0; i < at; i++) {
        if (list->sections[i].common.queue && strcmp(list->sections[i].common.queue, queue) == 0) return true;
    }
    return false;
}

pawl_status handler_list_register(handler_list *list, pawl *p, const logger *log, bool demo, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    list->log = *log;
    if (!demo) status = register_queue(list, "default", p, err);
    if (!demo && !status) status = register_queue(list, "recurring", p, err);
    for (size_t i = 0; i < list->count && !status; i++) {
        if (!named_before(list, i)) status = register_queue(list, list->sections[i].common.queue, p, err);
        if (!status) status = register_section(list, &list->sections[i], p, err);
    }
    return status;
}

/* ---- a sample ------------------------------------------------------------------------------------------------------------------- */

void handlers_sample(FILE *out)
{
    fprintf(
        out,
        "\n# Handlers that this server has built in: a section for each, [handler NAME]. All of them have these settings:\n#\n");
    settings_sample(common_settings, out);
    for (const handler_kind *const *kind = handler_kinds; *kind; kind++) {
        fprintf(out, "#\n# [handler NAME]\n#   # %s (max-attempts %d, workers %d)\n#   kind = %s\n", (*kind)->summary,
                (*kind)->max_attempts, (*kind)->workers, (*kind)->name);
        settings_sample((*kind)->settings, out);
    }
}
