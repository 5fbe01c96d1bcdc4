# Starts servers and tells the tests where they are: source it, then `servers mariadb postgres …`.
servers() {
  local folder name; folder=$(dirname "${BASH_SOURCE[0]}")
  for name in "$@"; do
    "$folder/$name.sh" install
    "$folder/$name.sh" start
    export "INSTAR_TEST_${name^^}=$("$folder/$name.sh" url)"
  done
}
