/* A store's URL taken apart: where the server is, who connects, and what is pawl's own (parameters that begin with pawl_). */
#ifndef STORE_MYSQL_URL_H
#define STORE_MYSQL_URL_H

#include <pawl/store.h>

#define DATABASE_MAX 64 /* characters, as MariaDB counts them; here bytes */

typedef struct my_url {
    const pawl_allocator *allocator;
    char *text; /* the URL, cut into the pieces below */
    const char *user, *password, *host, *socket;
    unsigned port;
    char database[DATABASE_MAX + 1];
    /* TLS. */
    const char *ssl_ca, *ssl_capath, *ssl_cert, *ssl_key, *ssl_cipher, *tls_version;
    bool ssl, ssl_verify;
    int64_t connect_us; /* connect_timeout */
    int64_t poll_us;    /* pawl_poll_ms: the longest time between two looks at what others did */
    char *name;         /* for people: who, where, which database; no password */
} my_url;

pawl_status my_url_read(my_url *u, const pawl_allocator *a, const char *url, pawl_error *err);
void my_url_done(my_url *u); /* also of one that was never read */

#endif
