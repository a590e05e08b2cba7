#include "http/client.h"

#include "base/check.h"
#include "http/address.h"
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX (64u << 10)   /* bytes of all header lines, those of interim answers too */
#define ANSWER_MAX (64u << 10) /* bytes of the body that are read */
#define RETRY_AFTER_MAX (24 * PAWL_HOUR)
#define CONNECT_US (10 * PAWL_SECOND)

typedef struct exchange {
    const client_post *post;
    client_answer *answer;
    size_t head, body;           /* bytes that came */
    bool whole;                  /* the head of the answer is there */
    bool turned_away, connected; /* an address was refused; another one was tried */
} exchange;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void begin(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

/* ---- URLs ------------------------------------------------------------------------------------------------------------------ */

static CURLU *parse(const char *url)
{
    pthread_once(&once, begin);
    CURLU *u = curl_url();
    if (u && !curl_url_set(u, CURLUPART_URL, url, 0)) return u;
    curl_url_cleanup(u);
    return NULL;
}

static bool has(CURLU *u, CURLUPart part)
{
    char *text = NULL;
    bool yes = !curl_url_get(u, part, &text, 0);
    curl_free(text);
    return yes;
}

bool client_url_valid(const char *url, const char **why)
{
    char *scheme = NULL;
    CURLU *u = parse(url);
    *why = NULL;
    if (!u || curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) || !has(u, CURLUPART_HOST)) *why = "is not a URL";
    else if (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0) *why = "must begin with http:// or https://";
    else if (has(u, CURLUPART_USER) || has(u, CURLUPART_PASSWORD)) *why = "must not have a user or a password in it";
    curl_free(scheme);
    curl_url_cleanup(u);
    return !*why;
}

/* Other programs may read "%2e" and "\" in a path as what leads out of it. */
static bool path_below(const char *path, const char *top)
{
    size_t n = strlen(top);
    if (strcasestr(path, "%2e") || strcasestr(path, "%5c") || strcasestr(path, "%2f") || strchr(path, '\\')) return false;
    return n && top[n - 1] == '/' ? strncmp(path, top, n) == 0 : strcmp(path, top) == 0;
}

static bool same(CURLU *a, CURLU *b, CURLUPart part)
{
    char *one = NULL, *other = NULL;
    bool got = !curl_url_get(a, part, &one, CURLU_DEFAULT_PORT) && !curl_url_get(b, part, &other, CURLU_DEFAULT_PORT);
    bool equal = got && (part == CURLUPART_PATH ? path_below(one, other) : strcasecmp(one, other) == 0);
    curl_free(one);
    curl_free(other);
    return equal;
}

bool client_url_below(const char *url, const char *top)
{
    const char *why;
    CURLU *a = client_url_valid(url, &why) ? parse(url) : NULL, *b = parse(top);
    bool below = a && b && same(a, b, CURLUPART_SCHEME) && same(a, b, CURLUPART_HOST) && same(a, b, CURLUPART_PORT) &&
                 same(a, b, CURLUPART_PATH);
    curl_url_cleanup(a);
    curl_url_cleanup(b);
    return below;
}

/* ---- what the library calls ------------------------------------------------------------------------------------------------ */

/* Called with the address that is about to be connected to. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *to)
{
    exchange *x = ctx;
    bool good = purpose == CURLSOCKTYPE_IPCXN && address_global(&to->addr);
    for (const char *const *network = x->post->allowed; !good && network && *network; network++)
        good = network_has(*network, &to->addr);
    if (good) x->connected = true;
    else x->turned_away = true;
    return good ? socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol) : CURL_SOCKET_BAD;
}

static size_t take_body(char *data, size_t size, size_t n, void *ctx)
{
    exchange *x = ctx;
    buf *keep = x->post->keep;
    size_t len = size * n;
    if (keep && keep->len < keep->limit) buf_add(keep, data, len < keep->limit - keep->len ? len : keep->limit - keep->len);
    x->body += len;
    return x->body > ANSWER_MAX ? 0 : len; /* 0: no more of it */
}

/* Seconds, or a date. */
static int64_t retry_after_us(const char *text)
{
    char *end;
    int64_t seconds = strtoll(text, &end, 10);
    if (*end) seconds = (int64_t)curl_getdate(text, NULL) - (int64_t)time(NULL);
    if (seconds <= 0) return 0;
    return seconds > RETRY_AFTER_MAX / PAWL_SECOND ? RETRY_AFTER_MAX : seconds * PAWL_SECOND;
}

/* The value of a header of this name, without what is around it; false: the line is another's. */
static bool value_of(const char *line, size_t len, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    if (len <= n || line[n] != ':' || strncasecmp(line, name, n) != 0) return false;
    for (n++; n < len && (line[n] == ' ' || line[n] == '\t'); n++) continue;
    while (len > n && strchr(" \t\r\n", line[len - 1])) len--;
    snprintf(out, size, "%.*s", (int)(len - n), line + n);
    return true;
}

static size_t take_header(char *line, size_t size, size_t n, void *ctx)
{
    exchange *x = ctx;
    char text[64];
    size_t len = size * n;
    x->head += len;
    if (x->head > HEAD_MAX) return 0;
    if (strncmp(line, "HTTP/", 5) == 0) { /* of interim answers nothing counts */
        x->answer->retry_after_us = 0;
        x->answer->type[0] = '\0';
        x->whole = false;
    }
    if (x->whole) return len; /* behind the body */
    if (line[0] == '\r' || line[0] == '\n') x->whole = true;
    if (value_of(line, len, "retry-after", text, sizeof text)) x->answer->retry_after_us = retry_after_us(text);
    value_of(line, len, "content-type", x->answer->type, sizeof x->answer->type);
    return len;
}

static int ask_stop(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    exchange *x = ctx;
    (void)a, (void)b, (void)c, (void)d;
    x->answer->stopped = x->post->stop && x->post->stop(x->post->stop_ctx);
    return x->answer->stopped;
}

/* ---- sending ---------------------------------------------------------------------------------------------------------------- */

static void configure(CURL *curl, exchange *x, struct curl_slist *headers, char *why)
{
    const client_post *p = x->post;
    int64_t connect_us = p->connect_us ? p->connect_us : CONNECT_US;
    curl_easy_setopt(curl, CURLOPT_URL, p->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(p->timeout_us / 1000));
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)((connect_us < p->timeout_us ? connect_us : p->timeout_us) / 1000));
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (p->ca_file) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, p->ca_file);
        curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    }
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
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, ask_stop);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, x);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
}

/* What became of it. The status of an interim answer is none. */
static void judge(exchange *x, long status, CURLcode code, const char *why)
{
    client_answer *a = x->answer;
    a->status = x->whole && status >= 200 ? (int)status : 0;
    a->cut = a->status && code != CURLE_OK;
    a->refused = !a->status && x->turned_away && !x->connected;
    if (a->status) return;
    if (a->refused) why = "the address is private or local, and not among those allowed";
    else if (x->head > HEAD_MAX) why = "the answer's headers are too long";
    else if (status && !x->whole) why = "the answer broke off within its headers";
    else if (!*why) why = code ? curl_easy_strerror(code) : "there was no answer";
    snprintf(a->why, sizeof a->why, "%s", why);
}

void client_send(const client_post *post, client_answer *answer)
{
    struct curl_slist *headers = NULL;
    exchange x = {.post = post, .answer = answer};
    char why[CURL_ERROR_SIZE] = "";
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
        configure(curl, &x, headers, why);
        CURLcode code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        judge(&x, status, code, why);
    } else {
        snprintf(answer->why, sizeof answer->why, "%s", pawl_status_text(PAWL_NO_MEMORY));
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
}
