# Java and Maven for the services that are written in Java: source it after lib.sh.

# java_at_least VERSION: the first Java of this machine that is new enough; fails where there is none.
java_at_least() {
  local java version
  for java in ${JAVA:-} java /usr/lib/jvm/*/bin/java; do
    version=$("$java" -XshowSettings:properties -version 2>&1 | awk '/java.specification.version/ { print int($3) }') || continue
    [ "${version:-0}" -lt "$1" ] || { command -v "$java"; return 0; }
  done
  return 1
}

java_install() { java_at_least 17 > /dev/null || apt_install openjdk-17-jre-headless; command -v mvn > /dev/null || apt_install maven; }

# maven ARGUMENTS: quiet, and told on one line of the log what failed.
maven() { mvn -q -B "$@" > "$SERVICES/maven.log" 2>&1 || { tail -n 20 "$SERVICES/maven.log" >&2; die "Maven could not fetch what is needed"; }; }

# Small and quick to start rather than fast in the long run. The least that a service gives back is memory that tests need.
JVM_SMALL=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xss512k)
