/* Names, durations, instants and numbers as text. */
#include "base/text.h"
#include <stdio.h>
#include <string.h>

/* ---- UTF-8 ----------------------------------------------------------------------------------------------------------------
 *
 * As RFC 3629 has it: no longer form than needed, no surrogates, nothing above U+10FFFF. All of that is decided by the first two
 * bytes; the others only have to be continuation bytes.
 */
static bool continues(const char *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)at[i] & 0xc0) != 0x80) return false;
    return true;
}

static bool second_fits(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xe0: return second >= 0xa0; /* longer than needed */
    case 0xed: return second <= 0x9f; /* surrogates */
    case 0xf0: return second >= 0x90; /* longer than needed */
    case 0xf4: return second <= 0x8f; /* above U+10FFFF */
    default: return true;
    }
}

size_t utf8_char(const char *at, const char *end)
{
    unsigned char first = (unsigned char)*at;
    if (first < 0x80) return 1;
    size_t n = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (n == 0 || (size_t)(end - at) < n) return 0;
    return continues(at + 1, n - 1) && second_fits(first, (unsigned char)at[1]) ? n : 0;
}

bool utf8_valid(const char *data, size_t n)
{
    if (n == 0) return true;
    const char *end = data + n;
    for (size_t step; data < end; data += step)
        if (!(step = utf8_char(data, end))) return false;
    return true;
}

size_t utf8_cut(const char *text, size_t n)
{
    size_t start = n;
    while (start > 0 && n - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80) start--;
    if (start == 0 || (unsigned char)text[start - 1] < 0xc0) return n;
    return utf8_char(text + start - 1, text + n) ? n : start - 1;
}

static bool is_control(const char *at)
{
    unsigned char c = (unsigned char)*at;
    return c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)at[1] < 0xa0);
}

static const char *name_fault(const char *name)
{
    if (!name) return "is missing";
    size_t n = strnlen(name, NAME_MAX_BYTES + 1);
    if (n == 0) return "is empty";
    if (n > NAME_MAX_BYTES) return "is longer than 200 bytes";
    if (!utf8_valid(name, n)) return "is not valid UTF-8";
    for (const char *at = name; *at; at++)
        if (is_control(at)) return "contains a control character";
    return NULL;
}

bool name_valid(const char *name, const char **what)
{
    const char *fault = name_fault(name);
    if (fault && what) *what = fault;
    return !fault;
}

pawl_bytes pawl_str(const char *text) { return (pawl_bytes){text, text ? strlen(text) : 0}; }

/* ---- numbers -------------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits into *value; false: none, or too large. */
static bool digits(const char **at, int64_t *value)
{
    if (!is_digit(**at)) return false;
    for (*value = 0; is_digit(**at); ++*at)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, **at - '0', value)) return false;
    return true;
}

bool csv_has(const char *csv, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = csv; at && *at;) {
        size_t len = strcspn(at, ",");
        if (len == n && memcmp(at, name, n) == 0) return true;
        at += len + (at[len] == ',');
    }
    return false;
}

bool int_parse(const char *text, int64_t min, int64_t max, int64_t *out)
{
    if (!text) return false;
    bool negative = *text == '-';
    if (negative) text++;
    if (!is_digit(*text)) return false;
    int64_t value = 0;
    for (; is_digit(*text); text++) {
        int digit = negative ? '0' - *text : *text - '0';
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value)) return false;
    }
    if (*text || value < min || value > max) return false;
    *out = value;
    return true;
}

/* ---- durations ------------------------------------------------------------------------------------------------------------ */

typedef struct unit {
    const char *name;
    int64_t us;
} unit;

static const unit units[] = {
    {"w", 7 * PAWL_DAY}, {"d", PAWL_DAY},          {"h", PAWL_HOUR}, {"m", PAWL_MINUTE},
    {"s", PAWL_SECOND},  {"ms", PAWL_MILLISECOND}, {"us", 1},        {NULL, 0},
};

static const unit *find_unit(const char **at)
{
    size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz");
    for (const unit *u = units; u->name; u++) {
        if (strlen(u->name) != n || memcmp(u->name, *at, n) != 0) continue;
        *at += n;
        return u;
    }
    return NULL;
}

/* The digits behind a point as billionths; false: none, or more than nine. */
static bool billionths(const char **at, int64_t *value)
{
    int n = 0;
    for (*value = 0; is_digit(**at) && n < 9; ++*at, n++) *value = *value * 10 + (**at - '0');
    if (n == 0 || is_digit(**at)) return false;
    for (; n < 9; n++) *value *= 10;
    return true;
}

/* The fraction of a unit in microseconds; false: it is not a whole number of them. */
static bool fraction_us(int64_t part, int64_t unit_us, int64_t *us)
{
    const int64_t billion = 1000000000;
    int64_t whole = part * (unit_us / billion), rest = part * (unit_us % billion);
    if (rest % billion) return false;
    *us = whole + rest / billion;
    return true;
}

/* One "12h" or "1.5h"; *last is the unit before it, which must be larger. */
static bool component(const char **at, const unit **last, bool *fraction, int64_t *total)
{
    int64_t whole, part = 0, part_us;
    if (!digits(at, &whole)) return false;
    *fraction = **at == '.';
    if (*fraction && (++*at, !billionths(at, &part))) return false;
    const unit *u = find_unit(at);
    if (!u || (*last && u <= *last) || !fraction_us(part, u->us, &part_us)) return false;
    *last = u;
    return !__builtin_mul_overflow(whole, u->us, &whole) && !__builtin_add_overflow(whole, part_us, &whole) &&
           !__builtin_add_overflow(*total, whole, total);
}

bool duration_parse(const char *text, int64_t *us)
{
    if (!text) return false;
    const unit *last = NULL;
    bool fraction = false;
    int64_t total = 0;
    do {
        if (fraction || !component(&text, &last, &fraction, &total)) return false;
        if (text[0] == ' ' && text[1]) text++;
    } while (*text);
    *us = total;
    return true;
}

/* "4.2s": a tenth, cut off and left out when it is zero. */
static void format_tenths(const char *sign, uint64_t us, uint64_t unit_us, const char *name, char *out, size_t size)
{
    unsigned long long whole = us / unit_us, tenth = us % unit_us * 10 / unit_us;
    if (tenth) snprintf(out, size, "%s%llu.%llu%s", sign, whole, tenth, name);
    else snprintf(out, size, "%s%llu%s", sign, whole, name);
}

static void format_pair(const char *sign, uint64_t us, const unit *u, char *out, size_t size)
{
    unsigned long long large = us / (uint64_t)u->us, small = us % (uint64_t)u->us / (uint64_t)u[1].us;
    if (small) snprintf(out, size, "%s%llu%s %llu%s", sign, large, u->name, small, u[1].name);
    else snprintf(out, size, "%s%llu%s", sign, large, u->name);
}

void duration_format(int64_t us, char *out, size_t size)
{
    const char *sign = us < 0 ? "-" : "";
    uint64_t span = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    if (span == 0) snprintf(out, size, "0s");
    else if (span < (uint64_t)PAWL_MILLISECOND) snprintf(out, size, "%s%lluus", sign, (unsigned long long)span);
    else if (span < (uint64_t)PAWL_SECOND) format_tenths(sign, span, PAWL_MILLISECOND, "ms", out, size);
    else if (span < (uint64_t)PAWL_MINUTE) format_tenths(sign, span, PAWL_SECOND, "s", out, size);
    else if (span < (uint64_t)PAWL_HOUR) format_pair(sign, span, &units[3], out, size);
    else if (span < (uint64_t)PAWL_DAY) format_pair(sign, span, &units[2], out, size);
    else format_pair(sign, span, &units[1], out, size);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(char *text, size_t *len)
{
    size_t n = *len, to = 0;
    if (n % 4) return false;
    while (n && n + 2 > *len && text[n - 1] == '=') n--;
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4) text[to++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    *len = to;
    return true;
}

void text_show(const char *text, size_t n, char *out, size_t size)
{
    const char *end = text + n;
    size_t used = 0;
    while (text < end) {
        size_t len = utf8_char(text, end);
        bool control =
            (unsigned char)*text < ' ' || *text == 0x7f || (len == 2 && text[0] == '\xc2' && (unsigned char)text[1] < 0xa0);
        size_t add = len && !control ? len : 1;
        if (used + add >= size) break;
        memcpy(out + used, len && !control ? text : "?", add);
        used += add;
        text += len ? len : 1;
    }
    out[used] = '\0';
}
