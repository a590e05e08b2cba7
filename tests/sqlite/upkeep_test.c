/* The schema as people and programs see it, migrations that older programs cannot live with, and what an examination finds. */
#include "sqlite_sql.h"
#include "support.h"
#include "unit/test_allocator.h"
#include <sys/stat.h>

static const pawl_migration *migration(const pawl_schema *s, int number) { return &s->migrations[number - 1]; }

/* A store as the first schema left it. */
static void make_old(place *p)
{
    sqlite3 *db = host_open(p);
    host_exec(db, "PRAGMA journal_mode=WAL; BEGIN");
    host_exec(db, sqlite_migrations[0].text);
    host_exec(db, "INSERT INTO pawl_meta VALUES ('schema', 1), ('min_reader', 1), ('written_by', '0.0.9'); COMMIT");
    sqlite3_close(db);
}

static void what_is_not_there_has_no_schema(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    pawl_schema s;
    struct stat st;
    assert_refused(p, store_schema(&o, &s, p->arena, &p->err), PAWL_NOT_FOUND, "no store");
    assert_int_not_equal(stat(p->path, &st), 0);
    o.url = "memory:";
    assert_ok(p, store_schema(&o, &s, p->arena, &p->err));
    assert_int_equal(s.known, 0);
    assert_true(s.fits && s.pending == 0);
}

static void schema_of_a_store_in_use(void **state)
{
    place *p = *state;
    pawl_store *store = open_store(p);
    pawl_store_options o = options_of(p);
    pawl_schema s;
    assert_ok(p, store_schema(&o, &s, p->arena, &p->err));
    assert_int_equal(s.stored, sqlite_migrations_count);
    assert_int_equal(s.known, sqlite_migrations_count);
    assert_int_equal(s.count, sqlite_migrations_count);
    assert_true(s.fits && !s.closing && s.pending == 0);
    assert_string_equal(s.written_by, PAWL_VERSION);
    assert_string_equal(migration(&s, 1)->name, "tasks");
    assert_non_null(strstr(migration(&s, 1)->sql, "CREATE TABLE pawl_body"));
    assert_true(migration(&s, 1)->expanding && !migration(&s, 1)->pending);
    store_close(store);
}

static void every_schema_has_its_min_reader(void **state)
{
    (void)state;
    for (int i = 1; i <= sqlite_migrations_count; i++) {
        assert_true(sqlite_min_reader(i) >= 1 && sqlite_min_reader(i) <= sqlite_migrations_count);
        if (i > 1) assert_true(sqlite_min_reader(i) >= sqlite_min_reader(i - 1));
    }
}

static int every_one_closes(int schema) { return schema; }

static void a_migration_that_closes_waits_for_a_person(void **state)
{
    place *p = *state;
    pawl_store_options o = options_of(p);
    pawl_schema s;
    int (*before)(int) = sqlite_min_reader;
    make_old(p);
    sqlite_min_reader = every_one_closes;
    assert_ok(p, store_schema(&o, &s, p->arena, &p->err));
    assert_true(s.closing && s.fits && s.pending == (size_t)sqlite_migrations_count - 1);
    assert_true(!migration(&s, 2)->expanding && migration(&s, 2)->pending);
    assert_refused(p, try_open(p, &o), PAWL_SCHEMA, "pawl migrate up");
    o.migrate_all = true;
    assert_ok(p, try_open(p, &o));
    o.migrate_all = false;
    assert_ok(p, try_open(p, &o));
    assert_ok(p, store_schema(&o, &s, p->arena, &p->err));
    assert_true(!s.closing && s.pending == 0 && s.min_reader == sqlite_migrations_count);
    sqlite_min_reader = before;
}

/* A new store has nothing that could be closed out. */
static void an_empty_store_is_made_at_once(void **state)
{
    place *p = *state;
    int (*before)(int) = sqlite_min_reader;
    sqlite_min_reader = every_one_closes;
    store_close(open_store(p));
    sqlite_min_reader = before;
}

/* Without memory: an error, nothing left behind, and a store that is as it was. */
static void no_memory_for_the_schema(void **state)
{
    place *p = *state;
    test_allocator t;
    pawl_schema *s = NULL;
    pawl_status status = PAWL_NO_MEMORY;
    store_close(open_store(p));
    for (long n = 1; status != PAWL_OK && n < 100; n++) {
        test_allocator_init(&t);
        t.fail_at = n;
        status = pawl_get_schema(&(pawl_options){.store = p->url, .allocator = t.allocator}, &s, &p->err);
        if (status) assert_int_equal(status, PAWL_NO_MEMORY);
        else pawl_schema_free(s);
        assert_int_equal(t.outstanding, 0);
    }
    assert_ok(p, status);
}

static void migrate_moves_a_store_once(void **state)
{
    place *p = *state;
    pawl_options o = {.store = p->url};
    assert_refused(p, pawl_migrate(&o, &p->err), PAWL_NOT_FOUND, "no store");
    make_old(p);
    assert_ok(p, pawl_migrate(&o, &p->err));
    assert_ok(p, pawl_migrate(&o, &p->err));
    pawl_schema *s = NULL;
    assert_ok(p, pawl_get_schema(&o, &s, &p->err));
    assert_int_equal(s->stored, sqlite_migrations_count);
    pawl_schema_free(s);
    pawl_schema_free(NULL);
    pawl_checkup_free(NULL);
}

/* ---- examination ----------------------------------------------------------------------------------------------------------------------- */

static const pawl_finding *finding(const pawl_checkup *c, const char *check)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->findings[i].check, check) == 0) return &c->findings[i];
    fail_msg("no finding \"%s\"", check);
    return NULL;
}

static pawl_verdict verdict_of(place *p, const char *check)
{
    pawl_checkup *c = NULL;
    assert_ok(p, pawl_examine(&(pawl_options){.store = p->url}, &c, &p->err));
    pawl_verdict verdict = finding(c, check)->verdict;
    assert_true(c->worst >= verdict);
    pawl_checkup_free(c);
    return verdict;
}

static long fake_type;
static unsigned long fake_room;

static int fake_statfs(const char *path, struct statfs *out)
{
    (void)path;
    *out = (struct statfs){.f_type = fake_type, .f_bsize = 4096, .f_blocks = 1000000, .f_bavail = fake_room};
    return 0;
}

static void the_place(void **state)
{
    place *p = *state;
    store_close(open_store(p));
    sqlite_statfs = fake_statfs;
    fake_type = 0xef53;
    fake_room = 900000;
    assert_int_equal(verdict_of(p, "file_system"), PAWL_VERDICT_OK);
    assert_int_equal(verdict_of(p, "free_space"), PAWL_VERDICT_OK);
    fake_room = 1 << 16; /* 256 MiB */
    assert_int_equal(verdict_of(p, "free_space"), PAWL_VERDICT_WARN);
    fake_room = 100;
    assert_int_equal(verdict_of(p, "free_space"), PAWL_VERDICT_ACT);
    fake_type = 0x01021994; /* tmpfs */
    assert_int_equal(verdict_of(p, "file_system"), PAWL_VERDICT_WARN);
    fake_type = 0x6969; /* NFS: not even opened, and yet looked at */
    assert_int_equal(verdict_of(p, "file_system"), PAWL_VERDICT_ACT);
    assert_int_equal(verdict_of(p, "store"), PAWL_VERDICT_ACT);
    sqlite_statfs = statfs;
}

static void a_store_in_use_is_not_disturbed(void **state)
{
    place *p = *state;
    pawl_store *store = open_store(p);
    int64_t node = join(p, store);
    pawl_id id = insert_one(p, store);
    assert_int_equal(verdict_of(p, "wal"), PAWL_VERDICT_OK);
    assert_int_equal(verdict_of(p, "sqlite"), PAWL_VERDICT_OK);
    pawl_claimed tasks[1];
    pawl_news news;
    assert_int_equal(claim_some(p, store, node, 1, tasks, &news), 1);
    assert_int_equal(tasks[0].body->id, id);
    free_bodies(tasks, 1);
    store_close(store);
}

static void findings_have_a_limit(void **state)
{
    place *p = *state;
    pawl_findings *f = findings_new(p->arena);
    pawl_advise(f, "to nobody");
    for (int i = 0; i < PAWL_FINDINGS_MAX + 5; i++) {
        pawl_find(f, "many", i == 3 ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK, "number %d", i);
        if (i == 3) pawl_advise(f, "look at %d", i);
    }
    pawl_checkup c = findings_checkup(f);
    assert_int_equal(c.count, PAWL_FINDINGS_MAX);
    assert_int_equal(c.worst, PAWL_VERDICT_WARN);
    assert_string_equal(c.findings[3].text, "number 3");
    assert_string_equal(c.findings[3].advice, "look at 3");
    assert_null(c.findings[4].advice);
    assert_false(findings_failed(f));
    assert_string_equal(pawl_verdict_name(c.worst), "warn");
    assert_string_equal(pawl_verdict_name((pawl_verdict)9), "unknown");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_there_has_no_schema), TEST(schema_of_a_store_in_use),
        TEST(every_schema_has_its_min_reader), TEST(a_migration_that_closes_waits_for_a_person),
        TEST(an_empty_store_is_made_at_once),  TEST(no_memory_for_the_schema),
        TEST(migrate_moves_a_store_once),      TEST(the_place),
        TEST(a_store_in_use_is_not_disturbed), TEST(findings_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
