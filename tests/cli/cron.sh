#!/usr/bin/env bash
# Cron expressions before a schedule has them: times, notes where clocks are changed, mistakes, zones.
. "$(dirname "$0")/lib.sh"

berlin=(--zone Europe/Berlin)

exits "next" 0 pawl cron next '30 2 * * *' "${berlin[@]}" --from 2026-03-28T00:00:00Z -n 3
like "the expression, its words and its zone" "$out" "^30 2 \* \* \*  at 02:30 every day, Europe/Berlin$"
like "local time, offset and UTC" "$out" "^Sat 2026-03-28 02:30:00 \+01:00  2026-03-28 01:30:00 "
like "a note where clocks go forward" "$out" "^Sun 2026-03-29 03:00:00 \+02:00 .* clocks go forward: 02:30 does not exist, runs at 03:00$"
is "as many as asked for" "$(grep -c '^[A-Z][a-z][a-z] 2026-' <<<"$out")" 3
exits "the other policy" 0 pawl cron next '30 2 * * *' "${berlin[@]}" --from 2026-03-28T12:00:00Z -n 1 --gap skip
like "says what was left out" "$out" "Mon 2026-03-30 02:30:00 .* 02:30 on 2026-03-29 does not exist, left out$"
exits "clocks that go back" 0 pawl cron next '30 2 * * *' "${berlin[@]}" --from 2026-10-24T12:00:00Z -n 2
like "first time only" "$out" "Sun 2026-10-25 02:30:00 \+02:00 .* comes twice, runs the first time only$"
exits "both times" 0 pawl cron next '30 2 * * *' "${berlin[@]}" --from 2026-10-24T12:00:00Z --count 2 --overlap both
like "the first of them" "$out" "02:30:00 \+02:00 .* comes twice, this is the first$"
like "the second of them" "$out" "02:30:00 \+01:00 .* comes twice, this is the second$"

exits "before" 0 pawl cron next '0 0 29 2 *' --from 2026-01-01T00:00:00Z --before -n 2
like "goes back" "$(grep -o '20..-02-29 00:00:00 +00:00' <<<"$out" | tr '\n' ' ')" "^2024-.* 2020-"
exits "no end" 0 pawl cron next '0 0 1 1 *' --from 9998-06-01T00:00:00Z -n 3
like "is said" "$out" "^No later time before the year 10000\.$"
exits "no beginning" 0 pawl cron next '0 0 1 1 *' --from 1970-01-01T00:00:00Z --before --zone America/New_York
like "no beginning: is said" "$out" "^No earlier time since 1970\.$"
exits "from 1970 on" 0 pawl cron next '0 19 31 12 *' --from 1970-01-01T00:00:00Z -n 1 --zone America/New_York
like "1970 is not taken for now" "$out" "^Thu 1970-12-31 19:00:00 -05:00  1971-01-01 00:00:00 "

exits "as JSON" 0 pawl cron next '0 0-23/1 * * 1-5' "${berlin[@]}" --from 2026-03-28T22:30:00Z -n 2 --json
is "says the same" "$(json "$out" 'd["expression"], d["words"], d["zone"], d["gap"], d["overlap"], len(d["times"])')" \
    "('0 * * * MON-FRI', 'every hour on Monday to Friday', 'Europe/Berlin', 'skip', 'both', 2)"
exits "a change as JSON" 0 pawl cron next '30 2 * * *' "${berlin[@]}" --from 2026-03-28T12:00:00Z -n 1 --json
is "at, local, change" "$(json "$out" 'd["times"][0]["at"], d["times"][0]["local"], d["times"][0]["change"], d["times"][0]["skipped"]')" \
    "('2026-03-29T01:00:00.000000Z', '2026-03-29T03:00:00+02:00', 'moved', None)"
exits "a time left out as JSON" 0 pawl cron next '30 2 * * *' "${berlin[@]}" --gap skip --from 2026-03-28T12:00:00Z -n 1 --json
is "skipped" "$(json "$out" 'd["times"][0]["skipped"], d["times"][0]["change"]')" "('2026-03-29T02:30:00', None)"
exits "now, ten times, UTC" 0 pawl cron next '* * * * *' --json
is "by default" "$(json "$out" 'len(d["times"]), d["zone"], d["times"][0]["note"]')" "(10, 'UTC', None)"

exits "a mistake" 2 pawl cron next '0 25 * * *'
like "names the field, the place and what to write" "$err" '^pawl: hour "25" at character 3 of "0 25 \* \* \*" is out of range: write 0-23$'
exits "a mistake as JSON" 2 pawl cron next '0 0 30 2 *' --json
is "is an error" "$(json "$err" 'd["error"]["status"], "never fires" in d["error"]["message"]')" "('invalid', True)"
exits "a zone in another case" 2 pawl cron next @daily --zone europe/berlin
like "is suggested" "$err" 'there is no time zone "europe/berlin": did you mean Europe/Berlin\?'
exits "a city alone" 2 pawl cron next @daily --zone Tokyo
like "a city alone: is suggested" "$err" 'did you mean Asia/Tokyo\?'
exits "a misspelt zone" 2 pawl cron next @daily --zone Europe/Berln
like "misspelt: is suggested" "$err" 'did you mean Europe/Berlin\?'
exits "no such zone" 2 pawl cron next @daily --zone Mars/Olympus_Mons
like "no such zone: says so" "$err" 'there is no time zone "Mars/Olympus_Mons" in /'
exits "a way out of the folder" 2 pawl cron next @daily --zone ../../../etc/passwd
like "is no zone" "$err" '"../../../etc/passwd" is no time zone'
exits "too many" 2 pawl cron next @daily -n 1001
like "the range" "$err" '--count "1001" is not a whole number between 1 and 1000'
exits "-n without a number" 2 pawl cron next @daily -n
exits "another letter" 2 pawl cron next @daily -m 5
exits "a policy that is none" 2 pawl cron next @daily --gap both
exits "no expression" 2 pawl cron next
exits "unquoted" 2 pawl cron next 0 0 1 1 '*'

exits "zones" 0 pawl cron zones
check "all of them" test "$(wc -l <<<"$out")" -gt 400
is "in order" "$out" "$(sort <<<"$out")"
is "none of the copies" "$(grep -cE '^(posix|right)/|localtime' <<<"$out")" 0
exits "some" 0 pawl cron zones berlin
is "by a part of the name" "$out" "Europe/Berlin"
exits "zones as JSON" 0 pawl cron zones lord_ --json
is "are an array" "$(json "$out" 'd["zones"]')" "['Australia/Lord_Howe']"
mkdir empty
exits "no zones installed" 0 env TZDIR="$dir/empty" "$PAWL_BIN" cron next @daily -n 1
exits "but UTC" 2 env TZDIR="$dir/none" "$PAWL_BIN" cron next @daily --zone Europe/Berlin
like "says what to install" "$err" "install the package tzdata"
exits "none to list" 5 env TZDIR="$dir/none" "$PAWL_BIN" cron zones
check "none of this made a store" test ! -e pawl.db
