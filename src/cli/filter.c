#include "cli/filter.h"

#include "base/alloc.h"

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

int for_each_id(cli *c, const char *done, const char *by, id_fn act)
{
    pawl_id *ids;
    int first = 0;
    if (!cli_ids(c, &ids, &first)) return first;
    pawl *p = cli_open_writing(c, &first);
    for (int i = 0; p && i < c->args_count; i++) {
        pawl_error err;
        pawl_receipt receipt = {0};
        if (!act(p, ids[i], by, &receipt, &err)) {
            print_done(c, ids[i], done, &receipt);
            continue;
        }
        int code = cli_fail(c, &err);
        if (!first) first = code;
    }
    if (p) pawl_close(p);
    alloc_free(alloc_default(), ids);
    return first;
}

int for_filter(cli *c, const pawl_filter *filter, bool all, const char *done, const char *by, filter_fn act)
{
    pawl_error err;
    int code = 0;
    int64_t count = 0;
    if (!all && !filter_given(filter)) return cli_usage(c, "say which: ids, a filter such as --queue or --type, or --all");
    pawl *p = cli_open_writing(c, &code);
    if (!p) return code;
    if (act(p, filter, by, &count, &err)) code = cli_fail(c, &err);
    else if (c->json) printf("{\"count\":%lld,\"done\":\"%s\"}\n", (long long)count, done);
    else printf("%lld %s\n", (long long)count, done);
    pawl_close(p);
    return code;
}
