/* pawl completion: scripts for shells, made from the tables of commands and options, so they know what this build knows.
 *
 * All three do the same: find the command among the words so far, then offer commands, options, the choices of an option, files where
 * a file is meant, and commands of the system behind `work --`. They never open a store.
 */
#include "cli/cli.h"
#include "cli/help.h"
#include <string.h>

const char help_completion[] =
    "Prints a script that the shell reads. `make install` puts it where bash, zsh and fish find it by themselves.\n"
    "\n"
    "Examples\n"
    "  source <(pawl completion bash)                              for this shell\n"
    "  pawl completion zsh >~/.zsh/completions/_pawl               for good; the folder must be in $fpath\n"
    "  pawl completion fish >~/.config/fish/completions/pawl.fish  for good\n";

/* ---- walking the tables ------------------------------------------------------------------------------------------------------ */

static bool shown(const command *it) { return it->section != NULL; }

static size_t first_word(const command *it) { return strcspn(it->name, " "); }

/* Whether it is the first of its group, or alone. */
static bool opens_group(const command *it)
{
    size_t n = first_word(it);
    for (const command *other = commands; other != it; other++)
        if (shown(other) && first_word(other) == n && memcmp(other->name, it->name, n) == 0) return false;
    return true;
}

static bool takes_value(const opt *o) { return o->type != OPT_FLAG; }
static bool is_file(const char *value) { return value && strcmp(value, "FILE") == 0; }

static void print_first_words(void)
{
    for (const command *it = commands; it->name; it++)
        if (shown(it) && opens_group(it)) printf("%s%.*s", it == commands ? "" : " ", (int)first_word(it), it->name);
}

static void print_second_words(const command *group)
{
    size_t n = first_word(group);
    const char *space = "";
    for (const command *it = commands; it->name; it++) {
        if (!shown(it) || strncmp(it->name, group->name, n + 1) != 0) continue;
        printf("%s%s", space, it->name + n + 1);
        space = " ";
    }
}

static void print_words(const char *choices) /* "a|b" as "a b" */
{
    for (; *choices; choices++) putchar(*choices == '|' ? ' ' : *choices);
}

/* Within single quotes of a shell. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'') fputs("'\\''", stdout);
        else putchar(*text);
    }
    putchar('\'');
}

/* ---- bash -------------------------------------------------------------------------------------------------------------------- */

static void bash_options(const opt *table, const char *before)
{
    for (const opt *o = table; o && o->type != OPT_END; o++) {
        if (!o->help) continue;
        printf("%s--%s", before, o->name);
        before = " ";
    }
}

/* One arm of a case for each option with a value: what its values are. */
static void bash_values(const char *command, const opt *table)
{
    for (const opt *o = table; o && o->type != OPT_END; o++) {
        if (!o->help || !takes_value(o)) continue;
        printf("    %s--%s\") values='", command, o->name);
        if (o->choices) print_words(o->choices);
        printf("' kind=%s ;;\n", o->choices ? "words" : is_file(o->value) ? "files" : "any");
    }
}

static void bash_tables(void)
{
    printf("# What values the option $2 of the command $1 has; fails if it has none.\n"
           "_pawl_values()\n{\n    case \"$1 $2\" in\n");
    for (const command *it = commands; it->name; it++) {
        char name[64];
        if (!shown(it) || !it->opts) continue;
        snprintf(name, sizeof name, "\"%s ", it->name);
        bash_values(name, it->opts);
    }
    bash_values("*\" ", global_opts);
    printf("    *) return 1 ;;\n    esac\n}\n\n"
           "_pawl_options()\n{\n    case $1 in\n");
    for (const command *it = commands; it->name; it++) {
        if (!shown(it) || !it->opts) continue;
        printf("    '%s') options='", it->name);
        bash_options(it->opts, "");
        printf("' ;;\n");
    }
    printf("    *) options='' ;;\n    esac\n    options+='");
    bash_options(global_opts, " ");
    printf("'\n}\n\n"
           "_pawl_words()\n{\n    case $1 in\n    '') words='");
    print_first_words();
    printf("' ;;\n");
    for (const command *it = commands; it->name; it++) {
        if (!shown(it) || !it->name[first_word(it)] || !opens_group(it)) continue;
        printf("    %.*s | 'help %.*s') words='", (int)first_word(it), it->name, (int)first_word(it), it->name);
        print_second_words(it);
        printf("' ;;\n");
    }
    printf("    help) words='");
    print_first_words();
    printf("' ;;\n    completion) words='bash zsh fish' ;;\n    backup) kind=files ;;\n    *) words='' ;;\n    esac\n}\n\n");
}

static const char bash_body[] =
    "_pawl()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' waits='' word i options words values kind\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ $word == = ]]; then\n"
    "            waits=yes\n"
    "        elif [[ -n $waits ]]; then\n"
    "            waits=''\n"
    "        elif [[ $word == -- ]]; then\n"
    "            if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- \"$cur\")); else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
    "            return\n"
    "        elif [[ $word == -* ]]; then\n"
    "            _pawl_values \"$command\" \"$word\" && waits=yes\n"
    "        else\n"
    "            words=''\n"
    "            _pawl_words \"$command\"\n"
    "            [[ \" $words \" == *\" $word \"* ]] && command=${command:+$command }$word\n"
    "        fi\n"
    "    done\n"
    "    [[ $cur == = ]] && cur=''\n"
    "    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    kind='' values='' options='' words=''\n"
    "    if [[ $prev == -* ]] && _pawl_values \"$command\" \"$prev\"; then\n"
    "        if [[ $kind == files ]]; then COMPREPLY=($(compgen -f -- \"$cur\")); else COMPREPLY=($(compgen -W \"$values\" -- \"$cur\")); fi\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        _pawl_options \"$command\"\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
    "    else\n"
    "        _pawl_words \"$command\"\n"
    "        if [[ $kind == files ]]; then COMPREPLY=($(compgen -f -- \"$cur\")); else COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); fi\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -o filenames -F _pawl pawl\n";

static void print_bash(void)
{
    printf("# bash completion of pawl %s, printed by `pawl completion bash`.\n\n", pawl_version());
    bash_tables();
    fputs(bash_body, stdout);
}

/* ---- zsh --------------------------------------------------------------------------------------------------------------------- */

/* Within _arguments specs, brackets and colons have a meaning. */
static void print_zsh_text(const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text)) putchar('\\');
        if (*text == '\'') fputs("'\\''", stdout);
        else putchar(*text);
    }
}

static void zsh_option(const opt *o)
{
    printf("        '%s--%s%s[", o->type == OPT_LIST ? "*" : "", o->name, takes_value(o) ? "=" : "");
    print_zsh_text(o->help);
    printf("]");
    if (takes_value(o)) {
        printf(":%s:", o->value ? o->value : "value");
        if (o->choices) {
            putchar('(');
            print_words(o->choices);
            putchar(')');
        } else if (is_file(o->value)) printf("_files");
    }
    printf("'\n");
}

static void zsh_options(const opt *table)
{
    for (const opt *o = table; o && o->type != OPT_END; o++)
        if (o->help) zsh_option(o);
}

/* With no rest at all, options behind an argument would not be offered. */
static void zsh_arguments(const command *it)
{
    if (strcmp(it->name, "help") == 0) {
        printf("        '1:command:(");
        print_first_words();
        printf(")'\n");
    }
    if (strcmp(it->name, "backup") == 0) printf("        '1:file:_files'\n");
    else if (strcmp(it->name, "completion") == 0) printf("        '1:shell:(bash zsh fish)'\n");
    else printf("        '*: :()'\n");
}

static void zsh_words(const char *group, size_t n)
{
    for (const command *it = commands; it->name; it++) {
        if (!shown(it) || (group ? strncmp(it->name, group, n + 1) != 0 : !opens_group(it))) continue;
        bool many = !group && it->name[first_word(it)];
        printf("            '%.*s:", group ? 40 : (int)first_word(it), group ? it->name + n + 1 : it->name);
        if (many) {
            print_second_words(it);
        } else print_zsh_text(it->summary);
        printf("'\n");
    }
}

static void print_zsh(void)
{
    printf("#compdef pawl\n# zsh completion of pawl %s, printed by `pawl completion zsh`.\n\n"
           "_pawl()\n{\n    local -a specs words_now every\n    local command='' word waits='' i\n    every=(\n",
           pawl_version());
    zsh_options(global_opts);
    printf("    )\n"
           "    i=${words[(i)--]}\n"
           "    if ((i < CURRENT)); then\n"
           "        words=(\"${(@)words[i + 1,-1]}\")\n        ((CURRENT -= i))\n        _normal\n        return\n    fi\n"
           "    for ((i = 2; i < CURRENT; i++)); do\n"
           "        word=${words[i]}\n"
           "        if [[ -n $waits ]]; then waits=''; continue; fi\n"
           "        case $word in\n        --store) waits=yes ;;\n        -*) [[ -n $command ]] && break ;;\n"
           "        *) command=${command:+$command }$word\n           case $command in\n           ");
    const char *bar = "";
    for (const command *it = commands; it->name; it++) {
        if (!shown(it) || !it->name[first_word(it)] || !opens_group(it)) continue;
        printf("%s%.*s", bar, (int)first_word(it), it->name);
        bar = "|";
    }
    printf(") ;;\n           *) break ;;\n           esac ;;\n        esac\n    done\n"
           "    case $command in\n    '')\n        words_now=(\n");
    zsh_words(NULL, 0);
    printf(
        "        )\n        if [[ $PREFIX == -* ]]; then _arguments \"$every[@]\"; else _describe command words_now; fi\n        return ;;\n");
    for (const command *it = commands; it->name; it++) {
        if (!shown(it) || !it->name[first_word(it)] || !opens_group(it)) continue;
        printf("    %.*s)\n        words_now=(\n", (int)first_word(it), it->name);
        zsh_words(it->name, first_word(it));
        printf("        )\n        _describe command words_now\n        return ;;\n");
    }
    for (const command *it = commands; it->name; it++) {
        if (!shown(it)) continue;
        printf("    '%s') specs=(\n", it->name);
        zsh_options(it->opts);
        zsh_arguments(it);
        printf("        ) ;;\n");
    }
    printf("    esac\n"
           "    words=(pawl \"${(@)words[i + 1,-1]}\")\n"
           "    ((CURRENT -= i - 1))\n"
           "    _arguments \"$specs[@]\" \"$every[@]\"\n"
           "}\n\n_pawl \"$@\"\n");
}

/* ---- fish -------------------------------------------------------------------------------------------------------------------- */

static void fish_option(const char *when, const opt *o)
{
    printf("complete -c pawl%s -l %s", when, o->name);
    if (takes_value(o)) fputs(is_file(o->value) ? " -r -F" : " -x", stdout);
    if (o->choices) {
        printf(" -a '");
        print_words(o->choices);
        putchar('\'');
    }
    printf(" -d ");
    print_quoted(o->help);
    putchar('\n');
}

static void fish_options(const char *when, const opt *table)
{
    for (const opt *o = table; o && o->type != OPT_END; o++)
        if (o->help) fish_option(when, o);
}

static void fish_command(const command *it)
{
    char when[128];
    size_t n = first_word(it);
    bool second = it->name[n];
    if (!second) printf("complete -c pawl -n '__pawl_at \"\"' -f -a %s -d ", it->name);
    else printf("complete -c pawl -n '__pawl_at %.*s' -f -a %s -d ", (int)n, it->name, it->name + n + 1);
    print_quoted(it->summary);
    putchar('\n');
    snprintf(when, sizeof when, " -n '__pawl_at \"%s\"'", it->name);
    fish_options(when, it->opts);
}

static void print_fish(void)
{
    printf("# fish completion of pawl %s, printed by `pawl completion fish`.\n\n"
           "# Whether the words so far make up this command and no more of one.\n"
           "function __pawl_at\n"
           "    set -l command\n    set -l waits\n"
           "    for word in (commandline -opc)[2..-1]\n"
           "        if set -q waits[1]\n            set waits\n            continue\n        end\n"
           "        switch $word\n            case --store\n                set waits yes\n            case '-*'\n"
           "            case '*'\n"
           "                switch \"$command\"\n                    case ''",
           pawl_version());
    for (const command *it = commands; it->name; it++)
        if (shown(it) && it->name[first_word(it)] && opens_group(it)) printf(" %.*s", (int)first_word(it), it->name);
    printf("\n                        set command $command $word\n                end\n        end\n    end\n"
           "    test \"$command\" = \"$argv[1]\"\nend\n\n"
           "complete -c pawl -f\n");
    fish_options("", global_opts);
    for (const command *it = commands; it->name; it++) {
        if (!shown(it)) continue;
        if (it->name[first_word(it)] && opens_group(it)) {
            printf("complete -c pawl -n '__pawl_at \"\"' -f -a %.*s -d '", (int)first_word(it), it->name);
            print_second_words(it);
            printf("'\n");
        }
        fish_command(it);
    }
    printf("complete -c pawl -n '__pawl_at backup' -F\n"
           "complete -c pawl -n '__pawl_at completion' -f -a 'bash zsh fish'\n"
           "complete -c pawl -n '__pawl_at help' -f -a '");
    print_first_words();
    printf("'\n");
}

int cmd_completion(cli *c)
{
    const char *shell = c->args[0];
    if (strcmp(shell, "bash") == 0) print_bash();
    else if (strcmp(shell, "zsh") == 0) print_zsh();
    else if (strcmp(shell, "fish") == 0) print_fish();
    else return cli_usage(c, "there is no completion for \"%s\": there is one for bash, zsh and fish", shell);
    return 0;
}
