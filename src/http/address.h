/* Which addresses a request that strangers caused may go to: those of the public internet, and what was allowed by hand. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Not private, local, shared, reserved or for documentation, nor an IPv6 address with such a one inside. */
bool address_global(const struct sockaddr *address);

/* "10.0.0.0/8", "::1", "192.168.1.7": whether the text is such a network, and whether it has the address in it. */
bool network_valid(const char *network);
bool network_has(const char *network, const struct sockaddr *address);

#endif
