/* Mode `look`: what one call costs on a store that holds a lot: get, list with the usual filters, cancel.
 *
 * The tasks looked at are spread evenly over those that were stored beforehand. One more, of a type and a queue of its own, is older than
 * all of them: a list that asks for it has to find it below everything else.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "cli/bench.h"
#include <string.h>

#define NEEDLE "bench.needle"
#define PAGE 50
#define LIST_ROUNDS 20

static const struct {
    const char *name;
    pawl_filter filter;
} lists[BENCH_LISTS] = {{"all", {0}},
                        {"state=succeeded", {.state = "succeeded"}},
                        {"state=cancelled", {.state = "cancelled"}},
                        {"state=failed", {.state = "failed"}},
                        {"state=scheduled", {.state = "scheduled"}},
                        {"queue", {.queue = BENCH_QUEUE}},
                        {"type", {.type = BENCH_FILLER}},
                        {"rare queue", {.queue = NEEDLE}},
                        {"rare type", {.type = NEEDLE}},
                        {"key", {.key = NEEDLE}}};

const char *bench_list_name(int i) { return lists[i].name; }

/* Which of `count` tasks, from `from` on, are looked at. */
void bench_sample(bench_samples *s, const pawl_receipt *receipts, int count, int64_t from, int64_t of)
{
    int64_t step = of > BENCH_SAMPLES ? of / BENCH_SAMPLES : 1;
    for (int i = 0; i < count && s->count < BENCH_SAMPLES; i++)
        if ((from + i) % step == 0) s->ids[s->count++] = receipts[i].id;
}

pawl_status bench_look_prepare(bench *b, pawl_error *err)
{
    b->looks = alloc_new(alloc_default(), sizeof *b->looks);
    if (!b->looks) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    memset(b->looks, 0, sizeof *b->looks);
    pawl_task task = {.type = NEEDLE, .queue = NEEDLE, .key = NEEDLE, .payload = pawl_str("{}"), .delay_us = 60 * PAWL_DAY};
    return pawl_dispatch(b->p, &task, NULL, err);
}

static void check_state(bench *b, pawl_id id, pawl_state wanted)
{
    pawl_info *info = NULL;
    if (pawl_get(b->p, id, &info, NULL) || info->state != wanted) b->lost++;
    pawl_info_free(info);
}

static pawl_status look_get(bench *b, const bench_samples *of, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    for (int i = 0; i < of->count && !status; i++) {
        pawl_info *info = NULL;
        int64_t begin_ns = bench_now_ns();
        status = pawl_get(b->p, of->ids[i * INT64_C(7919) % of->count], &info, err);
        latency_add(&b->looks->get, bench_now_ns() - begin_ns);
        pawl_info_free(info);
    }
    return status;
}

static pawl_status look_list(bench *b, int which, pawl_error *err)
{
    pawl_filter filter = lists[which].filter;
    pawl_page *page = NULL;
    bool needle =
        filter.key || (filter.type && strcmp(filter.type, NEEDLE) == 0) || (filter.queue && strcmp(filter.queue, NEEDLE) == 0);
    filter.limit = PAGE;
    int64_t begin_ns = bench_now_ns();
    pawl_status status = pawl_list(b->p, &filter, &page, err);
    latency_add(&b->looks->list[which], bench_now_ns() - begin_ns);
    if (!status && needle && page->count == 0) b->lost++;
    pawl_page_free(page);
    return status;
}

static pawl_status look_cancel(bench *b, const bench_samples *of, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    for (int i = 0; i < of->count && !status; i++) {
        pawl_id id = of->ids[i * INT64_C(7919) % of->count];
        int64_t begin_ns = bench_now_ns();
        status = pawl_cancel(b->p, id, NULL, err);
        latency_add(&b->looks->cancel, bench_now_ns() - begin_ns);
    }
    for (int i = 0; i < of->count && !status; i++) check_state(b, of->ids[i], PAWL_CANCELLED);
    return status;
}

pawl_status bench_look(bench *b, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    for (int i = 0; i < b->looks->history.count; i++) check_state(b, b->looks->history.ids[i], PAWL_SUCCEEDED);
    if (b->looks->history.count) status = look_get(b, &b->looks->history, err);
    if (!status && b->looks->scheduled.count) status = look_get(b, &b->looks->scheduled, err);
    for (int round = 0; round < LIST_ROUNDS && !status; round++) {
        for (int i = 0; i < BENCH_LISTS && !status; i++) status = look_list(b, i, err);
        if (!status) status = bench_interrupted(b, err);
    }
    return status ? status : look_cancel(b, &b->looks->scheduled, err);
}
