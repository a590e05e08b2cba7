/* event_loop: Pawl in a program that must never block. Everything arrives in one epoll loop: an eventfd says that dispatches were
 * answered, a descriptor of Pawl's says that there is news about tasks.
 *
 *     examples/event_loop       uses event_loop.db
 */
#include <pawl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ORDERS = 3 };

typedef struct order {
    int number, bell;     /* bell: the eventfd */
    pawl_receipt receipt; /* valid once answered */
    atomic_bool answered;
    bool seen;
} order;

static pawl_outcome pack(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_run_log(run, PAWL_INFO, "one parcel, two kilos");
    return pawl_ok();
}

/* On the engine's own thread: leave the answer where the loop finds it, ring, and be gone. */
static void committed(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    (void)err;
    order *o = ctx;
    int bell = o->bell;
    o->receipt = *receipt;
    atomic_store(&o->answered, true);
    if (write(bell, &(uint64_t){1}, sizeof(uint64_t)) < 0) abort();
}

/* Returns how many orders were answered since the last time. */
static int on_bell(order *orders, int bell)
{
    uint64_t rings;
    int answered = 0;
    if (read(bell, &rings, sizeof rings) < 0) return 0;
    for (order *o = orders; o < orders + ORDERS; o++) {
        if (o->seen || !atomic_load(&o->answered)) continue;
        o->seen = true;
        answered++;
        printf("order %d %s\n", o->number, o->receipt.status ? "refused" : pawl_dispatched_name(o->receipt.outcome));
    }
    return answered;
}

/* Takes all that is there; returns how many tasks succeeded. */
static int on_news(pawl_subscription *news)
{
    pawl_event event;
    int succeeded = 0;
    while (pawl_next_event(news, 0, &event)) {
        if (event.kind == PAWL_EVENT_STARTED || event.kind == PAWL_EVENT_SUCCEEDED)
            printf("%s %s\n", event.type, pawl_event_name(event.kind));
        succeeded += event.kind == PAWL_EVENT_SUCCEEDED;
    }
    return succeeded;
}

static void add(int loop, int fd)
{
    if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.fd = fd})) exit(1);
}

int main(void)
{
    pawl *p = NULL;
    pawl_error err;
    pawl_subscription *news;
    if (pawl_open(&(pawl_options){.store = "sqlite:event_loop.db"}, &p, &err) ||
        pawl_handle(p, &(pawl_handler){.type = "order.pack", .run = pack}, &err) || pawl_subscribe(p, 0, &news, &err) ||
        pawl_start(p, &err))
        return pawl_die(&err);

    static order orders[ORDERS];
    int loop = epoll_create1(EPOLL_CLOEXEC), bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    add(loop, bell);
    add(loop, pawl_subscription_fd(news));
    for (int i = 0; i < ORDERS; i++) {
        orders[i].number = i + 1;
        orders[i].bell = bell;
        if (pawl_dispatch_async(p, &(pawl_task){.type = "order.pack"}, committed, &orders[i], &err)) return pawl_die(&err);
    }

    for (int answered = 0, packed = 0; answered < ORDERS || packed < ORDERS;) {
        struct epoll_event ready;
        if (epoll_wait(loop, &ready, 1, 10000) != 1) return 1;
        if (ready.data.fd == bell) answered += on_bell(orders, bell);
        else packed += on_news(news);
    }
    pawl_unsubscribe(news);
    int code = pawl_close(p);
    close(bell);
    close(loop);
    return code;
}
