/* pawl doctor: what a person should know or do about a store. */
#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/help.h"

const char help_doctor[] =
    "Looks at the disk, the database, nodes, queues and tasks, and says what it found: ok, warn (worth a look) or act (it will not "
    "get better by itself). Changes nothing in the store; the disk is measured with a file of its own beside it, for a moment. The "
    "exit status is 1 when a person must act.\n"
    "\n"
    "Checks\n"
    "  schema           does the store fit this build\n"
    "  file_system      is the disk local, and does it outlive the machine's next start\n"
    "  free_space       is there room\n"
    "  fsync            how long a commit waits for the disk\n"
    "  sqlite           does this copy of SQLite have the fault that loses committed rows\n"
    "  wal              does the write-ahead log get back into the database file\n"
    "  readers          which process keeps it from doing so, or keeps dead rows\n"
    "  server           servers: the version; is it a replica, does autovacuum run\n"
    "  durability       servers: settings that let a crash take back what was acknowledged\n"
    "  connections      servers: are there enough of them\n"
    "  shape            servers: did somebody change tables, indexes or functions by hand\n"
    "  transactions     servers: how old the oldest transaction is, and whose\n"
    "  dead_rows        PostgreSQL: does vacuum keep up where claims look\n"
    "  claim_index      PostgreSQL: is the index that claims search larger than it should be\n"
    "  notify_queue     PostgreSQL: does somebody keep notifications from being removed\n"
    "  days             PostgreSQL: are the tables for the next days of history there\n"
    "  isolation        MariaDB: can transactions be what pawl needs\n"
    "  galera           MariaDB: is it a node of a cluster, where locks are its own alone\n"
    "  deadlocks        MariaDB: how many there are\n"
    "  history_list     MariaDB: does purge keep up\n"
    "  packets          MariaDB: how large a task may be\n"
    "  clocks           servers: do the nodes' clocks agree with the server's\n"
    "  unknown_types    due tasks that no node has a handler for\n"
    "  gate             does the store take tasks, or are they moving to another one\n"
    "  stale_leases     tasks held by a node that is gone or stands still\n"
    "  unserved_queues  tasks in queues that no living node serves\n"
    "  paused_queues    tasks in queues that somebody paused\n"
    "  long_runs        runs of more than 15 minutes without a timeout or progress\n"
    "  dead_letters     failed tasks that nobody has dealt with, and whether they grow\n"
    "  clock            does this machine's clock agree with what is stored\n"
    "\n"
    "Examples\n"
    "  pawl doctor --store sqlite:/var/lib/app/tasks.db\n"
    "  pawl doctor --json | jq -r '.findings[] | select(.verdict != \"ok\") | .text'\n";

#define VERDICT_COLUMN 6
#define CHECK_COLUMN 17

static int doctor_json(const cli *c, const pawl_checkup *checkup)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "verdict", pawl_verdict_name(checkup->worst));
    jsonw_key(&a.w, "findings");
    jsonw_array(&a.w);
    for (size_t i = 0; i < checkup->count; i++) {
        const pawl_finding *f = &checkup->findings[i];
        jsonw_object(&a.w);
        json_text(&a.w, "check", f->check);
        json_text(&a.w, "verdict", pawl_verdict_name(f->verdict));
        json_text(&a.w, "text", f->text);
        json_text(&a.w, "advice", f->advice);
        jsonw_end_object(&a.w);
    }
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static paint verdict_color(pawl_verdict verdict)
{
    return verdict == PAWL_VERDICT_ACT ? RED : verdict == PAWL_VERDICT_WARN ? YELLOW : GREEN;
}

static void print_wrapped(const cli *c, const char *text)
{
    int width = c->term.width && c->term.width < 120 ? c->term.width - 1 : 120;
    buf safe;
    buf_init(&safe, alloc_default(), 64 << 10);
    term_safe(&safe, pawl_str(text), false);
    term_wrap(stdout, buf_text(&safe), VERDICT_COLUMN + CHECK_COLUMN, VERDICT_COLUMN + CHECK_COLUMN, width);
    buf_done(&safe);
}

static void print_finding(const cli *c, const pawl_finding *f)
{
    const term *t = &c->term;
    printf("%s%-*s%s%-*s", term_on(t, verdict_color(f->verdict)), VERDICT_COLUMN, pawl_verdict_name(f->verdict), term_off(t),
           CHECK_COLUMN, f->check);
    print_wrapped(c, f->text);
    if (!f->advice) return;
    printf("%*s", VERDICT_COLUMN + CHECK_COLUMN, "");
    fputs(term_on(t, f->verdict == PAWL_VERDICT_OK ? DIM : BOLD), stdout);
    print_wrapped(c, f->advice);
    fputs(term_off(t), stdout);
}

static int doctor_text(const cli *c, const pawl_checkup *checkup)
{
    int64_t acts = 0, warnings = 0;
    for (size_t i = 0; i < checkup->count; i++) {
        print_finding(c, &checkup->findings[i]);
        acts += checkup->findings[i].verdict == PAWL_VERDICT_ACT;
        warnings += checkup->findings[i].verdict == PAWL_VERDICT_WARN;
    }
    if (!acts && !warnings) printf("\nAll is well.\n");
    else if (!acts) printf("\nNothing that somebody must do; %lld to look at.\n", (long long)warnings);
    else printf("\n%lld thing%s to do, %lld to look at.\n", (long long)acts, acts == 1 ? "" : "s", (long long)warnings);
    return 0;
}

int cmd_doctor(cli *c)
{
    pawl_error err;
    pawl_checkup *checkup;
    if (pawl_examine(&(pawl_options){.store = c->store}, &checkup, &err)) return cli_fail(c, &err);
    int code = c->json ? doctor_json(c, checkup) : doctor_text(c, checkup);
    if (!code && checkup->worst == PAWL_VERDICT_ACT) code = EXIT_ACT;
    pawl_checkup_free(checkup);
    return code;
}
