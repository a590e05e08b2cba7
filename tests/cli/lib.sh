# Sourced by the tests of the command line: a folder and a store of their own, and checks that print TAP lines.
#
#   check DESC COMMAND...        the command succeeds
#   is DESC GOT WANT             equal texts
#   like DESC GOT REGEX          an extended regular expression is found in it
#   exits DESC CODE COMMAND...   the exit status; leaves $out and $err for further checks
#   json TEXT EXPRESSION         evaluates a Python expression about the parsed text, called d
#   until_true COMMAND...        looks again and again until the command succeeds, or a minute has passed
set -uo pipefail

: "${PAWL_BIN:?says where the binary is}"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(mktemp -d)
cd "$dir" || exit 1
export PAWL_STORE="sqlite:$dir/pawl.db" LC_ALL=C.UTF-8 TZ=UTC
unset DATABASE_URL NO_COLOR
checks=0 failures=0 out="" err=""
workers=()

pawl() { "$PAWL_BIN" "$@"; }

# The system's own, where it has one: that of a version manager takes ten times as long to start.
if [ -x /usr/bin/python3 ]; then python3() { /usr/bin/python3 "$@"; }; fi

finish() {
    local code=$?
    for pid in "${workers[@]}"; do kill -KILL "$pid" 2>/dev/null; done
    wait 2>/dev/null
    cd /
    rm -rf "$dir"
    echo "1..$checks"
    if [ "$code" -ne 0 ] || [ "$failures" -ne 0 ] || [ "$checks" -eq 0 ]; then
        echo "# $failures of $checks failed, exit status $code"
        exit 1
    fi
}
trap finish EXIT

report() { # OK? DESC
    checks=$((checks + 1))
    if [ "$1" = 0 ]; then
        echo "ok $checks - $2"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $checks - $2"
}

note() { printf '%s\n' "$*" | sed 's/^/#   /'; }

check() {
    local desc=$1
    shift
    "$@" >"$dir/.check" 2>&1
    local code=$?
    report $code "$desc"
    [ $code = 0 ] || { note "exit status $code of: $*"; note "$(cat "$dir/.check")"; }
}

is() {
    [ "$2" = "$3" ]
    report $? "$1"
    [ "$2" = "$3" ] || { note "got:  $2"; note "want: $3"; }
}

like() {
    grep -Eq -- "$3" <<<"$2"
    local code=$?
    report $code "$1"
    [ $code = 0 ] || { note "got:  $2"; note "want: $3"; }
}

exits() {
    local desc=$1 want=$2
    shift 2
    out=$("$@" 2>"$dir/.err")
    local code=$?
    err=$(cat "$dir/.err")
    [ $code = "$want" ]
    report $? "$desc"
    [ $code = "$want" ] || { note "exit status $code, not $want, of: $*"; note "$out"; note "$err"; }
}

json() { python3 -I -S -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$2" <<<"$1"; }

task() { json "$(pawl tasks show "$1" --json "${@:3}")" "$2"; } # ID EXPRESSION

until_true() {
    local deadline=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $deadline ]; then
            echo "# gave up waiting for: $*"
            return 1
        fi
        read -rt 0.02 <> <(:) # nothing ever comes: looks again soon
    done
    return 0
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# Starts `pawl work` with the given arguments in the background; its number is $worker.
work() {
    "$PAWL_BIN" work "$@" >"$dir/work.out" 2>"$dir/work.err" &
    worker=$!
    workers+=("$worker")
}

# Sends a signal to the last worker and waits for its exit status.
stop_work() {
    kill -"${1:-TERM}" "$worker"
    wait "$worker"
}
