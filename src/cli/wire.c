#include "cli/wire.h"

#include "base/error.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static pawl_status trust(wire *l, pawl_error *err)
{
    const char *file = getenv("PAWL_CA_FILE");
    if (gnutls_certificate_allocate_credentials(&l->trust))
        return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    int rc = file && *file ? gnutls_certificate_set_x509_trust_file(l->trust, file, GNUTLS_X509_FMT_PEM)
                           : gnutls_certificate_set_x509_system_trust(l->trust);
    if (rc >= 0) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "could not read the authorities in \"%s\": %s", file ? file : "the system's list",
                   gnutls_strerror(rc));
}

static pawl_status refused(wire *l, int rc, const char *host, pawl_error *err)
{
    gnutls_datum_t why = {0};
    if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR &&
        gnutls_certificate_verification_status_print(gnutls_session_get_verify_cert_status(l->tls), GNUTLS_CRT_X509, &why, 0) ==
            0) {
        err_set(err, PAWL_DENIED, "%s is not who it says, as far as is known here ($PAWL_CA_FILE names authorities): %.200s",
                host, (char *)why.data);
        gnutls_free(why.data);
        return PAWL_DENIED;
    }
    return err_set(err, PAWL_UNAVAILABLE, "could not speak TLS with %s: %s", host, gnutls_strerror(rc));
}

static pawl_status shake(wire *l, const char *host, pawl_error *err)
{
    pawl_status status = trust(l, err);
    if (status) return status;
    if (gnutls_init(&l->tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) || gnutls_set_default_priority(l->tls) ||
        gnutls_credentials_set(l->tls, GNUTLS_CRD_CERTIFICATE, l->trust) ||
        gnutls_server_name_set(l->tls, GNUTLS_NAME_DNS, host, __builtin_strlen(host)))
        return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    gnutls_session_set_verify_cert(l->tls, host, 0);
    gnutls_transport_set_int(l->tls, l->fd);
    int rc;
    do rc = gnutls_handshake(l->tls);
    while (rc < 0 && !gnutls_error_is_fatal(rc) && rc != GNUTLS_E_AGAIN);
    return rc < 0 ? refused(l, rc, host, err) : PAWL_OK;
}

pawl_status wire_begin(wire *l, int fd, const char *host, pawl_error *err)
{
    *l = (wire){.fd = fd};
    pawl_status status = host ? shake(l, host, err) : PAWL_OK;
    if (status) wire_end(l);
    return status;
}

bool wire_send(wire *l, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t sent = l->tls ? gnutls_record_send(l->tls, data, n) : send(l->fd, data, n, MSG_NOSIGNAL);
        if (sent == GNUTLS_E_INTERRUPTED || (!l->tls && sent < 0 && errno == EINTR)) continue;
        if (sent <= 0) return false;
        data += sent;
        n -= (size_t)sent;
    }
    return true;
}

ssize_t wire_receive(wire *l, char *room, size_t n)
{
    for (;;) {
        ssize_t got = l->tls ? gnutls_record_recv(l->tls, room, n) : recv(l->fd, room, n, 0);
        bool again = l->tls ? got == GNUTLS_E_INTERRUPTED || got == GNUTLS_E_REHANDSHAKE : got < 0 && errno == EINTR;
        if (!again) return got;
    }
}

void wire_end(wire *l)
{
    if (l->tls) gnutls_deinit(l->tls);
    if (l->trust) gnutls_certificate_free_credentials(l->trust);
    close(l->fd);
}
