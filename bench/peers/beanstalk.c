/* beanstalkd, one task at a time on each of many connections: how fast tasks are put, reserved and deleted.
 *
 *   beanstalk PORT MEASURE TASKS      prints tasks per second
 *
 *   life    64 connections put while 4 others reserve and delete; until the last is deleted
 *   drain   4 connections reserve and delete what was put before
 *   add     64 connections put
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PRODUCERS 64
#define WORKERS 4
#define PAYLOAD 200

static int port;
static long count;
static atomic_long put, deleted;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

typedef struct connection {
    FILE *in, *out;
} connection;

static connection dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) die("could not connect to beanstalkd");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connection c = {fdopen(fd, "r"), fdopen(dup(fd), "w")};
    if (!c.in || !c.out) die("could not use the connection to beanstalkd");
    return c;
}

/* Sends what is written so far and reads one line. */
static char *answer(connection *c, char line[256])
{
    if (fflush(c->out) || !fgets(line, 256, c->in)) die("beanstalkd went away");
    return line;
}

static void hang_up(connection *c)
{
    fclose(c->out);
    fclose(c->in);
}

static void *produce(void *arg)
{
    char payload[PAYLOAD + 1], line[256];
    connection c = dial();
    memset(payload, 'x', PAYLOAD);
    payload[PAYLOAD] = '\0';
    while (atomic_fetch_add(&put, 1) < count) {
        fprintf(c.out, "put 0 0 60 %d\r\n%s\r\n", PAYLOAD, payload);
        if (strncmp(answer(&c, line), "INSERTED", 8) != 0) die(line);
    }
    hang_up(&c);
    return arg;
}

static void *work(void *arg)
{
    char line[256], payload[PAYLOAD + 2];
    unsigned long long id;
    connection c = dial();
    while (atomic_load(&deleted) < count) {
        fprintf(c.out, "reserve-with-timeout 1\r\n");
        if (sscanf(answer(&c, line), "RESERVED %llu", &id) != 1) continue; /* timed out: the others had the last ones */
        if (fread(payload, 1, sizeof payload, c.in) != sizeof payload) die("beanstalkd went away");
        fprintf(c.out, "delete %llu\r\n", id);
        if (strncmp(answer(&c, line), "DELETED", 7) != 0) die(line);
        atomic_fetch_add(&deleted, 1);
    }
    hang_up(&c);
    return arg;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void start(pthread_t *threads, int n, void *(*what)(void *))
{
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, what, NULL)) die("could not start a thread");
}

static void join(pthread_t *threads, int n)
{
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

/* Until the last task is deleted: workers that find nothing notice it later. */
static void wait_deleted(void)
{
    while (atomic_load(&deleted) < count) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int main(int argc, char **argv)
{
    pthread_t producers[PRODUCERS], workers[WORKERS];
    if (argc != 4) return 2;
    port = atoi(argv[1]);
    count = atol(argv[3]);
    double begin = seconds();
    start(producers, PRODUCERS, produce);
    if (strcmp(argv[2], "life") == 0) start(workers, WORKERS, work);
    join(producers, PRODUCERS);
    if (strcmp(argv[2], "drain") == 0) {
        begin = seconds();
        start(workers, WORKERS, work);
    }
    if (strcmp(argv[2], "add") != 0) wait_deleted();
    printf("%.0f\n", (double)count / (seconds() - begin));
    return 0;
}
