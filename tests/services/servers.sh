# Starts servers and tells the tests where they are: source it, then `servers mariadb postgres kafka registry registry_secured …`.
#
# A server with one address gives INSTAR_TEST_<NAME>; one with more (listeners, certificates) says by `env` what it gives.
server_script() {
  script=("$(dirname "${BASH_SOURCE[0]}")/$1.sh")
  case $1 in
    registry_secured) script=(env REGISTRY_SECURED=1 "$(dirname "${BASH_SOURCE[0]}")/registry.sh") ;;
    # MariaDB 11.8, the one of the next Debian release, in a zone whose offset changes.
    mariadb_11)
      script=(env MARIADB_SUITE=trixie MARIADB_NAME=mariadb_11 "MARIADB_PORT=${MARIADB_11_PORT:-23308}" TZ=CET-1CEST,M3.5.0,M10.5.0/3
        "$(dirname "${BASH_SOURCE[0]}")/mariadb.sh") ;;
  esac
}
servers() {
  local name script variables variable
  for name in "$@"; do
    server_script "$name"
    "${script[@]}" install
    "${script[@]}" start
    case $name in
      kafka | registry | registry_secured) variables=$("${script[@]}" env) ;;
      *) variables=INSTAR_TEST_${name^^}=$("${script[@]}" url) ;;
    esac
    while read -r variable; do export "${variable?}"; done <<< "$variables"
  done
}
stop_servers() {
  local name script
  for name in "$@"; do
    server_script "$name"
    "${script[@]}" stop
  done
}
