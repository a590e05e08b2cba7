/* The bodies of pawl.h that take an engine: enter the handle, check what can be checked here, call, leave. */
#include "runtime/told.h"

/* Enters the engine for the rest of the function; `status` is its answer. */
#define ENTER(p)                                      \
    runtime *rt;                                      \
    pawl_status status = handle_enter((p), &rt, err); \
    if (status) return status
#define LEAVE(p) return handle_leave(p), status

static pawl_status null(const char *what, pawl_error *err) { return err_set(err, PAWL_INVALID, "%s is NULL", what); }

static pawl_status not_inside(const runtime *rt, const char *function, pawl_error *err)
{
    if (work_inside == rt)
        return err_set(err, PAWL_MISUSE, "%s cannot be called from inside a handler of the same engine", function);
    if (loop_is_here(rt)) return err_set(err, PAWL_MISUSE, "%s cannot be called from a callback of the same engine", function);
    return PAWL_OK;
}

/* ---- open and close ------------------------------------------------------------------------------------------------------ */

pawl_status pawl_open(const pawl_options *options, pawl **out, pawl_error *err)
{
    if (!out) return null("out", err);
    runtime *rt;
    pawl_status status = runtime_open(options, &rt, err);
    if (!status) *out = rt->handle;
    return status;
}

int pawl_close(pawl *p)
{
    if (!p) return 0;
    runtime *rt = NULL;
    pawl_error err = {0};
    pawl_status status = handle_enter(p, &rt, &err);
    if (!status) {
        status = not_inside(rt, "pawl_close", &err);
        handle_leave(p);
    }
    if (!status) status = handle_closing(p, &rt);
    if (!status) status = runtime_close(rt, &err);
    return pawl_status_exit_code(status);
}

const char *pawl_store_url(pawl *p)
{
    runtime *rt;
    if (handle_enter(p, &rt, NULL)) return "";
    handle_leave(p);
    return rt->url;
}

pawl_status pawl_store_settings(pawl *p, char *out, size_t size, pawl_error *err)
{
    if (!out || !size) return null("out", err);
    ENTER(p);
    status = look_settings(rt, out, size, err);
    LEAVE(p);
}

int64_t pawl_now(pawl *p)
{
    runtime *rt;
    if (handle_enter(p, &rt, NULL)) return 0;
    int64_t now = rt->clock.wall_us(rt->clock.ctx);
    handle_leave(p);
    return now;
}

pawl_status pawl_queue(pawl *p, const pawl_queue_options *options, pawl_error *err)
{
    ENTER(p);
    status = config_queue(rt, options, err);
    LEAVE(p);
}

pawl_status pawl_add_workers(pawl *p, const char *queue, int count, bool nobody, pawl_error *err)
{
    ENTER(p);
    status = pool_add_workers(rt, queue, count, nobody, err);
    LEAVE(p);
}

int64_t pawl_lease_left(pawl *p)
{
    runtime *rt;
    if (handle_enter(p, &rt, NULL)) return 0;
    int64_t left = atomic_load(&rt->lease_until_us) - rt->clock.boot_us(rt->clock.ctx);
    handle_leave(p);
    return left > 0 ? left : 0;
}

pawl_status pawl_handle(pawl *p, const pawl_handler *handler, pawl_error *err)
{
    ENTER(p);
    status = config_handler(rt, handler, err);
    LEAVE(p);
}

pawl_status pawl_start(pawl *p, pawl_error *err)
{
    ENTER(p);
    status = runtime_start(rt, err);
    LEAVE(p);
}

pawl_status pawl_drain(pawl *p, int64_t timeout_us, pawl_error *err)
{
    ENTER(p);
    status = not_inside(rt, "pawl_drain", err);
    if (!status) status = runtime_drain(rt, timeout_us, err);
    LEAVE(p);
}

pawl_status pawl_stop(pawl *p, pawl_error *err)
{
    ENTER(p);
    status = not_inside(rt, "pawl_stop", err);
    if (!status) status = runtime_stop(rt, err);
    LEAVE(p);
}

/* ---- inline mode --------------------------------------------------------------------------------------------------------- */

static pawl_status is_inline(const runtime *rt, const char *function, pawl_error *err)
{
    if (!rt->options.inline_mode) return err_set(err, PAWL_MISUSE, "%s needs an engine opened with inline_mode", function);
    return not_inside(rt, function, err);
}

pawl_status pawl_run_due(pawl *p, int64_t *count, pawl_error *err)
{
    ENTER(p);
    status = is_inline(rt, "pawl_run_due", err);
    int64_t runs = status ? 0 : inline_run_due(rt);
    if (!status && count) *count = runs;
    LEAVE(p);
}

pawl_status pawl_advance(pawl *p, int64_t by_us, int64_t *count, pawl_error *err)
{
    ENTER(p);
    status = is_inline(rt, "pawl_advance", err);
    if (!status && (by_us < 0 || by_us > INT64_C(36525) * PAWL_DAY))
        status =
            err_set(err, PAWL_INVALID, "the clock cannot move by %lld us: forward, and less than a century", (long long)by_us);
    int64_t runs = status ? 0 : inline_advance(rt, by_us);
    if (!status && count) *count = runs;
    LEAVE(p);
}

/* ---- dispatch ------------------------------------------------------------------------------------------------------------ */

pawl_status pawl_dispatch_full(pawl *p, const pawl_task *task, pawl_receipt *receipt, pawl_error *err)
{
    ENTER(p);
    status = dispatch_one(rt, task, receipt, err);
    LEAVE(p);
}

pawl_status pawl_dispatch(pawl *p, const pawl_task *task, pawl_id *id, pawl_error *err)
{
    pawl_receipt receipt = {0};
    pawl_status status = pawl_dispatch_full(p, task, &receipt, err);
    if (id && (status == PAWL_OK || status == PAWL_UNKNOWN)) *id = receipt.id;
    return status;
}

pawl_status pawl_dispatch_bulk(pawl *p, const pawl_task *tasks, size_t n, pawl_receipt *receipts, pawl_error *err)
{
    ENTER(p);
    status = dispatch_bulk(rt, tasks, n, receipts, err);
    LEAVE(p);
}

pawl_status pawl_dispatch_async(pawl *p, const pawl_task *task, pawl_dispatch_fn done, void *ctx, pawl_error *err)
{
    ENTER(p);
    status = dispatch_async(rt, task, done, ctx, err);
    LEAVE(p);
}

pawl_status pawl_dispatch_sqlite(pawl *p, struct sqlite3 *db, const pawl_task *task, pawl_receipt *receipt, pawl_error *err)
{
    ENTER(p);
    status = dispatch_within(rt, "sqlite", db, task, receipt, err);
    LEAVE(p);
}

pawl_status pawl_dispatch_pg(pawl *p, struct pg_conn *pg, const pawl_task *task, pawl_receipt *receipt, pawl_error *err)
{
    ENTER(p);
    status = dispatch_within(rt, "postgres", pg, task, receipt, err);
    LEAVE(p);
}

pawl_status pawl_dispatch_mysql(pawl *p, struct st_mysql *my, const pawl_task *task, pawl_receipt *receipt, pawl_error *err)
{
    ENTER(p);
    status = dispatch_within(rt, "mysql", my, task, receipt, err);
    LEAVE(p);
}

void pawl_committed(pawl *p)
{
    runtime *rt;
    if (handle_enter(p, &rt, NULL)) return;
    if (!loop_is_here(rt)) {
        loop_enter(rt, -1);
        core_wake(rt->core, runtime_now(rt));
        loop_leave(rt);
        waits_wake(rt, NULL);
    }
    handle_leave(p);
}

/* ---- acting -------------------------------------------------------------------------------------------------------------- */

pawl_status pawl_pause(pawl *p, const char *queue, const char *by, pawl_error *err)
{
    ENTER(p);
    status = ops_pause(rt, queue, true, by, err);
    LEAVE(p);
}

pawl_status pawl_drain_node(pawl *p, int64_t node, bool on, const char *by, pawl_error *err)
{
    ENTER(p);
    status = runtime_drain_node(rt, node, on, by, err);
    LEAVE(p);
}

pawl_status pawl_resume(pawl *p, const char *queue, const char *by, pawl_error *err)
{
    ENTER(p);
    status = ops_pause(rt, queue, false, by, err);
    LEAVE(p);
}

pawl_status pawl_cancel(pawl *p, pawl_id id, const char *by, pawl_error *err)
{
    ENTER(p);
    status = ops_cancel(rt, id, by, err);
    LEAVE(p);
}

pawl_status pawl_cancel_where(pawl *p, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err)
{
    ENTER(p);
    status = ops_cancel_where(rt, filter, by, count, err);
    LEAVE(p);
}

pawl_status pawl_retry_task(pawl *p, pawl_id id, const char *by, pawl_receipt *receipt, pawl_error *err)
{
    ENTER(p);
    status = ops_retry(rt, id, by, receipt, err);
    LEAVE(p);
}

pawl_status pawl_dead_retry(pawl *p, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err)
{
    ENTER(p);
    status = ops_dead_retry(rt, filter, by, count, err);
    LEAVE(p);
}

pawl_status pawl_dead_ack(pawl *p, pawl_id id, const pawl_filter *filter, const char *by, const char *note, int64_t *count,
                          pawl_error *err)
{
    ENTER(p);
    status = ops_dead_ack(rt, id, filter, by, note, count, err);
    LEAVE(p);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

pawl_status pawl_get(pawl *p, pawl_id id, pawl_info **out, pawl_error *err)
{
    ENTER(p);
    status = out ? valid_id(id, err) : null("out", err);
    if (!status) status = look_get(rt, id, out, err);
    if (!status) told_show(rt, out, 1);
    LEAVE(p);
}

pawl_status pawl_list(pawl *p, const pawl_filter *filter, pawl_page **out, pawl_error *err)
{
    ENTER(p);
    status = out ? look_list(rt, filter, out, err) : null("out", err);
    if (!status) told_show_page(rt, filter, *out);
    LEAVE(p);
}

pawl_status pawl_get_trail(pawl *p, pawl_id id, pawl_trail **out, pawl_error *err)
{
    ENTER(p);
    status = out ? valid_id(id, err) : null("out", err);
    if (!status) status = look_trail(rt, id, out, err);
    LEAVE(p);
}

pawl_status pawl_why(pawl *p, pawl_id id, pawl_why_answer *answer, pawl_error *err)
{
    ENTER(p);
    status = answer ? valid_id(id, err) : null("answer", err);
    if (!status) status = why_explain(rt, id, answer, err);
    LEAVE(p);
}

pawl_status pawl_wait(pawl *p, pawl_id id, int64_t timeout_us, pawl_state *state, pawl_error *err)
{
    ENTER(p);
    status = valid_id(id, err);
    if (!status) status = not_inside(rt, "pawl_wait", err);
    if (!status && rt->options.read_only)
        status =
            err_set(err, PAWL_MISUSE, "%s was opened read_only and does not hear of commits: open it without to wait", rt->url);
    if (!status) status = waits_for(rt, id, timeout_us, state, err);
    LEAVE(p);
}

pawl_status pawl_get_stats(pawl *p, int64_t window_us, pawl_stats **out, pawl_error *err)
{
    ENTER(p);
    status = out ? look_stats(rt, window_us, NULL, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_get_nodes(pawl *p, pawl_nodes **out, pawl_error *err)
{
    ENTER(p);
    status = out ? look_nodes(rt, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_follow(pawl *p, int64_t after, int64_t timeout_us, int most, pawl_facts **out, pawl_error *err)
{
    ENTER(p);
    status = out ? not_inside(rt, "pawl_follow", err) : null("out", err);
    if (!status) status = feed_follow(rt, after, timeout_us, most, out, err);
    LEAVE(p);
}

pawl_status pawl_get_acts(pawl *p, int64_t before, int limit, pawl_acts **out, pawl_error *err)
{
    ENTER(p);
    status = out ? look_acts(rt, before, limit, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_get_limits(pawl *p, const pawl_limit_filter *filter, pawl_limits **out, pawl_error *err)
{
    ENTER(p);
    status = out ? limits_get(rt, filter, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_set_limit(pawl *p, const char *type, pawl_bytes key, const pawl_rate *rate, const char *by, pawl_error *err)
{
    ENTER(p);
    status = rate ? limits_set(rt, type, key, rate, by, err) : null("the rate", err);
    LEAVE(p);
}

pawl_status pawl_pause_limit(pawl *p, const char *type, pawl_bytes key, const char *by, pawl_error *err)
{
    ENTER(p);
    status = limits_pause(rt, type, key, true, by, err);
    LEAVE(p);
}

pawl_status pawl_resume_limit(pawl *p, const char *type, pawl_bytes key, const char *by, pawl_error *err)
{
    ENTER(p);
    status = limits_pause(rt, type, key, false, by, err);
    LEAVE(p);
}

pawl_status pawl_get_places(pawl *p, const pawl_place_filter *filter, pawl_places **out, pawl_error *err)
{
    ENTER(p);
    status = out ? places_get(rt, filter, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_set_concurrency(pawl *p, pawl_scope scope, const char *name, pawl_bytes key, int most, bool ordered,
                                 const char *by, pawl_error *err)
{
    ENTER(p);
    status = places_set(rt, scope, name, key, most, ordered, by, err);
    LEAVE(p);
}

pawl_status pawl_get_health(pawl *p, pawl_health *out, pawl_error *err)
{
    ENTER(p);
    status = look_health(rt, out, err);
    LEAVE(p);
}

pawl_status pawl_subscribe(pawl *p, size_t capacity, pawl_subscription **out, pawl_error *err)
{
    ENTER(p);
    status = events_subscribe(rt, capacity, out, err);
    LEAVE(p);
}

pawl_status pawl_backup(pawl *p, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err)
{
    ENTER(p);
    if (!path || !path[0]) status = null("the path", err);
    else status = store_backup(rt->store, path, progress, ctx, err);
    LEAVE(p);
}

/* ---- schedules ----------------------------------------------------------------------------------------------------------- */

pawl_status pawl_put_schedule(pawl *p, const pawl_schedule *schedule, pawl_put how, pawl_dispatched *outcome, pawl_error *err)
{
    ENTER(p);
    status = schedules_put(rt, schedule, how, outcome, err);
    LEAVE(p);
}

pawl_status pawl_put_schedules(pawl *p, const pawl_schedule *schedules, size_t n, const pawl_put_options *options,
                               pawl_error *err)
{
    ENTER(p);
    status = schedules || n == 0 ? schedules_put_all(rt, schedules, n, options, err) : null("the schedules", err);
    LEAVE(p);
}

pawl_status pawl_enable_schedule(pawl *p, const char *name, const char *by, pawl_error *err)
{
    ENTER(p);
    status = schedules_set(rt, name, true, by, err);
    LEAVE(p);
}

pawl_status pawl_disable_schedule(pawl *p, const char *name, const char *by, pawl_error *err)
{
    ENTER(p);
    status = schedules_set(rt, name, false, by, err);
    LEAVE(p);
}

pawl_status pawl_remove_schedule(pawl *p, const char *name, const char *by, pawl_error *err)
{
    ENTER(p);
    status = schedules_remove(rt, name, by, err);
    LEAVE(p);
}

pawl_status pawl_run_schedule(pawl *p, const char *name, const pawl_bytes *payload, const char *by, pawl_id *id, pawl_error *err)
{
    ENTER(p);
    status = schedules_run(rt, name, payload, by, id, err);
    LEAVE(p);
}

pawl_status pawl_get_schedule(pawl *p, const char *name, int upcoming, pawl_schedule_info **out, pawl_error *err)
{
    ENTER(p);
    status = out ? schedules_get(rt, name, upcoming, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_list_schedules(pawl *p, const pawl_schedule_filter *filter, pawl_schedules **out, pawl_error *err)
{
    ENTER(p);
    status = out ? schedules_list(rt, filter, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_preview_schedule(pawl *p, const pawl_schedule *schedule, int64_t from_us, int64_t *times_us, size_t n,
                                  size_t *count, pawl_error *err)
{
    ENTER(p);
    status =
        times_us && count ? schedules_preview(rt, schedule, from_us, times_us, n, count, err) : null("times_us or count", err);
    LEAVE(p);
}

/* ---- families ------------------------------------------------------------------------------------------------------------ */

pawl_status pawl_open_batch(pawl *p, const pawl_batch_options *options, pawl_id *id, pawl_error *err)
{
    ENTER(p);
    status = family_open_batch(rt, options, id, err);
    LEAVE(p);
}

pawl_status pawl_close_batch(pawl *p, pawl_id id, const char *by, pawl_error *err)
{
    ENTER(p);
    status = family_end_batch(rt, id, false, by, err);
    LEAVE(p);
}

pawl_status pawl_cancel_batch(pawl *p, pawl_id id, const char *by, pawl_error *err)
{
    ENTER(p);
    status = family_end_batch(rt, id, true, by, err);
    LEAVE(p);
}

pawl_status pawl_get_batch(pawl *p, pawl_id id, const char *name, pawl_batch_info **out, pawl_error *err)
{
    ENTER(p);
    status = out ? family_get_batch(rt, id, name, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_list_batches(pawl *p, const pawl_batch_filter *filter, pawl_batches **out, pawl_error *err)
{
    ENTER(p);
    status = out ? family_list_batches(rt, filter, out, err) : null("out", err);
    LEAVE(p);
}

pawl_status pawl_get_relatives(pawl *p, pawl_id id, pawl_relation relation, pawl_id after, int limit, pawl_relatives **out,
                               pawl_error *err)
{
    ENTER(p);
    pawl_relatives_query query = {.of = id, .relation = relation, .after = after, .limit = limit};
    status = out ? family_relatives(rt, &query, out, err) : null("out", err);
    LEAVE(p);
}
