/* Preloaded into the server: a name service that changes its mind, and a list of who was connected to.
 *
 * Names that end in ".test" mean what the file $PAWL_TEST_NAMES says: a line "name address[,address...] ..." has one set of addresses for
 * each question, the last one for all that come later. Every connection by IP is a line in the file $PAWL_TEST_CONNECTED; those that would leave the
 * machine fail. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

typedef int (*getaddrinfo_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
typedef int (*connect_fn)(int, const struct sockaddr *, socklen_t);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char asked[64][64];
static int times[64];

/* How often the name was asked for before. */
static int count_of(const char *name)
{
    for (int i = 0; i < 64; i++) {
        if (*asked[i] && strcmp(asked[i], name) != 0) continue;
        snprintf(asked[i], sizeof asked[i], "%s", name);
        return times[i]++;
    }
    return 0;
}

/* The set of addresses for this question. */
static int addresses_of(const char *name, char out[256])
{
    char line[1024], *rest, *word, *set = NULL;
    FILE *in = fopen(getenv("PAWL_TEST_NAMES"), "r");
    int left = count_of(name);
    while (in && !set && fgets(line, sizeof line, in)) {
        word = strtok_r(line, " \n", &rest);
        if (!word || strcmp(word, name) != 0) continue;
        while ((word = strtok_r(NULL, " \n", &rest))) {
            set = word;
            if (left-- == 0) break;
        }
    }
    if (in) fclose(in);
    if (set) snprintf(out, 256, "%s", set);
    return set != NULL;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    getaddrinfo_fn real = (getaddrinfo_fn)dlsym(RTLD_NEXT, "getaddrinfo");
    char set[256], *rest;
    size_t n = name ? strlen(name) : 0;
    if (n < 5 || strcmp(name + n - 5, ".test") != 0) return real(name, service, hints, out);
    pthread_mutex_lock(&lock);
    int found = addresses_of(name, set);
    pthread_mutex_unlock(&lock);
    struct addrinfo *first = NULL, **last = &first;
    for (char *one = found ? strtok_r(set, ",", &rest) : NULL; one; one = strtok_r(NULL, ",", &rest)) {
        if (real(one, service, hints, last)) continue;
        while (*last) last = &(*last)->ai_next;
    }
    *out = first;
    return first ? 0 : EAI_NONAME;
}

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    connect_fn real = (connect_fn)dlsym(RTLD_NEXT, "connect");
    char text[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *four = (const void *)to;
    const struct sockaddr_in6 *six = (const void *)to;
    if (to->sa_family != AF_INET && to->sa_family != AF_INET6) return real(fd, to, size);
    inet_ntop(to->sa_family, to->sa_family == AF_INET ? (const void *)&four->sin_addr : &six->sin6_addr, text, sizeof text);
    pthread_mutex_lock(&lock);
    FILE *log = fopen(getenv("PAWL_TEST_CONNECTED"), "a");
    if (log) fprintf(log, "%s\n", text), fclose(log);
    pthread_mutex_unlock(&lock);
    if (strncmp(text, "127.", 4) == 0 || strcmp(text, "::1") == 0) return real(fd, to, size);
    errno = ENETUNREACH;
    return -1;
}
