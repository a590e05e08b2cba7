/* core/cron and core/calendar: reading, writing back, in words, days of months, plans. */
#include "base/alloc.h"
#include "base/date.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/zone.h"
#include "core/cron.h"
#include "cron/same.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static calendar parsed(const char *text)
{
    calendar c;
    pawl_error err;
    if (cron_parse(text, &c, &err)) fail_msg("%s", err.message);
    return c;
}

static const char *printed(const calendar *c, bool words)
{
    static char text[8][4096];
    static int turn;
    buf b;
    char *out = text[turn++ % 8];
    buf_init(&b, alloc_default(), 4095);
    if (words) calendar_words(c, &b);
    else cron_print(c, &b);
    assert_false(b.failed);
    strcpy(out, buf_text(&b));
    buf_done(&b);
    return out;
}

static int64_t at(const char *text)
{
    int64_t us;
    assert_true(rfc3339_parse(text, &us));
    return us / PAWL_SECOND;
}

/* ---- canonical form and words ---- */

static const struct {
    const char *text, *canonical, *words;
} forms[] = {
    {"* * * * *", "* * * * *", "every minute"},
    {"* * * * * *", "* * * * * *", "every second"},
    {"0 * * * * *", "* * * * *", "every minute"},
    {"*/5 * * * * *", "*/5 * * * * *", "every 5 seconds"},
    {"0/5 * * * * *", "*/5 * * * * *", "every 5 seconds"},
    {"7 * * * * *", "7 * * * * *", "at second 7 of every minute"},
    {"7,8 10-12,30 * * * *", "7,8 10-12,30 * * * *", "at seconds 7 and 8 of minutes 10 to 12 and 30 of every hour"},
    {"*/7 1 3 * * *", "*/7 1 3 * * *", "at seconds 0, 7, 14, 21, 28, 35, 42, 49 and 56 of minute 1 of hour 3 every day"},
    {"  5\t4 *  * * ", "5 4 * * *", "at 04:05 every day"},
    {"30 5 4 * * *", "30 5 4 * * *", "at 04:05:30 every day"},
    {"0,30 9,17 * * *", "0,30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"},
    {"*/15 * * * *", "*/15 * * * *", "every 15 minutes"},
    {"0,15,30,45 * * * *", "*/15 * * * *", "every 15 minutes"},
    {"0,30 * * * *", "0,30 * * * *", "every 30 minutes"},
    {"*/25 * * * *", "*/25 * * * *", "at minutes 0, 25 and 50 of every hour"},
    {"5 * * * *", "5 * * * *", "at minute 5 of every hour"},
    {"0 * * * *", "0 * * * *", "every hour"},
    {"0 0-23 * * *", "0 * * * *", "every hour"},
    {"0 */2 * * *", "0 */2 * * *", "every 2 hours"},
    {"0 0,12 * * *", "0 0,12 * * *", "at 00:00 and 12:00 every day"},
    {"0 */5 * * *", "0 */5 * * *", "at 00:00, 05:00, 10:00, 15:00 and 20:00 every day"},
    {"*/15 9-17 * * MON-FRI", "*/15 9-17 * * MON-FRI", "every 15 minutes from 09:00 to 17:59 on Monday to Friday"},
    {"*/15 9,11,13 * * *", "*/15 9-13/2 * * *", "every 15 minutes in hours 9, 11 and 13 every day"},
    {"5-59/10 * * * *", "5-59/10 * * * *", "at minutes 5, 15, 25, 35, 45 and 55 of every hour"},
    {"5/10 * * * *", "5-59/10 * * * *", "at minutes 5, 15, 25, 35, 45 and 55 of every hour"},
    {"5-26/10 * * * *", "5-25/10 * * * *", "at minutes 5, 15 and 25 of every hour"},
    {"0 22-2 * * *", "0 0-2,22,23 * * *", "at 00:00, 01:00, 02:00, 22:00 and 23:00 every day"},
    {"55-10/5 0 * * *", "0,5,10,55 0 * * *", "at 00:00, 00:05, 00:10 and 00:55 every day"},
    {"0 0 * JUN-AUG *", "0 0 * JUN-AUG *", "at 00:00 every day in June to August"},
    {"*/10 * * 11-2 *", "*/10 * * JAN,FEB,NOV,DEC *", "every 10 minutes in January, February, November and December"},
    {"0 0 * */3 *", "0 0 * */3 *", "at 00:00 every day in January, April, July and October"},
    {"0 0 1 1 *", "0 0 1 JAN *", "at 00:00 on the 1st of January"},
    {"0 0 1,2,3,22,31 * *", "0 0 1-3,22,31 * *", "at 00:00 on the 1st to the 3rd, the 22nd and the 31st of the month"},
    {"0 0 11,12,13 * ?", "0 0 11-13 * *", "at 00:00 on the 11th to the 13th of the month"},
    {"0 0 */2 * *", "0 0 */2 * *", "at 00:00 on every 2nd day from the 1st of the month"},
    {"0 0 1-31/3 * *", "0 0 */3 * *", "at 00:00 on every 3rd day from the 1st of the month"},
    {"0 0 L * *", "0 0 L * *", "at 00:00 on the last day of the month"},
    {"0 0 l-1,L-3 * *", "0 0 L-1,L-3 * *", "at 00:00 on 1 day before the last and 3 days before the last of the month"},
    {"0 0 LW * *", "0 0 LW * *", "at 00:00 on the last working day of the month"},
    {"0 0 15w,1W,L-2W 2 *", "0 0 1W,15W,L-2W FEB *",
     "at 00:00 on the working day nearest the 1st, the working day nearest the 15th and the working day nearest 2 days before the last of "
     "February"},
    {"0 0 ? * 0", "0 0 * * SUN", "at 00:00 on Sundays"},
    {"0 0 * * 7", "0 0 * * SUN", "at 00:00 on Sundays"},
    {"0 0 * * 6,7", "0 0 * * SAT,SUN", "at 00:00 on Saturdays and Sundays"},
    {"0 0 * * sun-tue", "0 0 * * MON,TUE,SUN", "at 00:00 on Mondays, Tuesdays and Sundays"},
    {"0 0 * * FRI-MON", "0 0 * * MON,FRI-SUN", "at 00:00 on Mondays and Friday to Sunday"},
    {"0 0 * * 5-7", "0 0 * * FRI-SUN", "at 00:00 on Friday to Sunday"},
    {"0 0 * * 7-2", "0 0 * * MON,TUE,SUN", "at 00:00 on Mondays, Tuesdays and Sundays"},
    {"0 0 * * 1-5/2", "0 0 * * MON,WED,FRI", "at 00:00 on Mondays, Wednesdays and Fridays"},
    {"0 0 * * */2", "0 0 * * TUE,THU,SAT,SUN", "at 00:00 on Tuesdays, Thursdays, Saturdays and Sundays"},
    {"0 0 * * 1/3", "0 0 * * MON,THU", "at 00:00 on Mondays and Thursdays"},
    {"0 0 * * 7/2", "0 0 * * SUN", "at 00:00 on Sundays"},
    {"0 0 * * 0-7", "0 0 * * *", "at 00:00 every day"},
    {"0 0 * * FRI#2", "0 0 * * FRI#2", "at 00:00 on the second Friday of the month"},
    {"0 0 * 5 5#1,0#5,7L,MON", "0 0 * MAY MON,FRI#1,SUN#5,SUNL",
     "at 00:00 on Mondays, the first Friday, the fifth Sunday and the last Sunday of May"},
    {"0 0 13 * FRI", "0 0 13 * FRI", "at 00:00 on the 13th of the month, and also on Fridays"},
    {"0 0 13 6-8 FRI", "0 0 13 JUN-AUG FRI", "at 00:00 on the 13th of June to August, and also on Fridays in June to August"},
    {"0 0 */2 * MON", "0 0 */2 * MON", "at 00:00 on every 2nd day from the 1st of the month if it is a Monday"},
    {"0 0 1-31/2 * MON", "0 0 1-31/2 * MON", "at 00:00 on every 2nd day from the 1st of the month, and also on Mondays"},
    {"0 0 */30 * MON", "0 0 */30 * MON", "at 00:00 on the 1st and the 31st of the month if it is a Monday"},
    {"0 0 1,15 * */3", "0 0 1,15 * */3",
     "at 00:00 on the 1st and the 15th of the month if it is a Wednesday, Saturday or Sunday"},
    {"0 0 */2 * */3", "0 0 */2 * WED,SAT,SUN",
     "at 00:00 on every 2nd day from the 1st of the month if it is a Wednesday, Saturday or Sunday"},
    {"0 0 1-31/2,L * */3", "0 0 1-31/2,L * */3",
     "at 00:00 on the 1st, the 3rd, the 5th, the 7th, the 9th, the 11th, the 13th, the 15th, the 17th, the 19th, the 21st, the 23rd, the 25th, "
     "the 27th, the 29th, the 31st and the last day of the month if it is a Wednesday, Saturday or Sunday"},
    {"0 0 */2,L * MON", "0 0 1-31/2,L * MON",
     "at 00:00 on the 1st, the 3rd, the 5th, the 7th, the 9th, the 11th, the 13th, the 15th, the 17th, the 19th, the 21st, the 23rd, the 25th, "
     "the 27th, the 29th, the 31st and the last day of the month, and also on Mondays"},
    {"0 0 1-31 * MON", "0 0 * * MON", "at 00:00 on Mondays"},
    {"0 0 L,* * MON", "0 0 * * MON", "at 00:00 on Mondays"},
    {"0 0 13 * 0-6", "0 0 13 * *", "at 00:00 on the 13th of the month"},
    {"0 0 13 * *,FRIL,MON#1", "0 0 13 * *", "at 00:00 on the 13th of the month"},
    {"@yearly", "0 0 1 JAN *", "at 00:00 on the 1st of January"},
    {"@annually", "0 0 1 JAN *", "at 00:00 on the 1st of January"},
    {"@monthly", "0 0 1 * *", "at 00:00 on the 1st of the month"},
    {"@weekly", "0 0 * * SUN", "at 00:00 on Sundays"},
    {" @Daily ", "0 0 * * *", "at 00:00 every day"},
    {"@midnight", "0 0 * * *", "at 00:00 every day"},
    {"@HOURLY", "0 * * * *", "every hour"},
};

static void forms_and_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(forms); i++) {
        calendar c = parsed(forms[i].text), again;
        const char *canonical = printed(&c, false), *words = printed(&c, true);
        if (strcmp(canonical, forms[i].canonical) != 0) fail_msg("%s became %s", forms[i].text, canonical);
        if (strcmp(words, forms[i].words) != 0) fail_msg("%s: %s", forms[i].text, words);
        again = parsed(canonical);
        assert_true(same_calendar(&again, &c));
    }
}

/* Random expressions: the canonical form means the same, and is its own canonical form. */
static void random_item(rng *r, int min, int max, char *out)
{
    int a = min + (int)rng_below(r, (uint64_t)(max - min + 1)), b = min + (int)rng_below(r, (uint64_t)(max - min + 1));
    int step = 1 + (int)rng_below(r, (uint64_t)(max - min - 1));
    switch (rng_below(r, 6)) {
    case 0: sprintf(out, "*/%d", step); break;
    case 1: sprintf(out, "%d-%d", a, b); break;
    case 2: sprintf(out, "%d-%d/%d", a, b, step); break;
    case 3: sprintf(out, "%d/%d", a, step); break;
    default: sprintf(out, "%d", a);
    }
}

static void special_day(rng *r, char *out)
{
    int n = 1 + (int)rng_below(r, 30);
    switch (rng_below(r, 5)) {
    case 0: sprintf(out, "L"); break;
    case 1: sprintf(out, "L-%d", n); break;
    case 2: sprintf(out, "LW"); break;
    case 3: sprintf(out, "L-%dW", n); break;
    default: sprintf(out, "%dW", n + 1);
    }
}

static void special_weekday(rng *r, char *out)
{
    if (rng_below(r, 3)) sprintf(out, "%d#%d", (int)rng_below(r, 8), 1 + (int)rng_below(r, 5));
    else sprintf(out, "%dL", (int)rng_below(r, 8));
}

static void random_field(rng *r, int field, char *out)
{
    static const int min[] = {0, 0, 0, 1, 1, 0}, max[] = {59, 59, 23, 31, 12, 7};
    if (rng_below(r, 3) == 0) {
        strcpy(out, "*");
        return;
    }
    for (int n = (int)rng_below(r, 4) + 1; n > 0; n--) {
        if (field == 3 && rng_below(r, 3) == 0) special_day(r, out);
        else if (field == 5 && rng_below(r, 3) == 0) special_weekday(r, out);
        else random_item(r, min[field], field == 5 ? 6 : max[field], out);
        if (n > 1) strcat(out, ",");
        out += strlen(out);
    }
}

static void random_expression(rng *r, char *out)
{
    *out = '\0';
    for (int field = (int)rng_below(r, 2); field < 6; field++) {
        random_field(r, field, out + strlen(out));
        strcat(out, field < 5 ? " " : "");
    }
}

static void canonical_forms_mean_the_same(void **state)
{
    (void)state;
    rng r;
    int refused = 0;
    rng_init(&r, 7);
    for (int i = 0; i < 20000; i++) {
        char text[CRON_MAX];
        calendar c, again;
        pawl_error err;
        random_expression(&r, text);
        if (cron_parse(text, &c, &err)) {
            assert_non_null(strstr(err.message, "never fires"));
            refused++;
            continue;
        }
        const char *canonical = printed(&c, false);
        assert_true(strlen(canonical) < CRON_MAX);
        again = parsed(canonical);
        if (!same_times(&again.times, &c.times) || strcmp(printed(&again, false), canonical) != 0)
            fail_msg("%s became %s became %s", text, canonical, printed(&again, false));
        for (int month = 0; month < 28 * 12; month++)
            if (calendar_month(&c.days, 2000 + month / 12, 1 + month % 12) !=
                calendar_month(&again.days, 2000 + month / 12, 1 + month % 12))
                fail_msg("%s became %s, which has other days", text, canonical);
        assert_true(strlen(printed(&c, true)) > 10);
    }
    assert_true(refused < 2000);
}

/* The longest form there can be: everything in a field but what would make it shorter. */
static void the_longest_canonical_form_can_be_read(void **state)
{
    (void)state;
    calendar c = {.times = {.seconds = 0x6db6db6db6db6db, .minutes = 0x6db6db6db6db6db, .hours = 0xb6db6d},
                  .days = {.days = 0xb6db6db6,
                           .from_last = 0x7fffffff,
                           .near = 0xfffffffe,
                           .near_last = 0x7fffffff,
                           .months = 0x16da,
                           .weekdays = 0x5b,
                           .nth = {127, 127, 127, 127, 127},
                           .last = 127}};
    const char *text = printed(&c, false);
    assert_true(strlen(text) < CRON_MAX);
    calendar again = parsed(text);
    assert_true(same_calendar(&again, &c));
}

static void no_memory_for_words(void **state)
{
    (void)state;
    calendar c = parsed("1,3,5,8 1,5,6,9 LW,15 * FRI#2,MON");
    for (int n = 1; n < 4; n++) {
        test_allocator t;
        buf b;
        test_allocator_init(&t);
        t.fail_at = n, t.persistent = true;
        buf_init(&b, &t.allocator, 4096);
        calendar_words(&c, &b);
        cron_print(&c, &b);
        assert_true(b.failed || n > 1);
        buf_done(&b);
        assert_int_equal(t.outstanding, 0);
    }
}

/* ---- mistakes ---- */

static const struct {
    const char *text, *says;
} mistakes[] = {
    {"", "is empty: write five fields"},
    {" \t ", "is empty"},
    {"* * * *", "\"* * * *\" has 4 fields: write five (minute hour day month weekday), or six with the second first"},
    {"*", "has 1 field: "},
    {"* * * * * * 2026",
     "has 7 fields: write five (minute hour day month weekday), or six with the second first; a year is not part of it"},
    {"* * * * * * * * *", "has 9 fields"},
    {"60 * * * *", "minute \"60\" at character 1 of \"60 * * * *\" is out of range: write 0-59"},
    {"99999999999999999999 * * * *", "is out of range"},
    {"0 24 * * *", "hour \"24\" at character 3 of \"0 24 * * *\" is out of range: write 0-23"},
    {"0 0 0 * *", "day \"0\" at character 5 of \"0 0 0 * *\" is out of range: write 1-31, L, L-3, LW or 15W"},
    {"0 0 32 * *", "is out of range"},
    {"0 0 1 0 *", "month \"0\" at character 7 of \"0 0 1 0 *\" is out of range: write 1-12 or JAN-DEC"},
    {"0 0 1 13 *", "is out of range"},
    {"0 0 * * 8", "weekday \"8\" at character 9 of \"0 0 * * 8\" is out of range: write 0-7, SUN-SAT, FRI#2 or FRIL"},
    {"60 0 0 * * *", "second \"60\" at character 1"},
    {"0\t24 * * *", "hour \"24\" at character 3 of \"0 24 * * *\" is out of range"},
    {"0 0 1,2,,3 * *", "day \"\" at character 9 of"},
    {", * * * *", "minute \"\" at character 1"},
    {"1, * * * *", "minute \"\" at character 3 of \"1, * * * *\" is an empty item of a list"},
    {"1- * * * *", "minute \"1-\" at character 1 of \"1- * * * *\" ends too soon"},
    {"-1 * * * *", "is not understood"},
    {"1-2-3 * * * *", "is not understood"},
    {"*-5 * * * *", "is not understood"},
    {"5/ * * * *", "minute \"5/\" at character 1 of \"5/ * * * *\" has no step: write a number behind the \"/\""},
    {"*/0 * * * *", "has no step"},
    {"*/x * * * *", "has no step"},
    {"*/60 * * * *", "has a step that leads out of the field: write at most 59, or use an interval"},
    {"0 */24 * * *", "write at most 23"},
    {"0 0 */31 * *", "write at most 30"},
    {"0 0 * */12 *", "write at most 11"},
    {"0 0 * * */7", "write at most 6"},
    {"1-5/60 * * * *", "leads out of the field"},
    {"JAN * * * *", "minute \"JAN\" at character 1 of \"JAN * * * *\" is not understood: write 0-59"},
    {"0 0 * MON *", "month \"MON\""},
    {"0 0 * * MONDAY",
     "weekday \"MONDAY\" at character 9 of \"0 0 * * MONDAY\" is not understood: write 0-7, SUN-SAT, FRI#2 or FRIL"},
    {"0 0 * * MO", "is not understood"},
    {"? * * * *", "minute \"?\" at character 1 of \"? * * * *\" is only allowed as day or weekday: write *"},
    {"0 0 * ? *", "is only allowed as day or weekday"},
    {"L * * * *", "is not understood"},
    {"0 0 * * L", "is not understood: write 0-7, SUN-SAT, FRI#2 or FRIL"},
    {"0 0 * * L5", "is not understood"},
    {"0 0 L-0 * *", "day \"L-0\" at character 5 of \"0 0 L-0 * *\" counts back too far: write L-1 to L-30"},
    {"0 0 L-31 * *", "counts back too far"},
    {"0 0 L- * *", "counts back too far"},
    {"0 0 LX * *", "is not understood"},
    {"0 0 W * *", "is not understood"},
    {"0 0 15W-20 * *", "is not understood"},
    {"0 0 32W * *", "is out of range"},
    {"0 0 * * 15W", "is out of range"},
    {"0 0 * * 5W", "is not understood"},
    {"0 0 * * 5#0", "weekday \"5#0\" at character 9 of \"0 0 * * 5#0\" counts what no month has: write #1 to #5"},
    {"0 0 * * 5#6", "counts what no month has"},
    {"0 0 * * 5#", "counts what no month has"},
    {"0 0 * * #2", "is not understood"},
    {"0 0 5#2 * *", "is not understood"},
    {"0 0 * * FRI#2L", "is not understood"},
    {"@reboot", "\"@reboot\" is not known: write @yearly, @monthly, @weekly, @daily, @hourly, or five or six fields"},
    {"@every 5m", "an interval"},
    {"@daily 5", "\"@daily 5\" is not known"},
    {"@", "is not known"},
    {"0 0 * * \xe2\x88\x97", "character 9 of the cron expression is no printable ASCII character"},
    {"0 0 * * *\n", "character 10"},
    {"0 0 * * \x7f", "character 9"},
    {"{ * * * *", "is not understood"},
    {"0 0 30 2 *", "\"0 0 30 2 *\" never fires: there is no such date, in no year"},
    {"0 0 31 4,6,9,11 *", "never fires"},
    {"0 0 31W 2 *", "never fires"},
    {"0 0 L-30 2,4 *", "never fires"},
    {"0 0 L-29 2 *", "never fires"},
};

static void mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(mistakes); i++) {
        calendar c, before;
        pawl_error err = {0};
        memset(&c, 0x5a, sizeof c);
        memcpy(&before, &c, sizeof c);
        pawl_status status = cron_parse(mistakes[i].text, &c, &err);
        if (status != PAWL_INVALID || !strstr(err.message, mistakes[i].says))
            fail_msg("%s: %s", mistakes[i].text, status ? err.message : "ok");
        assert_memory_equal(&c, &before, sizeof c);
    }
    assert_int_equal(cron_parse(NULL, &(calendar){0}, NULL), PAWL_INVALID);
    char longest[CRON_MAX + 8];
    memset(longest, ' ', sizeof longest);
    memcpy(longest, "* * * * *", 9);
    longest[CRON_MAX] = '\0';
    assert_int_equal(cron_parse(longest, &(calendar){0}, NULL), PAWL_OK);
    longest[CRON_MAX] = ' ', longest[CRON_MAX + 1] = '\0';
    assert_int_equal(cron_parse(longest, &(calendar){0}, NULL), PAWL_INVALID);
}

/* ---- days ---- */

static void next_dates(const char *text, const char *from, ...)
{
    va_list args;
    calendar c = parsed(text);
    int64_t t = at(from), first = 0, last = 0;
    va_start(args, from);
    for (const char *date; (date = va_arg(args, const char *));) {
        char full[32], got[RFC3339_TEXT] = "none";
        snprintf(full, sizeof full, "%sZ", date);
        if (calendar_next(&c, t, &t)) rfc3339_format(t * PAWL_SECOND, got);
        if (t != at(full)) fail_msg("%s: %s, not %s", text, got, full);
        if (!first) first = t;
        last = t++;
    }
    va_end(args);
    int64_t back = last;
    for (int n = 0; back > first && n < 100; n++) assert_true(calendar_prev(&c, back - 1, &back));
    assert_int_equal(back, first);
}

static void days_of_every_kind(void **state)
{
    (void)state;
    next_dates("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00", "2032-02-29T00:00:00", NULL);
    next_dates("0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00", NULL);
    next_dates("0 0 * 2 TUE#5", "2000-03-01T00:00:00Z", "2028-02-29T00:00:00", "2056-02-29T00:00:00", NULL);
    next_dates("0 0 * 2 TUE#5", "2084-03-01T00:00:00Z", "2124-02-29T00:00:00", NULL);
    next_dates("0 12 L * *", "2026-01-31T12:00:01Z", "2026-02-28T12:00:00", "2026-03-31T12:00:00", "2026-04-30T12:00:00", NULL);
    next_dates("0 0 L-3 * *", "2028-02-01T00:00:00Z", "2028-02-26T00:00:00", "2028-03-28T00:00:00", NULL);
    next_dates("0 0 L-30 * *", "2026-01-02T00:00:00Z", "2026-03-01T00:00:00", "2026-05-01T00:00:00", NULL);
    /* 1 August 2026 is a Saturday, 15 August a Saturday, 31 May 2026 a Sunday, 28 February 2026 a Saturday */
    next_dates("0 0 1W * *", "2026-08-01T00:00:00Z", "2026-08-03T00:00:00", "2026-09-01T00:00:00", NULL);
    next_dates("0 0 15W * *", "2026-08-01T00:00:00Z", "2026-08-14T00:00:00", "2026-09-15T00:00:00", NULL);
    next_dates("0 0 16W 8 *", "2026-08-01T00:00:00Z", "2026-08-17T00:00:00", NULL);
    next_dates("0 0 31W * *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00", "2026-07-31T00:00:00", NULL);
    next_dates("0 0 LW * *", "2026-02-01T00:00:00Z", "2026-02-27T00:00:00", "2026-03-31T00:00:00", "2026-04-30T00:00:00",
               "2026-05-29T00:00:00", NULL);
    next_dates("0 0 L-1W 5 *", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00", NULL);
    next_dates("0 0 * * FRI#1", "2026-05-01T00:00:01Z", "2026-06-05T00:00:00", "2026-07-03T00:00:00", NULL);
    next_dates("0 0 * * FRI#5", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00", "2026-05-29T00:00:00", NULL);
    next_dates("0 0 * * SUNL", "2026-02-01T00:00:00Z", "2026-02-22T00:00:00", "2026-03-29T00:00:00", NULL);
    next_dates("0 0 13 * FRI", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00", "2026-02-13T00:00:00", "2026-02-20T00:00:00",
               "2026-02-27T00:00:00", "2026-03-06T00:00:00", "2026-03-13T00:00:00", NULL);
    next_dates("0 0 */2 * MON", "2026-02-01T00:00:00Z", "2026-02-09T00:00:00", "2026-02-23T00:00:00", "2026-03-09T00:00:00",
               NULL);
}

static void times_of_every_kind(void **state)
{
    (void)state;
    next_dates("*/20 5 10 * * *", "2026-02-01T10:05:01Z", "2026-02-01T10:05:20", "2026-02-01T10:05:40", "2026-02-02T10:05:00",
               NULL);
    next_dates("30 5,50 3,20 * * *", "2026-12-31T03:05:31Z", "2026-12-31T03:50:30", "2026-12-31T20:05:30", "2026-12-31T20:50:30",
               "2027-01-01T03:05:30", NULL);
    next_dates("59 23 * * *", "2026-12-31T23:59:01Z", "2027-01-01T23:59:00", NULL);
    next_dates("* * * * * *", "2026-12-31T23:59:59Z", "2026-12-31T23:59:59", "2027-01-01T00:00:00", NULL);
    next_dates("0 0 * * *", "2026-12-31T00:00:00Z", "2026-12-31T00:00:00", NULL);
}

/* Against a walk over every minute, with the sets as they were written. */
static void a_walk_finds_the_same(void **state)
{
    (void)state;
    rng r;
    rng_init(&r, 11);
    for (int i = 0; i < 300; i++) {
        char text[CRON_MAX];
        calendar c;
        int64_t t = (int64_t)rng_below(&r, 4000000000u) / 60 * 60, next, prev;
        random_expression(&r, text);
        if (cron_parse(text, &c, NULL)) continue;
        c.times.seconds = 1;
        int64_t walk = t;
        for (int n = 0; n < 60 * 24 * 40; n++, walk += 60) {
            date d = date_from_days(walk / DAY_S);
            int minute = (int)(walk / 60 % 60), hour = (int)(walk / 3600 % 24);
            if ((c.times.minutes >> minute & 1) && (c.times.hours >> hour & 1) &&
                (calendar_month(&c.days, d.year, d.month) >> d.day & 1))
                break;
        }
        if (!calendar_next(&c, t, &next)) continue;
        if (walk < t + INT64_C(60) * 60 * 24 * 40) assert_int_equal(next, walk);
        else assert_true(next >= walk);
        assert_true(calendar_prev(&c, next, &prev));
        assert_int_equal(prev, next);
        if (calendar_prev(&c, next - 1, &prev)) assert_true(prev < t);
    }
}

static void the_end_of_time(void **state)
{
    (void)state;
    int64_t t;
    calendar c = parsed("0 0 1 1 *");
    assert_true(calendar_next(&c, at("9998-06-01T00:00:00Z"), &t));
    assert_int_equal(t, at("9999-01-01T00:00:00Z"));
    assert_false(calendar_next(&c, t + 1, &t));
    assert_false(calendar_next(&c, INT64_MAX, &t));
    assert_true(calendar_next(&c, INT64_MIN, &t));
    assert_true(calendar_prev(&c, INT64_MAX, &t));
    assert_int_equal(t, at("9999-01-01T00:00:00Z"));
    assert_false(calendar_prev(&c, INT64_MIN, &t));
    c = parsed("0 0 29 2 *");
    assert_false(calendar_prev(&c, ZONE_FIRST_S + 86400, &t));
}

/* ---- plans ---- */

#define MON_FRI 0x3e

static calendar planned(const calendar_plan *plan)
{
    calendar c;
    pawl_error err;
    if (calendar_build(plan, &c, &err)) fail_msg("%s", err.message);
    return c;
}

static void plan_gives(const calendar_plan *plan, const char *words, const char *from, ...)
{
    va_list args;
    calendar c = planned(plan);
    int64_t t = at(from);
    if (strcmp(printed(&c, true), words) != 0) fail_msg("%s", printed(&c, true));
    va_start(args, from);
    for (const char *date; (date = va_arg(args, const char *)); t++) {
        int64_t before = t, back;
        assert_true(calendar_next(&c, t, &t));
        if (t != at(date)) fail_msg("%s: %lld is not %s", words, (long long)t, date);
        assert_true(calendar_prev(&c, t, &back) && back == t);
        assert_true(calendar_prev(&c, t - 1, &back) && back < before);
    }
    va_end(args);
}

static void plans_of_every_kind(void **state)
{
    (void)state;
    plan_gives(&(calendar_plan){0}, "at 00:00 every day", "2026-01-01T00:00:01Z", "2026-01-02T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.times_s = {61200, 32400, 32400, 34245}, .times = 4}, "at 09:00, 09:30:45 and 17:00 every day",
               "2026-01-01T09:00:01Z", "2026-01-01T09:30:45Z", "2026-01-01T17:00:00Z", "2026-01-02T09:00:00Z", NULL);
    plan_gives(&(calendar_plan){.weekdays = 0x7f, .month_days = 0xfffffffe, .months = 0x1ffe}, "at 00:00 every day",
               "2026-01-01T00:00:01Z", "2026-01-02T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.weekdays = MON_FRI}, "at 00:00 on Monday to Friday", "2026-01-02T00:00:01Z",
               "2026-01-05T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.month_days = 1u << 31}, "at 00:00 on the 31st of the month (or the last day of a shorter month)",
               "2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z",
               "2026-04-30T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.month_days = 1u << 30 | 1u << 29, .months = 1 << 2},
               "at 00:00 on the 29th and the 30th of February (or the last day of a shorter month)", "2027-01-31T00:00:00Z",
               "2027-02-28T00:00:00Z", "2028-02-29T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.month_days = 1u << 13, .weekdays = 1 << 5},
               "at 00:00 on the 13th of the month if it is a Friday", "2026-01-01T00:00:00Z", "2026-02-13T00:00:00Z",
               "2026-03-13T00:00:00Z", "2026-11-13T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.weekdays = 1 << 1, .nth = 1}, "at 00:00 on Mondays, but only on the first such day of a month",
               "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z", "2026-02-02T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.weekdays = MON_FRI, .nth = -1},
               "at 00:00 on Monday to Friday, but only on the last such day of a month", "2026-01-01T00:00:00Z",
               "2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.weekdays = MON_FRI, .nth = -2, .months = 1 << 5},
               "at 00:00 on Monday to Friday in May, but only on the 2nd to last such day of a month", "2026-01-01T00:00:00Z",
               "2026-05-28T00:00:00Z", NULL);
    plan_gives(&(calendar_plan){.nth = 31}, "at 00:00 every day, but only on the 31st such day of a month",
               "2026-02-01T00:00:00Z", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", NULL);
}

static void plans_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        calendar_plan plan;
        const char *says;
    } bad[] = {
        {{.times = 17}, "at most 16"},
        {{.times = -1}, "at most 16"},
        {{.times = 1, .times_s = {86400}}, "86400 is no second of the day"},
        {{.times = 1, .times_s = {-1}}, "no second of the day"},
        {{.weekdays = 0x80}, "weekdays are bits 0"},
        {{.month_days = 1}, "days of the month are bits 1 to 31"},
        {{.months = 1}, "months are bits 1 to 12"},
        {{.nth = 32}, "no month has a day number 32"},
        {{.nth = -32}, "no month has a day number -32"},
        {{.weekdays = 1, .nth = 6}, "never comes up"},
        {{.weekdays = 1, .nth = -7}, "never comes up"},
        {{.month_days = 1 << 5, .nth = 2}, "never comes up"},
        {{.nth = 30, .months = 1 << 2}, "never comes up"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        calendar c;
        pawl_error err = {0};
        assert_int_equal(calendar_build(&bad[i].plan, &c, &err), PAWL_INVALID);
        if (!strstr(err.message, bad[i].says)) fail_msg("%s", err.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_and_words),
        cmocka_unit_test(canonical_forms_mean_the_same),
        cmocka_unit_test(the_longest_canonical_form_can_be_read),
        cmocka_unit_test(no_memory_for_words),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(days_of_every_kind),
        cmocka_unit_test(times_of_every_kind),
        cmocka_unit_test(a_walk_finds_the_same),
        cmocka_unit_test(the_end_of_time),
        cmocka_unit_test(plans_of_every_kind),
        cmocka_unit_test(plans_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
