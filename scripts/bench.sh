#!/usr/bin/env bash
# Measures Pawl beside the project's own raw SQLite program, in one run, and prints a Markdown table.
#
#   scripts/bench.sh [--short] [--dir BUILD] [--out FILE]
#
# --short  a few thousand tasks: shows that it works, not how fast it is
# --dir    the build folder (default: build)
# --out    also write the table to this file
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
dir=$here/build
out=
scale=100
while [ $# -gt 0 ]; do
    case $1 in
    --short) scale=1 ;;
    --dir) dir=$2 && shift ;;
    --out) out=$2 && shift ;;
    *)
        echo "bench: unknown option \"$1\"" >&2
        exit 2
        ;;
    esac
    shift
done

tmp=$(mktemp -d "$dir/bench.XXXXXX")
trap 'rm -rf "$tmp"' EXIT

# number KEY.. : the number at that path of the JSON on standard input
number() { python3 -c 'import json,sys
v = json.load(sys.stdin)
for key in sys.argv[1:]: v = v[key]
print(v)' "$@"; }

raw() { "$dir/bench/raw_sqlite" "$@"; }

# pawl_bench NAME OPTIONS...: its JSON is kept in $tmp/NAME.json
pawl_bench() {
    local name=$1
    shift
    echo "  $name" >&2
    "$dir/pawl" bench --json "$@" >"$tmp/$name.json"
    rm -f "$tmp"/store.db*
}

ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else printf "-" }'; }
rounded() { awk -v a="$1" 'BEGIN { printf "%d", a + 0.5 }'; }
speed() { rounded "$(number tasks_per_s <"$tmp/$1.json")"; }

echo "measuring, each after the other:" >&2
echo "  raw SQLite" >&2
raw_life=$(raw life "$tmp" $((2000 * scale)) 1000 | number tasks_per_s)
raw_commit=$(raw commit "$tmp" $((20 * scale)) | number commit_us p50)
pawl_bench memory --store memory: --tasks $((5000 * scale)) --batch 1000
pawl_bench bulk --store "sqlite:$tmp/store.db" --tasks $((2000 * scale)) --batch 1000
pawl_bench bulk_full --store "sqlite:$tmp/store.db" --tasks $((2000 * scale)) --batch 1000 --audit full
pawl_bench single --store "sqlite:$tmp/store.db" --tasks $((1000 * scale)) --batch 1 --producers 64
pawl_bench schedule --store "sqlite:$tmp/store.db" --tasks $((2000 * scale)) --batch 1000 --mode schedule
pawl_bench latency --store "sqlite:$tmp/store.db" --tasks $((30 * scale)) --mode latency --producers 1 --rate 200

table() {
    local life full
    life=$(speed bulk)
    full=$(speed bulk_full)
    echo "| measure | figure | beside | ratio |"
    echo "|---|---|---|---|"
    echo "| raw SQLite, FULL, born leased, batch 1000 | $(rounded "$raw_life")/s | | |"
    echo "| raw SQLite, FULL, one row per commit, p50 | $(rounded "$raw_commit") us | | |"
    echo "| memory, full life, batch 1000 | $(speed memory)/s | | |"
    echo "| SQLite, full life, history kept, batch 1000, audit minimal | $life/s | raw born leased | $(ratio "$life" "$raw_life") |"
    echo "| the same, audit full | $full/s | audit minimal | $(ratio "$full" "$life") |"
    echo "| SQLite, full life, 64 threads, one task a call | $(speed single)/s | raw born leased | $(ratio "$(speed single)" "$raw_life") |"
    echo "| SQLite, dispatches into the future, batch 1000 | $(speed schedule)/s | raw born leased | $(ratio "$(speed schedule)" "$raw_life") |"
    local dispatch start99
    dispatch=$(number dispatch_us p50 <"$tmp/latency.json")
    start99=$(number start_us p99 <"$tmp/latency.json")
    echo "| SQLite, one caller, dispatch returns, p50 | $(rounded "$dispatch") us | raw commit | $(ratio "$dispatch" "$raw_commit") |"
    echo "| SQLite, dispatch to start, p50 / p99 | $(rounded "$(number start_us p50 <"$tmp/latency.json")") / $(rounded "$start99") us | | |"
    echo
    echo "Payload 200 bytes. $(uname -sm), $(nproc) cores, SQLite $(number settings sqlite <"$tmp/bulk.json"), $(date -u +%Y-%m-%d)."
}

table
if [ -n "$out" ]; then
    {
        echo "# Figures"
        echo
        echo "Made by \`make bench\`: all in one run on one machine; the ratios are what carries over."
        echo
        table
    } >"$out"
    echo "written to $out" >&2
fi
