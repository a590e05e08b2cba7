/* pawl backup: a consistent copy while the store is in use. */
#include "cli/cli.h"
#include "cli/help.h"

const char help_backup[] = "A consistent copy, made while the store is in use. The file must not exist.\n"
                           "\n"
                           "Examples\n"
                           "  pawl backup /var/backups/pawl-monday.db\n";

static bool backup_progress(void *ctx, int64_t done, int64_t total)
{
    const term *t = ctx;
    if (t->tty && total > 0) fprintf(stderr, "\r%3d%%", (int)(done * 100 / total));
    return true;
}

int cmd_backup(cli *c)
{
    pawl_error err;
    term err_term;
    int code = 0;
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    term_init(&err_term, stderr, true);
    pawl_status status = pawl_backup(p, c->args[0], backup_progress, &err_term, &err);
    if (err_term.tty) fprintf(stderr, "\r\033[K");
    if (status) code = cli_fail(c, &err);
    else if (c->json) {
        answer a;
        cli_json_begin(c, &a);
        jsonw_object(&a.w);
        json_text(&a.w, "file", c->args[0]);
        jsonw_end_object(&a.w);
        code = cli_json_end(c, &a);
    } else printf("copied to %s\n", c->args[0]);
    pawl_close(p);
    return code;
}
