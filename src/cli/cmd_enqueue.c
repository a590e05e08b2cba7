/* pawl enqueue: one task from options, or many from NDJSON (bulk.c). */
#include "base/alloc.h"
#include "base/error.h"
#include "cli/batches.h"
#include "cli/bulk.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PAYLOAD_MAX (64u << 20) /* beyond what any store is set to take; the engine's own limit says it better */

const char help_enqueue[] =
    "Commits the task to the store and prints its id. The payload is JSON unless --content-type says otherwise, and is kept byte for "
    "byte. It comes from --payload, from --payload-file, or from standard input if the last argument is a lone \"-\".\n"
    "\n"
    "A key makes the task the only live one of its name: enqueue again while it waits and its payload, time and options are "
    "replaced (\"updated\"); while it runs, nothing changes (\"existing\").\n"
    "\n"
    "--bulk reads one JSON object per line, with the same names: {\"type\":\"email.send\",\"payload\":{...},\"delay\":\"5m\"}. Options "
    "given beside it are the defaults of every line. Lines are committed a thousand at a time.\n"
    "\n"
    "With --parent it waits for other tasks, or batches of tasks; see pawl tasks tree and pawl batches.\n"
    "\n"
    "Examples\n"
    "  pawl enqueue --type email.send --payload '{\"to\":\"ann@example.org\"}'\n"
    "  pawl enqueue --type report --key report:2026-11 --delay 10m\n"
    "  pawl enqueue --type import --content-type text/csv - < rows.csv\n"
    "  pawl enqueue --bulk tasks.ndjson --queue mail\n";

static struct {
    const char *payload, *file, *bulk, *audit, *rate_key;
    pawl_task task;
    int64_t priority, max_attempts;
    opt_list parents;
    const char *batch, *if_failed;
    pawl_id parent_ids[OPT_LIST_MAX];
} o;

const opt enqueue_opts[] = {
    OPTION(OPT_NAME, "type", &o.task.type, "TYPE", "what kind of task it is: routes it to its handler"),
    OPTION(OPT_TEXT, "payload", &o.payload, "JSON", "the payload itself"),
    OPTION(OPT_TEXT, "payload-file", &o.file, "FILE", "read the payload from a file"),
    OPTION(OPT_TEXT, "content-type", &o.task.content_type, "TYPE", "of the payload; anything but JSON is not looked into"),
    OPTION(OPT_NAME, "queue", &o.task.queue, "NAME", "the queue it waits in (default: \"default\")"),
    OPTION(OPT_NAME, "key", &o.task.key, "KEY", "identity: at most one live task has this key"),
    OPTION(OPT_NAME, "tenant", &o.task.tenant, "NAME", "whose task it is"),
    OPTION(OPT_TEXT, "rate-key", &o.rate_key, "KEY", "whose budget its start takes from; see pawl limits"),
    OPTION(OPT_INT, "priority", &o.priority, "N", "lower runs first, -32768 to 32767", .min = -32768, .max = 32767,
           .fallback = "0"),
    OPTION(OPT_DURATION, "delay", &o.task.delay_us, "DURATION", "run after this long: 90s, 5m, 1h30m"),
    OPTION(OPT_INSTANT, "at", &o.task.at_us, "TIME", "run at this instant: 2026-11-15T04:49:03Z; a past one means now"),
    OPTION(OPT_INT, "max-attempts", &o.max_attempts, "N", "give up after so many attempts", .min = 1, .max = 1000000),
    OPTION(OPT_DURATION, "timeout", &o.task.timeout_us, "DURATION", "of each attempt"),
    OPTION(OPT_NAME, "created-by", &o.task.created_by, "NAME", "who asked for it"),
    OPTION(OPT_TEXT, "headers", &o.task.headers, "TEXT", "free text for the handler"),
    OPTION(OPT_TEXT, "traceparent", &o.task.traceparent, "TEXT", "W3C trace context, carried to the run"),
    OPTION(OPT_CHOICE, "audit", &o.audit, "LEVEL", "how much of its trail is kept: full, minimal, errors, none",
           .choices = "full|minimal|errors|none"),
    OPTION(OPT_LIST, "parent", &o.parents, "ID", "wait until this task or batch has ended; may be repeated"),
    OPTION(OPT_CHOICE, "if-failed", &o.if_failed, "POLICY", "if a parent fails or is cancelled: cancel, run, hold",
           .choices = "cancel|run|hold"),
    OPTION(OPT_NAME, "batch", &o.batch, "BATCH", "make it a member of this batch: its name or id"),
    OPTION(OPT_ID, "id", &o.task.id, "ID", "store it under this id, unless a task with it is stored already"),
    OPTION(OPT_TEXT, "bulk", &o.bulk, "FILE", "many tasks, one JSON object per line; \"-\" is standard input"),
    OPTIONS_END};

/* ---- the payload --------------------------------------------------------------------------------------------------------------- */

static pawl_status read_all(int fd, const char *name, buf *out, pawl_error *err)
{
    char block[64 << 10];
    for (;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n == 0) return PAWL_OK;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_set(err, PAWL_UNAVAILABLE, "could not read the payload from \"%s\": %s", name, strerror(errno));
        if (!buf_add(out, block, (size_t)n)) {
            return err_set(err, PAWL_TOO_LARGE, "the payload in \"%s\" is larger than %u MiB", name, PAYLOAD_MAX >> 20);
        }
    }
}

static pawl_status read_file(const char *path, buf *out, pawl_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(err, PAWL_NOT_FOUND, "could not open the payload file \"%s\": %s", path, strerror(errno));
    pawl_status status = read_all(fd, path, out, err);
    close(fd);
    return status;
}

static pawl_status read_payload(const cli *c, buf *out, pawl_error *err)
{
    if (c->args_count) return read_all(STDIN_FILENO, "standard input", out, err);
    if (o.file) return read_file(o.file, out, err);
    if (o.payload && !buf_str(out, o.payload)) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    return PAWL_OK;
}

/* ---- one task ------------------------------------------------------------------------------------------------------------------ */

static int print_receipt(const cli *c, const pawl_receipt *receipt)
{
    char id[PAWL_ID_TEXT];
    pawl_id_format(receipt->id, id);
    if (!c->json) return printf("%s\n", id) > 0 ? 0 : EXIT_ACT;
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "id", id);
    json_text(&a.w, "outcome", pawl_dispatched_name(receipt->outcome));
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

/* The commit was sent and its answer lost. The id was drawn inside that commit, so only a key makes repeating safe. */
static int fail_unknown(const cli *c, pawl_error *err)
{
    if (c->json) puts("{\"id\":null,\"outcome\":\"unknown\"}");
    err_set(err, PAWL_UNKNOWN,
            "it is not known whether the task was stored: look with \"pawl tasks list\" before repeating the command; "
            "with --key repeating is always safe");
    return cli_fail(c, err);
}

/* false: said why. */
static bool read_parents(cli *c, int *code)
{
    for (int i = 0; i < o.parents.count; i++) {
        if (pawl_id_parse(o.parents.items[i], &o.parent_ids[i])) continue;
        *code =
            cli_usage(c, "--parent \"%s\" is not an id: ids have 13 characters, as pawl enqueue prints them", o.parents.items[i]);
        return false;
    }
    o.task.parents = o.parent_ids;
    o.task.parents_count = o.parents.count;
    if (o.if_failed) pawl_if_failed_parse(o.if_failed, &o.task.if_failed);
    return true;
}

static pawl_status find_batch(const cli *c, pawl *p, pawl_error *err)
{
    pawl_batch_info *batch;
    if (!o.batch) return PAWL_OK;
    if (!p) return remote_batch(c, o.batch, &o.task.batch, err);
    pawl_status status = batch_find(p, o.batch, &batch, err);
    if (status) return status;
    o.task.batch = batch->id;
    pawl_batch_info_free(batch);
    return PAWL_OK;
}

static int enqueue_one(cli *c)
{
    pawl_error err;
    pawl_receipt receipt = {0};
    buf payload;
    int code = 0;
    buf_init(&payload, alloc_default(), PAYLOAD_MAX);
    pawl_status status = read_payload(c, &payload, &err);
    pawl *p = status || c->server ? NULL : cli_open_writing(c, &code);
    if (!status && !code) {
        o.task.payload = (pawl_bytes){payload.data, payload.len};
        status = find_batch(c, p, &err);
        if (!status) status = p ? pawl_dispatch_full(p, &o.task, &receipt, &err) : remote_enqueue(c, &o.task, &receipt, &err);
    }
    if (status == PAWL_UNKNOWN) code = fail_unknown(c, &err);
    else if (status) code = cli_fail(c, &err);
    else if (!code) code = print_receipt(c, &receipt);
    if (p) pawl_close(p);
    buf_done(&payload);
    return code;
}

static int enqueue_many(cli *c)
{
    pawl_error err;
    int code = 0;
    pawl *p = o.batch && !c->server ? cli_open_reading(c, &code) : NULL;
    if (!code && find_batch(c, p, &err)) code = cli_fail(c, &err);
    if (p) pawl_close(p);
    return code ? code : enqueue_bulk(c, &o.task, o.bulk);
}

int cmd_enqueue(cli *c)
{
    bool from_stdin = c->args_count == 1;
    if (from_stdin && strcmp(c->args[0], "-") != 0) {
        return cli_usage(c, "\"%s\" is not an option: give the payload with --payload, or \"-\" to read it from standard input",
                         c->args[0]);
    }
    int payloads = (o.payload != NULL) + (o.file != NULL) + from_stdin + (o.bulk != NULL);
    if (payloads > 1) return cli_usage(c, "only one of --payload, --payload-file, --bulk and \"-\" can be given");
    if (o.task.delay_us && o.task.at_us) return cli_usage(c, "only one of --delay and --at can be given");
    o.task.priority = (int)o.priority;
    o.task.rate_key = pawl_str(o.rate_key);
    o.task.max_attempts = (int)o.max_attempts;
    if (o.audit) pawl_audit_parse(o.audit, &o.task.audit);
    int code;
    if (!read_parents(c, &code)) return code;
    if (!o.bulk && !o.task.type) return cli_usage(c, "--type is missing: it routes the task to its handler");
    if (o.bulk && (o.task.id || o.task.key))
        return cli_usage(c, "--id and --key belong to one task: put them into the lines of --bulk");
    return o.bulk ? enqueue_many(c) : enqueue_one(c);
}
