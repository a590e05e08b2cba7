/* Rows of a CSV or NDJSON file, one after the other, with memory for one of them.
 *
 * CSV is read as RFC 4180 has it: fields in quotes may hold separators, quotes (doubled) and line ends; lines end in LF or CRLF. NDJSON has one
 * JSON value a line. A byte order mark at the beginning is skipped, and so are empty lines. Everything is UTF-8.
 *
 * Where a row ends the reader has no memory of what came before, so that `offset` and `line` are all that is needed to go on from there.
 */
#ifndef HANDLERS_ROWS_H
#define HANDLERS_ROWS_H

#include "base/buf.h"

#define ROWS_FIELDS_MAX 1000

typedef struct rows_field {
    size_t at, len; /* in the reader's text */
    bool quoted;
} rows_field;

typedef struct rows {
    int fd;
    char separator; /* of CSV; 0: NDJSON */
    int64_t offset; /* of the next byte, in the file */
    int64_t line;   /* of the next row; the first is 1 */
    char block[64 << 10];
    size_t used, filled; /* of the block */
    buf text;            /* of the row; CSV: decoded fields, each with a NUL behind it */
    rows_field fields[ROWS_FIELDS_MAX];
    size_t count;
    int64_t row_line;   /* where the row begins */
    const char *broken; /* what is wrong with the row; NULL: nothing */
    int failed;         /* errno of a read; 0: none */
} rows;

/* From `offset`, where line `line` begins. row_max: bytes of a row; a longer one is broken. */
void rows_init(rows *r, const pawl_allocator *a, int fd, char separator, size_t row_max, int64_t offset, int64_t line);
void rows_done(rows *r);

/* The next row, broken or not; false: there is none, or it could not be read (`failed`). */
bool rows_next(rows *r);

#endif
