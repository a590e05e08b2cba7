#!/usr/bin/env bash
# Several `pawl work` on one file share the work: everything runs, nothing runs twice; one that is killed is replaced.
. "$(dirname "$0")/lib.sh"

tasks=${SHARE_TASKS:-120}
(for i in $(seq "$tasks"); do echo "{\"type\":\"share\",\"payload\":$i}"; done) | pawl enqueue --bulk - >/dev/null

# Every run adds one line: small appends to one file do not mix.
for n in 1 2 3; do work --quiet --concurrency 2 -- sh -c 'echo "$PAWL_TASK_ID $PPID" >>runs; until [ -e go ]; do sleep 0.01; done'; done
all_busy() { [ "$(awk '{print $2}' runs 2>/dev/null | sort -u | wc -l)" -eq 3 ]; }
check "all three have work" until_true all_busy
is "three nodes are alive" "$(json "$(pawl nodes --json)" 'len(d["nodes"])')" 3
touch go
ids=$(pawl tasks list --all --json | python3 -c 'import json,sys; print(" ".join(json.loads(l)["id"] for l in sys.stdin))')
# shellcheck disable=SC2086
exits "all succeed" 0 pawl tasks wait $ids --timeout 120s
is "as many as there were" "$(wc -l <<<"$out" | tr -d ' ')" "$tasks"
is "each ran once" "$(awk '{print $1}' runs | sort | uniq -d | wc -l | tr -d ' ')" 0
is "all ran" "$(awk '{print $1}' runs | sort -u | wc -l | tr -d ' ')" "$tasks"
is "no attempt was lost" "$(pawl tasks list --all --json | python3 -c 'import json,sys; print(sum(json.loads(l)["attempt"] != 1 for l in sys.stdin))')" 0
for pid in "${workers[@]}"; do kill -TERM "$pid"; done
for pid in "${workers[@]}"; do
    wait "$pid"
    is "worker $pid ended well" $? 0
done
workers=()

# A worker that is killed leaves its task to the others.
id=$(pawl enqueue --type orphan)
work --quiet --lease 1s --concurrency 1 -- sh -c 'echo $$ >orphan.pid; exec sleep 300'
until_true test -s orphan.pid
victim=$worker
work --quiet --lease 1s --concurrency 1 -- true
kill -KILL "$victim"
wait "$victim" 2>/dev/null
exits "the other one takes over" 0 pawl tasks wait "$id" --timeout 60s
is "it was rescued" "$(task "$id" '(d["state"], d["rescues"] >= 0, d["attempts"][0]["outcome"], d["attempts"][-1]["outcome"])')" "('succeeded', True, 'rescued', 'succeeded')"
kill -KILL "$(cat orphan.pid)"
check "the survivor ends well" stop_work
