#!/usr/bin/env bash
# A stream processor that is not ours: Apache Flink's `debezium-avro-confluent` over a topic, by SQL, in one process.
#   flink.sh install
#   flink.sh read FILE.sql       runs its statements and prints what the last one, a query, gives: +I, -U, +U or -D and the cells, apart by tabs
# Flink's own SQL client needs an artifact that package mirrors may lack, so a small program of ours calls the same interface.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../services/lib.sh"
. "$here/../services/java.sh"
FLINK_VERSION=2.2.0 CONNECTOR_VERSION=4.0.1-2.0 COMPILER_VERSION=3.43.0
HOME_DIR=$SERVICES/flink-$FLINK_VERSION

fetch() {
  local work=$HOME_DIR.new artifact
  rm -rf "$work"; mkdir -p "$work/classes"
  {
    echo '<project><modelVersion>4.0.0</modelVersion><groupId>test</groupId><artifactId>flink</artifactId><version>1</version><packaging>pom</packaging><dependencies>'
    for artifact in flink-table-api-java-bridge:$FLINK_VERSION flink-table-planner-loader:$FLINK_VERSION flink-table-runtime:$FLINK_VERSION \
      flink-clients:$FLINK_VERSION flink-connector-base:$FLINK_VERSION flink-sql-connector-kafka:$CONNECTOR_VERSION flink-sql-avro-confluent-registry:$FLINK_VERSION; do
      echo "<dependency><groupId>org.apache.flink</groupId><artifactId>${artifact%:*}</artifactId><version>${artifact#*:}</version></dependency>"
    done
    echo '<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency></dependencies></project>'
  } > "$work/pom.xml"
  say "fetching Flink $FLINK_VERSION"
  maven -f "$work/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/jars"
  # A compiler that needs no development kit.
  maven dependency:copy -Dartifact="org.eclipse.jdt:ecj:$COMPILER_VERSION" -DoutputDirectory="$work" -Dmdep.stripVersion=true
  rm -rf "$HOME_DIR"; mv "$work" "$HOME_DIR"
}

case ${1:-} in
  install)
    exec 9> "$SERVICES/flink.lock"; flock 9
    java_install
    [ -d "$HOME_DIR" ] || fetch
    if [ ! "$HOME_DIR/classes/Flink.class" -nt "$here/Flink.java" ]; then
      java=$(java_path)
      "$java" -jar "$HOME_DIR/ecj.jar" -"$JAVA_NEEDED" -nowarn -d "$HOME_DIR/classes" -cp "$(printf '%s:' "$HOME_DIR"/jars/*.jar)" "$here/Flink.java" >&2
    fi ;;
  read)
    file=${2:?a file of SQL}
    java=$(java_path)
    # What Flink says as it ends is not of interest unless it fails.
    LC_ALL=C.UTF-8 "$java" -Dfile.encoding=UTF-8 -Xmx512m "${JVM_SMALL[@]}" --add-opens=java.base/java.lang=ALL-UNNAMED --add-opens=java.base/java.util=ALL-UNNAMED \
      -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$HOME_DIR/classes:$HOME_DIR/jars/*" Flink "$file" 2> "$HOME_DIR/log" || { cat "$HOME_DIR/log" >&2; exit 1; } ;;
  *) echo "usage: ${0##*/} install | read FILE.sql" >&2; exit 2 ;;
esac
