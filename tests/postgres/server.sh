#!/usr/bin/env bash
# A PostgreSQL server of the tests' own, and pgbouncer in front of it, on unix sockets in a temporary folder.
#
#   server.sh start FOLDER    starts them; FOLDER/url and FOLDER/proxy_url hold their URLs
#   server.sh stop FOLDER     stops them and removes what they left
#
# With PAWL_TEST_POSTGRES=URL in the environment the tests use that server, and nothing is started. PAWL_TEST_FSYNC=on keeps the server's
# default durability, which tests that measure or crash it want; the others need none.
set -euo pipefail

command=$1 folder=$2
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)

# The server refuses to run as root.
as_user() {
    if [ "$(id -u)" -ne 0 ]; then "$@"
    else setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- env -u HOME "$@"
    fi
}
user=$(id -u postgres >/dev/null 2>&1 && echo postgres || echo nobody)

stop() {
    [ -f "$folder/where" ] || return 0
    local where
    where=$(cat "$folder/where")
    [ ! -f "$where/pgbouncer.pid" ] || kill "$(cat "$where/pgbouncer.pid")" 2>/dev/null || true
    [ ! -f "$where/data/postmaster.pid" ] || as_user "$bin/pg_ctl" -D "$where/data" -m immediate -w stop >/dev/null 2>&1 || true
    rm -rf "$where" "$folder/where" "$folder/url" "$folder/proxy_url"
}

start_server() {
    as_user "$bin/initdb" -D "$where/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 -N >"$where/initdb.log" 2>&1 ||
        { cat "$where/initdb.log" >&2; exit 1; }
    cat >>"$where/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$where'
max_connections = 200
max_prepared_transactions = 4
fsync = ${PAWL_TEST_FSYNC:-off}
shared_buffers = 64MB
logging_collector = off
log_min_messages = warning
autovacuum_naptime = 5s
CONF
    sed -i '1i local all locked scram-sha-256' "$where/data/pg_hba.conf" # the one role that needs a password
    as_user "$bin/pg_ctl" -D "$where/data" -l "$where/server.log" -w -t 60 start >/dev/null ||
        { cat "$where/server.log" >&2; exit 1; }
}

start_proxy() {
    [ -x /usr/sbin/pgbouncer ] || return 0
    cat >"$where/pgbouncer.ini" <<CONF
[databases]
* = host=$where
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $where
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 20
pidfile = $where/pgbouncer.pid
logfile = $where/pgbouncer.log
CONF
    sed -i "s|^\* = host=.*|* = host=$where user=postgres|" "$where/pgbouncer.ini"
    chown "$user" "$where/pgbouncer.ini" 2>/dev/null || true
    as_user /usr/sbin/pgbouncer -d -q "$where/pgbouncer.ini" >/dev/null 2>&1
    echo "postgres://postgres@/postgres?host=$where&port=6432&pawl_proxy=on" >"$folder/proxy_url"
}

case $command in
start)
    mkdir -p "$folder"
    stop
    [ -z "${PAWL_TEST_POSTGRES:-}" ] || exit 0
    [ -n "$bin" ] || { echo "PostgreSQL is not installed: scripts/setup.sh check installs it" >&2; exit 1; }
    where=$(mktemp -d "${TMPDIR:-/tmp}/pawl-pg-XXXXXX")
    chmod 755 "$where"
    [ "$(id -u)" -ne 0 ] || chown "$user" "$where"
    echo "$where" >"$folder/where"
    start_server
    start_proxy
    echo "postgres://postgres@/postgres?host=$where" >"$folder/url"
    ;;
stop) stop ;;
*) echo "server.sh: say start or stop" >&2; exit 2 ;;
esac
