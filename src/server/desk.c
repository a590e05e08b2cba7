/* Threads for requests that wait for the store. What comes while all are busy stands in line, up to a limit: beyond it the answer is
 * "try again" at once, which is better than one that comes too late. */
#include "base/alloc.h"
#include "base/check.h"
#include "server/parts.h"

#define LINE_MAX_CALLS 4096

static call *next(desk *d)
{
    pthread_mutex_lock(&d->lock);
    while (!d->count && !d->closing) pthread_cond_wait(&d->come, &d->lock);
    list *node = list_pop(&d->queue);
    if (node) d->count--;
    pthread_mutex_unlock(&d->lock);
    return node ? container_of(node, call, link) : NULL;
}

static void *serve(void *ctx)
{
    desk *d = ctx;
    for (call *c; (c = next(d));) {
        if (c->route->place == PLACE_STREAM) bulk_end(c);
        else c->route->run(c);
    }
    return NULL;
}

bool desk_open(desk *d, int threads)
{
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->come, NULL);
    list_init(&d->queue);
    d->threads = alloc_new(alloc_default(), (size_t)threads * sizeof *d->threads);
    while (d->threads && d->threads_count < threads && !pthread_create(&d->threads[d->threads_count], NULL, serve, d))
        d->threads_count++;
    return d->threads_count == threads;
}

void desk_close(desk *d)
{
    if (!d->threads) return;
    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_broadcast(&d->come);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < d->threads_count; i++) pthread_join(d->threads[i], NULL);
    CHECK(!d->count);
    pthread_cond_destroy(&d->come);
    pthread_mutex_destroy(&d->lock);
    alloc_free(alloc_default(), d->threads);
    d->threads = NULL;
}

bool desk_take(desk *d, call *c)
{
    pthread_mutex_lock(&d->lock);
    bool room = d->count < LINE_MAX_CALLS;
    if (room) list_append(&d->queue, &c->link), d->count++, pthread_cond_signal(&d->come);
    pthread_mutex_unlock(&d->lock);
    return room;
}
