#!/usr/bin/env bash
# Apache Kafka, broker and controller in one process, on 127.0.0.1.
#   kafka.sh install | start | stop | status | kill | remove | url | env
#   kafka.sh tool topics|configs|groups|consumer|producer|offsets|acls|transactions|delete-records|dump-log ARGUMENTS
# Parameters: KAFKA_PORT (29092), KAFKA_NAME (kafka: folder of its data), KAFKA_PROPERTIES ("name=value …": more server properties),
#   KAFKA_HEAP (320m), KAFKA_VERSION (4.4.0), JAVA (21 or later).
# Listeners, all of one broker; `env` prints them with the folder of certificates:
#   PORT    plain                 PORT+1  controller
#   PORT+2  SASL                  PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; OAUTHBEARER with unsigned tokens
#   PORT+3  TLS                   its own authority
#   PORT+4  SASL over TLS
#   PORT+5  TLS with client certificate (CN=cdc)
# The listeners' token for OAUTHBEARER is any that is not signed; `env` gives one of cdc.
# Users: admin/admin and cdc/cdc may do everything, like a client without a name; guest/guest nothing until `tool acls` says so.
# Topics are not made by being used. Data survives kill -9.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/java.sh"
SELF=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/${0##*/}
VERSION=${KAFKA_VERSION:-4.4.0}
PORT=${KAFKA_PORT:-29092}
HOME_DIR=$SERVICES/${KAFKA_NAME:-kafka}
PID=$HOME_DIR/pid LOG=$HOME_DIR/server.log DATA=$HOME_DIR/data CERTIFICATES=$HOME_DIR/certificates
LIBRARIES=$SERVICES/kafka-$VERSION ARCHIVE=$SERVICES/kafka-$VERSION/classes.jsa
LISTENERS=(PLAIN SASL TLS SASLTLS MTLS)
port_of() {
  case $1 in
    PLAIN) echo "$PORT" ;; CONTROLLER) echo $((PORT + 1)) ;; SASL) echo $((PORT + 2)) ;;
    TLS) echo $((PORT + 3)) ;; SASLTLS) echo $((PORT + 4)) ;; MTLS) echo $((PORT + 5)) ;;
  esac
}

# A run of Kafka's classes. The class archive, where there is one, saves two thirds of the processor time of a start.
kafka_java() {
  local java archive=(); java=$(java_path)
  [ ! -f "$ARCHIVE" ] || archive=(-XX:SharedArchiveFile="$ARCHIVE" -Xlog:cds=off -Xlog:cds+dynamic=off)
  exec "$java" "${JVM_SMALL[@]}" "${archive[@]}" -Djava.awt.headless=true -Dorg.slf4j.simpleLogger.showDateTime=true \
    '-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS' -cp "$LIBRARIES/jars/*" "$@"
}

# An authority, a certificate of the server and one of a client, as PEM files. *.pem of the server holds its key as well, as Kafka reads it.
certificates() {
  [ ! -f "$CERTIFICATES/ready" ] || return 0
  rm -rf "$CERTIFICATES"; mkdir -p "$CERTIFICATES"
  (cd "$CERTIFICATES"
    key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    openssl req -x509 "${key[@]}" -days 3650 -subj '/CN=Test authority' -keyout ca.key -out ca.pem
    printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n' > extensions
    for name in server client; do
      subject=/CN=127.0.0.1; [ $name = server ] || subject=/CN=cdc
      openssl req "${key[@]}" -subj $subject -keyout $name.key -out $name.csr
      openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile extensions -out $name.pem
    done
    cat server.key server.pem > server-both.pem) > "$HOME_DIR/certificates.log" 2>&1 || { tail "$HOME_DIR/certificates.log" >&2; die "openssl made no certificates"; }
  touch "$CERTIFICATES/ready"
}

properties() {
  local addresses='' name jaas=org.apache.kafka.common.security
  for name in "${LISTENERS[@]}"; do addresses+="${addresses:+,}$name://127.0.0.1:$(port_of "$name")"; done
  cat << PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$(port_of CONTROLLER)
controller.listener.names=CONTROLLER
listeners=$addresses,CONTROLLER://127.0.0.1:$(port_of CONTROLLER)
advertised.listeners=$addresses
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,SASLTLS:SASL_SSL,MTLS:SSL
inter.broker.listener.name=PLAIN
log.dirs=$DATA
auto.create.topics.enable=false

# who may what
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin;User:cdc
ssl.keystore.type=PEM
ssl.keystore.location=$CERTIFICATES/server-both.pem
ssl.truststore.type=PEM
ssl.truststore.location=$CERTIFICATES/ca.pem
ssl.principal.mapping.rules=RULE:^CN=(.*)\$/\$1/,DEFAULT
listener.name.mtls.ssl.client.auth=required

# one node
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1

# small
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=1
num.network.threads=1
listener.name.plain.num.network.threads=2
num.io.threads=4
background.threads=2
log.cleaner.dedupe.buffer.size=8388608
log.cleaner.io.buffer.size=262144

# A test must not wait for what usually takes tens of seconds.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.initial.task.delay.ms=500
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=500
log.segment.delete.delay.ms=1000
PROPERTIES
  for name in sasl sasltls; do
    cat << PROPERTIES
listener.name.$name.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.$name.plain.sasl.jaas.config=$jaas.plain.PlainLoginModule required user_admin="admin" user_cdc="cdc" user_guest="guest";
listener.name.$name.scram-sha-256.sasl.jaas.config=$jaas.scram.ScramLoginModule required;
listener.name.$name.scram-sha-512.sasl.jaas.config=$jaas.scram.ScramLoginModule required;
listener.name.$name.oauthbearer.sasl.jaas.config=$jaas.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";
PROPERTIES
  done
  for name in ${KAFKA_PROPERTIES:-}; do echo "$name"; done
}

# A token without a signature, good for a day.
token() {
  local now; now=$(date +%s)
  base64url() { base64 -w 0 | tr '+/' '-_' | tr -d =; }
  echo "$(printf '{"alg":"none"}' | base64url).$(printf '{"sub":"cdc","iat":%d,"exp":%d}' "$now" $((now + 86400)) | base64url)."
}

# Every folder of data has an identity of its own, and its SCRAM users are written with it.
format() {
  local users=() name bits id
  for name in admin cdc guest; do for bits in 256 512; do users+=(--add-scram "SCRAM-SHA-$bits=[name=$name,password=$name]"); done; done
  id=$({ printf K; head -c 15 /dev/urandom; } | base64 | tr '+/' '-_' | tr -d =)
  rm -rf "$DATA"
  (kafka_java -Xmx128m kafka.tools.StorageTool format -t "$id" -c "$HOME_DIR/server.properties" "${users[@]}") > "$HOME_DIR/format.log" 2>&1 ||
    { tail -n 20 "$HOME_DIR/format.log" >&2; die "could not make the data folder"; }
  touch "$HOME_DIR/ready"
}

fetch() {
  local excluded='' artifact work=$LIBRARIES.new
  rm -rf "$work"; mkdir -p "$work"
  # The tools know Kafka Connect; nothing here runs it.
  for artifact in connect-api connect-json connect-runtime connect-transforms; do
    excluded+="<exclusion><groupId>org.apache.kafka</groupId><artifactId>$artifact</artifactId></exclusion>"
  done
  cat > "$work/pom.xml" << POM
<project>
<modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$VERSION</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$VERSION</version><exclusions>$excluded</exclusions></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies>
</project>
POM
  say "fetching Kafka $VERSION"
  maven -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/jars"
  rm -rf "$LIBRARIES"; mv "$work" "$LIBRARIES"
}

# A short life of a broker, on ports of its own, writes the archive of the classes that it loaded.
train() (
  export KAFKA_PORT=$((20000 + RANDOM % 2500)) KAFKA_NAME=kafka-training KAFKA_PROPERTIES=''
  trap '"$SELF" remove' EXIT
  KAFKA_JVM=-XX:ArchiveClassesAtExit=$ARCHIVE "$SELF" start && "$SELF" tool topics --create --topic t && echo x | "$SELF" tool producer --topic t &&
    "$SELF" tool consumer --topic t --from-beginning --max-messages 1 --timeout-ms 10000
)

started() { grep -q 'Kafka Server started' "$LOG" && (exec 3<> "/dev/tcp/127.0.0.1/$PORT"); }

case ${1:-} in
  install)
    java_install
    command -v openssl > /dev/null || apt_install openssl
    [ -d "$LIBRARIES" ] || fetch
    [ -f "$LIBRARIES/training.log" ] || train > "$LIBRARIES/training.log" 2>&1 || say "starts will be slower: $LIBRARIES/training.log says why" ;;
  start)
    ! alive "$PID" || exit 0
    [ -d "$LIBRARIES" ] || die "Kafka is not here: run ${0##*/} install first"
    for name in "${LISTENERS[@]}" CONTROLLER; do port_free "$(port_of "$name")"; done
    mkdir -p "$HOME_DIR/tmp"
    certificates
    properties > "$HOME_DIR/server.properties"
    [ -f "$HOME_DIR/ready" ] || format
    : > "$LOG"
    # shellcheck disable=SC2086 # options are words
    setsid "$SELF" run ${KAFKA_JVM:-} < /dev/null >> "$LOG" 2>&1 &
    echo $! > "$PID"
    wait_for 90 "$PID" "$LOG" started
    say "Kafka $VERSION on 127.0.0.1:$PORT" ;;
  run) # what `start` puts in the background
    shift
    heap=${KAFKA_HEAP:-320m}
    kafka_java -Xms128m "-Xmx$heap" -XX:MaxDirectMemorySize=128m "-Djava.io.tmpdir=$HOME_DIR/tmp" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
      -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info "$@" kafka.Kafka "$HOME_DIR/server.properties" ;;
  stop) stop_pid "$PID" TERM ;;
  remove) stop_pid "$PID" TERM; rm -rf "$HOME_DIR" ;;
  kill) alive "$PID" && kill -9 "$(cat "$PID")"; while alive "$PID"; do sleep 0.05; done ;;
  status) if alive "$PID"; then echo "up, pid $(cat "$PID"), port $PORT"; else echo down; exit 1; fi ;;
  url) echo "127.0.0.1:$PORT" ;;
  env)
    echo "INSTAR_TEST_KAFKA=127.0.0.1:$(port_of PLAIN)"
    echo "INSTAR_TEST_KAFKA_SASL=127.0.0.1:$(port_of SASL)"
    echo "INSTAR_TEST_KAFKA_TLS=127.0.0.1:$(port_of TLS)"
    echo "INSTAR_TEST_KAFKA_SASL_TLS=127.0.0.1:$(port_of SASLTLS)"
    echo "INSTAR_TEST_KAFKA_MTLS=127.0.0.1:$(port_of MTLS)"
    echo "INSTAR_TEST_KAFKA_CERTIFICATES=$CERTIFICATES"
    echo "INSTAR_TEST_KAFKA_TOKEN=$(token)" ;;
  tool)
    shift
    tool=${1:-}; shift || true
    at=(--bootstrap-server "127.0.0.1:$PORT")
    case $tool in
      topics) class=TopicCommand ;;
      configs) class=ConfigCommand ;;
      groups) class=consumer.group.ConsumerGroupCommand ;;
      consumer) class=consumer.ConsoleConsumer ;;
      producer) class=ConsoleProducer ;;
      offsets) class=GetOffsetShell ;;
      acls) class=AclCommand ;;
      transactions) class=TransactionsCommand ;;
      delete-records) class=DeleteRecordsCommand ;;
      dump-log) class=DumpLogSegments at=() ;;
      *) echo "${0##*/} tool: topics | configs | groups | consumer | producer | offsets | acls | transactions | delete-records | dump-log" >&2; exit 2 ;;
    esac
    kafka_java -Xmx256m -Dorg.slf4j.simpleLogger.defaultLogLevel=error "org.apache.kafka.tools.$class" "${at[@]}" "$@" ;;
  *) echo "usage: ${0##*/} install | start | stop | status | kill | remove | url | env | tool NAME ARGUMENTS" >&2; exit 2 ;;
esac
