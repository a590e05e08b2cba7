/* The request's target: "/path?name=value&...", percent-encoded UTF-8. Nothing else is taken: no absolute form, no fragment, no
 * encoded NUL or control byte, no name twice. An encoded slash in the path is part of a name, not between two: it is told apart. */
#include "base/text.h"
#include "http/parts.h"
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f') return (c | 32) - 'a' + 10;
    return -1;
}

/* In place. In a query '+' is a space. */
static bool decode(char *text, bool query)
{
    char *to = text;
    for (const char *at = text; *at; to++) {
        char c = *at++;
        if (c == '%') {
            int high = hex(at[0]), low = high < 0 ? -1 : hex(at[1]);
            if (low < 0) return false;
            c = (char)(high << 4 | low);
            at += 2;
        } else if (c == '+' && query) {
            c = ' ';
        }
        if ((unsigned char)c < 32 || c == 127) return false;
        *to = c == '/' && at[-1] != '/' && !query ? HTTP_SLASH : c;
    }
    *to = '\0';
    return utf8_valid(text, strlen(text));
}

static int add_parameter(http_request *r, char *pair, const char **why)
{
    char *value = strchr(pair, '=');
    if (value) *value++ = '\0';
    *why = "the query has bytes that are not percent-encoded UTF-8, or control bytes";
    if (!decode(pair, true) || (value && !decode(value, true))) return 400;
    *why = "a parameter of the query is given twice";
    if (http_parameter(r, pair)) return 400;
    *why = "the query has too many parameters";
    if (r->query_count == HTTP_PARAMETERS_MAX) return 400;
    r->query[r->query_count++] = (http_pair){pair, value ? value : ""};
    return 0;
}

int target_parse(http_request *r, const char **why)
{
    char *at = r->target;
    *why = "the target of a request is a path that begins with \"/\"";
    if (*at != '/') return 400;
    for (const char *c = at; *c; c++) {
        *why = "the target has bytes that must be percent-encoded";
        if ((unsigned char)*c <= 32 || (unsigned char)*c >= 127 || strchr("\"<>\\^`{|}#", *c)) return 400;
    }
    char *query = strchr(at, '?');
    if (query) *query++ = '\0';
    *why = "the path has bytes that are not percent-encoded UTF-8, or control bytes";
    if (!decode(at, false)) return 400;
    r->path = at;
    for (char *pair = query, *next; pair; pair = next) {
        if ((next = strchr(pair, '&'))) *next++ = '\0';
        int status = *pair ? add_parameter(r, pair, why) : 0;
        if (status) return status;
    }
    return 0;
}

const char *http_path(const http_request *r) { return r->path ? r->path : ""; }

const char *http_parameter(const http_request *r, const char *name)
{
    for (size_t i = 0; i < r->query_count; i++) {
        if (strcmp(r->query[i].name, name) == 0) return r->query[i].value;
    }
    return NULL;
}

size_t http_parameters(const http_request *r, const http_pair **pairs)
{
    *pairs = r->query;
    return r->query_count;
}
