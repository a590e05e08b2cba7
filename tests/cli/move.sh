#!/usr/bin/env bash
# Moving all tasks to another store: what goes along, what the first store says afterwards, going on, giving up, refusals.
. "$(dirname "$0")/lib.sh"

from=sqlite:$dir/from.db to=sqlite:$dir/to.db
sql() { sqlite3 -cmd '.timeout 10000' "$dir/$1" "$2"; }
at() { pawl --store "$1" "${@:2}"; }
tasks() { at "$1" export | sed '1d'; }

# ---- usage
exits "move without stores" 2 pawl move
exits "move from nowhere" 3 pawl move --from "sqlite:$dir/none.db" --to "$to"
is "makes nothing" "$(ls)" ""
exits "memory cannot be moved" 2 pawl move --from memory: --to "$to"
exits "--lost alone" 2 pawl move --from "$from" --to "$to" --lost
rm -f "$dir"/to.db*

# ---- limits, schedules and families go along
full=sqlite:$dir/full.db there=sqlite:$dir/there.db
at "$full" limits running t 1 >/dev/null
at "$full" limits running t 1 --per-key --ordered >/dev/null
at "$full" schedules add daily --type t --cron @daily >/dev/null
at "$full" schedules run daily >/dev/null
at "$full" batches open nightly >/dev/null
parent=$(at "$full" enqueue --type p --batch nightly)
at "$full" enqueue --type c --parent "$parent" --batch nightly >/dev/null
look() {
    at "$1" limits list --json
    at "$1" schedules show daily --json
    at "$1" batches show nightly --json
    at "$1" tasks tree "$parent"
}
before=$(look "$full")
exits "everything goes along" 0 pawl move --from "$full" --to "$there"
is "limits, schedules, families" "$(look "$there")" "$before"
exits "no batch is made twice" 4 at "$there" batches open nightly
exits "the schedule's task runs" 0 at "$there" work --once --queue recurring --type t -- true
for type in p c; do exits "and it goes on: $type" 0 at "$there" work --once --type "$type" -- true; done
is "to its end" "$(at "$there" stats --json | python3 -c 'import json,sys; d=json.load(sys.stdin); print(d["waiting"], d["pending"])')" "0 0"
exits "a store with batches is not empty" 4 pawl move --from "$there" --to "$full"
at "sqlite:$dir/new.db" batches open nightly >/dev/null
exits "nor is this one" 4 pawl move --from "$there" --to "sqlite:$dir/new.db"
like "says why" "$err" "has batches already"
exits "left behind when told so" 0 pawl move --from "$there" --to "sqlite:$dir/taken.db" --leave-limits --leave-schedules
is "no schedules" "$(json "$(at "sqlite:$dir/taken.db" schedules list --json)" 'd["schedules"]')" "[]"
rm -f "$dir"/full.db* "$dir"/there.db* "$dir"/new.db* "$dir"/taken.db*

# ---- a store with something of everything
done_=$(at "$from" enqueue --type ok --payload '{"n":1}')
bad=$(at "$from" enqueue --type bad --max-attempts 1)
at "$from" work --once --type ok -- cat >/dev/null
at "$from" work --once --type bad -- false >/dev/null 2>&1
later=$(at "$from" enqueue --type ok --delay 1h --key report)
at "$from" queues pause slow --by ann >/dev/null
before=$(tasks "$from")

# ---- the move
exits "moves" 0 pawl move --from "$from" --to "$to"
like "says what" "$out" "^moved 3 tasks in .*: 1 to run, 1 succeeded, 1 failed, 0 cancelled"
like "and how far it was" "$err" "copying what is finished"
is "everything is there" "$(tasks "$to")" "$before"
like "the pause, too" "$(at "$to" queues list)" "slow +paused"
is "statistics, too" "$(json "$(at "$to" stats --json)" 'd["dispatched"], d["succeeded"], d["failed"]')" "(3, 1, 1)"
exits "again: it is over" 0 pawl move --from "$from" --to "$to" --json
is "and says the same" "$(json "$out" 'd["tasks"], d["copied"], d["resumed"]')" "(3, 0, True)"
exits "too late to give up" 4 pawl move --from "$from" --to "$to" --abort
like "and why" "$err" "complete"

# ---- the store that was left
for command in "enqueue --type ok" "tasks cancel $later" "tasks retry $bad" "queues pause slow" "dead ack $bad" "work -- cat"; do
    # shellcheck disable=SC2086
    exits "closed: $command" 8 at "$from" $command
    like "says where the tasks are" "$err" "have moved to \"$to\""
done
printf '{"type":"ok"}\n' >bulk.ndjson
exits "closed: many" 8 at "$from" enqueue --bulk bulk.ndjson
at "$to" export >all.ndjson
exits "closed: import" 8 at "$from" import all.ndjson
exits "looking is allowed" 0 at "$from" tasks show "$later"
like "why" "$(at "$from" tasks why "$later")" "have moved to"
like "stats" "$(at "$from" stats)" "have moved to"
exits "doctor" 0 at "$from" doctor
like "tells" "$out" "warn +gate +The store is closed: its tasks have moved to"
like "and the other is open" "$(at "$to" doctor)" "ok +gate +The store takes tasks"

# ---- and the new one
exits "goes on" 0 at "$to" enqueue --type ok --key report
is "with the same key" "$out" "$later"
exits "runs" 0 at "$to" work --once -- cat
check "the retry" at "$to" tasks retry "$bad"
exits "moves on" 0 pawl move --from "$to" --to "sqlite:$dir/third.db"

# ---- refusals
exits "to itself" 2 pawl move --from "sqlite:$dir/third.db" --to "sqlite:$dir/third.db"
at "sqlite:$dir/full.db" enqueue --type ok >/dev/null
exits "to a store with tasks" 4 pawl move --from "sqlite:$dir/third.db" --to "sqlite:$dir/full.db"
like "names it" "$err" "full.db\" holds tasks"
exits "neither is touched" 0 at "sqlite:$dir/third.db" enqueue --type ok
exits "nor the other" 0 at "sqlite:$dir/full.db" enqueue --type ok
exits "from a closed store" 4 pawl move --from "$from" --to "sqlite:$dir/empty.db"
exits "nothing to give up" 4 pawl move --from "sqlite:$dir/full.db" --to "sqlite:$dir/empty.db" --abort

# ---- while a task runs: the node lets it end and stops; the move waits, is given up, and comes again
a=sqlite:$dir/a.db b=sqlite:$dir/b.db
cat >slow.sh <<'SLOW'
#!/bin/sh
touch "$1.began"
until [ -e "$1.go" ]; do read -r _ < "$1.wait" || :; done 2>/dev/null
SLOW
chmod +x slow.sh
mkfifo "$dir/x.wait"
at "$a" enqueue --type slow >/dev/null
at "$a" enqueue --type slow --delay 1h >/dev/null
work --store "$a" --name red -- ./slow.sh "$dir/x"
until_true test -e x.began
exits "does not wait for ever" 5 pawl move --from "$a" --to "$b" --grace 300ms
like "says for whom" "$err" "1 task still runs: 1 on \"red\""
exits "closed meanwhile" 8 at "$a" enqueue --type slow
like "is moving" "$err" "are moving to \"$b\"; use that store when the move is complete"
exits "not there yet" 8 at "$b" enqueue --type slow
like "either" "$err" "the move from \"$a\" is not complete"
exits "doctor wants a person" 1 at "$a" doctor
like "for the gate" "$out" "act +gate +The store is closed: its tasks are moving"
exits "another target" 4 pawl move --from "$a" --to "sqlite:$dir/c.db"
like "goes elsewhere" "$err" "is being moved to \"$b\""
exits "another source" 4 pawl move --from "sqlite:$dir/full.db" --to "$b"
exits "give it up, of another" 4 pawl move --from "$a" --to "sqlite:$dir/c.db" --abort
exits "give it up" 0 pawl move --from "$a" --to "$b" --abort
like "says so" "$out" "a.db\" is open again"
exits "open" 0 at "$a" enqueue --type slow --delay 1h
is "the other is empty" "$(json "$(at "$b" tasks list --json)" 'len(d["tasks"])')" 0
until_true pawl nodes --store "$a"
"$PAWL_BIN" move --from "$a" --to "$b" >move.out 2>move.err &
mover=$!
until_true grep -q "still runs" move.err
touch x.go
echo >x.wait
wait "$mover"
is "moves when it has ended" $? 0
like "all of it" "$(cat move.out)" "moved 3 tasks in .*: 2 to run, 1 succeeded"
wait "$worker"
is "the worker stops by itself" $? 8
like "and says why" "$(cat work.err)" "the store is closed: its tasks are moving"
like "and where" "$(cat work.err)" "have moved to \"$b\"|are moving to \"$b\""
