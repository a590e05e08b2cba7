/* A task with anything in it, and a filter with a cursor: refused with a reason, or stored so that every byte comes back, and found by a
 * list that its filter lets through. */
#include "base/text.h"
#include "fuzz/fuzz.h"
#include <string.h>

static pawl_task take_task(fuzz *in)
{
    pawl_task t = {.type = fuzz_text(in), .queue = fuzz_text(in), .key = fuzz_text(in), .tenant = fuzz_text(in)};
    t.created_by = fuzz_text(in);
    t.traceparent = fuzz_text(in);
    t.headers = fuzz_text(in);
    t.content_type = fuzz_text(in);
    t.priority = (int)fuzz_int(in);
    t.delay_us = fuzz_int(in);
    t.at_us = fuzz_int(in);
    t.max_attempts = (int)fuzz_int(in);
    t.timeout_us = fuzz_int(in);
    t.audit = (pawl_audit)fuzz_int(in);
    t.id = fuzz_int(in) % (INT64_C(1) << 62); /* as they are drawn until the year 2059 */
    t.rate_key = pawl_str(fuzz_text(in));
    return t;
}

static pawl_filter take_filter(fuzz *in)
{
    pawl_filter f = {.state = fuzz_text(in), .type = fuzz_text(in), .queue = fuzz_text(in), .tenant = fuzz_text(in)};
    f.key = fuzz_text(in);
    f.cursor = fuzz_text(in);
    f.since_us = fuzz_int(in);
    f.until_us = fuzz_int(in);
    f.limit = (int)fuzz_int(in);
    f.unresolved = fuzz_int(in);
    f.oldest_first = fuzz_int(in);
    return f;
}

static bool same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_bytes(pawl_bytes a, pawl_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

static void comes_back(pawl *p, pawl_id id, const pawl_task *t)
{
    pawl_error err;
    pawl_info *info;
    pawl_why_answer why;
    int64_t now_us = pawl_now(p);
    HOLDS(pawl_get(p, id, &info, &err) == PAWL_OK);
    HOLDS(same(info->type, t->type) && same(info->queue, t->queue ? t->queue : "default") && same(info->key, t->key));
    HOLDS(same(info->tenant, t->tenant) && same(info->created_by, t->created_by) && same(info->traceparent, t->traceparent));
    HOLDS(same(info->headers, t->headers) && same(info->content_type, t->content_type ? t->content_type : "application/json"));
    HOLDS(same_bytes(info->payload, t->payload) && same_bytes(info->rate_key, t->rate_key));
    HOLDS(info->priority == t->priority && info->max_attempts == t->max_attempts && info->state == PAWL_PENDING);
    HOLDS(info->run_at_us == (t->at_us > now_us ? t->at_us : now_us + t->delay_us));
    HOLDS(pawl_why(p, id, &why, &err) == PAWL_OK && utf8_valid(why.text, strlen(why.text)));
    pawl_info_free(info);
}

static bool matches(const pawl_filter *f, const pawl_task *t)
{
    const char *queue = t->queue ? t->queue : "default";
    return !f->state && !f->cursor && !f->since_us && !f->until_us && !f->unresolved && (!f->type || same(f->type, t->type)) &&
           (!f->queue || same(f->queue, queue)) && (!f->tenant || same(f->tenant, t->tenant)) &&
           (!f->key || same(f->key, t->key));
}

static void list(pawl *p, const pawl_filter *f, const pawl_task *stored)
{
    pawl_error err;
    pawl_page *page;
    int64_t count;
    pawl_status status = pawl_list(p, f, &page, &err);
    if (status) {
        fuzz_failed(status, &err);
        HOLDS(status == PAWL_INVALID && (f->cursor || pawl_cancel_where(p, f, NULL, &count, &err) == PAWL_INVALID));
        return;
    }
    HOLDS(page->count <= 1 && !page->next && (!stored || !matches(f, stored) || page->count == 1));
    HOLDS(page->count == 0 || stored);
    pawl_page_free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz in;
    pawl *p;
    pawl_error err;
    pawl_receipt receipt;
    fuzz_begin(&in, data, size);
    pawl_task t = take_task(&in);
    pawl_filter f = take_filter(&in);
    t.payload = fuzz_bytes(&in);
    pawl_options o = {
        .store = "memory:", .inline_mode = true, .inline_start_us = INT64_C(1800000000) * PAWL_SECOND, .payload_max = 64};
    if (pawl_open(&o, &p, &err) == PAWL_OK) {
        pawl_status status = pawl_dispatch_full(p, &t, &receipt, &err);
        if (status) fuzz_failed(status, &err);
        else comes_back(p, receipt.id, &t);
        list(p, &f, status ? NULL : &t);
        HOLDS(pawl_close(p) == 0);
    }
    fuzz_end(&in);
    return 0;
}
