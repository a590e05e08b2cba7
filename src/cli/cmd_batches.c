/* pawl batches list, show, open, close, cancel. */
#include "base/error.h"
#include "cli/batches.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <stdio.h>

const char help_batches_list[] =
    "A batch is open while members may be added, closed while it waits for them, and then succeeded, failed or cancelled, as its "
    "members did.\n"
    "\n"
    "Examples\n"
    "  pawl batches list --unfinished\n";
const char help_batches_show[] = "BATCH is a name, or an id of 13 characters.\n"
                                 "\n"
                                 "Examples\n"
                                 "  pawl batches show import-42 --json | jq .unfinished\n"
                                 "  pawl tasks tree 0KBX3QZT8H00C\n";
const char help_batches_open[] =
    "Prints the id of the new batch. Tasks join it with pawl enqueue --batch, until it is closed. The tasks of --on-finished and "
    "--on-succeeded are stored with it and wait for its end.\n"
    "\n"
    "Examples\n"
    "  pawl batches open import-42 --on-finished import.report --payload '{\"import\":42}'\n"
    "  pawl enqueue --type import.row --batch import-42\n"
    "  pawl batches close import-42\n";
const char help_batches_close[] = "It takes no more members, and ends when all that it has have ended.\n"
                                  "\n"
                                  "Examples\n"
                                  "  pawl batches close import-42\n";
const char help_batches_cancel[] =
    "It is closed, and all of its members that have not finished are cancelled, in steps: with many "
    "members it takes a node that runs, or a moment.\n"
    "\n"
    "Examples\n"
    "  pawl batches cancel import-42\n";

static int64_t limit = 50;
static const char *cursor, *by_name, *within, *finished_type, *succeeded_type, *payload, *queue;
static bool unfinished;

#define BY OPTION(OPT_NAME, "by", &by_name, "NAME", "who does it, for the operator log (default: you)")

const opt batches_list_opts[] = {
    OPTION(OPT_FLAG, "unfinished", &unfinished, NULL, "only those that have not ended"),
    OPTION(OPT_INT, "limit", &limit, "N", "how many, 1 to 1000", .min = 1, .max = 1000, .fallback = "50"),
    OPTION(OPT_TEXT, "cursor", &cursor, "TEXT", "go on where the page before ended"), OPTIONS_END};
const opt batches_open_opts[] = {
    OPTION(OPT_NAME, "within", &within, "BATCH", "make it a member of this batch"),
    OPTION(OPT_NAME, "on-finished", &finished_type, "TYPE", "a task of this type runs when the batch has ended"),
    OPTION(OPT_NAME, "on-succeeded", &succeeded_type, "TYPE", "a task of this type runs when all have succeeded"),
    OPTION(OPT_TEXT, "payload", &payload, "JSON", "of these tasks"),
    OPTION(OPT_NAME, "queue", &queue, "NAME", "of these tasks"),
    OPTIONS_END};
const opt batches_by_opts[] = {BY, OPTIONS_END};

pawl_status batch_find(pawl *p, const char *text, pawl_batch_info **out, pawl_error *err)
{
    pawl_id id;
    if (pawl_id_parse(text, &id) && !pawl_get_batch(p, id, NULL, out, err)) return PAWL_OK;
    return pawl_get_batch(p, 0, text, out, err);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

static int batches_json(const cli *c, const pawl_batches *batches)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "batches");
    jsonw_array(&a.w);
    for (size_t i = 0; i < batches->count; i++) batch_json(&a.w, &batches->batches[i]);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", batches->next);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static void number_cell(table *t, int64_t number, paint color)
{
    char text[32];
    number_grouped(number, text);
    table_cell(t, number ? color : DIM, "%s", text);
}

static bool batches_table(const cli *c, const pawl_batches *batches)
{
    table t;
    table_init(&t, &c->term);
    table_column(&t, "ID", COLUMN_LEFT);
    table_column(&t, "NAME", COLUMN_FLEX);
    table_column(&t, "STATE", COLUMN_LEFT);
    table_column(&t, "TOTAL", COLUMN_RIGHT);
    table_column(&t, "UNFINISHED", COLUMN_RIGHT);
    table_column(&t, "SUCCEEDED", COLUMN_RIGHT);
    table_column(&t, "FAILED", COLUMN_RIGHT);
    table_column(&t, "CANCELLED", COLUMN_RIGHT);
    for (size_t i = 0; i < batches->count; i++) {
        const pawl_batch_info *b = &batches->batches[i];
        char id[PAWL_ID_TEXT];
        pawl_id_format(b->id, id);
        table_cell(&t, PLAIN, "%s", id);
        table_cell(&t, BOLD, "%s", b->name);
        table_cell(&t, b->state == PAWL_FAILED ? RED : b->ended_us ? PLAIN : CYAN, "%s", batch_word(b->state));
        number_cell(&t, b->total, PLAIN);
        number_cell(&t, b->unfinished, CYAN);
        number_cell(&t, b->succeeded, GREEN);
        number_cell(&t, b->failed, RED);
        number_cell(&t, b->cancelled, YELLOW);
    }
    return table_print(&t, stdout);
}

static int batches_text(const cli *c, const pawl_batches *batches)
{
    if (batches->count == 0) puts("no batches match");
    else if (!batches_table(c, batches)) return cli_no_memory(c);
    if (batches->next) printf("more: pawl batches list --cursor %s\n", batches->next);
    return 0;
}

static int list_of_server(const cli *c)
{
    remote r;
    pawl_batches batches = {0};
    remote_begin(&r, "/v1/batches");
    remote_flag(&r.path, "unfinished", unfinished);
    remote_number(&r.path, "limit", limit);
    remote_parameter(&r.path, "cursor", cursor);
    int code = remote_look(c, &r, &batch_shape, &batches);
    if (code == REMOTE_SHOW) code = batches_text(c, &batches);
    remote_end(&r);
    return code;
}

int cmd_batches_list(cli *c)
{
    pawl_error err;
    pawl_batches *batches;
    int code = 0;
    if (c->server) return list_of_server(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    pawl_batch_filter filter = {.unfinished = unfinished, .limit = (int)limit, .cursor = cursor};
    if (pawl_list_batches(p, &filter, &batches, &err)) code = cli_fail(c, &err);
    else {
        code = c->json ? batches_json(c, batches) : batches_text(c, batches);
        pawl_batches_free(batches);
    }
    pawl_close(p);
    return code;
}

static int show_json(const cli *c, const pawl_batch_info *b)
{
    answer a;
    cli_json_begin(c, &a);
    batch_json(&a.w, b);
    return cli_json_end(c, &a);
}

static int show_of_server(const cli *c)
{
    remote r;
    pawl_batch_info b = {0};
    remote_about(&r, "/v1/batches/", c->args[0], "");
    int code = remote_look_one(c, &r, &batch_shape, &b);
    if (code == REMOTE_SHOW) code = batches_text(c, &(pawl_batches){.count = 1, .batches = &b});
    remote_end(&r);
    return code;
}

int cmd_batches_show(cli *c)
{
    pawl_error err;
    pawl_batch_info *b;
    int code = 0;
    if (c->server) return show_of_server(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    if (batch_find(p, c->args[0], &b, &err)) code = cli_fail(c, &err);
    else {
        code = c->json ? show_json(c, b) : batches_text(c, &(pawl_batches){.count = 1, .batches = b});
        pawl_batch_info_free(b);
    }
    pawl_close(p);
    return code;
}

/* ---- changing ------------------------------------------------------------------------------------------------------------ */

static int said(const cli *c, pawl_id id, const char *what)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(id, text);
    if (!c->json) return printf("%s%s%s\n", text, what ? "  " : "", what ? what : "") > 0 ? 0 : EXIT_ACT;
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "id", text);
    json_text(&a.w, "done", what ? what : "opened");
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

/* On the store, or, without one, on the server. */
static pawl_status find_id(const cli *c, pawl *p, const char *text, pawl_id *id, pawl_error *err)
{
    pawl_batch_info *b;
    if (!p) return remote_batch(c, text, id, err);
    pawl_status status = batch_find(p, text, &b, err);
    if (status) return status;
    *id = b->id;
    pawl_batch_info_free(b);
    return PAWL_OK;
}

static pawl_status ask_open(const cli *c, const pawl_batch_options *o, pawl_id *id, pawl_error *err)
{
    remote r;
    pawl_batch_info b = {0};
    remote_begin(&r, "/v1/batches");
    jsonw_object(&r.w);
    json_text(&r.w, "name", o->name);
    json_id(&r.w, "within", o->within);
    if (o->on_finished) jsonw_key(&r.w, "on_finished"), remote_task(&r.w, o->on_finished);
    if (o->on_succeeded) jsonw_key(&r.w, "on_succeeded"), remote_task(&r.w, o->on_succeeded);
    jsonw_end_object(&r.w);
    pawl_status status = remote_send(c, &r, "POST", err);
    if (!status) status = remote_row(&r, &batch_shape, r.object, &b, err);
    if (!status) *id = b.id;
    remote_end(&r);
    return status;
}

int cmd_batches_open(cli *c)
{
    pawl_error err;
    pawl_id id = 0;
    int code = 0;
    if ((payload || queue) && !finished_type && !succeeded_type)
        return cli_usage(c, "--payload and --queue are those of the tasks of --on-finished and --on-succeeded: give one of them");
    if (payload && c->server && !json_valid(pawl_str(payload), NULL, NULL)) return cli_usage(c, "the payload is not JSON");
    pawl *p = c->server ? NULL : cli_open_writing(c, &code);
    if (!p && !c->server) return code;
    pawl_task finished = {.type = finished_type, .payload = pawl_str(payload), .queue = queue}, succeeded = finished;
    succeeded.type = succeeded_type;
    pawl_batch_options o = {.name = c->args_count ? c->args[0] : NULL,
                            .on_finished = finished_type ? &finished : NULL,
                            .on_succeeded = succeeded_type ? &succeeded : NULL};
    pawl_status status = within ? find_id(c, p, within, &o.within, &err) : PAWL_OK;
    if (!status) status = p ? pawl_open_batch(p, &o, &id, &err) : ask_open(c, &o, &id, &err);
    code = status ? cli_fail(c, &err) : said(c, id, NULL);
    if (p) pawl_close(p);
    return code;
}

static int change(cli *c, pawl_status (*call)(pawl *, pawl_id, const char *, pawl_error *), const char *path, const char *what)
{
    pawl_error err;
    pawl_id id = 0;
    int code = 0;
    pawl *p = c->server ? NULL : cli_open_writing(c, &code);
    if (!p && !c->server) return code;
    pawl_status status = find_id(c, p, c->args[0], &id, &err);
    if (!status)
        status = p ? call(p, id, by_name ? by_name : cli_person(), &err)
                   : remote_do(c, "POST", "/v1/batches/", c->args[0], path, &err);
    code = status ? cli_fail(c, &err) : said(c, id, what);
    if (p) pawl_close(p);
    return code;
}

int cmd_batches_close(cli *c) { return change(c, pawl_close_batch, "/close", "closed"); }

int cmd_batches_cancel(cli *c) { return change(c, pawl_cancel_batch, "/cancel", "cancelled"); }
