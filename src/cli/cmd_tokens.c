/* pawl tokens add, list, rm: who may use the HTTP API. A running server reads them again when it gets SIGHUP. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/help.h"
#include "server/auth.h"
#include <string.h>

const char help_tokens_add[] =
    "Prints the new token, once: only its hash is kept. Scopes: read, enqueue, work, operate (includes read), admin (everything). A token "
    "with a tenant sees and makes that tenant's tasks alone.\n"
    "\n"
    "Send SIGHUP to \"pawl serve\" afterwards. As soon as there is one token, everybody needs one.\n"
    "\n"
    "Examples\n"
    "  pawl tokens add shop --scope enqueue,read\n"
    "  pawl tokens add acme --scope enqueue --tenant acme --expires 90d\n";
const char help_tokens_list[] = "Names, scopes, tenants and dates; the tokens themselves are not kept anywhere.\n";
const char help_tokens_rm[] = "Send SIGHUP to \"pawl serve\" afterwards.\n"
                              "\n"
                              "Examples\n"
                              "  pawl tokens rm shop\n";

static const char *path, *scopes, *tenant;
static int64_t expires_us;

#define TOKENS OPTION(OPT_TEXT, "tokens", &path, "FILE", "where they are kept", .fallback = "pawl.tokens")

const opt tokens_opts[] = {TOKENS, OPTIONS_END};
const opt tokens_add_opts[] = {TOKENS,
                               OPTION(OPT_TEXT, "scope", &scopes, "LIST",
                                      "read, enqueue, work, operate, admin; separated by commas", .fallback = "read,enqueue"),
                               OPTION(OPT_NAME, "tenant", &tenant, "NAME", "bound to this tenant's tasks"),
                               OPTION(OPT_DURATION, "expires", &expires_us, "DURATION",
                                      "not valid any more after this long (default: for ever)", .min = PAWL_SECOND),
                               OPTIONS_END};

static token *find(const token_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->tokens[i].name, name) == 0) return &list->tokens[i];
    }
    return NULL;
}

static void scope_text(unsigned bits, char out[96])
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 1; i < SCOPE_COUNT; i++) {
        if (bits & 1u << i) n += (size_t)snprintf(out + n, 96 - n, "%s%s", n ? "," : "", scope_name((scope)i));
    }
}

/* ---- add ---------------------------------------------------------------------------------------------------------------------- */

static int check_words(const cli *c, unsigned *bits)
{
    const char *bad, *what, *name = c->args[0];
    size_t bad_len;
    if (!name_valid(name, &what)) return cli_usage(c, "\"%s\" cannot be the name of a token: %s", name, what);
    if (strlen(name) > TOKEN_NAME_MAX || strchr(name, ' ') || *name == '#')
        return cli_usage(c, "\"%s\" cannot be the name of a token: at most %d bytes, no spaces, no \"#\" in front", name,
                         TOKEN_NAME_MAX);
    if (tenant && (strchr(tenant, ' ') || strcmp(tenant, "-") == 0))
        return cli_usage(c, "a token cannot be bound to tenant \"%s\"", tenant);
    if (!scopes_parse(scopes, bits, &bad, &bad_len))
        return cli_usage(c, "\"%.*s\" is no scope: use read, enqueue, work, operate, admin", (int)bad_len, bad);
    return 0;
}

static pawl_status add(const char *name, unsigned bits, char text[TOKEN_TEXT], pawl_error *err)
{
    token_list list;
    pawl_status status = tokens_load(path, &list, err);
    if (status) return status;
    if (!list.tokens) list.tokens = alloc_new(alloc_default(), TOKENS_MAX * sizeof *list.tokens);
    if (!list.tokens) status = err_set(err, PAWL_NO_MEMORY, "out of memory");
    else if (find(&list, name))
        status = err_set(err, PAWL_CONFLICT, "there is a token \"%s\" already: remove it first, or use another name", name);
    else if (list.count == TOKENS_MAX) status = err_set(err, PAWL_TOO_LARGE, "there are %d tokens already", TOKENS_MAX);
    else if (!token_make(text)) status = err_set(err, PAWL_UNAVAILABLE, "the system has no random bytes");
    if (!status) {
        token *t = &list.tokens[list.count++];
        *t = (token){.scopes = bits, .created_us = cli_now_us(), .expires_us = expires_us ? cli_now_us() + expires_us : 0};
        snprintf(t->name, sizeof t->name, "%s", name);
        snprintf(t->tenant, sizeof t->tenant, "%s", tenant ? tenant : "");
        sha256_hex(text, strlen(text), t->hash);
        status = tokens_save(path, &list, err);
    }
    tokens_free(&list);
    return status;
}

int cmd_tokens_add(cli *c)
{
    char text[TOKEN_TEXT];
    unsigned bits = 0;
    pawl_error err;
    int code = check_words(c, &bits);
    if (code) return code;
    if (add(c->args[0], bits, text, &err)) return cli_fail(c, &err);
    if (c->json) printf("{\"name\":\"%s\",\"token\":\"%s\"}\n", c->args[0], text);
    else printf("%s\n", text);
    return 0;
}

/* ---- list and rm -------------------------------------------------------------------------------------------------------------- */

static int list_json(const cli *c, const token_list *list)
{
    answer a;
    char text[96];
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "tokens");
    jsonw_array(&a.w);
    for (size_t i = 0; i < list->count; i++) {
        const token *t = &list->tokens[i];
        scope_text(t->scopes, text);
        jsonw_object(&a.w);
        json_text(&a.w, "name", t->name);
        json_text(&a.w, "scopes", text);
        json_text(&a.w, "tenant", *t->tenant ? t->tenant : NULL);
        json_instant(&a.w, "created_at", t->created_us);
        json_instant(&a.w, "expires_at", t->expires_us);
        jsonw_end_object(&a.w);
    }
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static int list_text(const cli *c, const token_list *list)
{
    table t;
    char text[96], when[WHEN_TEXT];
    int64_t now_us = cli_now_us();
    table_init(&t, &c->term);
    table_column(&t, "NAME", COLUMN_FLEX);
    table_column(&t, "SCOPES", COLUMN_LEFT);
    table_column(&t, "TENANT", COLUMN_FLEX);
    table_column(&t, "EXPIRES", COLUMN_LEFT);
    for (size_t i = 0; i < list->count; i++) {
        const token *one = &list->tokens[i];
        scope_text(one->scopes, text);
        snprintf(when, sizeof when, "never");
        if (one->expires_us) when_relative(one->expires_us, now_us, when);
        table_cell(&t, BOLD, "%s", one->name);
        table_cell(&t, PLAIN, "%s", text);
        table_cell(&t, PLAIN, "%s", one->tenant);
        table_cell(&t, one->expires_us && one->expires_us <= now_us ? RED : PLAIN, "%s", when);
    }
    if (!table_print(&t, stdout)) return cli_no_memory(c);
    if (!list->count) printf("no tokens in %s: only clients on this machine are let in\n", path);
    return 0;
}

int cmd_tokens_list(cli *c)
{
    token_list list;
    pawl_error err;
    if (tokens_load(path, &list, &err)) return cli_fail(c, &err);
    int code = c->json ? list_json(c, &list) : list_text(c, &list);
    tokens_free(&list);
    return code;
}

int cmd_tokens_rm(cli *c)
{
    token_list list;
    pawl_error err;
    if (tokens_load(path, &list, &err)) return cli_fail(c, &err);
    token *t = find(&list, c->args[0]);
    pawl_status status = PAWL_OK;
    if (!t) status = err_set(&err, PAWL_NOT_FOUND, "there is no token \"%s\" in \"%s\"", c->args[0], path);
    else {
        memmove(t, t + 1, (size_t)(list.tokens + list.count - (t + 1)) * sizeof *t);
        list.count--;
        status = tokens_save(path, &list, &err);
    }
    tokens_free(&list);
    if (status) return cli_fail(c, &err);
    if (c->json) printf("{\"name\":\"%s\",\"done\":\"removed\"}\n", c->args[0]);
    else printf("%s  removed\n", c->args[0]);
    return 0;
}
