#!/usr/bin/env bash
# The command line on MariaDB: migrations, the doctor, the module and what is said when it is not there.
. "$(dirname "$0")/../cli/lib.sh"

url=${PAWL_TEST_MYSQL:-$(cat "$PAWL_TEST_MYSQL_SERVER/url" 2>/dev/null)}
socket=$(sed -n 's/.*[?&]socket=\([^&]*\).*/\1/p' <<<"$url")
if [ -z "$socket" ]; then # the client below needs it
    trap - EXIT
    exit 77
fi
database=test_cli_$$
export PAWL_STORE="mysql://root@/$database?socket=$socket"
client() { mariadb --no-defaults --socket="$socket" -uroot -N -B "$@"; }
sql() { client "$database" -e "$1"; }
drop() { client -e "DROP DATABASE IF EXISTS $database"; }
trap 'drop; finish' EXIT
client -e "CREATE DATABASE $database"

# verdict CHECK: the verdicts of a check, from the last --json answer.
verdict() { json "$out" "[f['verdict'] for f in d['findings'] if f['check'] == '$1']"; }
texts() { json "$out" "' '.join(f['text'] for f in d['findings'] if f['check'] == '$1')"; }
tables() { client -e "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '$database'"; }

# ---- migrations
exits "an empty store has a status" 0 pawl migrate status
like "it says so" "$out" "store +empty"
exits "a dry run" 0 pawl migrate up --dry-run
is "makes nothing" "$(tables)" 0
exits "the SQL" 0 pawl migrate sql
like "names the database" "$out" "USE .$database."
check "and can be run by hand" client <<<"$out"
exits "then there is nothing to do" 0 pawl migrate status
like "and it says that, too" "$out" "Nothing to do"
is "of all migrations" "$(pawl migrate status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pending"])')" 0
exits "up does nothing" 0 pawl migrate up
client -e "CREATE OR REPLACE DATABASE $database"
exits "up makes the store" 0 pawl migrate up
exits "which can be used" 0 pawl enqueue --type greet --payload '"world"' --key once
id=$out
exits "by key" 0 pawl enqueue --type greet --payload '"you"' --key once
is "it is the same task" "$out" "$id"
like "the list" "$(pawl tasks list)" "$id +pending +greet"
like "one task" "$(pawl tasks show "$id")" 'you'
exits "work" 0 pawl work --type greet --once -- cat
like "is done" "$(pawl tasks list)" "$id +succeeded"
exits "by its other name" 0 pawl tasks list --store "mariadb${PAWL_STORE#mysql}"
was=$(sql "SELECT value FROM pawl_meta WHERE name = 'schema'")
sql "UPDATE pawl_meta SET value = '99' WHERE name IN ('schema', 'min_reader')"
exits "a newer store" 1 pawl migrate status
like "needs a newer program" "$out" "Update this program"
exits "and is not used" 1 pawl enqueue --type greet
sql "UPDATE pawl_meta SET value = '$was' WHERE name IN ('schema', 'min_reader')"

# ---- the doctor
out=$(pawl doctor --json)
for name in server durability isolation deadlocks history_list connections packets shape transactions clocks stale_leases unknown_types; do
    like "there is a check \"$name\"" "$(verdict "$name")" "ok|warn|act"
    like "its help names it" "$(pawl doctor --help)" "^  $name "
done
is "the schema is as it was made" "$(verdict shape)" "['ok']"
case $(sql "SELECT @@global.innodb_flush_log_at_trx_commit") in
1) is "what was acknowledged is on disk" "$(verdict durability)" "['ok']" ;;
*) like "commits are not flushed, and that matters" "$(verdict durability) $(texts durability)" "act.*innodb_flush_log_at_trx_commit" ;;
esac
sql "ALTER TABLE pawl_done DROP KEY pawl_done_end"
out=$(pawl doctor --json)
is "an index that somebody dropped" "$(verdict shape)" "['act']"
sql "ALTER TABLE pawl_done ADD KEY pawl_done_end (state, finished_us)"
out=$(pawl doctor --json)
is "and made again" "$(verdict shape)" "['ok']"

# ---- rate limits
exits "a limit" 0 pawl limits set sync 1/10m
for _ in 1 2; do pawl enqueue --type sync --rate-key ann >/dev/null; done
exits "one may run" 0 pawl work --type sync --once -- cat
is "and does" "$(pawl tasks list --type sync --state succeeded | grep -c ' sync')" 1
like "the other one waits" "$(pawl limits list)" "sync +ann +1 per 10m +0 +1 +0 +0 +in [0-9]"
id=$(pawl tasks list --type sync --state pending | grep -oE '\b[0-9A-Z]{13}\b')
like "why says until when" "$(pawl tasks why "$id")" "rate key"
exits "its key is paused" 0 pawl limits pause sync --key ann
like "why says that" "$(pawl tasks why "$(pawl enqueue --type sync --rate-key ann)")" "paused"
exits "the limit is taken away" 0 pawl limits drop sync
exits "the key goes on" 0 pawl limits resume sync --key ann
exits "nothing holds it" 0 pawl work --type sync --once -- cat
like "so it is done" "$(pawl tasks list)" "$id +succeeded"

# ---- concurrency limits
exits "one at a time for each key, in order" 0 pawl limits running sync 1 --per-key --ordered
exits "of a queue" 0 pawl limits running imports 10 --queue
exits "turns" 0 pawl limits turns imports
exits "a weight" 0 pawl limits turns imports --tenant acme --weight 3
first=$(pawl enqueue --type sync --rate-key bob)
second=$(pawl enqueue --type sync --rate-key bob)
out=$(pawl limits list)
like "the key has its place" "$out" "^key +sync +bob +1 in order +1 +1 +$first"
like "the queue is there" "$out" "^queue +imports +.*10"
like "and who takes turns" "$out" "^tenants +imports +acme +.*3"
like "why names who has it" "$(pawl tasks why "$second")" "$first"
like "it is blocked" "$(pawl tasks list --state blocked)" "$second +blocked"
exits "both run" 0 pawl work --type sync --once -- cat
like "in order" "$(pawl tasks list --state succeeded)" "$second"
exits "taken away" 0 pawl limits running sync 0 --per-key
exits "no more turns" 0 pawl limits turns imports --off

# ---- the module
mkdir alone empty
cp "$PAWL_BIN" alone/pawl
exits "without the module" 2 env PAWL_MODULES="$dir/empty" alone/pawl stats
like "it says what is missing" "$err" "pawl-mysql.so.*libmariadb-dev.*PAWL_MODULES"
exits "the other stores work" 0 env PAWL_MODULES="$dir/empty" alone/pawl enqueue --type x --store "sqlite:$dir/x.db"
exits "with the module's folder named" 0 env PAWL_MODULES="$(dirname "$PAWL_BIN")" alone/pawl stats
echo 'int nothing;' >nothing.c
if "$CC" -shared -fPIC -Wl,-soname,libmariadb.so.99 -o libmariadb.so.99 nothing.c 2>/dev/null &&
    "$CC" -shared -fPIC -Wl,--no-as-needed -o empty/pawl-mysql.so nothing.c ./libmariadb.so.99 2>/dev/null; then
    rm libmariadb.so.99
    exits "without libmariadb" 2 env PAWL_MODULES="$dir/empty" alone/pawl stats
    like "it names the package" "$err" "libmariadb3"
    "$CC" -shared -fPIC -o empty/pawl-mysql.so nothing.c
    exits "something else of that name" 2 env PAWL_MODULES="$dir/empty" alone/pawl stats
    like "is refused" "$err" "another version"
fi
