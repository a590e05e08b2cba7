#include "handlers/rows.h"

#include "base/text.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define END (-1)

void rows_init(rows *r, const pawl_allocator *a, int fd, char separator, size_t row_max, int64_t offset, int64_t line)
{
    r->fd = fd;
    r->separator = separator;
    r->offset = offset;
    r->line = line;
    r->used = r->filled = r->count = 0;
    r->broken = NULL;
    r->failed = 0;
    buf_init(&r->text, a, row_max);
}

void rows_done(rows *r) { buf_done(&r->text); }

/* ---- bytes ---------------------------------------------------------------------------------------------------------------------- */

static bool fill(rows *r)
{
    ssize_t n;
    do n = pread(r->fd, r->block, sizeof r->block, r->offset);
    while (n < 0 && errno == EINTR);
    if (n < 0) r->failed = errno;
    r->used = 0;
    r->filled = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static int peek(rows *r) { return r->used < r->filled || fill(r) ? (unsigned char)r->block[r->used] : END; }

static int next(rows *r)
{
    int c = peek(r);
    if (c == END) return END;
    r->used++;
    r->offset++;
    r->line += c == '\n';
    return c;
}

static void spoil(rows *r, const char *why)
{
    if (!r->broken) r->broken = why;
}

/* Beyond the limit, or without memory, the rest of the row is read and forgotten. */
static void keep(rows *r, int c)
{
    if (!r->text.failed && !buf_char(&r->text, (char)c)) spoil(r, "is too long");
}

static void skip_mark(rows *r)
{
    static const char mark[] = "\xef\xbb\xbf";
    if (r->offset || peek(r) == END || r->filled < 3 || memcmp(r->block, mark, 3) != 0) return;
    r->used = 3;
    r->offset = 3;
}

/* ---- CSV ------------------------------------------------------------------------------------------------------------------------ */

static void end_field(rows *r, size_t from, bool quoted)
{
    size_t len = r->text.len - from;
    if (r->count == ROWS_FIELDS_MAX) spoil(r, "has too many fields");
    else r->fields[r->count++] = (rows_field){from, len, quoted};
    if (!utf8_valid(len ? r->text.data + from : "", len)) spoil(r, "is not UTF-8");
    keep(r, '\0');
}

/* Behind the opening quote, up to the closing one. */
static void read_quoted(rows *r)
{
    for (;;) {
        int c = next(r);
        if (c == END) {
            spoil(r, "has a quote that is not closed");
            return;
        }
        if (c == '"' && peek(r) != '"') return;
        if (c == '"') next(r);
        keep(r, c);
    }
}

static bool at_line_end(rows *r)
{
    if (peek(r) != '\r') return peek(r) == '\n' || peek(r) == END;
    if (r->used + 1 == r->filled) { /* what comes next is in another block */
        r->filled = r->used;
        fill(r);
    }
    return r->used + 1 < r->filled && r->block[r->used + 1] == '\n';
}

/* One field; true: another one follows. */
static bool read_field(rows *r)
{
    size_t from = r->text.len;
    bool quoted = peek(r) == '"';
    if (quoted) {
        next(r);
        read_quoted(r);
        if (!at_line_end(r) && peek(r) != r->separator) spoil(r, "has text behind a closing quote");
    }
    while (!at_line_end(r) && peek(r) != r->separator) {
        int c = next(r);
        if (c == '"') spoil(r, "has a quote inside a field without quotes");
        keep(r, c);
    }
    end_field(r, from, quoted);
    if (!at_line_end(r)) return next(r) != END;
    if (next(r) == '\r') next(r);
    return false;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------------------- */

static void begin_row(rows *r)
{
    buf_clear(&r->text);
    r->count = 0;
    r->broken = NULL;
    r->row_line = r->line;
}

static void read_line(rows *r)
{
    int c;
    while ((c = next(r)) != END && c != '\n') keep(r, c);
    if (r->text.len && r->text.data[r->text.len - 1] == '\r') r->text.data[--r->text.len] = '\0';
}

static bool is_empty(const rows *r)
{
    if (r->broken) return false;
    if (r->separator) return r->count == 1 && !r->fields[0].len && !r->fields[0].quoted;
    return strspn(buf_text(&r->text), " \t") == r->text.len;
}

bool rows_next(rows *r)
{
    skip_mark(r);
    while (peek(r) != END) {
        begin_row(r);
        if (!r->separator) read_line(r);
        else
            while (read_field(r)) {}
        if (r->failed) return false;
        if (!is_empty(r)) return true;
    }
    return false;
}
