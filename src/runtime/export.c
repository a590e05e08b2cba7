/* pawl_export: tasks as lines of JSON, with limits and batches before them and schedules behind them. One page of the store at a time is in memory. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/gate.h"
#include "runtime/record.h"
#include "runtime/upkeep.h"
#include "store/budget.h"
#include <stdio.h>
#include <stdlib.h>

#define PAGE_ROWS 1000
#define PAGE_BYTES ((size_t)4 << 20)
#define COUNT_ROWS 100000
#define MEMORY ((size_t)1 << 30)

typedef struct exporter {
    const pawl_export_options *o;
    const pawl_allocator *allocator;
    pawl_store *store;
    pawl_arena *arena;
    pawl_dump d;
    buf line;
    unsigned states;
    int64_t done, total, limits, others;
    uint64_t sum;
} exporter;

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not export: out of memory"); }

/* "pending,failed" */
static pawl_status read_states(exporter *x, pawl_error *err)
{
    const char *at = x->o->states;
    if (!at || !*at) x->states = ~0u;
    for (size_t n; at && *at; at += n + (at[n] == ',')) {
        char name[32];
        pawl_state state;
        n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", n < 31 ? (int)n : 31, at);
        if (!pawl_state_parse(name, &state))
            return err_set(err, PAWL_INVALID,
                           "\"%s\" is not a state: there are waiting, pending, leased, succeeded, failed and cancelled", name);
        x->states |= PAWL_STATE_BIT(state);
    }
    return PAWL_OK;
}

static pawl_status write_line(exporter *x, pawl_error *err)
{
    buf_char(&x->line, '\n');
    if (x->line.failed) return no_memory(err);
    bool written = x->o->write(x->o->write_ctx, x->line.data, x->line.len);
    buf_clear(&x->line);
    return written ? PAWL_OK : err_set(err, PAWL_UNAVAILABLE, "could not write the tasks: what was written is cut");
}

static pawl_status write_head(exporter *x, const pawl_gate *gate, pawl_error *err)
{
    json_writer w;
    pawl_clock clock = clock_system();
    jsonw_init(&w, &x->line, false);
    jsonw_object(&w);
    jsonw_key(&w, "pawl_export");
    jsonw_int(&w, RECORD_FORMAT);
    jsonw_key(&w, "pawl");
    jsonw_string(&w, PAWL_VERSION);
    jsonw_key(&w, "store");
    jsonw_string(&w, gate->store);
    jsonw_key(&w, "exported_us");
    jsonw_int(&w, clock.wall_us(clock.ctx));
    jsonw_end_object(&w);
    return write_line(x, err);
}

static pawl_status write_end(exporter *x, pawl_error *err)
{
    json_writer w;
    char sum[24];
    snprintf(sum, sizeof sum, "%llu", (unsigned long long)x->sum);
    jsonw_init(&w, &x->line, false);
    jsonw_object(&w);
    jsonw_key(&w, "pawl_end");
    jsonw_bool(&w, true);
    jsonw_key(&w, "tasks");
    jsonw_int(&w, x->done);
    jsonw_key(&w, "sum");
    jsonw_string(&w, sum);
    if (x->limits) {
        jsonw_key(&w, "limits");
        jsonw_int(&w, x->limits);
    }
    if (x->others) {
        jsonw_key(&w, "others");
        jsonw_int(&w, x->others);
    }
    jsonw_end_object(&w);
    return write_line(x, err);
}

static pawl_status show(const exporter *x, const char *phase, pawl_error *err)
{
    pawl_move_progress p = {.phase = phase, .done = x->done, .total = x->total > x->done ? x->total : x->done};
    if (!x->o->progress || x->o->progress(x->o->ctx, &p)) return PAWL_OK;
    return err_set(err, PAWL_CONFLICT, "the export was stopped: what was written is cut");
}

static pawl_status next_page(exporter *x, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_DUMP, .dump = &x->d};
    arena_reset(x->arena);
    x->d.after = x->d.next;
    return store_read(x->store, &query, x->arena, err);
}

static pawl_status count(exporter *x, pawl_error *err)
{
    pawl_status status;
    x->d = (pawl_dump){.part = PAWL_PART_TASKS, .limit = COUNT_ROWS};
    do {
        status = next_page(x, err);
        for (int i = 1; !status && i < PAWL_STATE_COUNT; i++)
            if (x->states & PAWL_STATE_BIT(i)) x->total += x->d.counts[i];
    } while (!status && x->d.more);
    return status;
}

static int by_place(const void *a, const void *b)
{
    const pawl_past_limit *x = a, *y = b;
    return budget_order(x->type, x->key, y->type, y->key);
}

/* First, so that they are in force wherever tasks are brought. They belong to the store, not to tasks in some states. */
static pawl_status write_limits(exporter *x, pawl_error *err)
{
    if (!x->store->type->limits || x->states != ~0u) return PAWL_OK;
    x->d = (pawl_dump){.part = PAWL_PART_LIMITS, .limit = PAGE_ROWS};
    pawl_status status = next_page(x, err);
    if (!status && x->d.count) qsort(x->d.limits, (size_t)x->d.count, sizeof *x->d.limits, by_place);
    for (int i = 0; !status && i < x->d.count; i++) {
        json_writer w;
        jsonw_init(&w, &x->line, false);
        record_write_limit(&w, &x->d.limits[i]);
        x->limits++;
        status = write_line(x, err);
    }
    return status;
}

/* What tasks rest on comes before them, what rests on tasks behind them. */
static pawl_status write_part(exporter *x, pawl_part part, bool keeps, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    if (!keeps || x->states != ~0u) return PAWL_OK;
    x->d = (pawl_dump){.part = part, .limit = PAGE_ROWS, .bytes = PAGE_BYTES};
    do {
        status = next_page(x, err);
        for (int i = 0; !status && i < x->d.count; i++) {
            json_writer w;
            jsonw_init(&w, &x->line, false);
            record_write_other(&w, &x->d, i);
            x->others++;
            status = write_line(x, err);
        }
    } while (!status && x->d.more);
    return status;
}

static pawl_status write_tasks(exporter *x, pawl_error *err)
{
    pawl_status status;
    x->d = (pawl_dump){.part = PAWL_PART_TASKS, .states = x->states, .limit = PAGE_ROWS, .bytes = PAGE_BYTES};
    do {
        status = next_page(x, err);
        for (int i = 0; !status && i < x->d.count; i++) {
            json_writer w;
            jsonw_init(&w, &x->line, false);
            record_write(&w, &x->d.tasks[i]);
            x->sum += pawl_id_sum(x->d.tasks[i].body.id);
            x->done++;
            status = write_line(x, err);
        }
        if (!status) status = show(x, "exporting", err);
    } while (!status && x->d.more);
    return status;
}

static pawl_status run(exporter *x, pawl_error *err)
{
    pawl_gate gate;
    pawl_store_options store = upkeep_store(&(pawl_options){.store = x->o->store});
    store.allocator = x->allocator;
    store.read_only = true;
    pawl_status status = read_states(x, err);
    if (!status) status = store_open(&store, &x->store, err);
    if (!status && !x->store->type->load) status = store_set_gate(x->store, NULL, err); /* says that it cannot */
    if (!status && x->o->progress) status = count(x, err);
    if (!status) status = gate_look(x->store, x->arena, &gate, err);
    if (!status) status = write_head(x, &gate, err);
    if (!status) status = write_limits(x, err);
    if (status) return status;
    const pawl_store_type *type = x->store->type;
    status = write_part(x, PAWL_PART_BOUNDS, type->places, err);
    if (!status) status = write_part(x, PAWL_PART_BATCHES, type->families, err);
    if (!status) status = write_part(x, PAWL_PART_KEPT, type->families, err);
    if (!status) status = write_tasks(x, err);
    if (!status) status = write_part(x, PAWL_PART_SCHEDULES, type->schedules, err);
    return status ? status : write_end(x, err);
}

pawl_status pawl_export(const pawl_export_options *o, int64_t *count, pawl_error *err)
{
    if (!o || !o->write) return err_set(err, PAWL_INVALID, "an export needs a function that writes");
    const pawl_allocator *a = o->allocator.alloc ? &o->allocator : alloc_default();
    exporter *x = alloc_new(a, sizeof *x);
    if (!x) return no_memory(err);
    x->o = o;
    x->allocator = a;
    x->arena = arena_new(a, MEMORY);
    buf_init(&x->line, a, MEMORY);
    pawl_status status = x->arena ? run(x, err) : no_memory(err);
    if (!status && count) *count = x->done;
    store_close(x->store);
    buf_done(&x->line);
    if (x->arena) arena_free(x->arena);
    alloc_free(a, x);
    return status;
}
