# Rate limits from the command line, on an empty store of any kind. For other scripts to read, after lib.sh.

exits "set" 0 pawl limits set mail 1/1h
is "says so" "$out" "mail  limited"
exits "set for a key" 0 pawl limits set mail 2/s --key acme --burst 5 --no-horizon --json
is "in JSON" "$(json "$out" '(d["type"], d["key"], d["done"])')" "('mail', 'acme', 'limited')"
limits() { json "$(pawl limits list --json "$@")" '[(l["type"], l["key"], l["permits"], l["burst"], l["left"], l["waiting"]) for l in d["limits"]]'; }
like "alone it lists" "$(pawl limits)" '^mail +acme +2 per 1s'
is "list" "$(limits)" "[('mail', None, 1, 1, 1, 0), ('mail', 'acme', 2, 5, 5, 0)]"

first=$(pawl enqueue --type mail --rate-key bob)
second=$(pawl enqueue --type mail --rate-key bob)
third=$(pawl enqueue --type mail --rate-key bob)
exits "work" 0 pawl work --once -- true
is "one has run, one waits, one is beyond the horizon" "$(limits --key bob)" "[('mail', 'bob', 1, 1, 0, 1)]"
is "run" "$(task "$first" 'd["state"]')" succeeded
is "it is throttled" "$(task "$second" 'd["display"]')" throttled
is "and found so" "$(pawl tasks list --state throttled --all --json | python3 -c 'import json,sys; print(*[json.loads(l)["id"] for l in sys.stdin])')" "$second"
like "which shows its rate key" "$(pawl tasks show "$third")" '^rate key +bob'
is "and no start" "$(pawl tasks show "$third" | grep -c ^started)" 0
is "refused" "$(task "$third" '(d["state"], d["reason"])')" "('failed', 'rate_limited')"
is "waiting" "$(limits --waiting)" "[('mail', 'bob', 1, 1, 0, 1)]"
exits "why" 0 pawl tasks why "$second" --json
is "throttled" "$(json "$out" '(d["code"], d["until"] is not None)')" "('throttled', True)"
exits "as a table" 0 pawl limits list
like "has a title" "$out" '^TYPE +KEY +RATE +LEFT +WAITING +PARKED +RUNNING +NEXT SLOT'
like "and rows" "$out" '^mail +bob +1 per 1h +0 +1 +0 +0 +in '

exits "pause" 0 pawl limits pause mail --key bob
like "shown" "$(pawl limits list --key bob)" '^mail +bob .* paused'
exits "another limit resumes nothing" 0 pawl limits set mail 3/1h --key bob
like "still paused" "$(pawl limits list --key bob)" '^mail +bob +3 per 1h .* paused'
exits "why" 0 pawl tasks why "$second"
like "tells how to go on" "$out" 'pawl limits resume mail --key "bob"'
exits "resume" 0 pawl limits resume mail --key bob
exits "drop its own" 0 pawl limits drop mail --key bob
exits "drop" 0 pawl limits drop mail
for command in "drop mail" "drop mail --key bob" "resume mail --key bob" "drop never" "resume never"; do
    # shellcheck disable=SC2086
    exits "not there: $command" 3 pawl limits $command
    like "says so" "$err" 'has no rate limit.*: there is nothing to'
done
is "nothing of the type is left but the key" "$(limits)" "[('mail', 'acme', 2, 5, 5, 0)]"

exits "no rate" 2 pawl limits set mail often
like "says what one is" "$err" 'PERMITS/PERIOD'
exits "no permits" 2 pawl limits set mail 0/1s
exits "both horizons" 2 pawl limits set mail 1/s --horizon 1h --no-horizon
for command in "set mail 1/s" "drop mail" "pause mail" "resume mail" list "running mail 3"; do
    # shellcheck disable=SC2086
    exits "no key: $command" 2 pawl limits $command --key ""
    like "says so" "$err" 'is empty: name a rate key'
done
exits "a type that cannot be" 2 pawl limits set '*' 1/s
exits "a cursor that is none" 2 pawl limits list --cursor zz
exits "nothing matches" 0 pawl limits list --type none
is "says so" "$out" "no limits match"
