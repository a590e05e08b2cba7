/* What works on a store without an engine: schema, migration, examination. */
#ifndef RUNTIME_UPKEEP_H
#define RUNTIME_UPKEEP_H

#include "store/store.h"

const pawl_allocator *upkeep_allocator(const pawl_options *options); /* options may be NULL, here and below */
pawl_store_options upkeep_store(const pawl_options *options);

void *upkeep_give(pawl_arena *arena, const void *value, size_t size); /* a copy that owns the arena; NULL: no memory */
void upkeep_take_back(const void *value);                             /* frees it all; NULL is fine */
pawl_status upkeep_no_memory(pawl_error *err);

#endif
