/* What the targets share.
 *
 * An input of several fields is text, a field per line, so that corpora can be read and written by hand. An empty line, or one that is
 * not there, is no field (NULL, 0); a line of two quotes is an empty text.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <pawl.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

#define FUZZ_FIELDS 64

typedef struct fuzz {
    const char *at, *end;
    char *fields[FUZZ_FIELDS]; /* each a block of the very size, so that a sanitizer sees a read beyond it */
    int count;
} fuzz;

void fuzz_begin(fuzz *in, const uint8_t *data, size_t size);
const char *fuzz_text(fuzz *in);
pawl_bytes fuzz_bytes(fuzz *in); /* the rest of the input */
int64_t fuzz_int(fuzz *in);
double fuzz_real(fuzz *in);
void fuzz_end(fuzz *in); /* frees the fields */

/* A failure says what happened in text that can be shown. */
void fuzz_failed(pawl_status status, const pawl_error *err);

/* A folder of this process's own, empty, removed with all that is in it when the process ends. */
const char *fuzz_folder(void);

#endif
