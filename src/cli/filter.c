#include "cli/filter.h"

#include "base/alloc.h"
#include "cli/remote.h"

bool filter_given(const pawl_filter *filter)
{
    return filter->state || filter->type || filter->queue || filter->tenant || filter->key || filter->since_us ||
           filter->until_us;
}

static void print_done(const cli *c, pawl_id id, const char *done, const pawl_receipt *receipt)
{
    char text[PAWL_ID_TEXT], next[PAWL_ID_TEXT];
    pawl_id_format(id, text);
    pawl_id_format(receipt->id, next);
    const char *outcome = receipt->id ? pawl_dispatched_name(receipt->outcome) : NULL;
    if (c->json && outcome)
        printf("{\"id\":\"%s\",\"done\":\"%s\",\"as\":\"%s\",\"outcome\":\"%s\"}\n", text, done, next, outcome);
    else if (c->json) printf("{\"id\":\"%s\",\"done\":\"%s\"}\n", text, done);
    else if (!outcome) printf("%s  %s\n", text, done);
    else printf("%s  %s as %s%s\n", text, done, next, receipt->outcome == PAWL_EXISTING ? " (already there)" : "");
}

static int each_on_store(cli *c, const pawl_id *ids, const deed *d, const char *by)
{
    int first = 0;
    pawl *p = cli_open_writing(c, &first);
    for (int i = 0; p && i < c->args_count; i++) {
        pawl_error err;
        pawl_receipt receipt = {0};
        if (!d->one(p, ids[i], by, &receipt, &err)) {
            print_done(c, ids[i], d->done, &receipt);
            continue;
        }
        int code = cli_fail(c, &err);
        if (!first) first = code;
    }
    if (p) pawl_close(p);
    return first;
}

int for_each_id(cli *c, const deed *d, const char *by)
{
    pawl_id *ids;
    int code;
    if (!cli_ids(c, &ids, &code)) return code;
    code = c->server ? remote_act_ids(c, d->path, ids, d->note, d->done, print_done) : each_on_store(c, ids, d, by);
    alloc_free(alloc_default(), ids);
    return code;
}

int for_filter(cli *c, const pawl_filter *filter, bool all, const deed *d, const char *by)
{
    pawl_error err;
    int code = 0;
    int64_t count = 0;
    if (!all && !filter_given(filter)) return cli_usage(c, "say which: ids, a filter such as --queue or --type, or --all");
    pawl *p = c->server ? NULL : cli_open_writing(c, &code);
    if (!p && !c->server) return code;
    pawl_status status = p ? d->where(p, filter, by, &count, &err) : remote_act_where(c, d->path, filter, d->note, &count, &err);
    if (status) code = cli_fail(c, &err);
    else if (c->json) printf("{\"count\":%lld,\"done\":\"%s\"}\n", (long long)count, d->done);
    else printf("%lld %s\n", (long long)count, d->done);
    if (p) pawl_close(p);
    return code;
}
