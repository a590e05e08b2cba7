/* pawl schedules list, show, enable, disable, run, rm. add and edit are in cmd_schedule_put.c. */
#include "base/error.h"
#include "base/text.h"
#include "cli/filter.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <string.h>

const char help_schedules_list[] =
    "A schedule makes a task whenever it falls due. Any engine that is started on the store fires it.\n"
    "SKIPPED counts occurrences that were missed, or met an unfinished task of the schedule.\n"
    "\n"
    "Examples\n"
    "  pawl schedules list\n"
    "  pawl schedules list --prefix billing. --off\n";
const char help_schedules_show[] = "Its definition, when it fires next, and what became of its last occurrences.\n"
                                   "\n"
                                   "Examples\n"
                                   "  pawl schedules show nightly\n"
                                   "  pawl schedules show nightly -n 20 --json\n";
const char help_schedules_enable[] =
    "It goes on with the first occurrence from now on: nothing of the time it was off is missed.\n"
    "\n"
    "Examples\n"
    "  pawl schedules enable nightly\n";
const char help_schedules_disable[] =
    "It fires nothing until it is enabled again, on any node, also if its program registers it anew.\n"
    "\n"
    "Examples\n"
    "  pawl schedules disable nightly weekly\n";
const char help_schedules_run[] = "Makes a task now and prints its id; the schedule itself is unchanged.\n"
                                  "\n"
                                  "Examples\n"
                                  "  pawl schedules run nightly\n"
                                  "  pawl schedules run nightly --payload '{\"day\":\"2026-11-14\"}'\n";
const char help_schedules_rm[] = "Its tasks stay. Schedules that run after it fire nothing any more.\n"
                                 "\n"
                                 "Examples\n"
                                 "  pawl schedules rm nightly\n";

static const char *prefix, *cursor, *by_name, *payload_text;
static int64_t page = 100, upcoming = 5;
static bool only_enabled, only_off;

#define BY OPTION(OPT_NAME, "by", &by_name, "NAME", "who does it, for the operator log (default: you)")

const opt schedules_list_opts[] = {OPTION(OPT_NAME, "prefix", &prefix, "TEXT", "only names that begin so"),
                                   OPTION(OPT_FLAG, "enabled", &only_enabled, NULL, "only those that are enabled"),
                                   OPTION(OPT_FLAG, "off", &only_off, NULL, "only those that are not"),
                                   OPTION(OPT_INT, "limit", &page, "N", "rows at most", 1, 1000, "100"),
                                   OPTION(OPT_NAME, "cursor", &cursor, "NAME", "go on where the page before ended"),
                                   OPTIONS_END};
const opt schedules_show_opts[] = {OPTION(OPT_INT, "count", &upcoming, "N", "how many of the next times to show; also -n N",
                                          .min = 0, .max = 1000, .fallback = "5", .letter = 'n'),
                                   OPTIONS_END};
const opt schedules_by_opts[] = {BY, OPTIONS_END};
const opt schedules_run_opts[] = {OPTION(OPT_TEXT, "payload", &payload_text, "JSON", "instead of the schedule's own"), BY,
                                  OPTIONS_END};

static const char *by(void) { return by_name ? by_name : cli_person(); }

/* ---- list ---------------------------------------------------------------------------------------------------------------- */

static int list_json(const cli *c, const pawl_schedules *all)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "schedules");
    jsonw_array(&a.w);
    for (size_t i = 0; i < all->count; i++) schedule_json(&a.w, &all->schedules[i], false);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", all->next);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static void next_cell(table *t, const pawl_schedule_info *s, int64_t now_us)
{
    char when[WHEN_TEXT] = "";
    if (s->off) {
        table_cell(t, s->off == PAWL_OFF_INVALID ? RED : YELLOW, "%s", pawl_off_name(s->off));
        return;
    }
    if (s->next_us > now_us) when_relative(s->next_us, now_us, when);
    table_cell(t, PLAIN, "%s", when[0] ? when : s->next_us ? "now" : "-");
}

static bool list_table(const cli *c, const pawl_schedules *all)
{
    table t;
    table_init(&t, &c->term);
    table_column(&t, "NAME", COLUMN_FLEX);
    table_column(&t, "WHEN", COLUMN_FLEX);
    table_column(&t, "TYPE", COLUMN_LEFT);
    table_column(&t, "FIRED", COLUMN_RIGHT);
    table_column(&t, "SKIPPED", COLUMN_RIGHT);
    table_column(&t, "NEXT", COLUMN_LEFT);
    for (size_t i = 0; i < all->count; i++) {
        const pawl_schedule_info *s = &all->schedules[i];
        char fired[32], skipped[32];
        number_grouped(s->fired, fired);
        number_grouped(s->skipped, skipped);
        table_cell(&t, BOLD, "%s", s->definition.name);
        table_cell(&t, PLAIN, "%s", s->words);
        table_cell(&t, PLAIN, "%s", s->definition.type ? s->definition.type : "-");
        table_cell(&t, s->fired ? PLAIN : DIM, "%s", fired);
        table_cell(&t, s->skipped ? YELLOW : DIM, "%s", skipped);
        next_cell(&t, s, all->now_us);
    }
    return table_print(&t, stdout);
}

static int list_text(const cli *c, const pawl_schedules *all)
{
    if (all->count == 0) puts("no schedules match");
    else if (!list_table(c, all)) return cli_no_memory(c);
    if (all->next) printf("more: pawl schedules list --cursor %s\n", all->next);
    return 0;
}

static int list_of_server(const cli *c)
{
    remote r;
    pawl_schedules all = {.now_us = cli_now_us()};
    remote_begin(&r, "/v1/schedules");
    remote_parameter(&r.path, "prefix", prefix);
    remote_flag(&r.path, "enabled", only_enabled);
    remote_flag(&r.path, "off", only_off);
    remote_number(&r.path, "limit", page);
    remote_parameter(&r.path, "cursor", cursor);
    int code = remote_look(c, &r, &schedule_shape, &all);
    if (code == REMOTE_SHOW) code = list_text(c, &all);
    remote_end(&r);
    return code;
}

int cmd_schedules_list(cli *c)
{
    pawl_error err;
    pawl_schedules *all;
    int code = 0;
    if (only_enabled && only_off) return cli_usage(c, "--enabled and --off cannot both be: use one of them");
    if (c->server) return list_of_server(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    pawl_schedule_filter filter = {
        .prefix = prefix, .enabled = only_enabled, .off = only_off, .limit = (int)page, .cursor = cursor};
    if (pawl_list_schedules(p, &filter, &all, &err)) code = cli_fail(c, &err);
    else {
        code = c->json ? list_json(c, all) : list_text(c, all);
        pawl_schedules_free(all);
    }
    pawl_close(p);
    return code;
}

/* ---- show ---------------------------------------------------------------------------------------------------------------- */

static void print_occurrence(const pawl_schedule_info *s, const pawl_occurrence *o)
{
    char due[RFC3339_TEXT], task[PAWL_ID_TEXT] = "";
    bool follows = s->definition.after && !o->why;
    if (follows) pawl_id_format(o->occurrence, due);
    else rfc3339_format(o->occurrence, due);
    if (o->task) pawl_id_format(o->task, task);
    printf("  %s%-27s  %-9s", follows ? "after " : "", due, pawl_occurrence_name(o->state));
    if (o->task) printf("  %s", task);
    if (o->count > 1) printf("  %lld times", (long long)o->count);
    if (o->why) printf("  %s", o->why);
    putchar('\n');
}

static void show_text(const pawl_schedule_info *s)
{
    char at[RFC3339_TEXT];
    printf("name       %s\n", s->definition.name);
    printf("status     %s%s%s\n", pawl_off_name(s->off), s->reason ? ": " : "", s->reason ? s->reason : "");
    printf("when       %s%s%s\n", s->words, s->definition.zone ? ", " : "", s->definition.zone ? s->definition.zone : "");
    printf("definition %s\n", s->spec);
    printf("runs       %lld fired, %lld skipped, %lld succeeded, %lld failed, %lld open, %lld waiting\n", (long long)s->fired,
           (long long)s->skipped, (long long)s->succeeded, (long long)s->failed, (long long)s->open, (long long)s->waiting);
    for (size_t i = 0; i < s->upcoming_count; i++) {
        rfc3339_format(s->upcoming_us[i], at);
        printf("%s%s\n", i == 0 ? "next       " : "           ", at);
    }
    if (s->occurrences_count > 0) puts("occurrences");
    for (size_t i = 0; i < s->occurrences_count && i < 20; i++) print_occurrence(s, &s->occurrences[i]);
}

static int show_of_server(const cli *c)
{
    remote r;
    pawl_schedule_info s;
    char behind[32];
    snprintf(behind, sizeof behind, "?upcoming=%lld", (long long)upcoming);
    remote_about(&r, "/v1/schedules/", c->args[0], behind);
    int code = remote_look_one(c, &r, &schedule_shape, &s);
    if (code == REMOTE_SHOW) show_text(&s), code = 0;
    remote_end(&r);
    return code;
}

int cmd_schedules_show(cli *c)
{
    pawl_error err;
    pawl_schedule_info *s;
    int code = 0;
    if (c->server) return show_of_server(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    if (pawl_get_schedule(p, c->args[0], (int)upcoming, &s, &err)) code = cli_fail(c, &err);
    else {
        answer a;
        if (!c->json) show_text(s);
        if (c->json) {
            cli_json_begin(c, &a);
            schedule_json(&a.w, s, true);
            code = cli_json_end(c, &a);
        }
        pawl_schedule_info_free(s);
    }
    pawl_close(p);
    return code;
}

/* ---- changing ------------------------------------------------------------------------------------------------------------ */

static int say(const cli *c, const char *name, const char *what)
{
    if (!c->json) return printf("%s  %s\n", name, what) > 0 ? 0 : EXIT_ACT;
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "name", name);
    json_text(&a.w, "done", what);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

typedef pawl_status (*change_fn)(pawl *p, const char *name, const char *by, pawl_error *err);

static int change_each(cli *c, change_fn change, const char *method, const char *behind, const char *what)
{
    pawl_error err;
    int code = 0, worst = 0;
    pawl *p = c->server ? NULL : cli_open_writing(c, &code);
    if (!p && !c->server) return code;
    for (int i = 0; i < c->args_count; i++) {
        const char *name = c->args[i];
        pawl_status status = p ? change(p, name, by(), &err) : remote_do(c, method, "/v1/schedules/", name, behind, &err);
        code = status ? cli_fail(c, &err) : say(c, name, what);
        if (code > worst) worst = code;
    }
    if (p) pawl_close(p);
    return worst;
}

int cmd_schedules_enable(cli *c) { return change_each(c, pawl_enable_schedule, "POST", "/enable", "enabled"); }

int cmd_schedules_disable(cli *c) { return change_each(c, pawl_disable_schedule, "POST", "/disable", "disabled"); }

int cmd_schedules_rm(cli *c) { return change_each(c, pawl_remove_schedule, "DELETE", "", "removed"); }

static pawl_status ask_run(const cli *c, pawl_id *id, pawl_error *err)
{
    remote r;
    static const field fields[] = {{"id", FIELD_ID, 0, 0, 0, NULL}, {0}};
    if (payload_text && !json_valid(pawl_str(payload_text), NULL, NULL))
        return err_set(err, PAWL_INVALID, "the payload is not JSON");
    remote_about(&r, "/v1/schedules/", c->args[0], "/run");
    jsonw_object(&r.w);
    if (payload_text) jsonw_key(&r.w, "payload"), jsonw_raw(&r.w, pawl_str(payload_text));
    jsonw_end_object(&r.w);
    pawl_status status = remote_send(c, &r, "POST", err);
    if (!status) status = fields_pick(fields, r.object, r.arena, id, err);
    remote_end(&r);
    return status;
}

int cmd_schedules_run(cli *c)
{
    pawl_error err;
    pawl_bytes payload = pawl_str(payload_text);
    pawl_id id = 0;
    char text[PAWL_ID_TEXT];
    int code = 0;
    pawl *p = c->server ? NULL : cli_open_writing(c, &code);
    if (!p && !c->server) return code;
    pawl_status status =
        p ? pawl_run_schedule(p, c->args[0], payload_text ? &payload : NULL, by(), &id, &err) : ask_run(c, &id, &err);
    if (p) pawl_close(p);
    if (status) return cli_fail(c, &err);
    pawl_id_format(id, text);
    if (!c->json) return printf("%s\n", text) > 0 ? 0 : EXIT_ACT;
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "id", text);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}
