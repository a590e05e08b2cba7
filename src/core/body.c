/* The part of a task that is written once, copied into one block: the struct, then its strings, the payload and the rate key, each
 * with a NUL behind it. One allocation, one release, and a body travels between threads as one pointer. Written once, it can be shared by
 * those who would otherwise copy it. */
#include <pawl/store.h>
#include <stddef.h>
#include <string.h>

static size_t text_size(const char *text) { return text ? strlen(text) + 1 : 0; }

static size_t bytes_size(pawl_bytes bytes) { return bytes.data ? bytes.len + 1 : 0; }

static const char *put_text(char **at, const char *text, size_t size)
{
    if (!text) return NULL;
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

pawl_body *pawl_body_copy(const pawl_allocator *allocator, const pawl_body *from)
{
    size_t type = text_size(from->type), queue = text_size(from->queue), tenant = text_size(from->tenant),
           key = text_size(from->key), content = text_size(from->content_type), by = text_size(from->created_by),
           trace = text_size(from->traceparent), headers = text_size(from->headers);
    size_t size = sizeof *from + type + queue + tenant + key + content + by + trace + headers + bytes_size(from->payload) +
                  bytes_size(from->rate_key);
    pawl_body *body = allocator->alloc(allocator->ctx, size);
    if (!body) return NULL;
    memcpy(body, from, offsetof(pawl_body, block)); /* what follows may be moving */
    body->block = allocator;
    body->shares = 0;
    char *at = (char *)(body + 1);
    body->type = put_text(&at, from->type, type);
    body->queue = put_text(&at, from->queue, queue);
    body->tenant = from->tenant ? put_text(&at, from->tenant, tenant) : "";
    body->key = put_text(&at, from->key, key);
    body->content_type = put_text(&at, from->content_type, content);
    body->created_by = put_text(&at, from->created_by, by);
    body->traceparent = put_text(&at, from->traceparent, trace);
    body->headers = put_text(&at, from->headers, headers);
    body->payload = put_bytes(&at, from->payload);
    body->rate_key = put_bytes(&at, from->rate_key);
    return body;
}

static bool same(const pawl_allocator *a, const pawl_allocator *b)
{
    return a == b || (b && a->release == b->release && a->ctx == b->ctx);
}

/* Bodies travel between threads, so the count is moved as one. */
pawl_body *pawl_body_share(const pawl_allocator *allocator, pawl_body *from)
{
    if (!from->block || !same(allocator, from->block)) return pawl_body_copy(allocator, from);
    __atomic_add_fetch(&from->shares, 1, __ATOMIC_RELAXED);
    return from;
}

void pawl_body_free(const pawl_allocator *allocator, pawl_body *body)
{
    if (!body || __atomic_fetch_sub(&body->shares, 1, __ATOMIC_ACQ_REL) > 0) return;
    allocator->release(allocator->ctx, body);
}
