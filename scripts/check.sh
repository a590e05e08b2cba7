#!/usr/bin/env bash
# Builds and runs the tests.
#
#   scripts/check.sh quick    the tests labelled quick
#   scripts/check.sh check    all tests but the long ones; then again under ASan+UBSan and under TSan
#   scripts/check.sh soak     the long ones, and each fuzzer for five minutes
#   scripts/check.sh fuzz     each fuzzer for FUZZ_SECONDS (60)
#
# Runs everything even if something fails; the last line counts all runs together.
set -uo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
slots=$((2 * jobs + 4)) # most tests take two, those that only wait take one (pawl_waits in cmake/tests.cmake)
passed=0
failed=0

# run PRESET BINARY_DIR CTEST_ARGUMENT...
run() {
    local preset=$1 dir=$2 log
    shift 2
    echo "== $preset"
    log=$(mktemp)
    if ! { cmake --preset "$preset" "${settings[@]}" && cmake --build "$dir" --parallel "$jobs" "${only[@]}"; } >"$log" 2>&1; then
        grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating|Embedding)' "$log"
        rm -f "$log"
        echo "the $preset build failed"
        failed=$((failed + 1))
        return
    fi
    "${wrap[@]}" ctest --test-dir "$dir" --output-on-failure --no-tests=error --parallel "$slots" "$@" 2>&1 | tee "$log"
    count "$log"
    rm -f "$log"
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
scripts/setup.sh check || exit 1
case ${1:-check} in
quick)
    run release build -L '^quick$'
    ;;
check)
    run release build -LE '^soak$'
    run asan build/asan -LE '^(soak|no-asan)$'
    no_randomisation
    run tsan build/tsan -LE '^(soak|no-tsan)$'
    ;;
soak)
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
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
