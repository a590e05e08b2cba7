#include "base/alloc.h"
#include "cli/term.h"
#include <stdlib.h>
#include <string.h>

#define TABLE_TEXTS_MAX (256u << 20)
#define GAP 2
#define FLEX_LEAST 8

void table_init(table *t, const term *term)
{
    *t = (table){.term = term};
    buf_init(&t->texts, alloc_default(), TABLE_TEXTS_MAX);
}

void table_column(table *t, const char *title, column_kind kind)
{
    t->titles[t->columns] = title;
    t->kinds[t->columns++] = kind;
}

void table_cell(table *t, paint color, const char *fmt, ...)
{
    if (t->count == t->room) {
        size_t room = t->room ? t->room * 2 : 256;
        cell *grown = alloc_resize(alloc_default(), t->cells, room * sizeof *grown);
        if (!grown) {
            t->failed = true;
            return;
        }
        t->cells = grown;
        t->room = room;
    }
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        t->failed = true;
        return;
    }
    t->cells[t->count++] = (cell){t->texts.len, color};
    term_safe(&t->texts, (pawl_bytes){text, (size_t)n}, false);
    buf_char(&t->texts, '\0');
    free(text);
}

static const char *cell_text(const table *t, size_t i) { return t->texts.data + t->cells[i].at; }

/* How wide each column wants to be; returns the whole line's width. */
static int measure(const table *t, int widths[TABLE_COLUMNS])
{
    int line = -GAP;
    for (int i = 0; i < t->columns; i++) widths[i] = (int)strlen(t->titles[i]);
    for (size_t i = 0; i < t->count; i++) {
        int columns = term_columns(cell_text(t, i)), *width = &widths[i % (size_t)t->columns];
        if (columns > *width) *width = columns;
    }
    for (int i = 0; i < t->columns; i++) line += widths[i] + GAP;
    return line;
}

/* Takes columns away until the line fits: from the widest flexible column, as long as one is wider than the least. */
static void shrink(const table *t, int widths[TABLE_COLUMNS], int line)
{
    while (line > t->term->width) {
        int widest = -1;
        for (int i = 0; i < t->columns; i++) {
            if (t->kinds[i] != COLUMN_FLEX || widths[i] <= FLEX_LEAST) continue;
            if (widest < 0 || widths[i] > widths[widest]) widest = i;
        }
        if (widest < 0) return;
        widths[widest]--;
        line--;
    }
}

static int at_most(int want, int room) { return room < 0 ? 0 : want < room ? want : room; }

/* Nothing goes beyond the edge of the terminal, empty room neither: it would begin another line. */
static void print_cell(const table *t, FILE *out, buf *line, int column, int width, const char *text, paint color, int *at)
{
    bool last = column == t->columns - 1;
    buf_clear(line);
    buf_str(line, text);
    int room = t->term->width ? t->term->width - *at : width + GAP;
    int shown = at_most(width, room), gap = at_most(GAP, room - width);
    if (t->term->width) term_cut(t->term, line, shown);
    int pad = shown - term_columns(buf_text(line));
    bool right = t->kinds[column] == COLUMN_RIGHT;
    if (right && pad > 0) fprintf(out, "%*s", pad, "");
    fprintf(out, "%s%s%s", term_on(t->term, color), buf_text(line), color == PLAIN ? "" : term_off(t->term));
    if (!last && !right && pad > 0) fprintf(out, "%*s", pad, "");
    if (!last && gap > 0) fprintf(out, "%*s", gap, "");
    *at += width + GAP;
}

static void print_rows(const table *t, FILE *out, buf *line, const int *widths)
{
    for (int i = 0, at = 0; i < t->columns; i++) print_cell(t, out, line, i, widths[i], t->titles[i], DIM, &at);
    fputc('\n', out);
    for (size_t row = 0; row < t->count; row += (size_t)t->columns) {
        for (int i = 0, at = 0; i < t->columns; i++) {
            size_t n = row + (size_t)i;
            print_cell(t, out, line, i, widths[i], cell_text(t, n), t->cells[n].color, &at);
        }
        fputc('\n', out);
    }
}

bool table_print(table *t, FILE *out)
{
    bool ok = !t->failed && !t->texts.failed && t->count % (size_t)t->columns == 0;
    if (ok) {
        int widths[TABLE_COLUMNS] = {0};
        buf line;
        buf_init(&line, alloc_default(), TABLE_TEXTS_MAX);
        int whole = measure(t, widths);
        if (t->term->width) shrink(t, widths, whole);
        print_rows(t, out, &line, widths);
        ok = !line.failed;
        buf_done(&line);
    }
    buf_done(&t->texts);
    alloc_free(alloc_default(), t->cells);
    return ok;
}
