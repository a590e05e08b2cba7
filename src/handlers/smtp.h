/* SMTP: one letter to one server (RFC 5321), with TLS (RFC 3207, 8314) and login (RFC 4954).
 *
 * One MAIL, a RCPT for each recipient, and one DATA if the server takes all of them; whatever the letter holds. Every address is looked at
 * once more before it is said, and a message whose lines do not all end in CR LF is not sent. */
#ifndef HANDLERS_SMTP_H
#define HANDLERS_SMTP_H

#include <pawl.h>

typedef enum smtp_tls {
    SMTP_STARTTLS = 1, /* plain at first; without encryption nothing more is said */
    SMTP_IMPLICIT,     /* from the first byte on */
    SMTP_PLAIN         /* none */
} smtp_tls;

typedef struct smtp_server {
    const char *host;
    int port;
    smtp_tls tls;
    const char *ca_file;         /* PEM: authorities in place of the system's; NULL: those */
    const char *hello;           /* this machine's name */
    const char *user, *password; /* NULL: no login; never over a connection in the clear */
    int64_t connect_us, timeout_us;
    bool (*stop)(void *ctx); /* asked some times a second until the letter is on its way: true ends it; NULL: nothing does */
    void *stop_ctx;
} smtp_server;

typedef struct smtp_letter {
    const char *from;
    const char *const *to;
    size_t to_count;
    pawl_bytes message;
} smtp_letter;

typedef enum smtp_end {
    SMTP_SENT = 1, /* the server has it, for all recipients */
    SMTP_LATER,    /* nobody has it: 4xx, or no connection, or one that broke */
    SMTP_NEVER,    /* nobody has it: 5xx, or it cannot be sent at all */
    SMTP_UNKNOWN,  /* all of it was sent, and then no answer came */
    SMTP_STOPPED   /* nobody has it: stop said so */
} smtp_end;

typedef struct smtp_answer {
    smtp_end end;
    int code;       /* of the server's last word that counts; 0: there was none */
    char text[512]; /* what went wrong, or what the server said in the end */
} smtp_answer;

void smtp_send(const smtp_server *server, const smtp_letter *letter, smtp_answer *answer);

#endif
