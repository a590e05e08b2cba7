/* Rows of CSV and NDJSON, and templates of arguments. The first byte says which.
 *
 * Rows: reading on from where a row ends gives the same rows as reading from the beginning, which is what an import rests on. Fields are UTF-8
 * where the row is not broken.
 * Templates: an argument that is made has no NUL and begins with "-" only if the template does, or says `any`. */
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "handlers/rows.h"
#include "handlers/template.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROW_MAX 300

static bool same(const rows *a, const rows *b)
{
    if (a->row_line != b->row_line || a->offset != b->offset || a->line != b->line || !a->broken != !b->broken) return false;
    return a->broken || (a->count == b->count && a->text.len == b->text.len &&
                         memcmp(buf_text(&a->text), buf_text(&b->text), a->text.len) == 0);
}

static void check_row(const rows *r)
{
    HOLDS(r->text.len <= ROW_MAX && r->count <= ROWS_FIELDS_MAX);
    for (size_t i = 0; i < r->count && !r->broken; i++) {
        HOLDS(r->fields[i].at + r->fields[i].len < r->text.len);
        HOLDS(utf8_valid(r->text.data + r->fields[i].at, r->fields[i].len));
    }
}

static void read_rows(const char *data, size_t size, char separator)
{
    static rows whole, part;
    int fd = memfd_create("rows", MFD_CLOEXEC);
    int64_t offset = 0, line = 1, before = -1;
    HOLDS(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    rows_init(&whole, alloc_default(), fd, separator, ROW_MAX, 0, 1);
    while (rows_next(&whole)) {
        HOLDS(whole.offset > before);
        before = whole.offset;
        check_row(&whole);
        rows_init(&part, alloc_default(), fd, separator, ROW_MAX, offset, line);
        HOLDS(rows_next(&part) && same(&whole, &part));
        offset = part.offset;
        line = part.line;
        rows_done(&part);
    }
    HOLDS(!whole.failed);
    rows_done(&whole);
    close(fd);
}

/* A template, a newline, a payload. */
static void fill_template(const char *data, size_t size)
{
    template *t;
    arguments a;
    const char *newline = memchr(data, '\n', size);
    size_t n = newline ? (size_t)(newline - data) : size;
    pawl_bytes payload = {newline ? newline + 1 : "null", newline ? size - n - 1 : 4};
    pawl_arena *arena = arena_new(alloc_default(), 1 << 20);
    char *text = pawl_arena_bytes(arena, data, n);
    HOLDS(arena && text);
    arguments_init(&a, alloc_default());
    bool dash = *text == '-' || strstr(text, "any");
    if (!template_parse(text, arena, &t, NULL) && json_valid(payload, NULL, NULL) &&
        !arguments_fill(&a, t, json_parse(payload), NULL) && !arguments_end(&a, NULL)) {
        size_t bytes = 0;
        for (size_t i = 0; i < a.count; i++) {
            HOLDS(dash || a.vector[i][0] != '-');
            bytes += strlen(a.vector[i]) + 1;
        }
        HOLDS(bytes == a.text.len && !a.vector[a.count]);
    }
    arguments_done(&a);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const char *data = (const char *)bytes;
    if (size < 1 || size > 100000) return 0;
    if (*data == 't') fill_template(data + 1, size - 1);
    else read_rows(data + 1, size - 1, *data == 'n' ? '\0' : *data == ';' ? ';' : ',');
    return 0;
}
