#!/bin/sh
# What `make demo` starts: the demo on a SQLite file in the current directory. Builds nothing.
#
#   scripts/demo.sh [STORE-FILE] [OPTIONS OF pawl demo]
#
# PAWL_BIN names the binary (default: build/pawl beside this script's folder).
set -eu

here=$(dirname "$0")
bin=${PAWL_BIN:-$here/../build/pawl}
file=pawl-demo.db
case ${1-} in
'' | -*) ;;
*)
    file=$1
    shift
    ;;
esac

if [ ! -x "$bin" ]; then
    echo "demo: $bin is not there yet; \"make\" builds it" >&2
    exit 1
fi
# Called as ./build/pawl from the top folder, the hints on the screen can be typed as they stand.
if [ -z "${PAWL_BIN-}" ] && [ -x build/pawl ] && [ build/pawl -ef "$bin" ]; then bin=build/pawl; fi
exec "$bin" demo --store "sqlite:$file" "$@"
