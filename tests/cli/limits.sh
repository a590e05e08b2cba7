#!/usr/bin/env bash
# Rate limits from the command line, on a SQLite file.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/limits_cases.sh"

. "$(dirname "$0")/places_cases.sh"
