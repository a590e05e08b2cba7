/* Reading cron expressions.
 *
 * A field becomes a set of bits and, for days and weekdays, a few more (calendar.h). Which of them is unrestricted is decided by the
 * set, not by how it is written: `0-23` is `*`. The one exception is crontab(5)'s own: where both day and weekday are restricted a day
 * fits if either does, unless one of them is a step through all values, `*` with `/n`; then both must.
 */
#include "core/cron.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

typedef enum field_id { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS } field_id;

typedef struct field {
    const char *name;
    int min, max;
    const char *write; /* what may stand there, for messages */
    const char (*names)[4];
    int names_count, names_from;
} field;

static const char month_names[12][4] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
static const char weekday_names[7][4] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

static const field fields[FIELDS] = {
    [SECOND] = {"second", 0, 59, "write 0-59", NULL, 0, 0},
    [MINUTE] = {"minute", 0, 59, "write 0-59", NULL, 0, 0},
    [HOUR] = {"hour", 0, 23, "write 0-23", NULL, 0, 0},
    [DAY] = {"day", 1, 31, "write 1-31, L, L-3, LW or 15W", NULL, 0, 0},
    [MONTH] = {"month", 1, 12, "write 1-12 or JAN-DEC", month_names, 12, 1},
    [WEEKDAY] = {"weekday", 0, 7, "write 0-7, SUN-SAT, FRI#2 or FRIL", weekday_names, 7, 0},
};

const char *cron_month(int month) { return month_names[month - 1]; }
const char *cron_weekday(int weekday) { return weekday_names[weekday % 7]; }

/* One item of a list while it is read. */
typedef struct reader {
    const char *text;     /* the whole expression */
    const char *item;     /* where the item begins */
    const char *at, *end; /* where the reader is; the item's end */
    field_id id;
    calendar_days *days;
    uint64_t set; /* of the field */
    bool all;     /* an item of the field was `*` */
    int stars;    /* how many were `*` with a step */
    int items;
    pawl_error *err;
} reader;

/* ---- mistakes ------------------------------------------------------------------------------------------------------------------ */

static pawl_status bad_instead(const reader *r, const char *what, const char *instead)
{
    int length = (int)(r->end - r->item);
    return err_set(r->err, PAWL_INVALID, "%s \"%.*s\" at character %d of \"%.200s\" %s: %s", fields[r->id].name,
                   length < 40 ? length : 40, r->item, (int)(r->item - r->text) + 1, r->text, what, instead);
}

static pawl_status bad(const reader *r, const char *what) { return bad_instead(r, what, fields[r->id].write); }

/* ---- pieces -------------------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

static bool peek(const reader *r, char c) { return r->at < r->end && upper(*r->at) == c; }

static bool take(reader *r, char c)
{
    if (!peek(r, c)) return false;
    r->at++;
    return true;
}

static bool number(reader *r, int *value)
{
    const char *first = r->at;
    for (*value = 0; r->at < r->end && is_digit(*r->at); r->at++)
        if (*value < 1000) *value = *value * 10 + (*r->at - '0');
    return r->at > first;
}

static bool name(reader *r, int *value)
{
    const field *f = &fields[r->id];
    for (int i = 0; i < f->names_count; i++) {
        int n = 0;
        while (n < 3 && r->at + n < r->end && upper(r->at[n]) == f->names[i][n]) n++;
        if (n < 3) continue;
        r->at += 3;
        *value = f->names_from + i;
        return true;
    }
    return false;
}

/* A number or a name within the field's range. */
static pawl_status value(reader *r, int *out)
{
    const field *f = &fields[r->id];
    if (r->at == r->end) return bad(r, "ends too soon");
    if (!is_digit(*r->at)) return name(r, out) ? PAWL_OK : bad(r, "is not understood");
    number(r, out);
    return *out < f->min || *out > f->max ? bad(r, "is out of range") : PAWL_OK;
}

/* "/n", or nothing. A step that is longer than the field would only ever hit its first value. */
static pawl_status step(reader *r, int *out)
{
    const field *f = &fields[r->id];
    int last = r->id == WEEKDAY ? 6 : f->max;
    char instead[64];
    *out = 1;
    if (!take(r, '/')) return PAWL_OK;
    if (!number(r, out) || *out == 0) return bad_instead(r, "has no step", "write a number behind the \"/\"");
    if (*out <= last - f->min) return PAWL_OK;
    snprintf(instead, sizeof instead, "write at most %d, or use an interval", last - f->min);
    return bad_instead(r, "has a step that leads out of the field", instead);
}

/* From..to by steps, also across the end of the field. */
static void add_range(reader *r, int from, int to, int step)
{
    const field *f = &fields[r->id];
    bool weekday = r->id == WEEKDAY;
    int count = weekday ? 7 : f->max - f->min + 1;
    int length = to >= from ? to - from : to - from + count;
    for (int i = 0; i <= length; i += step) r->set |= UINT64_C(1) << (f->min + (from - f->min + i) % count);
}

/* ---- items --------------------------------------------------------------------------------------------------------------------- */

static pawl_status star(reader *r)
{
    const field *f = &fields[r->id];
    int by;
    pawl_status status = step(r, &by);
    if (status) return status;
    add_range(r, f->min, r->id == WEEKDAY ? 6 : f->max, by);
    if (by == 1) r->all = true;
    else r->stars++;
    return PAWL_OK;
}

/* L, L-n, LW, L-nW. */
static pawl_status last_day(reader *r)
{
    int before = 0;
    if (take(r, '-') && (!number(r, &before) || before < 1 || before > 30))
        return bad_instead(r, "counts back too far", "write L-1 to L-30");
    if (take(r, 'W')) r->days->near_last |= UINT32_C(1) << before;
    else r->days->from_last |= UINT32_C(1) << before;
    return PAWL_OK;
}

/* Behind the first value of an item: W, L, #n. *done: it was one of these. */
static pawl_status special(reader *r, int from, bool *done)
{
    int n;
    *done = true;
    if (r->id == DAY && take(r, 'W')) {
        r->days->near |= UINT32_C(1) << from;
        return PAWL_OK;
    }
    if (r->id == WEEKDAY && take(r, 'L')) {
        r->days->last |= (uint8_t)(1 << from % 7);
        return PAWL_OK;
    }
    if (r->id == WEEKDAY && take(r, '#')) {
        if (!number(r, &n) || n < 1 || n > 5) return bad_instead(r, "counts what no month has", "write #1 to #5");
        r->days->nth[n - 1] |= (uint8_t)(1 << from % 7);
        return PAWL_OK;
    }
    *done = false;
    return PAWL_OK;
}

/* a, a-b, a/n, a-b/n. */
static pawl_status range(reader *r)
{
    int from, to, by;
    bool done = false, ranged;
    pawl_status status = value(r, &from);
    if (!status) status = special(r, from, &done);
    if (status || done) return status;
    to = from;
    ranged = take(r, '-');
    if (ranged && (status = value(r, &to))) return status;
    if (!ranged && peek(r, '/')) to = r->id == WEEKDAY && from < 7 ? 6 : fields[r->id].max;
    if ((status = step(r, &by))) return status;
    add_range(r, from, to, by);
    return PAWL_OK;
}

static pawl_status item(reader *r)
{
    pawl_status status;
    r->at = r->item;
    if (r->at == r->end) return bad(r, "is an empty item of a list");
    if (take(r, '*')) status = star(r);
    else if (take(r, '?')) {
        if (r->id != DAY && r->id != WEEKDAY) return bad_instead(r, "is only allowed as day or weekday", "write *");
        r->all = true;
        status = PAWL_OK;
    } else if (r->id == DAY && take(r, 'L')) status = last_day(r);
    else status = range(r);
    return status || r->at == r->end ? status : bad(r, "is not understood");
}

/* ---- fields -------------------------------------------------------------------------------------------------------------------- */

static uint64_t full_set(field_id id)
{
    int last = id == WEEKDAY ? 6 : fields[id].max;
    return (UINT64_C(1) << (last + 1)) - (UINT64_C(1) << fields[id].min);
}

static pawl_status read_field(reader *r, const char *from, const char *end)
{
    pawl_status status = PAWL_OK;
    r->set = 0;
    r->all = false;
    r->stars = r->items = 0;
    for (const char *at = from; !status; at = r->end + 1) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        r->item = at;
        r->end = comma ? comma : end;
        r->items++;
        status = item(r);
        if (!comma) break;
    }
    if (r->all) r->set = full_set(r->id);
    r->all = r->set == full_set(r->id);
    return status;
}

/* A field that allows everything says nothing, whatever else stands in it. */
static void keep_days(reader *r)
{
    calendar_days *d = r->days;
    if (r->id == DAY) {
        d->any_day = r->all;
        d->days = r->all ? 0 : (uint32_t)r->set;
        if (r->all) d->from_last = d->near = d->near_last = 0;
    } else {
        d->any_weekday = r->all;
        d->weekdays = r->all ? 0 : (uint8_t)r->set;
        if (!r->all) return;
        d->last = 0;
        memset(d->nth, 0, sizeof d->nth);
    }
}

static void keep(reader *r, calendar *c)
{
    switch (r->id) {
    case SECOND: c->times.seconds = r->set; break;
    case MINUTE: c->times.minutes = r->set; break;
    case HOUR: c->times.hours = (uint32_t)r->set; break;
    case MONTH: c->days.months = (uint16_t)r->set; break;
    default:
        keep_days(r);
        if (!r->all && r->items == 1 && r->stars == 1) c->days.both = true;
    }
}

/* ---- expressions --------------------------------------------------------------------------------------------------------------- */

static const struct macro {
    const char *name, *stands_for;
} macros[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
};

static bool same(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (upper(a[i]) != upper(b[i])) return false;
    return true;
}

static pawl_status find_macro(const char **text, pawl_error *err)
{
    const char *at = *text + strspn(*text, " ");
    size_t n = strcspn(at, " ");
    if (*at != '@') return PAWL_OK;
    for (size_t i = 0; i < sizeof macros / sizeof *macros && !at[n + strspn(at + n, " ")]; i++) {
        if (strlen(macros[i].name) != n || !same(macros[i].name, at, n)) continue;
        *text = macros[i].stands_for;
        return PAWL_OK;
    }
    return err_set(err, PAWL_INVALID,
                   "\"%.60s\" is not known: write @yearly, @monthly, @weekly, @daily, @hourly, or five or six fields%s", at,
                   n == 6 && same(at, "@every", n) ? " (a repetition like \"@every 5m\" is an interval)" : "");
}

typedef struct piece {
    const char *from, *end;
} piece;

/* Splits into fields; *count gets how many there are, also if more than room. */
static void split(const char *text, piece *out, int room, int *count)
{
    for (*count = 0;; ++*count) {
        text += strspn(text, " ");
        if (!*text) return;
        size_t n = strcspn(text, " ");
        if (*count < room) out[*count] = (piece){text, text + n};
        text += n;
    }
}

/* Copies the text, tabs become blanks: a message may quote it. */
static pawl_status check_text(const char *text, char out[CRON_MAX + 1], pawl_error *err)
{
    size_t n = text ? strnlen(text, CRON_MAX + 1) : 0;
    if (n > CRON_MAX) return err_set(err, PAWL_INVALID, "the cron expression is longer than %d bytes", CRON_MAX);
    for (size_t i = 0; i < n; i++) {
        out[i] = text[i];
        if (text[i] == '\t') out[i] = ' ';
        else if (text[i] < ' ' || text[i] > '~')
            return err_set(err, PAWL_INVALID, "character %d of the cron expression is no printable ASCII character", (int)i + 1);
    }
    out[n] = '\0';
    if (out[strspn(out, " ")]) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "the cron expression is empty: write five fields, like \"0 9 * * MON-FRI\"");
}

/* Where one of day and weekday says nothing, there is nothing to combine. */
static pawl_status finish(calendar *c, const char *text, pawl_error *err)
{
    if (c->days.any_day || c->days.any_weekday) c->days.both = false;
    if (calendar_possible(&c->days)) return PAWL_OK;
    return err_set(err, PAWL_INVALID,
                   "\"%.200s\" never fires: there is no such date, in no year; change the day, the month or the weekday", text);
}

pawl_status cron_parse(const char *text, calendar *out, pawl_error *err)
{
    piece pieces[FIELDS];
    char copy[CRON_MAX + 1];
    int count;
    calendar c = {.times = {.seconds = 1}};
    pawl_status status = check_text(text, copy, err);
    text = copy;
    if (!status) status = find_macro(&text, err);
    if (status) return status;
    split(text, pieces, FIELDS, &count);
    if (count != FIELDS && count != FIELDS - 1)
        return err_set(err, PAWL_INVALID,
                       "\"%.200s\" has %d field%s: write five (minute hour day month weekday), or six with the second first%s",
                       text, count, count == 1 ? "" : "s", count == FIELDS + 1 ? "; a year is not part of it" : "");
    reader r = {.text = text, .days = &c.days, .err = err};
    for (int i = 0; i < count && !status; i++) {
        r.id = (field_id)(i + FIELDS - count);
        status = read_field(&r, pieces[i].from, pieces[i].end);
        if (!status) keep(&r, &c);
    }
    if (!status) status = finish(&c, text, err);
    if (!status) *out = c;
    return status;
}
