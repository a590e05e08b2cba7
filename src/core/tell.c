/* Telling: what stands in told.h, gathered from the tasks that are held, whenever a renewal leaves. While tasks wait for slots here renewals
 * come every two seconds, also those of a busy node, which needs none otherwise; what has not changed is not sent again. A node that never
 * saw a limit pays nothing. */
#include "core/engine.h"
#include "core/told.h"
#include <stdlib.h>
#include <string.h>

#define OFTEN_US (2 * PAWL_SECOND)

int64_t tell_due(const core *c)
{
    if (!c->node || (c->limited_tasks == 0 && !c->told_busy)) return INT64_MAX;
    bool often = c->parked_tasks > 0 || c->told_parked || c->limited_tasks == 0;
    return c->told_us + (often ? OFTEN_US : c->config.lease_us / 3);
}

/* ---- gathering ------------------------------------------------------------------------------------------------------------- */

static bool is_parked(const core_task *t) { return t->state == CORE_PARKED && t->waits; }

static int by_key(const void *a, const void *b)
{
    const core_task *x = *(core_task *const *)a, *y = *(core_task *const *)b;
    int types = strcmp(x->body->type, y->body->type);
    if (types) return types;
    size_t least = x->rate_key.len < y->rate_key.len ? x->rate_key.len : y->rate_key.len;
    int keys = memcmp(x->rate_key.data, y->rate_key.data, least);
    return keys ? keys : (x->rate_key.len > y->rate_key.len) - (x->rate_key.len < y->rate_key.len);
}

/* The most that wait, then the most that run. */
static bool counts_more(const told_key *a, const told_key *b)
{
    return a->parked != b->parked ? a->parked > b->parked : a->running > b->running;
}

static void add_key(told *t, const told_key *key)
{
    int at = t->keys_count;
    if (at == TOLD_KEYS && !counts_more(key, &t->keys[at - 1])) return;
    if (at < TOLD_KEYS) t->keys_count++;
    else at--;
    for (; at > 0 && counts_more(key, &t->keys[at - 1]); at--) t->keys[at] = t->keys[at - 1];
    t->keys[at] = *key;
}

static void add_task(told *t, const core_task *task)
{
    int at = t->tasks_count;
    if (at == TOLD_TASKS && task->slot_us >= t->tasks[at - 1].slot_us) return;
    if (at < TOLD_TASKS) t->tasks_count++;
    else at--;
    for (; at > 0 && task->slot_us < t->tasks[at - 1].slot_us; at--) t->tasks[at] = t->tasks[at - 1];
    t->tasks[at] = (told_task){task->body->id, task->slot_us};
}

static void describe(const core *c, const core_task *t, told_key *key, char room[LIMIT_KEY_ROOM])
{
    limit_info info;
    *key =
        (told_key){.type = pawl_str(t->body->type), .key = limit_key(t->rate_key, room), .local = t->throttle != THROTTLE_SHARED};
    int rule = c->handlers[t->handler].rule;
    if (t->throttle == THROTTLE_LOCAL && limit_look(c->limiter, rule, t->rate_key, c->now.mono_us, &info)) key->left = info.left;
}

/* Long keys are known by their hash: it stands in `rooms`. */
static void gather(const core *c, core_task **tasks, int count, told *out, char (*rooms)[LIMIT_KEY_ROOM])
{
    for (int i = 0; i < count;) {
        told_key key;
        int first = i;
        describe(c, tasks[first], &key, rooms[first]);
        for (; i < count && by_key(&tasks[first], &tasks[i]) == 0; i++) {
            if (!is_parked(tasks[i])) {
                key.running++;
                continue;
            }
            key.parked++;
            if (!key.slot_us || tasks[i]->slot_us < key.slot_us) key.slot_us = tasks[i]->slot_us;
            add_task(out, tasks[i]);
        }
        out->parked += key.parked;
        out->running += key.running;
        add_key(out, &key);
    }
}

static bool is_limited(const core_task *t) { return t->throttle != THROTTLE_NONE; } /* it has a key, then */

static bool compose(core *c, buf *to)
{
    int count = 0, at = 0;
    map_each(node, &c->tasks) count += is_limited(container_of(node, core_task, by_id));
    core_task **tasks = alloc_new(c->allocator, ((size_t)count + 1) * sizeof *tasks);
    char(*rooms)[LIMIT_KEY_ROOM] = alloc_new(c->allocator, ((size_t)count + 1) * sizeof *rooms);
    told *all = alloc_new(c->allocator, sizeof *all);
    bool whole = tasks && rooms && all;
    if (whole) {
        map_each(node, &c->tasks) {
            core_task *t = container_of(node, core_task, by_id);
            if (is_limited(t)) tasks[at++] = t;
        }
        qsort(tasks, (size_t)count, sizeof *tasks, by_key);
        gather(c, tasks, count, all, rooms);
        all->deferrals = c->deferrals;
        all->rejected = c->rejected;
        all->opened = c->opened;
        if (all->parked + all->running + c->deferrals + c->rejected + c->opened > 0) told_write(to, all);
    }
    alloc_free(c->allocator, tasks);
    alloc_free(c->allocator, rooms);
    alloc_free(c->allocator, all);
    return whole && !to->failed;
}

/* ---- sending --------------------------------------------------------------------------------------------------------------- */

void tell_send(core *c, pawl_renewal *call)
{
    c->told_us = c->now.mono_us;
    buf_clear(&c->telling);
    if ((c->limited_tasks == 0 && !c->told_busy) || !compose(c, &c->telling)) return;
    c->telling_parked = c->parked_tasks > 0;
    c->telling_busy = c->limited_tasks > 0;
    bool same = c->telling.len == c->told.len && memcmp(buf_text(&c->telling), buf_text(&c->told), c->told.len) == 0;
    if (!same) call->told = (pawl_bytes){buf_text(&c->telling), c->telling.len};
}

void tell_answered(core *c, const pawl_renewal *call)
{
    if (c->renew.status != PAWL_OK || !call->told.data) return;
    buf was = c->told;
    c->told = c->telling;
    c->telling = was;
    c->told_parked = c->telling_parked;
    c->told_busy = c->telling_busy;
}

void tell_forget(core *c)
{
    buf_clear(&c->told);
    c->told_parked = c->told_busy = false;
}
