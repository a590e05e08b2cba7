/* Schedules of a node: putting many of one second each, and telling what became of them. */
#include "node.h"
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 500

void recur_put(node *n, int count)
{
    static pawl_schedule all[AT_ONCE];
    static char names[AT_ONCE][24];
    pawl_error err;
    for (int done = 0, some; done < count; done += some) {
        some = count - done < AT_ONCE ? count - done : AT_ONCE;
        for (int i = 0; i < some; i++) {
            snprintf(names[i], sizeof names[i], "every.%d", done + i);
            all[i] = (pawl_schedule){.name = names[i],
                                     .every = 1,
                                     .unit = PAWL_SECONDS,
                                     .overlap = PAWL_OVERLAP_ALLOW,
                                     .type = "ok",
                                     .payload = pawl_str("\"tick\"")};
        }
        if (pawl_put_schedules(n->engine, all, (size_t)some, NULL, &err)) exit(pawl_die(&err));
    }
    history_line("put", ",\"count\":%d", count);
}

/* A line may be long: it is gathered first. */
typedef struct line {
    FILE *out;
    char *text;
    size_t size;
} line;

static void begin(line *l, const char *event)
{
    if (!(l->out = open_memstream(&l->text, &l->size))) abort();
    fprintf(l->out, "{\"t\":%lld,\"e\":\"%s\"", (long long)history_now_us(), event);
}

static void end(line *l)
{
    fprintf(l->out, "]}\n");
    fclose(l->out);
    history_write(l->text, l->size);
    free(l->text);
}

static void tell_one(node *n, const char *name)
{
    pawl_schedule_info *s;
    pawl_error err;
    line l;
    if (pawl_get_schedule(n->engine, name, 0, &s, &err)) exit(pawl_die(&err));
    begin(&l, "schedule");
    fprintf(l.out,
            ",\"name\":\"%s\",\"status\":\"%s\",\"created\":%lld,\"last\":%lld,\"now\":%lld,\"fired\":%lld,\"skipped\":%lld",
            name, pawl_off_name(s->off), (long long)s->created_us, (long long)s->last_us, (long long)pawl_now(n->engine),
            (long long)s->fired, (long long)s->skipped);
    fprintf(l.out, ",\"occurrences\":[");
    for (size_t i = 0; i < s->occurrences_count; i++) {
        const pawl_occurrence *o = &s->occurrences[i];
        fprintf(l.out, "%s[%lld,%lld,\"%s\",%lld]", i ? "," : "", (long long)o->occurrence, (long long)o->count,
                pawl_occurrence_name(o->state), (long long)o->task);
    }
    end(&l);
    pawl_schedule_info_free(s);
}

/* Which tasks of which schedules there are: a line for each page. */
static void tell_tasks(node *n)
{
    pawl_filter filter = {.queue = "recurring", .limit = 1000};
    pawl_page *page = NULL, *next;
    pawl_error err;
    do {
        line l;
        if (pawl_list(n->engine, &filter, &next, &err)) exit(pawl_die(&err));
        pawl_page_free(page);
        page = next;
        begin(&l, "made");
        fprintf(l.out, ",\"tasks\":[");
        for (size_t i = 0; i < page->count; i++)
            fprintf(l.out, "%s[%lld,\"%s\"]", i ? "," : "", (long long)page->tasks[i]->id,
                    page->tasks[i]->schedule ? page->tasks[i]->schedule : "");
        end(&l);
        filter.cursor = page->next;
    } while (filter.cursor);
    pawl_page_free(page);
}

void recur_tell(node *n, int count)
{
    char name[24];
    tell_tasks(n);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "every.%d", i);
        tell_one(n, name);
    }
    history_line("told_schedules", "%s", "");
}
