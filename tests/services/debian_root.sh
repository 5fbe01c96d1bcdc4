#!/usr/bin/env bash
# debian_root.sh SUITE FOLDER PACKAGE...: unpacks packages of another Debian suite, with all they need, into FOLDER.
#
# The machine's own packages are not touched and no package's scripts run. Mirror and keyring are those of the machine's apt.
# A program in FOLDER is run by FOLDER's own loader; see `foreign` in lib.sh.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
suite=$1 folder=$2; shift 2
wanted="$suite $*"
[ "$(head -n 1 "$folder/.packages" 2> /dev/null)" != "$wanted" ] || exit 0

mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' | awk '$2 !~ /security/ { print $1; exit }')
[ -n "$mirror" ] || die "this machine's apt has no package lists: run apt-get update first"
state=$SERVICES/apt-$suite
mkdir -p "$state"/{etc/preferences.d,lists/partial,cache/archives/partial}
: > "$state/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$state/etc/sources.list"
cat > "$state/apt.conf" << CONF
Dir::Etc "$state/etc";
Dir::Etc::sourcelist "$state/etc/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State "$state";
Dir::State::status "$state/status";
Dir::Cache "$state/cache";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::Check-Valid-Until "false"; # a mirror may serve an old state of an unreleased suite
CONF
export APT_CONFIG=$state/apt.conf
say "fetching $* of $suite"
apt-get -qq update
apt-get -qq -y --download-only install "$@" > "$state/log" 2>&1 || { tail -n 20 "$state/log" >&2; die "could not fetch $*"; }

rm -rf "$folder.new"; mkdir -p "$folder.new"/usr/{bin,sbin,lib,lib64}
for d in bin sbin lib lib64; do ln -s "usr/$d" "$folder.new/$d"; done
echo "$wanted" > "$folder.new/.packages"
apt-get -qq -s install "$@" | awk '/^Inst/ { sub(/^\(/, "", $3); print $2, $3 }' | while read -r package version; do
  deb=$(ls "$state/cache/archives/${package}_${version//:/%3a}_"*.deb | head -n 1)
  dpkg -x "$deb" "$folder.new"
  echo "$package $version" >> "$folder.new/.packages"
done
rm -rf "$folder" "$state/cache"; mv "$folder.new" "$folder"
