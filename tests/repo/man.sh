#!/usr/bin/env bash
# The manual pages say what the program and pawl.h say, have every command, and are clean roff.
set -euo pipefail
cd "$PAWL_SOURCE_DIR"
failures=0

/usr/bin/python3 scripts/man.py "$PAWL_BIN" --check || failures=1

pages=(docs/man/*.[1-9])
[ "${#pages[@]}" -gt 10 ] || { echo "only ${#pages[@]} manual pages"; failures=1; }
for page in "${pages[@]}"; do
    complaints=$(groff -man -Tutf8 -rLL=110n -ww -z "$page" 2>&1)
    [ -z "$complaints" ] || { echo "$page: $complaints"; failures=1; }
    head -2 "$page" | grep -q '^\.TH ' || { echo "$page has no .TH"; failures=1; }
done

# Every command has its usage in a page; every function of pawl.h is in pawl.3.
text=$(for page in "${pages[@]}"; do groff -man -Tascii -P-cbuo -rLL=300n "$page"; done)
while IFS= read -r command; do
    grep -qE "^ +pawl $command( |$)" <<<"$text" || { echo "no page shows the usage of \"pawl $command\""; failures=1; }
done < <("$PAWL_BIN" --help | sed -n 's/^  \([a-z]\{1,\}\( [a-z]\{1,\}\)\{0,1\}\)   .*/\1/p' | grep -vE '^(pawl|help|version)')
while IFS= read -r function; do
    grep -qF "$function(" <<<"$text" || { echo "pawl.3 does not have $function"; failures=1; }
done < <(grep -oE '^PAWL_API [^(]*\bpawl_[a-z0-9_]+\(' include/pawl.h | sed -E 's/.*\b(pawl_[a-z0-9_]+)\($/\1/')
exit $failures
