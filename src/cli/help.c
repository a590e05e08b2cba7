#include "cli/help.h"

#include <string.h>

#define NAME_COLUMN 20
#define WIDEST 100

static int help_width(const cli *c) { return c->term.width && c->term.width < WIDEST ? c->term.width - 1 : WIDEST; }

/* Long lines are paragraphs and are wrapped; what is indented stands as it is. */
static void print_text(const cli *c, const char *text, FILE *out)
{
    int width = help_width(c);
    while (*text) {
        int n = (int)strcspn(text, "\n");
        char line[2048];
        snprintf(line, sizeof line, "%.*s", n, text);
        if (n > width && *line != ' ') term_wrap(out, line, 0, 0, width);
        else fprintf(out, "%s\n", line);
        text += text[n] ? n + 1 : n;
    }
}

static void print_command(const cli *c, const command *it, FILE *out)
{
    fprintf(out, "  %s%-*s%s%s\n", term_on(&c->term, BOLD), NAME_COLUMN, it->name, term_off(&c->term), it->summary);
}

int help_overview(const cli *c, FILE *out)
{
    const char *section = "";
    fprintf(out, "pawl %s: durable background tasks\n\nusage: pawl COMMAND [OPTIONS]\n", pawl_version());
    for (const command *it = commands; it->name; it++) {
        if (!it->section) continue;
        if (strcmp(section, it->section) != 0) fprintf(out, "\n%s\n", it->section);
        section = it->section;
        print_command(c, it, out);
    }
    fprintf(out, "\nOptions of every command\n");
    opts_help(global_opts, out, help_width(c));
    fprintf(out, "\nFirst steps\n"
                 "  pawl enqueue --type greet --payload '\"world\"'      hand over a task (the file pawl.db is made)\n"
                 "  pawl work -- cat                                    run tasks: payload in, result out\n"
                 "  pawl tasks list                                     see what became of them\n"
                 "\n\"pawl help COMMAND\" explains a command.\n");
    return 0;
}

int help_group(const cli *c, const char *group, FILE *out)
{
    size_t n = strlen(group);
    fprintf(out, "usage: pawl %s COMMAND [OPTIONS]\n\n", group);
    for (const command *it = commands; it->name; it++) {
        if (strncmp(it->name, group, n) == 0 && it->name[n] == ' ') print_command(c, it, out);
    }
    fprintf(out, "\n\"pawl help %s COMMAND\" explains a command.\n", group);
    return 0;
}

int help_command(const cli *c, const command *command, FILE *out)
{
    fprintf(out, "%spawl %s%s: %s\n\n", term_on(&c->term, BOLD), command->name, term_off(&c->term), command->summary);
    fprintf(out, "usage: pawl %s %s\n", command->name, command->usage);
    if (command->text) {
        fputc('\n', out);
        print_text(c, command->text, out);
    }
    if (command->opts) {
        fprintf(out, "\nOptions\n");
        opts_help(command->opts, out, help_width(c));
    }
    fprintf(out, "\nOptions of every command\n");
    opts_help(global_opts, out, help_width(c));
    return 0;
}

int cmd_help(cli *c)
{
    int words;
    if (c->args_count == 0) return help_overview(c, stdout);
    const char *first = c->args[0], *second = c->args_count > 1 ? c->args[1] : NULL;
    if (!second && is_group(first)) return help_group(c, first, stdout);
    const command *command = command_of(first, second, &words);
    if (command && (words == 2 || !second)) return help_command(c, command, stdout);
    c->command = NULL;
    return unknown_command(c, first, second);
}

int cmd_version(cli *c)
{
    if (!c->json) return printf("pawl %s\n", pawl_version()) > 0 ? 0 : EXIT_ACT;
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "version", pawl_version());
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}
