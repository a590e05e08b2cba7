/* The part of a task that is written once, copied into one block: the struct, then its strings, the payload and the rate key, each
 * with a NUL behind it. One allocation, one release, and a body travels between threads as one pointer. */
#include <pawl/store.h>
#include <string.h>

static size_t text_size(const char *text) { return text ? strlen(text) + 1 : 0; }

static size_t bytes_size(pawl_bytes bytes) { return bytes.data ? bytes.len + 1 : 0; }

static const char *put_text(char **at, const char *text)
{
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

static pawl_bytes put_bytes(char **at, pawl_bytes bytes)
{
    if (!bytes.data) return (pawl_bytes){0};
    char *copy = memcpy(*at, bytes.data, bytes.len);
    copy[bytes.len] = '\0';
    *at += bytes.len + 1;
    return (pawl_bytes){copy, bytes.len};
}

static size_t body_size(const pawl_body *b)
{
    return sizeof *b + text_size(b->type) + text_size(b->queue) + text_size(b->tenant) + text_size(b->key) +
           text_size(b->content_type) + text_size(b->created_by) + text_size(b->traceparent) + text_size(b->headers) +
           bytes_size(b->payload) + bytes_size(b->rate_key);
}

pawl_body *pawl_body_copy(const pawl_allocator *allocator, const pawl_body *from)
{
    pawl_body *body = allocator->alloc(allocator->ctx, body_size(from));
    if (!body) return NULL;
    *body = *from;
    char *at = (char *)(body + 1);
    body->type = put_text(&at, from->type);
    body->queue = put_text(&at, from->queue);
    body->tenant = from->tenant ? put_text(&at, from->tenant) : "";
    body->key = put_text(&at, from->key);
    body->content_type = put_text(&at, from->content_type);
    body->created_by = put_text(&at, from->created_by);
    body->traceparent = put_text(&at, from->traceparent);
    body->headers = put_text(&at, from->headers);
    body->payload = put_bytes(&at, from->payload);
    body->rate_key = put_bytes(&at, from->rate_key);
    return body;
}
