/* The bytes of a zone file: TZif, as RFC 9636 has it.
 *
 *     header   "TZif", version, 15 unused bytes, six counts (4 bytes each, big-endian)
 *     data     transition times, the type that begins at each, types (offset, summer, abbreviation), abbreviations, leap seconds,
 *              two sets of marks that only matter for rules that nobody uses any more
 *
 * Version 1 is one header and its data, with times of 4 bytes. From version 2 on another header and data with times of 8 bytes follow,
 * and a rule between two newlines; the first part is then only skipped. Nothing is believed: every count is held against the length of
 * the file before anything is read, every index against its table.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/zone_parts.h"
#include <string.h>

#define HEADER 44
#define FAR_S (INT64_C(1) << 59) /* the first transition of some files is as far back as that */

typedef struct counts {
    uint32_t utc_marks, standard_marks, leaps, times, types, letters;
} counts;

typedef struct part {
    counts n;
    const unsigned char *data; /* behind the header */
    size_t width;              /* of a time */
    size_t size;               /* of the data */
} part;

static uint32_t read_32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static int64_t read_time(const unsigned char *at, size_t width)
{
    if (width == 4) return (int32_t)read_32(at);
    return (int64_t)((uint64_t)read_32(at) << 32 | read_32(at + 4));
}

static const char *read_header(const unsigned char *at, size_t left, size_t width, part *out)
{
    if (left < HEADER || memcmp(at, "TZif", 4) != 0) return "it is no zone file";
    const unsigned char *c = at + 20;
    counts n = {read_32(c), read_32(c + 4), read_32(c + 8), read_32(c + 12), read_32(c + 16), read_32(c + 20)};
    uint64_t size = (uint64_t)n.times * (width + 1) + (uint64_t)n.types * 6 + n.letters + (uint64_t)n.leaps * (width + 4) +
                    n.standard_marks + n.utc_marks;
    if (size > left - HEADER) return "it is cut off";
    *out = (part){.n = n, .data = at + HEADER, .width = width, .size = (size_t)size};
    return NULL;
}

/* The part that counts, and where the rule is. */
static const char *find_part(pawl_bytes file, part *out, pawl_bytes *rule)
{
    const unsigned char *begin = (const unsigned char *)file.data;
    const char *fault = read_header(begin, file.len, 4, out);
    *rule = (pawl_bytes){"", 0};
    if (fault || begin[4] < '2') return fault;
    size_t first = HEADER + out->size;
    fault = read_header(begin + first, file.len - first, 8, out);
    if (fault) return fault;
    const char *at = (const char *)out->data + out->size, *end = file.data + file.len;
    const char *newline = at < end && *at == '\n' ? memchr(at + 1, '\n', (size_t)(end - at - 1)) : NULL;
    if (!newline) return "its rule is cut off";
    *rule = (pawl_bytes){at + 1, (size_t)(newline - at - 1)};
    return NULL;
}

static const char *check_counts(const counts *n)
{
    if (n->leaps) return "it counts leap seconds: use the zone of the same name outside of \"right\"";
    if (n->types == 0 || n->types > 256) return "it has no types, or too many";
    if (n->letters == 0) return "it has no abbreviations";
    if (n->standard_marks && n->standard_marks != n->types) return "its counts disagree";
    if (n->utc_marks && n->utc_marks != n->types) return "its counts disagree";
    return NULL;
}

/* ---- into memory --------------------------------------------------------------------------------------------------------------- */

/* One block: the zone, transitions, types, their numbers, abbreviations, the name. */
static zone *make(const pawl_allocator *a, const char *name, const counts *n)
{
    size_t length = strlen(name) + 1;
    zone *z = alloc_new(a, sizeof *z + n->times * (sizeof *z->at_s + 1) + n->types * sizeof *z->types + n->letters + length);
    if (!z) return NULL;
    z->allocator = a;
    z->count = (int)n->times;
    z->at_s = (int64_t *)(z + 1);
    z->types = (zone_type *)(z->at_s + n->times);
    z->type_at = (uint8_t *)(z->types + n->types);
    z->name = memcpy((char *)z->type_at + n->times + n->letters, name, length);
    return z;
}

static const char *fill_transitions(zone *z, const part *p)
{
    const unsigned char *times = p->data, *types = times + p->n.times * p->width;
    for (int i = 0; i < z->count; i++) {
        z->at_s[i] = read_time(times + (size_t)i * p->width, p->width);
        z->type_at[i] = types[i];
        if (z->at_s[i] < -FAR_S || z->at_s[i] > FAR_S) return "a transition is out of range";
        if (i > 0 && z->at_s[i] <= z->at_s[i - 1]) return "its transitions are not in order";
        if (types[i] >= p->n.types) return "a transition has an unknown type";
    }
    return NULL;
}

static const char *fill_types(zone *z, const part *p)
{
    const unsigned char *at = p->data + p->n.times * (p->width + 1), *letters = at + p->n.types * 6;
    char *copy = memcpy((char *)z->type_at + p->n.times, letters, p->n.letters);
    for (uint32_t i = 0; i < p->n.types; i++, at += 6) {
        int32_t offset = (int32_t)read_32(at);
        if (offset < ZONE_OFFSET_LEAST_S || offset > ZONE_OFFSET_MOST_S) return "an offset is out of range";
        if (at[4] > 1) return "a type is neither summer time nor standard time";
        if (at[5] >= p->n.letters || !memchr(copy + at[5], '\0', p->n.letters - at[5])) return "an abbreviation has no end";
        z->types[i] = (zone_type){offset, at[4], copy + at[5]};
    }
    return NULL;
}

pawl_status zone_read(const pawl_allocator *a, const char *name, pawl_bytes file, zone **out, pawl_error *err)
{
    part p;
    pawl_bytes rule;
    const char *fault = find_part(file, &p, &rule);
    if (!fault) fault = check_counts(&p.n);
    if (fault) return err_set(err, PAWL_INVALID, "the file of time zone \"%s\" cannot be used: %s", name, fault);
    zone *z = make(a, name, &p.n);
    if (!z) return err_set(err, PAWL_NO_MEMORY, "could not read time zone \"%s\": out of memory", name);
    fault = fill_transitions(z, &p);
    if (!fault) fault = fill_types(z, &p);
    if (!fault) fault = zone_rule_parse(rule, &z->rule);
    if (fault) {
        zone_free(z);
        return err_set(err, PAWL_INVALID, "the file of time zone \"%s\" cannot be used: %s", name, fault);
    }
    *out = z;
    return PAWL_OK;
}
