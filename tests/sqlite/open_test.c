/* What opens, what is refused, and how it is said. */
#include "sqlite_sql.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool there(const place *p, const char *suffix)
{
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s%s", p->path, suffix);
    return stat(path, &st) == 0;
}

static void write_file(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

/* Runs in a child without privileges; the exit code is the status. */
static pawl_status as_nobody(place *p, const pawl_store_options *o, char message[508])
{
    int pipe_fd[2], code;
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(99);
        pawl_status status = try_open(p, o);
        if (write(pipe_fd[1], p->err.message, sizeof p->err.message) < 0) _exit(98);
        _exit((int)status);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(read(pipe_fd[0], message, 508), 508);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
    assert_true(WIFEXITED(code));
    return (pawl_status)WEXITSTATUS(code);
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

static void urls_that_name_no_file(void **state)
{
    static const char *const urls[] = {"sqlite:", "sqlite://host/x.db", "sqlite::memory:", "sqlite:file:x.db?mode=memory",
                                       "sqlite://"};
    place *p = *state;
    pawl_store_options o = options_of(p);
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        o.url = urls[i];
        assert_refused(p, try_open(p, &o), PAWL_INVALID, "cannot open store");
    }
}

static void an_absolute_url(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    char url[300];
    snprintf(url, sizeof url, "sqlite://%s", p->path);
    o.url = url;
    assert_ok(p, try_open(p, &o));
    assert_true(there(p, ""));
}

static void a_folder_and_other_things(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    char url[300];
    snprintf(url, sizeof url, "sqlite:%s", p->dir);
    o.url = url;
    assert_refused(p, try_open(p, &o), PAWL_INVALID, "is a folder");
    snprintf(url, sizeof url, "sqlite:%s/no/such/tasks.db", p->dir);
    assert_refused(p, try_open(p, &o), PAWL_INVALID, "create it first");
    assert_int_equal(mkfifo(p->path, 0600), 0);
    o.url = p->url;
    assert_refused(p, try_open(p, &o), PAWL_INVALID, "not a regular file");
}

static void a_symbolic_link_is_the_same_store(void **state)
{
    place *p = *state;
    char link_path[300], url[320];
    snprintf(link_path, sizeof link_path, "%s/link.db", p->dir);
    snprintf(url, sizeof url, "sqlite:%s", link_path);
    pawl_store *a = open_store(p), *b = NULL;
    assert_int_equal(symlink(p->path, link_path), 0);
    assert_true(sidecar_alone(&inside(a)->side));
    pawl_store_options o = options_of(p);
    o.url = url;
    assert_ok(p, store_open(&o, &b, &p->err));
    assert_false(sidecar_alone(&inside(a)->side));
    assert_int_equal(state_of(p, b, insert_one(p, a)), PAWL_PENDING);
    store_close(a);
    store_close(b);
}

/* ---- permissions and file systems ---------------------------------------------------------------------------------------- */

static void a_new_file_is_its_owners_alone(void **state)
{
    place *p = *state;
    const char *const ends[] = {"", "-wal", "-shm", "-pawl"};
    mode_t before = umask(0);
    pawl_store *s = open_store(p);
    insert_one(p, s);
    umask(before);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char path[300];
        struct stat st;
        snprintf(path, sizeof path, "%s%s", p->path, ends[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    store_close(s);
}

static void a_file_that_cannot_be_written(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    char message[508];
    store_close(open_store(p));
    assert_int_equal(chmod(p->dir, 0755), 0);
    assert_int_equal(chmod(p->path, 0444), 0);
    assert_int_equal(as_nobody(p, &o, message), PAWL_DENIED);
    assert_non_null(strstr(message, p->path));
    assert_int_equal(chmod(p->path, 0666), 0);
    assert_int_equal(chmod(p->dir, 0555), 0);
    assert_int_equal(as_nobody(p, &o, message), PAWL_DENIED);
    assert_non_null(strstr(message, "the folder"));
}

static void a_folder_that_cannot_be_written(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    char message[508];
    assert_int_equal(chmod(p->dir, 0555), 0);
    assert_int_equal(as_nobody(p, &o, message), PAWL_DENIED);
    assert_non_null(strstr(message, p->dir));
    assert_false(there(p, ""));
}

static unsigned long fake_type;

static int fake_statfs(const char *path, struct statfs *out)
{
    int rc = statfs(path, out);
    out->f_type = (__typeof__(out->f_type))fake_type;
    return rc;
}

static void a_network_file_system(void **state)
{
    static const struct {
        unsigned long type;
        const char *name;
    } networks[] = {{0x6969, "NFS"}, {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"}, {0x01021997, "9p"}, {0x65735546, "FUSE"}};
    place *p = *state;
    pawl_store_options o = options_of(p);
    sqlite_statfs = fake_statfs;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        fake_type = networks[i].type;
        assert_refused(p, try_open(p, &o), PAWL_UNSUPPORTED, networks[i].name);
        assert_false(there(p, ""));
    }
    fake_type = 0xef53; /* ext4 */
    assert_ok(p, try_open(p, &o));
    sqlite_statfs = statfs;
}

/* ---- what is in the file ------------------------------------------------------------------------------------------------- */

static void a_file_that_is_no_database(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    char garbage[8192];
    memset(garbage, 'x', sizeof garbage);
    write_file(p->path, garbage, sizeof garbage);
    assert_refused(p, try_open(p, &o), PAWL_CORRUPT, "damaged");
    assert_false(there(p, "-pawl"));
}

/* Overwrites part of the database; what the WAL still has of it goes, too. */
static void damage(const place *p, long from, long to)
{
    char path[300];
    static const char *const beside[] = {"-wal", "-shm"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", p->path, beside[i]);
        assert_int_equal(unlink(path), 0);
    }
    FILE *f = fopen(p->path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, from, SEEK_SET), 0);
    for (long at = from; at < to; at++) fputc(0x5a, f);
    fclose(f);
}

static void damage_behind_the_header(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    store_close(open_store(p));
    damage(p, 100, 4000); /* the page of the schema */
    assert_refused(p, try_open(p, &o), PAWL_CORRUPT, "damaged");
}

static void damage_that_shows_later(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    for (int i = 0; i < 50; i++) insert_one(p, s);
    store_close(s);
    sqlite3 *db = host_open(p);
    long root = (long)host_int(db, "SELECT rootpage FROM sqlite_schema WHERE name = 'pawl_body'");
    sqlite3_close(db);
    damage(p, (root - 1) * 4096, root * 4096);
    pawl_store_options o = options_of(p);
    pawl_store *again = NULL;
    pawl_status status = store_open(&o, &again, &p->err);
    if (status == PAWL_OK) status = apply_one(p, again, 0, 0, insert_op(p, NULL));
    assert_refused(p, status, PAWL_CORRUPT, "restore a backup");
    store_close(again);
}

static void a_table_is_missing(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    store_close(open_store(p));
    sqlite3 *db = host_open(p);
    host_exec(db, "DROP TABLE pawl_runlog");
    sqlite3_close(db);
    assert_refused(p, try_open(p, &o), PAWL_CORRUPT, "tables");
}

static void another_programs_database(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    sqlite3 *db = host_open(p);
    host_exec(db, "CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1)");
    assert_refused(p, try_open(p, &o), PAWL_INVALID, "shared_file");
    assert_false(there(p, "-pawl"));
    assert_int_equal(host_int(db, "SELECT count(*) FROM sqlite_schema"), 1);
    o.shared_file = true;
    assert_ok(p, try_open(p, &o));
    assert_int_equal(host_int(db, "SELECT count(*) FROM orders"), 1);
    o.shared_file = false; /* from now on it is known to be shared */
    assert_ok(p, try_open(p, &o));
    sqlite3_close(db);
}

/* ---- schema -------------------------------------------------------------------------------------------------------------- */

static void no_migration_wanted(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    o.no_migrate = true;
    assert_refused(p, try_open(p, &o), PAWL_SCHEMA, "no_migrate");
    store_close(open_store(p));
    assert_ok(p, try_open(p, &o));
}

/* A store as the first schema left it, with a name in it. */
static void make_old(place *p)
{
    sqlite3 *db = host_open(p);
    host_exec(db, "PRAGMA journal_mode=WAL; BEGIN");
    host_exec(db, sqlite_migrations[0].text);
    host_exec(db, "INSERT INTO pawl_meta VALUES ('schema', 1), ('min_reader', 1), ('written_by', '0.0.9');"
                  "INSERT INTO pawl_name VALUES (1, 'kept'); COMMIT");
    sqlite3_close(db);
}

static void an_older_schema_is_migrated(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    make_old(p);
    o.no_migrate = true;
    assert_refused(p, try_open(p, &o), PAWL_SCHEMA, "has schema 1");
    o.no_migrate = false;
    o.read_only = true;
    assert_refused(p, try_open(p, &o), PAWL_SCHEMA, "has schema 1");
    pawl_store *s = open_store(p);
    insert_one(p, s);
    sqlite3 *db = host_open(p);
    assert_int_equal(host_int(db, "SELECT value FROM pawl_meta WHERE key = 'schema'"), sqlite_migrations_count);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_name WHERE text = 'kept'"), 1);
    sqlite3_close(db);
    store_close(s);
}

static void a_newer_schema(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    store_close(open_store(p));
    sqlite3 *db = host_open(p);
    host_exec(
        db,
        "UPDATE pawl_meta SET value = 99 WHERE key = 'schema'; UPDATE pawl_meta SET value = '9.9.9' WHERE key = 'written_by'");
    assert_ok(p, try_open(p, &o)); /* it says that older programs may use it */
    host_exec(db, "UPDATE pawl_meta SET value = 99 WHERE key = 'min_reader'");
    assert_refused(p, try_open(p, &o), PAWL_SCHEMA, "9.9.9");
    assert_refused(p, try_open(p, &o), PAWL_SCHEMA, "update this program");
    sqlite3_close(db);
}

static void a_running_program_notices_a_migration(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_id id = insert_one(p, s);
    assert_int_equal(state_of(p, s, id), PAWL_PENDING);
    sqlite3 *db = host_open(p);
    host_exec(db, "UPDATE pawl_meta SET value = 99 WHERE key = 'min_reader'");
    assert_refused(p, apply_one(p, s, 0, 0, insert_op(p, NULL)), PAWL_SCHEMA, "update this program");
    assert_refused(p, apply_one(p, s, 0, 0, insert_op(p, NULL)), PAWL_SCHEMA, "update this program");
    pawl_query query = {.kind = PAWL_QUERY_STATE, .id = id};
    assert_refused(p, store_read(s, &query, p->arena, &p->err), PAWL_SCHEMA, "update this program");
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_body"), 1);
    host_exec(db, "UPDATE pawl_meta SET value = 1 WHERE key = 'min_reader'");
    insert_one(p, s);
    sqlite3_close(db);
    store_close(s);
}

/* ---- looking only -------------------------------------------------------------------------------------------------------- */

static void read_only(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    o.read_only = true;
    assert_refused(p, try_open(p, &o), PAWL_NOT_FOUND, "no store");
    assert_false(there(p, ""));
    pawl_store *s = open_store(p), *reader = NULL;
    pawl_id id = insert_one(p, s);
    assert_ok(p, store_open(&o, &reader, &p->err));
    assert_int_equal(state_of(p, reader, id), PAWL_PENDING);
    assert_refused(p, apply_one(p, reader, 0, 0, insert_op(p, NULL)), PAWL_DENIED, "read-only");
    assert_int_equal(store_watch_fd(reader), -1);
    store_close(s);
    assert_int_equal(state_of(p, reader, id), PAWL_PENDING);
    store_close(reader);
}

/* ---- many at once, and no memory ----------------------------------------------------------------------------------------- */

static void created_by_several_processes_at_once(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    o.lock_wait_us = 20 * PAWL_SECOND;
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) _exit((int)try_open(p, &o));
    }
    for (int i = 0; i < 4; i++) {
        int code;
        assert_true(wait(&code) > 0);
        assert_true(WIFEXITED(code));
        assert_int_equal(WEXITSTATUS(code), PAWL_OK);
    }
    pawl_store *s = open_store(p);
    insert_one(p, s);
    store_close(s);
}

static int64_t blocks, allocations, fail_at;

static void *counting_alloc(void *ctx, size_t size)
{
    (void)ctx;
    void *ptr = ++allocations == fail_at ? NULL : malloc(size);
    blocks += ptr != NULL;
    return ptr;
}

static void *counting_resize(void *ctx, void *old, size_t size)
{
    (void)ctx;
    void *ptr = ++allocations == fail_at ? NULL : realloc(old, size);
    blocks += ptr && !old;
    return ptr;
}

static void counting_release(void *ctx, void *ptr)
{
    (void)ctx;
    blocks -= ptr != NULL;
    free(ptr);
}

static void out_of_memory_at_every_step(void **state)
{
    static const pawl_allocator counting = {counting_alloc, counting_resize, counting_release, NULL};
    place *p = *state;
    pawl_store_options o = options_of(p);
    o.allocator = &counting;
    pawl_status status = PAWL_NO_MEMORY;
    for (fail_at = 1; status != PAWL_OK; fail_at++) {
        allocations = 0;
        status = try_open(p, &o);
        assert_true(status == PAWL_OK || status == PAWL_NO_MEMORY);
        assert_int_equal(blocks, 0);
        assert_true(fail_at < 1000);
    }
    assert_true(fail_at > 3);
}

static void a_single_threaded_sqlite(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    pid_t child = fork();
    if (child == 0) {
        sqlite3_shutdown();
        if (sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) != SQLITE_OK) _exit(99);
        _exit((int)try_open(p, &o));
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), PAWL_UNSUPPORTED);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(urls_that_name_no_file),
        TEST(an_absolute_url),
        TEST(a_folder_and_other_things),
        TEST(a_symbolic_link_is_the_same_store),
        TEST(a_new_file_is_its_owners_alone),
        TEST(a_file_that_cannot_be_written),
        TEST(a_folder_that_cannot_be_written),
        TEST(a_network_file_system),
        TEST(a_file_that_is_no_database),
        TEST(damage_behind_the_header),
        TEST(damage_that_shows_later),
        TEST(a_table_is_missing),
        TEST(another_programs_database),
        TEST(no_migration_wanted),
        TEST(an_older_schema_is_migrated),
        TEST(a_newer_schema),
        TEST(a_running_program_notices_a_migration),
        TEST(read_only),
        TEST(created_by_several_processes_at_once),
        TEST(out_of_memory_at_every_step),
        TEST(a_single_threaded_sqlite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
