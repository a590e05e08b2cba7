#!/usr/bin/env bash
# Each public header compiles alone as C11 and as C++11, without a warning, with gcc and clang.
set -euo pipefail
cd "$PAWL_SOURCE_DIR"

for header in pawl.h pawl/store.h; do
    for compiler in "gcc -x c -std=c11" "clang -x c -std=c11" "g++ -x c++ -std=c++11" "clang++ -x c++ -std=c++11"; do
        echo "$compiler $header"
        echo "#include <$header>" | $compiler -Iinclude -Wall -Wextra -pedantic -Werror -fsyntax-only -
    done
done
