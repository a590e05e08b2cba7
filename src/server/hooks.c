#include "server/hooks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "http/client.h"
#include "http/sign.h"
#include "server/parts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)
#define ROTATION_US PAWL_DAY
#define SEND_US (30 * PAWL_SECOND)
#define GROUP 500
#define WORKERS 4

typedef struct group {
    pawl_task tasks[GROUP];
    pawl_receipt receipts[GROUP];
    buf texts[GROUP];
    size_t count;
} group;

struct hooks {
    pawl *p;
    char *path;
    const char *allowed[64]; /* NULL behind the last */
    logger log;
    follower *follower;
    int at_fd;
    int64_t at;           /* the follower's, like these: */
    group *group;         /* being filled */
    hook seen[HOOKS_MAX]; /* a copy */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t cond;
    hook list[HOOKS_MAX];
    size_t count;
    bool closing;
};

static int64_t now_us(void)
{
    pawl_clock clock = clock_system();
    return clock.wall_us(clock.ctx);
}

static hook *find(hooks *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++) {
        if (strcmp(h->list[i].name, name) == 0) return &h->list[i];
    }
    return NULL;
}

/* ---- the file ------------------------------------------------------------------------------------------------------------- */

#define HOOK(member) offsetof(stored, member)

typedef struct stored {
    const char *name, *url, *secret, *old_secret, *type, *queue, *why;
    const char *const *events;
    int64_t old_until_us, created_us;
    bool disabled;
} stored;

static const field stored_fields[] = {{"name", FIELD_TEXT, HOOK(name), 0, 0, NULL},
                                      {"url", FIELD_TEXT, HOOK(url), 0, 0, NULL},
                                      {"secret", FIELD_TEXT, HOOK(secret), 0, 0, NULL},
                                      {"old_secret", FIELD_TEXT, HOOK(old_secret), 0, 0, NULL},
                                      {"old_until", FIELD_INSTANT, HOOK(old_until_us), 0, 0, NULL},
                                      {"events", FIELD_TEXTS, HOOK(events), 0, PAWL_EVENT_COUNT, NULL},
                                      {"type", FIELD_TEXT, HOOK(type), 0, 0, NULL},
                                      {"queue", FIELD_TEXT, HOOK(queue), 0, 0, NULL},
                                      {"disabled", FIELD_BOOL, HOOK(disabled), 0, 0, NULL},
                                      {"why", FIELD_TEXT, HOOK(why), 0, 0, NULL},
                                      {"created_at", FIELD_INSTANT, HOOK(created_us), 0, 0, NULL},
                                      {0}};

bool hook_events(const char *const *names, uint64_t *events)
{
    *events = 0;
    for (; names && *names; names++) {
        uint64_t bit = 0;
        for (int i = 1; i < PAWL_EVENT_COUNT; i++) {
            if (strcmp(*names, pawl_event_name((pawl_event_kind)i)) == 0) bit = UINT64_C(1) << i;
        }
        if (!bit) return false;
        *events |= bit;
    }
    return true;
}

static void members(json_writer *w, const hook *k)
{
    json_text(w, "name", k->name);
    jsonw_key(w, "events");
    jsonw_array(w);
    for (int i = 1; i < PAWL_EVENT_COUNT; i++) {
        if (k->events & UINT64_C(1) << i) jsonw_string(w, pawl_event_name((pawl_event_kind)i));
    }
    jsonw_end_array(w);
    json_text(w, "type", *k->type ? k->type : NULL);
    json_text(w, "queue", *k->queue ? k->queue : NULL);
    json_truth(w, "disabled", k->disabled);
    json_instant(w, "created_at", k->created_us);
}

void hook_members(json_writer *w, const hook *k)
{
    json_shown(w, "url", k->url);
    members(w, k);
    json_shown(w, "why", *k->why ? k->why : NULL);
}

static void write_hook(json_writer *w, const hook *k)
{
    jsonw_object(w);
    members(w, k);
    json_text(w, "url", k->url);
    json_text(w, "why", *k->why ? k->why : NULL);
    json_text(w, "secret", k->secret);
    json_text(w, "old_secret", *k->old_secret ? k->old_secret : NULL);
    json_instant(w, "old_until", k->old_until_us);
    jsonw_end_object(w);
}

static bool write_file(const char *path, const buf *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    bool ok = !text->failed && write(fd, text->data, text->len) == (ssize_t)text->len && fsync(fd) == 0;
    return close(fd) == 0 && ok;
}

/* With the lock held: all of them, beside their place and then renamed. */
static pawl_status save(hooks *h, pawl_error *err)
{
    char beside[4096];
    buf text;
    json_writer w;
    buf_init(&text, alloc_default(), FILE_MAX);
    jsonw_init(&w, &text, true);
    jsonw_array(&w);
    for (size_t i = 0; i < h->count; i++) write_hook(&w, &h->list[i]);
    jsonw_end_array(&w);
    buf_char(&text, '\n');
    snprintf(beside, sizeof beside, "%s.new", h->path);
    bool ok = write_file(beside, &text) && rename(beside, h->path) == 0;
    buf_done(&text);
    return ok ? PAWL_OK : err_set(err, PAWL_UNAVAILABLE, "could not write \"%s\": %s", h->path, strerror(errno));
}

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from ? from : ""); }

static pawl_status read_one(hooks *h, json value, pawl_arena *arena, pawl_error *err)
{
    stored s = {0};
    const char *why;
    pawl_status status = value.kind == JSON_OBJECT ? fields_read(stored_fields, value, arena, &s, err) : PAWL_INVALID;
    hook *k = &h->list[h->count];
    if (!status && h->count < HOOKS_MAX && s.name && s.url && s.secret && client_url_valid(s.url, &why) &&
        sign_secret_valid(s.secret) && hook_events(s.events, &k->events)) {
        copy(k->name, sizeof k->name, s.name);
        copy(k->url, sizeof k->url, s.url);
        copy(k->type, sizeof k->type, s.type);
        copy(k->queue, sizeof k->queue, s.queue);
        copy(k->secret, sizeof k->secret, s.secret);
        copy(k->old_secret, sizeof k->old_secret, s.old_secret);
        copy(k->why, sizeof k->why, s.why);
        k->old_until_us = s.old_until_us;
        k->created_us = s.created_us;
        k->disabled = s.disabled;
        h->count++;
        return PAWL_OK;
    }
    return err_set(err, PAWL_INVALID, "hook %zu of \"%s\" makes no sense: remove it there", h->count + 1, h->path);
}

static pawl_status read_text(const char *path, buf *out, pawl_error *err)
{
    char block[4096];
    struct stat st;
    FILE *in = fopen(path, "re");
    if (!in && errno == ENOENT) return buf_str(out, "[]"), PAWL_OK;
    if (!in) return err_set(err, PAWL_DENIED, "could not read \"%s\": %s", path, strerror(errno));
    if (fstat(fileno(in), &st) || st.st_mode & 077) {
        fclose(in);
        return err_set(err, PAWL_DENIED, "others can read the secrets in \"%s\": chmod 600 it", path);
    }
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) buf_add(out, block, n);
    bool failed = ferror(in) || out->failed;
    fclose(in);
    return failed ? err_set(err, PAWL_INVALID, "could not read \"%s\": it is too large", path) : PAWL_OK;
}

static pawl_status load(hooks *h, pawl_error *err)
{
    buf text;
    json key, value;
    buf_init(&text, alloc_default(), FILE_MAX);
    pawl_arena *arena = arena_new(alloc_default(), 4 * FILE_MAX);
    pawl_status status = arena ? read_text(h->path, &text, err) : err_set(err, PAWL_NO_MEMORY, "out of memory");
    pawl_bytes bytes = {buf_text(&text), text.len};
    if (!status && (!json_valid(bytes, NULL, NULL) || json_parse(bytes).kind != JSON_ARRAY))
        status = err_set(err, PAWL_INVALID, "\"%s\" is no list of hooks in JSON", h->path);
    for (size_t at = 0; !status && json_each(json_parse(bytes), &at, &key, &value);) status = read_one(h, value, arena, err);
    arena_free(arena);
    buf_done(&text);
    return status;
}

/* ---- events become tasks ------------------------------------------------------------------------------------------------- */

static bool wants(const hook *k, const pawl_event *e)
{
    if (k->disabled || !(k->events & UINT64_C(1) << e->kind) || strcmp(e->queue, HOOK_QUEUE) == 0) return false;
    return (!*k->type || strcmp(k->type, e->type) == 0) && (!*k->queue || strcmp(k->queue, e->queue) == 0);
}

/* {"hook":NAME,"id":ID,"body":{"type":...,"timestamp":...,"data":...}}: the body is what is sent, byte for byte. */
static bool write_payload(buf *out, const hook *k, const char *id, const char *type, const pawl_fact *fact)
{
    json_writer w;
    jsonw_init(&w, out, false);
    jsonw_object(&w);
    json_text(&w, "hook", k->name);
    json_text(&w, "id", id);
    jsonw_key(&w, "body");
    jsonw_object(&w);
    json_text(&w, "type", type);
    json_instant(&w, "timestamp", fact->event.at_us);
    jsonw_key(&w, "data");
    event_json(&w, fact);
    jsonw_end_object(&w);
    jsonw_end_object(&w);
    return !out->failed;
}

static void rest(hooks *h)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&h->lock);
    int rc = 0;
    while (!h->closing && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&h->cond, &h->lock, &until);
    pthread_mutex_unlock(&h->lock);
}

static bool closing(hooks *h)
{
    pthread_mutex_lock(&h->lock);
    bool yes = h->closing;
    pthread_mutex_unlock(&h->lock);
    return yes;
}

/* Until the store has them: nothing is skipped because it is away. false: the server stops first. */
static bool flush(hooks *h, group *g)
{
    pawl_error err = {0};
    bool told = false, done = g->count == 0;
    while (!done && !closing(h)) {
        pawl_status status = pawl_dispatch_bulk(h->p, g->tasks, g->count, g->receipts, &err);
        done = !status || !pawl_status_retryable(status);
        if (status && !told) log_line(&h->log, PAWL_ERROR, "hooks: could not store %zu deliveries: %s", g->count, err.message);
        told = true;
        if (!done) rest(h);
    }
    for (size_t i = 0; i < g->count; i++) buf_done(&g->texts[i]);
    g->count = 0;
    return done;
}

static bool add(hooks *h, group *g, const hook *k, const pawl_fact *fact)
{
    char id[48], type[64];
    if (g->count == GROUP && !flush(h, g)) return false;
    buf *text = &g->texts[g->count];
    snprintf(id, sizeof id, "evt_f-%lld", (long long)fact->number);
    snprintf(type, sizeof type, "task.%s", pawl_event_name(fact->event.kind));
    buf_init(text, alloc_default(), 64 << 10);
    if (!write_payload(text, k, id, type, fact)) {
        buf_done(text);
        return true;
    }
    g->tasks[g->count++] =
        (pawl_task){.type = HOOK_TYPE, .queue = HOOK_QUEUE, .payload = {text->data, text->len}, .audit = PAWL_AUDIT_ERRORS};
    return true;
}

static void keep_position(hooks *h, int64_t at)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%020lld\n", (long long)at);
    h->at = at;
    if (pwrite(h->at_fd, text, (size_t)n, 0) != n) log_line(&h->log, PAWL_WARN, "hooks: could not write where they are");
}

/* On the follower's thread. */
static void take_facts(void *ctx, const pawl_facts *facts, bool now)
{
    hooks *h = ctx;
    const hook *list = h->seen;
    (void)now;
    size_t count = hooks_list(h, h->seen);
    bool good = true;
    if (h->at > 0 && h->at < facts->broken)
        log_line(&h->log, PAWL_WARN, "hooks: nobody listened for a while, and what happened then is not told");
    for (size_t i = 0; good && i < facts->count; i++) {
        for (size_t k = 0; good && k < count; k++) {
            if (wants(&list[k], &facts->facts[i].event)) good = add(h, h->group, &list[k], &facts->facts[i]);
        }
    }
    good = flush(h, h->group) && good;
    if (good && facts->next != h->at) keep_position(h, facts->next > facts->broken ? facts->next : facts->broken);
}

/* ---- sending -------------------------------------------------------------------------------------------------------------- */

static void disable(hooks *h, const char *name, const char *why)
{
    pawl_error err;
    pthread_mutex_lock(&h->lock);
    hook *k = find(h, name);
    if (k) {
        k->disabled = true;
        copy(k->why, sizeof k->why, why);
        if (save(h, &err)) log_line(&h->log, PAWL_ERROR, "hooks: %s", err.message);
    }
    pthread_mutex_unlock(&h->lock);
    log_line(&h->log, PAWL_WARN, "hook \"%s\" is disabled: %s", name, why);
}

static pawl_outcome judge(hooks *h, pawl_run *run, const hook *k, const client_answer *a)
{
    char code[24];
    if (a->status >= 200 && a->status < 300) return pawl_ok();
    snprintf(code, sizeof code, a->status ? "http_%d" : a->refused ? "address_refused" : "no_answer", a->status);
    pawl_run_error_code(run, code);
    if (a->refused) return pawl_fail(run, "%s: %s", k->url, a->why);
    if (a->status == 410) {
        disable(h, k->name, "the other side answered 410: it wants no more");
        return pawl_fail(run, "%s answered 410: the hook is disabled", k->url);
    }
    if (!a->status) return pawl_retry(run, "%s: %s", k->url, a->why);
    if (a->retry_after_us) return pawl_retry_in(run, a->retry_after_us, "%s answered %d", k->url, a->status);
    return pawl_retry(run, "%s answered %d", k->url, a->status);
}

static void send_to(hooks *h, const hook *k, const char *id, pawl_bytes body, client_answer *answer)
{
    char time_line[64], id_line[96];
    long long at = (long long)(now_us() / PAWL_SECOND);
    buf signature;
    buf_init(&signature, alloc_default(), 4096);
    buf_str(&signature, "webhook-signature: ");
    sign_add(k->secret, id, at, body, &signature);
    if (*k->old_secret && now_us() < k->old_until_us) sign_add(k->old_secret, id, at, body, &signature);
    snprintf(time_line, sizeof time_line, "webhook-timestamp: %lld", at);
    snprintf(id_line, sizeof id_line, "webhook-id: %s", id);
    const char *headers[] = {
        "Content-Type: application/json", "User-Agent: pawl", "Expect:", id_line, time_line, buf_text(&signature), NULL};
    client_post post = {.url = k->url, .body = body, .headers = headers, .timeout_us = SEND_US, .allowed = h->allowed};
    client_send(&post, answer);
    buf_done(&signature);
}

typedef struct delivery {
    const char *hook, *id;
    pawl_bytes body;
} delivery;

static pawl_outcome deliver(pawl_run *run, void *ctx)
{
    static const field fields[] = {{"hook", FIELD_TEXT, offsetof(delivery, hook), 0, 0, NULL},
                                   {"id", FIELD_TEXT, offsetof(delivery, id), 0, 0, NULL},
                                   {"body", FIELD_PAYLOAD, offsetof(delivery, body), 0, 0, NULL},
                                   {0}};
    hooks *h = ctx;
    delivery d = {0};
    hook k;
    client_answer answer;
    pawl_arena *arena = arena_new(alloc_default(), 64 << 10);
    bool good = arena && !fields_parse(fields, pawl_run_payload(run), arena, &d, NULL) && d.hook && d.id && d.body.len;
    pthread_mutex_lock(&h->lock);
    const hook *found = good ? find(h, d.hook) : NULL;
    if (found) k = *found;
    pthread_mutex_unlock(&h->lock);
    pawl_outcome outcome;
    if (!good) outcome = pawl_fail(run, "not a delivery of pawl's own");
    else if (!found || k.disabled)
        outcome = pawl_fail(run, "hook \"%s\" is %s", d.hook, found ? "disabled" : "not there any more");
    else {
        send_to(h, &k, d.id, d.body, &answer);
        outcome = judge(h, run, &k, &answer);
    }
    arena_free(arena);
    return outcome;
}

/* ---- changing ------------------------------------------------------------------------------------------------------------- */

size_t hooks_list(hooks *h, hook out[HOOKS_MAX])
{
    pthread_mutex_lock(&h->lock);
    size_t count = h->count;
    memcpy(out, h->list, count * sizeof *out);
    pthread_mutex_unlock(&h->lock);
    return count;
}

static pawl_status settle_secret(hook *put, const hook *old, bool *made, pawl_error *err)
{
    *made = false;
    if (*put->secret && !sign_secret_valid(put->secret))
        return err_set(err, PAWL_INVALID, "\"secret\" must be \"whsec_\" and base64 of 24 to 64 bytes");
    if (!*put->secret && old) copy(put->secret, HOOK_SECRET, old->secret);
    if (!*put->secret) {
        if (!sign_secret_make(put->secret)) return err_set(err, PAWL_UNAVAILABLE, "could not draw a secret: try again");
        *made = true;
    }
    bool same = !old || strcmp(old->secret, put->secret) == 0;
    copy(put->old_secret, HOOK_SECRET, same ? (old ? old->old_secret : "") : old->secret);
    put->old_until_us = same ? (old ? old->old_until_us : 0) : now_us() + ROTATION_US;
    return PAWL_OK;
}

pawl_status hooks_put(hooks *h, hook *put, bool *made, pawl_error *err)
{
    pthread_mutex_lock(&h->lock);
    hook *old = find(h, put->name);
    pawl_status status = settle_secret(put, old, made, err);
    put->created_us = old ? old->created_us : now_us();
    if (!status && !old && h->count == HOOKS_MAX) status = err_set(err, PAWL_TOO_LARGE, "there are %d hooks already", HOOKS_MAX);
    if (!status) {
        hook before = old ? *old : (hook){0};
        if (!old) old = &h->list[h->count++];
        *old = *put;
        status = save(h, err);
        if (status && *before.name) *old = before;
        else if (status) h->count--;
    }
    bool any = h->count > 0;
    pthread_mutex_unlock(&h->lock);
    if (h->follower) follow_want(h->follower, any);
    if (h->follower) follow_wait(h->follower);
    return status;
}

pawl_status hooks_drop(hooks *h, const char *name, pawl_error *err)
{
    pthread_mutex_lock(&h->lock);
    hook *k = find(h, name);
    pawl_status status = k ? PAWL_OK : err_set(err, PAWL_NOT_FOUND, "there is no hook \"%s\"", name);
    if (k) {
        hook gone = *k;
        *k = h->list[--h->count];
        status = save(h, err);
        if (status) h->list[h->count++] = *k, *k = gone;
    }
    bool any = h->count > 0;
    pthread_mutex_unlock(&h->lock);
    if (h->follower) follow_want(h->follower, any);
    return status;
}

pawl_status hooks_test(hooks *h, const char *name, pawl_id *id, pawl_error *err)
{
    char event[48];
    buf text;
    pawl_fact fact = {.event = {.kind = PAWL_EVENT_DISPATCHED, .at_us = now_us(), .text = "a test"}};
    hook copied;
    pthread_mutex_lock(&h->lock);
    const hook *k = find(h, name);
    if (k) copied = *k;
    pthread_mutex_unlock(&h->lock);
    if (!k) return err_set(err, PAWL_NOT_FOUND, "there is no hook \"%s\"", name);
    buf_init(&text, alloc_default(), 64 << 10);
    snprintf(event, sizeof event, "evt_test-%lld", (long long)fact.event.at_us);
    pawl_status status = write_payload(&text, &copied, event, "test", &fact) ? PAWL_OK : PAWL_NO_MEMORY;
    pawl_task task = {.type = HOOK_TYPE, .queue = HOOK_QUEUE, .payload = {text.data, text.len}};
    status = status ? err_set(err, status, "%s", pawl_status_text(status)) : pawl_dispatch(h->p, &task, id, err);
    buf_done(&text);
    return status;
}

/* ---- birth and end -------------------------------------------------------------------------------------------------------- */

static pawl_status open_position(hooks *h, pawl_error *err)
{
    char path[4096], text[32] = "";
    snprintf(path, sizeof path, "%s.at", h->path);
    h->at_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (h->at_fd < 0) return err_set(err, PAWL_UNAVAILABLE, "could not write \"%s\": %s", path, strerror(errno));
    if (pread(h->at_fd, text, sizeof text - 1, 0) < 0) text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (!int_parse(text, 1, INT64_MAX, &h->at)) h->at = -1;
    return PAWL_OK;
}

static pawl_status register_handler(hooks *h, pawl_error *err)
{
    pawl_queue_options queue = {.name = HOOK_QUEUE, .workers = WORKERS};
    pawl_handler handler = {
        .type = HOOK_TYPE,
        .run = deliver,
        .ctx = h,
        .queue = HOOK_QUEUE,
        .max_attempts = 8,
        .timeout_us = 2 * SEND_US,
        .retry = {.curve = PAWL_CURVE_EXPONENTIAL, .delay_us = 5 * PAWL_SECOND, .factor = 4, .cap_us = 6 * PAWL_HOUR}};
    pawl_status status = pawl_queue(h->p, &queue, err);
    return status ? status : pawl_handle(h->p, &handler, err);
}

pawl_status hooks_open(pawl *p, const hooks_options *o, hooks **out, pawl_error *err)
{
    hooks *h = alloc_new(alloc_default(), sizeof *h);
    if (!h) return err_set(err, PAWL_NO_MEMORY, "out of memory");
    h->p = p;
    h->log = o->log;
    h->at_fd = -1;
    h->path = alloc_str(alloc_default(), o->path);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->cond, NULL);
    for (size_t i = 0; i < o->allowed_count && i < 63; i++) h->allowed[i] = o->allowed[i];
    h->group = alloc_new(alloc_default(), sizeof *h->group);
    pawl_status status = h->path && h->group ? load(h, err) : err_set(err, PAWL_NO_MEMORY, "out of memory");
    if (!status) status = open_position(h, err);
    if (!status) status = register_handler(h, err);
    if (status) hooks_free(h);
    else *out = h;
    return status;
}

pawl_status hooks_start(hooks *h, pawl_error *err)
{
    h->follower = follow_open(h->p, h->at, take_facts, h, err);
    if (!h->follower) return err->status;
    follow_want(h->follower, h->count > 0);
    follow_wait(h->follower);
    return PAWL_OK;
}

void hooks_close(hooks *h)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    h->closing = true;
    pthread_cond_broadcast(&h->cond);
    pthread_mutex_unlock(&h->lock);
    follow_close(h->follower);
    h->follower = NULL;
}

void hooks_free(hooks *h)
{
    if (!h) return;
    hooks_close(h);
    if (h->at_fd >= 0) close(h->at_fd);
    pthread_cond_destroy(&h->cond);
    pthread_mutex_destroy(&h->lock);
    alloc_free(alloc_default(), h->group);
    alloc_free(alloc_default(), h->path);
    alloc_free(alloc_default(), h);
}
