#!/usr/bin/env bash
# The command line on PostgreSQL: migrations, the doctor, the module and what is said when it is not there.
. "$(dirname "$0")/../cli/lib.sh"

url=${PAWL_TEST_POSTGRES:-$(cat "$PAWL_TEST_SERVER/url" 2>/dev/null)}
if [ -z "$url" ]; then
    trap - EXIT
    exit 77
fi
schema=test_cli_$$
case $url in *\?*) export PAWL_STORE="$url&pawl_schema=$schema" ;; *) export PAWL_STORE="$url?pawl_schema=$schema" ;; esac
sql() { psql -X -q -A -t -v ON_ERROR_STOP=1 "$url" -c "SET client_min_messages = warning" -c "SET search_path = $schema" -c "$1"; }
drop() { sql "DROP SCHEMA IF EXISTS $schema CASCADE" >/dev/null; }
trap 'drop; finish' EXIT

# verdict CHECK: the verdicts of a check, from the last --json answer.
verdict() { json "$out" "[f['verdict'] for f in d['findings'] if f['check'] == '$1']"; }
texts() { json "$out" "' '.join(f['text'] for f in d['findings'] if f['check'] == '$1')"; }
tables() { sql "SELECT count(*) FROM pg_tables WHERE schemaname = '$schema'"; }

# ---- migrations
exits "an empty store has a status" 0 pawl migrate status
like "it says so" "$out" "store +empty"
exits "a dry run" 0 pawl migrate up --dry-run
is "makes nothing" "$(tables)" 0
exits "the SQL" 0 pawl migrate sql
like "names the schema" "$out" "CREATE SCHEMA IF NOT EXISTS \"$schema\""
check "and can be run by hand" psql -X -q -v ON_ERROR_STOP=1 "$url" -c "SET client_min_messages = warning" -f <(echo "$out") -o /dev/null
exits "then there is nothing to do" 0 pawl migrate status
like "and it says that, too" "$out" "Nothing to do"
is "of all migrations" "$(pawl migrate status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pending"])')" 0
exits "up does nothing" 0 pawl migrate up
drop
exits "up makes the store" 0 pawl migrate up
exits "which can be used" 0 pawl enqueue --type greet --payload '"world"' --key once
id=$out
exits "by key" 0 pawl enqueue --type greet --payload '"you"' --key once
is "it is the same task" "$out" "$id"
like "the list" "$(pawl tasks list)" "$id +pending +greet"
like "one task" "$(pawl tasks show "$id")" 'you'
exits "work" 0 pawl work --type greet --once -- cat
like "is done" "$(pawl tasks list)" "$id +succeeded"
was=$(sql "SELECT string_agg(format('(%L, %L)', key, value), ', ') FROM pawl_meta WHERE key IN ('schema', 'min_reader')")
sql "UPDATE pawl_meta SET value = '99' WHERE key IN ('schema', 'min_reader')" >/dev/null
exits "a newer store" 1 pawl migrate status
like "needs a newer program" "$out" "Update this program"
exits "and is not used" 1 pawl enqueue --type greet
sql "UPDATE pawl_meta m SET value = v.value FROM (VALUES $was) v (key, value) WHERE m.key = v.key" >/dev/null

# ---- the doctor
pawl doctor --json >doctor.json
out=$(cat doctor.json)
for name in server durability connections shape transactions readers dead_rows claim_index notify_queue days clocks unknown_types; do
    like "there is a check \"$name\"" "$(verdict "$name")" "ok|warn|act"
    like "its help names it" "$(pawl doctor --help)" "^  $name "
done
is "the schema is as it was made" "$(verdict shape)" "['ok']"
case $(sql "SHOW fsync") in
off) like "fsync is off, and that matters" "$(verdict durability) $(texts durability)" "act.*fsync is off" ;;
*) is "what was acknowledged is on disk" "$(verdict durability)" "['ok']" ;;
esac
sql "DROP INDEX pawl_leased_cancel" >/dev/null
out=$(pawl doctor --json)
is "an index that somebody dropped" "$(verdict shape)" "['act']"
sql "CREATE INDEX pawl_leased_cancel ON pawl_leased (node, id) WHERE cancel_asked" >/dev/null
out=$(pawl doctor --json)
is "and made again" "$(verdict shape)" "['ok']"
sql "ALTER TABLE pawl_done DETACH PARTITION pawl_done_$(($(date +%s) / 86400 + 2))" >/dev/null
for d in 1 2 3 4 5; do sql "DELETE FROM pawl_day WHERE day = $(($(date +%s) / 86400 + d))" >/dev/null; done
out=$(pawl doctor --json)
is "days that are missing" "$(verdict days)" "['warn']"

# ---- passwords are never shown
quiet() { # DESC ARGUMENTS...
    local desc=$1
    shift
    check "$desc" sh -c '! "$@" 2>&1 | grep -i secret' sh "$PAWL_BIN" "$@"
}
asked="$PAWL_STORE&password=SECRET&sslpassword=Secret"
for command in "stats" "stats --json" "doctor" "doctor --json" "migrate status --json" "nodes --json" "queues list --json"; do
    # shellcheck disable=SC2086
    quiet "$command says no password" $command --store "$asked"
done
quiet "nor does a failure" stats --json --store "postgres://ann:secret@/shop?host=/nonexistent&password=secret"
quiet "nor one that libpq explains" stats --store "postgres:host=/nonexistent password=my secret"

# ---- the module
mkdir alone empty
cp "$PAWL_BIN" alone/pawl
exits "without the module" 2 env PAWL_MODULES="$dir/empty" alone/pawl stats
like "it says what is missing" "$err" "pawl-postgres.so.*libpq-dev.*PAWL_MODULES"
exits "the other stores work" 0 env PAWL_MODULES="$dir/empty" alone/pawl enqueue --type x --store "sqlite:$dir/x.db"
exits "with the module's folder named" 0 env PAWL_MODULES="$(dirname "$PAWL_BIN")" alone/pawl stats
echo 'int nothing;' >nothing.c
if "$CC" -shared -fPIC -Wl,-soname,libpq.so.99 -o libpq.so.99 nothing.c 2>/dev/null &&
    "$CC" -shared -fPIC -Wl,--no-as-needed -o empty/pawl-postgres.so nothing.c ./libpq.so.99 2>/dev/null; then
    rm libpq.so.99
    exits "without libpq" 2 env PAWL_MODULES="$dir/empty" alone/pawl stats
    like "it names the package" "$err" "libpq5"
    "$CC" -shared -fPIC -o empty/pawl-postgres.so nothing.c
    exits "something else of that name" 2 env PAWL_MODULES="$dir/empty" alone/pawl stats
    like "is refused" "$err" "another version"
fi

# ---- limits
drop
exits "a new store" 0 pawl migrate up
. "$(dirname "$0")/../cli/limits_cases.sh"
. "$(dirname "$0")/../cli/places_cases.sh"
