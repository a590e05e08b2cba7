#!/usr/bin/env bash
# Tasks as text: what is written comes back the same; what is cut, bad or taken is noticed.
. "$(dirname "$0")/lib.sh"

copy=sqlite:$dir/copy.db

# ---- a store with something of everything
pawl enqueue --type ok --payload '{"n": 1,  "text": "é\u0000\n"}' --headers 'a: b' --created-by ann --priority -7 >/dev/null
python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) + bytes(44))' >bytes
pawl enqueue --type ok --payload-file bytes --content-type application/octet-stream --tenant acme --key 'k "1"' >/dev/null
bad=$(pawl enqueue --type bad --max-attempts 2)
pawl work --once --type ok -- cat >/dev/null
pawl work --once --type bad --retry-delay 1ms -- sh -c 'echo "some trouble" >&2; exit 3' >/dev/null 2>&1
until_true test "$(pawl tasks show "$bad" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["state"])')" != leased
pawl work --once --type bad --retry-delay 1ms -- false >/dev/null 2>&1
pawl enqueue --type ok --delay 1h --key later >/dev/null
gone=$(pawl enqueue --type ok --delay 1h)
pawl tasks cancel "$gone" >/dev/null

# ---- there and back
exits "export" 0 pawl export
printf '%s\n' "$out" >all.ndjson
is "a header" "$(json "$(head -n 1 all.ndjson)" 'd["pawl_export"], d["pawl"]')" "(1, '$(pawl version | grep -Eo '[0-9.]+$')')"
is "an end" "$(json "$(tail -n 1 all.ndjson)" 'd["pawl_end"], d["tasks"]')" "(True, 5)"
is "a line for each task" "$(wc -l <all.ndjson)" 7
exits "import" 0 pawl import all.ndjson --store "$copy"
like "all of them" "$out" "^imported 5 tasks; 0 were there already, 0 bad"
is "the same" "$(pawl export --store "$copy" | sed 1d)" "$(sed 1d all.ndjson)"
is "as people see them" "$(pawl tasks show "$bad" --log --audit --json --store "$copy" | grep -v '"node"')" \
    "$(pawl tasks show "$bad" --log --audit --json | grep -v '"node"')"
exits "again" 0 pawl import all.ndjson --store "$copy" --json
is "changes nothing" "$(json "$out" 'd["created"], d["present"], d["bad"], d["whole"]')" "(0, 5, 0, True)"
exits "through a pipe" 0 bash -c "'$PAWL_BIN' export | '$PAWL_BIN' import - --store sqlite:$dir/piped.db"
is "the same there" "$(pawl export --store "sqlite:$dir/piped.db" | sed 1d)" "$(sed 1d all.ndjson)"

# ---- rate limits
limited=sqlite:$dir/limited.db
pawl import all.ndjson --store "$limited" >/dev/null
pawl limits set mail 15/m --burst 3 --store "$limited" >/dev/null
pawl limits set mail 1/h --key 'acme "é"' --store "$limited" >/dev/null
pawl limits pause text --store "$limited" >/dev/null
pawl export --store "$limited" >limits.ndjson
is "limits come before the tasks" "$(sed -n 2,4p limits.ndjson | grep -c '^{"pawl_limit":')" 3
is "the end counts them" "$(json "$(tail -n 1 limits.ndjson)" 'd["limits"], d["tasks"]')" "(3, 5)"
is "not those of some states" "$(pawl export --states failed --store "$limited" | grep -c limit)" 0
exits "they are put" 0 pawl import limits.ndjson --store "sqlite:$dir/limited2.db"
like "and told" "$out" "put 3 rate limits; 0 were there already"
is "the same limits" "$(pawl export --store "sqlite:$dir/limited2.db" | sed 1d)" "$(sed 1d limits.ndjson)"
pawl limits set mail 2/s --store "sqlite:$dir/limited2.db" >/dev/null
exits "one that is there" 0 pawl import limits.ndjson --store "sqlite:$dir/limited2.db" --json
is "stays" "$(json "$out" 'd["limits"], d["limits_kept"], d["bad"], d["whole"]')" "(0, 3, 0, True)"
is "and is named, alone" "$err" 'pawl: line 2: the rate limit of "mail" is another one here, and stays as it is'
like "as it was" "$(pawl export --store "sqlite:$dir/limited2.db")" '"pawl_limit":"mail","permits":2,'
sed 3d limits.ndjson >short.ndjson
exits "one is missing" 4 pawl import short.ndjson --store "sqlite:$dir/short.db"
like "which is noticed" "$err" "the input has 2 limits, batches and schedules, and its end says 3"

# ---- parts of it
exits "by states" 0 pawl export --states failed,cancelled
is "two" "$(json "$(tail -n 1 <<<"$out")" 'd["tasks"]')" 2
exits "a state that is none" 2 pawl export --states running,broken
like "names it" "$err" "is not a state"
exits "to a file" 0 pawl export --output file.ndjson
is "with the same tasks" "$(sed 1d file.ndjson)" "$(sed 1d all.ndjson)"
exits "which must not exist" 4 pawl export --output file.ndjson
exits "from nowhere" 3 pawl export --store "sqlite:$dir/none.db"

# ---- new ids
exits "with new ids" 0 pawl import all.ndjson --new-ids --store "sqlite:$dir/new.db"
is "five others" "$(pawl export --store "sqlite:$dir/new.db" | grep -c '"id"')" 5
is "none of them the same" "$(pawl export --store "sqlite:$dir/new.db" | grep -Eo '"id":"[^"]*"' | grep -cFf - all.ndjson)" 0
exits "twice, the live key is taken" 2 pawl import all.ndjson --new-ids --store "sqlite:$dir/new.db"
like "says which line" "$err" "^pawl: line [0-9]+: its key is that of a live task"
like "and stores the others" "$out" "^imported 4 tasks"

# ---- what is not whole
head -n 4 all.ndjson >cut.ndjson
exits "a cut file" 4 pawl import cut.ndjson --store "sqlite:$dir/cut.db"
like "nothing is stored" "$err" "is cut: its last line is missing; nothing was stored"
exits "unless told" 0 pawl import cut.ndjson --cut --store "sqlite:$dir/cut.db"
like "then what is there" "$out" "^imported 3 tasks"
exits "a cut pipe" 4 bash -c "cat cut.ndjson | '$PAWL_BIN' import - --store sqlite:$dir/cut2.db"
like "says so at the end" "$err" "the input is cut"
sed 3d all.ndjson >short.ndjson
exits "a line is missing" 4 pawl import short.ndjson --store "sqlite:$dir/short.db"
like "is noticed" "$err" "the input has 4 tasks, and its end says 5"
cat all.ndjson all.ndjson >double.ndjson
exits "something behind the end" 2 pawl import double.ndjson --store "sqlite:$dir/double.db"
: >empty.ndjson
exits "nothing" 2 pawl import empty.ndjson --cut --store "sqlite:$dir/empty.db"
exits "no such file" 3 pawl import nowhere.ndjson
printf '{"type":"ok"}\n' >tasks.ndjson
exits "not an export" 2 pawl import tasks.ndjson --cut --store "sqlite:$dir/other.db"
like "says what is missing" "$err" "first line must be the header"
sed '1s/"pawl_export":1/"pawl_export":2/' all.ndjson >newer.ndjson
exits "a newer format" 2 pawl import newer.ndjson --store "sqlite:$dir/other.db"
like "asks for an update" "$err" "format 2.*update this program"

# ---- concurrency limits, batches, schedules, and who waits for whom
kin() { pawl "${@:2}" --store "sqlite:$dir/$1.db"; }
kin kin limits running t 1 --per-key --ordered >/dev/null
kin kin limits turns q >/dev/null
kin kin schedules add daily --type t --cron @daily >/dev/null
kin kin schedules run daily >/dev/null
kin kin batches open nightly --on-finished last >/dev/null
parent=$(kin kin enqueue --type p --batch nightly)
kin kin enqueue --type c --parent "$parent" --batch nightly >/dev/null
kin kin batches close nightly >/dev/null
kin kin export >kin.ndjson
exits "import of them" 0 kin kin_copy import kin.ndjson
is "is the same" "$(kin kin_copy export | sed 1d)" "$(sed 1d kin.ndjson)"
exits "again: nothing changes" 0 kin kin_copy import kin.ndjson
is "and it is still the same" "$(kin kin_copy export | sed 1d)" "$(sed 1d kin.ndjson)"
for type in p c last; do pawl --store "sqlite:$dir/kin_copy.db" work --once --type "$type" -- true >/dev/null 2>&1; done
is "the batch ends" "$(json "$(kin kin_copy batches show nightly --json)" 'd["state"], d["succeeded"]')" "('succeeded', 2)"
exits "with new ids nobody waits" 2 kin kin_fresh import --new-ids kin.ndjson
like "says so" "$err" "it waits for others, whose ids are not kept"
grep -v '"type":"p"' kin.ndjson >orphans.ndjson
exits "without the parent" 2 kin kin_orphans import --cut orphans.ndjson
like "says so" "$err" "it waits for one that is not here"
grep -v pawl_bound kin.ndjson >fewer.ndjson
exits "lines are missing" 4 kin kin_fewer import fewer.ndjson
is "states alone: none of them" "$(kin kin export --states pending | grep -c pawl_)" 2

# ---- more schedules than a commit takes, and one name twice
kin few schedules add first --type t --cron @daily >/dev/null
kin few export | sed 1q >many.ndjson
for i in $(seq 600) 7; do kin_line=${kin_line:-$(kin few export | grep pawl_schedule)}; echo "${kin_line/\"first\"/\"s.$i\"}"; done >>many.ndjson
exits "many schedules" 0 kin many import --cut many.ndjson
is "all of them, each once" "$(kin many export | grep -c pawl_schedule)" 600

# ---- bad lines
line() { head -n 1 all.ndjson; printf '%s\n' "$1"; tail -n 1 all.ndjson; }
number=0
while IFS='|' read -r text why; do
    number=$((number + 1))
    line "$text" >bad.ndjson
    exits "bad line $number" 2 pawl import bad.ndjson --store "sqlite:$dir/bad.db"
    like "line 2: $why" "$err" "^pawl: line 2: .*$why"
done <<'BAD'
{|not JSON
[]|a task is a JSON object
{"id":"06VZNRCK80001","queue":"q","state":"pending","created_us":1}|"type" is missing
{"id":"06VZNRCK80001","type":"t","state":"pending","created_us":1}|"queue" is missing
{"id":"06VZNRCK80001","type":"t","queue":"q","created_us":1}|"state" is missing
{"type":"t","queue":"q","state":"pending","created_us":1}|"id" is missing
{"id":"U","type":"t","queue":"q","state":"pending","created_us":1}|"id" is not a task id
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"pending"}|"created_us" is missing
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"done","created_us":1}|"state" is not a word
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"succeeded","created_us":1}|"finished_us" must be there
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"pending","created_us":1,"priority":40000}|"priority" must be a whole number
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"pending","created_us":1,"payload_base64":"%"}|"payload" is not base64
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"pending","created_us":1,"colour":1}|"colour" is not a member
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"pending","created_us":1,"attempts":[{"number":0}]}|"number" must be a whole number
{"id":"06VZNRCK80001","type":"t\u0001","queue":"q","state":"pending","created_us":1}|"type"
{"pawl_limit":"mail","permits":1}|a period of 0 us
{"pawl_limit":"*","permits":1,"period_us":1000000}|"pawl_limit" must be one type
{"pawl_limit":7,"permits":1,"period_us":1000000}|"pawl_limit" must be a string
{"pawl_limit":"mail","permits":1,"period_us":1000000,"id":"06VZNRCK80001"}|"id" is not a member
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"waiting","created_us":1}|"parents" are missing
{"id":"06VZNRCK80001","type":"t","queue":"q","state":"waiting","created_us":1,"parents":[{"state":3}]}|"state" must be a whole number
{"pawl_bound":"t","scope":5,"most":1}|"scope" must be a whole number
{"pawl_bound":"t","scope":2,"most":1,"ordered":true}|"ordered" belongs to scope 3
{"pawl_batch":"b","id":"06VZNRCK80001","created_us":1,"state":"succeeded"}|"state" must be there if it has ended
{"pawl_kept":"06VZNRCK80001","state":"pending"}|"state" must be that of one that has ended
{"pawl_schedule":"s","version":1}|"spec" is missing
{"pawl_schedule":"s","version":1,"spec":"{}","occurrences":[{}]}|"occurrences" must have states
BAD
is "none was stored" "$(pawl export --store "sqlite:$dir/bad.db" | wc -l)" 2
