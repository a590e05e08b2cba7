/* Targets of requests, and heads as the gate sees them. A path that is taken begins with a slash and has no control bytes but the mark of an
 * encoded slash; a head that is let in has one Host, and says in one way only how long its body is. */
#include "fuzz/fuzz.h"
#include "http/parts.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void check_text(const char *text, bool slash)
{
    for (; *text; text++) HOLDS((unsigned char)*text >= 32 || (slash && *text == HTTP_SLASH));
}

static void target(const char *data, size_t size)
{
    http_request *r = calloc(1, sizeof *r);
    const char *why;
    const http_pair *pairs;
    HOLDS(r && (r->target = calloc(1, size + 1)));
    memcpy(r->target, data, size);
    int status = target_parse(r, &why);
    HOLDS(status == 0 || status == 400);
    if (status == 0) {
        HOLDS(http_path(r)[0] == '/');
        check_text(http_path(r), true);
        for (size_t i = 0, n = http_parameters(r, &pairs); i < n; i++) {
            check_text(pairs[i].value, false);
            HOLDS(strcmp(http_parameter(r, pairs[i].name), pairs[i].value) == 0);
        }
    }
    free(r->target);
    free(r);
}

/* Cuts lines in place, as the library does; gives back how many headers there are. */
static size_t cut(char *at, gate_field *fields, size_t most)
{
    size_t count = 0;
    for (char *end; count < most && (end = strstr(at, "\r\n")) && end > at; at = end + 2) {
        char *colon = memchr(at, ':', (size_t)(end - at));
        if (!colon) break;
        *end = *colon = '\0';
        char *value = colon + 1 + strspn(colon + 1, " \t");
        fields[count++] = (gate_field){at, value, strlen(at), strlen(value)};
    }
    return count;
}

static void head(const char *data, size_t size)
{
    static const char line[] = "GET / HTTP/1.1\r\n";
    gate_field fields[80];
    gate_body body;
    const char *why;
    char *text = calloc(1, sizeof line + size + 3);
    HOLDS(text);
    memcpy(text, line, sizeof line - 1);
    memcpy(text + sizeof line - 1, data, size);
    size_t count = cut(text + sizeof line - 1, fields, 80), hosts = 0, lengths = 0, encodings = 0;
    text[14] = '\0';
    gate_head h = {text, "/", text + 6, fields, count, sizeof line - 1 + size};
    if (http_gate_check(&h, &body, &why) == 0) {
        for (size_t i = 0; i < count; i++) {
            hosts += strcasecmp(fields[i].name, "host") == 0;
            lengths += strcasecmp(fields[i].name, "content-length") == 0;
            encodings += strcasecmp(fields[i].name, "transfer-encoding") == 0;
        }
        HOLDS(hosts == 1 && lengths + encodings <= 1 && body.chunked == (encodings == 1) && (body.chunked || body.length >= 0));
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    target((const char *)data, size);
    head((const char *)data, size);
    return 0;
}
