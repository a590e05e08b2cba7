#!/bin/sh
# How long it takes to compare a token tells nothing about the tokens that are stored. Usage: constant.sh PROGRAM
set -eu
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "not ok - $*"
    exit 1
}

# memcheck reports a branch, and an address, that depends on what it was told to be unknown.
valgrind --quiet --error-exitcode=99 "$program" hidden || fail "comparing hashes branches on a stored one"
code=0
valgrind --quiet --error-exitcode=99 "$program" careless >/dev/null 2>&1 || code=$?
[ "$code" -eq 99 ] || fail "a comparison that ends at the first difference was not noticed ($code)"

# Instructions of two calls.
count() {
    valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file="$folder/out" "$program" "$@" "$folder/tokens" 2>"$folder/said" ||
        fail "$* ended with $?: $(cat "$folder/said")"
    sed -n 's/.*Collected : //p' "$folder/said"
}

same=$(count same 0)
[ "$same" -gt 64 ] || fail "nothing was counted: $same"
for at in 63 64; do
    [ "$(count same $at)" = "$same" ] || fail "byte $at takes another time than byte 0"
done
token=$(count token 0)
[ "$token" -gt "$same" ] || fail "nothing was counted: $token"
for at in 63; do
    [ "$(count token $at)" = "$token" ] || fail "a token whose hash differs in byte $at takes another time than one in byte 0"
done
echo "ok: $same instructions to compare a hash twice, $token to look for a token twice, wherever they differ"
