#!/usr/bin/env bash
# pawl work with real commands: results, logs, exit codes, signals, timeouts, cancel, shutdown.
. "$(dirname "$0")/lib.sh"

once() { pawl work --once --quiet "$@"; }

# Results.
id=$(pawl enqueue --type echo --payload '{"x": 1}')
exits "once" 0 pawl work --once -- sh -c 'echo starting >&2; cat; echo; echo "second line" >&2'
like "a line for the run" "$out" "succeeded +$id +echo"
like "and one at the start, on standard error" "$err" 'working on queue "default"'
is "succeeded" "$(task "$id" '(d["state"], d["attempt"])')" "('succeeded', 1)"
is "standard output became the result" "$(task "$id" '(d["result"], d["result_type"])')" "({'x': 1}, 'application/json')"
is "standard error became the log" "$(task "$id" '[(l["level"], l["text"]) for l in d["log"]]' --log)" "[('info', 'starting'), ('info', 'second line')]"
like "both are shown to people" "$(pawl tasks show "$id" --log)" 'second line'
id=$(pawl enqueue --type t)
once -- echo plain text
is "text" "$(task "$id" '(__import__("base64").b64decode(d["result_base64"]), d["result_type"])')" "(b'plain text', 'text/plain; charset=utf-8')"
like "is shown to people" "$(pawl tasks show "$id")" '^  plain text$'
id=$(pawl enqueue --type t)
once -- printf '\377\376'
is "bytes" "$(task "$id" '(d["result_base64"], d["result_type"])')" "('//4=', 'application/octet-stream')"
id=$(pawl enqueue --type t)
once -- true
is "nothing" "$(task "$id" '("result" in d, d["state"])')" "(False, 'succeeded')"
id=$(head -c 900000 /dev/zero | pawl enqueue --type t --content-type x/y -)
once -- sh -c 'cat; echo done >&2'
is "too much output: still a success, with a line in the log" "$(task "$id" '(d["state"], "result" in d or "result_base64" in d, d["log"][-1]["level"])' --log)" \
    "('succeeded', False, 'warn')"
id=$(head -c 900000 /dev/zero | pawl enqueue --type t --content-type x/y -)
once -- sh -c 'exec <&-; exit 0'
is "a command that does not read its input" "$(task "$id" 'd["state"]')" succeeded
id=$(pawl enqueue --type t)
once -- sh -c 'i=0; while [ $i -lt 1500 ]; do echo "line $i" >&2; i=$((i+1)); done; printf "no newline" >&2'
is "a long log is cut" "$(task "$id" '900 < len(d["log"]) <= 1001' --log)" True

id=$(pawl enqueue --type env.check --key the-key)
once -- sh -c 'echo "$PAWL_TASK_ID $PAWL_TASK_TYPE $PAWL_TASK_ATTEMPT $PAWL_TASK_FENCE $PAWL_TASK_KEY $PAWL_TASK_QUEUE"'
is "the environment" "$(task "$id" '__import__("base64").b64decode(d["result_base64"]).decode()')" "$id env.check 1 $(task "$id" 'd["fence"]') the-key default"
id=$(pawl enqueue --type parent)
(unset PAWL_STORE && once --store "sqlite:$dir/pawl.db" --type parent -- "$PAWL_BIN" enqueue --type child --queue kids)
is "the command finds the same store" "$(json "$(pawl tasks list --type child --json)" 'len(d["tasks"])')" 1
id=$(pawl enqueue --type fds)
once -- sh -c 'ls /proc/self/fd | wc -l'
is "no descriptor leaks into it" "$(task "$id" 'd["result"]')" 4

# Exit codes.
id=$(pawl enqueue --type bad)
once -- sh -c 'echo "no such customer" >&2; exit 65'
is "65 fails for good" "$(task "$id" '(d["state"], d["attempt"], d["code"], d["error"])')" "('failed', 1, 'exit_65', 'exit status 65: no such customer')"
exits "waiting for it" 1 pawl tasks wait "$id"
id=$(pawl enqueue --type later)
once --snooze 1h -- sh -c 'exit 75'
is "75 snoozes and costs no attempt" "$(task "$id" '(d["state"], d["display"], d["failures"], d["attempts"][0]["outcome"])')" "('pending', 'scheduled', 0, 'snoozed')"
pawl tasks cancel "$id" >/dev/null

cat >flaky.sh <<'S'
#!/bin/sh
[ "$PAWL_TASK_ATTEMPT" -ge 3 ] && exit 0
echo "attempt $PAWL_TASK_ATTEMPT is not good enough" >&2
exit 1
S
chmod +x flaky.sh
id=$(pawl enqueue --type flaky)
work --retry-delay 5ms -- ./flaky.sh
exits "others retry" 0 pawl tasks wait "$id" --timeout 60s
check "graceful end" stop_work
is "three attempts" "$(task "$id" '[(a["number"], a["outcome"], a["code"]) for a in d["attempts"]]')" \
    "[(1, 'retry', 'exit_1'), (2, 'retry', 'exit_1'), (3, 'succeeded', None)]"
like "the runs were shown" "$(cat work.out)" "retrying +$id .*again in .*exit status 1: attempt 1 is not good enough"
id=$(pawl enqueue --type kills --max-attempts 1)
once -- sh -c 'kill -KILL $$'
is "a signal is named" "$(task "$id" '(d["state"], d["code"], d["error"])')" "('failed', 'signal_KILL', 'killed by SIGKILL')"
id=$(pawl enqueue --type t --max-attempts 2)
work --retry-delay 5ms -- false
exits "attempts run out" 1 pawl tasks wait "$id" --timeout 60s
stop_work
is "after two" "$(task "$id" '(d["attempt"], d["failures"])')" "(2, 2)"

# Timeout, cancel: the whole process group goes.
cat >group.sh <<'S'
#!/bin/sh
sleep 300 &
echo $! >"$OUT.grandchild"
echo $$ >"$OUT.child"
wait
S
chmod +x group.sh
id=$(pawl enqueue --type slow --timeout 200ms --max-attempts 1)
OUT=$dir/timeout once -- ./group.sh
is "a timeout ends it" "$(task "$id" '(d["state"], d["attempts"][0]["outcome"])')" "('failed', 'timeout')"
check "its children are gone too" until_true gone "$(cat timeout.grandchild)"

id=$(pawl enqueue --type slow)
OUT=$dir/cancel work -- ./group.sh
until_true test -s cancel.child
is "it runs" "$(task "$id" '(d["state"], d["display"], len(d["attempts"]))')" "('leased', 'running', 1)"
is "why: running" "$(json "$(pawl tasks why "$id" --json)" 'd["code"]')" running
exits "cancel while it runs" 0 pawl tasks cancel "$id"
exits "it ends as cancelled" 1 pawl tasks wait "$id" --timeout 60s
like "cancelled" "$out" cancelled
check "the command is gone" until_true gone "$(cat cancel.child)"
check "its children are gone" until_true gone "$(cat cancel.grandchild)"
check "the worker goes on and ends well" stop_work

id=$(pawl enqueue --type stubborn)
work -- sh -c 'trap "" TERM; echo $$ >stubborn.pid; while :; do sleep 1; done'
until_true test -s stubborn.pid
pawl tasks cancel "$id" >/dev/null
exits "a command that ignores SIGTERM is killed" 1 pawl tasks wait "$id" --timeout 60s
check "it is gone" until_true gone "$(cat stubborn.pid)"
stop_work

# Shutdown.
id=$(pawl enqueue --type finish)
rm -f go
work -- sh -c 'echo $$ >drain.pid; until [ -e go ]; do sleep 0.05; done; echo finished'
until_true test -s drain.pid
kill -TERM "$worker"
until_true grep -q 'stopping: 1 running task has' work.err
check "running tasks go on after the first signal" kill -0 "$(cat drain.pid)"
touch go
wait "$worker"
is "exit status 0" $? 0
is "it finished" "$(task "$id" '(d["state"], d["attempt"])')" "('succeeded', 1)"

id=$(pawl enqueue --type interrupted)
work -- sh -c 'echo $$ >second.pid; exec sleep 300'
until_true test -s second.pid
kill -INT "$worker"
until_true grep -q 'stopping: 1 running' work.err
kill -INT "$worker"
wait "$worker"
is "the second signal stops at once, exit status 0" $? 0
check "the command is gone after that" until_true gone "$(cat second.pid)"
is "its task is free again and lost no attempt" "$(task "$id" '(d["state"], d["failures"], d["interruptions"])')" "('pending', 0, 1)"
once -- true
is "and runs again" "$(task "$id" 'd["state"]')" succeeded

# Killed: what it was running goes with it, and the task runs again.
id=$(pawl enqueue --type orphan)
OUT=$dir/killed work -- ./group.sh
until_true test -s killed.child
kill -KILL "$worker"
check "its command is gone" until_true gone "$(cat killed.child)"
check "and the command's children" until_true gone "$(cat killed.grandchild)"
wait "$worker" 2>/dev/null
work -- true
exits "another one runs the task" 0 pawl tasks wait "$id" --timeout 60s
stop_work
is "as a rescue" "$(task "$id" '(d["state"], d["rescues"])')" "('succeeded', 1)"

id=$(pawl enqueue --type grace)
work --grace 100ms -- sh -c 'echo $$ >grace.pid; exec sleep 300'
until_true test -s grace.pid
check "when the grace is over the command is stopped" stop_work
is "that costs no attempt either" "$(task "$id" '(d["state"], d["failures"], d["interruptions"])')" "('pending', 0, 1)"
pawl tasks cancel "$id" >/dev/null

# Queues and types.
other=$(pawl enqueue --type t --queue other)
mine=$(pawl enqueue --type t --queue mine)
typed=$(pawl enqueue --type u --queue mine)
once --queue mine --type t -- true
is "only its queue and type" "$(task "$other" 'd["state"]') $(task "$mine" 'd["state"]') $(task "$typed" 'd["state"]')" "pending succeeded pending"
once --queue mine --type t --type u -- true
is "several types" "$(task "$typed" 'd["state"]')" succeeded
pawl queues pause other >/dev/null
once --queue other -- true
is "a paused queue is left alone" "$(task "$other" 'd["state"]')" pending

# Events as JSON.
pawl queues resume other >/dev/null
exits "work --json" 0 pawl work --once --json --queue other -- true
is "one object per event" "$(json "$out" '(d["event"], d["id"])')" "('succeeded', '$other')"
is "and nothing else" "$err" ""
