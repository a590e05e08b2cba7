#!/usr/bin/env bash
# What the tests reach of src/core and src/store: builds with gcov, runs the tests, prints lines and branches of each file and writes
# docs/coverage.md. What no test reaches in src/core must be argued in tests/core/uncovered.txt, or this fails.
#
#   scripts/coverage.sh             builds, runs, reports
#   scripts/coverage.sh --report    reports what was run last
#
# The build is build/coverage, or PAWL_COVERAGE_DIR.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${PAWL_COVERAGE_DIR:-build/coverage}
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
# Left out: what kills its processes, which then tell nothing, and what does not run this build's core and store.
left_out='^(repo_|example_|bench_|canaries_|process_|server_|handlers_|client_|web_|install_|cli_(bench|demo|terminal)$)'

if [ "${1:-}" != --report ]; then
    scripts/setup.sh check
    cmake --preset coverage -B "$dir" >/dev/null
    cmake --build "$dir" --parallel "$jobs" >/dev/null
    find "$dir" -name '*.gcda' -delete
    ctest --test-dir "$dir" --output-on-failure --parallel "$jobs" -LE '^soak$' -E "$left_out"
fi
exec python3 -B scripts/coverage.py "$dir" tests/core/uncovered.txt docs/coverage.md
