#!/usr/bin/env bash
# Looks for bugs in src/ without running it: clang-tidy (settings: .clang-tidy) and cppcheck (.cppcheck).
#
#   scripts/lint.sh           all files, two or more at a time; a file that was clean and did not change is not looked at again
#   scripts/lint.sh --short   without cppcheck, which takes as long again (part of the check)
#   scripts/lint.sh --deep    with all of .clang-tidy, clang's analyzer too, which takes some minutes (part of the soak)
#   scripts/lint.sh FILE...   these files
#
# What is known to be clean is remembered in the folder lint of the build (PAWL_BUILD_DIR, else build), by the contents of the file,
# of all headers, of the settings and of this script.
set -uo pipefail
cd "$(dirname "$0")/.."

# some CHECKS DATABASE (KNOWN FILE)...: files by clang-tidy; called through xargs below. Some at once take less than each alone.
if [ "${1:-}" = some ]; then
    checks=$2 database=$3 files=() known=()
    shift 3
    while [ $# -gt 0 ]; do
        known+=("$1") files+=("$2")
        shift 2
    done
    out=$(clang-tidy --quiet -p "$database" --checks="$checks" --extra-arg=-Wno-unknown-warning-option "${files[@]}" 2>&1)
    if [ $? -eq 0 ]; then
        touch "${known[@]}"
    else
        grep -vE '^[0-9]+ (warnings?|errors?) |^Suppressed |^Use -header-filter|^error: [0-9]+ warnings? treated' <<<"$out"
        exit 1
    fi
    exit 0
fi

checks='-clang-analyzer-*,-bugprone-reserved-identifier' # besides those of .clang-tidy; what takes longest
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

# What a verdict depends on: the file, all headers of ours, and what was asked.
settings=$(cat .clang-tidy scripts/lint.sh <(clang-tidy --version; echo "$checks") \
    <(find src include "$build/gen" -name '*.h' | sort | xargs cat) | sha256sum)
mapfile -t verdicts < <(sha256sum "${files[@]}" | sed "s/^/${settings%% *}/")
[ ${#verdicts[@]} -eq ${#files[@]} ] || exit 1

# What was not needed for a week is forgotten.
find "$known" -maxdepth 1 -type f -mtime +7 -delete

work=()
clean=()
for verdict in "${verdicts[@]}"; do
    key=$known/${verdict%% *}
    if [ -e "$key" ]; then clean+=("$key"); else work+=("$key" "${verdict##* }"); fi
done
[ ${#clean[@]} -eq 0 ] || touch "${clean[@]}"
failed=0
if [ ${#work[@]} -gt 0 ]; then
    printf '%s\0' "${work[@]}" | xargs -0 -n 32 -P "$jobs" "$0" some "$checks" "$build" || failed=1
fi

all=$known/all-$(cat .cppcheck <(cppcheck --version; echo "${verdicts[@]}") | sha256sum | cut -c1-40)
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
echo "lint: ${#files[@]} files, $((${#work[@]} / 2)) looked at, nothing found"
