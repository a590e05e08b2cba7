#!/usr/bin/env bash
# Who may include whom: cli > server > handlers > runtime > store > core > base, and server, handlers > http > base. A layer uses what is to its right
# and nothing to its left; core reads no clock, takes no lock and does no I/O.
set -euo pipefail
cd "$PAWL_SOURCE_DIR"
failures=0

say() {
    echo "$*"
    failures=$((failures + 1))
}

declare -A uses=(
    [base]="base"
    [core]="core base"
    [store]="store core base"
    [runtime]="runtime store core base"
    [handlers]="handlers http runtime store core base"
    [http]="http base"
    [server]="server http handlers runtime store core base"
    [cli]="cli server http handlers runtime store core base"
)
generated=" sqlite_sql.h postgres_sql.h mysql_sql.h "

# "file:header" for every quoted include of src/.
while IFS=: read -r file header; do
    layer=${file#src/}
    layer=${layer%%/*}
    case $generated in *" $header "*) continue ;; esac
    case " ${uses[$layer]:-} " in
    *" ${header%%/*} "*) [ -e "src/$header" ] || say "$file includes \"$header\", which does not exist" ;;
    *) say "$file may not include \"$header\": $layer uses only: ${uses[$layer]:-nothing (unknown folder)}" ;;
    esac
done < <(grep -rHoE '^ *# *include +"[^"]+"' src --include='*.[ch]' | sed -E 's/: *# *include +"([^"]+)"/:\1/')

# System headers that core must not see, and databases outside of their stores.
while IFS=: read -r file header; do
    say "$file includes <$header>: core does no I/O, takes no locks and reads no clock"
done < <(grep -rHoE '^ *# *include +<(pthread|time|unistd|fcntl|poll|signal|errno|threads|stdatomic|semaphore|sqlite3|sys/[a-z]+)\.h>' \
    src/core --include='*.[ch]' | sed -E 's/: *# *include +<([^>]+)>/:\1/')
while IFS= read -r found; do
    say "$found: core does no I/O"
done < <(grep -rnE '\b(printf|fprintf|vfprintf|dprintf|puts|fputs|fopen|perror|malloc|calloc|free) *\(' src/core --include='*.[ch]' || true)
while IFS= read -r file; do
    say "$file includes <sqlite3.h>: only src/store/sqlite may"
done < <(grep -rlE '^ *# *include +<sqlite3\.h>' src --include='*.[ch]' | grep -v '^src/store/sqlite/' || true)

while IFS= read -r file; do
    say "$file includes <libpq-fe.h>: only src/store/postgres may"
done < <(grep -rlE '^ *# *include +<libpq-fe\.h>' src --include='*.[ch]' | grep -v '^src/store/postgres/' || true)

while IFS= read -r file; do
    say "$file includes <mysql.h>: only src/store/mysql may"
done < <(grep -rlE '^ *# *include +<mysql\.h>' src --include='*.[ch]' | grep -v '^src/store/mysql/' || true)

while IFS= read -r file; do
    say "$file includes <microhttpd.h>: only src/http may"
done < <(grep -rlE '^ *# *include +<microhttpd\.h>' src --include='*.[ch]' | grep -v '^src/http/' || true)

# The public headers stand alone.
while IFS=: read -r file header; do
    case $header in
    pawl.h | stdbool.h | stddef.h | stdint.h) ;;
    *) say "$file includes \"$header\": a public header stands alone" ;;
    esac
done < <(grep -rHoE '^ *# *include +[<"][^>"]+' include | sed -E 's/: *# *include +[<"]/:/')

# What core asks of the C library, seen by the linker: text, memory it was given, assertions. (The compiler turns some calls of
# snprintf into sprintf.)
core=$PAWL_BUILD_DIR/libpawl_core.a
allowed='^(mem(cpy|move|set|cmp|chr)|str[a-z]*|v?sn?printf|qsort|bsearch|__assert_fail|abort|__stack_chk_fail|ldexp|pow|floor'
allowed+='|__(mem|str)[a-z]*_chk|__v?snprintf_chk|_GLOBAL_OFFSET_TABLE_)$'
if [ -e "$core" ]; then
    defined=$(nm --defined-only "$core" "$PAWL_BUILD_DIR/libpawl_base.a" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u)
    while IFS= read -r symbol; do
        say "core calls $symbol, which is neither in core, in base, nor harmless"
    done < <(nm --undefined-only "$core" 2>/dev/null | awk 'NF == 2 { print $2 }' | sort -u | comm -23 - <(echo "$defined") |
        grep -vE "$allowed")
else
    say "$core was not built"
fi

[ "$failures" -eq 0 ]
