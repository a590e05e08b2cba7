#!/usr/bin/env bash
# Parents and batches from the command line.
. "$(dirname "$0")/lib.sh"

parent=$(pawl enqueue --type extract)
exits "a child" 0 pawl enqueue --type load --parent "$parent"
child=$out
is "waits" "$(task "$child" 'd["state"]')" waiting
exits "why" 0 pawl tasks why "$child"
is "says for whom" "$out" "It waits for its parent task $parent (extract), which is pending."
held=$(pawl enqueue --type report --parent "$parent" --parent "$child" --if-failed hold)
exits "tree" 0 pawl tasks tree "$parent"
like "its root" "$out" "^$parent  extract  pending\$"
like "its children" "$out" "^\\|- $child  load  waiting"
like "and theirs" "$out" "^\\|  \`- $held  report  waiting"
like "once" "$out" "^\`- $held  report  waiting  \\(see above\\)"
exits "upwards, in JSON" 0 pawl tasks tree "$held" --parents --json
is "who they are" "$(json "$out" '[p["id"] for p in d["parents"]]')" "['$parent', '$child']"
exits "a parent that is none" 3 pawl enqueue --type x --parent 0000000000001
like "says so" "$err" 'there is no task or batch 0000000000001'
exits "no id" 2 pawl enqueue --type x --parent mum

exits "open" 0 pawl batches open import --on-finished report --payload '{"n":1}' --queue later
batch=$out
printf '{"payload":1}\n{"payload":2}\n' >rows
exits "many" 0 pawl enqueue --type row --bulk rows --batch import --parent "$parent"
exits "one by its id" 0 pawl enqueue --type row --batch "$batch"
exits "show" 0 pawl batches show import --json
is "counts" "$(json "$out" '(d["id"], d["state"], d["total"], d["unfinished"])')" "('$batch', 'open', 3, 3)"
exits "the same name" 4 pawl batches open import
exits "close" 0 pawl batches close import --by ann
is "says so" "$out" "$batch  closed"
exits "close again" 4 pawl batches close import
like "refused" "$err" 'was closed before'
exits "too late" 4 pawl enqueue --type row --batch import
exits "work" 0 pawl work --once --queue default -- true
exits "what waits follows" 0 pawl work --once --queue later -- true
is "ended" "$(json "$(pawl batches show "$batch" --json)" '(d["state"], d["succeeded"])')" "('succeeded', 3)"
is "the chain has run" "$(task "$held" 'd["state"]')" succeeded
is "nothing waits" "$(json "$(pawl stats --json)" 'd["waiting"]')" 0

exits "within" 0 pawl batches open outer
exits "an inner one" 0 pawl batches open inner --within outer
row=$(pawl enqueue --type row --batch inner)
exits "cancel" 0 pawl batches cancel outer
is "all of it" "$(task "$row" 'd["state"]')" cancelled
exits "list" 0 pawl batches list
like "has a title" "$out" '^ID +NAME +STATE +TOTAL +UNFINISHED +SUCCEEDED +FAILED +CANCELLED'
like "and rows" "$out" '^[0-9A-Z]{13} +inner +cancelled +1 +0 +0 +0 +1'
exits "cancel again" 4 pawl batches cancel outer
exits "no such batch" 3 pawl batches show nothing
exits "nothing matches" 0 pawl batches list --unfinished
is "says so" "$out" "no batches match"
exits "a payload for nobody" 2 pawl batches open x --payload 1
