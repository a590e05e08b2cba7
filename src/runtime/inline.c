/* Inline mode: no threads. The core steps where an input arrives, on the caller's thread; its runs stand in a list until
 * pawl_run_due or pawl_advance takes them. The clock moves only in pawl_advance, and by as much as a handler sleeps. */
#include "runtime/runtime.h"

static pawl_run *next_run(runtime *rt)
{
    pawl_run *run = rt->inline_runs;
    if (!run) return NULL;
    rt->inline_runs = run->next;
    if (!rt->inline_runs) rt->inline_runs_last = &rt->inline_runs;
    return run;
}

static void step(runtime *rt)
{
    loop_enter(rt, -1);
    step_tick(rt, runtime_now(rt));
    loop_leave(rt);
}

int64_t inline_run_due(runtime *rt)
{
    int64_t count = 0;
    step(rt);
    for (pawl_run *run; (run = next_run(rt));) {
        count += !run->is_job;
        work_do(run);
    }
    return count;
}

static void move_to(runtime *rt, int64_t boot_us)
{
    int64_t by = boot_us - rt->virtual_now.boot_us;
    if (by <= 0) return;
    rt->virtual_now.boot_us += by;
    rt->virtual_now.now_us += by;
}

int64_t inline_advance(runtime *rt, int64_t by_us)
{
    int64_t target = rt->virtual_now.boot_us + by_us, count = inline_run_due(rt);
    while (rt->virtual_now.boot_us < target) {
        int64_t next = step_deadline(rt);
        if (next <= rt->virtual_now.boot_us) next = rt->virtual_now.boot_us + 1; /* nothing can be done about it now */
        move_to(rt, next < target ? next : target);
        count += inline_run_due(rt);
    }
    return count;
}

void inline_sleep(pawl_run *run, int64_t us)
{
    runtime *rt = run->rt;
    int64_t target = rt->virtual_now.boot_us + (us > 0 ? us : 0);
    while (rt->virtual_now.boot_us < target && !pawl_run_stopping(run)) {
        int64_t next = step_deadline(rt);
        if (next <= rt->virtual_now.boot_us) next = rt->virtual_now.boot_us + 1;
        move_to(rt, next < target ? next : target);
        step(rt);
    }
}

void inline_give_back(runtime *rt)
{
    step(rt);
    for (pawl_run *run; (run = next_run(rt));) {
        if (run->is_job) work_do(run);
        else work_finish(run, (pawl_outcome){.kind = PAWL_RUN_RETRY, .delay_us = -1}); /* interrupted: costs no attempt */
    }
    move_to(rt, rt->virtual_now.boot_us + 1); /* the core's patience with deferred runs */
    step(rt);
}
