#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct network {
    int family;
    uint8_t bytes[16];
    int bits;
} network;

static const char *const not_global[] = {
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
    "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    /* Of what is not 2000::/3 nothing is global; within it: Teredo, other protocols, documentation, 6to4. */
    "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"};

static bool parse(const char *text, network *out)
{
    char address[64], *end;
    const char *slash = strchrnul(text, '/');
    if ((size_t)(slash - text) >= sizeof address) return false;
    snprintf(address, sizeof address, "%.*s", (int)(slash - text), text);
    *out = (network){.family = strchr(address, ':') ? AF_INET6 : AF_INET};
    if (inet_pton(out->family, address, out->bytes) != 1) return false;
    int most = out->family == AF_INET6 ? 128 : 32;
    long bits = *slash ? strtol(slash + 1, &end, 10) : most;
    if (*slash && (end == slash + 1 || *end)) return false;
    out->bits = (int)bits;
    return bits >= 0 && bits <= most;
}

/* Family and bytes; an IPv4 address that is written as IPv6 is IPv4. */
static int bytes_of(const struct sockaddr *address, uint8_t out[16])
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;
    if (address->sa_family == AF_INET) return memcpy(out, &four->sin_addr, 4), AF_INET;
    if (address->sa_family != AF_INET6) return AF_UNSPEC;
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) return memcpy(out, six->sin6_addr.s6_addr + 12, 4), AF_INET;
    return memcpy(out, &six->sin6_addr, 16), AF_INET6;
}

static bool within(const network *n, int family, const uint8_t bytes[16])
{
    if (n->family != family) return false;
    int whole = n->bits / 8, left = n->bits % 8;
    if (memcmp(n->bytes, bytes, (size_t)whole) != 0) return false;
    return !left || (n->bytes[whole] ^ bytes[whole]) >> (8 - left) == 0;
}

bool network_valid(const char *text)
{
    network n;
    return parse(text, &n);
}

bool network_has(const char *text, const struct sockaddr *address)
{
    network n;
    uint8_t bytes[16] = {0};
    int family = bytes_of(address, bytes);
    return parse(text, &n) && within(&n, family, bytes);
}

bool address_global(const struct sockaddr *address)
{
    uint8_t bytes[16] = {0};
    int family = bytes_of(address, bytes);
    if (family == AF_UNSPEC || (family == AF_INET6 && bytes[0] >> 5 != 1)) return false;
    for (size_t i = 0; i < sizeof not_global / sizeof *not_global; i++) {
        network n;
        if (!parse(not_global[i], &n) || within(&n, family, bytes)) return false;
    }
    return true;
}
