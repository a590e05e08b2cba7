#!/usr/bin/env bash
# The unit files: systemd understands them, and finds little to attack.
set -euo pipefail

packaging=$(dirname "$0")/../../packaging
level=$(systemd-analyze security --offline=true "$packaging/pawl.service" | sed -n 's/.*exposure level for pawl.service: \([0-9.]*\).*/\1/p')
echo "exposure level $level"
awk -v level="$level" 'BEGIN { exit !(level > 0 && level < 2.0) }'
