/* Output for people: what the terminal can do, colours, safe text, times in words, tables. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include "base/redact.h"
#include <pawl.h>
#include <stdio.h>

typedef struct term {
    bool tty;
    bool color; /* on a terminal, and neither NO_COLOR nor --no-color says otherwise */
    bool utf8;
    int width; /* columns; 0: no limit (not a terminal) */
} term;

typedef enum paint { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN } paint;

void term_init(term *t, FILE *out, bool no_color);
const char *term_on(const term *t, paint color); /* the escape sequence, or "" */
const char *term_off(const term *t);
paint term_state(const char *display); /* the colour of a task's state */
int term_columns(const char *text);    /* how many columns a UTF-8 text takes */

void term_hide(const redaction *hidden); /* what term_safe masks; lives on. NULL: the usual ones */
/* Control bytes and broken UTF-8 never reach the terminal: they become \xNN. Secrets are masked. lines: newlines and tabs may stay. */
void term_safe(buf *out, pawl_bytes text, bool lines);
void term_cut(const term *t, buf *text, int width); /* at most so many columns, with a mark where something is left out */

/* Prints words in lines of at most `width` columns, the first beginning at column `at`, the others indented by `indent`. */
void term_wrap(FILE *out, const char *text, int at, int indent, int width);

/* "3m ago", "in 4h", "now"; "3m" without words. */
#define WHEN_TEXT 48
void when_age(int64_t us, char out[WHEN_TEXT]);
void when_relative(int64_t at_us, int64_t now_us, char out[WHEN_TEXT]);
void when_full(int64_t at_us, int64_t now_us, char out[WHEN_TEXT]); /* "2026-11-15 04:49:03 (3m ago)", local time */
void number_grouped(int64_t value, char out[32]);                   /* "1,234,567" */

/* Tables: add columns, then cells row by row, then print. Columns are aligned; on a terminal they are cut to its width, the
 * flexible ones first. */
#define TABLE_COLUMNS 16

typedef enum column_kind { COLUMN_LEFT, COLUMN_RIGHT, COLUMN_FLEX } column_kind;

typedef struct cell {
    size_t at; /* in texts */
    paint color;
} cell;

typedef struct table {
    const term *term;
    int columns;
    const char *titles[TABLE_COLUMNS];
    column_kind kinds[TABLE_COLUMNS];
    buf texts;
    cell *cells;
    size_t count, room;
    bool failed;
} table;

void table_init(table *t, const term *term);
void table_column(table *t, const char *title, column_kind kind);
void table_cell(table *t, paint color, const char *fmt, ...) PAWL_PRINTF(3, 4); /* made safe here */
bool table_print(table *t, FILE *out);                                          /* and frees it; false: no memory */

#endif
