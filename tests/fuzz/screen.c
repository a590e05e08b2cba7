/* What others wrote, on its way to a person's terminal: no byte of it may command the terminal, and no column may grow beyond its
 * width. */
#include "base/alloc.h"
#include "base/text.h"
#include "cli/term.h"
#include "fuzz/fuzz.h"
#include <string.h>

/* No control character of ASCII or of C1, and none that turns the direction of text. */
static bool harmless(const char *text, size_t n, bool lines)
{
    if (!utf8_valid(text, n)) return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i], d = i + 1 < n ? (unsigned char)text[i + 1] : 0;
        unsigned char e = i + 2 < n ? (unsigned char)text[i + 2] : 0;
        if ((c < ' ' && !(lines && (c == '\n' || c == '\t'))) || c == 0x7f || (c == 0xc2 && d < 0xa0)) return false;
        if (c == 0xe2 && ((d == 0x80 && e >= 0xaa && e <= 0xae) || (d == 0x81 && e >= 0xa6 && e <= 0xa9))) return false;
    }
    return true;
}

static void safe(pawl_bytes text, bool lines)
{
    buf out;
    buf_init(&out, alloc_default(), 1 << 20);
    term_safe(&out, text, lines);
    HOLDS(!out.failed && harmless(buf_text(&out), out.len, lines) && out.len <= 4 * text.len);
    term t = {.utf8 = lines};
    int width = text.len ? (unsigned char)text.data[0] % 40 + 3 : 3;
    if (!memchr(buf_text(&out), 0, out.len)) {
        term_cut(&t, &out, width);
        HOLDS(term_columns(buf_text(&out)) <= width && utf8_valid(buf_text(&out), out.len));
    }
    buf_done(&out);
}

/* Two columns, two rows; the terminal is as wide as the first byte says. */
static void rows(const char *text, int width)
{
    term term = {.tty = true, .utf8 = true, .width = width};
    table t;
    char *printed = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&printed, &n);
    if (!out) return;
    table_init(&t, &term);
    table_column(&t, "FIRST", COLUMN_LEFT);
    table_column(&t, "SECOND", COLUMN_FLEX);
    for (int i = 0; i < 2; i++) {
        table_cell(&t, PLAIN, "%d", i);
        table_cell(&t, PLAIN, "%s", text);
    }
    HOLDS(table_print(&t, out));
    fclose(out);
    HOLDS(harmless(printed, n, true));
    free(printed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pawl_bytes text = {(const char *)data, size};
    safe(text, false);
    safe(text, true);
    char *copy = malloc(size + 1);
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    copy[size] = '\0';
    rows(copy, size ? data[0] % 100 + 20 : 20);
    free(copy);
    return 0;
}
