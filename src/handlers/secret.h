/* Secrets are kept in files of their own, mode 0600, and read anew for each use: a new one needs no restart. */
#ifndef HANDLERS_SECRET_H
#define HANDLERS_SECRET_H

#include "base/buf.h"

#define SECRET_FILE_MAX (16u << 10)

/* Adds what is in the file, without the line end behind it. DENIED: others can read it. The message names the file. */
pawl_status secret_read(const char *path, buf *out, pawl_error *err);
void secret_forget(buf *b); /* buf_done, after overwriting it */

#endif
