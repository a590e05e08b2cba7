#!/usr/bin/env bash
# Looks for bugs in src/ without running it: clang-tidy (settings: .clang-tidy) and cppcheck (.cppcheck).
#
#   scripts/lint.sh           all files, two or more at a time; a file that was clean and did not change is not looked at again
#   scripts/lint.sh --short   without cppcheck, which takes as long again (part of the check)
#   scripts/lint.sh --deep    with clang's analyzer, which takes some minutes (part of the soak)
#   scripts/lint.sh FILE...   these files
#
# What is known to be clean is remembered in the folder lint of the build (PAWL_BUILD_DIR, else build), by the contents of the file,
# of all it includes, of the settings and of this script.
set -uo pipefail
cd "$(dirname "$0")/.."

# one KNOWN FILE CHECKS DATABASE: a file by clang-tidy; called through xargs below.
if [ "${1:-}" = one ]; then
    out=$(clang-tidy --quiet -p "$5" --checks="$4" --extra-arg=-Wno-unknown-warning-option "$3" 2>&1)
    if [ $? -eq 0 ]; then
        : >"$2"
    else
        grep -vE '^[0-9]+ (warnings?|errors?) |^Suppressed |^Use -header-filter|^error: [0-9]+ warnings? treated' <<<"$out"
        exit 1
    fi
    exit 0
fi

checks='-clang-analyzer-*' # besides those of .clang-tidy
files=()
tools=(clang-tidy cppcheck)
for argument in "$@"; do
    case $argument in
    --deep) checks= ;;
    --short) tools=(clang-tidy) ;;
    -*) echo "lint: unknown argument \"$argument\": use --short, --deep or file names" >&2; exit 2 ;;
    *) files+=("$argument") ;;
    esac
done
for tool in "${tools[@]}"; do
    command -v "$tool" >/dev/null || { echo "lint: $tool is missing: scripts/setup.sh check installs it" >&2; exit 1; }
done
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
build=${PAWL_BUILD_DIR:-build}
if [ ! -e "$build/compile_commands.json" ]; then
    cmake --preset release -B "$build" >/dev/null || exit 1
fi
for header in $(sed -nE 's/^build (gen\/[a-z_]+\.h)[: ].*/\1/p' "$build/build.ninja"); do
    [ -e "$build/$header" ] || cmake --build "$build" --target "$header" >/dev/null || exit 1
done
if [ ${#files[@]} -eq 0 ]; then
    mapfile -t files < <(sed -nE "s|^ *\"file\": \"$PWD/(src/.*\.c)\".*|\1|p" "$build/compile_commands.json" | sort -u)
fi
known=$build/lint
mkdir -p "$known/cppcheck"

# The folders that the build looks for headers in.
mapfile -t folders < <(grep -ohE -- '-(I|isystem) ?[^ "]+' "$build/compile_commands.json" |
    sed 's/^-isystem */-I/' | sort -u | grep -v '/tests')

# What a verdict depends on: the file and all it includes that is ours, and what was asked.
settings=$(cat .clang-tidy scripts/lint.sh <(clang-tidy --version; echo "$checks") | sha256sum)
mapfile -t rules < <(clang -MM -std=c17 -D_GNU_SOURCE "${folders[@]}" "${files[@]}" | sed -e ':a;N;$!ba;s/\\\n//g')
[ ${#rules[@]} -eq ${#files[@]} ] || { echo "lint: clang could not read all files: see above" >&2; exit 1; }
declare -A hash
while read -r sum file; do hash[$file]=$sum; done < <(printf '%s\n' "${rules[@]#*:}" | tr -s ' ' '\n' | sort -u | xargs sha256sum)

# What was not needed for a week is forgotten.
find "$known" -maxdepth 1 -type f -mtime +7 -delete

work=()
keys=
for rule in "${rules[@]}"; do
    read -ra parts <<<"${rule#*:}"
    key=$settings
    for part in "${parts[@]}"; do key+=" ${hash[$part]}"; done
    key=$known/$(sha256sum <<<"$key" | cut -c1-40)
    keys+=" $key"
    if [ -e "$key" ]; then touch "$key"; else work+=("$key" "${parts[0]}" "$checks" "$build"); fi
done
failed=0
if [ ${#work[@]} -gt 0 ]; then
    printf '%s\0' "${work[@]}" | xargs -0 -n 4 -P "$jobs" "$0" one || failed=1
fi

all=$known/all-$(cat .cppcheck <(cppcheck --version; echo "$keys") | sha256sum | cut -c1-40)
if [ -e "$all" ]; then
    touch "$all"
elif [ ${#tools[@]} -eq 1 ]; then
    :
elif cppcheck -j "$jobs" --quiet --error-exitcode=1 --std=c11 --enable=warning,style,performance,portability --inline-suppr \
    --suppressions-list=.cppcheck --library=posix,gnu,sqlite3 --cppcheck-build-dir="$known/cppcheck" \
    --template='{file}:{line}: {message} [{id}]' -D_GNU_SOURCE "${folders[@]}" "${files[@]}"; then
    : >"$all"
else
    failed=1
fi

if [ $failed -ne 0 ]; then
    echo "lint: see above. What is no bug: /* NOLINT(check) */ for clang-tidy, /* cppcheck-suppress id */ for cppcheck, with the reason" >&2
    exit 1
fi
echo "lint: ${#files[@]} files, $((${#work[@]} / 4)) looked at, nothing found"
