#include "http/client.h"

#include "base/check.h"
#include "http/address.h"
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ANSWER_MAX (64u << 10) /* bytes of the answer that are read */
#define RETRY_AFTER_MAX (24 * PAWL_HOUR)

typedef struct exchange {
    const client_post *post;
    client_answer *answer;
    size_t read;
} exchange;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void begin(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

bool client_url_valid(const char *url, const char **why)
{
    char *part = NULL;
    bool ok = false;
    pthread_once(&once, begin);
    CURLU *u = curl_url();
    *why = "is not a URL";
    if (u && !curl_url_set(u, CURLUPART_URL, url, 0) && !curl_url_get(u, CURLUPART_SCHEME, &part, 0)) {
        ok = strcasecmp(part, "http") == 0 || strcasecmp(part, "https") == 0;
        if (!ok) *why = "must begin with http:// or https://";
        curl_free(part);
        part = NULL;
        if (ok && (!curl_url_get(u, CURLUPART_USER, &part, 0) || !curl_url_get(u, CURLUPART_PASSWORD, &part, 0))) {
            ok = false;
            *why = "must not have a user or a password in it";
        }
        curl_free(part);
    }
    curl_url_cleanup(u);
    return ok;
}

/* Called with the address that is about to be connected to. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    exchange *x = ctx;
    bool good = purpose == CURLSOCKTYPE_IPCXN && address_global(&to->addr);
    for (const char *const *network = x->post->allowed; !good && network && *network; network++)
        good = network_has(*network, &to->addr);
    x->answer->refused = !good;
    return good ? socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol) : CURL_SOCKET_BAD;
}

static size_t take_body(char *data, size_t size, size_t n, void *ctx)
{
    exchange *x = ctx;
    (void)data;
    x->read += size * n;
    return x->read > ANSWER_MAX ? 0 : size * n; /* 0: no more of it */
}

static size_t take_header(char *line, size_t size, size_t n, void *ctx)
{
    exchange *x = ctx;
    static const char name[] = "retry-after:";
    char text[32];
    size_t len = size * n;
    if (len <= sizeof name || strncasecmp(line, name, sizeof name - 1) != 0) return len;
    snprintf(text, sizeof text, "%.*s", (int)(len - (sizeof name - 1)), line + sizeof name - 1);
    long long seconds = strtoll(text, NULL, 10); /* a date is left alone */
    if (seconds > 0)
        x->answer->retry_after_us = seconds > RETRY_AFTER_MAX / PAWL_SECOND ? RETRY_AFTER_MAX : seconds * PAWL_SECOND;
    return len;
}

static void configure(CURL *curl, exchange *x, struct curl_slist *headers)
{
    const client_post *p = x->post;
    long ms = (long)(p->timeout_us / 1000);
    curl_easy_setopt(curl, CURLOPT_URL, p->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ms);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, ms < 10000 ? ms : 10000L);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, p->body.len ? p->body.data : "");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)p->body.len);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, x);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, x);
}

void client_send(const client_post *post, client_answer *answer)
{
    struct curl_slist *headers = NULL;
    exchange x = {.post = post, .answer = answer};
    long status = 0;
    bool room = true;
    pthread_once(&once, begin);
    *answer = (client_answer){0};
    CURL *curl = curl_easy_init();
    for (const char *const *header = post->headers; room && header && *header; header++) {
        struct curl_slist *more = curl_slist_append(headers, *header);
        room = more != NULL;
        if (more) headers = more;
    }
    if (curl && room) {
        configure(curl, &x, headers);
        CURLcode code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        answer->status = (int)status;
        if (answer->refused)
            snprintf(answer->why, sizeof answer->why, "the address is private or local, and not among those allowed");
        else if (!status) snprintf(answer->why, sizeof answer->why, "%s", curl_easy_strerror(code));
    } else {
        snprintf(answer->why, sizeof answer->why, "%s", pawl_status_text(PAWL_NO_MEMORY));
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}
