/* A connection to a mail server: lines, in the clear or through TLS, each step within what is left of the time. */
#ifndef HANDLERS_SMTP_LINK_H
#define HANDLERS_SMTP_LINK_H

#include <pawl.h>

#define LINK_LINE 2048 /* a longer line is an error */

typedef struct smtp_link smtp_link;

smtp_link *link_new(int64_t timeout_us, bool (*stop)(void *ctx), void *ctx); /* NULL: no memory. stop may be NULL */
bool link_connect(smtp_link *l, const char *host, int port, int64_t connect_us);
bool link_encrypt(smtp_link *l, const char *host, const char *ca_file); /* false, too: the certificate is not right */
bool link_line(smtp_link *l, char out[LINK_LINE]);                      /* without its end */
bool link_write(smtp_link *l, const void *data, size_t n);              /* gathers; a line that is waited for sends it */
bool link_flush(smtp_link *l);
bool link_commit(smtp_link *l);               /* asks a last time whether to stop; from now on nothing does but the time */
bool link_stopped(const smtp_link *l);        /* false came because of stop */
const char *link_why(const smtp_link *l);     /* else because of this */
void link_end(smtp_link *l, const char *bye); /* says it and waits a second for the answer, if all is well; closes */

#endif
