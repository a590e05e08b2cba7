#include "cli/meter.h"

#include "base/alloc.h"
#include "cli/cli.h"
#include <string.h>

#define DRAW_US (PAWL_SECOND / 10)
#define LINE_US (5 * PAWL_SECOND)
#define BAR 24

void meter_init(meter *m, const char *unit)
{
    *m = (meter){.unit = unit, .began_us = cli_now_us()};
    term_init(&m->term, stderr, true);
}

static void add_bar(const meter *m, buf *b, int64_t done, int64_t total)
{
    const char *full = m->term.utf8 ? "█" : "#", *empty = m->term.utf8 ? "░" : ".";
    int filled = total > 0 ? (int)(done * BAR / total) : 0;
    for (int i = 0; i < BAR; i++) buf_str(b, i < filled ? full : empty);
    buf_fmt(b, " %3d%%  ", total > 0 ? (int)(done * 100 / total) : 0);
}

static void add_numbers(const meter *m, buf *b, int64_t done, int64_t total, int64_t now_us)
{
    char a[32], z[32], rate[32];
    if (total <= 0) return;
    number_grouped(done, a);
    number_grouped(total, z);
    buf_fmt(b, "  %s of %s %s", a, z, m->unit);
    if (done <= m->rate_from || now_us - m->rate_us < PAWL_SECOND / 2) return;
    number_grouped((done - m->rate_from) * PAWL_SECOND / (now_us - m->rate_us), rate);
    buf_fmt(b, "  %s/s", rate);
}

void meter_show(meter *m, const char *what, int64_t done, int64_t total, const char *detail)
{
    int64_t now_us = cli_now_us(), every_us = m->term.tty ? DRAW_US : LINE_US;
    bool changed = strcmp(m->last, what) != 0;
    if (changed) {
        snprintf(m->last, sizeof m->last, "%s", what);
        m->rate_from = done;
        m->rate_us = now_us;
    }
    if (!changed && now_us - m->shown_us < every_us) return;
    buf line;
    m->shown_us = now_us;
    buf_init(&line, alloc_default(), 4096);
    if (m->term.tty) add_bar(m, &line, done, total);
    buf_str(&line, what);
    add_numbers(m, &line, done, total, now_us);
    if (detail) buf_fmt(&line, "  %s", detail);
    if (m->term.tty && m->term.width) term_cut(&m->term, &line, m->term.width - 1);
    if (m->term.tty) fprintf(stderr, "\r\033[K%s", buf_text(&line));
    else fprintf(stderr, "pawl: %s\n", buf_text(&line));
    m->drawn = m->term.tty;
    buf_done(&line);
}

void meter_end(meter *m)
{
    if (m->drawn) fprintf(stderr, "\r\033[K");
    m->drawn = false;
}
