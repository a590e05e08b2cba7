/* Answers that say what is wrong: RFC 9457. */
#include "base/alloc.h"
#include "base/json.h"
#include "http/http.h"
#include <microhttpd.h>
#include <stdio.h>

#define PROBLEM_MAX (16u << 10)

const char *http_reason(int status) { return MHD_get_reason_phrase_for((unsigned)status); }

void http_problem_body(buf *out, int status, const char *type, const char *detail)
{
    char urn[96];
    json_writer w;
    snprintf(urn, sizeof urn, "urn:pawl:problem:%s", type);
    jsonw_init(&w, out, false);
    jsonw_object(&w);
    jsonw_key(&w, "type");
    jsonw_string(&w, urn);
    jsonw_key(&w, "title");
    jsonw_string(&w, http_reason(status));
    jsonw_key(&w, "status");
    jsonw_int(&w, status);
    jsonw_key(&w, "detail");
    jsonw_string(&w, detail);
    jsonw_end_object(&w);
    buf_char(out, '\n');
}

void http_problem(http_request *r, int status, const char *type, const char *fmt, ...)
{
    char detail[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    buf out;
    buf_init(&out, alloc_default(), PROBLEM_MAX);
    http_problem_body(&out, status, type, detail);
    http_answer(r, status, "application/problem+json", &out);
}
