/* pawl dead: failed tasks that nobody has dealt with yet. */
#include "cli/filter.h"
#include "cli/help.h"
#include "cli/remote.h"

const char help_dead_list[] = "A dead letter is a failed task that was neither retried nor acknowledged. It stays for 90 days.\n"
                              "\n"
                              "Examples\n"
                              "  pawl dead list --type email.send\n"
                              "  pawl dead list --all --json | jq -r .error | sort | uniq -c\n";
const char help_dead_retry[] = "Each one becomes a new task that points at the old one.\n"
                               "\n"
                               "Examples\n"
                               "  pawl dead retry 0KBX3QZT8H00C\n"
                               "  pawl dead retry --type email.send --since 1d\n";
const char help_dead_ack[] = "An acknowledged task counts as dealt with; it is removed 30 days later.\n"
                             "\n"
                             "Examples\n"
                             "  pawl dead ack 0KBX3QZT8H00C --note \"customer has left\"\n"
                             "  pawl dead ack --all --note \"old address book\"\n";

static struct {
    pawl_filter filter;
    int64_t limit;
    bool all;
    const char *by, *note;
} o;

#define WHICH                                                                                                                  \
    FILTER_NAMES(o.filter), OPTION(OPT_PAST, "since", &o.filter.since_us, "TIME", "created at or after: 2h (ago), or a time"), \
        OPTION(OPT_PAST, "until", &o.filter.until_us, "TIME", "created before")
#define BY OPTION(OPT_NAME, "by", &o.by, "NAME", "who does it, for the operator log (default: you)")

const opt dead_list_opts[] = {
    WHICH,
    OPTION(OPT_FLAG, "oldest-first", &o.filter.oldest_first, NULL, "oldest first"),
    OPTION(OPT_INT, "limit", &o.limit, "N", "how many, 1 to 1000", .min = 1, .max = 1000, .fallback = "50"),
    OPTION(OPT_TEXT, "cursor", &o.filter.cursor, "TEXT", "go on where the page before ended"),
    OPTION(OPT_FLAG, "all", &o.all, NULL, "all pages; with --json one task per line"),
    OPTIONS_END};

const opt dead_retry_opts[] = {WHICH, OPTION(OPT_FLAG, "all", &o.all, NULL, "all dead letters"), BY, OPTIONS_END};

const opt dead_ack_opts[] = {WHICH, OPTION(OPT_FLAG, "all", &o.all, NULL, "all dead letters"),
                             OPTION(OPT_TEXT, "note", &o.note, "TEXT", "why, for whoever asks later"), BY, OPTIONS_END};

static const char *by(void) { return o.by ? o.by : cli_person(); }

int cmd_dead_list(cli *c)
{
    int code;
    o.filter.limit = (int)o.limit;
    o.filter.state = "failed";
    o.filter.unresolved = true;
    if (c->server) return remote_list(c, &o.filter, o.all, true);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    code = task_page(c, p, &o.filter, o.all, true);
    pawl_close(p);
    return code;
}

static pawl_status ack_one(pawl *p, pawl_id id, const char *who, pawl_receipt *receipt, pawl_error *err)
{
    (void)receipt;
    return pawl_dead_ack(p, id, NULL, who, o.note, NULL, err);
}

static pawl_status ack_where(pawl *p, const pawl_filter *filter, const char *who, int64_t *count, pawl_error *err)
{
    return pawl_dead_ack(p, 0, filter, who, o.note, count, err);
}

static int act(cli *c, const deed *d)
{
    bool filtered = o.all || filter_given(&o.filter);
    if (c->args_count && filtered) return cli_usage(c, "give either ids or a filter, not both");
    return c->args_count ? for_each_id(c, d, by()) : for_filter(c, &o.filter, o.all, d, by());
}

int cmd_dead_retry(cli *c) { return act(c, &(deed){"retried", "/v1/dead/retry", NULL, pawl_retry_task, pawl_dead_retry}); }

int cmd_dead_ack(cli *c) { return act(c, &(deed){"acknowledged", "/v1/dead/ack", o.note, ack_one, ack_where}); }
