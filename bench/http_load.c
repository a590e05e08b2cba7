/* Load for pawl serve: many connections, each with one request under way, from one thread.
 *
 *   http_load PORT CONNECTIONS BATCH SECONDS      prints tasks per second, and how long answers took
 *
 * BATCH 1 sends POST /v1/tasks, more sends POST /v1/tasks/bulk. Payloads have 100 bytes. A task counts when its answer is there. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4096
#define ANSWER_MAX (1u << 20)
#define SLOTS 100000 /* of 10 us: answers by their time */

typedef struct client {
    int fd;
    size_t sent, got;
    char *answer;
    int64_t begun_us;
} client;

static char *request;
static size_t request_len;
static int64_t slots[SLOTS + 1];

static void die(const char *what)
{
    fprintf(stderr, "http_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void make_request(int batch)
{
    char payload[101], task[256];
    memset(payload, 'x', 100);
    payload[100] = '\0';
    snprintf(task, sizeof task, "{\"type\":\"load\",\"queue\":\"load\",\"payload\":\"%s\"}", payload + 2);
    size_t one = strlen(task), size = (one + 1) * (size_t)batch + 2;
    char *body = malloc(size + 1), *at = body;
    request = malloc(size + 512);
    if (!body || !request) die("no memory");
    if (batch > 1) *at++ = '[';
    for (int i = 0; i < batch; i++) at += sprintf(at, "%s%s", i ? "," : "", task);
    if (batch > 1) *at++ = ']';
    *at = '\0';
    request_len = (size_t)sprintf(
        request,
        "POST /v1/tasks%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
        batch > 1 ? "/bulk" : "", strlen(body), body);
    free(body);
}

static void open_client(client *c, int port, int epoll)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    c->answer = malloc(ANSWER_MAX + 1);
    if (c->fd < 0 || !c->answer || connect(c->fd, (struct sockaddr *)&to, sizeof to)) die("could not connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
}

static void send_request(client *c)
{
    c->got = 0;
    c->begun_us = now_us();
    for (c->sent = 0; c->sent < request_len;) {
        ssize_t n = send(c->fd, request + c->sent, request_len - c->sent, MSG_NOSIGNAL);
        if (n < 0) die("could not send");
        c->sent += (size_t)n;
    }
}

/* Whether the whole answer is there. */
static bool whole(const client *c)
{
    const char *end = strstr(c->answer, "\r\n\r\n"), *length = strcasestr(c->answer, "\r\nContent-Length: ");
    return end && length && c->got >= (size_t)(end + 4 - c->answer) + strtoul(length + 18, NULL, 10);
}

static int64_t stored(const client *c, int batch)
{
    if (strncmp(c->answer, "HTTP/1.1 20", 11) != 0) {
        fprintf(stderr, "http_load: %.300s\n", c->answer);
        exit(1);
    }
    const char *count = batch > 1 ? strstr(c->answer, "\"stored\":") : NULL;
    return batch > 1 ? (count ? atoll(count + 9) : 0) : 1;
}

static int64_t percentile(int64_t answers, double share)
{
    int64_t sum = 0;
    for (int i = 0; i <= SLOTS; i++) {
        sum += slots[i];
        if ((double)sum >= (double)answers * share) return i * 10;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static client clients[CONNECTIONS_MAX];
    if (argc != 5) return fprintf(stderr, "usage: http_load PORT CONNECTIONS BATCH SECONDS\n"), 2;
    int port = atoi(argv[1]), count = atoi(argv[2]), batch = atoi(argv[3]), epoll = epoll_create1(0);
    if (count < 1 || count > CONNECTIONS_MAX || batch < 1 || batch > 1000) return fprintf(stderr, "http_load: out of range\n"), 2;
    make_request(batch);
    for (int i = 0; i < count; i++) open_client(&clients[i], port, epoll);
    int64_t begun = now_us(), end = begun + (int64_t)(atof(argv[4]) * 1e6), tasks = 0, answers = 0;
    for (int i = 0; i < count; i++) send_request(&clients[i]);
    int under_way = count;
    while (under_way) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, 10000);
        if (n <= 0) die("no answer within ten seconds");
        for (int i = 0; i < n; i++) {
            client *c = events[i].data.ptr;
            ssize_t got = recv(c->fd, c->answer + c->got, ANSWER_MAX - c->got, 0);
            if (got <= 0) die("the server closed the connection");
            c->got += (size_t)got;
            c->answer[c->got] = '\0';
            if (!whole(c)) continue;
            int64_t took = (now_us() - c->begun_us) / 10;
            slots[took < SLOTS ? took : SLOTS]++;
            tasks += stored(c, batch);
            answers++;
            if (now_us() < end) send_request(c);
            else under_way--;
        }
    }
    double seconds = (double)(now_us() - begun) / 1e6;
    printf("%.0f tasks/s  answers: half within %lld us, 99 in 100 within %lld us\n", (double)tasks / seconds,
           (long long)percentile(answers, 0.5), (long long)percentile(answers, 0.99));
    return 0;
}
