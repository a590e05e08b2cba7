#!/usr/bin/env bash
# Formats all C files, or with --check only says which ones are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-format >/dev/null; then
    echo "format: clang-format is missing: scripts/setup.sh check installs it" >&2
    exit 1
fi
folders=()
for folder in src include tests examples bench; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
done
files() { find "${folders[@]}" \( -name '*.[ch]' -o -name '*.cpp' \) -print0; }
case ${1:-} in
"") files | xargs -0 --no-run-if-empty clang-format --style=file -i ;;
--check)
    bad=$(files | xargs -0 --no-run-if-empty clang-format --style=file --dry-run 2>&1 | sed -nE 's/^([^: ]+):[0-9]+:.*/\1/p' | sort -u)
    [ -z "$bad" ] || { printf 'not formatted (make format): %s\n' $bad; exit 1; }
    ;;
*) echo "format: unknown argument \"$1\": use --check or nothing" >&2; exit 2 ;;
esac
