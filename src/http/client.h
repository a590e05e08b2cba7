/* A client for what strangers ask for: one POST to a URL that somebody gave, with all that such a URL may be up to in mind.
 *
 * Only http and https; no redirects, no proxy, no connection that is used again; the address is judged when the connection is made, so
 * a name that means another address the next time does not help anybody; answers are read up to a limit; everything ends in time.
 *
 * An answer is one whose head came whole: its status counts, whatever becomes of the body behind it. */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "base/buf.h"

#define CLIENT_WHY 256

typedef struct client_post {
    const char *url;
    pawl_bytes body;
    const char *const *headers; /* "Name: value", NULL behind the last */
    int64_t timeout_us;         /* for all of it */
    int64_t connect_us;         /* for the connection alone; 0: 10 s */
    const char *const *allowed; /* networks beside the global ones, NULL behind the last; NULL: none. See address.h */
    const char *ca_file;        /* PEM: whose certificates count in place of the system's; NULL: those */
    buf *keep;                  /* takes the beginning of the answer's body, up to its limit; NULL: nobody wants it */
    bool (*stop)(void *ctx);    /* asked about once a second: true ends it; NULL: nothing does */
    void *stop_ctx;
} client_post;

typedef struct client_answer {
    int status;             /* of HTTP; 0: there was none */
    int64_t retry_after_us; /* as the server says, a day at most; 0: it does not */
    bool refused;           /* the address is none that may be used */
    bool stopped;           /* stop said so */
    bool cut;               /* of the body some is missing: it was too long, too slow, or broke off */
    char type[128];         /* Content-Type; "": none */
    char why[CLIENT_WHY];   /* status 0: what went wrong */
} client_answer;

bool client_url_valid(const char *url, const char **why); /* http or https, a host, no user or password */

/* Whether a URL has scheme, host and port of another, and its path: that very one or, where that ends in "/", one below it. */
bool client_url_below(const char *url, const char *top);

void client_send(const client_post *post, client_answer *answer);

#endif
