/* pawl config check, sample. */
#include "base/error.h"
#include "cli/help.h"
#include "cli/serve.h"
#include <stdlib.h>

const char help_config_check[] =
    "Reads FILE (else $PAWL_CONFIG) and the environment as \"pawl serve\" would, and says what is wrong.\n"
    "\n"
    "Examples\n"
    "  pawl config check /etc/pawl.conf\n";
const char help_config_sample[] = "Every setting of \"pawl serve\" and its handlers, with its meaning and its default.\n"
                                  "\n"
                                  "Examples\n"
                                  "  pawl config sample > pawl.conf\n";

int cmd_config_check(cli *c)
{
    pawl_error err;
    const char *path = c->args_count ? c->args[0] : getenv("PAWL_CONFIG");
    if (!path || !*path) return cli_usage(c, "say which file, or set PAWL_CONFIG");
    if (!opts_defaults(serve_opts, &err) || serve_read_file(c, path, &err)) return cli_fail(c, &err);
    handler_list_free(serve_set.handlers);
    if (c->json) printf("{\"ok\":true}\n");
    else printf("%s is right\n", path);
    return 0;
}

int cmd_config_sample(cli *c)
{
    (void)c;
    serve_sample(stdout);
    return 0;
}
