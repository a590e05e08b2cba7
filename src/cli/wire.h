/* A connection to a server, plain or under TLS. */
#ifndef CLI_WIRE_H
#define CLI_WIRE_H

#include <gnutls/gnutls.h>
#include <pawl.h>
#include <sys/types.h>

typedef struct wire {
    int fd;
    gnutls_session_t tls; /* NULL: plain */
    gnutls_certificate_credentials_t trust;
} wire;

/* Takes a connected descriptor over, also if it fails. `host`: speak TLS with whoever can prove to be that, by the system's authorities or by
 * those in $PAWL_CA_FILE; NULL: plain. */
pawl_status wire_begin(wire *l, int fd, const char *host, pawl_error *err);
bool wire_send(wire *l, const char *data, size_t n);
ssize_t wire_receive(wire *l, char *room, size_t n); /* 0: the end; negative: it was cut, or nothing came in time */
void wire_end(wire *l);

#endif
