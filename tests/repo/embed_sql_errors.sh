#!/usr/bin/env bash
# The SQL embedder refuses what it cannot embed, and says why.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0

# refuses FILE TEXT MESSAGE: with this text in this file the embedder must fail with this message.
refuses() {
    rm -rf "$dir/sql"
    mkdir -p "$dir/sql/migrations"
    printf '%s\n' "$2" >"$dir/sql/$1"
    if cmake -D PREFIX=x -D DIR="$dir/sql" -D OUT="$dir/out.h" -P "$PAWL_SOURCE_DIR/cmake/embed_sql.cmake" >"$dir/log" 2>&1; then
        echo "accepted: $2"
        failures=1
    elif ! tr -s ' \n' ' ' <"$dir/log" | grep -qF "$3"; then
        echo "refused without \"$3\": $2"
        cat "$dir/log"
        failures=1
    fi
}

refuses a.sql 'SELECT 1;' 'SQL before the first -- name: line'
refuses a.sql $'-- name: a\n-- name: b\nSELECT 1;' 'the statement "a" is empty'
refuses a.sql $'-- name: a\n-- only a comment' 'the statement "a" is empty'
refuses a.sql $'-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;' 'the name "a" is used twice'
refuses a.sql $'-- name: Wrong-Name\nSELECT 1;' 'cannot read the name'
refuses a.sql $'-- name: a\nSELECT \'open;' 'ends inside a quotation or a comment'
refuses a.sql $'-- name: a\nSELECT 1; /* open' 'ends inside a quotation or a comment'
refuses a.sql $'-- name: a\nSELECT \'\x01\';' 'control characters'
refuses migrations/0002_late.sql 'SELECT 1;' 'migration number 1 was expected'
refuses migrations/first.sql 'SELECT 1;' 'migration number 1 was expected'
refuses migrations/0001_empty.sql '-- nothing' 'the migration is empty'
exit $failures
