#!/usr/bin/env bash
# Schedules from the command line.
. "$(dirname "$0")/lib.sh"

exits "add" 0 pawl schedules add report --type report --cron '0 9 * * MON-FRI' --zone Europe/Berlin --payload '{"a":1}'
like "says what it means" "$out" '^report  created: at 09:00 on Monday to Friday; next 20'
exits "add an interval" 0 pawl schedules add tick --type tick --every 1d --at 2030-01-01T00:00:00Z --json
is "in JSON" "$(json "$out" '(d["name"], d["outcome"], d["next_at"])')" "('tick', 'created', '2030-01-01T00:00:00.000000Z')"
exits "add one after another" 0 pawl schedules add mail --type mail --after report --overlap queue
exits "add once" 0 pawl schedules add launch --type launch --at 2031-05-01T12:00:00Z --missed once --disabled
exits "there is one already" 4 pawl schedules add tick --type tick --every 2d
exits "list" 0 pawl schedules list
like "has a title" "$out" '^NAME +WHEN +TYPE +FIRED +SKIPPED +NEXT'
like "and rows" "$out" '^tick +every day +tick +0 +0 +in '
names() { json "$(pawl schedules list --json "$@")" '[s["name"] for s in d["schedules"]]'; }
is "by name" "$(names)" "['launch', 'mail', 'report', 'tick']"
is "a page" "$(names --limit 2 --cursor launch)" "['mail', 'report']"
is "those that are off" "$(names --off)" "['launch']"
is "by prefix" "$(names --prefix re)" "['report']"

exits "show" 0 pawl schedules show tick -n 3
like "the next times" "$out" '^ +2030-01-03T00:00:00.000000Z$'
show() { json "$(pawl schedules show "$1" --json)" "$2"; }
is "the next five" "$(show tick 'd["upcoming"][4]')" "2030-01-05T00:00:00.000000Z"
is "definition and payload" "$(show report '(d["definition"], d["payload"])')" \
    "({'cron': '0 9 * * MON-FRI', 'zone': 'Europe/Berlin', 'type': 'report'}, {'a': 1})"
exits "edit" 0 pawl schedules edit tick --every 2w --not-date 2030-01-15
like "says so" "$out" '^tick  updated: every 2 weeks'
is "the rest stays, an excluded day is left out" "$(show tick 'd["upcoming"][:2]')" \
    "['2030-01-01T00:00:00.000000Z', '2030-01-29T00:00:00.000000Z']"
exits "edit nothing" 0 pawl schedules edit tick
like "says that, too" "$out" 'unchanged'
exits "edit what is not there" 3 pawl schedules edit nothing --every 1d

exits "run" 0 pawl schedules run report --payload '{"a":2}'
first=$out
is "the task names its schedule" "$(task "$first" '(d["schedule"], d["payload"], d["queue"])')" "('report', {'a': 2}, 'recurring')"
like "for people, too" "$(pawl tasks show "$first")" '^schedule +report$'
like "why names it" "$(pawl tasks why "$first")" 'No living node serves queue "recurring".* It is a task of the schedule "report"\.'
exits "one at a time" 4 pawl schedules run report
exits "work" 0 pawl work --queue recurring --once -- true
is "it succeeded" "$(task "$first" 'd["state"]')" succeeded
is "the one after it has run" "$(show mail '(d["fired"], d["occurrences"][0]["after"])')" "(1, '$first')"
is "its history" "$(show report '[(o["state"], o["task"], o["why"]) for o in d["occurrences"]]')" "[('succeeded', '$first', 'by hand')]"

exits "disable" 0 pawl schedules disable report tick --by ann
like "each" "$out" '^tick  disabled$'
is "by whom" "$(show report '(d["status"], d["reason"], d["next_at"])')" "('disabled', 'by ann', None)"
exits "enable" 0 pawl schedules enable report
is "it goes on" "$(show report '(d["status"], d["next_at"] is not None)')" "('enabled', True)"
exits "remove" 0 pawl schedules rm launch tick
exits "is gone" 3 pawl schedules show tick
exits "not there" 3 pawl schedules rm nothing

exits "an impossible date" 2 pawl schedules add bad --type x --cron '0 0 30 2 *'
like "says why" "$err" 'never fires'
exits "out of range" 2 pawl schedules add bad --type x --cron '0 25 * * *'
exits "no such zone" 2 pawl schedules add bad --type x --every 1d --zone Mars/Olympus
like "names it" "$err" 'Mars/Olympus'
exits "no interval" 2 pawl schedules add bad --type x --every often
exits "no time at all" 2 pawl schedules add bad --type x
exits "two times" 2 pawl schedules add bad --type x --every 1d --cron '@daily'
exits "no type" 2 pawl schedules add bad --every 1d
exits "after itself" 2 pawl schedules add bad --type x --after bad
exits "no weekday" 2 pawl schedules add bad --type x --every 1d --not-weekday Tag
exits "both filters" 2 pawl schedules list --off --enabled
exits "nothing matches" 0 pawl schedules list --prefix zzz
is "says so" "$out" "no schedules match"

# What others wrote and nobody understands is put off, and stops nothing.
sqlite3 -cmd '.timeout 10000' "$dir/pawl.db" "UPDATE pawl_schedule_body SET spec = '{\"type\":'; UPDATE pawl_schedule SET look_us = 1"
work --queue recurring -- true
invalid() { [ "$(show report 'd["status"]')" = invalid ]; }
check "a node looks at it" until_true invalid
is "off, with its reason" "$(show report '(d["status"], "not JSON" in d["reason"])')" "('invalid', True)"
