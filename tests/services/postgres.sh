#!/usr/bin/env bash
# PostgreSQL of this Debian release on 127.0.0.1.
#   postgres.sh install | start | stop | status | kill | remove | url | sql "SELECT 1"
# Parameters: POSTGRES_PORT (25432), POSTGRES_NAME (postgres: folder of its data), POSTGRES_OPTIONS (more server options).
# User: postgres/test. Data survives kill -9 of the server, not power loss (fsync is off).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PORT=${POSTGRES_PORT:-25432}
HOME_DIR=$SERVICES/${POSTGRES_NAME:-postgres}
PID=$HOME_DIR/pid LOG=$HOME_DIR/server.log DATA=$HOME_DIR/data
bin() { ls -d /usr/lib/postgresql/*/bin 2> /dev/null | sort -V | while read -r d; do [ -x "$d/postgres" ] && echo "$d"; done | tail -n 1; }
# The server refuses to run as root.
AS=(); [ "$(id -u)" != 0 ] || AS=(setpriv --reuid postgres --regid postgres --clear-groups)
client() { PGPASSWORD=test psql -h 127.0.0.1 -p "$PORT" -U postgres -v ON_ERROR_STOP=1 "$@"; }

case ${1:-} in
  install)
    [ -z "$(bin)" ] || exit 0
    # Debian's package would make and start a cluster of its own.
    as_root mkdir -p /etc/postgresql-common
    [ -f /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf > /dev/null
    apt_install postgresql postgresql-client ;;
  start)
    alive "$PID" && exit 0
    [ -n "$(bin)" ] || die "no PostgreSQL server here: run ${0##*/} install first"
    port_free "$PORT"
    if [ ! -f "$HOME_DIR/ready" ]; then
      rm -rf "$HOME_DIR"; mkdir -p "$DATA"; chmod 755 "$SERVICES" "$HOME_DIR"
      echo test > "$HOME_DIR/password"
      [ "$(id -u)" != 0 ] || chown -R postgres: "$HOME_DIR"
      (cd / && "${AS[@]}" "$(bin)/initdb" -D "$DATA" -U postgres --encoding=UTF8 --locale=C.UTF-8 --auth=scram-sha-256 \
        --pwfile="$HOME_DIR/password" --no-sync) > "$HOME_DIR/initdb.log" 2>&1 || { tail -n 20 "$HOME_DIR/initdb.log" >&2; die "initdb failed"; }
      touch "$HOME_DIR/ready"
    fi
    # shellcheck disable=SC2086 # options are words
    (cd / && exec "${AS[@]}" setsid "$(bin)/postgres" -D "$DATA" -p "$PORT" -c listen_addresses=127.0.0.1 -c unix_socket_directories="$HOME_DIR" \
      -c fsync=off -c max_connections=300 -c shared_buffers=128MB -c max_wal_size=512MB ${POSTGRES_OPTIONS:-}) < /dev/null >> "$LOG" 2>&1 &
    echo $! > "$PID"
    wait_for 30 "$PID" "$LOG" client -qAtc 'SELECT 1'
    say "PostgreSQL $(client -qAtc 'SHOW server_version') on 127.0.0.1:$PORT" ;;
  stop) stop_pid "$PID" INT ;;
  remove) stop_pid "$PID" INT; rm -rf "$HOME_DIR" ;;
  kill) alive "$PID" && kill -9 "$(cat "$PID")"; while alive "$PID"; do sleep 0.05; done ;;
  status) if alive "$PID"; then echo "up, pid $(cat "$PID"), port $PORT"; else echo down; exit 1; fi ;;
  url) echo "postgres://postgres:test@127.0.0.1:$PORT/postgres" ;;
  sql) shift; client -c "$*" ;;
  *) echo "usage: ${0##*/} install | start | stop | status | kill | remove | url | sql STATEMENTS" >&2; exit 2 ;;
esac
