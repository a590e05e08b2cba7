#!/bin/sh
# What `make run` starts: the server with a few handlers and a trickle of tasks, on a SQLite file in the current directory. Builds nothing.
#
#   scripts/run.sh [OPTIONS OF pawl serve]
#
# PAWL_BIN names the binary (default: build/pawl beside this script's folder).
set -eu

here=$(dirname "$0")
bin=${PAWL_BIN:-$here/../build/pawl}
if [ ! -x "$bin" ]; then
    echo "run: $bin is not there yet; \"make\" builds it" >&2
    exit 1
fi
# Called as ./build/pawl from the top folder, the hints on the screen can be typed as they stand.
if [ -z "${PAWL_BIN-}" ] && [ -x build/pawl ] && [ build/pawl -ef "$bin" ]; then bin=build/pawl; fi
exec "$bin" serve --demo --store sqlite:pawl-demo.db --log-level warn "$@"
