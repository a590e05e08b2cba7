#!/usr/bin/env bash
# Looking at tasks and acting on them: list, show, why, wait, cancel, retry; queues, dead letters, stats, nodes, backup.
. "$(dirname "$0")/lib.sh"

a=$(pawl enqueue --type email.send --queue mail --key a --payload '{"to":"a"}')
b=$(pawl enqueue --type email.send --queue mail --delay 1h)
c=$(pawl enqueue --type report --tenant acme)

exits "list" 0 pawl tasks list
like "has a title" "$out" '^ID +STATE +TYPE +QUEUE +TRIES +WHEN +DETAIL'
like "shows when" "$out" "^$b +scheduled +email.send +mail +0 +in (1h|60m|59m)"
is "newest first" "$(awk 'NR>1 {print $1}' <<<"$out" | tr '\n' ' ')" "$c $b $a "
is "no tab, no escape when piped" "$(grep -c $'[\t\033]' <<<"$out")" 0
list() { json "$(pawl tasks list --json "$@")" '" ".join(t["id"] for t in d["tasks"])'; }
is "by state" "$(list --state pending --oldest-first)" "$a $b $c"
is "by display" "$(list --state scheduled)" "$b"
is "by type" "$(list --type report)" "$c"
is "by queue" "$(list --queue mail --oldest-first)" "$a $b"
is "by key" "$(list --key a)" "$a"
is "by tenant" "$(list --tenant acme)" "$c"
is "since" "$(list --since 1h | wc -w | tr -d ' ')" 3
is "until" "$(list --until 1h)" ""
exits "nothing matches" 0 pawl tasks list --type none
is "says so" "$out" "no tasks match"
page=$(pawl tasks list --limit 2 --json)
cursor=$(json "$page" 'd["next"]')
is "the next page" "$(list --limit 2 --cursor "$cursor")" "$a"
is "--all --json: one per line" "$(pawl tasks list --all --json | wc -l | tr -d ' ')" 3
is "no payload in lists" "$(json "$page" 'any("payload" in t for t in d["tasks"])')" False
exits "an unknown state" 2 pawl tasks list --state flying

exits "show" 0 pawl tasks show "$a" --log --audit
like "its payload" "$out" '^  \{"to":"a"\}$'
like "its audit" "$out" '\(new\) +> pending'
exits "show: no such task" 3 pawl tasks show 0000000000001
like "names it" "$err" '0000000000001'
exits "show --json --audit" 0 pawl tasks show "$a" --json --audit
is "audit_trail" "$(json "$out" '[(r["from"], r["to"]) for r in d["audit_trail"]]')" "[('', 'pending')]"

exits "why: scheduled" 0 pawl tasks why "$b" --json
is "code" "$(json "$out" '(d["code"], d["until"] is not None)')" "('scheduled', True)"
exits "why: nobody serves it" 0 pawl tasks why "$c"
like "in words" "$out" 'default'
exits "why: no such task" 3 pawl tasks why 0000000000001

exits "wait: not in time" 5 pawl tasks wait "$b" --timeout 50ms
exits "wait: no such task" 3 pawl tasks wait 0000000000001 --timeout 5s

exits "cancel" 0 pawl tasks cancel "$b"
is "says so" "$out" "$b  cancelled"
exits "cancel again" 4 pawl tasks cancel "$b"
exits "cancel: one of two is not there" 3 pawl tasks cancel 0000000000001 "$c" --json
is "the other one is" "$(json "$out" '(d["id"], d["done"])')" "('$c', 'cancelled')"
exits "wait: cancelled" 1 pawl tasks wait "$b"
is "prints the state" "$out" "$b  cancelled"
exits "retry" 0 pawl tasks retry "$b"
like "prints the new id" "$out" "^$b  retried as [0-9A-Z]{13}$"
new=${out##* }
is "the new one points at the old" "$(task "$new" 'd["retry_of"]')" "$b"
is "and the old at the new" "$(task "$b" 'd["retried_as"]')" "$new"
exits "retry again" 0 pawl tasks retry "$b" --json
is "answers with the first" "$(json "$out" '(d["outcome"], d["as"])')" "('existing', '$new')"
exits "retry of what is not finished" 4 pawl tasks retry "$a"
exits "cancel by filter" 0 pawl tasks cancel --queue mail
is "counts" "$out" "2 cancelled"
exits "cancel all" 0 pawl tasks cancel --all --json
is "nothing left" "$(json "$out" 'd["count"]')" 0

# Queues.
pawl enqueue --type t --queue slow >/dev/null
exits "pause" 0 pawl queues pause slow
is "paused" "$(json "$(pawl queues list --json)" '[q["paused"] for q in d["queues"] if q["name"] == "slow"]')" "[True]"
id=$(pawl enqueue --type t --queue slow)
is "why: paused" "$(json "$(pawl tasks why "$id" --json)" 'd["code"]')" paused
exits "queues list" 0 pawl queues list
like "shows it" "$out" '^slow +paused +2 +2 +0 +0'
exits "resume" 0 pawl queues resume slow --json
is "resumed" "$(json "$(pawl queues list --json)" '[q["paused"] for q in d["queues"] if q["name"] == "slow"]')" "[False]"
exits "a name that cannot be" 2 pawl queues pause "$(printf 'a\nb')"
pawl tasks cancel --queue slow >/dev/null

# Dead letters.
for i in 1 2 3 4; do pawl enqueue --type "bad.$((i % 2))" --queue d --payload "$i" >/dev/null; done
pawl work --queue d --once --quiet -- sh -c 'echo "broken beyond repair" >&2; exit 65'
exits "dead list" 0 pawl dead list
is "four" "$(grep -c 'failed' <<<"$out")" 4
like "with the error" "$out" 'exit status 65: broken beyond repair'
ids=$(json "$(pawl dead list --json)" '" ".join(t["id"] for t in d["tasks"])')
read -r d1 d2 d3 d4 <<<"$ids"
exits "ack one" 0 pawl dead ack "$d1" --note "not worth it" --by ann
is "acknowledged" "$(task "$d1" '(d["note"], d["resolved_by"], d["resolved_at"] is not None)')" "('not worth it', 'ann', True)"
exits "ack it again" 4 pawl dead ack "$d1"
exits "retry one" 0 pawl dead retry "$d2"
is "two left" "$(json "$(pawl dead list --json)" '" ".join(t["id"] for t in d["tasks"])')" "$d3 $d4"
exits "retry by filter" 0 pawl dead retry --type bad.0
exits "retry the rest" 0 pawl dead retry --all
exits "none left" 0 pawl dead list
is "says so" "$out" "no dead letters"
pawl work --queue d --once --quiet -- false --ok 2>/dev/null
pawl tasks cancel --queue d >/dev/null

# Stats, nodes, backup.
exits "stats" 0 pawl stats
like "now and before" "$out" '^Last 1h'
exits "stats --json" 0 pawl stats --json --window 10m
is "counts" "$(json "$out" '(d["dispatched"] > 10, d["failed"] >= 4, d["window_us"])')" "(True, True, 600000000)"
exits "nodes" 0 pawl nodes
exits "nodes --json" 0 pawl nodes --json
is "is a list" "$(json "$out" 'type(d["nodes"]).__name__')" list
exits "operator log" 0 pawl log
like "says who did what" "$out" ' retry '
exits "operator log --json" 0 pawl log --json --limit 2
is "is a page" "$(json "$out" '(len(d["acts"]), d["acts"][0]["action"], len(d["acts"][0]["id"]), d["next"] > 1)')" "(2, 'cancel', 13, True)"
exits "the next page" 0 pawl log --json --limit 1 --before "$(json "$out" 'd["next"]')"
is "is another one" "$(json "$out" 'len(d["acts"])')" 1
exits "backup" 0 pawl backup copy.db
is "has everything" "$(PAWL_STORE=sqlite:copy.db list --all 2>/dev/null; pawl tasks list --all --json --store sqlite:copy.db | wc -l | tr -d ' ')" \
    "$(pawl tasks list --all --json | wc -l | tr -d ' ')"
exits "backup onto a file" 4 pawl backup copy.db
like "names the file" "$err" 'copy.db'

# Text that would play tricks with a terminal.
id=$(pawl enqueue --type t --queue evil --content-type text/plain --payload "$(printf 'red \033[31m and bell \007')")
exits "hostile payload" 0 pawl tasks show "$id"
is "no control byte gets through" "$(tr -d '\n' <<<"$out" | grep -c '[[:cntrl:]]')" 0
like "they are shown instead" "$out" 'red \\x1b\[31m and bell \\x07'
