#!/usr/bin/env bash
# What the doctor finds, and what it leaves alone.
. "$(dirname "$0")/lib.sh"

# verdict CHECK: the verdicts of a check, from the last --json answer.
verdict() { json "$out" "[f['verdict'] for f in d['findings'] if f['check'] == '$1']"; }
texts() { json "$out" "[f['text'] for f in d['findings'] if f['check'] == '$1']"; }
contents() { sqlite3 -readonly "$dir/pawl.db" .dump | sha256sum; }
sql() { sqlite3 -cmd '.timeout 10000' "$dir/pawl.db" "$1"; }

exits "no store" 3 pawl doctor
check "none was made" test ! -e pawl.db
exits "no such kind of store" 2 pawl doctor --store oracle:x
exits "memory" 0 pawl doctor --store memory:

# ---- a store at rest
id=$(pawl enqueue --type greet)
pawl tasks cancel "$id" >/dev/null
before=$(contents) names=$(ls -A)
exits "a store at rest" 0 pawl doctor
is "it was not changed" "$(contents)" "$before"
is "nothing was left beside it" "$(ls -A)" "$names"
for name in schema file_system free_space fsync sqlite wal readers unknown_types stale_leases unserved_queues paused_queues long_runs \
    dead_letters clock; do
    like "there is a check \"$name\"" "$out" "^(ok|warn|act) +$name +[A-Z0-9\"]"
    like "its help names it" "$(pawl doctor --help)" "^  $name "
done
is "no line is longer than 120" "$(awk 'length > 120' <<<"$out")" ""
exits "as JSON" 0 pawl doctor --json
is "all verdicts are words" "$(json "$out" 'all(f["verdict"] in ("ok", "warn") for f in d["findings"]) and d["verdict"] in ("ok", "warn")')" True
is "the schema is fine" "$(verdict schema)" "['ok']"
like "the disk was measured" "$(texts fsync)" "The disk (takes|says)"
affected=$(python3 -c 'import sqlite3; v = sqlite3.sqlite_version_info; print((3, 7, 0) <= v <= (3, 51, 2))')
if [ "$affected" = True ]; then like "SQLite's fault is named" "$(texts sqlite)" "can lose committed rows .*this file is its own"; fi
sql "INSERT INTO pawl_meta VALUES ('shared', 1)"
exits "a shared file" 0 pawl doctor --json
if [ "$affected" = True ]; then
    is "is a reason to warn" "$(verdict sqlite)" "['warn']"
    like "with what to do" "$(json "$out" '[f["advice"] for f in d["findings"] if f["check"] == "sqlite"]')" "pawl_sqlite_prepare"
fi
sql "DELETE FROM pawl_meta WHERE key = 'shared'"

# ---- queues
pawl enqueue --type greet --queue alone >/dev/null
exits "a queue that nobody serves" 1 pawl doctor --json
is "a person must act" "$(verdict unserved_queues) $(json "$out" 'd["verdict"]')" "['act'] act"
like "it is named" "$(texts unserved_queues)" 'No living node serves queue "alone": 1 task is due'
pawl queues pause alone >/dev/null
exits "paused" 0 pawl doctor --json
is "that is worth a look only" "$(verdict paused_queues) $(verdict unserved_queues)" "['warn'] ['ok']"
pawl queues resume alone >/dev/null
pawl tasks cancel --queue alone >/dev/null
pawl enqueue --type greet --queue later --delay 1h >/dev/null
exits "not due yet" 0 pawl doctor --json
is "worth a look" "$(verdict unserved_queues)" "['warn']"
pawl tasks cancel --queue later >/dev/null

# ---- nodes
id=$(pawl enqueue --type slow)
work --quiet --lease 1s --concurrency 1 --type slow --type quick -- sh -c 'echo $$ >child.pid; exec sleep 300'
until_true test -s child.pid
exits "a living node" 0 pawl doctor --json
like "is counted" "$(texts stale_leases)" "1 node is alive"
pawl enqueue --type greet >/dev/null
pawl enqueue --type greet --priority 5 >/dev/null
exits "a type that nobody knows" 1 pawl doctor --json
is "is found once" "$(verdict unknown_types)" "['act']"
like "and named" "$(texts unknown_types)" '2 due tasks of type "greet" in queue "default" wait'
pawl limits turns default >/dev/null
exits "the same where tenants take turns" 1 pawl doctor --json
like "is named, too" "$(texts unknown_types)" '2 due tasks of type "greet" in queue "default" wait'
pawl limits turns default --off >/dev/null
pawl tasks cancel --type greet >/dev/null
sql "UPDATE pawl_leased SET leased_us = leased_us - 7200000000, started_us = started_us - 7200000000"
exits "a long run" 0 pawl doctor --json
is "is worth a look" "$(verdict long_runs)" "['warn']"
like "and named" "$(texts long_runs)" "$id for 2h"
kill -KILL "$worker" "$(cat child.pid)"
wait "$worker" 2>/dev/null
stale() { ! pawl doctor; }
until_true stale # its lease is over
exits "a node that died" 1 pawl doctor --json
is "needs somebody" "$(verdict stale_leases)" "['act']"
like "is named" "$(texts stale_leases)" "process $worker\) is gone and holds 1 task\."
work --quiet --lease 1s --type slow -- true
exits "another takes over" 0 pawl tasks wait "$id" --timeout 60s
exits "and all is well" 0 pawl doctor --json
check "the survivor ends well" stop_work

# ---- dead letters
seq 12 | sed 's/.*/{"type":"bad","max_attempts":1}/' | pawl enqueue --bulk - >/dev/null
work --quiet --once -- false
wait "$worker"
exits "failures" 1 pawl doctor --json
is "a person must act" "$(verdict dead_letters)" "['act']"
like "says how many" "$(texts dead_letters)" "More tasks fail than succeed: 12 to 1 in the last hour; 12 dead letters"
pawl dead ack --all >/dev/null

# ---- the WAL and who reads: a reader that does not let go while 20 MiB are written
coproc READER { exec python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA wal_autocheckpoint=0")
db.execute("BEGIN")
db.execute("SELECT count(*) FROM pawl_meta").fetchone()
print("reading", flush=True)
sys.stdin.read()
' "$dir/pawl.db"; }
reader=$READER_PID
read -r _ <&"${READER[0]}"
python3 -c 'for i in range(24): print("{\"type\":\"big\",\"delay_us\":3600000000,\"payload\":\"%s\"}" % ("x" * 1000000))' >big.ndjson
pawl enqueue --bulk - <big.ndjson >/dev/null 2>enqueue.err || note "$(cat enqueue.err)"
exits "a long reader" 0 pawl doctor --json
like "is named with its process" "$(texts readers)" "Process $reader \(python3[^)]*\) does not let go"
is "and worth a look" "$(verdict readers) $(verdict wal)" "['warn'] ['warn']"
eval "exec ${READER[1]}>&-"
wait "$reader" 2>/dev/null
exits "once it is gone" 0 pawl doctor --json
is "nobody reads" "$(texts readers)" "['No long reader.']"

# ---- clock, damage
sql "UPDATE pawl_node SET born_us = born_us + 86400000000"
exits "a clock that went back" 1 pawl doctor --json
is "needs somebody" "$(verdict clock)" "['act']"
echo "this is no database, however long one looks at it; it only has some text in it, but enough of it to be more than a header" >text.db
exits "not a database" 1 pawl doctor --store "sqlite:$dir/text.db"
like "is something to do about the store" "$out" "^act +store +The store cannot be used"
like "the disk is looked at all the same" "$out" "^(ok|warn) +fsync"
