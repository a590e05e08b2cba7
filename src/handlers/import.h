/* The parts of the kind `import`; import.c has the whole. */
#ifndef HANDLERS_IMPORT_H
#define HANDLERS_IMPORT_H

#include "base/json.h"
#include "handlers/handlers.h"
#include "handlers/rows.h"
#include "handlers/template.h"

#define IMPORT_ERRORS_MAX 100 /* that the result tells; all are in the log */

typedef struct import_settings {
    const char *directory, *format, *separator, *task_type, *task_queue, *task_key;
    text_list columns, needed;
    bool no_header;
    int64_t chunk, row_max, errors_max;
} import_settings;

typedef enum column_type { COLUMN_TEXT, COLUMN_INT, COLUMN_NUMBER, COLUMN_BOOL } column_type;

typedef struct column {
    const char *name;
    column_type type;
    bool needed;
} column;

/* Columns as the section has them, each with its type. */
pawl_status columns_read(const text_list *list, pawl_arena *arena, column *out, size_t *count, pawl_error *err);
/* Columns of a file, by its header; what the section says of them is taken over. INVALID: why it is not a header. */
pawl_status columns_match(const rows *header, const column *said, size_t said_count, const text_list *needed, pawl_arena *arena,
                          column *out, size_t *count, pawl_error *err);
/* A row of CSV as a JSON object. INVALID: why not. */
pawl_status columns_object(const rows *row, const column *columns, size_t count, buf *out, pawl_error *err);

/* Where an import has come to. It travels in the payload of the next link. */
typedef struct import_place {
    const char *file;
    char import[PAWL_ID_TEXT]; /* the first task's id; "": this is it */
    int64_t offset, line;      /* of the next row; line 0: nothing was read yet */
    int64_t rows, bad;         /* tasks made; rows left out */
    int64_t size, mtime_us, inode;
    pawl_bytes errors; /* JSON: the first bad rows, an array */
} import_place;

pawl_status import_place_read(pawl_bytes payload, pawl_arena *arena, import_place *out, pawl_error *err);
void import_place_write(const import_place *place, buf *out);

/* Opens a file beneath a directory: no link is followed, and it is a plain file. INVALID: it is not; UNAVAILABLE: it could not be opened. */
pawl_status import_open_file(const char *directory, const char *path, int *fd, pawl_error *err);

#endif
