#!/usr/bin/env bash
# Rate limits from the command line.
. "$(dirname "$0")/lib.sh"

exits "set" 0 pawl limits set mail 1/1h
is "says so" "$out" "mail  limited"
exits "set for a key" 0 pawl limits set mail 2/s --key acme --burst 5 --no-horizon --json
is "in JSON" "$(json "$out" '(d["type"], d["key"], d["done"])')" "('mail', 'acme', 'limited')"
limits() { json "$(pawl limits list --json "$@")" '[(l["type"], l["key"], l["permits"], l["burst"], l["left"], l["waiting"]) for l in d["limits"]]'; }
is "list" "$(limits)" "[('mail', None, 1, 1, 1, 0), ('mail', 'acme', 2, 5, 5, 0)]"

first=$(pawl enqueue --type mail --rate-key bob)
second=$(pawl enqueue --type mail --rate-key bob)
third=$(pawl enqueue --type mail --rate-key bob)
exits "work" 0 pawl work --once -- true
is "one has run, one waits, one is beyond the horizon" "$(limits --key bob)" "[('mail', 'bob', 1, 1, 0, 1)]"
is "run" "$(task "$first" 'd["state"]')" succeeded
is "the slot is its time" "$(task "$second" 'd["display"]')" scheduled
is "refused" "$(task "$third" '(d["state"], d["reason"])')" "('failed', 'rate_limited')"
is "waiting" "$(limits --waiting)" "[('mail', 'bob', 1, 1, 0, 1)]"
exits "why" 0 pawl tasks why "$second" --json
is "throttled" "$(json "$out" '(d["code"], d["until"] is not None)')" "('throttled', True)"
exits "as a table" 0 pawl limits list
like "has a title" "$out" '^TYPE +KEY +RATE +LEFT +WAITING +NEXT SLOT'
like "and rows" "$out" '^mail +bob +1 per 1h +0 +1 +in '

exits "pause" 0 pawl limits pause mail --key bob
like "shown" "$(pawl limits list --key bob)" '^mail +bob .* paused'
exits "resume" 0 pawl limits resume mail --key bob
exits "drop" 0 pawl limits drop mail
is "nothing of the type is left but the key" "$(limits)" "[('mail', 'acme', 2, 5, 5, 0)]"

# ---- how many at a time
exits "concurrency" 0 pawl limits running build 2
is "says so" "$out" "build  limited"
exits "per key, in order" 0 pawl limits running sync 1 --per-key --ordered --json
exits "of a queue" 0 pawl limits running imports 10 --queue
exits "turns" 0 pawl limits turns imports
exits "a weight" 0 pawl limits turns imports --tenant acme --weight 3
places() { json "$(pawl limits list --json "$@")" '[(p["scope"], p["name"], p["key"], p.get("most", p.get("weight")), p["ordered"], p["running"], p["blocked"]) for p in d["concurrency"]]'; }
is "listed" "$(places)" "[('queue', 'imports', None, 10, False, 0, 0), ('type', 'build', None, 2, False, 0, 0), ('key', 'sync', None, 1, True, 0, 0), ('tenants', 'imports', None, 1, False, 0, 0), ('tenants', 'imports', 'acme', 3, False, 0, 0)]"
head=$(pawl enqueue --type sync --rate-key k --delay 1h)
behind=$(pawl enqueue --type sync --rate-key k)
is "one waits for the other" "$(places --key k)" "[('key', 'sync', 'k', 1, True, 1, 1)]"
is "blocked" "$(task "$behind" 'd["display"]')" blocked
exits "why" 0 pawl tasks why "$behind" --json
is "names the holder" "$(json "$out" "(d['code'], '$head' in d['text'])")" "('key_held', True)"
like "as a table" "$(pawl limits list --waiting)" "^key +sync +k +1 in order +1 +1 +$head"
exits "cancelled, the next goes on" 0 pawl tasks cancel "$head"
is "it is pending" "$(task "$behind" 'd["display"]')" pending
exits "taken away" 0 pawl limits running sync 0 --per-key
exits "turns no longer" 0 pawl limits turns imports --off
exits "no number" 2 pawl limits running build many
exits "order of what" 2 pawl limits running build 1 --ordered
exits "a queue has no keys" 2 pawl limits running imports 1 --queue --key k
exits "off for one" 2 pawl limits turns imports --off --tenant acme

exits "no rate" 2 pawl limits set mail often
like "says what one is" "$err" 'PERMITS/PERIOD'
exits "no permits" 2 pawl limits set mail 0/1s
exits "both horizons" 2 pawl limits set mail 1/s --horizon 1h --no-horizon
exits "a type that cannot be" 2 pawl limits set '*' 1/s
exits "a cursor that is none" 2 pawl limits list --cursor zz
exits "nothing matches" 0 pawl limits list --type none
is "says so" "$out" "no limits match"
