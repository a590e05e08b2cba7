#!/usr/bin/env bash
# Builds and runs the tests.
#
#   scripts/check.sh quick    the tests labelled quick
#   scripts/check.sh check    all tests but the long ones, most of them again under ASan+UBSan and under TSan
#   scripts/check.sh soak     the long ones, and each fuzzer for five minutes
#   scripts/check.sh fuzz     each fuzzer for FUZZ_SECONDS (60)
#
# Runs everything even if something fails; the last line counts all runs together. Of a few tests that fail each gets a second try,
# alone (but not of the long forms): one that then passes counts as passed, and is named in the line before the last. What a
# sanitizer reported stays a failure, and so does a broken promise.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
slots=$((2 * jobs + 4)) # most tests take two, those that only wait take one (pawl_waits in cmake/tests.cmake)
chances=5 # where more tests fail than that, it was not by chance; the long forms look for what happens seldom, and have none
passed=0
failed=0
second=() # those that passed only at the second try

# build PRESET BINARY_DIR
build() { cmake --preset "$1" "${settings[@]}" && cmake --build "$2" --parallel "$jobs" "${only[@]}"; }

# ahead PRESET BINARY_DIR...: builds these with what the tests meanwhile leave idle. Their run says what is wrong with them.
ahead() {
    renice -n 19 "$BASHPID"
    while [ $# -gt 0 ]; do
        build "$1" "$2"
        shift 2
    done
} >/dev/null 2>&1

# run PRESET BINARY_DIR CTEST_ARGUMENT...
run() {
    local preset=$1 dir=$2 log before
    shift 2
    echo "== $preset"
    log=$(mktemp)
    if ! build "$preset" "$dir" >"$log" 2>&1; then
        grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating|Embedding)' "$log"
        rm -f "$log"
        echo "the $preset build failed"
        failed=$((failed + 1))
        return
    fi
    set -m # so that it can be stopped with all its children
    ahead "${next[@]}" &
    set +m
    builder=$!
    trap 'kill -- -$builder 2>/dev/null' EXIT
    before=$failed
    tests "$dir" "$slots" "$@" | tee "$log"
    count "$log"
    wait $builder
    [ "$failed" -eq "$before" ] || again "$preset" "$dir" "$log" "$@"
    rm -f "$log"
}

# tests BINARY_DIR SLOTS CTEST_ARGUMENT...
tests() {
    local dir=$1 most=$2
    shift 2
    rm -f "$dir/Testing/Temporary/LastTestsFailed.log"
    "${wrap[@]}" ctest --test-dir "$dir" --output-on-failure --no-tests=error --parallel "$most" "$@" 2>&1
}

# again PRESET BINARY_DIR LOG CTEST_ARGUMENT...: the second try of those that failed in the run whose output is in the file LOG
again() {
    local preset=$1 dir=$2 log=$3 names
    shift 3
    names=$(comm -23 <(bad "$dir") <(reported "$log"))
    if [ -z "$names" ] || [ "$(wc -l <<<"$names")" -gt "$chances" ]; then
        return
    fi
    echo "== $preset, second try"
    tests "$dir" 1 "$@" -R "^($(paste -sd '|' <<<"$names"))\$" | tee "$log"
    grep -q 'tests passed, ' "$log" || return
    while read -r name; do
        second+=("$name ($preset)")
        passed=$((passed + 1))
        failed=$((failed - 1))
    done < <(comm -23 <(echo "$names") <(bad "$dir"))
}

# The names of the tests that failed in the last run, sorted.
bad() { sed 's/^[0-9]*://' "$1/Testing/Temporary/LastTestsFailed.log" 2>/dev/null | sort; }

# The names of the tests, sorted, below whose result in ctest's output there is what no busy machine explains: the report of a
# sanitizer or of valgrind, or the verdict of tests/process/history.py.
reported() {
    awk '/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / { name = $4 }
         name != "" && /Sanitizer:|runtime error:|==[0-9]+==|a promise was broken/ { print name }' "$1" | sort -u
}

# Adds ctest's own count, from the file named, to ours.
count() {
    local bad all
    if read -r bad all < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)$/\1 \2/p' "$1") && [ -n "$all" ]; then
        passed=$((passed + all - bad))
        failed=$((failed + bad))
    else
        failed=$((failed + 1))
    fi
}

# fuzz SECONDS
fuzz() {
    chances=0
    settings=("-DPAWL_FUZZ_SECONDS=$1")
    only=(--target fuzzers)
    run fuzz build/fuzz -L '^fuzz$'
}

# ThreadSanitizer cannot place its shadow memory where the kernel randomises addresses too widely.
no_randomisation() {
    setarch "$(uname -m)" -R true 2>/dev/null && wrap=(setarch "$(uname -m)" -R)
}

wrap=()
settings=()
only=()
next=() # what is built while the tests run
scripts/setup.sh check || exit 1
case ${1:-check} in
quick)
    run release build -L '^quick$'
    ;;
check)
    next=(asan build/asan tsan build/tsan)
    run release build -LE '^(soak|no-release)$'
    next=()
    run asan build/asan -LE '^(soak|no-asan)$'
    no_randomisation
    run tsan build/tsan -LE '^(soak|no-tsan)$'
    ;;
soak)
    chances=0
    run release build -L '^soak$' --parallel 1
    fuzz 300
    ;;
fuzz)
    fuzz "${FUZZ_SECONDS:-60}"
    ;;
*)
    echo "check: unknown suite \"$1\": use quick, check, soak or fuzz" >&2
    exit 2
    ;;
esac
[ ${#second[@]} -eq 0 ] || echo "passed only at the second try: $(printf '%s, ' "${second[@]}" | sed 's/, $//')"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
