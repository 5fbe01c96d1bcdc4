#!/usr/bin/env bash
# A schema registry with Confluent's interface (Apicurio Registry) on 127.0.0.1.
#   registry.sh install | start | stop | status | kill | remove | url | env | token
# Parameters: REGISTRY_PORT (29070; PORT+1 is for its management), REGISTRY_NAME (registry: folder of its data), REGISTRY_VERSION, JAVA (21 or later).
#   REGISTRY_SECURED=1   a second registry, registry_secured, ten ports above: everything needs a user (basic: cdc/cdc) or a token
#                        (bearer: `token` prints one), in the clear and by https on its PORT+2
# The global level is BACKWARD, as Confluent's. Data survives kill -9.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/java.sh"
SECURED=${REGISTRY_SECURED:-}
PORT=${REGISTRY_PORT:-29070}; [ -z "$SECURED" ] || PORT=$((PORT + 10))
HOME_DIR=$SERVICES/${REGISTRY_NAME:-registry${SECURED:+_secured}}
PID=$HOME_DIR/pid LOG=$HOME_DIR/server.log DATA=$HOME_DIR/data CERTIFICATES=$HOME_DIR/certificates
VERSION=${REGISTRY_VERSION:-3.3.3}
PROGRAM=$SERVICES/registry-$VERSION
TLS_PORT=$((PORT + 2)) API=apis/ccompat/v7

# A certificate for https, and a key for the tokens.
certificates() {
  [ ! -f "$CERTIFICATES/ready" ] || return 0
  rm -rf "$CERTIFICATES"; mkdir -p "$CERTIFICATES"
  (cd "$CERTIFICATES"
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj '/CN=Test authority of the registry' -keyout ca.key -out ca.pem
    printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n' > extensions
    openssl req -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout server.key -out server.csr
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile extensions -out server.pem
    openssl genrsa -out token.key 2048
    openssl rsa -in token.key -pubout -out token.pub) > "$HOME_DIR/certificates.log" 2>&1 || { tail "$HOME_DIR/certificates.log" >&2; die "openssl made no certificates"; }
  touch "$CERTIFICATES/ready"
}

# A signed token of user cdc, good for a day.
token() {
  local now body; now=$(date +%s)
  base64url() { base64 -w 0 | tr '+/' '-_' | tr -d =; }
  body=$(printf '{"alg":"RS256","typ":"JWT"}' | base64url).$(printf '{"sub":"cdc","preferred_username":"cdc","iss":"tests","iat":%d,"exp":%d,"groups":["sr-admin"]}' "$now" $((now + 86400)) | base64url)
  echo "$body.$(printf %s "$body" | openssl dgst -sha256 -sign "$CERTIFICATES/token.key" | base64url)"
}

answers() { case $(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$PORT/$API/subjects") in 200 | 401) ;; *) return 1 ;; esac; }

case ${1:-} in
  install)
    java_install
    command -v openssl > /dev/null || apt_install openssl
    command -v curl > /dev/null || apt_install curl
    if [ ! -d "$PROGRAM" ]; then
      say "fetching Apicurio Registry $VERSION"
      rm -rf "$PROGRAM.new"; mkdir -p "$PROGRAM.new"
      maven dependency:unpack -Dartifact="io.apicurio:apicurio-registry-app:$VERSION:tar.gz:all" -DoutputDirectory="$PROGRAM.new" -Dproject.basedir="$PROGRAM.new"
      rm -rf "$PROGRAM.new/target"; mv "$PROGRAM.new" "$PROGRAM"
    fi ;;
  start)
    ! alive "$PID" || exit 0
    [ -d "$PROGRAM" ] || die "the registry is not here: run ${0##*/} install first"
    port_free "$PORT"; port_free $((PORT + 1)); [ -z "$SECURED" ] || port_free "$TLS_PORT"
    mkdir -p "$DATA" "$HOME_DIR/tmp"
    options=(-Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port="$PORT" -Dquarkus.management.host=127.0.0.1 -Dquarkus.management.port=$((PORT + 1))
      # A schema is on disk when it is answered.
      "-Dapicurio.datasource.url=jdbc:h2:file:$DATA/db;WRITE_DELAY=0;DB_CLOSE_ON_EXIT=FALSE"
      -Dapicurio.datasource.jdbc.initial-size=2 -Dapicurio.datasource.jdbc.min-size=2
      -Dapicurio.rest.deletion.group.enabled=true -Dapicurio.rest.deletion.artifact.enabled=true -Dapicurio.rest.deletion.artifact-version.enabled=true
      "-Dapicurio.import.work-dir=$HOME_DIR/tmp" "-Dapicurio.storage.snapshot.location=$HOME_DIR/tmp" "-Djava.io.tmpdir=$HOME_DIR/tmp"
      -Dquarkus.http.access-log.enabled=false)
    user=()
    if [ -n "$SECURED" ]; then
      certificates
      user=(-u cdc:cdc)
      options+=(-Dquarkus.http.auth.basic=true -Dquarkus.security.users.embedded.plain-text=true
        -Dquarkus.security.users.embedded.users.cdc=cdc -Dquarkus.security.users.embedded.roles.cdc=sr-admin
        -Dquarkus.oidc.tenant-enabled=true "-Dquarkus.oidc.public-key=$(grep -v -- ---- "$CERTIFICATES/token.pub" | tr -d '\n')" -Dquarkus.oidc.client-id=tests
        '-Dquarkus.http.auth.permission.all.paths=/apis/*' -Dquarkus.http.auth.permission.all.policy=authenticated
        "-Dquarkus.http.ssl.certificate.files=$CERTIFICATES/server.pem" "-Dquarkus.http.ssl.certificate.key-files=$CERTIFICATES/server.key" -Dquarkus.http.ssl-port="$TLS_PORT")
    fi
    java=$(java_path)
    # shellcheck disable=SC2086 # options are words
    (cd "$HOME_DIR" && exec setsid "$java" -Xmx256m "${JVM_SMALL[@]}" "${options[@]}" ${REGISTRY_JVM:-} \
      -jar "$(ls "$PROGRAM"/quarkus-run.jar "$PROGRAM"/*-runner.jar 2> /dev/null | head -n 1)") < /dev/null > "$LOG" 2>&1 &
    echo $! > "$PID"
    wait_for 90 "$PID" "$LOG" answers
    # The program's own default would let every schema in.
    [ -f "$HOME_DIR/ready" ] || curl -sSf "${user[@]}" -o /dev/null -X PUT -H 'Content-Type: application/json' -d '{"compatibility":"BACKWARD"}' "http://127.0.0.1:$PORT/$API/config"
    touch "$HOME_DIR/ready"
    say "registry $VERSION on 127.0.0.1:$PORT" ;;
  stop) stop_pid "$PID" TERM ;;
  remove) stop_pid "$PID" TERM; rm -rf "$HOME_DIR" ;;
  kill) alive "$PID" && kill -9 "$(cat "$PID")"; while alive "$PID"; do sleep 0.05; done ;;
  status) if alive "$PID"; then echo "up, pid $(cat "$PID"), port $PORT"; else echo down; exit 1; fi ;;
  url) echo "http://127.0.0.1:$PORT/$API" ;;
  env)
    if [ -z "$SECURED" ]; then
      echo "INSTAR_TEST_REGISTRY=http://127.0.0.1:$PORT/$API"
    else
      echo "INSTAR_TEST_REGISTRY_SECURED=http://127.0.0.1:$PORT/$API"
      echo "INSTAR_TEST_REGISTRY_SECURED_TLS=https://127.0.0.1:$TLS_PORT/$API"
      echo "INSTAR_TEST_REGISTRY_SECURED_CA=$CERTIFICATES/ca.pem"
      echo "INSTAR_TEST_REGISTRY_SECURED_TOKEN=$(token)"
    fi ;;
  token) token ;;
  *) echo "usage: ${0##*/} install | start | stop | status | kill | remove | url | env | token" >&2; exit 2 ;;
esac
