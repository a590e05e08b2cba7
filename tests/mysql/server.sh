#!/usr/bin/env bash
# A MariaDB server of the tests' own, on a unix socket in a temporary folder. The package's own server is neither used nor needed.
#
#   server.sh start FOLDER    starts it; FOLDER/url holds its URL, without a database
#   server.sh stop FOLDER     stops it and removes what it left
#
# With PAWL_TEST_MYSQL=URL in the environment the tests use that server, and nothing is started. PAWL_TEST_FSYNC=on keeps the server's
# default durability, which tests that measure or crash it want; the others need none.
set -euo pipefail

command=$1 folder=$2
PATH=$PATH:/usr/sbin

# The server refuses to run as root.
as_user() {
    if [ "$(id -u)" -ne 0 ]; then "$@"
    else setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- env -u HOME "$@"
    fi
}
user=$(id -u mysql >/dev/null 2>&1 && echo mysql || echo nobody)

stop() {
    [ -f "$folder/where" ] || return 0
    local where pid
    where=$(cat "$folder/where")
    if [ -f "$where/pid" ]; then
        pid=$(cat "$where/pid")
        kill -KILL "$pid" 2>/dev/null || true
        while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    fi
    rm -rf "$where" "$folder/where" "$folder/url"
}

# A server that starts empties its folder for temporary tables, so each has its own.
start_server() {
    as_user env TMPDIR="$where" mariadb-install-db --no-defaults --datadir="$where/data" --auth-root-authentication-method=normal --skip-test-db \
        --skip-name-resolve >"$where/install.log" 2>&1 || { cat "$where/install.log" >&2; exit 1; }
    as_user mariadbd --no-defaults --datadir="$where/data" --tmpdir="$where" --socket="$where/socket" --pid-file="$where/pid" --skip-networking \
        --max-connections=200 --innodb-buffer-pool-size=128M --innodb-log-file-size=48M --innodb-flush-log-at-trx-commit="$flush" --character-set-server=latin1 \
        --transaction-isolation=REPEATABLE-READ --sql-mode= --log-error="$where/server.log" >/dev/null 2>&1 </dev/null &
    for _ in $(seq 600); do
        mariadb --no-defaults --socket="$where/socket" -uroot -e 'SELECT 1' >/dev/null 2>&1 && return
        sleep 0.1
    done
    cat "$where/server.log" >&2
    exit 1
}

case $command in
start)
    mkdir -p "$folder"
    stop
    [ -z "${PAWL_TEST_MYSQL:-}" ] || exit 0
    command -v mariadbd >/dev/null || { echo "MariaDB is not installed: scripts/setup.sh check installs it" >&2; exit 1; }
    flush=1 place=${TMPDIR:-/tmp}
    if [ "${PAWL_TEST_FSYNC:-off}" != on ]; then
        flush=0
        [ -n "${TMPDIR:-}" ] || [ "$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -lt 2000000 ] 2>/dev/null || place=/dev/shm
    fi
    where=$(mktemp -d "$place/pawl-my-XXXXXX")
    chmod 755 "$where"
    [ "$(id -u)" -ne 0 ] || chown "$user" "$where"
    echo "$where" >"$folder/where"
    start_server
    echo "mysql://root@/?socket=$where/socket" >"$folder/url"
    ;;
stop) stop ;;
*) echo "server.sh: say start or stop" >&2; exit 2 ;;
esac
