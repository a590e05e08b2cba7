#!/usr/bin/env bash
# The schema of a store: looking at it, bringing it forward, and what happens to stores that are missing, foreign, or newer.
. "$(dirname "$0")/lib.sh"

files() { find "$dir" -maxdepth 1 -name "${1:-pawl.db}*" -printf '%f\n' | sort | tr '\n' ' '; }
sql() { sqlite3 -cmd '.timeout 10000' "$dir/$1" "$2"; }
schema() { sql "$1" "SELECT value FROM pawl_meta WHERE key = 'schema'"; }

# ---- a store that is not there
for command in "status" "up" "up --dry-run" "sql"; do
    # shellcheck disable=SC2086
    exits "$command without a store" 3 pawl migrate $command
    like "$command: names the file" "$err" "there is no store .*pawl.db"
done
is "none was made" "$(files)" ""
exits "migrate alone" 2 pawl migrate
like "lists its commands" "$err" "migrate status"

# ---- a store as this build makes it
pawl enqueue --type kept >/dev/null
exits "status of a new store" 0 pawl migrate status
like "has the schema" "$out" "^store +schema 10, brought by pawl [0-9.]+; programs must know schema 9 or later"
like "as this build" "$out" "^this build +schema 10"
like "applied" "$out" "1 +tasks +applied +expanding"
like "nothing to do" "$out" "^Nothing to do\.$"
exits "status as JSON" 0 pawl migrate status --json
is "says the same" "$(json "$out" 'd["schema"], d["known"], d["fits"], d["pending"], d["act"], [m["name"] for m in d["migrations"]]')" \
    "(10, 10, True, 0, False, ['tasks', 'fleet', 'gate', 'limits', 'places', 'schedules', 'families', 'feed', 'told', 'drain'])"
exits "up has nothing to do" 0 pawl migrate up
like "and says so" "$out" "Nothing to do: the store has schema 10"
exits "sql has nothing to print" 0 pawl migrate sql
is "nothing is printed" "$out" ""
exits "sql --all" 0 pawl migrate sql --all
like "prints what made the store" "$out" "^CREATE TABLE pawl_body"
like "with its number and name" "$out" "^-- 0001_tasks: expanding, applied"
printf "%s\n" "$out" >all.sql
check "which SQLite takes" sqlite3 :memory: ".read all.sql"

# ---- an older one
pawl migrate sql --all | sed '/^-- 0002/,$d' >first.sql
sqlite3 old.db "PRAGMA journal_mode=WAL" >/dev/null
sqlite3 old.db <first.sql
sql old.db "INSERT INTO pawl_meta VALUES ('schema', 1), ('min_reader', 1), ('written_by', '0.0.9'); INSERT INTO pawl_name VALUES (1, 'kept')"
export PAWL_STORE="sqlite:$dir/old.db"
exits "looking refuses it" 1 pawl tasks list
like "and says what to do" "$err" "has schema 1 and this program needs 10: run .pawl migrate up."
exits "status of an older store" 0 pawl migrate status
like "says who brought it" "$out" "schema 1, brought by pawl 0.0.9"
like "says what is pending" "$out" "2 +fleet +pending +expanding"
like "says what will happen" "$out" "The next program that opens the store to write brings it there"
is "as JSON" "$(json "$(pawl migrate status --json)" '[m["number"] for m in d["migrations"] if m["pending"]], d["act"]')" "([2, 3, 4, 5, 6, 7, 8, 9, 10], False)"
exits "sql prints what is pending" 0 pawl migrate sql
like "with its name" "$out" "^-- 0002_fleet: expanding, pending"
like "no more than that" "$(grep -c '^-- 0' <<<"$out")" "^9$"
exits "--dry-run" 0 pawl migrate up --dry-run
is "says what it would do" "$out" "would apply 2 fleet (expanding)
would apply 3 gate (expanding)
would apply 4 limits (expanding)
would apply 5 places (expanding)
would apply 6 schedules (expanding)
would apply 7 families (expanding)
would apply 8 feed (expanding)
would apply 9 told (expanding)
would apply 10 drain (expanding)"
is "and does nothing" "$(schema old.db)" 1
exits "doctor sees it" 0 pawl doctor --json
is "and warns" "$(json "$out" '[f["verdict"] for f in d["findings"] if f["check"] == "schema"]')" "['warn']"
chmod a-w old.db
[ "$(id -u)" -eq 0 ] || exits "a file that may not be written" 6 pawl migrate up
exits "but can be looked at" 0 pawl migrate status
chmod u+w old.db
exits "up" 0 pawl migrate up
is "says what it did" "$out" "applied 2 fleet (expanding)
applied 3 gate (expanding)
applied 4 limits (expanding)
applied 5 places (expanding)
applied 6 schedules (expanding)
applied 7 families (expanding)
applied 8 feed (expanding)
applied 9 told (expanding)
applied 10 drain (expanding)"
is "it is there" "$(schema old.db)" 10
is "nothing was lost" "$(sql old.db "SELECT count(*) FROM pawl_name WHERE text = 'kept'")" 1
exits "the store works" 0 pawl enqueue --type after
exits "up again" 0 pawl migrate up --json
is "applies nothing" "$(json "$out" 'd["applied"], d["pending"]')" "(False, 0)"

# ---- a newer one
sql old.db "UPDATE pawl_meta SET value = 11 WHERE key = 'schema'; UPDATE pawl_meta SET value = '9.9.9' WHERE key = 'written_by'"
exits "newer, and this build can use it" 0 pawl migrate status
like "newer: says so" "$out" "newer than this build, which can use it all the same"
exits "newer: up leaves it" 0 pawl migrate up
is "newer: it has its schema" "$(schema old.db)" 11
sql old.db "UPDATE pawl_meta SET value = 11 WHERE key = 'min_reader'"
exits "too new" 1 pawl migrate status
like "too new: says what to do" "$out" "Update this program: it knows schema 10, and the store needs at least 11"
is "too new: as JSON" "$(json "$(pawl migrate status --json)" 'd["fits"], d["act"]')" "(False, True)"
exits "too new: up refuses" 1 pawl migrate up
like "too new: names the version" "$err" "written by pawl 9.9.9"
exits "too new: so does --dry-run" 1 pawl migrate up --dry-run
exits "doctor says the same" 1 pawl doctor
like "as something to do" "$out" "^act +schema .*schema 11, written by pawl 9.9.9"

# ---- what is no store
export PAWL_STORE="sqlite:$dir/empty.db"
: >empty.db
exits "an empty file" 0 pawl migrate status
like "is an empty store" "$out" "^store +empty"
exits "becomes one" 0 pawl migrate up
is "with the schema" "$(schema empty.db)" 10
sql foreign.db "CREATE TABLE theirs (a)"
exits "a database of another program" 2 pawl migrate status --store "sqlite:$dir/foreign.db"
exits "is left alone" 2 pawl migrate up --store "sqlite:$dir/foreign.db"
like "and said to be that" "$err" "database of another program"
is "nothing stands beside it" "$(files foreign.db)" "foreign.db "
exits "memory has no schema" 0 pawl migrate status --store memory:
like "and says so" "$out" "no schema. Nothing to do"
exits "memory: up" 0 pawl migrate up --store memory:
exits "no such kind of store" 2 pawl migrate status --store oracle:x
