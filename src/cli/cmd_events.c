/* pawl events: what happens to tasks, as it happens, on all nodes of a store. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/remote.h"
#include "server/fields.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

const char help_events[] =
    "What all nodes do to tasks. It is told only while somebody listens: without -f the last ones of such a time are printed, "
    "with -f those that come from now on. A gap says that some are missing.\n"
    "\n"
    "Examples\n"
    "  pawl events -f\n"
    "  pawl events -f --type email.send --json | jq .id\n"
    "  pawl events -f --server http://localhost:7295\n";

#define PAGE 1000

static bool follow;
static const char *type, *queue;
static int64_t after, most;

const opt events_opts[] = {
    OPTION(OPT_FLAG, "follow", &follow, NULL, "go on with what comes; also -f", .letter = 'f'),
    OPTION(OPT_NAME, "type", &type, "TYPE", "only of tasks of this type"),
    OPTION(OPT_NAME, "queue", &queue, "NAME", "only of this queue"),
    OPTION(OPT_INT, "after", &after, "N", "go on behind the one with this number", .min = 0, .max = INT64_MAX, .fallback = "0"),
    OPTION(OPT_INT, "count", &most, "N", "end after so many; also -n N", .min = 0, .max = INT64_MAX, .fallback = "0",
           .letter = 'n'),
    OPTIONS_END};

static paint color_of(pawl_event_kind kind)
{
    switch (kind) {
    case PAWL_EVENT_SUCCEEDED: return GREEN;
    case PAWL_EVENT_FAILED:
    case PAWL_EVENT_TIMEOUT:
    case PAWL_EVENT_STUCK: return RED;
    case PAWL_EVENT_RETRYING:
    case PAWL_EVENT_RESCUED:
    case PAWL_EVENT_CANCELLED: return YELLOW;
    case PAWL_EVENT_STARTED: return CYAN;
    default: return PLAIN;
    }
}

static void print_text(const cli *c, const pawl_fact *fact)
{
    const pawl_event *e = &fact->event;
    char id[PAWL_ID_TEXT] = "", line[512], at[16];
    time_t second = (time_t)(e->at_us / PAWL_SECOND);
    struct tm local;
    buf safe;
    if (e->id) pawl_id_format(e->id, id);
    localtime_r(&second, &local);
    strftime(at, sizeof at, "%H:%M:%S", &local);
    buf_init(&safe, alloc_default(), 4 << 10);
    snprintf(line, sizeof line, "%s%s%s%s%s", e->type, *e->queue ? "  " : "", e->queue, *e->text ? "  " : "", e->text);
    term_safe(&safe, pawl_str(line), false);
    printf("%s.%03d  %s%-12s%s  %-13s  %s", at, (int)(e->at_us % PAWL_SECOND / 1000), term_on(&c->term, color_of(e->kind)),
           pawl_event_name(e->kind), term_off(&c->term), id, buf_text(&safe));
    if (e->attempt > 1) printf("  attempt %d", e->attempt);
    if (*fact->node) printf("  %s@%s%s", term_on(&c->term, DIM), fact->node, term_off(&c->term));
    putchar('\n');
    buf_done(&safe);
}

static void print_gap(const cli *c, uint64_t lost)
{
    if (!c->json) printf("%sgap%s%s\n", term_on(&c->term, RED), term_off(&c->term), lost ? "" : ": nobody listened for a while");
    else if (lost) printf("{\"event\":\"gap\",\"lost\":%" PRIu64 "}\n", lost);
    else puts("{\"event\":\"gap\",\"lost\":null}");
}

static void print_fact(const cli *c, const pawl_fact *fact)
{
    buf out;
    json_writer w;
    if (fact->event.lost) print_gap(c, fact->event.lost);
    if (fact->event.kind == PAWL_EVENT_NODE_LOST) print_gap(c, 0);
    if (!c->json) {
        print_text(c, fact);
        return;
    }
    buf_init(&out, alloc_default(), 8 << 10);
    jsonw_init(&w, &out, false);
    event_json(&w, fact);
    puts(buf_text(&out));
    buf_done(&out);
}

static bool wanted(const pawl_event *e)
{
    return (!type || strcmp(e->type, type) == 0) && (!queue || strcmp(e->queue, queue) == 0);
}

/* ---- of a store ----------------------------------------------------------------------------------------------------------- */

/* Prints a page; false: that is enough. */
static bool print_page(const cli *c, const pawl_facts *facts, int64_t *printed)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (!wanted(&facts->facts[i].event)) continue;
        print_fact(c, &facts->facts[i]);
        if (most && ++*printed == most) return false;
    }
    return (facts->count > 0 || follow) && fflush(stdout) == 0;
}

static int of_store(cli *c, pawl *p)
{
    pawl_error err;
    pawl_facts *facts;
    int64_t at = follow && !after ? -1 : after, broken = -1, printed = 0;
    bool more = true;
    while (more) {
        if (pawl_follow(p, at, follow ? PAWL_SECOND : 0, PAGE, &facts, &err)) return cli_fail(c, &err);
        if (at > 0 && at < facts->broken && broken != facts->broken) print_gap(c, 0);
        broken = facts->broken;
        more = print_page(c, facts, &printed);
        at = facts->next;
        pawl_facts_free(facts);
    }
    return 0;
}

/* ---- of a server ---------------------------------------------------------------------------------------------------------- */

typedef struct stream {
    const cli *c;
    char event[32];
    int64_t printed;
} stream;

static void print_raw(stream *s, const char *data)
{
    static const field fields[] = {{"at", FIELD_INSTANT, offsetof(pawl_event, at_us), 0, 0, NULL},
                                   {"id", FIELD_ID, offsetof(pawl_event, id), 0, 0, NULL},
                                   {"attempt", FIELD_INT, offsetof(pawl_event, attempt), 0, 0, NULL},
                                   {0}};
    static const field texts[] = {{"type", FIELD_TEXT, 0, 0, 0, NULL},
                                  {"queue", FIELD_TEXT, sizeof(char *), 0, 0, NULL},
                                  {"text", FIELD_TEXT, 2 * sizeof(char *), 0, 0, NULL},
                                  {"node", FIELD_TEXT, 3 * sizeof(char *), 0, 0, NULL},
                                  {0}};
    const char *words[4] = {0};
    pawl_fact fact = {0};
    pawl_arena *arena = arena_new(alloc_default(), 64 << 10);
    json object = json_valid(pawl_str(data), NULL, NULL) ? json_parse(pawl_str(data)) : (json){0};
    if (arena && object.kind == JSON_OBJECT && !fields_pick(fields, object, arena, &fact.event, NULL) &&
        !fields_pick(texts, object, arena, words, NULL)) {
        for (int i = 1; i < PAWL_EVENT_COUNT; i++) {
            if (strcmp(s->event, pawl_event_name((pawl_event_kind)i)) == 0) fact.event.kind = (pawl_event_kind)i;
        }
        snprintf(fact.event.type, sizeof fact.event.type, "%s", words[0] ? words[0] : "");
        snprintf(fact.event.queue, sizeof fact.event.queue, "%s", words[1] ? words[1] : "");
        snprintf(fact.event.text, sizeof fact.event.text, "%s", words[2] ? words[2] : "");
        snprintf(fact.node, sizeof fact.node, "%s", words[3] ? words[3] : "");
        if (fact.event.kind) print_text(s->c, &fact);
    }
    arena_free(arena);
}

/* One line of the stream; false: that is enough. */
static bool take_line(void *ctx, const char *line)
{
    stream *s = ctx;
    if (strncmp(line, "event: ", 7) == 0) snprintf(s->event, sizeof s->event, "%s", line + 7);
    if (strncmp(line, "data: ", 6) != 0) return true;
    if (strcmp(s->event, "gap") == 0) print_gap(s->c, strstr(line, "null") ? 0 : 1);
    else if (s->c->json) puts(line + 6);
    else print_raw(s, line + 6);
    return fflush(stdout) == 0 && (!most || ++s->printed < most);
}

static int of_server(cli *c)
{
    pawl_error err;
    char number[32];
    buf path;
    stream s = {.c = c};
    if (!follow) return cli_usage(c, "a server tells what comes: say -f");
    snprintf(number, sizeof number, "f-%lld", (long long)after);
    buf_init(&path, alloc_default(), 4 << 10);
    buf_str(&path, "/v1/events");
    remote_parameter(&path, "type", type);
    remote_parameter(&path, "queue", queue);
    remote_parameter(&path, "after", after ? number : NULL);
    pawl_status status = remote_stream(c, buf_text(&path), take_line, &s, &err);
    buf_done(&path);
    return status ? cli_fail(c, &err) : 0;
}

int cmd_events(cli *c)
{
    int code = 0;
    if (c->server) return of_server(c);
    pawl *p = cli_open_writing(c, &code);
    if (!p) return code;
    code = of_store(c, p);
    pawl_close(p);
    return code;
}
