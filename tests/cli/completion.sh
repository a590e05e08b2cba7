#!/usr/bin/env bash
# Shell completion: bash for real, the others as far as their shells are there.
. "$(dirname "$0")/lib.sh"

exits "bash" 0 pawl completion bash
printf '%s\n' "$out" >pawl.bash
exits "zsh" 0 pawl completion zsh
printf '%s\n' "$out" >_pawl
exits "fish" 0 pawl completion fish
printf '%s\n' "$out" >pawl.fish
exits "another shell" 2 pawl completion tcsh
like "says which there are" "$err" 'bash, zsh and fish'

check "bash reads it" bash -n pawl.bash
if command -v zsh >/dev/null; then check "zsh reads it" zsh -n _pawl; fi
if command -v fish >/dev/null; then check "fish reads it" fish --no-execute pawl.fish; fi

# shellcheck disable=SC1091
. ./pawl.bash
like "it is registered" "$(complete -p pawl)" "-F _pawl pawl"

# offers WORD...: what bash would offer for the last of these words, in one line.
offers() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _pawl
    echo "${COMPREPLY[*]}"
}

is "commands" "$(offers pawl en)" "enqueue"
like "all commands" "$(offers pawl '')" "^enqueue tasks batches queues limits schedules dead work serve tokens config stats nodes log events top doctor cron backup move export import migrate bench completion version help$"
is "the second word" "$(offers pawl tasks '')" "list show why wait cancel retry tree"
is "migrate" "$(offers pawl migrate '')" "status up sql"
is "options" "$(offers pawl migrate up --)" "--dry-run --store --server --token-file --json --no-color --help"
is "options of a command only" "$(offers pawl stats --w)" "--window"
is "global options before the command" "$(offers pawl --j)" "--json"
is "a global option with a value before the command" "$(offers pawl --store x tasks wh)" "why"
is "and with =" "$(offers pawl --store = x tasks wh)" "why"
is "choices" "$(offers pawl bench --mode '')" "full enqueue drain latency schedule look"
is "choices with =" "$(offers pawl bench --mode = d)" "drain"
is "states" "$(offers pawl tasks list --state s)" "scheduled stale succeeded"
is "a name has no choices" "$(offers pawl tasks list --queue '')" ""
is "an option that is a flag here" "$(offers pawl tasks show --audit --f)" "--full"
touch "a file.json" other.json
is "files" "$(offers pawl enqueue --payload-file o)" "other.json"
is "files for a backup" "$(offers pawl backup oth)" "other.json"
is "help" "$(offers pawl help do)" "doctor"
is "help of a group" "$(offers pawl help tasks wh)" "why"
is "completion" "$(offers pawl completion z)" "zsh"
like "a command behind work --" "$(offers pawl work --queue q -- seq)" "(^| )seq( |$)"
is "and its files" "$(offers pawl work --queue q -- cat oth)" "other.json"
is "nothing for ids" "$(offers pawl tasks show '')" ""
is "the demo is hidden" "$(offers pawl dem)" ""

# Every option of every command is in all three.
while IFS= read -r option; do
    grep -qF -- "$option" pawl.bash && grep -qF -- "$option" _pawl && grep -qF -- "-l ${option#--}" pawl.fish
    report $? "$option is known everywhere"
done < <(for command in enqueue "tasks list" "tasks show" work bench "migrate up"; do
    # shellcheck disable=SC2086
    pawl help $command | sed -n 's/^  \(--[a-z-]*\).*/\1/p'
done | sort -u)
