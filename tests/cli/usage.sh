#!/usr/bin/env bash
# Help for every command, mistakes on the command line, and how they are reported.
. "$(dirname "$0")/lib.sh"

exits "help" 0 pawl --help
like "the overview lists commands" "$out" "^  tasks why +why a task is not running"
check "help COMMAND and COMMAND --help are the same" diff <(pawl help work) <(pawl work --help)
exits "-h" 0 pawl enqueue -h
like "examples" "$out" "^  pawl enqueue --type email.send"

commands=$(pawl --help | sed -n 's/^  \([a-z]\{1,\}\( [a-z]\{1,\}\)\{0,1\}\)   .*/\1/p' | grep -v '^pawl')
is "all commands are found" "$(wc -l <<<"$commands" | tr -d ' ')" 61
while IFS= read -r command; do
    # shellcheck disable=SC2086
    exits "help $command" 0 pawl help $command
    like "$command: usage" "$out" "^usage: pawl $command"
    long=$(awk 'length > 100' <<<"$out")
    is "$command: no long lines" "$long" ""
done <<<"$commands"

exits "no command at all" 2 pawl
like "says what there is" "$err" "usage: pawl COMMAND"
exits "help of a group" 0 pawl help tasks
like "lists its commands" "$out" "tasks cancel"
exits "a group alone" 2 pawl cron
like "a group alone: lists its commands" "$err" "cron next"
exits "a group with --help" 0 pawl queues --help

exits "unknown command" 2 pawl enqueu
like "suggests" "$err" 'unknown command "enqueu": did you mean "enqueue"\?'
exits "unknown second word" 2 pawl tasks lst
like "suggests both words" "$err" 'did you mean "tasks list"\?'
exits "nothing like it" 2 pawl frobnicate
like "points to help" "$err" 'unknown command "frobnicate"'
exits "unknown option" 2 pawl enqueue --type x --pririty 3
like "suggests the option" "$err" 'unknown option "--pririty": did you mean --priority\?'
exits "an option of another command" 2 pawl stats --queue x
like "is unknown" "$err" 'unknown option "--queue"'
exits "a missing value" 2 pawl enqueue --type
like "names the option" "$err" '--type needs a value'
exits "a value for a flag" 2 pawl tasks list --all=yes
like "a value for a flag: says so" "$err" '--all takes no value'
exits "not a number" 2 pawl enqueue --type x --priority 1.5
like "says the range" "$err" '--priority "1.5" is not a whole number between -32768 and 32767'
exits "out of range" 2 pawl tasks list --limit 1001
exits "not a duration" 2 pawl enqueue --type x --delay 5
like "shows how to write it" "$err" 'not a duration: write it like 90s'
exits "not a time" 2 pawl enqueue --type x --at tomorrow
exits "not a choice" 2 pawl bench --mode fast
like "lists the choices" "$err" 'none of full\|enqueue\|drain\|latency\|schedule'
exits "not a name" 2 pawl enqueue --type "$(printf 'a\001b')"
like "says which option is not a name" "$err" '--type is not a name'
exits "not an id" 2 pawl tasks show 12345
like "says what an id is" "$err" '"12345" is not a task id'
exits "too few arguments" 2 pawl tasks show
exits "too many arguments" 2 pawl tasks list extra
like "names the argument" "$err" '"extra"'
exits "--delay and --at" 2 pawl enqueue --type x --delay 5m --at 2030-01-01T00:00:00Z
exits "two payloads" 2 pawl enqueue --type x --payload 1 -
exits "enqueue without a type" 2 pawl enqueue --payload 1
like "says that the type is missing" "$err" '--type is missing'
exits "work without a command" 2 pawl work --queue x
exits "work with a command that is not there" 2 pawl work -- no-such-command-anywhere
like "names the command" "$err" 'cannot find the command "no-such-command-anywhere"'
exits "cancel without saying what" 2 pawl tasks cancel
exits "ids and a filter" 2 pawl dead ack 0000000000001 --all
check "none of this made a store" test ! -e pawl.db

exits "--json errors" 2 pawl enqueue --json --type x --priority x
is "are JSON on standard error" "$(json "$err" 'd["error"]["status"], d["error"]["exit_code"], d["error"]["retryable"]')" "('invalid', 2, False)"
is "and nothing on standard output" "$out" ""

exits "version" 0 pawl version
like "version text" "$out" '^pawl [0-9]+\.[0-9]+\.[0-9]+$'
is "--version is the same" "$(pawl --version)" "$out"
is "version as JSON" "pawl $(json "$(pawl version --json)" 'd["version"]')" "$out"

exits "a full disk behind standard output" 5 bash -c '"$PAWL_BIN" help >/dev/full'
like "is reported" "$err" 'could not write to standard output'

exits "an unknown store" 2 pawl enqueue --type x --store oracle:db
like "the message names it" "$err" 'oracle'
exits "no such file to look into" 3 pawl tasks list --store "sqlite:$dir/none.db"
check "and it was not made" test ! -e none.db
echo "this is no database, however long one looks at it; it only has some text in it" >text.db
exits "not a database" 1 pawl enqueue --type x --store "sqlite:$dir/text.db"
exits "a folder that is not there" 2 pawl enqueue --type x --store "sqlite:$dir/no/such/folder.db"
