/* The router: the table of routes.h, and how a path is found in it. */
#include "server/parts.h"
#include <string.h>

const route routes[] = {
#define X(name, method, path, scope, place, tenant, query, body, answer, command, summary) \
    {#name, HTTP_##method, path,   SCOPE_##scope, PLACE_##place, TENANT_##tenant,          \
     query, body,          answer, command,       summary,       route_##name},
    ROUTE_TABLE(X)
#undef X
        {0}};

/* One name between two slashes, decoded; false: none, or too long. */
static bool take_segment(const char **path, char segment[1024])
{
    size_t n = strcspn(*path, "/");
    if (n == 0 || n >= 1024) return false;
    for (size_t i = 0; i < n; i++) segment[i] = (*path)[i] == HTTP_SLASH ? '/' : (*path)[i];
    segment[n] = '\0';
    *path += n;
    return true;
}

static bool matches(const char *pattern, const char *path, char segment[1024])
{
    while (*pattern && *path) {
        if (*pattern != '{') {
            if (*pattern++ != *path++) return false;
            continue;
        }
        pattern = strchr(pattern, '}') + 1;
        if (!take_segment(&path, segment)) return false;
    }
    return !*pattern && !*path;
}

const route *route_find(http_method method, const char *path, char segment[1024], bool *other_method)
{
    *other_method = false;
    for (const route *it = routes; it->name; it++) {
        if (!matches(it->path, path, segment)) continue;
        if (it->method == method) return it;
        *other_method = true;
    }
    return NULL;
}
