#include "cli/term.h"

#include "base/alloc.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static bool env_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

static bool locale_is_utf8(void)
{
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

void term_init(term *t, FILE *out, bool no_color)
{
    *t = (term){.tty = isatty(fileno(out)), .utf8 = locale_is_utf8()};
    if (!t->tty) return;
    const char *kind = getenv("TERM");
    bool dumb = !kind || strcmp(kind, "dumb") == 0;
    t->color = !no_color && !dumb && !env_set("NO_COLOR");
    struct winsize size;
    t->width = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
}

const char *term_on(const term *t, paint color)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",  "\033[31m", "\033[32m",
                                        "\033[33m", "\033[34m", "\033[35m", "\033[36m"};
    return t->color ? codes[color] : "";
}

const char *term_off(const term *t) { return t->color ? "\033[0m" : ""; }

paint term_state(const char *display)
{
    static const struct {
        const char *name;
        paint color;
    } colors[] = {{"succeeded", GREEN}, {"failed", RED},     {"cancelled", DIM},    {"retrying", YELLOW}, {"running", CYAN},
                  {"leased", CYAN},     {"scheduled", BLUE}, {"throttled", YELLOW}, {"blocked", YELLOW},  {"stale", MAGENTA}};
    for (size_t i = 0; i < sizeof colors / sizeof *colors; i++) {
        if (display && strcmp(display, colors[i].name) == 0) return colors[i].color;
    }
    return PLAIN;
}

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

/* The character at text, which is valid UTF-8; *n gets its length. */
static uint32_t character(const char *text, int *n)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return *n = 1, s[0];
    if (s[0] < 0xe0) return *n = 2, (uint32_t)(s[0] & 31) << 6 | (s[1] & 63);
    if (s[0] < 0xf0) return *n = 3, (uint32_t)(s[0] & 15) << 12 | (uint32_t)(s[1] & 63) << 6 | (s[2] & 63);
    return *n = 4, (uint32_t)(s[0] & 7) << 18 | (uint32_t)(s[1] & 63) << 12 | (uint32_t)(s[2] & 63) << 6 | (s[3] & 63);
}

static int character_columns(uint32_t c)
{
    if ((c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200f) || (c >= 0xfe00 && c <= 0xfe0f)) return 0;
    bool wide = (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
                (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
                (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
    return wide ? 2 : 1;
}

int term_columns(const char *text)
{
    int columns = 0, n;
    for (; *text; text += n) columns += character_columns(character(text, &n));
    return columns;
}

/* How many bytes at text are one valid character; 0: none. */
static size_t valid_length(const char *text, size_t room)
{
    for (size_t n = 1; n <= 4 && n <= room; n++) {
        if (utf8_valid(text, n)) return n;
    }
    return 0;
}

/* C0, DEL, C1, and the marks that turn the direction of the text around. */
static bool unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static const redaction *hidden;

void term_hide(const redaction *what) { hidden = what; }

static void put_safe(buf *out, pawl_bytes text, bool lines)
{
    for (size_t at = 0; at < text.len;) {
        const char *here = text.data + at;
        size_t n = valid_length(here, text.len - at);
        int length;
        if (lines && (*here == '\n' || *here == '\t')) buf_char(out, *here);
        else if (n && !unsafe(character(here, &length))) buf_add(out, here, n);
        else if (!lines && (*here == '\n' || *here == '\t')) buf_char(out, ' ');
        else
            for (size_t i = 0; i < (n ? n : 1); i++) buf_fmt(out, "\\x%02x", (unsigned char)here[i]);
        at += n ? n : 1;
    }
}

void term_safe(buf *out, pawl_bytes text, bool lines)
{
    buf masked;
    buf_init(&masked, out->allocator, out->limit);
    if (!redact_bytes(hidden ? hidden : redaction_usual(), text, &masked)) put_safe(out, text, lines);
    else if (masked.failed) out->failed = true;
    else put_safe(out, (pawl_bytes){buf_text(&masked), masked.len}, lines);
    buf_done(&masked);
}

void term_cut(const term *t, buf *text, int width)
{
    if (!text->data || term_columns(text->data) <= width) return;
    const char *mark = t->utf8 ? "…" : "...";
    int room = width - term_columns(mark), columns = 0;
    char *at = text->data;
    for (int n; *at; at += n) {
        columns += character_columns(character(at, &n));
        if (columns > room) break;
    }
    *at = 0;
    text->len = (size_t)(at - text->data);
    if (room >= 0) buf_str(text, mark);
}

void term_wrap(FILE *out, const char *text, int at, int indent, int width)
{
    while (*text) {
        int n = (int)strcspn(text, " ");
        if (at + 1 + n > width && at > indent) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", n, text);
        at += n;
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* ---- times and numbers --------------------------------------------------------------------------------------------------------- */

void when_age(int64_t us, char out[WHEN_TEXT])
{
    long long s = us / PAWL_SECOND;
    if (us < PAWL_MILLISECOND) snprintf(out, WHEN_TEXT, "%lldus", (long long)us);
    else if (s < 1) snprintf(out, WHEN_TEXT, "%lldms", (long long)(us / 1000));
    else if (s < 60) snprintf(out, WHEN_TEXT, "%llds", s);
    else if (s < 3600) snprintf(out, WHEN_TEXT, "%lldm", s / 60);
    else if (s < 48 * 3600) snprintf(out, WHEN_TEXT, "%lldh", s / 3600);
    else snprintf(out, WHEN_TEXT, "%lldd", s / 86400);
}

void when_relative(int64_t at_us, int64_t now_us, char out[WHEN_TEXT])
{
    char age[WHEN_TEXT];
    int64_t distance = at_us > now_us ? at_us - now_us : now_us - at_us;
    when_age(distance < PAWL_SECOND ? distance : distance + PAWL_SECOND / 2, age);
    if (distance < PAWL_SECOND) snprintf(out, WHEN_TEXT, "now");
    else if (at_us > now_us) snprintf(out, WHEN_TEXT, "in %.20s", age);
    else snprintf(out, WHEN_TEXT, "%.20s ago", age);
}

void when_full(int64_t at_us, int64_t now_us, char out[WHEN_TEXT])
{
    char relative[WHEN_TEXT], date[WHEN_TEXT];
    time_t seconds = (time_t)(at_us / PAWL_SECOND);
    struct tm local;
    when_relative(at_us, now_us, relative);
    if (!localtime_r(&seconds, &local) || !strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local)) {
        snprintf(out, WHEN_TEXT, "%.24s", relative);
        return;
    }
    snprintf(out, WHEN_TEXT, "%.20s (%.24s)", date, relative);
}

void number_grouped(int64_t value, char out[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)(value < 0 ? -value : value));
    char *to = out;
    if (value < 0) *to++ = '-';
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
}
