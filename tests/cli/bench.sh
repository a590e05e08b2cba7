#!/usr/bin/env bash
# pawl bench: every mode, small, and the keys of its JSON.
. "$(dirname "$0")/lib.sh"

keys='{"tasks_per_s", "dispatch_us", "start_us", "done_us", "commits_per_task", "bytes_per_task", "cpu_s_per_1000", "rss_peak_bytes", "lost", "settings"}'
run() { # DESC ARGUMENTS...
    local desc=$1
    shift
    exits "$desc" 0 pawl bench --json "$@"
    is "$desc: all keys" "$(json "$out" "$keys - set(d)")" "set()"
    is "$desc: lost nothing" "$(json "$out" '(d["lost"], d["tasks_per_s"] > 0)')" "(0, True)"
}

run "full" --tasks 3000 --batch 100
is "every task ran once" "$(json "$out" 'd["runs"]')" 3000
is "percentiles grow" "$(json "$out" 'all(0 < d[k]["p50"] <= d[k]["p99"] <= d[k]["p999"] for k in ("dispatch_us", "start_us", "done_us"))')" True
is "started before done" "$(json "$out" 'd["start_us"]["p50"] <= d["done_us"]["p50"]')" True
is "commits are shared" "$(json "$out" '0 < d["commits_per_task"] < 1')" True
is "bytes are counted" "$(json "$out" 'd["bytes_per_task"] > 100')" True
is "the store's settings are read back" "$(json "$out" 'len(d["settings"]) > 0')" True
is "the audit level is said" "$(json "$out" 'd["audit"]')" minimal
run "single dispatches from many threads" --tasks 1000 --producers 16 --batch 1
run "enqueue" --mode enqueue --tasks 2000
is "enqueue: nothing ran" "$(json "$out" 'd["runs"]')" 0
run "drain" --mode drain --tasks 2000
run "latency" --mode latency --rate 500 --tasks 300
is "latency keeps its rate" "$(json "$out" '0.4 <= d["seconds"] <= 20')" True
run "schedule" --mode schedule --tasks 2000
run "two nodes" --mode drain --nodes 2 --tasks 4000
run "full with two nodes" --nodes 2 --tasks 2000
run "with history, future and backlog" --tasks 1000 --preload-history 1000 --preload-scheduled 1000 --backlog 500 --audit full
run "one process dispatches, the other runs" --mode latency --rate 500 --tasks 300 --nodes 2 --apart
run "scheduled tasks are more urgent" --tasks 1000 --preload-scheduled 1000 --scheduled-priority -100
run "in memory, beside what is throttled" --store memory: --tasks 1000 --throttled 100
run "with rate limits" --tasks 1000 --rate-keys 50 --throttled 100
is "what is throttled does not count" "$(json "$out" 'd["runs"]')" 1000
exits "apart from nobody" 2 pawl bench --apart
exits "look" 0 pawl bench --json --mode look --preload-history 2000 --preload-scheduled 500
is "look: nothing is missing" "$(json "$out" 'd["lost"]')" 0
is "look: every call was timed" "$(json "$out" 'all(0 < p["p50"] <= p["p99"] for p in (d["get_us"], d["cancel_us"], *d["list_us"].values()))')" True
exits "look without anything there" 0 pawl bench --mode look --tasks 50
like "look, for people" "$out" '^list, rare type '
run "in memory" --store memory: --tasks 20000 --batch 1000
exits "memory cannot be shared" 2 pawl bench --store memory: --nodes 2
is "its own files are gone" "$(ls -d pawl-bench-* 2>/dev/null)" ""
check "the store of the environment was not touched" test ! -e pawl.db
exits "for people" 0 pawl bench --tasks 500 --store "sqlite:$dir/kept.db"
like "tasks per second first" "$out" '^[0-9,]+ tasks/s'
like "lost" "$out" '^lost: 0$'
is "a named store is kept" "$(pawl tasks list --store "sqlite:$dir/kept.db" --all --json | wc -l | tr -d ' ')" 500
exits "refuses nonsense" 2 pawl bench --payload 3

"$PAWL_BIN" bench --mode latency --rate 10 --tasks 100000 >bench.out 2>bench.err &
bench=$!
workers+=("$bench")
until_true compgen -G 'pawl-bench-*/bench.db'
kill -INT "$bench"
wait "$bench"
is "Ctrl-C ends it" $? 5
is "and removes its files" "$(ls -d pawl-bench-* 2>/dev/null)" ""
