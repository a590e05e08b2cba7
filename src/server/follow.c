/* Following what all nodes tell: a thread that asks while somebody wants it, and stands still otherwise. */
#include "base/alloc.h"
#include "base/error.h"
#include "server/parts.h"
#include <errno.h>
#include <string.h>
#include <time.h>

#define PATIENCE_US (250 * PAWL_MILLISECOND) /* one look; ends the thread so much later, at most */
#define PAGE 1000

struct follower {
    pawl *p;
    follow_fn take;
    void *ctx;
    int64_t after; /* the thread's */
    pthread_t thread;
    bool runs;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t cond;
    bool wanted, stop;
    bool listens; /* whatever happens from now on will be heard of */
};

/* true: go on. `idle`: it stood still before. */
static bool wait_wanted(follower *f, bool *idle)
{
    pthread_mutex_lock(&f->lock);
    while (!f->stop && !f->wanted) {
        *idle = true;
        pthread_cond_wait(&f->cond, &f->lock);
    }
    bool stop = f->stop;
    pthread_mutex_unlock(&f->lock);
    return !stop;
}

/* The store did not answer: later. */
static void rest(follower *f)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&f->lock);
    int rc = 0;
    while (!f->stop && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&f->cond, &f->lock, &until);
    pthread_mutex_unlock(&f->lock);
}

static void say_listens(follower *f)
{
    pthread_mutex_lock(&f->lock);
    f->listens = f->wanted;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
}

static void *run(void *ctx)
{
    follower *f = ctx;
    bool behind = true; /* there may be more that is known already */
    while (wait_wanted(f, &behind)) {
        pawl_facts *facts;
        pawl_error err;
        if (pawl_follow(f->p, f->after, behind ? 0 : PATIENCE_US, PAGE, &facts, &err)) {
            rest(f);
            continue;
        }
        behind = facts->count > 0 && behind;
        f->after = facts->next;
        f->take(f->ctx, facts, !behind);
        pawl_facts_free(facts);
        say_listens(f);
    }
    return NULL;
}

follower *follow_open(pawl *p, int64_t after, follow_fn take, void *ctx, pawl_error *err)
{
    follower *f = alloc_new(alloc_default(), sizeof *f);
    if (!f) return err_set(err, PAWL_NO_MEMORY, "out of memory"), NULL;
    *f = (follower){.p = p, .take = take, .ctx = ctx, .after = after};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->cond, NULL);
    f->runs = pthread_create(&f->thread, NULL, run, f) == 0;
    if (f->runs) return f;
    err_set(err, PAWL_UNAVAILABLE, "could not follow events: %s", strerror(errno));
    follow_close(f);
    return NULL;
}

void follow_want(follower *f, bool wanted)
{
    pthread_mutex_lock(&f->lock);
    f->wanted = wanted;
    if (!wanted) f->listens = false;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
}

void follow_wait(follower *f)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    pthread_mutex_lock(&f->lock);
    while (f->wanted && !f->listens && !f->stop && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&f->cond, &f->lock, &until);
    pthread_mutex_unlock(&f->lock);
}

void follow_close(follower *f)
{
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->cond);
    pthread_mutex_unlock(&f->lock);
    if (f->runs) pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->cond);
    pthread_mutex_destroy(&f->lock);
    alloc_free(alloc_default(), f);
}
