/* node NAME STORE HISTORY [lease_ms=N] [workers=N] [serve=0] [shared=1] [hold=1] [paced=1] [few=1] [load=SEED] [migrate=1]
 *
 * STORE is the URL of a store on a server or the path of a SQLite file. With migrate=1 applies what migrations there are. Opens the
 * store, starts unless serve=0, says `started`, and then does what it is told on standard input, a command per line:
 *
 *     dispatch TYPE [DELAY_MS]      foreign TYPE [DELAY_MS]      paced|few|row RATE_KEY COUNT      drain SECONDS      dump
 *     schedules COUNT               occurrences COUNT
 *
 * At the end of the input it stops as a good program does. Its exit status is that of pawl_close.
 */
#include "node.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPEN_US (20 * PAWL_SECOND)
#define OPEN_AGAIN_US (20 * PAWL_MILLISECOND)

static void usage(const char *what)
{
    fprintf(stderr, "node: cannot understand \"%s\"\n", what);
    exit(2);
}

static void read_option(node *n, const char *arg)
{
    char name[16];
    int value;
    if (sscanf(arg, "%15[a-z_]=%d", name, &value) != 2) usage(arg);
    else if (!strcmp(name, "lease_ms")) n->lease_ms = value;
    else if (!strcmp(name, "workers")) n->workers = value;
    else if (!strcmp(name, "serve")) n->serve = value;
    else if (!strcmp(name, "shared")) n->shared = value;
    else if (!strcmp(name, "hold")) n->hold = value;
    else if (!strcmp(name, "paced")) n->paced = value;
    else if (!strcmp(name, "few")) n->few = value;
    else if (!strcmp(name, "migrate")) n->migrate = value;
    else if (!strcmp(name, "load")) n->load = (unsigned)value;
    else usage(arg);
}

/* What hooks are not told of. Ends when the engine closes. */
static void *watch_events(void *arg)
{
    pawl_event event;
    char id[PAWL_ID_TEXT];
    while (pawl_next_event(arg, -1, &event)) {
        if (event.lost) history_line("events_lost", ",\"count\":%llu", (unsigned long long)event.lost);
        if (event.kind != PAWL_EVENT_LEASE_LOST && event.kind != PAWL_EVENT_RELEASED && event.kind != PAWL_EVENT_RESCUED)
            continue;
        pawl_id_format(event.id, id);
        history_line(pawl_event_name(event.kind), ",\"id\":\"%s\",\"fence\":%lld", id, (long long)event.fence);
    }
    return NULL;
}

static void obey(node *n, const char *line)
{
    char word[16] = "", type[16] = "";
    int number = 0;
    if (sscanf(line, "drain %d", &number) == 1) look_drain(n, number);
    else if (sscanf(line, "%15s %15s %d", word, type, &number) < 1) usage(line);
    else if (!strcmp(word, "dispatch")) send_one(n, type, number * PAWL_MILLISECOND, NULL);
    else if (!strcmp(word, "foreign")) send_foreign(n, type, number * PAWL_MILLISECOND);
    else if (!strcmp(word, "paced") || !strcmp(word, "few") || !strcmp(word, "row")) send_keyed(n, word, type, number);
    else if (!strcmp(word, "dump")) look_dump(n);
    else if (!strcmp(word, "schedules")) recur_put(n, atoi(type));
    else if (!strcmp(word, "occurrences")) recur_tell(n, atoi(type));
    else usage(line);
}

/* Another process may be stopped inside a commit just now, or the server restarts: then the store says that it may work later. */
static pawl_status open_store(const pawl_options *options, pawl **engine, pawl_error *err)
{
    int64_t until_us = history_now_us() + OPEN_US;
    pawl_status status;
    while ((status = pawl_open(options, engine, err)) && pawl_status_retryable(status) && history_now_us() < until_us)
        usleep(OPEN_AGAIN_US);
    return status;
}

static pawl_status open_engine(node *n, const char *path, pawl_error *err)
{
    char url[512];
    snprintf(url, sizeof url, "%s%s", strstr(path, "://") ? "" : "sqlite:", path);
    pawl_options options = {.store = url,
                            .name = n->name,
                            .shared_file = n->shared,
                            .lease_us = n->lease_ms * PAWL_MILLISECOND,
                            .workers = n->workers};
    pawl_status status = n->migrate ? pawl_migrate(&options, err) : PAWL_OK;
    if (!status) status = open_store(&options, &n->engine, err);
    return status ? status : handlers_add(n, err);
}

int main(int argc, char **argv)
{
    static node n = {.workers = 4, .serve = true};
    pawl_error err;
    pawl_subscription *events;
    pthread_t watcher;
    char line[128];
    if (argc < 4 || !history_open(argv[3])) usage(argc < 4 ? "too few arguments" : argv[3]);
    n.name = argv[1];
    n.path = argv[2];
    for (int i = 4; i < argc; i++) read_option(&n, argv[i]);

    if (open_engine(&n, n.path, &err) || pawl_subscribe(n.engine, 1 << 16, &events, &err)) return pawl_die(&err);
    if (pthread_create(&watcher, NULL, watch_events, events)) return 1;
    if (n.serve && pawl_start(n.engine, &err)) return pawl_die(&err);
    history_line("started", ",\"name\":\"%s\",\"wall\":%lld", n.name, (long long)history_wall_us());
    if (n.load && !load_start(&n)) return 1;
    while (fgets(line, sizeof line, stdin)) obey(&n, line);

    load_stop();
    int code = pawl_close(n.engine);
    pthread_join(watcher, NULL);
    pawl_unsubscribe(events);
    return code;
}
