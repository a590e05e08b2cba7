/* The watch: a commit of somebody else wakes. */
#include "contract.h"
#include <poll.h>

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

/* Looks until the store says that somebody committed; a store may ask to look again a little later. */
static bool sees_a_change(pawl_store *store)
{
    for (int i = 0; i < 100; i++) {
        bool changed = false;
        int64_t again_us = -1;
        store_watch_check(store, &changed, &again_us);
        if (changed) return true;
        if (again_us < 0 && !readable(store_watch_fd(store), 5000)) return false;
        if (again_us > 0) readable(store_watch_fd(store), (int)(again_us / 1000) + 1);
    }
    return false;
}

static void settle(pawl_store *store)
{
    bool changed = true;
    int64_t again_us = 0;
    for (int i = 0; i < 100 && (changed || again_us >= 0 || readable(store_watch_fd(store), 0)); i++)
        store_watch_check(store, &changed, &again_us);
}

static void a_foreign_commit_wakes(world *w)
{
    assert_true(store_watch_fd(w->a) >= 0);
    for (int i = 0; i < 3; i++) {
        settle(w->a);
        insert(w, w->b, 0, (spec){0});
        assert_true(readable(store_watch_fd(w->a), 5000));
        assert_true(sees_a_change(w->a));
    }
}

static void it_is_emptied(world *w)
{
    insert(w, w->b, 0, (spec){0});
    assert_true(sees_a_change(w->a));
    settle(w->a);
    assert_false(readable(store_watch_fd(w->a), 0));
}

static void a_commit_before_the_look_is_seen(world *w)
{
    settle(w->a);
    for (int i = 0; i < 5; i++) insert(w, w->b, 0, (spec){0});
    assert_true(sees_a_change(w->a));
}

CASES(watch_cases){
    {"watch: a foreign commit wakes", a_foreign_commit_wakes},
    {"watch: it is emptied", it_is_emptied},
    {"watch: a commit before the look is seen", a_commit_before_the_look_is_seen},
    {NULL, NULL},
};
