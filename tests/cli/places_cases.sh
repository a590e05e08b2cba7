# Concurrency limits, and tenants that take turns, from the command line, on a store without any. For other scripts to read, after lib.sh.

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
for command in "running sync 0 --per-key" "running sync 0 --key k" "running never 0" "running never 0 --queue" "turns imports --off"; do
    # shellcheck disable=SC2086
    exits "not there: $command" 3 pawl limits $command
    like "says so" "$err" 'there is nothing to take away'
done
exits "no number" 2 pawl limits running build many
exits "order of what" 2 pawl limits running build 1 --ordered
exits "a queue has no keys" 2 pawl limits running imports 1 --queue --key k
exits "off for one" 2 pawl limits turns imports --off --tenant acme

