/* Threads that dispatch a mixture of tasks, at moments of their own, until they are told to stop. */
#include "node.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 2, KEYS = 12, PAUSE_MOST_US = 12000 };

static pthread_t threads[THREADS];
static int running;
static atomic_bool quiet;
static node *owner;

static void send_something(unsigned short random[3])
{
    char key[16];
    long dice = nrand48(random) % 100;
    const char *type = dice % 2 ? "ok" : "slow";
    snprintf(key, sizeof key, "key%ld", nrand48(random) % KEYS);
    if (dice < 25) send_one(owner, type, 0, NULL);
    else if (dice < 35) send_one(owner, type, (10 + nrand48(random) % 1500) * PAWL_MILLISECOND, NULL);
    else if (dice < 50) send_one(owner, "flaky", 0, NULL);
    else if (dice < 65) send_one(owner, type, nrand48(random) % 3 * 100 * PAWL_MILLISECOND, key);
    else if (dice < 75) send_one(owner, "spawn", 0, NULL);
    else if (dice < 80) send_one(owner, "fail", 0, NULL);
    else if (dice < 95) send_async(owner, type);
    else send_bulk(owner, type, 2 + (int)(nrand48(random) % 12));
}

static void *body(void *arg)
{
    unsigned short random[3] = {(unsigned short)owner->load, (unsigned short)(owner->load >> 16), (unsigned short)(size_t)arg};
    while (!atomic_load(&quiet)) {
        send_something(random);
        usleep((useconds_t)(nrand48(random) % PAUSE_MOST_US)); /* when the next one arrives */
    }
    return NULL;
}

bool load_start(node *n)
{
    owner = n;
    while (running < THREADS && !pthread_create(&threads[running], NULL, body, (void *)(size_t)running)) running++;
    return running == THREADS;
}

void load_stop(void)
{
    atomic_store(&quiet, true);
    while (running > 0) pthread_join(threads[--running], NULL);
}
