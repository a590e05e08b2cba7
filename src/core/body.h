/* Bodies that are made together, packed into few blocks of memory. */
#ifndef CORE_BODY_H
#define CORE_BODY_H

#include <pawl/store.h>

/* A pack under way: all zero but the allocator, then body_pack for each, then body_pack_done. Names that are the same pointer as in the
 * body before are stored once. What was packed is shared and freed like any other body; a block goes with the last one in it, so that
 * one that stays for long keeps BODY_PACK bytes at most. */
#define BODY_PACK ((size_t)16 << 10)

typedef struct body_pack {
    const pawl_allocator *allocator;
    struct pawl_body_block *block;
    int bodies;            /* in it */
    char *at, *end;        /* what is left of it */
    const pawl_body *last; /* in this block */
    pawl_body from;        /* what that is a copy of */
} body_pack;

pawl_body *body_pack_add(body_pack *p, const pawl_body *from); /* NULL: no memory */
void body_pack_done(body_pack *p);

/* Changes of who holds what, gathered while they are about one block: the count of a block is moved between processors, and each move
 * waits for the memory. All zero: nothing. Whoever gathers sees to body_moves_done in time: before another holder may let go of what was
 * shared, and soon after what was freed. */
typedef struct body_moves {
    const pawl_allocator *allocator; /* of `block` */
    struct pawl_body_block *block;
    int holders; /* more, or fewer */
} body_moves;

pawl_body *body_share(body_moves *m, const pawl_allocator *allocator, pawl_body *from); /* pawl_body_share */
void body_free(body_moves *m, const pawl_allocator *allocator, pawl_body *body);        /* pawl_body_free */
void body_moves_done(body_moves *m);

#endif
