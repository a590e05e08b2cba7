/* Settings from a file: INI, one "name = value" a line, names as the flags have them. [handler NAME] begins a built-in handler (handlers.h);
 * other sections are for people and mean nothing. Lists are separated by commas. In the environment a setting is PAWL_NAME, with '_' for
 * '-'. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/serve.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 4096
#define TEXTS_MAX (4u << 20)

serve_settings serve_set;

/* clang-format off */
const opt serve_opts[] = {
    OPTION(OPT_LIST, "listen", &serve_set.listen, "ADDRESS", "address:port, port, or unix:/path; may be repeated (default: 127.0.0.1:7295)"),
    OPTION(OPT_TEXT, "config", &serve_set.config, "FILE", "read settings from this file (else $PAWL_CONFIG)"),
    OPTION(OPT_TEXT, "tokens", &serve_set.tokens, "FILE", "tokens, see \"pawl tokens\"; with any in it everybody needs one", .fallback = "pawl.tokens"),
    OPTION(OPT_TEXT, "tls-cert", &serve_set.tls_cert, "FILE", "speak TLS, with this certificate (PEM, with those that lead to its authority)"),
    OPTION(OPT_TEXT, "tls-key", &serve_set.tls_key, "FILE", "the certificate's key (PEM)"),
    OPTION(OPT_LIST, "hosts", &serve_set.hosts, "NAME", "a name that clients may use for this server beside localhost; may be repeated"),
    OPTION(OPT_TEXT, "hooks", &serve_set.hooks, "FILE", "tell others' servers what happens: hooks and their secrets are kept here, see /v1/hooks"),
    OPTION(OPT_LIST, "hook-networks", &serve_set.hook_networks, "NETWORK", "private addresses that hooks may be sent to, like 10.1.0.0/16; may be repeated"),
    OPTION(OPT_TEXT, "prefix", &serve_set.prefix, "PATH", "of all paths, behind a proxy: /pawl"),
    OPTION(OPT_NAME, "name", &serve_set.name, "NAME", "of this node, for people (default: the host's name)"),
    OPTION(OPT_DURATION, "lease", &serve_set.lease_us, "DURATION", "of the tasks that it and its remote workers have: after its death others wait this long", .min = 1500 * PAWL_MILLISECOND, .max = PAWL_DAY, .fallback = "30s"),
    OPTION(OPT_INT, "threads", &serve_set.threads, "N", "threads that speak HTTP", .min = 1, .max = 64, .fallback = "2"),
    OPTION(OPT_INT, "desk-threads", &serve_set.desk_threads, "N", "threads that wait for the store", .min = 1, .max = 256, .fallback = "8"),
    OPTION(OPT_INT, "connections", &serve_set.connections, "N", "open at once; others are told to come back", .min = 1, .max = 1000000, .fallback = "10000"),
    OPTION(OPT_INT, "events", &serve_set.events, "N", "events kept for clients that come back", .min = 16, .max = 1000000, .fallback = "10000"),
    OPTION(OPT_INT, "payload-max", &serve_set.payload_max, "BYTES", "of a task's payload", .min = 1, .max = 64 << 20, .fallback = "1048576"),
    OPTION(OPT_DURATION, "head-timeout", &serve_set.head_us, "DURATION", "from connecting to the end of a request's headers", .min = 100 * PAWL_MILLISECOND, .max = PAWL_HOUR, .fallback = "10s"),
    OPTION(OPT_DURATION, "body-timeout", &serve_set.body_us, "DURATION", "for all of a request's body", .min = 100 * PAWL_MILLISECOND, .max = PAWL_DAY, .fallback = "1m"),
    OPTION(OPT_DURATION, "answer-timeout", &serve_set.answer_us, "DURATION", "for taking an answer", .min = 100 * PAWL_MILLISECOND, .max = PAWL_DAY, .fallback = "1m"),
    OPTION(OPT_DURATION, "idle-timeout", &serve_set.idle_us, "DURATION", "between two requests of a connection", .min = 100 * PAWL_MILLISECOND, .max = PAWL_DAY, .fallback = "75s"),
    OPTION(OPT_DURATION, "grace", &serve_set.grace_us, "DURATION", "how long requests and tasks may go on after the first signal", .max = PAWL_DAY, .fallback = "30s"),
    OPTION(OPT_CHOICE, "log-format", &serve_set.log_format, "FORMAT", "text or json", .choices = "text|json", .fallback = "text"),
    OPTION(OPT_CHOICE, "log-level", &serve_set.log_level, "LEVEL", "debug, info, warn or error", .choices = "debug|info|warn|error", .fallback = "info"),
    OPTION(OPT_TEXT, "redact", &serve_set.redact, "WORDS", "names whose values are masked wherever they are shown, beside password, token, cookie and the like: iban, -csrf (not that); none: not the usual ones"),
    OPTION(OPT_FLAG, "access-log", &serve_set.access_log, NULL, "a line for each request"),
    OPTION(OPT_FLAG, "demo", &serve_set.demo, NULL, "run a few handlers and feed them a trickle of tasks"),
    OPTIONS_END};
/* clang-format on */

/* Values that came from outside the command line, until they are read anew. */
static pawl_arena *texts;

static char *keep(const char *text)
{
    if (!texts) texts = arena_new(alloc_default(), TEXTS_MAX);
    return texts ? pawl_arena_bytes(texts, text, strlen(text)) : NULL;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t n = strlen(text);
    while (n && isspace((unsigned char)text[n - 1])) text[--n] = '\0';
    return text;
}

/* A list replaces what was said before. */
static pawl_status set_list(const opt *o, char *value, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    ((opt_list *)o->to)->count = 0;
    for (char *item; !status && (item = strsep(&value, ","));) {
        if (*(item = trim(item))) status = opts_set(o, item, err);
    }
    return status;
}

static pawl_status set_value(cli *c, const char *name, const char *value, pawl_error *err)
{
    const opt *o = serve_opts;
    char *kept = keep(value);
    if (!kept) return err_set(err, PAWL_NO_MEMORY, "out of memory");
    if (strcmp(name, "store") == 0) return c->store = kept, PAWL_OK;
    if (strcmp(name, "redact") == 0 && redaction_read(&(redaction){0}, kept, err)) return err->status;
    while (o->type != OPT_END && strcmp(o->name, name) != 0) o++;
    if (o->type != OPT_END && strcmp(name, "config") != 0)
        return o->type == OPT_LIST ? set_list(o, kept, err) : opts_set(o, kept, err);
    closest best = {0};
    for (o = serve_opts; o->type != OPT_END; o++) closest_try(&best, name, o->name);
    if (best.word) return err_set(err, PAWL_INVALID, "there is no setting \"%.60s\": did you mean \"%s\"?", name, best.word);
    return err_set(err, PAWL_INVALID, "there is no setting \"%.60s\": \"pawl config sample\" shows them all", name);
}

/* ---- the file ----------------------------------------------------------------------------------------------------------------- */

/* Where the reader is. */
typedef struct place {
    int number;      /* of the line */
    bool in_handler; /* settings belong to the last handler */
} place;

static pawl_status begin_section(char *line, place *at, pawl_error *err)
{
    size_t n = strlen(line);
    if (line[n - 1] != ']') return err_set(err, PAWL_INVALID, "a section ends in \"]\"");
    line[n - 1] = '\0';
    line = trim(line + 1);
    at->in_handler = strncmp(line, "handler", 7) == 0 && (!line[7] || isspace((unsigned char)line[7]));
    if (!at->in_handler) return PAWL_OK;
    if (!serve_set.handlers) serve_set.handlers = handler_list_new(alloc_default());
    if (!serve_set.handlers) return err_set(err, PAWL_NO_MEMORY, "out of memory");
    return handler_list_section(serve_set.handlers, trim(line + 7), at->number, err);
}

static pawl_status read_line(cli *c, char *line, place *at, pawl_error *err)
{
    line = trim(line);
    if (!*line || *line == '#' || *line == ';') return PAWL_OK;
    if (*line == '[') return begin_section(line, at, err);
    char *equals = strchr(line, '=');
    if (!equals) return err_set(err, PAWL_INVALID, "a setting is written name = value");
    *equals = '\0';
    char *name = trim(line);
    for (char *to = name; *to; to++) *to = *to == '_' ? '-' : *to;
    if (at->in_handler) return handler_list_set(serve_set.handlers, name, trim(equals + 1), at->number, err);
    return set_value(c, name, trim(equals + 1), err);
}

static pawl_status read_lines(cli *c, FILE *in, place *at, pawl_error *err)
{
    char line[LINE_MAX_BYTES];
    logger log;
    pawl_status status = PAWL_OK;
    for (at->number = 1; fgets(line, sizeof line, in); at->number++) {
        bool cut = strlen(line) == sizeof line - 1 && line[sizeof line - 2] != '\n';
        status = cut ? err_set(err, PAWL_INVALID, "the line is too long") : read_line(c, line, at, err);
        if (status) return status;
    }
    logger_init(&log, NULL, NULL, PAWL_WARN);
    return serve_set.handlers ? handler_list_check(serve_set.handlers, &log, &at->number, err) : PAWL_OK;
}

pawl_status serve_read_file(cli *c, const char *path, pawl_error *err)
{
    pawl_error why;
    place at = {0};
    FILE *in = fopen(path, "re");
    if (!in) return err_set(err, PAWL_NOT_FOUND, "could not read \"%s\": %s", path, strerror(errno));
    pawl_status status = read_lines(c, in, &at, &why);
    if (status) err_set(err, status, "\"%s\", line %d: %s", path, at.number, why.message);
    fclose(in);
    return status;
}

/* ---- the environment and the flags -------------------------------------------------------------------------------------------- */

static pawl_status read_environment(cli *c, pawl_error *err)
{
    char name[64];
    pawl_error why;
    for (const opt *o = serve_opts; o->type != OPT_END; o++) {
        if (strcmp(o->name, "config") == 0) continue;
        snprintf(name, sizeof name, "PAWL_%s", o->name);
        for (char *at = name; *at; at++) *at = *at == '-' ? '_' : (char)toupper((unsigned char)*at);
        const char *value = getenv(name);
        if (value && set_value(c, o->name, value, &why)) return err_set(err, why.status, "%s: %s", name, why.message);
    }
    return PAWL_OK;
}

/* The command line as it was: a command without arguments leaves it untouched. */
static pawl_status read_flags(cli *c, pawl_error *err)
{
    extern const opt global_opts[];
    const opt *tables[] = {serve_opts, global_opts, NULL};
    int argc = 0;
    while (c->args[argc]) argc++;
    bool listens = false, names = false, networks = false;
    for (int i = 1; i < argc; i++) {
        listens = listens || strncmp(c->args[i], "--listen", 8) == 0;
        names = names || strncmp(c->args[i], "--hosts", 7) == 0;
        networks = networks || strncmp(c->args[i], "--hook-networks", 15) == 0;
    }
    if (listens) serve_set.listen.count = 0;
    if (names) serve_set.hosts.count = 0;
    if (networks) serve_set.hook_networks.count = 0;
    for (int at = 1; at < argc;) {
        if (c->args[at][0] != '-') at++;
        else if (opts_take(tables, argc, c->args, &at, err)) return err->status;
    }
    return PAWL_OK;
}

static pawl_status read_all(cli *c, const char *config, pawl_error *err)
{
    serve_set = (serve_settings){.config = config};
    c->store = NULL;
    if (!opts_defaults(serve_opts, err)) return err->status;
    pawl_status status = config && *config ? serve_read_file(c, config, err) : PAWL_OK;
    if (getenv("PAWL_STORE")) c->store = NULL; /* it is the engine's to read */
    if (!status) status = read_environment(c, err);
    return status ? status : read_flags(c, err);
}

/* What was there before stays if it fails. */
pawl_status serve_configure(cli *c, pawl_error *err)
{
    static bool configured;
    serve_settings before = serve_set;
    pawl_arena *texts_before = texts;
    const char *store_before = c->store;
    texts = NULL;
    pawl_status status = read_all(c, before.config ? before.config : getenv("PAWL_CONFIG"), err);
    arena_free(status ? texts : texts_before);
    if (status || configured) handler_list_free(serve_set.handlers);
    if (configured) serve_set.handlers = before.handlers; /* the engine has them */
    configured = configured || !status;
    if (!status) return PAWL_OK;
    serve_set = before;
    texts = texts_before;
    c->store = store_before;
    return status;
}

/* ---- a sample ----------------------------------------------------------------------------------------------------------------- */

void serve_sample(FILE *out)
{
    fprintf(
        out,
        "# Settings of pawl serve. What stands here counts less than PAWL_NAME in the environment, and that less than a flag.\n"
        "# \"pawl config check FILE\" says whether it is right.\n\n"
        "# where tasks live\n# store = sqlite:pawl.db\n");
    for (const opt *o = serve_opts; o->type != OPT_END; o++) {
        if (strcmp(o->name, "config") == 0 || strcmp(o->name, "demo") == 0) continue;
        fprintf(out, "\n# %s\n# %s = %s\n", o->help, o->name,
                o->fallback           ? o->fallback
                : o->type == OPT_FLAG ? "false"
                                      : o->value);
    }
    handlers_sample(out);
}
