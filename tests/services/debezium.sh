#!/usr/bin/env bash
# Debezium's MySQL connector in a standalone worker of Kafka Connect: the peer of the benches.
#   debezium.sh install | start | stop | remove | status | kill | pid
# It captures one table of MySQL (mysql.sh) into the topic PREFIX.DATABASE.TABLE of Kafka (kafka.sh) in Avro, with registry.sh's schemas.
# Parameters: DEBEZIUM_NAME (debezium: folder of its offsets, and the prefix of its topics), DEBEZIUM_TABLE (bench.t),
#   DEBEZIUM_TUNED=1 (larger batches and queue, shorter polls; else the settings that it comes with), DEBEZIUM_CONVERTER (avro | json),
#   DEBEZIUM_HEAP (2g, as Kafka's own script), and those of the three servers. Where it has no offset yet it begins at the log's end.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/java.sh"
DEBEZIUM_VERSION=3.6.1.Final CONNECT_VERSION=4.3.0 CONVERTER_VERSION=2.6.13.Final
SERVERS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
NAME=${DEBEZIUM_NAME:-debezium} TABLE=${DEBEZIUM_TABLE:-bench.t}
HOME_DIR=$SERVICES/$NAME
PID=$HOME_DIR/pid LOG=$HOME_DIR/server.log
PROGRAM=$SERVICES/debezium-$DEBEZIUM_VERSION

# fetch FOLDER GROUP ARTIFACT VERSION …: artifacts with all that they need.
fetch() {
  local folder=$1; shift
  mkdir -p "$folder"
  {
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>debezium</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
    while [ $# -gt 0 ]; do echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"; shift 3; done
    echo '</dependencies></project>'
  } > "$folder/pom.xml"
  maven -f "$folder/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder"
}

worker() {
  cat << PROPERTIES
bootstrap.servers=$("$SERVERS/kafka.sh" url)
plugin.path=$PROGRAM/plugins
plugin.discovery=service_load
offset.storage.file.filename=$HOME_DIR/offsets
listeners=http://127.0.0.1:0
connector.client.config.override.policy=All
PROPERTIES
  if [ "${DEBEZIUM_CONVERTER:-avro}" = avro ]; then
    local side registry; registry=$("$SERVERS/registry.sh" url)
    for side in key value; do
      cat << PROPERTIES
$side.converter=io.apicurio.registry.utils.converter.AvroConverter
$side.converter.apicurio.registry.url=${registry%/ccompat/*}/registry/v2
$side.converter.apicurio.registry.auto-register=true
$side.converter.apicurio.registry.as-confluent=true
$side.converter.apicurio.registry.headers.enabled=false
PROPERTIES
    done
  else
    printf '%s\n' key.converter=org.apache.kafka.connect.json.JsonConverter value.converter=org.apache.kafka.connect.json.JsonConverter \
      key.converter.schemas.enable=false value.converter.schemas.enable=false
  fi
}

connector() {
  local url; url=$("$SERVERS/mysql.sh" url)
  cat << PROPERTIES
name=$NAME
connector.class=io.debezium.connector.mysql.MySqlConnector
tasks.max=1
topic.prefix=$NAME
database.hostname=127.0.0.1
database.port=${url##*:}
database.user=cdc
database.password=cdc
database.server.id=9301
database.allowPublicKeyRetrieval=true
database.include.list=${TABLE%.*}
table.include.list=$TABLE
snapshot.mode=no_data
snapshot.locking.mode=none
include.schema.changes=false
schema.history.internal.kafka.bootstrap.servers=$("$SERVERS/kafka.sh" url)
schema.history.internal.kafka.topic=$NAME.history
producer.override.compression.type=lz4
topic.creation.enable=true
topic.creation.default.partitions=4
topic.creation.default.replication.factor=1
PROPERTIES
  [ -z "${DEBEZIUM_TUNED:-}" ] || cat << PROPERTIES
max.batch.size=16384
max.queue.size=65536
poll.interval.ms=5
producer.override.linger.ms=5
producer.override.batch.size=262144
producer.override.buffer.memory=67108864
PROPERTIES
}

started() { grep -q 'Keepalive thread is running\|Connected to binlog\|Streaming started' "$LOG"; }

case ${1:-} in
  install)
    java_install
    command -v python3 > /dev/null || apt_install python3-minimal
    if [ ! -d "$PROGRAM" ]; then
      say "fetching Debezium $DEBEZIUM_VERSION and Kafka Connect $CONNECT_VERSION"
      rm -rf "$PROGRAM.new"
      fetch "$PROGRAM.new/connect" org.apache.kafka connect-runtime $CONNECT_VERSION org.apache.kafka connect-json $CONNECT_VERSION org.slf4j slf4j-simple 1.7.36
      fetch "$PROGRAM.new/plugins/debezium" io.debezium debezium-connector-mysql $DEBEZIUM_VERSION
      fetch "$PROGRAM.new/plugins/avro" io.apicurio apicurio-registry-utils-converter $CONVERTER_VERSION
      # The converter does not name itself, and the search for what does not takes 25 s of processor time and 1.5 GB at each start.
      (cd "$PROGRAM.new/plugins/avro" && mkdir -p META-INF/services &&
        echo io.apicurio.registry.utils.converter.AvroConverter > META-INF/services/org.apache.kafka.connect.storage.Converter &&
        python3 -m zipfile -c names.jar META-INF && rm -r META-INF)
      mv "$PROGRAM.new" "$PROGRAM"
    fi ;;
  start)
    ! alive "$PID" || exit 0
    [ -d "$PROGRAM" ] || die "Debezium is not here: run ${0##*/} install first"
    mkdir -p "$HOME_DIR"
    worker > "$HOME_DIR/worker.properties"
    connector > "$HOME_DIR/connector.properties"
    java=$(java_path)
    # The options of Kafka's own start script.
    setsid "$java" -Xms256m "-Xmx${DEBEZIUM_HEAP:-2g}" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 -XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true \
      -Dorg.slf4j.simpleLogger.showDateTime=true '-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS' -cp "$PROGRAM/connect/*" \
      org.apache.kafka.connect.cli.ConnectStandalone "$HOME_DIR/worker.properties" "$HOME_DIR/connector.properties" < /dev/null > "$LOG" 2>&1 &
    echo $! > "$PID"
    wait_for 90 "$PID" "$LOG" started
    say "Debezium $DEBEZIUM_VERSION streams $TABLE" ;;
  stop) stop_pid "$PID" TERM ;;
  remove) stop_pid "$PID" TERM; rm -rf "$HOME_DIR" ;;
  kill) alive "$PID" && kill -9 "$(cat "$PID")"; while alive "$PID"; do sleep 0.05; done ;;
  status) if alive "$PID"; then echo "up, pid $(cat "$PID")"; else echo down; exit 1; fi ;;
  pid) cat "$PID" ;;
  *) echo "usage: ${0##*/} install | start | stop | remove | status | kill | pid" >&2; exit 2 ;;
esac
