/* Schedules: what is known of them, and when they fire next. */
#include "base/zone.h"
#include "core/schedule.h"
#include "runtime/runtime.h"

#define PAGE 100
#define PAGE_MOST 1000

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not look: out of memory"); }

static void copy_numbers(const pawl_schedule_row *row, pawl_schedule_info *info)
{
    info->spec = row->spec;
    info->off = row->off;
    info->reason = row->reason;
    info->next_us = row->off ? 0 : row->next_us;
    info->occurrence_us = row->off ? 0 : row->occurrence_us;
    info->last_us = row->last_us;
    info->created_us = row->created_us;
    info->changed_us = row->changed_us;
    info->runs = row->runs;
    info->fired = row->fired;
    info->skipped = row->skipped;
    info->succeeded = row->succeeded;
    info->failed = row->failed;
    info->open = row->open;
    info->waiting = row->waiting;
    info->last_task = row->last_task;
    info->version = row->version;
    info->occurrences = row->occurrences;
    info->occurrences_count = (size_t)row->occurrences_count;
}

/* What a row says, as far as it makes sense. *rule is good if `words` is not empty. false: no memory. */
static bool describe(runtime *rt, pawl_arena *arena, const pawl_schedule_row *row, pawl_schedule_info *info, schedule_rule *rule)
{
    pawl_error err = {.status = PAWL_OK};
    pawl_schedule *s = &info->definition;
    buf words;
    *info = (pawl_schedule_info){.words = ""};
    *s =
        (pawl_schedule){.name = row->name, .after = row->after, .payload = row->payload, .disabled = row->off == PAWL_OFF_PERSON};
    copy_numbers(row, info);
    pawl_status status = schedule_read(arena, row->spec, s, &err);
    const zone *z = status ? NULL : zones_get(rt, s->zone, &err);
    if (!status) status = z ? schedule_compile(s, z, row->anchor_us, rule, &err) : err.status;
    if (status == PAWL_NO_MEMORY) return false;
    if (status) {
        *s = (pawl_schedule){.name = row->name};
        return info->reason || (info->reason = pawl_arena_str(arena, err.message));
    }
    buf_init(&words, pawl_arena_allocator(arena), SCHEDULE_SPEC_MAX);
    schedule_words(rule, row->after, &words);
    info->words = buf_text(&words);
    return !words.failed;
}

static bool foresee(pawl_arena *arena, const schedule_rule *rule, int upcoming, pawl_schedule_info *info)
{
    int64_t *times = pawl_arena_alloc(arena, ((size_t)upcoming + 1) * sizeof *times);
    if (!times) return false;
    info->upcoming_us = times;
    if (info->occurrence_us && upcoming > 0) times[info->upcoming_count++] = info->occurrence_us;
    while (info->upcoming_count > 0 && info->upcoming_count < (size_t)upcoming &&
           schedule_next(rule, times[info->upcoming_count - 1], &times[info->upcoming_count]))
        info->upcoming_count++;
    return true;
}

pawl_status schedules_get(runtime *rt, const char *name, int upcoming, pawl_schedule_info **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULE, .name = name};
    answer *a;
    schedule_rule rule;
    pawl_schedule_info info;
    pawl_status status = valid_name(name, "name of the schedule", err);
    if (!status) status = schedules_kept(rt, err);
    if (!status && (upcoming < 0 || upcoming > PAGE_MOST))
        status = err_set(err, PAWL_INVALID, "%d times are too many: 0 to %d", upcoming, PAGE_MOST);
    if (!status) status = look_ask(rt, &query, &a, err);
    if (status) return status;
    bool ok = describe(rt, a->arena, query.schedules, &info, &rule);
    if (ok && *info.words) ok = foresee(a->arena, &rule, upcoming, &info);
    if (ok) return look_give(a, &info, sizeof info, out, err);
    look_drop(a);
    return no_memory(err);
}

pawl_status schedules_list(runtime *rt, const pawl_schedule_filter *filter, pawl_schedules **out, pawl_error *err)
{
    pawl_schedule_filter f = filter ? *filter : (pawl_schedule_filter){0};
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULES, .schedule_filter = &f};
    answer *a;
    schedule_rule rule;
    pawl_status status = schedules_kept(rt, err);
    if (!status && f.prefix && *f.prefix) status = valid_name(f.prefix, "prefix", err);
    if (!status) status = valid_optional(f.cursor, "cursor", err);
    if (!status && (f.limit < 0 || f.limit > PAGE_MOST))
        status =
            err_set(err, PAWL_INVALID, "%d schedules are too many for a page: 1 to %d, or 0 for %d", f.limit, PAGE_MOST, PAGE);
    if (f.limit == 0) f.limit = PAGE;
    if (!status) status = look_ask(rt, &query, &a, err);
    if (status) return status;
    size_t count = (size_t)query.schedules_count;
    pawl_schedule_info *infos = pawl_arena_alloc(a->arena, (count + 1) * sizeof *infos);
    bool ok = infos != NULL;
    for (size_t i = 0; ok && i < count; i++) ok = describe(rt, a->arena, &query.schedules[i], &infos[i], &rule);
    if (!ok) {
        look_drop(a);
        return no_memory(err);
    }
    pawl_schedules page = {.count = count, .schedules = infos, .now_us = query.now_us};
    if (query.schedules_more) page.next = infos[count - 1].definition.name;
    return look_give(a, &page, sizeof page, out, err);
}

pawl_status schedules_preview(runtime *rt, const pawl_schedule *s, int64_t from_us, int64_t *times_us, size_t n, size_t *count,
                              pawl_error *err)
{
    schedule_rule rule;
    int64_t now_us = runtime_now(rt).wall_us, at_us = (from_us ? from_us : now_us) - 1;
    pawl_error why = {.status = PAWL_OK};
    pawl_status status = schedules_valid(rt, s, &why);
    const zone *z = status ? NULL : zones_get(rt, s->zone, &why);
    if (!status) status = z ? schedule_compile(s, z, schedule_anchor(s, now_us), &rule, &why) : why.status;
    if (status) {
        if (err) *err = why;
        return status;
    }
    for (*count = 0; *count < n && schedule_next(&rule, at_us, &at_us); ++*count) times_us[*count] = at_us;
    return PAWL_OK;
}
