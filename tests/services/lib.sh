# Shared by the service scripts: source it.
#
# Everything a service keeps lies under $SERVICES (default: a folder of the temporary directory). All listen on 127.0.0.1 only.
SERVICES=${SERVICES:-${TMPDIR:-/tmp}/instar-services}
mkdir -p "$SERVICES"

say() { echo "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }

# as_root COMMAND...: run as root, directly or through sudo.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo > /dev/null; then sudo "$@"; else die "needs root for: $*"; fi; }

# apt_install PACKAGE...: what is missing of these Debian packages.
apt_install() {
  local missing=() package
  for package in "$@"; do dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'install ok installed' || missing+=("$package"); done
  [ ${#missing[@]} = 0 ] && return
  command -v apt-get > /dev/null || die "this script installs Debian packages (${missing[*]}) and finds no apt-get"
  say "installing ${missing[*]}"
  as_root apt-get update -qq
  DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "${missing[@]}" > "$SERVICES/apt.log" 2>&1 ||
    { tail -n 20 "$SERVICES/apt.log" >&2; die "apt-get could not install ${missing[*]}"; }
}

# A process is gone when its last thread is.
running() {
  local state; state=$(awk '/^State/ { print $2 }' "/proc/$1/status" 2> /dev/null)
  [ -n "$state" ] && { [ "$state" != Z ] || [ "$(ls "/proc/$1/task" 2> /dev/null | wc -l)" -gt 1 ]; }
}
alive() { [ -s "$1" ] && running "$(cat "$1")"; }

# stop_pid FILE SIGNAL: ask, wait 20 s, then kill.
stop_pid() {
  alive "$1" || { rm -f "$1"; return 0; }
  local pid; pid=$(cat "$1")
  kill "-$2" "$pid" 2> /dev/null || true
  for _ in $(seq 200); do running "$pid" || { rm -f "$1"; return 0; }; sleep 0.1; done
  kill -9 "$pid" 2> /dev/null || true
  rm -f "$1"
}

# port_free PORT: refuse to start where something else listens.
port_free() { ! (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null || die "port $1 is taken by another process"; }

# wait_for SECONDS PIDFILE LOG COMMAND...: until the command succeeds, or the process is gone.
wait_for() {
  local seconds=$1 pidfile=$2 log=$3; shift 3
  for _ in $(seq $((seconds * 10))); do
    "$@" > /dev/null 2>&1 && return 0
    alive "$pidfile" || { tail -n 20 "$log" >&2; die "the server ended while it started; its log is $log"; }
    sleep 0.1
  done
  tail -n 20 "$log" >&2
  die "the server does not answer after $seconds s; its log is $log"
}

# foreign FOLDER PROGRAM: the words that run a program of an unpacked root (debian_root.sh) under that root's own loader.
# --argv0 keeps a server from finding itself elsewhere.
foreign() { echo "$1/usr/lib64/ld-linux-x86-64.so.2 --argv0 $1$2 --library-path $1/usr/lib/x86_64-linux-gnu:$1/usr/lib $1$2"; }
