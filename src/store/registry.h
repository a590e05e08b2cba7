/* Finding a store's table by the scheme of its URLs. */
#ifndef STORE_REGISTRY_H
#define STORE_REGISTRY_H

#include "store/store.h"

const pawl_store_type *registry_find(const char *scheme, size_t len); /* NULL: there is none */

#endif
