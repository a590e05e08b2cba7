/* The files of the dashboard, as the build left them in the binary (web/build.mjs, or cmake/no_web.c.in where there is no npm). */
#ifndef SERVER_WEB_H
#define SERVER_WEB_H

#include <stdbool.h>
#include <stddef.h>

typedef struct web_file {
    const char *name; /* "": the page itself */
    const char *type;
    bool gzip;
    const unsigned char *data;
    size_t len;
} web_file;

extern const web_file web_files[]; /* ends with name NULL */

#endif
