#!/usr/bin/env bash
# pawl enqueue: one task and many, every option, exact payloads, and what goes wrong.
. "$(dirname "$0")/lib.sh"

exits "enqueue" 0 pawl enqueue --type greet --payload '{"a": 1.50, "b":[ ]}'
like "prints the id" "$out" '^[0-9A-Z]{13}$'
id=$out
is "the payload is kept byte for byte" "$(pawl tasks show "$id" --json | grep -cF '"payload":{"a": 1.50, "b":[ ]}')" 1
is "state and display" "$(task "$id" '(d["state"], d["display"])')" "('pending', 'pending')"
is "the id is a string" "$(task "$id" 'd["id"]')" "$id"
like "times are RFC 3339 with microseconds" "$(task "$id" 'd["created_at"]')" '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z$'
is "lower case ids work too" "$(task "${id,,}" 'd["type"]')" greet

exits "enqueue --json" 0 pawl enqueue --type greet --json
is "tells the outcome" "$(json "$out" 'd["outcome"]')" created
is "no payload is no payload" "$(task "$(json "$out" 'd["id"]')" '"payload" in d')" False

all=(--queue mail --tenant acme --priority -5 --max-attempts 7 --timeout 90s --created-by ann --headers 'x: y' --audit errors)
id=$(pawl enqueue --type t --key k1 "${all[@]}")
is "all options" "$(task "$id" '(d["queue"], d["tenant"], d["key"], d["priority"], d["max_attempts"], d["timeout_us"], d["created_by"], d["headers"], d["audit"])')" \
    "('mail', 'acme', 'k1', -5, 7, 90000000, 'ann', 'x: y', 'errors')"

id=$(printf 'a,b\n1,\377\n' | pawl enqueue --type import --content-type text/csv -)
is "bytes from standard input" "$(task "$id" '__import__("base64").b64decode(d["payload_base64"]) == b"a,b\n1,\xff\n"')" True
is "with their content type" "$(task "$id" 'd["content_type"]')" text/csv
printf '"from a file"' >payload.json
id=$(pawl enqueue --type t --payload-file payload.json)
is "from a file" "$(task "$id" 'd["payload"]')" "from a file"
exits "a file that is not there" 3 pawl enqueue --type t --payload-file none.json
like "is named" "$err" '"none.json"'

exits "invalid JSON" 2 pawl enqueue --type t --payload '{"a":}'
exits "too large" 2 bash -c 'head -c 1100000 /dev/zero | "$PAWL_BIN" enqueue --type t --content-type x/y -'
count=$(pawl tasks list --all --json | wc -l)
is "neither was stored" "$count" 5

id=$(pawl enqueue --type t --delay 1h)
is "a delay makes it scheduled" "$(task "$id" 'd["display"]')" scheduled
id=$(pawl enqueue --type t --at 2031-02-03T04:05:06Z)
is "a time" "$(task "$id" 'd["run_at"]')" 2031-02-03T04:05:06.000000Z
id=$(pawl enqueue --type t --at 2001-02-03T04:05:06Z)
is "a past time means now" "$(task "$id" 'd["display"]')" pending

id=$(pawl enqueue --type t --key same --payload 1 --delay 1h)
again=$(pawl enqueue --type t --key same --payload 2 --json)
is "the same key: updated" "$(json "$again" '(d["outcome"], d["id"])')" "('updated', '$id')"
is "the payload is the new one" "$(task "$id" '(d["payload"], d["display"])')" "(2, 'pending')"
repeat=$(pawl enqueue --type t --id "$id" --json)
is "an id that is there: existing" "$(json "$repeat" '(d["outcome"], d["id"])')" "('existing', '$id')"

# Many.
export PAWL_STORE="sqlite:$dir/bulk.db"
python3 - >many.ndjson <<'P'
for i in range(2500):
    print('{"type":"row","queue":"q%d","payload":{"n": %d},"priority":%d}' % (i % 3, i, i % 7))
P
exits "bulk" 0 pawl enqueue --bulk many.ndjson
like "says how many" "$out" '^2,500 tasks in .*: 2,500 created$'
pawl tasks list --all --json --oldest-first >all.ndjson
is "all are there" "$(wc -l <all.ndjson | tr -d ' ')" 2500
is "all queues" "$(json "$(pawl queues list --json)" 'sorted((q["name"], q["pending"]) for q in d["queues"] if q["pending"])')" \
    "[('q0', 834), ('q1', 833), ('q2', 833)]"
exits "bulk with defaults, from standard input" 0 bash -c "printf '{}\n\n{\"type\":\"own\",\"delay\":\"2h\",\"payload_base64\":\"AAEC\",\"content_type\":\"x/y\"}\n' | \"\$PAWL_BIN\" enqueue --type dflt --queue bulk2 --bulk - --json"
is "one line each" "$(wc -l <<<"$out" | tr -d ' ')" 2
second=$(tail -1 <<<"$out")
is "the line's number and outcome" "$(json "$second" '(d["line"], d["outcome"])')" "(3, 'created')"
id=$(json "$second" 'd["id"]')
is "fields win over defaults, defaults fill the rest" "$(task "$id" '(d["type"], d["queue"], d["display"], d["payload_base64"])')" "('own', 'bulk2', 'scheduled', 'AAEC')"

exits "an unknown field" 2 bash -c "printf '{\"type\":\"t\"}\n{\"type\":\"t\",\"prioritty\":1}\n' | \"\$PAWL_BIN\" enqueue --bulk -"
like "names field and line, and suggests" "$err" 'line 2: unknown field "prioritty": did you mean "priority"\?'
like "says that nothing was stored" "$err" 'nothing was stored'
exits "not JSON" 2 bash -c "printf '{\"type\":\"t\"\n' | \"\$PAWL_BIN\" enqueue --bulk -"
like "names line and column" "$err" 'line 1, column [0-9]+: not JSON'
exits "a wrong type" 2 bash -c "printf '{\"type\":\"t\",\"priority\":\"high\"}\n' | \"\$PAWL_BIN\" enqueue --bulk -"
like "says what it must be" "$err" 'line 1: "priority" must be a whole number'
exits "no type" 2 bash -c "printf '{\"payload\":1}\n' | \"\$PAWL_BIN\" enqueue --bulk -"
like "says that it is missing" "$err" 'line 1: "type" is missing'
for line in '{"type\u0000x":"t"}' '{"type":"t","delay":"1s\u0000x"}' '{"type":"t","audit":"full\u0000"}'; do
    echo "$line" >nul.ndjson
    exits "a NUL does not end a text early" 2 pawl enqueue --bulk nul.ndjson
done
(for i in $(seq 1 1500); do echo '{"type":"part"}'; done; echo oops) >part.ndjson
exits "an error after a commit" 2 pawl enqueue --bulk part.ndjson
like "says how far it came" "$err" 'lines up to 1000 are stored, go on with line 1001'
is "and so it is" "$(pawl tasks list --type part --all --json | wc -l | tr -d ' ')" 1000
# The commit is written, and syncing it fails: nobody can say whether it will be there.
if strace -o /dev/null true 2>/dev/null; then
    failing() {
        ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 strace -f -qq -o /dev/null -e trace=fdatasync -e inject=fdatasync:error=EIO:when=1 \
            "$PAWL_BIN" "$@"
    }
    exits "an unknown outcome" 7 failing enqueue --type doubt --json
    is "is said, without an id" "$(json "$out" '(d["id"], d["outcome"])')" "(None, 'unknown')"
    like "and what to do" "$err" 'not known whether the task was stored: look with .*pawl tasks list'
    exits "an unknown outcome, for people" 7 failing enqueue --type doubt --key once
    is "nothing is printed that looks like an id" "$out" ""
    exits "with a key it may be repeated" 0 pawl enqueue --type doubt --key once
    is "and there is one" "$(pawl tasks list --key once --all --json | wc -l | tr -d ' ')" 1
fi
exits "a bulk file that is not there" 3 pawl enqueue --bulk none.ndjson
