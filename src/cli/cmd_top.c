/* pawl top: a live view. What it shows is asked for anew each time, of a store or of a server, and drawn as a whole, cut to the terminal. */
#include "base/alloc.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

const char help_top[] =
    "Counts, queues, and what runs, again every --every. End it with q or Ctrl-C. Where the output is not a terminal it is "
    "printed once.\n"
    "\n"
    "Examples\n"
    "  pawl top\n"
    "  pawl top --every 5s --server http://localhost:7295\n";

static int64_t every_us;
static bool once;

const opt top_opts[] = {OPTION(OPT_DURATION, "every", &every_us, "DURATION", "how often to look", .min = 100 * PAWL_MILLISECOND,
                               .max = PAWL_HOUR, .fallback = "1s"),
                        OPTION(OPT_FLAG, "once", &once, NULL, "print it once and end"), OPTIONS_END};

/* ---- what there is ---------------------------------------------------------------------------------------------------------- */

typedef struct seen { /* from a store: what is to be given back */
    pawl_stats *stats;
    pawl_nodes *nodes;
    pawl_page *page;
} seen;

static pawl_status local_view(pawl *p, top_view *v, seen *s, pawl_error *err)
{
    pawl_filter filter = {.state = "leased", .oldest_first = true, .limit = 50};
    pawl_status status = pawl_get_stats(p, PAWL_MINUTE, &s->stats, err);
    if (!status) status = pawl_get_nodes(p, &s->nodes, err);
    if (!status) status = pawl_list(p, &filter, &s->page, err);
    if (status) return status;
    v->stats = *s->stats;
    v->running = *s->page;
    for (size_t i = 0; i < s->nodes->count; i++) v->nodes += s->nodes->nodes[i].alive;
    return PAWL_OK;
}

static void forget(top_view *v, seen *s)
{
    pawl_stats_free(s->stats);
    pawl_nodes_free(s->nodes);
    pawl_page_free(s->page);
    arena_free(v->arena);
    *s = (seen){0};
    *v = (top_view){0};
}

/* ---- drawing ---------------------------------------------------------------------------------------------------------------- */

typedef struct canvas {
    const term *term;
    buf out;
    int lines, most;
} canvas;

/* One line, made safe, cut to fit and painted. */
static void put(canvas *v, paint color, const char *fmt, ...) PAWL_PRINTF(3, 4);
static void put(canvas *v, paint color, const char *fmt, ...)
{
    char text[1024];
    buf line;
    va_list args;
    if (v->most && v->lines == v->most) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_init(&line, alloc_default(), 16 << 10);
    term_safe(&line, pawl_str(text), false);
    if (v->term->width) term_cut(v->term, &line, v->term->width - 1);
    buf_fmt(&v->out, "%s%s%s%s\n", term_on(v->term, color), buf_text(&line), term_off(v->term), v->most ? "\033[K" : "");
    v->lines++;
    buf_done(&line);
}

static void put_counts(canvas *v, const pawl_stats *s)
{
    char wait[DURATION_TEXT], run[DURATION_TEXT];
    double seconds = s->window_us ? (double)s->window_us / 1e6 : 60;
    duration_format(s->wait_p99_us, wait, sizeof wait);
    duration_format(s->run_p99_us, run, sizeof run);
    put(v, PLAIN, "pending %lld   running %lld   waiting %lld   dead %lld", (long long)s->pending, (long long)s->leased,
        (long long)s->waiting, (long long)s->dead);
    put(v, PLAIN,
        "last minute: %.1f dispatched/s, %.1f succeeded/s, %lld failed, %lld retried, %lld rescued; 99%%: wait %s, run %s",
        (double)s->dispatched / seconds, (double)s->succeeded / seconds, (long long)s->failed, (long long)s->retried,
        (long long)s->rescued, wait, run);
    if (s->closed) put(v, YELLOW, "%s", s->closed);
}

static void put_queues(canvas *v, const pawl_stats *s)
{
    put(v, BOLD, "%-24s %10s %10s %10s %8s  %s", "QUEUE", "PENDING", "DUE", "RUNNING", "DEAD", "");
    for (size_t i = 0; i < s->queues_count; i++) {
        const pawl_queue_info *q = &s->queues[i];
        char late[WHEN_TEXT] = "";
        if (q->oldest_due_us && q->oldest_due_us < s->now_us) when_age(s->now_us - q->oldest_due_us, late);
        put(v,
            q->paused   ? YELLOW
            : q->failed ? RED
                        : PLAIN,
            "%-24.24s %10lld %10lld %10lld %8lld  %s%s%s", q->name, (long long)q->pending, (long long)q->due,
            (long long)q->leased, (long long)q->failed,
            q->paused                      ? "paused "
            : !q->served && q->pending > 0 ? "nobody serves it "
                                           : "",
            *late ? "oldest " : "", late);
    }
}

static void put_running(canvas *v, const pawl_page *page, int64_t now_us)
{
    put(v, BOLD, "%-13s  %-24s %-16s %4s  %8s  %s", "RUNNING", "TYPE", "QUEUE", "TRY", "SINCE", "");
    for (size_t i = 0; i < page->count; i++) {
        const pawl_info *t = page->tasks[i];
        char id[PAWL_ID_TEXT], since[WHEN_TEXT] = "", progress[16] = "";
        pawl_id_format(t->id, id);
        if (t->started_us) when_age(now_us > t->started_us ? now_us - t->started_us : 0, since);
        if (t->progress >= 0) snprintf(progress, sizeof progress, "%d%% ", t->progress);
        put(v, CYAN, "%s  %-24.24s %-16.16s %4d  %8s  %s%s", id, t->type, t->queue, t->attempt, since, progress,
            t->progress_text ? t->progress_text : "");
    }
}

static void draw(canvas *v, const char *where, const top_view *view)
{
    put(v, BOLD, "pawl  %s  %d node%s", where, view->nodes, view->nodes == 1 ? "" : "s");
    put_counts(v, &view->stats);
    put(v, PLAIN, "%s", "");
    put_queues(v, &view->stats);
    put(v, PLAIN, "%s", "");
    put_running(v, &view->running, view->stats.now_us);
}

/* ---- the terminal ------------------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t ended;
static struct termios before;

static void on_end(int signal)
{
    (void)signal;
    ended = 1;
}

static void enter(void)
{
    struct sigaction action = {.sa_handler = on_end};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (tcgetattr(STDIN_FILENO, &before) == 0) {
        struct termios raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l", stdout);
}

static void leave(void)
{
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (before.c_lflag) tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* Until it is time to look again; false: the user wants no more. */
static bool wait_key(void)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    char key;
    int n = poll(&keys, 1, (int)(every_us / 1000));
    if (ended || n <= 0) return !ended;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q' && key != 3;
}

static int lines_of(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2 ? size.ws_row - 1 : 24;
}

static pawl_status show(cli *c, pawl *p, bool live, pawl_error *err)
{
    top_view view = {0};
    seen seen = {0};
    canvas v = {.term = &c->term, .most = live ? lines_of() : 0};
    pawl_status status = p ? local_view(p, &view, &seen, err) : remote_view(c, &view, err);
    buf_init(&v.out, alloc_default(), 1u << 20);
    if (live) buf_str(&v.out, "\033[H");
    if (!status) draw(&v, p ? pawl_store_url(p) : c->server, &view);
    if (live) buf_str(&v.out, "\033[J");
    if (!status) fwrite(v.out.data, 1, v.out.len, stdout);
    fflush(stdout);
    buf_done(&v.out);
    forget(&view, &seen);
    return status;
}

int cmd_top(cli *c)
{
    pawl_error err;
    int code = 0;
    bool live = c->term.tty && !once && !c->json;
    pawl *p = c->server ? NULL : cli_open_reading(c, &code);
    if (!p && !c->server) return code;
    if (live) enter();
    pawl_status status;
    do {
        if (live) term_init(&c->term, stdout, c->no_color); /* it may have another size now */
        status = show(c, p, live, &err);
    } while (live && !status && wait_key());
    if (live) leave();
    if (p) pawl_close(p);
    return status ? cli_fail(c, &err) : 0;
}
