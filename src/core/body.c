/* The part of a task that is written once, copied into one block: the struct, then its strings, the payload and the rate key, each
 * with a NUL behind it. One allocation, one release, and a body travels between threads as one pointer. Written once, it can be shared by
 * those who would otherwise copy it.
 *
 * Bodies that are made together are packed (body.h). A block counts the holders of all the bodies in it; bodies travel between threads,
 * so the count is moved as one. */
#include "core/body.h"
#include <stddef.h>
#include <string.h>

struct pawl_body_block {
    const pawl_allocator *allocator;
    void *memory; /* what was allocated */
    int holders;
};

static size_t text_size(const char *text) { return text ? strlen(text) + 1 : 0; }

static size_t bytes_size(pawl_bytes bytes) { return bytes.data ? bytes.len + 1 : 0; }

static size_t aligned(size_t size) { return (size + 15) & ~(size_t)15; }

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

/* ---- one block each -------------------------------------------------------------------------------------------------------------- */

pawl_body *pawl_body_copy(const pawl_allocator *allocator, const pawl_body *from)
{
    size_t type = text_size(from->type), queue = text_size(from->queue), tenant = text_size(from->tenant),
           key = text_size(from->key), content = text_size(from->content_type), by = text_size(from->created_by),
           trace = text_size(from->traceparent), headers = text_size(from->headers);
    size_t size = sizeof *from + sizeof *from->block + type + queue + tenant + key + content + by + trace + headers +
                  bytes_size(from->payload) + bytes_size(from->rate_key);
    pawl_body *body = allocator->alloc(allocator->ctx, size);
    if (!body) return NULL;
    memcpy(body, from, offsetof(pawl_body, block)); /* what follows may be moving */
    body->block = (struct pawl_body_block *)(body + 1);
    *body->block = (struct pawl_body_block){.allocator = allocator, .memory = body, .holders = 1};
    char *at = (char *)(body->block + 1);
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

/* ---- holders --------------------------------------------------------------------------------------------------------------------- */

static bool same(const pawl_allocator *a, const pawl_allocator *b)
{
    return a == b || (b && a->release == b->release && a->ctx == b->ctx);
}

static void move(const pawl_allocator *allocator, struct pawl_body_block *block, int holders)
{
    if (__atomic_add_fetch(&block->holders, holders, __ATOMIC_ACQ_REL) == 0) allocator->release(allocator->ctx, block->memory);
}

static bool sharable(const pawl_allocator *allocator, const pawl_body *from)
{
    return from->block && same(allocator, from->block->allocator);
}

pawl_body *pawl_body_share(const pawl_allocator *allocator, pawl_body *from)
{
    if (!sharable(allocator, from)) return pawl_body_copy(allocator, from);
    move(allocator, from->block, 1);
    return from;
}

void pawl_body_free(const pawl_allocator *allocator, pawl_body *body)
{
    if (body) move(allocator, body->block, -1);
}

void body_moves_done(body_moves *m)
{
    if (m->holders != 0) move(m->allocator, m->block, m->holders);
    *m = (body_moves){0};
}

static void gather(body_moves *m, const pawl_allocator *allocator, struct pawl_body_block *block, int holders)
{
    if (m->block != block) {
        body_moves_done(m);
        m->allocator = allocator;
        m->block = block;
    }
    m->holders += holders;
}

pawl_body *body_share(body_moves *m, const pawl_allocator *allocator, pawl_body *from)
{
    if (!sharable(allocator, from)) return pawl_body_copy(allocator, from);
    gather(m, allocator, from->block, 1);
    return from;
}

void body_free(body_moves *m, const pawl_allocator *allocator, pawl_body *body)
{
    if (body) gather(m, allocator, body->block, -1);
}

/* ---- many in a block ------------------------------------------------------------------------------------------------------------- */

/* What it takes to store a name: nothing if the body before has it. */
static size_t name_size(const char *name, const char *before) { return name == before ? 0 : text_size(name); }

static const char *put_name(char **at, const char *name, size_t size, const char *before)
{
    return size ? put_text(at, name, size) : name ? before : NULL;
}

static void end_block(body_pack *p)
{
    if (p->block) p->block->holders = p->bodies; /* nobody else has seen one of them yet */
    if (p->block && p->bodies == 0) p->allocator->release(p->allocator->ctx, p->block);
    *p = (body_pack){.allocator = p->allocator};
}

static bool begin_block(body_pack *p)
{
    end_block(p);
    struct pawl_body_block *block = p->allocator->alloc(p->allocator->ctx, BODY_PACK);
    if (!block) return false;
    *block = (struct pawl_body_block){.allocator = p->allocator, .memory = block};
    p->block = block;
    p->at = (char *)block + aligned(sizeof *block);
    p->end = (char *)block + BODY_PACK;
    return true;
}

/* The next but one will lie here. Whoever had this memory last has it in the caches of another processor. */
static void fetch(const body_pack *p, size_t size)
{
    if ((size_t)(p->end - p->at) < 2 * size) return;
    for (size_t at = size; at < 2 * size; at += 64) __builtin_prefetch(p->at + at, 1);
}

/* NULL: it does not fit into what is left. */
static pawl_body *put_body(body_pack *p, const pawl_body *from)
{
    const pawl_body *seen = &p->from, *last = p->last ? p->last : seen;
    size_t type = name_size(from->type, seen->type), queue = name_size(from->queue, seen->queue),
           tenant = name_size(from->tenant, seen->tenant), content = name_size(from->content_type, seen->content_type),
           by = name_size(from->created_by, seen->created_by), trace = name_size(from->traceparent, seen->traceparent),
           key = text_size(from->key), headers = text_size(from->headers);
    size_t size = aligned(sizeof *from + type + queue + tenant + content + by + trace + key + headers +
                          bytes_size(from->payload) + bytes_size(from->rate_key));
    if (size > (size_t)(p->end - p->at)) return NULL;
    pawl_body *body = (pawl_body *)(void *)p->at;
    char *at = (char *)(body + 1);
    memcpy(body, from, offsetof(pawl_body, block));
    body->block = p->block;
    body->payload = put_bytes(&at, from->payload); /* beside what else is read of it */
    body->type = put_name(&at, from->type, type, last->type);
    body->queue = put_name(&at, from->queue, queue, last->queue);
    body->tenant = from->tenant ? put_name(&at, from->tenant, tenant, last->tenant) : "";
    body->content_type = put_name(&at, from->content_type, content, last->content_type);
    body->created_by = put_name(&at, from->created_by, by, last->created_by);
    body->traceparent = put_name(&at, from->traceparent, trace, last->traceparent);
    body->key = put_text(&at, from->key, key);
    body->headers = put_text(&at, from->headers, headers);
    body->rate_key = put_bytes(&at, from->rate_key);
    p->at += size;
    fetch(p, size);
    return body;
}

/* Another block is begun only if this one is well used: what is large lies alone. */
static pawl_body *add(body_pack *p, const pawl_body *from)
{
    pawl_body *body = p->block ? put_body(p, from) : NULL;
    if (body) return body;
    if (p->block && (size_t)(p->end - p->at) > BODY_PACK / 4) return pawl_body_copy(p->allocator, from);
    if (!begin_block(p)) return NULL;
    body = put_body(p, from);
    return body ? body : pawl_body_copy(p->allocator, from);
}

pawl_body *body_pack_add(body_pack *p, const pawl_body *from)
{
    if (from->payload.len + from->rate_key.len > BODY_PACK / 4) return pawl_body_copy(p->allocator, from);
    pawl_body *body = add(p, from);
    if (!body) return NULL;
    if (body->block != p->block) return body;
    p->bodies++;
    p->from = *from;
    p->last = body;
    return body;
}

void body_pack_done(body_pack *p) { end_block(p); }
