/* pawl migrate status, up, sql: the schema of a store.
 *
 * A migration that only adds (expanding) needs nobody: the next program that opens the store to write applies it. One that older
 * programs would trip over waits for `migrate up`; then, and when the store is newer than this build can use, a person must act.
 */
#include "cli/cli.h"
#include "cli/help.h"

const char help_migrate_status[] =
    "Shows the number of the store's schema, what this build has, and which migrations are pending. Changes nothing. The exit "
    "status is 1 when a person must act: a pending migration is not expanding, or the store is newer than this build can use.\n";
const char help_migrate_up[] =
    "Applies what is pending, in one transaction, while the store is in use. Expanding migrations only add: older programs go on "
    "working. After any other, programs that know too little refuse to write, and say so: update them too.\n"
    "\n"
    "Examples\n"
    "  pawl migrate up --dry-run          see what would be done\n";
const char help_migrate_sql[] = "For reading. `pawl migrate up` applies it, and records the number of the schema with it.\n"
                                "\n"
                                "Examples\n"
                                "  pawl migrate sql --all | less\n";

static bool dry_run, all;

const opt migrate_up_opts[] = {OPTION(OPT_FLAG, "dry-run", &dry_run, NULL, "only say what would be done"), OPTIONS_END};
const opt migrate_sql_opts[] = {OPTION(OPT_FLAG, "all", &all, NULL, "also of what the store has already"), OPTIONS_END};

static pawl_schema *look(cli *c, int *code)
{
    pawl_error err;
    pawl_schema *schema = NULL;
    if (pawl_get_schema(&(pawl_options){.store = c->store}, &schema, &err)) *code = cli_fail(c, &err);
    return schema;
}

static bool must_act(const pawl_schema *s) { return !s->fits || s->closing; }

/* ---- for programs ------------------------------------------------------------------------------------------------------------ */

static void migration_json(json_writer *w, const pawl_migration *m)
{
    jsonw_object(w);
    json_number(w, "number", m->number);
    json_text(w, "name", m->name);
    json_truth(w, "expanding", m->expanding);
    json_truth(w, "pending", m->pending);
    jsonw_end_object(w);
}

static int schema_json(const cli *c, const pawl_schema *s, const char *key, bool value)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_number(&a.w, "schema", s->stored);
    json_number(&a.w, "min_reader", s->min_reader);
    json_number(&a.w, "known", s->known);
    json_text(&a.w, "written_by", s->written_by);
    json_truth(&a.w, "fits", s->fits);
    json_number(&a.w, "pending", (int64_t)s->pending);
    if (key) json_truth(&a.w, key, value);
    jsonw_key(&a.w, "migrations");
    jsonw_array(&a.w);
    for (size_t i = 0; i < s->count; i++) migration_json(&a.w, &s->migrations[i]);
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

/* ---- for people -------------------------------------------------------------------------------------------------------------- */

static bool migrations_table(const cli *c, const pawl_schema *s)
{
    table t;
    table_init(&t, &c->term);
    table_column(&t, "NUMBER", COLUMN_RIGHT);
    table_column(&t, "MIGRATION", COLUMN_LEFT);
    table_column(&t, "STATE", COLUMN_LEFT);
    table_column(&t, "KIND", COLUMN_LEFT);
    for (size_t i = 0; i < s->count; i++) {
        const pawl_migration *m = &s->migrations[i];
        table_cell(&t, PLAIN, "%d", m->number);
        table_cell(&t, BOLD, "%s", m->name);
        table_cell(&t, m->pending ? YELLOW : GREEN, "%s", m->pending ? "pending" : "applied");
        table_cell(&t, m->expanding ? PLAIN : RED, "%s", m->expanding ? "expanding" : "closes older programs out");
    }
    return table_print(&t, stdout);
}

static void say_what_to_do(const pawl_schema *s)
{
    if (!s->fits)
        printf("Update this program: it knows schema %lld, and the store needs at least %lld.\n", (long long)s->known,
               (long long)s->min_reader);
    else if (s->closing) printf("Stop the programs that are older than this one, then run: pawl migrate up\n");
    else if (s->pending > 0 && s->stored == 0)
        printf("The store is empty: the first program that writes to it brings the schema.\n");
    else if (s->pending > 0) printf("The next program that opens the store to write brings it there; so does: pawl migrate up\n");
    else if (s->stored > s->known) printf("The store is newer than this build, which can use it all the same. Nothing to do.\n");
    else printf("Nothing to do.\n");
}

static int status_text(const cli *c, const pawl_schema *s)
{
    if (!s->known) return printf("A store of this kind has no schema. Nothing to do.\n") > 0 ? 0 : EXIT_ACT;
    if (s->stored == 0) printf("store       empty\n");
    else
        printf("store       schema %lld, brought by pawl %s; programs must know schema %lld or later\n", (long long)s->stored,
               s->written_by, (long long)s->min_reader);
    printf("this build  schema %lld, pawl %s\n\n", (long long)s->known, pawl_version());
    if (!migrations_table(c, s)) return cli_no_memory(c);
    putchar('\n');
    say_what_to_do(s);
    return 0;
}

/* ---- commands ---------------------------------------------------------------------------------------------------------------- */

int cmd_migrate_status(cli *c)
{
    int code = 0;
    pawl_schema *s = look(c, &code);
    if (!s) return code;
    code = c->json ? schema_json(c, s, "act", must_act(s)) : status_text(c, s);
    if (!code && must_act(s)) code = EXIT_ACT;
    pawl_schema_free(s);
    return code;
}

static void print_steps(const pawl_schema *s, const char *verb)
{
    for (size_t i = 0; i < s->count; i++) {
        const pawl_migration *m = &s->migrations[i];
        if (m->pending)
            printf("%s %d %s (%s)\n", verb, m->number, m->name, m->expanding ? "expanding" : "closes older programs out");
    }
    if (s->pending == 0) printf("Nothing to do: the store has schema %lld.\n", (long long)s->stored);
}

/* What was pending before; a store that this build cannot use says so in pawl_migrate. */
int cmd_migrate_up(cli *c)
{
    pawl_error err;
    int code = 0;
    pawl_schema *s = look(c, &code);
    if (!s) return code;
    bool apply = !dry_run || !s->fits;
    if (apply && pawl_migrate(&(pawl_options){.store = c->store}, &err)) code = cli_fail(c, &err);
    else if (c->json) code = schema_json(c, s, "applied", apply && s->pending > 0);
    else if (!s->known) printf("A store of this kind has no schema. Nothing to do.\n");
    else print_steps(s, apply ? "applied" : "would apply");
    pawl_schema_free(s);
    return code;
}

int cmd_migrate_sql(cli *c)
{
    int code = 0;
    size_t shown = 0;
    pawl_schema *s = look(c, &code);
    if (!s) return code;
    for (size_t i = 0; i < s->count; i++) {
        const pawl_migration *m = &s->migrations[i];
        if (!m->pending && !all) continue;
        printf("%s-- %04d_%s: %s, %s\n%s", shown++ ? "\n" : "", m->number, m->name,
               m->expanding ? "expanding" : "closes older programs out", m->pending ? "pending" : "applied", m->sql);
    }
    if (!shown) fprintf(stderr, "nothing is pending%s\n", s->count ? "; --all shows everything" : "");
    pawl_schema_free(s);
    return code;
}
