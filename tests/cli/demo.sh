#!/usr/bin/env bash
# The demo that `make demo` starts, without a terminal: a line per second, and a graceful end.
. "$(dirname "$0")/lib.sh"

script=$here/../../scripts/demo.sh
exits "for three seconds" 0 "$script" show.db --seconds 3
like "counts" "$out" '^ +[0-9]+s  dispatched [1-9][0-9]*  running [0-9]+  succeeded [0-9]+  retrying [0-9]+  failed [0-9]+$'
like "says how to go on" "$out" 'tasks list --store sqlite:show.db'
is "nothing is left running" "$(pawl tasks list --store sqlite:show.db --state leased --all --json | wc -l | tr -d ' ')" 0
is "a task for later is there" "$(json "$(pawl tasks list --store sqlite:show.db --key newsletter --json)" 'd["tasks"][0]["display"]')" scheduled

"$script" >demo.out 2>demo.err &
demo=$!
workers+=("$demo")
until_true grep -q dispatched demo.out
kill -INT "$demo"
wait "$demo"
is "Ctrl-C ends it well" $? 0
check "the default store is in the current folder" test -s pawl-demo.db
like "running tasks finished first" "$(cat demo.out)" 'stopping: running tasks finish first'
