/* Finding a store's table by the scheme of its URLs. */
#ifndef STORE_REGISTRY_H
#define STORE_REGISTRY_H

#include "store/store.h"

/* Built in, registered, or a module that is loaded now. NOT_FOUND without a message: there is none of that kind. */
pawl_status registry_find(const char *scheme, size_t len, const pawl_store_type **out, pawl_error *err);

/* module.c: loads the module for a scheme. NOT_FOUND without a message: there is none. */
pawl_status module_find(const char *scheme, size_t len, const pawl_store_type **out, pawl_error *err);

#endif
