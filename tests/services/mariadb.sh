#!/usr/bin/env bash
# MariaDB of this Debian release or of another one, with a row binlog, on 127.0.0.1.
#   mariadb.sh install | start | stop | status | kill | remove | url | sql "SELECT 1"
# Parameters: MARIADB_PORT (23306), MARIADB_NAME (mariadb: folder of its data), MARIADB_OPTIONS (more server options),
# MARIADB_SUITE (none: this machine's; trixie: that Debian release's, which is 11.8).
# Users: root/test (everything), cdc/cdc (what a source needs).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
PORT=${MARIADB_PORT:-23306}
HOME_DIR=$SERVICES/${MARIADB_NAME:-mariadb}
PID=$HOME_DIR/pid SOCKET=$HOME_DIR/socket LOG=$HOME_DIR/server.log DATA=$HOME_DIR/data
SUITE=${MARIADB_SUITE:-} ROOT=
[ -z "$SUITE" ] || ROOT=$SERVICES/mariadb-root-$SUITE
SHARE=$ROOT/usr/share/mysql
[ -d "$SHARE/charsets" ] || SHARE=$ROOT/usr/share/mariadb
PLUGINS=$SERVICES/mariadb-plugins${SUITE:+-$SUITE}
# A login besides those that every server has.
PLUGIN=auth_ed25519; [ -z "$SUITE" ] || PLUGIN=auth_parsec
# The words that run a program of this server.
program() { if [ -n "$ROOT" ]; then foreign "$ROOT" "/usr/$1"; else echo "${1##*/}"; fi; }
# shellcheck disable=SC2046 # words
client() { $(program bin/mariadb) --no-defaults -S "$SOCKET" -uroot "$@"; }
# A server that starts removes what others have in a folder of temporary files that they share.
TEMPORARY=$HOME_DIR/tmp
COMMON=(--no-defaults "--user=$(id -un)" "--datadir=$DATA" "--tmpdir=$TEMPORARY" "--lc-messages-dir=$SHARE" "--character-sets-dir=$SHARE/charsets")
[ -z "$ROOT" ] || COMMON+=("--basedir=$ROOT/usr")

initialise() {
  rm -rf "$HOME_DIR"; mkdir -p "$DATA" "$TEMPORARY"
  local prefix=mysql; [ -f "$SHARE/mysql_system_tables.sql" ] || prefix=mariadb
  # The bootstrap reads one statement a line.
  {
    printf '%s\n' 'CREATE DATABASE mysql;' 'USE mysql;' 'SET @auth_root_socket=NULL;' 'SET @skip_auth_anonymous=1;'
    cat "$SHARE/${prefix}_system_tables.sql" "$SHARE/${prefix}_performance_tables.sql" "$SHARE/${prefix}_system_tables_data.sql" "$SHARE/fill_help_tables.sql"
    # shellcheck disable=SC2046 # words
  } | $(program sbin/mariadbd) "${COMMON[@]}" --bootstrap --enforce-storage-engine= > "$HOME_DIR/bootstrap.log" 2>&1 ||
    { tail -n 20 "$HOME_DIR/bootstrap.log" >&2; die "could not make the system tables"; }
}

# The login comes in the package that would also run a server of the system: its file alone is taken out.
login_plugin() {
  [ ! -f "$PLUGINS/$PLUGIN.so" ] || return 0
  [ -z "$SUITE" ] || export APT_CONFIG=$SERVICES/apt-$SUITE/apt.conf
  rm -rf "$PLUGINS.new"; mkdir -p "$PLUGINS.new"
  (cd "$PLUGINS.new" && { apt-get download -qq mariadb-server || { as_root apt-get update -qq && apt-get download -qq mariadb-server; }; } &&
    dpkg-deb --fsys-tarfile mariadb-server_*.deb | tar -x --strip-components=5 "./usr/lib/mysql/plugin/$PLUGIN.so" &&
    rm mariadb-server_*.deb) > "$PLUGINS.log" 2>&1 || { tail "$PLUGINS.log" >&2; die "the package mariadb-server gave no login plugin"; }
  mv "$PLUGINS.new" "$PLUGINS"
}

users() {
  client << 'SQL'
CREATE OR REPLACE USER root@'127.0.0.1' IDENTIFIED BY 'test';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
CREATE OR REPLACE USER cdc@'127.0.0.1' IDENTIFIED BY 'cdc';
GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc@'127.0.0.1';
SQL
}

case ${1:-} in
  install)
    if [ -z "$SUITE" ]; then
      apt_install mariadb-server-core mariadb-client-core
    else
      as_root env SERVICES="$SERVICES" "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh" "$SUITE" "$ROOT" mariadb-server-core mariadb-client-core
    fi
    login_plugin ;;
  start)
    alive "$PID" && exit 0
    port_free "$PORT"
    first=; [ -f "$HOME_DIR/ready" ] || { first=1; initialise; }
    rm -f "$SOCKET"
    # shellcheck disable=SC2046,SC2086 # words
    setsid $(program sbin/mariadbd) "${COMMON[@]}" --port="$PORT" --bind-address=127.0.0.1 --socket="$SOCKET" --pid-file="$HOME_DIR/server.pid" \
      --skip-name-resolve --innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=2 --innodb-use-native-aio=OFF \
      --max-connections=300 --server-id=1 --log-bin=binlog --binlog-format=ROW --binlog-row-image=FULL --binlog-row-metadata=FULL --sync-binlog=0 \
      --gtid-strict-mode=ON "--plugin-dir=$PLUGINS" "--plugin-load-add=$PLUGIN" --log-error="$LOG" ${MARIADB_OPTIONS:-} < /dev/null > "$HOME_DIR/out.log" 2>&1 &
    echo $! > "$PID"
    wait_for 30 "$PID" "$LOG" client -e 'SELECT 1'
    [ -z "$first" ] || { users; touch "$HOME_DIR/ready"; }
    say "MariaDB $(client -Nse 'SELECT VERSION()') on 127.0.0.1:$PORT" ;;
  stop) stop_pid "$PID" TERM ;;
  kill) alive "$PID" && kill -9 "$(cat "$PID")"; while alive "$PID"; do sleep 0.05; done ;;
  remove) stop_pid "$PID" TERM; rm -rf "$HOME_DIR" ;;
  status) if alive "$PID"; then echo "up, pid $(cat "$PID"), port $PORT"; else echo down; exit 1; fi ;;
  url) echo "mysql://root:test@127.0.0.1:$PORT" ;;
  sql) shift; client -e "$*" ;;
  *) echo "usage: ${0##*/} install | start | stop | status | kill | remove | url | sql STATEMENTS" >&2; exit 2 ;;
esac
