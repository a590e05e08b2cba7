/* Handles.
 *
 * A `pawl *` points to a slot that is never freed, so that a call with a handle that somebody else has just closed, or that was
 * closed long ago, answers CLOSED and touches nothing else. `state` counts the calls inside and carries two flags:
 *
 *     CLOSING   pawl_close has begun: only handlers of this engine's own may still enter (they may dispatch while they finish)
 *     CLOSED    nobody may enter
 *
 * A slot is used again only when SPARE others are waiting behind it, the one closed longest ago first.
 *
 * A forked child has a copy of the memory but none of the threads, and must not touch the store's connections: a handle made
 * before the fork answers MISUSE there.
 */
#include "runtime/runtime.h"
#include <stdlib.h>

#define MAGIC 0x7061776cu /* "pawl" */
#define CLOSED (UINT64_C(1) << 63)
#define CLOSING (UINT64_C(1) << 62)
#define INSIDE (CLOSING - 1)
#define SPARE 256
#define CHUNK 64

struct pawl {
    uint32_t magic;
    uint32_t generation; /* of the process: how many forks deep */
    _Atomic uint64_t state;
    runtime *rt;
    struct pawl *next; /* among the unused */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static pawl *unused, **unused_last = &unused;
static int unused_count;
static struct chunk {
    struct chunk *older;
    pawl slots[CHUNK];
} * chunks; /* keeps every slot reachable */
static _Atomic uint32_t generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void in_child(void)
{
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, in_child); }

static void put_unused(pawl *p)
{
    p->next = NULL;
    *unused_last = p;
    unused_last = &p->next;
    unused_count++;
}

static void add_chunk(void)
{
    struct chunk *c = calloc(1, sizeof *c);
    if (!c) return;
    c->older = chunks;
    chunks = c;
    for (int i = 0; i < CHUNK; i++) {
        c->slots[i].magic = MAGIC;
        atomic_store(&c->slots[i].state, CLOSED);
        c->slots[i].next = unused; /* in front: fresh ones go first */
        if (!unused) unused_last = &c->slots[i].next;
        unused = &c->slots[i];
    }
    unused_count += CHUNK;
}

static pawl *take_unused(void)
{
    bool fresh = unused && unused->generation == 0;
    if (!fresh && unused_count <= SPARE) add_chunk();
    pawl *p = unused;
    if (!p) return NULL;
    unused = p->next;
    if (!unused) unused_last = &unused;
    unused_count--;
    return p;
}

pawl *handle_new(runtime *rt)
{
    pthread_once(&fork_once, watch_forks);
    pthread_mutex_lock(&lock);
    pawl *p = take_unused();
    if (p) {
        p->rt = rt;
        p->generation = atomic_load(&generation) + 1;     /* 0: never used */
        atomic_fetch_and(&p->state, ~(CLOSED | CLOSING)); /* not a store: a stale caller may be passing through */
    }
    pthread_mutex_unlock(&lock);
    return p;
}

void handle_leave(pawl *p)
{
    uint64_t before = atomic_fetch_sub(&p->state, 1);
    if (!(before & CLOSED) || (before & INSIDE) != 1) return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&left);
    pthread_mutex_unlock(&lock);
}

static pawl_status refuse(pawl *p, pawl_status status, const char *text, pawl_error *err)
{
    handle_leave(p);
    return err_set(err, status, "%s", text);
}

pawl_status handle_enter(pawl *p, runtime **out, pawl_error *err)
{
    if (!p || p->magic != MAGIC)
        return err_set(err, PAWL_INVALID, "the pawl handle is %s: pass the one that pawl_open gave", p ? "not one" : "NULL");
    uint64_t state = atomic_fetch_add(&p->state, 1);
    if (state & CLOSED) return refuse(p, PAWL_CLOSED, "the engine is closed: open it again with pawl_open", err);
    if (p->generation != atomic_load(&generation) + 1)
        return refuse(p, PAWL_MISUSE, "the engine was opened before this process forked: open one of its own in the child", err);
    if ((state & CLOSING) && work_inside != p->rt) return refuse(p, PAWL_CLOSED, "the engine is being closed", err);
    *out = p->rt;
    return PAWL_OK;
}

pawl_status handle_closing(pawl *p, runtime **out)
{
    if (!p || p->magic != MAGIC) return PAWL_INVALID;
    if (atomic_load(&p->state) & CLOSED) return PAWL_CLOSED;
    if (p->generation != atomic_load(&generation) + 1) return PAWL_MISUSE;
    uint64_t before = atomic_fetch_or(&p->state, CLOSING);
    if (before & (CLOSED | CLOSING)) return PAWL_CLOSED;
    *out = p->rt;
    return PAWL_OK;
}

void handle_closed(pawl *p)
{
    atomic_fetch_or(&p->state, CLOSED);
    pthread_mutex_lock(&lock);
    while (atomic_load(&p->state) & INSIDE) pthread_cond_wait(&left, &lock);
    pthread_mutex_unlock(&lock);
}

void handle_recycle(pawl *p)
{
    if (!p) return;
    pthread_mutex_lock(&lock);
    put_unused(p);
    pthread_mutex_unlock(&lock);
}
