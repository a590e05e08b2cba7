#!/usr/bin/env bash
# Installs what is missing on a Debian-like machine, and nothing else.
#
#   scripts/setup.sh build    what `make` needs
#   scripts/setup.sh check    what `make check` needs as well
#
# What comes from npm is for the dashboard alone, and goes into web/node_modules.
# PAWL_SETUP=no turns it off: then what is missing is only named.
set -euo pipefail

mode=${1:-check}

# What is needed: a command or a file that proves it is there, and the package that brings it.
needs_build=(
    "command:cc gcc"
    "header:stdlib.h libc6-dev"
    "command:objcopy binutils"
    "command:cmake cmake"
    "command:ninja ninja-build"
    "command:pkg-config pkg-config"
    "header:sqlite3.h libsqlite3-dev"
    "module:libmicrohttpd libmicrohttpd-dev"
    "module:gnutls libgnutls28-dev"
    "module:libcurl libcurl4-gnutls-dev"
    "module:libpq libpq-dev"
    "module:libmariadb libmariadb-dev"
)
needs_check=(
    "command:gcc gcc"
    "command:g++ g++"
    "command:clang clang"
    "command:llvm-symbolizer llvm"
    "command:clang-format clang-format"
    "command:clang-tidy clang-tidy"
    "command:cppcheck cppcheck"
    "command:valgrind valgrind"
    "command:sqlite3 sqlite3"
    "command:strace strace"
    "postgres:initdb postgresql"
    "command:/usr/sbin/pgbouncer pgbouncer"
    "command:/usr/sbin/mariadbd mariadb-server-core"
    "command:mariadb mariadb-client-core"
    "command:openssl openssl"
    "command:groff groff-base"
    "command:ps procps"
    "command:setarch util-linux"
    "command:/usr/bin/python3 python3"
    "python:croniter python3-croniter"
    "python:aiosmtpd python3-aiosmtpd"
    "command:systemd-analyze systemd"
    "file:/usr/share/zoneinfo/Europe/Berlin tzdata"
    "header:cmocka.h libcmocka-dev"
    "header:jansson.h libjansson-dev"
    "runtime:clang libclang-rt-dev"
    "command:chromium-headless-shell chromium-headless-shell"
)

# Whether "kind:what" is there.
have() {
    local kind=${1%%:*} what=${1#*:}
    case $kind in
    command) command -v "$what" >/dev/null ;;
    module) pkg-config --exists "$what" 2>/dev/null ;;
    postgres) compgen -G "/usr/lib/postgresql/*/bin/$what" >/dev/null ;;
    file) [ -e "$what" ] ;;
    python) /usr/bin/python3 -c "import $what" 2>/dev/null ;;
    header) echo "#include <$what>" | cc -E -x c - >/dev/null 2>&1 ;;
    runtime) [ -e "$("$what" -print-runtime-dir 2>/dev/null)/libclang_rt.fuzzer-$(uname -m).a" ] ;;
    esac
}

case $mode in
build) needs=("${needs_build[@]}") ;;
check) needs=("${needs_build[@]}" "${needs_check[@]}") ;;
*) echo "setup: unknown mode \"$mode\": use build or check" >&2; exit 2 ;;
esac

# What the dashboard is built with comes from npm, by the names and hashes of web/package-lock.json. A build without it has none, and says so.
web() {
    local web stamp sum
    web=$(dirname "$0")/../web
    stamp=$web/node_modules/.setup-$mode
    sum=$(sha256sum <"$web/package-lock.json")
    [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || return 0
    if [ "${PAWL_SETUP:-yes}" = no ]; then
        echo "setup: the packages of web/ are missing: no dashboard (not installed because PAWL_SETUP=no)" >&2
        return 0
    fi
    if ! command -v npm >/dev/null; then
        packages=(nodejs npm)
        echo "setup: installing ${packages[*]}"
        if ! { prepare && try; } >/dev/null 2>&1; then
            echo "setup: npm is missing and could not be installed: no dashboard" >&2
            return 0
        fi
    fi
    local omit=(--omit=dev)
    [ "$mode" = build ] || omit=()
    echo "setup: installing the packages of web/"
    if ! npm ci --prefix "$web" --ignore-scripts --loglevel=error "${omit[@]}"; then
        echo "setup: could not install the packages of web/: no dashboard" >&2
        [ "$mode" = build ]
        return
    fi
    echo "$sum" >"$stamp"
    [ "$mode" = build ] || echo "$sum" >"$web/node_modules/.setup-build"
}

packages=()
for need in "${needs[@]}"; do
    have "${need% *}" || packages+=("${need##* }")
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Whether, and how, packages can be installed here.
prepare() {
    if [ "${PAWL_SETUP:-yes}" = no ]; then
        echo "setup: missing: ${packages[*]} (not installed because PAWL_SETUP=no)" >&2
        return 1
    fi
    if ! command -v apt-get >/dev/null; then
        echo "setup: missing: ${packages[*]} (Debian's names). This machine has no apt-get: install them by its own means and repeat." >&2
        return 1
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "setup: missing: ${packages[*]}. Installing needs root or sudo: run as root" >&2
            echo "    apt-get install ${packages[*]}" >&2
            return 1
        fi
        as_root=(sudo)
    fi
    install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends)
}

once() { "${install[@]}" "${packages[@]}" </dev/null >"$log" 2>&1; }

# The package lists may be missing or too old: only then are they fetched.
try() { once || { "${as_root[@]}" apt-get update </dev/null >"$log" 2>&1 && once; }; }

if [ ${#packages[@]} -gt 0 ]; then
    prepare || exit 1
    echo "setup: installing ${packages[*]}"
    try || { cat "$log" >&2; echo "setup: could not install ${packages[*]}: see above" >&2; exit 1; }
    for need in "${needs[@]}"; do
        have "${need% *}" || { echo "setup: ${need% *} is still missing after installing ${need##* }" >&2; exit 1; }
    done
fi
web
