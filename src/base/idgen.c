/* Ids: drawing them, and their text.
 *
 * Drawing. (ms, sequence) is the place of the next id and only ever moves forward: to now when now is later, by one otherwise. A
 * millisecond has 4096 ids; the 4097th comes from the next millisecond, whatever the clock says. At the ceiling it stops, and an
 * instant beyond the ceiling does not move it, so a clock that jumped ahead for a moment leaves no mark.
 *
 * Text. Crockford's base32: 13 digits of 5 bits, most significant first, so texts sort as ids do. Written in upper case, read in
 * either. Crockford's second readings (I and L for 1, O for 0) are refused: an id has one spelling, and a mistyped one is not found
 * rather than taken for another.
 */
#include "base/idgen.h"

#define MS_END (INT64_C(1) << 41)
#define DIGITS (PAWL_ID_TEXT - 1)

void idgen_take(idgen *g, int number, int64_t floor_ms, int64_t ceiling_ms)
{
    g->ceiling_ms = ceiling_ms < MS_END ? ceiling_ms : MS_END;
    if (number == g->number) return;
    if (g->sequence > 0) g->ms++;
    if (g->ms <= floor_ms) g->ms = floor_ms + 1;
    g->sequence = 0;
    g->number = number;
}

pawl_id idgen_next(idgen *g, int64_t now_ms)
{
    int64_t ms = now_ms > g->ms ? now_ms : g->ms;
    if (g->number == 0 || ms >= g->ceiling_ms) return 0;
    if (ms > g->ms) g->sequence = 0;
    g->ms = ms;
    pawl_id id = id_make(ms, g->number, g->sequence++);
    if (g->sequence > ID_SEQUENCE_MAX) {
        g->sequence = 0;
        g->ms++;
    }
    return id;
}

int64_t idgen_room(const idgen *g, int64_t now_ms)
{
    int64_t ms = now_ms > g->ms ? now_ms : g->ms;
    if (g->number == 0 || ms >= g->ceiling_ms) return 0;
    return (g->ceiling_ms - ms) * (ID_SEQUENCE_MAX + 1) - (ms == g->ms ? g->sequence : 0);
}

void pawl_id_format(pawl_id id, char text[PAWL_ID_TEXT])
{
    uint64_t bits = (uint64_t)id;
    text[DIGITS] = '\0';
    for (int i = DIGITS - 1; i >= 0; i--, bits >>= 5) text[i] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[bits & 31];
}

static int digit_value(char c)
{
    /* I, L, O and U are no digits: 0 stands for them, and 1..32 for the values 0..31. */
    static const unsigned char letters[26] = {11, 12, 13, 14, 15, 16, 17, 18, 0,  19, 20, 0,  21,
                                              22, 0,  23, 24, 25, 26, 27, 0,  28, 29, 30, 31, 32};
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'z') return letters[c - 'a'] - 1;
    if (c >= 'A' && c <= 'Z') return letters[c - 'A'] - 1;
    return -1;
}

bool pawl_id_parse(const char *text, pawl_id *id)
{
    if (!text || text[0] < '0' || text[0] > '7') return false; /* 13 digits have 65 bits: the first may use three of its five */
    int64_t value = 0;
    for (int i = 0; i < DIGITS; i++) {
        int digit = digit_value(text[i]);
        if (digit < 0) return false;
        value = value << 5 | digit;
    }
    if (text[DIGITS] || value == 0) return false;
    *id = value;
    return true;
}
