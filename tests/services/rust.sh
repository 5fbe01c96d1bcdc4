# What a build needs: source this. Rust itself is not installed by these scripts, it comes from rustup or the distribution.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if ! command -v cargo > /dev/null; then
  [ ! -f "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
  command -v cargo > /dev/null || { echo "Rust 1.95 or later is needed: install it with rustup, then run this again" >&2; exit 1; }
fi
# A C compiler for ring and librdkafka, which speaks TLS by OpenSSL.
apt_install build-essential ca-certificates libssl-dev pkg-config zlib1g-dev
