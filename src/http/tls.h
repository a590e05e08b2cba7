/* TLS in front of the listener: a connection that came in encrypted becomes a plain one.
 *
 * tls_wrap takes the descriptor of a new connection and gives back another, a socket of this process, over which everything is in the clear;
 * threads of tls.c move bytes between the two. So nobody behind it need know of TLS, not even who takes a connection over. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include "base/log.h"
#include <pawl.h>

typedef struct http_tls http_tls;

/* Files in PEM; the certificate's file may have those that lead to its authority behind it. */
pawl_status tls_open(const char *certificate, const char *key, int threads, http_tls **out, pawl_error *err);
pawl_status tls_reload(http_tls *t,
                       pawl_error *err); /* reads the files again, for connections from now on; else all stays as it is */
int tls_wrap(http_tls *t, int fd);       /* fd is its own from now on; -1: it could not be done, and fd is closed */
void tls_close(http_tls *t);             /* NULL is fine. Connections end */

#endif
