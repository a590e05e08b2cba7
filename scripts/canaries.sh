#!/usr/bin/env bash
# Shows that the tests can fail: builds with the seeded bugs of tests/canaries/canaries.txt, runs the tests that must find them, and
# writes docs/canaries.md.
#
#   scripts/canaries.sh            all of it: some minutes
#   scripts/canaries.sh --quick    the bounded form of `make check`; writes nothing
#   scripts/canaries.sh NAME...    only these
#   scripts/canaries.sh --help     the other options
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh check
exec python3 -B tests/canaries/run.py "$@"
