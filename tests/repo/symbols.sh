#!/usr/bin/env bash
# libpawl.so and libpawl.a show exactly the functions that the public headers declare, and need nothing but SQLite and the C library.
set -euo pipefail
cd "$PAWL_BUILD_DIR"
failures=0

declared=$(cat "$PAWL_SOURCE_DIR"/include/pawl.h "$PAWL_SOURCE_DIR"/include/pawl/store.h | tr '\n' ' ' |
    grep -oE 'PAWL_API [^;(]*\bpawl_[a-z0-9_]+\(' | sed -E 's/.*\b(pawl_[a-z0-9_]+)\($/\1/' | sort -u)

compare() {
    local library=$1 shown=$2 difference
    difference=$(diff <(echo "$declared") <(echo "$shown") | grep '^[<>]' || true)
    if [ -n "$difference" ]; then
        echo "$library (< declared but not there, > there but not declared):"
        echo "$difference"
        failures=1
    fi
}

compare libpawl.so "$(nm -D --defined-only libpawl.so | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort -u)"
compare libpawl.a "$(nm -g --defined-only libpawl.a | awk 'NF == 3 { print $3 }' | sort -u)"

soname=$(objdump -p libpawl.so | awk '$1 == "SONAME" { print $2 }')
if [ "$soname" != libpawl.so.0 ]; then
    echo "the soname is \"$soname\""
    failures=1
fi
needed=$(objdump -p libpawl.so | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libsqlite3\.so|libc\.so|libpthread\.so|ld-linux)' || true)
if [ -n "$needed" ]; then
    echo "libpawl.so needs $needed"
    failures=1
fi
exit $failures
