#!/usr/bin/env bash
# The programs printed in README.md and in the comment of pawl.h are one and the same, compile, and do what they say: linked with
# the archive and with the shared library.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# The first ```c block of the README; the indented program at the top of pawl.h, up to its rules.
sed -n '/^```c$/,/^```$/p' "$PAWL_SOURCE_DIR/README.md" | sed '/^```$/,$d; /^```c$/d' >readme.c
text=$(sed -n '/^ \*     #include <pawl.h>/,/^ \* RULES/p' "$PAWL_SOURCE_DIR/include/pawl.h" | sed -E '/RULES/d; s/^ \*( {5})?//')
printf '%s\n' "$text" >header.c
diff readme.c header.c

read -ra flags <<<"${CFLAGS:-} -std=c11 -Wall -Wextra -pedantic -Werror -I$PAWL_SOURCE_DIR/include"
"$CC" "${flags[@]}" -o with_archive readme.c "$PAWL_BUILD_DIR/libpawl.a" -lsqlite3 -lpthread
"$CC" "${flags[@]}" -o with_shared readme.c -L"$PAWL_BUILD_DIR" -lpawl -Wl,-rpath,"$PAWL_BUILD_DIR"
for program in with_archive with_shared; do
    rm -f hello.db*
    output=$(env -u PAWL_STORE ./$program)
    if [ "$output" != 'hello "world"' ]; then
        echo "$program printed: $output"
        exit 1
    fi
done
