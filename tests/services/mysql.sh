#!/usr/bin/env bash
# MySQL (Debian packages only the newest, in its unreleased suite) on 127.0.0.1, with a row binlog and GTIDs.
#   mysql.sh install | start | stop | status | kill | remove | url | sql "SELECT 1"
# Parameters: MYSQL_PORT (23307), MYSQL_NAME (mysql: folder of its data), MYSQL_OPTIONS (more server options).
# Users: root/test (everything), cdc/cdc (what a source needs).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PORT=${MYSQL_PORT:-23307}
ROOT=$SERVICES/mysql-root
HOME_DIR=$SERVICES/${MYSQL_NAME:-mysql}
PID=$HOME_DIR/pid SOCKET=$HOME_DIR/socket LOG=$HOME_DIR/server.log DATA=$HOME_DIR/data
# shellcheck disable=SC2046 # words
client() { $(foreign "$ROOT" /usr/bin/mysql) --no-defaults -S "$SOCKET" -uroot "$@"; }
# A server that starts removes what others have in a folder of temporary files that they share.
TEMPORARY=$HOME_DIR/tmp
COMMON=(--no-defaults "--user=$(id -un)" "--basedir=$ROOT/usr" "--datadir=$DATA" "--tmpdir=$TEMPORARY" "--lc-messages-dir=$ROOT/usr/share/mysql"
  "--character-sets-dir=$ROOT/usr/share/mysql/charsets" "--plugin-dir=$ROOT/usr/lib/mysql/plugin" --secure-file-priv=NULL --innodb-redo-log-capacity=64M)

users() {
  client << 'SQL'
CREATE USER root@'127.0.0.1' IDENTIFIED BY 'test';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE USER cdc@'127.0.0.1' IDENTIFIED BY 'cdc';
GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc@'127.0.0.1';
SQL
}

case ${1:-} in
  install) as_root env SERVICES="$SERVICES" "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh" sid "$ROOT" mysql-server-core mysql-client-core ;;
  start)
    alive "$PID" && exit 0
    [ -d "$ROOT" ] || die "MySQL is not unpacked: run ${0##*/} install first"
    port_free "$PORT"
    first=
    if [ ! -f "$HOME_DIR/ready" ]; then
      first=1; rm -rf "$HOME_DIR"; mkdir -p "$DATA" "$TEMPORARY"
      # shellcheck disable=SC2046
      $(foreign "$ROOT" /usr/sbin/mysqld) "${COMMON[@]}" --initialize-insecure > "$HOME_DIR/initialize.log" 2>&1 ||
        { tail -n 20 "$HOME_DIR/initialize.log" >&2; die "could not make the data directory"; }
    fi
    rm -f "$SOCKET" "$SOCKET.lock"
    # shellcheck disable=SC2046,SC2086 # words
    setsid $(foreign "$ROOT" /usr/sbin/mysqld) "${COMMON[@]}" --port="$PORT" --bind-address=127.0.0.1 --socket="$SOCKET" --pid-file="$HOME_DIR/server.pid" \
      --mysqlx=OFF --skip-name-resolve --performance-schema=OFF --innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=2 \
      --innodb-use-native-aio=OFF --sync-binlog=0 --server-id=1 --log-bin=binlog --binlog-row-image=FULL --binlog-row-metadata=FULL \
      --gtid-mode=ON --enforce-gtid-consistency=ON --event-scheduler=OFF --log-error="$LOG" ${MYSQL_OPTIONS:-} < /dev/null > "$HOME_DIR/out.log" 2>&1 &
    echo $! > "$PID"
    wait_for 30 "$PID" "$LOG" client -e 'SELECT 1'
    [ -z "$first" ] || { users; touch "$HOME_DIR/ready"; }
    say "MySQL $(client -Nse 'SELECT VERSION()') on 127.0.0.1:$PORT" ;;
  stop) stop_pid "$PID" TERM ;;
  kill) alive "$PID" && kill -9 "$(cat "$PID")"; while alive "$PID"; do sleep 0.05; done ;;
  remove) stop_pid "$PID" TERM; rm -rf "$HOME_DIR" ;;
  status) if alive "$PID"; then echo "up, pid $(cat "$PID"), port $PORT"; else echo down; exit 1; fi ;;
  url) echo "mysql://root:test@127.0.0.1:$PORT" ;;
  sql) shift; client -e "$*" ;;
  *) echo "usage: ${0##*/} install | start | stop | status | kill | remove | url | sql STATEMENTS" >&2; exit 2 ;;
esac
