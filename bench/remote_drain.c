/* Remote workers that do nothing: how fast a server hands out tasks and takes their outcomes.
 *
 *     remote_drain PORT WORKERS BATCH [QUEUE]
 *
 * Each worker is a process with one connection: it claims up to BATCH tasks and reports them as succeeded, until a claim comes back empty.
 * Prints tasks, tasks/s, and the median and 99th percentile of claims that brought something, from sending to the last byte, in us.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOM (32u << 20)
#define CLAIMS 100000
#define WORKERS 64

typedef struct tally {
    int64_t tasks, begin_us, end_us, claims;
    int32_t claim_us[CLAIMS];
} tally;

typedef struct peer {
    int fd;
    char *in, *out; /* answer, request */
    char id[64];
} peer;

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void die(const char *what)
{
    fprintf(stderr, "remote_drain: %s\n", what);
    exit(1);
}

static int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) die("could not connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void send_all(int fd, const char *data, size_t n)
{
    for (ssize_t sent; n; data += sent, n -= (size_t)sent)
        if ((sent = send(fd, data, n, MSG_NOSIGNAL)) <= 0) die("could not send");
}

/* The body of the answer. */
static char *receive(peer *p)
{
    size_t have = 0, want = 0;
    char *body = NULL;
    while (!body || have < want) {
        ssize_t n = recv(p->fd, p->in + have, ROOM - have - 1, 0);
        if (n <= 0) die("the connection was lost");
        have += (size_t)n;
        p->in[have] = '\0';
        if (body || !(body = strstr(p->in, "\r\n\r\n"))) continue;
        const char *length = strcasestr(p->in, "content-length: ");
        body += 4;
        want = (size_t)(body - p->in) + (length ? strtoul(length + 16, NULL, 10) : 0);
    }
    if (strncmp(p->in, "HTTP/1.1 20", 11) != 0) die(p->in);
    return body;
}

static char *ask(peer *p, const char *path, const char *body, size_t n)
{
    char head[512];
    int len = snprintf(
        head, sizeof head,
        "POST /v1/workers%s%s%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
        *p->id ? "/" : "", p->id, path, n);
    send_all(p->fd, head, (size_t)len);
    send_all(p->fd, body, n);
    return receive(p);
}

static void enlist(peer *p, const char *queue)
{
    char body[256];
    int n = snprintf(body, sizeof body, "{\"name\":\"drain\",\"queues\":[\"%s\"]}", queue);
    const char *id = strstr(ask(p, "", body, (size_t)n), "\"worker\":\"");
    if (!id) die("no worker");
    snprintf(p->id, sizeof p->id, "%.32s", id + 10);
}

/* Turns the answer to a claim into a report; answers how many tasks. */
static int64_t turn(const char *claimed, char *report, size_t *len)
{
    int64_t count = 0;
    char *to = report + sprintf(report, "{\"items\":[");
    for (const char *at = claimed; (at = strstr(at, "{\"id\":\"")); count++) {
        const char *fence = strstr(at, "\"fence\":");
        to += sprintf(to, "%s{\"id\":\"%.13s\",\"fence\":%lld,\"outcome\":\"succeeded\"}", count ? "," : "", at + 7,
                      strtoll(fence + 8, NULL, 10));
        at = fence;
    }
    to += sprintf(to, "]}");
    *len = (size_t)(to - report);
    return count;
}

static void drain(int port, int batch, const char *queue, tally *t)
{
    peer p = {.fd = dial(port), .in = malloc(ROOM), .out = malloc(ROOM)};
    char body[128];
    if (!p.in || !p.out) die("no memory");
    enlist(&p, queue);
    t->begin_us = now_us();
    for (int64_t number = 1;; number++) {
        int n = snprintf(body, sizeof body, "{\"max\":%d,\"wait\":\"300ms\",\"number\":%lld}", batch, (long long)number);
        int64_t sent_us = now_us();
        char *answer = ask(&p, "/claim", body, (size_t)n);
        int64_t took_us = now_us() - sent_us;
        size_t len;
        int64_t count = turn(answer, p.out, &len);
        if (!count) return;
        if (t->claims < CLAIMS) t->claim_us[t->claims++] = (int32_t)took_us;
        ask(&p, "/report", p.out, len);
        t->tasks += count;
        t->end_us = now_us();
    }
}

static int by_value(const void *a, const void *b) { return *(const int32_t *)a - *(const int32_t *)b; }

static void print(const tally *all, int workers)
{
    static int32_t claims[WORKERS * CLAIMS];
    int64_t tasks = 0, begin_us = INT64_MAX, end_us = 0, count = 0;
    for (int i = 0; i < workers; i++) {
        tasks += all[i].tasks;
        if (all[i].begin_us < begin_us) begin_us = all[i].begin_us;
        if (all[i].end_us > end_us) end_us = all[i].end_us;
        memcpy(claims + count, all[i].claim_us, (size_t)all[i].claims * sizeof *claims);
        count += all[i].claims;
    }
    qsort(claims, (size_t)count, sizeof *claims, by_value);
    double seconds = end_us > begin_us ? (double)(end_us - begin_us) / 1e6 : 1;
    printf("%lld %.0f %d %d\n", (long long)tasks, (double)tasks / seconds, count ? claims[count / 2] : 0,
           count ? claims[count * 99 / 100] : 0);
}

int main(int argc, char **argv)
{
    if (argc < 4) die("usage: remote_drain PORT WORKERS BATCH [QUEUE]");
    int workers = atoi(argv[2]), status, bad = 0;
    if (workers < 1 || workers > WORKERS) die("1 to 64 workers");
    tally *all = mmap(NULL, (size_t)workers * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) die("no memory");
    for (int i = 0; i < workers; i++) {
        pid_t pid = fork();
        if (pid < 0) die("could not fork");
        if (pid > 0) continue;
        drain(atoi(argv[1]), atoi(argv[3]), argc > 4 ? argv[4] : "default", &all[i]);
        _exit(0);
    }
    while (wait(&status) > 0) bad |= status;
    print(all, workers);
    return bad ? 1 : 0;
}
