#!/usr/bin/env bash
# A consumer that is not ours, in Python: confluent-kafka and fastavro, read committed, schemas from the registry.
#   plain_avro.sh install
#   plain_avro.sh read TOPIC [NAME=VALUE …]      a line of JSON a record; of the broker and registry in INSTAR_TEST_KAFKA and INSTAR_TEST_REGISTRY
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../services/lib.sh"
HOME_DIR=$SERVICES/plain_avro

case ${1:-} in
  install)
    # Several tests want it at a time.
    exec 9> "$SERVICES/plain_avro.lock"; flock 9
    [ -d "$HOME_DIR" ] && exit 0
    python3 -c 'import ensurepip, venv' 2> /dev/null || apt_install python3-venv
    rm -rf "$HOME_DIR.new"
    python3 -m venv "$HOME_DIR.new"
    "$HOME_DIR.new/bin/python" -m pip install -q --disable-pip-version-check confluent-kafka fastavro > "$SERVICES/pip.log" 2>&1 ||
      { tail -n 20 "$SERVICES/pip.log" >&2; die "pip could not install confluent-kafka and fastavro"; }
    mv "$HOME_DIR.new" "$HOME_DIR" ;;
  read) shift; exec "$HOME_DIR/bin/python" "$here/plain_avro.py" "${INSTAR_TEST_KAFKA:?}" "${INSTAR_TEST_REGISTRY:?}" "$@" ;;
  *) echo "usage: ${0##*/} install | read TOPIC [NAME=VALUE …]" >&2; exit 2 ;;
esac
