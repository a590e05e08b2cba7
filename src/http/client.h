/* A client for what strangers ask for: one POST to a URL that somebody gave, with all that such a URL may be up to in mind.
 *
 * Only http and https; no redirects, no proxy, no connection that is used again; the address is judged when the connection is made, so
 * a name that means another address the next time does not help anybody; answers are read up to a limit; everything ends in time. */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include <pawl.h>

typedef struct client_post {
    const char *url;
    pawl_bytes body;
    const char *const *headers; /* "Name: value", NULL behind the last */
    int64_t timeout_us;         /* for all of it */
    const char *const *allowed; /* networks beside the global ones, NULL behind the last; NULL: none. See address.h */
} client_post;

typedef struct client_answer {
    int status;             /* of HTTP; 0: there was none */
    int64_t retry_after_us; /* as the server says; 0: it does not */
    bool refused;           /* the address is none that may be used */
    char why[256];          /* status 0: what went wrong */
} client_answer;

bool client_url_valid(const char *url, const char **why); /* http or https, a host, no user or password */
void client_send(const client_post *post, client_answer *answer);

#endif
