/* The screen is drawn into a buffer and sent in one write: the cursor goes up as many lines as were drawn last time, each line clears
 * what it replaces, and what is left below is cleared too. Lines are cut to the terminal's width, so none of them wraps.
 */
#include "cli/demo.h"

#include "base/alloc.h"
#include <string.h>
#include <time.h>

#define BAR 20
#define RUNNING_SHOWN 5
#define PROGRAM_SHOWN 30 /* a longer path would be cut off with what is to be typed: its last part then */

void demo_note(demo *d, const pawl_event *event)
{
    d->counts[event->kind]++;
    if (event->kind == PAWL_EVENT_STARTED || event->kind == PAWL_EVENT_DISPATCHED || event->kind == PAWL_EVENT_PROGRESS) return;
    d->last[d->last_at++ % DEMO_EVENTS] = *event;
}

/* ---- pieces --------------------------------------------------------------------------------------------------------------------- */

typedef struct canvas {
    const demo *d;
    const term *term;
    buf out;
    int lines;
} canvas;

/* One line, made safe, cut to fit and painted. */
static void put(canvas *v, paint color, const char *fmt, ...) PAWL_PRINTF(3, 4);
static void put(canvas *v, paint color, const char *fmt, ...)
{
    char text[512];
    buf line;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_init(&line, alloc_default(), 8 << 10);
    term_safe(&line, pawl_str(text), false);
    term_cut(v->term, &line, v->term->width - 1);
    buf_fmt(&v->out, "%s%s%s\033[K\n", term_on(v->term, color), buf_text(&line), term_off(v->term));
    v->lines++;
    buf_done(&line);
}

static void put_counters(canvas *v, const pawl_stats *stats)
{
    const demo *d = v->d;
    const int64_t *n = d->counts;
    double seconds = (double)(cli_now_us() - d->started_us) / 1e6;
    if (seconds < 1) seconds = 1;
    put(v, PLAIN, "  dispatched %8lld   %5.1f/s      running   %6lld", (long long)n[PAWL_EVENT_DISPATCHED],
        (double)n[PAWL_EVENT_DISPATCHED] / seconds, (long long)(stats ? stats->leased : 0));
    put(v, GREEN, "  succeeded  %8lld   %5.1f/s      pending   %6lld", (long long)n[PAWL_EVENT_SUCCEEDED],
        (double)n[PAWL_EVENT_SUCCEEDED] / seconds, (long long)(stats ? stats->pending : 0));
    put(v, YELLOW, "  retrying   %8lld   %5.1f/s", (long long)n[PAWL_EVENT_RETRYING], (double)n[PAWL_EVENT_RETRYING] / seconds);
    put(v, RED, "  failed     %8lld                dead      %6lld", (long long)n[PAWL_EVENT_FAILED],
        (long long)(stats ? stats->dead : 0));
}

static void put_running(canvas *v)
{
    pawl_page *page = NULL;
    pawl_list(v->d->p, &(pawl_filter){.state = "leased", .oldest_first = true, .limit = 50}, &page, NULL);
    int shown = 0;
    put(v, BOLD, "Running");
    for (size_t i = 0; page && i < page->count && shown < RUNNING_SHOWN; i++) {
        const pawl_info *task = page->tasks[i];
        char id[PAWL_ID_TEXT], bar[BAR * 3 + 1] = "";
        if (task->progress < 0) continue;
        pawl_id_format(task->id, id);
        for (int j = 0; j < BAR; j++)
            strcat(bar, j * 100 < task->progress * BAR ? (v->term->utf8 ? "█" : "#") : v->term->utf8 ? "░" : ".");
        put(v, CYAN, "  %s  %-13s %s %3d%%  %s", id, task->type, bar, task->progress,
            task->progress_text ? task->progress_text : "");
        shown++;
    }
    while (shown++ < RUNNING_SHOWN) put(v, PLAIN, "%s", "");
    pawl_page_free(page);
}

static void put_events(canvas *v)
{
    const demo *d = v->d;
    put(v, BOLD, "Last events");
    for (size_t i = 0; i < DEMO_EVENTS; i++) {
        if (i >= d->last_at) {
            put(v, PLAIN, "%s", "");
            continue;
        }
        const pawl_event *e = &d->last[(d->last_at - 1 - i) % DEMO_EVENTS];
        char at[16] = "", id[PAWL_ID_TEXT] = "", delay[WHEN_TEXT] = "";
        time_t seconds = (time_t)(e->at_us / PAWL_SECOND);
        struct tm local;
        if (localtime_r(&seconds, &local)) strftime(at, sizeof at, "%H:%M:%S", &local);
        if (e->id) pawl_id_format(e->id, id);
        if (e->kind == PAWL_EVENT_RETRYING) when_age(e->value, delay);
        const char *name = pawl_event_name(e->kind);
        put(v, term_state(name), "  %s  %-9s  %s  %-13s %s%s%s%s", at, name, id, e->type, *delay ? "again in " : "", delay,
            *delay && *e->text ? ": " : "", e->text);
    }
}

static void put_hints(canvas *v)
{
    const demo *d = v->d;
    const char *program = d->c->program, *store = pawl_store_url(d->p), *slash = strrchr(program, '/');
    if (slash && strlen(program) > PROGRAM_SHOWN) program = slash + 1;
    char id[PAWL_ID_TEXT];
    pawl_id_format(d->sample, id);
    put(v, BOLD, "In another terminal");
    put(v, PLAIN, "  export PAWL_STORE=%s", store);
    put(v, PLAIN, "  %s tasks list", program);
    put(v, PLAIN, "  %s tasks why %s", program, id);
    put(v, PLAIN, "  %s dead list          then: dead retry --all", program);
    put(v, PLAIN, "  %s queues pause mail  then: queues resume mail", program);
    put(v, PLAIN, "  %s enqueue --type email.send --queue mail --payload '{\"to\":\"you@example.org\"}'", program);
    put(v, DIM, "%s",
        d->stop.draining ? "Stopping: running tasks finish first. Ctrl-C again stops at once." : "Ctrl-C stops gracefully.");
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------------ */

static void draw_screen(demo *d)
{
    pawl_stats *stats = NULL;
    canvas v = {.d = d, .term = &d->c->term};
    long long up = (long long)((cli_now_us() - d->started_us) / PAWL_SECOND);
    term_init(&d->c->term, stdout, d->c->no_color); /* the window may have another size now */
    buf_init(&v.out, alloc_default(), 256 << 10);
    if (d->lines) buf_fmt(&v.out, "\033[%dA\r", d->lines);
    pawl_get_stats(d->p, 0, &stats, NULL);
    put(&v, BOLD, "Pawl %s demo   %s   %lld:%02lld", pawl_version(), pawl_store_url(d->p), up / 60, up % 60);
    put(&v, PLAIN, "%s", "");
    put_counters(&v, stats);
    put(&v, PLAIN, "%s", "");
    put_running(&v);
    put(&v, PLAIN, "%s", "");
    put_events(&v);
    put(&v, PLAIN, "%s", "");
    put_hints(&v);
    buf_str(&v.out, "\033[J");
    fputs(buf_text(&v.out), stdout);
    fflush(stdout);
    d->lines = v.lines;
    buf_done(&v.out);
    pawl_stats_free(stats);
}

static void draw_line(demo *d)
{
    const int64_t *n = d->counts;
    pawl_health health = {0};
    pawl_get_health(d->p, &health, NULL);
    printf("%4llds  dispatched %lld  running %lld  succeeded %lld  retrying %lld  failed %lld\n",
           (long long)((cli_now_us() - d->started_us) / PAWL_SECOND), (long long)n[PAWL_EVENT_DISPATCHED],
           (long long)health.running, (long long)n[PAWL_EVENT_SUCCEEDED], (long long)n[PAWL_EVENT_RETRYING],
           (long long)n[PAWL_EVENT_FAILED]);
    fflush(stdout);
}

void demo_draw(demo *d, bool last)
{
    int64_t now_us = cli_now_us();
    bool tty = d->c->term.tty;
    if (!last && now_us - d->drawn_us < (tty ? 250 * PAWL_MILLISECOND : PAWL_SECOND)) return;
    d->drawn_us = now_us;
    if (tty) draw_screen(d);
    else draw_line(d);
}
