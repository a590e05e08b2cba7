#!/usr/bin/env bash
# Every folder explains itself, every source file is compiled, nothing is left to do later.
set -euo pipefail
cd "$PAWL_SOURCE_DIR"
failures=0

say() {
    echo "$*"
    failures=$((failures + 1))
}

# A README in each folder of src/ that holds code.
while IFS= read -r folder; do
    [ -s "$folder/README.md" ] || say "$folder has no README.md"
done < <(find src -name '*.[ch]' -printf '%h\n' | sort -u)

for file in README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md LICENSE; do
    [ -s "$file" ] || say "$file is missing"
done

# Every C file is found by the build.
while IFS= read -r file; do
    grep -qF "$PAWL_SOURCE_DIR/$file\"" "$PAWL_BUILD_DIR/compile_commands.json" || say "$file is not compiled by any target"
done < <(find src tests examples bench -name '*.c' -o -name '*.cpp' 2>/dev/null | sort)

# Work that was put off, spelled so that this file does not find itself.
while IFS= read -r found; do
    say "left to do: $found"
done < <(grep -rnE "\b(TO""DO|FIX""ME|XX""X)\b" --include='*.[ch]' --include='*.sql' --include='*.sh' --include='*.md' --include='*.cmake' \
    --include=CMakeLists.txt --include=Makefile --exclude-dir=build --exclude-dir=node_modules . || true)

# Links between the Markdown files lead somewhere.
while IFS=: read -r file link; do
    [ -e "$(dirname "$file")/${link%%#*}" ] || say "$file links to $link, which does not exist"
done < <(grep -roE '\]\([^)#: ]+(#[^)]*)?\)' --include='*.md' --exclude-dir=build --exclude-dir=node_modules . | sed -E 's/:\]\(([^)]*)\)/:\1/')

[ "$failures" -eq 0 ]
