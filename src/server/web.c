/* The dashboard: a page and its files, which the binary carries compressed.
 *
 * The page is the same for everybody and holds nothing: what it shows it asks of the API, as any client does. It finds everything by
 * relative addresses, so that it works below any path, and keeps what it shows behind the # of its own address. Files are named by what is
 * in them and can be kept for ever; the page cannot.
 */
#include "server/web.h"

#include "base/alloc.h"
#include "server/parts.h"
#include <stdio.h>
#include <string.h>

#define POLICY                                                                                                                           \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " \
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

static const web_file *find(const char *name)
{
    for (const web_file *it = web_files; it->name; it++) {
        if (strcmp(it->name, name) == 0) return it;
    }
    return NULL;
}

static bool takes_gzip(const http_request *r)
{
    const char *takes = http_header(r, "accept-encoding");
    return takes && (strstr(takes, "gzip") || strchr(takes, '*'));
}

static void give(call *c, const web_file *file)
{
    buf out;
    if (!call_query(c, no_fields, NULL)) return;
    if (file->gzip && !takes_gzip(c->r)) {
        call_problem(c, 406, "encoding", "this is stored compressed: ask with \"Accept-Encoding: gzip\" (curl --compressed)");
        return;
    }
    buf_init(&out, alloc_default(), ANSWER_MAX);
    buf_add(&out, file->data, file->len);
    if (file->gzip) http_add_header(c->r, "Content-Encoding", "gzip");
    http_add_header(c->r, "Vary", "Accept-Encoding");
    call_answer(c, 200, file->type, &out);
}

void route_web_page(call *c)
{
    http_add_header(c->r, "Content-Security-Policy", POLICY);
    http_add_header(c->r, "Referrer-Policy", "no-referrer");
    http_add_header(c->r, "Cross-Origin-Opener-Policy", "same-origin");
    http_add_header(c->r, "Cross-Origin-Resource-Policy", "same-origin");
    give(c, find(""));
}

void route_web_asset(call *c)
{
    const web_file *file = *c->segment ? find(c->segment) : NULL;
    if (!file) {
        call_problem(c, 404, "not_found", "the dashboard has no file \"%.100s\": load the page again", c->segment);
        return;
    }
    http_add_header(c->r, "Cache-Control", "public, max-age=31536000, immutable");
    http_add_header(c->r, "Cross-Origin-Resource-Policy", "same-origin");
    give(c, file);
}

void web_redirect(call *c)
{
    char to[256];
    const char *last = strrchr(c->s->prefix, '/');
    snprintf(to, sizeof to, ".%s/", last ? last : "");
    http_add_header(c->r, "Location", to);
    call_answer(c, 308, NULL, NULL);
}
