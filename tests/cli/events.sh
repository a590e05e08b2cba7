#!/usr/bin/env bash
# pawl events and pawl top, on a store.
. "$(dirname "$0")/lib.sh"

pawl enqueue --type before >/dev/null
exits "nobody listened" 0 pawl events
is "so nothing was told" "$out" ""
heard_until() { sqlite3 -cmd '.timeout 10000' pawl.db "SELECT until_us FROM pawl_feed_head"; }
asked=$(heard_until) # to ask is to listen for a while
pawl events -f -n 1 --json >told 2>&1 &
teller=$!
until_true eval '[ "$(heard_until)" != "$asked" ]'
first=$(pawl enqueue --type mail)
wait "$teller"
is "what other processes do is told" "$(json "$(cat told)" 'd["event"], d["id"]')" "('dispatched', '$first')"
exits "another process runs it" 0 pawl work --once --quiet -- true
exits "as JSON" 0 pawl events --type mail --json
is "told while somebody listens" "$(python3 -c 'import json, sys
print([json.loads(line)["event"] for line in sys.stdin])' <<<"$out")" "['dispatched', 'started', 'succeeded']"
exits "what was told is kept" 0 pawl events --type mail
like "for people" "$out" "dispatched +$first  mail  default"
exits "a filter" 0 pawl events --queue other
is "nothing of that queue" "$out" ""
exits "behind a number" 0 pawl events --after 2 -n 1
like "not the first one" "$out" "(started|succeeded)"
exits "on memory:" 2 pawl events --store memory:
exits "top" 0 pawl top
like "counts" "$out" "^pending 0   running 0"
like "queues" "$out" "^default +0 +0 +0 +0"
exits "no store" 3 pawl top --store sqlite:nothing.db
